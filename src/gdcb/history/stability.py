"""Did the reward law change? Changes and their dates, from sums by time segment.

Within a block (an executed arm, approved or overridden) rewards follow θᵀz, z = (1, φ, distance
from the arm). If θ stays, W_s = Σ_{t ≤ s} (b_t − C_t·θ̂) has the covariance σ²(A_s − A_s·A⁻¹·A_s)
given the regressors, A_s = Σ_{t ≤ s} C_t: contexts and actions may drift as they like. Blocks are
independent, so their W add up: to the level of all of them, of one arm, or to the effect of one
column. The largest |W_s|/sd over the dates is judged by the tail of a Brownian bridge. Where
outcomes are rare or very uneven that tail is wrong, and a change must also stand out among
residuals that were shuffled within arms, between rows of about the same fitted value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from gdcb.analysis.bridge_tail import bridge_tail
from gdcb.analysis.change_points import SegmentSums, stability
from gdcb.analysis.resampled import events, in_bands, is_rare, resampled_p, shuffled
from gdcb.analysis.step_search import Confirm, Step, StepSearch
from gdcb.arrays import Array

EDGE = 0.05  # share of the rows on either side of a date that is looked at
LEAST = 10  # rows on either side of it, too
_MOST_CHANGES = 8
_RIDGE = 1e-9
_EXACT = 1e-12  # of Σy²: residuals smaller than that are rounding
_SHOWN = 1e-7  # of a component's Σz²: less information on a step is rounding
_PRIOR_ROWS = 10.0  # normal ones, that the variance of all is worth beside a segment's own
_PEAKED = 30.0  # kurtosis from which on a segment's own variance says little
ROWS_A_COLUMN = 5  # of a block that has slopes of its own
_LEAST_SHARE = 0.5  # of the rows; where fewer are in such blocks, all blocks share their slopes
LEVEL, OVERRIDDEN = "the level of the reward", "the level of overridden rows"  # what may change
EFFECT, VALUE, SLOPE = "the effect of {}", "the value of arm “{}”", "the slope along the arms"
TOO_FEW, ONLY_A_SAMPLE = "too few rows", "only a sample of the rows is kept"  # why not tested
SEED = 20  # of shuffles: the same log has the same certificate


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
    """p of 'nothing ever changed', for all components together, and the changes that were found.

    Parameters
    ----------
    p : 1 where not tested
    changes : in the order of time
    untested : why a change could not have been found; '': it could
    is_certain : whether the changes of a gate can be told from swings
    """

    p: float
    changes: tuple[Change, ...]
    untested: str = ""
    is_certain: bool = True


@dataclass(frozen=True, slots=True)
class LawRows:
    """Rows with an outcome on an arm, as the law is fitted to them: of the log, or of a sample.

    Parameters
    ----------
    z : (N, q − 1) regressors (1, φ, distance from the arm)
    y : (N,) outcome
    weight : (N,)
    block : (N,) 2·arm, and 1 more where a person had put the action in place of another
    segment : (N,) of time
    time, unit : (N,)
    share : of the log's rows that these are
    """

    z: Array
    y: Array
    weight: Array
    block: Array
    segment: Array
    time: Array
    unit: Array
    share: float = 1.0

    def take(self, index: Array) -> LawRows:
        """Return the rows at `index`."""
        names = ("z", "y", "weight", "block", "segment", "time", "unit")
        return replace(self, **{name: getattr(self, name)[index] for name in names})

    def since(self, segment: int) -> LawRows:
        """Return the rows from a segment on."""
        return self if segment == 0 else self.take(np.flatnonzero(self.segment >= segment))


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
    theta : (B, q − 1) the law of each block
    blocks : (B,) which blocks these are
    largest : from other data's Σ zy (S, B, q − 1, P) to their largest |W|/sd (k, P)
    """

    z: Array
    correlation: Array
    is_looked: Array
    names: Sequence[str]
    sides: Array
    theta: Array
    blocks: Array
    largest: Callable[[Array], Array]


Again = Callable[[int, int, Process], tuple[float, int] | None]


def search(
    of: Callable[[int, int], Process | None], n: int, level: float, again: Again | None = None
) -> Stability:
    """Test all n segments together; where a change is found, look on either side of it again.

    `again` tests a change by resampling, and returns its p and which component it is; None where
    the normal reference is good.
    """
    found: list[Change] = []
    first, untested = 1.0, ""
    waiting = [(0, n)]
    while waiting and len(found) < _MOST_CHANGES:
        low, high = waiting.pop(0)
        process = of(low, high)
        if process is None:
            untested = TOO_FEW if (low, high) == (0, n) else untested
            continue
        height = np.where(process.is_looked, np.abs(process.z), 0.0)
        tails = bridge_tail(height.max(axis=1), process.correlation, process.is_looked)
        p, j = min(1.0, float(tails.min()) * tails.size), int(tails.argmin())
        if p <= level and again is not None:
            told = again(low, high, process)
            p, j = (p, j) if told is None else (max(p, told[0]), told[1])
        first = p if (low, high) == (0, n) else first
        if p > level:
            continue
        at = int(height[j].argmax())
        before, after = process.sides[j, at].tolist()
        found.append(Change(low + at + 1, process.names[j], before, after, p))
        waiting += [(low, low + at + 1), (low + at + 1, high)]
    return Stability(first, tuple(sorted(found, key=lambda change: change.split)), untested)


