"""The stored feature map of the neural scaler: its trunk, its centre, and where heads lie."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.instances.grid.columns import FEATURES, SCHEMA
from gdcb.scalers import Trunk

POSITIONS = tuple(SCHEMA.names.index(name) for name in FEATURES)


@dataclass(frozen=True)
class Head:
    """Where networks' heads θ lie: mean and standard deviation of each coefficient (d,)."""

    mean: Array
    sd: Array


@cache
def stored() -> dict[str, Any]:
    """Return the map that `gdcb.instances.grid.fit` made: trunk, centre, heads."""
    text = (files("gdcb.instances.grid") / "map.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


@cache
def trunk() -> Trunk:
    """Return the hidden layer."""
    return Trunk.read(stored()["trunk"])


@cache
def centre() -> tuple[float, ...]:
    """Return the mean activations over the reference contexts, on which δ is normalised."""
    return tuple(stored()["centre"])


@cache
def head() -> Head:
    """Return the law of a network's head."""
    return Head(np.array(stored()["head"]["mean"]), np.array(stored()["head"]["sd"]))


def activations(x: Array) -> Array:
    """Return φ(x) − φ̄ of contexts (N, p): (N, d)."""
    return np.asarray(trunk().forward(x[:, POSITIONS]) - centre())
