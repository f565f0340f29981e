"""Doubly robust scores where only changed rows need a model, and their intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gdcb.analysis.interval import Interval
from gdcb.analysis.off_policy.bootstrap import draw_again, sums_of
from gdcb.analysis.off_policy.estimators import Terms
from gdcb.analysis.off_policy.no_interval import Rare, rarely_run
from gdcb.arrays import Array

MOST_WEIGHT = 100.0


@dataclass(slots=True)
class Scores:
    """What each row adds to the value under what was asked.

    Parameters
    ----------
    kept : (N,) own reward where nothing changes, else 0
    model : (N,) Σ_c q(c)·m̂(c, x) over covered cells, where something changes
    weight : (N,) t(c | x)/b(c | x) of the executed cell c, t being P(changed, covered, e′ in c | x)
    rest : (N,) r − m̂ of what ran
    uncovered : (N,) mass of e′ that nothing in the log stands for
    guess : (N,) what the outcome model says of that mass, beyond all that ran
    lost : (N, K + 3) that mass by cell; the last: the log does not tell what would run
    cut : (N,) mass of e′ that no row stands for because weights are cut at `MOST_WEIGHT`: the
        outcome model alone speaks for it
    rare : cells of large weight that the log may have missed
    second : mean of E[weight² | x]
    """

    kept: Array
    model: Array
    weight: Array
    rest: Array
    uncovered: Array
    guess: Array
    lost: Array
    cut: Array
    rare: tuple[Rare, ...] = ()
    second: float = 0.0

    def expect(self, behaviour: Array, target: Array, cell: Array, cluster: Array | None) -> Scores:
        """Note which weights were to be expected: `rare` and `second`; `target` is covered mass."""
        kept = np.clip(target, 0.0, MOST_WEIGHT * behaviour)
        self.rare = rarely_run(behaviour, kept, cell, cluster)
        square = np.where(behaviour > 0, kept**2, 0.0) / np.where(behaviour > 0, behaviour, 1.0)
        self.second = float(square.sum()) / cell.size
        return self

    def least_error(self, reward: Array, cluster: Array | None) -> float:
        """Return the standard error of the value, or of its difference to what ran if smaller.

        √(s² − s_w² + E weight²·mean rest²/n): s is that of the scores. What weight·rest adds to it,
        s_w, is replaced by what the weights to be expected add, for what ran is luck. The rest is
        how rows differ by what they kept and by what the model says of them; it counts as 0 where
        it would make the error smaller.
        """
        drawn = self.second * float((self.rest**2).mean()) / self.rest.size
        weighted = _standard_error(self.weight * self.rest, cluster)
        seen = min(_standard_error(one, cluster) for one in (self.covered, self.covered - reward))
        return math.sqrt(drawn + max(0.0, seen**2 - weighted**2))

    @property
    def covered(self) -> Array:
        """The doubly robust score of the covered part: kept + model + weight·rest, (N,)."""
        return np.asarray(self.kept + self.model + self.weight * self.rest)

    @property
    def ess(self) -> float:
        """(Σw)²/Σw²; 0 where no row has a weight."""
        square = float((self.weight**2).sum())
        return float(self.weight.sum()) ** 2 / square if square > 0 else 0.0


def _standard_error(score: Array, cluster: Array | None) -> float:
    """Return the standard error of the mean of scores (rows or clusters)."""
    return sums_of(Terms(score[:, None], np.ones((score.size, 1))), cluster).standard_error


def limits(
    score: Array, cluster: Array | None, level: float, draws: int, seed: int, covers: str
) -> Interval:
    """Return the mean of scores and its bootstrap interval (studentised; rows or clusters).

    Scores that are 0 in every row are a difference where nothing changes: 0 for certain.
    """
    mean = float(score.mean())
    if not score.any():
        return Interval(0.0, 0.0, 0.0, level, covers)
    terms = Terms(score[:, None], np.ones((score.size, 1)))
    rng = np.random.default_rng(seed)
    low, high = draw_again(terms, cluster, draws, rng).interval(level, "studentised")
    return Interval(mean, low, high, level, covers)


def outer(
    low: Array,
    high: Array,
    cluster: Array | None,
    level: float,
    draws: int,
    seed: int,
    covers: str,
) -> tuple[Interval, tuple[float, float]]:
    """Return limits that hold the whole range with `level`, and the range itself.

    Each end has its own limit at half of what may go wrong.
    """
    first = limits(low, cluster, level, draws, seed, covers)
    second = limits(high, cluster, level, draws, seed, covers)
    range_ = (float(low.mean()), float(high.mean()))
    return Interval(None, first.low, second.high, level, covers), range_
