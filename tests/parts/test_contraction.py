"""Contraction: η by formula, on arm cells and from a log, and the inequality that it is for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb.analysis import (
    arm_cells,
    cell_kernel,
    dobrushin,
    estimate_contraction,
    realised_ratio,
)
from gdcb.analysis.variation import halved
from gdcb.arrays import Array, logistic
from gdcb.errors import InvalidInput
from gdcb.gates import (
    Approval,
    Bounds,
    Cap,
    Chain,
    Hold,
    NumberKernel,
    Physics,
    PolicyFilter,
    Review,
    Shield,
    SimulatedPerson,
)
from gdcb.gates.contraction import contractions, is_mixed
from gdcb.instances import catalogue
from gdcb.records import Rows
from tests.builders import Fickle, tracking
from tests.parts.builders import blank, bytes_of, fixed, rng_of, rows, stream

ARMS = np.array([1.0, 2.0, 4.0])  # of `tracking`, with δ = 1
# Monte-Carlo shares lie within 4.5 standard errors: false alarm 7e-6 each, at fixed seeds.
ERRORS = 4.5


def constant(p: float) -> Callable[[Array, Rows], Array]:
    """Approve with p, whatever was proposed."""
    return lambda e, some: np.full(e.shape[:2], p)


def by_distance(e: Array, some: Rows) -> Array:
    """Approve the more, the nearer the proposal lies to the context's number."""
    return np.asarray(logistic(1.0 - np.abs(e[..., 0] - some.x[:, :1])))


def own(number: float) -> Callable[[Rows], Array]:
    """Want this number."""
    return lambda some: np.full((some.n, 1), number)


def person(approve: Any, number: float = 2.0, **settings: Any) -> SimulatedPerson:
    """Return a simulated person."""
    return SimulatedPerson(approve, own(number), **settings)


def exact(gate: Any, some: Rows, kernels: Any = None) -> Array:
    """Return η on the cells of arms 1, 2 and 4."""
    instance = tracking(gate=gate if isinstance(gate, Chain) else Chain((gate,), closed=False))
    return dobrushin(cell_kernel(instance, some, np.ones((some.n, 1, 1)), kernels))


def bound(gate: Any, some: Rows) -> Array:
    """Return the product of the gates' η by formula."""
    chain = gate if isinstance(gate, Chain) else Chain((gate,), closed=False)
    e = np.broadcast_to(ARMS[:, None], (some.n, 3, 1)).copy()
    return np.asarray(chain.contraction(e, some).prod(axis=1))


# By formula ----------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.0, 0.3, 0.75, 1.0])
@pytest.mark.parametrize("number", [2.0, 2.9, 50.0])
@pytest.mark.parametrize("settings", [{}, {"veto": 0.4}, {"spread": 0.3, "veto": 0.2}])
def test_approve_with_p_else_own_has_eta_p(p: float, number: float, settings: Any) -> None:
    """Whatever the own action is (an arm, near one, off all), vetoes and scatter included."""
    gate = Approval(person(constant(p), number, **settings))
    np.testing.assert_allclose(bound(gate, blank(2)), p, rtol=1e-12)
    np.testing.assert_allclose(exact(gate, blank(2)), p, rtol=0, atol=1e-12)


def test_eta_of_a_person_follows_the_context() -> None:
    """p(x) = x: η is x, row by row."""
    gate = Approval(person(lambda e, some: np.broadcast_to(some.x[:, :1], e.shape[:2])))
    some = rows([[0.1], [0.9], [0.5]])
    np.testing.assert_allclose(bound(gate, some), [0.1, 0.9, 0.5])
    np.testing.assert_allclose(exact(gate, some), [0.1, 0.9, 0.5], atol=1e-12)


@given(x=st.floats(-2, 6), number=st.sampled_from([1.0, 2.0, 4.0, 2.9, 50.0]), veto=st.floats(0, 1))
@fixed
def test_where_approval_depends_on_the_proposal_the_largest_bounds_it(
    x: float, number: float, veto: float
) -> None:
    """sup_e p(e, x) bounds η; an own action in no proposal's cell makes it equal.

    2.9 lies in the cell of 2: where 2 is approved most, η is smaller.
    """
    gate, some = Approval(person(by_distance, number, veto=veto)), rows([[x]])
    largest = by_distance(np.broadcast_to(ARMS[None, :, None], (1, 3, 1)), some).max()
    assert bound(gate, some)[0] == largest
    assert exact(gate, some)[0] <= largest + 1e-12
    if number == 50.0 or veto == 1:
        assert exact(gate, some)[0] == pytest.approx(largest, abs=1e-12)


def test_edits_anchored_on_the_proposal_may_have_eta_one() -> None:
    """The own action keeps the proposal's number: nothing contracts. A kept column that is the
    same in all proposals (a severity) is no anchor.
    """
    anchored = SimulatedPerson(constant(0.2), lambda some: np.full((some.n, 1), np.nan))
    assert bound(Approval(anchored), blank(1)).tolist() == [1.0]
    assert exact(Approval(anchored), blank(1)).tolist() == pytest.approx([1.0])
    severity = SimulatedPerson(constant(0.2), lambda some: np.tile([1.0, np.nan], (some.n, 1)))
    e = np.array([[[0.0, 0.7], [2.0, 0.7]]])
    assert severity.contraction(e, blank(1)).tolist() == [0.2]
    e[0, 1, 1] = 0.8
    assert severity.contraction(e, blank(1)).tolist() == [1.0]


