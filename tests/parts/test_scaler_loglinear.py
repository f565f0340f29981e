"""The log-linear scaler: a ratio of coefficients, fitted on outcomes, published when it may be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_type_hints

import numpy as np
import pytest
from pydantic import TypeAdapter
from scipy import stats
from scipy.optimize import root

from gdcb import Agent, BetaThompson, Flag, Multiply, Number, Payoff, Schema, records
from gdcb.arms import ArmList
from gdcb.arrays import Array, logistic
from gdcb.declaration import parse
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.scalers import Factor, LogLinearScaler, Scaler
from tests.parts.builders import rng_of

FACTORS = {"occupancy": (0,), "gap": (1,), "lead": (2, 3)}
CENTRE = (0.54, 0.3, 0.0, 0.5)
THETA = np.array([0.8, -0.25, 0.3, -0.15])
ALPHA, BETA = 0.2, 3.0


def scaler_of(**settings: Any) -> LogLinearScaler:
    """Return three factors of four columns, normalised."""
    known: dict[str, Any] = {"factors": FACTORS, "centre": CENTRE}
    return LogLinearScaler(**known | settings)


def nights(n: int, seed: int, spread: float = 0.25) -> tuple[Array, Array, Array]:
    """Return contexts, actions near the true δ (spread in their logarithm), and bookings."""
    rng = rng_of(seed)
    x: Array = np.column_stack(
        (rng.beta(2.01, 1.74, n), rng.random(n) < 0.3, rng.normal(size=n), rng.random(n))
    )
    signal = (x - np.array(CENTRE)) @ THETA
    log_e = 0.7 * signal + spread * rng.normal(size=n)
    y = (rng.random(n) < logistic(ALPHA - BETA * (log_e - signal))).astype(float)
    return x, np.exp(log_e)[:, None], y


def zero(n: int) -> Array:
    """Return owner 0 for n rows."""
    return np.zeros(n, dtype=np.int64)


def learned(scaler: LogLinearScaler, n: int, seed: int, spread: float = 0.25) -> Any:
    """Return a state taught n nights row by row."""
    x, action, y = nights(n, seed, spread)
    state = scaler.init(1)
    scaler.observe(state, zero(n), x, action, y[:, None], np.ones(n))
    return state


def test_theta_is_recovered_within_its_interval() -> None:
    """6,000 nights: every θ within z standard errors, family-wise false-alarm rate 10⁻³.

    The intervals are informative: no error is above 0.3.
    """
    scaler = scaler_of()
    state = scaler.fit(*nights(6_000, 1))
    theta, error = scaler.estimate(state, zero(1))
    z = float(stats.norm.isf(1e-3 / (2 * THETA.size)))
    assert (np.abs(theta[0] - THETA) < z * error[0]).all()
    assert error.max() < 0.3
    assert state.versions.tolist() == [1]
    np.testing.assert_array_equal(state.theta[0], theta)


def test_intervals_cover_as_often_as_they_say() -> None:
    """100 replicates of 800 nights, row by row: 95 % intervals of log δ at one context.

    The count is binomial(100, 0.95): below 87 has probability 5·10⁻⁴.
    """
    scaler, n, replicates = scaler_of(penalty=1e-2), 800, 100
    state = scaler.init(replicates)
    parts = [nights(n, 100 + i) for i in range(replicates)]
    x, action, y = (np.stack([part[i] for part in parts], axis=1) for i in range(3))
    owner, weight = np.arange(replicates), np.ones(replicates)
    for t in range(n):
        scaler.observe(state, owner, x[t], action[t], y[t][:, None], weight)
    assert scaler.publish(state, owner).size == replicates
    at = np.tile([[0.9, 1.0, 1.0, 0.0]], (replicates, 1))
    found = np.log(scaler.predict(state, owner, at))[:, 0, 0]
    error = scaler.uncertainty(state, owner, at)[:, 0, 0]
    truth = float((at[0] - CENTRE) @ THETA)
    covered = int((np.abs(found - truth) < 1.96 * error).sum())
    assert stats.binom.cdf(86, 100, 0.95) < 6e-4
    assert covered >= 87


def test_a_batch_fit_is_the_root_of_the_gradient() -> None:
    """(α, β, βθ) against scipy.optimize.root to 1e-8; θ̂ is their ratio; weights count."""
    x, action, y = nights(500, 2)
    weight = rng_of(3).uniform(0.2, 2.0, 500)
    scaler = scaler_of(penalty=2.0, level_sd=1.5, slope_sd=2.5)
    design = np.column_stack((np.ones(500), -np.log(action), x - CENTRE))
    precision = np.array([1.5**-2, 2.5**-2, 2.0, 2.0, 2.0, 2.0])

    def gradient(w: Array) -> Array:
        p = 1 / (1 + np.exp(-(design @ w)))
        return np.asarray(design.T @ (weight * (y - p)) - precision * w)

    found = root(gradient, np.zeros(6), tol=1e-13).x
    state = scaler.fit(x, action, y, weight)
    np.testing.assert_allclose(state.posterior.mean[0], found, rtol=0, atol=1e-8)
    np.testing.assert_allclose(state.theta[0, 0], found[2:] / found[1], rtol=0, atol=1e-8)


def test_errors_are_the_delta_method_s() -> None:
    """The error of log δ against numerical derivatives of w ↦ wᵩᵀ(φ − φ̄)/β."""
    scaler = scaler_of()
    state = scaler.fit(*nights(400, 4))
    mean, covariance = state.posterior.mean[0], state.posterior.covariance[0]
    x = rng_of(5).random((6, 4))

    def log_delta(w: Array) -> Array:
        return np.asarray((x - CENTRE) @ w[2:] / w[1])

    steps = 1e-5 * np.eye(6)
    slopes = np.stack([(log_delta(mean + s) - log_delta(mean - s)) / 2e-5 for s in steps], axis=1)
    expected = np.sqrt(np.einsum("nd,de,ne->n", slopes, covariance, slopes))
    error = scaler.uncertainty(state, zero(6), x)
    assert error.shape == (6, 1, 1)
    np.testing.assert_allclose(error[:, 0, 0], expected, rtol=1e-6)
    one = np.array(CENTRE) + np.eye(4)  # log δ at one unit off the centre is θ itself
    np.testing.assert_allclose(
        scaler.uncertainty(state, zero(4), one)[:, 0, 0], scaler.estimate(state, zero(1))[1][0]
    )


@pytest.mark.parametrize("seed", [6, 7, 8])
def test_row_by_row_is_near_the_batch(seed: int) -> None:
    """After 3,000 nights every coefficient is within 0.3 posterior sd of the exact mode."""
    scaler = scaler_of()
    exact, online = scaler.fit(*nights(3_000, seed)), learned(scaler, 3_000, seed)
    sd = np.sqrt(np.diagonal(exact.posterior.covariance[0]))
    gap = np.abs(online.posterior.mean - exact.posterior.mean)[0] / sd
    assert gap.max() < 0.3
    theta, error = scaler.estimate(exact, zero(1))
    assert (np.abs(scaler.estimate(online, zero(1))[0] - theta) < 0.3 * error).all()


def test_the_product_of_the_factors_is_delta() -> None:
    """Three factors, by name; each depends on its own columns alone."""
    scaler = scaler_of()
    state = scaler.fit(*nights(1_000, 9))
    x = rng_of(10).random((20, 4))
    factors = scaler.by_factor(state, zero(20), x)
    assert scaler.names == ("occupancy", "gap", "lead")
    assert factors.shape == (20, 3)
    delta = scaler.predict(state, zero(20), x)
    np.testing.assert_allclose(factors.prod(axis=1), delta[:, 0, 0], rtol=1e-13)
    moved = x.copy()
    moved[:, 3] += 1.0
    changed = scaler.by_factor(state, zero(20), moved) != factors
    assert changed.all(axis=0).tolist() == [False, False, True]
    assert changed.any(axis=0).tolist() == [False, False, True]


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_delta_is_positive_and_finite_however_far(sign: float) -> None:
    """θᵀ(φ − φ̄) = ∓800, all of it in one factor: neither 0 nor infinite."""
    scaler = LogLinearScaler(factors={"gap": (0,), "lead": (1,)})
    state, x = scaler.init(1), np.array([[800.0, 0.0]])
    state.theta[0, 0] = sign, 1.0
    for delta in (scaler.predict(state, zero(1), x), scaler.by_factor(state, zero(1), x)):
        assert ((delta > 0) & np.isfinite(delta)).all()


def test_delta_is_normalised_over_the_reference() -> None:
    """Centred on a sample's means, mean log δ over the sample is 0."""
    reference = nights(300, 11)[0]
    scaler = scaler_of(centre=tuple(reference.mean(axis=0).tolist()))
    delta = scaler.predict(scaler.fit(*nights(1_000, 12)), zero(300), reference)
    assert abs(np.log(delta).mean()) < 1e-12
    assert np.log(delta).std() > 0.1


