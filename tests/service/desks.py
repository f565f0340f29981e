"""Small instances at work behind a desk, with a clock that the test moves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

import numpy as np
import polars as pl

from gdcb import events as ev
from gdcb.cases import Record
from gdcb.codec import from_body
from gdcb.events import to_json
from gdcb.history import certify, open_log
from gdcb.ledger.chain_check import check_store
from gdcb.ledger.live import Live, opened
from gdcb.ledger.replaying import replay_chain
from gdcb.ledger.store import Store, open_store
from gdcb.records import to_bytes
from gdcb.service import answering, deciding, observing, operating
from gdcb.service.desk import Desk
from gdcb.service.turn import Turn

T = TypeVar("T")
SECOND = 1_000_000
START = 1_767_225_600 * SECOND  # the first of January 2026, UTC

_ROOMS = """
name = "rooms"
context.base = { type = "number", low = 1, high = 1000 }
context.busy = { type = "number", low = 0, high = 1 }
arms = { part = "list", values = [0.8, 1.0, 1.2] }
composition = { part = "multiply", base = ["base"], names = ["price"] }
reward = { part = "payoff", outcome = ["booked"], action = 0 }
bandit = { part = "beta-thompson" }
"""
_BOUNDS = '{ part = "bounds", name = "limits", low = 50, high = 300 }'
_MANAGER = '{ part = "review", name = "manager", when = "busy", at_least = 0.5 }'
_OWNER = '{ part = "review", name = "owner", high = 200 }'
_RIDGE = 'scaler = { part = "ridge", features = ["busy"], every = 4, penalty = 1.0 }\n'


def _declared(gates: Sequence[str], service: str, rest: str = "") -> str:
    return f"{_ROOMS}{rest}gates = [{', '.join(gates)}]\n[service]\n{service}"


def plain(service: str = "", rest: str = "") -> str:
    """Declare prices behind bounds of 50 to 300, and nobody to ask."""
    return _declared([_BOUNDS], service, rest)


def ungated(service: str = "") -> str:
    """Declare prices that run as they are proposed: no rule, and nobody to ask."""
    return _declared([], service)


def held(service: str = "", bounds: str = _BOUNDS, rest: str = "") -> str:
    """Declare prices that wait for a manager on busy nights, and then meet the bounds."""
    return _declared([_MANAGER, bounds], service, rest)


def held_twice(service: str = "") -> str:
    """Declare two people: the manager on busy nights, then the owner above 200."""
    return _declared([_MANAGER, _OWNER, _BOUNDS], service)


def learning(service: str = "") -> str:
    """Declare `held` with a scaler that learns from labels, due every four."""
    return _declared([_MANAGER, _BOUNDS], service, _RIDGE)


@dataclass
class Clock:
    """A clock that stands still until somebody moves it; µs."""

    at: int = START

    def __call__(self) -> int:
        """Tell the time."""
        return self.at

    def pass_by(self, seconds: float) -> None:
        """Let time pass."""
        self.at += round(seconds * SECOND)


def counted() -> Callable[[], str]:
    """Return what draws 1, 2, 3, … where a service draws nonces, so that tests repeat."""
    numbers = count(1)
    return lambda: f"{next(numbers):032x}"


def night(busy: float = 0.0, base: float = 100.0) -> dict[str, float]:
    """Return a context; the manager is asked from busy 0.5 on."""
    return {"base": base, "busy": busy}


@dataclass
class Office:
    """A desk, its store and its clock; every call is one command, in a transaction of its own."""

    store: Store
    chain: str
    clock: Clock
    nonce: Callable[[], str] = field(default_factory=lambda: counted())
    desk: Desk = field(init=False)

    def __post_init__(self) -> None:
        self.desk = Desk(self.store, self.chain, self.clock, nonce=self.nonce)

    def restart(self) -> None:
        """Close the desk, and open another one on the same chain."""
        self.desk.close()
        self.desk = Desk(self.store, self.chain, self.clock, nonce=self.nonce)

    def snapshot(self) -> None:
        """Keep all that is known now."""
        head = self.store.head(self.chain)
        self.store.put_snapshot(self.look(lambda live: live.to_snapshot(head.hash)))

    # Commands

    def do(self, command: Callable[..., T], *given: Any) -> T:
        """Run a command (turn, *given) → answer."""
        return self.desk.submit(lambda turn: command(turn, *given)).result(timeout=60)

    def look(self, read: Callable[[Live], T]) -> T:
        """Look at the fold."""
        return self.desk.look(read).result(timeout=60)

    def request(
        self,
        id: str,
        contexts: dict[str, float] | Sequence[dict[str, float]] | None = None,
        unit: Any = "flat",
        by: str = "shop",
        **given: Any,
    ) -> deciding.Request:
        """Return a request for one context, or for several."""
        is_one = contexts is None or isinstance(contexts, dict)
        rows: Any = [contexts or night()] if is_one else contexts
        instance = self.look(lambda live: live.instance)
        policy = self.desk.policy
        return deciding.request_of(instance, policy, id, rows, is_one, by, unit, **given)

    def decide(self, id: str, *given: Any, **named: Any) -> deciding.Answer:
        """Decide a request."""
        answer: deciding.Answer = self.desk.put(
            deciding.job(self.request(id, *given, **named))
        ).result(timeout=60)
        return answer

    def rows(self, id: str, *given: Any, **named: Any) -> list[dict[str, Any]]:
        """Decide a request; return its decisions as a client sees them."""
        return deciding.answer_rows(self.decide(id, *given, **named), self.desk.policy)

    def asked(
        self,
        id: str,
        verdict: str = "approve",
        action: dict[str, Any] | None = None,
        by: str = "ann",
        code: str = "fits",
        reason: str = "",
    ) -> answering.Review:
        """Return an answer of somebody who was shown the decision as it is now."""

        def seen(live: Live) -> tuple[int, str]:
            record = answering.find(live, id)
            return record.judged_at, answering.content_of(live, record)

        version, content = self.look(seen)
        return answering.Review(id, verdict, action, by, code, reason, version, content)

    def answer(self, id: str, *given: Any, **named: Any) -> Record:
        """Answer a held decision."""
        return self.do(answering.review, self.asked(id, *given, **named))

    def execute(self, id: str, price: float | None, by: str = "shop") -> bool:
        """Report what ran."""
        action = None if price is None else {"price": price}
        return self.do(observing.execute, id, action, by)[1]

    def observe(self, outcomes: dict[str, float], by: str = "shop", **given: Any) -> list[bool]:
        """Report outcomes by decision."""
        told = [observing.Outcome(id, {"booked": y}, **given) for id, y in outcomes.items()]
        return self.do(observing.observe, told, by)

    def change(self, text: str, by: str = "ann", agreed_by: str = "bob") -> None:
        """Put another declaration in force, by two people."""
        number = self.do(operating.propose_change, text, "better so", by)
        self.do(operating.agree, number, "", agreed_by)

    # What came of it

    @property
    def size(self) -> int:
        """Entries of the chain."""
        return self.store.head(self.chain).size

    def kinds(self, since: int = 0) -> list[str]:
        """Return the kinds of the entries from a number on."""
        return [entry.kind for entry in self.store.read(self.chain, since)]

    def events(self, since: int = 0) -> list[ev.Event]:
        """Return the events from a number on."""
        return [from_body(e.kind, e.body) for e in self.store.read(self.chain, since)]

    def document(self, id: str) -> dict[str, Any]:
        """Return a decision as the service shows it."""
        return self.look(lambda live: deciding.document(live.instance, answering.find(live, id)))

    def counts(self, unit: int = 0) -> list[list[float]]:
        """Return what was learned of each arm: successes and failures, priors of 1 included."""
        return self.look(lambda live: live.state.bandit.counts[unit].T.tolist())

    def check(self) -> None:
        """Check the chain, that the desk knows what a fold of it knows, and that it comes out."""
        report = check_store(self.store, self.chain)
        assert report.ok, report.findings
        assert self.look(everything) == everything(opened(self.store, self.chain))
        again = replay_chain(self.store, self.chain)
        assert again.as_json()["differing"] == []


def everything(live: Live) -> dict[str, Any]:
    """Return all that a fold knows, to compare two of them bit by bit."""
    kept = live.kept.log
    rows = None if kept is None else to_bytes(kept)
    return {
        "size": len(live.events),
        "at": live.at,
        "by": live.by,
        "text": live.text,
        "seed": live.seed,
        "state": to_bytes(live.state),
        "group": live.group.tolist(),
        "units": list(live.units.items()),
        "kept": (rows, live.kept.numbers.tolist()),
        "waiting": list(live.waiting.values()),
        "discounts": live.discounts,
        "voids": live.voids,
        "history": None if live.history is None else to_json(live.history),
        "paused": _told(live.paused),
        "retired": _told(live.retired),
        "drawn": getattr(live, "drawn", None),
        "proposals": {number: _told(told) for number, told in live.proposals.items()},
    }


def _told(told: tuple[Any, int, str] | None) -> tuple[str, int, str] | None:
    return None if told is None else (to_json(told[0]), told[1], told[2])


def known(record: Record) -> dict[str, Any]:
    """Return all that is known of a decision, without the identity of its events."""
    judged, ran, seen = record.judged, record.ran, record.seen
    return {
        "id": record.id,
        "place": record.place,
        "status": record.status,
        "reason": record.reason,
        "judged": judged and (to_json(judged[0]), judged[1]),
        "judged_at": record.judged_at,
        "answers": record.answers,
        "is_asked": record.is_asked,
        "review": record.review and to_json(record.review),
        "ran": ran and (to_json(ran[0]), ran[1]),
        "ran_at": record.ran_at,
        "seen": seen and (to_json(seen[0]), seen[1]),
        "seen_at": record.seen_at,
        "outcome": record.outcome,
        "label": record.label,
        "appeal": record.appeal and to_json(record.appeal),
    }


@contextmanager
def office(text: str, store: Store | None = None, seed: int = 7) -> Iterator[Office]:
    """Declare an instance and open a desk for it, for a while."""
    clock = Clock()
    found = open_store("memory:") if store is None else store
    chain = operating.create(found, text, "ann", "first", seed=seed, clock=clock)
    made = Office(found, chain, clock)
    yield made
    made.desk.close()


def together(made: Office, *commands: Callable[[Turn], Any] | deciding.Request) -> list[Any]:
    """Run commands in one transaction; return their answers, or what they were refused with."""
    is_busy, may_go = threading.Event(), threading.Event()

    def keep_busy(live: Live) -> None:
        is_busy.set()
        may_go.wait(timeout=60)

    made.desk.look(keep_busy)
    assert is_busy.wait(timeout=60)
    futures = [
        made.desk.put(deciding.job(one))
        if isinstance(one, deciding.Request)
        else made.desk.submit(one)
        for one in commands
    ]
    may_go.set()
    return [future.exception(timeout=60) or future.result() for future in futures]


def past(n: int = 400, seed: int = 0) -> pl.DataFrame:
    """Return a log of `held`: arms at random, a manager who sometimes sets the base price."""
    rng = np.random.default_rng(seed)
    base, busy = rng.uniform(80.0, 240.0, n).round(), rng.uniform(0.0, 1.0, n).round(2)
    proposed = np.clip(base * rng.choice([0.8, 1.0, 1.2], n), 50.0, 300.0)
    is_edited = (busy >= 0.5) & (rng.random(n) < 0.3)
    price = np.where(is_edited, base, proposed)
    chance = 1.0 / (1.0 + np.exp(4.0 * (price / base - 1.0) - 0.5 * busy))
    return pl.DataFrame(
        {
            "base": base,
            "busy": busy,
            "price": price,
            "recommended_price": proposed,
            "status": np.where(is_edited, "modified", "passed"),
            "booked": (rng.random(n) < chance).astype(int),
            "unit": rng.choice(["sea", "farm"], n),
            "time": pl.from_epoch(pl.Series(np.arange(n) * 3600 + 1_700_000_000), time_unit="s"),
        }
    )


def take_past(made: Office, log: pl.DataFrame, override: str | None = None) -> bool:
    """Certify a log, and have the desk take it."""
    given: dict[str, Any] = {"level": 0.05, "margin": 0.1, "override": override}
    instance, bandit = made.look(lambda live: (live.instance, live.bandit))
    source = open_log(log, instance)
    certificate = certify(source, instance, bandit, **given)
    return made.do(operating.take_history, source, certificate, given, "ann")
