"""Running figures: what they say is what all events say, however and whenever they were read."""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sqlalchemy import create_engine, text

from gdcb import events as ev
from gdcb.arrays import Array
from gdcb.codec import from_body
from gdcb.errors import StoreUnavailable
from gdcb.ledger.live import Live, opened
from gdcb.ledger.store import Store, open_store
from gdcb.records import HELD, MODIFIED, PASSED, STATUS, VETOED, Setting
from gdcb.service import answering, demo, erasing
from gdcb.service.figures import drifting, running, verified
from gdcb.service.figures.background import Background
from gdcb.service.figures.calibration import bins_of, coverage_of
from gdcb.service.figures.holdback import contrast
from gdcb.service.figures.hours import DAY, HOUR
from gdcb.service.figures.reading import Reader
from gdcb.service.figures.running import Running
from gdcb.service.figures.shown import Shown, forecasts_of, rewards_of, shown
from gdcb.service.schedule import Schedule
from gdcb.service.turn import TooLate
from tests.properties import examples
from tests.service import desks
from tests.service.desks import Office, night


@dataclass
class Furnished:
    """A month of the demo in a file, its fold, and the time after its last entry."""

    path: Path
    store: Store
    live: Live
    now: int


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Furnished]:
    """Furnish the demo without its history, which takes most of the time and is no figure."""
    path = tmp_path_factory.mktemp("demo") / "demo.db"
    store = open_store(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "import_log", lambda *_: None)
        demo.furnish(store)
    store.close()  # so that all of it is in the file
    store = open_store(path)
    live = opened(store, demo.NAME)
    yield Furnished(path, store, live, live.at + 60_000_000)
    store.close()


def read(store: Store, chain: str, live: Live, **given: Any) -> Reader:
    """Return a reader that has read and worked out everything."""
    reader = Reader(store, chain, live.instance, **given)
    reader.catch_up()
    while reader.work(live.at) | reader.verified.work(live.at):
        pass
    return reader


@pytest.fixture(scope="module")
def reader(furnished: Furnished) -> Reader:
    """Read all of the demo, for tests that only look."""
    return read(furnished.store, demo.NAME, furnished.live)


# A slow reference: every figure by a plain loop over all events or all decisions


@dataclass
class Slow:
    flow: Counter[tuple[int, str]]
    verdicts: Counter[tuple[int, str, bool]]
    rewards: list[tuple[str, float, bool]]
    ran: list[tuple[int, bool]]


