"""Tiny tasks of the protocol, and settings of its methods from a small sample of worlds."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from gdcb.protocol import priors, tuning
from gdcb.protocol.task import Task

REPLICATES, EPISODES, UNITS = 4, 6, 8
FEW = (("nights", 40),)
KNOBS = {"scale": 1.0, "signal": 1.0, "width": 0.5}


@cache
def fitted_priors(variant: str) -> dict[str, Any]:
    """Return the prior of every family and form, from few contexts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(priors, "CONTEXTS", 60)
        return tuning.fitted_priors("str", variant)


def settings_of(name: str, variant: str) -> dict[str, dict[str, Any]]:
    """Return settings of every family in the place of the recorded ones."""
    fitted = fitted_priors(variant)
    first = {family: next(k for k in fitted if k.split()[0] == family) for family in tuning.JUDGED}
    return {family: fitted[key] | KNOBS for family, key in first.items()}


def task_of(key: str, variant: str = "well", **changes: Any) -> Task:
    """Return a tiny task."""
    plain = Task("str", variant, (), 3, EPISODES, 0, REPLICATES, key)
    return replace(plain, **changes)
