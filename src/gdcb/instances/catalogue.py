"""The seven domains by name."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import cast

from gdcb.bandits import Bandit
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.simulate import World

# Name, and the module whose `build()` makes it.
NAMES = {
    "str": "str_pricing",
    "dosing": "dosing",
    "credit": "credit",
    "grid": "grid",
    "moderation": "moderation",
    "tools": "tools",
    "kalman": "kalman",
}


@dataclass(frozen=True)
class Domain:
    """A domain that can be simulated.

    Parameters
    ----------
    instance : what it is
    bandit : the learner it recommends
    world : its simulator
    units : units a replicate
    unit : what a unit is called (listing, ward, tenant)
    is_endogenous : whether what runs changes later contexts, so that the gate floor hangs on
        the trajectory and only totals are comparable
    about : what is real in it and what is made, for people
    """

    instance: Instance
    bandit: Bandit
    world: World
    units: int
    unit: str
    is_endogenous: bool
    about: str


def load(name: str) -> Domain:
    """Return a domain by name."""
    if name not in NAMES:
        raise InvalidInput(f"no instance '{name}'; there are {', '.join(NAMES)}")
    module = import_module(f"gdcb.instances.stylised.{NAMES[name]}")
    return cast(Domain, module.build())
