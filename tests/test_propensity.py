"""Propensities: formula, quadrature and repetition agree, and the executed law follows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from gdcb import round as turn
from gdcb.analysis.propensity import propensity
from gdcb.arms import ArmList
from gdcb.arrays import Array
from gdcb.bandits import (
    BetaThompson,
    CurveThompson,
    HierarchicalThompson,
    LinearThompson,
    LinearUCB,
)
from gdcb.composition import Identity, Multiply
from gdcb.context import Number, Schema
from gdcb.errors import InvalidInput
from gdcb.gates import Approval, Bounds, Cap, Chain, NumberKernel, SimulatedPerson
from gdcb.instance import Instance
from gdcb.records import Evidence, Rows
from gdcb.rewards import Payoff
from tests.parts.builders import rng_of

SCHEMA = Schema({"x": Number(-9, 9)})


def instance(n_arms: int) -> Instance:
    names = tuple(f"arm {i}" for i in range(n_arms))
    return Instance(context=SCHEMA, arms=ArmList(names=names), composition=Identity())


def priced(*gates: Any, **settings: Any) -> Instance:
    return Instance(
        context=SCHEMA,
        arms=ArmList(values=(1.0, 2.0, 4.0)),
        composition=Multiply(),
        gate=Chain(tuple(gates), closed=False),
        reward=Payoff(outcome=("booked",), action=0),
        **settings,
    )


def rows(n: int, mask: Array | None = None) -> Rows:
    zero = np.zeros(n, dtype=np.int64)
    return Rows(zero, zero, rng_of(1).normal(size=(n, 1)), mask)


def taught(domain: Instance, bandit: Any, n: int, binary: bool) -> tuple[Any, turn.RoundState]:
    """Return a learner that saw n rows spread over the arms."""
    bandit = domain.bind(bandit)
    state = turn.init(domain, bandit, np.zeros(1, dtype=np.int64))
    rng, k = rng_of(2), domain.space.n
    arm = rng.integers(0, k, n)
    y = (rng.uniform(size=n) < (arm + 1) / (k + 2)).astype(float)
    y = y if binary else y + rng.normal(size=n)
    x = rng.normal(size=(n, 1))
    coord = domain.space.coords[arm]
    zero = np.zeros(n, dtype=np.int64)
    bandit.update(state.bandit, Evidence(zero, arm, coord, y, None, np.ones(n), x))
    return bandit, state


def test_two_normal_arms_have_a_formula() -> None:
    """P(a) = Φ((μ_a − μ_b)/√(σ_a² + σ_b²)), and the quadrature finds the same to 1e-7."""
    domain = instance(2)
    bandit, state = taught(domain, LinearThompson(), 12, binary=False)
    found = propensity(domain, bandit, state, rows(3))
    assert found.method == "exact"
    assert (found.error == 0).all()
    checked = propensity(domain, bandit, state, rows(3), method="quadrature")
    assert checked.method == "quadrature"
    assert checked.proposed == pytest.approx(found.proposed, abs=1e-6)


def test_beta_arms_by_quadrature_are_the_integral() -> None:
    """∫ f_a Π F_b by SciPy's adaptive rule, to 1e-6, payoffs 1, 2 and 4 included."""
    domain = priced()
    bandit, state = taught(domain, BetaThompson(), 40, binary=True)
    found = propensity(domain, bandit, state, rows(1))
    assert found.method == "quadrature"
    counts, pay = state.bandit.counts[0], (1.0, 2.0, 4.0)
    laws = [stats.beta(counts[0, a], counts[1, a], scale=pay[a]) for a in range(3)]
    for a in range(3):
        others = [laws[b] for b in range(3) if b != a]

        def density(w: float, a: int = a, others: Any = others) -> float:
            return float(laws[a].pdf(w) * np.prod([law.cdf(w) for law in others]))

        exact = integrate.quad(density, 0, pay[a], points=[1.0, 2.0], limit=400)[0]
        assert found.proposed[0, a] == pytest.approx(exact, abs=1e-6)
    assert found.proposed.sum() == pytest.approx(1.0, abs=1e-6)
    assert (found.error < 1e-4).all()


@pytest.mark.parametrize(
    ("bandit", "binary"),
    [(BetaThompson(), True), (HierarchicalThompson(), True), (CurveThompson(), True)],
    ids=["beta", "hierarchical", "curve"],
)
def test_repeating_the_decision_agrees_with_what_is_computed(bandit: Any, binary: bool) -> None:
    """4.5 standard errors for every arm; a curve has no marginals and is repeated anyway."""
    domain = priced()
    learner, state = taught(domain, bandit, 60, binary)
    found = propensity(domain, learner, state, rows(2))
    again = propensity(domain, learner, state, rows(2), method="sampled", draws=20_000, seed=3)
    gap = np.abs(found.proposed - again.proposed)
    slack = 4.5 * np.hypot(again.error, found.error if found.method == "sampled" else 0.0)
    assert (gap <= slack + 1e-3 * (again.error == 0)).all()
    assert again.proposed.sum(axis=1) == pytest.approx([1.0, 1.0])


