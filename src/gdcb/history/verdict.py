"""From sums to a verdict: the tests, what each arm's rows are worth, and what is done with them.

The rule is one of equivalence: history is used as it is only where the bias of its contexts is
*shown* to be small. What was not shown is adjusted or weighted, which does no harm where it was
not needed. A change of the gate alone decides nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gdcb.arrays import Array
from gdcb.context import Category
from gdcb.history import sentences as say
from gdcb.history.arms import adjusted
from gdcb.history.certificate import (
    VERDICTS,
    ArmFinding,
    Certificate,
    Treatment,
    refusals_of,
)
from gdcb.history.evidence import Evidence, measured
from gdcb.history.plan import Plan
from gdcb.history.sentences.assumptions import OUTSIDE, given
from gdcb.history.stability import Change
from gdcb.history.statistics import Statistics
from gdcb.history.times import in_iso

LEAST_ROWS = 20  # of an arm, or of their effective number; below it starts from its prior
MOST_UNCOVERED = 0.5  # share of contexts in which an arm practically never ran
MOST_CUT = 0.5  # standard deviations that cutting weights may move an arm's mean by
MOST_MISSING = 0.5  # of the outcomes
UNIT = "standard deviations"


def judge(
    plan: Plan, statistics: Statistics, level: float, margin: float
) -> tuple[Certificate, Evidence]:
    """Return the certificate's verdicts and what they rest on; `certify` adds the figures."""
    found = measured(plan, statistics, level, margin)
    arms, treatment = _arms(plan, found, margin)
    verdict, reasons = _whole(arms, found, plan)
    if verdict == "refuse":
        treatment = replace(treatment, verdicts=("refuse",) * len(arms), slopes=None)
    believed = [gate for gate in found.gates.values() if gate.is_certain]
    dated = [change.split for gate in believed for change in gate.changes]
    certificate = Certificate(
        verdict,
        reasons,
        arms,
        found.tests,
        level,
        margin,
        treatment,
        plan,
        found.dependence,
        found.maturity,
        max(dated, default=0),
    )
    return certificate, found


def _arms(plan: Plan, found: Evidence, margin: float) -> tuple[tuple[ArmFinding, ...], Treatment]:
    """Give every arm its verdict, and say what is done with its rows."""
    instance, bandit = plan.instance, plan.bandit
    k, names = instance.space.n, instance.space.names
    twin = twins(instance.space.coords)
    can_adjust = found.line is not None and plan.can_adjust and not instance.cells.edges
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
    kinds = [""] * k  # of refusals
    capped = _capped(found)
    for a in range(k):
        one, name = int(twin[a]), names[a]
        said: list[str] = []
        if n[one] < LEAST_ROWS:
            verdict, shares[a], kinds[a] = "refuse", 0.0, "rows"
            said.append(say.arm_untried(name, round(float(n[one]))))
        elif found.is_constant:
            verdict, shares[a] = "refuse", 0.0
            said.append(say.same_outcomes())
        elif found.is_implied:
            verdict, shares[a] = "refuse", 0.0
            said.append(say.implied_outcomes())
        elif not plan.is_judged:
            verdict = "adjust" if capped else "direct"
            said.append(
                f"Arm “{name}”: the learner reads the context itself, which is enough "
                f"{given(OUTSIDE)} and its model of the context is right."
            )
        else:
            limit = margin * sigma
            per = sigma if sigma > 0 else 1.0  # outcomes that never vary have no bias either
            sizes = (bias[one] / per, low[one] / per, high[one] / per)
            told = (name, *sizes, margin, UNIT, plan.form, plan.reads_context)
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
                cut = float(found.weights.bias_bound[one])
                if plan.reads_context:  # cut weights leave no more of b̂ than no weights at all
                    cut = min(cut, float(max(abs(low[one]), abs(high[one]))))
                if worth < LEAST_ROWS:
                    verdict, shares[a], kinds[a] = "refuse", 0.0, "overlap"
                    said.append(say.overlap_too_small(name, float(worth), LEAST_ROWS))
                elif not can_adjust and cut > MOST_CUT * sigma:
                    verdict, shares[a], kinds[a] = "refuse", 0.0, "weights"
                    part = float(n[one] / n.sum())
                    said.append(say.cut_too_much(name, cut, part, found.weights.is_logged))
                elif uncovered > MOST_UNCOVERED:
                    verdict, shares[a], kinds[a] = "refuse", 0.0, "contexts"
                    said.append(say.hardly_ever_ran(name, uncovered))
        verdicts.append(verdict)
        reasons.append(tuple(said))
    shared = 1.0
    if bandit.is_curve and plan.is_judged:  # biases that are left add up, one way
        is_left = np.array(verdicts) == "direct"
        shared = 1.0 / (1.0 + float(lost[np.unique(twin[is_left])].sum()))
        shares = np.where(is_left, shared, shares)
    n_eff = np.array([shares[a] * n[twin[a]] for a in range(k)])
    is_weighted = np.array(verdicts) == "reweight"
    n_eff = np.where(is_weighted, np.minimum(n_eff, found.weights.ess[twin]), n_eff)
    counted = np.where(n[twin] > 0, n_eff / np.where(n[twin] > 0, n[twin], 1.0), 0.0)
    blank = np.full(k, np.nan)
    figures = (bias, low, high, error) if plan.is_judged else (blank,) * 4
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
            refused_for=kinds[a],
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
        shared,
        slopes,
        found.overrides,
        found.weights.clip,
        found.weights.clipped,
        max((float(found.weights.bias_bound[a]) for a in range(k) if is_weighted[a]), default=0.0),
        found.weights.is_logged,
    )
    return arms, treatment


