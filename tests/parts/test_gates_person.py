"""Persons: both faces of a simulated one, and what a kernel learns of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gdcb import records
from gdcb.arrays import Array, logistic
from gdcb.composition import ActionColumn
from gdcb.errors import InvalidInput
from gdcb.gates import Approval, Bounds, CategoryKernel, Chain, Hold, NumberKernel, SimulatedPerson
from gdcb.records import HELD, MODIFIED, PASSED, VETOED, Rows
from gdcb.regression import RidgeSums
from tests.parts.builders import Worth, blank, bytes_of, fixed, parabola, rng_of, rows, stream

# Monte-Carlo means lie within 4.5 standard errors: false alarm 7e-6 each, at fixed seeds.
ERRORS = 4.5
DRAWS = 40_000


def approve_near(e: Array, some: Rows) -> Array:
    """Approve the more, the nearer the proposal lies to the context's number."""
    return np.asarray(logistic(1.0 - np.abs(e[..., 0] - some.x[:, :1])))


def always(p: float) -> Callable[[Array, Rows], Array]:
    """Approve with probability p."""

    def approve(e: Array, some: Rows) -> Array:
        return np.full(e.shape[:2], p)

    return approve


def own_number(some: Rows) -> Array:
    """Want 1 + 2x."""
    return np.asarray(1.0 + 2.0 * some.x[:, :1])


def own_category(some: Rows) -> Array:
    """Want category 1 at the proposal's severity."""
    return np.column_stack((np.ones(some.n), np.full(some.n, np.nan)))


def proposal_and_two(some: Rows) -> Array:
    """Keep the proposal's first column and put 2 in the second."""
    return np.column_stack((np.full(some.n, np.nan), np.full(some.n, 2.0)))


def spread_with_x(some: Rows) -> Array:
    """Vary by ½ + |x|."""
    return np.asarray(0.5 + np.abs(some.x[:, 0]))


def own_and_two(some: Rows) -> Array:
    """Want (1 + 2x, 2)."""
    return np.column_stack((own_number(some), np.full(some.n, 2.0)))


PERSONS: dict[str, tuple[SimulatedPerson, list[float]]] = {
    "approves": (SimulatedPerson(always(1.0), own_number), [0.7]),
    "never": (SimulatedPerson(always(0.0), own_number), [0.7]),
    "plain": (SimulatedPerson(approve_near, own_number), [0.7]),
    "spread": (SimulatedPerson(approve_near, own_number, spread=0.8), [0.7]),
    "veto": (SimulatedPerson(approve_near, own_number, veto=0.4), [0.7]),
    "vetoes": (SimulatedPerson(always(0.3), own_number, veto=1.0), [0.7]),
    "both": (SimulatedPerson(approve_near, own_number, spread=0.8, veto=0.4), [0.7]),
    "category": (SimulatedPerson(always(0.6), own_category, veto=0.2), [2.0, 0.35]),
    "anchored": (SimulatedPerson(always(0.6), proposal_and_two, spread=0.5), [1.5, 0.35]),
    "leans": (SimulatedPerson(approve_near, own_number, veto=0.2, anchor=0.3), [0.7]),
    "leans wholly": (SimulatedPerson(always(0.3), own_number, spread=0.4, anchor=1.0), [0.7]),
    "leans on one": (SimulatedPerson(always(0.4), proposal_and_two, anchor=0.25), [1.5, 0.35]),
    "unsteady": (SimulatedPerson(approve_near, own_number, spread=spread_with_x), [0.7]),
    "all of it": (
        SimulatedPerson(approve_near, own_and_two, spread_with_x, veto=0.3, anchor=0.6),
        [1.5, 0.3],
    ),
    "two columns": (SimulatedPerson(always(0.6), own_and_two, spread=0.5, veto=0.1), [1.5, 0.3]),
}


