"""The table of meals as a world reads it: rewards and shares of time, linear between doses.

The reward is TIR − 2·TBR₇₀ − 0.75·TBR₅₄, shares of the next five hours in 70–180, below 70 and
below 54 mg/dL. Ranges are those of the international consensus on time in range (Battelino et al.,
Diabetes Care 42:1593, 2019). Weights are those of the glycemia risk index (Klonoff et al., J
Diabetes Sci Technol 17:1226, 2023), 0.8 for high, 2.4 for low and 3.0 for very low glucose: an hour
below 70 costs three times an hour above 180, one below 54 costs 3.75 times that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from gdcb.arrays import Array
from gdcb.instances.dosing import tabulate
from gdcb.instances.dosing.bank import CHANCES
from gdcb.instances.dosing.tabulate import BEND, HORIZON, N_DOSES, Table

WEIGHTS = np.array([1.0, -2.0, -0.75])  # of time in range, below 70, below 54
NEARLY = 0.02  # doses whose reward is this near to the best are as right


@dataclass(frozen=True)
class Responses:
    """What follows every dose at every meal of the table, m = patients × states meals.

    Parameters
    ----------
    states : meals a patient
    weight, carb_ratio, correction : (patients,) as in the table
    x : (m, 5) contexts
    dose : (patients, 61) units, from none to the largest
    reward : (m, 61) E[r], over how wrong the announced meal may be
    by_node : (3·m, 61) the reward when the meal is 0.8, 1.0 and 1.2 of what was announced
    shares : (3, m, 61) expected share of time in range, below 70, below 54
    best, right : (m,) the best dose, and the middle of those nearly as good
    """

    states: int
    weight: Array
    carb_ratio: Array
    correction: Array
    x: Array
    dose: Array
    reward: Array
    by_node: Array
    shares: Array
    best: Array
    right: Array

    def read(self, values: Array, dose: Array, at: Array, row: Array | None = None) -> Array:
        """Read values (…, 61) at doses (N, M) of meals `at` (N,): (N, M).

        `row` says which row of `values` is a meal's, where it is not the meal itself. Beyond the
        largest dose what follows is held to be the same.
        """
        of = at // self.states
        doses = self.dose.reshape(-1)
        largest = self.dose[of, -1:]
        dose = np.minimum(dose, largest)
        j = ((N_DOSES - 1) * (dose / largest) ** (1.0 / BEND)).astype(np.int64)
        j = np.minimum(j, N_DOSES - 2)
        start = (of * N_DOSES)[:, None] + j
        low = doses.take(start)
        share = (dose - low) / (doses.take(start + 1) - low)
        flat, start = values.reshape(-1), ((at if row is None else row) * N_DOSES)[:, None] + j
        low = flat.take(start)
        return np.asarray(low + share * (flat.take(start + 1) - low))


@cache
def known() -> Responses:
    """Return the table that comes with the package."""
    return responses(tabulate.read())


def responses(table: Table) -> Responses:
    """Work out rewards, best and right doses of a table."""
    n, states = table.meal.shape
    shares = table.minutes.reshape(n * states, len(CHANCES), N_DOSES, 3) / HORIZON
    rewards = (shares * WEIGHTS).sum(axis=-1)
    chances = np.array(CHANCES)[:, None]
    reward = (chances * rewards).sum(axis=1)
    weight = np.broadcast_to(table.weight[:, None], (n, states))
    x = np.stack((table.glucose, table.trend, table.meal, table.iob, weight), axis=-1)
    doses = np.repeat(table.dose, states, axis=0)
    best = reward.argmax(axis=1)
    rows = np.arange(n * states)
    return Responses(
        states,
        table.weight,
        table.carb_ratio,
        table.correction,
        x.reshape(n * states, -1),
        table.dose,
        reward,
        np.ascontiguousarray(rewards.swapaxes(0, 1)).reshape(-1, N_DOSES),
        np.ascontiguousarray((chances[..., None] * shares).sum(axis=1).transpose(2, 0, 1)),
        doses[rows, best],
        _middle(reward, doses, best),
    )


def _middle(reward: Array, doses: Array, best: Array) -> Array:
    """Return the middle of the doses around the best that are nearly as good: (m,)."""
    rows, top = np.arange(best.size), reward.max(axis=1)
    ends = []
    for step in (-1, 1):
        at, open_ = best.copy(), np.ones(best.size, dtype=bool)
        for _ in range(N_DOSES):
            ahead = np.clip(at + step, 0, N_DOSES - 1)
            open_ &= reward[rows, ahead] >= top - NEARLY
            at = np.where(open_, ahead, at)
        ends.append(doses[rows, at])
    return np.asarray(0.5 * (ends[0] + ends[1]))
