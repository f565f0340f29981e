"""A line of jobs before one thread, which takes all that wait at once.

Two threads of Python that both have work take turns of milliseconds, and whoever waits for a disk
goes to the end of the queue. So an event loop collects what came in a few of its rounds, and then
stands aside while the threads of the lines that were asked work: a commit has the interpreter to
itself. It stands aside for a moment at most, and seldom for a thread that needs longer.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from gdcb.errors import GdcbError, StoreUnavailable
from gdcb.service.turn import Turn

log = logging.getLogger("gdcb.service")
ROUNDS = 4  # of a loop until it stands aside: a request is read in one and gets here in the next
STANDS_ASIDE = 0.01  # seconds at most, for all lines together
_RARELY = 6  # a thread that is always slow is waited for in one of 2⁶ turns


class Overloaded(GdcbError):
    """More waits than can be answered in time; ask again later."""

    retry_after = 1


@dataclass(slots=True)
class Job:
    """A command or a look, and where its answer goes; it has `run` or `together`.

    Parameters
    ----------
    run : turn → answer; raises before it adds anything
    together : (turn, jobs) → nothing; answers all jobs that wait and have the same one
    what : what `together` is asked for
    is_look : whether it only reads; looks are not counted against the limit
    despite : whether it is done although an earlier state was put back
    future, reply : who waits in a thread, or on an event loop
    is_answered : whether its answer is on its way, and stays as it is
    """

    run: Callable[[Turn], Any] | None = None
    together: Callable[[Turn, Sequence[Any]], None] | None = None
    what: Any = None
    is_look: bool = False
    despite: bool = False
    future: Future[Any] | None = None
    reply: asyncio.Future[Any] | None = None
    answer: Any = None
    error: BaseException | None = None
    is_answered: bool = False


class Line:
    """Jobs that wait, and the thread that does them.

    Parameters
    ----------
    work : does jobs and answers them (`answer`); where it raises, that is their answer
    name : of the thread
    limit : commands that may wait; more are turned away
    """

    def __init__(self, work: Callable[[list[Job]], None], name: str, limit: int) -> None:
        self._work, self._limit = work, limit
        self._jobs: deque[Job] = deque()
        self._commands = 0
        self._wake = threading.Condition()
        self._rests = threading.Event()
        self._turn, self._waited_for = 0, -1
        self._failures, self._skipped = 0, 0
        self._is_closed = False
        self._thread = threading.Thread(target=self._go_on, name=name, daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        """Return how many commands wait."""
        return self._commands

    def put(self, jobs: Sequence[Job]) -> list[Future[Any]]:
        """Queue jobs, to be done together; refuse all where too much waits already."""
        futures: list[Future[Any]] = []
        for job in jobs:
            job.future = Future()
            futures.append(job.future)
        with self._wake:
            self._add(jobs)
            self._wake.notify()
        return futures

    async def done(self, job: Job) -> Any:
        """Return a job's answer; what else comes in these rounds of the loop is done with it."""
        loop = asyncio.get_running_loop()
        job.reply = loop.create_future()
        with self._wake:
            self._add((job,))
        _aside_of(loop).ask(loop, self)
        return await job.reply

    def close(self) -> None:
        """Finish what waits, and stop."""
        with self._wake:
            self._is_closed = True
            self._wake.notify()
        self._thread.join()

    def wake(self) -> bool:
        """Wake the thread; return whether it is worth waiting for.

        It is not while it is at what was waited for in vain. Who is waited for in vain again and
        again is waited for ever more rarely: there the disk decides, and not the interpreter.
        """
        with self._wake:
            self._wake.notify()
            if self._is_closed or self._turn == self._waited_for:
                return False
            self._skipped += 1
            if self._skipped < 2 ** max(self._failures - 1, 0):
                return False
            self._skipped = 0
            self._rests.clear()
            return True

    def wait(self, seconds: float) -> None:
        """Wait until the thread has nothing to do."""
        if seconds <= 0.0:
            return  # others have taken long
        if self._rests.wait(seconds):
            self._failures = 0
        else:
            self._waited_for = self._turn
            self._failures = min(self._failures + 1, _RARELY + 1)

    def _add(self, jobs: Sequence[Job]) -> None:
        if self._is_closed:
            raise StoreUnavailable("the service is shutting down; ask again in a moment")
        n = sum(not job.is_look for job in jobs)
        if n and self._commands + n > self._limit:
            raise Overloaded(f"{self._commands} requests wait already; ask again in a second")
        self._jobs.extend(jobs)
        self._commands += n

    def _go_on(self) -> None:
        while True:
            with self._wake:
                while not (self._jobs or self._is_closed):
                    self._waited_for = -1
                    self._rests.set()
                    self._wake.wait()
                self._turn += 1
                jobs, self._jobs, self._commands = list(self._jobs), deque(), 0
                if not jobs:
                    self._rests.set()
                    return
            try:
                self._work(jobs)
            except BaseException as error:  # whatever it is, nobody waits for ever, and we go on
                log.exception("work of %s", self._thread.name)
                for job in jobs:
                    if not job.is_answered:
                        job.error = _as_answer(error)
                answer(jobs)


class _Aside:
    """What one event loop has asked lines for, until it stands aside for them."""

    def __init__(self) -> None:
        self._lines: dict[Line, None] = {}

    def ask(self, loop: asyncio.AbstractEventLoop, line: Line) -> None:
        """Remember that a line was asked; in a few rounds its thread is woken."""
        if not self._lines:
            loop.call_soon(self._gather, loop, ROUNDS)
        self._lines[line] = None

    def _gather(self, loop: asyncio.AbstractEventLoop, rounds: int) -> None:
        """Let the loop read what has come in the meantime, then stand aside."""
        if rounds > 1:
            loop.call_soon(self._gather, loop, rounds - 1)
            return
        lines, self._lines = list(self._lines), {}
        until = time.monotonic() + STANDS_ASIDE
        for line in [line for line in lines if line.wake()]:
            line.wait(until - time.monotonic())


_asides: WeakKeyDictionary[asyncio.AbstractEventLoop, _Aside] = WeakKeyDictionary()


def _aside_of(loop: asyncio.AbstractEventLoop) -> _Aside:
    found = _asides.get(loop)
    if found is None:
        found = _asides[loop] = _Aside()
    return found


def answer(jobs: Sequence[Job]) -> None:
    """Give jobs their answers, those that wait on an event loop on that loop."""
    loops: dict[asyncio.AbstractEventLoop, list[Job]] = {}
    for job in jobs:
        if job.is_answered:
            continue
        job.is_answered = True
        if job.reply is not None:
            loops.setdefault(job.reply.get_loop(), []).append(job)
        elif job.future is not None and job.future.set_running_or_notify_cancel():
            _settle(job.future, job)
    for loop, some in loops.items():
        with suppress(RuntimeError):  # it was closed: nobody waits there any more
            loop.call_soon_threadsafe(_reply, some)


def _reply(jobs: Sequence[Job]) -> None:
    for job in jobs:
        if job.reply is not None and not job.reply.done():
            _settle(job.reply, job)


def _settle(who: Future[Any] | asyncio.Future[Any], job: Job) -> None:
    if job.error is None:
        who.set_result(job.answer)
    else:
        who.set_exception(_as_answer(job.error))


def _as_answer(error: BaseException) -> Exception:
    """Return an error that may be raised where somebody waits; some would end more than that."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    found = RuntimeError(f"{type(error).__name__}: {error}")
    found.__cause__ = error
    return found
