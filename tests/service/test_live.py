"""The fold of a chain: snapshots at every point, decisions out of the store, slices of a story."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb import events as ev
from gdcb.codec import pack, unpack
from gdcb.errors import BrokenChain, InvalidInput, UnknownDecision, UnknownInstance
from gdcb.ledger import live as lives
from gdcb.ledger import recalled
from gdcb.ledger import story as stories
from gdcb.ledger.entry import Draft
from gdcb.ledger.live import Live, begun, follow, opened, restored
from gdcb.ledger.memory import MemoryStore
from gdcb.ledger.recalled import recall
from gdcb.ledger.replaying import replay_chain
from gdcb.ledger.store import Snapshot, Store, open_store
from gdcb.ledger.story import Story, request_of
from gdcb.service import answering, observing, operating
from tests.properties import examples
from tests.service.desks import (
    Office,
    everything,
    held_twice,
    known,
    learning,
    night,
    office,
    past,
    take_past,
    together,
)

POLICY = 'expiry.after = 60\noutcomes.correction = "replace"\n'


def days(made: Office, name: str, n: int = 3) -> None:
    """Live through some days: batches, answers of every kind, outcomes, labels."""
    for i in range(n):
        id = f"{name}-{i}"
        made.decide(
            id, [night(0.1), night(0.9), night(0.8), night(0.7, 20)], unit=["a", "b", id, "a"]
        )
        made.do(answering.show, f"{id}.1", "ann")
        made.answer(f"{id}.1", ["approve", "edit", "veto"][i % 3], *_price(i))
        if i % 2:
            made.do(answering.bulk, [made.asked(f"{id}.{j}") for j in (2, 3)])
        made.observe({f"{id}.0": i % 2, f"{id}.1": 1}, label=[0.1 * i])
        made.clock.pass_by(20)


def _price(i: int) -> list[dict[str, float]]:
    return [{"price": 95.0}] if i % 3 == 1 else []


def busy(made: Office) -> None:
    """Let everything happen that can happen to an instance."""
    take_past(made, past(120, seed=3), override="it is all that we have")
    days(made, "spring")
    made.observe({"spring-0.0": 1}, reason="counted again", label=[0.0])
    made.do(observing.appeal, "spring-0.0", True, "unfair", "bob")
    made.do(operating.discount, 0.7, made.size - 6, None, "the season is over", "ann")
    made.do(operating.pause, "holiday", "ann")
    number = made.do(operating.propose_change, learning(POLICY + "bulk = 9"), "less", "ann")
    made.do(operating.propose_change, learning(POLICY + "bulk = 8"), "even less", "bob")
    made.do(operating.agree, number, "", "bob")
    made.do(operating.resume, "back", "ann")
    days(made, "summer")
    made.do(operating.refit, "ann")
    made.do(operating.roll_back, made.size - 9, "bad data", "ann")
    made.clock.pass_by(60)
    for id in list(made.look(lambda live: live.waiting)):
        made.do(answering.expire, id)
    made.change(learning(POLICY).replace("at_least = 0.5", "at_least = 0.4"))
    days(made, "autumn", 2)
    made.do(operating.discount, 0.0, made.size - 9, "manager", "a new manager", "ann")
    made.observe({"autumn-0.0": 1}, reason="counted again", label=[0.0])
    days(made, "winter", 1)
    made.do(operating.retire, "sold", "ann")


@pytest.fixture(scope="module")
def story() -> Store:
    """Return a store with a busy story."""
    with office(learning(POLICY)) as made:
        busy(made)
        kinds = set(made.kinds())
        made.check()
        # All kinds but those that come with erasure, drift monitors, refused logs and lost entries.
        assert kinds == set(ev.KINDS) - {
            "LedgerSetBack",
            "SetBackAcknowledged",
            "StateSealed",
            "SubjectErased",
            "DriftFound",
            "CertificateGiven",
            "ChangeRefused",
            "LabelObserved",
        }
        return made.store


class At(MemoryStore):
    """Another store's chains, with snapshots of one's own."""

    def __init__(self, store: Any) -> None:
        super().__init__()
        self._chains = store._chains
        self.own: Snapshot | None = None

    def snapshot(self, chain: str, at_most: int | None = None) -> Snapshot | None:
        is_fit = self.own is not None and (at_most is None or self.own.size <= at_most)
        return self.own if is_fit else None


# Snapshots


def last(store: Store, size: int) -> bytes:
    """Return the hash of the last of so many entries."""
    (entry,) = store.get("rooms", [size - 1])
    return entry.hash


def test_a_snapshot_at_every_point_is_the_fold_from_the_start(story: Store) -> None:
    entries = list(story.read("rooms"))
    live, store = begun(story, "rooms"), At(story)
    for entry in entries:
        follow(live, [entry])
        store.own = live.to_snapshot(entry.hash)
        assert store.own.size == entry.seq + 1
        assert restored(Live, store, "rooms", entry.seq + 1) is not None
        again = opened(store, "rooms", entry.seq + 1)
        assert len(again.events) == entry.seq + 1
        assert everything(again) == everything(live)


@pytest.mark.parametrize("start", range(0, 90, 18))
def test_what_follows_a_snapshot_is_folded_on_it_to_the_bit(story: Store, start: int) -> None:
    size = story.head("rooms").size
    store = At(story)
    whole = everything(opened(story, "rooms"))
    place = 1 + start * (size - 2) // 90
    store.own = opened(story, "rooms", place).to_snapshot(last(story, place))
    assert restored(Live, store, "rooms", size) is not None
    again = opened(store, "rooms")
    assert everything(again) == whole


def test_a_desk_goes_on_from_a_snapshot() -> None:
    """A discount, a correction, a rollback and a refit after a restore need all that was kept."""
    ends: list[dict[str, Any]] = []
    for with_snapshots in (False, True):
        with office(learning(POLICY)) as made:
            take_past(made, past(120, seed=3), override="it is all that we have")
            steps: list[Callable[[], Any]] = [
                lambda: days(made, "spring"),
                lambda: made.do(operating.discount, 0.7, 9, None, "old", "ann"),
                lambda: made.observe({"spring-0.0": 1}, reason="again", label=[0.0]),
                lambda: made.do(operating.roll_back, 20, "bad data", "ann"),
                lambda: made.do(operating.refit, "ann"),
                lambda: made.observe({"spring-2.1": 0}, reason="again", label=[0.2]),
                lambda: made.do(operating.discount, 0.0, 12, "manager", "new", "ann"),
                lambda: days(made, "summer"),
            ]
            for step in steps:
                step()
                if with_snapshots:
                    made.snapshot()
                    made.restart()
            made.check()
            ends.append(made.look(everything))
    assert ends[0] == ends[1]


@pytest.mark.parametrize("other", [lives.FORMAT - 1, lives.FORMAT + 1])
def test_a_snapshot_of_another_version_is_left_aside(story: Store, other: int) -> None:
    store = At(story)
    snapshot = opened(story, "rooms", 30).to_snapshot(last(story, 30))
    values = unpack(snapshot.body)
    arrays = {name: value for name, value in values.items() if hasattr(value, "dtype")}
    fields = {name: value for name, value in values.items() if name not in arrays}
    body = pack({**fields, "format": other}, arrays)
    store.own = Snapshot("rooms", 30, b"", body)
    assert everything(opened(store, "rooms")) == everything(opened(story, "rooms"))
    live = begun(story, "rooms")
    with pytest.raises(InvalidInput, match=r"expected (a )?format"):
        live.restore(store.own)


def test_any_prefix_can_be_opened(story: Store) -> None:
    live = begun(story, "rooms")
    for entry in list(story.read("rooms"))[:25]:
        assert everything(opened(story, "rooms", entry.seq)) == everything(live)
        follow(live, [entry])


def test_ways_back_are_gone_over_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten ways back, each behind the last: 10 folds of the past, where it could be 2¹⁰."""
    with office(learning(POLICY)) as made:
        for i in range(10):
            made.decide(f"n{i}", night(0.04 * i), unit=f"u{i % 3}")
            made.observe({f"n{i}": i % 2}, label=[0.1])
            made.do(operating.roll_back, made.size - 1, "bad data", "ann")
        folds = []

        def counted(*given: Any) -> Live:
            folds.append(given)
            return opened(*given)

        monkeypatch.setattr(lives, "opened", counted)
        again = opened(made.store, "rooms")
        assert len(folds) == 10
        assert everything(again) == made.look(everything)
        folds.clear()

        def recounted(*given: Any) -> Live:
            folds.append(given)
            return recall(*given)

        monkeypatch.setattr(recalled, "recall", recounted)
        assert replay_chain(made.store, "rooms").verdict == "equal"
        assert len(folds) == 55  # 1 + 2 + … + 10