def test_an_index_is_certain() -> None:
    domain = instance(3)
    bandit, state = taught(domain, LinearUCB(), 20, binary=False)
    found = propensity(domain, bandit, state, rows(5))
    assert found.method == "exact"
    assert (np.sort(found.proposed, axis=1) == [0.0, 0.0, 1.0]).all()


def test_a_mask_leaves_nothing_to_the_arms_it_bars() -> None:
    domain = priced()
    bandit, state = taught(domain, BetaThompson(), 40, binary=True)
    mask = np.array([[True, False, True], [False, True, False]])
    found = propensity(domain, bandit, state, rows(2, mask))
    assert found.proposed[0, 1] == 0.0
    assert found.proposed.sum(axis=1) == pytest.approx([1.0, 1.0], abs=1e-6)
    assert found.proposed[1].tolist() == pytest.approx([0.0, 1.0, 0.0], abs=1e-6)


def test_very_different_widths_are_resolved() -> None:
    """One arm known to 10⁻⁴, one hardly at all: Φ formula to 1e-5."""
    domain = instance(2)
    bandit = domain.bind(LinearThompson(noise=1.0, prior_sd=10.0))
    state = turn.init(domain, bandit, np.zeros(1, dtype=np.int64))
    n = 100
    zero = np.zeros(n, dtype=np.int64)
    x = rng_of(5).normal(size=(n, 1))
    sure = Evidence(zero, zero, np.zeros((n, 1)), np.ones(n), None, np.full(n, 1e6), x)
    bandit.update(state.bandit, sure)
    exact = propensity(domain, bandit, state, rows(4))
    computed = propensity(domain, bandit, state, rows(4), method="quadrature")
    assert computed.proposed == pytest.approx(exact.proposed, abs=1e-5)


def test_gates_that_move_an_arm_are_repeated_and_their_cells_filled() -> None:
    """Behind a cap of 2 the arms 2 and 4 are one cell: what runs is counted there."""
    domain = priced(Cap(limit=2.0))
    bandit, state = taught(domain, CurveThompson(), 60, binary=True)
    found = propensity(domain, bandit, state, rows(2), draws=4000)
    assert found.method == "sampled"
    assert found.executed[:, 2:].tolist() == [[0.0, 0.0, 0.0]] * 2
    assert found.executed[:, 1] == pytest.approx(found.proposed[:, 1:].sum(axis=1))


def test_the_executed_law_is_that_of_the_person() -> None:
    """Approve with 0.7, else 2 of their own: cell 2 has 0.3 + 0.7·π(2), the others 0.7·π(a)."""
    person = SimulatedPerson(
        lambda e, _: np.full(e.shape[:2], 0.7), lambda rows: np.full((rows.n, 1), 2.0)
    )
    domain = priced(Approval(person, NumberKernel()), Bounds(low=0.0, high=9.0))
    bandit, state = taught(domain, BetaThompson(), 40, binary=True)
    truth = turn.RoundState(state.bandit, state.scaler, (None, None), state.null, state.contrast)
    found = propensity(domain, bandit, truth, rows(1), draws=4000)
    expected = 0.7 * found.proposed[0] + [0.0, 0.3, 0.0]
    assert found.executed[0, :3] == pytest.approx(expected, abs=1e-12)
    assert found.executed.sum() == pytest.approx(1.0)


def test_the_same_seed_gives_the_same_estimate_and_rows_do_not_feel_each_other() -> None:
    domain = priced()
    bandit, state = taught(domain, BetaThompson(), 12, binary=True)
    asked: Any = {"method": "sampled", "draws": 500}
    twice = [propensity(domain, bandit, state, rows(3), **asked, seed=7) for _ in range(2)]
    assert (twice[0].proposed == twice[1].proposed).all()
    other = propensity(domain, bandit, state, rows(3), **asked, seed=8)
    assert (other.proposed != twice[0].proposed).any()
    assert other.error == pytest.approx(np.sqrt(other.proposed * (1 - other.proposed) / 500))


def test_what_cannot_be_computed_is_refused() -> None:
    domain = priced(Cap(limit=2.0))
    bandit, state = taught(domain, CurveThompson(), 30, binary=True)
    with pytest.raises(InvalidInput, match="use method='sampled'"):
        propensity(domain, bandit, state, rows(1), method="quadrature")
    with pytest.raises(InvalidInput, match="method: expected one of auto"):
        propensity(domain, bandit, state, rows(1), method="magic")
    with pytest.raises(InvalidInput, match="draws: expected a number >= 2"):
        propensity(domain, bandit, state, rows(1), draws=1)
