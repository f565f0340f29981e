"""Errors against the ground truth, with intervals from blocks of time; nothing else reads it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array

BLOCK = 20.0  # s: errors of a filter go on for seconds; single epochs are not independent
REPEATS = 2000
LEVELS = (50.0, 95.0)


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors of some epochs: median and 95th percentile, with 95 % intervals.

    Parameters
    ----------
    median, high : (value, low, high) in m, of the distance in space
    ground, ground_high : median and 95th percentile of the distance on the ground, m
    draws : (REPEATS, 2) median and 95th percentile of the resampled distances in space
    """

    median: tuple[float, float, float]
    high: tuple[float, float, float]
    ground: float
    ground_high: float
    draws: Array


def blocks(time: Array, rng: np.random.Generator, repeats: int = REPEATS) -> Array:
    """Return resampled epochs (repeats, T): circular blocks of `BLOCK` seconds, each drawn anew.

    All methods share the draws, so that their differences are paired.
    """
    n = time.size
    length = max(1, round(n * BLOCK / (time[-1] - time[0])))
    first = rng.integers(0, n, (repeats, -(-n // length)))
    return ((first[:, :, None] + np.arange(length)) % n).reshape(repeats, -1)[:, :n]


def errors(position: Array, truth: Array, drawn: Array) -> Errors:
    """Score positions (T, 3) against the truth (T, 3), both in the plane."""
    apart = position - truth
    space, ground = np.linalg.norm(apart, axis=1), np.hypot(apart[:, 0], apart[:, 1])
    draws = np.percentile(space[drawn], LEVELS, axis=1).T
    whole = np.percentile(space, LEVELS)
    low, high = np.percentile(draws, (2.5, 97.5), axis=0)
    three = [(float(whole[i]), float(low[i]), float(high[i])) for i in range(2)]
    flat = np.percentile(ground, LEVELS)
    return Errors(three[0], three[1], float(flat[0]), float(flat[1]), draws)


def less(one: Errors, other: Errors) -> tuple[tuple[float, float, float], ...]:
    """Return one's median and 95th percentile less the other's, each with its interval."""
    low, high = np.percentile(one.draws - other.draws, (2.5, 97.5), axis=0)
    gaps = (one.median[0] - other.median[0], one.high[0] - other.high[0])
    return tuple((gaps[i], float(low[i]), float(high[i])) for i in range(2))
