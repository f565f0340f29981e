"""Tune every method by one procedure, on worlds that no result is computed on.

1. The prior: each family's own parameters, fitted to tuning worlds (`gdcb.protocol.priors`).
2. Its form, where it has several: one learner a unit or a group, degree, interactions; for the
   recommended learner, how context enters the response. `B4avg` averages over its forms instead.
3. Three numbers: `scale` multiplies the prior's standard deviations of levels and slopes, `signal`
   those of what context says, `width` those of the posterior that is drawn from. From (1, 1, ½) on
   each is halved and doubled as long as that helps; families have those that they know.

What is chosen has the least regret above the gate floor on tuning worlds: the geometric mean of
the cold and the warm run, where there are both. `python -m gdcb.protocol.tuning NAME ...` writes
what it found beside the instance, as `tuned.json`; how many worlds that took stands there too.
Options that change the world have a file of their own; `--option plant=demand --fit` fits priors
to that world and keeps form and numbers as they were found.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from gdcb import engine
from gdcb.arrays import Array
from gdcb.instances import STUDIES, Study, study
from gdcb.protocol import fitting
from gdcb.protocol.block import run_setup
from gdcb.protocol.fitting import PRIOR_SEED, START, families_of, judged_by, key_of, knobs_of
from gdcb.protocol.ground import shared_by
from gdcb.protocol.methods import build, tuned_settings
from gdcb.protocol.sampling import CONTEXTS, GROUPS, Sample, tuning_of
from gdcb.protocol.task import Options, Task

SEED = 9_000_001  # no result is computed on it
VARIANTS = ("well", "mis")
LARGEST = 16.0  # as far as any knob goes, up and down


@dataclass(frozen=True)
class Search:
    """One family of methods on one variant of an instance."""

    name: str
    variant: str
    family: str
    options: Options = ()
    is_fitted_only: bool = False


def subject_of(search: Search) -> Study:
    """Return the study that is tuned."""
    return _subject(search.name, search.variant, search.options)


@cache
def _subject(name: str, variant: str, options: Options) -> Study:
    # Some are made for as many episodes as are run, which they say themselves.
    episodes = tuning_of(study(name, variant, dict(options), 1)).episodes
    return study(name, variant, dict(options), episodes)


@lru_cache(maxsize=1)
def _sample(name: str, variant: str, options: Options) -> Sample:
    return fitting.tuning_sample(_subject(name, variant, options))


def judge(search: Search, settings: Mapping[str, Any]) -> Array:
    """Run a candidate on the tuning worlds: mean regret above the floor of each run (runs,)."""
    tuning, found = tuning_of(subject_of(search)), []
    for key in judged_by(subject_of(search), search.family):
        task = Task(
            *(search.name, search.variant, search.options, SEED),
            *(tuning.episodes, 0, tuning.replicates, key),
        )
        shared = shared_by(task)
        record = run_setup(build(shared.study, key, {search.family: settings}), shared, task)
        found.append((record.parts[..., 0] - shared.floor).sum(axis=0).mean())
    return np.array(found)


def tune(search: Search) -> dict[str, Any]:
    """Return the settings of one family, as the procedure finds them, and how long it took."""
    began, subject = time.perf_counter(), subject_of(search)
    family, known = search.family, _sample(search.name, search.variant, search.options)
    found = fitting.prior_of(subject, known, family)
    forms, knobs = fitting.forms_of(subject, family), knobs_of(subject, family)
    if search.is_fitted_only:
        usual = tuned_settings(search.name, search.variant)[family]
        form = next(one for one in forms if all(usual.get(k) == v for k, v in one.items()))
        best = found[key_of(family, form)] | {knob: usual[knob] for knob in START}
        return {"settings": best, "seconds": time.perf_counter() - began}
    best, score = _best(search, [found[key_of(family, form)] | START for form in forms])
    tried = {_place(best)}
    while True:
        near = [one for one in _around(best, knobs) if _place(one) not in tried]
        tried |= {_place(one) for one in near}
        if not near:
            break
        other, value = _best(search, near)
        if _value(value) >= _value(score):
            break
        best, score = other, value
    judged = dict(zip(judged_by(subject, family), map(_told, score), strict=True))
    told = {"judged": judged, "tried": len(tried) + len(forms) - 1}
    return {"settings": best | told, "seconds": time.perf_counter() - began}


def _told(regret: float) -> float:
    """Return a regret as it is written down: a digit behind the point, four of a small one."""
    return round(float(regret), 1) if regret >= 10.0 else float(f"{regret:.4g}")


def _place(settings: Mapping[str, Any]) -> tuple[float, ...]:
    return tuple(settings[knob] for knob in START)


def _around(settings: dict[str, Any], knobs: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the settings with each knob halved, and doubled."""
    near = [settings | {knob: settings[knob] * factor} for knob in knobs for factor in (0.5, 2)]
    return [one for one in near if all(1 / LARGEST <= at <= LARGEST for at in _place(one))]


