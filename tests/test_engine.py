"""Engines: the same results wherever tasks run, and no worker outlives its run."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gdcb.engine import NAMES, Local, Pool, Ray, WorkerLost, named, pool
from gdcb.engine.pool import ONE_THREAD
from gdcb.errors import InvalidInput
from gdcb.records import to_bytes
from tests import toy_tasks
from tests.toy_tasks import Draws, is_alive, wait_until, workers_of

ROOT = Path(__file__).parents[1]
TASKS = [Draws(seed) for seed in range(8)]
EXPECTED = {seed: to_bytes(toy_tasks.draw(Draws(seed))) for seed in range(8)}
unix_only = pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")


def in_bytes(results: Iterator[tuple[int, Any]]) -> dict[int, bytes]:
    return {index: to_bytes(result) for index, result in results}


def test_local_keeps_the_order_and_takes_tasks_as_it_goes() -> None:
    """A task is taken only when the one before it is done."""
    taken: list[int] = []

    def tasks() -> Iterator[Draws]:
        for task in TASKS:
            taken.append(task.seed)
            yield task

    results = Local().run(toy_tasks.draw, tasks())
    first, _ = next(results)
    assert (first, taken) == (0, [0])
    assert [index for index, _ in results] == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("workers", [1, 3])
def test_a_pool_gives_the_bytes_of_this_process(workers: int) -> None:
    """Neither the number of workers nor the order of finishing changes a bit."""
    function = toy_tasks.draw_quickly_or_slowly
    assert in_bytes(Local().run(function, TASKS)) == EXPECTED
    assert in_bytes(Pool(workers).run(function, TASKS)) == EXPECTED


def test_a_pool_without_tasks_has_no_results() -> None:
    """Nothing to do is done at once."""
    assert list(Pool(2).run(toy_tasks.draw, [])) == []


def test_a_pool_takes_few_tasks_ahead() -> None:
    """At most two tasks a worker are under way, so results do not pile up."""
    taken: list[int] = []

    def tasks() -> Iterator[Draws]:
        for seed in range(100):
            taken.append(seed)
            yield Draws(seed)

    results = Pool(1).run(toy_tasks.draw, tasks())
    next(results)
    results.close()
    assert len(taken) == 2


@pytest.mark.parametrize("name", ["local", "pool"])
def test_what_a_task_raises_comes_through(name: str) -> None:
    """The same error with the same words, whichever process it was raised in."""
    with pytest.raises(InvalidInput, match=r"^seed: expected any but 3, got 3$"):
        list(named(name, workers=2).run(toy_tasks.refuse_the_third, TASKS))


@unix_only
def test_a_task_that_loses_its_worker_is_tried_again(tmp_path: Path) -> None:
    """One worker is killed in mid-task: every result comes once, with the same bytes."""
    tasks = [Draws(seed, folder=str(tmp_path)) for seed in range(8)]
    results = list(Pool(2).run(toy_tasks.die_once, tasks))
    assert (tmp_path / "died").exists()
    assert sorted(index for index, _ in results) == list(range(8))
    assert in_bytes(iter(results)) == EXPECTED


@unix_only
def test_a_task_that_kills_its_workers_ends_the_run() -> None:
    """Twice is enough; the sentence says what may have happened."""
    with pytest.raises(WorkerLost, match="a worker process died, and again"):
        list(Pool(2).run(toy_tasks.die, TASKS))


def test_workers_have_one_thread_and_this_process_keeps_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The libraries themselves say so; the environment here is left as it was."""
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    [(_, found)] = Pool(1).run(toy_tasks.threads, [Draws(0)])
    assert found
    assert set(found) == {1}
    assert {name: os.environ.get(name) for name in ONE_THREAD} == before


SCRIPT = """
import sys
from gdcb.engine import Pool
from tests import toy_tasks

if __name__ == "__main__":
    tasks = [toy_tasks.Draws(seed, folder=sys.argv[1]) for seed in range(4)]
    list(Pool(2).run(toy_tasks.sleep, tasks))
"""


