"""Whether a filter is right about its own errors: NIS and NEES with chi-square bands."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.kalman import square_root
from gdcb.kalman.model import place
from gdcb.parts import check_number


@dataclass(frozen=True, slots=True, eq=False)
class NormalisedError:
    """A mean of squared errors, each in units of the variance that was claimed for it.

    Parameters
    ----------
    mean : (...) Σ values / Σ degrees of freedom: near 1 where claims are right, above where the
        filter is too sure of itself, below where it is not sure enough; NaN where nothing was seen
    low, high : (...) band of a chi-square of that many degrees, divided by them
    is_consistent : (...) whether the mean lies within its band
    n_free : (...) degrees of freedom
    """

    mean: Array
    low: Array
    high: Array
    is_consistent: Array
    n_free: Array


def nis(innovation: Array, covariance: Array) -> tuple[Array, Array]:
    """Return normalised innovations squared, νᵀS⁻¹ν, over the components that were seen.

    Parameters
    ----------
    innovation : (..., m) ν; NaN where not seen
    covariance : (..., m, m) S

    Returns
    -------
    values, n_free : (...) each; n_free counts the components that were seen

    Examples
    --------
    ν = 3 with S = 2 gives 9/2; a component that was not seen counts neither here nor there.

    >>> values, n_free = nis(np.array([3.0, np.nan]), np.array([[2.0, 1.0], [1.0, 5.0]]))
    >>> float(values.round(12)), int(n_free)
    (4.5, 1)
    """
    innovation, covariance = np.asarray(innovation, float), np.asarray(covariance, float)
    _check_shapes("innovation", innovation, covariance)
    is_seen = ~np.isnan(innovation)
    both = is_seen[..., :, None] & is_seen[..., None, :]
    among = np.where(both, covariance, np.eye(innovation.shape[-1]))
    values = _quadratic("innovation covariance", np.where(is_seen, innovation, 0.0), among)
    return values, is_seen.sum(axis=-1)


def nees(error: Array, covariance: Array) -> tuple[Array, Array]:
    """Return normalised estimation errors squared, (s − ŝ)ᵀP⁻¹(s − ŝ).

    Parameters
    ----------
    error : (..., n) true state less estimate
    covariance : (..., n, n) P

    Returns
    -------
    values, n_free : (...) each; n_free is n

    Examples
    --------
    >>> values, n_free = nees(np.array([1.0, 2.0]), np.diag([1.0, 2.0]))
    >>> float(values.round(12)), int(n_free)
    (3.0, 2)
    """
    error, covariance = np.asarray(error, float), np.asarray(covariance, float)
    _check_shapes("error", error, covariance)
    values = _quadratic("covariance", error, covariance)
    return values, np.full(values.shape, error.shape[-1])


def normalised(
    values: Array, n_free: Array, *, axis: int | tuple[int, ...] | None = None, level: float = 0.95
) -> NormalisedError:
    """Average NIS or NEES and say whether the filter's claims hold.

    Parameters
    ----------
    values, n_free : (T, N) from `nis` or `nees`
    axis : what to average over: 1 for tracks (one band a step), 0 for steps, None for all
    level : probability that a filter whose claims hold is inside the band

    Notes
    -----
    Assumes that the averaged terms are independent. Tracks are. Over time innovations of the right
    filter are white, so that NIS may be averaged over steps; under a wrong filter they are not, and
    the band's level is then only nominal. Estimation errors are correlated in time even under the
    right filter: average NEES over tracks (axis=1), step by step. A band of its average over steps
    is too narrow.

    Examples
    --------
    The mean of 3 and 5 with 4 degrees each is 1; the central 95 % of a chi-square of 8, over 8.

    >>> found = normalised(np.array([3.0, 5.0]), np.array([4, 4]))
    >>> float(found.mean), float(found.low.round(3)), float(found.high.round(3))
    (1.0, 0.272, 2.192)
    >>> bool(found.is_consistent)
    True
    """
    from scipy.special import gammaincinv

    check_number("level", level, 0.0, 1.0, open_low=True)
    if level == 1.0:
        raise InvalidInput("level: expected a number below 1, got 1")
    values, n_free = np.asarray(values, float), np.asarray(n_free)
    if values.shape != n_free.shape:
        raise InvalidInput(f"n_free: expected shape {values.shape}, got {n_free.shape}")
    free = np.asarray(n_free.sum(axis=axis), dtype=float)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.asarray(values.sum(axis=axis)) / free
        low = 2.0 * gammaincinv(free / 2.0, (1.0 - level) / 2.0) / free
        high = 2.0 * gammaincinv(free / 2.0, (1.0 + level) / 2.0) / free
    return NormalisedError(mean, low, high, (mean >= low) & (mean <= high), free.astype(np.int64))


def _check_shapes(name: str, vector: Array, matrix: Array) -> None:
    if vector.ndim < 1 or matrix.shape != (*vector.shape, vector.shape[-1]):
        raise InvalidInput(
            f"{name}: expected shapes (..., k) and (..., k, k), got {vector.shape} and "
            f"{matrix.shape}"
        )


def _quadratic(name: str, vector: Array, matrix: Array) -> Array:
    """Return vᵀM⁻¹v; refuse a matrix that is not positive-definite."""
    k = vector.shape[-1]
    is_finite = np.isfinite(matrix).all(axis=(-1, -2), keepdims=True)
    last = np.moveaxis(np.where(is_finite, matrix, 0.0).reshape(-1, k, k), 0, -1).copy()
    root, _, is_good = square_root.factor(last)
    eye = np.eye(k)[..., None]
    white = square_root.whitened(np.where(is_good, root, eye), vector.reshape(-1, k).T)
    out = square_root.total(white * white)
    is_bad = (~is_good | ~np.isfinite(out)).reshape(vector.shape[:-1])
    if is_bad.any():
        at = tuple(int(i) for i in np.argwhere(is_bad)[0]) if is_bad.ndim else ()
        raise InvalidInput(
            f"{name}: expected a positive definite matrix and finite errors, got "
            f"{matrix[at].tolist()} and {vector[at].tolist()}{place(at)}"
        )
    return np.asarray(out.reshape(vector.shape[:-1]))
