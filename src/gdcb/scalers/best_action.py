"""Which δ the best action follows, where a class of outcomes pays the action itself.

A booking that pays its price has the expected reward e·P(e). How the best e moves with the context
hangs on how context enters the log odds:

- *scaled*: α − β·e/δ(x). The best e is a constant times δ(x), so θ is that of δ;
- *shifted*: α − β·e + ζᵀφ. The best e solves β·e = 1 + ω with ω = W(exp(α + ζᵀφ − 1)), so that its
  logarithm moves with ζᵀφ by ω/(1 + ω)².

Whoever knows the form names it. Who does not fits *both* to the same rows: they are averaged by
how likely they make them (Laplace's approximation of the marginal likelihood), and none is
selected.
"""

from __future__ import annotations

import numpy as np

from gdcb.arrays import Array, is_any
from gdcb.logistic import LogisticPosterior, derivatives, logistic_mode

FORMS = ("both", "scaled", "shifted")
LEAST = 0.1  # lowest slope that anything is divided by
_STEPS, _HALVINGS, _NEAR = 100, 30, 1e-5  # of the scaled form: at most, and the last one's reach


def follow(
    phi: Array, e: Array, y: Array, weight: Array, mean: Array, sd: Array, form: str = "both"
) -> tuple[Array, Array]:
    """Fit a form, or both, to the rows of some owners.

    Parameters
    ----------
    phi, e, y, weight : (owners, n, k), (owners, n) each; a NaN y is left out
    mean, sd : (2 + k,) prior of α, β and β̄θ, β̄ = mean[1]: of θ N(mean/β̄, (sd/β̄)²) in both forms
    form : one of `FORMS`

    Returns
    -------
    coefficients (owners, 2 + k) = (α, β, βθ), β at least 0.1 in the last, and a root
    (owners, 2 + k, 2 + k) of their covariance. Of both forms θ is the average, and the rest is that
    of the scaled one.

    Examples
    --------
    Exact probabilities of the scaled form, α = 2, β = 3, θ = ½: the scaled fit is exact.

    >>> grid = np.linspace(-1.0, 1.0, 21)
    >>> phi, e = (part.ravel() for part in np.meshgrid(grid, 0.6 + 0.3 * (grid + 1.0)))
    >>> p = 1.0 / (1.0 + np.exp(3.0 * e * np.exp(-0.5 * phi) - 2.0))
    >>> prior = np.array([0.0, 3.0, 1.0]), np.full(3, 30.0)
    >>> found, _ = follow(phi[None, :, None], e[None], p[None], np.full((1, 441), 50.0), *prior)
    >>> bool(abs(found[0, 2] / found[0, 1] - 0.5) < 0.01)
    True
    """
    if form == "shifted":
        return _shifted(phi, e, y, weight, mean, sd)[:2]
    found, root, log_odds = _scaled(phi, e, y, weight, mean, sd)
    if form == "scaled":
        return found, root
    other, _, less = _shifted(phi, e, y, weight, mean, sd)
    is_scaled = 1.0 / (1.0 + np.exp(np.clip(less - log_odds, -700.0, 700.0)))[:, None]
    beta, own = (np.maximum(one[:, 1:2], LEAST) for one in (found, other))
    found[:, 2:] = is_scaled * found[:, 2:] + (1.0 - is_scaled) * other[:, 2:] * (beta / own)
    return found, root


