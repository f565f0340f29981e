"""Worlds of tracking that the tests of the Kalman study share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.instances.kalman.plants import DEMAND, TARGET, Plant
from gdcb.instances.kalman.world import Tracking
from gdcb.records import Rows
from gdcb.streams import ADVANCE, CONTEXT, OUTCOME, WORLD, Streams

UNITS = 8
ENDLESS = {"target": replace(TARGET, life=1e12), "demand": replace(DEMAND, life=1e12)}

# (t, state, rows) → gains (N, 2)
Gains = Callable[[int, Any, Rows], Array]


def tracking(plant: str | Plant, variant: str = "well", **more: Any) -> Tracking:
    """Return a world whose calendar nobody takes off; a plant by name has tracks that never end."""
    one = ENDLESS[plant] if isinstance(plant, str) else plant
    return Tracking(one, variant, **{"is_filtered": False} | more)


def wild(seed: int) -> Gains:
    """Return gains drawn from the whole box, and now and then none."""
    rng = np.random.default_rng(seed)

    def gains(t: int, state: Any, rows: Rows) -> Array:
        e = rng.uniform((0.05, 0.0), (0.95, 0.5), (rows.n, 2))
        return np.where(rng.random((rows.n, 1)) < 0.1, np.nan, e)

    return gains


def played(
    world: Any, steps: int, gains: Gains, groups: int = 4, seed: int = 3
) -> Iterator[tuple[int, Any, Rows, Array, Array]]:
    """Yield (t, state, rows, gains, outcome) of every step."""
    streams, group = Streams(seed, UNITS), np.repeat(np.arange(groups), UNITS)
    state = world.start(streams.at(WORLD, 0), group)
    for t in range(steps):
        rows = world.context(streams.at(CONTEXT, t), state, t, group)
        e = gains(t, state, rows)
        outcome = world.sample(streams.at(OUTCOME, t), state, e, rows)
        yield t, state, rows, e, outcome
        state = world.advance(streams.at(ADVANCE, t), state, e, outcome, rows)


def taken(record: Any, index: Array) -> Any:
    """Return some units of a state, in their order or several times."""
    if is_dataclass(record) and not isinstance(record, type):
        names = [field.name for field in fields(record)]
        return replace(record, **{name: taken(getattr(record, name), index) for name in names})
    return record[index] if isinstance(record, np.ndarray) else record


def redrawn(world: Tracking, state: Any, times: int, seed: int) -> tuple[Any, Rows]:
    """Return every unit `times` times, its step and the next drawn anew from their law."""
    rng, n = np.random.default_rng(seed), state.now.mode.size
    many = taken(state, np.repeat(np.arange(n), times))
    axes = many.mean.shape[1]

    def around(mean: Array, spread: Array) -> Array:
        root = np.linalg.cholesky(spread)[:, None]
        return mean + (root @ rng.normal(size=(*mean.shape, 1)))[..., 0]

    def measured(path: Any, at: Array, day: Array) -> Any:
        noise = np.sqrt(path.noise)[:, None] * rng.normal(size=(n * times, axes))
        cycle = many.sizes.cycle[np.arange(day.size), day % many.sizes.cycle.shape[1]][:, None]
        return replace(path, state=at, seen=at[..., 0] + noise + cycle)

    now = around(many.mean, many.spread)
    on = around(world.plant.predict(now), many.on.process)
    many = replace(
        many, now=measured(many.now, now, many.day), on=measured(many.on, on, many.day + 1)
    )
    rows = world.context(Streams(0).at(CONTEXT, 0), many, 0, np.zeros(n * times, dtype=np.int64))
    return many, rows


def assert_same_bits(one: Any, other: Any) -> None:
    """Compare two states to the last bit."""
    if is_dataclass(one) and not isinstance(one, type):
        for field in fields(one):
            assert_same_bits(getattr(one, field.name), getattr(other, field.name))
    elif isinstance(one, np.ndarray):
        assert one.shape == other.shape
        assert one.tobytes() == other.tobytes()
    else:
        assert one == other
