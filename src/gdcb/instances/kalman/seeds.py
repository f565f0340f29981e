"""What a history at fixed (Q₀, R₀) says of one seed only, to ablate the triple cold start."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.records import History
from gdcb.scalers import CovarianceScaler

FORGOTTEN = 0.01  # share of an innovation's variance from P₀ below which a track has forgotten it


def _parts(scaler: CovarianceScaler, history: History) -> tuple[Array, Array, Array]:
    """Return a copy of the labels, and views of both blocks of responses (N, B) in it."""
    if history.label is None:
        raise InvalidInput("history: expected the scaler's labels, got none")
    label = history.label.copy()
    return label, label[:, 2 : 2 + scaler.size], label[:, 2 + scaler.size :]


def first_innovations(scaler: CovarianceScaler, history: History) -> History:
    """Return the history with nothing to learn but P₀, from the first innovation of every track.

    E[ν₁²] = HP₀Hᵀ + R, and R is taken to be what the scaler's prior says. It is then missing in
    the product's variance, so that P₀ is taken for somewhat surer than it is.
    """
    label, square, _ = _parts(scaler, history)
    n_process = scaler.n_modes * len(scaler.process_knots)
    is_first = np.isfinite(label[:, 0]) & (square[:, :n_process] == 0.0).all(axis=1)
    noise, prior = slice(n_process, scaler.size - 1), np.array(scaler.prior_mean)
    label[:, 0] -= (square[:, noise] * prior[noise]).sum(axis=1)
    square[:, noise] = 0.0
    label[~is_first, 0] = np.nan
    label[:, 1] = np.nan
    return replace(history, label=label)


def steady_part(scaler: CovarianceScaler, history: History) -> History:
    """Return the history with nothing to learn of P₀: steps in which tracks have forgotten it."""
    label, square, lagged = _parts(scaler, history)
    prior = np.array(scaler.prior_mean)
    whole = (square * prior).sum(axis=1)
    is_young = ~(square[:, -1] * prior[-1] <= FORGOTTEN * whole)
    label[is_young, :2] = np.nan
    square[:, -1], lagged[:, -1] = 0.0, 0.0
    return replace(history, label=label)
