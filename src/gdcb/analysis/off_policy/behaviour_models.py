"""How likely each arm cell was to run, where the log does not say: multinomial regression.

What counts is the action that was *executed*: the proposal, the gates and the persons in them
together. One regression of executed cells on context has all three.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gdcb.analysis.off_policy.folds import features_and_cells, folds_of
from gdcb.analysis.surface import Surface
from gdcb.arrays import Array
from gdcb.parts import check_number

FLOOR = 1e-3
_STEPS = 1000
_FLAT = 1e-8  # gradient of the mean log likelihood at which the search ends
_LEVEL = 1e-9  # penalty on levels: cells may share a constant, which no probability sees


def behaviour_model(
    x: Any,
    cell: Any,
    n_cells: int,
    *,
    folds: int | Any = 5,
    cluster: Any = None,
    penalty: float = 1.0,
    degree: int = 1,
    floor: float = FLOOR,
) -> Array:
    """Estimate P(cell executed | x) of every row and cell, cross-fitted: (N, C).

    P(c | x) ∝ exp(v_c + w_cᵀφ(x)), φ the columns of x at mean 0 and variance 1, with their squares
    and products where `degree` is 2. Maximum likelihood with the penalty ½λ·Σ‖w_c‖², levels v_c
    free but for one row, shared out among the cells that ran, at φ = 0: so a cell that is missing
    from a fold has a probability. Rows of a fold are told by the model of the other folds.

    Parameters
    ----------
    x : (N, p) context; p may be 0, the answer is then the cells' shares
    cell : (N,) executed cell, 0 to C − 1
    n_cells : C
    folds, cluster : as `folds_of`
    penalty : λ
    degree : 1, or 2 with squares and products
    floor : smallest probability of a cell that ran anywhere in the log. Smaller ones are raised
        to it and the row is divided by its sum: no weight then exceeds target/`floor` by more than
        the factor 1 + C·`floor`. A cell that never ran has probability 0

    Notes
    -----
    Assumes: the log odds of cells are linear in φ(x); rows, or clusters, are independent.

    Stops applying: gates that cut at a limit make probabilities jump, which no line in x does:
    where the gates are known, `gdcb.propensity` and `cell_kernel` are better than any fit. What
    the floor raises is biased towards 'it might have run'.

    Examples
    --------
    Without context, three of four rows ran cell 0. Each fold of two rows is told by the other two
    and the shared row: (2 + ½)/3, then (1 + ½)/3.

    >>> none, cell = np.empty((4, 0)), np.array([0, 0, 0, 1])
    >>> behaviour_model(none, cell, 3, folds=np.array([0, 0, 1, 1])).round(3).tolist()
    [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.833, 0.167, 0.0], [0.833, 0.167, 0.0]]
    """
    context, ran, n_cells = features_and_cells(x, cell, n_cells)
    check_number("penalty", penalty, 0.0, open_low=True)
    check_number("floor", floor, 0.0, 0.1)
    phi = Surface(context_degree=degree).context(context)
    seen, place = np.unique(ran, return_inverse=True)
    place = place.reshape(-1)
    found = np.zeros((ran.size, n_cells))
    if seen.size == 1:
        found[:, seen] = 1.0
        return found
    fold = folds_of(folds, ran, cluster)
    start = multinomial_fit(phi, place, seen.size, penalty)
    for out in range(int(fold.max()) + 1):
        held = fold == out
        weights = multinomial_fit(phi[~held], place[~held], seen.size, penalty, start)
        found[np.ix_(held, seen)] = _shares(phi[held] @ weights)
    found[:, seen] = np.maximum(found[:, seen], floor)
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def multinomial_fit(
    phi: Array, place: Array, n_places: int, penalty: float, start: Array | None = None
) -> Array:
    """Return the weights (P, S) of a multinomial regression of `place` on φ (n, P), φ₀ = 1.

    One row more, shared out among the places, stands where the other features are 0. The search
    (L-BFGS) begins at `start`.
    """
    from scipy.optimize import minimize

    n, p = phi.shape
    shrink = np.full((p, 1), float(penalty))
    shrink[0] = _LEVEL
    turned = np.ascontiguousarray(phi.T)
    rows = np.arange(n)

    def loss(flat: Array) -> tuple[float, Array]:
        weights = flat.reshape(p, n_places)
        share, level = _log_shares(phi @ weights), _log_shares(weights[:1])[0]
        total = -share[rows, place].sum() - level.mean() + 0.5 * (shrink * weights**2).sum()
        gap = np.exp(share)
        gap[rows, place] -= 1.0
        slope = turned @ gap + shrink * weights
        slope[0] += np.exp(level) - 1.0 / n_places
        return total / n, slope.ravel() / n

    begin = np.zeros((p, n_places)) if start is None else start
    options: Any = {"maxiter": _STEPS, "gtol": _FLAT, "ftol": 1e-15, "maxcor": 20}
    found = minimize(loss, begin.ravel(), jac=True, method="L-BFGS-B", options=options)
    return np.asarray(found.x).reshape(p, n_places)


def _log_shares(odds: Array) -> Array:
    odds = odds - odds.max(axis=1, keepdims=True)
    return np.asarray(odds - np.log(np.exp(odds).sum(axis=1, keepdims=True)))


def _shares(odds: Array) -> Array:
    return np.asarray(np.exp(_log_shares(odds)))
