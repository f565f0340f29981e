"""E[r | cell, x], each row by a model of other rows: what DM and the doubly robust forms need."""

from __future__ import annotations

from typing import Any

import numpy as np

from gdcb.analysis.context_models import linear_folds, logistic_folds
from gdcb.analysis.off_policy.folds import features_and_cells, folds_of
from gdcb.analysis.slopes import ArmRows
from gdcb.analysis.surface import Surface
from gdcb.arrays import Array, logistic
from gdcb.errors import InvalidInput
from gdcb.parts import check_choice, check_number

_FARTHEST = 30.0  # log odds that can be told from 0 and 1
_LINKS = ("auto", "identity", "logistic")


def outcome_model(
    x: Any,
    cell: Any,
    reward: Any,
    n_cells: int,
    *,
    folds: int | Any = 5,
    cluster: Any = None,
    link: str = "auto",
    penalty: float = 1.0,
    pooling: float | None = None,
    degree: int = 1,
    reward_range: tuple[float, float] | None = None,
) -> Array:
    """Estimate E[r | cell, x] of every row and cell, cross-fitted: (N, C).

    v_c + θ_cᵀφ(x), or its logistic function for rewards of 0 and 1: a level for every cell, with a
    prior worth one row of the mean level, and slopes drawn to a common one,
    θ_c ~ N(θ, σ²/pooling). φ are the columns of x at mean 0 and variance 1, with their squares and
    products where `degree` is 2. Rows of a fold are told by the model of the other folds (the
    logistic one by a Newton step on them, from the mode of all). A cell that never ran has the mean
    level and the common slope.

    Parameters
    ----------
    x : (N, p) context, p >= 0
    cell : (N,) executed cell, 0 to C − 1
    reward : (N,) r; NaN where it was not seen: such a row teaches nothing
    n_cells : C
    folds, cluster : as `folds_of`
    link : 'identity', 'logistic' (rewards within [0, 1]), or 'auto': logistic where all are 0 or 1
    penalty : rows that the common slope's ridge is worth
    pooling : rows that the common slope is worth beside a cell's own; None: the one of 4, 20, 100
        and 1,000 that predicts the other folds best
    degree : 1, or 2 with squares and products
    reward_range : (r̲, r̄) into which predictions are brought; None: least and largest reward seen

    Notes
    -----
    Assumes: nothing, where DR has right propensities: a poor model costs variance only. DM, and DR
    with wrong propensities, need E[r | cell, x] to be of this form.

    Stops applying: where a cell ran in contexts that others did not reach, its line extrapolates.

    Examples
    --------
    Without context and with one row of prior: cell 0 earned 2 and 4, cell 1 earned 6 and 8. The
    first rows are told by the second: levels 4 and 8, mean 6, so (4 + 6)/2 = 5 and (8 + 6)/2 = 7.

    >>> cell, reward = np.array([0, 0, 1, 1]), np.array([2.0, 4.0, 6.0, 8.0])
    >>> fold = np.array([0, 1, 0, 1])
    >>> outcome_model(np.empty((4, 0)), cell, reward, 2, folds=fold)[[0, 1]].tolist()
    [[5.0, 7.0], [3.0, 5.0]]
    """
    context, ran, n_cells = features_and_cells(x, cell, n_cells)
    check_choice("link", link, _LINKS)
    check_number("penalty", penalty, 0.0, open_low=True)
    if pooling is not None:
        check_number("pooling", pooling, 0.0, 1e6, open_low=True)
    y, is_seen = _rewards(reward, ran.size)
    low, high = (float(y[is_seen].min()), float(y[is_seen].max()))
    if link == "auto":
        link = "logistic" if bool(np.isin(y[is_seen], (0.0, 1.0)).all()) else "identity"
    if link == "logistic" and (low < 0 or high > 1):
        raise InvalidInput(f"reward: expected numbers within [0, 1], got {low:g} to {high:g}")
    if reward_range is not None:
        low, high = float(reward_range[0]), float(reward_range[1])
    elif link == "logistic":
        low, high = 0.0, 1.0
    phi = Surface(context_degree=degree).context(context)[:, 1:]
    fold = folds_of(folds, ran, cluster)
    levels, slopes = _fitted(phi, ran, y, is_seen, fold, n_cells, link, penalty, pooling)
    odds = levels[fold]
    for k, slope in enumerate(slopes):
        own = fold == k
        odds[own] += phi[own] @ slope.T
    if link == "logistic":
        odds = logistic(np.clip(odds, -_FARTHEST, _FARTHEST))
    return np.asarray(np.clip(odds, low, high))


def _rewards(reward: Any, n: int) -> tuple[Array, Array]:
    """Return rewards, 0 where they were not seen, and where they were."""
    y = np.asarray(reward, dtype=float)
    if y.shape != (n,) or np.isinf(y).any():
        raise InvalidInput(f"reward: expected {n} numbers, NaN where not seen, got {y.shape}")
    is_seen = np.isfinite(y)
    if not is_seen.any():
        raise InvalidInput("reward: expected at least one that was seen")
    return np.where(is_seen, y, 0.0), is_seen


def _fitted(
    phi: Array,
    cell: Array,
    y: Array,
    is_seen: Array,
    fold: Array,
    n_cells: int,
    link: str,
    penalty: float,
    pooling: float | None,
) -> tuple[Array, Array]:
    """Return levels (F, C) and slopes (F, C, p) of the other folds' rows."""
    # The sums need a column; one of zeros has slope 0 and changes nothing.
    wide = phi if phi.shape[1] else np.zeros((phi.shape[0], 1))
    group, none = np.zeros(y.size, dtype=np.int64), np.zeros((1, 1, wide.shape[1]))
    weight = is_seen.astype(float)
    rows = ArmRows(wide, y, weight, fold, group, cell, none, (1, n_cells))
    model = logistic_folds if link == "logistic" else linear_folds
    levels, slopes = model(rows, penalty, pooling)
    return levels[:, 0], slopes[:, 0, :, : phi.shape[1]]
