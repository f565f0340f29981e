"""Columns that give the answer away together: ratios, totals, payments, a code and its key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from gdcb.arrays import Array
from gdcb.history.batch import Batch
from gdcb.history.column_names import BASES, FIRST_KNOWN, tokens
from gdcb.history.columns import MOST_LEVELS, Column, Look
from gdcb.history.layout import Layout
from gdcb.history.leakage import MOVED, PAIRED, Sample, codes_of, is_number
from gdcb.history.relations import (
    ALIKE,
    ASKED,
    BANDS,
    FEW,
    GROUPS,
    RARE,
    TELLS,
    by_group,
    determines,
    is_nearly_ratio,
    makes_up,
    makes_up_alone,
    moves_exactly,
    moves_with,
    names_action,
    rises_within,
    stands_for,
    tells,
)
from gdcb.history.roles import EMPTY, Roles, is_row_number, may_set, targets

# Words of a ratio, whatever else its name says.
_RATIOS = {"vs", "versus", "ratio", "factor", "multiple", "multiplier", "relative", "rel", "index"}
_RATIOS |= {"pct", "percent", "percentage", "share", "uplift", "markup", "premium", "quote"}
_MAYBE = 0.3  # of a ratio's variance, at most, that codes may leave in some rows
_OTHER_SIZE = 0.7  # |log| of a median: of two columns, this much farther from the action's size

# Of what columns tell together, the most that may be left without any one of them. Of two equal
# causes that add up to a sharp threshold, one alone tells 0.28: E H(U) = ½ nat of ln 2.
COLLAPSE = 0.2
ALL_BUT = 0.9  # share of an outcome from which columns together all but determine it
_JOINT_ROWS = 4_000  # rows, about, in which columns are tried together
_JOINT_FEWEST = 200  # rows below which they are not
_JOINT_COLUMNS = 40  # columns that are tried together, at most
_JOINT_SETS = 5  # sets of columns that are found, at most
_LOSS = 0.02  # of a share, that makes no difference
_ROUNDS, _DEPTH, _SHRINK, _RIDGE = 20, 4, 0.3, 2.0  # of the boosted trees


@dataclass
class Moved:
    """How much of a column the action tells beside a base, each pair worked out once."""

    action: Column
    _known: dict[tuple[str, str], float] = field(default_factory=dict)

    def __call__(self, column: Column, base: Column) -> float:
        """Return the share; 0 where the column is the base itself."""
        pair = column.name, base.name
        if pair not in self._known:
            self._known[pair] = self._share(column, base)
        return self._known[pair]

    def _share(self, column: Column, base: Column) -> float:
        if {*tokens(column.name)} & FIRST_KNOWN or _is_nearer(column, base, self.action):
            return 0.0
        some = slice(None, None, max(1, -(-column.values.size // MOVED)))
        x, e, other = (one.values[some] for one in (column, self.action, base))
        return moves_with(x, e, other, is_kind=column.kind == "text")

    def leaves_nothing(self, column: Column, base: Column) -> bool:
        """Whether action and base make a column up, but for rounding: nothing else is in it."""
        if self(column, base) < ALIKE:
            return False
        return moves_exactly(column.values, self.action.values, base.values)


def made_of_pairs(log: Look, roles: Roles, context: list[Column], moved: Moved) -> dict[str, str]:
    """Return why columns are left out that the action or the outcome makes up with another one.

    The ratio of a price to its base is such a column, and so is a total. Where column, other column
    and action determine each other, the numbers do not say which of the two came first: a name may
    ('base', 'list', 'previous'), else both are left out. What only follows them nearly may be what
    the action was set by: it stays, and `asked_of_pairs` asks.
    """
    known = _compared(log)
    numbers = _numbers(log)
    kinds = [one for one in known if 2 <= one.n_different <= MOST_LEVELS and one.kind != "time"]
    size = max((one.values.size for one in known), default=0)
    some = slice(None, None, max(1, -(-size // PAIRED)))
    target = roles.outcome or roles.reward
    sources = [name for name in dict.fromkeys((roles.action, target)) if name in numbers]
    open_names = {one.name for one in context}
    found: dict[str, str] = {}
    action = numbers.get(roles.action)
    for column in context:
        is_cause = action is not None and _sets(column, action, numbers, target, moved)
        if action is not None and column.kind == "number" and not is_cause:
            bases = [one for one in numbers.values() if one not in (column, action)]
            bases = [one for one in bases if one.name != target and one.name not in found]
            ratio_to = next((one for one in bases if _is_ratio(column, action, one, some)), None)
            if ratio_to is not None:
                found[column.name] = (
                    f"it is made of '{action.name}' and '{ratio_to.name}', as if it had been "
                    "written after the decision: a leak"
                )
                continue
        if column.kind == "text" or {*tokens(column.name)} & FIRST_KNOWN:
            continue
        x = column.values[some]
        for source in sources:
            if is_cause and source == roles.action:
                continue
            y = numbers[source].values[some]
            others = [one for one in numbers.values() if one.name not in (column.name, source)]
            others = [one for one in others if one.name not in found and column.kind == "number"]
            made = next((one for one in others if makes_up(x, y, one.values[some])), None)
            if made is not None and makes_up_alone(x, y):
                found[column.name] = (
                    f"it is nearly a function of '{source}', as if it had been written after the "
                    "decision: a leak"
                )
                break
            if (
                made is not None
                and made.name in open_names
                and not ({*tokens(made.name)} & FIRST_KNOWN)
            ):
                found[made.name] = (
                    f"it, '{column.name}' and '{source}' determine each other, and which of them "
                    "came after the decision cannot be told: perhaps a leak"
                )
            if made is None:
                rest = [one for one in kinds if one.name not in (column.name, source, target)]
                made = next((one for one in rest if rises_within(x, y, one.values[some])), None)
            if made is not None:
                found[column.name] = (
                    f"it is made of '{source}' and '{made.name}', as if it had been written after "
                    "the decision: a leak"
                )
                break
    for column in context:
        if action is None or column.name in found or {*tokens(column.name)} & FIRST_KNOWN:
            continue
        follows = stands_for(column.values[some], action.values[some], column.kind == "text")
        if follows and not may_set(column, action):
            found[column.name] = (
                f"it is nearly a function of '{action.name}', as if it had been written after the "
                "decision: a leak"
            )
            continue
        bases = [one for one in numbers.values() if one.name not in (column.name, roles.action)]
        # A base that is left out, too, may be what a ratio belongs to.
        bases = [
            one
            for one in bases
            if one.name != target and (one.name not in found or _size(one, action) <= _OTHER_SIZE)
        ]
        beside = next((one for one in bases if moved.leaves_nothing(column, one)), None)
        if beside is not None:
            found[column.name] = (
                f"it follows the ratio or the difference of '{roles.action}' and '{beside.name}', "
                "as if it had been written after the decision: a leak"
            )
    return found


def asked_of_pairs(log: Look, roles: Roles, context: list[Column], moved: Moved) -> dict[str, str]:
    """Return what is asked of context columns that nearly tell the action, alone or beside a base.

    They stay: what was written after the decision shows, for such a context leaves no choice. A
    cause that is left out shows nowhere.
    """
    numbers = _numbers(log)
    action = numbers.get(roles.action)
    target = roles.outcome or roles.reward
    if action is None:
        return {}
    asked = {}
    for column in context:
        is_base = column.kind == "number" and bool({*tokens(column.name)} & {*BASES})
        if may_set(column, action) and not is_base:
            asked[column.name] = f"each of its values has a range of '{action.name}' of its own"
        for one in numbers.values():
            if column.name in asked:
                break
            if one in (column, action) or one.name == target:
                continue
            told = moved(column, one)
            if told >= (ASKED if one in context else ALIKE) or (
                one in context and _names(column, action, one)
            ):
                asked[column.name] = f"it nearly tells '{action.name}' once '{one.name}' is known"
        if column.name in asked:
            asked[column.name] += (
                ": is it known when the decision is taken? Leave it out if it was written after "
                f"it; keep it if '{action.name}' was set by it, or what it does to the outcome is "
                f"taken for what '{action.name}' does."
            )
    return asked


def _sets(
    column: Column,
    action: Column,
    numbers: dict[str, Column],
    target: str,
    moved: Moved,
) -> bool:
    """Whether the action may have been set by a column of few values, alone or beside a base.

    It is not so where action and some base make the column up.
    """
    if column.n_different > GROUPS:
        return False
    bases = [one for one in numbers.values() if one not in (column, action) and one.name != target]
    bases = [one for one in bases if moved(column, one) >= ALIKE]
    if any(moved.leaves_nothing(column, one) for one in bases):
        return False
    return bool(bases) or may_set(column, action)


def _compared(log: Look) -> list[Column]:
    return [one for one in log.columns.values() if not one.is_constant and one.missing <= EMPTY]


def _numbers(log: Look) -> dict[str, Column]:
    """Return the columns of numbers that others may be made of."""
    some = [one for one in _compared(log) if one.kind == "number" and not is_row_number(one)]
    return {one.name: one for one in some}


def _names(column: Column, action: Column, base: Column) -> bool:
    """Whether a column's few values name a ratio to the base: some rows first, then all."""
    if {*tokens(column.name)} & FIRST_KNOWN or _is_nearer(column, base, action):
        return False
    if column.n_different > GROUPS + 1:  # one may be what stands for nothing
        return False
    x, e, other = column.values, action.values, base.values
    some = slice(None, None, max(1, -(-x.size // MOVED)))
    return names_action(x[some], e[some], other[some], _MAYBE) and names_action(x, e, other)


def _is_nearer(column: Column, other: Column, action: Column) -> bool:
    """Whether a column of numbers is of the action's size, and the other one is not."""
    if column.kind != "number":
        return False
    return _size(other, action) > _size(column, action) + _OTHER_SIZE


@np.errstate(divide="ignore", invalid="ignore")
def _size(column: Column, action: Column) -> float:
    """Return |log| of how many times as large as the action a column is, by their medians."""
    return float(abs(np.log(abs(np.float64(action.middle) / column.middle))))


def told_jointly(log: Look, roles: Roles, context: list[Column]) -> dict[str, str]:
    """Return why columns are left out that tell the outcome only together with others.

    Where the numbers do not say which of them was written after it, a name may; else all of them
    are left out, but for the first where nothing else would be left.
    """
    columns = {one.name: one.values for one in context}
    words = {one.name for one in context if one.kind == "text"}
    found: dict[str, str] = {}
    for y in targets(log.columns[roles.outcome or roles.reward].values):
        seen = np.isfinite(y)
        some = {name: x[seen] for name, x in columns.items() if name not in found}
        for one in jointly(some, words, y[seen]):
            late = [name for name in one.made if not {*tokens(name)} & FIRST_KNOWN] or one.made
            for name in late:
                others = [f"'{other}'" for other in one.names if other != name]
                more = f" and {len(others) - 3} others" if len(others) > 4 else ""
                rest = (", ".join(others[:3]) + more) if more else " and ".join(others)
                found[name] = (
                    f"it and {rest} tell {100 * one.share:.0f} % of the outcome together, though "
                    "each alone tells little, as if one of them had been written after it: a leak"
                )
    if context and len(found) == len(context):
        found.pop(context[0].name)
    return found


def _is_ratio(column: Column, action: Column, base: Column, some: slice) -> bool:
    """Whether a column is nearly action/base, and not the base that the ratio belongs to.

    Where column · base = action, either may be the ratio. The base is of the action's size, or is
    called so; a name such as 'price_vs_market' is that of a ratio.
    """
    parts = (one.values[some] for one in (column, action, base))
    if not is_nearly_ratio(*parts):
        return False
    is_called, other = ({*tokens(one.name)} & _RATIOS for one in (column, base))
    if is_called or other:
        return bool(is_called) and not other
    return _is_nearer(base, column, action)


@dataclass(frozen=True, slots=True)
class Joint:
    """Columns that tell much of an outcome together, and the share of it that they tell.

    `made` are those that the outcome and the others determine, but not the other way round; all
    of `names` where that cannot be told.
    """

    names: tuple[str, ...]
    share: float
    made: tuple[str, ...]


def jointly(columns: dict[str, Array], words: set[str], outcome: Array) -> list[Joint]:
    """Return sets of columns that tell an outcome (N,) together, though each tells little of it.

    Tried out of fold: a line in all columns, every pair in bands, and boosted trees on all of them.
    Such columns tell next to nothing as soon as one of them is missing. A strong context, whose
    columns just add up to a good forecast, is no such set.

    Parameters
    ----------
    columns : columns (N,) by name, of which 40 are looked at; NaN: missing
    words : names of those that are codes of categories
    outcome : finite outcomes

    >>> rng = np.random.default_rng(0)
    >>> busy, sold = rng.random(800), (rng.random(800) < 0.3).astype(float)
    >>> odd = np.where(busy > 0.5, 1 - sold, sold)
    >>> [(one.names, one.made) for one in jointly({"busy": busy, "odd": odd}, set(), sold)]
    [(('busy', 'odd'), ('odd',))]
    """
    some = slice(None, None, max(1, -(-outcome.size // _JOINT_ROWS)))
    y = outcome[some].astype(np.float64)
    if y.size < _JOINT_FEWEST or y.size - np.unique(y, return_counts=True)[1].max() < RARE:
        return []
    taken = {name: one[some].astype(np.float64) for name, one in columns.items()}
    taken = {k: v for k, v in taken.items() if np.unique(v[np.isfinite(v)]).size > 1}
    taken = dict(list(taken.items())[:_JOINT_COLUMNS])
    # Rows beside each other may share a day: folds are blocks of the log.
    fold = (np.arange(y.size) * 20 // y.size) % 2 == 0
    codes = {name: _banded(one) for name, one in taken.items()}
    alone = {name: max(0.0, tells(codes[name], y)) for name in taken}
    limit = TELLS if np.unique(y).size == 2 else ALL_BUT
    found: list[Joint] = []
    while len(taken) > 1 and len(found) < _JOINT_SETS:
        names, share = _best_set(taken, codes, words, y, fold, alone, limit)
        if not names:
            break
        made = _made(names, taken, codes, y)
        found.append(Joint(names, share, made))
        for name in made:
            del taken[name]
    return found


def _best_set(
    columns: dict[str, Array],
    codes: dict[str, Array],
    words: set[str],
    y: Array,
    fold: Array,
    alone: dict[str, float],
    limit: float,
) -> tuple[tuple[str, ...], float]:
    """Return the columns that tell more than `limit` together, and their share; () where none."""
    names = tuple(columns)
    pairs: list[tuple[float, tuple[str, ...]]] = []
    for i, first in enumerate(names):
        for second in names[i + 1 :]:
            cell = codes[first] * (BANDS + 2) + codes[second]
            share = tells(_cell_means(cell, y, fold), y)
            if share > limit and max(alone[first], alone[second]) < COLLAPSE * share:
                pairs.append((share, (first, second)))
    if pairs:  # of equals the first
        most = max(share for share, _ in pairs)
        return next((pair, share) for share, pair in pairs if share >= most - _LOSS)

    def line(some: tuple[str, ...]) -> Array:
        return _line(some, columns, codes, words, y, fold)

    def trees(some: tuple[str, ...]) -> Array:
        return _boosted(np.stack([codes[k] for k in some] + [_banded(line(some))], axis=1), y, fold)

    for score in (line, trees):

        def told(some: tuple[str, ...], by: Callable[..., Array] = score) -> float:
            return tells(by(some), y)

        share, left = told(names), names
        if share <= limit:
            continue
        if score is line:  # others must not hide what two do, nor several do it with the same one
            for name in names:
                rest = tuple(one for one in left if one != name)
                if len(rest) > 1 and told(rest) > max(limit, 0.9 * share):
                    left = rest
        core = _core(left, left, told, share)
        if len(core) > 1:
            return core, share
    return (), 0.0


def _core(
    tried: tuple[str, ...],
    names: tuple[str, ...],
    told: Callable[[tuple[str, ...]], float],
    share: float,
) -> tuple[str, ...]:
    """Return which of the tried columns the others hardly tell anything without: halve, ask again.

    Where the others tell much without all of a half, they do so without any one of it.
    """
    rest = tuple(one for one in names if one not in tried)
    if rest and told(rest) >= COLLAPSE * share:
        return ()
    if len(tried) == 1:
        return tried
    half = len(tried) // 2
    parts = (tried[:half], tried[half:])
    return sum((_core(part, names, told, share) for part in parts), ())


def _made(
    names: tuple[str, ...], columns: dict[str, Array], codes: dict[str, Array], y: Array
) -> tuple[str, ...]:
    """Return the one of two columns that the other and the outcome determine, else all names."""
    if len(names) > 2:
        return names
    band = _banded(y)
    told = []
    for column, other in (names, names[::-1]):
        x = columns[column]
        usual = by_group(codes[column], codes[other] * (BANDS + 2) + band)[1]
        told.append(np.unique(x[np.isfinite(x)]).size <= FEW and usual <= 0.1 * y.size)
    return names if told[0] == told[1] else (names[told.index(True)],)


def _banded(column: Array) -> Array:
    """Return the band of each cell, from 1; 0 where it is missing."""
    known = column[np.isfinite(column)]
    edges = np.unique(known)
    if edges.size > 1.5 * BANDS:
        edges = np.unique(np.quantile(known, np.linspace(0, 1, BANDS + 1)[1:-1]))
    band = np.minimum(np.searchsorted(edges, column, side="left"), BANDS) + 1
    return np.where(np.isfinite(column), band, 0).astype(np.int64)


def _cell_means(cell: Array, y: Array, fold: Array) -> Array:
    """Return the mean outcome (N,) of each row's cell in the other fold, drawn to that of all."""
    score = np.empty(y.size)
    for here in (fold, ~fold):
        n = np.bincount(cell[~here], minlength=cell.max() + 1)
        total = np.bincount(cell[~here], y[~here], minlength=n.size)
        score[here] = ((total + 0.5 * y[~here].mean()) / (n + 0.5))[cell[here]]
    return score


def _line(
    names: tuple[str, ...],
    columns: dict[str, Array],
    codes: dict[str, Array],
    words: set[str],
    y: Array,
    fold: Array,
) -> Array:
    """Return the outcome (N,) by a line in columns and their squares, fitted on the other fold."""
    parts = [np.ones((y.size, 1))]
    for name in names:
        if name in words:
            parts.append(1.0 * (codes[name][:, None] == np.unique(codes[name])[None, 1:]))
            continue
        x = columns[name]
        known = np.isfinite(x)
        x = np.where(known, x, x[known].mean())
        x = (x - x.mean()) / (x.std() or 1.0)
        parts.append(np.stack((x, x * x), axis=1))
    z = np.concatenate(parts, axis=1)
    score = np.empty(y.size)
    for here in (fold, ~fold):
        score[here] = z[here] @ np.linalg.lstsq(z[~here], y[~here], rcond=None)[0]
    return score


def _boosted(codes: Array, y: Array, fold: Array) -> Array:
    """Return the outcome (N,) by boosted trees on banded columns (N, k), grown on the other fold.

    A leaf is the mean residual, drawn to 0 by two rows; splits are those of least squares.
    """
    n, k = codes.shape
    width = int(codes.max()) + 1
    at = np.arange(k) * width + codes  # (N, k) the place of a cell in a table of all bands
    score = np.empty(n)
    for here in (fold, ~fold):
        fitted = np.full(n, y[~here].mean())
        for _ in range(_ROUNDS):
            node, nodes = np.zeros(n, dtype=np.int64), 1
            rest = (y - fitted)[~here]
            for _level in range(_DEPTH):
                place = (node[~here, None] * (k * width) + at[~here]).ravel()
                shape = (nodes, k, width)
                count = np.bincount(place, minlength=nodes * k * width).reshape(shape)
                total = np.bincount(place, np.repeat(rest, k), nodes * k * width).reshape(shape)
                low, low_sum = count.cumsum(axis=2), total.cumsum(axis=2)
                high, high_sum = low[..., -1:] - low, low_sum[..., -1:] - low_sum
                gain = low_sum**2 / (low + _RIDGE) + high_sum**2 / (high + _RIDGE)
                best = gain.reshape(nodes, -1).argmax(axis=1)
                column, cut = best // width, best % width
                node = 2 * node + (codes[np.arange(n), column[node]] > cut[node])
                nodes *= 2
            size = np.bincount(node[~here], minlength=nodes)
            leaf = np.bincount(node[~here], rest, nodes) / (size + _RIDGE)
            fitted += _SHRINK * leaf[node]
        score[here] = fitted[here]
    return score


def jointly_of(sample: Sample, layout: Layout) -> tuple[list[str], list[str]]:
    """Return sentences for context columns that know the answer together: leaks, and suspects."""
    if sample.n < _JOINT_FEWEST:
        return [], []
    rows = Batch.concatenate(sample.rows)
    words = {one.name for one in layout.context if not is_number(one)}
    leaks: list[str] = []
    suspects: list[str] = []
    for j, outcome in enumerate(layout.outcome_names):
        y = rows.outcome[:, j]
        seen = np.isfinite(y)
        columns = {one.name: codes_of(rows.x, one)[seen] for one in layout.context}
        columns = {k: v for k, v in columns.items() if not determines(v, y[seen])}
        for one in jointly(columns, words, y[seen]):
            listed = ", ".join(f"'{name}'" for name in one.names)
            told = (
                f"The context columns {listed} together tell {100 * one.share:.0f} % of the "
                f"outcome '{outcome}', though each alone tells little: was one of them written "
                "after the outcome?"
            )
            (leaks if one.share > ALL_BUT else suspects).append(told)
    return leaks, suspects
