"""The paper's Algorithm 1, 'sequential R-then-P₀ seeding', as written: it returns its prior.

Kept so that its failure can be seen beside `gdcb.kalman.seeding`; start no filter with it.

Put step 2 into step 5. Where the floor of step 3 does not bind,

    Ŝ − R̂ = V̂_fit − (V̂_cal − H P_prior Hᵀ) = V̂_fit − V̂_cal + H P_prior Hᵀ.

- (P1), stationary innovations: V̂_fit and V̂_cal have one limit. The difference goes to 0 and what
  is left is H P_prior Hᵀ, whatever the data. On one sample it is so to the last digit. (A prior
  so high that the floor binds returns V̂_fit − ρ instead: all of the innovations' variance.)
- (P2), the prediction error's covariance is P_prior while R̂ is fitted: then P₀, the covariance at
  the start, *is* the prior, and nothing is left to estimate. Where it is another, step 2 errs by
  H(P₀ − P_prior)Hᵀ or, on a later window, by what the filter has made of P₀ by then.
- Without (P1), from tracks that start at P₀: V̂_fit is of a time when the filter has forgotten P₀.
  The limit is Π(P_prior + Σ∞ − Σ_cal)Π, with Σ∞ the steady error covariance and Σ_cal its mean
  over the leading window: the more P₀ there is, the *less* is returned.
- H⁺ A H⁺ᵀ is zero on ker H: there the filter is told that the state is known exactly. The
  proposition says that the prior is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.kalman.semidefinite import psd_part
from gdcb.kalman.steady import checked_innovations
from gdcb.parts import check_number

_FLOOR = 0.1  # of the smallest eigenvalue of R_def, below which R̂ has none (step 3)


@dataclass(frozen=True, slots=True, eq=False)
class AlgorithmOne:
    """What Algorithm 1 returns, and what it made it from.

    Parameters
    ----------
    initial : (n, n) P̂₀ of step 5
    noise : (m, m) R̂ of step 3
    calibration, fit : (m, m) V̂_cal and V̂_fit = Ŝ
    is_floored : whether the floor of step 3 did anything
    """

    initial: Array
    noise: Array
    calibration: Array
    fit: Array
    is_floored: bool


def algorithm_one(
    innovation: Array, h: Array, prior: Array, noise_default: Array, share: float = 0.25
) -> AlgorithmOne:
    """Run the five steps.

    Parameters
    ----------
    innovation : (T, N, m) ν; the paper has one record, N = 1. Of several the leading segments
        are pooled, and the rest
    h, prior, noise_default : (m, n), (n, n), (m, m) H, P_prior and R_def
    share : κ, of the steps that are the leading segment

    Notes
    -----
    It stops applying everywhere: see the module. `gdcb.kalman.seeding.seed` is what to use.

    Examples
    --------
    H = 1, prior 4. The leading half 1, −1 has the variance 2, the rest 3, −3 has 18. R̂ = 2 − 4 is
    floored to 0.1, and P̂₀ = 18 − 0.1. With a default R of 1 and halves of equal variance 18, 18:
    R̂ = 14 and P̂₀ = 4, the prior.

    >>> one = np.ones((1, 1))
    >>> told = algorithm_one(np.array([1.0, -1, 3, -3])[:, None, None], one, 4 * one, one, 0.5)
    >>> round(told.initial.item(), 9), told.is_floored
    (17.9, True)
    >>> told = algorithm_one(np.array([3.0, -3, 3, -3])[:, None, None], one, 4 * one, one, 0.5)
    >>> told.initial.item(), told.noise.item()
    (4.0, 14.0)
    """
    h, prior, default = (np.asarray(part, dtype=float) for part in (h, prior, noise_default))
    if h.ndim != 2 or 0 in h.shape or not np.isfinite(h).all():
        raise InvalidInput(f"h: expected a finite matrix (m, n), got shape {h.shape}")
    m, n = h.shape
    for name, part, size in (("prior", prior, n), ("noise_default", default, m)):
        if part.shape != (size, size) or not np.isfinite(part).all():
            raise InvalidInput(f"{name}: expected a finite matrix {(size, size)}, got {part.shape}")
    nu = checked_innovations(innovation, m)
    check_number("share", share, 0.0, 1.0, open_low=True)
    first = int(share * nu.shape[0])  # step 1
    if min(first, nu.shape[0] - first) * nu.shape[1] < 2:
        raise InvalidInput(
            f"innovation: expected two of them in either segment, got {first} leading steps of "
            f"{nu.shape[0]} and {nu.shape[1]} tracks"
        )
    calibration, fit = _covariance(nu[:first]), _covariance(nu[first:])
    raw = calibration - h @ prior @ h.T  # step 2
    values, vectors = np.linalg.eigh(0.5 * (raw + raw.T))
    floor = _FLOOR * float(np.linalg.eigvalsh(default).min())
    is_floored = bool((values < floor).any())
    noise = (vectors * np.maximum(values, floor)) @ vectors.T if is_floored else raw  # step 3
    inverse = np.linalg.pinv(h)
    initial = psd_part(inverse @ (fit - noise) @ inverse.T)  # steps 4 and 5
    return AlgorithmOne(initial, noise, calibration, fit, is_floored)


def _covariance(nu: Array) -> Array:
    flat = nu.reshape(-1, nu.shape[-1])
    return np.asarray(np.cov(flat, rowvar=False)).reshape(nu.shape[-1], nu.shape[-1])
