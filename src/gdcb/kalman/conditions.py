"""The conditions under which the Kalman embedding holds, each checked and named when it fails."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.kalman.model import Model, place

UNBOUNDED = "unbounded"
NOT_DETECTABLE = "not detectable"
NOT_STABILISABLE = "not stabilisable"
NO_PENALTY = "lambda = 0"
NOT_IDENTIFIED = "not identified"

_ON_CIRCLE = 1e-9  # an eigenvalue this close to the unit circle counts as not stable
_RANK = 1e-9  # a singular value below this part of the largest counts as zero


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition: what its failure is called, whether it is met, and what was found.

    Parameters
    ----------
    failure : 'unbounded', 'not detectable', 'not stabilisable', 'lambda = 0' or 'not identified'
    subject : what was looked at: 'F', 'H', 'Q', 'R', '(F, H)', '(F, Q^½)', 'lambda' or 'X'
    is_met : whether the condition holds
    value : the number that decided it
    sentence : what was found, for a person
    """

    failure: str
    subject: str
    is_met: bool
    value: float
    sentence: str


def check_conditions(
    model: Model,
    *,
    q_bounds: tuple[float, float],
    r_bounds: tuple[float, float],
    penalty: float,
    design: Array | None = None,
    f_bound: float = np.inf,
    h_bound: float = np.inf,
) -> tuple[Condition, ...]:
    """Check the lemma's conditions (K1) to (K3) on a model; failures are data.

    Parameters
    ----------
    model : F, H, Q, R; of several tracks or steps the worst is reported, with its place
    q_bounds, r_bounds : (q_min, q_max), (r_min, r_max) between which eigenvalues must lie
    penalty : λ of the ridge regression of the covariance scaler
    design : (rows, d) X of that regression, where it is known
    f_bound, h_bound : c_F, c_H, bounds on ‖F‖ and ‖H‖

    Returns
    -------
    conditions : in the lemma's order; `require` raises on those that are not met

    Notes
    -----
    Detectability is tested by rank: no eigenvector of an eigenvalue on or outside the unit circle
    may lie in the kernel of H; stabilisability the same for Fᵀ and Q^½. Of a model that changes in
    time each step is tested as if it stayed so, which is neither necessary nor sufficient for the
    *uniform* condition that the lemma asks for. λ > 0 makes the ridge estimate unique; only
    λ_min(XᵀX/N) > 0 makes θ identified, so that it is a condition of its own.

    Examples
    --------
    A velocity that is measured says nothing about a position that drifts.

    >>> model = Model([[1, 1], [0, 1]], [[0, 1]], [[1, 0], [0, 1]], [[2]])
    >>> found = check_conditions(model, q_bounds=(0.1, 10), r_bounds=(0.1, 10), penalty=1.0)
    >>> [c.failure for c in found if not c.is_met]
    ['not detectable']
    """
    conditions = [
        _norm("F", model.transition, f_bound),
        _norm("H", model.measurement, h_bound),
        _spectrum("Q", model.process, q_bounds),
        _spectrum("R", model.noise, r_bounds),
        _reached("(F, H)", NOT_DETECTABLE, model.transition, model.measurement),
        _reached(
            "(F, Q^½)", NOT_STABILISABLE, model.transition.swapaxes(-1, -2), _half(model.process)
        ),
        _penalty(penalty),
    ]
    if design is not None:
        conditions.append(_identified(design))
    return tuple(conditions)


def require(conditions: Iterable[Condition]) -> None:
    """Raise InvalidInput with the sentences of all conditions that are not met.

    >>> require((Condition("lambda = 0", "lambda", False, 0.0, "lambda is 0, expected > 0"),))
    Traceback (most recent call last):
    gdcb.errors.InvalidInput: kalman: lambda is 0, expected > 0
    """
    failed = [condition.sentence for condition in conditions if not condition.is_met]
    if failed:
        raise InvalidInput("kalman: " + "; ".join(failed))


def _where(worst: int, lead: tuple[int, ...]) -> str:
    return place(tuple(int(i) for i in np.unravel_index(worst, lead)) if lead else ())


def _norm(name: str, matrix: Array, bound: float) -> Condition:
    norms = np.linalg.norm(matrix, ord=2, axis=(-2, -1)).reshape(-1)
    worst = int(norms.argmax())
    value, is_met = float(norms[worst]), bool(norms[worst] <= bound)
    sign = "within" if is_met else "above"
    sentence = f"‖{name}‖ is {value:.3g}{_where(worst, matrix.shape[:-2])}, {sign} {bound:g}"
    return Condition(UNBOUNDED, name, is_met, value, sentence)


