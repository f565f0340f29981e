"""What follows a bolus: five hours of every kept meal under every dose, counted in minutes.

`python -m gdcb.instances.dosing.tabulate` makes the table anew with our integrator. It needs
simglucose for the patients' parameters, and some minutes of one core.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.instances.dosing.bank import CARBOHYDRATE, STATES, moments, ratios
from gdcb.instances.dosing.integrate import Body, live
from gdcb.instances.dosing.patients import Cohort, cohort

HORIZON = 300  # minutes that are looked at
LOW, HIGH, VERY_LOW = 70.0, 180.0, 54.0  # mg/dL: the range, and serious hypoglycaemia
PER_KG, MOST = 0.25, 25.0  # units a kg, and units: no bolus is larger
N_DOSES, BEND = 61, 1.5  # doses go with (j / 60) to this power: finest where children are
STEPS = 2  # of the integration in a minute
FILE = Path(__file__).parent / "table.npz"


@dataclass(frozen=True)
class Table:
    """What follows a bolus, and what was known before it.

    Parameters
    ----------
    name : (30,) of the patients
    weight, carb_ratio, correction : (30,) kg; g and mg/dL a unit, as simglucose has them
    glucose, trend, meal, iob : (30, states) before the meal
    dose : (30, 61) units
    minutes : (30, states, 3, 61, 3) of the next 300: in range, below 70, below 54 mg/dL, when the
        true meal is 0.8, 1.0 and 1.2 of the announced one
    x, waiting, is_eating, before, eaten : the body before the meal, as in `Body`
    """

    name: Array
    weight: Array
    carb_ratio: Array
    correction: Array
    glucose: Array
    trend: Array
    meal: Array
    iob: Array
    dose: Array
    minutes: Array
    x: Array
    waiting: Array
    is_eating: Array
    before: Array
    eaten: Array

    def body(self, patient: Array, state: Array) -> Body:
        """Return where patients stood before some meals."""
        at = (patient, state)
        return Body(
            np.ascontiguousarray(self.x[at].T),
            self.waiting[at],
            self.is_eating[at],
            self.before[at],
            self.eaten[at],
        )


def limit(weight: Array) -> Array:
    """Return the largest bolus of a weight: 0.25 U/kg, at most 25 U."""
    return np.minimum(PER_KG * np.asarray(weight), MOST)


def follow(
    people: Cohort, table: Table, patient: Array, state: Array, dose: Array, share: Array
) -> Array:
    """Return glucose (301, n) behind some meals: announced grams × share, boluses in units."""
    who = people.patients.take(patient)
    eaten, insulin = np.zeros((HORIZON, dose.size)), np.tile(who.basal, (HORIZON, 1))
    eaten[0] = share * table.meal[patient, state]
    insulin[0] += dose
    return live(who, table.body(patient, state), eaten, insulin, STEPS)


def count(read: Array) -> Array:
    """Return minutes (n, 3) in range, below 70 and below 54 of readings (301, n).

    >>> count(np.array([[200.0], [60.0], [100.0], [50.0]])).tolist()
    [[1, 2, 1]]
    """
    after = read[1:]
    is_in = (after >= LOW) & (after <= HIGH)
    counted = [part.sum(axis=0) for part in (is_in, after < LOW, after < VERY_LOW)]
    return np.stack(counted, axis=1).astype(np.uint16)


def make(states: int = STATES) -> Table:
    """Work the table out: `states` meals of every patient."""
    people = cohort()
    kept, (carb_ratio, correction) = moments(people, steps=STEPS), ratios(people)
    n = len(people.names)

    def by_patient(values: Array) -> Array:
        return values.reshape(n, STATES, *values.shape[1:])[:, :states]

    weight, body = people.patients.BW, kept.body
    doses = limit(weight)[:, None] * (np.arange(N_DOSES) / (N_DOSES - 1)) ** BEND
    table = Table(
        np.array(people.names),
        weight,
        carb_ratio,
        correction,
        by_patient(kept.glucose),
        by_patient(kept.trend),
        by_patient(kept.meal),
        by_patient(kept.iob),
        doses,
        np.zeros((n, states, len(CARBOHYDRATE), N_DOSES, 3), dtype=np.uint16),
        by_patient(body.x.T),
        by_patient(body.waiting),
        by_patient(body.is_eating),
        by_patient(body.before),
        by_patient(body.eaten),
    )
    for i in range(n):
        grid = np.indices((states, len(CARBOHYDRATE), N_DOSES)).reshape(3, -1)
        state, node, j = grid
        for part in np.array_split(np.arange(state.size), -(-state.size // 2048)):
            who = np.full(part.size, i)
            share = np.array(CARBOHYDRATE)[node[part]]
            read = follow(people, table, who, state[part], doses[i, j[part]], share)
            table.minutes[i, state[part], node[part], j[part]] = count(read)
    return table


def write(table: Table, path: Path = FILE) -> None:
    """Write a table down."""
    columns = {name: getattr(table, name) for name in Table.__dataclass_fields__}
    np.savez_compressed(path, **columns)


@cache
def read(path: Path = FILE) -> Table:
    """Read the table that comes with the package; it needs no simglucose."""
    try:
        with np.load(path, allow_pickle=False) as found:
            return Table(**{name: found[name] for name in Table.__dataclass_fields__})
    except (OSError, EOFError, KeyError, ValueError) as error:
        raise InvalidInput(
            f"{path.name}: not the table of meals ({error}); "
            "python -m gdcb.instances.dosing.tabulate makes it"
        ) from error


if __name__ == "__main__":
    write(make(), Path(sys.argv[1]) if len(sys.argv) > 1 else FILE)
