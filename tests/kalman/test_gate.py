"""The innovation gate: wrong measurements are refused and named, right ones are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.kalman import Model, kalman_filter
from gdcb.kalman.imm import imm

ONE = np.ones((1, 1))
PUSH = np.array([[0.5], [1.0]])
F, H = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0]])
CALM, WILD = (Model(F, H, q * PUSH @ PUSH.T, ONE) for q in (0.01, 1.0))
SWITCH = np.array([[0.98, 0.02], [0.1, 0.9]])


def drives(seed: int, wrong: float, off: float = 10.0) -> tuple[Array, Array, Array]:
    """Return positions and fixes (T, N, 1) of 40 drives of 300 steps, and which fixes are off."""
    rng = np.random.default_rng(seed)
    state, truth = np.zeros((40, 2)), np.empty((300, 40, 1))
    for t in range(300):
        truth[t] = state @ H.T
        state = state @ F.T + 0.1 * rng.normal(size=(40, 1)) @ PUSH.T
    is_wrong = rng.random(truth.shape[:2]) < wrong
    jump = off * rng.choice([-1.0, 1.0], truth.shape)
    return truth, truth + rng.normal(size=truth.shape) + jump * is_wrong[..., None], is_wrong


def filtered(z: Array, **more: Any) -> Any:
    return kalman_filter(z, CALM, np.zeros(2), np.eye(2), **more)


def mixed(z: Array, **more: Any) -> Any:
    models, even = (CALM, WILD), np.array([0.5, 0.5])
    return imm(z, models, np.zeros(2), np.eye(2), even, SWITCH, **more)


def by_hand(z: Array, limit: float, patience: int) -> list[bool]:
    """Gate one track of CALM, with the textbook's matrices."""
    mean, p, refused, waited = np.zeros(2), np.eye(2), [], 0
    for value in z:
        s, error = float((H @ p @ H.T + ONE).item()), float(value - (H @ mean).item())
        refused.append(error**2 / s > limit and waited < patience)
        waited = waited + 1 if refused[-1] else 0
        if not refused[-1]:
            k = (p @ H.T / s)[:, 0]
            mean, p = mean + k * error, p - np.outer(k, H @ p)
        mean, p = F @ mean, F @ p @ F.T + CALM.process
    return refused


@pytest.mark.parametrize("patience", [1, 3])
def test_the_gate_is_the_textbook_s(patience: int) -> None:
    """Which of 5 × 300 fixes are refused, against a loop with plain matrices."""
    _, z, _ = drives(1, 0.05)
    found = filtered(z, gate=0.99, gate_patience=patience).is_gated
    for i in range(5):
        assert found[:, i].tolist() == by_hand(z[:, i, 0], 6.634896601, patience)


@pytest.mark.parametrize("run", [filtered, mixed], ids=["one model", "two models"])
def test_a_gated_measurement_is_one_that_was_not_made(run: Any) -> None:
    """Everything else is what the filter makes of the rest, to the last bit."""
    _, z, _ = drives(2, 0.02)
    found = run(z, gate=0.999)
    assert found.is_gated.any()
    assert np.isnan(found.innovation[found.is_gated]).all()
    z[found.is_gated] = np.nan
    plain = run(z)
    for name in ("mean", "covariance", "innovation", "innovation_covariance", "log_likelihood"):
        np.testing.assert_array_equal(getattr(found, name), getattr(plain, name))
    assert not plain.is_gated.any()


@pytest.mark.parametrize("run", [filtered, mixed], ids=["one model", "two models"])
def test_wrong_fixes_are_found_and_the_error_is_that_of_right_ones(run: Any) -> None:
    """2 % of the fixes are 10 m off: 19 in 20 of them are refused, and hardly any other.

    The largest error but 5 % falls by a quarter or more, to within a tenth of that without them.
    """
    truth, z, is_wrong = drives(3, 0.02)
    plain, gated, clean = run(z), run(z, gate=0.999), run(drives(3, 0.0)[1])
    assert gated.is_gated[is_wrong].mean() > 0.95
    assert gated.is_gated[~is_wrong].mean() < 0.003

    def late(found: Any) -> float:
        return float(np.quantile(np.abs(found.mean[50:, :, 0] - truth[50:, :, 0]), 0.95))

    assert late(gated) < 0.75 * late(plain)
    assert late(gated) < 1.1 * late(clean)


def test_a_target_that_jumped_is_followed_again() -> None:
    """After three refused fixes the fourth is taken, whatever it says."""
    z = np.zeros((60, 1, 1))
    z[30:] = 200.0
    found = filtered(z, gate=0.999)
    assert found.is_gated[30:34, 0].tolist() == [True, True, True, False]
    assert abs(found.mean[-1, 0, 0] - 200.0) < 5.0


def test_innovations_of_several_modes_have_their_covariance() -> None:
    """One mode: those of the Kalman filter, to rounding; two that switch: their mean square is 1.

    Within 0.06: the mean of 10,000 such squares has a standard error of 0.014 where S is right,
    and a mixture kept as one normal law a mode is an approximation.
    """
    _, z, _ = drives(4, 0.0)
    one = imm(z, (CALM,), np.zeros(2), np.eye(2), np.ones(1), np.eye(1))
    plain = filtered(z)
    np.testing.assert_allclose(one.innovation, plain.innovation, atol=1e-9)
    np.testing.assert_allclose(one.innovation_covariance, plain.innovation_covariance, atol=1e-9)
    rng, state, is_wild = np.random.default_rng(5), np.zeros((40, 2)), np.zeros(40, dtype=bool)
    for t in range(300):
        z[t] = state @ H.T + rng.normal(size=(40, 1))
        is_wild = rng.random(40) < SWITCH[is_wild.astype(int), 1]
        push = np.where(is_wild, 1.0, 0.1)[:, None] * rng.normal(size=(40, 1))
        state = state @ F.T + push @ PUSH.T
    both = mixed(z)
    square = both.innovation[50:, :, 0] ** 2 / both.innovation_covariance[50:, :, 0, 0]
    assert square.mean() == pytest.approx(1.0, abs=0.06)


@pytest.mark.parametrize("run", [filtered, mixed], ids=["one model", "two models"])
@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"gate": 1.0}, "gate: expected a probability from 0.5 to below 1, got 1.0"),
        ({"gate": 13.8}, "gate: expected a probability"),
        ({"gate": True}, "gate: expected a probability"),
        ({"gate": 0.99, "gate_patience": 0}, "gate_patience: expected a whole number >= 1, got 0"),
    ],
)
def test_other_gates_are_refused(run: Any, more: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        run(np.zeros((3, 1, 1)), **more)