@pytest.mark.parametrize("behind", [False, True], ids=["alone", "before bounds"])
@pytest.mark.parametrize("name", PERSONS)
def test_both_faces_of_a_person_agree(name: str, behind: bool) -> None:
    """The mean value of what `apply` samples is `expect` within 4.5 standard errors."""
    person, action = PERSONS[name]
    gates: tuple[Any, ...] = (Approval(person),)
    if behind:
        gates = (Bounds(high=2.0, name="first"), *gates, Bounds(0.5, 1.7, name="last"))
    chain = Chain(gates, closed=False)
    same = rows(np.full((DRAWS, 1), 0.4))
    e = np.tile(action, (DRAWS, 1))
    value = Worth(parabola(1).of, np.full(DRAWS, 0.2), np.full(DRAWS, -7.0))
    verdict = chain.apply(chain.draw(stream(61, 1000), DRAWS), e, same)
    assert not verdict.faults
    sampled = value(verdict.action[:, None])[:, 0]
    expected = chain.expect(value, e[:, None], same)[:, 0]
    assert np.ptp(expected) == 0.0
    error = sampled.std() / np.sqrt(DRAWS)
    assert abs(sampled.mean() - expected[0]) <= ERRORS * error + 1e-12


def test_the_operator_by_hand() -> None:
    """p = 0.6, veto ¼, own number 3 ∓ 1 with ¼, ½, ¼; v(e) = e², v(null) = −2; e = 1.

    E v(own) = (4 + 2·9 + 16)/4 = 9.5; 0.6·1 + 0.4·(¼·(−2) + ¾·9.5) = 0.6 + 0.4·6.625 = 3.25.
    """

    def three(some: Rows) -> Array:
        return np.full((some.n, 1), 3.0)

    person = SimulatedPerson(always(0.6), three, spread=1.0, veto=0.25)
    value = Worth(lambda e, centre: e[..., 0] ** 2 + 0 * centre, np.zeros(1), np.array([-2.0]))
    assert person.expect(value, np.ones((1, 1, 1)), blank(1))[0, 0] == pytest.approx(3.25)


def test_a_person_who_leans_by_hand() -> None:
    """p = 0.6, own number 3, anchor ½, e = 1: 2 ∓ 1, E v = (1 + 2·4 + 9)/4 = 4.5 for v(e) = e².

    The operator is 0.6·1 + 0.4·4.5 = 2.4; at e = 5 it is 4 ∓ 1, (9 + 2·16 + 25)/4 = 16.5, and
    0.6·25 + 0.4·16.5 = 21.6.
    """

    def three(some: Rows) -> Array:
        return np.full((some.n, 1), 3.0)

    person = SimulatedPerson(always(0.6), three, lambda some: np.ones(some.n), anchor=0.5)
    value = Worth(lambda e, centre: e[..., 0] ** 2 + 0 * centre, np.zeros(1), np.zeros(1))
    found = person.expect(value, np.array([[[1.0], [5.0]]]), blank(1))
    np.testing.assert_allclose(found, [[2.4, 21.6]], rtol=1e-12)
    draws = np.array([[0.9, 0.9, 0.1], [0.9, 0.9, 0.5], [0.9, 0.9, 0.9]])
    left, status = person.apply(draws, np.array([[1.0], [1.0], [5.0]]), blank(3))
    assert left[:, 0].tolist() == [1.0, 2.0, 5.0]
    assert status.tolist() == [PASSED, MODIFIED, PASSED]  # 2 − 1 and 4 + 1 are the proposals


def test_columns_left_open_lean_on_nothing() -> None:
    """A NaN column is the proposal's with and without an anchor; the other leans: 2 to ¾."""
    person = SimulatedPerson(always(0.0), proposal_and_two, anchor=0.25)
    left, _ = person.apply(np.full((1, 3), 0.5), np.array([[1.5, 0.4]]), blank(1))
    assert left.tolist() == [[1.5, pytest.approx(0.75 * 2.0 + 0.25 * 0.4)]]


def test_a_spread_of_each_row_s_own() -> None:
    """½ + |x| below, at and above 1 + 2x."""
    person = SimulatedPerson(always(0.0), own_number, spread=spread_with_x)
    draws = np.array([[0.9, 0.9, 0.1], [0.9, 0.9, 0.5], [0.9, 0.9, 0.9]])
    left, _ = person.apply(draws, np.full((3, 1), 9.0), rows([[1.0], [1.0], [-2.0]]))
    np.testing.assert_allclose(left[:, 0], [3.0 - 1.5, 3.0, -3.0 + 2.5], rtol=1e-12)