def slow(live: Live, first: int = 0) -> Slow:
    """Work the figures out of decisions that were made from an entry on, one by one."""
    ids, found = [], Slow(Counter(), Counter(), [], [])
    entries = list(live.store.read(live.chain))
    told: set[tuple[str, int]] = set()
    gates = live.instance.chain.gates
    made: dict[str, int] = {}
    for entry in entries[first:]:
        event = from_body(entry.kind, entry.body)
        hour = entry.at // HOUR * HOUR
        if isinstance(event, ev.DecisionMade):
            ids += event.id
            made |= dict.fromkeys(event.id, entry.at)
        elif isinstance(event, ev.Reviewed) and event.id in made:
            gate = held_by(entries[: entry.seq], event.id)
            is_changed = event.verdict == "veto" or (
                event.verdict == "edit" and event.action != entered_at(live, entry.seq, event.id)
            )
            found.verdicts[hour, gate, is_changed] += 1
        elif isinstance(event, ev.GateApplied):
            for row, id in enumerate(event.id):
                for g, gate_ in enumerate(gates):
                    status = int(event.statuses[row, g])
                    is_said = status in (PASSED, MODIFIED, VETOED) and not gate_.is_person
                    if is_said and id in made and (id, g) not in told:
                        told.add((id, g))
                        found.verdicts[hour, gate_.name, status != PASSED] += 1
    last = max((made[id] for id in ids if live.records[id].seen is not None), default=-1)
    for id in ids:
        record = live.records[id]
        if record.status != "open":
            found.flow[made[id] // HOUR * HOUR, record.status] += 1
        if record.ran is None:
            continue
        is_null = bool(record.ran[0].is_null[record.ran[1]])
        if not is_null:
            found.ran.append((live.time_of(record.ran_at), record.seen is not None))
        if record.outcome is not None:
            ran, x = np.asarray(record.executed)[None], record.rows.x
            reward = live.instance.realised(np.array([record.outcome]), ran, x)[0]
            found.rewards.append((id, float(reward), record.is_live))
        elif is_null and made[id] <= last:
            declared = float(live.instance.null.declared(record.rows.x)[0])
            found.rewards.append((id, declared, record.is_live))
    return found


def held_by(entries: list[Any], id: str) -> str:
    """Return the gate that asked about a decision last."""
    for entry in reversed(entries):
        if entry.kind == "ReviewRequested":
            event = from_body(entry.kind, entry.body)
            assert isinstance(event, ev.ReviewRequested)
            if id in event.id:
                return event.gate[event.id.index(id)]
    raise AssertionError(f"nobody asked about {id}")


def entered_at(live: Live, seq: int, id: str) -> list[float]:
    """Return what the person who answered in entry `seq` had been asked about."""
    for entry in reversed(list(live.store.read(live.chain, 0, seq))):
        event = from_body(entry.kind, entry.body)
        if isinstance(event, ev.GateApplied) and id in event.id:
            row = event.id.index(id)
            gate = event.statuses[row].tolist().index(HELD)
            return list(event.trail[row, gate].tolist())
    raise AssertionError(f"no gate said anything of {id}")


def agrees(reader: Reader, live: Live, now: int, first: int = 0) -> Shown:
    """Check every count and mean of a reader against the slow reference."""
    expected, found = slow(live, first), shown(reader, now)
    flow = {
        (at, status): int(n)
        for at, counts in reader.running.hours.flow.items()
        for status, n in zip(STATUS, counts, strict=True)
        if n
    }
    assert flow == dict(expected.flow)
    verdicts: Counter[tuple[int, str, bool]] = Counter()
    for at, counts in reader.running.hours.verdicts.items():
        for gate, (n, changed) in zip(live.instance.chain.gates, counts, strict=True):
            verdicts[at, gate.name, True] += int(changed)
            verdicts[at, gate.name, False] += int(n - changed)
    assert +verdicts == expected.verdicts
    window = reader.running.window
    reward, rows = rewards_of(live.instance, window, window.order())
    got = sorted(
        (window.ids[row], r, bool(window.is_live[row])) for row, r in zip(rows, reward, strict=True)
    )
    assert [g[::2] for g in got] == [e[::2] for e in sorted(expected.rewards)]
    np.testing.assert_allclose(
        [r for _, r, _ in got], [r for _, r, _ in sorted(expected.rewards)], rtol=1e-12
    )
    assert sum(one.n for one in found.coverage) == len(expected.ran)
    n_known = sum(one.n * (one.known or 0.0) for one in found.coverage)
    assert n_known == pytest.approx(sum(known for _, known in expected.ran))
    return found


def test_figures_are_those_of_all_events(furnished: Furnished, reader: Reader) -> None:
    found = agrees(reader, furnished.live, furnished.now)
    rewards = slow(furnished.live).rewards
    live = [r for _, r, is_live in rewards if is_live]
    held = [r for _, r, is_live in rewards if not is_live]
    welch = stats.ttest_ind(live, held, equal_var=False)
    reach = welch.confidence_interval(0.95)
    one = found.contrast.difference
    assert one is not None
    expected = (np.mean(live) - np.mean(held), reach.low, reach.high)
    assert (one.mean, one.low, one.high) == pytest.approx(expected)
    assert (found.contrast.n_live, found.contrast.n_held_back) == (len(live), len(held))
    assert found.reach == ""
    assert found.chain.is_whole
    assert found.chain.verified == found.chain.last == len(furnished.live.events) - 1
    assert [part.name for part in found.regret] == ["bandit", "calibration", "gate", "total"]
    means = [part.value.mean for part in found.regret if part.value is not None]
    assert sum(means[:3]) == pytest.approx(means[3])


def test_forecast_is_the_posterior_mean_before_the_decision(
    furnished: Furnished, reader: Reader
) -> None:
    live, store = furnished.live, furnished.store
    window = reader.running.window
    for id in ("day02.3", "day11.0", "day30.140"):
        record = live.records[id]
        past = opened(store, demo.NAME, record.made.version)
        made, at = record.made, record.at
        place = np.array([past.places([record.unit])[0]])
        state, _ = past.room(int(place[0]) + 1)
        delta = made.delta[at : at + 1]
        cell = live.instance.cells.of(place, delta)
        setting = Setting(cell, made.x[at : at + 1], delta)
        means = past.bandit.mean(state.bandit, setting, live.instance.space.nominal)
        arm = int(made.arm[at]) if record.is_live else live.instance.space.names.index("A=1 B=1")
        _, (row,) = window.find([id])
        if record.is_live:
            assert window.predicted[row] == pytest.approx(float(means[0, arm]), rel=1e-9)
        else:
            assert 0.0 < window.predicted[row] < 1.0
    predicted, observed = forecasts_of(live.instance, window, window.order())
    assert predicted.size > 500
    assert set(np.unique(observed)) == {0.0, 1.0}


@examples(5)
@given(cuts=st.lists(st.integers(0, 318), max_size=6))
def test_in_pieces_as_in_one(furnished: Furnished, cuts: list[int]) -> None:
    entries = list(furnished.store.read(demo.NAME))
    whole, pieces = Running(furnished.live.instance), Running(furnished.live.instance)
    whole.follow(entries)
    while whole.drift.look():
        pass
    ends = [0, *sorted(cuts), len(entries)]
    for start, stop in pairwise(ends):
        pieces.follow(entries[start:stop])
        pieces.drift.look()
    while pieces.drift.look():
        pass
    same(whole, pieces)


def same(one: Running, other: Running) -> None:
    """Check that two hold the same, array by array."""
    assert one.next == other.next
    for name, value in vars(one.window).items():
        expected = getattr(other.window, name)
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, expected, err_msg=name)
        else:
            assert value == expected, name
    for table in ("flow", "verdicts"):
        mine, theirs = getattr(one.hours, table), getattr(other.hours, table)
        assert mine.keys() == theirs.keys()
        for at in mine:
            np.testing.assert_array_equal(mine[at], theirs[at])
    assert one.hours.held == other.hours.held
    assert one.drift.alarms == other.drift.alarms
    assert one.drift.why == other.drift.why


