"""Tasks on the cores of this machine, in processes of their own."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import connection, parent_process, resource_tracker
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any

from gdcb.engine.base import WorkerLost, cores
from gdcb.parts import check_number

# One thread a worker: the workers share the cores, and a product that is split over threads may
# round differently.
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)
# Else glibc hands freed arrays of some hundred kilobytes back, and has them faulted in again.
_KEPT = {"MALLOC_TRIM_THRESHOLD_": str(2**28), "MALLOC_MMAP_THRESHOLD_": str(2**25)}
_TRIES = 2  # times that a task may meet the death of a worker before the run gives up
_ENOUGH = 2  # tasks a worker, one at work and one waiting: results do not pile up
_PATIENCE = 5.0  # seconds until a worker that was asked to end is killed


@dataclass(frozen=True)
class Pool:
    """Run tasks in processes of this machine, each with one thread for linear algebra.

    A task whose worker dies is tried once more, in a fresh pool. Workers end with the run,
    however it ends: by an error, by Ctrl-C, or by the death of this process.

    Parameters
    ----------
    workers : number of processes; default: one for every core

    Examples
    --------
    >>> dict(sorted(Pool(workers=1).run(abs, [-1, 2, -3])))
    {0: 1, 1: 2, 2: 3}
    """

    workers: int = field(default_factory=cores)
    name = "pool"

    def __post_init__(self) -> None:
        check_number("Pool.workers", self.workers, low=1)

    def run(
        self, function: Callable[[Any], Any], tasks: Iterable[Any]
    ) -> Generator[tuple[int, Any], None, None]:
        """Yield (position, result) as tasks finish."""
        source = iter(enumerate(tasks))
        again: deque[tuple[int, Any]] = deque()
        deaths: Counter[int] = Counter()
        is_done = False
        while not is_done:
            pending: dict[Future[Any], tuple[int, Any]] = {}
            try:
                with _workers(self.workers) as executor:
                    while True:
                        _fill(executor, function, pending, again, source, _ENOUGH * self.workers)
                        if not pending:
                            break
                        for future in wait(pending, return_when=FIRST_COMPLETED).done:
                            result = future.result()
                            yield pending.pop(future)[0], result
                is_done = True
            except BrokenProcessPool as error:
                for future, (index, task) in pending.items():
                    if future.done() and not future.cancelled() and future.exception() is None:
                        yield index, future.result()
                        continue
                    again.append((index, task))
                    deaths[index] += 1
                if deaths and max(deaths.values()) >= _TRIES:
                    raise WorkerLost(
                        "pool: a worker process died, and again when its tasks were tried a second "
                        "time; was it killed, did the memory run out, or does a script start "
                        "the pool without `if __name__ == '__main__':`?"
                    ) from error


def _fill(
    executor: ProcessPoolExecutor,
    function: Callable[[Any], Any],
    pending: dict[Future[Any], tuple[int, Any]],
    again: deque[tuple[int, Any]],
    source: Iterator[tuple[int, Any]],
    limit: int,
) -> None:
    """Hand out tasks until `limit` are under way; those that lost their worker go first."""
    while len(pending) < limit:
        if not again:
            following = next(source, None)
            if following is None:
                return
            again.append(following)
        # It leaves the queue only once it is handed out: a broken pool refuses it.
        future = executor.submit(function, again[0][1])
        pending[future] = again.popleft()


@contextmanager
def _workers(count: int) -> Iterator[ProcessPoolExecutor]:
    """Give a pool; end its processes at once where the block is left by an exception."""
    context = _Context()
    executor = ProcessPoolExecutor(count, mp_context=context, initializer=_watch_parent)
    try:
        yield executor
        executor.shutdown()
    except BaseException:
        alive = [process for process in context.started if process.pid is not None]
        for process in alive:
            process.terminate()
        executor.shutdown(wait=False, cancel_futures=True)
        for process in alive:
            process.join(_PATIENCE)
            if process.exitcode is None:
                process.kill()
        raise


class _Worker(SpawnProcess):
    """A process that starts with one thread for linear algebra and deaf to Ctrl-C."""

    def start(self) -> None:
        # The libraries read the environment when they are loaded, which may be before any
        # function of ours runs there; and a terminal sends Ctrl-C to the workers too, while it
        # is this process that ends them. Both are therefore inherited.
        settings = {**_KEPT, **os.environ, **ONE_THREAD}
        before = {name: os.environ.get(name) for name in (*_KEPT, *ONE_THREAD)}
        os.environ.update(settings)
        try:
            with _without_interrupts():
                super().start()
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


@contextmanager
def _without_interrupts() -> Iterator[None]:
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # it unblocks the signal when it starts: let it be first
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with _interrupted_later():
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _interrupted_later() -> Iterator[None]:
    """Hold Ctrl-C back to the end of the block.

    Another thread may receive it, blocked here or not, and Python raises it in the main thread: a
    worker that was half started would then complain about what it was not told.
    """
    handler = signal.getsignal(signal.SIGINT)
    if handler is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if heard:
            signal.raise_signal(signal.SIGINT)


class _Context(SpawnContext):
    """Starts workers by spawning, and remembers them."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[_Worker] = []

    def Process(self, *args: Any, **kwargs: Any) -> _Worker:  # type: ignore[override]
        worker = _Worker(*args, **kwargs)
        self.started.append(worker)
        return worker


def _watch_parent() -> None:
    """End this worker when the process that started it is gone, however that went."""
    parent = parent_process()
    if parent is None:
        return
    sentinel = parent.sentinel

    def watch() -> None:
        connection.wait([sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
