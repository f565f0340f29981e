"""Another policy behind the same gates: its executed law on arm cells, against that of the log.

t(c | x) = Σ_a π₁(a | x)·K̂(c | a, x), with the gates' kernel as the log shows it. Where persons may
know more than x, cells cannot be compared: the same cell means another thing where a person put it
in. Then proposals are weighed instead, π₁(a | x)/π̂₀(a | x), which leaves all that happens behind
them as it was.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from gdcb.analysis.off_policy.estimators import weights_of
from gdcb.analysis.off_policy.feedback import Feedback
from gdcb.analysis.what_if.another_gate import own_worth
from gdcb.analysis.what_if.coverage import ran_nearby
from gdcb.analysis.what_if.laws import Laws
from gdcb.analysis.what_if.log import nulled
from gdcb.analysis.what_if.means import Features, Means, fit_means
from gdcb.analysis.what_if.passing import through
from gdcb.analysis.what_if.scores import MOST_WEIGHT, Scores
from gdcb.arrays import Array
from gdcb.errors import InvalidInput


def policy_scores(
    means: Means, laws: Laws, nearby: Array, law: Array, weigh: str, near: int
) -> tuple[Scores, float]:
    """Return the scores of proposals by `law` (N, K), and how much of what runs is other.

    `weigh` 'executed' compares cells that ran, 'proposed' the proposals themselves.
    """
    if weigh == "proposed":
        return _by_proposal(means.features, laws, law, near)
    instance, log = means.features.instance, means.features.log
    n, k = law.shape
    arms = instance.composition.compose(instance.space, log.delta, log.rows.x)
    model, guess, lost = np.zeros(n), np.zeros(n), np.zeros((n, k + 3))
    for a in range(k):
        left = nulled(
            instance, through(instance, instance.chain.gates, arms[:, a], log.rows), log.rows.x
        )
        mass, at = law[:, a] * laws.passed[:, a], laws.arm_cell[:, a]
        covered = nearby[np.arange(n), at]
        worth = mass * means(left)
        model += np.where(covered, worth, 0.0)
        guess += np.where(covered, 0.0, worth)
        lost[np.arange(n), at] += np.where(covered, 0.0, mass)
    # What persons put in instead they put in before: it is covered by what it was.
    model += (law * (1.0 - laws.passed)).sum(axis=1) * own_worth(means, laws.approved)
    target = (law[:, None, :] @ laws.kernel)[:, 0]
    target /= target.sum(axis=1, keepdims=True)
    feedback = Feedback(log.cell, log.reward, laws.behaviour, target)
    kept = target - np.minimum(lost[:, : k + 2], target)
    share = kept[np.arange(n), log.cell] / np.maximum(target[np.arange(n), log.cell], 1e-300)
    weights = weights_of(feedback, "dr", MOST_WEIGHT)
    weight = weights.used * share
    rest = log.reward - means(log.executed)
    cut = np.minimum(weights.missing, kept.sum(axis=1))
    scores = Scores(np.zeros(n), model, weight, rest, lost.sum(axis=1), guess, lost, cut)
    scores.expect(laws.behaviour, kept, log.cell, log.cluster)
    return scores, float(0.5 * np.abs(target - laws.behaviour).sum(axis=1).mean())


def _by_proposal(features: Features, laws: Laws, law: Array, near: int) -> tuple[Scores, float]:
    """Weigh proposals: the outcome model is E[r | proposed, x], whatever ran."""
    instance, log = features.instance, features.log
    k = instance.space.n
    if laws.proposed is None:
        raise InvalidInput("recommended: expected arms, where proposals are to be weighed")
    as_if = dataclasses.replace(log, executed=log.recommended, cell=log.proposed)
    seen = dataclasses.replace(features, log=as_if)
    model = fit_means(seen, is_plain=True)
    arms = instance.composition.compose(instance.space, log.delta, log.rows.x)
    outcome = np.stack([model(arms[:, a]) for a in range(k)], axis=1)
    proposed = np.minimum(log.proposed, k - 1)
    return _scores(
        proposed,
        log.reward,
        laws.proposed,
        law,
        outcome,
        ran_nearby(seen, k + 2, near)[:, :k],
        log.cluster,
    )


def _scores(
    cell: Array,
    reward: Array,
    behaviour: Array,
    target: Array,
    outcome: Array,
    nearby: Array,
    cluster: Array | None,
) -> tuple[Scores, float]:
    """Set apart what never ran in like contexts, as a cell that no row ran."""
    n, n_cells = target.shape
    nearby = nearby | (target <= 0)
    beyond = np.where(nearby, 0.0, target)
    missing = beyond.sum(axis=1)
    zero = np.zeros((n, 1))
    feedback = Feedback(
        cell,
        reward,
        np.hstack((behaviour, zero)),
        np.hstack((target - beyond, missing[:, None])),
        np.hstack((outcome, zero)),
    )
    weights = weights_of(feedback, "dr", MOST_WEIGHT)
    model = ((target - beyond) * outcome).sum(axis=1)
    rest = reward - outcome[np.arange(n), cell]
    lost = np.zeros((n, n_cells + 1))
    lost[:, :n_cells] = beyond
    guess = (beyond * outcome).sum(axis=1)
    cut = np.maximum(weights.missing - missing, 0.0)  # what never ran is counted already
    scores = Scores(np.zeros(n), model, weights.used, rest, missing, guess, lost, cut)
    scores.expect(behaviour, target - beyond, cell, cluster)
    return scores, float(0.5 * np.abs(target - behaviour).sum(axis=1).mean())
