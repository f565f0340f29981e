"""What is measured before anything is decided: the tests of the family, b̂, overlap."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from gdcb.analysis.bias import ContextBias, context_bias
from gdcb.analysis.context_models import Line
from gdcb.analysis.resampled import is_rare, resampled_p, shuffled
from gdcb.arrays import Array
from gdcb.history import sentences as say
from gdcb.history.arms import ArmSums, arm_sums, bias_of
from gdcb.history.arms import missing_by_arm as missing
from gdcb.history.certificate import Test
from gdcb.history.dependence import Dependence, dependence_of
from gdcb.history.gate_changes import can_tell_changes, gate_changes
from gdcb.history.immature import may_be_immature
from gdcb.history.maturity import SHARE, Maturity
from gdcb.history.overrides import Contrast, contrast_of, judged_arms
from gdcb.history.passage import passed_through
from gdcb.history.plan import FOLDS, Plan, target_of
from gdcb.history.relations import implied
from gdcb.history.stability import (
    SEED,
    Change,
    LawRows,
    Stability,
    followed,
    law_of_blocks,
    reward_law,
)
from gdcb.history.statistics import Statistics
from gdcb.history.weights import Weighing, weighing

_ROUNDING = 1e-9  # of a constant outcome's square: less variance is that of arithmetic
_DOUBT = 1.645  # standard deviations of missing outcomes
# Rows that the slope common to all arms is worth. With the number that predicts best, b̂ of arms
# whose slopes differ is drawn to 0, and its interval holds far less often than it says.
_POOLED = 4.0
GUARD = 1  # segments after a change that are left out too: its date is not exact


@dataclass(slots=True)
class Evidence:
    """What was measured before anything is decided.

    Parameters
    ----------
    law, gates, contrast : stability of the reward law and of each person at a gate, by name
    missing, missing_p : share of outcomes missing, and p of 'not by arm'
    changes : of the reward law, those larger than the margin; rows before the last are not used
    possible : the same where rows depend on each other, so that they cannot be told from swings, or
        (`is_missing`) where outcomes are missing more often after the last of them, or
        where outcomes that were not known yet could explain them: `immature`
    dependence : whether they do
    maturity : which rows are too young for their outcomes, and are not among these
    is_constant : whether all outcomes are the same, so that nothing can be tested
    is_implied : whether every reward follows from the action, as in a log of sold nights only
    first : first segment that is used
    overrides : weight of overridden rows
    sums, bias, line : of the arms, on the rows that are used; no line where outcomes are classes
    weights : how rows would be weighted by propensity
    """

    law: Stability
    gates: dict[str, Stability]
    contrast: Contrast | None
    missing: float
    missing_p: float | None
    changes: tuple[Change, ...]
    possible: tuple[Change, ...]
    is_missing: bool
    immature: tuple[Change, ...]
    dependence: Dependence
    maturity: Maturity
    is_constant: bool
    is_implied: bool
    first: int
    overrides: float
    sums: ArmSums
    bias: ContextBias
    line: Line | None
    weights: Weighing
    threshold: float
    tests: tuple[Test, ...]


def measured(plan: Plan, statistics: Statistics, level: float, margin: float) -> Evidence:
    """Run all tests of the family on the sums, and measure what the verdict needs."""
    instance, moments = plan.instance, statistics.moments
    names = (
        *plan.features.names,
        *(f"the distance from the arm ({i})" for i in range(instance.space.n_coords)),
    )
    people = [g for g, gate in enumerate(instance.chain.gates) if not gate.is_hard]
    people = people if statistics.counts[4] > 0 else []
    is_compared = bool(statistics.counts[2] > 0 and judged_arms(moments).size)
    share, missing_p = missing(statistics.seen)
    n_tests = 2 + len(people) + is_compared + (missing_p is not None) + plan.is_judged
    maturity = replace(plan.maturity, set_aside=int(statistics.counts[5]))
    rest = level if maturity.p is None else level * (1.0 - SHARE)
    threshold = rest / n_tests
    if missing_p is not None:
        share, missing_p = missing(statistics.seen, threshold)
    space = instance.space
    numbers = space.coords[:, ~space.is_exact]
    rows = law_rows(plan, float(moments[:, :-1, :, 0, 0].sum()))
    robust = robustness_of_scores(statistics, rows)
    law = reward_law(moments, names, space.names, threshold, robust, numbers, rows)
    gates: dict[str, Stability] = {}
    for g in people:
        name, acted = instance.chain.gates[g].name, statistics.acted[g]
        seen = gate_changes(acted, name, threshold)
        is_certain = can_tell_changes(plan, g, acted, seen.changes, threshold)
        gates[name] = replace(seen, is_certain=is_certain)
    spread = _spread(moments)
    changes = tuple(
        change for change in law.changes if abs(change.after - change.before) > margin * spread
    )
    is_constant = _is_constant(plan, moments)
    dependence = dependence_of(
        rows,
        moments,
        law.changes,
        plan.has_time,
        threshold,
        partial(followed, rows, names, space.names, numbers),
        is_constant,
    )
    possible: tuple[Change, ...] = ()
    is_missing = bool(changes) and _is_missing_more(statistics.seen, changes[-1].split)
    believed = changes
    while believed and not maturity.is_known and may_be_immature(rows, believed[-1].split):
        believed = believed[:-1]
    immature = changes[len(believed) :]
    if dependence.is_found or is_missing:
        changes, possible = (), changes
    else:
        changes, possible = believed, immature
    first = 0
    if changes:  # before them other rewards were paid, and others may have overridden
        first = min(changes[-1].split + GUARD, moments.shape[0] - 1)
    contrast = None
    if is_compared:
        contrast = contrast_of(moments[first:], rows.since(first), threshold)
    overrides = {"all": 1.0, "approved": 0.0}.get(instance.rules.overrides)
    if overrides is None:
        overrides = 1.0 if contrast is None else contrast.posterior
    sums = arm_sums(moments, overrides, first)
    simultaneous = 1.0 - threshold / max(instance.space.n, 1)
    bias, tested, line = _bias(plan, sums, simultaneous, first, overrides)
    tests = _tests(
        law,
        dependence,
        gates,
        contrast,
        missing_p,
        tested if plan.is_judged else None,
        threshold,
        rows.since(first),
        len(plan.features.names),
    )
    if maturity.p is not None:
        name, limit = "Outcomes missing by age", maturity.threshold
        tests += (Test(name, maturity.p, limit, say.finding(name, maturity.p, limit)),)
    return Evidence(
        law,
        gates,
        contrast,
        share,
        missing_p,
        changes,
        possible,
        is_missing,
        immature,
        dependence,
        maturity,
        is_constant,
        _is_implied(plan),
        first,
        overrides,
        sums,
        bias,
        line,
        weighing(plan, statistics, first, sums.n),
        threshold,
        tests,
    )


def _is_missing_more(seen: Array, split: int) -> bool:
    """Whether more outcomes are missing after a change, as a doubt: (S, strata, K + 1, 2)."""
    n, missing = seen.reshape(seen.shape[0], -1, 2).sum(axis=1).T
    before, after = (float(missing[part].sum()) for part in (slice(split), slice(split, None)))
    rows, later = float(n[:split].sum()), float(n[split:].sum())
    rate = (before + after) / max(rows + later, 1.0)
    sd = np.sqrt(rate * (1.0 - rate) * later * rows / max(rows + later, 1.0))
    return after - rate * later > _DOUBT * sd and after > 0


def _is_constant(plan: Plan, moments: Array) -> bool:
    """Return whether all outcomes are the same: exactly in the pilot, up to rounding elsewhere."""
    batch = plan.pilot
    history = passed_through(plan.instance, batch, batch.unit, np.zeros_like(batch.unit))
    y = target_of(history.log)[0]
    y = y[np.isfinite(y) & ~history.log.is_null]
    if y.size == 0 or np.ptp(y) > 0:
        return False
    n, total, square = (float(moments[..., i, j].sum()) for i, j in ((0, 0), (0, -1), (-1, -1)))
    # Levels of units were taken off: they vary by a quarter of their squared range at most.
    units = float(np.ptp(plan.levels)) ** 2 / 4.0
    limit = units + _ROUNDING * (float(y[0]) ** 2 or 1.0)
    return n > 0 and square / n - (total / n) ** 2 <= limit


def _is_implied(plan: Plan) -> bool:
    """Return whether every reward of the pilot follows from its action, or from it and the base.

    Only an action that is one number can be told: of categories each may well earn one reward.
    """
    instance, batch = plan.instance, plan.pilot
    if instance.reward.target == "class" or batch.action.shape[1] != 1:
        return False
    if instance.space.is_exact.any():
        return False
    y, _ = instance.reward.learn(batch.outcome, batch.x)
    action = batch.action[:, 0]
    known = np.isfinite(y) & np.isfinite(action)
    at = [one for one in getattr(instance.composition, "base", ()) if isinstance(one, int)]
    base = batch.x[known][:, at].prod(axis=1)
    return implied(y[known], action[known], base)


def _spread(moments: Array) -> float:
    """Return the standard deviation of outcomes within arms."""
    sums = arm_sums(moments, 1.0)
    n = sums.n
    return float(np.sqrt(sums.square.sum() / max(float((n - (n > 0)).sum()), 1.0)))


def law_rows(plan: Plan, total: float) -> LawRows:
    """Return the pilot's rows with an outcome on an arm; `total`: as many has the whole log."""
    batch, k = plan.pilot, plan.instance.space.n
    history = passed_through(plan.instance, batch, batch.unit, np.zeros_like(batch.unit))
    log = history.log
    y, weight = target_of(log)
    y = plan.within(y, batch.unit)
    delta = plan.delta(batch.unit, batch.x)
    arm, off = plan.place(log.action, log.is_null, delta, batch.x)
    known = np.flatnonzero((arm < k) & np.isfinite(y) & ~log.is_null)
    z = np.concatenate(
        (np.ones((known.size, 1)), plan.features(batch.x[known]), off[known]), axis=1
    )
    block = arm[known] * 2 + log.is_override[known]
    share = 1.0 if plan.is_whole else min(1.0, known.size / max(total, 1.0))
    time, unit = batch.time[known], batch.unit[known]
    segment = plan.segment(time)
    return LawRows(z, y[known], weight[known] / plan.unit, block, segment, time, unit, share)


