"""The warm start of both loops: what the certificate's verdicts say, and no more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from gdcb import round as turn
from gdcb.arrays import Array
from gdcb.bandits import Bandit
from gdcb.errors import InvalidInput
from gdcb.history.arms import adjusted, arm_sums, bias_of
from gdcb.history.batch import Batch
from gdcb.history.certificate import Certificate, Treatment
from gdcb.history.passage import passed_through
from gdcb.history.plan import FOLDS, Plan, teach_scaler
from gdcb.history.statistics import Statistics
from gdcb.history.weights import overlap_of
from gdcb.instance import Instance
from gdcb.records import Evidence, History, Log, flatten, grow
from gdcb.refold import refold


def warm_start(
    certificate: Certificate,
    batch: Batch,
    instance: Instance,
    bandit: Bandit,
    state: turn.RoundState,
    group: Array,
    first_unit: int = 0,
) -> History:
    """Start both loops from the rows of a log, as its certificate says; return what was taught.

    The scaler is fitted on outcomes or labels of rows whose arms are not refused, and held within
    the range of what ran (`gdcb.delta_limits`). The gates' kernels learn the verdicts since the
    last change of their gate, and the arms then learn rows that are left out, weighed and adjusted
    as the verdicts say. Where the history is refused, nothing is taught and the state stays as is.

    Parameters
    ----------
    batch : the log's rows; those that are too young for their outcomes teach nothing
    state, group : what is started warm, and the group of each of its units
    first_unit : the place of the log's first unit in the state
    """
    batch = certificate.plan.maturity.keep(batch)
    history = treated(certificate, batch, group, first_unit)
    if certificate.is_refused or history.log.unit.size == 0:
        return history
    plan = certificate.plan
    log = history.log
    limit(certificate, instance, state, log)
    teach_scaler(instance, state, for_scaler(certificate, batch, log), batch.label, group)
    if instance.rules.select == "gate" and batch.recommended is not None:
        since = np.flatnonzero(plan.segment(batch.time) >= certificate.gate_first)
        instance.chain.learn(state.kernels, history.rows.take(since), history.verdict.take(since))
    refold(instance, bandit, state, log, group, np.unique(log.group))
    return history


def start(
    certificate: Certificate, log: Any, instance: Instance, bandit: Bandit, group: Array
) -> tuple[turn.RoundState, History | None]:
    """Return a fresh state started from a log of any size, and its rows where they were kept.

    A log that was kept whole is learned row by row. Of a larger one, independent arms learn its
    sums, learners that add up learn it batch by batch, and learners that are fitted on all rows at
    once learn the pilot: a sample.
    """
    state = turn.init(instance, bandit, group)
    plan, statistics = certificate.plan, certificate.statistics
    if plan.is_whole or "refit" in bandit.supports or statistics is None:
        history = warm_start(certificate, plan.pilot, instance, bandit, state, group)
        return state, history if plan.is_whole else None
    if certificate.is_refused:
        return state, None
    is_same = same(taught_scaler(certificate), plan.scaler)  # else rows lie at other arms now
    if is_same and can_use_sums(certificate, statistics, bandit):
        warm_start_from_sums(certificate, statistics, instance, bandit, state)
    else:
        teach_batches(certificate, log.batches(), instance, bandit, state, group)
    pilot = plan.pilot
    if instance.rules.select == "gate" and pilot.recommended is not None:
        seen = passed_through(instance, pilot, pilot.unit, group[pilot.unit])
        since = np.flatnonzero(plan.segment(pilot.time) >= certificate.gate_first)
        instance.chain.learn(state.kernels, seen.rows.take(since), seen.verdict.take(since))
    return state, None


def can_use_sums(certificate: Certificate, statistics: Statistics, bandit: Bandit) -> bool:
    """Whether the sums of a log teach this learner all that its rows would."""
    treatment = certificate.treatment
    is_plain = treatment.slopes is None and treatment.first == 0
    is_alone = not bandit.is_curve and not bandit.reads
    is_weighted = "reweight" in treatment.verdicts
    return is_alone and not is_weighted and (is_plain or statistics.cells.shape[0] == 1)


def treated(certificate: Certificate, batch: Batch, group: Array, first_unit: int = 0) -> History:
    """Return the rows as the verdicts leave them: left out (weight 0), weighed, adjusted."""
    plan, treatment = certificate.plan, certificate.treatment
    unit = batch.unit + first_unit
    if unit.size and int(unit.max()) >= group.size:
        raise InvalidInput(f"history: expected units below {group.size}, got {int(unit.max())}")
    history = passed_through(plan.instance, batch, unit, group[unit])
    y, weight = treated_rows(plan, treatment, batch, history)
    log = replace(history.log, y=y, weight=weight, propensity=None)
    return replace(history, log=log)


def treated_rows(
    plan: Plan, treatment: Treatment, batch: Batch, history: History
) -> tuple[Array, Array]:
    """Return outcome and weight of every row (N,) as the verdicts leave them."""
    log, k = history.log, plan.instance.space.n
    delta = plan.delta(batch.unit, batch.x)
    arm, off = plan.place(log.action, log.is_null, delta, batch.x)
    used = _is_used(plan, treatment, batch) & np.isfinite(log.y)
    y = np.where(np.isfinite(log.y), log.y, 0.0)
    near, is_curve = np.minimum(arm, k - 1), plan.bandit.is_curve
    share = np.where(arm < k, treatment.weight[near], treatment.shared if is_curve else 1.0)
    if not plan.is_judged:
        share = np.full(batch.n, treatment.shared)
    verdict = np.array((*treatment.verdicts, "direct"))[arm]
    if set(treatment.verdicts) & {"adjust", "reweight"} and plan.is_judged:
        share = np.where(arm < k, share, 0.0)  # nothing corrects a row off every arm
    if treatment.slopes is not None:
        rows = np.flatnonzero(verdict == "adjust")
        z = plan.regressors(batch.x[rows], off[rows])
        fold = plan.segment(batch.time[rows])
        fold = (fold - treatment.first) % FOLDS
        gap = (treatment.slopes[fold, near[rows]] * z).sum(axis=1)
        y[rows] -= gap if log.scale is None else gap * log.scale[rows]
    if "reweight" in treatment.verdicts:
        rows = np.flatnonzero((verdict == "reweight") & used & ~log.is_null)
        share[rows] *= _inverse_propensity(plan, treatment, batch, history, arm, rows)
    weight = np.where(used & (verdict != "refuse"), log.weight * share, 0.0)
    return y, weight


def for_scaler(certificate: Certificate, batch: Batch, log: Log) -> Log:
    """Return treated rows as the scaler learns them: outcomes as they came, overrides weighed.

    Rows that the certificate sets aside, and rows at refused arms, weigh 0: the scaler learns
    nothing from them.
    """
    plan, treatment = certificate.plan, certificate.treatment
    verdict = np.array((*treatment.verdicts, "direct"))[_judged_with(plan, batch, log)]
    is_allowed = _is_used(plan, treatment, batch) & (verdict != "refuse")
    trust = np.where(log.is_override, treatment.overrides, 1.0)
    y = plan.instance.reward.learn(batch.outcome, batch.x)[0]
    return replace(log, weight=np.where(is_allowed, trust, 0.0), y=y)


def limit(certificate: Certificate, instance: Instance, state: turn.RoundState, log: Log) -> None:
    """Hold the δ̂ of a log's owners within the range of what ran."""
    owners = np.unique(log.unit if instance.scaler.per == "unit" else log.group)
    state.limits.set(owners, certificate.plan.limits)