@pytest.mark.parametrize("name", PERSONS)
def test_what_runs_is_within_reach(name: str) -> None:
    """Each of 500 answers is one of the actions that `reach` names, to the last bit."""
    person, action = PERSONS[name]
    some, e = rows(rng_of(62).normal(size=(500, 1))), np.tile(action, (500, 1))
    left, _ = person.apply(person.draw(stream(63, 1000), 500), e, some)
    reach = person.reach(e[:, None], some)
    same = (reach == left[:, None]) | (np.isnan(reach) & np.isnan(left[:, None]))
    assert same.all(axis=-1).any(axis=1).all()


@pytest.mark.parametrize(("anchor", "eta"), [(0.0, 0.6), (0.1, 1.0), (1.0, 1.0)])
def test_a_person_who_leans_does_not_contract(anchor: float, eta: float) -> None:
    """Their own action tells the proposals apart: η = 1, and 0 where all proposals are one."""
    person = SimulatedPerson(always(0.6), own_number, anchor=anchor)
    e = np.array([[[1.0], [2.0]], [[2.0], [2.0]]])
    assert person.contraction(e, blank(2)).tolist() == [eta, 0.0]


def test_a_spread_that_fails_vetoes() -> None:
    """A spread of the wrong shape, of NaN, or an error: nothing runs."""

    def fail(some: Rows) -> Array:
        raise RuntimeError("no idea")

    wrong: list[Callable[[Rows], Array]] = [
        fail,
        lambda some: np.ones((some.n, 1)),
        lambda some: np.full(some.n, np.nan),
    ]
    for spread in wrong:
        person = SimulatedPerson(always(0.0), own_number, spread=spread)
        chain = Chain((Approval(person),), closed=False)
        verdict = chain.apply(chain.draw(stream(1), 2), np.ones((2, 1)), blank(2))
        assert np.isnan(verdict.action).all()
        assert verdict.status.tolist() == [VETOED, VETOED]


def test_answers_by_hand() -> None:
    """Three uniforms a row: approval below p, veto below `veto`, scatter by ¼, ½, ¼."""
    person = SimulatedPerson(always(0.5), own_number, spread=0.1, veto=0.3)
    draws = np.array(
        [[0.49, 0.0, 0.0], [0.5, 0.29, 0.0], [0.5, 0.3, 0.24], [0.9, 0.9, 0.25], [0.9, 0.9, 0.75]]
    )
    left, status = person.apply(draws, np.full((5, 1), 9.0), rows(np.ones((5, 1))))
    np.testing.assert_allclose(left[:, 0], [9.0, np.nan, 2.9, 3.0, 3.1])
    assert status.tolist() == [PASSED, VETOED, MODIFIED, MODIFIED, MODIFIED]


def test_a_person_who_wants_the_proposal_passes_it() -> None:
    """Not approved, but their own action is the proposal: nothing was changed."""
    person = SimulatedPerson(always(0.0), own_number)
    _, status = person.apply(np.full((1, 3), 0.9), np.array([[3.0]]), rows([[1.0]]))
    assert status.tolist() == [PASSED]


def test_columns_left_open_keep_the_proposal_s() -> None:
    """A moderator changes the verdict and leaves the severity as it came."""
    person = SimulatedPerson(always(0.0), own_category)
    left, status = person.apply(np.full((1, 3), 0.9), np.array([[2.0, 0.35]]), blank(1))
    assert left.tolist() == [[1.0, 0.35]]
    assert status.tolist() == [MODIFIED]


