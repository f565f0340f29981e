"""The best action of every row, as some rows see it, and what other rows say it is worth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.analysis.contraction import arm_cells
from gdcb.analysis.what_if.another_gate import own_worth
from gdcb.analysis.what_if.coverage import ran_nearby
from gdcb.analysis.what_if.laws import Laws
from gdcb.analysis.what_if.log import GatedLog, nulled
from gdcb.analysis.what_if.means import Features, Means
from gdcb.analysis.what_if.passing import through
from gdcb.arms import Arms
from gdcb.arrays import Array
from gdcb.instance import Instance

MOST_WEIGHT = 20.0  # a bandit that learns leaves arms behind; larger ones cost more than they mend
_BETWEEN = 4  # actions looked at from one arm to the next
_MOST_CANDIDATES = 400
_MOST_BEYOND = 0.05  # of what an arm leads to may lie in cells that never ran in like contexts


@dataclass(slots=True)
class Choice:
    """What is chosen in every row (N,), by its place among the candidates.

    Parameters
    ----------
    star, free : the best of all supported candidates, and of the arms, as if there were no gates
    gated : the best arm behind the gates
    """

    star: Array
    free: Array
    gated: Array


@dataclass(slots=True)
class Ground:
    """Candidates of a log's rows and all that can be said of them before anything is fitted.

    Parameters
    ----------
    features, laws : of the log
    actions, designs : (M, N, D), (M, N, d) candidates, the K arms first, and their features
    left, left_designs : (K, N, D), (K, N, d) what the hard gates make of the arms
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
        behind = (through(instance, gates, arms[:, a], log.rows) for a in range(k))
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
            features.design(log.executed),
            cell,
            np.take_along_axis(nearby, cell, axis=1),
            (kernel * ~nearby[:, None, :]).sum(axis=2) <= _MOST_BEYOND,
            kernel,
        )

    def choose(self, means: Means) -> Choice:
        """Choose by one model; of equals the first."""
        k = self.kernel.shape[1]
        worth = np.where(self.can, _all(means, self.designs, self.actions), -np.inf)
        behind = np.where(self.can_behind, self._behind(means), -np.inf)
        return Choice(worth.argmax(axis=1), worth[:, :k].argmax(axis=1), behind.argmax(axis=1))

    def value(
        self, choice: Choice, means: Means, is_corrected: bool = True
    ) -> tuple[Array, Array, Array]:
        """Return scores (N,) of what was chosen, by another model: star, free, gated.

        Corrected, they have the weighted residuals of what ran, and rows in which the best arm was
        proposed anyway keep their own outcome. Rows without any support keep theirs too.
        """
        log, everyone = self.features.log, np.arange(self.features.log.n)
        k = self.kernel.shape[1]
        rest = log.reward - means.at(self.ran, log.executed, everyone)
        found = []
        for best, can in ((choice.star, self.can), (choice.free, self.can[:, :k])):
            score = means.at(self.designs[best, everyone], self.actions[best, everyone], everyone)
            if is_corrected:
                score = score + self._weight(best) * rest
            found.append(np.where(can.any(axis=1), score, log.reward))
        score = self._behind(means)[everyone, choice.gated]
        if is_corrected:
            score = np.where(self._same(choice.gated), log.reward, score)
            score = score + self._weight_behind(choice.gated) * rest
        gated = np.where(self.can_behind.any(axis=1), score, log.reward)
        return found[0], found[1], gated

    def ess(self, choice: Choice) -> float:
        """Return the effective rows behind the best arm, free or gated: the fewer."""
        found = []
        for weight in (self._weight(choice.free), self._weight_behind(choice.gated)):
            square = float((weight**2).sum())
            found.append(float(weight.sum()) ** 2 / square if square > 0 else 0.0)
        return min(found)

    def _behind(self, means: Means) -> Array:
        """Return (K̂m̂) of every arm: (N, K)."""
        log, passed = self.features.log, self.laws.passed
        ran = means.at(self.ran, log.executed, np.arange(log.n))
        own = own_worth(means, self.laws.approved, ran)
        worth = _all(means, self.left_designs, self.left)
        return np.asarray(passed * worth + (1.0 - passed) * own[:, None])

    def _weight(self, best: Array) -> Array:
        log, everyone = self.features.log, np.arange(self.features.log.n)
        is_it = self.cell[everyone, best] == log.cell
        ran = self.laws.behaviour[everyone, log.cell]
        return np.where(is_it, np.minimum(1.0 / ran, MOST_WEIGHT), 0.0)

    def _same(self, best: Array) -> Array:
        if self.laws.proposed is None:
            return np.zeros(best.size, dtype=bool)
        return np.asarray(self.features.log.proposed == best)

    def _weight_behind(self, best: Array) -> Array:
        log, everyone, laws = self.features.log, np.arange(best.size), self.laws
        share = 1.0 if laws.proposed is None else 1.0 - laws.proposed[everyone, best]
        target = share * self.kernel[everyone, best, log.cell]
        return np.minimum(target / laws.behaviour[everyone, log.cell], MOST_WEIGHT)


def _all(means: Means, designs: Array, actions: Array) -> Array:
    """Return m̂ of M actions of every row: (N, M)."""
    everyone = np.arange(designs.shape[1])
    pairs = zip(designs, actions, strict=True)
    return np.stack([means.at(design, e, everyone) for design, e in pairs], axis=1)


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
