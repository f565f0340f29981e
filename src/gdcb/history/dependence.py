"""Whether the rows of a log depend on each other, and so whether a change can be told from swings.

A change point on rows that depend on each other, as those of one day do, is found far too often:
what looks like a change may be a good week. Such a change is reported and discards nothing. Nor
does one where a season, a trend or a slow walk explains the rows about as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from gdcb.analysis.dependence import NEIGHBOURS, serial_dependence
from gdcb.analysis.resampled import in_bands
from gdcb.analysis.steps_or_swings import log_odds_of_steps
from gdcb.arrays import Array
from gdcb.history import sentences as say
from gdcb.history.stability import Change, LawRows, law_of_blocks

_DAY = 86_400.0  # seconds
_NEAR = 2  # segments on either side of a change that say nothing: its date is not exact
HARMLESS = 1.1  # inflation of variances below which dependence changes no test
_LEAST_ROWS = 50
_LEAST_DAYS = 20  # in a log of several days, or an unusual day cannot be told from a change
_MOST_CHANGES = 2  # more of them are swings
_BLOCKS, _ROWS_A_BLOCK = 40, 15  # of time, in which steps are held against slow swings
_TOLD = float(np.log(10.0))  # by so much likelier than swings must each step be


@dataclass(frozen=True, slots=True)
class Dependence:
    """Whether independence of rows was tested, and what was found.

    Parameters
    ----------
    is_tested : whether there were rows enough
    is_found : whether changes over time cannot be told from swings; they then discard nothing
    p : of 'rows are independent'; None where not tested
    inflation : by how much sums of rows vary more than those of independent rows
    among : the rows that resemble each other most
    says : one sentence
    """

    is_tested: bool
    is_found: bool
    p: float | None
    inflation: float
    among: str
    says: str

    def as_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "is_tested": self.is_tested,
            "is_found": self.is_found,
            "p": self.p,
            "inflation": self.inflation,
            "among": self.among,
            "says": self.says,
        }


def dependence_of(
    rows: LawRows,
    moments: Array,
    law: Sequence[Change],
    has_time: bool,
    level: float,
    followed: Callable[[str], Array],
    is_constant: bool = False,
) -> Dependence:
    """Test the residuals between changes; then hold the changes against slow swings.

    What a change explains is no dependence by itself. But changes may be what a slow swing looks
    like in steps: they must be likelier than one.

    Parameters
    ----------
    rows : of the pilot
    moments : (S, K + 1, 2, q, q) as in `Statistics`
    law : the changes that were found
    has_time : whether times are dates, so that rows have a day
    level : of the test
    followed : from what changed to the regressor of it: (N,)
    is_constant : whether all outcomes are the same, so that residuals are rounding
    """
    if is_constant:
        told = say.dependence_untested(is_constant)
        return Dependence(False, False, None, 1.0, NEIGHBOURS, told)
    splits = sorted({change.split for change in law})
    left, group, known = _residuals(rows, moments, splits)
    order = known[np.argsort(rows.time[known], kind="stable")]
    if order.size < _LEAST_ROWS:
        told = say.dependence_untested(n_changes=len(splits))
        return Dependence(False, bool(splits), None, 1.0, NEIGHBOURS, told)
    day = np.floor(rows.time[order] / _DAY).astype(np.int64) if has_time else None
    unit = rows.unit[order]
    found = serial_dependence(left[order], day, unit, group[order], level)
    p, inflation, among = found.p, found.inflation, found.among
    if p <= level and inflation >= HARMLESS:
        told = say.rows_dependent(among, inflation, p)
        return Dependence(True, True, p, inflation, among, told)
    n_days = 0 if day is None else int(np.unique(day).size)
    if len(splits) > _MOST_CHANGES:
        told = say.too_many_changes(len(splits))
        return Dependence(True, True, p, inflation, among, told)
    if splits and 1 < n_days < _LEAST_DAYS:
        return Dependence(True, True, p, inflation, among, say.too_few_days(n_days))
    if splits and not _are_steps(rows, moments, law, left, order, followed):
        return Dependence(True, True, p, inflation, among, say.slow_swings())
    if p <= level:
        told = say.rows_slightly_dependent(among, inflation, p)
    else:
        told = say.rows_independent(p, level)
    return Dependence(True, False, p, inflation, among, told)


def _are_steps(
    rows: LawRows,
    moments: Array,
    law: Sequence[Change],
    between: Array,
    order: Array,
    followed: Callable[[str], Array],
) -> bool:
    """Whether each of the changes is far likelier than a slow swing.

    The residuals of one law for the whole log, in blocks of time, are the path that both explain;
    those `between` the changes (N,) say how much the path of independent rows would vary.
    """
    whole, *_ = _residuals(rows, moments, [])
    splits = sorted({change.split for change in law})
    regime = np.searchsorted(splits, rows.segment[order], side="right")
    n_blocks = min(_BLOCKS, order.size // _ROWS_A_BLOCK)
    block, n = np.empty(order.size, dtype=np.int64), 0
    for r in range(len(splits) + 1):
        here = np.flatnonzero(regime == r)
        own = max(round(n_blocks * here.size / order.size), 1)
        block[here] = n + np.arange(here.size) * own // max(here.size, 1)
        n += own
    count = np.maximum(np.bincount(block, minlength=n), 1)
    time = np.bincount(block, rows.time[order] - rows.time[order[0]], n) / count
    for what in sorted({change.what for change in law}):
        h = (np.sqrt(rows.weight) * followed(what))[order]
        square = np.bincount(block, h * h, n)
        size = np.maximum(np.bincount(regime, h * h, len(splits) + 1), 1e-300)
        noise = np.bincount(regime, (h * between[order]) ** 2, len(splits) + 1) / size
        used = np.flatnonzero(square > 0)
        of = np.zeros(n, dtype=np.int64)
        of[block] = regime
        variance = np.maximum(noise[of[used]], 1e-12 * noise.max()) / square[used]
        mean = np.bincount(block, h * whole[order], n)[used] / square[used]
        after = {split: of[used] > i for i, split in enumerate(splits)}
        own_splits = [after[change.split] for change in law if change.what == what]
        told = max(
            log_odds_of_steps(mean, variance, time[used], some, _TOLD)
            for some in (own_splits, list(after.values()))
        )
        if not told > 0:
            return False
    return True


def _residuals(rows: LawRows, moments: Array, splits: list[int]) -> tuple[Array, Array, Array]:
    """Return residuals (N,), groups in which they may be shuffled, and which rows have one."""
    n, k = moments.shape[0], moments.shape[1] - 1
    left, group = np.zeros(rows.y.size), np.zeros(rows.y.size, dtype=np.int64)
    known: list[Array] = []
    for i, (start, stop) in enumerate(pairwise([0, *sorted(splits), n])):
        low, high = start + (_NEAR if start else 0), stop - (_NEAR if stop < n else 0)
        here = np.flatnonzero((rows.segment >= low) & (rows.segment < high))
        if high - low < 2 or here.size == 0:
            continue
        sums = moments[low:high, :k].sum(axis=0).reshape(2 * k, *moments.shape[-2:])
        fitted = (rows.z[here] * law_of_blocks(sums)[rows.block[here]]).sum(axis=1)
        left[here] = np.sqrt(rows.weight[here]) * (rows.y[here] - fitted)
        group[here] = i * rows.y.size + in_bands(fitted, rows.block[here])
        known.append(here)
    return left, group, np.concatenate(known) if known else np.zeros(0, dtype=np.int64)
