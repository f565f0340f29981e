"""Functions that engines run in tests: other processes find them here by name."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.protocol.block import run_task
from gdcb.protocol.record import Ground, Record
from gdcb.protocol.task import BLOCK, Settings, Task

Result = TypeVar("Result")

SMALL = Settings("str", "well", (("private", True),), 4, 230, 7, ("B1", "B4"), "0.1.0")


@dataclass(frozen=True)
class Draws:
    """Ask for `n` numbers of stream `seed`; `folder` is where a task leaves its traces."""

    seed: int
    n: int = 5
    folder: str = ""


@dataclass(slots=True)
class Numbers:
    """What came of it."""

    values: Array


def draw(task: Draws) -> Numbers:
    """Return numbers that hang on the task alone."""
    return Numbers(np.random.default_rng(task.seed).normal(size=task.n))


def draw_quickly_or_slowly(task: Draws) -> Numbers:
    """Even tasks take longer, so that tasks do not finish in their order."""
    time.sleep(0.05 * (task.seed % 2 == 0))
    return draw(task)


def refuse_the_third(task: Draws) -> Numbers:
    """Refuse one task as a part of gdcb would."""
    if task.seed == 3:
        raise InvalidInput("seed: expected any but 3, got 3")
    return draw(task)


def die_once(task: Draws) -> Numbers:
    """Kill the worker under task 3, the first time only."""
    trace = Path(task.folder) / "died"
    if task.seed == 3 and not trace.exists():
        trace.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return draw(task)


def die(task: Draws) -> Numbers:
    """Kill the worker under task 3, every time."""
    if task.seed == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return draw(task)


def threads(task: Draws) -> list[int]:
    """Return how many threads linear algebra has here."""
    libraries: Any = import_module("threadpoolctl").threadpool_info()
    return [library["num_threads"] for library in libraries]


def sleep(task: Draws) -> None:
    """Leave the number of the process in the folder, and sleep for a minute."""
    (Path(task.folder) / f"{os.getpid()}.pid").touch()
    for _ in range(1200):
        time.sleep(0.05)


def workers_of(folder: Path) -> list[int]:
    """Return the processes in which a task slept."""
    return [int(path.stem) for path in folder.glob("*.pid")]


def is_alive(pid: int) -> bool:
    """Say whether a process runs; a zombie waits for its parent only and does not."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"


def wait_until(is_so: Callable[[], object], seconds: float = 10.0) -> bool:
    """Wait until something is so; say whether it came to be."""
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def first_then_sleep(task: Draws) -> None:
    """Task 0 is done at once, the others sleep."""
    if task.seed > 0:
        sleep(task)


def wait_for(path: Path, seconds: float = 60.0) -> None:
    """Wait until a file is there."""
    if not wait_until(path.exists, seconds):
        raise TimeoutError(f"{path} never came")


def keep_busy(folder: Path) -> None:
    """Say that the node is busy, and keep it so until it may go on."""
    (folder / "busy").touch()
    wait_for(folder / "go")


@dataclass(frozen=True)
class Traced:
    """A task of the protocol, where it stands among them, and the folder of its traces."""

    seed: int
    task: Task
    folder: str


def draw_on_a_node(task: Draws) -> Numbers:
    """Return numbers, and leave traces."""
    return _on_a_node(task, lambda: draw(task))


def method_on_a_node(traced: Traced) -> Record | Ground:
    """Run a method as the protocol does, and leave traces."""
    return _on_a_node(traced, lambda: run_task(traced.task))


def _on_a_node(task: Draws | Traced, work: Callable[[], Result]) -> Result:
    """Leave a trace of the node at start and end; from task 2 on, wait for 'go' between."""
    ray: Any = import_module("ray")
    node = ray.get_runtime_context().get_node_id()
    folder = Path(task.folder)
    (folder / f"{task.seed}-{node}.began").touch()
    if task.seed >= 2:
        wait_for(folder / "go")
    result = work()
    (folder / f"{task.seed}-{node}.ended").touch()
    return result


def ignore(done: int, total: int) -> None:
    """Hear of progress and say nothing."""


def episodes(task: Task) -> Record | Ground:
    """Return a small record that hangs on the task alone; one array is in Fortran's order."""
    t, r, bins = task.episodes, task.replicates, 3
    if not task.method:
        first = task.block * BLOCK
        floor = np.arange(t)[:, None] + np.arange(first, first + r) / 1000
        return Ground(floor, np.linspace(0.5, 2.0, bins + 1))
    rng = np.random.default_rng([task.seed, task.block, *task.method.encode()])
    return Record(
        parts=rng.normal(size=(t, r, 4)),
        parts_paper=np.full((t, r, 3), np.nan),
        reward=np.asfortranarray(rng.normal(size=(t, r))),
        advantage=rng.normal(size=(r, t)).T[:, ::-1],
        overridden=rng.random((t, r)),
        success=rng.random((t, r)),
        error=rng.random((t, r)),
        recommended=rng.integers(9, size=(r, bins)),
        executed=rng.integers(9, size=(r, bins)),
        overrides=rng.integers(9, size=(2, 5, 6, r)).T.astype(float).transpose(0, 3, 2, 1),
    )


def episodes_slowly(task: Task) -> Record | Ground:
    """Return the same after a while, so that a run can be cut short."""
    time.sleep(1.0)
    return episodes(task)
