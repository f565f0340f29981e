"""Days of many patients at once: meals eaten, insulin infused, glucose read, minute by minute."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.instances.dosing.model import LIQUID, SKIN, SOLID, Flow
from gdcb.instances.dosing.patients import N_STATES, Cohort, Patients
from gdcb.parts import check_number

RATE = 5.0  # grams of carbohydrate that are eaten in a minute
STEPS = 4  # of Runge and Kutta's fourth-order rule in a minute


@dataclass(slots=True)
class Body:
    """Where n patients stand between two minutes.

    Parameters
    ----------
    x : (13, n) states of the model
    waiting : (n,) carbohydrate announced and not eaten yet, g
    is_eating : (n,) whether the minute before was one of a meal
    before, eaten : (n,) what lay in the stomach when the meal began, mg; eaten since then, g
    """

    x: Array
    waiting: Array
    is_eating: Array
    before: Array
    eaten: Array

    def take(self, index: Array) -> Body:
        """Return the patients at `index`, copied."""
        return Body(
            self.x[:, index],
            self.waiting[index],
            self.is_eating[index],
            self.before[index],
            self.eaten[index],
        )


def resting(cohort: Cohort, index: Array) -> Body:
    """Return patients of the cohort as the model starts them: fasting, on basal insulin."""
    x = cohort.start[:, index].copy()
    n = x.shape[1]
    return Body(x, np.zeros(n), np.zeros(n, dtype=bool), x[SOLID] + x[LIQUID], np.zeros(n))


def glucose(patients: Patients, x: Array) -> Array:
    """Return glucose under the skin, which a sensor reads: mg/dL, (n,)."""
    return np.asarray(x[SKIN] / patients.Vg)


def live(
    patients: Patients, body: Body, carbohydrate: Array, insulin: Array, steps: int = STEPS
) -> Array:
    """Let minutes pass; `body` becomes what it is behind them. Returns glucose (minutes + 1, n).

    Parameters
    ----------
    patients : of n patients, who may be the same one n times
    body : where they stand
    carbohydrate : (minutes, n) announced in each minute, g; eaten at 5 g a minute
    insulin : (minutes, n) infused in each minute, U/min, basal and bolus together
    steps : of the integration in a minute; inputs are constant within it
    """
    n = patients.BW.size
    if carbohydrate.shape != insulin.shape or carbohydrate.ndim != 2:
        raise InvalidInput(
            f"expected carbohydrate and insulin as (minutes, {n}), got {carbohydrate.shape} and "
            f"{insulin.shape}"
        )
    if body.x.shape != (N_STATES, n) or carbohydrate.shape[1] != n:
        raise InvalidInput(f"expected {n} patients, got {body.x.shape} and {carbohydrate.shape}")
    for name, given in (("carbohydrate", carbohydrate), ("insulin", insulin)):
        if not (np.isfinite(given) & (given >= 0.0)).all():
            raise InvalidInput(f"{name}: expected finite numbers, none below 0")
    check_number("steps", steps, 1)
    flow, x, h = Flow(patients), body.x, 1.0 / steps
    read = np.empty((carbohydrate.shape[0] + 1, n))
    read[0] = glucose(patients, x)
    for minute in range(carbohydrate.shape[0]):
        _eat(body, x, carbohydrate[minute], flow, insulin[minute])
        for _ in range(steps):
            a = flow(x)
            b = flow(x + 0.5 * h * a)
            c = flow(x + 0.5 * h * b)
            b += c
            c *= h
            c += x
            a += 2.0 * b
            a += flow(c)
            a *= h / 6.0
            x = x + a
        read[minute + 1] = glucose(patients, x)
    body.x = x
    return read


def _eat(body: Body, x: Array, announced: Array, flow: Flow, insulin: Array) -> None:
    """Begin or go on with a meal, and set what flows in during the next minute."""
    body.waiting = body.waiting + announced
    bite = np.minimum(body.waiting, RATE)
    body.waiting = body.waiting - bite
    begins = (bite > 0.0) & ~body.is_eating
    body.before = np.where(begins, x[SOLID] + x[LIQUID], body.before)
    body.eaten = np.where(begins, 0.0, body.eaten) + bite
    body.is_eating = bite > 0.0
    flow.hold(bite, insulin, body.before + 1000.0 * body.eaten)
