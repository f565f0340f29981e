"""The context of an application: its columns, what the scaler reads, and what nobody may read."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.context import Category, Flag, Number, Schema

CHECKING = ("none", "overdrawn", "low", "high")
HISTORY = ("poor", "clean", "proven")
SAVINGS = ("none", "little", "good")
EMPLOYMENT = ("short", "medium", "long")
PURPOSE = ("car_new", "car_used", "household", "other")
WANTED_RANGE = (0.5, 4.0)  # years that may be asked for
SCHEMA = Schema(
    {
        "checking": Category(CHECKING, "balance of the checking account: none, below 0, below 200"),
        "history": Category(HISTORY, "credit history: delays or other debts, clean, proven here"),
        "savings": Category(SAVINGS, "savings: none known, below 100, 100 or more"),
        "employment": Category(EMPLOYMENT, "years in the present job: below 1, below 4, more"),
        "purpose": Category(PURPOSE, "what the loan is for"),
        "plans": Flag("instalment plans elsewhere"),
        "guarantor": Flag("somebody stands surety"),
        "amount": Number(0.1, 100, "amount asked for, in thousands"),
        "wanted": Number(*WANTED_RANGE, "duration asked for, in years"),
        "age": Number(18, 120, "checked by law, and read by no scaler and no learner"),
        "base": Number(0.005, 1, "the lender's list rate, a year"),
        "funding": Number(0, 1, "cost of funds, a year"),
        "floor": Number(0, 2, "lowest rate that covers funding and the expected loss, a year"),
        "cap": Number(0, 2, "highest APR that the jurisdiction allows, a year"),
        "pd": Number(0.0001, 0.9, "the scorecard's probability of default over 24 months"),
    }
)


def position(name: str) -> int:
    """Return the position of a column in x."""
    return SCHEMA.names.index(name)


AMOUNT, WANTED, AGE = position("amount"), position("wanted"), position("age")
BASE, FUNDING, FLOOR = position("base"), position("funding"), position("floor")
CAP, PD = position("cap"), position("pd")
N_FACTORS = AMOUNT  # the columns before it are levels and flags: 0 or 1
FEMALE, APPLICANT = 0, 1  # hidden columns: as the data labels them, for the diagnostic only

# What scaler and contextual rivals read. Levels that are not named are the reference; age, sex
# and the lender's own figures are not among them.
FEATURES = (
    *("checking=none", "checking=overdrawn"),
    *("history=poor", "history=proven"),
    "savings=good",
    *("employment=short", "employment=long"),
    *("purpose=car_new", "plans", "guarantor"),
)
POSITIONS = tuple(position(name) for name in FEATURES)
FORBIDDEN = ("age", "sex")  # kept for the diagnostic, never a feature

TENORS = (12.0, 24.0, 36.0)  # nominal months: of an offer to whom two years were asked for
TYPICAL = 2.0  # years asked for at which nominal months are months
SHORTEST, LONGEST = 6.0 * WANTED_RANGE[0], 18.0 * WANTED_RANGE[1]  # months that are lent for
MIDDLE = 24.0  # months, for which `pd` is stated
UNIT = 1000.0  # marks in one of `amount`
LGD = 0.45  # of the amount: the share that a default loses on average


@cache
def recorded() -> dict[str, Any]:
    """Return what `python -m gdcb.instances.credit.fit` recorded of the data."""
    text = (files("gdcb.instances.credit") / "risk.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def centre() -> tuple[float, ...]:
    """Return the means of `FEATURES` over the applicants: the frozen reference of the scaler."""
    means = recorded()["means"]
    return tuple(float(means[name]) for name in FEATURES)


def features(x: Array) -> Array:
    """Return the scaler's features less their means: (N, 10)."""
    return np.asarray(x[:, POSITIONS] - _centre())


@cache
def _centre() -> Array:
    """Return `centre` as an array, which is asked for in every round."""
    return np.array(centre())


def tenors(x: Array) -> Array:
    """Return the tenors that are on offer, in months: (N, 3)."""
    return np.asarray(np.array(TENORS) * (x[:, WANTED] / TYPICAL)[:, None])


def loan_years(tenor: Array) -> Array:
    """Return the years for which the whole amount is out, on average, repaid in equal parts.

    After k of T months the share (T − k)/T is left: Σ (T − k + 1)/T / 12 = (T + 1)/24.

    >>> float(loan_years(np.array(23.0)))
    1.0
    """
    return np.asarray((tenor + 1.0) / 24.0)
