"""Monitors that bet: by hand, against exact sums, and measured in small."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from benchmarks.drift import CHANGES, COLUMNS, ONSET, RIGHT, World, measure
from gdcb.analysis.drift import Monitors, MonitorState, Seen, WatchList, mean_limits
from gdcb.analysis.drift.expected import Scales, every_fourth, features
from gdcb.errors import InvalidInput
from gdcb.records import HELD, MODIFIED, NOT_REACHED, PASSED, VETOED, copy, from_bytes, to_bytes
from tests.properties import examples

QUIET = examples(40)


def fed(monitors: Monitors, value: Any, low: Any = 0.5, high: Any = 0.5) -> MonitorState:
    """Return the state after rows (N, M) with limits that are the same everywhere."""
    rows = np.array(value, dtype=float)
    state = monitors.init()
    monitors.update(state, rows, np.full(rows.shape, low), np.full(rows.shape, high))
    return state


# By hand


def test_an_alarm_by_hand() -> None:
    """All wealth on the first row: e = (1.5^t + 0.5^t)/2 for ones; above 20 first at t = 10."""
    monitors = Monitors(("rate",), level=0.05, horizon=1, bets=(0.5,))
    state = fed(monitors, np.ones((9, 1)))
    assert monitors.alarms(state) == []
    assert np.exp(state.log_e[0]) == pytest.approx((1.5**9 + 0.5**9) / 2)
    (alarm,) = monitors.alarms(fed(monitors, np.ones((12, 1))))
    assert (alarm.name, alarm.at, alarm.since) == ("rate", 9, 0)
    assert (alarm.before, alarm.after) == (0.5, 1.0)
    assert np.exp(alarm.limit) == pytest.approx(20.0)
    assert alarm.p == pytest.approx(2.0 / (1.5**10 + 0.5**10))


def test_too_low_is_found_like_too_high() -> None:
    """Zeros are ones turned round: the same e, and the mean fell from ½ to 0."""
    monitors = Monitors(("rate",), horizon=1, bets=(0.5,))
    high, low = fed(monitors, np.ones((20, 1))), fed(monitors, np.zeros((20, 1)))
    assert high.log_e[0] == low.log_e[0]
    assert monitors.alarms(low)[0].after == 0.0


def test_the_onset_is_where_the_winning_streak_begins() -> None:
    """30 rows of 0, 1, 0, 1, … at limits ½, then ones: the streak begins with row 30 or the 1
    before it, whose factor is above 1 too.
    """
    value = np.concatenate((np.tile([1.0, 0.0], 15), np.ones(40)))[:, None]
    monitors = Monitors(("rate",))
    (alarm,) = monitors.alarms(fed(monitors, value))
    assert alarm.since == 30
    assert alarm.after == 1.0
    assert 30 < alarm.at < 70


def test_names_of_rows_are_what_is_given() -> None:
    """`at` names rows in alarms; rows that a monitor does not see have no part in its onset."""
    monitors = Monitors(("rate", "other"), level=0.1, horizon=1, bets=(0.5,))
    value = np.full((24, 2), np.nan)
    value[::2, 0] = 1.0
    half = np.full(value.shape, 0.5)
    state = monitors.init()
    monitors.update(state, value, half, half, at=np.arange(100, 124))
    (alarm,) = monitors.alarms(state)
    assert (alarm.at, alarm.since) == (100 + 2 * 9, 100)
    assert state.n_rows.tolist() == [10, 0]


def test_shares_split_the_level() -> None:
    """Limits are 1/(level·share): 0.05 · 0.8 and 0.05 · 0.2; with 0 never."""
    monitors = Monitors(("a", "b", "c"), level=0.05, shares=(0.8, 0.2, 0.0))
    assert np.exp(monitors.limits[:2]) == pytest.approx([25.0, 100.0])
    state = fed(monitors, np.ones((5000, 3)))
    assert [alarm.name for alarm in monitors.alarms(state)] == ["a", "b"]
    assert np.isfinite(state.log_e).all()


def test_a_margin_widens_the_limits() -> None:
    """A share of 0.6 against limits of ½ is found; with a margin of 0.15 it is never news."""
    value = np.random.default_rng(0).random((3000, 1)) < 0.6
    assert Monitors(("rate",)).alarms(fed(Monitors(("rate",)), value))
    wide = Monitors(("rate",), margin=0.15)
    assert wide.alarms(fed(wide, value)) == []


# Exactly


@pytest.mark.parametrize("horizon", [None, 3, 8])
def test_e_is_a_martingale_where_the_limits_are_exact(horizon: int | None) -> None:
    """Σ over all 2⁸ paths of probability · e is 1 after every row, for p = l = h = 0.3.

    The level is so small that no path ends in an alarm and stops.
    """
    n, p = 8, 0.3
    paths = np.array(list(itertools.product([0.0, 1.0], repeat=n)))
    names = tuple(str(i) for i in range(paths.shape[0]))
    monitors = Monitors(names, level=1e-12, horizon=horizon)
    state = monitors.init()
    chance = np.ones(paths.shape[0])
    for column in paths.T:
        limit = np.full((1, column.size), p)
        monitors.update(state, column[None], limit, limit)
        chance = chance * np.where(column == 1.0, p, 1.0 - p)
    assert (chance * np.exp(state.log_e)).sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("p", [0.2, 0.35, 0.5])
def test_within_the_limits_e_falls_on_average(p: float) -> None:
    """The same sum for limits 0.2 and 0.5 is at most 1 at, and between, both of them."""
    paths = np.array(list(itertools.product([0.0, 1.0], repeat=7)))
    monitors = Monitors(tuple(str(i) for i in range(paths.shape[0])), level=1e-12)
    state = fed(monitors, paths.T, 0.2, 0.5)
    chance = np.prod(np.where(paths == 1.0, p, 1.0 - p), axis=1)
    assert (chance * np.exp(state.log_e)).sum() <= 1.0 + 1e-12


def test_all_wealth_waits_at_first_and_adds_up_to_one() -> None:
    """g starts from 1 and falls towards 0; what is laid out adds up to 1 − g."""
    for monitors in (Monitors(("a",)), Monitors(("a",), horizon=50)):
        waits = monitors.waiting(np.arange(101))
        assert waits[0] == 1.0
        assert (np.diff(waits) <= 0).all()
        assert (waits >= 0).all()


@QUIET
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 39), max_size=4))
def test_batch_equals_loop(seed: int, cuts: list[int]) -> None:
    """However rows are cut into batches, and whoever is watched beside, the bytes are the same."""
    rng = np.random.default_rng(seed)
    n, names = 40, ("a", "b", "c")
    value = np.where(rng.random((n, 3)) < 0.2, np.nan, rng.random((n, 3)) ** 0.2)
    low = rng.uniform(0.2, 0.4, (n, 3))
    rows = (value, low, low + 0.2)
    monitors = Monitors(names, level=0.9)
    whole, parts, steps = monitors.init(), monitors.init(), monitors.init()
    monitors.update(whole, *rows)
    for part in np.split(np.arange(n), sorted(cuts)):
        monitors.update(parts, *(column[part] for column in rows))
    for i in range(n):
        monitors.update(steps, *(column[i : i + 1] for column in rows))
    assert to_bytes(whole) == to_bytes(parts) == to_bytes(steps)
    alone = Monitors(("b",), level=0.9 / 3)
    state = alone.init()
    alone.update(state, *(column[:, 1:2] for column in rows))
    assert state.log_peak[0] == whole.log_peak[1]
    assert np.array_equal(state.wealth[0], whole.wealth[1])


def test_the_state_survives_bytes() -> None:
    """It is read back to the last bit, and goes on alike; its size does not grow with the rows."""
    monitors, rng = Monitors(("a", "b")), np.random.default_rng(1)
    state = fed(monitors, rng.random((50, 2)))
    again = from_bytes(to_bytes(state), monitors.init())
    row, half = rng.random((1, 2)), np.full((1, 2), 0.5)
    for one in (state, again):
        monitors.update(one, row, half, half)
    assert to_bytes(state) == to_bytes(again)
    assert len(to_bytes(state)) == len(to_bytes(fed(monitors, rng.random((5000, 2)))))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"value": np.full((2, 1), 1.1)}, "value: expected numbers in"),
        ({"value": np.full((2, 1), -0.1)}, "value: expected numbers in"),
        ({"value": np.full((2, 1), np.inf)}, "value: expected numbers in"),
        ({"value": np.ones(2)}, r"value: expected shape \(N, 1\), got \(2,\)"),
        ({"value": np.ones((2, 2))}, r"value: expected shape \(N, 1\), got \(2, 2\)"),
        ({"low": np.ones((1, 1))}, r"low: expected shape \(2, 1\), got \(1, 1\)"),
        ({"low": np.full((2, 1), 0.7)}, "low, high: expected 0 <= low <= high <= 1"),
        ({"low": np.full((2, 1), np.nan)}, "low, high: expected 0 <= low <= high <= 1"),
        ({"high": np.full((2, 1), 1.5)}, "low, high: expected 0 <= low <= high <= 1"),
        ({"at": np.array([0.0, 1.0])}, "at: expected 2 whole numbers"),
        ({"at": np.array([0])}, "at: expected 2 whole numbers"),
        ({"at": np.array([-1, 0])}, "at: expected 2 whole numbers"),
    ],
)
def test_bad_rows_change_nothing(changes: dict[str, Any], message: str) -> None:
    """The message says what was expected; the state keeps its bytes."""
    monitors = Monitors(("rate",))
    state = fed(monitors, np.ones((3, 1)))
    before = to_bytes(state)
    half = np.full((2, 1), 0.5)
    rows: dict[str, Any] = {"value": np.ones((2, 1)), "low": half, "high": half, "at": None}
    with pytest.raises(InvalidInput, match=message):
        monitors.update(state, **(rows | changes))
    assert to_bytes(state) == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"names": ()}, "names: expected different names"),
        ({"names": ("a", "a")}, "names: expected different names"),
        ({"names": "a"}, "names: expected a tuple"),
        ({"level": 0.0}, "level: expected a number > 0"),
        ({"level": 1.5}, "level: expected a number > 0 and <= 1"),
        ({"shares": (0.5, 0.6)}, "shares: expected 1 shares that add up"),
        ({"shares": (1.2,)}, "shares: expected a number >= 0 and <= 1"),
        ({"horizon": 0}, "horizon: expected a number >= 1"),
        ({"bets": ()}, "bets: expected at least one stake"),
        ({"bets": (1.0,)}, "bets: expected a number > 0"),
        ({"margin": -0.1}, "margin: expected a number >= 0"),
    ],
)
def test_bad_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    """Every setting says what it may be."""
    fields: dict[str, Any] = {"names": ("a",)}
    with pytest.raises(InvalidInput, match=message):
        Monitors(**(fields | changes))


# Limits


def test_limits_turn_round_with_the_numbers() -> None:
    """Limits of 1 − y are 1 minus those of y."""
    y = np.random.default_rng(0).random(200)
    low, high = mean_limits(y, 0.01)
    turned = mean_limits(1.0 - y, 0.01)
    assert turned == pytest.approx((1.0 - high, 1.0 - low), abs=1e-4)
    assert low < y.mean() < high


def test_limits_hold() -> None:
    """Of 400 references of 100 rows with mean 0.2 at most 10 % miss on each side.

    At a rate of just 10 % more than 64 misses come in fewer than one test of 1,000; a wrong
    sign or factor misses in most.
    """
    rng = np.random.default_rng(3)
    found = np.array([mean_limits(1.0 * (rng.random(100) < 0.2), 0.1) for _ in range(400)])
    assert binom.sf(64, 400, 0.1) < 1e-3
    assert (found[:, 0] > 0.2).sum() <= 64
    assert (found[:, 1] < 0.2).sum() <= 64
    assert (found[:, 1] - found[:, 0]).mean() < 0.25


@QUIET
@given(st.lists(st.floats(0, 1), max_size=30), st.floats(1e-6, 0.5))
def test_limits_lie_around_the_mean(values: list[float], chance: float) -> None:
    """0 ≤ low ≤ mean ≤ high ≤ 1 for whatever numbers, and a smaller chance is never narrower."""
    y = np.array(values)
    low, high = mean_limits(y, chance)
    assert 0.0 <= low <= high <= 1.0
    if y.size:
        assert low - 1e-9 <= y.mean() <= high + 1e-9
    wide = mean_limits(y, chance / 10)
    assert wide[0] <= low + 1e-6
    assert wide[1] >= high - 1e-6


@pytest.mark.parametrize("value", [np.array([1.5]), np.array([np.nan]), np.ones((2, 2))])
def test_limits_of_what_is_no_share_are_refused(value: Any) -> None:
    """Only a column of numbers in [0, 1] has limits."""
    with pytest.raises(InvalidInput, match="value: expected a column"):
        mean_limits(value, 0.05)


# What is watched


def rows_of(n: int, seed: int = 0, change: int = 0, onset: int = 0) -> Seen:
    """Return rows of the benchmark's world."""
    return World().rows(np.random.default_rng(seed), np.full(n, 0.5), change, onset)


