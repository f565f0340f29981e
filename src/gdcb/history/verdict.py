"""From sums to a verdict: the tests, what each arm's rows are worth, and what is done with them.

The rule is one of equivalence: history is used as it is only where the bias of its contexts is
*shown* to be small. What was not shown is adjusted or weighted, which does no harm where it was
not needed. A change of the gate alone decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gdcb.analysis.bias import ContextBias, context_bias
from gdcb.analysis.context_models import Line
from gdcb.arrays import Array
from gdcb.history import sentences as say
from gdcb.history.arms import ArmSums, Contrast, adjusted, arm_sums, bias_of, contrast_of
from gdcb.history.arms import missing_by_arm as missing
from gdcb.history.certificate import VERDICTS, ArmFinding, Certificate, Test, Treatment
from gdcb.history.passage import passed_through
from gdcb.history.plan import FOLDS, Plan, target_of
from gdcb.history.stability import (
    ROWS_A_COLUMN,
    Change,
    Stability,
    gate_changes,
    reward_law,
)
from gdcb.history.statistics import Statistics
from gdcb.history.weights import Weighing, weighing

LEAST_ROWS = 20  # of an arm, or of their effective number; below it starts from its prior
MOST_UNCOVERED = 0.5  # share of contexts in which an arm practically never ran
MOST_MISSING = 0.5  # of the outcomes
GUARD = 1  # segments after a change that are left out too: its date is not exact
UNIT = "standard deviations"


@dataclass(slots=True)
class Evidence:
    """What was measured before anything is decided.

    Parameters
    ----------
    law, gates, contrast : stability of the reward law and of each person at a gate, by name
    missing, missing_p : share of outcomes missing, and p of 'not by arm'
    changes : of the reward law, those larger than the margin
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
    first: int
    overrides: float
    sums: ArmSums
    bias: ContextBias
    line: Line | None
    weights: Weighing
    threshold: float
    tests: tuple[Test, ...]


def judge(
    plan: Plan, statistics: Statistics, level: float, margin: float
) -> tuple[Certificate, Evidence]:
    """Return the certificate's verdicts and what they rest on; `certify` adds the figures."""
    found = measured(plan, statistics, level, margin)
    arms, treatment = _arms(plan, found, margin)
    verdict, reasons = _whole(arms, found, plan)
    if verdict == "refuse":
        treatment = replace(treatment, verdicts=("refuse",) * len(arms), slopes=None)
    dated = [change.split for gate in found.gates.values() for change in gate.changes]
    certificate = Certificate(
        verdict, reasons, arms, found.tests, level, margin, treatment, plan, max(dated, default=0)
    )
    return certificate, found


def measured(plan: Plan, statistics: Statistics, level: float, margin: float) -> Evidence:
    """Run all tests of the family on the sums, and measure what the verdict needs."""
    instance, moments = plan.instance, statistics.moments
    names = (
        *plan.features.names,
        *(f"the distance from the arm ({i})" for i in range(instance.space.n_coords)),
    )
    people = [g for g, gate in enumerate(instance.chain.gates) if not gate.is_hard]
    people = people if statistics.counts[4] > 0 else []
    contrast = contrast_of(moments) if statistics.counts[2] > 0 else None
    share, missing_p = missing(statistics.seen)
    is_biasable = not plan.bandit.is_contextual
    n_tests = 1 + len(people) + (contrast is not None) + (missing_p is not None) + is_biasable
    threshold = level / n_tests
    space = instance.space
    numbers = space.coords[:, ~space.is_exact]
    robust = _robust(plan, statistics)
    law = reward_law(moments, names, space.names, threshold, robust, numbers)
    gates = {
        instance.chain.gates[g].name: gate_changes(
            statistics.acted[g], instance.chain.gates[g].name, threshold
        )
        for g in people
    }
    spread = _spread(moments)
    changes = tuple(
        change for change in law.changes if abs(change.after - change.before) > margin * spread
    )
    first = 0
    if changes:
        first = min(changes[-1].split + GUARD, moments.shape[0] - 1)
        if (
            contrast is not None
        ):  # before it other rewards were paid, and others may have overridden
            contrast = contrast_of(moments[first:])
    overrides = {"all": 1.0, "approved": 0.0}.get(instance.rules.overrides)
    if overrides is None:
        overrides = 1.0 if contrast is None else contrast.posterior
    sums = arm_sums(moments, overrides, first)
    simultaneous = 1.0 - threshold / max(instance.space.n, 1)
    bias, line = _bias(plan, sums, simultaneous, first, overrides)
    tests = _tests(law, gates, contrast, missing_p, bias if is_biasable else None, threshold)
    return Evidence(
        law,
        gates,
        contrast,
        share,
        missing_p,
        changes,
        first,
        overrides,
        sums,
        bias,
        line,
        weighing(plan, statistics, first),
        threshold,
        tests,
    )


