"""A second reviewer from a log with one: Fréchet limits of 'both approve', or a declared law.

With A = 1 where the reviewer approved, p = P(A = 1 | e, x), m₁ and m₀ the mean outcome at (e, x)
where they did and did not, and B the chance that both approve, the value is
E[B·m₁ + (1 − B)·m₀], m₀ being that of the null action where 'null' runs instead. Its score is

    B·m₁ + (1 − B)·m₀ + B′(p)·(A − p)·(m₁ − m₀) + B/p·A·(r − m₁) + (1 − B)/(1 − p)·(1 − A)·(r − m₀)

Both weights are at most 2, whatever p is: B ≥ 2p − 1 makes 1 − B ≤ 2·(1 − p).
"""

from __future__ import annotations

import numpy as np

from gdcb.analysis.off_policy.behaviour_models import behaviour_model
from gdcb.analysis.what_if.laws import before_persons
from gdcb.analysis.what_if.log import nulled, runs_at
from gdcb.analysis.what_if.means import Features, Means, fit_means
from gdcb.analysis.what_if.passing import through
from gdcb.arrays import Array

_CLOSE = 1e-3


def both(p: Array, correlation: float) -> tuple[Array, Array]:
    """Return B(p) = p² + ρ·p(1 − p) within Fréchet's limits, and B′(p).

    >>> [part.round(3).tolist() for part in both(np.array([0.5, 0.9]), 0.0)]
    [[0.25, 0.81], [1.0, 1.8]]
    >>> both(np.array([0.4, 0.9]), -1.0)[0].round(3).tolist()
    [0.0, 0.8]
    """
    free = p * p + correlation * p * (1.0 - p)
    least = np.maximum(0.0, 2.0 * p - 1.0)
    slope = 2.0 * p + correlation * (1.0 - 2.0 * p)
    slope = np.where(free < least, np.where(p > 0.5, 2.0, 0.0), slope)
    return np.clip(free, least, p), slope


def reviewer_scores(
    features: Features, approved: Array, otherwise: str, correlation: float | None
) -> tuple[Array, Array, float]:
    """Return the scores of the lower and of the upper end (N,), and the share of rows changed.

    The ends are equal for a declared law; without one the share is the largest that may be.
    """
    log, instance = features.log, features.instance
    p, is_reached = _approval(features, approved)
    first = fit_means(features, where=approved)
    left = through(instance, instance.chain.gates, log.recommended, log.rows)
    m1 = first(nulled(instance, left, log.rows.x))
    m0 = first.null if otherwise == "null" else _own_mean(features, first, approved)

    def score(b: Array, slope: Array) -> Array:
        found = _score(log.reward, approved, p, m1, m0, b, slope, otherwise)
        # What a gate before the reviewer stops, no reviewer sees.
        return np.where(is_reached, found, log.reward)

    lost = p - both(p, -1.0 if correlation is None else correlation)[0]
    if otherwise == "null":
        lost = lost + (1.0 - p)
    changed = float(np.where(is_reached, lost, 0.0).mean())
    if correlation is not None:
        one = score(*both(p, correlation))
        return one, one, changed
    least, most = score(*both(p, -1.0)), score(p, np.ones_like(p))
    is_better = m1 > m0
    return np.where(is_better, least, most), np.where(is_better, most, least), changed


def private_scores(
    features: Features, approved: Array, otherwise: str, low: Array, high: Array
) -> tuple[Array, Array]:
    """Return scores of both ends where reviewers may know more than x: (N,) each.

    The second reviewer turns down at most a share (1 − p)/p of what the first approved, and may
    choose which: the rows whose outcome is best, or worst. What runs there instead may be worth
    anything from `low` to `high` (N,). Rows are taken in the order of what they lose, up to the
    total of these shares; that is wider than row by row, never narrower.
    """
    log = features.log
    p, is_reached = _approval(features, approved)
    approved = approved & is_reached
    total = float(np.minimum(1.0, (1.0 - p) / p)[approved].sum())
    kept = log.reward
    if otherwise == "null":
        null = features.instance.null.declared(log.rows.x)
        kept, low, high = np.where(approved | ~is_reached, kept, null), null, null
    ends = []
    for end, sign in ((low, 1.0), (high, -1.0)):
        loss = np.where(approved, sign * (log.reward - end), 0.0)
        order = np.argsort(-loss, kind="stable")
        share = np.clip(total - np.arange(log.n), 0.0, 1.0) * (loss[order] > 0)
        turned = np.zeros(log.n)
        turned[order] = share
        ends.append(kept + turned * (end - kept))
    return ends[0], ends[1]


def _approval(features: Features, approved: Array) -> tuple[Array, Array]:
    """Return p̂(e, x), cross-fitted, and whether a proposal reached the reviewer: (N,) each."""
    log = features.log
    shown = before_persons(features.instance, log.recommended, log)
    answer = approved.astype(np.int64)
    design = features.design(shown)[:, 1:]
    p = behaviour_model(design, answer, 2, cluster=log.cluster, floor=0.0)[:, 1]
    return np.clip(p, _CLOSE, 1.0 - _CLOSE), runs_at(shown)


def _score(
    r: Array, approved: Array, p: Array, m1: Array, m0: Array, b: Array, slope: Array, other: str
) -> Array:
    rest = np.where(approved, b / p * (r - m1), 0.0)
    if other == "own":
        rest = np.where(approved, rest, (1.0 - b) / (1.0 - p) * (r - m0))
    return np.asarray(b * m1 + (1.0 - b) * m0 + slope * (approved - p) * (m1 - m0) + rest)


def _own_mean(features: Features, first: Means, approved: Array) -> Array:
    """Return E[r | x, not approved], cross-fitted on the rows that were not: (N,)."""
    log, phi = features.log, features.phi[:, : 1 + features.n_linear]
    fold, n_folds = first.fold, int(first.fold.max()) + 1
    found = np.empty(log.n)
    penalty = np.diag(np.r_[1e-6, np.ones(phi.shape[1] - 1)])
    for out in range(n_folds):
        part = ~approved & (fold != out)
        theta = np.linalg.solve(phi[part].T @ phi[part] + penalty, phi[part].T @ log.reward[part])
        held = fold == out
        found[held] = phi[held] @ theta
    return found