def test_a_way_back_past_a_way_back_is_the_same_from_any_snapshot() -> None:
    """Put back by mistake, undone, discounted, undone, corrected: every row counts again.

    A fold from the start and one from a snapshot at any point know the same, rows included.
    """
    with office(learning(POLICY)) as made:
        for i in range(6):
            made.decide(f"n{i}", night(0.04 * i), unit=f"u{i % 2}")
            made.observe({f"n{i}": i % 2}, label=[0.1])
        size = made.size
        made.do(operating.roll_back, 5, "by mistake", "ann")
        made.do(operating.roll_back, size, "undo the mistake", "ann")
        made.do(operating.discount, 0.0, size, None, "drift", "ann")
        made.do(operating.roll_back, size + 2, "the alarm was false", "ann")
        made.observe({"n0": 1}, reason="counted again", label=[0.1])
        made.check()
        kept = made.look(lambda live: live.kept.log)
        assert kept is not None
        assert kept.weight.tolist() == [1.0] * 6
        assert replay_chain(made.store, "rooms").verdict == "equal"
        whole, stored = opened(made.store, "rooms"), At(made.store)
        past = begun(made.store, "rooms")
        for entry in made.store.read("rooms"):
            follow(past, [entry])
            stored.own = past.to_snapshot(entry.hash)
            assert everything(opened(stored, "rooms")) == everything(whole)


