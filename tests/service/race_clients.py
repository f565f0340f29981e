"""Servers that can be killed, people and programs who talk to them, and what must hold after."""

from __future__ import annotations

import logging
import multiprocessing
import socket
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from typing import Any

import httpx
import uvicorn

from gdcb import events as ev
from gdcb.cases import Record
from gdcb.ledger.audit import verify_chain
from gdcb.ledger.live import Live, begun, follow, opened
from gdcb.ledger.sql import SqlStore
from gdcb.ledger.store import Store
from gdcb.service import answering, desk
from gdcb.service.access import (
    CONSOLE,
    Books,
    Rate,
    RateLimits,
    add_key,
    add_person,
    make_link,
    open_books,
)
from gdcb.service.access.forgery import HEADER, form_token
from gdcb.service.access.links import redeem
from gdcb.service.app import build
from gdcb.service.house import House, Settings
from gdcb.service.turn import Turn
from tests.service.access_builders import token_of
from tests.service.desks import everything, known

_BASE = "http://127.0.0.1:8000"
_AMPLE = Rate(1e9, 1e9)
FREE = RateLimits(_AMPLE, _AMPLE, _AMPLE, _AMPLE, _AMPLE, _AMPLE)
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([__name__])  # what a server imports takes longer than its start

# Servers


def serve(url: str, door: socket.socket, tick: float, is_planted: bool) -> None:
    """Serve a database until somebody kills this process; for a child."""
    desk.SNAPSHOT_EVERY = 50
    if is_planted:
        plant()
    logging.disable(logging.ERROR)  # what is refused here is refused on purpose
    house = House(SqlStore(url), Settings(_BASE, tick=tick, rates=FREE))
    uvicorn.Server(uvicorn.Config(build(house), log_config=None)).run(sockets=[door])


@dataclass
class Server:
    """The service in a process of its own.

    Its socket is ours and stays open: who asks while nobody serves waits for the next process.

    Parameters
    ----------
    url : the database
    tick : seconds between two looks at what is due
    is_planted : whether it has the mistake of `plant`
    """

    url: str
    tick: float = 0.05
    is_planted: bool = False
    door: socket.socket = field(init=False, repr=False)
    process: ForkServerProcess | None = None

    def __post_init__(self) -> None:
        self.door = socket.create_server(("127.0.0.1", 0), backlog=512)

    @property
    def address(self) -> str:
        """Where it is reached."""
        return f"http://127.0.0.1:{self.door.getsockname()[1]}"

    def start(self) -> None:
        """Start a process; it serves as soon as it is ready."""
        given = (self.url, self.door, self.tick, self.is_planted)
        self.process = _FORKS.Process(target=serve, args=given, daemon=True)
        self.process.start()

    def kill(self) -> None:
        """Kill the process with signal 9."""
        assert self.process is not None
        self.process.kill()
        self.process.join()

    def close(self) -> None:
        """Kill it for good."""
        if self.process is not None:
            self.kill()
        self.door.close()


def plant() -> None:
    """Plant a mistake: a decision is read once, before the transaction, and believed ever after.

    That it is waiting is not compared with what the desk knows either, which would find it.
    """
    review, find, looked = answering.review, answering.find, dict[str, Record]()
    check = answering.check_waiting

    def stale(live: Live, id: str) -> Record:
        return looked.setdefault(id, copy(find(live, id)))

    def reviewing(turn: Turn, answer: answering.Review) -> Record:
        answering.find, answering.check_waiting = stale, lambda live, record: None
        try:
            return review(turn, answer)
        finally:
            answering.find, answering.check_waiting = find, check

    answering.review = reviewing


# Who talks to them


@dataclass(frozen=True)
class Caller:
    """Somebody with a credential, who asks any of some servers and does not give up."""

    name: str
    headers: dict[str, str]
    servers: Sequence[Server]
    http: httpx.Client

    def ask(
        self, method: str, path: str, body: Any = None, prefer: int = 0
    ) -> tuple[int, dict[str, Any]]:
        """Ask until there is an answer that is none of the trouble of a crash."""
        until = time.monotonic() + 60
        while True:
            server = self.servers[prefer % len(self.servers)]
            try:
                said = self.http.request(
                    method, f"{server.address}/v1/instances/{path}", json=body, headers=self.headers
                )
                if said.status_code != 503:
                    return said.status_code, said.json()
            except httpx.TransportError:
                prefer += 1
            assert time.monotonic() < until, f"{method} {path}: no answer for a minute"
            time.sleep(0.01)

    def post(self, path: str, body: Any, prefer: int = 0) -> tuple[int, dict[str, Any]]:
        """POST; see `ask`."""
        return self.ask("POST", path, body, prefer)


@dataclass
class Staff:
    """Makes callers for some servers.

    Parameters
    ----------
    books : who there is
    servers : whom they ask
    chain : the instance that they have roles on
    """

    books: Books
    servers: Sequence[Server]
    chain: str
    http: httpx.Client = field(
        default_factory=lambda: httpx.Client(
            timeout=60, limits=httpx.Limits(max_connections=200, max_keepalive_connections=200)
        )
    )

    def person(self, login: str, *roles: str) -> Caller:
        """Add a person and sign them in."""
        given = [(role, self.chain) for role in roles]
        made = add_person(self.books, CONSOLE, login, login.title(), given)
        token = redeem(self.books, token_of(make_link(self.books, CONSOLE, made, _BASE)))
        headers = {"cookie": f"gdcb={token}", HEADER: form_token(self.books.secret, token)}
        return Caller(login.title(), headers, self.servers, self.http)

    def program(self, name: str, *roles: str) -> Caller:
        """Add a key."""
        key = add_key(self.books, CONSOLE, name, [(role, self.chain) for role in roles])
        return Caller(name, {"authorization": f"Bearer {key.text}"}, self.servers, self.http)


@contextmanager
def staff_of(store: SqlStore, servers: Sequence[Server], chain: str) -> Iterator[Staff]:
    """Lend who makes callers, with the access of a database; their connections end with it."""
    staff = Staff(open_books(store.engine), servers, chain)
    with staff.http:
        yield staff


# What must hold of a ledger, whatever happened to who wrote it


def check_ledger(store: Store, chain: str) -> Live:
    """Check a chain, its index, its snapshot and its executions; return its fold.

    Others may go on writing: it is checked up to where it ends now.
    """
    audit = verify_chain(store, chain)
    assert audit.ok, audit.findings
    size = store.head(chain).size
    quick, whole = opened(store, chain, size), begun(store, chain)
    follow(whole, store.read(chain, 0, size))
    assert everything(quick) == everything(whole)
    ids = [id for event in whole.events if isinstance(event, ev.DecisionMade) for id in event.id]
    assert max(Counter(ids).values(), default=1) == 1
    for id in ids:
        assert known(quick.records[id]) == known(whole.records[id])
    ran = Counter(
        id for event in whole.events if isinstance(event, ev.ActionExecuted) for id in event.id
    )
    assert max(ran.values(), default=1) == 1, ran.most_common(3)
    assert set(ran) <= set(ids)
    assert [id for id in ids if whole.records[id].status == "held"] == sorted(
        whole.waiting, key=ids.index
    )
    return whole