@given(
    changed=st.integers(0, 5),
    seed=st.integers(0, 99),
    name=st.sampled_from(["both", "leans", "unsteady", "all of it"]),
)
@fixed
def test_a_row_s_answer_does_not_depend_on_the_others(changed: int, seed: int, name: str) -> None:
    """Changing one row's proposal and context leaves the others' answers, byte by byte."""
    (person, action), rng = PERSONS[name], rng_of(seed)
    e, x = rng.normal(size=(6, len(action))), rng.normal(size=(6, 1))
    draws = person.draw(stream(seed), 6)
    left, status = person.apply(draws, e, rows(x))
    e[changed], x[changed] = 5.0, -5.0
    again, second = person.apply(draws, e, rows(x))
    rest = np.arange(6) != changed
    assert bytes_of(left[rest], status[rest]) == bytes_of(again[rest], second[rest])


def test_a_person_without_random_numbers_is_refused() -> None:
    """`apply` without draws is a mistake of the caller."""
    with pytest.raises(InvalidInput, match="needs random numbers"):
        PERSONS["plain"][0].apply(None, np.ones((1, 1)), blank(1))


def test_a_hold_holds_and_knows_nothing() -> None:
    """Every row is held with nothing running; its expectation is the proposal itself."""
    left, status = Hold().apply(None, np.ones((2, 1)), blank(2))
    assert np.isnan(left).all()
    assert status.tolist() == [HELD, HELD]
    value, e = parabola(2), np.ones((2, 3, 1))
    assert (Approval().expect(value, e, blank(2)) == value(e)).all()


@pytest.mark.parametrize(
    ("left", "reason"),
    [
        (np.nan, "the person did not let it run"),
        (1.0, "the person approved it"),
        (2.0, "the person put another action in its place"),
    ],
)
def test_reasons_say_what_the_person_did(left: float, reason: str) -> None:
    """One sentence each for a veto, an approval and an edit."""
    assert Approval().reason(np.array([1.0]), np.array([left]), blank(1)) == reason


# What is learned -----------------------------------------------------------------------------


def test_before_any_verdict_a_number_kernel_trusts() -> None:
    """Nobody watched: the proposal is expected to run."""
    gate = Approval(kernel=NumberKernel(features=(0,)))
    value, e = parabola(2), rng_of(1).normal(size=(2, 4, 1))
    kernel = gate.init_kernel(1, 1)
    np.testing.assert_allclose(gate.expect(value, e, blank(2), kernel), value(e), rtol=1e-14)


def test_before_any_verdict_a_category_kernel_trusts_by_hand() -> None:
    """Trust 3, one spread over the two others and a veto: (3·v(e) + ⅓(Σ others + null)) / 4."""
    gate = Approval(kernel=CategoryKernel(n_categories=3))
    worth = np.array([6.0, 9.0, 3.0])
    value = Worth(lambda e, centre: worth[e[..., 0].astype(int)], np.zeros(1), np.array([-3.0]))
    out = gate.expect(value, np.arange(3.0)[None, :, None], blank(1), gate.init_kernel(1, 1))
    # (18 + ⅓(9 + 3 − 3))/4, (27 + ⅓(6 + 3 − 3))/4, (9 + ⅓(6 + 9 − 3))/4
    np.testing.assert_allclose(out, [[21 / 4, 29 / 4, 13 / 4]], rtol=1e-14)


def test_category_counts_by_hand() -> None:
    """Entered 0: left 0, 2, vetoed; held is no verdict. Counts +1 at (0, 0), (0, 2), (0, veto)."""
    kernel = CategoryKernel(n_categories=3)
    state = kernel.init(1, 1)
    before = state.counts.copy()
    status = np.array([PASSED, MODIFIED, VETOED, HELD], dtype=np.int8)
    left = np.array([[0.0], [2.0], [np.nan], [np.nan]])
    kernel.learn(state, np.zeros(4, dtype=int), blank(4), np.zeros((4, 1)), left, status)
    gained = (state.counts - before)[0, 0]
    assert gained.tolist() == [[1, 0, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]]