def test_without_excitation_nothing_is_published() -> None:
    """log e follows x to 10⁻³: below the floor. Varied again, it is published."""
    scaler = scaler_of(every=400, floor=0.01)
    state = learned(scaler, 400, 13, spread=1e-3)
    assert scaler.excitation(state, zero(1))[0] < 1e-5
    assert scaler.due(state).tolist() == [0]
    assert scaler.publish(state, zero(1)).size == 0
    assert (state.versions[0], state.since[0], state.theta.any()) == (0, 400, False)
    assert scaler.due(state).size == 0
    x, action, y = nights(400, 14)
    scaler.observe(state, zero(400), x, action, y[:, None], np.ones(400))
    assert scaler.excitation(state, zero(1))[0] == pytest.approx(0.0625 / 2, rel=0.3)
    assert scaler.publish(state, scaler.due(state)).tolist() == [0]
    assert state.theta.any()
    assert (state.since[0], state.tried[0], state.window.count[0]) == (0, 0, 0.0)


def test_while_the_slope_is_not_clearly_positive_nothing_is_published() -> None:
    """Outcomes that ignore e, or rise with it: β̂ is not two sds above 0."""
    scaler = scaler_of(floor=0.0)
    x, action, y = nights(2_000, 15)
    coin = (rng_of(16).random(2_000) < 0.5).astype(float)
    assert scaler.fit(x, action, coin).versions.tolist() == [0]
    upside = scaler.fit(x, 1.0 / action, y)
    assert upside.posterior.mean[0, 1] < 0
    assert upside.versions.tolist() == [0]
    assert scaler.fit(x, action, y).versions.tolist() == [1]
    assert np.isfinite(scaler.uncertainty(upside, zero(5), x[:5])).all()


