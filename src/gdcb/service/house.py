"""The service in one process: its store, its desks, its door, and what happens by itself."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from gdcb.errors import BrokenChain, InvalidInput, StoreError, UnknownInstance
from gdcb.ledger.live import Live
from gdcb.ledger.sql import SqlStore
from gdcb.service.access import Books, Door, Limiter, RateLimits, open_books
from gdcb.service.changes import Changes
from gdcb.service.claims import Claims
from gdcb.service.cursors import Cursors
from gdcb.service.desk import Desk, now
from gdcb.service.figures.background import Background
from gdcb.service.metrics import Metrics
from gdcb.service.schedule import Schedule, Ticker
from gdcb.service.strict_json import LARGEST
from gdcb.service.tidying import Tidying
from gdcb.service.turn import new_nonce
from gdcb.service.uploads import Slots, remove_left
from gdcb.service.web.memory import Memory
from gdcb.service.webhooks.sender import Sender

log = logging.getLogger("gdcb.service")
_AGAIN = 60 * 1_000_000


@dataclass(frozen=True, slots=True)
class Settings:
    """How a process of the service runs.

    Parameters
    ----------
    base_url : scheme, host and port where people reach it
    waiting : commands that may wait at a desk; more are turned away with 429
    largest : bytes of a request at most
    bodies, bodies_each : bytes of bodies in memory, of all requests and of one sender
    timeout : seconds in which a body must come, beyond what it takes at 10 kB a second, or at 100
        from 256 KiB on
    tick : seconds between two looks at what is due; 0: this process looks after nothing
    rates : how often who may ask
    allow_local_hooks : whether webhooks may go to this machine and its network, for trying out
    """

    base_url: str = "http://127.0.0.1:8000"
    waiting: int = 512
    largest: int = LARGEST
    bodies: int = 256 * 2**20
    bodies_each: int = 64 * 2**20
    timeout: float = 10.0
    tick: float = 1.0
    rates: RateLimits = field(default_factory=RateLimits)
    allow_local_hooks: bool = False


class House:
    """Everything that requests share.

    Parameters
    ----------
    store : where the ledgers are, and who may do what
    settings : how this process runs
    clock : µs since 1970

    Attributes
    ----------
    nonce : draws what nobody can know before, for each request that is taken
    """

    def __init__(
        self, store: SqlStore, settings: Settings | None = None, clock: Callable[[], int] = now
    ) -> None:
        self.store, self.clock = store, clock
        self.nonce: Callable[[], str] = new_nonce
        self.settings = settings or Settings()
        self.books: Books = open_books(store.engine, clock)
        self.door = Door(self.books, self.settings.base_url)
        self.limiter = Limiter(self.settings.rates)
        self.claims = Claims(store, clock)
        self.uploads = Slots()
        self.large = asyncio.Semaphore(2)  # large bodies that are read and checked at a time
        self._tidying = Tidying(self.books, self.door.session_limits, self.claims, clock)
        self.metrics = Metrics()
        self._closed = Cursors(store, "windows")
        self.sender = Sender(store, clock, self.settings.allow_local_hooks)
        self._desks: dict[str, Desk] = {}
        self._schedules: dict[str, Schedule] = {}
        self._memories: dict[str, Memory] = {}
        self._changes: dict[str, Changes] = {}
        self.figures = Background(store, clock)
        self._erasures: dict[str, int] = {}
        self._lock = threading.Lock()
        self._unread: dict[str, int] = {}  # and when to try again, µs
        self._ticker: Ticker | None = None

    def start(self) -> None:
        """Open the desks of all instances, and begin to look after what is due."""
        remove_left()
        self._open_all()
        if self.settings.tick > 0:
            self._ticker = Ticker(self._all, self.settings.tick)
            self._ticker.start()
            self.sender.start()

    def _all(self) -> list[Schedule]:
        self._open_all()  # others may have made one
        self._tidying.tick()
        with self._lock:
            return list(self._schedules.values())

    def _open_all(self) -> None:
        """Open every desk that can be opened; one that cannot be read is no reason to stop."""
        for chain in self.store.chains():
            if self.clock() < self._unread.get(chain, 0):
                continue
            try:
                self.desk(chain)
                self._unread.pop(chain, None)
            except StoreError:
                raise  # not this one: the store
            except BrokenChain as error:  # it says what is wrong
                log.error("instance %s cannot be opened: %s", chain, error)
                self._unread[chain] = self.clock() + _AGAIN
            except Exception:
                log.exception("instance %s cannot be opened", chain)
                self._unread[chain] = self.clock() + _AGAIN
        self.metrics.unreadable.set(len(self._unread))

    def stop(self) -> None:
        """Finish what waits, and let go."""
        if self._ticker is not None:
            self._ticker.stop()
        self.sender.stop()
        self.figures.stop()
        with self._lock:
            desks, self._desks = list(self._desks.values()), {}
        for desk in desks:
            desk.close()

    def known(self, name: str) -> Desk | None:
        """Return a desk that is open already; it never waits."""
        return self._desks.get(name)

    def desk(self, name: str) -> Desk:
        """Return the desk of an instance; opening it reads its ledger."""
        found = self._desks.get(name)
        if found is not None:
            return found
        with self._lock:
            if name not in self._desks:
                self._open(name)
            return self._desks[name]

    def _open(self, name: str) -> None:
        try:
            is_there = self.store.head(name).size > 0
        except InvalidInput:
            is_there = False
        if not is_there:
            raise UnknownInstance(f"no instance '{name[:80]}' here")
        desk = Desk(self.store, name, self.clock, self.settings.waiting, self.nonce)
        desk.listeners.append(self.metrics.heard)
        desk.listeners.append(self.sender.heard)
        desk.followers.append(self._erased)
        desk.forgetters.append(partial(self._forget, name, desk))
        self._desks[name], self._schedules[name] = desk, Schedule(desk, self._closed)
        self.metrics.watch(desk)
        if not desk.instance.chain.gates:
            log.warning("instance %s runs ungated: whatever is proposed runs as it is", name)

    def _forget(self, name: str, desk: Desk) -> None:
        """Let go of what was read of a chain of which an earlier state was put back."""
        self._changes.pop(name, None)
        made = self._memories.pop(name, None)
        if made is not None:
            desk.followers.remove(made.heard)
        if self._schedules.get(name) is not None:
            self._schedules[name] = Schedule(desk, self._closed)
        self.figures.refresh(name)

    def memory(self, name: str) -> Memory:
        """Return the finished decisions of late of an instance, whichever process they were in."""
        found = self._memories.get(name)
        if found is None:
            made, desk = Memory(), self.desk(name)

            def begin(live: Live) -> Memory:  # at the desk, so that nothing comes in between
                if name not in self._memories:
                    made.backfill(live)
                    desk.followers.append(made.heard)
                    self._memories[name] = made
                return self._memories[name]

            found = desk.look(begin).result()
        return found

    def changes(self, name: str) -> Changes:
        """Return the changes of an instance that were ever proposed."""
        return self._changes.setdefault(name, Changes(self.store, name))

    def _erased(self, live: Live, first: int, stop: int) -> None:
        """Let go of contexts that were erased, by whichever process, in what is kept of figures."""
        if live.erasures != self._erasures.get(live.chain, 0):
            self._erasures[live.chain] = live.erasures
            self.figures.refresh(live.chain)

    def names(self) -> list[str]:
        """Return all instances that can be read."""
        return [name for name in self.store.chains() if name not in self._unread]

    def check_ready(self) -> int:
        """Return how many instances there are; `StoreError` where the store cannot work.

        That it can be read is asked, and whether it has what was read of it before. That it cannot
        be written is known from whoever failed last; then it is tried, since nobody else may come
        to find out that it is over.
        """
        n = len(self.names())
        for desk in list(self._desks.values()):
            desk.check_ledger()
        troubled = [desk for desk in list(self._desks.values()) if desk.trouble is not None]
        if troubled:
            self.claims.try_writing()
            for desk in troubled:
                desk.trouble = None
        return n
