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
_EXACT = 1e-12  # of Σy²: residuals smaller than that are rounding
_SHOWN = 1e-7  # of a component's Σz²: less information on a step is rounding
_PRIOR_ROWS = 10.0  # that the variance of all segments is worth beside a segment's own
ROWS_A_COLUMN = 5  # of a block that has slopes of its own
_LEAST_SHARE = 0.5  # of the rows; where fewer are in such blocks, all blocks share their slopes


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
    rows = blocks[..., 0, 0].sum(axis=0)
    is_large = rows >= ROWS_A_COLUMN * (blocks.shape[-1] - 1)
    if rows[is_large].sum() < _LEAST_SHARE * rows.sum():
        return _law_of_few(moments[:, :n_arms], names, arms, level, robust, along)

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
    keep = np.flatnonzero(n.sum(axis=0) >= ROWS_A_COLUMN * d)
    if blocks.shape[0] < 2 or not keep.size:
        return None
    blocks, owner, n = blocks[:, keep], owner[keep], n[:, keep]
    gram, cross, square = blocks[..., :d, :d], blocks[..., :d, d], blocks[..., d, d]
    total = gram.sum(axis=0)
    size = n.sum(axis=0)
    inverse = np.linalg.inv(total + _RIDGE * size[:, None, None] * np.eye(d))
    theta = (inverse @ cross.sum(axis=0)[..., None])[..., 0]
    left = square - 2.0 * (cross * theta).sum(axis=-1)
    left = np.maximum(left + ((gram @ theta[..., None])[..., 0] * theta).sum(axis=-1), 0.0)
    whole = np.maximum(left.sum(axis=0), _EXACT * square.sum(axis=0))
    noise = whole / np.maximum(size - d, 1.0) + 1e-300
    # Segments differ in their variance, too: (S,), as a share of the usual one.
    rest = (left / noise).sum(axis=1)
    rest, near = (_around(part) for part in (rest * size.sum() / max(rest.sum(), 1e-300), n.sum(1)))
    local = (rest + _PRIOR_ROWS) / (near + _PRIOR_ROWS)
    score = np.cumsum(cross - (gram @ theta[..., None])[..., 0], axis=0)[:-1]  # (m, B, d)
    information, variance, along = _second_moments(gram, inverse, local)
    scale = noise[:, None] * robust
    variance, along = np.maximum(variance, 0.0) * scale, along * scale
    squares = np.einsum("bii->bi", total)
    rows = np.cumsum(n, axis=0)
    everyone, judged = np.ones(owner.size), np.unique(owner)
    members = [(0, everyone, "the level of the reward")]
    if judged.size > 1:
        members += [(0, 1.0 * (owner == arm), f"the value of arm “{arms[arm]}”") for arm in judged]
        members += [(0, h, "the slope along the arms") for h in _slopes(coords[owner], size)]
    members += [(j + 1, everyone, f"the effect of {name}") for j, name in enumerate(names)]
    sums = (score, information, variance, along)
    parts = [_pooled(j, who, sums, squares, rows, size) for j, who, _ in members]
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


def _around(sums: Array) -> Array:
    """Add up each segment and its two neighbours on either side."""
    far = np.concatenate((np.zeros(3), sums, np.zeros(2))).cumsum()
    return np.asarray(far[5:] - far[:-5])


def _second_moments(gram: Array, inverse: Array, local: Array) -> tuple[Array, Array, Array]:
    """Return diagonals (m, B, d): what W_s says of a step, Var(W_s)/σ² and Cov(W_s, W_{s+1})/σ².

    With H_s = A_s·A⁻¹ and M_s = Σ_{t ≤ s} local_t·C_t: A_s − H_s·A_s, and
    Cov(W_s, W_t) = M_s − M_s·H_tᵀ − H_s·M_t + H_s·M·H_tᵀ.
    """
    so_far = np.cumsum(gram, axis=0)
    meat = np.cumsum(local[:, None, None, None] * gram, axis=0)
    through = so_far @ inverse
    whole = through @ meat[-1]
    here, there = slice(None, -1), slice(1, None)
    parts = []
    for t in (here, there):
        known = np.einsum("sbii->sbi", meat[here])
        known = known - (meat[here] * through[t]).sum(axis=-1)
        known = known - (through[here] * meat[t]).sum(axis=-1)
        parts.append(known + (whole[here] * through[t]).sum(axis=-1))
    information = np.einsum("sbii->sbi", so_far[here]) - (through[here] * so_far[here]).sum(axis=-1)
    return information, parts[0], parts[1]


