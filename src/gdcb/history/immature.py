"""Whether a change at the end of a log may be no more than outcomes that were not known yet.

Where a log has no row for an outcome that is still to come, or a 0 in its place, its last weeks
look as if the reward law had changed, and keeping the rows since then would keep the wrong ones
only. Of such a change the log cannot tell: it is reported and discards nothing, unless it is known
how long outcomes take.
"""

from __future__ import annotations

import numpy as np

from gdcb.arrays import Array
from gdcb.history.stability import LawRows

_END = 1.0 / 3.0  # of the log's time, in which outcomes of any kind may be to come
_FEWER = 0.8  # rows in a day after a change, of those before it, from which on some are absent
_VANISHED = 0.1  # of the share of the other outcomes that is left where all are of one class
_DOUBT = 2.5  # standard deviations, one side: 0.6 % of real changes are doubted by each rule


def may_be_immature(rows: LawRows, split: int) -> bool:
    """Whether outcomes that were not known yet could explain a change before segment `split`.

    They could where the change lies in the last third of the log; where since then rows are fewer
    in a day, so that some are absent; where outcomes are nearly all of one class since then; and
    where outcomes go on changing in the same way, as they do while they come in.
    """
    after = rows.segment >= split
    n, later = after.size, int(after.sum())
    if not 0 < later < n:
        return False
    start, at, end = float(rows.time.min()), float(rows.time[after].min()), float(rows.time.max())
    part = (end - at) / max(end - start, 1e-300)
    if part <= _END:
        return True
    expected = part * n
    sd = np.sqrt(expected * (1.0 - part))
    if later < _FEWER * expected and expected - later > _DOUBT * sd:
        return True
    y = rows.y
    before, since = y[~after], y[after]
    values, counts = np.unique(since, return_counts=True)
    common = values[counts.argmax()]
    others = float((before != common).mean())
    if others > 0 and float((since != common).mean()) <= _VANISHED * others:
        return True
    return _goes_on(before, since[np.argsort(rows.time[after], kind="stable")])


def _goes_on(before: Array, since: Array) -> bool:
    """Whether outcomes after a change differ between halves as they differ from those before."""
    half = since.size // 2
    if half < 2:
        return False
    first, second = since[:half], since[half:]
    way = np.sign(since.mean() - before.mean())
    sd = np.sqrt(first.var() / first.size + second.var() / second.size)
    return bool(way * (second.mean() - first.mean()) > _DOUBT * sd)
