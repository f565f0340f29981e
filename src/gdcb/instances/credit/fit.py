"""Fit default risk to the German credit data once: `python -m gdcb.instances.credit.fit`.

log odds(bad) = intercept + wᵀ(levels and flags) + w_a·log amount + w_d·years, by logistic
regression with a ridge penalty on all but the intercept. Age, sex, marital status and nationality
are left out. The coefficient of the years is what a longer loan adds: an offer's tenor takes the
place of the duration that was asked for.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.instances.credit.applicants import Applicants, applicants
from gdcb.instances.credit.columns import AMOUNT, FEATURES, N_FACTORS, SCHEMA, WANTED, position

PENALTY = 2.0  # of a standardised coefficient: a prior standard deviation of 0.7


def design(x: Array) -> Array:
    """Return (levels and flags, log amount, years) of contexts: (N, 21)."""
    more = np.stack((np.log(x[:, AMOUNT]), x[:, WANTED]), axis=1)
    return np.concatenate((x[:, :N_FACTORS], more), axis=1)


def names() -> list[str]:
    """Return the names of its columns."""
    return [*SCHEMA.names[:N_FACTORS], "log amount", "years"]


def fit(people: Applicants) -> dict[str, Any]:
    """Return the fit and what else is recorded of the data: plain numbers by name."""
    from sklearn.linear_model import LogisticRegression

    columns = design(people.x)
    middle, spread = columns.mean(axis=0), columns.std(axis=0)
    model = LogisticRegression(C=1.0 / PENALTY, tol=1e-10, max_iter=1000)
    model.fit((columns - middle) / spread, people.is_bad)
    weights = model.coef_[0] / spread
    score = (columns * weights).sum(axis=1)
    odds = people.is_bad.mean() / (1.0 - people.is_bad.mean())
    shares = {
        name: [_short(people.x[:, position(f"{name}={level}")].mean()) for level in kind.levels]
        for name, kind in SCHEMA.columns.items()
        if hasattr(kind, "levels")
    }
    flags = {name: _short(people.x[:, position(name)].mean()) for name in ("plans", "guarantor")}
    log_amount, log_years = np.log(people.x[:, AMOUNT]), np.log(people.x[:, WANTED])
    return {
        "weights": dict(zip(names(), (_short(w) for w in weights), strict=True)),
        "mean_score": _short(score.mean()),
        "score_sd": _short(score.std()),
        "bad_log_odds": _short(np.log(odds)),
        "means": {name: _short(people.x[:, position(name)].mean()) for name in FEATURES},
        "shares": shares | {name: [1.0 - share, share] for name, share in flags.items()},
        "log_amount": [_short(log_amount.mean()), _short(log_amount.std())],
        "log_years": [_short(log_years.mean()), _short(log_years.std())],
        "log_both": _short(np.corrcoef(log_amount, log_years)[0, 1]),
        "age": [_short(people.age.mean()), _short(people.age.std())],
        "female": _short(people.is_female.mean()),
    }


def _short(value: Any) -> float:
    return round(float(value), 6)


def main() -> None:
    """Fit, and write what was found beside this file."""
    text = json.dumps(fit(applicants()), indent=1)
    Path(__file__).with_name("risk.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
