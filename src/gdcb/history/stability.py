"""Did the reward law change, did a gate? Changes and their dates, from sums by time segment.

Within a block (an executed arm, approved or overridden) rewards follow θᵀz, z = (1, φ, distance
from the arm). If θ stays, W_s = Σ_{t ≤ s} (b_t − C_t·θ̂) has the covariance σ²(A_s − A_s·A⁻¹·A_s)
given the regressors, A_s = Σ_{t ≤ s} C_t: contexts and actions may drift as they like. Blocks are
independent, so their W add up: to the level of all of them, of one arm, or to the effect of one
column. The largest |W_s|/sd over the dates is judged by the tail of a Brownian bridge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gdcb.analysis.bridge_tail import bridge_tail
from gdcb.analysis.change_points import SegmentSums, stability
from gdcb.arrays import Array

EDGE = 0.05  # share of the rows on either side of a date that is looked at
LEAST = 10  # rows on either side of it, too
_MOST_CHANGES = 8
_RIDGE = 1e-9


@dataclass(frozen=True, slots=True)
class Change:
    """A change after segment `split` − 1: what, from where to where, and how likely by chance."""

    split: int
    what: str
    before: float
    after: float
    p: float


@dataclass(frozen=True, slots=True)
class Stability:
    """p of 'nothing ever changed', for all components together, and the changes that were found."""

    p: float
    changes: tuple[Change, ...]


@dataclass(slots=True)
class Process:
    """k standardised processes over m dates, and what they are called.

    Parameters
    ----------
    z : (k, m) W/sd
    correlation : (k, m − 1) of neighbouring dates
    is_looked : (k, m) dates with enough rows on either side
    names : (k,)
    sides : (k, m, 2) the mean before and after each date, in the units of the outcome
    """

    z: Array
    correlation: Array
    is_looked: Array
    names: Sequence[str]
    sides: Array


def search(of: Callable[[int, int], Process | None], n: int, level: float) -> Stability:
    """Test all n segments together; where a change is found, look on either side of it again."""
    found: list[Change] = []
    first = 1.0
    waiting = [(0, n)]
    while waiting and len(found) < _MOST_CHANGES:
        low, high = waiting.pop(0)
        process = of(low, high)
        if process is None:
            continue
        height = np.where(process.is_looked, np.abs(process.z), 0.0)
        tails = bridge_tail(height.max(axis=1), process.correlation, process.is_looked)
        p = min(1.0, float(tails.min()) * tails.size)
        first = p if (low, high) == (0, n) else first
        if p > level:
            continue
        j = int(tails.argmin())
        at = int(height[j].argmax())
        before, after = process.sides[j, at].tolist()
        found.append(Change(low + at + 1, process.names[j], before, after, p))
        waiting += [(low, low + at + 1), (low + at + 1, high)]
    return Stability(first, tuple(sorted(found, key=lambda change: change.split)))


def reward_law(
    moments: Array,
    names: Sequence[str],
    arms: Sequence[str],
    level: float,
    robust: Array,
    coords: Array | None = None,
) -> Stability:
    """Test whether rewards follow one law, given what ran and where.

    What may change are the level of all rewards, the value of one arm, the effect of one column,
    and, where arms are numbers, the slope of the reward along them.

    Parameters
    ----------
    moments : (S, K + 1, 2, q, q) as in `Statistics`; rows off every arm are left out
    names, arms : of the regressors behind the level, and of the arms
    robust : (q − 1,) by how much the variance of each score exceeds σ²·z² (heteroscedasticity)
    coords : (K, C) coordinates of the arms that are numbers
    """
    n_arms = len(arms)
    blocks = moments[:, :n_arms].reshape(moments.shape[0], -1, *moments.shape[-2:])
    owner = np.repeat(np.arange(n_arms), 2)
    along = np.empty((n_arms, 0)) if coords is None else coords

    def of(low: int, high: int) -> Process | None:
        return _law(blocks[low:high], owner, names, arms, robust, along)

    return search(of, moments.shape[0], level)


def _law(
    blocks: Array,
    owner: Array,
    names: Sequence[str],
    arms: Sequence[str],
    robust: Array,
    coords: Array,
) -> Process | None:
    """Return the processes of all levels and effects over segments (S, blocks, q, q)."""
    d = blocks.shape[-1] - 1
    n = blocks[..., 0, 0]
    keep = np.flatnonzero(n.sum(axis=0) >= 5 * d)
    if blocks.shape[0] < 2 or not keep.size:
        return None
    blocks, owner, n = blocks[:, keep], owner[keep], n[:, keep]
    gram, cross, square = blocks[..., :d, :d], blocks[..., :d, d], blocks[..., d, d]
    total = gram.sum(axis=0)
    size = n.sum(axis=0)
    inverse = np.linalg.inv(total + _RIDGE * size[:, None, None] * np.eye(d))
    theta = (inverse @ cross.sum(axis=0)[..., None])[..., 0]
    left = square.sum(axis=0) - (theta * cross.sum(axis=0)).sum(axis=-1)
    noise = np.maximum(left, 0.0) / np.maximum(size - d, 1.0) + 1e-300
    score = np.cumsum(cross - (gram @ theta[..., None])[..., 0], axis=0)[:-1]  # (m, B, d)
    so_far = np.cumsum(gram, axis=0)  # (S, B, d, d)
    through = so_far @ inverse
    # diag(A_s − A_s·A⁻¹·A_t) for t = s and t = s + 1
    here, there = so_far[:-1], so_far[1:]
    diagonal = np.einsum("sbii->sbi", here)
    variance = diagonal - np.einsum("sbij,sbji->sbi", through[:-1], here)
    along = diagonal - np.einsum("sbij,sbji->sbi", through[:-1], there)
    scale = noise[:, None] * robust
    variance, along = np.maximum(variance, 0.0) * scale, along * scale
    rows = np.cumsum(n, axis=0)
    everyone, judged = np.ones(owner.size), np.unique(owner)
    members = [(0, everyone, "the level of the reward")]
    if judged.size > 1:
        members += [(0, 1.0 * (owner == arm), f"the value of arm “{arms[arm]}”") for arm in judged]
        members += [(0, h, "the slope along the arms") for h in _slopes(coords[owner], size)]
    members += [(j + 1, everyone, f"the effect of {name}") for j, name in enumerate(names)]
    parts = [_pooled(j, who, score, variance, along, rows, size) for j, who, _ in members]
    z, correlation, looked, sides = (np.stack(part) for part in zip(*parts, strict=True))
    return Process(z, correlation, looked, [name for *_, name in members], sides)


def _slopes(coords: Array, size: Array) -> list[Array]:
    """Return blocks' coordinates (B,), each with mean 0 and variance 1 over the rows."""
    share = size / size.sum()
    found = []
    for column in coords.T:
        centred = column - (share * column).sum()
        spread = np.sqrt((share * centred**2).sum())
        found += [centred / spread] if spread > 0 else []
    return found


