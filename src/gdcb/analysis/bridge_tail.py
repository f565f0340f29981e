"""How large the largest of a standardised Brownian bridge gets, looked at in some instants.

A cumulated sum of residuals, divided by its standard deviation at every instant, is under one
unchanged law such a bridge. Its clock is the log odds τ = log(λ/(1 − λ)) of the share λ of the
information that has come: in it the process is stationary, Corr(τ, τ′) = exp(−|τ − τ′|/2).
"""

from __future__ import annotations

import math

import numpy as np

from gdcb.arrays import Array

_LEAST_CORRELATION = 1e-3  # of neighbours; below it they say nothing of each other
_LEAST_HEIGHT = 2.0  # from which the expansion in the tail is good


def bridge_tail(height: Array, correlation: Array, is_looked: Array) -> Array:
    """Return P(max_s |Z_s| ≥ b) of standardised Gaussian Z_s, from their neighbours' correlations.

    The smaller of two numbers. The first is a bound whatever the other correlations are (Hunter
    1976; Worsley 1982): 2Q(b) + Σ_s P(|Z_{s+1}| ≥ b, |Z_s| < b) ≤ 2Q(b) + 4·Σ_s T(b, a_s) with
    Owen's T and a_s² = (1 − ρ_s)/(1 + ρ_s); it is good where instants are few. The second is the
    tail of a bridge over its clock, φ(b)·{(b − 1/b)·Σ_s Δτ_s·ν(b√Δτ_s) + 4/b} with
    Δτ_s = −2·log ρ_s; Σ Δτ = log{(1 − h)(1 − l)/(h·l)} for shares from l to 1 − h (Csörgő and
    Horváth 1997, 1.3.26), and ν takes off what is missed between instants (James, James and
    Siegmund 1987).

    Parameters
    ----------
    height : (k,) b ≥ 0 of each of k processes
    correlation : (k, m − 1) ρ_s of each instant and the next
    is_looked : (k, m) instants over which the largest is taken; a gap starts a new stretch

    Returns
    -------
    (k,) probabilities, 1 where no instant is looked at.

    Examples
    --------
    One instant: |Z| ≥ 1.96 has 5 %. A second that is independent: at most twice as much.

    >>> one = bridge_tail(np.array([1.96]), np.array([[0.0]]), np.array([[True, False]]))
    >>> two = bridge_tail(np.array([1.96]), np.array([[0.0]]), np.array([[True, True]]))
    >>> one.round(3).tolist(), two.round(3).tolist()
    ([0.05], [0.099])
    """
    from scipy.special import ndtr, owens_t

    b = np.asarray(height, dtype=float)
    is_pair = is_looked[:, 1:] & is_looked[:, :-1]
    stretches = is_looked.sum(axis=1) - is_pair.sum(axis=1)
    rho = np.clip(np.where(is_pair, correlation, 1.0), _LEAST_CORRELATION, 1.0)
    apart = owens_t(b[:, None], np.sqrt((1.0 - rho) / (1.0 + rho)))
    bound = 2.0 * stretches * ndtr(-b) + 4.0 * np.where(is_pair, apart, 0.0).sum(axis=1)
    step = -2.0 * np.log(rho)
    high = np.maximum(b, _LEAST_HEIGHT)
    clock = (step * discreteness(high[:, None] * np.sqrt(step))).sum(axis=1)
    density = np.exp(-0.5 * high * high) / math.sqrt(2.0 * math.pi)
    tail = density * ((high - 1.0 / high) * clock + 4.0 * stretches / high)
    found = np.where(b >= _LEAST_HEIGHT, np.minimum(bound, tail), bound)
    return np.where(stretches > 0, np.minimum(found, 1.0), 1.0)


def discreteness(x: Array) -> Array:
    """Return ν(x), the share of a continuous process's crossings that are seen in steps of size x.

    ν(x) ≈ (2/x)(Φ(x/2) − ½)/{(x/2)Φ(x/2) + φ(x/2)} (Siegmund and Yakir 2007, p. 112).

    >>> discreteness(np.array([0.0, 1.0])).round(3).tolist()
    [1.0, 0.549]
    """
    from scipy.special import ndtr

    half = np.maximum(x, 1e-8) / 2.0
    density = np.exp(-0.5 * half * half) / math.sqrt(2.0 * math.pi)
    middle = ndtr(half) - 0.5
    return np.asarray(middle / half / (half * (middle + 0.5) + density))
