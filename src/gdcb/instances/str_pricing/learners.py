"""The scaler and the learner that the instance recommends, and what their priors are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.bandits import Bandit, CurveThompson, HierarchicalCurveThompson, StackedThompson
from gdcb.bandits.nodes import frame_of
from gdcb.instances.str_pricing.columns import CENTRE, FACTORS, features
from gdcb.logistic import LogisticPosterior
from gdcb.scalers import LogLinearScaler
from gdcb.scalers.best_action import LEAST, follow

# A cautious prior for whoever has not tuned one: a rise in demand where the night is busy.
UNTUNED: dict[str, Any] = {
    "form": "both",
    "scale": 1.0,
    "signal": 1.0,
    "width": 1.0,
    "scaler": {
        "level": 3.0,
        "slope": 3.0,
        "theta": [0.0] * 6,
        "level_sd": 1.5,
        "slope_sd": 1.5,
        "sd": [1.0] * 6,
    },
    "relative": {"mean": [0.0, -1.5], "group": [0.7, 0.3], "own": [0.4, 0.15]},
    "additive": {"mean": [0.0, -1.5, 3.0], "group": [0.7, 0.3, 1.0], "own": [0.4, 0.15, 0.3]},
}
# How context enters demand: in e/δ, beside e with an offset in log δ, or not known: both averaged.
FORMS = {"both": "both", "relative": "scaled", "additive": "shifted"}
WEAK = 1e-4  # precision that keeps a fit finite and changes nothing else
EVERY, GROWTH = 80, 0.5  # ten nights of eight listings; then half as many rows again


def scaler(tuned: Mapping[str, Any]) -> LogLinearScaler:
    """Return the day signal δ = δ_occ·δ_gap·δ_lead·δ_inv, a ridge around its prior."""
    prior, scale = tuned["scaler"], float(tuned["signal"])
    return LogLinearScaler(
        factors=FACTORS,
        centre=CENTRE,
        penalty=tuple((scale * sd) ** -2.0 for sd in prior["sd"]),
        level=prior["level"],
        slope=prior["slope"],
        theta=tuple(prior["theta"]),
        level_sd=scale * prior["level_sd"],
        slope_sd=scale * prior["slope_sd"],
        every=EVERY,
        growth=GROWTH,
        row_by_row=False,
        follows=FORMS[tuned["form"]],
    )


def learner(tuned: Mapping[str, Any]) -> Bandit:
    """Return demand in the form that is known, or both averaged; listings of a market share."""
    if tuned["form"] != "both":
        return curve(tuned, tuned["form"])
    return StackedThompson((curve(tuned, "relative"), curve(tuned, "additive")))


def curve(tuned: Mapping[str, Any], form: str) -> HierarchicalCurveThompson:
    """Return one form of demand: in e/δ, or in e with an offset in log δ."""
    prior, scale = tuned[form], float(tuned["scale"])
    return HierarchicalCurveThompson(
        CurveThompson(
            form=form,
            prior_mean=tuple(prior["mean"]),
            prior_sd=tuple(scale * sd for sd in prior["group"]),
        ),
        own_sd=tuple(scale * sd for sd in prior["own"]),
        width=float(tuned["width"]),
    )


def fitted(found: Any, spread: Any, form: str) -> dict[str, Any]:
    """Fit scaler and curves to a sample of tuning worlds (`gdcb.protocol.priors.Sample`).

    `spread` turns coefficients (units, d) into their moments.
    """
    market = _market(found, form)
    moments = spread(market, 1)
    theta, delta = market[:, 2:] / market[:, 1:2], delta_of(found, form)
    out: dict[str, Any] = {
        "form": form,
        "scaler": {
            "level": moments["mean"][0],
            "slope": moments["mean"][1],
            "theta": [round(float(value), 4) for value in theta.mean(axis=0)],
            "level_sd": moments["sd"][0],
            "slope_sd": moments["sd"][1],
            "sd": moments["sd"][2:],
        },
    }
    frame, chance = frame_of(found.instance.space), found.by_unit(found.target)
    for one in ("relative", "additive") if form == "both" else (form,):
        inputs = CurveThompson(form=one).inputs(frame, found.coord / delta[:, 0], delta)
        weights = LogisticPosterior.fit(found.by_unit(inputs), chance, None, 0.0, WEAK).mean
        out[one] = spread(weights, found.units)
    return out


def _market(found: Any, form: str) -> Array:
    """Return (α, β, βθ) of every market, as the scaler would find them from all its rows."""

    def by_market(values: Array) -> Array:
        rows = found.by_unit(values)
        return np.asarray(rows.reshape(-1, found.units * rows.shape[1], *rows.shape[2:]))

    phi, e, chance = (by_market(v) for v in (features(found.rows.x), found.coord, found.target))
    centre, wide = np.array([0.0, 3.0, *[0.0] * phi.shape[2]]), np.full(2 + phi.shape[2], 100.0)
    rows = (phi, e[..., 0], chance, np.ones(chance.shape))
    found = follow(*rows, centre, wide, FORMS[form])[0]
    found[:, 1] = np.maximum(found[:, 1], LEAST)
    return np.asarray(found)


def delta_of(found: Any, form: str) -> Array:
    """Return δ̂ of the sample's rows (n, 1, 1): what the scaler would find there."""
    phi, market = features(found.rows.x), _market(found, form)
    theta = np.repeat(market[:, 2:] / market[:, 1:2], phi.shape[0] // market.shape[0], axis=0)
    return np.asarray(np.exp((theta * phi).sum(axis=1)))[:, None, None]
