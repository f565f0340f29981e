"""The certificate's line on the scaler: which rows taught it, and how far its δ̂ goes."""

from __future__ import annotations

from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.history import sentences as say
from gdcb.history.certificate import Certificate, number
from gdcb.history.passage import passed_through
from gdcb.history.warm import for_scaler, taught_scaler

_MOST = 20_000  # contexts in which δ̂ is evaluated


def scaler_figures(certificate: Certificate) -> dict[str, Any] | None:
    """Return what the scaler learned of a log, against what ran; None: it learns from no log.

    δ̂ is that of the rows that the certificate lets it use, before it is clipped; `ran` is the range
    that it is clipped to, and `outside` the share of contexts in which that happens.
    `actions_outside` is the share of what the arms then propose that lies beyond what ran: the
    outermost arm does, where δ̂ is at its limit. Of a scaler that learned nothing it is the prior
    that is compared; a log that is refused sets no limits, so that the prior is not clipped then.
    """
    plan = certificate.plan
    instance, scaler = plan.instance, plan.instance.scaler
    if scaler.learns_from == "nothing":
        return None
    used, total = _rows(certificate)
    state = taught_scaler(certificate)
    some = plan.pilot.take(slice(None, None, -(-plan.pilot.n // _MOST)))
    owner = some.unit if scaler.per == "unit" else np.zeros_like(some.unit)
    delta = scaler.predict(state, owner, some.x)
    is_taught = bool(used) and bool((np.asarray(scaler.version(state, owner)) > 0).any())
    ran = plan.limits
    has_limits = bool(ran.is_set[0])
    outside = ran.outside(delta) if has_limits else None
    document: dict[str, Any] = {
        "learns_from": scaler.learns_from,
        "is_taught": is_taught,
        "rows": {"used": used, "of": total},
        "columns": [],
        "outside": outside,
        "actions_outside": None,
    }
    is_held = has_limits and not certificate.is_refused
    if not (is_taught or outside or is_held):
        return document | {"says": say.scaler_at_prior(used, is_silent=total == 0)}
    low, high = delta.min(axis=(0, 1)), delta.max(axis=(0, 1))
    told: list[say.Span] = []
    for j in range(delta.shape[2]):
        name = instance.actions[j].name if has_limits else f"δ {j + 1}"
        ends = (number(ran.low[0, :, j].min()), number(ran.high[0, :, j].max()))
        told.append((name, number(low[j]), number(high[j]), *ends))
    document["columns"] = [
        {
            "column": name,
            "delta": {"low": least, "high": most},
            "ran": {"low": ran_low, "high": ran_high} if has_limits else None,
        }
        for name, least, most, ran_low, ran_high in told
    ]
    if has_limits:
        held = delta if certificate.is_refused else ran.clip(np.zeros_like(owner), delta)
        document["actions_outside"] = _beyond(certificate, held, some.x)
    if is_taught:
        said = say.scaler_taught(used, total, told, outside)
    else:
        is_clipped = not certificate.is_refused
        said = say.scaler_at_prior(used, told, outside or 0.0, is_clipped, total == 0)
    return document | {"says": said}


def _rows(certificate: Certificate) -> tuple[int, int]:
    """Return how many rows of the pilot teach the scaler, and how many say what it learns from."""
    plan, batch = certificate.plan, certificate.plan.pilot
    log = passed_through(plan.instance, batch, batch.unit, np.zeros_like(batch.unit)).log
    if plan.instance.scaler.learns_from == "label":
        says: Array = np.zeros(batch.n, dtype=bool)
        if batch.label is not None:
            says = np.asarray(np.isfinite(batch.label).any(axis=1))
    else:
        says = np.isfinite(log.y) & ~log.is_null
    if certificate.is_refused:
        return 0, int(says.sum())
    return int((says & (for_scaler(certificate, batch, log).weight > 0)).sum()), int(says.sum())


def _beyond(certificate: Certificate, delta: Array, x: Array) -> float:
    """Return the share of what the arms propose in these contexts that lies beyond all that ran."""
    instance, pilot = certificate.plan.instance, certificate.plan.pilot
    ran = np.isfinite(pilot.action).all(axis=1)
    seen = instance.composition.relative(pilot.action[ran], pilot.x[ran])[:, : delta.shape[2]]
    actions = instance.composition.compose(instance.space, delta, x)
    k, d = actions.shape[1:]
    proposed = instance.composition.relative(actions.reshape(-1, d), np.repeat(x, k, axis=0))
    low, high = seen.min(axis=0), seen.max(axis=0)
    slack = 1e-9 * (1.0 + np.abs(high))
    proposed = proposed[:, : delta.shape[2]]
    inside = (proposed >= low - slack) & (proposed <= high + slack)
    return float(1.0 - inside.all(axis=1).mean())