def test_an_unclear_slope_keeps_rows_and_window() -> None:
    """Coin flips are refused; their 100 rows are in the window of the next try."""
    scaler = scaler_of(every=100)
    state, (x, action, _) = scaler.init(1), nights(100, 27)
    coin = (rng_of(28).random((100, 1)) < 0.5).astype(float)
    scaler.observe(state, zero(100), x, action, coin, np.ones(100))
    window = records.to_bytes(state.window)
    assert scaler.publish(state, scaler.due(state)).size == 0
    assert (state.since[0], state.tried[0]) == (100, 1)
    assert records.to_bytes(state.window) == window
    assert scaler.due(state).size == 0


def test_an_agent_says_whose_fit_changed() -> None:
    """Too few rows are refused, kept, and count once more have come; asked again, nothing is new.

    Two rows more are fitted together with all before them.

    The events replay, refusals included.
    """
    scaler = LogLinearScaler(factors={"gap": ("gap",)}, every=1_000)
    instance = Instance(
        context=Schema({"gap": Number(-3, 3)}),
        arms=ArmList(values=(0.5, 1.0, 2.0)),
        composition=Multiply(),
        gate=[],
        scaler=scaler,
        reward=Payoff(outcome=("booked",), action=0),
    )
    agent, rng = Agent(instance, BetaThompson(), seed=3), rng_of(29)
    agent.decide({"gap": 0.0})
    asked = []
    for n in (2, 198, 0, 2):
        for _ in range(n):
            case = agent.decide({"gap": float(rng.uniform(-1, 1))})
            assert case.executed is not None
            booked = float(rng.random() < 1 / (1 + case.executed["action"] ** 3))
            agent.observe(case.id, {"booked": booked})
        asked.append(agent.refit())
    assert asked == [[], [0], [], [0]]
    assert agent.state.scaler.versions.tolist() == [2]
    assert agent.state.scaler.since.tolist() == [0]
    again = Agent.replay(agent.events, instance, BetaThompson(), seed=3)
    assert records.to_bytes(again.state.scaler) == records.to_bytes(agent.state.scaler)


def test_rows_that_did_not_run_or_were_not_seen_teach_nothing() -> None:
    """NaN outcome, NaN action, an action of 0: bytes stay, no row or variation is counted."""
    scaler = scaler_of()
    state = learned(scaler, 50, 17)
    before = records.to_bytes(state)
    action, label = np.array([[1.0], [np.nan], [0.0]]), np.array([[np.nan], [1.0], [1.0]])
    scaler.observe(state, zero(3), np.ones((3, 4)), action, label, np.ones(3))
    assert records.to_bytes(state) == before


def test_rows_without_weight_are_no_excitation() -> None:
    """400 dull rows and 400 varied ones of weight 0: the bytes and the verdict of the dull ones."""
    scaler = scaler_of(every=400, floor=0.01)
    state = learned(scaler, 400, 13, spread=1e-3)
    before = records.to_bytes(state)
    x, action, y = nights(400, 14)
    scaler.observe(state, zero(400), x, action, y[:, None], np.zeros(400))
    assert records.to_bytes(state) == before


@pytest.mark.parametrize("level", [0.0, 1e3, 1e4, 1e5, 1e6])
def test_columns_far_from_0_are_no_excitation(level: float) -> None:
    """log e is a line in x, which lies about `level`: no variance is left, not even 10⁻⁸.

    In one batch, row by row, and around a centre. A spread of 0.01 is found to 30 %.
    """
    rng = rng_of(22)
    off, one = rng.normal(size=(300, 2)), np.ones((300, 1))
    x = level + off
    for centre in (None, (level, level)):
        scaler = LogLinearScaler(factors={"gap": (0, 1)}, floor=1e-9, centre=centre)
        for sd in (0.0, 0.01):
            log_e = 0.3 * (x - level) @ [[1.0], [-2.0]] + sd * rng.normal(size=(300, 1))
            batch, loop = scaler.init(1), scaler.init(1)
            scaler.observe(batch, zero(300), x, np.exp(log_e), one, one[:, 0])
            for i in range(300):
                row = slice(i, i + 1)
                scaler.observe(loop, zero(1), x[row], np.exp(log_e[row]), one[row], one[row, 0])
            for state in (batch, loop):
                found = scaler.excitation(state, zero(1))[0]
                assert found < 1e-8 if sd == 0 else found == pytest.approx(1e-4, rel=0.3)