# Refusals


def test_entries_must_come_in_order(story: Store) -> None:
    live = begun(story, "rooms")
    entries = list(story.read("rooms", 0, 3))
    with pytest.raises(BrokenChain, match="entry 1 came where 0 was expected"):
        follow(live, entries[1:])
    follow(live, entries)
    with pytest.raises(BrokenChain, match="entry 2 came where 3 was expected"):
        follow(live, entries[2:])


def test_a_chain_begins_with_its_declaration() -> None:
    store = open_store("memory:")
    with pytest.raises(UnknownInstance, match="no instance 'rooms' in this ledger"):
        opened(store, "rooms")
    with store.writing("rooms") as writing:
        body = pack({"reason": "x"}, {})
        writing.append([Draft("Paused", body, b"", 1, "ann")])
    with pytest.raises(UnknownInstance, match="no instance 'rooms' in this ledger"):
        opened(store, "rooms")


# Decisions out of the store


def ids_of(store: Store) -> list[str]:
    found = []
    for event in begun_events(store):
        if isinstance(event, ev.DecisionMade):
            found += event.id
    return found


def begun_events(store: Store) -> list[ev.Event]:
    return list(opened(store, "rooms").events)


def test_a_decision_put_together_is_the_one_that_was_followed(story: Store) -> None:
    """One fold keeps every decision in memory from its first event on; the other has none."""
    followed, fresh = begun(story, "rooms"), opened(story, "rooms")
    for entry in story.read("rooms"):
        follow(followed, [entry])
        made = followed.events[entry.seq]
        if isinstance(made, ev.DecisionMade):
            for id in made.id:
                assert followed.records[id].status == "open"
    ids = ids_of(story)
    assert len(ids) > 30
    for id in ids:
        assert id in followed.records
        assert known(fresh.records[id]) == known(followed.records[id])


def test_decisions_are_forgotten_and_found_again(
    story: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stories, "CACHED_RECORDS", 10)
    monkeypatch.setattr(stories, "CACHED_BYTES", 1)
    live, whole = opened(story, "rooms"), opened(story, "rooms")
    ids = ids_of(story)
    for id in [*ids, *reversed(ids)]:
        assert known(live.records[id]) == known(whole.records[id])
        assert len(live.records) <= 10


