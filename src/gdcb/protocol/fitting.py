"""The prior of every family of a study, and of every form of it, fitted to its tuning worlds."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.bandits import CurveThompson
from gdcb.bandits.nodes import frame_of
from gdcb.instances import Study
from gdcb.protocol import priors
from gdcb.protocol.families import has_categories, learns_class
from gdcb.protocol.ground import neutral_of
from gdcb.protocol.methods import SCALED
from gdcb.protocol.sampling import CONTEXTS, GROUPS, Sample, sample, tuning_of

PRIOR_SEED = 9_000_002  # no result is computed on it
# Families, and the runs by which their settings are judged.
JUDGED = {
    "B1": ("B1",),
    "B2": ("B2", "B2w"),
    "B2s": ("B2s", "B2sw"),
    "B2g": ("B2g", "B2gw"),
    "B3": ("B3", "B3w"),
    "B4": ("A3", "B4"),
    "B4avg": ("B4avg",),
    "B4fac": ("B4fac",),
    "B4flat": ("B4flat",),
    "B5": ("B5", "B5w"),
    "A1": ("A1",),
}
START = {"scale": 1.0, "signal": 1.0, "width": 0.5}
# Forms of rivals on features of context and action, along coordinates.
SHAPES = {
    "B2s": ((1, True), (2, False), (2, True)),
    "B2g": ((1, False), (1, True)),
}
SHAPES_OF_MANY = {"B2g": ((2, False), (2, True))}  # more where arms have several coordinates


def families_of(study: Study) -> tuple[str, ...]:
    """Return the families that are tuned: those that apply and do not come as they are."""

    def applies(family: str) -> bool:
        if family in study.rivals or (family == "B4avg" and len(tuning_of(study).forms) == 1):
            return False
        return any(key not in study.left_out for key in JUDGED[family])

    return tuple(family for family in JUDGED if applies(family))


def judged_by(study: Study, family: str) -> tuple[str, ...]:
    """Return the runs by which a family is judged here."""
    return tuple(key for key in JUDGED[family] if key not in study.left_out)


def knobs_of(study: Study, family: str) -> tuple[str, ...]:
    """Return what a family can turn: pseudo-counts have no width, and some read no context."""
    ours, instance = tuning_of(study).knobs, study.domain.instance
    if family in ("B4", "B4avg"):
        return ours
    if family in SCALED:
        return ("scale", "signal") if "signal" in ours else ("scale",)
    if family == "A1" and study.unscaled is not None:
        return tuple(knob for knob in ours if knob != "signal")
    if family == "B1" or (family == "A1" and has_categories(instance)):
        return ("scale",)
    return ("scale", "width") if family in ("B3", "B5", "A1") else ("scale", "signal", "width")


def forms_of(study: Study, family: str) -> list[dict[str, Any]]:
    """Return the forms among which a family is tuned."""
    ours = tuning_of(study).forms
    if family == "B4avg":
        return [{"form": ours[0]}]
    if family in SCALED:
        return [{"form": one} for one in ours]
    if family not in SHAPES:
        return [{}]
    pools = (True, False) if study.domain.units > 1 else (False,)
    if has_categories(study.domain.instance):  # one for each arm and unit is B2
        return [{"is_pooled": pooled} for pooled in pools if pooled or family == "B2g"]
    shapes = SHAPES[family]
    if study.domain.instance.space.n_coords > 1:
        shapes += SHAPES_OF_MANY.get(family, ())
    return [
        {"is_pooled": pooled, "degree": degree, "interactions": interactions}
        for pooled in pools
        for degree, interactions in shapes
    ]


def key_of(family: str, form: dict[str, Any]) -> str:
    """Return under which key the prior of a family's form is found."""
    return f"{family} {json.dumps(form, sort_keys=True)}" if form else family


def tuning_sample(study: Study, groups: int = GROUPS, contexts: int = CONTEXTS) -> Sample:
    """Return the tuning worlds of a study, to which all its priors are fitted."""
    plain = study.domain.instance
    without = replace(plain, scaler=neutral_of(plain), gate=plain.chain)
    return sample(study, without, PRIOR_SEED, groups, contexts)


def fitted_priors(study: Study, groups: int = GROUPS, contexts: int = CONTEXTS) -> dict[str, Any]:
    """Return the prior of every family, and of every form of it."""
    found = tuning_sample(study, groups, contexts)
    out: dict[str, Any] = {}
    for family in families_of(study):
        out |= prior_of(study, found, family)
    return out


def prior_of(study: Study, found: Sample, family: str) -> dict[str, Any]:
    """Return the prior of a family in every form of it, by `key_of`."""
    if family in SCALED:
        return {
            key_of(family, form): _ours(study, found, family, form["form"])
            for form in forms_of(study, family)
        }
    if family in SHAPES:
        make = _by_arm if has_categories(found.instance) else _shared
        return {
            key_of(family, form): make(study, found, family, form)
            for form in forms_of(study, family)
        }
    if family == "B5":
        return {family: _taste(study, found)}
    if family == "B2":
        centre = _centre(study, found)
        weights = priors.arm_weights(found, study.features, centre=centre)
        chosen = {name: weights[name] for name in ("mean", "sd", "noise")}
        return {family: chosen | _said(centre)}
    if family == "A1":
        return {family: _unscaled(study, found)}
    flat = priors.arm_moments(found, priors.arm_targets(found))
    return {family: ({"noise": found.noise} if family == "B3" else {}) | flat}