def twins(coords: Array) -> Array:
    """Return the first arm at the same place as each: they are one arm to the outcome."""
    _, first, inverse = np.unique(coords, axis=0, return_index=True, return_inverse=True)
    return np.asarray(first[inverse.ravel()])


def _capped(found: Evidence) -> list[str]:
    """Return why the history may not be used just as it is, whatever b̂ says."""
    said = [change.what for change in (*found.changes, *found.possible)]
    if found.contrast is not None and found.contrast.p <= found.threshold:
        said.append("overrides may carry private information")
    if found.missing_p is not None and found.missing_p <= found.threshold:
        said.append("outcomes are missing selectively")
    return said


def _not_implied(plan: Plan) -> list[str]:
    """Return the unread columns, without the one level of a category that its others imply."""
    context = plan.instance.context
    implied: set[str] = set()
    for name, kind in context.columns.items():
        levels = [context.names[at] for at in context.positions[name]]
        left = [one for one in levels if one in plan.unread]
        if isinstance(kind, Category) and len(left) == 1 < len(levels):
            implied |= {*left}
    return [name for name in plan.unread if name not in implied]


def _whole(
    arms: tuple[ArmFinding, ...], found: Evidence, plan: Plan
) -> tuple[str, tuple[str, ...]]:
    """Return the verdict on the history as a whole, and the reasons."""
    used = [arm.verdict for arm in arms if arm.verdict != "refuse"]
    verdict = "refuse"
    if used and found.missing <= MOST_MISSING:
        verdict = max(used, key=("direct", "adjust", "reweight").index)
    judged = {name: sum(arm.verdict == name for arm in arms) for name in VERDICTS}
    said = [say.verdict(verdict), say.arms_judged(judged)]
    said += [found.maturity.says] if found.maturity.set_aside else []
    reads = plan.reads_context and used
    is_class = plan.instance.reward.target == "class"
    said += [say.context_read(plan.is_judged, plan.form, is_class)] if reads else []
    unread = _not_implied(plan)
    if unread and used:
        said.append(say.columns_unread(unread, plan.form))
    refused = [arm.arm for arm in arms if arm.verdict == "refuse"]
    if refused and used:
        said.append(say.arms_refused(refused, len(arms)))
    said += [
        say.refused_because(kind, names, LEAST_ROWS, found.weights.is_logged)
        for kind, names in refusals_of(arms).items()
    ]
    if found.missing > MOST_MISSING:
        said.append(say.mostly_missing(found.missing, MOST_MISSING))
    if found.is_constant:
        said.append(say.same_outcomes())
    elif found.is_implied:
        said.append(say.implied_outcomes())
    elif found.law.changes:
        rests = (plan.form, found.maturity.is_known)
        for change in found.law.changes:
            dated = (time_of(plan, change.split), change.what, change.p)
            if found.dependence.is_found or change in found.possible:
                said.append(say.reward_law_possible(*dated, doubt_of(found, change)))
            else:
                said.append(say.reward_law_changed(*dated, *rests))
            if change not in (*found.changes, *found.possible):
                said.append("It is smaller than the margin, and decides nothing.")
        if found.changes:
            said.append(say.rows_since(time_of(plan, found.first), *rests))
    else:
        said.append(say.reward_law_stable(found.law.p, found.law.untested))
    said += [found.dependence.says] if found.dependence.is_found else []
    for name, gate in found.gates.items():
        said += [
            say.gate_changed(
                name, time_of(plan, one.split), one.before, one.after, one.p, gate.is_certain
            )
            for one in gate.changes
        ] or [say.gate_stable(name, gate.p, gate.untested)]
    contrast = found.contrast
    if contrast is not None:
        told = (contrast.posterior, contrast.difference, contrast.low, contrast.high)
        is_private = contrast.is_private(found.threshold)
        if is_private is None:
            said.append(say.overrides_unclear(*told, contrast.p, plan.form))
        elif is_private:
            said.append(say.overrides_private(*told, contrast.p, plan.form))
        else:
            said.append(say.overrides_trusted(*told, plan.form))
    elif plan.instance.chain.has_person and plan.pilot.recommended is None:
        said.append(say.overrides_not_logged())
    if found.missing_p is not None:
        is_selective = found.missing_p <= found.threshold
        said.append(say.outcomes_missing(found.missing, found.missing_p, is_selective))
    return verdict, tuple(said)


def doubt_of(found: Evidence, change: Change) -> str:
    """Return what a possible change cannot be told from."""
    if change in found.immature:
        return say.SWINGS_OR_IMMATURE if found.dependence.is_found else say.IMMATURE
    return say.SWINGS if found.dependence.is_found else say.MISSING


def time_of(plan: Plan, segment: int) -> str | float:
    """Return when a segment begins: an ISO time, or the number of a row."""
    at = float(plan.times[max(segment - 1, 0)]) if plan.times.size else 0.0
    return in_iso(at) if plan.has_time else at