@pytest.mark.parametrize(
    ("gate", "eta"),
    [
        (Bounds(1.0, 4.0), 1.0),
        (Bounds(1.0, 2.0), 1.0),
        (Bounds(2.0, 2.0), 0.0),
        (Cap(limit=0.5), 0.0),
        (Cap(limit=1.5), 1.0),
        (Bounds(5.0, 6.0, outside="veto"), 0.0),
        (Bounds(4.0, 6.0, outside="veto"), 1.0),
        (PolicyFilter(require=0, at_least=1.0), 0.0),
        (Shield(fallback=(3.0,), low=3.0, high=3.0), 0.0),
        (Physics(lambda e, some: e[..., 0] <= 2.0, (0.0,)), 1.0),
        (Physics(lambda e, some: e[..., 0] <= 0.0, (0.0,)), 0.0),
    ],
)
def test_hard_gates_have_eta_one_unless_all_ends_are_the_same(gate: Any, eta: float) -> None:
    """Idempotent gates with two feasible actions have η = 1; one image, or all vetoed, 0."""
    assert bound(gate, blank(1)).tolist() == [eta]
    e = np.broadcast_to(ARMS[:, None], (1, 3, 1)).copy()
    assert gate.contraction(e, blank(1)).tolist() == [eta]
    assert exact(gate, blank(1))[0] <= eta


def test_of_a_real_person_nothing_is_known() -> None:
    """A hold may do anything: 1, for the gate and for those behind it."""
    chain = Chain((Approval(Hold()), Cap(limit=0.5)))
    e = np.broadcast_to(ARMS[:, None], (1, 3, 1)).copy()
    assert chain.contraction(e, blank(1)).tolist() == [[1.0, 1.0]]
    assert chain.contraction(np.ones((1, 3, 1)), blank(1)).tolist() == [[0.0, 1.0]]


def test_review_contracts_only_where_all_are_flagged() -> None:
    """Flagged above 0.5: all arms, η = p. Above 1.5: arm 1 passes untouched, η = 1."""
    who = person(constant(0.3))
    assert bound(Review(high=0.5, person=who), blank(1)).tolist() == [0.3]
    assert exact(Review(high=0.5, person=who), blank(1)).tolist() == pytest.approx([0.3])
    assert bound(Review(high=1.5, person=who), blank(1)).tolist() == [1.0]
    assert exact(Review(high=1.5, person=who), blank(1)).tolist() == pytest.approx([1.0])


# Chains --------------------------------------------------------------------------------------


def test_a_gate_is_judged_on_what_reaches_it() -> None:
    """Arms 1, 2, 4. The first gate moves 4 to 8, the second lets 8 alone and lowers the rest to 0.

    On the arms themselves the second gate has one image, and a product of 0 would be wrong: the
    chain still tells 4 from the others.
    """
    up = Shield(fallback=(8.0,), denied=(4,), name="up")
    down = Shield(lambda e, some: (e[..., 0] == 8.0) | (e[..., 0] == 0.0), (0.0,), name="down")
    e = np.broadcast_to(ARMS[:, None], (1, 3, 1)).copy()
    assert down.contraction(e, blank(1)).tolist() == [0.0]
    chain = Chain((up, down))
    assert chain.contraction(e, blank(1)).tolist() == [[1.0, 1.0]]


def test_what_was_vetoed_before_counts_as_an_action() -> None:
    """Arm 4 is vetoed, 1 and 2 are lowered to 1: nothing and 1 are two ends, so η = 1."""
    chain = Chain((Bounds(high=3.0, outside="veto"), Cap(limit=1.0)))
    assert bound(chain, blank(1)).tolist() == [1.0]
    assert exact(chain, blank(1)).tolist() == [1.0]


def test_a_person_before_bounds_by_hand() -> None:
    """p = 0.6 before bounds that keep two of the arms: 0.6·1; before a constant: 0.6·0."""
    who = Approval(person(constant(0.6)))
    assert bound(Chain((who, Bounds(1.0, 2.0))), blank(1)).tolist() == [0.6]
    assert bound(Chain((who, Bounds(2.0, 2.0))), blank(1)).tolist() == [0.0]
    two = Chain((who, Approval(person(constant(0.5)), name="two"), Bounds(1.0, 4.0)))
    assert bound(two, blank(1)).tolist() == [0.3]
    np.testing.assert_allclose(exact(two, blank(1)), 0.3, atol=1e-12)


def test_no_gate_passes_everything_on() -> None:
    """The empty product is 1, and so is η on the cells."""
    assert bound(Chain(), blank(2)).tolist() == [1.0, 1.0]
    assert exact(Chain(), blank(2)).tolist() == [1.0, 1.0]


