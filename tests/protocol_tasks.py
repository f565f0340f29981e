"""Tiny tasks of the protocol, and settings of its methods from a small sample of worlds."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from gdcb.instances import study
from gdcb.protocol import fitting
from gdcb.protocol.task import Task

REPLICATES, EPISODES, UNITS = 4, 6, 8
FEW = (("nights", 40),)
KNOBS = {"scale": 1.0, "signal": 1.0, "width": 0.5}


@cache
def fitted_priors(variant: str) -> dict[str, Any]:
    """Return the prior of every family and form, from few contexts."""
    return fitting.fitted_priors(study("str", variant, {}, EPISODES), contexts=60)


def settings_of(name: str, variant: str, file: str = "") -> dict[str, dict[str, Any]]:
    """Return settings of every family in the place of the recorded ones."""
    fitted = fitted_priors(variant)
    first = {family: next(k for k in fitted if k.split()[0] == family) for family in fitting.JUDGED}
    return {family: fitted[key] | KNOBS for family, key in first.items()}


def task_of(key: str, variant: str = "well", **changes: Any) -> Task:
    """Return a tiny task."""
    plain = Task("str", variant, (), 3, EPISODES, 0, REPLICATES, key)
    return replace(plain, **changes)
