"""Rows of a log, checked against the declared schema by whole columns, as a batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gdcb.arguments import LOG_OF, far_label, least_log
from gdcb.arrays import Array
from gdcb.composition import ActionColumn
from gdcb.context import Category, Number
from gdcb.credit import LARGEST_LABEL
from gdcb.errors import InvalidInput
from gdcb.history.batch import Batch
from gdcb.history.cells import MISSING, Reasons, choices, flags, levels, names, numbers, statuses
from gdcb.history.layout import FAULT, Layout
from gdcb.history.times import FAR, times
from gdcb.records import MODIFIED, NOT_REACHED, STATUS
from gdcb.rewards import Reward

if TYPE_CHECKING:
    import polars as pl

_PROPENSITY = "not above 0 and at most 1"
_LEAST = float(np.nextafter(0.0, 1.0))
_BLOCK = 4096


@dataclass(slots=True)
class Fault:
    """Rows of a frame that break the schema in one way.

    Parameters
    ----------
    column : name in the log, or '' where the row as a whole is meant
    reason : what is wrong, in words
    rows : (M,) positions in the frame
    examples : the first of them, with what the log says there
    """

    column: str
    reason: str
    rows: Array
    examples: list[tuple[int, Any]]


@dataclass(slots=True)
class Parsed:
    """A frame after its check.

    Parameters
    ----------
    batch : the valid rows
    number : (N,) their numbers in the log, counted from 1
    n_read : rows of the frame
    faults : what is wrong with the others
    zones : how the times say their zone
    late : rows in which a context column was known only after the decision, by its name
    """

    batch: Batch
    number: Array
    n_read: int
    faults: list[Fault]
    zones: set[str]
    late: dict[str, int]


@dataclass(slots=True)
class _Check:
    """Collects what is wrong with which rows."""

    frame: pl.DataFrame
    faults: list[Fault] = field(default_factory=list)
    bad: Array | None = None
    unread: Array | None = None  # rows that the source could not make out: no more is said of them

    def add(self, column: str, reasons: Reasons) -> None:
        for reason, mask in reasons:
            if self.unread is not None:
                mask = mask & ~self.unread
            if not mask.any():
                continue
            rows = np.flatnonzero(mask)
            series = self.frame[column] if column in self.frame.columns else None
            if series is not None and reason == FAR:
                series = series.to_physical()  # no date of Python's can show such a time
            shown = [(int(i), None if series is None else series[int(i)]) for i in rows[:3]]
            self.faults.append(Fault(column, reason, rows, shown))
            self.bad = mask.copy() if self.bad is None else self.bad | mask


def parse(
    frame: pl.DataFrame,
    layout: Layout,
    units: tuple[str, ...],
    reviewers: tuple[str, ...],
    first: int,
) -> Parsed:
    """Check and encode the rows of a frame, of which the first is row `first` of the log."""
    n = frame.height
    check = _Check(frame)
    if layout.has_faults:
        _own_faults(check)
    x = context_of(frame, layout, check)
    action = _actions(check, layout.actions, layout.action)
    outcome = np.empty((n, len(layout.outcome)))
    for j, column in enumerate(layout.outcome):
        outcome[:, j] = _numbers(check, column, optional=True, truths=True)
    _check_outcome(check, layout, outcome)
    number = np.arange(first, first + n, dtype=np.int64)
    zones: set[str] = set()
    if layout.time:
        time, reasons, zones = times(frame[layout.time])
        check.add(layout.time, reasons)
    else:
        time = number.astype(np.float64)
    unit = np.zeros(n, dtype=np.int64)
    if layout.unit:
        unit, reasons = names(frame[layout.unit], units, optional=False)
        check.add(layout.unit, reasons)
    batch = Batch(x, action, outcome, unit, time)
    if layout.outcome_time:
        batch.observed, reasons, _ = times(frame[layout.outcome_time])
        bad = [one for one in reasons if one[0] != MISSING]  # missing: not known yet
        check.add(layout.outcome_time, bad)
    if layout.recommended:
        batch.recommended = _actions(check, layout.actions, layout.recommended)
    _statuses(check, layout, batch)
    if layout.reviewer:
        batch.reviewer, reasons = names(frame[layout.reviewer], reviewers, optional=True)
        check.add(layout.reviewer, reasons)
    if layout.propensity:
        batch.propensity = _numbers(
            check, layout.propensity, _LEAST, 1.0, optional=True, expected=_PROPENSITY
        )
    if layout.label:
        batch.label = np.empty((n, len(layout.label)))
        least, most, expected = -LARGEST_LABEL, LARGEST_LABEL, ""
        if layout.most_log is not None:
            least, most = least_log(layout.most_log), layout.most_log
            expected = f"{far_label(most)}; {LOG_OF}"
        for j, column in enumerate(layout.label):
            batch.label[:, j] = _numbers(check, column, least, most, True, expected=expected)
    if layout.reward:
        batch.reward = _numbers(check, layout.reward, optional=True, truths=True)
    late = _late(frame, layout, time)
    if check.bad is not None:
        keep = ~check.bad
        batch, number = batch.take(keep), number[keep]
    return Parsed(batch, number, n, check.faults, zones, late)


def context_of(frame: pl.DataFrame, layout: Layout, check: Any = None) -> Array:
    """Return x (N, p) of a frame as the instance's schema encodes it; what is bad is noted."""
    check = check or _Check(frame)
    columns: list[Array] = [np.empty(0)] * layout.width
    for part in layout.context:
        series, kind = frame[part.column], part.kind
        if isinstance(kind, Number):
            columns[part.positions[0]], reasons = numbers(series, kind.low, kind.high)
        elif isinstance(kind, Category):
            codes, reasons = levels(series, kind.levels)
            for place, at in enumerate(part.positions):
                columns[at] = codes == place
        else:
            columns[part.positions[0]], reasons = flags(series)
        check.add(part.column, reasons)
    return _side_by_side(columns, frame.height)


