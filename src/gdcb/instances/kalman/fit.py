"""Find what two references are tuned to: the one fixed gain of K1, and the pace and share of K4.

`python -m gdcb.instances.kalman.fit` prints them by plant; they stand in `references.py`. Both are
the best on tuning worlds, on which no result is computed, over both variants.
"""

from __future__ import annotations

import sys
from itertools import product

import numpy as np

from gdcb.instances.kalman.plants import PLANTS, Plant
from gdcb.instances.kalman.references import Adaptive, Filter, Fixed, Guided
from gdcb.instances.kalman.world import Tracking
from gdcb.streams import ADVANCE, CONTEXT, OUTCOME, WORLD, Streams

SEED = 9_000_002  # as priors are
GROUPS, UNITS, STEPS = 20, 8, 100
FIRST = tuple(np.round(np.linspace(0.5, 0.9, 9), 2).tolist())
SECOND = tuple(np.round(np.linspace(0.1, 0.5, 9), 2).tolist())
PACES = (0.0025, 0.005, 0.01, 0.02, 0.05, 0.1)
SHARES = (0.0, 0.1, 0.3, 1.0)


def error_of(plant: Plant, variant: str, one: Filter) -> float:
    """Return the mean squared error of a filter on the tuning worlds, without a gate."""
    world = Guided(Tracking(plant, variant), one)
    streams, group = Streams(SEED, UNITS), np.repeat(np.arange(GROUPS), UNITS)
    state, total = world.start(streams.at(WORLD, 0), group), 0.0
    for t in range(STEPS):
        rows = world.context(streams.at(CONTEXT, t), state, t, group)
        outcome = world.sample(streams.at(OUTCOME, t), state, state.proposal, rows)
        total -= float(outcome[:, 0].mean())
        state = world.advance(streams.at(ADVANCE, t), state, state.proposal, outcome, rows)
    return total / STEPS


def best_of(plant: Plant, candidates: list[Filter]) -> Filter:
    """Return the candidate of least error, in both variants together."""
    errors = [sum(error_of(plant, v, one) for v in ("well", "mis")) for one in candidates]
    return candidates[int(np.argmin(errors))]


def main() -> None:
    """Print both for every plant."""
    for plant in PLANTS.values():
        fixed = best_of(plant, [Fixed(pair) for pair in product(FIRST, SECOND)])
        adaptive = best_of(plant, [Adaptive(*pair) for pair in product(PACES, SHARES)])
        sys.stdout.write(f"{plant.name}: {fixed}, {adaptive}\n")


if __name__ == "__main__":
    main()