def _ours(study: Study, found: Sample, family: str, form: str) -> dict[str, Any]:
    """Return the prior of a method with a scaler, in one form."""
    tuning = tuning_of(study)
    ours = tuning.fitted(found, priors.spread, form)
    if family in ("B4", "B4avg"):
        return ours
    if tuning.sample_delta is not None:
        delta = tuning.sample_delta(found, form)
    else:
        delta = found.delta(study.scaler(START | ours))
    targets = priors.arm_targets(found, delta)
    signal = {"form": form} | ({"scaler": ours["scaler"]} if "scaler" in ours else {})
    if family == "B4fac":
        return priors.level_moments(found, targets, found.instance, delta) | signal
    return priors.arm_moments(found, targets, delta) | signal


def _centre(study: Study, found: Sample) -> tuple[float, ...]:
    """Return the means of the columns that rivals read, or none where they are taken as they are.

    Around its mean what a column adds is apart from the level, as a prior of each by itself has it.
    """
    if not tuning_of(study).is_centred:
        return ()
    design = priors.context_design(found, study.features)[..., 1:]
    sizes = np.maximum(np.abs(design).max(axis=(0, 1)), 1e-12)
    return tuple(priors.plain(design.mean(axis=(0, 1)), np.minimum(0.02 * sizes, 0.02)))


def _said(centre: tuple[float, ...]) -> dict[str, Any]:
    return {"centre": list(centre)} if centre else {}


def _taste(study: Study, found: Sample) -> dict[str, Any]:
    """Return the sizes of B5's weights, where context columns are not of size 1."""
    centre = _centre(study, found)
    design = priors.context_design(found, study.features, centre)[..., 1:]
    largest = np.abs(design).max(axis=(0, 1))
    if (largest <= 1.0).all():
        return _said(centre)
    signal = priors.plain(1.0 / np.maximum(largest, 1.0), 1e-3 / np.maximum(largest, 1.0))
    if has_categories(found.instance):
        return {"sd": [1.0, *signal]} | _said(centre)
    coords = found.instance.space.n_coords
    return {"sd": [1.0] * (2 * coords) + signal * coords} | _said(centre)


def _unscaled(study: Study, found: Sample) -> dict[str, Any]:
    """Return the prior of the learner without a scaler (A1)."""
    fit = tuning_of(study).unscaled
    if fit is not None:
        return fit(found, priors.spread)
    if has_categories(found.instance):
        return priors.arm_moments(found, priors.arm_targets(found))
    frame = frame_of(found.instance.space)
    curve = CurveThompson() if found.is_class else CurveThompson(link="identity", degree=2)
    design = found.by_unit(curve.inputs(frame, found.coord, None))
    return _moments(found, design, is_logistic=learns_class(found.instance))


def _moments(found: Sample, design: Array, is_logistic: bool) -> dict[str, Any]:
    """Return moments of weights on a design (units, n, d), and for rewards the noise around it."""
    target, least = found.by_unit(found.target), priors.least_of(found, design)
    if is_logistic:
        weights = priors.logistic_weights(design, target)
        return dict(priors.spread(weights, found.units, least))
    weights = priors.linear_weights(design, target, priors.pulls(found))
    out: dict[str, Any] = dict(priors.spread(weights, found.units, least))
    left = target - (design @ weights[..., None])[..., 0]
    return out if found.is_class else out | {"noise": priors.noise_around(found, left)}


def _shared(study: Study, found: Sample, family: str, form: dict[str, Any]) -> dict[str, Any]:
    """Return the prior of weights that arms share, on features of context and action."""
    shape = {"degree": form["degree"], "interactions": form["interactions"]}
    centre = _centre(study, found)
    design = priors.shared_design(found, study.features, centre=centre, **shape)
    moments = _moments(found, design, is_logistic=family == "B2g")
    noise = {} if family == "B2g" else {"noise": moments.get("noise", found.noise)}
    p, coords = _width(study), found.instance.space.n_coords
    if form["is_pooled"]:
        moments = priors.pooled_moments(moments, p, found.units, n_coords=coords, **shape)
    out = form | {"n_features": p} | ({"n_coords": coords} if coords > 1 else {})
    return out | {"mean": moments["mean"], "sd": moments["sd"]} | noise | _said(centre)


def _by_arm(study: Study, found: Sample, family: str, form: dict[str, Any]) -> dict[str, Any]:
    """Return the prior of weights of each category's own on (1, x), and on units, if pooled."""
    centre = _centre(study, found)
    weights = priors.arm_weights(found, study.features, family == "B2g", centre)
    noise = {} if family == "B2g" else {"noise": weights["noise"]}
    p = _width(study)
    rows = [
        {name: weights[name][a] for name in ("mean", "sd", "group", "own")}
        for a in range(found.instance.space.n)
    ]
    if form["is_pooled"]:
        rows = [priors.pooled_levels(row, p, found.units) for row in rows]
    out = form | {"n_features": p} | noise | _said(centre)
    return out | {name: [row[name] for row in rows] for name in ("mean", "sd")}


def _width(study: Study) -> int:
    """Return how many columns rivals read."""
    positions = study.domain.instance.context.positions
    return sum(len(positions[name]) for name in study.features)
