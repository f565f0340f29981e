"""What feature maps fitted to a history have in common."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.parts import Column
from gdcb.scalers.head import LinearHead

H = TypeVar("H", bound=LinearHead)


def require_sklearn() -> None:
    """Refuse, and say what to install, where scikit-learn is not."""
    try:
        import sklearn  # noqa: F401
    except ImportError as error:
        raise InvalidInput(
            'from_history: fitting a feature map needs scikit-learn; pip install "gdcb[scalers]"'
        ) from error


def history_rows(x: Array, label: Array) -> tuple[Array, Array]:
    """Return the rows of x (N, p) and label (N, m) whose labels were all seen, as floats."""
    x, label = np.asarray(x, dtype=float), np.asarray(label, dtype=float)
    if x.ndim != 2 or not np.isfinite(x).all():
        raise InvalidInput(f"x: expected rows of finite numbers, got shape {x.shape}")
    if label.ndim != 2 or label.shape[0] != x.shape[0]:
        raise InvalidInput(f"label: expected {x.shape[0]} rows of labels, got shape {label.shape}")
    seen = np.isfinite(label).all(axis=1)
    if int(seen.sum()) < 2:
        raise InvalidInput(f"label: expected at least 2 rows with labels, got {int(seen.sum())}")
    return x[seen], label[seen]


def settle(scaler: H, features: tuple[Column, ...], reference: Array | None, **changes: Any) -> H:
    """Return a scaler made on columns 0 to p − 1 under its features' names, normalised."""
    scaler = replace(scaler, **changes)
    if reference is not None:
        scaler = scaler.centred_on(np.asarray(reference, dtype=float))
    return replace(scaler, features=features)
