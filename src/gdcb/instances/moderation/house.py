"""What the pilot left behind: the trunk of the severity model, its head, and predicted appeals.

`python -m gdcb.instances.moderation.fit` makes `map.json` again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.scalers.neural import Trunk

PATH = Path(__file__).parent / "map.json"


@dataclass(frozen=True, eq=False)
class House:
    """A pilot's severity model and its prediction of appeals.

    Parameters
    ----------
    trunk : hidden layers over the 14 features
    theta : (d,) head of the panel's ratings over all pilot platforms: the house's reading
    levels, weights : of predicted appeals, as `AppealFilter` has them
    """

    trunk: Trunk
    theta: Array
    levels: tuple[float, ...]
    weights: tuple[float, ...]

    def phi(self, features: Array) -> Array:
        """Return (1, activations) of features (N, 14): (N, d)."""
        out = np.empty((features.shape[0], self.theta.size))
        out[:, 0] = 1.0
        out[:, 1:] = self.trunk.forward(features)
        return out

    def reading(self, features: Array) -> Array:
        """Return the severity that the house reads off features (N, 14): (N,)."""
        return np.asarray((self.phi(features) * self.theta).sum(axis=1))


@cache
def stored() -> House:
    """Return what comes with the package."""
    return from_json(json.loads(PATH.read_text(encoding="utf-8")))


def from_json(data: dict[str, Any]) -> House:
    """Read what `as_json` wrote."""
    return House(
        Trunk.read(data["trunk"]),
        np.array(data["theta"]),
        tuple(data["appeals"]["levels"]),
        tuple(data["appeals"]["weights"]),
    )


def as_json(house: House) -> dict[str, Any]:
    """Return the numbers as plain lists."""
    return {
        "trunk": house.trunk.table(),
        "theta": house.theta.tolist(),
        "appeals": {"levels": list(house.levels), "weights": list(house.weights)},
    }