WATCHED = WatchList(("manager", "bounds"), COLUMNS, ("price",), (0,))


def test_features_by_hand() -> None:
    """x = 3 and 5 (centre 1, width 2: 1 and 2), a category of 3 levels at 2, a number 4."""
    scales = Scales(np.ones(2), np.full(2, 2.0), np.zeros(2), np.ones(2))
    phi = features(scales, (3, 0), np.array([[3.0, 5.0]]), np.array([[2.0, 4.0]]))
    assert phi.tolist() == [[1.0, 1.0, 2.0, 0.0, 1.0, 4.0, 16.0, 4.0, 8.0]]


def test_the_level_is_split_by_kinds() -> None:
    """Thirds for gates, reward and contexts, then evenly; a kind that nobody judges has none."""
    shares = WATCHED.shares(np.ones(WATCHED.n, bool))
    assert shares == pytest.approx([1 / 12] * 4 + [1 / 3] + [1 / 24] * 8)
    is_judged = np.ones(WATCHED.n, bool)
    is_judged[:5] = [True, False, False, False, False]
    assert WATCHED.shares(is_judged) == pytest.approx([1 / 2, 0, 0, 0, 0] + [1 / 16] * 8)


def test_rows_do_not_depend_on_their_neighbours() -> None:
    """Numbers and limits of a row are the same alone and in a batch, to the last bit."""
    reference = WATCHED.fit(rows_of(800))
    seen = rows_of(50, seed=1)
    whole = WATCHED.rows(reference, seen)
    for i in range(50):
        for column, one in zip(
            whole, WATCHED.rows(reference, seen.take(np.array([i]))), strict=True
        ):
            assert np.array_equal(column[i : i + 1], one, equal_nan=True)


