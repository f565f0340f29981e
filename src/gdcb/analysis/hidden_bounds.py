"""One arm's residuals, tilted as far as a hidden cause of odds ratio Λ may tilt them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array

_LEAST_ROWS = 50  # of the arm in a stratum


@dataclass(frozen=True, slots=True)
class Tail:
    """Residuals of a stratum by falling size, cumulated with their weights v."""

    residual: Array
    mass: Array
    sum: Array

    @staticmethod
    def of(residual: Array, weight: Array) -> Tail:
        """Sort and cumulate; a row that is certain to run the arm weighs nothing."""
        order = np.argsort(-residual, kind="stable")
        zero = np.zeros(1)
        mass = np.concatenate((zero, weight[order].cumsum()))
        total = np.concatenate((zero, (weight * residual)[order].cumsum()))
        return Tail(residual[order], mass, total)

    def tilted(self, ratio: float) -> float:
        """Return C = max Σ v·r·ε/Σ v over 1/Λ ≤ r ≤ Λ with Σ v·r = Σ v.

        >>> round(Tail.of(np.array([-0.5, 0.5]), np.ones(2)).tilted(3.0), 4)
        0.3333
        """
        whole = self.mass[-1]
        if whole <= 0:
            return 0.0
        top = np.interp(whole / (1.0 + ratio), self.mass, self.sum)
        return float((self.sum[-1] / ratio + (ratio - 1.0 / ratio) * top) / whole)

    def quantile(self, ratio: float) -> float:
        """Return the residual above which a share 1/(1 + Λ) of the weight lies."""
        at = int(np.searchsorted(self.mass[1:], self.mass[-1] / (1.0 + ratio)))
        return float(self.residual[min(at, self.residual.size - 1)])


@dataclass(frozen=True, slots=True)
class ArmResiduals:
    """What bounds of one arm's mean need.

    Parameters
    ----------
    outcome, predicted : (N,) r, and m(a, x)
    is_arm : (N,) whether the arm ran
    weight : (N,) v = (1 − P)/P where it ran
    stratum : (N,) of m
    others : (S,) rows of each stratum in which it did not run
    kept : Σ of Y where it ran and of m elsewhere
    tails : (S,) of Y − m for the upper bound, and of m − Y for the lower one
    """

    outcome: Array
    predicted: Array
    is_arm: Array
    weight: Array
    stratum: Array
    others: Array
    kept: float
    tails: tuple[tuple[Tail, ...], tuple[Tail, ...]]

    @staticmethod
    def of(
        outcome: Array, is_arm: Array, propensity: Array, predicted: Array, strata: int
    ) -> ArmResiduals:
        """Stratify by m so that each stratum has enough of the arm's rows."""
        own = predicted[is_arm]
        n_strata = max(1, min(strata, own.size // _LEAST_ROWS))
        edges = np.unique(np.quantile(own, np.arange(1, n_strata) / n_strata))
        edges = edges[(edges > own.min()) & (edges <= own.max())]
        stratum = np.searchsorted(edges, predicted, side="right")
        weight = np.where(is_arm, (1.0 - propensity) / propensity, 0.0)
        residual = outcome - predicted
        upper, lower = [], []
        for s in range(edges.size + 1):
            here = is_arm & (stratum == s)
            upper.append(Tail.of(residual[here], weight[here]))
            lower.append(Tail.of(-residual[here], weight[here]))
        others = np.bincount(stratum[~is_arm], minlength=edges.size + 1)
        kept, both = float(np.where(is_arm, outcome, predicted).sum()), (tuple(upper), tuple(lower))
        return ArmResiduals(outcome, predicted, is_arm, weight, stratum, others, kept, both)

    @property
    def n(self) -> int:
        """Rows of the arm."""
        return int(self.is_arm.sum())

    def bound(self, ratio: float, sign: float) -> float:
        """Return the upper (`sign` 1) or lower (−1) bound of the arm's mean at Λ."""
        tails = self.tails[int(sign < 0)]
        moved = sum(n * tail.tilted(ratio) for tail, n in zip(tails, self.others, strict=True))
        return float((self.kept + sign * moved) / self.outcome.size)

    def influence(self, ratio: float, sign: float) -> Array:
        """Return what each row adds to the bound (N,); their mean is the bound.

        T·Y + (1 − T)(m + C) + T·v·(n₀/Σv)·(h − C) with
        h = ε/Λ + (1 − 1/Λ)·{q + (1 + Λ)(ε − q)₊}, q the residual at the share 1/(1 + Λ).
        """
        tails = self.tails[int(sign < 0)]
        shift = np.array([tail.tilted(ratio) for tail in tails])
        edge = np.array([tail.quantile(ratio) for tail in tails])
        whole = np.array([tail.mass[-1] for tail in tails])
        scale = np.where(whole > 0, self.others / np.where(whole > 0, whole, 1.0), 0.0)
        s = self.stratum
        residual = sign * (self.outcome - self.predicted)
        above = np.maximum(residual - edge[s], 0.0)
        tilt = residual / ratio + (1.0 - 1.0 / ratio) * (edge[s] + (1.0 + ratio) * above)
        own = sign * self.outcome + self.weight * scale[s] * (tilt - shift[s])
        return np.asarray(sign * np.where(self.is_arm, own, sign * self.predicted + shift[s]))