def test_a_fold_with_little_memory_folds_the_same(
    story: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = everything(opened(story, "rooms"))
    monkeypatch.setattr(stories, "CACHED_RECORDS", 10)
    monkeypatch.setattr(stories, "CACHED_BYTES", 1)
    assert everything(opened(story, "rooms")) == whole


@pytest.mark.parametrize("id", ["x", "spring-0", "spring-0.4", "spring-0.00", "spring-0.-1", 7])
def test_ids_that_are_none(story: Store, id: Any) -> None:
    live = opened(story, "rooms")
    assert id not in live.records
    assert live.records.find(id) is None
    if isinstance(id, str):
        with pytest.raises(UnknownDecision, match=f"no decision '{id}' was made here"):
            live.records[id]


def test_two_answers_are_found_again() -> None:
    with office(held_twice(POLICY)) as made:
        made.decide("a", night(0.9))
        made.answer("a", "edit", {"price": 250})
        made.answer("a", by="bob")
        made.observe({"a": 1})
        followed = made.look(lambda live: known(live.records["a"]))
        assert followed["answers"] == 2
        assert known(opened(made.store, "rooms").records["a"]) == followed


def test_an_answer_in_the_transaction_of_another_decision_is_found_again() -> None:
    """Verdicts that stand behind a decision, but belong to another one."""
    with office(learning(POLICY)) as made:
        made.decide("a", night(0.9))
        answer = made.asked("a")
        together(
            made,
            made.request("b", [night(0.9), night()]),
            lambda turn: answering.review(turn, answer),
            lambda turn: observing.observe(turn, [observing.Outcome("b.1", {"booked": 1})], "shop"),
        )
        fresh = opened(made.store, "rooms")
        for id in ("a", "b.0", "b.1"):
            followed = made.look(partial(_known, id=id))
            assert known(fresh.records[id]) == followed
        made.check()


def _known(live: Live, id: str) -> dict[str, Any]:
    return known(live.records[id])


@examples(100)
@given(st.text(min_size=1).filter(lambda text: "." not in text), st.integers(0, 999_999))
def test_the_request_of_an_id(name: str, row: int) -> None:
    assert request_of(f"{name}.{row}") == (name, row, True)
    assert request_of(f"{name}.{row}.{row}") == (f"{name}.{row}", row, True)
    assert request_of(name) == (name, 0, False)
    assert request_of(f"{name}.0{row}") == (f"{name}.0{row}", 0, False)


# A story


def test_a_story_is_a_list_of_events(story: Store) -> None:
    live = opened(story, "rooms")
    events = list(live.events)
    assert len(events) == len(live.events) == story.head("rooms").size
    fresh = Story(story, "rooms", len(events))
    for cut in (slice(None), slice(3, 9), slice(9, 3), slice(-4, None), slice(0, 90, 7)):
        assert list(fresh[cut]) == events[cut]
        assert list(Story(story, "rooms", len(events))[cut]) == events[cut]
    assert fresh[5] == events[5]
    for at in (-1, len(events)):
        with pytest.raises(IndexError, match=f"event {at} of {len(events)}"):
            fresh[at]


def test_a_story_is_as_long_as_it_was_when_it_was_opened(story: Store) -> None:
    short = Story(story, "rooms", 10)
    assert len(list(short)) == len(short[:]) == 10
    with pytest.raises(IndexError):
        short[10]


def test_a_story_knows_what_is_not_committed_yet(story: Store) -> None:
    one = opened(story, "rooms").events
    event = ev.Shown("a", "ann", "0")
    one.append(event)
    assert len(one) == story.head("rooms").size + 1
    assert list(one)[-1] == one[len(one) - 1] == one[-1:][0] == event


def test_a_story_with_little_memory(story: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    events = list(opened(story, "rooms").events)
    monkeypatch.setattr(stories, "CACHED_BYTES", 1)
    monkeypatch.setattr(stories, "CACHED_RECORDS", 3)
    short = Story(story, "rooms", len(events))
    assert list(short[:]) == events
    assert [short[i] for i in range(len(events))] == events
    times = [short.time_of(i) for i in range(len(events))]
    assert times == [entry.at for entry in story.read("rooms")]
    assert [short.time_of(i) for i in range(len(events))] == times


def test_what_a_fold_shows(story: Store) -> None:
    live: Live = opened(story, "rooms")
    assert [case.id for case in live.held()] == list(live.waiting)
    assert live.held()
    assert live.retired is not None
    assert not live.proposals  # a change took force since; what was proposed before it is void