def gates() -> st.SearchStrategy[Any]:
    """Draw gates of every kind on arms 1, 2 and 4."""
    number = st.sampled_from([0.5, 1.0, 1.5, 2.0, 2.9, 4.0])
    share = st.sampled_from([0.0, 0.3, 0.8, 1.0])

    def bounds(a: float, b: float, outside: str) -> Bounds:
        return Bounds(min(a, b), max(a, b), outside=outside)

    def someone(p: float, to: float, spread: float, veto: float, depends: bool) -> SimulatedPerson:
        return person(by_distance if depends else constant(p), to, spread=spread, veto=veto)

    people = st.builds(someone, share, number, share, share, st.booleans())
    return st.one_of(
        st.builds(bounds, number, number, st.sampled_from(["project", "veto"])),
        st.builds(lambda limit: Cap(limit=limit), number),
        st.builds(lambda to, high: Shield(fallback=(to,), high=high), number, number),
        st.builds(lambda p: Approval(p), people),
        st.builds(lambda p, high: Review(high=high, person=p), people, number),
    )


@given(some=st.lists(gates(), max_size=4), x=st.floats(-1, 5))
@fixed
def test_the_product_bounds_the_exact_value(some: list[Any], x: float) -> None:
    """Any chain: η on the cells is at most the product over gates, and both lie in [0, 1]."""
    named = [replace(gate, name=f"gate {i}") for i, gate in enumerate(some)]
    chain, context = Chain(tuple(named), closed=False), rows([[x]])
    eta, limit = exact(chain, context)[0], bound(chain, context)[0]
    assert 0.0 <= eta <= limit + 1e-12
    assert limit <= 1.0


def test_a_gate_that_does_not_say_or_raises_is_bounded_by_one() -> None:
    """Only its own rows: the row beside has what it has alone."""
    e = np.broadcast_to(ARMS[:, None], (2, 3, 1)).copy()
    assert contractions((Fickle(limit=9.0), Cap(limit=0.5)), e, blank(2)).tolist() == [[1, 1]] * 2

    def strict(e: Array, some: Rows) -> Array:
        if (some.x > 0).any():
            raise RuntimeError("no convergence")
        return np.asarray(e[..., 0] <= 0.0)

    chain = Chain((Physics(strict, (0.0,)), Cap(limit=9.0)))
    assert chain.contraction(e, rows([[0.0], [1.0]])).tolist() == [[0.0, 0.0], [1.0, 1.0]]


def test_is_mixed_reads_nothing_as_one_action() -> None:
    """NaN in one column or in all is the same nothing."""
    nan = np.nan
    e = np.array([[[nan, 1.0], [2.0, nan]], [[nan, nan], [1.0, 1.0]], [[1.0, 2.0], [1.0, 3.0]]])
    assert is_mixed(e).tolist() == [False, True, True]


# On arm cells --------------------------------------------------------------------------------


def test_cells_by_hand() -> None:
    """Arms 1, 2, 4: 1.4 is the first arm's, 2.9 the second's (0.45 of a step), 9 off, NaN nothing.

    Half-way, at 3, it is still the second's.
    """
    e = np.array([[[1.4], [2.9], [3.0], [9.0], [np.nan], [4.0]]])
    assert arm_cells(tracking(), e, np.ones((1, 1, 1)), np.zeros((1, 1))).tolist() == [
        [0, 1, 1, 3, 4, 2]
    ]


def test_a_kernel_by_hand() -> None:
    """Approve 0.6; else veto 0.25, else 2 with ½ and off the arms (2 ± 40) with ½."""
    gate = Chain((Approval(person(constant(0.6), 2.0, spread=40.0, veto=0.25)),), closed=False)
    kernel = cell_kernel(tracking(gate=gate), blank(1), np.ones((1, 1, 1)))[0]
    expected = [[0.6, 0.15, 0, 0.15, 0.1], [0, 0.75, 0, 0.15, 0.1], [0, 0.15, 0.6, 0.15, 0.1]]
    np.testing.assert_allclose(kernel, expected, atol=1e-12)


@pytest.mark.parametrize("name", catalogue.NAMES)
def test_without_gates_arms_stay_where_they_are(name: str) -> None:
    """Every shipped instance: arms are found in their own cell, or in the first at their place."""
    instance = catalogue.load(name).instance
    open_to_all = replace(instance, gate=Chain())
    x = np.full((2, instance.context.width), 0.7)
    state = instance.scaler.init(1)
    delta = instance.scaler.predict(state, np.zeros(2, dtype=np.int64), x)
    kernel = cell_kernel(open_to_all, rows(x), delta)
    actions = instance.composition.compose(instance.space, delta, x)
    cells = arm_cells(instance, actions, delta, x)
    assert (np.take_along_axis(kernel, cells[..., None], axis=-1) == 1.0).all()
    np.testing.assert_array_equal(kernel.sum(axis=-1), 1.0)
    for row in range(2):
        for arm, cell in enumerate(cells[row]):
            np.testing.assert_allclose(actions[row, arm, 0], actions[row, cell, 0], rtol=1e-9)


