"""Which list a part is run through."""

from __future__ import annotations

from functools import partial
from inspect import isfunction
from typing import Any

from gdcb.arms import Arms
from gdcb.bandits import Bandit
from gdcb.checks import arms, bandits, compositions, domains, gates, rewards, scalers
from gdcb.checks.base import Check, NonConforming, Report, listed, raised, require, run_all
from gdcb.checks.ground import ground_for
from gdcb.composition import Composition
from gdcb.errors import InvalidInput
from gdcb.gates import Gate
from gdcb.instance import Instance
from gdcb.instances.catalogue import Domain
from gdcb.rewards import Reward
from gdcb.scalers import Scaler

# The methods by which a kind is known, the most telling first.
_TELLING = {
    "bandit": ("draw", "value", "update"),
    "scaler": ("predict", "observe", "publish"),
    "composition": ("compose", "locate"),
    "gate": ("apply", "expect", "moved"),
    "kernel": ("init", "expect", "learn"),
    "reward": ("reward", "worth"),
    "arms": ("build",),
}
# All that a kind must have.
_METHODS: dict[str, tuple[str, ...]] = {
    **{
        kind: tuple(
            name
            for name, value in vars(protocol).items()
            if isfunction(value) and not name.startswith("_")
        )
        for kind, protocol in (
            ("bandit", Bandit),
            ("scaler", Scaler),
            ("composition", Composition),
            ("gate", Gate),
            ("reward", Reward),
        )
    },
    "kernel": ("check", "init", "expect", "learn"),
    "arms": ("build",),
}


def kind_of(part: Any) -> str:
    """Return what kind of part something is, by the methods it has.

    Something that lacks a telling method is of the kind it has most methods of, half of them at
    least.
    """
    if isinstance(part, type):
        raise InvalidInput(f"checks: expected a part, got the class {part.__name__}: build one")
    if isinstance(part, Domain):
        return "domain"
    if isinstance(part, Arms):
        return "arms"
    for kind, methods in _TELLING.items():
        if all(_has(part, name) for name in methods):
            return kind
    shares = {
        kind: sum(_has(part, name) for name in methods) / len(methods)
        for kind, methods in _METHODS.items()
    }
    nearest = max(shares, key=lambda kind: shares[kind])
    if shares[nearest] >= 0.5:
        return nearest
    raise InvalidInput(
        f"checks: {type(part).__name__} is none of the parts that are known here: "
        f"{', '.join(_TELLING)}, domain"
    )


def _has(part: Any, method: str) -> bool:
    try:
        return callable(getattr(part, method, None))
    except Exception:  # a property that raises is no method
        return False


def of(part: Any, instance: Instance | None = None) -> list[Check]:
    """Return the checks of a part, to be run one by one.

    Parameters
    ----------
    part : a bandit, scaler, composition, gate, kernel, reward, arm space or `Domain`
    instance : where given, the part is tried with its arms and contexts; else with five arms
        and the context columns that the part names, as numbers
    """
    kind = kind_of(part)
    lacks = [] if kind == "domain" else [one for one in _METHODS[kind] if not _has(part, one)]
    if lacks and not isinstance(part, Arms):
        named = ", ".join(f"'{name}'" for name in lacks)
        text = f"it is nearest to a part of the kind '{kind}', and lacks {named}"
        return [_broken("has its methods", "Every method of its kind is there.", text)]
    try:
        return _of_kind(kind, part, instance)
    except InvalidInput:
        raise
    except Exception as error:  # a part's own fault must not end the list
        text = raised(error, type(part).__module__)
        return [_broken("can be tried", "It can be asked what it is, and tried.", text)]


def _broken(name: str, sentence: str, text: str) -> Check:
    """Return a check that is known to fail."""
    return Check(name, sentence, partial(require, False, text))


def _of_kind(kind: str, part: Any, instance: Instance | None) -> list[Check]:
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
        return listed(gates.KERNELS, gates.case_of_kernel(part, ground, columns))
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
    return run_all(part, kind_of(part), of(part, instance))


def check(part: Any, instance: Instance | None = None) -> Report:
    """Run all checks of a part; raise `NonConforming` with every broken promise."""
    found = report(part, instance)
    if not found.is_conforming:
        raise NonConforming(str(found))
    return found
