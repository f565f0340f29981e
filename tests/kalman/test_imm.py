"""Interacting multiple models: filterpy's, one mode is the filter, batch equals loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.kalman.filter import Model, kalman_filter
from gdcb.kalman.imm import Modes, imm, imm_predict, imm_start, imm_step, imm_update
from tests.kalman.systems import covariances, systems

NAMES = ("predicted", "predicted_covariance", "mean", "covariance", "probability")
STEPS, TRACKS, N, M, MODES = 40, 4, 3, 2, 3


def case(seed: int, by_step: bool = False, missing: float = 0.0) -> dict[str, Any]:
    """Return arguments of `imm` for three modes."""
    rng = np.random.default_rng(seed)
    shape = (STEPS, TRACKS) if by_step else ()
    z = rng.normal(size=(STEPS, TRACKS, M))
    z[rng.random(z.shape) < missing] = np.nan
    return {
        "z": z,
        "models": tuple(
            Model(*systems(seed + j, shape, N, M, decades=0.5, most=1.02)) for j in range(MODES)
        ),
        "mean": rng.normal(size=(TRACKS, N)),
        "covariance": covariances(rng, (TRACKS,), N, 0.5),
        "probability": rng.dirichlet(np.ones(MODES), TRACKS),
        "transition": rng.dirichlet(np.ones(MODES), MODES),
    }


def track(given: dict[str, Any], i: int, by_step: bool) -> dict[str, Any]:
    """Return the arguments for track i alone."""
    models = given["models"]
    if by_step:
        models = tuple(
            Model(
                *(part[:, i : i + 1] for part in (m.transition, m.measurement, m.process, m.noise))
            )
            for m in models
        )
    return given | {
        "z": given["z"][:, i : i + 1],
        "models": models,
        "mean": given["mean"][i],
        "covariance": given["covariance"][i],
        "probability": given["probability"][i],
    }


@pytest.mark.parametrize("by_step", [False, True], ids=["constant", "by step"])
def test_imm_is_filterpy_s(by_step: bool) -> None:
    """Means, covariances and mode probabilities to 1e-9, models by step included."""
    from filterpy.kalman import IMMEstimator, KalmanFilter

    given = case(1, by_step)
    out = imm(**given)
    for i in range(TRACKS):
        peers = []
        for _ in range(MODES):
            peer = KalmanFilter(N, M)
            peer.x, peer.P = given["mean"][i][:, None].copy(), given["covariance"][i].copy()
            peers.append(peer)
        theirs = IMMEstimator(peers, given["probability"][i], given["transition"])
        for t in range(STEPS):
            if t:
                _set(peers, given["models"], t - 1, i, by_step)
                theirs.predict()
            else:
                theirs.cbar = given["probability"][i]  # ours starts at the first measurement
            _set(peers, given["models"], t, i, by_step)
            theirs.update(given["z"][t, i][:, None])
            np.testing.assert_allclose(out.mean[t, i], theirs.x[:, 0], rtol=0, atol=1e-9)
            np.testing.assert_allclose(out.covariance[t, i], theirs.P, rtol=0, atol=1e-9)
            np.testing.assert_allclose(out.probability[t, i], theirs.mu, rtol=0, atol=1e-9)


def _set(peers: list[Any], models: tuple[Model, ...], t: int, i: int, by_step: bool) -> None:
    for peer, model in zip(peers, models, strict=True):
        parts = (model.transition, model.measurement, model.process, model.noise)
        peer.F, peer.H, peer.Q, peer.R = (part[t, i] if by_step else part for part in parts)


@pytest.mark.parametrize("by_step", [False, True], ids=["constant", "by step"])
def test_a_track_has_the_bits_that_it_has_alone(by_step: bool) -> None:
    """In a batch or alone, with holes."""
    given = case(2, by_step, missing=0.3)
    out = imm(**given)
    for i in range(TRACKS):
        alone = imm(**track(given, i, by_step))
        for name in NAMES:
            np.testing.assert_array_equal(getattr(out, name)[:, i], getattr(alone, name)[:, 0])
        assert out.log_likelihood[i] == alone.log_likelihood[0]


def test_a_track_among_many_has_the_bits_that_it_has_alone() -> None:
    """Of 800 tracks the first and the last."""
    given = case(2)
    rng = np.random.default_rng(2)
    given |= {
        "z": rng.normal(size=(4, 800, M)),
        "mean": rng.normal(size=(800, N)),
        "covariance": covariances(rng, (800,), N, 0.5),
        "probability": rng.dirichlet(np.ones(MODES), 800),
    }
    out = imm(**given)
    for i in (0, 799):
        alone = imm(**track(given, i, False))
        for name in NAMES:
            np.testing.assert_array_equal(getattr(out, name)[:, i], getattr(alone, name)[:, 0])


def test_modes_that_are_alike_are_one_filter() -> None:
    """Three copies of a model, or one alone: the Kalman filter, and its likelihood."""
    given = case(3, missing=0.2)
    model = given["models"][0]
    plain = kalman_filter(given["z"], model, given["mean"], given["covariance"])
    alike = imm(**(given | {"models": (model,) * MODES}))
    one = imm(**(given | {"models": (model,), "probability": np.ones(1), "transition": np.eye(1)}))
    for out in (alike, one):
        for name in ("predicted", "predicted_covariance", "mean", "covariance"):
            np.testing.assert_allclose(getattr(out, name), getattr(plain, name), atol=1e-10)
        np.testing.assert_allclose(out.log_likelihood, plain.log_likelihood, rtol=1e-10)


def test_steps_make_the_whole() -> None:
    """`imm` is a first update and then steps, to the last bit; its state can be looked into."""
    given = case(4, by_step=True, missing=0.2)
    out = imm(**given)
    modes = Modes(given["models"], TRACKS)
    state = imm_start(modes, given["mean"], given["covariance"], given["probability"])
    state = imm_update(state, given["z"][0], modes)
    for t in range(1, STEPS):
        state = imm_step(state, given["z"][t], modes, given["transition"], t)
        np.testing.assert_array_equal(state.mean, out.mean[t])
        np.testing.assert_array_equal(state.covariance, out.covariance[t])
        np.testing.assert_array_equal(state.probability, out.probability[t])
    np.testing.assert_array_equal(state.log_likelihood, out.log_likelihood)
    mean = (state.probability[..., None] * state.mode_mean).sum(axis=1)
    np.testing.assert_allclose(mean, state.mean, rtol=1e-12)
    apart = state.mode_mean - mean[:, None]
    spread = state.mode_covariance + apart[..., :, None] * apart[..., None, :]
    covariance = (state.probability[..., None, None] * spread).sum(axis=1)
    np.testing.assert_allclose(covariance, state.covariance, rtol=1e-9, atol=1e-12)


def test_unseen_steps_only_move_the_odds_by_the_transition() -> None:
    """Nothing seen at any step: probabilities follow the chain."""
    given = case(5)
    given["z"] = np.full((5, TRACKS, M), np.nan)
    out = imm(**given)
    expected = given["probability"] @ np.linalg.matrix_power(given["transition"], 4)
    np.testing.assert_allclose(out.probability[-1], expected, rtol=1e-12)
    assert np.abs(out.log_likelihood).max() < 1e-14


def test_the_true_mode_is_found() -> None:
    """Noise of 1 or of 25 in turn: after its first steps the right mode has most of the odds."""
    rng = np.random.default_rng(6)
    one, still = np.eye(1), np.full((1, 1), 0.01)
    models = (Model(one, one, still, one), Model(one, one, still, 25.0 * one))
    truth = np.repeat([0, 1, 0], 60)
    z = rng.normal(size=(180, 50, 1)) * np.where(truth == 0, 1.0, 5.0)[:, None, None]
    stay = np.array([[0.98, 0.02], [0.02, 0.98]])
    out = imm(z, models, np.zeros(1), one, np.array([0.5, 0.5]), stay)
    right = np.take_along_axis(out.probability, truth[:, None, None], axis=2)[..., 0]
    assert right[30:60].mean() > 0.95
    assert right[90:120].mean() > 0.8


def test_a_mode_that_nothing_leads_to_stays_impossible() -> None:
    """Odds of zero and an identity chain: no NaN, and the other mode's filter is the filter."""
    given = case(7)
    models = given["models"][:2]
    out = imm(
        **(given | {"models": models, "probability": np.array([1.0, 0.0]), "transition": np.eye(2)})
    )
    plain = kalman_filter(given["z"], models[0], given["mean"], given["covariance"])
    assert (out.probability == [1.0, 0.0]).all()
    np.testing.assert_allclose(out.mean, plain.mean, atol=1e-10)