def _pooled(
    j: int, h: Array, score: Array, variance: Array, along: Array, rows: Array, size: Array
) -> tuple[Array, Array, Array, Array]:
    """Add up one component over blocks, each with weight h (B,).

    Returns z, the correlation of neighbours, where to look, and the sides: Σh·u/Σh² of the
    residuals u before and after each date, the size of a step along h.
    """
    h2 = h * h
    w, v, c = score[..., j] @ h, variance[..., j] @ h2, along[:-1, :, j] @ h2
    is_in = h != 0
    before, total = rows[:-1, is_in].sum(axis=1), float(size[is_in].sum())
    safe = np.where(v > 0, v, 1.0)
    looked = (v > 0) & is_inside(before, total)
    correlation = np.clip(c / np.sqrt(safe[:-1] * safe[1:]), 0.0, 1.0)
    weight, whole = rows[:-1] @ h2, float(size @ h2)
    sides = np.stack((w / np.maximum(weight, 1.0), -w / np.maximum(whole - weight, 1.0)), axis=-1)
    return w / np.sqrt(safe), correlation, looked, sides


def is_inside(before: Array, total: float) -> Array:
    """Whether a date has enough rows on either side."""
    least = max(EDGE * total, float(LEAST))
    return np.asarray((before >= least) & (total - before >= least))


def gate_changes(acted: Array, name: str, level: float) -> Stability:
    """Test whether a gate acts as often as ever on what enters it: (S, …, 2) rows, and acted on.

    What entered, and the stratum of its context, each have a rate of their own; the excess over it
    is followed over time. Before and after are the shares that it let pass.
    """
    n, k = acted.shape[0], int(np.prod(acted.shape[1:-1]))
    rows, changed = (acted[..., j].reshape(n, k) for j in range(2))
    held = np.flatnonzero(rows.sum(axis=1) > 0)
    if held.size < 2 or rows.sum() < 2 * LEAST:
        return Stability(1.0, ())
    rows, changed = rows[held], changed[held]
    seen = rows.sum(axis=0)
    rate = changed.sum(axis=0) / np.where(seen > 0, seen, 1.0)
    count, excess = rows.sum(axis=1), (changed - rate * rows).sum(axis=1)
    square = (changed * (1.0 - 2.0 * rate) + rows * rate**2).sum(axis=1)
    sums = SegmentSums(count, count[:, None, None], excess[:, None], square)
    found = stability(sums, level, [name], trim=EDGE, least_rows=LEAST)
    splits = [point.split for point in found.change_points]
    passed = [
        1.0 - float(changed[a:b].sum() / max(rows[a:b].sum(), 1.0))
        for a, b in pairwise([0, *splits, held.size])
    ]
    changes = [
        Change(int(held[point.split]), name, passed[i], passed[i + 1], point.p)
        for i, point in enumerate(found.change_points)
    ]
    return Stability(found.p, tuple(changes))