def test_unknown_categories_are_refused_with_the_counts_unchanged() -> None:
    """A category that the table has not is refused before anything is counted."""
    kernel = CategoryKernel(n_categories=2)
    state = kernel.init(1, 1)
    before = records.to_bytes(state)
    status = np.array([PASSED, PASSED], dtype=np.int8)
    e = np.array([[0.0], [2.0]])
    with pytest.raises(InvalidInput, match="expected categories 0 to 1"):
        kernel.learn(state, np.zeros(2, dtype=int), blank(2), e, e, status)
    assert records.to_bytes(state) == before


def test_an_own_number_by_hand() -> None:
    """Overrides to 110 and 130 at base 100: own number 1.2·base, spread 0.1·base.

    The ridge of 1e-6 on the level shifts it by less than 1e-6 of itself.
    """
    kernel = NumberKernel(base=(0,))
    state = kernel.init(1, 1)
    owner, status = np.zeros(2, dtype=int), np.full(2, MODIFIED, dtype=np.int8)
    context = rows([[100.0], [100.0]])
    left = np.array([[110.0], [130.0]])
    kernel.learn(state, owner, context, np.full((2, 1), 50.0), left, status)
    own, spread, known = kernel._own(state, np.zeros(1, dtype=int), rows([[200.0]]))
    assert known.all()
    assert own[0, 0] == pytest.approx(240.0, rel=2e-6)
    assert spread[0, 0] == pytest.approx(20.0, rel=1e-3)


def test_a_number_kernel_s_expectation_by_hand() -> None:
    """Own number 120, spread 10, v(e) = e²: E v(own) = 120² + 10² = 14,500 at three nodes.

    Two edits of a proposal of 50 while no own number was known, then one approval there, far
    below it: overall rates (4 + 1, 2)/7 with trust 4; that band's ((1, 0) + 8·(5, 2)/7)/9.
    """
    kernel = NumberKernel()
    state = kernel.init(1, 1)
    zero = np.zeros(1, dtype=int)
    e, left = np.full((2, 1), 50.0), np.array([[110.0], [130.0]])
    kernel.learn(state, np.zeros(2, int), blank(2), e, left, np.full(2, MODIFIED, np.int8))
    kernel.learn(state, zero, blank(1), e[:1], e[:1], np.array([PASSED], np.int8))
    value = Worth(lambda e, centre: e[..., 0] ** 2 + 0 * centre, np.zeros(1), np.zeros(1))
    out = kernel.expect(state, zero, value, np.full((1, 1, 1), 50.0), blank(1))
    approved, changed = (1 + 8 * 5 / 7) / 9, (8 * 2 / 7) / 9
    assert out[0, 0] == pytest.approx(approved * 2500 + changed * 14_500, rel=1e-5)


@dataclass(slots=True)
class Inside:
    """1 where every column lies within [low, high], 0 elsewhere: a function that jumps."""

    low: float
    high: float
    pieces: int = 256

    def take(self, index: Any) -> Inside:
        """Return itself: all rows are alike."""
        return self

    def __call__(self, e: Array) -> Array:
        """Return 1 or 0; nothing is in no cell."""
        return np.asarray(((e >= self.low) & (e <= self.high)).all(axis=-1) * 1.0)


def knowing(means: list[float], spreads: list[float]) -> tuple[Approval, Any]:
    """Return a gate and what is known of its person: never approves, an own action like this."""
    gate = Approval(kernel=NumberKernel())
    kernel: Any = gate.init_kernel(1, len(means))
    kernel.theta[0, :, 0], kernel.spread[0], kernel.sums.count[:] = means, spreads, 100.0
    kernel.rates[:] = [0.0, 1.0, 0.0]
    return gate, kernel


@pytest.mark.parametrize("mean", [-3.0, 0.49, 0.51, 1.0, 2.7])
@pytest.mark.parametrize("spread", [0.0, 1e-3, 0.1, 2.0])
@pytest.mark.parametrize("behind", [False, True], ids=["alone", "before bounds"])
def test_the_chance_of_a_cell_is_the_normal_law_s(mean: float, spread: float, behind: bool) -> None:
    """P(½ ≤ own ≤ 1.2) by Φ, to 1e-6; three nodes are off by up to a half.

    Before bounds of 1 all above it is moved onto 1: P(½ ≤ own).
    """
    gate, kernel = knowing([mean], [spread])
    high = np.inf if behind else 1.2
    gates: tuple[Any, ...] = (gate, Bounds(high=1.0)) if behind else (gate,)
    chain = Chain(gates, closed=False)
    found = chain.expect(Inside(0.5, 1.2), np.full((1, 1, 1), 9.0), blank(1), (kernel, None))
    law = stats.norm(mean, max(spread, 1e-300))
    assert found[0, 0] == pytest.approx(law.cdf(high) - law.cdf(0.5), abs=1e-6)


