"""A desk: all that happens to one instance in one process, one transaction at a time.

Commands wait in a queue. One thread takes all that wait, folds what other processes have written,
runs the commands against the fold, writes what they added in one transaction, and answers when it
is committed. So nothing is acknowledged that is not on disk, a commit is shared by all that came
while the last one ran, and no two commands ever see the same state.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from gdcb import events as ev
from gdcb.errors import (
    GdcbError,
    LedgerPutBack,
    StoreError,
    UnknownDecision,
    UnknownInstance,
)
from gdcb.ledger.entry import Entry
from gdcb.ledger.live import Live, follow, opened
from gdcb.ledger.possible import POLICY
from gdcb.ledger.store import Head, Store, Writing
from gdcb.service.line import Job, Line, answer
from gdcb.service.policy import policy_of
from gdcb.service.turn import Turn, new_nonce

log = logging.getLogger("gdcb.service")
T = TypeVar("T")
Clock = Callable[[], int]
SNAPSHOT_EVERY = 5_000
SNAPSHOT_SHARE = 20  # of a long chain a snapshot every twentieth: each is as large as what is known


def now() -> int:
    """Return the time in µs since 1970, UTC."""
    return time.time_ns() // 1000


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
    nonce : draws what nobody can know before, for each request that is taken

    Attributes
    ----------
    listeners : hear what this desk has committed, once it is answered
    followers : hear every event once, also those that other processes have written, in order
    forgetters : are called where an earlier state was put back, so that what was read is let go
    trouble : what kept the store from writing the last time; None: it wrote
    set_back : an earlier state of the ledger was put back, and nobody has acknowledged it, or
        that could not be written down yet
    """

    def __init__(
        self,
        store: Store,
        chain: str,
        clock: Clock = now,
        limit: int = 2_000,
        nonce: Callable[[], str] = new_nonce,
    ) -> None:
        self.store, self.chain, self.clock = store, chain, clock
        self._nonce = nonce
        self._live: Live | None = opened(store, chain)
        self.instance = self._live.instance
        self.policy = policy_of(self._live.declared.service, self.instance)
        self._text = self._live.text
        self._snapshot_at = len(self._live.events)
        self._keep(self._live, self._last_of(self._live))
        self._found: _SetBack | None = None  # not written down yet; until then all is refused
        self.set_back: LedgerPutBack | None = _put_back(self._live)
        self.listeners: list[Listener] = []
        self.followers: list[Listener] = []
        self.forgetters: list[Callable[[], None]] = []
        self._followed = len(self._live.events)
        self.trouble: StoreError | None = None
        self._line = Line(self._work, f"desk {chain}", limit)

    # Ask, from a thread that may wait

    def submit(self, run: Callable[[Turn], T]) -> Future[T]:
        """Queue a command; the future has its answer once it is committed."""
        return self.put(Job(run))

    def look(self, read: Callable[[Live], T]) -> Future[T]:
        """Queue a look at the fold, brought up to the head of the chain; it changes nothing."""
        return self.put(_look(read))

    def put(self, job: Job) -> Future[Any]:
        """Queue a job; refuse it where too much waits already."""
        return self._line.put((job,))[0]

    def put_all(self, jobs: Sequence[Job]) -> list[Future[Any]]:
        """Queue jobs so that they are run in one transaction; refuse all where one would be."""
        return self._line.put(jobs)

    # Ask, from an event loop

    async def command(self, run: Callable[[Turn], T]) -> T:
        """Run a command, and let the loop go on meanwhile."""
        found: T = await self._line.done(Job(run))
        return found

    async def glimpse(self, read: Callable[[Live], T]) -> T:
        """Look at the fold, brought up to the head of the chain; the loop goes on meanwhile."""
        found: T = await self._line.done(_look(read))
        return found

    async def done(self, job: Job) -> Any:
        """Return a job's answer; those that are asked at about the same time share a commit."""
        return await self._line.done(job)

    def length(self) -> int:
        """Return how many commands wait."""
        return len(self._line)

    def glance(self) -> Live | None:
        """Return the fold as it stands; its own thread goes on with it, so for gauges only."""
        return self._live

    def check_ledger(self) -> None:
        """Raise `LedgerPutBack` where the ledger lacks what was read of it; from any thread.

        The desk itself is asked only where that has changed since its last look: what it does now
        may take long. What is on record as gone stays so until it is acknowledged.
        """
        is_gone = self._found is not None
        if is_gone or self.set_back is None:
            is_there = self._is_there(self.store.head(self.chain))
            if is_there == is_gone:
                self.look(lambda _: None).result()
        if self.set_back is not None:
            raise self.set_back

    def close(self) -> None:
        """Finish what waits, and stop."""
        self._line.close()

    # Work

    def _work(self, waiting: list[Job]) -> None:
        reads = [job for job in waiting if job.is_look]
        jobs = [job for job in waiting if not job.is_look]
        if self._found is not None:
            try:
                self._write_down(self._found)
            except LedgerPutBack as error:
                self._fail(waiting, error)
                return
        if reads:
            self._read(reads)
        if jobs:
            self._write(jobs)

    def _read(self, jobs: list[Job]) -> None:
        try:
            live = self._read_on()
        except BaseException as error:
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
            if isinstance(job.error, UnknownDecision) and self.set_back is not None:
                job.error = self.set_back  # it may be among what is gone
        answer(jobs)

    def _read_on(self) -> Live:
        """Return the fold, brought up to the head of the chain."""
        try:
            live = self._fresh()
            head = self.store.head(self.chain)
            if (head.size, head.hash) != (len(live.events), self._known[1]):
                self._keep(live, _follow(live, self._known[1], head, self._entries))
            self._adopt(live)
        except _SetBack as found:
            self._write_down(found)
            live = self._fresh()
        return live

    def _write(self, jobs: list[Job]) -> None:
        """Run jobs in one transaction; where one spoils it, each in its own."""
        try:
            first, stop = self._commit(jobs)
        except _SetBack as found:
            try:
                self._write_down(found)
            except LedgerPutBack as error:
                self._fail(jobs, error)
                return
            self._write(jobs)  # which refuses them, all but an acknowledgement
            return
        except StoreError as error:
            self.trouble = error
            self._live = None  # what was folded and not committed is worked out again
            self._fail(jobs, error)
            return
        except BaseException as error:  # whatever ended it, what was folded half is not kept
            self._live = None
            if len(jobs) == 1:
                self._fail(jobs, error)
                return
            for job in jobs:
                job.answer = job.error = None
                self._write([job])
            return
        answer(jobs)
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
            turn = Turn(live, self.policy, max(self.clock(), live.at), writing, self._nonce)
            waiting = list(jobs)
            if self.set_back is not None:
                for job in jobs:
                    job.error = None if job.despite else _put_back(live)
                waiting = [job for job in jobs if job.despite]
            while waiting:
                job = waiting.pop(0)
                turn.now = max(self.clock(), turn.now)  # the one before may have taken long
                if job.together is None:
                    self._run(job, turn)
                    continue
                same = [one for one in waiting if one.together == job.together]
                waiting = [one for one in waiting if one.together != job.together]
                job.together(turn, [job, *same])
            turn.check_time(self.clock())
            turn.write(writing)
        self._keep(live, writing.head.hash)
        self._adopt(live)
        return first, len(live.events)

    def _catch_up(self, live: Live, writing: Writing) -> None:
        head = writing.head
        if (head.size, head.hash) != (len(live.events), self._known[1]):
            self._keep(live, _follow(live, self._known[1], head, writing.read))
        self._adopt(live)  # also where the fold was opened again, and has caught up by that

    def _entries(self, start: int) -> Iterable[Entry]:
        return self.store.read(self.chain, start)

    def _write_down(self, found: _SetBack) -> None:
        """Write that an earlier state was put back; the instance then stops, in all processes.

        Raises `LedgerPutBack` until that is written: what was found is kept, and nothing is done.
        """
        is_news, self._found, self._live = self._found is None, found, None
        self.set_back = LedgerPutBack(
            f"instance '{self.chain}': its ledger had {found.had} entries, and these are gone; "
            "somebody put an earlier state back, or has removed it. This could not be written into "
            "the ledger yet; it is tried again with each request, and nothing else is done"
        )
        if is_news:
            log.error(
                "instance %s: its ledger had %d entries; somebody put an earlier state back. It "
                "stops until an administrator acknowledges it",
                self.chain,
                found.had,
            )
        try:
            live, last = self._recorded(found)
        except Exception as error:
            if is_news:
                log.error("instance %s: that cannot be written down yet (%s)", self.chain, error)
            raise self.set_back from error
        self._live, self._found, self._followed = live, None, len(live.events)
        self._keep(live, last)
        self._adopt(live)
        for one in self.forgetters:
            one()

    def _recorded(self, found: _SetBack) -> tuple[Live, bytes]:
        """Open the ledger as it is now and write what was found; return the fold and its hash."""
        live = self._opened()
        last = self._last_of(live)
        with self.store.writing(self.chain) as writing:
            if (writing.head.size, writing.head.hash) != (len(live.events), last):
                last = _follow(live, last, writing.head, writing.read)
            if self._is_there(Head(len(live.events), last)):
                log.error("instance %s: ledger entries that were gone are back", self.chain)
                return live, last
            # Another process may have found it before, and it may be acknowledged by now. What
            # was known already is an earlier one, and so is one that was found before the last
            # entry that is known was written: a copy that is put back may hold such.
            since = [one for one in live.set_backs if one not in self._set_backs]
            if not any(n < found.had <= had and at >= self._last_at for n, had, at in since):
                turn = Turn(live, self.policy, max(self.clock(), live.at), writing)
                event = ev.LedgerSetBack(found.had, found.last.hex(), len(live.events))
                turn.add(event, POLICY)
                turn.write(writing)
        return live, writing.head.hash

    def _keep(self, live: Live, last: bytes) -> None:
        """Keep what a later look at the ledger is held against; `last`: its last entry's hash."""
        # In one step: other threads hold the ledger against both (`check_ledger`).
        self._known = len(live.events), last
        self._set_backs, self._last_at = list(live.set_backs), live.at

    def _is_there(self, head: Head) -> bool:
        """Return whether the last entry that was known is in a chain with this head still."""
        known, last = self._known
        if head.size <= known:  # an entry may be large: it is read only where it must be
            return head.size == known and head.hash == last
        (entry,) = self.store.get(self.chain, [known - 1])
        return entry.hash == last

    def _last_of(self, live: Live) -> bytes:
        """Return the hash of the last entry that was folded."""
        (entry,) = self.store.get(self.chain, [len(live.events) - 1])
        return entry.hash

    def _adopt(self, live: Live) -> None:
        """Take the policy of the declaration that is in force, and whether all stands still."""
        self.set_back = _put_back(live)
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
            try:
                live = self._opened()
            except UnknownInstance as error:
                raise _SetBack(*self._known) from error
            last = self._last_of(live)
            if not self._is_there(Head(len(live.events), last)):
                raise _SetBack(*self._known)
            self._keep(live, last)
            self._live = live
        return self._live

    def _opened(self) -> Live:
        live = opened(self.store, self.chain)
        if live.text == self._text:  # requests that wait were encoded for this one
            live.instance = self.instance
        return live

    def _fail(self, jobs: list[Job], error: BaseException) -> None:
        for job in jobs:
            job.error = error
        answer(jobs)

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