def test_a_kernel_is_what_apply_samples() -> None:
    """Shares of 40,000 verdicts lie within 4.5 standard errors of the kernel."""
    n = 40_000
    chain = Chain((Cap(limit=3.5), Approval(person(by_distance, 1.0, veto=0.3)), Bounds(0.9, 3.0)))
    instance, some = tracking(gate=chain), rows(np.full((n, 1), 1.5))
    delta = np.ones((n, 1, 1))
    kernel = cell_kernel(instance, some.take(slice(0, 1)), delta[:1])[0]
    for arm in range(3):
        verdict = chain.apply(chain.draw(stream(arm), n), np.full((n, 1), ARMS[arm]), some)
        cells = arm_cells(instance, verdict.action[:, None], delta, some.x)[:, 0]
        share = np.bincount(cells, minlength=5) / n
        error = np.sqrt(kernel[arm] * (1.0 - kernel[arm]) / n)
        assert (np.abs(share - kernel[arm]) <= ERRORS * error + 1e-12).all()


def test_kernels_add_up_and_rows_keep_apart() -> None:
    """Every arm's row is a law; with and without a learned kernel; batch equals loop."""
    who = Approval(person(by_distance, 2.2, spread=0.5, veto=0.3), NumberKernel())
    instance = tracking(gate=Chain((who, Bounds(0.9, 3.0))))
    some = rows(rng_of(3).uniform(-1, 5, size=(40, 1)))
    chain = instance.chain
    kernels = chain.init_kernels(1, 1, 1)
    verdict = chain.apply(chain.draw(stream(1), 40), np.full((40, 1), 2.0), some)
    chain.learn(kernels, some, verdict)
    delta = np.ones((40, 1, 1))
    for known in (None, kernels):
        kernel = cell_kernel(instance, some, delta, known)
        assert kernel.shape == (40, 3, 5)
        assert (kernel >= 0).all()
        np.testing.assert_allclose(kernel.sum(axis=-1), 1.0, atol=1e-12)
        for i in (0, 7, 39):
            one = cell_kernel(instance, some.take(slice(i, i + 1)), delta[:1], known)
            assert bytes_of(one[0]) == bytes_of(kernel[i])
    assert bytes_of(kernel) != bytes_of(cell_kernel(instance, some, delta))


def test_a_gate_that_fails_lets_nothing_run() -> None:
    """The row that makes it raise has all its mass on 'nothing runs', and so η = 0."""
    instance = tracking(gate=Chain((Fickle(limit=1.0),)))
    kernel = cell_kernel(instance, rows([[0.0], [2.0]]), np.ones((2, 1, 1)))
    assert kernel[1].tolist() == [[0, 0, 0, 0, 1]] * 3
    assert dobrushin(kernel).tolist() == [1.0, 0.0]


def test_dobrushin_by_hand_and_with_a_mask() -> None:
    """Distances 0.3, 0.2 and 0.1; without arm 1 only 0.2 is left; one arm alone has 0."""
    kernel = np.array([[0.8, 0.2], [0.5, 0.5], [0.6, 0.4]])
    assert dobrushin(kernel).tolist() == pytest.approx(0.3)
    masks = np.array([[True, True, True], [True, False, True], [False, True, False]])
    found = dobrushin(np.tile(kernel, (3, 1, 1)), masks)
    np.testing.assert_allclose(found, [0.3, 0.2, 0.0], atol=1e-12)


# The inequality ------------------------------------------------------------------------------


def laws(n: int) -> st.SearchStrategy[Array]:
    """Draw a probability vector, zeros among it."""
    weights = st.lists(st.integers(0, 5), min_size=n, max_size=n).filter(any)
    return weights.map(lambda w: np.array(w, dtype=float) / sum(w))


def tv(p: Array, q: Array) -> float:
    """Return ½‖p − q‖₁."""
    return float(0.5 * np.abs(p - q).sum())


@given(first=laws(4), second=laws(4), kernel=st.lists(laws(6), min_size=4, max_size=4))
@fixed
def test_executed_laws_differ_by_at_most_eta_times_the_proposed(
    first: Array, second: Array, kernel: list[Array]
) -> None:
    """TV(π₀P, π₁P) ≤ η·TV(π₀, π₁), whatever the kernel; η = 0: the gate decides all."""
    table = np.array(kernel)
    limit = float(dobrushin(table)) * tv(first, second)
    assert tv(first @ table, second @ table) <= limit + 1e-12


@given(first=laws(3), second=laws(3), p=st.sampled_from([0.0, 0.25, 0.7, 1.0]))
@fixed
def test_approve_with_p_else_own_makes_it_an_equality(
    first: Array, second: Array, p: float
) -> None:
    """Through a real gate's kernel: TV of the executed laws is p times that of the proposed."""
    gate = Chain((Approval(person(constant(p), 2.0, veto=0.2)),), closed=False)
    kernel = cell_kernel(tracking(gate=gate), blank(1), np.ones((1, 1, 1)))[0]
    assert tv(first @ kernel, second @ kernel) == pytest.approx(p * tv(first, second), abs=1e-12)


# From a log ----------------------------------------------------------------------------------


def sample(rng: Any, kernel: Array, entered: Array) -> Array:
    """Draw what leaves, by inverting every row's law."""
    edges = kernel.cumsum(axis=1)[entered, :-1]
    return np.asarray((rng.random(entered.size)[:, None] >= edges).sum(axis=1))


