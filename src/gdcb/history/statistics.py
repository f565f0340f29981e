"""Sums of a log: all that the certificate and the warm start need of it, whatever its size.

Sums of parts add up to the sums of the whole, so a log is summed up batch by batch, or by many
workers. Where a row is counted follows from the `Plan` alone.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from gdcb.analysis.contraction import arm_cells
from gdcb.arrays import Array
from gdcb.history.batch import Batch
from gdcb.history.passage import passed_through
from gdcb.history.plan import SEGMENTS, STRATA, Plan, target_of
from gdcb.records import NOT_REACHED, PASSED, History


@dataclass(slots=True)
class Statistics:
    """Sums over rows. S segments, K arms (and K: off every arm), C = K + 2 cells, G gates.

    Parameters
    ----------
    moments : (S, K + 1, 2, q, q) Σw·zzᵀ with z = (1, φ, distance from the arm, y less the unit's
        level), by segment,
        executed arm, and whether a person had put the action in place of another; rows with an
        outcome
    cells : (cells, K, 2, 3) Σw, Σwy, Σwy² of every posterior's arms, likewise; `by_cell` asks
    acted : (G, S, strata, K + 1, 2) rows that reached a gate, by what entered, and those of them
        that it changed or stopped
    passage : (G + 1, strata, C, C) rows by the cell that entered a person's gate and the one that
        left it; last, by what was proposed and what was executed
    seen : (S, strata, K + 1, 2) rows in which something ran: all, and those without an outcome
    propensity : (K, 2) Σ1/π and Σ1/π² of rows with a logged propensity, by executed arm
    counts : (6,) rows; rows in which nothing ran; overridden; with a logged propensity; with a
        proposal; rows that are too young and count nowhere else
    """

    moments: Array
    cells: Array
    acted: Array
    passage: Array
    seen: Array
    propensity: Array
    counts: Array

    @staticmethod
    def zeros(plan: Plan) -> Statistics:
        """Return the sums of no row."""
        instance, p = plan.instance, plan.features.mean.size + plan.instance.space.n_coords
        k, n_gates = instance.space.n, len(instance.chain.gates)
        return Statistics(
            np.zeros((SEGMENTS, k + 1, 2, p + 2, p + 2)),
            np.zeros((plan.units * instance.cells.n, k, 2, 3)),
            np.zeros((n_gates, SEGMENTS, STRATA, k + 1, 2)),
            np.zeros((n_gates + 1, STRATA, k + 2, k + 2)),
            np.zeros((SEGMENTS, STRATA, k + 1, 2)),
            np.zeros((k, 2)),
            np.zeros(6),
        )

    def merge(self, other: Statistics) -> None:
        """Add another part's sums."""
        for field in dataclasses.fields(Statistics):
            mine = getattr(self, field.name)
            mine += getattr(other, field.name)

    def add(self, plan: Plan, batch: Batch) -> None:
        """Add the rows of a batch that are old enough for their outcomes."""
        read, batch = batch.n, plan.maturity.keep(batch)
        self.counts[5] += read - batch.n
        history = passed_through(plan.instance, batch, batch.unit, np.zeros_like(batch.unit))
        self.add_history(plan, batch, history)

    def add_history(self, plan: Plan, batch: Batch, history: History) -> None:
        """Add rows whose passage through the gates is known."""
        instance, log = plan.instance, history.log
        k = instance.space.n
        delta = plan.delta(batch.unit, batch.x)
        segment = plan.segment(batch.time)
        arm, off = plan.place(log.action, log.is_null, delta, batch.x)
        y, weight = target_of(log)
        weight = np.asarray(weight / plan.unit)
        within = plan.within(y, batch.unit)
        ran = ~log.is_null
        is_seen = np.isfinite(y)
        known = ran & is_seen
        order, place = self._order(segment, arm, log.is_override)
        phi = self._moments(plan, batch.x, off, within, weight, known, order, place)
        stratum = plan.stratum(phi)  # of rows in that order, as all below
        if self.cells.shape[0] > 1:  # else the moments have it all
            credited = np.flatnonzero(known & (arm < k))
            cell = instance.cells.of(batch.unit, delta)[credited]
            at = (cell * k + arm[credited]) * 2 + log.is_override[credited]
            for j, power in enumerate((1.0, y[credited], y[credited] ** 2)):
                sums = np.bincount(at, weight[credited] * power, self.cells[..., j].size)
                self.cells[..., j] += sums.reshape(self.cells.shape[:-1])
        where = (segment[order] * STRATA + stratum) * (k + 1) + arm[order]
        for j, rows in enumerate((ran, ran & ~is_seen)):
            if rows.any():
                some = where if rows.all() else where[rows[order]]
                sums = np.bincount(some, minlength=self.seen[..., j].size)
                self.seen[..., j] += sums.reshape(self.seen.shape[:-1])
        if batch.propensity is not None:
            logged = np.flatnonzero(ran & (arm < k) & np.isfinite(batch.propensity))
            inverse = 1.0 / batch.propensity[logged]
            self.propensity[:, 0] += np.bincount(arm[logged], inverse, k)
            self.propensity[:, 1] += np.bincount(arm[logged], inverse**2, k)
            self.counts[3] += np.count_nonzero(ran & np.isfinite(batch.propensity))
        self.counts[:3] += (batch.n, np.count_nonzero(log.is_null), np.sum(log.is_override))
        if batch.recommended is not None:
            self.counts[4] += batch.n
            in_log = np.empty_like(stratum)
            in_log[order] = stratum
            self._gates(plan, batch, history, delta, segment, in_log, arm)

    def by_cell(self) -> Array:
        """Return Σw, Σwy, Σwy² of every posterior's arms: (cells, K, 2, 3)."""
        if self.cells.shape[0] > 1:
            return self.cells
        whole = self.moments[:, : self.cells.shape[1]].sum(axis=0)
        parts = (whole[..., 0, 0], whole[..., 0, -1], whole[..., -1, -1])
        return np.stack(parts, axis=-1)[None]

    def _order(self, segment: Array, arm: Array, is_override: Array) -> tuple[Array, Array]:
        """Return rows in the order of the places where they are counted, and those places."""
        n_segments, n_arms = self.moments.shape[:2]
        place = (segment * n_arms + arm) * 2 + is_override
        # Small numbers are sorted in one pass.
        small = place.astype(np.uint16) if n_segments * n_arms * 2 < 2**16 else place
        order = np.argsort(small, kind="stable")
        return order, place[order]

    def _moments(
        self,
        plan: Plan,
        x: Array,
        off: Array,
        y: Array,
        weight: Array,
        known: Array,
        order: Array,
        place: Array,
    ) -> Array:
        """Add zzᵀ of rows in order: one product a place. Return their φ (N, p)."""
        p = plan.features.mean.size
        z = np.empty((p + off.shape[1] + 2, order.size))  # long rows are quick to fill
        z[0] = 1.0
        plan.features.write(np.take(x, order, axis=0), z[1 : p + 1])
        z[p + 1 : -1], z[-1] = np.take(off, order, axis=0).T, y[order]
        phi = z[1 : p + 1].T
        weight = weight[order]
        if not known.all():
            rows = np.flatnonzero(known[order])
            z, weight, place = z[:, rows], weight[rows], place[rows]
        weighted = z if (weight == 1.0).all() else z * weight
        starts = np.flatnonzero(np.diff(place, prepend=-1))
        flat = self.moments.reshape(-1, z.shape[0], z.shape[0])
        for start, stop in zip(starts, [*starts[1:], place.size][: starts.size], strict=True):
            flat[place[start]] += weighted[:, start:stop] @ z[:, start:stop].T
        return phi

    def _gates(
        self,
        plan: Plan,
        batch: Batch,
        history: History,
        delta: Array,
        segment: Array,
        stratum: Array,
        arm: Array,
    ) -> None:
        """Count what entered each gate, and what became of it."""
        instance, verdict = plan.instance, history.verdict
        k = instance.space.n
        proposed = arm_cells(instance, verdict.trail[:, :1], delta, batch.x)[:, 0]
        self._passed(-1, stratum, proposed, np.where(history.log.is_null, k + 1, arm))
        for g, gate in enumerate(instance.chain.gates):
            reached = np.flatnonzero(verdict.statuses[:, g] != NOT_REACHED)
            if not gate.is_hard and reached.size:
                both = verdict.trail[reached, g : g + 2]
                cells = arm_cells(instance, both, delta[reached], batch.x[reached])
                self._passed(g, stratum[reached], cells[:, 0], cells[:, 1])
        entered = np.minimum(proposed, k)
        where = (segment * STRATA + stratum) * (k + 1) + entered
        for g in range(verdict.statuses.shape[1]):
            status = verdict.statuses[:, g]
            reached = status != NOT_REACHED
            for j, rows in enumerate((reached, reached & (status != PASSED))):
                sums = np.bincount(where[rows], minlength=self.acted[g, ..., j].size)
                self.acted[g, ..., j] += sums.reshape(self.acted.shape[1:-1])

    def _passed(self, gate: int, stratum: Array, entered: Array, left: Array) -> None:
        size = self.passage.shape[1:]
        flat = (stratum * size[1] + entered) * size[2] + left
        self.passage[gate] += np.bincount(flat, minlength=self.passage[gate].size).reshape(size)
