"""Two processes on one ledger: each hears what the other writes, and forgets what it erases."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from gdcb import events as ev
from gdcb.errors import StoreUnavailable
from gdcb.ledger.live import Live
from gdcb.ledger.sql import SqlStore
from gdcb.service import desk as desks_
from gdcb.service import erasing, operating
from gdcb.service.desk import Desk
from gdcb.service.house import House, Settings
from gdcb.service.turn import Turn
from gdcb.service.web.memory import Memory
from tests.service import desks
from tests.service.desks import Clock, Office, night
from tests.service.http import BASE, PLENTY, ROOMS

POLICY = 'personal = ["busy"]\noutcomes = { correction = "replace" }\n'


@dataclass
class Pair:
    """Two houses on one file, and the desk of the first."""

    first: House
    second: House
    office: Office

    def tick(self) -> None:
        """Let the clock of the second process go by once, as it does every second."""
        for schedule in self.second._all():
            schedule.tick()


@pytest.fixture
def pair(sqlite_template: Path, tmp_path: Path) -> Iterator[Pair]:
    path = shutil.copy(sqlite_template, tmp_path / "rooms.db")
    stores, clock = [SqlStore(path) for _ in range(2)], Clock()
    operating.create(stores[0], desks.plain(POLICY), "cy", "first", seed=7, clock=clock)
    settings = Settings(BASE, tick=0, rates=PLENTY)
    houses = [House(store, settings, clock) for store in stores]
    made = Office(stores[0], ROOMS, clock)
    made.desk.close()
    made.desk = houses[0].desk(ROOMS)
    yield Pair(houses[0], houses[1], made)
    for house, store in zip(houses, stores, strict=True):
        house.stop()
        store.close()


def known(memory: Memory) -> dict[str, tuple[float, float | None]]:
    """Return what is remembered: how busy a night was, and its reward."""
    return {row.id: (float(row.x[1]), row.reward) for row in memory._rows.values()}


def test_outcomes_of_others_are_remembered(pair: Pair) -> None:
    made = pair.office
    made.decide("a", [night(0.41), night(0.3)], subject=["ann", "bob"])
    made.observe({"a.0": 1.0})
    memory = pair.second.memory(ROOMS)
    assert set(known(memory)) == {"a.0"}
    made.observe({"a.1": 0.0})
    assert set(known(memory)) == {"a.0"}
    pair.tick()
    assert {id: busy for id, (busy, _) in known(memory).items()} == {"a.0": 0.41, "a.1": 0.3}
    assert known(memory)["a.1"][1] == 0.0


def test_what_another_process_erased_is_forgotten(pair: Pair) -> None:
    made = pair.office
    made.decide("a", [night(0.41), night(0.3)], subject=["ann", "bob"])
    made.observe({"a.0": 1.0, "a.1": 0.0})
    memories = [house.memory(ROOMS) for house in (pair.first, pair.second)]
    assert [set(known(one)) for one in memories] == [{"a.0", "a.1"}] * 2
    erasing.run(made.desk, "ann", "they asked for it", "root")
    assert set(known(memories[0])) == {"a.1"}
    pair.tick()
    assert set(known(memories[1])) == {"a.1"}


def test_who_looks_finds_nothing_that_was_erased(pair: Pair) -> None:
    """A page that is opened before the next tick hears of it first."""
    made = pair.office
    made.decide("a", [night(0.41), night(0.3)], subject=["ann", "bob"])
    made.observe({"a.0": 1.0, "a.1": 0.0})
    memory = pair.second.memory(ROOMS)
    erasing.run(made.desk, "ann", "they asked for it", "root")
    found = pair.second.desk(ROOMS).look(lambda live: set(known(memory))).result()
    assert found == {"a.1"}


@pytest.mark.parametrize("is_second", [False, True])
def test_corrected_outcomes_are_taken_up(pair: Pair, is_second: bool) -> None:
    made = pair.office
    made.decide("a", [night(0.41)], subject=["ann"])
    made.observe({"a.0": 0.0})
    memory = (pair.second if is_second else pair.first).memory(ROOMS)
    assert known(memory)["a.0"] == (0.41, 0.0)
    made.observe({"a.0": 1.0}, reason="they came after all")
    pair.tick()
    ran = made.look(lambda live: float(np.asarray(live.records["a.0"].executed)[0]))
    assert known(memory)["a.0"] == (0.41, ran)


def test_figures_forget_without_being_asked(pair: Pair) -> None:
    made, figures = pair.office, pair.second.figures
    made.decide("a", [night(0.41), night(0.3)], subject=["ann", "bob"])
    made.observe({"a.0": 1.0, "a.1": 0.0})
    figures.ask(ROOMS, pair.second.desk(ROOMS).instance).result(timeout=20)
    reader = figures._chains[ROOMS].reader
    assert reader is not None
    until = time.monotonic() + 20
    while reader.forecast.live is None or len(reader.forecast.live.events) < made.size:
        assert time.monotonic() < until
        time.sleep(0.01)
    assert reader.running.window.x[:2, 1].tolist() == [0.41, 0.3]
    erasing.run(made.desk, "ann", "they asked for it", "root")
    pair.tick()
    while len(reader.forecast.live.events) < made.size:
        assert time.monotonic() < until
        time.sleep(0.01)
    assert np.isnan(reader.running.window.x[:2, 1]).tolist() == [True, False]
    assert not any(0.41 in part.x for part in reader.running.drift._parts)
    assert np.isnan(reader.forecast.live.records["a.0"].made.x[0, 1])


def test_nobody_is_woken_for_figures_that_nobody_asked_for(pair: Pair) -> None:
    pair.office.decide("a", [night(0.41)], subject=["ann"])
    erasing.run(pair.office.desk, "ann", "they asked for it", "root")
    pair.tick()
    assert pair.second.figures._chains == {}


# Who hears what


@dataclass
class Heard:
    """Somebody who writes down what they hear."""

    numbers: list[int]

    def __call__(self, live: Live, first: int, stop: int) -> None:
        self.numbers += range(first, stop)
        assert len(live.events) == stop


def listen(desk: Desk) -> tuple[list[int], list[int]]:
    """Return where the numbers of events that a listener and a follower hear will stand."""
    listener, follower = Heard([]), Heard([])
    desk.listeners.append(listener)
    desk.followers.append(follower)
    return listener.numbers, follower.numbers


def test_followers_hear_every_event_once_and_listeners_their_own(pair: Pair) -> None:
    """Metrics and webhooks count what their own process wrote: nothing twice."""
    made = pair.office
    mine, all_of_mine = listen(made.desk)
    theirs, all_of_theirs = listen(pair.second.desk(ROOMS))
    made.decide("a", [night(0.1)], subject=["ann"])
    size = made.size
    pair.tick()
    other = Office(pair.second.store, ROOMS, made.clock)
    other.desk.close()
    other.desk = pair.second.desk(ROOMS)
    other.decide("b", [night(0.2)], subject=["bob"])
    made.observe({"b.0": 1.0})
    made.look(lambda live: None)
    pair.tick()
    everything = list(range(1, made.size))
    assert all_of_mine == all_of_theirs == everything
    assert sorted(mine + theirs) == everything
    assert mine[: size - 1] == list(range(1, size))
    assert theirs


def test_a_fold_that_is_made_again_is_followed_on(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What failed in between is heard of once the store is back, and nothing twice."""
    made = pair.office
    desk = pair.second.desk(ROOMS)
    _, heard = listen(desk)
    made.decide("a", [night(0.1)], subject=["ann"])

    def away(*_: object) -> None:
        raise StoreUnavailable("the store is away")

    with monkeypatch.context() as patch:
        patch.setattr(desks_, "follow", away)
        with pytest.raises(StoreUnavailable):
            desk.look(lambda live: None).result()
    made.observe({"a.0": 1.0})
    desk.look(lambda live: None).result()
    assert heard == list(range(1, made.size))

    def fails(turn: Turn) -> None:
        turn.add(ev.Paused("why"), "ann")
        raise StoreUnavailable("the store is away")

    with pytest.raises(StoreUnavailable):
        desk.submit(fails).result()
    desk.look(lambda live: None).result()
    assert heard == list(range(1, made.size))


def test_a_follower_that_fails_stops_nobody(pair: Pair) -> None:
    def fails(live: Live, first: int, stop: int) -> None:
        raise ArithmeticError

    pair.second.desk(ROOMS).followers.insert(0, fails)
    _, heard = listen(pair.second.desk(ROOMS))
    pair.office.decide("a", [night(0.1)], subject=["ann"])
    pair.tick()
    assert heard == list(range(1, pair.office.size))
