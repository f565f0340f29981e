"""The gate of a bolus: limits, a low, a physician; nothing infeasible is ever executed."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb import Agent, checks, declaration
from gdcb import round as turn
from gdcb.arrays import Array
from gdcb.declaration import Declaration
from gdcb.errors import InvalidInput
from gdcb.instances.dosing import fit, learners, physician
from gdcb.instances.dosing.columns import GLUCOSE, IOB, LIVE, WEIGHT
from gdcb.instances.dosing.domain import LEVELS, instance
from gdcb.instances.dosing.limits import BolusLimits
from gdcb.instances.dosing.world import MIDDLE
from gdcb.records import MODIFIED, PASSED, VETOED, Rows
from gdcb.streams import Stream
from tests.properties import examples

LIMITS = BolusLimits(iob=IOB, weight=WEIGHT)


def rows_of(x: Array, own: Array | float = 4.0) -> Rows:
    """Return rows of patient 0 of clinic 0; the physician would give `own` units."""
    n = x.shape[0]
    hidden = np.stack((np.zeros(n), np.broadcast_to(np.asarray(own, dtype=float), n)), axis=1)
    return Rows(np.zeros(n, dtype=int), np.zeros(n, dtype=int), x, hidden=hidden)


def is_feasible(dose: Array, x: Array) -> Array:
    """Say apart from the gates what may be given: numbers, none in a low, none above a limit."""
    weight, iob = x[:, WEIGHT], x[:, IOB]
    most = np.minimum(np.minimum(25.0, 0.25 * weight), np.maximum(0.3 * weight - iob, 0.0))
    fits = np.isfinite(dose) & (dose >= 0.0) & (dose <= most)
    return np.asarray(fits & ((x[:, GLUCOSE] >= 70.0) | (dose == 0.0)))


contexts = st.tuples(
    st.floats(20.0, 600.0),
    st.floats(-10.0, 10.0),
    st.floats(0.0, 300.0),
    st.floats(0.0, 50.0),
    st.floats(2.0, 300.0),
)


@given(
    st.lists(
        st.tuples(st.floats(width=64), contexts, st.floats(0.0, 60.0)), min_size=1, max_size=8
    ),
    st.integers(0, 2**32),
    st.sampled_from(["well", "mis"]),
)
@examples(150)
def test_nothing_infeasible_is_ever_executed(
    proposals: list[tuple[float, tuple[float, ...], float]], seed: int, variant: str
) -> None:
    """An adversary proposes any float at all, and the physician may want any dose themselves."""
    dose = np.array([[one[0]] for one in proposals])
    x = np.array([one[1] for one in proposals])
    rows = rows_of(x, np.array([one[2] for one in proposals]))
    made = instance(variant)
    draws = made.chain.draw(Stream((seed, 3), 0, 100), rows.n)
    executed = turn.execute(made, made.chain.apply(draws, dose, rows), rows)
    assert is_feasible(executed.action[:, 0], x).all()


@given(st.lists(st.floats(width=64), min_size=1, max_size=6), contexts)
@examples(100)
def test_a_huge_offset_does_not_get_past_the_limits(
    offsets: list[float], context: tuple[float, ...]
) -> None:
    """Whatever δ is, what Φ makes of every level is brought to within the limits."""
    made = instance("mis")
    x = np.array([context] * len(offsets))
    actions = made.composition.compose(made.space, np.array(offsets)[:, None, None], x)
    rows = rows_of(x)
    draws = made.chain.draw(Stream((5, 3), 0, 100), rows.n)
    for k in range(made.space.n):
        executed = turn.execute(made, made.chain.apply(draws, actions[:, k], rows), rows)
        assert is_feasible(executed.action[:, 0], x).all()


@pytest.mark.parametrize("promise", checks.of(LIMITS), ids=str)
def test_the_limits_keep_every_promise_of_a_gate(promise: checks.Check) -> None:
    promise()


@pytest.mark.parametrize(
    ("dose", "iob", "weight", "left", "said"),
    [
        (4.0, 0.0, 40.0, 4.0, "within the limit of 10"),
        (12.0, 0.0, 40.0, 10.0, "above the largest bolus, 10 for 40 kg"),
        (40.0, 0.0, 150.0, 25.0, "above the largest bolus, 25 for 150 kg"),
        (6.0, 7.0, 40.0, 5.0, "more than 0.3 U/kg on board, where 7 units act still: 5 are left"),
        (6.0, 30.0, 40.0, 0.0, "0 are left"),
        (-3.0, 0.0, 40.0, 0.0, "a dose cannot be negative"),
    ],
)
def test_limits_by_hand(dose: float, iob: float, weight: float, left: float, said: str) -> None:
    row = rows_of(np.array([[120.0, 0.0, 50.0, iob, weight]]))
    got = LIMITS.project(np.array([[[dose]]]), row)[0, 0]
    assert got.tolist() == [left]
    assert said in LIMITS.reason(np.array([dose]), got, row)


def test_a_weight_that_is_no_number_lets_nothing_run() -> None:
    row = rows_of(np.array([[120.0, 0.0, 50.0, 0.0, np.nan]]))
    assert np.isnan(LIMITS.project(np.array([[[3.0]]]), row)).all()


@pytest.mark.parametrize("name", ["most", "per_kg", "on_board"])
@pytest.mark.parametrize("bad", [-1.0, np.nan, "much"])
def test_limits_that_cannot_be(name: str, bad: Any) -> None:
    with pytest.raises(InvalidInput, match=name):
        BolusLimits(**{name: bad})


def test_the_physician_approves_what_is_near_their_own_dose() -> None:
    """Own dose 4, tolerance 1 + 0.5·4 = 3: at 4 with 0.97, at 7 with 0.97·exp(−½)."""
    row = rows_of(np.array([[120.0, 0.0, 50.0, 0.0, 70.0]]))
    said = physician.approve(np.array([[[4.0], [7.0]]]), row)
    np.testing.assert_allclose(said, [[0.97, 0.97 * np.exp(-0.5)]])
    assert physician.own(row).tolist() == [[4.0]]


def test_a_bolus_in_a_low_is_vetoed_and_none_is_given() -> None:
    made, row = instance("mis"), rows_of(np.array([[65.0, -1.0, 50.0, 0.0, 70.0]]))
    for seed in range(5):
        draws = made.chain.draw(Stream((seed, 3), 0, 100), 1)
        verdict = made.chain.apply(draws, np.array([[4.0]]), row)
        assert verdict.status.tolist() == [VETOED]
        assert turn.execute(made, verdict, row).action.tolist() == [[0.0]]


# Live


@pytest.fixture(scope="module")
def declared() -> Iterator[Declaration]:
    """Return the live instance, its gate registered whether it is installed so or not."""
    declaration._entry_points.cache_clear()
    known = declaration._entry_points("gdcb.gates")
    value = "gdcb.instances.dosing.limits:BolusLimits"
    known.setdefault("bolus-limits", [EntryPoint("bolus-limits", value, "gdcb.gates")])
    yield declaration.read(fit.TOML)
    declaration._entry_points.cache_clear()


def meal(**changes: Any) -> dict[str, Any]:
    """Return a lunch, changed as asked."""
    return {"glucose": 150.0, "trend": 0.0, "meal": 60.0, "iob": 0.5, "weight": 70.0} | changes


def test_the_file_is_the_study_with_a_real_physician(declared: Declaration) -> None:
    made = declared.instance
    study = instance("mis")
    assert made.scaler == study.scaler
    assert made.space.coords.ravel().tolist() == list(LEVELS)
    assert made.context.columns == LIVE.columns
    assert made.chain.gates[1:] == study.chain.gates[1:]
    assert getattr(made.chain.gates[0], "holds", False)
    assert declared.bandit == learners.learner(learners.UNTUNED)
    assert made.null == study.null


def test_every_proposal_waits_for_the_physician(declared: Declaration) -> None:
    agent = Agent(declared.instance, declared.bandit, seed=3)
    case = agent.decide(meal(), unit="ana")
    assert case.status == "held"
    assert case.executed is None
    case = agent.resolve(case.id, "edit", {"dose": 40.0}, by="Dr Rao", reason="large meal")
    assert case.executed == {"dose": 17.5}  # 0.25 U/kg: the limits hold for physicians too
    assert "largest bolus, 17.5 for 70 kg" in case.reason
    assert agent.observe(case.id, {"benefit": 0.8}, label=[6.0 - MIDDLE])


def test_a_physician_cannot_give_a_bolus_in_a_low(declared: Declaration) -> None:
    agent = Agent(declared.instance, declared.bandit, seed=3)
    case = agent.decide(meal(glucose=62.0))
    case = agent.resolve(case.id, "approve", by="Dr Rao")
    assert case.status == "vetoed"
    assert case.executed == {"dose": 0.0}
    assert "62" in case.reason
    assert "70" in case.reason


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"weight": -70.0}, "context.weight"),
        ({"glucose": 4000.0}, "context.glucose: expected 20 to 600, got 4000"),
        ({"glucose": float("nan")}, "context.glucose: expected a finite number"),
        ({"meal": -5.0}, "context.meal"),
        ({"iob": -0.1}, "context.iob"),
        ({"trend": float("inf")}, "context.trend"),
        ({"weight": "heavy"}, "context.weight: expected a number"),
        ({"weight": True}, "context.weight: expected a number"),
        ({"weight": None}, "context.weight: expected a number"),
        ({"pulse": 70.0}, "no column pulse"),
    ],
)
def test_inputs_that_make_no_sense_are_refused(
    declared: Declaration, changes: dict[str, Any], said: str
) -> None:
    agent = Agent(declared.instance, declared.bandit, seed=3)
    with pytest.raises(InvalidInput, match=said):
        agent.decide(meal(**changes))
    assert not agent.events


def test_statuses_of_a_dose_that_is_too_large() -> None:
    """An approved dose above the limit is brought to it, and that shows."""
    made, row = instance("mis"), rows_of(np.array([[150.0, 0.0, 90.0, 0.0, 40.0]]), 11.0)
    draws = np.array([[0.0, 0.5, 0.5]])  # approved
    left = made.chain.apply((draws, None, None), np.array([[12.0]]), row)
    assert left.action.tolist() == [[10.0]]
    assert left.statuses.tolist() == [[PASSED, PASSED, MODIFIED]]