def _scaled(
    phi: Array, e: Array, y: Array, weight: Array, mean: Array, sd: Array
) -> tuple[Array, Array, Array]:
    """Fit α − β·e/δ: coefficients, a root of their covariance, log evidence.

    Around θ₀ it is linear in (α, β, γ) with γ = β(θ − θ₀), whose prior is that of θ. Each step is
    one of Newton's on the linear form, no further than the form is nearly linear, and halved until
    the posterior rises. The form is then taken anew around the θ where it leads; every owner stops
    by itself. One that has not settled after 100 steps has the slope 0.
    """
    n = phi.shape[0]
    theta = np.tile(mean[2:] / max(float(mean[1]), LEAST), (n, 1))
    w = np.tile(mean[:2], (n, 1))
    trials, wins = _trials(y, weight)
    prior, active = (mean, sd), np.arange(n)
    relative = e * np.exp(-_predicted(phi, theta))
    height = _posterior(relative, trials, wins, theta, w, *prior)
    for _ in range(_STEPS):
        rows = slice(None) if active.size == n else active
        own, at, here = phi[rows], theta[rows], w[rows]
        design, now, away, wide = _around(own, relative[rows], at, here, mean, sd)
        gradient, hessian = derivatives(design, trials[rows], wins[rows], now)
        gradient -= (now - away) / wide**2
        hessian += (wide**-2.0)[:, :, None] * np.eye(sd.size)
        step = np.linalg.solve(hessian, gradient[..., None])[..., 0]
        reach = np.abs(_predicted(design, step)).max(axis=1, initial=1e-300)
        # Beyond half of β, or half a logarithm of δ, the linear form says nothing.
        beta = np.maximum(now[:, 1], LEAST)
        turned = np.abs(_predicted(own, step[:, 2:])).max(axis=1, initial=0.0)
        far = np.maximum(np.abs(step[:, 1]), turned)
        part = np.minimum(np.log1p(reach) / reach, 0.5 * beta / np.maximum(far, 1e-300))
        for _ in range(_HALVINGS):
            there = here + part[:, None] * step[:, :2]
            moved = at + part[:, None] * step[:, 2:] / np.maximum(there[:, 1:], LEAST)
            price = e[rows] * np.exp(-_predicted(own, moved))
            risen = _posterior(price, trials[rows], wins[rows], moved, there, *prior)
            falls = ~(risen >= height[rows] - 1e-9 * (1.0 + np.abs(height[rows])))
            if not is_any(falls):
                break
            part = np.where(falls, 0.5 * part, part)
        w[rows], theta[rows], relative[rows], height[rows] = there, moved, price, risen
        active = active[~(reach <= _NEAR)]
        if active.size == 0:
            break
    relative[active], w[active], theta[active] = 1.0, mean[:2], 0.0  # see below
    design, now, away, wide = _around(phi, relative, theta, w, mean, sd)
    found = derivatives(design, trials, wins, now)[1] + (wide**-2.0)[:, :, None] * np.eye(sd.size)
    fitted = LogisticPosterior(now, np.linalg.inv(np.linalg.cholesky(found)).swapaxes(-1, -2))
    evidence = _evidence(design, y, weight, fitted, away, wide)
    root = fitted.root.copy()
    root[:, 2:] += theta[..., None] * root[:, 1:2]  # d(βθ) = dγ + θ₀·dβ
    coefficients = np.concatenate((w, np.maximum(w[:, 1:], LEAST) * theta), axis=1)
    # Who has not settled knows nothing: a slope of 0 is never put in force.
    coefficients[active, 1:], root[active], evidence[active] = 0.0, np.diag(sd), -np.inf
    return coefficients, root, evidence


def _predicted(design: Array, w: Array) -> Array:
    """Return design (owners, n, d) · w (owners, d): (owners, n)."""
    return np.asarray((design @ w[..., None])[..., 0])


def _posterior(
    relative: Array, trials: Array, wins: Array, theta: Array, w: Array, mean: Array, sd: Array
) -> Array:
    """Return the log posterior of the scaled form, less a constant: (owners,)."""
    z = w[:, :1] - w[:, 1:] * relative
    likely = (wins * z - trials * np.logaddexp(0.0, z)).sum(axis=1)
    slope = max(float(mean[1]), LEAST)
    away, off = (w - mean[:2]) / sd[:2], (slope * theta - mean[2:]) / sd[2:]
    return np.asarray(likely - 0.5 * (away * away).sum(axis=1) - 0.5 * (off * off).sum(axis=1))


