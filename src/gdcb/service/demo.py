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

from gdcb.errors import GdcbError
from gdcb.instances.str_pricing import live as operator
from gdcb.ledger.live import Live
from gdcb.ledger.store import Store
from gdcb.service import answering, deciding, observing, operating
from gdcb.service.answering import Review
from gdcb.service.api.instances import import_log
from gdcb.service.desk import Desk, now

log = logging.getLogger("gdcb.service")
NAME = "str"
BY = "demo feed (made up)"
DAYS = 30
NIGHTS_A_DAY = 16
LAST_NIGHTS = 150
DAY = 86_400_000_000

Told = Callable[[str, int, int], None]


def declaration() -> str:
    """Return the declaration of the instance that is shown."""
    return (files("gdcb.instances.str_pricing") / "str.toml").read_text(encoding="utf-8")


def furnish(store: Store, told: Told = lambda *_: None) -> None:
    """Make the instance, certify a month of its past, and live through another one.

    The clock of that month is set back, so that figures over time have something to show; the
    entries are chained and signed with these times as any others.
    """
    start = now() - DAYS * DAY
    moment = [start]
    operating.create(
        store, declaration(), BY, "an operator to look at", seed=7, clock=lambda: moment[0]
    )
    desk = Desk(store, NAME, clock=lambda: moment[0])
    try:
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
            ids = price(desk, nights, f"day{day + 1:02d}")
            if not is_last:
                moment[0] += 3_600_000_000
                answer(desk, feed, ids, nights)
            moment[0] += 3_600_000_000 if not is_last else 0
            observe(desk, feed, ids, nights)
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
    proposed = live.instance.decode_action(record.entered) or {}
    return record.judged_at, answering.content_of(live, record), proposed


def observe(
    desk: Desk, feed: operator.Feed, ids: Iterable[str], nights: list[operator.Night]
) -> None:
    """Report whether guests booked the nights that have a price."""

    def ran(live: Live) -> dict[str, dict[str, Any] | None]:
        found = {}
        for id in ids:
            record = live.records[id]
            if record.executed is not None and record.seen is None:
                found[id] = live.instance.decode_action(record.executed)
        return found

    prices = desk.look(ran).result()
    given = [
        observing.Outcome(id, feed.outcome(unit, context, (prices[id] or {}).get("price")))
        for id, (unit, context) in zip(ids, nights, strict=True)
        if id in prices and prices[id] is not None
    ]
    if given:
        desk.submit(lambda turn: observing.observe(turn, given, BY)).result()


class Feed:
    """Nights that come in while one looks: a thread that asks for prices and reports bookings."""

    def __init__(self, desk: Callable[[], Desk], every: float = 6.0) -> None:
        self._desk, self._every = desk, every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="demo feed", daemon=True)
        self._feed = operator.Feed(operator.SEED)
        self._before: list[tuple[list[str], list[operator.Night]]] = []

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
            nights = self._feed.nights(2, first=DAYS * NIGHTS_A_DAY + LAST_NIGHTS + round)
            try:
                self._before.append((price(desk, nights, f"night{round}"), nights))
                if len(self._before) > 3:
                    observe(desk, self._feed, *self._before.pop(0))
            except GdcbError as error:  # paused, or the store is away: it goes on later
                log.info("demo feed: %s", error)
