"""The thread in which the figures of all instances of a process are made."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from gdcb.instance import Instance
from gdcb.ledger.store import Store
from gdcb.service.figures.reading import Reader
from gdcb.service.figures.shown import Shown, shown
from gdcb.service.figures.verified import Verified
from gdcb.service.pages.views.dashboard import ChainState

log = logging.getLogger("gdcb.service")


@dataclass(slots=True)
class _Chain:
    """A chain whose figures somebody asked for."""

    instance: Instance
    verified: Verified
    reader: Reader | None = None
    latest: Shown | None = None
    asked: list[Future[Shown]] = field(default_factory=list)


class Background:
    """Figures by name of the instance, made when somebody asks and never at a desk.

    Parameters
    ----------
    store : where the chains are
    clock : µs since 1970
    """

    def __init__(self, store: Store, clock: Callable[[], int]) -> None:
        self._store, self._clock = store, clock
        self._chains: dict[str, _Chain] = {}
        self._queue: deque[str] = deque()
        self._wake = threading.Condition()
        self._is_stopped = False
        self._thread: threading.Thread | None = None

    def ask(self, name: str, instance: Instance) -> Future[Shown]:
        """Ask for the figures as they are now; what takes long is as it was worked out last."""
        future: Future[Shown] = Future()
        with self._wake:
            if name not in self._chains:
                self._chains[name] = _Chain(instance, Verified(self._store, name))
            chain = self._chains[name]
            chain.instance = instance
            chain.asked.append(future)
            if name in self._queue:
                self._queue.remove(name)
            self._queue.appendleft(name)  # somebody waits: before what nobody waits for
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="figures", daemon=True)
                self._thread.start()
            self._wake.notify()
        return future

    def refresh(self, name: str) -> None:
        """Bring figures that are kept here up to date, though nobody asks for them.

        What was erased must go from them too.
        """
        with self._wake:
            if name in self._chains and name not in self._queue:
                self._queue.append(name)
                self._wake.notify()

    def latest(self, name: str) -> Shown | None:
        """Return the figures that were made last; None: none yet."""
        chain = self._chains.get(name)
        return None if chain is None else chain.latest

    def checked(self, name: str) -> ChainState | None:
        """Return how far a chain was checked, also where its figures cannot be made."""
        chain = self._chains.get(name)
        return None if chain is None else chain.verified.state()

    def stop(self) -> None:
        """Stop after the step that is under way."""
        with self._wake:
            self._is_stopped = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join(timeout=10)

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._queue and not self._is_stopped:
                    self._wake.wait()
                if self._is_stopped:
                    return
                name = self._queue.popleft()
                chain = self._chains[name]
                asked, chain.asked = chain.asked, []
            is_more = bool(asked)
            try:
                if (
                    not asked
                ):  # first, and by itself: nothing that is wrong may keep it from saying so
                    is_more = chain.verified.work(self._clock())
                is_more |= self._step(name, chain, asked)
            except Exception as error:  # a store that is away; the next who asks tries again
                log.warning("figures of %s: %s", name, error)
                chain.reader = None  # what was half read is read again
                for future in asked:
                    if future.set_running_or_notify_cancel():
                        future.set_exception(error)
            if is_more:
                with self._wake:
                    if name not in self._queue:
                        self._queue.append(name)

    def _step(self, name: str, chain: _Chain, asked: list[Future[Shown]]) -> bool:
        """Answer who asks, else do a little of what takes long; return whether more is left."""
        if chain.reader is None:
            chain.reader = Reader(self._store, name, chain.instance)
            chain.reader.verified = chain.verified
        reader, now = chain.reader, self._clock()
        reader.instance = chain.instance
        reader.catch_up()
        is_more = not asked and reader.work(now)
        chain.latest = shown(reader, now)
        for future in asked:
            if future.set_running_or_notify_cancel():
                future.set_result(chain.latest)
        return is_more