def test_far_measurements_do_not_underflow() -> None:
    """500 standard deviations from every mode: the odds are still odds."""
    given = case(8)
    given["z"] = given["z"] + 500.0
    out = imm(**given)
    assert np.isfinite(out.probability).all()
    np.testing.assert_allclose(out.probability.sum(axis=2), 1.0, rtol=1e-12)


def test_chains_by_track_and_by_step() -> None:
    """One chain given three ways is one chain; a chain of a track's own is used for it alone."""
    given = case(9)
    chain: Array = given["transition"]
    out = imm(**given)
    for shape in ((TRACKS, MODES, MODES), (STEPS, TRACKS, MODES, MODES), (1, 1, MODES, MODES)):
        again = imm(**(given | {"transition": np.broadcast_to(chain, shape)}))
        np.testing.assert_array_equal(again.mean, out.mean)
    mixed = np.tile(chain, (TRACKS, 1, 1))
    mixed[2] = np.eye(MODES)
    other = imm(**(given | {"transition": mixed}))
    is_same = (other.mean == out.mean).all(axis=(0, 2))
    assert is_same.tolist() == [True, True, False, True]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"probability": np.array([0.5, 0.5, 0.5])}, "probability: expected numbers >= 0 that sum"),
        ({"probability": np.array([1.5, -0.5, 0.0])}, "probability: expected numbers >= 0"),
        ({"probability": np.ones(2) / 2}, "probability: expected shape"),
        ({"transition": np.ones((3, 3))}, "transition: expected numbers >= 0 that sum to 1"),
        ({"transition": np.eye(2)}, "transition: expected shape"),
        ({"transition": np.tile(np.eye(3), (7, 1, 1, 1))}, "transition: expected 40 steps, got 7"),
        ({"mean": np.zeros(2)}, "mean: expected shape"),
        ({"covariance": -np.eye(3)}, "covariance: expected a positive semi-definite"),
        ({"z": np.full((40, 4, 2), np.inf)}, "z: expected a finite number"),
    ],
)
def test_bad_calls_are_refused(change: dict[str, Any], message: str) -> None:
    """The message names what was expected and what came."""
    with pytest.raises(InvalidInput, match=message):
        imm(**(case(10) | change))


