"""Applicants of `well`, drawn from the shares of the data's levels; and the fitted risk score."""

from __future__ import annotations

from functools import cache

import numpy as np

from gdcb.arrays import Array
from gdcb.instances.credit.columns import (
    AGE,
    AMOUNT,
    N_FACTORS,
    SCHEMA,
    WANTED,
    WANTED_RANGE,
    position,
    recorded,
)

_CATEGORIES = ("checking", "history", "savings", "employment", "purpose")
_FLAGS = ("plans", "guarantor")


def drawn_applicants(u: Array, z: Array) -> Array:
    """Return applicants (N, p) from uniform (N, ≥ 7) and normal (N, ≥ 3) draws.

    Levels come with the data's shares and know nothing of each other; amount and duration are
    log-normal with the data's moments and correlation; age is normal, within 19 and 75.
    """
    found, n = recorded(), u.shape[0]
    x = np.zeros((n, SCHEMA.width))
    for j, name in enumerate(_CATEGORIES):
        level = np.searchsorted(np.cumsum(found["shares"][name])[:-1], u[:, j], side="right")
        x[np.arange(n), position(f"{name}={SCHEMA.columns[name].levels[0]}") + level] = 1.0  # type: ignore[union-attr]
    for j, name in enumerate(_FLAGS):
        x[:, position(name)] = u[:, len(_CATEGORIES) + j] < found["shares"][name][1]
    together = found["log_both"]
    other = together * z[:, 0] + np.sqrt(1.0 - together**2) * z[:, 1]
    for at, name, normal in ((AMOUNT, "log_amount", z[:, 0]), (WANTED, "log_years", other)):
        mean, sd = found[name]
        x[:, at] = np.exp(mean + sd * np.clip(normal, -2.5, 2.5))
    x[:, WANTED] = np.clip(x[:, WANTED], *WANTED_RANGE)
    mean, sd = found["age"]
    x[:, AGE] = np.clip(np.round(mean + sd * z[:, 2]), 19.0, 75.0)
    return x


def factor_score(x: Array) -> Array:
    """Return the fitted log odds of default less their mean, at the same duration for all: (N,)."""
    return np.asarray(factor_scores(x).sum(axis=1))


def factor_scores(x: Array) -> Array:
    """Return what every level, every flag and the amount add to it: (N, 20)."""
    weights, means = _scorecard()
    columns = np.concatenate((x[:, :N_FACTORS], np.log(x[:, AMOUNT, None])), axis=1)
    return np.asarray((columns - means) * weights)


@cache
def _scorecard() -> tuple[Array, Array]:
    """Return weights and means of the levels, the flags and the log amount: (20,) each."""
    found = recorded()
    names = (*SCHEMA.names[:N_FACTORS], "log amount")
    means = [share for name in _CATEGORIES for share in found["shares"][name]]
    means += [found["shares"][name][1] for name in _FLAGS] + [found["log_amount"][0]]
    return np.array([found["weights"][name] for name in names]), np.array(means)
