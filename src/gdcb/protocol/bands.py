"""Bands of context, and what the gate did in each: where it lets through, raises, lowers, stops.

For every feature that the learners read, contexts fall into up to five bands of about the same
size: fifths of the reference contexts, or one band a value where there are few (a flag has two).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array
from gdcb.context import Number, Schema
from gdcb.records import Executed

MOST = 5  # bands of a feature
# What can become of a proposal, in the order of the last axis of a record's counts; behind them
# stands the sum of log(executed / recommended) over what was raised or lowered.
FATES = ("passed", "raised", "lowered", "vetoed", "other")
PASSED, RAISED, LOWERED, VETOED, OTHER = range(len(FATES))


@dataclass(frozen=True, slots=True)
class Bands:
    """Where the bands of every feature begin and end.

    Parameters
    ----------
    names : of the F features
    columns : (F,) their columns of x
    is_flag : (F,) whether it is yes (1) or no (0), as a flag and a level of a category are
    edges : (F, MOST − 1) between the bands, rising; +∞ where a feature has fewer

    Examples
    --------
    A flag has an edge at ½. Five values or fewer have a band each, with edges halfway.

    >>> schema = Schema({"load": Number(0, 10)})
    >>> bands = bands_of(schema, ("load",), np.array([[1.0], [4.0], [2.0], [1.0]]))
    >>> bands.edges.tolist()
    [[1.5, 3.0, inf, inf]]
    >>> bands.of(np.array([[1.0], [1.5], [9.0]])).tolist()
    [[0], [1], [2]]
    """

    names: tuple[str, ...]
    columns: Array
    is_flag: Array
    edges: Array

    @property
    def n(self) -> Array:
        """Number of bands (F,) of every feature."""
        return np.asarray(np.isfinite(self.edges).sum(axis=1) + 1)

    def of(self, x: Array) -> Array:
        """Return the band (N, F) of contexts x (N, p): how many edges lie at or below."""
        band = np.zeros((self.columns.size, x.shape[0]), dtype=np.int8)
        for i, (at, n) in enumerate(zip(self.columns, self.n, strict=True)):
            values = np.ascontiguousarray(x[:, at])
            for edge in self.edges[i, : n - 1]:
                band[i] += values >= edge
        return band.T


def bands_of(schema: Schema, features: Sequence[str], reference: Array) -> Bands:
    """Return the bands of the features, from reference contexts (n, p).

    A category is a feature for every level of it. A feature that is the same in all reference
    contexts has one band.
    """
    columns = list(dict.fromkeys(at for name in features for at in schema.positions[name]))
    kinds = {at: kind for name, kind in schema.columns.items() for at in schema.positions[name]}
    is_flag = np.array([not isinstance(kinds[at], Number) for at in columns], dtype=bool)
    edges = np.full((len(columns), MOST - 1), np.inf)
    for row, at, is_two in zip(edges, columns, is_flag, strict=True):
        found = np.array([0.5]) if is_two else _edges(reference[:, at])
        row[: found.size] = found
    names = tuple(schema.names[at] for at in columns)
    return Bands(names, np.array(columns, dtype=np.int64), is_flag, edges)


def _edges(values: Array) -> Array:
    """Return what lies between the bands of a number."""
    known = np.unique(values)
    if known.size <= MOST:
        return np.asarray((known[1:] + known[:-1]) / 2)
    inner = np.unique(np.quantile(values, np.arange(1, MOST) / MOST))
    return np.asarray(inner[inner > known[0]])  # else the first band would be empty


def fates(proposed: Array, executed: Executed, is_ordered: bool = True) -> tuple[Array, Array]:
    """Return what became of proposals (N, D), by `FATES`: (N,), and log(executed / proposed) (N,).

    Actions are compared on their first coordinate. What ran changed with that coordinate as it
    was, or with one that has no order (a category), is 'other'. 'vetoed' is all that was not let
    through. The logarithm is 0 unless raised or lowered, and NaN where an action is not positive.

    Examples
    --------
    Of four proposals of 100 one passes, one is raised by a tenth, one lowered, one stopped.

    >>> own, null = np.array([True, False, False, False]), np.array([False, False, False, True])
    >>> ran = np.array([[100.0], [110.0], [80.0], [np.nan]])
    >>> fate, log = fates(np.full((4, 1), 100.0), Executed(ran, null, own, ~own))
    >>> [FATES[i] for i in fate], log.round(4).tolist()
    (['passed', 'raised', 'lowered', 'vetoed'], [0.0, 0.0953, -0.2231, 0.0])
    """
    fate = np.where(executed.is_null, VETOED, np.where(executed.is_own, PASSED, OTHER))
    log = np.zeros(fate.shape)
    changed = np.flatnonzero(fate == OTHER)
    if not is_ordered or not changed.size:
        return fate, log
    before, after = proposed[changed, 0], executed.action[changed, 0]
    fate[changed] = np.where(after > before, RAISED, np.where(after < before, LOWERED, OTHER))
    is_positive = (after > 0) & (before > 0)
    ratio = np.divide(after, before, out=np.full(after.shape, np.nan), where=is_positive)
    log[changed] = np.log(ratio)
    return fate, log


def count(counts: Array, group: Array, band: Array, fate: Array, log: Array) -> None:
    """Add N rows of bands (N, F) to counts (R, F, MOST, 6), in place.

    Examples
    --------
    Two rows of one replicate, in bands 0 and 3 of one feature; the second was raised by e^0.1.

    >>> counts, once = np.zeros((1, 1, MOST, 6)), np.array([PASSED, RAISED])
    >>> count(counts, np.zeros(2, int), np.array([[0], [3]]), once, np.array([0.0, 0.1]))
    >>> counts[0, 0, [0, 3]].tolist()
    [[1.0, 0.0, 0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0, 0.0, 0.1]]
    """
    replicates, _, n_bands, width = counts.shape
    n, size = width - 1, replicates * n_bands
    moved = np.flatnonzero((fate == RAISED) | (fate == LOWERED))
    owner, before, logs = group * (n_bands * n) + fate, group[moved] * n_bands, log[moved]
    # A feature at a time: what is in hand then fits into a processor's cache.
    for i, column in enumerate(band.T):
        found = np.bincount(owner + n * column, minlength=size * n)
        counts[:, i, :, :n] += found.reshape(replicates, n_bands, n)
        if moved.size:
            summed = np.bincount(before + column[moved], logs, minlength=size)
            counts[:, i, :, n] += summed.reshape(replicates, n_bands)