def test_the_chance_of_a_cell_behind_two_persons() -> None:
    """The second person changes every second proposal: ½·P(first in) + ½·P(second in)."""
    (first, one), (second, two) = knowing([1.0], [0.3]), knowing([0.5], [0.4])
    two.rates[:] = [0.5, 0.5, 0.0]
    chain = Chain((first, replace(second, name="second")), closed=False)
    found = chain.expect(Inside(0.8, 1.3), np.full((1, 1, 1), 9.0), blank(1), (one, two))
    chances = [np.diff(stats.norm(*law).cdf([0.8, 1.3]))[0] for law in ((1.0, 0.3), (0.5, 0.4))]
    assert found[0, 0] == pytest.approx(sum(chances) / 2, abs=1e-6)


def test_the_chance_of_a_cell_with_several_columns() -> None:
    """Independent columns: the product of their chances, to 0.01; at the mean it would be 1."""
    gate, kernel = knowing([1.0, 1.1, 0.9], [0.3, 0.2, 0.5])
    found = gate.expect(Inside(0.8, 1.3), np.full((1, 1, 3), 9.0), blank(1), kernel)
    laws = ((1.0, 0.3), (1.1, 0.2), (0.9, 0.5))
    chance = np.prod([np.diff(stats.norm(*law).cdf([0.8, 1.3]))[0] for law in laws])
    assert found[0, 0] == pytest.approx(chance, abs=0.01)


def test_fine_pieces_keep_rows_apart_and_smooth_values_as_they_are() -> None:
    """A parabola has no `pieces`: three nodes. A batch is the loop, byte by byte."""
    gate = Approval(kernel=NumberKernel(features=(0,)))
    kernel: Any = gate.init_kernel(1, 1)
    kernel.theta[0, 0], kernel.spread[0], kernel.sums.count[:] = [1.0, 0.5], [0.4], 9.0
    kernel.rates[:] = [0.3, 0.6, 0.1]
    some, e = rows(rng_of(3).normal(size=(5, 1))), np.full((5, 2, 1), 1.1)
    for value in (Inside(0.9, 1.2), parabola(1)):
        whole = gate.expect(value, e, some, kernel)
        for i in range(5):
            one = gate.expect(value, e[:1], some.take(slice(i, i + 1)), kernel)
            assert bytes_of(one[0]) == bytes_of(whole[i])


def watch(gate: Approval, context: Rows, e: Array, seed: int, batch: int) -> Any:
    """Show a kernel the person's verdicts on proposals, in batches."""
    kernel = gate.init_kernel(1, e.shape[1])
    draws = gate.draw(stream(seed, 1000), context.n)
    assert draws is not None
    for start in range(0, context.n, batch):
        part = slice(start, start + batch)
        some = context.take(part)
        left, status = gate.apply(draws[part], e[part], some)
        gate.learn(kernel, some.group, some, e[part], left, status)
    return kernel


def by_severity(e: Array, some: Rows) -> Array:
    """Approve mild cases more than grave ones, and category 0 less."""
    return np.asarray(np.where(e[..., 1] > 0.5, 0.3, 0.9) - 0.2 * (e[..., 0] == 0))