def _spread(moments: Array) -> float:
    """Return the standard deviation of outcomes within arms."""
    sums = arm_sums(moments, 1.0)
    n = sums.n
    return float(np.sqrt(sums.square.sum() / max(float((n - (n > 0)).sum()), 1.0)))


def _robust(plan: Plan, statistics: Statistics) -> Array:
    """Return by how much scores vary more than with one variance an arm: (q − 1,), on the pilot."""
    batch, k = plan.pilot, plan.instance.space.n
    history = passed_through(plan.instance, batch, batch.unit, np.zeros_like(batch.unit))
    log = history.log
    y, weight = target_of(log)
    y = plan.within(y, batch.unit)
    delta = plan.delta(batch.unit, batch.x)
    arm, off = plan.place(log.action, log.is_null, delta, batch.x)
    known = np.flatnonzero((arm < k) & np.isfinite(y) & ~log.is_null)
    sums = statistics.moments[:, :k].sum(axis=0).reshape(2 * k, *statistics.moments.shape[-2:])
    d = sums.shape[-1] - 1
    if not known.size:
        return np.ones(d)
    n = sums[:, 0, 0]
    gram = sums[:, :d, :d] + 1e-6 * np.maximum(n, 1.0)[:, None, None] * np.eye(d)
    theta = np.linalg.solve(gram, sums[:, :d, d][..., None])[..., 0]
    # With few rows a line of its own comes too near to them: such blocks share their slopes.
    mean = sums[:, 0, 1:] / np.maximum(n, 1.0)[:, None]
    within = (sums[:, 1:, 1:] - n[:, None, None] * mean[:, :, None] * mean[:, None]).sum(axis=0)
    p = d - 1
    shared = np.linalg.solve(within[:p, :p] + 1e-6 * n.sum() * np.eye(p), within[:p, p])
    level = mean[:, p] - mean[:, :p] @ shared
    drawn = np.concatenate((level[:, None], np.broadcast_to(shared, (2 * k, p))), axis=1)
    theta = np.where((n >= ROWS_A_COLUMN * d)[:, None], theta, drawn)
    block = arm[known] * 2 + log.is_override[known]
    z = np.concatenate(
        (np.ones((known.size, 1)), plan.features(batch.x[known]), off[known]), axis=1
    )
    square = (y[known] - (z * theta[block]).sum(axis=1)) ** 2
    w = weight[known] / plan.unit
    count = np.bincount(block, minlength=2 * k)
    noise = np.bincount(block, w * square, 2 * k) / np.maximum(count, 1)
    expected = (z**2 * (w * noise[block])[:, None]).sum(axis=0)
    factor = (z**2 * (w**2 * square)[:, None]).sum(axis=0) / np.where(expected > 0, expected, 1.0)
    return np.maximum(np.where(expected > 0, factor, 1.0), 1.0)


def _bias(
    plan: Plan, sums: ArmSums, level: float, first: int, overrides: float
) -> tuple[ContextBias, Line | None]:
    """Return b̂: a line from the sums, or log odds of classes from the pilot's rows."""
    if plan.instance.reward.target != "class":
        return bias_of(sums, level)
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
    found = context_bias(
        np.concatenate((phi, off), axis=1),
        np.where(known, arm, -1),
        np.where(known, y, 0.0),
        reference,
        n_arms=plan.instance.space.n,
        row_weight=weight,
        link="logistic",
        folds=FOLDS,
        level=level,
    )
    return found, None


