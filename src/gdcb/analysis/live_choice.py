"""Regret's parts with m̂ and K̂ in place of μ and K, and whether what ran contradicts them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from gdcb.analysis.contraction import arm_cells
from gdcb.analysis.live_means import LiveMeans
from gdcb.analysis.what_if.coverage import ran_nearby
from gdcb.analysis.what_if.laws import Laws, before_persons, learn_persons
from gdcb.analysis.what_if.log import GatedLog, nulled
from gdcb.analysis.what_if.means import Features
from gdcb.analysis.what_if.passing import through
from gdcb.arms import Arms
from gdcb.arrays import Array
from gdcb.instance import Instance

MOST_WEIGHT = 20.0  # a bandit that learns leaves arms behind; larger ones cost more than they mend
_BETWEEN = 4  # actions looked at from one arm to the next
_MOST_CANDIDATES = 400
_MOST_BEYOND = 0.05  # of what an arm leads to may lie in cells that never ran in like contexts


@dataclass(slots=True)
class Seen:
    """What a model says of every row (N,): worth of the best, by kind, and of what happened.

    Parameters
    ----------
    star, free : m̂ of the best of all supported candidates, and of the arms, no gates
    gated, proposed : K̂m̂ of the best arm, and of what was proposed
    ran : m̂ of what ran
    at_star, at_free, at_gated : which candidate or arm that is
    is_beyond : whether m̂ is largest at an arm that the log does not support
    """

    star: Array
    free: Array
    gated: Array
    proposed: Array
    ran: Array
    at_star: Array
    at_free: Array
    at_gated: Array
    is_beyond: Array

    @property
    def parts(self) -> Array:
        """Total, calibration, bandit and gate of every row: (N, 4)."""
        moved = self.free - self.gated + self.proposed - self.ran
        columns = (self.star - self.ran, self.star - self.free, self.gated - self.proposed, moved)
        return np.stack(columns, axis=1)


@dataclass(slots=True)
class Ground:
    """Candidates of a log's rows and all that can be said of them before anything is fitted.

    Parameters
    ----------
    features, laws : of the log
    actions, designs : (M, N, D), (M, N, d) candidates, the K arms first, and their features
    left, left_designs : (K + 1, N, D), (K + 1, N, d) what the hard gates make of the arms, and of
        what was proposed
    shown : (N, D) what the proposal shows to the first person
    ran : (N, d) features of what ran
    cell, can : (N, M) cells of the candidates, and whether they ran in comparable contexts
    can_behind : (N, K) whether what the arms lead to did
    kernel : (N, K, K + 2) P(cell executed | arm proposed, x)
    """

    features: Features
    laws: Laws
    actions: Array
    designs: Array
    left: Array
    left_designs: Array
    shown: Array
    ran: Array
    cell: Array
    can: Array
    can_behind: Array
    kernel: Array

    @staticmethod
    def of(features: Features, laws: Laws, near: int) -> Ground:
        """Compose the candidates and see which of them the log supports."""
        instance, log = features.instance, features.log
        k, gates = instance.space.n, instance.chain.gates
        nearby = ran_nearby(features, k + 2, near)
        arms = instance.composition.compose(instance.space, log.delta, log.rows.x)
        more = _candidates(instance, log, arms)
        enter = [*(arms[:, a] for a in range(k)), log.recommended]
        behind = (through(instance, gates, e, log.rows) for e in enter)
        left = np.stack([nulled(instance, e, log.rows.x) for e in behind])
        cell, kernel = arm_cells(instance, more, log.delta, log.rows.x), laws.kernel
        actions = np.ascontiguousarray(more.swapaxes(0, 1))
        return Ground(
            features,
            laws,
            actions,
            np.stack([features.design(e) for e in actions]),
            left,
            np.stack([features.design(e) for e in left]),
            before_persons(instance, log.recommended, log),
            features.design(log.executed),
            cell,
            np.take_along_axis(nearby, cell, axis=1),
            (kernel * ~nearby[:, None, :]).sum(axis=2) <= _MOST_BEYOND,
            kernel,
        )

    def without(self, where: Array) -> Ground:
        """Return the same with what persons do learned from some rows (N,) only."""
        laws = self.laws
        passed, own, approve = learn_persons(self.features, laws.approved, where)
        # Their own actions are valued where they acted: rows left out count as approved.
        fewer = dataclasses.replace(
            laws, passed=passed, own=own, approve=approve, approved=laws.approved | ~where
        )
        return dataclasses.replace(self, laws=fewer)

    def see(self, means: LiveMeans) -> Seen:
        """Value everything by one model; of equals the first is the best.

        Rows without any support have what happened for their best.
        """
        log, laws, everyone = self.features.log, self.laws, np.arange(self.features.log.n)
        k = self.kernel.shape[1]
        worth = means.at(self.designs, self.actions).T
        ran = means.at(self.ran, log.executed)
        own = self._own_worth(ran)
        shown = np.concatenate((laws.passed, laws.approve(self.shown, everyone)[:, None]), axis=1)
        behind = shown * means.at(self.left_designs, self.left).T + (1.0 - shown) * own[:, None]
        proposed = behind[:, k]

        def best(values: Array, can: Array, otherwise: Array) -> tuple[Array, Array]:
            values = np.where(can, values, -np.inf)
            at = values.argmax(axis=1)
            return np.where(can.any(axis=1), values[everyone, at], otherwise), at

        star, at_star = best(worth, self.can, ran)
        free, at_free = best(worth[:, :k], self.can[:, :k], ran)
        gated, at_gated = best(behind[:, :k], self.can_behind, proposed)
        is_beyond = ~self.can[everyone, worth[:, :k].argmax(axis=1)]
        return Seen(star, free, gated, proposed, ran, at_star, at_free, at_gated, is_beyond)

    def missed(self, seen: Seen) -> tuple[Array, Array]:
        """Return what weighted residuals add to the parts (N, 4), and effective rows (3,).

        Where the model is right they are 0 but for noise. Weights are t(c | x)/b(c | x), with c
        the executed cell, b = P(c | x) in the log and t under the choice.
        """
        log, laws, everyone = self.features.log, self.laws, np.arange(self.features.log.n)
        k = self.kernel.shape[1]
        rest, b = log.reward - seen.ran, laws.behaviour[everyone, log.cell]
        weights = []
        for at, can in ((seen.at_star, self.can), (seen.at_free, self.can[:, :k])):
            is_it = (self.cell[everyone, at] == log.cell) & can.any(axis=1)
            weights.append(np.where(is_it, np.minimum(1.0 / b, MOST_WEIGHT), 0.0))
        target = self.kernel[everyone, seen.at_gated, log.cell]
        weight = np.minimum(target / b, MOST_WEIGHT)
        weights.append(np.where(self.can_behind.any(axis=1), weight, 1.0))
        star, free, gated = (weight * rest for weight in weights)
        square = np.array([float((weight**2).sum()) for weight in weights])
        total = np.array([float(weight.sum()) for weight in weights])
        ess = np.where(square > 0, total**2 / np.where(square > 0, square, 1.0), 0.0)
        # What was proposed earned, behind the gates, what was earned: its residual is the row's.
        more = (star - rest, star - free, gated - rest, free - gated)
        return np.stack(more, axis=1), ess

    def _own_worth(self, ran: Array) -> Array:
        """Return E[m̂(e, x) | x, not approved], regressed on x where persons acted: (N,)."""
        phi, index = self.features.phi, np.flatnonzero(~self.laws.approved)
        if index.size == 0:
            return np.zeros(phi.shape[0])
        own = phi[index]
        penalty = np.diag(np.r_[1e-6, np.ones(phi.shape[1] - 1)])
        return np.asarray(phi @ np.linalg.solve(own.T @ own + penalty, own.T @ ran[index]))


def _candidates(instance: Instance, log: GatedLog, arms: Array) -> Array:
    """Return the actions among which e* is looked for: (N, M, D), the arms among them."""
    space = instance.space
    if space.is_exact.any() or log.delta.shape[1] > 1:
        return arms
    columns = []
    for values in (np.unique(column) for column in space.coords.T):
        if values.size < 2:
            columns.append(values)
            continue
        steps = np.arange(-_BETWEEN // 2, (values.size - 1) * _BETWEEN + _BETWEEN // 2 + 1)
        ends = (2 * values[0] - values[1], *values, 2 * values[-1] - values[-2])
        columns.append(np.interp(steps / _BETWEEN, np.arange(-1.0, values.size + 1.0), ends))
    coords = np.stack(np.meshgrid(*columns, indexing="ij"), axis=-1).reshape(-1, len(columns))
    if coords.shape[0] > _MOST_CANDIDATES:
        return arms
    names = tuple(str(i) for i in range(coords.shape[0]))
    dense = Arms(names, coords, np.ones(coords.shape[1]), space.is_exact)
    found = instance.composition.compose(dense, log.delta, log.rows.x)
    return np.concatenate((arms, found), axis=1)
