"""Which list a part is run through."""

from __future__ import annotations

from typing import Any

from gdcb.checks import bandits
from gdcb.checks.base import Check, NonConforming, Report, listed, run_all
from gdcb.checks.ground import ground_for
from gdcb.errors import InvalidInput
from gdcb.instance import Instance

# The methods by which a kind is known, the most telling first.
_KINDS = {"bandit": ("draw", "value", "update")}


def kind_of(part: Any) -> str:
    """Return what kind of part something is, by the methods it has."""
    for kind, methods in _KINDS.items():
        if all(callable(getattr(part, name, None)) for name in methods):
            return kind
    raise InvalidInput(
        f"checks: {type(part).__name__} is none of the parts that are known here: "
        f"{', '.join(_KINDS)}"
    )


def of(part: Any, instance: Instance | None = None) -> list[Check]:
    """Return the checks of a part, to be run one by one.

    Parameters
    ----------
    part : a bandit, scaler, composition, gate, kernel, reward, arm space or `Domain`
    instance : where given, the part is tried with its arms and contexts; else with five arms
        and the context columns that the part names, as numbers
    """
    part, ground = ground_for(part, instance)
    return listed(bandits.functions_for(part), bandits.case_of(part, ground))


def report(part: Any, instance: Instance | None = None) -> Report:
    """Run all checks of a part and say what became of each."""
    return run_all(type(part).__name__, kind_of(part), of(part, instance))


def check(part: Any, instance: Instance | None = None) -> Report:
    """Run all checks of a part; raise `NonConforming` with every broken promise."""
    found = report(part, instance)
    if not found.is_conforming:
        raise NonConforming(str(found))
    return found
