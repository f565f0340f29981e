"""Which rows a model is fitted on: a row never helps to predict itself, nor its cluster."""

from __future__ import annotations

from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.parts import check_number


def whole_numbers(name: str, values: Any, n: int, n_values: int | None = None) -> Array:
    """Return whole numbers >= 0 (n,), below `n_values` where that is given; refuse others."""
    found = np.asarray(values)
    if found.shape != (n,) or found.dtype.kind not in "iu":
        raise InvalidInput(
            f"{name}: expected {n} whole numbers, got {found.dtype} of shape {found.shape}"
        )
    if n and (found.min() < 0 or (n_values is not None and found.max() >= n_values)):
        upper = "" if n_values is None else f" to {n_values - 1}"
        raise InvalidInput(
            f"{name}: expected numbers from 0{upper}, got {found.min()} to {found.max()}"
        )
    return found.astype(np.int64)


def features_and_cells(x: Any, cell: Any, n_cells: Any) -> tuple[Array, Array, int]:
    """Check what every model is fitted on: x (N, p) finite, p >= 0, and cell (N,)."""
    check_number("n_cells", n_cells, 1)
    context = np.asarray(x, dtype=float)
    if context.ndim != 2 or context.shape[0] == 0 or not np.isfinite(context).all():
        raise InvalidInput(f"x: expected finite numbers (N, p), N >= 1, got {context.shape}")
    return context, whole_numbers("cell", cell, context.shape[0], int(n_cells)), int(n_cells)


def folds_of(folds: Any, cell: Array, cluster: Any = None) -> Array:
    """Return the fold of every row (N,), from 0 on.

    Parameters
    ----------
    folds : how many, or the fold of each row (N,)
    cell : (N,) rows of a cell take turns, so that every fold has all common cells
    cluster : (N,) rows of a cluster share a fold, clusters taking turns; None: rows are independent

    Examples
    --------
    >>> folds_of(2, np.array([4, 4, 7, 4, 7])).tolist()
    [0, 1, 1, 0, 0]
    >>> folds_of(2, np.zeros(4, dtype=int), cluster=np.array([5, 5, 8, 9])).tolist()
    [0, 0, 1, 0]
    """
    if isinstance(folds, bool) or not isinstance(folds, int | np.integer):
        fold = whole_numbers("folds", folds, cell.size)
        if np.unique(fold).size < 2:
            raise InvalidInput("folds: expected rows in at least 2 folds")
        return np.asarray(np.unique(fold, return_inverse=True)[1].reshape(-1))
    if folds < 2:
        raise InvalidInput(f"folds: expected at least 2, got {folds}")
    if cluster is None:
        if cell.size < 2:
            raise InvalidInput("folds: expected at least 2 rows to share out")
        fold = np.empty(cell.size, dtype=np.int64)
        fold[np.argsort(cell, kind="stable")] = np.arange(cell.size) % folds
        return fold
    names, owner = np.unique(clusters_of(cluster, cell.size), return_inverse=True)
    if names.size < 2:
        raise InvalidInput("folds: expected at least 2 clusters to share out")
    return np.asarray(owner.reshape(-1) % folds)


def clusters_of(cluster: Any, n: int) -> Array:
    """Check cluster labels (n,): whole numbers or text."""
    label = np.asarray(cluster)
    if label.shape != (n,) or label.dtype.kind not in "iuUS":
        raise InvalidInput(
            f"cluster: expected {n} whole numbers or names, got {label.dtype} of {label.shape}"
        )
    return label