def robustness_of_scores(statistics: Statistics, rows: LawRows) -> Array:
    """Return by how much scores vary more than with one variance an arm: (q − 1,)."""
    k = statistics.moments.shape[1] - 1
    sums = statistics.moments[:, :k].sum(axis=0).reshape(2 * k, *statistics.moments.shape[-2:])
    if not rows.y.size:
        return np.ones(sums.shape[-1] - 1)
    theta, block, z, w = law_of_blocks(sums), rows.block, rows.z, rows.weight
    square = (rows.y - (z * theta[block]).sum(axis=1)) ** 2
    count = np.bincount(block, minlength=2 * k)
    noise = np.bincount(block, w * square, 2 * k) / np.maximum(count, 1)
    expected = (z**2 * (w * noise[block])[:, None]).sum(axis=0)
    factor = (z**2 * (w**2 * square)[:, None]).sum(axis=0) / np.where(expected > 0, expected, 1.0)
    return np.maximum(np.where(expected > 0, factor, 1.0), 1.0)


def _bias(
    plan: Plan, sums: ArmSums, level: float, first: int, overrides: float
) -> tuple[ContextBias, ContextBias, Line | None]:
    """Return b̂, the one that is tested, and the line: from the sums, or log odds of classes.

    Of a learner that reads the context, it is b̂ of what lines, or log odds, of what it reads leave.
    That no arm has a bias is tested under the slopes that predict best, which finds more of them:
    where none has one, nothing is lost by drawing it to 0.
    """
    if plan.instance.reward.target != "class":
        found, line = bias_of(sums, level, plan.part)
        return found, found, line
    batch = plan.pilot
    keep = np.flatnonzero(plan.segment(batch.time) >= first)
    batch = batch.take(keep)
    history = passed_through(plan.instance, batch, batch.unit, np.zeros_like(batch.unit))
    delta = plan.delta(batch.unit, batch.x)
    arm, off = plan.place(history.log.action, history.log.is_null, delta, batch.x)
    y, weight = target_of(history.log)
    weight = np.where(history.log.is_override, overrides, 1.0) * weight
    known = np.isfinite(y) & ~history.log.is_null & (arm < plan.instance.space.n)
    phi = plan.features(batch.x)
    some = phi[:: max(1, batch.n // 2000)]
    reference = np.concatenate((some, np.zeros((some.shape[0], off.shape[1]))), axis=1)
    under = partial(
        context_bias,
        np.concatenate((phi, off), axis=1),
        np.where(known, arm, -1),
        np.where(known, y, 0.0),
        reference,
        n_arms=plan.instance.space.n,
        row_weight=weight,
        link="logistic",
        folds=FOLDS,
        level=level,
        read=None if plan.part is None else plan.is_read,
    )
    return under(pooling=_POOLED), under(pooling=None), None


def _tests(
    law: Stability,
    dependence: Dependence,
    gates: dict[str, Stability],
    contrast: Contrast | None,
    missing_p: float | None,
    bias: ContextBias | None,
    threshold: float,
    pilot: LawRows,
    n_context: int,
) -> tuple[Test, ...]:
    rows: list[tuple[str, float | None]] = [("Change of the reward law", _p(law))]
    if dependence.p is not None:
        rows.append(("Rows that depend on each other", dependence.p))
    rows += [(f"Change of gate “{name}”", _p(found)) for name, found in gates.items()]
    if contrast is not None:
        rows.append(("Approved against overridden rows", contrast.p))
    if missing_p is not None:
        rows.append(("Outcomes missing by arm", missing_p))
    if bias is not None:
        found = _no_bias(bias, pilot, n_context, threshold)
        rows.append(("Arms in better or worse contexts", found))
    why = {f"Change of gate “{name}”": found.untested for name, found in gates.items()}
    why["Change of the reward law"] = law.untested
    return tuple(
        Test(name, p, threshold, say.finding(name, p, threshold, why.get(name, "")))
        for name, p in rows
    )


def _p(found: Stability) -> float | None:
    return None if found.untested else found.p


def _no_bias(bias: ContextBias, rows: LawRows, n_context: int, level: float) -> float:
    """Return p of 'no arm has a bias' (Bonferroni); what decides is whether it is shown small.

    Where few rows decide, the error of b̂ is itself in error, and p must also be small among
    shuffled rows.

    Parameters
    ----------
    rows : of the log, or of a sample
    n_context : how many columns of `rows.z`, after the first, are of the context
    level : at which p is judged
    """
    from scipy.special import ndtr

    z = np.abs(bias.bias[0]) / np.where(bias.standard_error[0] > 0, bias.standard_error[0], np.inf)
    judged = z[np.isfinite(z)]
    p = min(1.0, 2.0 * judged.size * float(ndtr(-judged.max()))) if judged.size else 1.0
    return max(p, _shuffled_bias(rows, n_context, level)) if p <= level else p


def _shuffled_bias(rows: LawRows, n_context: int, level: float) -> float:
    """Return p of the largest |b̂| of a common line among shuffled rows; 0: normal tails will do.

    b(a) is 0 if arms do not go by the context, or if outcomes do not. So both are shuffled, each
    with the other left as it is: outcomes within arms, and arms between rows whose fit stays. The
    larger p holds whichever of the two is so.
    """
    arm = np.unique(rows.block // 2, return_inverse=True)[1].reshape(-1)
    n = np.bincount(arm, rows.weight)
    if n.size == 0 or rows.z.shape[1] < 2:
        return 0.0
    phi, w, y = rows.z[:, 1:], rows.weight, rows.y
    reference = np.concatenate(
        (w @ phi[:, :n_context] / n.sum(), np.zeros(phi.shape[1] - n_context))
    )
    level_of = np.bincount(arm, w * y, n.size) / n
    mean = np.stack([np.bincount(arm, w * column, n.size) for column in phi.T], axis=1) / n[:, None]
    left, centred = y - level_of[arm], phi - mean[arm]
    if not is_rare(np.sqrt(w)[:, None] * centred * left[:, None], rows.share):
        return 0.0
    gram = (w[:, None] * centred).T @ centred + np.eye(phi.shape[1])
    # b̂ = (φ̄_a − φ̄_ref)ᵀθ̂ is linear in the outcomes: a row of weights for each arm.
    by_outcome = np.linalg.solve(gram, (mean - reference).T).T @ (w[:, None] * centred).T
    rng = np.random.default_rng(SEED)
    p, _ = resampled_p(
        lambda some: np.abs(by_outcome @ some),
        left[:, None],
        lambda k: shuffled(left, arm, k, rng),
        level,
        left.size,
    )
    if p > level or np.ptp(phi[:, n_context:], axis=0).any():
        return p
    order = np.argsort(arm, kind="stable")
    starts = np.searchsorted(arm[order], np.arange(n.size))
    fitted = ((phi - reference) @ np.linalg.solve(gram, (w * left) @ centred) * w)[order]
    everyone = np.zeros(fitted.size, dtype=np.int64)
    by_arm, _ = resampled_p(
        lambda some: np.abs(np.add.reduceat(some, starts, axis=0)) / n[:, None],
        fitted[:, None],
        lambda k: shuffled(fitted, everyone, k, rng),
        level,
        fitted.size,
    )
    return max(p, by_arm)