def _pooled(
    j: int,
    h: Array,
    sums: tuple[Array, Array, Array, Array],
    squares: Array,
    rows: Array,
    size: Array,
) -> tuple[Array, Array, Array, Array]:
    """Add up one component over blocks, each with weight h (B,).

    Returns z, the correlation of neighbours, where to look, and the sides: by how much outcomes
    are off before and after each date. A step Δ along h moves W by −Δ·Σh²I, I the information on
    it, and outcomes by Δ times the regressor's root mean square.
    """
    score, information, variance, along = sums
    h2 = h * h
    w, v, c = score[..., j] @ h, variance[..., j] @ h2, along[:-1, :, j] @ h2
    is_in = h != 0
    before, total = rows[:-1, is_in].sum(axis=1), float(size[is_in].sum())
    told, weight = information[..., j] @ h2, float(squares[:, j] @ h2)
    looked = (v > 0) & (told > _SHOWN * weight) & is_inside(before, total)
    deviation = np.sqrt(np.where(looked, v, 1.0))
    both = deviation[:-1] * deviation[1:]
    correlation = np.clip(np.where(looked[:-1] & looked[1:], c / both, 0.0), 0.0, 1.0)
    step = -w / np.where(looked, told, np.inf) * np.sqrt(weight / float(size @ h2))
    share = rows[:-1] @ h2 / float(size @ h2)
    sides = np.stack((-step * (1.0 - share), step * share), axis=-1)
    return np.where(looked, w, 0.0) / deviation, correlation, looked, sides


def _law_of_few(
    moments: Array,
    names: Sequence[str],
    arms: Sequence[str],
    level: float,
    robust: Array,
    coords: Array,
) -> Stability:
    """Test the law where blocks have too few rows for slopes of their own: (S, K, 2, q, q).

    Arms and overridden rows have levels of their own, and share the slopes.
    """
    by_segment = moments[..., 0, 0].sum(axis=2)  # (S, K)
    n = by_segment.sum(axis=0)
    keep, d = np.flatnonzero(n >= LEAST), moments.shape[-1] - 1
    held = np.flatnonzero(by_segment[:, keep].sum(axis=1) > 0)
    if held.size < 2 or not keep.size or n[keep].sum() < 2 * (keep.size + d):
        return Stability(1.0, ())
    some = moments[np.ix_(held, keep)]
    both, over = some.sum(axis=2), some[:, :, 1].sum(axis=1)  # (S, K, q, q), (S, q, q)
    k = keep.size
    has_over = int(over[:, 0, 0].sum() >= LEAST)
    width = k + has_over + d - 1
    gram, cross = np.zeros((held.size, width, width)), np.zeros((held.size, width))
    at, slopes = np.arange(k), np.arange(k + has_over, width)
    gram[:, at, at] = both[..., 0, 0]
    gram[:, :k, slopes] = both[..., 0, 1:d]
    gram[:, slopes, :k] = both[..., 0, 1:d].transpose(0, 2, 1)
    gram[:, slopes[:, None], slopes] = both[..., 1:d, 1:d].sum(axis=1)
    cross[:, :k], cross[:, slopes] = both[..., 0, d], both[..., 1:d, d].sum(axis=1)
    if has_over:
        gram[:, k, k], cross[:, k] = over[:, 0, 0], over[:, 0, d]
        gram[:, k, at] = gram[:, at, k] = some[:, :, 1, 0, 0]
        gram[:, k, slopes] = gram[:, slopes, k] = over[:, 0, 1:d]
    rows = both[..., 0, 0].sum(axis=1)
    sums = SegmentSums(rows, gram, cross, both[..., d, d].sum(axis=1))
    known = [f"the value of arm “{arms[a]}”" for a in keep.tolist()]
    known += ["the level of overridden rows"] * has_over + [f"the effect of {j}" for j in names]
    directions = {"the level of the reward": (np.arange(width) < k) * 1.0}
    for i, h in enumerate(_slopes(coords[keep], n[keep])):
        name = "the slope along the arms" + (f" ({i})" if coords.shape[1] > 1 else "")
        directions[name] = np.concatenate((h, np.zeros(width - k)))
    kappa = np.full(width + len(directions), robust[0])
    kappa[slopes] = robust[1:]
    spread = np.ones(width + len(directions))
    spread[slopes] = np.sqrt(np.einsum("sii->i", gram)[slopes] / rows.sum())
    found = stability(
        sums, level, known, directions=directions, kappa=kappa, trim=EDGE, least_rows=LEAST
    )
    size = dict(zip((*known, *directions), spread.tolist(), strict=True))
    changes = [
        Change(
            int(held[one.split]),
            one.component,
            one.before * size[one.component],
            one.after * size[one.component],
            one.p,
        )
        for one in found.change_points
    ]
    return Stability(found.p, tuple(changes))


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