_ACT = st.tuples(st.sampled_from(("decide", "answer", "observe", "expire")), st.integers(0, 99))


@examples(12)
@given(acts=st.lists(_ACT, min_size=4, max_size=24), n_late=st.integers(0, 12))
def test_on_a_small_desk(acts: list[tuple[str, int]], n_late: int) -> None:
    """Two people in a row, expiry, a holdback, corrections; read late, or along the way."""
    policy = (
        'launch = { mode = "holdback", share = 0.5, incumbent = { price = 120.0 } }\n'
        'outcomes = { correction = "replace" }\n'
    )
    with desks.office(desks.held_twice(policy)) as made:
        live = made.look(lambda live: live)
        reader = Reader(made.store, made.chain, live.instance)
        for i, (act, k) in enumerate(acts):
            made.clock.pass_by(500.0 + 40 * k)
            perform(made, act, k, i)
            if i >= n_late:
                reader.catch_up()
        reader.catch_up()
        folded = opened(made.store, made.chain)
        agrees(reader, folded, made.clock())


def perform(made: Office, act: str, k: int, i: int) -> None:
    waiting = made.look(lambda live: list(live.waiting))
    if act == "decide" or not i:
        contexts = [night(0.9 if (k + j) % 3 else 0.1, 90.0 + 8 * k) for j in range(1 + k % 4)]
        made.decide(f"r{i}", contexts, unit=f"flat {k % 3}")
    elif act == "answer" and waiting:
        verdict = ("approve", "veto", "edit", "edit")[k % 4]
        action = {"price": 60.0 + k} if verdict == "edit" else None
        with contextlib.suppress(TooLate):  # no tick has told it that it expired
            made.answer(waiting[k % len(waiting)], verdict, action)
    elif act == "observe":
        ran = made.look(
            lambda live: [
                id
                for entry in live.store.read(live.chain)
                for event in [from_body(entry.kind, entry.body)]
                if isinstance(event, ev.ActionExecuted)
                for id in event.id
                if np.isfinite(np.asarray(live.records[id].executed)).all()
            ]
        )
        if ran:
            made.observe({ran[k % len(ran)]: float(k % 2)}, reason="told wrongly")
    elif act == "expire" and waiting:
        made.clock.pass_by(4 * 3600.0)
        Schedule(made.desk).tick()


