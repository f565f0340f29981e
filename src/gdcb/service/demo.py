"""A living service to look at: a made-up operator with a month behind it, and nights to come.

Everything in it is made: listings, manager, guests (`gdcb.instances.str_pricing.live`). It goes
through the same desks, gates and ledger as real decisions do.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.resources import files
from typing import Any

from gdcb import events as ev
from gdcb.cases import Record
from gdcb.errors import GdcbError
from gdcb.instances.made_log import decoded
from gdcb.instances.str_pricing import live as operator
from gdcb.ledger.live import Live
from gdcb.ledger.store import Store
from gdcb.service import answering, deciding, observing, operating
from gdcb.service.answering import Review
from gdcb.service.api.instances import import_log
from gdcb.service.desk import Desk, now
from gdcb.service.holding import offered

log = logging.getLogger("gdcb.service")
NAME = "str"
BY = "demo feed (made up)"
DAYS = 30
NIGHTS_A_DAY = 16
LAST_NIGHTS = 150
DAY = 86_400_000_000
ROUNDS = 3  # after which a guest has booked a night, or nobody has
LOOK_BACK = 2_000  # events in which a feed looks for prices that are out when it starts

Told = Callable[[str, int, int], None]


def declaration() -> str:
    """Return the declaration of the instance that is shown."""
    return (files("gdcb.instances.str_pricing") / "str.toml").read_text(encoding="utf-8")


def is_ours(store: Store) -> bool:
    """Whether a ledger was furnished as a demo, or begun to be; a real one never gets more."""
    first = next(iter(store.read(NAME, 0, 1)), None)
    return first is not None and first.by == BY


def is_half(store: Store) -> bool:
    """Whether somebody stopped while a demo was furnished: the last of its days is missing."""
    last = _id(DAYS - 1)
    return is_ours(store) and last not in store.places(NAME, [last])


def _id(day: int) -> str:
    return f"day{day + 1:02d}"


def furnish(store: Store, told: Told = lambda *_: None) -> None:
    """Make the instance, certify a month of its past, and live through another one.

    The clock of that month is set back, so that figures over time have something to show; the
    entries are chained and signed with these times as any others. Where it was stopped half-way it
    goes on: what was done already is asked for under the same id, and is no news.
    """
    first = next(iter(store.read(NAME, 0, 1)), None)
    start = now() - DAYS * DAY if first is None else first.at
    moment = [start]
    if first is None:
        operating.create(
            store, declaration(), BY, "an operator to look at", seed=7, clock=lambda: moment[0]
        )
    # Made up, and the same every time: nobody's treatment depends on its nonces.
    desk = Desk(store, NAME, clock=lambda: moment[0], nonce=lambda: "made up")
    try:
        if store.head(NAME).size == 1:
            told("certifying a month of history", 0, DAYS)
            last = (datetime.fromtimestamp(start / 1e6, UTC) - timedelta(days=1)).date()
            moment[0] += 60_000_000
            import_log(desk, operator.past(operator.SEED, last=last), BY)
        feed = operator.Feed(operator.SEED)
        for day in range(DAYS):
            moment[0] = start + day * DAY + 6 * 3_600_000_000
            is_last = day == DAYS - 1
            nights = feed.nights(LAST_NIGHTS if is_last else NIGHTS_A_DAY, first=day * NIGHTS_A_DAY)
            if is_last:
                moment[0] = now() - 3_600_000_000
            ids = price(desk, nights, _id(day))
            if not is_last:
                moment[0] += 3_600_000_000
                answer(desk, feed, ids, nights)
            moment[0] += 3_600_000_000 if not is_last else 0
            observe(desk, feed, ids)
            told("living through a month", day + 1, DAYS)
    finally:
        desk.close()


def price(desk: Desk, nights: list[operator.Night], id: str) -> list[str]:
    """Have a batch of nights priced; return the ids of its decisions."""
    units, contexts = [unit for unit, _ in nights], [context for _, context in nights]
    wanted = deciding.request_of(desk.instance, desk.policy, id, contexts, False, BY, units)
    desk.put(deciding.job(wanted)).result()
    return wanted.ids


def answer(
    desk: Desk, feed: operator.Feed, ids: Iterable[str], nights: list[operator.Night]
) -> None:
    """Let the made manager answer what waits of these nights."""
    by = operator.MANAGER
    waiting = desk.look(lambda live: set(live.waiting)).result()
    for id, (unit, context) in zip(ids, nights, strict=True):
        if id not in waiting:
            continue
        version, content, proposed = desk.look(partial(_seen, id=id)).result()
        verdict, action, code, words = feed.person(unit, context, proposed["price"])
        said = Review(id, verdict, action, by, code, words, version, content)
        desk.submit(partial(answering.review, answer=said)).result()


def _seen(live: Live, id: str) -> tuple[int, str, dict[str, Any]]:
    record = live.records[id]
    proposed = live.instance.decode_action(offered(record)) or {}
    return record.judged_at, answering.content_of(live, record), proposed


def observe(desk: Desk, feed: operator.Feed, ids: Iterable[str]) -> None:
    """Report whether guests booked those of the nights that have a price and no outcome yet."""
    prices = desk.look(partial(_ran, ids=list(ids))).result()
    given = [
        observing.Outcome(id, feed.outcome(unit, context, price))
        for id, (unit, context), price in prices
    ]
    if given:
        desk.submit(lambda turn: observing.observe(turn, given, BY)).result()


def _ran(live: Live, ids: list[str]) -> list[tuple[str, operator.Night, float]]:
    """Return the nights on sale whose outcome is not known: which, what was asked, and the price.

    What was asked stands in the ledger, so that a feed need not remember it.
    """
    found = []
    for record in (live.records[id] for id in ids):
        if record.executed is None or record.seen is not None:
            continue
        ran = live.instance.decode_action(record.executed)
        if ran is not None:
            columns = decoded(live.instance.context, record.made.x[[record.at]])
            night = record.unit, {name: values[0] for name, values in columns.items()}
            found.append((record.id, night, ran["price"]))
    return found


class Feed:
    """Nights that come in while one looks: a thread that asks for prices and reports bookings.

    A booking is reported a few rounds after a price is out, whoever let it through and whenever:
    what somebody approves in the queue has guests too.

    Parameters
    ----------
    desk : opens the desk of the instance
    every : seconds between two rounds
    """

    def __init__(self, desk: Callable[[], Desk], every: float = 6.0) -> None:
        self._desk, self._every = desk, every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="demo feed", daemon=True)
        self._feed = operator.Feed(operator.SEED)
        self._next: int | None = None  # number of the first event that was not looked at
        self._out: dict[str, int] = {}  # prices that are out, and for how many rounds

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def _run(self) -> None:
        desk = self._desk()
        round = desk.look(lambda live: len(live.events)).result() * 1_000
        while not self._stop.wait(self._every):
            round += 3
            self.step(desk, round)

    def step(self, desk: Desk, round: int) -> None:
        """Ask for the prices of two nights, and report the bookings that are due."""
        nights = self._feed.nights(2, first=DAYS * NIGHTS_A_DAY + LAST_NIGHTS + round)
        try:
            price(desk, nights, f"night{round}")
            new, self._next = desk.look(self._released).result()
            self._out = {id: age + 1 for id, age in self._out.items()} | dict.fromkeys(new, 0)
            for id in [id for id, age in self._out.items() if age >= ROUNDS]:
                del self._out[id]  # first: one that is refused is not tried for ever
                observe(desk, self._feed, [id])
        except GdcbError as error:  # paused, or the store is away: it goes on later
            log.info("demo feed: %s", error)

    def _released(self, live: Live) -> tuple[list[str], int]:
        """Return our own nights whose prices have come out since the last look."""
        stop = len(live.events)
        first = max(0, stop - LOOK_BACK) if self._next is None else self._next
        found = []
        for event in live.events[first:stop]:
            if isinstance(event, ev.ActionExecuted):
                found += [id for id in event.id if _is_fed(live.records[id])]
        return found, stop


def _is_fed(record: Record) -> bool:
    """Whether a feed asked for it; who tries the API out reports what comes of it themselves."""
    by = record.made.by
    return by is not None and by[record.at] == BY
