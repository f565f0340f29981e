"""The δ that the best action follows: both forms against SciPy, and their average."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import minimize, minimize_scalar

from gdcb.arrays import Array, logistic
from gdcb.errors import InvalidInput
from gdcb.logistic import LogisticPosterior
from gdcb.scalers import LogLinearScaler
from gdcb.scalers.best_action import FORMS, LEAST, _scaled, _share, _shifted, follow
from tests.properties import examples

PRIOR = np.array([3.0, 3.0, 1.0, 0.0]), np.array([1.0, 1.0, 1.5, 1.5])


def rows_of(seed: int, form: str, owners: int = 3, n: int = 900) -> tuple[Array, Array, Array]:
    """Return φ (owners, n, 2), e and y (owners, n) of a scaled or a shifted response."""
    rng = np.random.default_rng(seed)
    phi, e = rng.uniform(-1, 1, (owners, n, 2)), rng.uniform(0.5, 1.6, (owners, n))
    context = phi @ np.array([0.4, -0.2])
    eta = 3.2 - 3.4 * e * np.exp(-context) if form == "scaled" else 3.2 - 3.4 * e + 4.0 * context
    return phi, e, (rng.uniform(size=e.shape) < logistic(eta)).astype(float)


def test_how_far_the_best_action_moves() -> None:
    """The derivative of log argmax e·σ(a − e) in a, by optimisation: to 1e-4."""

    def best(level: float) -> float:
        found: Any = minimize_scalar(
            lambda e: -e * logistic(np.array(level - e)),
            bounds=(0.1, 20),
            method="bounded",
            options={"xatol": 1e-10},
        )
        return float(np.log(found.x))

    for level in (0.5, 2.0, 4.0):
        slope = (best(level + 1e-3) - best(level - 1e-3)) / 2e-3
        assert abs(slope - _share(np.array([level]))[0][0]) < 1e-4


def test_the_scaled_form_is_the_exact_mode_under_its_prior() -> None:
    """From few rows: SciPy's mode under N(θ̄, (sd/β̄)²) of θ and the priors of α and β, to 1e-4.

    The error of θ is that of SciPy's Hessian, by differences, to a tenth: the fit's own leaves out
    how the form bends.
    """
    phi, e, y = rows_of(1, "scaled", owners=1, n=300)
    mean = np.concatenate((PRIOR[0][:2], PRIOR[0][2:] / PRIOR[0][1]))
    sd = np.concatenate((PRIOR[1][:2], PRIOR[1][2:] / PRIOR[0][1]))

    def loss(w: Array) -> float:
        z = w[0] - w[1] * e[0] * np.exp(-(phi[0] @ w[2:]))
        far = (w - mean) / sd
        return float(-(y[0] * z - np.logaddexp(0.0, z)).sum() + 0.5 * (far * far).sum())

    exact: Any = minimize(loss, mean, method="BFGS", options={"gtol": 1e-9})
    found, root = follow(phi, e, y, np.ones(e.shape), *PRIOR, "scaled")
    np.testing.assert_allclose(found[0, :2], exact.x[:2], atol=1e-4)
    np.testing.assert_allclose(found[0, 2:] / found[0, 1], exact.x[2:], atol=1e-4)
    h = 1e-3 * np.eye(4)
    hessian = np.array(
        [
            [
                loss(exact.x + a + b) - loss(exact.x + a - b) - loss(exact.x - a + b)
                + loss(exact.x - a - b)
                for b in h
            ]
            for a in h
        ]
    ) / 4e-6  # fmt: skip
    error = np.sqrt(np.diag(np.linalg.inv(hessian)))[2:]
    part = scaler(follows="scaled")
    state = part.init(1)
    state.posterior.mean[:], state.posterior.root[:] = found, root
    np.testing.assert_allclose(part.estimate(state, np.zeros(1, int))[1][0], error, rtol=0.1)


def test_a_poor_start_leads_to_the_same_fit() -> None:
    """From level 0 under a prior that says nothing, exact shares give the truth: θ to 0.001.

    Plain Newton steps on the linear form drive β below 0 for some of these owners.
    """
    phi, e, _ = rows_of(10, "scaled", owners=40, n=500)
    rng = np.random.default_rng(11)
    alpha, beta = rng.normal(3.8, 0.5, (40, 1)), rng.normal(3.6, 0.5, (40, 1))
    theta = np.array([0.7, -0.3]) + rng.normal(0.0, 0.2, (40, 2))
    p = logistic(alpha - beta * e * np.exp(-(phi @ theta[..., None])[..., 0]))
    prior = np.array([0.0, 3.0, 0.0, 0.0]), np.full(4, 100.0)
    found, _ = follow(phi, e, p, np.full(e.shape, 50.0), *prior, "scaled")
    np.testing.assert_allclose(found[:, :1], alpha, atol=1e-2)
    np.testing.assert_allclose(found[:, 2:] / found[:, 1:2], theta, atol=1e-3)


@given(seed=st.integers(0, 9999))
@examples(20)
def test_no_start_is_left_before_the_mode(seed: int) -> None:
    """Few or many rows of any truth: SciPy, from where the fit ends, gains less than 1e-3 nats."""
    rng = np.random.default_rng(seed)
    k, n = int(rng.integers(1, 5)), int(rng.choice([10, 80, 400]))
    phi, e = rng.uniform(-1, 1, (1, n, k)), rng.uniform(0.4, 1.8, (1, n))
    theta = rng.normal(0.0, 0.5, k)
    eta = rng.normal(3, 1) - rng.uniform(0.3, 5) * e * np.exp(-(phi @ theta))
    y = (rng.uniform(size=e.shape) < logistic(eta)).astype(float)
    prior = np.array([3.0, 3.0, *np.zeros(k)]), np.array([1.5, 1.5, *np.full(k, 1.8)])
    found, _ = follow(phi, e, y, np.ones(e.shape), *prior, "scaled")
    assume(found[0, 1] > LEAST)  # a slope that is not above 0 has no θ: nothing is published then
    sd = np.concatenate((prior[1][:2], prior[1][2:] / 3.0))

    def loss(w: Array) -> float:
        z = w[0] - w[1] * e[0] * np.exp(-(phi[0] @ w[2:]))
        far = (w - np.concatenate((prior[0][:2], np.zeros(k)))) / sd
        return float(-(y[0] * z - np.logaddexp(0.0, z)).sum() + 0.5 * (far * far).sum())

    at = np.concatenate((found[0, :2], found[0, 2:] / max(found[0, 1], LEAST)))
    better: Any = minimize(loss, at, method="BFGS")
    assert loss(at) - better.fun < 1e-3


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")
def test_who_does_not_settle_is_not_published() -> None:
    """Contexts without measure overflow: their owner has slope 0, and others are as alone."""
    phi, e, y = rows_of(12, "scaled", owners=2)
    weight = np.ones(e.shape)
    alone = follow(phi[:1], e[:1], y[:1], weight[:1], *PRIOR, "scaled")
    phi[1] *= 1e4
    found, root = follow(phi, e, y, weight, *PRIOR, "scaled")
    assert found[1, 1:].tolist() == [0.0] * 3
    assert np.isfinite(found).all()
    assert np.isfinite(root).all()
    assert found[0].tobytes() == alone[0][0].tobytes()


@pytest.mark.parametrize("form", FORMS)
def test_demand_that_does_not_fall_with_the_action_is_not_published(form: str) -> None:
    """4,000 rows whose outcome does not answer to the action: β̂ is 0 to its error, and refused."""
    part, n = scaler(follows=form), 4000
    phi, e, _ = rows_of(13, "scaled", owners=1, n=n)
    y = (np.random.default_rng(14).random(n) < logistic(0.5 + phi[0, :, 0])).astype(float)
    state, owner, weight = part.init(1), np.zeros(n, dtype=np.int64), np.ones(n)
    part.watch(state, owner, phi[0], e.T, y[:, None], weight)
    part.refit(state, np.zeros(1, dtype=np.int64), owner, phi[0], e.T, y, weight)
    assert part.publish(state, np.zeros(1, dtype=np.int64)).size == 0


def test_evidence_compares_the_forms_under_the_same_prior_of_theta() -> None:
    """Laplace's log evidence of each form against importance sampling: to 0.15 nats."""
    for seed, form in ((8, "scaled"), (9, "shifted")):
        phi, e, y = rows_of(seed, form, owners=1, n=300)
        rows = (phi, e, y, np.ones(e.shape))
        slope, rng = PRIOR[0][1], np.random.default_rng(seed)
        for fit, is_scaled in ((_scaled, True), (_shifted, False)):
            found, root, evidence = fit(*rows, *PRIOR)
            share = _share(PRIOR[0][:1])[0][0]
            unit = 1.0 if is_scaled else 1.0 / share
            mean = np.concatenate((PRIOR[0][:2], PRIOR[0][2:] / slope * unit))
            sd = np.concatenate((PRIOR[1][:2], PRIOR[1][2:] / slope * unit))
            # Around the fit, in (α, β, θ or ζ), with the prior's errors shrunk to the posterior's.
            theta = found[0, 2:] / found[0, 1]
            if not is_scaled:
                theta = theta / _share(found[:, 0])[0][0]
            centre = np.concatenate((found[0, :2], theta))
            error = np.sqrt((root[0] ** 2).sum(axis=1))
            around = np.minimum(
                sd, 1.5 * np.concatenate((error[:2], error[2:] / found[0, 1] * unit))
            )
            z = rng.standard_t(6, size=(20_000, 4))
            w = centre + around * z
            context = w[:, 2:] @ phi[0].T
            price = w[:, 1:2] * e[0]
            eta = w[:, :1] - price * np.exp(-context) if is_scaled else w[:, :1] - price + context
            log: Array = (y[0] * eta - np.logaddexp(0.0, eta)).sum(axis=1)
            log += np.asarray(stats.norm.logpdf(w, mean, sd)).sum(axis=1)
            log -= (stats.t.logpdf(z, 6) - np.log(around)).sum(axis=1)
            exact = np.log(np.exp(log - log.max()).mean()) + log.max()
            assert abs(evidence[0] - exact) < 0.15, (form, is_scaled, evidence[0], exact)


