"""How one column of a log follows from others: from the outcome, the action, or two of them.

Each question is asked of plain columns, with room for rounding, noise and rows that are off.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from gdcb.arrays import Array

FEWEST = 50  # rows below which nothing is said
RARE = 20  # rows that have another outcome than the most common one, at least
_ERRORS = 0.001  # rows that a column which determines another may miss
_LINE = 0.999  # |correlation| of a column and a continuous outcome
_SAME = 0.999_99  # the same with an action: a base alone correlates highly
BANDS = 20  # of a column, in each of which the outcome has a mean of its own
_CHANCE = 1e-6  # below which a value that always has the same outcome is no coincidence
TELLS = 0.5  # share of an outcome from which a single column is suspicious
FEW = 10  # different numbers up to which each may earn a reward of its own
_COUNTED = 30  # different numbers up to which an action is not rounded, but counted
_LOST = 0.25  # share of a column's variance, at most, that the rounding of an action explains
_NEARLY = 0.025  # relative deviation, about, of a column that is nearly a ratio of two others
_NEARLY_LEFT = 0.07  # share of its (log) variance that is left then, at most
_ADDS = 0.95  # share of rows, at least, in which a running total moves as the outcome does
POINTED = 0.25  # share of an outcome from which it is asked whether a column was known
_LEFT = 0.001  # share of a column's variance that two others which make it up may leave
ALIKE = 0.98  # of a column, that a curve which only rises or falls tells: it is a function
ASKED = 0.9  # the same, from which it is asked whether the column was known
_ALONE = 2e-5  # of a column, at most, that the action alone leaves where it is a function of it
_GAIN = 0.2  # of what action and base leave alone, at most, that their ratio leaves
GROUPS = 30  # different values up to which each may stand for an action
_FILLED = 10  # rows for each of them, at least
_APART = 2.0  # times as wide as any within, from which a gap between two values' actions is one
_OFF = 1e-4  # of a column, at most, that a curve leaves where nothing is rounded
_ROUNDED = 2.0  # times what rounding takes away of a column, that may be left


def determines(column: Array, outcome: Array) -> bool:
    """Return whether a column (N,) all but determines an outcome (N,).

    Few outcomes: rows beside each other in the order of the column nearly all share theirs,
    whichever way the column separates them. Many: |correlation| above 0.999.

    >>> x = np.arange(200.0)
    >>> determines(x, x > 120), determines(x, x % 2), determines(x, 3.0 * x)
    (True, False, True)
    """
    outcome = outcome.astype(np.float64)
    if len(outcome) < FEWEST:
        return False
    classes, y, counts = np.unique(outcome, return_inverse=True, return_counts=True)
    rare = len(y) - int(counts.max())
    if rare < RARE:
        return False
    if len(classes) > 10:
        return _correlation(column, outcome) > _LINE
    values, level = np.unique(column, return_inverse=True)
    table = np.zeros((len(values), len(classes)), dtype=np.int64)
    np.add.at(table, (level, y), 1)
    errors = len(y) - int(table.max(axis=1).sum())  # within a value, the most common outcome
    major = table.argmax(axis=1)
    changes = int((major[1:] != major[:-1]).sum())  # from one value to the next
    # As many changes as values are no separation but each row's own value.
    apart = changes if len(values) > 20 else 0
    return errors + apart <= min(max(_ERRORS * len(y), 2), 0.02 * rare + 2)


def follows(column: Array, action: Array) -> bool:
    """Return whether a column (N,) is a function of the executed action (N,).

    >>> e = np.tile([1.0, 2.0, 3.0], 50)
    >>> follows(2.0 * e, e), follows(np.arange(150.0), e)
    (True, False)
    """
    if len(action) < FEWEST or is_constant(action) or is_constant(column):
        return False
    if _correlation(column, action) > _SAME:
        return True
    values, place, counts = np.unique(action, return_inverse=True, return_counts=True)
    if len(values) > len(action) // 10 or (counts[place] > 1).sum() < FEWEST:
        return False  # actions hardly repeat: nothing to compare
    return by_group(column, place)[1] <= _ERRORS * len(action) / 10


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # a log may hold 1e308
def implied(reward: Array, action: Array, base: Array) -> bool:
    """Return whether a reward (N,) follows from the executed action (N,), or from it and its base.

    Where only what was sold is logged, the revenue is the price. Two actions that earn one reward
    each are no such case, unless the reward is the action itself.

    >>> rng = np.random.default_rng(0)
    >>> base = rng.uniform(80, 200, 300)
    >>> price = base * rng.choice([0.9, 1.0, 1.1], 300)
    >>> implied(0.85 * price, price, base), implied(price - base, price, base)
    (True, True)
    >>> implied(price * (rng.random(300) < 0.9), price, base)
    False
    """
    if len(action) < FEWEST or is_constant(action) or is_constant(reward):
        return False
    if np.allclose(reward, action, rtol=1e-9, atol=0.0):
        return True
    if np.unique(action).size <= FEW:
        return False
    if _correlation(reward, action) > _SAME:
        return True
    if np.unique(reward).size > FEW and rises_with(reward, action):
        return True
    if is_constant(base) or not (base != 0).all():
        return False
    made = (np.stack((action, base), axis=1), action / base, action * base)
    limit = (1.0 - _SAME) * float(reward.var())
    return any(_unexplained(reward, one) <= limit for one in made)


def by_group(column: Array, group: Array) -> tuple[Array, int]:
    """Return each group's most common value of a column, and how many rows have another one."""
    values, code = np.unique(column, return_inverse=True)
    pairs, counts = np.unique(group * len(values) + code, return_counts=True)
    order = np.lexsort((counts, pairs // len(values)))
    owner = pairs[order] // len(values)
    last = np.flatnonzero(np.diff(owner, append=owner[-1] + 1))
    usual = values[pairs[order[last]] % len(values)]
    return usual, len(column) - int(counts[order[last]].sum())


def rises_with(column: Array, action: Array) -> bool:
    """Return whether a column (N,) never falls, or never rises, as the action (N,) rises.

    >>> e = np.random.default_rng(0).uniform(50, 150, 200)
    >>> rises_with(np.log(e), e), rises_with(e > 100, e), rises_with(e % 7, e)
    (True, True, False)
    """
    column = column.astype(np.float64)
    if len(action) < FEWEST or is_constant(action):
        return False
    counts = np.unique(column, return_counts=True)[1]
    if len(column) - int(counts.max()) < RARE:
        return False
    usual, others = by_group(column, np.unique(action, return_inverse=True)[1])
    steps = np.diff(usual)
    wrong = min(int((steps < 0).sum()), int((steps > 0).sum())) + others
    return wrong <= _ERRORS * len(action)


def stands_for(column: Array, action: Array, is_kind: bool = False, is_near: bool = False) -> bool:
    """Return whether a column (N,) tells of the action (N,) by a curve that only rises or falls.

    A category's levels each stand for a range of actions, such as 'low' and 'high'. Of numbers next
    to nothing may be left, for a base alone moves with the action; `is_near`: a fiftieth may.
    Actions may also have been set by a grade; `renames` says where they were not.

    >>> rng = np.random.default_rng(0)
    >>> e = rng.uniform(50, 150, 300)
    >>> stands_for(e > 90, e, True), stands_for(np.log(e), e.round()), stands_for(e + 2, e[::-1])
    (True, True, False)
    """
    known = np.isfinite(column) & np.isfinite(action)
    column, action = column[known].astype(np.float64), action[known]
    if len(column) < FEWEST or is_constant(column) or is_constant(action):
        return False
    usual = by_group(column, np.zeros(len(column), dtype=np.int64))[1]
    if usual < RARE:
        return False
    # Where the action is rounded, a curve leaves what the rounding took away.
    lost = rounding(action) ** 2 / 12.0 / float(action.var()) if not is_kind else 0.0
    left = 1.0 - ALIKE if is_near else max(_ALONE, min(1.5 * lost, 10.0 * _ALONE))
    return told_by(column, action, is_kind) >= 1.0 - left


def renames(column: Array, by: Array, lost: Array | float = 0.0) -> bool:
    """Return whether a column's few values (N,) are other names of numbers (N,), or bands of them.

    Names: each value goes with one number, up to what rounding `lost` (N,). Bands: the ranges of
    two values' numbers do not overlap, and no gap parts them that is wider than those within. What
    is neither may have set the numbers: a grade whose rates lie about one of its own, a season with
    some exceptions. It is not asked whether the column tells anything of the numbers.

    >>> rng = np.random.default_rng(0)
    >>> e, grade = rng.uniform(50, 150, 300), rng.integers(0, 3, 300)
    >>> rate = 5.0 + 2.0 * grade
    >>> renames(e > 90, e), renames(grade, rate), renames(grade, rate + rng.uniform(-0.5, 0.5, 300))
    (True, True, False)
    """
    return _kind_of(column, by, lost) in ("names", "bands")


def _kind_of(column: Array, by: Array, lost: Array | float) -> str:
    """Return what a column's few values are of numbers: 'names', 'bands', 'apart' or 'mixed'.

    'apart': no ranges overlap, and a gap parts some that is wider than those within.
    """
    known = np.isfinite(column) & np.isfinite(by)
    slack = np.broadcast_to(np.asarray(lost, dtype=np.float64), by.shape)[known]
    values, code = np.unique(column[known], return_inverse=True)
    if not 1 < values.size <= GROUPS:
        return "mixed"
    v = by[known].round(9)
    places = np.lexsort((v, code))
    parts = np.split(places, np.cumsum(np.bincount(code))[:-1])
    near = float(np.median(slack)) + 1e-9
    off = sum(int((abs(v[i] - v[i[i.size // 2]]) > slack[i] + near).sum()) for i in parts)
    if off <= _ERRORS * v.size:
        return "names"
    # A few exceptions at the ends of a range are none of it.
    ranges = [v[i][int(_ERRORS * i.size) : i.size - int(_ERRORS * i.size)] for i in parts]
    ranges.sort(key=lambda one: float(one[one.size // 2]))
    gaps = np.array([upper[0] - lower[-1] for lower, upper in pairwise(ranges)])
    if (gaps < -near).any():
        return "mixed"
    within = np.array([np.diff(one).max(initial=0.0) for one in ranges])
    return "apart" if (gaps > _APART * np.maximum(within[1:], within[:-1])).any() else "bands"


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def moves_exactly(column: Array, action: Array, other: Array) -> bool:
    """Return whether action/other or action − other leave nothing of a column (N,) but rounding.

    Ask it where `moves_with` says that they tell nearly all of it. Few values are names or bands of
    them; of many a curve leaves no more than twice the variance that rounding took away. What
    follows them less closely may be what the action was set by.

    >>> rng = np.random.default_rng(0)
    >>> base, busy = rng.uniform(80, 150, 900), rng.random(900)
    >>> price = base * (0.8 + 0.5 * busy)
    >>> moves_exactly(np.log(price.round(1) / base), price.round(1), base)
    True
    >>> moves_exactly(busy, (price * rng.uniform(0.98, 1.02, 900)).round(1), base)
    False
    """
    known = np.isfinite(column) & np.isfinite(action) & np.isfinite(other) & (other != 0)
    column, action, other = column[known].astype(np.float64), action[known], other[known]
    step = rounding(action)
    tried = (
        (action / other, 0.5 * step / abs(other)),
        (action - other, np.full(other.size, 0.5 * step)),
    )
    if np.unique(column).size <= GROUPS:
        kinds = [_kind_of(column, by, lost) for by, lost in tried]
        return "names" in kinds or ("bands" in kinds and "apart" not in kinds)
    for by, lost in tried:
        taken = _slope(column, by) ** 2 * float((lost**2).mean()) / 3.0 + rounding(column) ** 2 / 12
        most = _OFF + _ROUNDED * taken / float(column.var())
        if 1.0 - told_by(column, by) <= min(most, 1.0 - ALIKE):
            return True
    return False


def rises_within(column: Array, action: Array, kind: Array) -> bool:
    """Return whether a column (N,) follows the action (N,) up or down within every kind (N,).

    'Above the usual rate' is a function of the rate and of the class that a usual rate belongs to.

    >>> rng = np.random.default_rng(0)
    >>> rate, kind = rng.uniform(3, 9, 300).round(1), rng.integers(0, 3, 300).astype(float)
    >>> rises_within(rate > 4 + kind, rate, kind), rises_within(rng.random(300) < 0.5, rate, kind)
    (True, False)
    """
    known = np.isfinite(column) & np.isfinite(action) & np.isfinite(kind)
    column, action, kind = column[known].astype(np.float64), action[known], kind[known]
    if len(column) < FEWEST or is_constant(action) or is_constant(kind):
        return False
    kinds, kind = np.unique(kind, return_inverse=True)
    actions, action = np.unique(action, return_inverse=True)
    if by_group(column, kind)[1] < RARE:
        return False  # the kind alone tells it
    places, group = np.unique(kind * len(actions) + action, return_inverse=True)
    usual, others = by_group(column, group)
    steps = np.diff(usual)[np.diff(places // len(actions)) == 0]
    wrong = min(int((steps < 0).sum()), int((steps > 0).sum())) + others
    return wrong <= _ERRORS * len(column) and len(places) > 2 * len(kinds)


@np.errstate(over="ignore", invalid="ignore")  # a log may hold 1e308
def tells(column: Array, outcome: Array) -> float:
    """Return the share of an outcome that a column explains in twenty bands: deviance or variance.

    The outcome comes in a quarter of the rows: H(¼) = 0.562 nats. Where the column is 1 it comes in
    half of them, elsewhere never: ½·H(½) = 0.347 is left, and 1 − 0.347/0.562 = 0.38 explained.
    An outcome of more than two values has its variance explained instead. What bands explain by
    chance, one degree of freedom each, is taken off.

    >>> column, outcome = np.tile([0.0, 0.0, 1.0, 1.0], 50), np.tile([0.0, 0.0, 0.0, 1.0], 50)
    >>> round(tells(column, outcome), 2)
    0.38
    """
    values = np.unique(outcome)
    if values.size < 2 or outcome.size < FEWEST:
        return 0.0
    edges = np.unique(column)
    if edges.size > 1.5 * BANDS:
        edges = np.unique(np.quantile(column, np.linspace(0, 1, BANDS + 1)[1:-1]))
    _, band = np.unique(np.searchsorted(edges, column, side="left"), return_inverse=True)
    n = np.bincount(band)
    spare = float(n.size - 1)
    if values.size == 2:
        y = (outcome == values[1]).astype(np.float64)
        left = float((n * _entropy(np.bincount(band, y) / n)).sum()) + spare / 2.0
        return float(1.0 - left / (y.size * _entropy(np.array([y.mean()]))[0]))
    mean = np.bincount(band, outcome) / n
    if outcome.size <= n.size:
        return 0.0
    left = float(((outcome - mean[band]) ** 2).sum()) / (outcome.size - n.size)
    return float(1.0 - left / outcome.var(ddof=1))


def adds_up(column: Array, outcome: Array, group: Array) -> bool:
    """Return whether a column (N,) is a running total of outcomes (N,) within groups, in order.

    Its steps are the outcome of the same row, or of the row before; or it never falls, and rises
    where the outcome is not 0, nowhere else. A stock falls by the row's outcome.

    >>> sold = (np.random.default_rng(0).random(200) < 0.3).astype(float)
    >>> total, one = sold.cumsum(), np.zeros(200)
    >>> adds_up(total, sold, one), adds_up(9.0 * (total - sold), sold, one)
    (True, True)
    >>> adds_up(np.arange(200.0), sold, one), adds_up(sold, sold, one)
    (False, False)
    """
    if len(column) < FEWEST:
        return False
    step, now, before = np.diff(column), outcome[1:], outcome[:-1]
    for y, signs in ((now, (1.0, -1.0)), (before, (1.0,))):
        known = np.isfinite(step) & np.isfinite(y) & (np.diff(group) == 0)
        d, y = step[known], y[known]
        came = y != 0
        if came.sum() < RARE:
            continue
        near = 1e-6 * max(1.0, float(np.abs(y).max()))
        for sign in signs:
            same = np.abs(sign * d - y) <= near
            if min(same.mean(), same[came].mean()) >= _ADDS:
                return True
        up = d > 0
        if (d < 0).any() or (~came).sum() < RARE:
            continue
        if min(up[came].mean(), 1.0 - up[~came].mean()) >= _ADDS:
            return True
    return False


def implies(column: Array, outcome: Array) -> bool:
    """Return whether one outcome always comes with a column's unusual values, not by chance.

    A purchase needs a click: every row with one was clicked. The unusual values are all but the
    most common one; that m rows share an outcome whose share is q has probability q^m by chance.

    >>> clicked = np.tile([0.0, 1.0], 200)
    >>> bought = clicked * (np.arange(400) % 12 == 1)
    >>> implies(bought, clicked), implies(np.roll(bought, 1) + bought, clicked)
    (True, False)
    """
    if len(column) < FEWEST:
        return False
    values, counts = np.unique(column, return_counts=True)
    m = len(column) - int(counts.max())
    if m < RARE or counts.max() < len(column) / 2:
        return False
    usual = column == values[counts.argmax()]
    there = outcome[~usual]
    share = float((outcome == there[0]).mean())
    return is_constant(there) and bool(m * np.log(max(share, 1e-300)) < np.log(_CHANCE))


@np.errstate(over="ignore", invalid="ignore")  # a log may hold 1e308
def makes_up(column: Array, first: Array, second: Array) -> bool:
    """Return whether a column (N,) is made of two others, and not of the second alone.

    Tried are sums and differences in any proportion, first/second, second/first, and the product
    with the second beside it (a loan's interest and repayment), each up to a factor and a constant,
    and up to the digits that the column is rounded to. A ratio also knows nothing of what rounding
    took from its numerator: 0.4 of a price of 50 are 0.8 %.

    >>> rng = np.random.default_rng(0)
    >>> base, ratio = rng.uniform(80, 200, 300), rng.choice([0.9, 1.0, 1.1], 300)
    >>> price = base * ratio
    >>> makes_up(100 * ratio - 100, price, base), makes_up(base, price, rng.random(300))
    (True, False)
    """
    known = np.isfinite(column) & np.isfinite(first) & np.isfinite(second)
    column, first, second = column[known], first[known], second[known]
    if len(column) < FEWEST or any(map(is_constant, (column, first, second))):
        return False
    alone, variance = _unexplained(column, second), float(column.var())

    def rounded() -> float:
        return 1.5 * rounding(column) ** 2 / 12.0  # variance of what rounding took away

    if alone <= _LEFT * variance and alone <= rounded():  # the second makes it up alone
        return False
    most = 10.0 * _LEFT * alone  # that the limit may be
    product = first * second
    for pair in ((first, second), (product, second)):
        if _nearly_unexplained(column, *pair) > 2.0 * most:
            continue
        limit = max(_LEFT * alone, min(rounded(), most))
        if _unexplained(column, np.stack(pair, axis=1)) <= limit:
            return True
    for above, below in ((first, second), (second, first)):
        if (below == 0).any() or (first == 0).any():
            continue
        ratio = above / below
        left = _unexplained(column, ratio)
        if left > most + _LOST * alone:
            continue
        # The error of a rounded `first`, relative to it, is that of both ratios.
        step = rounding(first) if np.unique(first).size > _COUNTED else 0.0
        lost = float(((ratio / first) ** 2).mean()) * step**2 / 12.0
        slope = _slope(column, ratio)
        limit = max(_LEFT * alone, min(rounded(), most))
        if left <= limit + min(1.5 * slope**2 * lost, _LOST * alone):
            return True
    return False


def makes_up_alone(column: Array, first: Array) -> bool:
    """Return whether a line in one other column leaves next to nothing of a column (N,)."""
    known = np.isfinite(column) & np.isfinite(first)
    column, first = column[known], first[known]
    return _unexplained(column, first) <= 2.0 * _LEFT * float(column.var())


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def is_nearly_ratio(column: Array, action: Array, other: Array) -> bool:
    """Return whether a column (N,) is action/other up to a factor and 2.5 %, and moves with it.

    >>> rng = np.random.default_rng(0)
    >>> base, k = rng.uniform(40, 90, 300), rng.choice([0.9, 1.0, 1.1], 300)
    >>> noisy = k * (1.0 + 0.001 * rng.standard_normal(300))
    >>> is_nearly_ratio(noisy, base * k, base), is_nearly_ratio(rng.random(300), base * k, base)
    (True, False)
    """
    known = (column > 0) & (action > 0) & (other > 0)
    if known.sum() < max(FEWEST, 0.95 * np.isfinite(column).sum()):
        return False
    x, ratio = np.log(column[known]), np.log(action[known] / other[known])
    off = float((x - ratio).std())
    return off <= _NEARLY and off**2 <= _NEARLY_LEFT * float(min(x.var(), ratio.var()))


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def moves_with(column: Array, action: Array, other: Array, is_kind: bool = False) -> float:
    """Return how much of a column (N,) action/other or action − other tells; 0 where little more.

    It is told by a curve that only rises, or only falls: log(price/base), a rounded ratio, one with
    noise. Of few values, or of a category, each may stand for a range of ratios, in any order. It
    is 0 where the action, or the other column, tells nearly as much by itself: a base alone moves
    with the action.

    >>> rng = np.random.default_rng(0)
    >>> base, k = rng.uniform(40, 90, 300), rng.choice([0.9, 1.0, 1.1], 300)
    >>> told = moves_with(np.log(k).round(2), base * k, base)
    >>> round(told, 3), moves_with(base, base * k, rng.random(300))
    (1.0, 0.0)
    """
    known = np.isfinite(column) & np.isfinite(action) & np.isfinite(other) & (other != 0)
    column, action, other = column[known], action[known], other[known]
    if len(column) < FEWEST or any(map(is_constant, (column, action, other))):
        return 0.0
    told = max(told_by(column, one, is_kind) for one in (action / other, action - other))
    if told < ASKED or by_group(column, np.zeros(len(column), dtype=np.int64))[1] < RARE:
        return 0.0
    alone = max(told_by(column, one, is_kind) for one in (action, other))
    return told if 1.0 - told <= _GAIN * (1.0 - alone) else 0.0


def told_by(column: Array, by: Array, is_kind: bool = False) -> float:
    """Return the share of a column's variance that a rising or falling curve in another tells.

    A hundredth of the cells at each end are drawn in. Few values are also tried in the order of
    their medians.

    >>> x = np.random.default_rng(0).uniform(1, 9, 300)
    >>> round(told_by(np.log(x), x), 3), told_by(x > 3, x), told_by(np.sin(x), x) < 0.7
    (1.0, 1.0, True)
    """
    from scipy.optimize import isotonic_regression

    by = by.round(9)
    if not np.isfinite(by).all() or is_constant(by):
        return 0.0
    values, code = np.unique(column, return_inverse=True)
    x = column.astype(np.float64)
    tried = [] if is_kind else [np.clip(x, *np.quantile(x, (0.01, 0.99)))]
    if values.size <= GROUPS and (is_kind or values.size > 2):
        order = np.lexsort((by, code))
        ends = np.cumsum(np.bincount(code))
        middle = by[order][(ends + np.concatenate(([0], ends[:-1]))) // 2]
        tried.append(middle.argsort(kind="stable").argsort(kind="stable")[code].astype(np.float64))
    _, place, n = np.unique(by, return_inverse=True, return_counts=True)
    best = 0.0
    for x in tried:
        spread = float(x.var())
        if spread <= 0:
            continue
        mean = np.bincount(place, x) / n
        for rises in (True, False):
            fit = isotonic_regression(mean, weights=n, increasing=rises).x
            best = max(best, 1.0 - float(((x - fit[place]) ** 2).mean()) / spread)
    return best


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def names_action(column: Array, action: Array, other: Array, most: float | None = None) -> bool:
    """Return whether each of a column's few values goes with one ratio of action to other nearly.

    Several values may go with the same ratio. It is not so where each goes with one action.
    `most`: only ask whether the values leave at most that share of the ratio's variance.

    >>> rng = np.random.default_rng(0)
    >>> base, code = rng.uniform(40, 90, 300), rng.integers(0, 6, 300)
    >>> names_action(code, base * (1 + code % 3), base), names_action(code, base, rng.random(300))
    (True, False)
    """
    known = np.isfinite(column) & np.isfinite(action) & np.isfinite(other) & (other != 0)
    column, action, other = column[known], action[known], other[known]
    values, code = np.unique(column, return_inverse=True)
    if not 1 < values.size <= min(GROUPS, len(column) // _FILLED):
        return False
    n = np.bincount(code)

    def left(one: Array) -> float:
        one = np.clip(one, *np.quantile(one, (0.01, 0.99)))  # a ratio to next to nothing is huge
        mean = np.bincount(code, one) / n
        rest = float(((one - mean[code]) ** 2).sum()) / (one.size - values.size)
        return rest / float(one.var(ddof=1)) if not is_constant(one) else 1.0

    if most is not None:
        return left(action / other) <= most
    return left(action / other) <= min(1.0 - ALIKE, _GAIN * left(action))


def _slope(column: Array, by: Array) -> float:
    """Return the slope of the line of a column in another; 0 where there is none."""
    variance = float(by.var())
    if not np.isfinite(variance) or variance <= 0:
        return 0.0
    return float(((by - by.mean()) * (column - column.mean())).mean()) / variance


def _unexplained(column: Array, by: Array) -> float:
    """Return the variance of a column that a line in others leaves."""
    x = by.reshape(len(column), -1)
    scale = x.std(axis=0)
    if not np.isfinite(scale).all() or (scale <= 0).any():
        return float(column.var())
    z = (x - x.mean(axis=0)) / scale
    rest = column - column.mean()
    slopes = np.linalg.lstsq(z, rest, rcond=None)[0] if z.shape[1] > 1 else z.T @ rest / len(z)
    return float(((rest - z @ slopes) ** 2).mean())


def _nearly_unexplained(column: Array, first: Array, second: Array) -> float:
    """Return about the variance that a line in two others leaves; 0 where they are nearly one."""
    c, a, b = (one - one.mean() for one in (column, first, second))
    aa, bb, ab, ca, cb = a @ a, b @ b, a @ b, c @ a, c @ b
    apart = aa * bb - ab * ab
    if not np.isfinite(apart) or apart <= 1e-9 * aa * bb:
        return 0.0
    told = (ca * ca * bb - 2.0 * ca * cb * ab + cb * cb * aa) / apart
    left = float(c @ c - told) / len(column)
    return left if np.isfinite(left) else 0.0


def rounding(column: Array) -> float:
    """Return the step of the decimal grid that a column's numbers lie on, at most 4 places."""
    for places in range(5):
        if np.abs(column - np.round(column, places)).max() <= 1e-9 * max(1.0, np.abs(column).max()):
            return float(10.0**-places)
    return 0.0


def _entropy(p: Array) -> Array:
    p = np.clip(p, 1e-12, 1.0 - 1e-12)
    return np.asarray(-p * np.log(p) - (1.0 - p) * np.log1p(-p))


def _correlation(a: Array, b: Array) -> float:
    a, b = a - a.mean(), b - b.mean()
    size = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return abs(float((a * b).sum())) / size if size > 0 and np.isfinite(size) else 0.0


def is_constant(values: Array) -> bool:
    """Return whether all values are the same, or there are none."""
    return len(values) == 0 or bool((values == values[0]).all())
