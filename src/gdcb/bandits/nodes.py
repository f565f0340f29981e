"""Where curves keep what they saw along the arm coordinates: counts at nodes, moments in boxes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import numpy as np

from gdcb.arms import Arms
from gdcb.arrays import Array, scatter_add
from gdcb.errors import InvalidInput
from gdcb.parts import check_size

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


def share_of_corners(place: Array) -> Array:
    """Return the multilinear share (..., 2^C) that each corner of a box has of places t (..., C).

    In the order of `corners`. Places outside the box have shares below 0 or above 1.
    """
    share = np.ones((*place.shape[:-1], 1))
    for j in range(place.shape[-1]):
        part = place[..., j : j + 1]
        share = np.concatenate((share * (1.0 - part), share * part), axis=-1)
    return share


def boxes_between(nodes: tuple[Array, ...]) -> tuple[Array, ...]:
    """Return the borders of boxes none of which reaches across a node: several to a gap in 2-D."""
    parts = np.arange(_PARTS if len(nodes) > 1 else 1) / (_PARTS if len(nodes) > 1 else 1)
    return tuple(
        np.append((along[:-1, None] + parts * np.diff(along)[:, None]).ravel(), along[-1])
        for along in nodes
    )


def within_nodes(nodes: tuple[Array, ...], borders: tuple[Array, ...]) -> tuple[Array, ...]:
    """Return where boxes lie between the nodes: corners (boxes, 2^C), and low, width (boxes, C).

    The corners are places in the product grid of the nodes; low and width are the lowest corner of
    a box and its size, of the nodes around it: 0 and 1 where it fills all between them.
    """
    low, width = corner_and_width(borders)
    inside = [
        np.searchsorted(along, low[:, j] + width[:, j] / 2) - 1 for j, along in enumerate(nodes)
    ]
    start = np.stack([along[i] for along, i in zip(nodes, inside, strict=True)], axis=1)
    gap = np.stack([np.diff(along)[i] for along, i in zip(nodes, inside, strict=True)], axis=1)
    return corners(nodes, low + width / 2)[0], (low - start) / gap, width / gap


def count_wins(
    wins: Array, nodes: tuple[Array, ...], cell: Array, coord: Array, weighted: Array
) -> None:
    """Add w·y of rows to the nodes (cells, B) around each coordinate, in place.

    What lies beyond the margin is left out.
    """
    index, share, inside = corners(nodes, coord)
    flat = (cell[:, None] * wins.shape[1] + index)[inside]
    scatter_add(wins.reshape(-1), flat.ravel(), (weighted[:, None] * share)[inside].ravel())


_WIDEST = (1 / 8, 1 / 6, 1 / 4)  # box between the arms, of their range: by coordinates, up to 3
_BEYOND = ((0.5, 1.0, 2.0, 4.0), (0.5, 1.5, 4.0))  # borders beyond the end arms, in end gaps
_PARTS = 2  # boxes along each coordinate from a node to the next, where there are two coordinates
_NO_SPREAD = 1e-13  # variance in box widths below which all rows of a box are at one place


def boxes_of(arms: Arms) -> tuple[Array, ...]:
    """Return the borders of the boxes along each coordinate, up to four gaps beyond the end arms.

    Between the arms a box is at most an eighth of their range wide; a sixth where there are two
    coordinates, a quarter where there are more.
    """
    borders = tuple(_borders(column, arms.n_coords) for column in arms.coords.T)
    check_size("bandit", "boxes × moments", n_boxes(borders), arms.n_coords**2)
    return borders


def _borders(levels: Array, n_coords: int) -> Array:
    several = int(n_coords > 1)
    distinct = np.unique(levels)
    if distinct.size == 1:
        distinct = distinct[0] + np.array([-1.0, 0.0, 1.0])
    widest = _WIDEST[min(n_coords, 3) - 1] * (distinct[-1] - distinct[0])
    beyond = np.array(_BEYOND[several])
    below = distinct[0] - beyond[::-1] * (distinct[1] - distinct[0])
    above = distinct[-1] + beyond * (distinct[-1] - distinct[-2])
    borders = np.concatenate((below, above))
    is_inner = borders[:-1] == below[-1]
    parts = np.ceil(np.diff(borders) / widest - 1e-9).astype(np.int64)
    parts = np.where(is_inner, parts, np.ceil(parts / 2).astype(np.int64).clip(1, 2 - several))
    pieces = [
        np.linspace(low, high, n, endpoint=False)
        for low, high, n in zip(borders[:-1], borders[1:], parts.tolist(), strict=True)
    ]
    return np.concatenate((*pieces, borders[-1:]))


def on_level(levels: tuple[Array, ...], coord: Array) -> tuple[Array, Array]:
    """Return the place of coordinates (N, C) in the product grid of levels, and who is on it.

    >>> on_level((np.array([0.8, 1.0]),), np.array([[1.0], [0.9]]))
    (array([1, 0]), array([ True, False]))
    """
    index, is_on = np.zeros(coord.shape[0], dtype=np.int64), np.ones(coord.shape[0], dtype=bool)
    for j, along in enumerate(levels):
        value = coord[:, j]
        middle = (along[1:] + along[:-1]) / 2
        nearest = np.searchsorted(middle, value)
        is_on &= np.abs(value - along[nearest]) <= _TOLERANCE * (along[-1] - along[0] + 1.0)
        index = index * along.size + nearest
    return np.where(is_on, index, 0), is_on


def n_boxes(borders: tuple[Array, ...]) -> int:
    """Return how many boxes there are."""
    return math.prod(part.size - 1 for part in borders)


def exponents_of(c: int) -> list[tuple[int, ...]]:
    """Return which coordinates each moment is a product of: 1, tⱼ, tⱼtₖ and tⱼ³.

    >>> exponents_of(1), len(exponents_of(2))
    ([(), (0,), (0, 0), (0, 0, 0)], 8)
    """
    single = [(j,) for j in range(c)]
    pairs = [(j, k) for j in range(c) for k in range(j, c)]
    return [(), *single, *pairs, *((j, j, j) for j in range(c))]


def in_box(borders: tuple[Array, ...], coord: Array) -> tuple[Array, Array, Array]:
    """Find the box of each coordinate (N, C), the last coordinate fastest.

    Returns
    -------
    index : (N,) the box; of a point beyond the borders the nearest
    moments : (N, q) of the point alone, its place t in the box from 0 to 1 along each coordinate
    inside : (N,) whether a box encloses it

    Examples
    --------
    >>> index, moments, inside = in_box((np.array([0.0, 1.0, 3.0]),), np.array([[2.0], [4.0]]))
    >>> index.tolist(), moments[0].tolist(), inside.tolist()
    ([1, 1], [1.0, 0.5, 0.25, 0.125], [True, False])
    """
    n, c = coord.shape
    index, place, inside = np.zeros(n, dtype=np.int64), np.empty((n, c)), np.ones(n, dtype=bool)
    for j, levels in enumerate(borders):
        value = coord[:, j]
        inside &= (value >= levels[0] - _TOLERANCE) & (value <= levels[-1] + _TOLERANCE)
        left = (np.searchsorted(levels, value, side="right") - 1).clip(0, levels.size - 2)
        place[:, j] = ((value - levels[left]) / (levels[left + 1] - levels[left])).clip(0.0, 1.0)
        index = index * (levels.size - 1) + left
    moments = np.ones((n, len(exponents_of(c))))
    for at, factors in enumerate(exponents_of(c)):
        for j in factors:
            moments[:, at] *= place[:, j]
    return index, moments, inside


def boxes_with_rows(moments: Array) -> Iterator[tuple[Array, Array, Array]]:
    """Yield states (m,), boxes in which they have rows (m, b), and the moments there (m, b, q).

    moments : (n, boxes, q). How many boxes b are looked at depends on a state's own rows only, so
    that its bits do not depend on the states beside it; those behind a state's own are empty.
    """
    is_used = moments[:, :, 0] > 0.0
    count = is_used.sum(axis=1)
    size = np.minimum(
        2 ** np.ceil(np.log2(np.maximum(count, 1))).astype(np.int64), moments.shape[1]
    )
    for b in np.unique(size[count > 0]):
        some = np.flatnonzero((size == b) & (count > 0))
        which = np.argsort(~is_used[some], axis=1, kind="stable")[:, :b]
        yield some, which, moments[some[:, None], which]


def corner_and_width(borders: tuple[Array, ...]) -> tuple[Array, Array]:
    """Return the lowest corner and the width of every box: (boxes, C) each."""
    width = tuple(np.diff(part) for part in borders)
    return grid_of(tuple(part[:-1] for part in borders)), grid_of(width)


def points_of(moments: Array, low: Array, width: Array) -> tuple[Array, Array]:
    """Return points in each box that have the box's moments, 2 for every coordinate.

    moments : (n, boxes, q), sums of weight · moment of rows; low, width : (n, boxes, C). Returns
    coordinates (n, P, C) and weights (n, P), P = 2·C·boxes; points of an empty box weigh 0.
    """
    place, weight = places_of(moments, low.shape[-1])
    coord = low[:, :, None] + place * width[:, :, None]
    return coord.reshape(low.shape[0], -1, low.shape[-1]), weight.reshape(low.shape[0], -1)


def places_of(moments: Array, c: int) -> tuple[Array, Array]:
    """Return places t (n, boxes, 2·C, C) in each box that have its moments, and their weights.

    For one coordinate these are the two points of Gauss's quadrature for the rows of the box: Σ w·f
    is exact for cubic f, and for any f where the rows are at one or two places. The error is at
    most max|f⁗|·h⁴/1536 a row in a box of width h. For several coordinates the points lie along the
    columns of a root of the rows' covariance; they have its means, covariances and third moments
    along each coordinate.

    Examples
    --------
    Rows at 0.2 (twice) and 0.8 in a box from 0 to 1: their moments give back the two places.

    >>> place = np.array([[0.2], [0.2], [0.8]])
    >>> moments = in_box((np.array([0.0, 1.0]),), place)[1].sum(axis=0)
    >>> found, weight = places_of(moments[None, None], 1)
    >>> found.ravel().round(9).tolist(), weight.ravel().round(9).tolist()
    ([0.2, 0.8], [2.0, 1.0])
    """
    n, boxes, _ = moments.shape
    at = {factors: moments[..., i] for i, factors in enumerate(exponents_of(c))}
    total = at[()]
    safe = np.where(total > 0.0, total, 1.0)
    mean = [at[(j,)] / safe for j in range(c)]
    root: dict[tuple[int, int], Array] = {}
    skew: list[Array] = []
    for j in range(c):
        for k in range(j + 1):
            rest = at[(k, j)] / safe - mean[j] * mean[k]
            for i in range(k):
                rest = rest - root[j, i] * root[k, i]
            if k == j:
                root[j, j] = np.sqrt(np.where(rest > _NO_SPREAD, rest, 0.0))
            else:
                root[j, k] = rest / np.where(root[k, k] > 0.0, root[k, k], np.inf)
        third = at[(j, j, j)] / safe - 3.0 * mean[j] * (at[(j, j)] / safe) + 2.0 * mean[j] ** 3
        for k in range(j):
            third = third - root[j, k] ** 3 * skew[k]
        skew.append(third / np.where(root[j, j] > 0.0, root[j, j], np.inf) ** 3)
    coord, weight = np.empty((n, boxes, 2 * c, c)), np.empty((n, boxes, 2 * c))
    for j in range(c):
        s = skew[j] / c**0.5
        wide = np.sqrt(s * s + 4.0)
        for side, sign in enumerate((-1.0, 1.0)):
            out = c**0.5 * (s + sign * wide) / 2.0
            weight[:, :, 2 * j + side] = total / c * (wide - sign * s) / (2.0 * wide)
            for i in range(c):
                step = root[i, j] if i >= j else 0.0
                coord[:, :, 2 * j + side, i] = mean[i] + out * step
    if c == 1:
        coord = coord.clip(0.0, 1.0)  # they lie there but for rounding
    return coord, weight