def test_excitation_weighs_rows() -> None:
    """log e = ∓1 of weight 6 and ∓2 of weight 2: Σw(log e)² = 56 over Σw − 2 = 30."""
    scaler = LogLinearScaler(factors={"gap": (0,)})
    size = np.array([1.0, 1.0, 2.0, 2.0] * 2)
    action = np.exp(size * [1, -1, 1, -1, 1, -1, 1, -1])[:, None]
    x = np.repeat([[0.0], [1.0]], 4, axis=0)
    state, weight = scaler.init(1), np.where(size == 1.0, 3.0, 1.0)
    scaler.observe(state, zero(8), x, action, np.ones((8, 1)), 2.0 * weight)
    # Σw·(log e)² = 2·(4·3·1 + 4·1·4) = 56, Σw = 32, two coefficients that are 0.
    assert scaler.excitation(state, zero(1))[0] == pytest.approx(56 / 30, rel=1e-6)


def test_a_batch_is_the_loop_and_rows_stand_alone_bit_for_bit() -> None:
    """Rows of three owners, δ, errors and factors: the same bytes one by one."""
    scaler, (x, action, y) = scaler_of(), nights(60, 18)
    owner = rng_of(19).integers(0, 3, 60)
    batch, loop = scaler.init(3), scaler.init(3)
    scaler.observe(batch, owner, x, action, y[:, None], np.ones(60))
    for i in range(60):
        row = slice(i, i + 1)
        scaler.observe(loop, owner[row], x[row], action[row], y[row, None], np.ones(1))
    assert records.to_bytes(batch.posterior) == records.to_bytes(loop.posterior)
    batch.theta[:] = scaler.estimate(batch, np.arange(3))[0][:, None]
    for ask in (scaler.predict, scaler.uncertainty, scaler.by_factor):
        whole = ask(batch, owner, x)
        alone = [ask(batch, owner[i : i + 1], x[i : i + 1]) for i in range(60)]
        assert whole.tobytes() == np.concatenate(alone).tobytes()


def test_refit_is_the_batch_fit_of_every_owner() -> None:
    """Rows weighed afresh: `fit` on an owner's rows to 1e-10, and the same bytes whoever is beside
    it, also somebody with as many rows.

    Owners that are not named keep their bytes, one without rows has the prior; δ waits for
    `publish`.
    """
    scaler, n = scaler_of(), 900
    assert "refit" in scaler.supports
    (x, action, y), rng = nights(n, 23), rng_of(24)
    owner, weight = rng.integers(0, 3, n), rng.uniform(0.0, 2.0, n) * (rng.random(n) < 0.8)
    y[rng.random(n) < 0.1] = np.nan
    state = scaler.init(4)
    scaler.observe(state, owner, x, action, y[:, None], np.ones(n))
    before = records.copy(state)
    scaler.refit(state, np.array([3, 2, 0]), owner, x, action, y, weight)
    for one in (0, 2):
        mine = owner == one
        fitted = scaler.fit(x[mine], action[mine], y[mine], weight[mine]).posterior
        np.testing.assert_allclose(state.posterior.mean[one], fitted.mean[0], atol=1e-10)
        np.testing.assert_allclose(
            state.posterior.covariance[one], fitted.covariance[0], atol=1e-10
        )
        alone, twins = records.copy(before), records.copy(before)
        own = (x[mine], action[mine], y[mine], weight[mine])
        scaler.refit(alone, np.array([one]), np.full(mine.sum(), one), *own)
        both = np.repeat([one, 3], mine.sum())
        rows = tuple(np.concatenate((column, column)) for column in own)
        scaler.refit(twins, np.array([one, 3]), both, *rows)
        for other in (alone, twins):
            for field in ("mean", "root"):
                mine_now = getattr(state.posterior, field)[one]
                assert mine_now.tobytes() == getattr(other.posterior, field)[one].tobytes()
    assert state.posterior.mean[1].tobytes() == before.posterior.mean[1].tobytes()
    prior = scaler.init(1).posterior
    np.testing.assert_allclose(state.posterior.covariance[3], prior.covariance[0], rtol=1e-12)
    assert not state.posterior.mean[3].any()
    assert not state.theta.any()
    assert scaler.publish(state, np.arange(4)).tolist() == [0, 1, 2]
    np.testing.assert_array_equal(state.theta[:, 0], scaler.estimate(state, np.arange(4))[0])


def test_refit_takes_back_rows_that_misled() -> None:
    """300 rows whose outcomes were turned around, at weight 1 when they came and 0 today."""
    scaler, n = scaler_of(), 1_200
    x, action, y = nights(n, 25)
    turned = np.arange(n) < 300
    seen = np.where(turned, 1.0 - y, y)
    state = scaler.init(1)
    scaler.observe(state, zero(n), x, action, seen[:, None], np.ones(n))
    misled = state.posterior.mean[0].copy()
    scaler.refit(state, zero(1), zero(n), x, action, seen[:, None], np.where(turned, 0.0, 1.0))
    clean = scaler.fit(x[300:], action[300:], y[300:]).posterior.mean[0]
    np.testing.assert_allclose(state.posterior.mean[0], clean, rtol=0, atol=1e-9)
    assert np.abs(misled - clean).max() > 0.5