def approving(p: float) -> Array:
    """Return the kernel of 'approve with p, else arm 1' on three arms."""
    kernel = np.zeros((3, 5))
    kernel[:, 1] = 1.0 - p
    kernel[np.arange(3), np.arange(3)] += p
    return kernel


REPEATS = 1000
# Misses are Binomial(1000, ≤ 5 %): more than 90 has a chance below 1e-6.
MISSES = 90


@pytest.mark.parametrize("design", ["fixed", "adaptive"])
@pytest.mark.parametrize("p", [0.0, 0.6, 1.0])
def test_the_upper_limit_covers(p: float, design: str) -> None:
    """1,000 logs of 30 rows an arm, η = p: at most 5 % of the limits lie below it.

    Monte-Carlo error of the share: 0.7 %.
    """
    rng, kernel, entered = rng_of(7), approving(p), np.repeat([0, 1, 2], 30)
    found = [
        estimate_contraction(entered, sample(rng, kernel, entered), 5, design=design)
        for _ in range(REPEATS)
    ]
    assert sum(one.upper < p - 1e-12 for one in found) <= MISSES
    assert np.mean([one.estimate for one in found]) >= p - 1e-12  # biased upwards, if at all


def test_the_estimate_is_biased_upwards() -> None:
    """Three arms with one and the same law on five cells, η = 0, 20 rows each: η̂ is about 0.35."""
    rng, entered = rng_of(6), np.repeat([0, 1, 2], 20)
    kernel = np.full((3, 5), 0.2)
    found = [estimate_contraction(entered, sample(rng, kernel, entered), 5) for _ in range(200)]
    assert 0.3 < np.mean([one.estimate for one in found]) < 0.4


def test_the_upper_limit_covers_where_it_is_tightest() -> None:
    """Two arms and two cells, (¾, ¼) against (¼, ¾), η = ½, 50 rows each: no slack from a maximum.

    The limit adds √(½·ln 20·0.04) = 0.245, or 2.83 standard deviations: some 0.3 % of 4,000 logs
    miss, so the limit is no empty 1, and no more than 5 % do.
    """
    rng, kernel = rng_of(8), np.array([[0.75, 0.25, 0.0], [0.25, 0.75, 0.0]])
    entered = np.repeat([0, 1], 50)
    found = [
        estimate_contraction(entered, sample(rng, kernel, entered), 3).upper for _ in range(4000)
    ]
    assert 0 < sum(upper < 0.5 for upper in found) <= 60


def test_the_upper_limit_covers_an_adaptive_design() -> None:
    """Arms that were changed more often are proposed less: still at most 5 % of limits miss."""
    rng, kernel = rng_of(9), np.array([[0.75, 0.25, 0.0, 0.0], [0.25, 0.75, 0.0, 0.0]])
    misses = 0
    for _ in range(300):
        kept, entered, left = np.ones(2), [], []
        for t in range(80):
            arm = t % 2 if t < 4 else int(rng.random() * kept.sum() > kept[0])
            cell = int(sample(rng, kernel, np.array([arm]))[0])
            kept[arm] = 0.9 * kept[arm] + 0.1 * (cell == 0) + 0.01
            entered.append(arm)
            left.append(cell)
        found = estimate_contraction(
            np.array(entered), np.array(left), 4, n_min=2, design="adaptive"
        )
        misses += found.upper < 0.5
    assert misses <= 33  # Binomial(300, 5 %): a chance below 1e-5


def test_the_limit_tightens_with_data() -> None:
    """η = 0.6: with 20,000 rows an arm the limit lies within 0.02 of it."""
    rng, entered = rng_of(10), np.repeat([0, 1, 2], 20_000)
    found = estimate_contraction(entered, sample(rng, approving(0.6), entered), 5)
    assert 0.6 <= found.upper <= 0.62
    assert found.estimate == pytest.approx(0.6, abs=0.02)


def test_strata_are_judged_apart_and_the_worst_counts() -> None:
    """η = 0.2 in one stratum and 0.9 in the other; pooled, they would blur to about a half."""
    rng = rng_of(11)
    entered, stratum = np.tile(np.repeat([0, 1, 2], 3000), 2), np.repeat(["calm", "busy"], 9000)
    left = np.concatenate(
        [sample(rng, approving(p), entered[:9000]) for p in (0.2, 0.9)],
    )
    found = estimate_contraction(entered, left, 5, stratum=stratum)
    assert found.strata.tolist() == ["busy", "calm"]
    np.testing.assert_allclose(found.estimates, [0.9, 0.2], atol=0.04)
    assert found.estimate == found.estimates[0]
    assert found.upper == found.uppers[0]
    assert found.pair is not None
    assert found.pair[0] == "busy"
    assert estimate_contraction(entered, left, 5).estimate == pytest.approx(0.55, abs=0.04)


