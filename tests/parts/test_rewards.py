"""Rewards: payoffs of classes, and rewards on a declared scale."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.rewards import Payoff, Scaled
from tests.parts.builders import fixed, rng_of

X = np.array([[30.0, 2.0], [50.0, 0.5]])


def test_a_booking_pays_its_price_by_hand() -> None:
    """Booked at 120 pays 120, not booked pays 0; P = ½ at 120 and 100 is worth 60 and 50."""
    reward = Payoff(action=0)
    e = np.array([[120.0], [100.0]])
    assert reward.reward(np.array([[1.0], [0.0]]), e, X).tolist() == [120.0, 0.0]
    worth = reward.worth(np.full((1, 2), 0.5), e[None], X[:1])
    assert worth.tolist() == [[60.0, 50.0]]


def test_cost_and_loss_by_hand() -> None:
    """Price 120, cost 30, loss −5, P = 0.4: 0.4·90 + 0.6·(−5) = 33."""
    reward = Payoff(action=0, cost=0, lose=-5.0)
    worth = reward.worth(np.array([[0.4]]), np.array([[[120.0]]]), X[:1])
    assert worth[0, 0] == pytest.approx(33.0, abs=1e-12)


def test_without_an_action_column_a_success_pays_one_less_its_cost() -> None:
    """Two rows of cost 2 and ½ (column 1): successes pay 1 − 2 = −1 and 1 − ½ = ½."""
    reward = Payoff(cost=1)
    out = reward.reward(np.ones((2, 1)), np.zeros((2, 1)), X)
    assert out.tolist() == [-1.0, 0.5]


def test_a_payoff_function_is_asked_for_actions_and_contexts() -> None:
    """`win` gets e (N, M, D) and x (N, p) and takes the place of price less cost."""

    def win(e: Array, x: Array) -> Array:
        return np.asarray(e[..., 0] * e[..., 1] - x[:, :1])

    reward = Payoff(win=win, lose=1.0)
    e = np.array([[[10.0, 4.0], [10.0, 5.0]], [[20.0, 4.0], [20.0, 5.0]]])
    # ½·(40−30) + ½·1 = 5.5, ½·(50−30) + ½ = 10.5; ½·(80−50) + ½ = 15.5, ½·50 + ½ = 25.5
    assert reward.worth(np.full((2, 2), 0.5), e, X).tolist() == [[5.5, 10.5], [15.5, 25.5]]


@given(seed=st.integers(0, 1000), p=st.floats(0, 1))
@fixed
def test_worth_is_the_expected_reward(seed: int, p: float) -> None:
    """worth(P) = P·reward(1) + (1 − P)·reward(0) whatever the payoffs."""
    e = rng_of(seed).normal(100, 30, size=(2, 1))
    reward = Payoff(action=0, cost=0, lose=-3.0)
    won, lost = reward.reward(np.ones((2, 1)), e, X), reward.reward(np.zeros((2, 1)), e, X)
    worth = reward.worth(np.full((2, 1), p), e[:, None], X)[:, 0]
    np.testing.assert_allclose(worth, p * won + (1 - p) * lost, rtol=1e-12, atol=1e-12)


def test_classes_are_learned_as_they_are() -> None:
    """A payoff's learner learns y itself, without a scale."""
    target, scale = Payoff().learn(np.array([[1.0], [0.0]]), X)
    assert target.tolist() == [1.0, 0.0]
    assert scale is None
    assert (Payoff().target, Scaled().target) == ("class", "reward")


def test_a_scaled_reward_by_hand() -> None:
    """r = s(x)·v: v = 3 at s = 2 and ½ is worth 6 and 1.5; r itself is learned beside s."""
    reward = Scaled(scale=1)
    assert reward.worth(np.full((2, 1), 3.0), np.zeros((2, 1, 1)), X).ravel().tolist() == [6.0, 1.5]
    target, scale = reward.learn(np.array([[5.0], [1.0]]), X)
    assert target.tolist() == [5.0, 1.0]
    assert scale is not None
    assert scale.tolist() == [2.0, 0.5]
    assert reward.reward(np.array([[5.0], [1.0]]), np.zeros((2, 1)), X).tolist() == [5.0, 1.0]


def test_an_unscaled_reward_is_worth_itself() -> None:
    """Without a scale s = 1."""
    value = np.array([[3.0], [4.0]])
    assert (Scaled().worth(value, np.zeros((2, 1, 1)), X) == value).all()
    assert Scaled().learn(value, X)[1] is None


@pytest.mark.parametrize("bad", [0.5, -1.0, 2.0, np.nan, np.inf])
def test_a_class_is_zero_or_one(bad: float) -> None:
    """Anything else is refused, and the message says what came."""
    reward = Payoff(outcome=("booked",))
    reward.check(np.array([[0.0], [1.0]]))
    with pytest.raises(InvalidInput, match=rf"outcome.booked: expected 0 or 1, got .*{bad:g}"):
        reward.check(np.array([[1.0], [bad]]))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_reward_is_finite(bad: float) -> None:
    """Anything else is refused, and the message says what came."""
    Scaled().check(np.array([[-1e9], [1.0]]))
    with pytest.raises(InvalidInput, match=rf"outcome.reward: expected finite .*{bad:g}"):
        Scaled().check(np.array([[1.0], [bad]]))


@pytest.mark.parametrize(
    ("reward", "bad"), [(Payoff(), 3.0), (Scaled(), np.nan)], ids=["class", "reward"]
)
def test_the_message_shows_the_outcome_that_was_bad(reward: Payoff | Scaled, bad: float) -> None:
    """In a long batch too, the sentence shows the value that cannot be, not the first five."""
    y = np.ones((9, 1))
    y[7] = bad
    with pytest.raises(InvalidInput, match=rf"got .*{bad:g}"):
        reward.check(y)


@pytest.mark.parametrize("part", [Payoff, Scaled])
def test_every_outcome_has_a_name_of_its_own(part: type[Payoff] | type[Scaled]) -> None:
    """What stands behind the first is recorded only, as the tracks do with a measurement."""
    with pytest.raises(InvalidInput, match=r"expected every name once, got sold, sold; .* first"):
        part(outcome=("sold", "sold"))
    for none in ((), ("",), ("sold", " ")):
        with pytest.raises(InvalidInput, match=r"reward.outcome: expected a name or several"):
            part(outcome=none)
    reward, y = part(outcome=("sold", "seen")), np.array([[1.0, 0.5]])
    assert reward.reward(y, X[:1], X[:1]).tolist() == [1.0]
    reward.check(y)
