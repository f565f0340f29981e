"""The scaler and the learner that the instance recommends, and what their priors are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gdcb.bandits import Bandit, CurveThompson, HierarchicalCurveThompson, StackedThompson
from gdcb.bandits.nodes import frame_of
from gdcb.instances.credit.columns import FEATURES, centre
from gdcb.logistic import LogisticPosterior
from gdcb.scalers import RidgeScaler

# A cautious prior for whoever has not tuned one. Coefficients are of (1, rate, tenor, squares), all
# from −1 to 1 over the arms, and in the additive form of log δ behind them (the last one is of
# nothing: the tenor has no δ).
UNTUNED: dict[str, Any] = {
    "form": "both",
    "scale": 1.0,
    "signal": 1.0,
    "width": 0.5,
    "relative": {
        "mean": [-0.3, -1.0, -0.2, 0.0, -0.5],
        "group": [0.6, 0.4, 0.4, 0.1, 0.4],
        "own": [0.3, 0.15, 0.2, 0.05, 0.15],
    },
    "additive": {
        "mean": [-0.3, -1.0, -0.2, 0.0, -0.5, 3.0, 0.0],
        "group": [0.6, 0.4, 0.4, 0.1, 0.4, 1.0, 0.02],
        "own": [0.3, 0.15, 0.2, 0.05, 0.15, 0.3, 0.02],
    },
}
# How context enters demand: in e/δ, beside e with an offset in log δ, or not known: both averaged.
FORMS = ("both", "relative", "additive")
DEGREE = 2  # applicants want neither less nor more than what they asked for
PENALTY = 4.0  # noise of a label over the spread of a coefficient, 0.2 and 0.1, squared
EVERY, GROWTH = 80, 0.25  # ten episodes of eight branches; then a quarter as many labels again
WEAK = 1e-4  # precision that keeps a fit finite and changes nothing else


def scaler(tuned: Mapping[str, Any]) -> RidgeScaler:
    """Return the risk spread: log δ is a ridge regression of realised spreads."""
    return RidgeScaler(
        features=FEATURES,
        penalty=PENALTY / float(tuned.get("signal", 1.0)) ** 2,
        every=EVERY,
        growth=GROWTH,
        centre=centre(),
        per="group",
    )


def learner(tuned: Mapping[str, Any]) -> Bandit:
    """Return demand in the form that is known, or both averaged; branches of a lender share."""
    if tuned["form"] != "both":
        return curve(tuned, tuned["form"])
    return StackedThompson((curve(tuned, "relative"), curve(tuned, "additive")))


def curve(tuned: Mapping[str, Any], form: str) -> HierarchicalCurveThompson:
    """Return one form of demand in rate and tenor: in e/δ, or in e with an offset in log δ."""
    prior, scale = tuned[form], float(tuned["scale"])
    return HierarchicalCurveThompson(
        CurveThompson(
            form=form,
            degree=DEGREE,
            prior_mean=tuple(prior["mean"]),
            prior_sd=tuple(scale * sd for sd in prior["group"]),
        ),
        own_sd=tuple(scale * sd for sd in prior["own"]),
        width=float(tuned["width"]),
    )


def fitted(found: Any, spread: Any, form: str) -> dict[str, Any]:
    """Fit the curves to a sample of tuning worlds (`gdcb.protocol.sampling.Sample`).

    `spread` turns coefficients (units, d) into their moments. The scaler has no prior but a
    penalty, which `signal` turns.
    """
    out: dict[str, Any] = {"form": form, "scaler": {}}
    frame, target = frame_of(found.instance.space), found.by_unit(found.target)
    delta = found.delta(scaler(UNTUNED))
    coord = found.located(delta)
    for one in ("relative", "additive") if form == "both" else (form,):
        inputs = CurveThompson(form=one, degree=DEGREE).inputs(frame, coord, delta)
        weights = LogisticPosterior.fit(found.by_unit(inputs), target, None, 0.0, WEAK).mean
        out[one] = spread(weights, found.units)
    return out


def unscaled(tuned: Mapping[str, Any]) -> Bandit:
    """Return the learner without a scaler (A1): the same curve, in the action over its base."""
    return curve({"relative": tuned, **{k: tuned[k] for k in ("scale", "width")}}, "relative")


def fitted_unscaled(found: Any, spread: Any) -> dict[str, Any]:
    """Fit it to a sample of tuning worlds."""
    inputs = CurveThompson(degree=DEGREE).inputs(frame_of(found.instance.space), found.coord, None)
    rows, target = found.by_unit(inputs), found.by_unit(found.target)
    out: dict[str, Any] = spread(
        LogisticPosterior.fit(rows, target, None, 0.0, WEAK).mean, found.units
    )
    return out
