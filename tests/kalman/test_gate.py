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
        is_far = error**2 / s > limit
        refused.append(is_far and waited < patience)
        waited = waited + refused[-1] if is_far else 0
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


def test_a_target_that_goes_on_turning_is_followed() -> None:
    """Half a metre per s² for 30 s, far more than CALM expects: three fixes are refused, no more.

    Were the count to begin again with every fix that is taken, three of four would be.
    """
    z = np.cumsum(np.cumsum(np.r_[np.zeros(30), 5.0 * np.ones(30)])).reshape(60, 1, 1)
    found = filtered(z, gate=0.999).is_gated[:, 0]
    assert found.sum() == 3
    assert found[found.argmax() :][:3].all()


def test_a_gated_filter_goes_on_as_if_it_had_not_stopped() -> None:
    """One step a call, with a fix unseen in between: all has the bits of a whole run."""
    _, z, _ = drives(6, 0.1)
    z = z[:40, :5]
    z[20:] += 60.0
    z[21, 0] = np.nan
    whole = filtered(z, gate=0.99)
    assert whole.is_gated[20:24].sum() > 5
    mean, root, waited = np.zeros(2), np.eye(2), None
    for t in range(40):
        one = kalman_filter(z[t : t + 1], CALM, mean, root, is_root=True, gate=0.99, waited=waited)
        mean, root, waited = one.next_mean, one.next_root, one.next_waited
        np.testing.assert_array_equal(one.is_gated[0], whole.is_gated[t])
        np.testing.assert_array_equal(one.mean[0], whole.mean[t])
    np.testing.assert_array_equal(waited, whole.next_waited)


def manoeuvres(seed: int, wrong: float) -> tuple[Array, Array, Array]:
    """Return as `drives` does 40 tracks that switch between CALM and WILD as `mixed` believes."""
    rng = np.random.default_rng(seed)
    state, is_wild, truth = np.zeros((40, 2)), np.zeros(40, dtype=bool), np.empty((300, 40, 1))
    for t in range(300):
        truth[t] = state @ H.T
        push = np.where(is_wild, 3.0, 0.1)[:, None] * rng.normal(size=(40, 1))
        state = state @ F.T + push @ PUSH.T
        is_wild = rng.random(40) < SWITCH[is_wild.astype(int), 1]
    noise, is_wrong = 0.3 * rng.normal(size=truth.shape), rng.random(truth.shape[:2]) < wrong
    return truth, truth + noise + 10.0 * is_wrong[..., None], is_wrong


def test_modes_that_expect_turns_let_them_in() -> None:
    """The design is right and no fix is wrong: 1 in 1,000 may be refused; 3 in 1,000 are allowed.

    The largest error but 1 % is within a tenth of that without a gate. By the S of all modes 3 %
    were refused. With 2 % of the fixes 10 m off the gate makes that error at least three times
    smaller.
    """
    models = tuple(Model(F, H, q * PUSH @ PUSH.T, 0.09 * ONE) for q in (0.01, 9.0))

    def late(wrong: float, gate: float | None) -> tuple[float, float]:
        truth, z, is_wrong = manoeuvres(7, wrong)
        found = imm(z, models, np.zeros(2), np.eye(2), np.array([0.5, 0.5]), SWITCH, gate=gate)
        error = np.abs(found.mean[20:, :, 0] - truth[20:, :, 0])
        return float(np.quantile(error, 0.99)), float(found.is_gated[~is_wrong].mean())

    assert late(0.0, 0.999)[0] < 1.1 * late(0.0, None)[0]
    assert late(0.0, 0.999)[1] < 0.003
    assert late(0.02, 0.999)[0] < late(0.02, None)[0] / 3.0


def test_settings_of_numpy_are_numbers() -> None:
    _, z, _ = drives(8, 0.02)
    one = filtered(z, gate=np.float64(0.999), gate_patience=np.int64(3), longest_gap=np.int64(5))
    np.testing.assert_array_equal(one.mean, filtered(z, gate=0.999, longest_gap=5).mean)
    assert filtered(z, gate=np.float32(0.999)).is_gated.any()


@pytest.mark.parametrize(
    ("models", "said"),
    [
        ((), "models: expected at least one model, got none"),
        (None, "models: expected a tuple of models, got NoneType"),
        ((CALM, None), "models: expected models, got NoneType"),
    ],
)
def test_what_is_no_model_is_refused(models: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        imm(np.zeros((3, 1, 1)), models, np.zeros(2), np.eye(2), np.ones(1), np.eye(1))


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
        ({"gate": "0.99"}, "gate: expected a probability"),
        ({"gate_patience": -1}, "gate_patience: expected a whole number >= 1, got -1"),
        ({"gate_patience": 1.5}, "gate_patience: expected a whole number >= 1, got 1.5"),
        ({"gate": 0.99, "gate_patience": 0}, "gate_patience: expected a whole number >= 1, got 0"),
    ],
)
def test_other_gates_are_refused(run: Any, more: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        run(np.zeros((3, 1, 1)), **more)
