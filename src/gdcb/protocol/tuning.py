"""Tune every method by one procedure, on worlds that no result is computed on.

1. The prior: each family's own parameters, fitted to tuning worlds (`gdcb.protocol.priors`).
2. Its form, where it has several: one learner a unit or a group, degree, interactions; for the
   recommended learner, how context enters the response. `B4avg` averages over its forms instead.
3. Three numbers: `scale` multiplies the prior's standard deviations of levels and slopes, `signal`
   those of what context says, `width` those of the posterior that is drawn from. From (1, 1, ½) on
   each is halved and doubled as long as that helps; families have those that they know.

What is chosen has the least regret above the gate floor on tuning worlds: the geometric mean of
the cold and the warm run, where there are both. `make tune` writes what it found beside the
instance, as `tuned.json`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from gdcb import engine
from gdcb.arrays import Array
from gdcb.bandits import CurveThompson
from gdcb.bandits.nodes import frame_of
from gdcb.instances import STUDIES, study
from gdcb.protocol import priors
from gdcb.protocol.block import run_setup
from gdcb.protocol.ground import shared_by
from gdcb.protocol.methods import SCALED, build
from gdcb.protocol.task import Task
from gdcb.scalers import ConstantScaler

SEED, PRIOR_SEED = 9_000_001, 9_000_002  # no result is computed on these
REPLICATES, EPISODES = 100, 200
VARIANTS = ("well", "mis")
NOISE = 0.5  # the largest standard deviation of an outcome that is 0 or 1

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
LARGEST = 16.0  # as far as any of them goes, up and down
# What each family can turn: pseudo-counts have no width, and some read no context.
KNOBS = {
    "B1": ("scale",),
    "B2": ("scale", "signal", "width"),
    "B2s": ("scale", "signal", "width"),
    "B2g": ("scale", "signal", "width"),
    "B3": ("scale", "width"),
    "B4": ("scale", "signal", "width"),
    "B4avg": ("scale", "signal", "width"),
    "B4fac": ("scale", "signal"),
    "B4flat": ("scale", "signal"),
    "B5": ("scale", "width"),
    "A1": ("scale", "width"),
}
START = {"scale": 1.0, "signal": 1.0, "width": 0.5}
FORMS: dict[str, list[dict[str, Any]]] = {
    "B2s": [
        {"is_pooled": pooled, "degree": degree, "interactions": interactions}
        for pooled in (True, False)
        for degree, interactions in ((1, True), (2, False), (2, True))
    ],
    "B2g": [
        {"is_pooled": pooled, "degree": degree, "interactions": interactions}
        for pooled in (True, False)
        for degree, interactions in ((1, False), (1, True))
    ],
}


@dataclass(frozen=True)
class Search:
    """One family of methods on one variant of an instance."""

    name: str
    variant: str
    family: str


def judge(search: Search, settings: Mapping[str, Any]) -> Array:
    """Run a candidate on the tuning worlds: mean regret above the floor of each run (runs,)."""
    found = []
    for key in JUDGED[search.family]:
        task = Task(search.name, search.variant, (), SEED, EPISODES, 0, REPLICATES, key)
        shared = shared_by(task)
        record = run_setup(build(shared.study, key, {search.family: settings}), shared, task)
        found.append((record.parts[..., 0] - shared.floor).sum(axis=0).mean())
    return np.array(found)


def fitted_priors(name: str, variant: str) -> dict[str, Any]:
    """Return the prior of every family, and of every form of it."""
    subject = study(name, variant, {}, EPISODES)
    plain = subject.domain.instance
    without = replace(plain, scaler=ConstantScaler(1.0), gate=plain.chain)
    found = priors.sample(subject, without, PRIOR_SEED)
    flat = priors.arm_counts(found, priors.arm_chances(found))
    curve = CurveThompson().inputs(frame_of(without.space), found.coord, None)
    chance = found.by_unit(found.chance)
    at_neutral = priors.spread(priors.logistic_weights(found.by_unit(curve), chance), found.units)
    out: dict[str, Any] = {
        "B1": flat,
        "B2": priors.arm_weights(found, subject.features) | {"noise": NOISE},
        "B3": flat | {"noise": NOISE},
        "B5": {},
        "A1": at_neutral,
    }
    with_forms = priors.tuning_of(subject)
    for one in with_forms.forms:
        ours = with_forms.fitted(found, priors.spread, one)
        scaled = priors.arm_chances(found, with_forms.sample_delta(found, one))
        signal, key = {"form": one, "scaler": ours["scaler"]}, {"form": one}
        out[_key("B4", key)] = out[_key("B4avg", key)] = ours
        out[_key("B4flat", key)] = priors.arm_counts(found, scaled) | signal
        out[_key("B4fac", key)] = priors.level_counts(found, scaled, without) | signal
    for family, forms in FORMS.items():
        fit = priors.logistic_weights if family == "B2g" else priors.linear_weights
        for form in forms:
            place = _key(family, form)
            design = priors.shared_design(
                found, subject.features, form["degree"], form["interactions"]
            )
            moments = priors.spread(fit(design, chance), found.units)
            if form["is_pooled"]:
                moments = priors.pooled_moments(
                    moments, len(subject.features), found.units, **_shape(form)
                )
            out[place] = form | {"n_features": len(subject.features)}
            out[place] |= {"mean": moments["mean"], "sd": moments["sd"]}
            if family == "B2s":
                out[place]["noise"] = NOISE
    return out


def _shape(form: dict[str, Any]) -> dict[str, Any]:
    return {"degree": form["degree"], "interactions": form["interactions"]}


def tune(search: Search) -> dict[str, Any]:
    """Return the settings of one family, as the procedure finds them."""
    found, family = _priors(search.name, search.variant), search.family
    forms = _forms(search)
    best, score = _best(search, [found[_key(family, form)] | START for form in forms])
    tried = {_place(best)}
    while True:
        near = [one for one in _around(best, family) if _place(one) not in tried]
        tried |= {_place(one) for one in near}
        if not near:
            break
        other, value = _best(search, near)
        if _value(value) >= _value(score):
            break
        best, score = other, value
    judged = dict(zip(JUDGED[family], np.round(score, 1).tolist(), strict=True))
    return best | {"judged": judged, "tried": len(tried) + len(forms) - 1}


def _forms(search: Search) -> list[dict[str, Any]]:
    """Return the forms among which a family is tuned."""
    ours = priors.tuning_of(study(search.name, search.variant, {}, EPISODES)).forms
    if search.family == "B4avg":
        return [{"form": ours[0]}]
    if search.family in SCALED:
        return [{"form": one} for one in ours]
    return FORMS.get(search.family, [{}])


@cache
def _priors(name: str, variant: str) -> dict[str, Any]:
    return fitted_priors(name, variant)


def _place(settings: Mapping[str, Any]) -> tuple[float, ...]:
    return tuple(settings[knob] for knob in START)


def _around(settings: dict[str, Any], family: str) -> list[dict[str, Any]]:
    """Return the settings with each knob of the family halved, and doubled."""
    near = [
        settings | {knob: settings[knob] * factor} for knob in KNOBS[family] for factor in (0.5, 2)
    ]
    return [one for one in near if all(1 / LARGEST <= at <= LARGEST for at in _place(one))]


def _key(family: str, form: dict[str, Any]) -> str:
    return f"{family} {json.dumps(form, sort_keys=True)}" if form else family


def _best(search: Search, candidates: list[dict[str, Any]]) -> tuple[dict[str, Any], Array]:
    """Return the candidate with the least regret above the floor, and its runs' (runs,)."""
    scores = [judge(search, one) for one in candidates]
    at = min(range(len(scores)), key=lambda i: _value(scores[i]))
    return candidates[at], scores[at]


def _value(excess: Array) -> float:
    """Return the geometric mean of a candidate's runs."""
    return float(np.exp(np.log(np.maximum(excess, 1e-9)).mean()))


def main(name: str) -> None:
    """Tune all methods of an instance and write what was found beside it."""
    import gdcb.instances

    searches = [Search(name, variant, family) for variant in VARIANTS for family in JUDGED]
    out: dict[str, dict[str, Any]] = {variant: {} for variant in VARIANTS}
    for index, settings in engine.named("pool").run(tune, searches):
        search = searches[index]
        out[search.variant][search.family] = settings
        said = {key: value for key, value in settings.items() if not isinstance(value, list)}
        sys.stderr.write(f"{search.variant} {search.family}: {said}\n")
    folder = Path(gdcb.instances.__file__).parent / STUDIES[name]
    text = json.dumps(out, indent=1, sort_keys=True)
    (folder / "tuned.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
