"""Where a part is tried: contexts with the columns it names, arms, random numbers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gdcb.arms import ArmList, Arms, Grid
from gdcb.arrays import Array
from gdcb.context import Category, Flag, Kind, Number, Schema
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.parts import bind
from gdcb.records import Rows
from gdcb.streams import DRAW, Stream, Streams

# Five arms with a metric, unevenly spaced; five without one; six that are made of two factors.
METRIC = ArmList(values=(0.8, 0.9, 1.0, 1.1, 1.25)).build()
CATEGORIES = ArmList(names=("a", "b", "c", "d", "e")).build()
FACTORS = Grid({"first": (0.8, 1.0, 1.25), "second": (1.0, 2.0)}).build()
_COLUMNS = 3  # at least so many context columns, whatever the part names


@dataclass(frozen=True)
class Ground:
    """Contexts and arms that a part is tried on.

    Parameters
    ----------
    context : the columns; by default what the part names, as numbers between ½ and 1½
    arms : arm space, or None: whichever of the default ones fits
    n_columns : columns q of δ
    """

    context: Schema = field(
        default_factory=lambda: Schema({f"column {i}": Number(0.5, 1.5) for i in range(_COLUMNS)})
    )
    arms: Arms | None = None
    n_columns: int = 1

    def contexts(self, n: int, seed: int = 0) -> Array:
        """Draw contexts x (n, p) within the schema."""
        rng = np.random.default_rng(seed)
        columns = [_encoded(kind, rng, n) for kind in self.context.columns.values()]
        return np.concatenate(columns, axis=1)

    def rows(self, n: int, seed: int = 0) -> Rows:
        """Return rows of contexts, each of a unit of its own, two units a group."""
        unit = np.arange(n)
        return Rows(unit, unit // 2, self.contexts(n, seed))


def ground_for(part: Any, instance: Instance | None = None) -> tuple[Any, Ground]:
    """Return the part with its columns bound, and the ground that has those columns."""
    if instance is not None:
        ground = Ground(instance.context, instance.space, instance.scaler.n_columns)
        return bind(part, instance.context.positions), ground
    names, width = _columns_of(part)
    columns: dict[str, Kind] = {name: Number(0.5, 1.5) for name in names}
    while len(columns) < max(_COLUMNS, width):
        columns[f"column {len(columns)}"] = Number(0.5, 1.5)
    ground = Ground(Schema(columns))
    return bind(part, ground.context.positions), ground


def _columns_of(part: Any) -> tuple[list[str], int]:
    """Return the columns that a part names, and how many its positions ask for."""
    names: list[str] = []
    width = 0
    if isinstance(part, tuple):
        for item in part:
            more, wide = _columns_of(item)
            names += [name for name in more if name not in names]
            width = max(width, wide)
    elif dataclasses.is_dataclass(part) and not isinstance(part, type):
        for declared in dataclasses.fields(part):
            value = getattr(part, declared.name)
            if not declared.metadata.get("column"):
                more, wide = _columns_of(value)
            else:
                items = value if isinstance(value, tuple) else (value,)
                more = [item for item in items if isinstance(item, str) and item != "*"]
                wide = max((item + 1 for item in items if isinstance(item, int)), default=0)
            names += [name for name in more if name not in names]
            width = max(width, wide)
    return names, width


def _encoded(kind: Kind, rng: np.random.Generator, n: int) -> Array:
    if isinstance(kind, Flag):
        return np.asarray(rng.random((n, 1)) < 0.5, dtype=float)
    if isinstance(kind, Category):
        return np.eye(len(kind.levels))[rng.integers(len(kind.levels), size=n)]
    low = kind.low if math.isfinite(kind.low) else min(0.5, kind.high - 1.0)
    high = kind.high if math.isfinite(kind.high) else max(1.5, low + 1.0)
    return low + (high - low) * rng.random((n, 1))


def fitting(part_takes: Callable[[Arms], Any], ground: Ground) -> Arms:
    """Return the ground's arms, or the first of the default ones that are not refused."""
    if ground.arms is not None:
        return ground.arms
    for arms in (METRIC, CATEGORIES, FACTORS):
        try:
            part_takes(arms)
        except InvalidInput:
            continue
        except Exception:  # its own fault: the checks will say so
            return arms
        return arms
    return METRIC


def stream(t: int = 0, seed: int = 1) -> Stream:
    """Return the random numbers of round `t`, as a simulation has them."""
    return Streams(seed).at(DRAW, t)