def _around(
    phi: Array, relative: Array, theta: Array, w: Array, mean: Array, sd: Array
) -> tuple[Array, Array, Array, Array]:
    """Return the linear form around θ: design, (α, β, 0), and the prior's mean and sd there."""
    slope = max(float(mean[1]), LEAST)
    centre, theta_sd = mean[2:] / slope, sd[2:] / slope
    beta = np.maximum(w[:, 1:], LEAST)
    design = np.empty((*relative.shape, 2 + phi.shape[2]))
    design[..., 0], design[..., 1] = 1.0, -relative
    np.multiply(relative[..., None], phi, out=design[..., 2:])
    now = np.concatenate((w, np.zeros(theta.shape)), axis=1)
    away = np.concatenate((np.broadcast_to(mean[:2], w.shape), beta * (centre - theta)), axis=1)
    wide = np.concatenate((np.broadcast_to(sd[:2], w.shape), beta * theta_sd), axis=1)
    return design, now, away, wide


def _shifted(
    phi: Array, e: Array, y: Array, weight: Array, mean: Array, sd: Array
) -> tuple[Array, Array, Array]:
    """Fit α − β·e + ζᵀφ: (α, β, βθ) with the θ of its best action, a root, log evidence."""
    slope = max(float(mean[1]), LEAST)
    share = _share(mean[:1])[0][0]
    prior = np.concatenate((mean[:2], mean[2:] / slope / share))
    spread = np.tile(np.concatenate((sd[:2], sd[2:] / slope / share)), (phi.shape[0], 1))
    tiled = np.tile(prior, (phi.shape[0], 1))
    design = np.concatenate((np.ones((*e.shape, 1)), -e[..., None], phi), axis=-1)
    trials, wins = _trials(y, weight)
    precision = spread**-2.0
    prior_precision = precision[:, :, None] * np.eye(sd.size)
    mode, found = logistic_mode(design, trials, wins, prior_precision, precision * tiled, tiled)
    fitted = LogisticPosterior(mode, np.linalg.inv(np.linalg.cholesky(found)).swapaxes(-1, -2))
    share, rise = (part[:, None] for part in _share(fitted.mean[:, 0]))
    beta, zeta = np.maximum(fitted.mean[:, 1:2], LEAST), fitted.mean[:, 2:]
    theta = share * zeta
    found = np.concatenate((fitted.mean[:, :2], beta * theta), axis=1)
    # d(βθ) = β·(share·dζ + ζ·share′·dα) + θ·dβ, row by row of the covariance's root.
    root = fitted.root.copy()
    moves = share[..., None] * root[:, 2:] + (zeta * rise)[..., None] * root[:, :1]
    root[:, 2:] = beta[..., None] * moves + theta[..., None] * root[:, 1:2]
    return found, root, _evidence(design, y, weight, fitted, tiled, spread)


def _share(level: Array) -> tuple[Array, Array]:
    """Return ω/(1 + ω)² with ω = W(exp(level − 1)), and its derivative by the level.

    That is how far log e* moves with the log odds: a quarter where level = 2, since W(e) = 1. It
    is largest there.

    >>> [part.round(9).tolist() for part in _share(np.array([2.0]))]
    [[0.25], [0.0]]
    """
    from scipy.special import wrightomega

    omega = np.asarray(wrightomega(level - 1.0))
    share = omega / (1.0 + omega) ** 2
    return share, share * (1.0 - omega) / (1.0 + omega) ** 2


def _trials(y: Array, weight: Array) -> tuple[Array, Array]:
    """Return weights of rows and of their outcomes; a NaN y weighs nothing."""
    trials = np.where(np.isfinite(y), weight, 0.0)
    return trials, np.where(np.isfinite(y), trials * y, 0.0)


def _evidence(
    design: Array, y: Array, weight: Array, found: LogisticPosterior, mean: Array, sd: Array
) -> Array:
    """Return Laplace's log marginal likelihood of each owner's rows, less what the forms share."""
    z = (design @ found.mean[..., None])[..., 0]
    seen = np.where(np.isfinite(y), weight, 0.0)
    likely = (seen * (np.nan_to_num(y) * z - np.logaddexp(0.0, z))).sum(axis=1)
    far = (found.mean - mean) / sd
    volume = np.log(np.abs(np.diagonal(found.root, axis1=-2, axis2=-1))).sum(axis=1)
    return np.asarray(likely - 0.5 * (far * far).sum(axis=1) - np.log(sd).sum(axis=1) + volume)
