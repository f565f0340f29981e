"""Whether the rows of a log depend on each other, and so whether a change can be told from swings.

A change point on rows that depend on each other, as those of one day do, is found far too often:
what looks like a change may be a good week. Such a change is reported and discards nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from gdcb.analysis.dependence import NEIGHBOURS, serial_dependence
from gdcb.analysis.resampled import in_bands
from gdcb.arrays import Array
from gdcb.history import sentences as say
from gdcb.history.stability import LawRows, law_of_blocks

_DAY = 86_400.0  # seconds
_NEAR = 2  # segments on either side of a change that say nothing: its date is not exact
_HARMLESS = 1.1  # inflation of variances below which dependence changes no test
_LEAST_ROWS = 50
_LEAST_DAYS = 20  # in a log of several days, or an unusual day cannot be told from a change
_MOST_CHANGES = 2  # more of them are swings


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
    splits: list[int],
    has_time: bool,
    level: float,
    is_constant: bool = False,
) -> Dependence:
    """Test the residuals between changes: what a change explains is no dependence.

    Parameters
    ----------
    rows : of the pilot
    moments : (S, K + 1, 2, q, q) as in `Statistics`
    splits : segments before each change that was found
    has_time : whether times are dates, so that rows have a day
    level : of the test
    is_constant : whether all outcomes are the same, so that residuals are rounding
    """
    if is_constant:
        told = say.dependence_untested(is_constant)
        return Dependence(False, False, None, 1.0, NEIGHBOURS, told)
    left, group, known = _residuals(rows, moments, splits)
    order = known[np.argsort(rows.time[known], kind="stable")]
    if order.size < _LEAST_ROWS:
        return Dependence(False, False, None, 1.0, NEIGHBOURS, say.dependence_untested())
    day = np.floor(rows.time[order] / _DAY).astype(np.int64) if has_time else None
    unit = rows.unit[order]
    found = serial_dependence(left[order], day, unit, group[order], level)
    p, inflation, among = found.p, found.inflation, found.among
    if p <= level and inflation >= _HARMLESS:
        told = say.rows_dependent(among, inflation, p)
        return Dependence(True, True, p, inflation, among, told)
    n_days = 0 if day is None else int(np.unique(day).size)
    if len(splits) > _MOST_CHANGES:
        told = say.too_many_changes(len(splits))
        return Dependence(True, True, p, inflation, among, told)
    if splits and 1 < n_days < _LEAST_DAYS:
        return Dependence(True, True, p, inflation, among, say.too_few_days(n_days))
    return Dependence(True, False, p, inflation, among, say.rows_independent(p))


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