def test_rare_arms_are_left_out_and_named() -> None:
    """Arm 2 was seen 5 times and arm 0 never in stratum 1: both are named, neither is judged."""
    entered = np.concatenate((np.repeat([0, 1], 40), np.repeat(2, 5), np.repeat(1, 40)))
    left = np.concatenate((np.repeat(0, 80), np.repeat(2, 5), np.repeat(1, 40)))
    stratum = np.repeat([0, 1], [85, 40])
    found = estimate_contraction(entered, left, 5, stratum=stratum)
    assert found.excluded == [(0, 2, 5), (1, 0, 0), (1, 2, 0)]
    assert found.estimate == 0.0
    assert found.pair == (0, 0, 1)
    assert np.isnan(found.estimates[1])
    assert found.uppers[1] == 1.0
    assert found.upper_judged == found.uppers[0] < 1.0
    assert found.upper == 1.0  # of stratum 1 nothing is known


def test_what_entered_off_every_arm_too_rarely_is_named() -> None:
    """Cell 3 of 5 is 'off every arm': seen 4 times in stratum 0, never in stratum 1."""
    entered = np.concatenate((np.repeat([0, 1, 2], 30), np.repeat(3, 4), np.repeat([0, 1, 2], 30)))
    found = estimate_contraction(entered, entered, 5, stratum=np.repeat([0, 1], [94, 90]))
    assert found.excluded == [(0, 3, 4)]
    often = np.repeat([0, 1, 2, 3], 30)
    assert estimate_contraction(often, often, 5).excluded == []


@pytest.mark.parametrize(
    "labels",
    [["calm", "busy"], ["calm", None], [1, "busy"], [(1, "a"), (2, "b")], [True, 2.5]],
    ids=["text", "none", "mixed", "tuples", "numbers"],
)
def test_strata_may_be_objects(labels: list[Any]) -> None:
    """Columns of data frames have labels of any kind: the answer is that of numbered strata."""
    stratum = np.empty(120, dtype=object)
    stratum[:60], stratum[60:] = [labels[0]] * 60, [labels[1]] * 60
    entered, left = np.tile(np.repeat([0, 1], 30), 2), np.tile([0, 1, 0], 40)
    found = estimate_contraction(entered, left, 4, stratum=stratum)
    plain = estimate_contraction(entered, left, 4, stratum=np.repeat([0, 1], 60))
    assert sorted(map(str, found.strata)) == sorted(map(str, labels))
    assert found.pair is not None
    assert found.pair[0] in labels
    assert (found.estimate, found.upper) == (plain.estimate, plain.upper)
    ratio = realised_ratio(
        entered, left, left, entered, 4, stratum0=stratum, stratum1=stratum[::-1].copy()
    )
    assert ratio.dropped == []


def test_dropped_strata_may_be_objects() -> None:
    """Only the first period has rows without a label."""
    stratum = np.array(["calm"] * 20 + [None] * 10, dtype=object)
    found = realised_ratio(ONE, ONE, ONE, ONE, 4, stratum0=stratum, stratum1=np.repeat("calm", 30))
    assert found.dropped == [None]


def test_with_one_arm_nothing_is_said() -> None:
    """No pair, no estimate; the limit is 1."""
    found = estimate_contraction(np.zeros(50, dtype=int), np.zeros(50, dtype=int), 4)
    assert np.isnan(found.estimate)
    assert found.upper == 1.0
    assert found.pair is None


ONE = np.zeros(30, dtype=int)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: estimate_contraction(ONE, ONE[:5], 4), "expected columns of one length"),
        (lambda: estimate_contraction(ONE, ONE, 4, stratum=ONE[:4]), "columns of one length"),
        (lambda: estimate_contraction(ONE + 3, ONE, 4), "is 'nothing', which cannot enter"),
        (lambda: estimate_contraction(ONE + 4, ONE, 4), "entered_cell: expected cells 0 to 3"),
        (lambda: estimate_contraction(ONE, ONE - 1, 4), "left_cell: expected cells 0 to 3"),
        (lambda: estimate_contraction(ONE, ONE + 0.5, 4), "left_cell: expected a column of whole"),
        (lambda: estimate_contraction(ONE[:0], ONE[:0], 4), "expected a column of whole"),
        (lambda: estimate_contraction(ONE, ONE, 2), "n_cells: expected a number >= 3"),
        (lambda: estimate_contraction(ONE, ONE, 4, level=1.0), "level: expected a number"),
        (lambda: estimate_contraction(ONE, ONE, 4, level=np.nan), "level: expected a finite"),
        (lambda: estimate_contraction(ONE, ONE, 4, n_min=0), "n_min: expected a number >= 1"),
        (lambda: estimate_contraction(ONE, ONE, 4, design="odd"), "design: expected one of"),
        (lambda: realised_ratio(ONE, ONE, ONE[:3], ONE, 4), "recommended0, executed0, stratum0"),
        (lambda: realised_ratio(ONE, ONE, ONE, ONE, 4, stratum0=ONE), "give both or none"),
        (
            lambda: realised_ratio(ONE, ONE, ONE, ONE, 4, stratum0=ONE, stratum1=ONE + 1),
            "no stratum has rows of both periods",
        ),
        (lambda: realised_ratio(ONE, ONE, ONE, ONE, 4, level=0.2), "level: expected a number"),
    ],
)
def test_bad_input_is_refused(call: Callable[[], Any], message: str) -> None:
    """The message names the argument."""
    with pytest.raises(InvalidInput, match=message):
        call()