def _spectrum(name: str, matrix: Array, bounds: tuple[float, float]) -> Condition:
    """Check low·I ⪯ M ⪯ high·I, and that low is above zero."""
    low, high = bounds
    if not (0.0 < low <= high):
        sentence = f"bounds of {name} are [{low:g}, {high:g}], expected 0 < low <= high"
        return Condition(UNBOUNDED, name, False, float(low), sentence)
    values = np.linalg.eigvalsh(matrix).reshape(-1, matrix.shape[-1])
    # A ratio, not a difference: the two bounds may be decades apart.
    smallest = np.maximum(values[:, 0], np.finfo(float).tiny)
    largest = np.maximum(values[:, -1], np.finfo(float).tiny)
    outside = np.maximum(np.log(low / smallest), np.log(largest / high))
    worst = int(outside.argmax())
    is_low = bool(low / smallest[worst] >= largest[worst] / high)
    value = float(values[worst, 0] if is_low else values[worst, -1])
    is_met = bool(outside[worst] <= 1e-12)
    sentence = (
        f"the {'smallest' if is_low else 'largest'} eigenvalue of {name} is {value:.3g}"
        f"{_where(worst, matrix.shape[:-2])}, {'within' if is_met else 'outside'} "
        f"[{low:g}, {high:g}]"
    )
    return Condition(UNBOUNDED, name, is_met, value, sentence)


def _half(q: Array) -> Array:
    """Return the symmetric root of Q."""
    values, vectors = np.linalg.eigh(q)
    values = np.where(values > _RANK**2 * values[..., -1:], values, 0.0)
    return np.asarray((vectors * np.sqrt(values)[..., None, :]) @ vectors.swapaxes(-1, -2))


def _reached(name: str, failure: str, f: Array, h: Array) -> Condition:
    """Test whether every mode of F that is not stable is seen by H (Popov, Belevitch, Hautus)."""
    lead = np.broadcast_shapes(f.shape[:-2], h.shape[:-2])
    n, m = f.shape[-1], h.shape[-2]
    f = np.broadcast_to(f, (*lead, n, n)).reshape(-1, n, n)
    h = np.broadcast_to(h, (*lead, m, n)).reshape(-1, m, n)
    size = np.linalg.norm(h, ord=2, axis=(-2, -1))[:, None, None]
    h = np.divide(h, size, out=np.zeros(h.shape), where=size > 0.0)
    values = np.linalg.eigvals(f)
    scale = np.maximum(np.linalg.norm(f, ord=2, axis=(-2, -1)), 1.0)
    shifted = f[:, None] - values[..., None, None] * np.eye(n)
    stacked = np.concatenate(
        (shifted / scale[:, None, None, None], np.broadcast_to(h[:, None], (*values.shape, m, n))),
        axis=-2,
    )
    _, singular, right = np.linalg.svd(stacked)
    is_stable = np.abs(values) < 1.0 - _ON_CIRCLE
    smallest = np.where(is_stable, np.inf, singular[..., -1])
    worst, mode = np.unravel_index(int(smallest.argmin()), smallest.shape)
    value = float(smallest[worst, mode])
    is_met = value > _RANK
    kind = failure.removeprefix("not ")
    if is_met:
        found = (
            "every mode is stable" if np.isinf(value) else f"smallest singular value {value:.3g}"
        )
        return Condition(failure, name, True, value, f"{name} is {kind}: {found}")
    vector = right[worst, mode, -1].conj()
    vector, at = vector / vector[np.abs(vector).argmax()], complex(values[worst, mode])
    is_real = abs(at.imag) <= _RANK * abs(at)
    shown = np.array2string(vector.real if is_real else vector, precision=3, suppress_small=True)
    eigenvalue = f"{at.real:.4g}" if is_real else f"{at:.4g}"
    verb = "measured" if failure == NOT_DETECTABLE else "moved by noise"
    sentence = (
        f"{name} is not {kind}{_where(int(worst), lead)}: the mode of eigenvalue "
        f"{eigenvalue}, along {shown}, is not stable and is not {verb}"
    )
    return Condition(failure, name, False, value, sentence)


def _penalty(penalty: float) -> Condition:
    is_met = bool(np.isfinite(penalty) and penalty > 0.0)
    return Condition(
        NO_PENALTY, "lambda", is_met, float(penalty), f"lambda is {penalty:g}, expected > 0"
    )


def _identified(design: Array) -> Condition:
    x = np.asarray(design, dtype=float)
    if x.ndim != 2 or 0 in x.shape or not np.isfinite(x).all():
        raise InvalidInput(f"design: expected finite numbers of shape (rows, d), got {x.shape}")
    values = np.linalg.eigvalsh(x.T @ x / x.shape[0])
    is_met = bool(values[0] > 1e-10 * values[-1])
    sentence = (
        f"lambda_min(XᵀX/N) is {values[0]:.3g} of lambda_max {values[-1]:.3g}: theta is "
        f"{'identified' if is_met else 'unique through the penalty only, not identified'}"
    )
    return Condition(NOT_IDENTIFIED, "X", is_met, float(values[0]), sentence)
