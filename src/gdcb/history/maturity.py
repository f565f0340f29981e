"""Which rows of a log are too young for their outcomes: they are set aside before all else.

Where sales are reported after a day and non-sales after thirty, the last thirty days of a log know
sales only. Rows younger than the maturity are left out of everything: features, scaler, tests and
arms. The maturity is declared, or taken from the times of the outcomes, or from where at the end of
the log outcomes begin to be missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gdcb.analysis.resampled import resampled_p
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.history import sentences as say
from gdcb.history.batch import Batch

SHARE = 0.1  # of the error rate of all tests that 'missing by age' has; it is made first
_BINS = 200  # of time, over which missing outcomes are counted
_MOST_STEPS = 5  # back from the end of the log, where outcomes come in slowly
_LEAST_MISSING = 5
_LASTING = 0.25  # of the excess that each half of the young rows has at least
_WAITED = 0.99  # of the outcomes came within what is taken for the maturity
_LEAST_ROWS = 100  # old enough to tell it
_MOST_ROUNDS = 20  # in which the wait and the rows old enough for it are brought together
_LEAST_OF_A_KIND = 5  # outcomes, or it has no wait of its own
_MOST_VALUES = 10  # of an outcome of which each value is a kind
_CLOSE = 1.1  # an age from missing outcomes is known to a bin, and is above by that much if larger
_DATED = 0.95  # of the outcomes of every kind have a time, or how long they take is not known
_ANY = "any outcome"  # the first kind
_SEED = 22  # of draws: the same log has the same certificate


@dataclass(frozen=True, slots=True)
class Maturity:
    """Which rows are too young for their outcomes.

    Parameters
    ----------
    source : 'declared', 'outcome times', 'missing outcomes', or '': no row is too young
    after : age from which on a row is used, in seconds, or in rows where the log has no time; or
        None
    until : time of the last row that is used; None: all are
    has_time : whether ages are seconds
    p : of 'outcomes are missing at any age alike'; None where too few are missing to tell
    threshold : of p
    set_aside : rows that are not used
    is_missing : whether any outcome is missing
    is_known : whether it is known how long outcomes take: declared, or from the times of outcomes
        of every kind
    undated : kinds of outcomes that mostly have no time where others have one, as 'sold = 0'
    """

    source: str = ""
    after: float | None = None
    until: float | None = None
    has_time: bool = True
    p: float | None = None
    threshold: float = 0.0
    set_aside: int = 0
    is_missing: bool = False
    is_known: bool = False
    undated: tuple[str, ...] = ()

    @property
    def lacks(self) -> tuple[str, ...]:
        """Kinds of outcomes whose age was not tested though the ages come from outcome times."""
        return self.undated if self.source == "outcome times" else ()

    def is_mature(self, time: Array) -> Array:
        """Whether rows are old enough: (N,)."""
        if self.until is None:
            return np.ones(time.size, dtype=bool)
        return np.asarray(time <= self.until)

    def keep(self, batch: Batch) -> Batch:
        """Return the rows that are old enough."""
        if self.until is None:
            return batch
        is_mature = self.is_mature(batch.time)
        return batch if is_mature.all() else batch.take(np.flatnonzero(is_mature))

    @property
    def says(self) -> str:
        """One sentence."""
        if not self.source or self.after is None:
            return say.all_mature(self.p, self.is_missing)
        told = (self.set_aside, self.after, self.has_time, self.source, self.p)
        return say.set_aside(*told, self.lacks)

    def as_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "set_aside": self.set_aside,
            "source": self.source or None,
            "after": self.after,
            "unit": "seconds" if self.has_time else "rows",
            "p": self.p,
            "undated": list(self.undated),
            "says": self.says,
        }


def maturity_of(
    rows: Batch,
    declared: float | None,
    level: float,
    has_time: bool,
    names: Sequence[str] = (),
) -> Maturity:
    """Find out from which age on outcomes are there.

    Parameters
    ----------
    rows : of the log, all or a sample
    declared : seconds, or None
    level : of the certificate's tests together
    has_time : whether times are seconds since 1970, and not the numbers of rows
    names : of the outcomes
    """
    if declared and not has_time:
        raise InvalidInput(
            "history.matures_after: expected dates in the time column, so that rows have an age in "
            "seconds; its times are plain numbers"
        )
    ran = np.isfinite(rows.action[:, 0])
    is_missing = np.asarray(np.isnan(rows.outcome).any(axis=1))
    last = float(rows.time.max(initial=-np.inf))
    after, is_known = 0.0, False
    undated: tuple[str, ...] = ()
    known = ran & ~is_missing
    if rows.observed is not None and np.isfinite(rows.observed[known]).any():
        times = rows.time[known], rows.observed[known]
        kinds = _kinds(rows.outcome[known], names)
        after, undated = _wait(*times, kinds, last)
        is_known = not undated
    end = _end(last, rows.observed, declared or after)
    threshold = SHARE * level
    p, cut = _missing_by_age(rows.time[ran], is_missing[ran], threshold)
    found = Maturity("", None, None, has_time, p, threshold, 0, bool(is_missing[ran].any()))
    if declared:
        found = replace(found, is_known=True)
        return _set_aside(found, "declared", declared, end - declared, rows)
    found = replace(found, is_known=is_known, undated=undated)
    if cut is not None and end - cut > _CLOSE * after:
        return _set_aside(found, "missing outcomes", end - cut, cut, rows)
    if after > 0:
        return _set_aside(found, "outcome times", after, end - after, rows)
    return found


def _set_aside(found: Maturity, source: str, after: float, until: float, rows: Batch) -> Maturity:
    n = int((rows.time > until).sum())
    if n == rows.n:
        raise InvalidInput(
            f"history: all {n:,} rows are too young: outcomes need "
            f"{say.duration(after, found.has_time)} ({source}), counted from the end of the log"
        )
    if n == 0:
        return found
    return replace(found, source=source, after=after, until=until, set_aside=n)


def _kinds(outcome: Array, names: Sequence[str]) -> list[tuple[str, Array]]:
    """Return which rows (N,) have outcomes of each kind: of one value, or a third of many values.

    Kinds of very few rows say nothing by themselves, and are left to all rows, the first kind.
    """
    found = [(_ANY, np.ones(outcome.shape[0], dtype=bool))]
    for i, column in enumerate(outcome.T):
        name = names[i] if i < len(names) else "the outcome"
        values, kind_of = np.unique(column, return_inverse=True)
        called = [f"{name} = {value:g}" for value in values[:_MOST_VALUES]]
        if values.size > _MOST_VALUES:
            kind_of = np.searchsorted(np.quantile(column, (1 / 3, 2 / 3)), column)
            called = [f"{size} {name}" for size in ("low", "middling", "high")]
        kinds = [(called[kind], kind_of == kind) for kind in np.unique(kind_of)]
        found += [(one, kind) for one, kind in kinds if kind.sum() >= _LEAST_OF_A_KIND]
    return found


def _end(last: float, observed: Array | None, after: float) -> float:
    """Return when the log ended: the `last` decision, or outcomes that came in later.

    An outcome later than the last decision by more than `after` makes no row older than it has to
    be, and a few late ones may be typing errors: the end is that of the fifth latest.
    """
    if observed is None:
        return last
    later = np.sort(observed[np.isfinite(observed) & (observed > last)])
    if later.size < _LEAST_OF_A_KIND:
        return last
    return min(float(later[-_LEAST_OF_A_KIND]), last + after)


def _wait(
    time: Array, observed: Array, kinds: Sequence[tuple[str, Array]], last: float
) -> tuple[float, tuple[str, ...]]:
    """Return how long outcomes take, those of the slowest kind, and of which that is not known.

    Of each kind it is the time within which 99 % came, among rows old enough to have waited as
    long: all rows at first, then those that are older than what was found. One late or mistyped
    time among many does not move it. NaN is no time.
    """
    waited = np.maximum(observed - time, 0.0)
    dated = np.isfinite(waited)
    lack = [name for name, kind in kinds if dated[kind].mean() < _DATED]
    undated = tuple([name for name in lack if name != _ANY] or lack)

    def slowest(old: Array) -> float:
        taken = [0.0]
        for _, kind in kinds:
            some = dated & kind & old
            some = some if some.sum() >= _LEAST_OF_A_KIND else dated & kind
            if some.any():
                taken.append(float(np.quantile(waited[some], _WAITED, method="lower")))
        return max(taken)

    after = slowest(dated)
    for _ in range(_MOST_ROUNDS):
        old = _end(last, observed, after) - time >= after
        if (old & dated).sum() < _LEAST_ROWS:
            break
        before, after = after, slowest(old)
        if after <= before:
            break
    return after, undated


def _missing_by_age(
    time: Array, is_missing: Array, level: float
) -> tuple[float | None, float | None]:
    """Test whether outcomes are missing more often at the end; return p, and the last time before.

    The date from which on they are is that of the largest standardised difference, and both halves
    of what follows must share it: a day without outcomes in the middle of a log has nothing to do
    with age. What is left is tested again, since outcomes may come in slowly.
    """
    if int(is_missing.sum()) < _LEAST_MISSING or is_missing.all():
        return None, None
    edges = np.unique(np.quantile(time, np.arange(1, _BINS) / _BINS))
    bins = np.searchsorted(edges, time, side="left")
    n = np.bincount(bins, minlength=edges.size + 1)
    missing = np.bincount(bins, is_missing, edges.size + 1).round().astype(np.int64)
    first: float | None = None
    last = n.size  # bins that are used
    for _ in range(_MOST_STEPS):
        if last < 2 or not missing[:last].any():
            break
        p, at = _later(n[:last], missing[:last], level)
        first = p if first is None else first
        if p > level or not _is_lasting(n[:last], missing[:last], at):
            break
        last = at
    if last == n.size:
        return first, None
    last = max(last - 1, 1)  # within a bin some rows are older than others
    return first, float(time[bins < last].max())


def _later(n: Array, missing: Array, level: float) -> tuple[float, int]:
    """Return p of 'missing anywhere alike' against more of them from some bin on, and that bin."""
    rng, total = np.random.default_rng(_SEED), int(missing.sum())
    rate = total / n.sum()
    after = n[::-1].cumsum()[::-1][1:]
    sd = np.sqrt(np.maximum(rate * (1.0 - rate) * after * (1.0 - after / n.sum()), 1e-300))

    def excess(counts: Array) -> Array:
        later = counts[::-1].cumsum(axis=0)[::-1][1:]
        return np.asarray((later - rate * after[:, None]) / sd[:, None])

    def draw(k: int) -> Array:
        return rng.multivariate_hypergeometric(n, total, size=k, method="marginals").T

    observed = missing[:, None].astype(float)
    p, _ = resampled_p(lambda c: excess(c).max(axis=0)[None], observed, draw, level, n.size)
    return p, int(excess(observed)[:, 0].argmax()) + 1


def _is_lasting(n: Array, missing: Array, at: int) -> bool:
    """Whether both halves of the rows from bin `at` on have a good part of the excess."""
    before = missing[:at].sum() / max(n[:at].sum(), 1)
    excess = missing[at:].sum() / max(n[at:].sum(), 1) - before
    middle = at + int(np.searchsorted(n[at:].cumsum(), n[at:].sum() / 2.0)) + 1
    halves = [slice(at, middle), slice(middle, None)]
    shares = [missing[half].sum() / n[half].sum() for half in halves if n[half].sum() > 0]
    return bool(excess > 0) and all(share - before >= _LASTING * excess for share in shares)