def started(folder: Path) -> subprocess.Popen[str]:
    """Start a script whose pool sleeps, in a process group of its own, as a shell would."""
    script = folder / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    return subprocess.Popen(
        [sys.executable, script, folder],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@unix_only
@pytest.mark.parametrize("is_early", [False, True])
def test_ctrl_c_ends_a_pool_at_once(tmp_path: Path, is_early: bool) -> None:
    """A terminal interrupts every process of the group; only the main one has a say.

    Early: while workers are still starting.
    """
    with started(tmp_path) as main:
        try:
            if is_early:
                assert wait_until(lambda: has_children(main.pid))
                time.sleep(0.05)
            else:
                assert wait_until(lambda: len(workers_of(tmp_path)) == 2, 60)
            began = time.monotonic()
            os.killpg(main.pid, signal.SIGINT)
            _, complaint = main.communicate(timeout=20)
            assert time.monotonic() - began < 20
        finally:
            main.kill()
    assert main.returncode != 0
    assert complaint.count("Traceback (most recent call last)") == 1
    assert complaint.rstrip().endswith("KeyboardInterrupt")
    assert not [pid for pid in workers_of(tmp_path) if is_alive(pid)]


@unix_only
def test_ctrl_c_waits_until_a_worker_has_started() -> None:
    """Also where another thread receives it; a worker that is half started would complain."""
    is_over, done = threading.Event(), []
    other = threading.Thread(target=is_over.wait)
    other.start()

    def start() -> None:
        assert other.ident is not None
        with pool._without_interrupts():
            signal.pthread_kill(other.ident, signal.SIGINT)
            time.sleep(0.05)
            done.append(True)

    try:
        with pytest.raises(KeyboardInterrupt):
            start()
    finally:
        is_over.set()
        other.join()
    assert done
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def has_children(pid: int) -> bool:
    """Say whether a process has a child that runs Python's spawn."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = path.read_text().rpartition(")")[2].split()[1]
            command = (path.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if int(parent) == pid and b"spawn_main" in command:
            return True
    return False


@unix_only
def test_workers_end_with_a_process_that_was_killed(tmp_path: Path) -> None:
    """A process that cannot clean up leaves no orphans."""
    with started(tmp_path) as main:
        try:
            assert wait_until(lambda: len(workers_of(tmp_path)) == 2, 60)
            workers = workers_of(tmp_path)
            assert all(is_alive(pid) for pid in workers)
        finally:
            main.kill()
    assert wait_until(lambda: not any(is_alive(pid) for pid in workers))


@unix_only
def test_closing_a_pool_early_ends_its_workers(tmp_path: Path) -> None:
    """Whoever has seen enough closes the iterator; tasks at work are not waited for."""
    tasks = [Draws(seed, folder=str(tmp_path)) for seed in range(4)]
    results = Pool(2).run(toy_tasks.first_then_sleep, tasks)
    assert next(results)[0] == 0
    assert wait_until(lambda: workers_of(tmp_path), 60)
    began = time.monotonic()
    results.close()
    assert time.monotonic() - began < 20
    assert not any(is_alive(pid) for pid in workers_of(tmp_path))


def test_engines_are_found_by_name() -> None:
    """Every name leads to the engine of that name; another one gets the list."""
    assert [named(name).name for name in NAMES] == list(NAMES)
    assert named("pool", workers=3) == Pool(3)
    assert named("ray", workers=3) == Ray(3)
    with pytest.raises(InvalidInput, match="engine: expected one of local, pool, ray; got 'gpu'"):
        named("gpu")


@pytest.mark.parametrize("name", ["pool", "ray"])
def test_no_workers_are_refused(name: str) -> None:
    """An engine without workers would wait for ever."""
    with pytest.raises(InvalidInput, match="workers: expected a number >= 1, got 0"):
        named(name, workers=0)


def test_ray_that_is_not_installed_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is wrong input with a way out, no missing module."""
    monkeypatch.setitem(sys.modules, "ray", None)
    text = 'engine: ray is not installed; pip install "gdcb[ray]", or take pool or local'
    with pytest.raises(InvalidInput, match=re.escape(text)):
        list(Ray(1).run(toy_tasks.draw, TASKS))
