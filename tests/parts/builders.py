"""Small builders that the tests of the parts share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gdcb.arrays import Array
from gdcb.records import Evidence, Rows
from gdcb.streams import Stream
from tests.properties import examples

# Fixed examples, the same in every run: a property that fails, fails for everybody.
fixed = examples(60)


def rng_of(seed: int) -> np.random.Generator:
    """Return a generator for test data, apart from gdcb's own streams."""
    return np.random.default_rng(seed)


def stream(seed: int, block: int = 100, stage: int = 2, at: int = 0) -> Stream:
    """Return a stream with `block` rows a key."""
    return Stream((seed, stage), at, block)


def rows(x: Any, unit: Any = None, group: Any = None) -> Rows:
    """Return rows with context x (N, p), of unit 0 and group 0 unless told."""
    context = np.asarray(x, dtype=float)
    zero = np.zeros(context.shape[0], dtype=np.int64)
    return Rows(
        zero if unit is None else np.asarray(unit, dtype=np.int64),
        zero if group is None else np.asarray(group, dtype=np.int64),
        context,
    )


def blank(n: int) -> Rows:
    """Return n rows whose context says nothing."""
    return rows(np.zeros((n, 1)))


def evidence(
    cell: Any, arm: Any, y: Any, coord: Any = None, scale: Any = None, weight: Any = None
) -> Evidence:
    """Return evidence rows; weight 1, no scale and coordinate 0 unless told."""
    cells = np.asarray(cell, dtype=np.int64)
    n = cells.size
    return Evidence(
        cells,
        np.asarray(arm, dtype=np.int64),
        np.zeros((n, 1)) if coord is None else np.asarray(coord, dtype=float).reshape(n, -1),
        np.asarray(y, dtype=float),
        None if scale is None else np.asarray(scale, dtype=float),
        np.ones(n) if weight is None else np.asarray(weight, dtype=float),
    )


def take(some: Evidence, index: Any) -> Evidence:
    """Return the evidence rows at `index`."""
    return Evidence(
        some.cell[index],
        some.arm[index],
        some.coord[index],
        some.y[index],
        None if some.scale is None else some.scale[index],
        some.weight[index],
    )


@st.composite
def evidences(
    draw: st.DrawFn,
    n_cells: int,
    coords: Array,
    is_class: bool,
    with_scale: bool = False,
) -> Evidence:
    """Draw evidence with repeated cells, rows without an arm and rows without weight."""
    n_arms = coords.shape[0]
    n = draw(st.integers(1, 12))
    cell = [draw(st.integers(0, n_cells - 1)) for _ in range(n)]
    arm = np.array([draw(st.integers(-1, n_arms - 1)) for _ in range(n)])
    target = st.sampled_from([0.0, 1.0]) if is_class else st.floats(-3, 3)
    y = [draw(target) for _ in range(n)]
    weight = [draw(st.sampled_from([0.0, 0.5, 1.0, 2.0])) for _ in range(n)]
    shift = np.array([draw(st.floats(-0.4, 0.4)) for _ in range(n)])
    coord = coords[np.maximum(arm, 0)] + np.where(arm < 0, shift, 0.0)[:, None]
    scale = [draw(st.floats(0.2, 3)) for _ in range(n)] if with_scale else None
    return evidence(cell, arm, y, coord, scale, weight)


@dataclass
class Worth:
    """A value function: v(e) of the row's own `centre`, and the null action's worth."""

    of: Callable[[Array, Array], Array]
    centre: Array
    null: Array

    def __call__(self, e: Array) -> Array:
        """Value actions (N, M, D); non-finite ones are worth the null action."""
        runs = np.asarray(np.isfinite(e).all(axis=-1))
        known = np.where(runs[..., None], e, 0.0)
        return np.where(runs, self.of(known, self.centre[:, None]), self.null[:, None])

    def take(self, index: Array) -> Worth:
        """Return the same function for some rows."""
        return Worth(self.of, self.centre[index], self.null[index])


def parabola(n: int, seed: int = 0) -> Worth:
    """Return v(e) = 3 − (e₀ − centre)² + 0.1·Σ later columns, null worth −7 − row."""

    def of(e: Array, centre: Array) -> Array:
        return np.asarray(3.0 - (e[..., 0] - centre) ** 2 + 0.1 * e[..., 1:].sum(axis=-1))

    return Worth(of, rng_of(seed).normal(size=n), -7.0 - np.arange(n))


def bytes_of(*arrays: Array) -> bytes:
    """Return the raw bytes of some arrays, shapes included."""
    return b"".join(repr(a.shape).encode() + np.ascontiguousarray(a).tobytes() for a in arrays)
