"""A desk: all that happens to one instance in one process, one transaction at a time.

Commands wait in a queue. One thread takes all that wait, folds what other processes have written,
runs the commands against the fold, writes what they added in one transaction, and answers when it
is committed. So nothing is acknowledged that is not on disk, a commit is shared by all that came
while the last one ran, and no two commands ever see the same state.

Two threads of Python that both have work take turns of milliseconds, and whoever waits for a disk
goes to the end of the queue. So an event loop collects what came in one of its rounds, and then
stands aside while the desk works (`attend`): the commit has the interpreter to itself.
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
from typing import Any, Protocol, TypeVar

from gdcb.errors import GdcbError, StoreError, StoreUnavailable
from gdcb.ledger.live import Live, follow, opened
from gdcb.ledger.store import Store, Writing
from gdcb.service.policy import policy_of
from gdcb.service.turn import Turn

log = logging.getLogger("gdcb.service")
T = TypeVar("T")
Clock = Callable[[], int]
SNAPSHOT_EVERY = 5_000
SNAPSHOT_SHARE = 20  # of a long chain a snapshot every twentieth: each is as large as what is known
ROUNDS = 4  # of a loop until it stands aside: a request is read in one and reaches us in the next
STANDS_ASIDE = 0.005  # seconds at most: a slow disk or a lock elsewhere stops nobody else


def now() -> int:
    """Return the time in µs since 1970, UTC."""
    return time.time_ns() // 1000


class Overloaded(GdcbError):
    """More waits than can be answered in time; ask again later."""

    retry_after = 1


@dataclass(slots=True)
class Job:
    """A command, and where its answer goes; it has `run` or `together`.

    Parameters
    ----------
    run : turn → answer; raises before it adds anything
    together : (turn, jobs) → nothing; answers all jobs that wait and have the same one
    what : what `together` is asked for
    future, reply : who waits in a thread, or on an event loop
    """

    run: Callable[[Turn], Any] | None = None
    together: Callable[[Turn, Sequence[Any]], None] | None = None
    what: Any = None
    reply: asyncio.Future[Any] | None = None
    future: Future[Any] | None = None
    answer: Any = None
    error: BaseException | None = None


class Listener(Protocol):
    """Somebody who wants to hear what was committed."""

    def __call__(self, live: Live, first: int, stop: int) -> None:
        """Hear that events from `first` to before `stop` are in the ledger."""


class Desk:
    """One instance at work.

    Parameters
    ----------
    store, chain : where its ledger is, and the instance's name there
    clock : µs since 1970
    limit : commands that may wait; more are turned away

    Attributes
    ----------
    listeners : hear what this desk has committed, once it is answered
    followers : hear every event once, also those that other processes have written, in order
    trouble : what kept the store from writing the last time; None: it wrote
    """

    def __init__(self, store: Store, chain: str, clock: Clock = now, limit: int = 2_000) -> None:
        self.store, self.chain, self.clock, self.limit = store, chain, clock, limit
        self._live: Live | None = opened(store, chain)
        self.instance = self._live.instance
        self.policy = policy_of(self._live.declared.service, self.instance)
        self._text = self._live.text
        self._snapshot_at = len(self._live.events)
        self._jobs: deque[Job] = deque()
        self._reads: deque[Job] = deque()
        self._wake = threading.Condition()
        self._rests = threading.Event()
        self._called: asyncio.AbstractEventLoop | None = None
        self._is_closed = False
        self.listeners: list[Listener] = []
        self.followers: list[Listener] = []
        self._followed = len(self._live.events)
        self.trouble: StoreError | None = None
        self._thread = threading.Thread(target=self._work, name=f"desk {chain}", daemon=True)
        self._thread.start()

    # Ask, from a thread that may wait

    def submit(self, run: Callable[[Turn], T]) -> Future[T]:
        """Queue a command; the future has its answer once it is committed."""
        return self.put(Job(run))

    def look(self, read: Callable[[Live], T]) -> Future[T]:
        """Queue a look at the fold, brought up to the head of the chain; it changes nothing."""
        return self.put(Job(lambda turn: read(turn.live)), is_look=True)

    def put(self, job: Job, is_look: bool = False) -> Future[Any]:
        """Queue a job; refuse it where too much waits already."""
        job.future = future = Future()
        self._queue(job, is_look=is_look)
        return future

    # Ask, from an event loop

    async def command(self, run: Callable[[Turn], T]) -> T:
        """Run a command; nobody else waits for it."""
        answer: T = await self.done(Job(run))
        return answer

    async def glimpse(self, read: Callable[[Live], T]) -> T:
        """Look at the fold, brought up to the head of the chain; nobody else waits for it."""
        answer: T = await self.done(Job(lambda turn: read(turn.live)), is_look=True)
        return answer

    async def done(self, job: Job, is_look: bool = False) -> Any:
        """Return a job's answer; what else came in this round of the loop shares its commit."""
        loop = asyncio.get_running_loop()
        job.reply = loop.create_future()
        self._queue(job, is_look=is_look, wakes=False)
        if self._called is not loop:
            self._called = loop
            loop.call_soon(self._gather, loop, ROUNDS)
        return await job.reply

    def _gather(self, loop: asyncio.AbstractEventLoop, rounds: int) -> None:
        """Let the loop read what has come in the meantime, then attend."""
        if rounds > 1:
            loop.call_soon(self._gather, loop, rounds - 1)
        else:
            self._attend()

    def _attend(self) -> None:
        """Wake the desk, and stand aside for a moment while it works."""
        self._called = None
        with self._wake:
            self._wake.notify()
            if not self._rests.is_set():
                return  # it is at something long, and takes all that waits when that is done
            self._rests.clear()
        self._rests.wait(STANDS_ASIDE)

    def _queue(self, job: Job, is_look: bool = False, wakes: bool = True) -> None:
        with self._wake:
            if self._is_closed:
                raise StoreUnavailable("the service is shutting down; ask again in a moment")
            if is_look:
                self._reads.append(job)
            elif len(self._jobs) >= self.limit:
                raise Overloaded(f"{len(self._jobs)} requests wait already; ask again in a second")
            else:
                self._jobs.append(job)
            if wakes:
                self._wake.notify()

    def length(self) -> int:
        """Return how many commands wait."""
        return len(self._jobs)

    def glance(self) -> Live | None:
        """Return the fold as it stands; its own thread goes on with it, so for gauges only."""
        return self._live

    def close(self) -> None:
        """Finish what waits, and stop."""
        with self._wake:
            self._is_closed = True
            self._wake.notify()
        self._thread.join()

    # Work

    def _work(self) -> None:
        while True:
            with self._wake:
                while not (self._jobs or self._reads or self._is_closed):
                    self._rests.set()
                    self._wake.wait()
                jobs, self._jobs = list(self._jobs), deque()
                reads, self._reads = list(self._reads), deque()
                if not jobs and not reads:
                    self._rests.set()
                    return
            if reads:
                self._read(reads)
            if jobs:
                self._write(jobs)

    def _read(self, jobs: list[Job]) -> None:
        try:
            live = self._fresh()
            follow(live, self.store.read(self.chain, len(live.events)))
            self._adopt(live)
        except Exception as error:
            self._live = None  # an event may have been folded half
            self._fail(jobs, error)
            return
        self._tell(live)  # first: who looks must not find what was erased elsewhere
        turn = Turn(live, self.policy, self.clock())
        for job in jobs:
            try:
                self._run(job, turn)
            except Exception as error:  # a mistake in one look is no reason to end all others
                job.error = error
        self._answer(jobs)

    def _write(self, jobs: list[Job]) -> None:
        """Run jobs in one transaction; where one spoils it, each in its own."""
        try:
            first, stop = self._commit(jobs)
        except StoreError as error:
            self.trouble = error
            self._live = None  # what was folded and not committed is worked out again
            self._fail(jobs, error)
            return
        except Exception as error:
            self._live = None
            if len(jobs) == 1:
                self._fail(jobs, error)
                return
            for job in jobs:
                job.answer = job.error = None
                self._write([job])
            return
        self._answer(jobs)
        live = self._live
        if live is not None and stop > first:
            self.trouble = None
            self._call(self.listeners, live, first, stop)
            self._tell(live)
            self._snap(live)

    def _tell(self, live: Live) -> None:
        """Tell followers what was folded and is in the ledger since they last heard."""
        first, stop = min(self._followed, len(live.events)), len(live.events)
        self._followed = stop
        if stop > first:
            self._call(self.followers, live, first, stop)

    def _call(self, who: Sequence[Listener], live: Live, first: int, stop: int) -> None:
        for one in who:
            try:
                one(live, first, stop)
            except Exception:  # it is committed, whatever who hears of it does
                log.exception("listener of %s", self.chain)

    def _commit(self, jobs: list[Job]) -> tuple[int, int]:
        live = self._fresh()
        with self.store.writing(self.chain) as writing:
            self._catch_up(live, writing)
            first = len(live.events)
            turn = Turn(live, self.policy, max(self.clock(), live.at), writing)
            waiting = list(jobs)
            while waiting:
                job = waiting.pop(0)
                if job.together is None:
                    self._run(job, turn)
                    continue
                same = [one for one in waiting if one.together == job.together]
                waiting = [one for one in waiting if one.together != job.together]
                job.together(turn, [job, *same])
            turn.write(writing)
        self._adopt(live)
        return first, len(live.events)

    def _catch_up(self, live: Live, writing: Writing) -> None:
        if writing.head.size < len(live.events):
            raise StoreUnavailable(
                f"instance '{self.chain}': its ledger had {len(live.events)} entries and has "
                f"{writing.head.size}; somebody put an earlier state back, ask again"
            )
        if writing.head.size > len(live.events):
            follow(live, writing.read(len(live.events)))
        self._adopt(live)  # also where the fold was opened again, and has caught up by that

    def _adopt(self, live: Live) -> None:
        """Take the policy of the declaration that is in force."""
        if live.text != self._text:
            self.instance = live.instance
            self.policy = policy_of(live.declared.service, live.instance)
            self._text = live.text

    def _run(self, job: Job, turn: Turn) -> None:
        before = len(turn.drafts)
        assert job.run is not None, "a job without `together` has `run`"
        try:
            job.answer = job.run(turn)
        except GdcbError as error:
            if len(turn.drafts) > before:
                raise  # it has added something already: the whole transaction is undone
            job.error = error

    def _fresh(self) -> Live:
        if self._live is None:
            self._live = opened(self.store, self.chain)
            if self._live.text == self._text:  # requests that wait were encoded for this one
                self._live.instance = self.instance
        return self._live

    def _answer(self, jobs: list[Job]) -> None:
        loops: dict[asyncio.AbstractEventLoop, list[Job]] = {}
        for job in jobs:
            if job.reply is not None:
                loops.setdefault(job.reply.get_loop(), []).append(job)
            elif job.future is None or not job.future.set_running_or_notify_cancel():
                continue
            elif job.error is not None:
                job.future.set_exception(job.error)
            else:
                job.future.set_result(job.answer)
        for loop, some in loops.items():
            with suppress(RuntimeError):  # it was closed: nobody waits there any more
                loop.call_soon_threadsafe(_reply, some)

    def _fail(self, jobs: list[Job], error: BaseException) -> None:
        for job in jobs:
            job.error = error
        self._answer(jobs)

    def _snap(self, live: Live) -> None:
        """Write a snapshot now and then; without one nothing is lost but time."""
        size = len(live.events)
        if size - self._snapshot_at < max(SNAPSHOT_EVERY, size // SNAPSHOT_SHARE):
            return
        try:
            head = self.store.head(self.chain)
            if head.size == len(live.events):
                self.store.put_snapshot(live.to_snapshot(head.hash))
                self._snapshot_at = len(live.events)
        except Exception:
            log.exception("snapshot of %s", self.chain)
            self._snapshot_at = len(live.events)


def _reply(jobs: list[Job]) -> None:
    """Answer those who still wait on an event loop, on that loop."""
    for job in jobs:
        if job.reply is None or job.reply.done():
            continue
        if job.error is not None:
            job.reply.set_exception(job.error)
        else:
            job.reply.set_result(job.answer)
