"""Meals of a clinic's patients, and what follows a bolus.

- `mis`: simglucose's patients. Share of the next five hours in range, less what lows weigh, from
  the table: linear between its doses, averaged over how wrong the announced meal may be.
- `well`: the same meals, a made need: level of the patient + δ*(x), and a reward that is quadratic
  around it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.instances.dosing import need, response
from gdcb.instances.dosing.advice import advice
from gdcb.instances.dosing.bank import CHANCES
from gdcb.instances.dosing.columns import ADVICE, SCHEMA, by_weight, calculated
from gdcb.instances.dosing.need import Need
from gdcb.instances.dosing.response import Responses
from gdcb.instances.dosing.tabulate import N_DOSES
from gdcb.parts import check_choice
from gdcb.records import Rows
from gdcb.streams import Stream

VARIANTS = ("well", "mis")
KNOWS = 0.5  # how much of what sets a patient apart the physician knows, in logarithms
LABEL_SHARE, LABEL_SD = 0.15, 0.25  # of a chart review: sd a unit of dose, and units besides
MIDDLE = 5.5  # units from which offsets are counted: the mean of the right doses is near it
NOISE = 0.1  # of the reward: all that a day brings and the table does not know
MEALTIME, OWN = 0, 1  # hidden columns: the place in the table, and the physician's own dose


@dataclass(slots=True)
class Clinic:
    """Who the patients are.

    Parameters
    ----------
    patient : (units,) place among the thirty
    carb_ratio, correction : (units,) g and mg/dL a unit, as the physician has them
    need : what they need, in `well`
    """

    patient: Array
    carb_ratio: Array
    correction: Array
    need: Need | None = None


@dataclass(frozen=True)
class Meals:
    """The world of meals and boluses.

    Parameters
    ----------
    variant : 'well' or 'mis'
    is_advised : whether the column `advice` is filled in; else it is 0
    """

    variant: str = "mis"
    is_advised: bool = True
    table: Responses = field(default_factory=response.known, repr=False, compare=False)
    x: Array = field(init=False, repr=False, compare=False)  # contexts of all meals of the table

    def __post_init__(self) -> None:
        check_choice("variant", self.variant, VARIANTS)
        x = np.zeros((self.table.x.shape[0], SCHEMA.width))
        x[:, :ADVICE] = self.table.x
        if self.is_advised:
            x[:, ADVICE] = advice(self.variant, self.table.x)
        object.__setattr__(self, "x", x)

    def start(self, rng: Stream, group: Array) -> Clinic:
        """Draw which patients a clinic has, none twice; in `well` also what they need."""
        n, table = group.size, self.table
        first = np.searchsorted(group, group)
        order = np.argsort(rng.uniform(n, table.weight.size)[first], axis=1)
        patient = order[np.arange(n), (np.arange(n) - first) % table.weight.size]
        usual = by_weight(table.weight[patient])
        ratios = (table.carb_ratio[patient], table.correction[patient])
        known = [a ** (1.0 - KNOWS) * b**KNOWS for a, b in zip(usual, ratios, strict=True)]
        drawn = need.draw(rng, n, first) if self.variant == "well" else None
        return Clinic(patient, known[0], known[1], drawn)

    def context(self, rng: Stream, state: Clinic, t: int, group: Array) -> Rows:
        """Reveal a meal of every patient; hidden: its place, and the physician's own dose."""
        n, states = group.size, self.table.states
        at = state.patient * states + np.minimum((rng.uniform(n) * states).astype(int), states - 1)
        x = self.x[at]
        rows = Rows(np.arange(n), group, x)
        if state.need is None:
            own = calculated(x, state.carb_ratio, state.correction)
        else:
            own = state.need.felt(rows, KNOWS)
        rows.hidden = np.stack((at.astype(float), own), axis=1)
        return rows

    def mean(self, state: Clinic, e: Array, rows: Rows) -> Array:
        """Return E[r | e, x]; nothing run is a dose of 0, and so is one below it."""
        dose = given(e)
        if state.need is not None:
            return state.need.worth(dose, rows)
        return self.table.read(self.table.reward, dose, place(rows))

    def best(self, state: Clinic, rows: Rows) -> Array:
        """Return the best dose."""
        if state.need is not None:
            return np.asarray(state.need.best(rows)[:, None])
        return np.asarray(self.table.best[place(rows)][:, None])

    def candidates(self, state: Clinic, rows: Rows) -> Array:
        """Return 61 doses, among which the best proposal behind the physician is: (N, 61, 1).

        In `mis` those of the table, from none to the largest: what follows is linear between them.
        In `well` those between the physician's own dose and the best one. Beyond the own dose both
        approval and reward fall, and beyond the best one too: nothing there is worth more.
        """
        if state.need is not None and rows.hidden is not None:
            own, best = rows.hidden[:, OWN, None], state.need.best(rows)[:, None]
            return np.asarray((own + (best - own) * np.linspace(0.0, 1.0, N_DOSES))[..., None])
        return np.asarray(self.table.dose[place(rows) // self.table.states][..., None])

    def sample(self, rng: Stream, state: Clinic, e: Array, rows: Rows) -> Array:
        """Draw rewards: in `mis` the meal is 0.8, 1.0 or 1.2 of what was announced."""
        noise, u = NOISE * rng.normal(rows.n), rng.uniform(rows.n)
        dose = given(e)[:, None]
        if state.need is not None:
            mean, noise = state.need.worth(dose, rows), need.NOISE / NOISE * noise
        else:
            node = np.searchsorted(np.cumsum(np.array(CHANCES))[:-1], u, side="right")
            at = node * self.table.x.shape[0] + place(rows)
            mean = self.table.read(self.table.by_node, dose, place(rows), at)
        return np.asarray((mean[:, 0] + noise)[:, None])

    def right(self, state: Clinic, rows: Rows) -> Array:
        """Return the dose that a chart review would find right, without its noise: (N,)."""
        return self.table.right[place(rows)] if state.need is None else state.need.of(rows)

    def label(self, rng: Stream, state: Clinic, e: Array, rows: Rows) -> Array:
        """Return how far from `MIDDLE` the right dose was, as a chart review finds it."""
        right = self.right(state, rows)
        sd = LABEL_SD + LABEL_SHARE * right if state.need is None else need.LABEL_SD
        return np.asarray((right - MIDDLE + sd * rng.normal(rows.n))[:, None])

    def advance(self, rng: Stream, state: Clinic, e: Array, outcome: Array, rows: Rows) -> Clinic:
        """Meals do not depend on each other: what ran changes no later context."""
        return state

    def true_delta(self, state: Clinic, rows: Rows) -> Array | None:
        """Return δ*(x) (N, 1, 1); None in `mis`, where there is none."""
        if state.need is None:
            return None
        return np.asarray(state.need.offset(rows)[:, None, None])


def given(e: Array) -> Array:
    """Return the units that flow: none where nothing runs, none where the dose is negative."""
    return np.asarray(np.fmax(e[..., 0], 0.0))


def place(rows: Rows) -> Array:
    """Return the place (N,) of every row's meal in the table."""
    if rows.hidden is None:
        raise InvalidInput(
            "a meal has a hidden column, its place in the table; these rows have none"
        )
    return np.asarray(rows.hidden[:, MEALTIME].astype(np.int64))
