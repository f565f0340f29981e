"""Several whole runs: side by side where there are many of them, one after the other where not."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gdcb.engine import Engine, Local, Pool
from gdcb.errors import GdcbError, InvalidInput
from gdcb.protocol.experiment import begin, experiment, is_of, without_twins
from gdcb.protocol.files import SUMMARY
from gdcb.protocol.store import PARTS
from gdcb.protocol.task import Settings

MANY = 3  # runs a core, from which each core has whole runs of its own
_WATCHED = 0.5  # seconds between looks at what runs side by side have finished

Progress = Callable[[str, int, int], None]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Planned:
    """One run that is to be done: its settings, its folder, and whether to go on with it."""

    settings: Settings
    folder: Path
    resume: bool = False

    @property
    def name(self) -> str:
        """What people call it."""
        return f"{self.settings.name} ({self.settings.variant})"

    @property
    def n_tasks(self) -> int:
        """How many tasks it falls into."""
        return len(without_twins(self.settings).tasks)


def several(
    runs: Sequence[Planned],
    engine: Engine,
    progress: Progress,
    say: Say,
    takes_finished: bool = True,
) -> Iterator[dict[str, Any]]:
    """Yield the document of every run, in their order; side by side, once all are there.

    A core that has a run to itself works out once what the run's methods share, and no core waits
    while another writes a report. Where there are fewer runs than that pays for, each is spread
    over the cores. The bytes are the same.

    Parameters
    ----------
    runs : what is to be done
    engine : where
    progress : hears (what is under way, tasks done, all tasks)
    say : hears what people should know
    takes_finished : whether runs to be resumed that were finished before are taken as they are
    """
    if isinstance(engine, Pool) and len(runs) >= MANY * engine.workers:
        yield from _side_by_side(runs, engine, progress, say)
        return
    for planned in runs:

        def step(done: int, total: int, name: str = planned.name) -> None:
            progress(name, done, total)

        there = _finished(planned, say) if takes_finished else None
        yield _run(planned, engine, step, say) if there is None else there


def _side_by_side(
    runs: Sequence[Planned], engine: Pool, progress: Progress, say: Say
) -> list[dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    # All begin here: a run whose worker dies is then gone on with, not begun again.
    for planned in runs:
        if not planned.resume:
            with _named(planned):
                begin(planned.settings, planned.folder, say)
    begun = [replace(planned, resume=True) for planned in runs]
    with _watched(runs, found, progress), closing(engine.run(run_alone, begun)) as finished:
        for index, (document, said) in finished:
            found[index] = document
            for sentence in said:
                say(sentence)
    return [found[index] for index in range(len(runs))]


def run_alone(planned: Planned) -> tuple[dict[str, Any], list[str]]:
    """Run in this process; return the document, and what people should know besides."""
    said: list[str] = []
    there = _finished(planned, said.append)
    if there is None:
        there = _run(planned, Local(), _unheard, said.append)
    return there, said


def _unheard(done: int, total: int) -> None:
    """Let nobody know: whoever is interested looks into the folder."""


def _run(
    planned: Planned, engine: Engine, progress: Callable[[int, int], None], say: Say
) -> dict[str, Any]:
    with _named(planned):
        return experiment(planned.settings, planned.folder, engine, progress, say, planned.resume)


@contextmanager
def _named(planned: Planned) -> Iterator[None]:
    """Let errors name the run."""
    try:
        yield
    except (GdcbError, np.linalg.LinAlgError, OSError) as error:
        raise InvalidInput(f"{planned.name}: {error}") from error


def _finished(planned: Planned, say: Say) -> dict[str, Any] | None:
    """Return the document of this very run, where it is to be resumed and was finished before."""
    path = planned.folder / SUMMARY
    if not planned.resume or (planned.folder / PARTS).exists() or not path.is_file():
        return None
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not is_of(found, planned.settings):
        return None
    say(f"{planned.name} was finished before: {planned.folder}")
    return dict(found)


@contextmanager
def _watched(
    runs: Sequence[Planned], found: dict[int, dict[str, Any]], progress: Progress
) -> Iterator[None]:
    """Look now and then at what every run has finished: it lies in its folder."""
    total, over = sum(planned.n_tasks for planned in runs), threading.Event()

    def look() -> None:
        most = 0  # parts go when a run is finished, shortly before it is known here
        while not over.wait(_WATCHED):
            done = sum(
                planned.n_tasks if index in found else _n_parts(planned.folder)
                for index, planned in enumerate(runs)
            )
            most = max(most, done)
            progress(f"{len(found)} of {len(runs)} runs", most, total)

    progress(f"0 of {len(runs)} runs", 0, total)
    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _n_parts(folder: Path) -> int:
    """Return how many tasks a run has finished, 0 once its parts are gone."""
    try:
        return sum(path.suffix == ".npz" for path in (folder / PARTS).iterdir())
    except OSError:
        return 0