def test_a_reference_survives_bytes() -> None:
    """It is arrays alone."""
    reference = WATCHED.fit(rows_of(800))
    again = from_bytes(to_bytes(reference), copy(reference))
    assert to_bytes(again) == to_bytes(reference)


def test_what_a_gate_has_not_told_is_no_news() -> None:
    """Held and unreached rows are left out; a veto acts, but moves nothing."""
    reference = WATCHED.fit(rows_of(800))
    seen = rows_of(4, seed=2)
    seen.trail[:] = 1.0
    seen.statuses[:, 0] = [PASSED, HELD, VETOED, MODIFIED]
    seen.statuses[:, 1] = [PASSED, NOT_REACHED, NOT_REACHED, PASSED]
    seen.trail[1:3, 1:] = np.nan
    seen.is_new[1:] = False
    seen.y[1:] = np.nan
    value = WATCHED.rows(reference, seen)[0]
    acts, moves, reward, contexts = value[:, :2], value[:, 2], value[:, 4], value[:, 5:]
    assert np.isfinite(acts).tolist() == [[True, True], [False] * 2, [True, False], [True, True]]
    assert np.isfinite(moves).tolist() == [False, False, False, True]
    assert np.isfinite(reward).tolist() == [True, False, False, False]
    assert np.isfinite(contexts).all(axis=1).tolist() == [True, False, False, False]
    assert acts[2, 0] > 0.5 > acts[0, 0]  # ½ is as expected


