"""Fixed nodes along the arm coordinates: where curves keep counts and interpolate."""

from __future__ import annotations

from itertools import product

import numpy as np

from gdcb.arms import Arms
from gdcb.arrays import Array, scatter_add
from gdcb.errors import InvalidInput

_MARGIN = (1.0, 2.0, 4.0)  # nodes beyond the end arms, in end gaps
_TOLERANCE = 1e-9


def require_metric(arms: Arms, learner: str, instead: str = "these are categories") -> None:
    """Refuse arms that are categories."""
    if bool(arms.is_exact.any()):
        raise InvalidInput(f"{learner} needs arms with a metric; {instead}")


def check_degree(degree: object) -> None:
    """Refuse what is not the whole number 1 or 2."""
    if type(degree) is not int or degree not in (1, 2):
        raise InvalidInput(f"bandit.degree: expected 1 or 2, got {degree!r}")


def require_same_arms(mine: Array, other: Array, what: str = "arms") -> None:
    """Refuse to merge states whose frame or nodes differ, and so their coordinates."""
    if not np.array_equal(mine, other):
        raise InvalidInput(f"merge: expected a state over the same {what}")


def frame_of(arms: Arms) -> Array:
    """Return the middle and half-width of the arms along each coordinate: (2, C)."""
    low, high = arms.coords.min(axis=0), arms.coords.max(axis=0)
    return np.stack(((low + high) / 2, np.where(high > low, (high - low) / 2, 1.0)))


def nodes_of(arms: Arms, gaps: int = 0) -> tuple[Array, ...]:
    """Return the node positions along each coordinate: fine for one, coarse for several.

    The arms are nodes, with at least `gaps` parts between the first and the last; 0: 16 for one
    coordinate, 4 for several.
    """
    gaps = gaps or (16 if arms.n_coords == 1 else 4)
    return tuple(_along(column, gaps) for column in arms.coords.T)


def grid_of(nodes: tuple[Array, ...]) -> Array:
    """Return the product grid of the nodes: (B, C), the last coordinate fastest."""
    return np.array(list(product(*nodes)), dtype=float)


def _along(levels: Array, gaps: int) -> Array:
    """Return the arms' positions, at least `gaps` even parts between them, and a margin."""
    distinct = np.unique(levels)
    if distinct.size == 1:
        distinct = distinct[0] + np.array([-1.0, 0.0, 1.0])
    parts = -(-gaps // (distinct.size - 1))
    share = np.arange(parts) / parts
    inner = (distinct[:-1, None] + share * np.diff(distinct)[:, None]).ravel()
    margin = np.array(_MARGIN)
    below = distinct[0] - margin * (distinct[1] - distinct[0])
    above = distinct[-1] + margin * (distinct[-1] - distinct[-2])
    return np.unique(np.concatenate((below, inner, distinct[-1:], above)))


def corners(nodes: tuple[Array, ...], coord: Array) -> tuple[Array, Array, Array]:
    """Find the nodes around each coordinate (N, C), and the share that each has of it.

    A point beyond the end nodes belongs to the end; it is not `inside`.

    Returns
    -------
    index, share : (N, 2^C) places in the product grid and multilinear shares, which sum to 1
    inside : (N,) whether the nodes enclose the point

    Examples
    --------
    >>> index, share, inside = corners((np.array([0.0, 1.0, 3.0]),), np.array([[1.5], [4.0]]))
    >>> index.tolist(), share.tolist(), inside.tolist()
    ([[1, 2], [1, 2]], [[0.75, 0.25], [0.0, 1.0]], [True, False])
    """
    n = coord.shape[0]
    index = np.zeros((n, 1), dtype=np.int64)
    share = np.ones((n, 1))
    inside = np.ones(n, dtype=bool)
    for j, levels in enumerate(nodes):
        value = coord[:, j]
        inside &= (value >= levels[0] - _TOLERANCE) & (value <= levels[-1] + _TOLERANCE)
        left = (np.searchsorted(levels, value, side="right") - 1).clip(0, levels.size - 2)
        part = ((value - levels[left]) / (levels[left + 1] - levels[left])).clip(0.0, 1.0)
        index = index * levels.size + left[:, None]
        index = np.concatenate((index, index + 1), axis=1)
        share = np.concatenate((share * (1.0 - part)[:, None], share * part[:, None]), axis=1)
    return index, share, inside


def count_outcomes(
    trials: Array,
    wins: Array,
    nodes: tuple[Array, ...],
    cell: Array,
    coord: Array,
    y: Array,
    weight: Array,
) -> None:
    """Add weighted outcomes to the nodes (cells, B) around each coordinate, in place.

    What lies beyond the margin is left out.
    """
    index, share, inside = corners(nodes, coord)
    flat = (cell[:, None] * trials.shape[1] + index)[inside]
    share, y = (weight[:, None] * share)[inside], y[inside]
    scatter_add(trials.reshape(-1), flat.ravel(), share.ravel())
    scatter_add(wins.reshape(-1), flat.ravel(), (share * y[:, None]).ravel())