def _best(search: Search, candidates: list[dict[str, Any]]) -> tuple[dict[str, Any], Array]:
    """Return the candidate with the least regret above the floor, and its runs' (runs,)."""
    scores = [judge(search, one) for one in candidates]
    at = min(range(len(scores)), key=lambda i: _value(scores[i]))
    return candidates[at], scores[at]


def _value(excess: Array) -> float:
    """Return the geometric mean of a candidate's runs."""
    return float(np.exp(np.log(np.maximum(excess, 1e-9)).mean()))


def tuned_file(name: str, file: str = "tuned.json") -> Path:
    """Return where an instance's settings are."""
    import gdcb.instances

    return Path(gdcb.instances.__file__).parent / STUDIES[name] / file


def tune_all(
    name: str, only: Sequence[str] = (), options: Options = (), is_fitted_only: bool = False
) -> dict[str, Any]:
    """Tune the methods of an instance, or some families, and write what was found beside it.

    With `is_fitted_only` priors are fitted, and forms and knobs taken as they were found without
    the options.
    """
    began = time.perf_counter()
    path = tuned_file(name, _subject(name, VARIANTS[0], options).tuned)
    out: dict[str, Any] = {variant: {} for variant in VARIANTS}
    if only and path.exists():  # the others stay as they are
        out |= json.loads(path.read_text(encoding="utf-8"))
    # By variant, so that a process works out the worlds of each at most once.
    searches = [
        Search(name, variant, family, options, is_fitted_only)
        for variant in VARIANTS
        for family in families_of(_subject(name, variant, options))
        if not only or family in only
    ]
    for done, (index, found) in enumerate(engine.named("pool").run(tune, searches)):
        search, settings = searches[index], found["settings"]
        out[search.variant][search.family] = settings
        said = {key: value for key, value in settings.items() if not isinstance(value, list)}
        took = f"{found['seconds']:.0f} s, {time.perf_counter() - began:.0f} s in all"
        what = f"{name} {search.variant} {search.family} ({done + 1} of {len(searches)}; {took})"
        sys.stderr.write(f"{what}: {said}\n")
    tuning = tuning_of(_subject(name, VARIANTS[0], options))
    out["tuned_on"] = {
        "seed": SEED,
        "replicates": tuning.replicates,
        "episodes": tuning.episodes,
        "prior_seed": PRIOR_SEED,
        "prior_groups": GROUPS,
        "prior_contexts": CONTEXTS,
    }
    text = json.dumps(out, indent=1, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")
    return out


def main(given: Sequence[str]) -> None:
    """Tune the instances that are named, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m gdcb.protocol.tuning")
    parser.add_argument("names", nargs="+", choices=tuple(STUDIES), metavar="NAME")
    parser.add_argument("--only", default="", help="families, with commas; the others stay")
    parser.add_argument(
        "--option", action="append", default=[], help="of the instance, as plant=demand"
    )
    parser.add_argument(
        "--fit", action="store_true", help="fit priors only; knobs are those without options"
    )
    asked = parser.parse_args(given)
    options = tuple((name, value) for name, _, value in (o.partition("=") for o in asked.option))
    for name in asked.names:
        only = tuple(family for family in asked.only.split(",") if family)
        tune_all(name, only, options, asked.fit)


if __name__ == "__main__":
    main(sys.argv[1:])