def test_the_shifted_form_gives_how_the_best_price_moves() -> None:
    """Exact shares of the shifted form: θ is the slope of log e* at the mean context."""
    phi, e, _ = rows_of(2, "shifted", owners=1, n=4000)
    p = logistic(3.2 - 3.4 * e + 4.0 * (phi @ np.array([0.4, -0.2])))
    expected = 4.0 * np.array([0.4, -0.2]) * _share(np.array([3.2]))[0]
    for form in ("both", "shifted"):
        found, _ = follow(phi, e, p, np.full(e.shape, 20.0), *PRIOR, form)
        np.testing.assert_allclose(found[0, 2:] / found[0, 1], expected, rtol=0.03)


def test_both_lie_between_the_two() -> None:
    """θ of both is a weighted mean of each form's, and all but θ is that of the scaled one."""
    phi, e, y = rows_of(6, "shifted", n=400)
    rows = (phi, e, y, np.ones(e.shape))
    both, scaled, shifted = (follow(*rows, *PRIOR, form)[0] for form in FORMS)
    one, other, mean = (found[:, 2:] / found[:, 1:2] for found in (scaled, shifted, both))
    share = (mean - other) / (one - other)
    np.testing.assert_allclose(share[:, 0], share[:, 1], atol=1e-9)
    assert ((share >= 0) & (share <= 1)).all()
    np.testing.assert_array_equal(both[:, :2], scaled[:, :2])


