"""The whole experiment: tasks on an engine, then the document, the episodes and the report."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gdcb.engine import Engine, one_thread
from gdcb.errors import InvalidInput
from gdcb.instances import DECLARED, STUDIES, Study
from gdcb.protocol import fitting, tuning
from gdcb.protocol.bands import bands_of
from gdcb.protocol.block import run_task
from gdcb.protocol.files import (
    EPISODES,
    REPORT,
    SUMMARY,
    write_episodes,
    write_summary,
    write_text_whole,
)
from gdcb.protocol.ground import shared_by, study_of
from gdcb.protocol.methods import (
    DEFAULT,
    REFERENCES,
    RIVALS,
    SAME,
    methods_of,
    parse,
    require_applicable,
    settings_for,
)
from gdcb.protocol.report import report
from gdcb.protocol.report.document import KNOWING
from gdcb.protocol.runner import run
from gdcb.protocol.specialise import specialised
from gdcb.protocol.store import Store
from gdcb.protocol.summary import Entry, document
from gdcb.protocol.task import GROUND, Options, Settings

VARIANTS = tuning.VARIANTS
COMPUTED = ("log", "file")  # options that are worked out: fingerprints of what was given
MEASURED = 50  # replicates on which the theorems are specialised, at most


def settings_of(
    name: str,
    variant: str,
    episodes: int,
    replicates: int,
    seed: int,
    methods: tuple[str, ...] | None = None,
    options: Options = (),
) -> Settings:
    """Return the settings of a run, refused before any work where they cannot be.

    Without `methods` all run that apply.
    """
    if name not in STUDIES:
        raise InvalidInput(f"no instance '{name}'; there are {', '.join(STUDIES)}")
    if variant not in VARIANTS:
        raise InvalidInput(f"--variant: expected {' or '.join(VARIANTS)}, got {variant}")
    if seed in (tuning.SEED, fitting.PRIOR_SEED):
        raise InvalidInput(f"--seed: every method was tuned on seed {seed}; take another one")
    return _tried(name, variant, episodes, replicates, seed, methods, options)


def settings_of_own(
    file: str,
    log: str,
    episodes: int,
    replicates: int,
    seed: int,
    methods: tuple[str, ...] | None = None,
    options: Options = (),
) -> Settings:
    """Return the settings of a run on the log of an instance from a file.

    They carry where both are and the fingerprints of what they hold, so that workers can read them
    and a run is never resumed on another log.
    """
    from gdcb.instances import own_log

    options = (("history", log), *options)
    known = own_log.fingerprints(file, dict(options))
    options = (*options, *known.items())
    return _tried(file, own_log.VARIANT, episodes, replicates, seed, methods, options)


def _tried(
    name: str,
    variant: str,
    episodes: int,
    replicates: int,
    seed: int,
    methods: tuple[str, ...] | None,
    options: Options,
) -> Settings:
    keys = DEFAULT if methods is None else methods
    for key in keys:
        parse(key)
    found = Settings(name, variant, options, episodes, replicates, seed, keys, version("gdcb"))
    # One replicate of one episode tries the options out.
    study = shared_by(replace(found.task(0, GROUND), episodes=1, replicates=1)).study
    if methods is None:
        return replace(found, methods=methods_of(study))
    require_applicable(study, methods)
    return found


def command(settings: Settings, usual: tuple[str, ...] = DEFAULT) -> str:
    """Return the command that gives the same bytes again; `usual` methods are not named in it."""
    options = dict(settings.options)
    words = ["gdcb run", shlex.quote(settings.name)]
    if settings.name.endswith(DECLARED):
        given = {name: options.pop(name) for name in ("history", "query") if name in options}
        words += [f"--{name} {shlex.quote(str(value))}" for name, value in given.items()]
        options = {name: value for name, value in options.items() if name not in COMPUTED}
    else:
        words.append(f"--variant {settings.variant}")
    words += [f"--episodes {settings.episodes}", f"--replicates {settings.replicates}"]
    words += [f"--seed {settings.seed}"]
    if settings.methods != usual:
        words.append(f"--methods {','.join(settings.methods)}")
    words += [f"--option {name}={value}" for name, value in options.items()]
    return " ".join(words)


def experiment(
    settings: Settings,
    folder: Path,
    where: Engine,
    progress: Callable[[int, int], None],
    say: Callable[[str], None],
    resume: bool = False,
) -> dict[str, Any]:
    """Run all methods, write the three files and return the document.

    `progress` hears of finished tasks, `say` what else people should know.
    """
    asked = without_twins(settings)
    study = study_of(settings.task(0, GROUND))
    tuned = settings_for(study)
    with one_thread(), Store(folder, asked, resume, _about(tuned)) as store:
        for notice in store.notices:
            say(notice)
        said = len(store.notices)
        results = run(store, where, run_task, progress)
        for notice in store.notices[said:]:
            say(notice)
        first = store.settings.task(0, GROUND)
        shared = shared_by(replace(first, replicates=min(first.replicates, MEASURED)))
        records = {key: partial(results.__getitem__, key) for key in asked.methods}
        entries = {key: _entry(key, ask, tuned, study) for key, ask in records.items()}
        extras: Mapping[str, Any] = {
            **specialised(shared, results, settings.seed),
            "specification": study.specification,
            "about": dict(study.about),
            "response": study.response,
            "measures": [
                {"name": one.name, "label": one.label, "is_share": one.is_share}
                for one in study.read
            ],
            "left_out": dict(study.left_out),
        }
        ground = results.ground
        schema = shared.instance.context
        bands = bands_of(schema, study.features, shared.reference)
        names = shared.instance.space.names
        found = document(_asked(settings, study), entries, ground, extras, bands, names)
        for key, other in SAME.items():
            if key in settings.methods:
                found["methods"][key] = {**found["methods"][other], "label": parse(key).label}
        found["methods"] = {key: found["methods"][key] for key in settings.methods}
        with store.publishing() as staging:
            providers = {key: entry.record for key, entry in entries.items()}
            write_episodes(staging / EPISODES, providers, ground)
            write_summary(staging / SUMMARY, found)
            write_text_whole(staging / REPORT, report(found))
    return found


def without_twins(settings: Settings) -> Settings:
    """Return what is run: two ablations are other methods by the paper's name, and run once."""
    keys = tuple(dict.fromkeys(SAME.get(key, key) for key in settings.methods))
    return replace(settings, methods=keys)