def _tests(
    law: Stability,
    gates: dict[str, Stability],
    contrast: Contrast | None,
    missing_p: float | None,
    bias: ContextBias | None,
    threshold: float,
) -> tuple[Test, ...]:
    rows = [("Change of the reward law", law.p)]
    rows += [(f"Change of gate “{name}”", found.p) for name, found in gates.items()]
    if contrast is not None:
        rows.append(("Approved against overridden rows", contrast.p))
    if missing_p is not None:
        rows.append(("Outcomes missing by arm", missing_p))
    if bias is not None:
        rows.append(("Arms in better or worse contexts", _no_bias(bias)))
    return tuple(Test(name, p, threshold, say.finding(name, p, threshold)) for name, p in rows)


def _no_bias(bias: ContextBias) -> float:
    """Return p of 'no arm has a bias' (Bonferroni); what decides is whether it is shown small."""
    from scipy.special import ndtr

    z = np.abs(bias.bias[0]) / np.where(bias.standard_error[0] > 0, bias.standard_error[0], np.inf)
    judged = z[np.isfinite(z)]
    return min(1.0, 2.0 * judged.size * float(ndtr(-judged.max()))) if judged.size else 1.0


def _arms(plan: Plan, found: Evidence, margin: float) -> tuple[tuple[ArmFinding, ...], Treatment]:
    """Give every arm its verdict, and say what is done with its rows."""
    instance, bandit = plan.instance, plan.bandit
    k, names = instance.space.n, instance.space.names
    twin = twins(instance.space.coords)
    can_adjust = found.line is not None and not bandit.is_contextual and not instance.cells.edges
    sigma = float(np.sqrt(found.bias.noise[0]))
    n, bias = found.sums.n, found.bias.bias[0]
    error = sigma / np.sqrt(np.maximum(n, 1.0))  # of a posterior from these rows
    low, high = found.bias.low[0], found.bias.high[0]
    # b̂ may come from a sample: n_eff is that of all rows.
    seen = found.bias.n[0]
    lost = (1.0 / found.bias.weight[0] - 1.0) * n / np.where(seen > 0, seen, 1.0)
    weight = np.where(n > 0, 1.0 / (1.0 + lost), 1.0)
    leaning = adjusted(found.sums, found.line)[1] if found.line is not None else weight
    verdicts, reasons, shares = [], [], np.ones(k)
    capped = _capped(found)
    for a in range(k):
        one, name = int(twin[a]), names[a]
        said: list[str] = []
        if n[one] < LEAST_ROWS:
            verdict, shares[a] = "refuse", 0.0
            said.append(say.arm_untried(name, round(float(n[one]))))
        elif bandit.is_contextual:
            verdict = "adjust" if capped else "direct"
            said.append(f"Arm “{name}”: the learner reads the context itself, and needs no model.")
        else:
            limit = margin * sigma
            per = sigma if sigma > 0 else 1.0  # outcomes that never vary have no bias either
            told = (name, bias[one] / per, low[one] / per, high[one] / per, margin, UNIT)
            is_small = -limit <= low[one] and high[one] <= limit
            verdict, shares[a] = "direct", weight[one]
            if is_small:
                said.append(say.bias_within_margin(*told))
            else:
                is_large = low[one] > limit or high[one] < -limit
                said.append((say.bias_too_large if is_large else say.bias_unclear)(*told))
            if not is_small or capped:
                verdict = "adjust" if can_adjust else "reweight"
                shares[a] = leaning[one] if can_adjust else 1.0
                worth = n[one] * leaning[one] if can_adjust else found.weights.ess[one]
                uncovered = float(found.weights.uncovered[one])
                if worth < LEAST_ROWS:
                    verdict, shares[a] = "refuse", 0.0
                    said.append(say.overlap_too_small(name, float(worth), LEAST_ROWS))
                elif uncovered > MOST_UNCOVERED:
                    verdict, shares[a] = "refuse", 0.0
                    said.append(say.hardly_ever_ran(name, uncovered))
        verdicts.append(verdict)
        reasons.append(tuple(said))
    shared = 1.0
    if bandit.is_curve:  # the biases that are left point one way, and add up
        is_left = np.array(verdicts) == "direct"
        shared = 1.0 / (1.0 + float(lost[np.unique(twin[is_left])].sum()))
        shares = np.where(is_left, shared, shares)
    n_eff = np.array([shares[a] * n[twin[a]] for a in range(k)])
    is_weighted = np.array(verdicts) == "reweight"
    n_eff = np.where(is_weighted, np.minimum(n_eff, found.weights.ess[twin]), n_eff)
    counted = np.where(n[twin] > 0, n_eff / np.where(n[twin] > 0, n[twin], 1.0), 0.0)
    blank = np.full(k, np.nan)
    figures = (blank,) * 4 if bandit.is_contextual else (bias, low, high, error)
    arms = tuple(
        ArmFinding(
            arm=names[a],
            verdict=verdicts[a],
            reasons=reasons[a],
            rows=float(n[one]),
            ess=float(found.weights.ess[one]),
            bias=float(figures[0][one]),
            low=float(figures[1][one]),
            high=float(figures[2][one]),
            standard_error=float(figures[3][one]),
            n_eff=float(n_eff[a]),
            weight=float(counted[a]),
        )
        for a, one in enumerate(twin.tolist())
    )
    slopes = None
    if "adjust" in verdicts and found.line is not None and can_adjust:
        slopes = found.line.slopes[:, 0]
    since = float(plan.times[found.first - 1]) if found.first else None
    treatment = Treatment(
        found.first,
        since,
        tuple(verdicts),
        shares,
        1.0 if bandit.is_contextual else shared,
        slopes,
        found.overrides,
        found.weights.clip,
        found.weights.clipped,
        found.weights.bias_bound,
        found.weights.is_logged,
    )
    return arms, treatment


