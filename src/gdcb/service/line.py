"""A line of jobs before one thread, which takes all that wait at once.

Two threads of Python that both have work take turns of milliseconds, and whoever waits for a disk
goes to the end of the queue. So an event loop collects what came in a few of its rounds, and then
stands aside while the thread works: a commit has the interpreter to itself.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from gdcb.errors import GdcbError, StoreUnavailable
from gdcb.service.turn import Turn

log = logging.getLogger("gdcb.service")
ROUNDS = 4  # of a loop until it stands aside: a request is read in one and gets here in the next
STANDS_ASIDE = 0.02  # seconds at most: a slow disk or a lock elsewhere stops nobody else


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
    future, reply : who waits in a thread, or on an event loop
    """

    run: Callable[[Turn], Any] | None = None
    together: Callable[[Turn, Sequence[Any]], None] | None = None
    what: Any = None
    is_look: bool = False
    future: Future[Any] | None = None
    reply: asyncio.Future[Any] | None = None
    answer: Any = None
    error: BaseException | None = None


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
        self._turn, self._slow = 0, -1
        self._called: asyncio.AbstractEventLoop | None = None
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
        if self._called is not loop:
            self._called = loop
            loop.call_soon(self._gather, loop, ROUNDS)
        return await job.reply

    def close(self) -> None:
        """Finish what waits, and stop."""
        with self._wake:
            self._is_closed = True
            self._wake.notify()
        self._thread.join()

    def _add(self, jobs: Sequence[Job]) -> None:
        if self._is_closed:
            raise StoreUnavailable("the service is shutting down; ask again in a moment")
        n = sum(not job.is_look for job in jobs)
        if n and self._commands + n > self._limit:
            raise Overloaded(f"{self._commands} requests wait already; ask again in a second")
        self._jobs.extend(jobs)
        self._commands += n

    def _gather(self, loop: asyncio.AbstractEventLoop, rounds: int) -> None:
        """Let the loop read what has come in the meantime, then wake the thread."""
        if rounds > 1:
            loop.call_soon(self._gather, loop, rounds - 1)
            return
        self._called = None
        with self._wake:
            self._wake.notify()
            if self._turn == self._slow:
                return  # it is still at what was too long to wait for
            self._rests.clear()
        if not self._rests.wait(STANDS_ASIDE):
            self._slow = self._turn

    def _go_on(self) -> None:
        while True:
            with self._wake:
                while not (self._jobs or self._is_closed):
                    self._slow = -1
                    self._rests.set()
                    self._wake.wait()
                self._turn += 1
                jobs, self._jobs, self._commands = list(self._jobs), deque(), 0
                if not jobs:
                    self._rests.set()
                    return
            try:
                self._work(jobs)
            except Exception as error:  # a mistake of ours: nobody waits for ever, and we go on
                log.exception("work of %s", self._thread.name)
                for job in jobs:
                    job.error = error
                answer(jobs)


def answer(jobs: Sequence[Job]) -> None:
    """Give jobs their answers, those that wait on an event loop on that loop."""
    loops: dict[asyncio.AbstractEventLoop, list[Job]] = {}
    for job in jobs:
        if job.reply is not None:
            loops.setdefault(job.reply.get_loop(), []).append(job)
        elif job.future is not None and not job.future.done():
            _settle(job.future, job)
    for loop, some in loops.items():
        with suppress(RuntimeError):  # it was closed: nobody waits there any more
            loop.call_soon_threadsafe(_reply, some)


def _settle(future: Future[Any], job: Job) -> None:
    if not future.set_running_or_notify_cancel():
        return
    if job.error is not None:
        future.set_exception(job.error)
    else:
        future.set_result(job.answer)


def _reply(jobs: Sequence[Job]) -> None:
    for job in jobs:
        if job.reply is None or job.reply.done():
            continue
        if job.error is not None:
            job.reply.set_exception(job.error)
        else:
            job.reply.set_result(job.answer)