def _side_by_side(columns: list[Array], n: int) -> Array:
    """Return columns (N,) as (N, c), row by row in memory, written once.

    Blocks of rows, for else each column's writing would go through the whole of main memory.
    """
    wide = np.empty((n, len(columns)))
    for start in range(0, n, _BLOCK):
        rows = slice(start, start + _BLOCK)
        for j, column in enumerate(columns):
            wide[rows, j] = column[rows]
    return wide


def _numbers(check: _Check, column: str, *args: Any, **settings: Any) -> Array:
    values, reasons = numbers(check.frame[column], *args, **settings)
    check.add(column, reasons)
    return values


def _actions(check: _Check, actions: tuple[ActionColumn, ...], columns: tuple[str, ...]) -> Array:
    """Return actions (N, D); a row of NaN where all its cells are empty, bad where some are."""
    action = np.empty((check.frame.height, len(columns)))
    for j, (part, column) in enumerate(zip(actions, columns, strict=True)):
        if part.levels:
            action[:, j], reasons = choices(check.frame[column], part.levels)
            check.add(column, reasons)
        else:
            action[:, j] = _numbers(check, column, optional=True)
    if len(columns) > 1:
        is_nan = np.isnan(action)
        if is_nan.any():
            n_empty = is_nan.sum(axis=1)
            part_only = (n_empty > 0) & (n_empty < len(columns))
            if check.bad is not None:
                part_only &= ~check.bad
            check.add(columns[0], [("only a part of the action is given", part_only)])
    return action


def _statuses(check: _Check, layout: Layout, batch: Batch) -> None:
    """Read what became of the proposals; what ran must not contradict it."""
    if not layout.status:
        return
    columns = []
    for column in layout.status:
        codes, reasons = statuses(check.frame[column])
        check.add(column, reasons)
        columns.append(codes)
    each = np.stack(columns, axis=1)
    if layout.n_gates:
        batch.statuses = each
    # Nothing follows a veto, a hold or an expiry; else a change anywhere is a change.
    batch.status = each.max(axis=1) if each.shape[1] > 1 else each[:, 0]
    nothing = np.isnan(batch.action[:, 0])
    if check.bad is not None:
        nothing &= ~check.bad  # an action that could not be read did run
    if nothing.any():
        for code in range(NOT_REACHED + 1, MODIFIED + 1):
            reason = f"status says {STATUS[code]}, but no action ran"
            check.add(layout.action[0], [(reason, nothing & (batch.status == code))])


def _check_outcome(check: _Check, layout: Layout, outcome: Array) -> None:
    """Ask the reward which outcomes cannot be."""
    seen = np.isfinite(outcome).all(axis=1)
    y = outcome if seen.all() else outcome[seen]
    if len(y) == 0 or _is_possible(layout.rule, y):
        return
    different, place = np.unique(y, axis=0, return_inverse=True)
    possible = np.array([_is_possible(layout.rule, row[None]) for row in different])
    mask = np.zeros(len(outcome), dtype=bool)
    mask[seen] = ~possible[place.reshape(-1)]
    check.add(layout.outcome[0], [("an outcome that cannot be", mask)])


def _is_possible(rule: Reward, y: Array) -> bool:
    try:
        rule.check(y)
    except InvalidInput:
        return False
    return True


def _late(frame: pl.DataFrame, layout: Layout, time: Array) -> dict[str, int]:
    late = {}
    for name, column in layout.decided:
        known, _, _ = times(frame[column])
        with np.errstate(invalid="ignore"):
            late[name] = int((known > time).sum()) if layout.time else 0
    return late


def _own_faults(check: _Check) -> None:
    own = check.frame[FAULT]
    if own.null_count() == len(own):
        return
    for reason in own.drop_nulls().unique().sort().to_list():
        check.add("", [(reason, (own == reason).fill_null(False).to_numpy())])
    check.unread = check.bad
