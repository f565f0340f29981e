"""Resamples of replicates, drawn from keyed streams: the same for every metric of one seed."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from gdcb.arrays import Array
from gdcb.streams import Streams, key_of

N_RESAMPLES = 2000
_PIECE = 200  # resamples held at a time
_STAGE = key_of("protocol.bootstrap")


def resamples(n_replicates: int, seed: int) -> Iterator[Array]:
    """Yield how often each of R replicates is drawn in a resample: counts (200, R), ten times.

    A resample draws R replicates with replacement, whole, so that what is paired stays paired.

    >>> pieces = list(resamples(3, seed=7))
    >>> len(pieces), pieces[0].shape, bool((pieces[0].sum(axis=1) == 3).all())
    (10, (200, 3), True)
    """
    streams = Streams(seed)
    first = np.arange(_PIECE)[:, None] * n_replicates
    for piece in range(N_RESAMPLES // _PIECE):
        uniforms = streams.at(_STAGE, piece).uniform(_PIECE, n_replicates)
        drawn = first + (uniforms * n_replicates).astype(np.int64)
        counts = np.bincount(drawn.ravel(), minlength=_PIECE * n_replicates)
        yield counts.reshape(_PIECE, n_replicates)


def percentiles(values: Array, level: float = 0.95) -> tuple[float | None, float | None]:
    """Return the values (n,) between which `level` of them lie; None for an infinite end.

    Both ends are values that occur, the outer of two neighbours, so that ∞ is never averaged.

    >>> percentiles(np.array([3.0, 1.0, 2.0, math.inf]))
    (1.0, None)
    """
    ordered = np.sort(values)
    tail = (1 - level) / 2 * (ordered.size - 1)
    low, high = float(ordered[math.floor(tail)]), float(ordered[-1 - math.floor(tail)])
    return (low if math.isfinite(low) else None), (high if math.isfinite(high) else None)