def test_the_error_of_a_shifted_fit_is_that_of_the_delta_method() -> None:
    """A root of cov(α, β, βθ) is the gradient of (α, β, β·ζ·share(α)) times that of (α, β, ζ).

    The gradient is taken by differences, the root of (α, β, ζ) from the fit itself.
    """
    phi, e, y = rows_of(7, "shifted", owners=1)
    weight = np.ones(e.shape)
    found, root = follow(phi, e, y, weight, *PRIOR, "shifted")
    slope, share = PRIOR[0][1], _share(PRIOR[0][:1])[0][0]
    mean = np.concatenate((PRIOR[0][:2], PRIOR[0][2:] / slope / share))
    sd = np.concatenate((PRIOR[1][:2], PRIOR[1][2:] / slope / share))
    design = np.concatenate((np.ones((*e.shape, 1)), -e[..., None], phi), axis=-1)
    plain = LogisticPosterior.fit(design, y, weight, mean, sd**-2.0)

    def moved(w: Array) -> Array:
        return np.concatenate((w[:2], w[1] * w[2:] * _share(w[:1])[0]))

    at = plain.mean[0]
    np.testing.assert_allclose(found[0], moved(at), rtol=1e-8)
    steps = 1e-6 * np.eye(at.size)
    gradient = np.stack([(moved(at + h) - moved(at - h)) / 2e-6 for h in steps], axis=1)
    expected = gradient @ plain.root[0] @ plain.root[0].T @ gradient.T
    np.testing.assert_allclose(root[0] @ root[0].T, expected, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_an_owner_is_the_same_alone(form: str) -> None:
    """Bit for bit, whatever other owners there are."""
    phi, e, y = rows_of(3, "scaled")
    weight = np.ones(e.shape)
    together = follow(phi, e, y, weight, *PRIOR, form)
    alone = follow(phi[1:2], e[1:2], y[1:2], weight[1:2], *PRIOR, form)
    for a, b in zip(together, alone, strict=True):
        assert a[1].tobytes() == b[0].tobytes()


def scaler(**changes: Any) -> LogLinearScaler:
    return LogLinearScaler(
        factors={"a": (0,), "b": (1,)},
        centre=(0.0, 0.0),
        level=3.0,
        slope=3.0,
        row_by_row=False,
        **{"follows": "both"} | changes,
    )


@pytest.mark.parametrize("form", ["scaled", "shifted"])
@pytest.mark.parametrize("is_known", [False, True])
def test_a_scaler_publishes_what_it_follows(form: str, is_known: bool) -> None:
    """From 4,000 rows an owner θ̂ lies within 0.08 of how log e* moves; measured: 0.05 at most."""
    part, n = scaler(follows=form if is_known else "both"), 4000
    phi, e, y = rows_of(4, form, n=n)
    state, owner = part.init(3), np.repeat(np.arange(3), n)
    x, action = phi.reshape(-1, 2), e.reshape(-1, 1)
    outcome, weight = y.reshape(-1, 1), np.ones(owner.size)
    part.watch(state, owner, x, action, outcome, weight)
    part.refit(state, np.arange(3), owner, x, action, outcome[:, 0], weight)
    assert part.publish(state, np.arange(3)).tolist() == [0, 1, 2]
    theta = np.array([0.4, -0.2])
    if form == "shifted":
        theta = 4.0 * theta * _share(np.array([3.2]))[0]
    np.testing.assert_allclose(state.theta[:, 0], np.tile(theta, (3, 1)), atol=0.08)


def test_owners_without_rows_return_to_the_prior() -> None:
    part, (phi, e, y) = scaler(), rows_of(5, "scaled", owners=1)
    state = part.init(2)
    before = state.posterior.mean[1].copy()
    state.posterior.mean[1] += 1.0
    zero = np.zeros(e.size, dtype=np.int64)
    part.refit(state, np.arange(2), zero, phi[0], e.T, y[0], np.ones(e.size))
    np.testing.assert_array_equal(state.posterior.mean[1], before)


def test_bad_settings_are_refused() -> None:
    with pytest.raises(InvalidInput, match="row_by_row"):
        LogLinearScaler(factors={"a": (0,)}, follows="both")
    with pytest.raises(InvalidInput, match="follows"):
        LogLinearScaler(factors={"a": (0,)}, follows="worst")