@pytest.mark.parametrize(
    ("owners", "change", "message"),
    [
        ([0, 0], {}, "owners: expected different ones of 0 to 1, got"),
        ([2], {}, "owners: expected different ones of 0 to 1, got"),
        ([0, 1], {"y": np.array([0.0, 1.0, 2.0])}, "y: expected 3 numbers within 0 and 1"),
        ([0, 1], {"y": np.ones(2)}, r"label: expected outcomes of shape \(3, 1\), got \(2, 1\)"),
        ([0, 1], {"weight": np.array([1.0, 1.0, -1.0])}, "weight: expected 3 finite numbers >= 0"),
        ([0, 1], {"weight": np.ones(2)}, "owner, weight: expected 3 each"),
    ],
)
def test_a_refused_refit_changes_nothing(
    owners: list[int], change: dict[str, Array], message: str
) -> None:
    """Not even the owners whose rows were good."""
    scaler, (x, action, y) = scaler_of(), nights(3, 26)
    state = scaler.init(2)
    scaler.observe(state, zero(3), x, action, y[:, None], np.ones(3))
    before = records.to_bytes(state)
    rows = {"owner": np.array([0, 0, 1]), "x": x, "action": action, "y": y, "weight": np.ones(3)}
    with pytest.raises(InvalidInput, match=message):
        scaler.refit(state, np.array(owners), **rows | change)
    assert records.to_bytes(state) == before


# What is known beforehand ---------------------------------------------------------------------

KNOWN: dict[str, Any] = {"level": 0.3, "slope": 2.5, "theta": (0.5, -0.2, 0.1, 0.4)}


def test_a_prior_s_theta_is_in_force_from_the_start() -> None:
    """δ = exp(θᵀ(φ − φ̄)) before any row, version 0; coefficients (α, β, βθ) have these means.

    Error of θ̂ by the delta method at the prior: √(sd_j² + θ_j²·slope_sd²)/β.
    """
    penalty = (1.0, 4.0, 0.25, 16.0)
    scaler = scaler_of(**KNOWN, penalty=penalty, level_sd=0.7, slope_sd=0.5)
    state, x = scaler.init(3), rng_of(30).random((3, 4))
    theta, owner = np.array(KNOWN["theta"]), np.arange(3)
    expected = np.exp((x - CENTRE) @ theta)
    np.testing.assert_allclose(scaler.predict(state, owner, x)[:, 0, 0], expected, rtol=1e-12)
    assert scaler.version(state, owner).tolist() == [0, 0, 0]
    mean = np.concatenate(([0.3, 2.5], 2.5 * theta))
    np.testing.assert_allclose(state.posterior.mean, np.tile(mean, (3, 1)), rtol=1e-12)
    sd = np.concatenate(([0.7, 0.5], np.array(penalty) ** -0.5))
    np.testing.assert_allclose(state.posterior.covariance[1], np.diag(sd**2), rtol=1e-12)
    found, error = scaler.estimate(state, zero(1))
    np.testing.assert_allclose(found[0], theta, rtol=1e-12)
    np.testing.assert_allclose(error[0], np.sqrt(sd[2:] ** 2 + (0.5 * theta) ** 2) / 2.5)


def test_without_a_prior_delta_is_neutral() -> None:
    """As ever: θ = 0, means 0, δ = 1."""
    state = scaler_of().init(2)
    assert not state.theta.any()
    assert not state.posterior.mean.any()
    assert (scaler_of().predict(state, zero(4), rng_of(31).random((4, 4))) == 1.0).all()


def test_a_fit_under_a_prior_is_the_root_of_the_gradient() -> None:
    """Means, a ridge a column, weights: (α, β, βθ) against scipy.optimize.root to 1e-8, by `fit`
    and by `refit`; an owner without rows has the prior's means."""
    (x, action, y), weight = nights(300, 32), rng_of(33).uniform(0.2, 2.0, 300)
    penalty = np.array([1.0, 4.0, 0.25, 16.0])
    scaler = scaler_of(**KNOWN, penalty=tuple(penalty), level_sd=0.7, slope_sd=0.5)
    design = np.column_stack((np.ones(300), -np.log(action), x - CENTRE))
    precision = np.concatenate(([0.7**-2, 0.5**-2], penalty))
    prior = np.concatenate(([0.3, 2.5], 2.5 * np.array(KNOWN["theta"])))

    def gradient(w: Array) -> Array:
        p = logistic(design @ w)
        return np.asarray(design.T @ (weight * (y - p)) - precision * (w - prior))

    found = root(gradient, prior, tol=1e-13).x
    state = scaler.fit(x, action, y, weight)
    np.testing.assert_allclose(state.posterior.mean[0], found, rtol=0, atol=1e-8)
    np.testing.assert_allclose(state.theta[0, 0], found[2:] / found[1], rtol=0, atol=1e-8)
    again = scaler.init(2)
    scaler.refit(again, np.arange(2), zero(300), x, action, y, weight)
    np.testing.assert_allclose(again.posterior.mean, [found, prior], rtol=0, atol=1e-8)