# What is kept does not grow


def test_window_keeps_the_latest(furnished: Furnished) -> None:
    entries = list(furnished.store.read(demo.NAME))
    small = Running(furnished.live.instance, rows=100)
    large = Running(furnished.live.instance)
    small.follow(entries)
    large.follow(entries)
    assert small.window.n == 100
    assert large.window.n_made == small.window.n_made == 614
    rows, other = small.window.order(), large.window.order()[-100:]
    ids = [small.window.ids[row] for row in rows]
    assert ids == [large.window.ids[row] for row in other] == [f"day30.{i}" for i in range(50, 150)]
    for name in ("at", "status", "x", "executed", "outcome", "is_known", "entered", "share"):
        mine, theirs = getattr(small.window, name), getattr(large.window, name)
        np.testing.assert_array_equal(mine[rows], theirs[other], err_msg=name)
    assert small.window.find(["day01.0", "day30.50"])[0].tolist() == [1]
    assert small.hours.flow.keys() == large.hours.flow.keys()
    assert not small.is_whole
    assert large.is_whole


def test_a_look_back_that_does_not_reach_the_beginning(furnished: Furnished) -> None:
    live, size = furnished.live, len(furnished.live.events)
    reader = read(furnished.store, demo.NAME, live, look_back=120)
    found = agrees(reader, live, furnished.now, size - 120)
    assert found.reach.endswith(f", from entry {size - 120:,} on.")
    assert found.chain.verified == size - 1


def test_hours_of_more_than_a_month_are_dropped(furnished: Furnished) -> None:
    one = Running(furnished.live.instance)
    entries = list(furnished.store.read(demo.NAME))
    made, judged = (from_body(e.kind, e.body) for e in entries[1:3])
    assert isinstance(made, ev.DecisionMade)
    assert isinstance(judged, ev.GateApplied)
    for hour in range(1000):
        one.hours.made(made, hour * HOUR)
        one.hours.judged(judged, hour * HOUR)
    assert len(one.hours.flow) == len(one.hours.verdicts) == 31 * 24
    assert max(one.hours.flow) == 999 * HOUR


# The holdback

WORLDS = 200


