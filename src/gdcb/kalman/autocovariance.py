"""Autocovariance least squares: Q and R from the innovations of a filter with a fixed gain.

With a fixed gain K the prediction error obeys ε' = Aε + w − FKv, A = F(I − KH), and ν = Hε + v. In
the steady state

    P = APAᵀ + Q + FK R KᵀFᵀ,   C₀ = HPHᵀ + R,   C_j = HAʲPHᵀ − HAʲ⁻¹FKR

are linear in (Q, R), whatever the filter believed them to be: a regression of the measured
autocovariances Ĉ_j (Mehra 1970; Odelson, Rajamani and Rawlings 2006).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.kalman.inputs import count
from gdcb.kalman.semidefinite import fit_inside, is_inside
from gdcb.kalman.steady import (
    autocovariance_whitener,
    checked_innovations,
    checked_system,
    innovation_autocovariance,
    settling,
    stacked,
)
from gdcb.parts import check_choice

WEIGHTS = ("gaussian", "equal")
_DECAYED = 0.05  # size of Aʲ from which on lags say little
_MOST_LAGS = 20
_BLOCKS = 20  # over which standard errors are taken, where tracks are fewer


@dataclass(frozen=True, slots=True, eq=False)
class NoiseFit:
    """Q̂ and R̂, and how they were found.

    Parameters
    ----------
    process, noise : (n, n), (m, m) Q̂ and R̂, positive definite on what their bases reach
    process_error, noise_error : the same shapes, standard errors of the entries over blocks, of
        the fit before the constraint; NaN where there are fewer than five blocks
    noise_by_block : (B, m, m) R̂ as each block alone would have it, whose mean is R̂ but for the
        constraint: for errors of what is computed from R̂
    coefficients : (p,) of the basis of Q
    n_blocks : B, tracks or stretches of tracks
    burn_in, n_lags : steps left out at the start, lags used (0 among them)
    is_constrained : whether the plain fit was not positive definite
    """

    process: Array
    noise: Array
    process_error: Array
    noise_error: Array
    noise_by_block: Array
    coefficients: Array
    n_blocks: int
    burn_in: int
    n_lags: int
    is_constrained: bool


def autocovariance_fit(
    innovation: Array,
    f: Array,
    h: Array,
    gain: Array,
    *,
    basis: Array | None = None,
    is_noise_diagonal: bool = False,
    n_lags: int | None = None,
    burn_in: int | None = None,
    weights: str = "gaussian",
) -> NoiseFit:
    """Fit Q and R to the autocovariances of steady innovations, all tracks together.

    Parameters
    ----------
    innovation : (T, N, m) ν, finite, of mean 0, all tracks under one gain
    f, h, gain : (n, n), (m, n), (n, m) F, H and the fixed K of the filter that left them, with
        F(I − KH) stable; K need not be optimal
    basis : (p, n, n) symmetric matrices of which Q is a combination; None: all symmetric ones
    is_noise_diagonal : whether R is diagonal; else it is any symmetric matrix
    n_lags : lags used, 0 among them, more than n; None: until Aʲ has decayed
    burn_in : steps left out at the start of every track; None: until a thousandth of the start's
        covariance is left
    weights : 'gaussian': lags are weighed by the inverse of the covariance that Ĉ has where the
        noise is Gaussian and as a first fit has it; 'equal': not at all

    Returns
    -------
    fit : a plain weighted fit where that is positive definite, else the constrained one of
        `semidefinite.fit_inside`

    Notes
    -----
    Assumes: F, H, K, Q and R fixed over time and tracks, w and v white and apart, mean 0. Then it
    is consistent in N·T without a prior for P.

    Stops applying: where Q has more than n·m unknowns, or some that never reach a measurement
    (refused); where the innovations have a mean or periodic lines, which are taken for Q.

    Examples
    --------
    F = ½, H = 1 and K = 0: ν = x + v with Var x = Q/(1 − ¼) and C₁ = ½ Var x, so R = C₀ − 2C₁.
    The record 1, 1, −1, −1, … has C₀ = 1 and C₁ = 0: R̂ = 1, and Q̂ is as good as 0.

    >>> nu = np.tile([1.0, 1.0, -1.0, -1.0], 101)[:402, None, None]
    >>> one = np.ones((1, 1))
    >>> fit = autocovariance_fit(nu, 0.5 * one, one, 0 * one, n_lags=2, burn_in=1)
    >>> float(fit.noise.round(3).item()), float(fit.process.round(3).item())
    (1.0, 0.0)
    """
    check_choice("weights", weights, WEIGHTS)
    f, h, gain = checked_system(f, h, gain)
    nu = checked_innovations(innovation, h.shape[0])
    families = _checked_basis(basis, *h.shape), symmetric_basis(h.shape[0], is_noise_diagonal)
    skipped = settling(f, h, gain) if burn_in is None else count("burn_in", burn_in, 0)
    steady = nu.shape[0] - skipped
    lags = _lags(f, h, gain) if n_lags is None else count("n_lags", n_lags, f.shape[0] + 1)
    if steady < lags + 2:
        raise InvalidInput(
            f"innovation: expected at least {lags + 2} steps after the burn-in of {skipped}, for "
            f"{lags} lags; got {max(steady, 0)}"
        )
    sums, counts = _moments(nu[skipped:], lags)
    pooled = sums.sum(axis=0) / counts.sum(axis=0)[:, None, None]
    spread = np.sqrt(np.diagonal(pooled[0]))
    if not (np.isfinite(spread) & (spread > 0.0)).all():
        raise InvalidInput(
            "innovation: expected every component to vary, with finite squares; got standard "
            f"deviations {spread.tolist()}"
        )
    x, y = _design(f, h, gain, families, lags), stacked(pooled)
    _check_identified(x, families[0].shape[0])
    root = np.diag(1.0 / stacked(np.broadcast_to(np.outer(spread, spread), pooled.shape)))
    theta, is_constrained = _solved(root @ x, root @ y, families)
    if weights == "gaussian":
        far = 3 * lags + min(settling(f, h, gain, 1e-8), 500)
        model = innovation_autocovariance(f, h, gain, *_matrices(theta, families), far)
        root = autocovariance_whitener(model, counts.sum(axis=0))
        theta, is_constrained = _solved(root @ x, root @ y, families)
    linear = np.linalg.pinv(root @ x) @ root
    by_block = stacked(sums / counts[..., None, None]) @ linear.T
    process_by, noise_by = _matrices(by_block, families)
    process, noise = _matrices(theta, families)
    return NoiseFit(
        process=process,
        noise=noise,
        process_error=standard_error(process_by),
        noise_error=standard_error(noise_by),
        noise_by_block=noise_by,
        coefficients=theta[: families[0].shape[0]],
        n_blocks=by_block.shape[0],
        burn_in=skipped,
        n_lags=lags,
        is_constrained=is_constrained,
    )


def symmetric_basis(k: int, is_diagonal: bool = False) -> Array:
    """Return matrices (p, k, k) whose combinations are all symmetric, or all diagonal ones.

    >>> symmetric_basis(2).tolist()
    [[[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]]
    """
    pairs = [(i, j) for i in range(k) for j in range(i + 1) if i == j or not is_diagonal]
    basis = np.zeros((len(pairs), k, k))
    for at, (i, j) in enumerate(pairs):
        basis[at, i, j] = basis[at, j, i] = 1.0
    return basis


def standard_error(by_block: Array) -> Array:
    """Return the standard error of the mean over blocks (B, ...); NaN for fewer than five."""
    n = by_block.shape[0]
    if n < 5:
        return np.full(by_block.shape[1:], np.nan)
    return np.asarray(by_block.std(axis=0, ddof=1) / np.sqrt(n))


def _checked_basis(basis: Array | None, m: int, n: int) -> Array:
    given = symmetric_basis(n) if basis is None else np.asarray(basis, dtype=float)
    if given.ndim != 3 or given.shape[1:] != (n, n) or given.shape[0] == 0:
        raise InvalidInput(f"basis: expected shape (p, {n}, {n}), got {given.shape}")
    if not np.isfinite(given).all() or not np.allclose(given, given.swapaxes(1, 2), rtol=1e-9):
        raise InvalidInput("basis: expected finite symmetric matrices, got others")
    if given.shape[0] > n * m:
        raise InvalidInput(
            f"basis: Q has {given.shape[0]} unknowns, of which innovations can tell at most "
            f"n·m = {n * m}; expected a basis of so many matrices"
        )
    return given


def _lags(f: Array, h: Array, gain: Array) -> int:
    """Return enough lags to tell Q, and those after which Aʲ has decayed."""
    least = f.shape[0] + 1
    decayed = settling(f, h, gain, _DECAYED**2) + 1
    return int(max(least, min(decayed, _MOST_LAGS)))


def _moments(nu: Array, lags: int) -> tuple[Array, Array]:
    """Return sums (B, J, m, m) of ν_{t+j}ν_tᵀ and their numbers (B, J): a block is a track.

    Where tracks are few each is cut into stretches; pairs across a cut count with the first.
    """
    steady, n_tracks, m = nu.shape
    pieces = max(1, min(-(-_BLOCKS // n_tracks), steady // (2 * lags)))
    edges = np.linspace(0, steady, pieces + 1).astype(int)
    sums, counts = np.zeros((pieces, n_tracks, lags, m, m)), np.zeros((pieces, n_tracks, lags))
    for s, (low, high) in enumerate(pairwise(edges)):
        for j in range(lags):
            end = min(high, steady - j)
            sums[s, :, j] = np.einsum("tna,tnb->nab", nu[low + j : end + j], nu[low:end])
            counts[s, :, j] = end - low
    return sums.reshape(-1, lags, m, m), counts.reshape(-1, lags)


def _design(f: Array, h: Array, gain: Array, families: tuple[Array, Array], lags: int) -> Array:
    """Return the regressors (d, p): what each unknown alone would make of C₀ …."""
    q_basis, r_basis = families
    p, n, m = q_basis.shape[0], *gain.shape
    q = np.concatenate((q_basis, np.zeros((r_basis.shape[0], n, n))))
    r = np.concatenate((np.zeros((p, m, m)), r_basis))
    return stacked(innovation_autocovariance(f, h, gain, q, r, lags)).T


def _check_identified(x: Array, p: int) -> None:
    sizes = np.linalg.norm(x, axis=0)
    _, values, vectors = np.linalg.svd(x / np.where(sizes > 0.0, sizes, 1.0))
    least = values.min() if x.shape[0] >= x.shape[1] else 0.0
    if least > 1e-7 * values.max():
        return
    names = [
        f"matrix {i} of the basis of Q" if i < p else f"entry {i - p} of R"
        for i in np.flatnonzero(np.abs(vectors[-1]) > 0.1)
    ]
    raise InvalidInput(
        "basis: not identified, the autocovariances of the innovations stay the same along a "
        f"combination of {', '.join(names)}; expected fewer unknowns or other measurements"
    )


def _matrices(theta: Array, families: tuple[Array, Array]) -> tuple[Array, Array]:
    q_basis, r_basis = families
    p = q_basis.shape[0]
    return (
        np.einsum("...p,pij->...ij", theta[..., :p], q_basis),
        np.einsum("...p,pij->...ij", theta[..., p:], r_basis),
    )


def _solved(x: Array, y: Array, families: tuple[Array, Array]) -> tuple[Array, bool]:
    """Return the plain fit, or the constrained one where that is no pair of covariances."""
    plain: Array = np.linalg.lstsq(x, y, rcond=None)[0]
    if is_inside(plain, families):
        return plain, False
    return fit_inside(x, y, families), True