class _SetBack(Exception):
    """The chain no longer has the entries that were read of it."""

    def __init__(self, had: int, last: bytes) -> None:
        super().__init__(had)
        self.had, self.last = had, last


def _follow(live: Live, last: bytes, head: Head, read: Callable[[int], Iterable[Entry]]) -> bytes:
    """Fold what others have written behind what is known; return the hash of the last entry.

    `last` is the hash of the last entry that is known; `_SetBack` where that is gone.
    """
    size = len(live.events)
    found = iter(read(size - 1) if head.size >= size else ())
    known = next(found, None)
    if known is None or known.hash != last:
        raise _SetBack(size, last)
    for entry in found:
        follow(live, [entry], last)
        last = entry.hash
    return last


def _put_back(live: Live) -> LedgerPutBack | None:
    """Return why nothing is decided; None: no earlier state was put back, or it is known."""
    if live.set_back is None:
        return None
    event = live.set_back[0]
    return LedgerPutBack(
        f"instance '{live.chain}': its ledger had {event.had} entries and was found with "
        f"{event.has}; somebody put an earlier state back. What was decided in between may have "
        "run and is not on record. Nothing is done until an administrator acknowledges it, on the "
        "instance's page, through the API, or by 'gdcb ledger acknowledge'"
    )


def _look(read: Callable[[Live], Any]) -> Job:
    return Job(lambda turn: read(turn.live), is_look=True)
