"""E v(e_own) for a v that jumps: the chance that a person's own number falls into a cell.

A decision values smooth functions, and three nodes do. An indicator of a cell is 0 or 1, and three
nodes can miss it altogether. A value function that jumps says so by an attribute `pieces`: into how
many pieces the law of the own number is to be cut. Without the attribute it counts as smooth.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from gdcb.arrays import Array
from gdcb.gates.base import Value

_EDGES = 16  # pieces in which the largest jumps are looked for more closely
_SECTIONS = 16  # into which such a piece is cut, again and again
_ROUNDS = 4
_POINTS = 8  # points for every piece where there are several columns
_TAIL = 1e-13


def pieces_of(value: Value) -> int:
    """Return into how many pieces a law is cut for this value; 0: it is smooth."""
    return int(getattr(value, "pieces", 0))


def expect_normal(value: Value, mean: Array, spread: Array, pieces: int) -> Array:
    """Return E v(mean + spread·Z), Z standard normal in every column: (N,).

    One column: the trapezoid rule in probability between `pieces` + 1 quantiles, and the largest
    jumps between two of them are followed until they lie within 2·10⁻⁷. So a piecewise constant v
    is integrated to about 10⁻⁶, unless it leaves a value and returns to it, or jumps twice, between
    two quantiles: then by up to the chance of that piece, 1/`pieces` or so. Several columns: the
    mean over 8·`pieces` points of a lattice, to about 10⁻², as if columns were independent.

    Parameters
    ----------
    value : v, of actions (N, M, D)
    mean, spread : (N, D) of the own action
    pieces : even, and at least 16

    Examples
    --------
    v is 1 above 1.5; an own number N(1, 1) lies there with 1 − Φ(½).

    >>> found = expect_normal(
    ...     lambda e: 1.0 * (e[..., 0] > 1.5), np.array([[1.0]]), np.array([[1.0]]), 64
    ... )
    >>> found.round(6).tolist()
    [0.308538]
    """
    if mean.shape[1] > 1:
        worth = value(mean[:, None] + spread[:, None] * _lattice(pieces, mean.shape[1]))
        return np.asarray(worth.mean(axis=1))

    def at(share: Array) -> Array:
        """Value quantiles (N, M) of the own number."""
        from scipy.special import ndtri

        return value((mean + spread * ndtri(share))[..., None])

    share = _shares(pieces)
    worth = at(np.broadcast_to(share, (mean.shape[0], share.size)))
    parts = 0.5 * np.diff(share) * (worth[:, 1:] + worth[:, :-1])
    jump = np.abs(np.diff(worth, axis=1))
    # Always the same number of pieces, and sums in the same order: rows do not feel each other.
    piece = np.argsort(-jump, axis=1, kind="stable")[:, :_EDGES]
    np.put_along_axis(parts, piece, 0.0, axis=1)
    tails = _TAIL * (worth[:, 0] + worth[:, -1])
    closely = _followed(at, share[piece], share[piece + 1], worth, piece)
    return np.asarray(parts.sum(axis=1) + closely.sum(axis=1) + tails)


def _followed(
    at: Callable[[Array], Array], low: Array, high: Array, worth: Array, piece: Array
) -> Array:
    """Integrate over some pieces (N, E), cutting the section with the largest jump again."""
    first = np.take_along_axis(worth, piece, axis=1)
    last = np.take_along_axis(worth, piece + 1, axis=1)
    total = np.zeros(piece.shape)
    cuts = np.arange(_SECTIONS + 1) / _SECTIONS
    n, edges = piece.shape
    for turn in range(_ROUNDS):
        share = low[..., None] + (high - low)[..., None] * cuts
        inner = at(share[..., 1:-1].reshape(n, -1)).reshape(n, edges, -1)
        here = np.concatenate((first[..., None], inner, last[..., None]), axis=-1)
        parts = 0.5 * np.diff(share, axis=-1) * (here[..., 1:] + here[..., :-1])
        if turn < _ROUNDS - 1:
            widest = np.abs(np.diff(here, axis=-1)).argmax(axis=-1)[..., None]
            np.put_along_axis(parts, widest, 0.0, axis=-1)
            low, high, first, last = (
                np.take_along_axis(array, widest + offset, axis=-1)[..., 0]
                for array in (share, here)
                for offset in (0, 1)
            )
        total += parts.sum(axis=-1)
    return total


@cache
def _shares(pieces: int) -> Array:
    """Return the shares between which is integrated, closer to each other in the tails."""
    share = np.sin(np.linspace(0.0, np.pi / 2, pieces + 1)) ** 2
    return np.asarray(np.clip(share, _TAIL, 1.0 - _TAIL))


@cache
def _lattice(pieces: int, n_columns: int) -> Array:
    """Return points (Q, D) of the standard normal law: multiples of irrational numbers, mod 1."""
    from scipy.special import ndtri

    root = 1.0
    for _ in range(64):  # the root of r^(D+1) = r + 1: the golden ratio for one column
        root = (1.0 + root) ** (1.0 / (n_columns + 1))
    steps = (1.0 / root) ** np.arange(1, n_columns + 1)
    share = ((np.arange(_POINTS * pieces) + 0.5)[:, None] * steps) % 1.0
    return np.asarray(ndtri(np.clip(share, _TAIL, 1.0 - _TAIL)))