def test_a_category_kernel_learns_the_person() -> None:
    """After 5,000 verdicts every expectation is within 5 % of the value range of the truth.

    Six cells of about 830 verdicts each: a rate has a standard error of at most 0.018.
    """
    person = SimulatedPerson(by_severity, own_category, veto=0.25)
    gate = Approval(person, CategoryKernel(n_categories=3, edges=(0.5,)))
    rng, n = rng_of(7), 5000
    e = np.column_stack((rng.integers(0, 3, n), rng.uniform(size=n)))
    kernel = watch(gate, blank(n), e, 71, 100)
    worth = np.array([1.0, 3.0, 0.0])
    value = Worth(
        lambda e, centre: worth[e[..., 0].astype(int)] + e[..., 1], np.zeros(2), np.zeros(2) - 1.0
    )
    at = np.stack([np.column_stack((np.arange(3.0), np.full(3, s))) for s in (0.2, 0.9)])
    learned = gate.expect(value, at, blank(2), kernel)
    np.testing.assert_allclose(learned, gate.expect(value, at, blank(2)), atol=0.05 * 4.0)
    assert np.abs(value(at) - learned).max() > 0.5  # trust alone would be far off


def near_own(e: Array, some: Rows) -> Array:
    """Approve within 1.5 standard deviations of the own number often, else rarely."""
    gap = np.abs(e[..., 0] - own_number(some))
    return np.where(gap < 1.5 * 0.8 * 0.5**0.5, 0.9, 0.25)


@pytest.mark.parametrize("veto", [0.0, 0.3])
@pytest.mark.parametrize("approve", [always(0.6), near_own], ids=["constant", "near"])
def test_a_number_kernel_learns_the_person(
    approve: Callable[[Array, Rows], Array], veto: float
) -> None:
    """After 5,000 verdicts every expectation is within 5 % of the value range of the truth.

    Own number 1 + 2x with spread 0.8, standard deviation 0.57; a parabola is integrated exactly.
    Points are away from the edges of the distance bands, where a step can only be smeared.
    """
    gate = Approval(
        SimulatedPerson(approve, own_number, spread=0.8, veto=veto), NumberKernel(features=(0,))
    )
    rng, n = rng_of(8), 5000
    context = rows(rng.uniform(-1, 1, size=(n, 1)))
    e = own_number(context) + rng.uniform(-2.5, 2.5, size=(n, 1))
    kernel = watch(gate, context, e, 72, 50)
    at = rows([[-0.5], [0.0], [0.8]])
    points = own_number(at)[:, None] + np.array([-2.2, -1.2, -0.5, 0.0, 0.5, 1.2, 2.2])[:, None]
    value = Worth(parabola(1).of, np.full(3, 1.0), np.full(3, -2.0))
    truth = gate.expect(value, points, at)
    span = np.ptp(value(points))
    learned = gate.expect(value, points, at, kernel)
    np.testing.assert_allclose(learned, truth, atol=0.05 * span)
    assert np.abs(value(points) - learned).max() > 0.1 * span


def two_numbers(some: Rows) -> Array:
    """Want (1 + 2x, 3 − x)."""
    return np.column_stack((own_number(some), 3.0 - some.x[:, 0]))


def test_a_number_kernel_learns_two_columns() -> None:
    """A person without spread: both columns of the own number are found to 1e-3."""
    gate = Approval(SimulatedPerson(always(0.5), two_numbers), NumberKernel(features=(0,)))
    rng, n = rng_of(9), 5000
    context = rows(rng.uniform(-1, 1, size=(n, 1)))
    kernel = watch(gate, context, rng.normal(size=(n, 2)), 73, 50)
    own, _, known = gate.kernel._own(kernel, np.zeros(2, dtype=int), rows([[0.0], [0.5]]))  # type: ignore[union-attr]
    assert known.all()
    np.testing.assert_allclose(own, [[1.0, 3.0], [2.0, 2.5]], atol=5e-3)


@pytest.mark.parametrize("kernel", [NumberKernel(), CategoryKernel(n_categories=3)])
def test_owners_do_not_touch_each_other(kernel: Any) -> None:
    """Verdicts of owner 0 leave every byte of owner 1, whose expectation stays trusting."""
    state = kernel.init(2, 1)
    before = [array[1].tobytes() for array in records.flatten(state).values()]
    status = np.array([PASSED, MODIFIED, VETOED], dtype=np.int8)
    left = np.array([[0.0], [2.0], [np.nan]])
    kernel.learn(state, np.zeros(3, dtype=int), blank(3), np.zeros((3, 1)), left, status)
    assert [array[1].tobytes() for array in records.flatten(state).values()] == before
    assert [array[0].tobytes() for array in records.flatten(state).values()] != before


