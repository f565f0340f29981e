"""Least squares whose unknowns are covariances: a log-barrier keeps them positive definite."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput

_BARRIERS = 10.0 ** np.arange(1, -9, -1)  # weights of the barrier, in units of the residual
_STEPS = 60  # Newton steps at each of them


def psd_part(matrix: Array) -> Array:
    """Return the nearest positive semidefinite matrix: symmetrised, no eigenvalue below 0.

    Parameters
    ----------
    matrix : (..., k, k) A

    Returns
    -------
    A₊ : (..., k, k), nearest to A in the Frobenius norm

    Examples
    --------
    Eigenvalues 2 and −1 become 2 and 0:

    >>> psd_part(np.diag([2.0, -1.0])).tolist()
    [[2.0, 0.0], [0.0, 0.0]]
    """
    even = 0.5 * (matrix + matrix.swapaxes(-1, -2))
    values, vectors = np.linalg.eigh(even)
    raised = (vectors * np.maximum(values, 0.0)[..., None, :]) @ vectors.swapaxes(-1, -2)
    is_kept = np.asarray(values.min(axis=-1) >= 0.0)[..., None, None]
    return np.where(is_kept, even, raised)


def fit_inside(x: Array, y: Array, families: Sequence[Array]) -> Array:
    """Minimise ‖Xθ − y‖² over θ whose matrices Σ θᵢBᵢ are all positive definite.

    A log-barrier of falling weight is minimised by damped Newton steps, as Odelson, Rajamani and
    Rawlings (2006) do: the answer is inside the cone, and at its edge where the data point outside.

    Parameters
    ----------
    x, y : (d, p), (d,) regressors and target, weights already taken in
    families : bases (p_k, k, k) of symmetric matrices, one after the other along θ, Σ p_k = p

    Returns
    -------
    θ : (p,)

    Notes
    -----
    A family need not span all directions: 'positive definite' is meant on the directions that
    its matrices reach, so that a basis of rank one, as GGᵀ, is a scale ≥ 0. Refused is a family
    of which no combination is positive definite there.

    Examples
    --------
    The nearest variance to −1 is 0, and 2 stays 2:

    >>> both = (np.ones((1, 1, 1)), np.ones((1, 1, 1)))
    >>> bool(np.allclose(fit_inside(np.eye(2), np.array([-1.0, 2.0]), both), [0, 2], atol=1e-4))
    True
    """
    reached = [_on_range(basis) for basis in families]
    theta: Array = np.concatenate([_centre(basis) for basis in reached])
    sizes = np.linalg.norm(x, axis=0)
    x, theta = x / sizes, theta * sizes
    ends = np.cumsum([basis.shape[0] for basis in reached])[:-1]
    reached = [
        basis / part[:, None, None]
        for basis, part in zip(reached, np.split(sizes, ends), strict=True)
    ]
    theta = theta * (float(np.linalg.norm(y)) / max(float(np.linalg.norm(x @ theta)), 1e-300))
    if not theta.any():
        return theta  # y = 0: nothing varies
    scale = float(y @ y) / max(y.size, 1)
    gram, pull = x.T @ x, x.T @ y
    for weight in _BARRIERS * scale:
        theta = _newton(theta, gram, pull, reached, weight)
    return np.asarray(theta / sizes)


def is_inside(theta: Array, families: Sequence[Array]) -> bool:
    """Return whether all matrices Σ θᵢBᵢ are positive definite on what their basis reaches.

    >>> is_inside(np.array([1.0]), [np.diag([1.0, 0.0])[None]])
    True
    """
    at = 0
    for basis in (_on_range(family) for family in families):
        matrix = np.einsum("p,pij->ij", theta[at : at + basis.shape[0]], basis)
        values = np.linalg.eigvalsh(matrix)
        if values.min() <= 1e-9 * np.abs(values).max():
            return False
        at += basis.shape[0]
    return True


def _newton(theta: Array, gram: Array, pull: Array, families: list[Array], weight: float) -> Array:
    """Minimise ½θᵀGθ − gᵀθ − weight·Σ log det from a θ inside."""
    value = _objective(theta, gram, pull, families, weight)
    for _ in range(_STEPS):
        slope, bend = gram @ theta - pull, gram.copy()
        at = 0
        for basis in families:
            p = basis.shape[0]
            mine = slice(at, at + p)
            inverse = np.linalg.inv(np.einsum("p,pij->ij", theta[mine], basis))
            turned = inverse @ basis
            slope[mine] -= weight * np.trace(turned, axis1=-2, axis2=-1)
            bend[mine, mine] += weight * np.einsum("pij,qji->pq", turned, turned)
            at += p
        step = np.linalg.lstsq(bend, -slope, rcond=None)[0]
        gain = float(slope @ step)
        if -gain <= 1e-12 * weight:
            break
        length = 1.0
        while length > 1e-12:
            tried = _objective(theta + length * step, gram, pull, families, weight)
            if tried <= value + 1e-4 * length * gain:
                break
            length *= 0.5
        else:
            break
        theta, value = theta + length * step, tried
    return theta


def _objective(
    theta: Array, gram: Array, pull: Array, families: list[Array], weight: float
) -> float:
    at, barrier = 0, 0.0
    for basis in families:
        matrix = np.einsum("p,pij->ij", theta[at : at + basis.shape[0]], basis)
        values = np.linalg.eigvalsh(matrix)
        if not (values > 0.0).all():
            return np.inf
        barrier += float(np.log(values).sum())
        at += basis.shape[0]
    return float(0.5 * theta @ gram @ theta - pull @ theta - weight * barrier)


def _on_range(basis: Array) -> Array:
    """Return the basis on the directions that its matrices reach."""
    values, vectors = np.linalg.eigh(np.einsum("pij,pkj->ik", basis, basis))
    kept = vectors[:, values > 1e-12 * values.max()]
    out: Array = kept.T @ basis @ kept
    return out


def _centre(basis: Array) -> Array:
    """Return the combination nearest to the identity, which must be positive definite."""
    p, k, _ = basis.shape
    nearest = np.linalg.lstsq(basis.reshape(p, -1).T, np.eye(k).ravel(), rcond=None)[0]
    values = np.linalg.eigvalsh(np.einsum("p,pij->ij", nearest, basis))
    if values.min() <= 1e-9 * values.max():
        raise InvalidInput(
            "basis: expected matrices of which some combination is positive definite on what they "
            "reach, got none near the identity"
        )
    out: Array = nearest
    return out