def test_few_rows_stay_near_the_prior() -> None:
    """20 nights: under a prior that knows θ to ±0.05 the error of θ̂ is below a third of what it is
    without one, in the mean of 40 logs."""
    sharp = scaler_of(
        level=ALPHA, slope=BETA, theta=tuple(THETA), penalty=(0.05 * BETA) ** -2.0, slope_sd=0.3
    )
    errors = []
    for scaler in (sharp, scaler_of()):
        logs = [scaler.fit(*nights(20, 200 + i)) for i in range(40)]
        found = np.concatenate([scaler.estimate(state, zero(1))[0] for state in logs])
        errors.append(float(((found - THETA) ** 2).mean()))
    assert errors[0] < errors[1] / 9.0


def test_decay_returns_to_the_prior_s_means() -> None:
    """By 0 all that the rows said is gone; what is in force stays until `publish`."""
    scaler = scaler_of(**KNOWN)
    state, prior = learned(scaler, 200, 34), scaler.init(1)
    scaler.publish(state, zero(1))
    theta = state.theta.copy()
    assert np.abs(theta - prior.theta).max() > 0.01
    scaler.decay(state, 0.0, zero(1))
    np.testing.assert_allclose(state.posterior.mean, prior.posterior.mean, atol=1e-9)
    np.testing.assert_allclose(state.posterior.covariance, prior.posterior.covariance, rtol=1e-9)
    np.testing.assert_array_equal(state.theta, theta)


def test_growth_spaces_publications_by_a_share_of_all_rows() -> None:
    """every = 50, growth ½: due after 50 rows, after 50 more (½·50 are too few) and again (½·100),
    then after ½·150 = 75 and ½·225 → 113 more; evenly without growth."""
    for growth, expected in ((0.0, [50, 100, 150, 200, 250]), (0.5, [50, 100, 150, 225, 338])):
        scaler = scaler_of(every=50, growth=growth, floor=0.0, sure=0.0, **KNOWN)
        state, (x, action, y) = scaler.init(1), nights(340, 35)
        when = []
        for i in range(340):
            row = slice(i, i + 1)
            scaler.observe(state, zero(1), x[row], action[row], y[row, None], np.ones(1))
            if scaler.due(state).size:
                assert scaler.publish(state, zero(1)).size
                when.append(i + 1)
        assert when[:5] == expected


def test_a_watched_row_is_counted_and_not_learned() -> None:
    """Rows and due are those of `observe`; posterior and excitation wait for `refit`, which then
    is the exact fit of rows that varied as much, and may be published."""
    scaler, (x, action, y) = scaler_of(every=100), nights(400, 36)
    weight = rng_of(37).uniform(0.0, 2.0, 400) * (rng_of(38).random(400) < 0.9)
    y[::7] = np.nan
    seen, watched = scaler.init(2), scaler.init(2)
    before = records.to_bytes(watched.posterior)
    scaler.observe(seen, zero(400), x, action, y[:, None], weight)
    scaler.watch(watched, zero(400), x, action, y[:, None], weight)
    assert records.to_bytes(watched.posterior) == before
    taught = int((np.isfinite(y) & (weight > 0)).sum())
    assert watched.rows.tolist() == watched.since.tolist() == [taught, 0]
    assert records.to_bytes(watched.window) == records.to_bytes(scaler.init(2).window)
    assert scaler.due(watched).tolist() == [0]
    assert scaler.publish(watched, zero(1)).size == 0  # β has its prior: not clearly above 0
    scaler.refit(watched, zero(1), zero(400), x, action, y, weight)
    expected = scaler.fit(x, action, y, weight).posterior.mean[0]
    np.testing.assert_allclose(watched.posterior.mean[0], expected, rtol=0, atol=1e-10)
    for name in ("count", "mean", "scatter"):
        one, other = getattr(watched.window, name), getattr(seen.window, name)
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    assert scaler.publish(watched, zero(1)).tolist() == [0]


def test_rows_may_wait_for_the_next_fit() -> None:
    """Without `row_by_row` an observed row is a watched one, bad rows are refused as ever."""
    scaler, (x, action, y) = scaler_of(row_by_row=False), nights(50, 39)
    one, other = scaler.init(1), scaler.init(1)
    scaler.observe(one, zero(50), x, action, y[:, None], np.ones(50))
    scaler.watch(other, zero(50), x, action, y[:, None], np.ones(50))
    before = records.to_bytes(one)
    assert before == records.to_bytes(other)
    assert not one.posterior.mean.any()
    for method in (scaler.observe, scaler.watch):
        with pytest.raises(InvalidInput, match="y: expected 50 numbers within 0 and 1"):
            method(one, zero(50), x, action, 2.0 + y[:, None], np.ones(50))
        with pytest.raises(InvalidInput, match="weight: expected 50 finite numbers >= 0"):
            method(one, zero(50), x, action, y[:, None], np.full(50, np.inf))
    assert records.to_bytes(one) == before