def reward_law(
    moments: Array,
    names: Sequence[str],
    arms: Sequence[str],
    level: float,
    robust: Array,
    coords: Array | None = None,
    rows: LawRows | None = None,
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
    rows : to test a change again where the normal reference is not good; None: it is believed
    """
    n_arms = len(arms)
    blocks = moments[:, :n_arms].reshape(moments.shape[0], -1, *moments.shape[-2:])
    owner = np.repeat(np.arange(n_arms), 2)
    along = np.empty((n_arms, 0)) if coords is None else coords
    size = blocks[..., 0, 0].sum(axis=0)
    is_large = size >= ROWS_A_COLUMN * (blocks.shape[-1] - 1)
    if size[is_large].sum() < _LEAST_SHARE * size.sum():
        return _law_of_few(moments[:, :n_arms], names, arms, level, robust, along, rows)

    prior = _PRIOR_ROWS * (1.0 if rows is None else max(0.5 * (kurtosis(rows) - 1.0), 1.0))

    def of(low: int, high: int, some: Array = blocks) -> Process | None:
        return _law(some[low:high], owner, names, arms, robust, along, prior)

    sample = blocks if rows is None or rows.share == 1.0 else _sums(rows, blocks.shape)

    def again(low: int, high: int, process: Process) -> tuple[float, int] | None:
        own = process if sample is blocks else of(low, high, sample)
        if rows is None or own is None:
            return None if rows is None else (1.0, 0)
        told = _shuffled_law(rows, low, high, own, level)
        if told is None or own.names[told[1]] not in process.names:
            return told if told is None else (1.0, 0)
        return told[0], process.names.index(own.names[told[1]])

    return search(of, moments.shape[0], level, again)


def followed(
    rows: LawRows, names: Sequence[str], arms: Sequence[str], coords: Array, what: str
) -> Array:
    """Return the regressor (N,) of what changed, by the name that `reward_law` gave it."""
    arm = rows.block // 2
    if what == LEVEL:
        return np.ones(rows.y.size)
    if what == OVERRIDDEN:
        return np.asarray(rows.block % 2, dtype=float)
    for j, name in enumerate(names):
        if what == EFFECT.format(name):
            return np.asarray(rows.z[:, j + 1] - rows.z[:, j + 1].mean())
    for a, name in enumerate(arms):
        if what == VALUE.format(name):
            return np.asarray(arm == a, dtype=float)
    slopes = coords[arm] - coords[arm].mean(axis=0)
    _, _, i = what.removeprefix(SLOPE).rpartition("(")
    return np.asarray(slopes[:, int(i.rstrip(")") or 0)])


def law_of_blocks(sums: Array) -> Array:
    """Return each block's law θ (blocks, d) from its moments (blocks, d + 1, d + 1).

    With few rows a line of its own comes too near to them: such blocks share their slopes.
    """
    d = sums.shape[-1] - 1
    n = sums[:, 0, 0]
    gram = sums[:, :d, :d] + 1e-6 * np.maximum(n, 1.0)[:, None, None] * np.eye(d)
    theta = np.linalg.solve(gram, sums[:, :d, d][..., None])[..., 0]
    mean = sums[:, 0, 1:] / np.maximum(n, 1.0)[:, None]
    within = (sums[:, 1:, 1:] - n[:, None, None] * mean[:, :, None] * mean[:, None]).sum(axis=0)
    p = d - 1
    shared = np.linalg.solve(within[:p, :p] + 1e-6 * n.sum() * np.eye(p), within[:p, p])
    level = mean[:, p] - mean[:, :p] @ shared
    drawn = np.concatenate((level[:, None], np.broadcast_to(shared, (n.size, p))), axis=1)
    return np.where((n >= ROWS_A_COLUMN * d)[:, None], theta, drawn)


def _shuffled_law(
    rows: LawRows, low: int, high: int, process: Process, level: float
) -> tuple[float, int] | None:
    """Return p of a change in segments low to high − 1 among shuffled residuals; None: not needed.

    Where only a sample of the rows is kept, the process is that of the sample.
    """
    known = np.flatnonzero((rows.segment >= low) & (rows.segment < high))
    place = np.full(int(max(rows.block.max(initial=0), process.blocks.max())) + 1, -1)
    place[process.blocks] = np.arange(process.blocks.size)
    some = rows.take(known[place[rows.block[known]] >= 0])
    block = place[some.block]
    fitted = (some.z * process.theta[block]).sum(axis=1)
    root = np.sqrt(some.weight)
    left = root * (some.y - fitted)
    scores = root[:, None] * some.z * left[:, None]
    if not is_rare(scores, rows.share):
        return None
    z, n_blocks = root[:, None] * some.z, process.blocks.size
    at = (some.segment - low) * n_blocks + block
    order = np.argsort(at, kind="stable")
    starts = np.flatnonzero(np.diff(at[order], prepend=-1))
    stops = [*starts[1:], order.size][: starts.size]
    shape = (high - low, n_blocks, z.shape[1])

    def cross(values: Array) -> Array:
        out = np.zeros((shape[0] * shape[1], shape[2], values.shape[1]))
        for start, stop in zip(starts, stops, strict=True):
            here = order[start:stop]
            out[at[here[0]]] = z[here].T @ values[here]
        return out.reshape(*shape, values.shape[1])

    rng, group = np.random.default_rng(SEED), in_bands(fitted, block)
    size = max(left.size, int(np.prod(shape)))
    return resampled_p(
        process.largest,
        cross(left[:, None]),
        lambda n: cross(shuffled(left, group, n, rng)),
        level,
        size,
    )


def _sums(rows: LawRows, shape: tuple[int, ...]) -> Array:
    """Return the sums (S, blocks, q, q) of a sample's rows."""
    out = np.zeros(shape)
    z = np.concatenate((rows.z, rows.y[:, None]), axis=1)
    at = rows.segment * shape[1] + rows.block
    order = np.argsort(at, kind="stable")
    starts = np.flatnonzero(np.diff(at[order], prepend=-1))
    for part in np.split(order, starts[1:]):
        some = z[part]
        out[rows.segment[part[0]], rows.block[part[0]]] = (some * rows.weight[part, None]).T @ some
    return out


def kurtosis(rows: LawRows) -> float:
    """Return that of outcomes around their block's mean: 3 if normal, 1/rate of rare ones."""
    size = np.bincount(rows.block, rows.weight)
    total = np.bincount(rows.block, rows.weight * rows.y)
    left = rows.y - (total / np.where(size > 0, size, 1.0))[rows.block]
    square = rows.weight * left**2
    return float(rows.y.size / max(float(events(np.sqrt(square)[:, None])[0]), 1.0))


def _law(
    blocks: Array,
    owner: Array,
    names: Sequence[str],
    arms: Sequence[str],
    robust: Array,
    coords: Array,
    prior: float,
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
    local = (rest + prior) / (near + prior)
    score = np.cumsum(cross - (gram @ theta[..., None])[..., 0], axis=0)[:-1]  # (m, B, d)
    information, variance, along = _second_moments(gram, inverse, local)
    scale = noise[:, None] * robust
    variance, along = np.maximum(variance, 0.0) * scale, along * scale
    squares = np.einsum("bii->bi", total)
    rows = np.cumsum(n, axis=0)
    everyone, judged = np.ones(owner.size), np.unique(owner)
    members = [(0, everyone, LEVEL)]
    if judged.size > 1:
        members += [(0, 1.0 * (owner == arm), VALUE.format(arms[arm])) for arm in judged]
        members += [(0, h, SLOPE) for h in _slopes(coords[owner], size)]
    members += [(j + 1, everyone, EFFECT.format(name)) for j, name in enumerate(names)]
    sums = (score, information, variance, along)
    parts = [_pooled(j, who, sums, squares, rows, size) for j, who, _ in members]
    z, correlation, looked, sides, sd = (np.stack(part) for part in zip(*parts, strict=True))
    so_far = np.cumsum(gram, axis=0)[:-1]

    def largest(other: Array) -> Array:
        own = np.cumsum(other, axis=0)[:-1] - so_far @ (inverse @ other.sum(axis=0))
        return np.stack(
            [
                (np.abs(np.tensordot(own[:, :, j], h, (1, 0))) * (seen / one)[:, None]).max(axis=0)
                for (j, h, _), seen, one in zip(members, looked, sd, strict=True)
            ]
        )

    told = [name for *_, name in members]
    return Process(z, correlation, looked, told, sides, theta, keep, largest)


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
) -> tuple[Array, Array, Array, Array, Array]:
    """Add up one component over blocks, each with weight h (B,).

    Returns z, the correlation of neighbours, where to look, the sides (by how much outcomes are
    off before and after each date), and the standard deviations behind z. A step Δ along h moves W
    by −Δ·Σh²I, I the information on it, and outcomes by Δ times the regressor's root mean square.
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
    return np.where(looked, w, 0.0) / deviation, correlation, looked, sides, deviation


def _law_of_few(
    moments: Array,
    names: Sequence[str],
    arms: Sequence[str],
    level: float,
    robust: Array,
    coords: Array,
    by_row: LawRows | None = None,
) -> Stability:
    """Test the law where blocks have too few rows for slopes of their own: (S, K, 2, q, q).

    Arms and overridden rows have levels of their own, and share the slopes.
    """
    by_segment = moments[..., 0, 0].sum(axis=2)  # (S, K)
    n = by_segment.sum(axis=0)
    keep, d = np.flatnonzero(n >= LEAST), moments.shape[-1] - 1
    held = np.flatnonzero(by_segment[:, keep].sum(axis=1) > 0)
    if held.size < 2 or not keep.size or n[keep].sum() < 2 * (keep.size + d):
        return Stability(1.0, (), TOO_FEW)
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
    known = [VALUE.format(arms[a]) for a in keep.tolist()]
    known += [OVERRIDDEN] * has_over + [EFFECT.format(j) for j in names]
    directions = {LEVEL: (np.arange(width) < k) * 1.0}
    for i, h in enumerate(_slopes(coords[keep], n[keep])):
        name = SLOPE + (f" ({i})" if coords.shape[1] > 1 else "")
        directions[name] = np.concatenate((h, np.zeros(width - k)))
    kappa = np.full(width + len(directions), robust[0])
    kappa[slopes] = robust[1:]
    spread = np.ones(width + len(directions))
    spread[slopes] = np.sqrt(np.einsum("sii->i", gram)[slopes] / rows.sum())
    confirm = None
    untested: list[str] = []
    is_peaked = by_row is not None and kurtosis(by_row) > _PEAKED
    if by_row is not None:
        confirm = _shuffled_few(by_row, keep, held, has_over, level, untested)
    found = stability(
        sums,
        level,
        known,
        directions=directions,
        kappa=kappa,
        trim=EDGE,
        least_rows=LEAST,
        variance="common" if is_peaked else "segment",
        confirm=confirm,
    )
    size = dict(zip((*known, *directions), spread.tolist(), strict=True))
    changes = [
        Change(
            int(held[one.split]),
            one.component,
            one.before * size[one.component],
            one.after * size[one.component],
            max(one.p, found.p) if confirm is not None else one.p,
        )
        for one in found.change_points
    ]
    is_silent = not changes and untested
    return Stability(found.p, tuple(changes), untested[0] if is_silent else "")


def _shuffled_few(
    rows: LawRows, keep: Array, held: Array, has_over: int, level: float, untested: list[str]
) -> Confirm | None:
    """Return the test of a step among shuffled residuals, of arms that share their slopes.

    `untested` is told where it would be needed and only a sample of the rows is kept.
    """
    arm = np.full(int(max(rows.block.max(initial=0) // 2, keep.max())) + 1, -1)
    arm[keep] = np.arange(keep.size)
    at = np.full(int(max(rows.segment.max(initial=0), held.max())) + 1, -1)
    at[held] = np.arange(held.size)
    some = rows.take(np.flatnonzero((arm[rows.block // 2] >= 0) & (at[rows.segment] >= 0)))
    place, segment = arm[some.block // 2], at[some.segment]
    z = np.zeros((some.y.size, keep.size + has_over + some.z.shape[1] - 1))
    z[np.arange(some.y.size), place] = 1.0
    if has_over:
        z[:, keep.size] = some.block % 2
    z[:, keep.size + has_over :] = some.z[:, 1:]
    root = np.sqrt(some.weight)
    order = np.argsort(segment, kind="stable")
    edges = np.searchsorted(segment[order], np.arange(held.size + 1))

    def cross(values: Array) -> Array:
        parts = [order[a:b] for a, b in pairwise(edges.tolist())]
        return np.stack([(root[part, None] * z[part]).T @ values[part] for part in parts])

    def confirm(found: StepSearch, steps: Sequence[Step]) -> tuple[float, int] | None:
        fitted = (z * found.coefficients(steps)[segment]).sum(axis=1)
        left = root * (some.y - fitted)
        if not is_rare((root * left)[:, None] * z, rows.share):
            return None
        if rows.share < 1.0:
            untested.append(ONLY_A_SAMPLE)
            return 1.0, 0
        regime = np.searchsorted(np.sort([split for _, split in steps]), segment, side="right")
        rng, group = np.random.default_rng(SEED), in_bands(fitted, regime)
        return resampled_p(
            found.largest(steps),
            cross(left[:, None]),
            lambda n: cross(shuffled(left, group, n, rng)),
            level,
            max(left.size, held.size * z.shape[1]),
        )

    return confirm


def is_inside(before: Array, total: float) -> Array:
    """Whether a date has enough rows on either side."""
    least = max(EDGE * total, float(LEAST))
    return np.asarray((before >= least) & (total - before >= least))
