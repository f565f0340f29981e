"""Meals as they come: where patients stand before them, reached by living some days.

Every patient lives `RUNS` times `DAYS` days under basal insulin, with four meals a day whose times
and sizes vary, boluses by the patient's own ratios that miss by a third, and sugar against lows.
From the second day on the moment before each meal is kept.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.instances.dosing.integrate import Body, glucose, live, resting
from gdcb.instances.dosing.patients import Cohort, folder

SEED = 20_261_115
RUNS, DAYS, MINUTES = 8, 3, 1440
# Minute of the day, its spread, and grams for 70 kg: breakfast, lunch, a snack, dinner.
MEALS = ((430, 40.0, 50.0), (750, 40.0, 65.0), (940, 30.0, 22.0), (1120, 40.0, 75.0))
STATES = RUNS * (DAYS - 1) * len(MEALS)
SIZE_SD, LEAST, MOST = 0.3, 8.0, 140.0  # of a meal: sd of the log; grams
GROWTH = 0.6  # grams go with (weight / 70 kg) to this power
CARBOHYDRATE = (0.8, 1.0, 1.2)  # the true meal over the announced one
CHANCES = (0.25, 0.5, 0.25)
MISS, FORGOTTEN = 0.3, 0.08  # sd of the log of a bolus over what it should be; share left out
TARGET = 120.0  # mg/dL that a correction aims at
LOW, RESCUE, WAIT = 65.0, 15.0, 20  # mg/dL at which sugar is taken, g for 70 kg, minutes until more
ACTS = 240  # minutes in which a bolus wears off, evenly, for the count of insulin on board
BACK = 15  # minutes over which the trend is read


@dataclass(slots=True)
class Moments:
    """The moment before every meal kept: patients × STATES of them, patient by patient.

    Parameters
    ----------
    patient : (n,) whose
    body : where the patient stands
    glucose, trend, meal, iob : (n,) mg/dL, mg/dL a minute, g announced, U on board
    """

    patient: Array
    body: Body
    glucose: Array
    trend: Array
    meal: Array
    iob: Array


def ratios(cohort: Cohort) -> tuple[Array, Array]:
    """Return simglucose's own g of carbohydrate and mg/dL of glucose a unit: (30,) each."""
    path = folder() / "params" / "Quest.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = {row["Name"]: row for row in csv.DictReader(file)}
    if set(rows) != set(cohort.names):
        raise InvalidInput(f"simglucose's {path.name}: its patients are not those of the others")
    return (
        np.array([float(rows[name]["CR"]) for name in cohort.names]),
        np.array([float(rows[name]["CF"]) for name in cohort.names]),
    )


def moments(cohort: Cohort, runs: int = RUNS, steps: int = 2) -> Moments:
    """Let all patients live and keep the moments before their meals."""
    rng = np.random.default_rng(SEED)
    n_patients, n = len(cohort.names), len(cohort.names) * runs
    who = np.repeat(np.arange(n_patients), runs)
    patients, body = cohort.patients.take(who), resting(cohort, who)
    carb_ratio, correction = (part[who] for part in ratios(cohort))
    time, grams = _plan(rng, patients.BW)
    off = np.exp(MISS * rng.normal(size=(len(MEALS) * DAYS, n)))
    off *= rng.uniform(size=off.shape) >= FORGOTTEN
    true = rng.choice(CARBOHYDRATE, size=off.shape, p=CHANCES)
    past, given = np.tile(glucose(patients, body.x), (BACK + 1, 1)), np.zeros((ACTS, n))
    rested = np.zeros(n)
    wear = 1.0 - np.arange(ACTS)[:, None] / ACTS
    kept: list[tuple[Array, ...]] = []
    for minute in range(DAYS * MINUTES):
        bolus, eaten = np.zeros(n), np.zeros(n)
        for k in np.flatnonzero((time == minute).any(axis=1)):
            at = np.flatnonzero(time[k] == minute)
            now, iob = past[-1, at], (given[:, at] * wear).sum(axis=0)
            trend = (now - past[0, at]) / BACK
            if minute >= MINUTES:
                some = body.take(at)
                kept.append((at, np.full(at.size, minute), now, trend, grams[k, at], iob))
                kept[-1] += (some.x.T, some.waiting, some.is_eating, some.before, some.eaten)
            need = grams[k, at] / carb_ratio[at] + (now - TARGET) / correction[at] - iob
            bolus[at] += np.where(now < 70.0, 0.0, off[k, at] * np.maximum(need, 0.0))
            eaten[at] += true[k, at] * grams[k, at]
        rescued = (past[-1] < LOW) & (rested <= 0.0)
        eaten += np.where(rescued, RESCUE * (patients.BW / 70.0) ** GROWTH, 0.0)
        rested = np.where(rescued, float(WAIT), rested - 1.0)
        given = np.concatenate((bolus[None], given[:-1]))
        insulin = patients.basal + bolus
        now = live(patients, body, eaten[None], insulin[None], steps)[1]
        past = np.concatenate((past[1:], now[None]))
    columns = [np.concatenate(column) for column in zip(*kept, strict=True)]
    order = np.lexsort((columns[1], columns[0]))
    run, _, now, trend, meal, iob, x, waiting, is_eating, before, since = (
        column[order] for column in columns
    )
    kept_body = Body(np.ascontiguousarray(x.T), waiting, is_eating, before, since)
    return Moments(who[run], kept_body, now, trend, meal, iob)


def _plan(rng: np.random.Generator, weight: Array) -> tuple[Array, Array]:
    """Return the minute and the announced grams of every meal: (meals, n) each."""
    shape = (DAYS, len(MEALS), weight.size)
    clock, spread, size = (np.array(part)[:, None] for part in zip(*MEALS, strict=True))
    jitter = np.clip(rng.normal(size=shape), -2.0, 2.0)
    time = np.rint(clock + spread * jitter) + MINUTES * np.arange(DAYS)[:, None, None]
    wanted = size * (weight / 70.0) ** GROWTH * np.exp(SIZE_SD * rng.normal(size=shape))
    grams: Array = np.round(np.clip(wanted, LEAST, MOST))
    return time.reshape(-1, weight.size).astype(int), grams.reshape(-1, weight.size)
