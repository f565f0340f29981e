"""Which cells ran in comparable contexts: what a log can speak of without going beyond itself."""

from __future__ import annotations

import numpy as np

from gdcb.analysis.what_if.log import GatedLog
from gdcb.analysis.what_if.means import Features
from gdcb.arrays import Array

NEAR = 200  # nearest contexts that count as comparable, or a tenth of a shorter log
_MOST = 20_000  # rows among which they are looked for; of a longer log, evenly spaced ones
_PIECE = 2**16


def ran_nearby(features: Features, n_cells: int, near: int = NEAR) -> Array:
    """Return whether each cell ran among the `near` contexts nearest to each row: (N, n_cells).

    Distance is Euclidean in the columns of x at mean 0 and variance 1. A row is not its own
    neighbour: that a cell ran here and nowhere near says nothing of its mean.
    """
    from scipy.spatial import cKDTree

    log: GatedLog = features.log
    z = features.phi[:, 1 : 1 + features.n_linear]
    found = np.zeros((log.n, n_cells), dtype=bool)
    index = np.unique(np.linspace(0, log.n - 1, min(log.n, _MOST)).round().astype(np.int64))
    k = max(1, min(near, index.size // 10, index.size - 1))
    if z.shape[1] == 0:
        counts = np.bincount(log.cell[index], minlength=n_cells)
        found[:] = counts > 0
        return found
    tree = cKDTree(z[index])
    for start in range(0, log.n, _PIECE):
        rows = np.arange(start, min(start + _PIECE, log.n))
        beside = np.asarray(tree.query(z[rows], k=min(k + 1, index.size))[1]).reshape(rows.size, -1)
        ids = index[beside]
        cells = np.where(ids == rows[:, None], -1, log.cell[ids])
        at, column = np.nonzero(cells >= 0)
        found[rows[at], cells[at, column]] = True
    return found