def test_actions_outside_the_reference_are_not_judged() -> None:
    """A price that nobody ever proposed says nothing about the manager or the reward."""
    reference = WATCHED.fit(rows_of(800))
    seen = rows_of(1, seed=2)
    seen.trail[:], seen.action[:] = 9.0, 9.0
    value = WATCHED.rows(reference, seen)[0][0]
    assert np.isnan(value[:5]).all()
    assert np.isfinite(value[5:]).all()


def test_a_flag_has_no_spread() -> None:
    """Of a column with two values the level says all, and nothing of the level is spent on more."""
    seen = rows_of(800)
    seen.x[:, 1] = seen.x[:, 1] > 0
    reference = WATCHED.fit(seen)
    names = np.array(WATCHED.names)[~reference.is_judged]
    assert "context season: spread" in names
    assert "context season: level" not in names


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("x", np.ones((800, 3)), r"x: expected shape \(800, 4\), got \(800, 3\)"),
        ("x", np.full((800, 4), np.nan), "x: expected finite numbers"),
        ("y", np.full(800, np.inf), "y: expected finite numbers"),
        ("statuses", np.zeros((800, 1)), r"statuses: expected shape \(800, 2\)"),
        ("trail", np.zeros((800, 2, 1)), r"trail: expected shape \(800, 3, 1\)"),
    ],
)
def test_rows_of_another_kind_are_refused(name: str, value: Any, message: str) -> None:
    """In a reference as after launch."""
    seen, reference = rows_of(800), WATCHED.fit(rows_of(800))
    setattr(seen, name, value)
    with pytest.raises(InvalidInput, match=message):
        WATCHED.fit(seen)
    with pytest.raises(InvalidInput, match=message):
        WATCHED.rows(reference, seen)


