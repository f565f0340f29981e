"""What a certificate reports beside its verdicts: figures that decide nothing by themselves."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np

from gdcb import round as turn
from gdcb.analysis.excitation import action_variation
from gdcb.analysis.gate_log import Contraction, contraction_of
from gdcb.analysis.ratio import variance_ratio
from gdcb.analysis.robustness import robustness_value
from gdcb.analysis.sensitivity import tipping
from gdcb.analysis.variation import halved
from gdcb.arrays import Array
from gdcb.errors import GdcbError, InvalidInput
from gdcb.history import sentences as say
from gdcb.history.assumptions import assumptions_of
from gdcb.history.batch import Batch
from gdcb.history.certificate import Certificate, estimate, number
from gdcb.history.evidence import Evidence
from gdcb.history.passage import passed_through
from gdcb.history.plan import Plan, target_of
from gdcb.history.scaler_line import scaler_figures
from gdcb.history.statistics import Statistics
from gdcb.history.times import in_iso
from gdcb.history.verdict import time_of, twins
from gdcb.history.warm import warm_start
from gdcb.history.weights import overlap_of
from gdcb.records import History, Rows
from gdcb.streams import DRAW, Stream

MOST = 5_000  # rows on which variance ratio, sensitivity and transport are worked out
_EXCITED = 1e-4  # variance of log e at equal contexts from which on a response is known
_LEAST_ROWS = 50
_LEAST_OTHER = 20  # outcomes that are not the most common one, below which Λ* is not known
_DRAWS = 100  # of the variance ratio's bootstrap
_HARD_ROWS = 200  # in which a hard gate's η is computed


def figures(
    certificate: Certificate, found: Evidence, statistics: Statistics, log: Any, full: bool
) -> dict[str, Any]:
    """Return everything but the verdicts as plain data; what was not asked for is null."""
    plan, treatment = certificate.plan, certificate.treatment
    since = time_of(plan, treatment.first) if treatment.first else None
    spread = float(np.sqrt(found.bias.noise[0]))
    chain = contraction_of(statistics.passage[-1], np.arange(statistics.passage.shape[1]))
    document: dict[str, Any] = {
        "rows": _rows(log, statistics, found),
        "period": {
            "from": _when(plan, plan.pilot.time.min()),
            "to": _when(plan, plan.pilot.time.max()),
        },
        "variance_ratio": None,
        "gates": _gates(plan, found, statistics),
        "reward_law": {
            "stable": None if found.law.untested else not found.law.changes,
            "change_points": [
                {"time": time_of(plan, change.split), "what": change.what, "p": change.p}
                for change in found.law.changes
            ],
            "p": None if found.law.untested else found.law.p,
            "untested": found.law.untested or None,
            "is_certain": not (found.dependence.is_found or found.possible),
        },
        "override_contrast": _contrast(found),
        "missing_outcomes": {
            "share": found.missing,
            "by_arm_p": found.missing_p,
            "is_selective": found.missing_p is not None and found.missing_p <= found.threshold,
        },
        "logged_bias": _logged_bias(plan, found, statistics),
        "action_variation": None,
        "sensitivity": None,
        "transport": None,
        "spread": spread,
        "rows_from": since,
        "instance": plan.instance.name,
        "log": str(getattr(log, "name", "rows in memory")),
        "fingerprint": getattr(log, "fingerprint", None),
        "version": version("gdcb"),
        "leaks": _doubts(getattr(log, "report", None)),
        "columns": _columns(getattr(log, "layout", None)),
        "pilot": {"rows": plan.pilot.n, "is_whole": plan.is_whole},
    }
    document["scaler"] = scaler_figures(certificate)
    if full:
        sample = _sample(plan, treatment.first)
        document["variance_ratio"] = _variance_ratio(plan, *sample)
        limit = certificate.margin * spread
        document["sensitivity"] = {
            "arms": _of_arms(plan, found, sample, treatment.is_logged, limit),
            "slopes": _of_slopes(plan, *sample[:2]),
        }
        document["transport"] = _transport(certificate, statistics, chain, sample[0])
        document["action_variation"] = _variation(certificate, *sample[:2])
    layout = getattr(log, "layout", None)  # rows in memory have times
    has_time_column = layout is None or bool(layout.time)
    if not has_time_column:
        certificate.reasons = (*certificate.reasons, say.assumptions.no_time_column())
    document["assumptions"] = assumptions_of(
        certificate, found, document["sensitivity"], has_time_column
    )
    return document


def _variation(certificate: Certificate, batch: Batch, history: History) -> dict[str, Any] | None:
    """Return how far the action still varied at equal contexts; without that, no scaler is fitted.

    Of actions that are multiplied their logarithms, of others the actions themselves.
    """
    instance = certificate.plan.instance
    action = instance.composition.relative(history.log.action, history.log.x)[:, 0]
    if instance.actions[0].levels or batch.n < _LEAST_ROWS:
        return None
    if instance.composition.joins == "product":
        if not (action > 0).all():
            return None
        action = np.log(action)
    try:
        found = action_variation(action, certificate.plan.features(batch.x))
    except InvalidInput:  # too few rows for what there is of context
        return None
    says = found.says()
    if not found.low > _EXCITED and instance.scaler.learns_from == "outcome":
        certificate.reasons = (*certificate.reasons, says)
    return {**(estimate(found.variance, found.low, found.high) or {}), "says": says}


def _when(plan: Plan, time: float) -> str | float:
    if not plan.has_time:
        return float(time)
    return in_iso(float(time))


def _rows(log: Any, statistics: Statistics, found: Evidence) -> dict[str, Any]:
    report = getattr(log, "report", None)
    aside = int(statistics.counts[5])
    n = int(statistics.counts[0]) + aside
    used = int(
        statistics.seen[found.first :, ..., 0].sum() - statistics.seen[found.first :, ..., 1].sum()
    )
    reasons = [] if report is None else list(report.reasons)
    read, rejected = (n, 0) if report is None else (report.read, report.rejected)
    counted = {"read": read, "rejected": rejected, "used": used, "set_aside": aside}
    return {**counted, "reasons": reasons}


def _columns(layout: Any) -> dict[str, Any] | None:
    """Return which log columns play which part, and which of these were found by name only."""
    if layout is None:
        return None
    return {"roles": layout.roles, "by_name": list(layout.guessed)}


def _doubts(report: Any) -> list[str]:
    """Return what reading warned of: leaks, copies, times without a zone."""
    return [] if report is None else [*report.leaks, *report.warnings]


def _contrast(found: Evidence) -> dict[str, Any] | None:
    contrast = found.contrast
    if contrast is None:
        return None
    return {
        "posterior": contrast.posterior,
        "difference": estimate(contrast.difference, contrast.low, contrast.high),
        "approved": contrast.approved,
        "overridden": contrast.overridden,
        "p": contrast.p,
    }


def _gates(plan: Plan, found: Evidence, statistics: Statistics) -> list[dict[str, Any]]:
    """Return every gate's changes and η: of a person from the log, of a hard gate by its rule."""
    chain = plan.instance.chain
    some = plan.pilot.take(slice(None, None, -(-plan.pilot.n // _HARD_ROWS)))
    rows = Rows(some.unit, np.zeros_like(some.unit), some.x)
    delta = plan.delta(some.unit, some.x)
    actions = plan.instance.composition.compose(plan.instance.space, delta, some.x)
    bounds = chain.contraction(actions, rows).max(axis=0) if chain.gates else np.ones(0)
    out: list[dict[str, Any]] = []
    for g, gate in enumerate(chain.gates):
        eta: dict[str, float | None] | None = None
        if gate.is_hard:
            eta = {"mean": float(bounds[g]), "high": float(bounds[g])}
        elif statistics.passage[g].any():
            seen = contraction_of(statistics.passage[g], np.arange(statistics.passage.shape[1]))
            eta = {"mean": number(seen.estimate), "high": seen.upper_judged}
        stability = found.gates.get(gate.name)
        changes = [] if stability is None else stability.changes
        points = [
            {"time": time_of(plan, c.split), "from": c.before, "to": c.after, "p": c.p}
            for c in changes
        ]
        is_certain = stability is None or stability.is_certain
        out.append(
            {"name": gate.name, "change_points": points, "is_certain": is_certain, "eta": eta}
        )
    return out


def _logged_bias(plan: Plan, found: Evidence, statistics: Statistics) -> dict[str, Any] | None:
    """Return osc(m̂_res) × TV of an arm's contexts from all, for the worst arm; never decides.

    Only contexts in the log are in it: a cause outside the log may bias an arm by any amount.
    """
    if found.line is None:
        return None
    k = plan.instance.space.n
    seen = statistics.seen[found.first :, :, :k, 0].sum(axis=0)  # (strata, K)
    size = seen.sum(axis=0)
    judged = np.flatnonzero((size > 0) & (found.sums.n > 0))
    if not judged.size:
        return None
    whole = seen.sum(axis=1) / max(float(seen.sum()), 1.0)
    tv = 0.5 * np.abs(seen[:, judged] / size[judged] - whole[:, None]).sum(axis=0)
    phi = plan.features(plan.pilot.x[:: max(1, plan.pilot.n // 2000)])
    slopes = found.line.slopes[:, 0, judged, : phi.shape[1]].mean(axis=0)
    worth = phi @ slopes.T
    osc = worth.max(axis=0) - worth.min(axis=0)
    worst = int((osc * tv).argmax())
    sizes = float(osc[worst]), float(tv[worst]), float(osc[worst] * tv[worst])
    says = say.logged_bias(*sizes, plan.form)
    return {"osc": sizes[0], "tv": sizes[1], "value": sizes[2], "says": says}


Sample = tuple[Batch, History, Array]


def _sample(plan: Plan, first: int) -> Sample:
    """Return rows of the pilot, spread over it, what became of them, and their arms (K: none)."""
    use = np.flatnonzero(plan.segment(plan.pilot.time) >= first)
    batch = plan.pilot.take(use[:: max(1, -(-use.size // MOST))])
    history = passed_through(plan.instance, batch, batch.unit, np.zeros_like(batch.unit))
    log = history.log
    arm, _ = plan.place(log.action, log.is_null, plan.delta(batch.unit, batch.x), batch.x)
    known = np.flatnonzero(np.isfinite(log.y) & ~log.is_null)
    batch = batch.take(known)
    return batch, history.take(known), arm[known]


def _variance_ratio(
    plan: Plan, batch: Batch, history: History, arm: Array
) -> dict[str, Any] | None:
    """Return whether a scaler pays, or None where the rows do not say."""
    instance, log = plan.instance, history.log
    space, joins = instance.space, instance.composition.joins
    reward = instance.reward.reward(batch.outcome, log.action, log.x)
    is_line = space.n_coords == 1 and not space.is_exact.any() and joins in ("product", "sum")
    x = batch.x[:, plan.features.columns]
    try:
        if is_line:
            relative = instance.composition.relative(log.action, log.x)[:, 0]
            if joins == "product":
                one = np.ones((batch.n, 1))
                reward = reward * instance.composition.relative(one, log.x)[:, 0]
            coords = space.coords[:, 0]
            found = variance_ratio(x, relative, reward, coords, joins=joins, draws=_DRAWS)
        else:
            on = arm < space.n
            found = variance_ratio(x[on], arm[on], reward[on], space.n, draws=_DRAWS)
    except (GdcbError, np.linalg.LinAlgError):  # too few rows, or arms that never ran
        return None
    document = found.as_json()
    return {key: number(v) if isinstance(v, float) else v for key, v in document.items()}


def _of_arms(
    plan: Plan, found: Evidence, sample: Sample, is_logged: bool, margin: float
) -> dict[str, Any]:
    """Return how strong a hidden cause must be to make another arm better by more than a margin.

    Rows whose overrides carry private information are left out, as the warm start leaves them out.
    """
    batch, history, arm = sample
    if found.overrides < 0.5:
        kept = np.flatnonzero(~history.log.is_override)
        batch, arm = batch.take(kept), arm[kept]
        history = history.take(kept)
    k, names = plan.instance.space.n, plan.instance.space.names
    y = plan.within(target_of(history.log)[0], batch.unit)
    ran = np.where(arm < k, arm, -1)
    predicted = None
    if found.line is not None:
        _, off = plan.place(
            history.log.action, history.log.is_null, plan.delta(batch.unit, batch.x), batch.x
        )
        z = np.concatenate((plan.features(batch.x), 0.0 * off), axis=1)
        slopes = found.line.slopes[:, 0].mean(axis=0)  # (K, p)
        predicted = found.sums.level + ((z[:, None] - found.sums.mean) * slopes).sum(axis=-1)
    least = float(f"{margin:.2g}")
    unknown = {"value": None, "low": None, "is_beyond": False, "says": say.sensitivity_arms(None)}
    counts = np.unique(target_of(history.log)[0], return_counts=True)[1]
    hardly_differ = counts.size and int(counts.sum() - counts.max()) < _LEAST_OTHER
    if hardly_differ or found.is_implied:  # such rows bound nothing
        return unknown
    try:
        propensity = overlap_of(plan, batch, history, is_logged).propensity
        seen = tipping(
            y,
            ran,
            k,
            np.where(np.isfinite(propensity), propensity, 1.0),
            predicted=predicted,
            names=names,
            margin=least,
        )
    except InvalidInput:
        return unknown
    best = names[seen.best] if seen.best >= 0 else ""
    apart = float(np.nanmax(seen.estimates) - np.nanmin(seen.estimates)) if best else None
    told = (seen.value, seen.low, best, least, seen.is_beyond, plan.form, apart)
    return {
        "value": number(seen.value),
        "low": number(seen.low),
        "is_beyond": seen.is_beyond,
        "best": best or None,
        "rival": names[seen.rival] if seen.rival >= 0 else None,
        "says": say.sensitivity_arms(*told),
    }


def _of_slopes(plan: Plan, batch: Batch, history: History) -> dict[str, Any]:
    """Return the robustness value of the outcome's slope on the action, context held fixed."""
    log = history.log
    action = plan.instance.composition.relative(log.action, log.x)[:, 0]
    y, _ = target_of(log)
    is_number = not plan.instance.actions[0].levels
    p = plan.features.mean.size + 2
    if not is_number or batch.n < p + 10 or action.std() < 1e-12:
        return {"robustness_value": None, "at_level": None, "says": say.sensitivity_slopes(None)}
    z = np.concatenate((action[:, None], np.ones((batch.n, 1)), plan.features(batch.x)), axis=1)
    gram = z.T @ z + 1e-9 * batch.n * np.eye(p)
    inverse = np.linalg.inv(gram)
    theta = inverse @ (z.T @ y)
    freedom = batch.n - p
    s2 = float(((y - z @ theta) ** 2).sum()) / freedom
    t = float(theta[0] / np.sqrt(max(s2 * inverse[0, 0], 1e-300)))
    found = robustness_value(t, float(freedom))
    says = say.sensitivity_slopes(found.value, found.at_level, plan.form)
    return {"robustness_value": found.value, "at_level": found.at_level, "says": says}


def _transport(
    certificate: Certificate, statistics: Statistics, chain: Contraction, batch: Batch
) -> dict[str, Any] | None:
    """Return η̂·TV(π̂₀, π₁): π₁ is what the learner, started warm, would propose in these contexts.

    Where the log does not say what was proposed, what ran stands for it, and η is taken as 1.
    """
    plan, k = certificate.plan, certificate.plan.instance.space.n
    instance, bandit = plan.instance, plan.bandit
    if batch.n == 0:
        return None
    group = np.zeros(plan.units, dtype=np.int64)
    state = turn.init(instance, bandit, group)
    warm_start(certificate, plan.pilot, instance, bandit, state, group)
    rows = Rows(batch.unit, np.zeros_like(batch.unit), batch.x)
    arm = turn.decide(Stream((0, DRAW), 0, 1), instance, bandit, state, rows).arm
    arm = twins(instance.space.coords)[arm]  # as what was proposed is counted
    stratum = plan.stratum(plan.features(batch.x))
    n_strata = statistics.passage.shape[1]
    new = np.zeros((n_strata, k + 1))
    np.add.at(new, (stratum, arm), 1.0)
    is_logged = statistics.counts[4] > 0
    old = statistics.seen[..., 0].sum(axis=0)
    if is_logged:
        old = statistics.passage[-1].sum(axis=-1)[:, : k + 1]
    both = np.flatnonzero((new.sum(axis=1) > 0) & (old.sum(axis=1) > 0))
    if not both.size:
        return None
    gap = 0.5 * np.maximum(halved(new[both], old[both])[0].sum(axis=-1), 0.0)
    share = new[both].sum(axis=1) / new[both].sum()
    tv = min(1.0, float((share * gap).sum()))
    # Without gates all of it runs, whatever gates the log had.
    eta = min(1.0, chain.upper_judged) if is_logged and instance.chain.gates else 1.0
    return {"eta": eta, "tv": tv, "product": eta * tv}