def world(seed: int, kind: str) -> tuple[Array, Array, Array, Array, float]:
    """Return rewards, sides, shares and clusters of a made world, and the true difference."""
    rng = np.random.default_rng((2026, seed))
    n, effect = 400, 1.5
    noise, cluster, share = rng.gamma(2.0, 3.0, n), np.arange(n), np.full(n, 0.9)
    if kind == "units":
        cluster = np.repeat(np.arange(40), 10)
        noise = noise + rng.normal(0.0, 4.0, 40)[cluster]
        share = np.full(n, 0.5)
    elif kind == "ramp":  # later days are better, and more of them are live
        share = np.repeat([0.1, 0.5, 0.9, 1.0], n // 4)
        noise = noise + np.repeat([0.0, 6.0, 12.0, 18.0], n // 4)
    drawn = rng.uniform(size=n)
    is_live = drawn[cluster] < share if kind == "units" else drawn < share
    return noise + effect * is_live, is_live, share, cluster, effect


@pytest.mark.parametrize("kind", ["decisions", "units", "ramp"])
def test_the_interval_holds_as_often_as_it_says(kind: str) -> None:
    """Of 200 intervals at 95 % from 180 to 199 hold.

    With a true level of 95 % that fails with a chance of 0.12 % (binomial); the seeds are fixed.
    """
    assert stats.binom.cdf(179, WORLDS, 0.95) + stats.binom.sf(199, WORLDS, 0.95) < 0.0012
    n_held = 0
    for seed in range(WORLDS):
        *columns, effect = world(seed, kind)
        one = contrast(*columns).difference
        assert one is not None
        assert one.low is not None
        assert one.high is not None
        n_held += bool(one.low <= effect <= one.high)
    assert 180 <= n_held <= 199


@pytest.mark.parametrize("kind", ["units", "ramp"])
def test_a_plain_comparison_would_not_do(kind: str) -> None:
    n_held = 0
    for seed in range(WORLDS):
        reward, is_live, _, _, effect = world(seed, kind)
        welch = stats.ttest_ind(reward[is_live], reward[~is_live], equal_var=False)
        reach = welch.confidence_interval(0.95)
        n_held += bool(reach.low <= effect <= reach.high)
    assert n_held < 170


@pytest.mark.parametrize(
    ("is_live", "share", "why"),
    [
        ([True] * 4, np.nan, "nothing is held back"),
        ([False] * 4, 0.0, "nothing is live yet"),
        ([True, True, False, False], 1.0, "too few rows whose side was drawn by lot"),
        ([True, True, True, False], 0.9, "too few rows whose side was drawn by lot"),
    ],
)
def test_where_there_is_no_difference_it_says_why(
    is_live: list[bool], share: float, why: str
) -> None:
    found = contrast(np.arange(4.0), np.array(is_live), np.full(4, share), np.arange(4))
    assert found.difference is None
    assert found.why == why


# Calibration and coverage


@given(n=st.integers(0, 500), is_chance=st.booleans(), seed=st.integers(0, 99))
def test_bins_split_all_rows(n: int, is_chance: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    predicted = rng.uniform(size=n)
    observed = 1.0 * (rng.uniform(size=n) < predicted)
    bins = bins_of(predicted, observed, is_chance)
    assert len(bins) == min(10, n // 20)
    assert sum(one.n for one in bins) == (n if bins else 0)
    means = [one.predicted for one in bins]
    assert means == sorted(means)
    for one in bins:
        assert one.observed is not None
        assert one.observed.low is not None
        assert one.observed.high is not None
        assert one.observed.low <= one.observed.mean <= one.observed.high


def test_wilson_is_wilson() -> None:
    (one,) = bins_of(np.full(30, 0.1), np.repeat([1.0, 0.0], [3, 27]), True)
    assert one.observed is not None
    known = stats.binomtest(3, 30).proportion_ci(0.95, "wilson")
    assert (one.observed.low, one.observed.high) == pytest.approx((known.low, known.high))


def test_coverage_by_age() -> None:
    age = np.array([0, HOUR - 1, HOUR, DAY, 8 * DAY, 31 * DAY])
    found = coverage_of(age, np.array([False, True, True, True, False, True]))
    assert [(one.age, one.n, one.known) for one in found] == [
        ("under an hour", 2, 0.5),
        ("1 to 24 hours", 1, 1.0),
        ("1 to 7 days", 1, 1.0),
        ("7 to 30 days", 1, 0.0),
        ("over 30 days", 1, 1.0),
    ]


# Drift


def test_a_manager_who_changes_gives_the_alarm() -> None:
    """Agreed to everything, then to nothing: the alarm names the gate, and says when."""
    with desks.office(desks.held("bulk = 200\n")) as made:
        for day in range(7):
            made.clock.pass_by(86_400.0)
            ids = [f"d{day}.{i}" for i in range(100)]
            made.decide(f"d{day}", [night(0.5 + i / 300, 80.0 + i) for i in range(100)])
            verdict = "veto" if day >= 5 else "approve"
            made.do(answering.bulk, [made.asked(id, verdict) for id in ids])
            if verdict == "approve":
                made.observe({id: float(i % 2) for i, id in enumerate(ids)})
        live = opened(made.store, made.chain)
        reader = read(made.store, made.chain, live)
        (first,) = [a for a in reader.running.drift.alarms if a.monitor.endswith("acts")]
        assert first.gate == "manager"
        assert first.at == live.at - 86_400_000_000
        found = shown(reader, live.at).overrides
        (manager,) = [one for one in found.series if one.name == "manager"]
        assert manager.values == (0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0)
        assert manager.alarms == (5,)
        assert "is no longer as in the first part of the log" in manager.note
        assert first.monitor in [one.name for one in shown(reader, live.at).alarms]


def test_alarms_that_were_written_down_are_shown() -> None:
    with desks.office(desks.plain()) as made:
        made.decide("a", [night(), night()])
        name = "gate limits: how often it acts"
        told = ev.DriftFound(name, 1, 0.1, 0.4, 7.0, 5.0, 0.05, "It acts more often.")
        made.do(lambda turn: turn.add(told, "ann"))
        live = opened(made.store, made.chain)
        (one,) = shown(read(made.store, made.chain, live), live.at).overrides.series
        assert one.alarms == (0,)
        assert "It acts more often." in one.note


def test_alarms_beside_the_gates_are_counted() -> None:
    """Of rewards and contexts too, however old, and also where no gate has said anything."""
    with desks.office(desks.plain()) as made:
        told = [
            ev.DriftFound(name, 1, 0.1, 0.4, 7.0, 5.0, 0.05, f"{name} fell.")
            for name in ("reward", "context busy")
        ]
        made.do(lambda turn: turn.add(told[0], "ann"))
        live = opened(made.store, made.chain)
        early = shown(read(made.store, made.chain, live), live.at)
        assert [one.words for one in early.alarms] == ["reward fell."]
        assert early.overrides.series == ()
        made.clock.pass_by(40 * 86_400.0)
        made.do(lambda turn: turn.add(told[1], "ann"))
        made.decide("a", [night(), night()])
        live = opened(made.store, made.chain)
        found = shown(read(made.store, made.chain, live), live.at)
        assert [one.words for one in found.alarms] == ["context busy fell.", "reward fell."]
        assert [one.at for one in found.alarms] == [live.at, live.at - 40 * DAY]
        (limits,) = found.overrides.series
        assert limits.alarms == ()
        assert "fell" not in limits.note


def test_it_says_why_nothing_is_watched() -> None:
    with desks.office(desks.plain()) as made:
        made.decide("a", [night(), night()])
        made.observe({"a.0": 1.0})
        live = opened(made.store, made.chain)
        assert shown(read(made.store, made.chain, live), live.at).unwatched == (
            "Nothing is watched yet: the first part of the log is still being taken as the "
            "reference, 1 of 400 outcomes."
        )
        late = read(made.store, made.chain, live, look_back=2)
        said = shown(late, live.at).unwatched
        first = made.size - 2
        assert f"the part of the log from entry {first} on, where reading began, is" in said


def test_a_log_that_cannot_be_watched_says_so() -> None:
    with desks.office(desks.plain()) as made:
        drift = drifting.Drift(made.desk.instance)
    drift.give_up()
    assert drift.why == "Nothing is watched: the log cannot be read."


def test_the_demo_gives_no_alarm(reader: Reader) -> None:
    drift = reader.running.drift
    assert drift.why == ""
    assert drift.alarms == []
    assert shown(reader, 0).unwatched == ""


def test_alarms_name_what_they_are_held_against(furnished: Furnished) -> None:
    """Where reading began late, that is not the first part of the log."""
    assert drifting.Drift(furnished.live.instance).reference == "the first part of the log"
    later = Running(furnished.live.instance, first=1_234).drift
    assert "from entry 1,234 on" in later.reference


# The chain


def test_verified_step_by_step(furnished: Furnished, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verified, "AT_ONCE", 100)
    one = verified.Verified(furnished.store, demo.NAME)
    size = len(furnished.live.events)
    states = []
    while one.advance(7):
        states.append(one.state(size))
    assert [state.verified for state in states] == [99, 199, 299]
    assert {state.is_whole for state in states} == {None}
    assert one.state(size).is_whole is True
    assert one.state(size).at == 7


def test_what_is_changed_later_is_found_the_day_after(furnished: Furnished, tmp_path: Path) -> None:
    path = shutil.copy(furnished.path, tmp_path / "changed.db")
    store = open_store(path)
    one = verified.Verified(store, demo.NAME)
    while one.advance(0):
        pass
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as at:
        triggers = at.execute(text("SELECT name FROM sqlite_master WHERE type = 'trigger'"))
        for (name,) in triggers.all():
            at.execute(text(f'DROP TRIGGER "{name}"'))
        at.execute(text("UPDATE entries SET \"by\" = 'bob' WHERE seq = 17"))
    engine.dispose()
    assert not one.advance(DAY - 1)
    assert one.state(400).is_whole
    while one.advance(DAY):
        pass
    assert one.state(400).is_whole is False
    assert one.state(400).words.startswith("Entry 17 is not as written")
    store.close()


# In the background


def test_the_background_answers_and_works_on(furnished: Furnished) -> None:
    made = Background(furnished.store, lambda: furnished.now)
    first = made.ask(demo.NAME, furnished.live.instance).result(timeout=30)
    assert first.size == len(furnished.live.events)
    for _ in range(200):
        found = made.ask(demo.NAME, furnished.live.instance).result(timeout=30)
        if found.chain.is_whole and found.bins:
            break
    assert found.chain.is_whole
    assert made.latest(demo.NAME) is not None
    assert made.latest("other") is None
    made.stop()


def test_a_store_that_was_away_is_read_again(
    furnished: Furnished, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Background(furnished.store, lambda: furnished.now)

    def away(self: Reader) -> None:
        raise StoreUnavailable("the store is away")

    with monkeypatch.context() as patch:
        patch.setattr(Reader, "catch_up", away)
        failed = made.ask(demo.NAME, furnished.live.instance)
        assert isinstance(failed.exception(timeout=30), StoreUnavailable)
    found = made.ask(demo.NAME, furnished.live.instance).result(timeout=30)
    assert found.size == len(furnished.live.events)
    made.stop()


def test_who_no_longer_waits_stops_nothing(furnished: Furnished) -> None:
    made = Background(furnished.store, lambda: furnished.now)
    given_up = made.ask(demo.NAME, furnished.live.instance)
    given_up.cancel()
    found = made.ask(demo.NAME, furnished.live.instance).result(timeout=30)
    assert found.size == len(furnished.live.events)
    made.stop()


def test_a_certificate_is_remembered_from_the_beginning(furnished: Furnished) -> None:
    with desks.office(desks.plain()) as made:
        given = ev.CertificateGiven("log.csv", "ab", {"verdict": "refuse"})
        made.do(lambda turn: turn.add(given, "ann"))
        for i in range(5):
            made.decide(f"r{i}")
        live = opened(made.store, made.chain)
        reader = read(made.store, made.chain, live, look_back=3)
        certified = shown(reader, live.at).certified
        assert certified is not None
        assert certified == running.Certified(live.time_of(1), False, {"verdict": "refuse"})


def test_personal_fields_are_read_until_they_are_erased() -> None:
    with desks.office(desks.plain('personal = ["busy"]\n')) as made:
        made.decide("a", [night(0.2), night(0.3)], subject=["ann", "bob"])
        made.observe({"a.0": 1.0, "a.1": 0.0})
        live = opened(made.store, made.chain)
        reader = read(made.store, made.chain, live)
        assert reader.running.window.x[:2, 1].tolist() == [0.2, 0.3]
        assert shown(reader, live.at).contrast.n_live == 2
        before = reader.running.window.predicted[:2].tolist()
        erasing.run(made.desk, "ann", "they asked for it", "root")
        reader.catch_up()
        window = reader.running.window
        assert np.isnan(window.x[:2, 1]).tolist() == [True, False]
        assert window.predicted[:2].tolist() == before
        assert window.n == 2
        assert reader.running.next == made.size
        kept = reader.running
        reader.catch_up()
        assert reader.running is kept


def test_nothing_yet() -> None:
    with desks.office(desks.plain()) as made:
        live = opened(made.store, made.chain)
        found = shown(read(made.store, made.chain, live), live.at)
        assert (found.flow.times, found.overrides.times, found.bins) == ((), (), ())
        assert found.rewards == ()
        assert found.known is None
        (why,) = found.regret
        assert why.note == "it takes 60 live decisions with an outcome; there are 0"