def test_an_agent_says_what_a_fit_of_all_rows_put_in_force() -> None:
    """The posterior waits; a refit fits all rows, and tells that δ changed. It replays."""
    scaler = LogLinearScaler(factors={"gap": ("gap",)}, every=1_000, row_by_row=False)
    instance = Instance(
        context=Schema({"gap": Number(-3, 3)}),
        arms=ArmList(values=(0.5, 1.0, 2.0)),
        composition=Multiply(),
        gate=[],
        scaler=scaler,
        reward=Payoff(outcome=("booked",), action=0),
    )
    agent, rng = Agent(instance, BetaThompson(), seed=3), rng_of(29)
    for _ in range(200):
        case = agent.decide({"gap": float(rng.uniform(-1, 1))})
        assert case.executed is not None
        agent.observe(
            case.id, {"booked": float(rng.random() < 1 / (1 + case.executed["action"] ** 3))}
        )
    assert agent.refit() == [0]
    assert agent.state.scaler.versions.tolist() == [1]
    again = Agent.replay(agent.events, instance, BetaThompson(), seed=3)
    assert records.to_bytes(again.state) == records.to_bytes(agent.state)


def test_a_file_declares_a_prior() -> None:
    """A ridge is a number, or a list with one a column."""
    for line, expected in (
        ("penalty = 2.0", {"penalty": 2.0}),
        ("penalty = [2.0]\ntheta = [0.4]", {"penalty": (2.0,), "theta": (0.4,)}),
        ("level = 0.5\nslope = 3.0\ngrowth = 0.25", {"level": 0.5, "slope": 3.0, "growth": 0.25}),
    ):
        settings: dict[str, Any] = {"factors": {"day": (0,)}} | expected
        made = parse(TABLE + f'factors = {{ day = ["z"] }}\n{line}').instance.scaler
        assert made == LogLinearScaler(**settings)


