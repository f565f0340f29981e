"""P(cell executed | x) in the log, piece by piece: who proposed, what persons let pass, hard gates.

b(c | x) = Σ_a π̂₀(a | x)·[p̂(a, x)·1{c is where the hard gates send a} + (1 − p̂(a, x))·ô(c | x)]

with p̂ the rate at which persons let what they are shown pass, and ô the law of what runs where
they do not. Hard gates are known functions and need no fit; they make probabilities jump, which a
regression of cells on x could not follow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gdcb.analysis.contraction import arm_cells
from gdcb.analysis.off_policy.behaviour_models import behaviour_model, multinomial_fit
from gdcb.analysis.what_if.log import GatedLog, is_same, nulled, runs_at
from gdcb.analysis.what_if.means import Features
from gdcb.analysis.what_if.passing import is_approved, through
from gdcb.arrays import Array
from gdcb.instance import Instance

# p̂ of actions (n, D) that the first person is shown in rows (n,): (n,).
Approve = Callable[[Array, Array], Array]

_ON_ARMS = 0.99  # share of proposals that must be arms, for the laws to go arm by arm
_PENALTY = 1.0
_LEAST = 1e-3  # of what did run: a log may contradict what its gates are said to do


@dataclass(slots=True)
class Laws:
    """What the log says of proposals, persons and cells.

    Parameters
    ----------
    proposed : (N, K) π̂₀; None: proposals are not arms, cells are regressed on x directly
    passed : (N, K) p̂ of what each arm shows to the first person; 1 without persons
    own : (N, K + 2) ô; 0 without persons
    arm_cell : (N, K) where the hard gates alone send each arm
    behaviour : (N, K + 2) b
    approved : (N,) rows that all persons let pass as proposed
    approve : p̂ of any actions (n, D) shown to the first person in some rows
    """

    proposed: Array | None
    passed: Array
    own: Array
    arm_cell: Array
    behaviour: Array
    approved: Array
    approve: Approve

    @property
    def kernel(self) -> Array:
        """P(cell executed | arm proposed, x): (N, K, K + 2)."""
        n, k = self.arm_cell.shape
        kernel = (1.0 - self.passed)[:, :, None] * self.own[:, None, :]
        rows, arms = np.arange(n)[:, None], np.arange(k)[None]
        kernel[rows, arms, self.arm_cell] += self.passed
        return kernel


def learn_laws(features: Features, proposal_law: Array | None = None) -> Laws:
    """Learn the laws of a log; `proposal_law` (N, K) is π₀ where somebody knows it."""
    instance, log = features.instance, features.log
    n, k = log.n, instance.space.n
    x, everyone = features.phi[:, 1 : 1 + features.n_linear], np.arange(n)
    approved = is_approved(instance, log) if instance.chain.has_person else np.ones(n, dtype=bool)
    arms = instance.composition.compose(instance.space, log.delta, log.rows.x)
    passed, own, approve = learn_persons(features, approved, np.ones(n, dtype=bool))
    arm_cell = np.stack([_cells_behind(instance, arms[:, a], log) for a in range(k)], axis=1)
    nearest = np.where(log.proposed < k, log.proposed, 0)
    is_arm = (log.proposed < k) & is_same(arms[everyone, nearest], log.recommended)
    proposed: Array | None = proposal_law
    if proposed is None and is_arm.mean() >= _ON_ARMS:
        proposed = behaviour_model(x, nearest, k, cluster=log.cluster)
    if proposed is None:
        behaviour = behaviour_model(x, log.cell, k + 2, cluster=log.cluster)
        return Laws(None, passed, own, arm_cell, behaviour, approved, approve)
    laws = Laws(proposed, passed, own, arm_cell, own, approved, approve)
    behaviour = (proposed[:, None, :] @ laws.kernel)[:, 0]
    behaviour[everyone, log.cell] = np.maximum(behaviour[everyone, log.cell], _LEAST)
    laws.behaviour = behaviour / behaviour.sum(axis=1, keepdims=True)
    return laws


def learn_persons(
    features: Features, approved: Array, where: Array
) -> tuple[Array, Array, Approve]:
    """Learn what persons do from some rows: `Laws.passed`, `Laws.own` and `Laws.approve`."""
    instance, log = features.instance, features.log
    everyone, k = np.arange(log.n), instance.space.n
    shown = before_persons(instance, log.recommended, log)
    approve = _approval(features, shown, approved, where)
    arms = instance.composition.compose(instance.space, log.delta, log.rows.x)
    seen = (before_persons(instance, arms[:, a], log) for a in range(k))
    passed = np.stack([approve(e, everyone) for e in seen], axis=1)
    return passed, own_law(features, ~approved & where, log.cell, k + 2), approve


def before_persons(instance: Instance, e: Array, log: GatedLog) -> Array:
    """Return what actions (N, D) show to the first person; NaN: nothing gets there."""
    gates = instance.chain.gates
    first = next((i for i, gate in enumerate(gates) if gate.is_person), 0)
    return through(instance, gates[:first], e, log.rows)


def _cells_behind(instance: Instance, e: Array, log: GatedLog) -> Array:
    left = through(instance, instance.chain.gates, e, log.rows)
    left = nulled(instance, left, log.rows.x)
    return arm_cells(instance, left[:, None], log.delta, log.rows.x)[:, 0]


def _approval(features: Features, shown: Array, approved: Array, where: Array) -> Approve:
    """Return p̂: a logistic regression of 'persons let it pass' on φ(x), the action and products."""
    runs = runs_at(shown) & where
    n_no = int((runs & ~approved).sum())
    if n_no == 0 or n_no == int(runs.sum()):
        level = 1.0 if n_no == 0 else 0.0
        return lambda _, index: np.full(index.size, level)
    index = np.flatnonzero(runs)
    design = features.design(shown[index], index)
    weights = multinomial_fit(design, approved[index].astype(np.int64), 2, _PENALTY)

    def approve(e: Array, at: Array) -> Array:
        odds = features.design(e, at) @ (weights[:, 0] - weights[:, 1])
        p = 1.0 / (1.0 + np.exp(np.clip(odds, -30.0, 30.0)))
        # What never reaches a person needs none: the hard gates have decided.
        return np.where(runs_at(e), p, 1.0)

    return approve


def own_law(features: Features, where: Array, label: Array, n_labels: int) -> Array:
    """Return P(label | x) of some rows, those not approved: (N, n_labels)."""
    found = np.zeros((label.size, n_labels))
    index = np.flatnonzero(where)
    if index.size == 0:
        return found
    seen, place = np.unique(label[index], return_inverse=True)
    if seen.size == 1:
        found[:, seen] = 1.0
        return found
    phi = features.phi[:, : 1 + features.n_linear]
    weights = multinomial_fit(phi[index], place.reshape(-1), seen.size, _PENALTY)
    odds = phi @ weights
    odds = np.exp(odds - odds.max(axis=1, keepdims=True))
    found[:, seen] = odds / odds.sum(axis=1, keepdims=True)
    return found