def begin(settings: Settings, folder: Path, say: Callable[[str], None]) -> None:
    """Make a folder ready for a run that starts afresh, to be resumed by whoever runs it."""
    tuned = settings_for(study_of(settings.task(0, GROUND)))
    with Store(folder, without_twins(settings), about=_about(tuned)) as store:
        for notice in store.notices:
            say(notice)


def is_of(found: Any, settings: Settings) -> bool:
    """Whether a stored document is what these settings give, tuned ones included."""
    if not isinstance(found, dict) or not isinstance(found.get("methods"), dict):
        return False
    study = study_of(settings.task(0, GROUND))
    tuned, methods = settings_for(study), found["methods"]
    is_asked = all(found.get(name) == value for name, value in _asked(settings, study).items())
    return is_asked and all(
        isinstance(methods[key], dict)
        and methods[key].get("tuned") == dict(tuned.get(parse(key).family, {}))
        for key in methods
    )


def _entry(key: str, record: Callable[[], Any], tuned: Mapping[str, Any], study: Study) -> Entry:
    method = parse(key)
    start = "warm" if method.is_warm else "cold"
    is_rival = method.family in (*RIVALS, *REFERENCES) and method.family not in KNOWING
    rival = start if is_rival and method.is_gated else None
    label = study.labels.get(key, method.label)
    return Entry(label, record, dict(tuned.get(method.family, {})), method.is_gated, rival)


def _about(tuned: Mapping[str, Any]) -> dict[str, str]:
    """Return digests of what a run hangs on beside its settings."""
    text = json.dumps(tuned, sort_keys=True).encode()
    return {"tuned settings": hashlib.sha256(text).hexdigest()}


def _asked(settings: Settings, study: Study) -> dict[str, Any]:
    return {
        "instance": study.domain.instance.name,
        "variant": settings.variant,
        "episodes": settings.episodes,
        "replicates": settings.replicates,
        "seed": settings.seed,
        "version": settings.version,
        "command": command(settings, methods_of(study)),
        "options": dict(settings.options),
    }
