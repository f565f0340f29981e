"""Which list a part is run through."""

from __future__ import annotations

from typing import Any

from gdcb.arms import Arms
from gdcb.checks import arms, bandits, compositions, domains, gates, rewards, scalers
from gdcb.checks.base import Check, NonConforming, Report, listed, run_all
from gdcb.checks.ground import ground_for
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.instances.catalogue import Domain

# The methods by which a kind is known, the most telling first.
_KINDS = {
    "bandit": ("draw", "value", "update"),
    "scaler": ("predict", "observe", "publish"),
    "composition": ("compose", "locate"),
    "gate": ("apply", "expect", "moved"),
    "kernel": ("init", "expect", "learn"),
    "reward": ("reward", "worth"),
    "arms": ("build",),
}


def kind_of(part: Any) -> str:
    """Return what kind of part something is, by the methods it has."""
    if isinstance(part, type):
        raise InvalidInput(f"checks: expected a part, got the class {part.__name__}: build one")
    if isinstance(part, Domain):
        return "domain"
    if isinstance(part, Arms):
        return "arms"
    for kind, methods in _KINDS.items():
        if all(callable(getattr(part, name, None)) for name in methods):
            return kind
    raise InvalidInput(
        f"checks: {type(part).__name__} is none of the parts that are known here: "
        f"{', '.join(_KINDS)}, domain"
    )


def of(part: Any, instance: Instance | None = None) -> list[Check]:
    """Return the checks of a part, to be run one by one.

    Parameters
    ----------
    part : a bandit, scaler, composition, gate, kernel, reward, arm space or `Domain`
    instance : where given, the part is tried with its arms and contexts; else with five arms
        and the context columns that the part names, as numbers
    """
    kind = kind_of(part)
    if kind == "domain":
        return _of_domain(part)
    if kind == "arms":
        return listed(arms.CHECKS, arms.ArmsCase(part))
    part, ground = ground_for(part, instance)
    columns = () if instance is None else instance.actions
    if kind == "bandit":
        return listed(bandits.functions_for(part), bandits.case_of(part, ground))
    if kind == "scaler":
        return listed(scalers.functions_for(part), scalers.case_of(part, ground))
    if kind == "composition":
        return listed(compositions.CHECKS, compositions.case_of(part, ground))
    if kind == "reward":
        return listed(rewards.CHECKS, rewards.case_of(part, ground))
    if kind == "kernel":
        return listed(gates.LEARNED, gates.case_of_kernel(part, ground, columns))
    case = gates.case_of(part, ground, columns)
    return listed(gates.functions_for(case), case)


def _of_domain(domain: Domain) -> list[Check]:
    """Return the checks of a domain's world, and of every part of its instance on its ground."""
    instance = domain.instance
    parts = [
        ("bandit", domain.bandit),
        ("scaler", instance.scaler),
        ("composition", instance.composition),
        ("reward", instance.reward),
        ("arms", instance.arms),
        *((f"gate '{gate.name}'", gate) for gate in instance.chain.gates),
    ]
    found = listed(domains.CHECKS, domains.case_of(domain))
    for name, part in parts:
        some = of(part, instance)
        found += [Check(f"{name}: {one.name}", one.sentence, one.run) for one in some]
    return found


def report(part: Any, instance: Instance | None = None) -> Report:
    """Run all checks of a part and say what became of each."""
    return run_all(type(part).__name__, kind_of(part), of(part, instance))


def check(part: Any, instance: Instance | None = None) -> Report:
    """Run all checks of a part; raise `NonConforming` with every broken promise."""
    found = report(part, instance)
    if not found.is_conforming:
        raise NonConforming(str(found))
    return found
