"""Tune every method by one procedure, on worlds that no result is computed on.

1. The prior: each family's own parameters, fitted to tuning worlds (`gdcb.protocol.priors`).
2. Its form, where it has several (one learner a unit or a group; degree; interactions).
3. Two numbers: `scale` multiplies the prior's standard deviations, `width` those of the posterior
   that is drawn from. From (1, ½) on, both are halved and doubled as long as that helps.

What is chosen has the least regret above the gate floor on tuning worlds: the geometric mean of
the cold and the warm run, where there are both. `make tune` writes what it found beside the
instance, as `tuned.json`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gdcb import engine
from gdcb.bandits import CurveThompson
from gdcb.bandits.nodes import frame_of
from gdcb.instances import STUDIES, study
from gdcb.protocol import priors
from gdcb.protocol.block import run_setup
from gdcb.protocol.ground import shared_by
from gdcb.protocol.methods import build
from gdcb.protocol.task import Task
from gdcb.scalers import ConstantScaler

SEED, PRIOR_SEED = 9_000_001, 9_000_002  # no result is computed on these
REPLICATES, EPISODES = 40, 150
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
    "B4fac": ("B4fac",),
    "B4flat": ("B4flat",),
    "B5": ("B5", "B5w"),
    "A1": ("A1",),
}
LARGEST = 16.0  # as far as scale and width go, up and down
COUNTS = ("B1", "B4fac", "B4flat")  # pseudo-counts: their draws have no width
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
class Trial:
    """One candidate of one family: its settings as JSON, so that it can travel."""

    name: str
    variant: str
    family: str
    settings: str


@dataclass(slots=True)
class Score:
    """Mean regret above the floor of each judged run: (runs,)."""

    excess: np.ndarray[Any, Any]

    @property
    def value(self) -> float:
        """Their geometric mean."""
        return float(np.exp(np.log(np.maximum(self.excess, 1e-9)).mean()))


def judge(trial: Trial) -> Score:
    """Run a candidate on the tuning worlds."""
    tuned = {trial.family: json.loads(trial.settings)}
    found = []
    for key in JUDGED[trial.family]:
        task = Task(trial.name, trial.variant, (), SEED, EPISODES, 0, REPLICATES, key)
        shared = shared_by(task)
        record = run_setup(build(shared.study, key, tuned), shared, task)
        found.append((record.parts[..., 0] - shared.floor).sum(axis=0).mean())
    return Score(np.array(found))


def fitted_priors(name: str, variant: str) -> dict[str, Any]:
    """Return the prior of every family, and of every form of it."""
    subject = study(name, variant, {}, EPISODES)
    plain = subject.domain.instance
    without = replace(plain, scaler=ConstantScaler(1.0), gate=plain.chain)
    found = priors.sample(subject, without, PRIOR_SEED)
    flat = priors.arm_counts(found, priors.arm_chances(found))
    scaled = priors.arm_chances(found, subject.sample_delta(found))
    scaled_counts = priors.arm_counts(found, scaled)
    curve = CurveThompson().inputs(frame_of(without.space), found.coord, None)
    chance = found.by_unit(found.chance)
    at_neutral = priors.spread(priors.logistic_weights(found.by_unit(curve), chance), found.units)
    ours = subject.fitted(found, priors.spread)
    signal = {"scaler": ours["scaler"]}
    out: dict[str, Any] = {
        "B1": flat,
        "B2": priors.arm_weights(found, subject.features) | {"noise": NOISE},
        "B3": flat | {"noise": NOISE},
        "B4": ours,
        "B4flat": scaled_counts | signal,
        "B4fac": priors.level_counts(found, scaled, without) | signal,
        "B5": {},
        "A1": at_neutral,
    }
    for family, forms in FORMS.items():
        fit = priors.logistic_weights if family == "B2g" else priors.linear_weights
        for form in forms:
            key = f"{family} {json.dumps(form, sort_keys=True)}"
            design = priors.shared_design(
                found, subject.features, form["degree"], form["interactions"]
            )
            moments = priors.spread(fit(design, chance), found.units)
            if form["is_pooled"]:
                moments = priors.pooled_moments(
                    moments, len(subject.features), found.units, **_shape(form)
                )
            out[key] = form | {"mean": moments["mean"], "sd": moments["sd"]}
            if family == "B2s":
                out[key]["noise"] = NOISE
    return out


def _shape(form: dict[str, Any]) -> dict[str, Any]:
    return {"degree": form["degree"], "interactions": form["interactions"]}


def tune(name: str, variant: str, where: engine.Engine) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every family's settings as they are found."""
    found = fitted_priors(name, variant)
    for family in JUDGED:
        forms = FORMS.get(family, [{}])
        start = {"scale": 1.0, "width": 1.0 if family in COUNTS else 0.5}
        middle = [found[_key(family, form)] | start for form in forms]
        best, score = _best(name, variant, family, middle, where)
        tried = {(start["scale"], start["width"])}
        while True:
            near = [pair for pair in _around(best, family) if pair not in tried]
            tried |= set(near)
            candidates = [best | {"scale": scale, "width": width} for scale, width in near]
            if not candidates:
                break
            other, value = _best(name, variant, family, candidates, where)
            if value.value >= score.value:
                break
            best, score = other, value
        judged = dict(zip(JUDGED[family], np.round(score.excess, 1).tolist(), strict=True))
        yield family, best | {"judged": judged, "tried": len(tried) + len(forms) - 1}


def _around(settings: dict[str, Any], family: str) -> list[tuple[float, float]]:
    """Return scale and width halved and doubled, one at a time."""
    scale, width = settings["scale"], settings["width"]
    pairs = [(scale / 2, width), (scale * 2, width)]
    if family not in COUNTS:
        pairs += [(scale, width / 2), (scale, width * 2)]
    inside = 1.0 / LARGEST, LARGEST
    return [pair for pair in pairs if all(inside[0] <= value <= inside[1] for value in pair)]


def _key(family: str, form: dict[str, Any]) -> str:
    return f"{family} {json.dumps(form, sort_keys=True)}" if form else family


def _best(
    name: str, variant: str, family: str, candidates: list[dict[str, Any]], where: engine.Engine
) -> tuple[dict[str, Any], Score]:
    """Return the candidate with the least regret above the floor, and its score."""
    trials = [Trial(name, variant, family, json.dumps(one)) for one in candidates]
    scores = dict(where.run(judge, trials))
    at = min(range(len(trials)), key=lambda i: scores[i].value)
    return candidates[at], scores[at]


def main(name: str) -> None:
    """Tune all methods of an instance and write what was found beside it."""
    import gdcb.instances

    where = engine.named("pool")
    folder = Path(gdcb.instances.__file__).parent / STUDIES[name]
    out: dict[str, Any] = {}
    for variant in VARIANTS:
        out[variant] = {}
        for family, settings in tune(name, variant, where):
            out[variant][family] = settings
            said = {key: value for key, value in settings.items() if not isinstance(value, list)}
            sys.stderr.write(f"{variant} {family}: {said}\n")
    text = json.dumps(out, indent=1, sort_keys=True)
    (folder / "tuned.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