# The realised ratio --------------------------------------------------------------------------


Periods = tuple[Array, Array, Array, Array]


def periods(rng: Any, kernel: Array, n: int, first: Any, second: Any) -> Periods:
    """Draw two periods of n rows behind one kernel."""
    one, two = (rng.choice(3, size=n, p=p) for p in (first, second))
    return one, two, sample(rng, kernel, one), sample(rng, kernel, two)


BEFORE, AFTER = [0.7, 0.2, 0.1], [0.1, 0.3, 0.6]


@pytest.mark.parametrize("p", [0.3, 0.8])
def test_the_realised_ratio_of_an_approval_is_p(p: float) -> None:
    """100,000 rows a period: within 0.02 of p, and its interval holds p."""
    log = periods(rng_of(12), approving(p), 100_000, BEFORE, AFTER)
    found = realised_ratio(*log, n_cells=5)
    assert found.ratio == pytest.approx(p, abs=0.02)
    assert found.low <= p <= found.high
    assert found.recommended == pytest.approx(0.6, abs=0.01)
    assert found.executed == pytest.approx(found.ratio * found.recommended)


def approved(rng: Any, n: int, p: float, k: int, first: Any, second: Any) -> Periods:
    """Draw two periods of n rows behind 'approve with p, else any of the k arms'."""

    def ran(entered: Array) -> Array:
        return np.where(rng.random(n) < p, entered, rng.integers(0, k, n))

    one, two = (rng.choice(k, size=n, p=law) for law in (first, second))
    return one, two, ran(one), ran(two)


TEN = (np.r_[0.3, 0.3, np.full(8, 0.05)], np.r_[0.1, 0.1, np.full(8, 0.1)])  # TV 0.4
TWO = (np.array([0.6, 0.4]), np.array([0.4, 0.6]))  # TV 0.2


@pytest.mark.parametrize(
    ("n", "p", "laws"),
    [
        (200, 0.1, TEN),
        (1000, 0.1, TEN),
        (5000, 0.1, TEN),
        (200, 0.5, TEN),
        (1000, 0.5, TEN),
        (5000, 0.5, TEN),
        (1000, 0.0, TEN),
        (200, 0.1, TWO),
        (1000, 0.5, TWO),
    ],
)
def test_the_interval_covers(n: int, p: float, laws: Any) -> None:
    """300 pairs of periods: 95 % intervals hold p in at least 90 %, strong gates included.

    With p = 0.1 and 200 rows, what ran differs by 0.04 and noise makes 0.12 of it. Binomial(300,
    95 %) falls below 90 % with a chance of 2e-4. What is measured: 94 % (two arms) to 100 %.
    """
    rng = rng_of(13)
    found = [
        realised_ratio(*approved(rng, n, p, laws[0].size, *laws), n_cells=laws[0].size + 2)
        for _ in range(300)
    ]
    assert sum(one.low <= p <= one.high for one in found) >= 270


def test_the_interval_tightens_with_data() -> None:
    """5,000 rows, ten arms: no wider than 0.2 at p = 0.1 and 0.12 at p = 0.5, and ratios near p."""
    rng = rng_of(15)
    for p, width in ((0.1, 0.2), (0.5, 0.12)):
        found = [realised_ratio(*approved(rng, 5000, p, 10, *TEN), n_cells=12) for _ in range(20)]
        assert max(one.high - one.low for one in found) < width
        assert np.mean([one.ratio for one in found]) == pytest.approx(p, abs=0.04)


def test_the_interval_covers_within_strata() -> None:
    """Four strata of 100 rows a period, p = 0.1: averaging their noises does not help a plug-in."""
    rng, stratum, held = rng_of(16), np.arange(400) % 4, 0
    for _ in range(300):
        log = approved(rng, 400, 0.1, 10, *TEN)
        found = realised_ratio(*log, n_cells=12, stratum0=stratum, stratum1=stratum)
        held += found.low <= 0.1 <= found.high
    assert held >= 270


def test_without_a_difference_the_variations_are_near_zero() -> None:
    """The same law in both periods, 200 rows and ten arms: plug-in TV 0.12, corrected below 0.03.

    The mean over 200 logs; a value below 0 is given as 0. high then has no end more often than not.
    """
    rng, same = rng_of(17), np.full(10, 0.1)
    found = [
        realised_ratio(*approved(rng, 200, 0.5, 10, same, same), n_cells=12) for _ in range(200)
    ]
    assert np.mean([one.recommended for one in found]) < 0.03
    assert np.mean([one.executed for one in found]) < 0.03
    assert np.mean([np.isinf(one.high) for one in found]) > 0.5


def test_rows_that_all_agree_are_no_certainty() -> None:
    """40 rows a period, all of which ran as cell 1: an approval rate of 2 % is not ruled out.

    TV 1 was recommended; Fieller with two pseudo-rows: high = 1.96·√(2·¼·(2/42)/40) = 0.048.
    """
    zero, one = np.zeros(40, dtype=int), np.ones(40, dtype=int)
    found = realised_ratio(zero, one * 2, one, one, n_cells=5)
    assert (found.ratio, found.low) == (0.0, 0.0)
    assert found.high == pytest.approx(0.048, rel=0.05)


