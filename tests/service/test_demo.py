"""The demo: it is furnished to its end whenever it was stopped, and all it sells has guests."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from gdcb import events as ev
from gdcb.instances.str_pricing import live as operator
from gdcb.ledger.chain_check import check_store
from gdcb.ledger.live import Live, opened
from gdcb.ledger.sql import SqlStore
from gdcb.ledger.store import Store, open_store
from gdcb.service import answering, deciding, demo, operating
from gdcb.service.answering import Review
from gdcb.service.desk import Desk
from gdcb.service.running import Plan, furnished
from tests.service import desks

DAYS = 5


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A month of five days, and a certificate in place of a history, which takes long."""

    def filed(desk: Desk, *_: object) -> None:
        event = ev.CertificateGiven("a log", "ab", {"verdict": "refuse"})
        desk.submit(lambda turn: turn.add(event, demo.BY)).result()

    monkeypatch.setattr(demo, "import_log", filed)
    monkeypatch.setattr(demo, "DAYS", DAYS)
    monkeypatch.setattr(demo, "LAST_NIGHTS", 60)


@pytest.fixture
def store() -> Iterator[Store]:
    """Return a store in memory."""
    made = open_store("memory:")
    yield made
    made.close()


def decided(live: Live) -> dict[str, str]:
    """Return every decision and how it stands."""
    made = [event for event in live.events if isinstance(event, ev.DecisionMade)]
    return {id: live.records[id].status for event in made for id in event.id}


def is_on_sale(live: Live, id: str) -> bool:
    """Whether a night has a price."""
    ran = live.records[id].executed
    return ran is not None and live.instance.decode_action(ran) is not None


class Stopped(KeyboardInterrupt):
    """Somebody pressed Ctrl-C."""


@pytest.mark.parametrize("step", ["import_log", "price", "answer", "observe"])
@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
def test_a_demo_that_was_stopped_is_furnished_to_its_end(
    step: str, is_after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Plan(str(tmp_path / "demo.db"), "http://127.0.0.1:8000", is_demo=True)
    done, n = getattr(demo, step), [0]

    def stopped(*given: object) -> object:
        n[0] += 1
        if n[0] == (1 if step == "import_log" else 3):
            if is_after:
                done(*given)
            raise Stopped
        return done(*given)

    with monkeypatch.context() as patch:
        patch.setattr(demo, step, stopped)
        with pytest.raises(Stopped):
            furnished(plan)
    half = SqlStore(plan.db)
    assert demo.is_half(half)
    half.close()
    furnished(plan)
    store = SqlStore(plan.db)
    live, size = opened(store, demo.NAME), store.head(demo.NAME).size
    assert not demo.is_half(store)
    assert check_store(store, demo.NAME).ok
    found = decided(live)
    assert len(found) == (DAYS - 1) * demo.NIGHTS_A_DAY + 60
    assert {id.partition(".")[0] for id, status in found.items() if status == "held"} == {"day05"}
    kinds = [entry.kind for entry in store.read(demo.NAME)]
    assert kinds.count("CertificateGiven") == 1
    assert kinds.count("DecisionMade") == DAYS
    for id in found:
        assert (live.records[id].seen is not None) == is_on_sale(live, id), id
    times = [entry.at for entry in store.read(demo.NAME)]
    assert len({at // demo.DAY for at in times}) >= DAYS
    furnished(plan)
    assert store.head(demo.NAME).size == size
    store.close()


def test_a_ledger_of_others_is_never_furnished(tmp_path: Path) -> None:
    path = tmp_path / "real.db"
    store = SqlStore(path)
    operating.create(store, demo.declaration(), "ann", "for real use")
    assert not demo.is_ours(store)
    assert not demo.is_half(store)
    furnished(Plan(str(path), "http://127.0.0.1:8000", is_demo=True))
    assert store.head(demo.NAME).size == 1
    store.close()
    operating.create(other := open_store("memory:"), desks.plain(), "ann", "first")
    assert not demo.is_ours(other)
    assert not demo.is_half(other)


def test_what_is_approved_later_has_guests_too(store: Store) -> None:
    """A newcomer answers the queue of the last day; three rounds later it is known who booked."""
    demo.furnish(store)
    desk = Desk(store, demo.NAME)
    feed = demo.Feed(lambda: desk)
    feed.step(desk, 3)
    held = desk.look(lambda live: [id for id in live.waiting if id.startswith("day05")]).result()
    first, second = held[:2]
    for id, verdict in ((first, "approve"), (second, "veto")):

        def seen(live: Live, id: str = id) -> tuple[int, str]:
            record = live.records[id]
            return record.judged_at, answering.content_of(live, record)

        said = Review(id, verdict, None, "newcomer", "fits", "", *desk.look(seen).result())
        desk.submit(partial(answering.review, answer=said)).result()
    nights = operator.Feed(operator.SEED).nights(1, first=10_000)
    units, contexts = [nights[0][0]], [nights[0][1] | {"occupancy": 0.1}]
    own = deciding.request_of(desk.instance, desk.policy, "mine", contexts, True, "newcomer", units)
    desk.put(deciding.job(own)).result()
    for round in range(2, 2 + demo.ROUNDS):
        assert desk.look(lambda live: live.records[first].seen).result() is None
        feed.step(desk, 3 * round)
    feed.step(desk, 30)
    live = desk.look(lambda live: live).result()
    record = live.records[first]
    assert record.seen is not None
    unit, context = next(
        night
        for i, night in enumerate(
            operator.Feed(operator.SEED).nights(60, first=(DAYS - 1) * demo.NIGHTS_A_DAY)
        )
        if first == f"day05.{i}"
    )
    assert record.executed is not None
    ran = live.instance.decode_action(record.executed)
    assert ran is not None
    expected = operator.Feed(operator.SEED).outcome(unit, context, ran["price"])
    assert record.outcome == [expected["booked"]]
    assert live.records[second].seen is None  # off sale
    assert live.records["mine"].seen is None  # who asked for it reports what came of it
    desk.close()


def test_a_feed_that_starts_again_reports_what_the_last_one_left(store: Store) -> None:
    demo.furnish(store)
    desk = Desk(store, demo.NAME)
    demo.Feed(lambda: desk).step(desk, 3)
    again = demo.Feed(lambda: desk)
    for round in range(2, 3 + demo.ROUNDS):
        again.step(desk, 3 * round)
    live = desk.look(lambda live: live).result()
    for id in ("night3.0", "night3.1"):
        assert (live.records[id].seen is not None) == is_on_sale(live, id)
    desk.close()
