"""Another gate, or one gate fewer: the scores of the rows that it changes.

Rows that it does not change keep their own outcome. For the others e′ is known, and

    V = E[r·1{same}] + E[m̂(e′, x)·1{changed}] + E[t(c | x)/b(c | x)·(r − m̂(e, x))]

with c the executed cell, b = P(c | x) in the log and t = P(changed, e′ in c | x). It is right if
either m̂ or the laws are.
"""

from __future__ import annotations

import numpy as np

from gdcb.analysis.contraction import arm_cells
from gdcb.analysis.off_policy.behaviour_models import behaviour_model
from gdcb.analysis.what_if.laws import Laws, own_law
from gdcb.analysis.what_if.log import runs_at
from gdcb.analysis.what_if.means import Features, Means
from gdcb.analysis.what_if.passing import Rerun, reroute, through
from gdcb.analysis.what_if.scores import MOST_WEIGHT, Scores
from gdcb.arrays import Array
from gdcb.gates import Gate

_GOLDEN = 0.6180339887498949  # turns of it are spread evenly: a draw a row without a generator


def own_worth(means: Means, approved: Array, worth: Array | None = None) -> Array:
    """Return E[m̂(e, x) | x, not approved]: what persons' own actions are worth, (N,).

    Regressed on x over the rows in which they acted, at the very actions that ran; `worth` (N,)
    is m̂ of what ran, where somebody has it.
    """
    log, phi = means.features.log, means.features.phi
    index = np.flatnonzero(~approved)
    if index.size == 0:
        return np.zeros(log.n)
    own, ran = phi[index], log.executed[index]
    target = means(ran, index) if worth is None else worth[index]
    penalty = np.diag(np.r_[1e-6, np.ones(phi.shape[1] - 1)])
    theta = np.linalg.solve(own.T @ own + penalty, own.T @ target)
    return np.asarray(phi @ theta)


def within_span(features: Features, e: Array) -> Array:
    """Return which actions (N, D) lie within the span of all that ran: (N,); nothing does too."""
    log, space = features.log, features.instance.space
    if space.is_exact.any():
        return np.ones(log.n, dtype=bool)
    index, n_coords = np.arange(log.n), space.n_coords
    runs = runs_at(log.executed)
    if not runs.any():
        return np.zeros(log.n, dtype=bool)
    ran = features.action(log.executed[runs], index[runs])[:, :n_coords]
    here = features.action(e, index)[:, :n_coords]
    inside = (here >= ran.min(axis=0) - 1e-9) & (here <= ran.max(axis=0) + 1e-9)
    return np.asarray(inside.all(axis=1) | ~runs_at(e))


def gate_scores(
    means: Means, laws: Laws, nearby: Array, found: Rerun, place: int, gate: Gate | None
) -> Scores:
    """Return the scores of a rerun; `nearby` (N, K + 2) says which cells ran in like contexts."""
    features = means.features
    instance, log = features.instance, features.log
    n, everyone = log.n, np.arange(log.n)
    cell = arm_cells(instance, found.action[:, None], log.delta, log.rows.x)[:, 0]
    covered = found.is_known & nearby[everyone, cell] & within_span(features, found.action)
    p = np.where(found.is_asked, laws.approve(found.shown, everyone), 1.0)
    ours = found.is_changed & covered
    told = p * means(found.action)
    model = np.where(ours, told, 0.0)
    missing = np.where(found.is_changed & ~covered, p, 0.0)
    guess = np.where(found.is_changed & ~covered, told, 0.0)
    lost = np.zeros((n, instance.space.n + 3))
    lost[everyone, np.where(found.is_known, cell, instance.space.n + 2)] = missing
    if found.is_asked.any():
        model += np.where(found.is_asked, (1.0 - p) * own_worth(means, laws.approved), 0.0)
    label = np.where(ours, cell, instance.space.n + 2)
    target = _target(features, laws, nearby, label, found, p, place, gate)
    weight = np.minimum(
        target[everyone, log.cell] / laws.behaviour[everyone, log.cell], MOST_WEIGHT
    )
    rest = log.reward - means(log.executed)
    kept = np.where(found.is_changed, 0.0, log.reward)
    cut = np.maximum(target - MOST_WEIGHT * laws.behaviour, 0.0).sum(axis=1)
    scores = Scores(kept, model, weight, rest, missing, guess, lost, cut)
    return scores.expect(laws.behaviour, target, log.cell, log.cluster)


def _target(
    features: Features,
    laws: Laws,
    nearby: Array,
    label: Array,
    found: Rerun,
    p: Array,
    place: int,
    gate: Gate | None,
) -> Array:
    """Return t(c | x) = P(changed, covered, e′ in c | x): (N, K + 2)."""
    instance, log = features.instance, features.log
    n, k, everyone = log.n, instance.space.n, np.arange(log.n)
    if laws.proposed is None:
        drawn = _drawn(laws, label, found, p)
        x = features.phi[:, 1 : 1 + features.n_linear]
        return behaviour_model(x, drawn, k + 3, cluster=log.cluster, floor=0.0)[:, : k + 2]
    target = np.zeros((n, k + 2))
    is_behind = any(one.is_person for one in instance.chain.gates[place + 1 :])
    arms = instance.composition.compose(instance.space, log.delta, log.rows.x)
    for a in range(k):
        entered = through(instance, instance.chain.gates[:place], arms[:, a], log.rows)
        one = reroute(instance, log.rows, place, gate, entered)
        cell = arm_cells(instance, one.action[:, None], log.delta, log.rows.x)[:, 0]
        chance = laws.proposed[:, a] * one.is_changed
        covered = nearby[everyone, cell] & within_span(features, one.action)
        if is_behind:
            asked = np.where(one.is_asked, laws.approve(one.shown, everyone), 1.0)
            target += (chance * (1.0 - asked))[:, None] * laws.own
        else:
            asked = laws.passed[:, a]
        target[everyone, cell] += chance * asked * covered
    if not is_behind and not laws.approved.all():
        share = (laws.proposed * (1.0 - laws.passed)).sum(axis=1)
        target += share[:, None] * own_law(features, ~laws.approved, label, k + 3)[:, : k + 2]
    return target


def _drawn(laws: Laws, label: Array, found: Rerun, p: Array) -> Array:
    """Return one cell a row, drawn from what a person who is asked anew may do."""
    n, n_cells = laws.own.shape
    if not found.is_asked.any():
        return label
    u = np.modf(_GOLDEN * np.arange(1, n + 1))[0]
    beyond = (u - p) / np.where(p < 1.0, 1.0 - p, 1.0)
    own = (laws.own.cumsum(axis=1) < beyond[:, None]).sum(axis=1).clip(0, n_cells - 1)
    return np.where(found.is_asked & (u >= p), own, label)