@given(kernel=st.lists(laws(5), min_size=3, max_size=3), seed=st.integers(0, 99))
@fixed
def test_within_strata_the_ratio_is_at_most_eta(kernel: list[Array], seed: int) -> None:
    """Rows that carry their exact shares: the ratio is exact, and at most the largest η.

    Every arm's rows leave in exactly the shares of its stratum's kernel (120 rows are divisible).
    """
    rng = rng_of(seed)
    tables = [np.array(kernel), approving(0.5)]
    columns: list[list[Array]] = [[] for _ in range(6)]
    for stratum, table in enumerate(tables):
        for period in range(2):
            arms = np.repeat(np.arange(3), rng.integers(1, 4, size=3))
            parts = np.rint(table * 2520).astype(int)
            parts[np.arange(3), table.argmax(axis=1)] += 2520 - parts.sum(axis=1)
            entered = np.repeat(arms, 2520)
            left = np.concatenate([np.repeat(np.arange(5), parts[arm]) for arm in arms])
            for column, values in enumerate((entered, left, np.full(entered.size, stratum))):
                columns[2 * column + period].append(values)
    r0, r1, e0, e1, s0, s1 = (np.concatenate(column) for column in columns)
    found = realised_ratio(r0, r1, e0, e1, 5, stratum0=s0, stratum1=s1)
    eta = max(float(dobrushin(table)) for table in tables)
    # Shares are rounded to 1/2520, and cells without a difference lower both sums by some noise.
    assert found.executed <= eta * found.recommended + 0.01


def test_strata_of_one_period_are_dropped() -> None:
    """'b' was only seen before, 'c' only after: both are named, 'a' is compared."""
    r0, r1 = np.repeat([0, 1], [200, 100]), np.repeat(1, 300)
    names0, names1 = np.repeat(["a", "b"], [200, 100]), np.repeat(["a", "c"], [200, 100])
    found = realised_ratio(r0, r1, r0, r1, 4, stratum0=names0, stratum1=names1)
    assert found.dropped == ["b", "c"]
    assert (found.recommended, found.executed, found.ratio) == pytest.approx((1.0, 1.0, 1.0))


def test_equal_recommendations_have_no_ratio() -> None:
    """0/0 is no number, though what ran may differ."""
    found = realised_ratio(ONE, ONE, ONE, ONE + 1, 4)
    assert np.isnan([found.ratio, found.low, found.high]).all()
    assert (found.recommended, found.executed) == pytest.approx((0.0, 1.0))


def test_halving_rows_by_hand() -> None:
    """The closed form is the mean over 20,000 random halvings, within 4.5 standard errors.

    Cells of 60, 30 and 10 in 100 rows against 50, 30 and 20: signs from one half, differences from
    the other.
    """
    rng, counts = rng_of(18), np.array([[60.0, 30.0, 10.0], [50.0, 30.0, 20.0]])
    value, _ = halved(counts[0], counts[1])
    halves = np.stack([rng.multivariate_hypergeometric(c.astype(int), 50, 20_000) for c in counts])
    here = (halves[0] - halves[1]) / 50
    there = (counts[0] - halves[0] - counts[1] + halves[1]) / 50
    # Halves of finite rows tie now and then: the sign of 0 is 0, which adds 0 either way.
    seen = np.sign(here) * there
    error = seen.std(axis=0) / np.sqrt(20_000)
    np.testing.assert_array_less(np.abs(seen.mean(axis=0) - value), 4.5 * error + 0.004)


def test_results_read_as_one_line() -> None:
    """Estimate, limit and what they leave out; the numbers are those of hand arithmetic."""
    entered = np.repeat([0, 1], 100)
    left = np.repeat([0, 1, 0, 1], [80, 20, 20, 80])
    found = estimate_contraction(entered, left, n_cells=4)
    assert str(found) == "η̂ = 0.600 (cells 0 and 1), η ≤ 0.773 at 95 %"
    calm = np.repeat(["calm", "rush"], [195, 5])
    text = str(estimate_contraction(entered, left, n_cells=4, stratum=calm))
    assert "(cells 0 and 1 in stratum calm), η ≤ 1.000 at 95 %, ≤ 0.7" in text
    assert text.endswith("in the judged strata (1 of 2); entered too rarely to be judged: 2")
    none = str(estimate_contraction(entered[:3], left[:3], n_cells=4))
    assert none.startswith("η̂ is not known, η ≤ 1: no stratum was judged (0 of 1)")


def test_a_ratio_reads_as_one_line() -> None:
    """Half of what was proposed differently ran differently; without a difference there is none."""
    zero, half = np.zeros(100, dtype=int), np.repeat([0, 1], 50)
    text = str(realised_ratio(zero, zero + 1, zero, half, n_cells=4))
    assert text.startswith("ratio 0.500, 0.4")
    assert text.endswith(": TV 0.500 of what ran over 1.000 of what was proposed")
    text = str(realised_ratio(zero, zero, zero, zero, 4, stratum0=half, stratum1=zero))
    assert text.startswith("no ratio, what was proposed differs no more than by noise: TV 0.000")
    assert text.endswith("; strata of one period only: 1")