def test_decay_mixes_with_the_prior() -> None:
    """By ½: Σ⁻¹ is the mean of posterior and prior precision, Σ⁻¹m half; by 0 the prior."""
    scaler = scaler_of(level_sd=2.0, slope_sd=4.0, penalty=3.0)
    state, prior = learned(scaler, 200, 20), scaler.init(1)
    old = np.linalg.inv(state.posterior.covariance[0])
    pull = old @ state.posterior.mean[0]
    expected = 0.5 * old + 0.5 * np.linalg.inv(prior.posterior.covariance[0])
    scaler.decay(state, 0.5, zero(1))
    new = np.linalg.inv(state.posterior.covariance[0])
    np.testing.assert_allclose(new, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(new @ state.posterior.mean[0], 0.5 * pull, rtol=1e-9, atol=1e-9)
    scaler.decay(state, 0.0, zero(1))
    np.testing.assert_allclose(state.posterior.covariance, prior.posterior.covariance, rtol=1e-12)
    np.testing.assert_allclose(state.posterior.mean, 0.0, atol=1e-12)


def test_names_are_bound_factor_by_factor() -> None:
    """An instance replaces names by positions; the scaler keeps equality, hash and protocol."""
    scaler: Scaler = LogLinearScaler(factors={"gap": ("gap",), "lead": ("lead", "occ")})
    instance = Instance(
        context=Schema({"occ": Number(0, 1), "gap": Flag(), "lead": Number(0, 9)}),
        arms=ArmList(values=(0.8, 1.0, 1.25)),
        composition=Multiply(),
        gate=[],
        scaler=scaler,
        reward=Payoff(outcome=("booked",), action=0),
    )
    expected = LogLinearScaler(factors=(Factor("gap", (1,)), Factor("lead", (2, 0))))
    assert instance.scaler == expected
    assert hash(instance.scaler) == hash(expected)
    assert (expected.n_labels, expected.learns_from) == (0, "outcome")
    assert instance.scaler.is_positive
    assert expected.joins == "product"
    assert replace(expected, every=7) != expected


def test_factors_can_be_written_in_toml() -> None:
    """A table of names, or a list of tables, as the file's types are checked."""
    hint: TypeAdapter[Any] = TypeAdapter(get_type_hints(LogLinearScaler)["factors"])
    table = hint.validate_json('{"gap": ["gap"], "lead": ["lead", "occ"]}', strict=True)
    listed = hint.validate_json(
        '[{"name": "gap", "features": ["gap"]}, {"name": "lead", "features": ["lead", "occ"]}]',
        strict=True,
    )
    assert LogLinearScaler(factors=table) == LogLinearScaler(factors=listed)


TABLE = """
gates = []
[context.z]
type = "number"
low = -3
high = 3
[arms]
part = "list"
values = [0.5, 1.0, 2.0]
[composition]
part = "multiply"
[reward]
part = "payoff"
outcome = ["booked"]
action = 0
[bandit]
part = "beta-thompson"
[scaler]
part = "log-linear"
"""


def test_a_file_declares_factors() -> None:
    """The table below is right but for what each case adds."""
    scaler = parse(TABLE + 'factors = { day = ["z"] }').instance.scaler
    assert scaler == LogLinearScaler(factors={"day": (0,)})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            'factors = { a = "z" }',
            "scaler.factors: expected at least one factor: {name: columns}, or a list of factors",
        ),
        ("factors = 5", "scaler.factors: expected at least one factor: {name: columns}"),
        ("factors = {}", "scaler.factors: expected at least one factor: {name: columns}"),
        ("factors = { a = [] }", "scaler: factor 'a': expected at least one context column"),
        ('factors = { a = ["z"] }\nevery = 0', "scaler.every: expected a number >= 1, got 0"),
    ],
)
def test_a_file_s_mistakes_are_named_once(line: str, message: str) -> None:
    """What was expected and what came, under the key of the file."""
    with pytest.raises(InvalidInput) as refused:
        parse(TABLE + line)
    assert str(refused.value).startswith(message)
    assert ("got" in str(refused.value)) == ("[]" not in line)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: LogLinearScaler(factors=()), "scaler.factors: expected at least one"),
        (lambda: LogLinearScaler(factors={"": (0,)}), "factor.name: expected a name"),
        (lambda: LogLinearScaler(factors={"gap": ()}), "factor 'gap': expected at least one"),
        (lambda: scaler_of(factors={"gap": "gap"}), "factor 'gap': expected a tuple of names"),
        (lambda: scaler_of(factors={"gap": (1.5,)}), "factor 'gap': expected names of context"),
        (lambda: scaler_of(factors=5), "scaler.factors: expected at least one factor: .* 5"),
        (lambda: scaler_of(factors=("gap",)), "scaler.factors: expected at least one factor"),
        (lambda: scaler_of(centre=5.0), "scaler.centre: expected a tuple of numbers, got 5.0"),
        (lambda: scaler_of(centre=("a",)), "scaler.centre: expected a finite number, got 'a'"),
        (lambda: scaler_of(every=2.5), "scaler.every: expected a whole number, got 2.5"),
        (
            lambda: LogLinearScaler(factors=(Factor("a", (0,)), Factor("a", (1,)))),
            "scaler.factors: expected different names, got a, a",
        ),
        (lambda: scaler_of(penalty=0.0), "scaler.penalty: expected a number > 0"),
        (lambda: scaler_of(least=0.0), "scaler.least: expected a number > 0"),
        (lambda: scaler_of(slope_sd=-1.0), "scaler.slope_sd: expected a number > 0"),
        (lambda: scaler_of(floor=-1.0), "scaler.floor: expected a number >= 0"),
        (lambda: scaler_of(sure=-1.0), "scaler.sure: expected a number >= 0"),
        (lambda: scaler_of(every=0), "scaler.every: expected a number >= 1"),
        (lambda: scaler_of(per="team"), "scaler.per: expected one of unit"),
        (lambda: scaler_of(centre=(1.0,)).init(1), "scaler.centre: expected 4 numbers"),
        (lambda: scaler_of(theta=(1.0,)).init(1), "scaler.theta: expected 4 numbers, one a col"),
        (lambda: scaler_of(penalty=(1.0, 1.0)).init(1), "scaler.penalty: expected 4 numbers"),
        (lambda: scaler_of(penalty=(1.0, 0.0, 1.0, 1.0)), "scaler.penalty: expected a number > 0"),
        (lambda: scaler_of(penalty=[1.0, np.nan]), "scaler.penalty: expected a finite number"),
        (lambda: scaler_of(theta=0.5), "scaler.theta: expected a tuple of numbers, got 0.5"),
        (lambda: scaler_of(theta=(np.inf,) * 4), "scaler.theta: expected a finite number"),
        (lambda: scaler_of(level=np.nan), "scaler.level: expected a finite number"),
        (lambda: scaler_of(slope=np.inf), "scaler.slope: expected a finite number"),
        (lambda: scaler_of(slope="2"), "scaler.slope: expected a finite number"),
        (lambda: scaler_of(growth=-0.1), "scaler.growth: expected a number >= 0"),
        (lambda: scaler_of(growth=np.nan), "scaler.growth: expected a finite number"),
        (lambda: scaler_of(penalty=()).init(1), "scaler.penalty: expected 4 numbers"),
        (lambda: scaler_of(centre=()).init(1), "scaler.centre: expected 4 numbers"),
        (lambda: scaler_of(row_by_row=1), "scaler.row_by_row: expected true or false, got 1"),
    ],
)
def test_bad_settings_are_refused(build: Callable[[], Any], message: str) -> None:
    """Settings that cannot work are refused by name."""
    with pytest.raises(InvalidInput, match=message):
        build()


@pytest.mark.parametrize(
    ("label", "weight", "message"),
    [
        (np.ones((2, 2)), np.ones(2), r"label: expected outcomes of shape \(2, 1\), got \(2, 2\)"),
        (np.array([[0.5], [2.0]]), np.ones(2), "y: expected 2 numbers within 0 and 1"),
        (np.ones((2, 1)), np.array([1.0, -1.0]), "weight: expected 2 finite numbers >= 0"),
    ],
)
def test_bad_rows_are_refused_and_change_nothing(label: Array, weight: Array, message: str) -> None:
    """Outcomes must be classes, weights must not be negative."""
    scaler = scaler_of()
    state = learned(scaler, 30, 21)
    before = records.to_bytes(state)
    with pytest.raises(InvalidInput, match=message):
        scaler.observe(state, zero(2), np.ones((2, 4)), np.ones((2, 1)), label, weight)
    assert records.to_bytes(state) == before