def taught_scaler(certificate: Certificate) -> Any:
    """Return the scaler's state after those rows of the pilot that the certificate lets it use.

    Where the certificate refuses everything it is the prior.
    """
    if certificate.taught is None:
        plan = certificate.plan
        group = np.zeros(plan.units, dtype=np.int64)
        state = turn.init(plan.instance, plan.bandit, group)
        if not certificate.is_refused:
            zero = np.zeros_like(plan.pilot.unit)
            log = passed_through(plan.instance, plan.pilot, plan.pilot.unit, zero).log
            log = for_scaler(certificate, plan.pilot, log)
            teach_scaler(plan.instance, state, log, plan.pilot.label, group)
        certificate.taught = state.scaler
    return certificate.taught


def same(one: Any, other: Any) -> bool:
    """Whether two states are the same to the bit."""
    mine, theirs = flatten(one), flatten(other)
    return all(np.array_equal(mine[name], theirs[name]) for name in mine)


def _judged_with(plan: Plan, batch: Batch, log: Log) -> Array:
    """Return the arm that a row's verdict is read from (N,): the nearest one, K where nothing ran.

    The arms learn of a row only within half a step of it; a scaler learns from the others too, and
    a row beyond every arm is as doubtful as the arm next to it.
    """
    space, arm = plan.instance.space, np.full(batch.n, plan.instance.space.n)
    rows = np.flatnonzero(~log.is_null)
    if rows.size:
        delta, x = plan.delta(batch.unit[rows], batch.x[rows]), batch.x[rows]
        located = plan.instance.composition.locate(space, log.action[rows][:, None], delta, x)
        arm[rows] = np.where(located.arm[:, 0] >= 0, located.arm[:, 0], space.n)
    return arm


def _is_used(plan: Plan, treatment: Treatment, batch: Batch) -> Array:
    is_mature = plan.maturity.is_mature(batch.time)
    return np.asarray((plan.segment(batch.time) >= treatment.first) & is_mature)