def test_modes_that_do_not_fit_are_refused() -> None:
    """Other sizes, other tracks, other steps, none."""
    one = Model(*systems(1, (), 2, 1))
    with pytest.raises(InvalidInput, match="models of the same states"):
        Modes((one, Model(*systems(1, (), 3, 1))), 2)
    with pytest.raises(InvalidInput, match="models of 2 tracks"):
        Modes((one, Model(*systems(1, (3,), 2, 1))), 2)
    with pytest.raises(InvalidInput, match="at least one model"):
        Modes((), 2)
    given = case(11, by_step=True)
    with pytest.raises(InvalidInput, match="expected 40 steps"):
        imm(**(given | {"z": given["z"][:5]}))


def test_a_diverging_track_is_named() -> None:
    """A state of 10³⁰⁰ that doubles."""
    one = np.eye(1)
    model = Model(2.0 * one, one, one, one)
    modes = Modes((model, model), 2)
    state = imm_start(modes, np.array([[0.0], [1e308]]), one, np.array([0.5, 0.5]))
    with np.errstate(over="ignore", invalid="ignore"):
        state = imm_predict(state, modes, np.eye(2))
    with pytest.raises(InvalidInput, match=r"grew beyond all bounds \(track 1, step 4\)"):
        imm_update(state, np.zeros((2, 1)), modes, 4)