def test_a_reference_of_too_few_rows_is_refused() -> None:
    """It says how many it takes."""
    with pytest.raises(InvalidInput, match="reference: expected at least 60 rows"):
        WATCHED.fit(rows_of(20))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gates": "owner"}, "watch.gates: expected a tuple"),
        ({"levels": ()}, "watch.levels: expected one of each action"),
        ({"bands": 0}, "watch.bands: expected a number >= 1"),
        ({"least": 1}, "watch.least: expected a number >= 2"),
        ({"level": 0.0}, "watch.level: expected a number > 0"),
        ({"horizon": 0}, "horizon: expected a number >= 1"),
    ],
)
def test_bad_lists_are_refused(changes: dict[str, Any], message: str) -> None:
    """Every setting says what it may be."""
    fields: dict[str, Any] = {
        "gates": ("owner",),
        "columns": ("x",),
        "actions": ("price",),
        "levels": (0,),
    }
    with pytest.raises(InvalidInput, match=message):
        WatchList(**(fields | changes))


def test_models_are_made_of_every_fourth_row() -> None:
    """Three of four are left for the limits."""
    assert every_fourth(8).tolist() == [True, False, False, False, True, False, False, False]


# Measured, in small: `python -m benchmarks.drift` has 400 streams and 5,000 rows


class Apart(Monitors):
    """Monitors that have the whole level each: an experiment repeated, not a family."""

    @property
    def limits(self) -> Any:
        """Return 1/level for everyone."""
        return np.full(self.n, -np.log(self.level))


def test_false_alarms_come_as_often_as_the_level_allows() -> None:
    """1,000 monitors of coins with p = 0.3, exact limits and a level of 0.2 each, 400 rows.

    At a rate of just 0.2 more than 242 alarms come in fewer than one test of 1,000. More than 20
    show that the bound is not an empty one.
    """
    n, rng = 1000, np.random.default_rng(5)
    monitors = Apart(tuple(str(i) for i in range(n)), level=0.2)
    hits = len(monitors.alarms(fed(monitors, rng.random((400, n)) < 0.3, 0.3, 0.3)))
    assert binom.sf(242, n, 0.2) < 1e-3
    assert 20 < hits <= 242


@pytest.mark.parametrize("kind", ["well", "mis"])
def test_changes_are_found_and_nothing_else(kind: str) -> None:
    """20 streams of 2,600 rows after a reference of 4,000, thirteen monitors, level 5 %.

    False alarms: at a rate of just 5 % more than 6 in 20 come in fewer than one test of 1,000.
    Approval and context are found within 1,600 rows in at least 18 of 20 streams, with the onset
    off by less than 100 rows in the median, and by their own monitor first.
    """
    found = measure(World(kind), range(len(CHANGES)), WATCHED, 20, 4000, 2600, seed=2)
    assert binom.sf(6, 20, 0.05) < 1e-3
    assert (found[0].at >= 0).sum() <= 6
    for change in (1, 3):
        one = found[change]
        is_found = one.right >= ONSET
        assert is_found.sum() >= 18
        assert np.median(np.abs(one.since[is_found] - ONSET)) < 100
        assert (one.first[is_found] == WATCHED.names.index(RIGHT[change])).mean() > 0.8
    assert (found[2].right >= ONSET).sum() >= (14 if kind == "well" else 5)