def twins(coords: Array) -> Array:
    """Return the first arm at the same place as each: they are one arm to the outcome."""
    _, first, inverse = np.unique(coords, axis=0, return_index=True, return_inverse=True)
    return np.asarray(first[inverse.ravel()])


def _capped(found: Evidence) -> list[str]:
    """Return why the history may not be used just as it is, whatever b̂ says."""
    said = [change.what for change in found.changes]
    if found.contrast is not None and found.contrast.p <= found.threshold:
        said.append("overrides carry private information")
    if found.missing_p is not None and found.missing_p <= found.threshold:
        said.append("outcomes are missing selectively")
    return said


def _whole(
    arms: tuple[ArmFinding, ...], found: Evidence, plan: Plan
) -> tuple[str, tuple[str, ...]]:
    """Return the verdict on the history as a whole, and the reasons."""
    used = [arm.verdict for arm in arms if arm.verdict != "refuse"]
    verdict = "refuse"
    if used and found.missing <= MOST_MISSING:
        verdict = max(used, key=("direct", "adjust", "reweight").index)
    reads = (
        "The learner reads the context itself, so that arms which ran in better contexts do not "
        "mislead it."
    )
    judged = {name: sum(arm.verdict == name for arm in arms) for name in VERDICTS}
    said = [say.verdict(verdict), say.arms_judged(judged)]
    said += [reads] if plan.bandit.is_contextual and used else []
    refused = [arm.arm for arm in arms if arm.verdict == "refuse"]
    if refused and used:
        said.append(say.arms_refused(refused, len(arms)))
    if found.law.changes:
        for change in found.law.changes:
            at = time_of(plan, change.split)
            said.append(say.reward_law_changed(at, change.what, change.p))
            if change not in found.changes:
                said.append("It is smaller than the margin, and decides nothing.")
        if found.changes:
            said.append(say.rows_since(time_of(plan, found.first)))
    else:
        said.append(say.reward_law_stable(found.law.p))
    for name, gate in found.gates.items():
        said += [
            say.gate_changed(name, time_of(plan, one.split), one.before, one.after, one.p)
            for one in gate.changes
        ] or [say.gate_stable(name)]
    contrast = found.contrast
    if contrast is not None:
        is_private = contrast.p <= found.threshold
        told = (contrast.posterior, contrast.difference, contrast.low, contrast.high)
        said.append((say.overrides_private if is_private else say.overrides_trusted)(*told))
    elif plan.instance.chain.has_person and plan.pilot.recommended is None:
        said.append(say.overrides_not_logged())
    if found.missing_p is not None:
        is_selective = found.missing_p <= found.threshold
        said.append(say.outcomes_missing(found.missing, found.missing_p, is_selective))
    return verdict, tuple(said)


def time_of(plan: Plan, segment: int) -> str | float:
    """Return when a segment begins: an ISO time, or the number of a row."""
    from datetime import UTC, datetime

    at = float(plan.times[max(segment - 1, 0)]) if plan.times.size else 0.0
    if plan.has_time:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
    return at
