"""Did a gate change? Dates from how often it acted on what entered it, by time segment.

Verdicts that depend on each other, as those of one day may, look like a change far too often: such
a change is reported, and no verdict is left out for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from gdcb.analysis.change_points import SegmentSums, stability
from gdcb.analysis.contraction import arm_cells
from gdcb.analysis.resampled import FEW, resampled_p
from gdcb.analysis.step_search import Confirm, Step, StepSearch
from gdcb.arrays import Array
from gdcb.history.dependence import dependence_of
from gdcb.history.passage import passed_through
from gdcb.history.plan import Plan
from gdcb.history.stability import EDGE, LEAST, SEED, TOO_FEW, Change, LawRows, Stability
from gdcb.records import NOT_REACHED, PASSED

_RARELY, _FEW_ACTS = 0.1, 50.0  # share and number of rows that a gate acts on, or lets pass


def gate_changes(acted: Array, name: str, level: float) -> Stability:
    """Test whether a gate acts as often as ever on what enters it: (S, …, 2) rows, and acted on.

    What entered, and the stratum of its context, each have a rate of their own; the excess over it
    is followed over time. Before and after are the shares that it let pass.
    """
    n, k = acted.shape[0], int(np.prod(acted.shape[1:-1]))
    rows, changed = (acted[..., j].reshape(n, k) for j in range(2))
    held = np.flatnonzero(rows.sum(axis=1) > 0)
    if held.size < 2 or rows.sum() < 2 * LEAST:
        return Stability(1.0, (), TOO_FEW)
    rows, changed = rows[held], changed[held]
    seen = rows.sum(axis=0)
    rate = changed.sum(axis=0) / np.where(seen > 0, seen, 1.0)
    count, excess = rows.sum(axis=1), (changed - rate * rows).sum(axis=1)
    square = (changed * (1.0 - 2.0 * rate) + rows * rate**2).sum(axis=1)
    sums = SegmentSums(count, count[:, None, None], excess[:, None], square)
    confirm = None
    fewer = min(float(changed.sum()), float((rows - changed).sum()))
    if fewer < FEW and (fewer < _FEW_ACTS or fewer < _RARELY * float(rows.sum())):
        confirm = _drawn_gate(rows, changed, rate, level)
    found = stability(sums, level, [name], trim=EDGE, least_rows=LEAST, confirm=confirm)
    splits = [point.split for point in found.change_points]
    passed = [
        1.0 - float(changed[a:b].sum() / max(rows[a:b].sum(), 1.0))
        for a, b in pairwise([0, *splits, held.size])
    ]
    changes = [
        Change(int(held[point.split]), name, passed[i], passed[i + 1], max(point.p, found.p))
        for i, point in enumerate(found.change_points)
    ]
    return Stability(found.p, tuple(changes))


def can_tell_changes(
    plan: Plan, gate: int, acted: Array, changes: Sequence[Change], level: float
) -> bool:
    """Whether the changes of a gate can be told from swings of its verdicts.

    They are held against what changes of the reward law are held against: neighbouring verdicts,
    verdicts of one day or on one unit that resemble each other, slow swings, few days, and too few
    rows to test any of that.

    Parameters
    ----------
    gate : which of the chain
    acted : (S, strata, K + 1, 2) as in `Statistics`, of this gate
    changes : those that were found
    level : of the test of dependence
    """
    if not changes:
        return True
    batch, k = plan.pilot, plan.instance.space.n
    verdict = passed_through(plan.instance, batch, batch.unit, np.zeros_like(batch.unit)).verdict
    status, delta = verdict.statuses[:, gate], plan.delta(batch.unit, batch.x)
    proposed = arm_cells(plan.instance, verdict.trail[:, :1], delta, batch.x)[:, 0]
    cell = plan.stratum(plan.features(batch.x)) * (k + 1) + np.minimum(proposed, k)
    reached = np.flatnonzero(status != NOT_REACHED)
    one = np.ones(reached.size)
    rows = LawRows(
        one[:, None],
        (status[reached] != PASSED) * 1.0,
        one,
        2 * cell[reached],
        plan.segment(batch.time)[reached],
        batch.time[reached],
        batch.unit[reached],
    )
    n, total = acted.reshape(acted.shape[0], -1, 2).transpose(2, 0, 1)
    moments = np.zeros((n.shape[0], n.shape[1] + 1, 2, 2, 2))  # z = (1, y) of each cell
    moments[:, :-1, 0] = np.stack((n, total, total, total), axis=-1).reshape(*n.shape, 2, 2)
    found = dependence_of(rows, moments, changes, plan.has_time, level, lambda _: one)
    return not found.is_found


def _drawn_gate(rows: Array, changed: Array, rate: Array, level: float) -> Confirm:
    """Return the exact test of a step: as many rows acted on in each column, in other segments.

    Given how many of a column's rows (S, k) a gate acted on, in which segments they are is
    hypergeometric while nothing changes.
    """
    rows, changed = rows.round().astype(np.int64), changed.round().astype(np.int64)

    def confirm(found: StepSearch, steps: Sequence[Step]) -> tuple[float, int]:
        rng = np.random.default_rng(SEED)
        borders = [0, *sorted(split for _, split in steps), rows.shape[0]]

        def draw(n: int) -> Array:
            out = np.zeros((rows.shape[0], n))
            for a, b in pairwise(borders):
                for c in np.flatnonzero(changed[a:b].sum(axis=0)):
                    total = int(changed[a:b, c].sum())
                    some = rng.multivariate_hypergeometric(
                        rows[a:b, c], total, size=n, method="marginals"
                    )
                    out[a:b] += some.T
            return np.asarray((out - (rows @ rate)[:, None])[:, None])

        observed = (changed.sum(axis=1) - rows @ rate)[:, None, None]
        return resampled_p(found.largest(steps), observed, draw, level, rows.size)

    return confirm
