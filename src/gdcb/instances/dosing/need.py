"""The made truth of `well`: what a patient needs, and a reward that is quadratic around it.

need = level + δ*(x), δ*(x) = f(x) − f̄ with f(x) = a·meal/c(w) + b·(glucose + 20·trend − 120)/k(w) −
d·iob: a bolus calculator with the ratios c and k of the weight w (the 450 and 1800 rules), whose
terms a clinic's patients need more or less of. With q = (dose − need)/width the reward is
1 − q² − ¼·(1 + q)²: the fear of a low keeps the best dose below the need.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from gdcb.arrays import Array
from gdcb.instances.dosing import response
from gdcb.instances.dosing.columns import GLUCOSE, IOB, MEAL, TARGET, TREND, WEIGHT, by_weight
from gdcb.records import Rows
from gdcb.streams import Stream

# The prior: a clinic's mean and standard deviation, and a patient's around it.
THETA, THETA_SD = (
    np.array([1.0, 1.0, 0.8]),
    np.array([0.2, 0.2, 0.15]),
)  # meal, correction, on board
LEVEL, LEVEL_SD, LEVEL_OWN = 5.5, 0.6, 1.0
WIDTH, WIDTH_OWN = 3.0, 0.5  # units; a patient's is uniform within ± the second
FEAR = 0.25  # weight of hypoglycaemia
AHEAD = 20.0  # minutes for which the trend is taken to last
NOISE, LABEL_SD = 0.4, 1.0


@dataclass(slots=True)
class Need:
    """What every patient needs: level and width (units,), and the clinic's terms θ (units, 3)."""

    level: Array
    width: Array
    theta: Array

    def offset(self, rows: Rows) -> Array:
        """Return δ*(x): (N,)."""
        return np.asarray((self.theta[rows.unit] * terms(rows.x)).sum(axis=1))

    def of(self, rows: Rows) -> Array:
        """Return the need level + δ*(x): (N,)."""
        return np.asarray(self.level[rows.unit] + self.offset(rows))

    def felt(self, rows: Rows, share: float) -> Array:
        """Return the dose of someone who knows a share of what sets patients apart: (N,)."""
        level = LEVEL + share * (self.level[rows.unit] - LEVEL)
        theta = THETA + share * (self.theta[rows.unit] - THETA)
        return np.asarray(np.maximum(level + (theta * terms(rows.x)).sum(axis=1), 0.0))

    def worth(self, dose: Array, rows: Rows) -> Array:
        """Return the mean reward of doses (N, M): (N, M)."""
        q = (dose - self.of(rows)[:, None]) / self.width[rows.unit, None]
        return np.asarray(1.0 - q**2 - FEAR * (1.0 + q) ** 2)

    def best(self, rows: Rows) -> Array:
        """Return the best dose, q* = −¼/(1 + ¼), and none below 0: (N,)."""
        dose = self.of(rows) - FEAR / (1.0 + FEAR) * self.width[rows.unit]
        return np.asarray(np.maximum(dose, 0.0))


def draw(rng: Stream, n: int, first: Array) -> Need:
    """Draw what n patients need; the first of a clinic draws for all of it."""
    shared, own, u = rng.normal(n, 4)[first], rng.normal(n), rng.uniform(n)
    return Need(
        LEVEL + LEVEL_SD * shared[:, 0] + LEVEL_OWN * own,
        WIDTH + WIDTH_OWN * (2.0 * u - 1.0),
        THETA + THETA_SD * shared[:, 1:],
    )


def terms(x: Array) -> Array:
    """Return the three terms of the need in units, less their means over all meals: (N, 3)."""
    return raw_terms(x) - middle()


def raw_terms(x: Array) -> Array:
    """Return what the meal, a correction and insulin on board ask for, in units: (N, 3)."""
    carb_ratio, correction = by_weight(x[:, WEIGHT])
    ahead = x[:, GLUCOSE] + AHEAD * x[:, TREND] - TARGET
    return np.stack((x[:, MEAL] / carb_ratio, ahead / correction, -x[:, IOB]), axis=1)


@cache
def middle() -> Array:
    """Return the means of the terms over all meals of the table: (3,)."""
    return np.asarray(raw_terms(response.known().x).mean(axis=0))
