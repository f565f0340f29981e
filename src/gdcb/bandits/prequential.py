"""Score many rows of one cell, each before it is learned, without a solution a row."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.records import Evidence

BLOCK = 64  # rows that are worked out together; behind them the state itself has moved on


def rows_of(evidence: Evidence, index: Array) -> Evidence:
    """Return some rows of evidence."""
    columns: dict[str, Any] = {}
    for one in dataclasses.fields(evidence):
        column = getattr(evidence, one.name)
        columns[one.name] = None if column is None else column[index]
    return Evidence(**columns)


def in_blocks(
    bandit: Any, state: Any, evidence: Evidence, ahead: Callable[[Any, Evidence], Array]
) -> Array:
    """Learn rows of one cell; return each one's log density just before: (N,), NaN if it has none.

    `ahead(state, rows)` says that of a block of rows from the state before the block: what every
    row adds is summed up before any posterior is solved for, so that all of them are at once.
    """
    found = np.full(evidence.cell.shape, np.nan)
    known = np.flatnonzero(np.isfinite(evidence.coord).all(axis=-1) & (evidence.weight > 0))
    for start in range(0, known.size, BLOCK):
        rows = known[start : start + BLOCK]
        some = rows_of(evidence, rows)
        found[rows] = ahead(state, some)
        bandit.update(state, some)
    return found


def before(start: Array, added: Array) -> Array:
    """Return the sums that stand before each of n rows: start (...), added (n, ...).

    >>> before(np.array([1.0]), np.array([[2.0], [3.0], [4.0]])).ravel().tolist()
    [1.0, 3.0, 6.0]
    """
    sums = np.concatenate((start[None], added[:-1]))
    return np.asarray(np.cumsum(sums, axis=0))


def at_nodes(index: Array, share: Array, n_nodes: int) -> Array:
    """Return rows' shares (n, 2^C) of the nodes at `index` as a table: (n, n_nodes)."""
    table, row = np.zeros((index.shape[0], n_nodes)), np.arange(index.shape[0])
    for j in range(index.shape[1]):
        table[row, index[:, j]] += share[:, j]
    return table


def normal_ahead(
    mean: Array, root: Array, phi: Array, y: Array, scale: Array, strength: Array
) -> tuple[Array, Array]:
    """Follow a linear regression through rows r = s·φᵀw + N(0, 1/strength), by rank-one steps.

    Returns mean and variance (n,) of φᵀw before each row; strength 0 teaches nothing.

    Examples
    --------
    w ~ N(0, 1), φ = s = 1 and strength 1: before the rows N(0, 1), after r = 2 N(1, ½).

    >>> one = np.ones(2)
    >>> normal_ahead(np.zeros(1), np.eye(1), np.ones((2, 1)), 2 * one, one, one)
    (array([0., 1.]), array([1. , 0.5]))
    """
    mean, covariance = mean.copy(), root @ root.T
    eta, variance = np.empty(y.shape), np.empty(y.shape)
    for i, row in enumerate(phi):
        reach = covariance @ row
        eta[i], variance[i] = row @ mean, row @ reach
        pull = strength[i] * scale[i]
        gain = pull / (1.0 + pull * scale[i] * variance[i])
        mean += gain * (y[i] - scale[i] * eta[i]) * reach
        covariance -= (gain * scale[i]) * np.outer(reach, reach)
    return eta, variance