def test_per_unit_or_per_group() -> None:
    """`per` says whose kernel is read: the unit's, or the group's."""
    value, e = parabola(1), np.full((1, 1, 1), 2.0)
    here = rows([[0.0]], unit=[1], group=[0])
    for per, owner in (("unit", 1), ("group", 0)):
        gate = Approval(kernel=NumberKernel(), per=per)
        kernel = gate.init_kernel(2, 1)
        trusting = gate.expect(value, e, here, kernel)
        status = np.full(30, VETOED, dtype=np.int8)
        gone = np.full((30, 1), np.nan)
        gate.learn(kernel, np.full(30, 1 - owner), blank(30), np.ones((30, 1)), gone, status)
        assert gate.expect(value, e, here, kernel) == trusting
        gate.learn(kernel, np.full(30, owner), blank(30), np.ones((30, 1)), gone, status)
        assert gate.expect(value, e, here, kernel) < trusting


def test_ridge_sums_of_a_person_are_plain_sums() -> None:
    """φ = (1, 2), y = 3, weight 2: gram 2·[[1, 2], [2, 4]], moment (6, 12), square 18."""
    sums = RidgeSums.zeros(1, 1, 2)
    phi, y = np.array([[1.0, 2.0]]), np.array([[3.0]])
    sums.add(np.zeros(1, dtype=int), phi, y, np.array([2.0]))
    assert sums.gram[0, 0].tolist() == [[2.0, 4.0], [4.0, 8.0]]
    assert sums.moment[0, 0].tolist() == [6.0, 12.0]
    assert (sums.square[0, 0], sums.count[0, 0]) == (18.0, 2.0)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: SimulatedPerson(always(1), own_number, spread=-1.0), "person.spread: expected"),
        (lambda: SimulatedPerson(always(1), own_number, veto=1.5), "person.veto: expected a numb"),
        (lambda: SimulatedPerson(always(1), own_number, anchor=1.5), "person.anchor: expected a n"),
        (lambda: SimulatedPerson(always(1), own_number, anchor=-0.1), "person.anchor: expected"),
        (lambda: SimulatedPerson(always(1), own_number, anchor=np.nan), "person.anchor: expected"),
        (
            lambda: SimulatedPerson(always(1), own_number, spread=None),  # type: ignore[arg-type]
            "person.spread: expected a number or a function, got None",
        ),
        (lambda: Approval(per="team"), "gate.per: expected one of unit, group"),
        (lambda: NumberKernel(penalty=0.0), "kernel.penalty: expected a number > 0"),
        (lambda: NumberKernel(trust=0.0), "kernel.trust: expected a number > 0"),
        (lambda: NumberKernel(shrink=-1.0), "kernel.shrink: expected a number > 0"),
        (lambda: CategoryKernel(n_categories=1), "kernel.n_categories: expected a number >= 2"),
        (lambda: CategoryKernel(trust=0.0), "kernel.trust: expected a number > 0"),
        (lambda: CategoryKernel(edges=(0.5, 0.2)), "kernel.edges: expected rising numbers"),
        (
            lambda: CategoryKernel(edges=(0.5,)).check([ActionColumn("tool", ("a", "b"))]),
            "kernel: the action has only 1 columns",
        ),
        (
            lambda: CategoryKernel(n_categories=3).check([ActionColumn("tool", ("a", "b"))]),
            "kernel.n_categories: expected 2, the levels of 'tool', got 3",
        ),
        (
            lambda: Approval().check([ActionColumn("tool", ("a", "b"))]),
            "kernel: tool is a category; use CategoryKernel",
        ),
    ],
)
def test_bad_settings_are_refused(build: Callable[[], Any], message: str) -> None:
    """Settings that cannot work are refused by name."""
    with pytest.raises(InvalidInput, match=message):
        build()
