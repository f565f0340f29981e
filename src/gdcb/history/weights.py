"""How likely what ran was: propensities as logged or estimated, and the weights that follow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.analysis.overlap import Overlap, overlap
from gdcb.arrays import Array
from gdcb.history.batch import Batch
from gdcb.history.passage import passed_through
from gdcb.history.plan import Plan, target_of
from gdcb.history.statistics import Statistics
from gdcb.records import History

MOST = 5_000  # rows on which overlap is measured for the report
_REFERENCE = 2_000
_FLOOR, _OF_EVEN = 0.01, 0.2  # an arm less likely than 1 %, or a fifth of even play, is not there
_LOGGED = 0.99  # share of rows with a logged propensity from which on they are taken


@dataclass(slots=True)
class Weighing:
    """Overlap of every arm (K,), and what weighting by it would take.

    Parameters
    ----------
    ess : (Σw)²/Σw² of the arm's rows, w = 1/P(arm executed | x) clipped, scaled to all its
        rows as they count
    uncovered : share of contexts in which the arm's propensity is below 1 %
    clip, clipped : largest weight, and share of the rows above it
    bias_bound : (K,) what cutting them moves the weighted mean of an arm's rows by at most, among
        the rows looked at, in units of the outcome
    is_logged : whether the log says how likely what ran was
    """

    ess: Array
    uncovered: Array
    clip: float
    clipped: float
    bias_bound: Array
    is_logged: bool


def weighing(plan: Plan, statistics: Statistics, first: int, counted: Array) -> Weighing:
    """Measure overlap on rows of the pilot, spread over it, from segment `first` on.

    `counted` (K,) are the arms' rows as the verdict counts them, overridden ones by their weight:
    the effective number is a share of these, and never more.
    """
    batch = plan.pilot
    use = np.flatnonzero(plan.segment(batch.time) >= first)
    batch = batch.take(use[:: max(1, -(-use.size // MOST))])
    history = passed_through(plan.instance, batch, batch.unit, np.zeros_like(batch.unit))
    is_logged = statistics.counts[3] >= _LOGGED * max(
        statistics.counts[0] - statistics.counts[1], 1
    )
    found = overlap_of(plan, batch, history, bool(is_logged))
    ess = found.ess_clipped / np.maximum(found.n, 1) * counted
    rows = max(int(found.n.sum()), 1)
    clipped = float((found.clipped_share * found.n).sum() / rows)
    return Weighing(ess, found.uncovered, found.clip, clipped, found.bias_bound, bool(is_logged))


def overlap_of(plan: Plan, batch: Batch, history: History, is_logged: bool) -> Overlap:
    """Return the weights of a batch's rows, and what they are worth to each arm."""
    log, k = history.log, plan.instance.space.n
    arm, _ = plan.place(log.action, log.is_null, plan.delta(batch.unit, batch.x), batch.x)
    y, _ = target_of(log)
    phi = plan.features(batch.x)
    known = y[np.isfinite(y)]
    span = float(np.ptp(known)) if known.size else 1.0
    arm = np.where((arm < k) & ~log.is_null, arm, -1)
    propensity = None
    if is_logged and batch.propensity is not None:
        told = batch.propensity
        arm = np.where(np.isfinite(told), arm, -1)
        propensity = np.where(np.isfinite(told), told, 1.0)
    return overlap(
        phi,
        arm,
        k,
        phi[:: max(1, -(-batch.n // _REFERENCE))],
        propensity,
        reward_range=span,
        names=plan.instance.space.names,
        floor=min(_FLOOR, _OF_EVEN / k),
        clip=1.0 / _FLOOR,
    )
