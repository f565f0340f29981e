"""Beta-Thompson: counts by hand, SciPy's posterior, and sums that add up in any order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from gdcb import records
from gdcb.arms import ArmList
from gdcb.bandits import BetaState, BetaThompson
from gdcb.errors import InvalidInput
from gdcb.records import Evidence, Located, Setting
from tests.parts.builders import bytes_of, evidence, evidences, fixed, rng_of, stream, take

ARMS = ArmList(values=(0.8, 1.0, 1.25)).build()
BANDIT = BetaThompson()
CELLS = np.zeros(4, dtype=np.int64)


def learned(*batches: Evidence, bandit: BetaThompson = BANDIT) -> BetaState:
    """Return the state of four cells after some batches."""
    state = bandit.init(CELLS, ARMS)
    for batch in batches:
        bandit.update(state, batch)
    return state


def test_counts_by_hand() -> None:
    """Prior Beta(1, 1); wins 1, 1 and a loss on arm 2: Beta(3, 2), mean 3/5, others 1/2."""
    state = learned(evidence([1, 1, 1], [2, 2, 2], [1, 1, 0]))
    assert state.counts[1, :, 2].tolist() == [3.0, 2.0]
    assert BANDIT.mean(state, Setting(np.array([1, 0])), ARMS.nominal).tolist() == [
        [0.5, 0.5, 0.6],
        [0.5, 0.5, 0.5],
    ]


def test_weights_and_shares_by_hand() -> None:
    """Weight 2 on y = ¼ adds 2·¼ = ½ to α and 2·¾ = 1.5 to β: Beta(2.5, 3.5) from (2, 2)."""
    bandit = BetaThompson(wins=2.0, losses=2.0)
    state = learned(evidence([0], [1], [0.25], weight=[2.0]), bandit=bandit)
    assert state.counts[0, :, 1].tolist() == [2.5, 3.5]


def test_posterior_is_bayes_rule() -> None:
    """Prior density times likelihood, integrated numerically, has the posterior's moments."""
    bandit, y = BetaThompson(wins=2.01, losses=1.74), [1, 0, 0, 1, 1, 0, 1]
    state = learned(evidence([0] * 7, [0] * 7, y), bandit=bandit)
    prior = stats.beta(2.01, 1.74)

    def moment(k: int) -> float:
        def density(p: float) -> float:
            return float(p**k * prior.pdf(p) * p ** sum(y) * (1 - p) ** (7 - sum(y)))

        return float(integrate.quad(density, 0, 1, epsabs=0, epsrel=1e-12)[0])

    mean, second = moment(1) / moment(0), moment(2) / moment(0)
    ours = stats.beta(*state.counts[0, :, 0])
    assert bandit.mean(state, Setting(CELLS[:1]), ARMS.nominal)[0, 0] == pytest.approx(
        mean, rel=1e-10
    )
    assert ours.var() == pytest.approx(second - mean**2, rel=1e-8)


def test_draws_follow_the_posterior() -> None:
    """Draws of each arm pass Kolmogorov–Smirnov against SciPy (false alarm 1e-3 over 6)."""
    rng = rng_of(1)
    state = learned(evidence([2] * 60, rng.integers(0, 3, 60), rng.integers(0, 2, 60)))
    for block in (1, 500):
        draws = BANDIT.draw(stream(31, block), state, Setting(np.full(4000, 2)))
        for k in range(3):
            p = stats.kstest(draws[:, k], stats.beta(*state.counts[2, :, k]).cdf).pvalue
            assert p > 1e-3 / 6


def test_values_of_located_actions() -> None:
    """An action has its nearest arm's value; one comparable to none has the prior mean."""
    bandit = BetaThompson(wins=1.0, losses=3.0)
    located = Located(np.array([[2, -1, 0]]), np.zeros((1, 3, 1)), lambda: np.zeros((1, 3)))
    assert bandit.value(np.array([[0.1, 0.2, 0.3]]), located).tolist() == [[0.3, 0.25, 0.1]]
    assert bandit.value(np.array([[0.1, 0.2, 0.3]]), ARMS.nominal).tolist() == [[0.1, 0.2, 0.3]]


@given(some=evidences(4, ARMS.coords, is_class=True), seed=st.integers(0, 99))
@fixed
def test_batch_equals_loop_in_any_order(some: Evidence, seed: int) -> None:
    """One batch, rows one by one, and rows in another order give the same counts."""
    n = some.cell.size
    batch = learned(some)
    loop = learned(*(take(some, [i]) for i in range(n)))
    mixed = learned(take(some, rng_of(seed).permutation(n)))
    np.testing.assert_allclose(loop.counts, batch.counts, rtol=0, atol=1e-10)
    np.testing.assert_allclose(mixed.counts, batch.counts, rtol=0, atol=1e-10)


@given(some=evidences(4, ARMS.coords, is_class=True))
@fixed
def test_uncredited_and_weightless_rows_teach_nothing(some: Evidence) -> None:
    """Leaving out rows of arm −1 or weight 0 leaves the same bytes."""
    kept = np.flatnonzero((some.arm >= 0) & (some.weight > 0))
    expected = learned(take(some, kept)) if kept.size else learned()
    assert records.to_bytes(learned(some)) == records.to_bytes(expected)


@given(some=evidences(3, ARMS.coords, is_class=True))
@fixed
def test_other_cells_keep_their_bytes(some: Evidence) -> None:
    """Rows of cells 0 to 2 leave cell 3 as it was, and each of them learns from its own only."""
    state = learned(some)
    assert bytes_of(state.counts[3]) == bytes_of(learned().counts[3])
    for cell in range(3):
        own = learned(take(some, some.cell == cell))
        np.testing.assert_allclose(state.counts[cell], own.counts[cell], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [1.0, 1.5]}, r"Beta-Thompson: expected outcomes in \[0, 1\], got"),
        ({"y": [1.0, -0.1]}, r"Beta-Thompson: expected outcomes in \[0, 1\], got"),
        ({"y": [1.0, np.nan]}, r"Beta-Thompson: expected outcomes in \[0, 1\], got"),
        ({"scale": [1.0, 1.0]}, r"Beta-Thompson: learns classes and takes no reward scale"),
    ],
)
def test_bad_evidence_is_refused_whole(change: dict[str, Any], message: str) -> None:
    """A bad row is refused, and the good row beside it has not been learned either."""
    state = learned(evidence([0], [1], [1.0]))
    before = records.to_bytes(state)
    with pytest.raises(InvalidInput, match=message):
        BANDIT.update(state, evidence(**({"cell": [0, 1], "arm": [0, 1], "y": [1, 0]} | change)))
    assert records.to_bytes(state) == before


@pytest.mark.parametrize("name", ["wins", "losses"])
@pytest.mark.parametrize("value", [0.0, -1.0, 0.04, np.nan, "1"])
def test_bad_priors_are_refused(name: str, value: Any) -> None:
    """A prior below 0.05 pseudo-counts makes draws that underflow; it is refused by name."""
    with pytest.raises(InvalidInput, match=f"bandit.{name}: expected a"):
        BetaThompson(**{name: value})