def _inverse_propensity(
    plan: Plan, treatment: Treatment, batch: Batch, history: History, arm: Array, rows: Array
) -> Array:
    """Return 1/P(arm | x) of rows, clipped, and brought to (Σw)²/Σw² rows an arm."""
    k = plan.instance.space.n
    weight, place = overlap_of(plan, batch, history, treatment.is_logged).weights[rows], arm[rows]
    total, square = np.bincount(place, weight, k), np.bincount(place, weight**2, k)
    return np.asarray(weight * (total / np.where(square > 0, square, 1.0))[place])


def warm_start_from_sums(
    certificate: Certificate,
    statistics: Statistics,
    instance: Instance,
    bandit: Bandit,
    state: turn.RoundState,
) -> None:
    """Start independent arms from the sums of a log, without its rows.

    A posterior of an arm by itself knows Σw, Σwy and Σwy² of its rows. Two rows at ȳ ± s with half
    of the weight each have the same sums, and teach it the same. Adjusted sums follow from the
    moments. Overridden rows count as far as the certificate trusts them.
    """
    if bandit.is_curve or bandit.reads:
        raise InvalidInput(
            f"history: {type(bandit).__name__} needs the rows of a history, not only their sums"
        )
    if certificate.is_refused:
        return
    _take_scaler(certificate, instance, state)
    sums = sums_by_cell(certificate, statistics)
    cell, arm = np.nonzero(sums[..., 0] > 0)
    weight, first, second = sums[cell, arm].T
    mean = first / weight
    sd = np.sqrt(np.maximum(second / weight - mean**2, 0.0))
    if instance.reward.target == "class":  # two rows of one class each, in their shares
        y, halves = np.concatenate((np.ones_like(mean), 0.0 * mean)), (mean, 1.0 - mean)
    else:
        y, halves = np.concatenate((mean + sd, mean - sd)), (0.5, 0.5)
    rows = np.concatenate((weight * halves[0], weight * halves[1]))
    both = np.concatenate((arm, arm))
    coord = instance.space.coords[both]
    # Where rewards have a scale s, y is r/s and Σw is Σs²/unit: as many rows, of scale √unit each.
    has_scale, root = certificate.plan.has_scale, np.sqrt(certificate.plan.unit)
    scale = np.full(y.size, root) if has_scale else None
    cells = np.concatenate((cell, cell))
    bandit.update(state.bandit, Evidence(cells, both, coord, y * root, scale, rows))


def _take_scaler(certificate: Certificate, instance: Instance, state: turn.RoundState) -> None:
    """Put the scaler in force as the pilot taught it, within what ran."""
    grow(taught_scaler(certificate), state.scaler)
    owners = np.arange(certificate.plan.units if instance.scaler.per == "unit" else 1)
    state.limits.set(owners, certificate.plan.limits)


def sums_by_cell(certificate: Certificate, statistics: Statistics) -> Array:
    """Return Σw, Σwy, Σwy² of every posterior's arms (cells, K, 3), as the verdicts leave them."""
    treatment = certificate.treatment
    if "reweight" in treatment.verdicts:
        raise InvalidInput("history: the verdict 'reweight' needs the rows, not only their sums")
    share = np.where(np.array(treatment.verdicts) == "refuse", 0.0, treatment.weight)
    is_adjusted = treatment.slopes is not None
    if not is_adjusted and treatment.first == 0:
        cells = statistics.by_cell()
        both = cells[:, :, 0] + treatment.overrides * cells[:, :, 1]
        return np.asarray(both * share[:, None])
    if statistics.cells.shape[0] > 1:
        raise InvalidInput(
            "history: adjusting the arms of several units, or leaving out rows of them, needs the "
            "rows, not only their sums"
        )
    sums = arm_sums(statistics.moments, treatment.overrides, treatment.first)
    plain = np.stack((sums.n, sums.n * sums.level, sums.square + sums.n * sums.level**2), axis=1)
    if is_adjusted:
        corrected = adjusted(sums, bias_of(sums, 0.95)[1])[0]
        is_corrected = np.array(treatment.verdicts) == "adjust"
        plain = np.where(is_corrected[:, None], corrected, plain)
    return np.asarray(plain * share[:, None])[None]


def teach_batches(
    certificate: Certificate,
    batches: Iterable[Batch],
    instance: Instance,
    bandit: Bandit,
    state: turn.RoundState,
    group: Array,
) -> None:
    """Teach arms batch by batch: histories that do not fit, and learners that sums cannot teach.

    δ̂ is that of the plan; overridden rows count as far as the certificate trusts them.
    """
    if "refit" in bandit.supports:
        raise InvalidInput(
            f"history: {type(bandit).__name__} is fitted on all rows at once; give it a sample"
        )
    from gdcb.credit import evidence

    _take_scaler(certificate, instance, state)
    for batch in batches:
        history = treated(certificate, batch, group)
        delta, in_force = turn.scale(instance, state, history.log)
        seen, _ = evidence(instance, history.log, delta, in_force)
        trust = np.where(history.log.is_override, certificate.treatment.overrides, 1.0)
        bandit.update(state.bandit, replace(seen, weight=seen.weight * trust))
