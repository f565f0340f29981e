"""The prior over worlds: every replicate is a lender drawn from it. README.md has it as a table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array
from gdcb.instances.credit.columns import LGD, recorded


@dataclass(frozen=True)
class Law:
    """Means, and standard deviations of lenders and of branches around their lender."""

    level: float
    level_sd: float
    level_own: float
    slope: float
    slope_sd: float
    slope_own: float
    tenor: float
    tenor_sd: float
    tenor_own: float
    least: float = 1.5


# At the going rate half of all offers are taken and repaid, or just over half are taken. There the
# elasticity of a logistic take-up is β·(1 − P): about 1.9, with published ones from 1.1 to 2.9.
WELL = Law(0.1, 0.3, 0.25, 3.8, 0.6, 0.3, -0.8, 0.25, 0.2)
MIS = Law(0.2, 0.3, 0.25, 4.2, 0.8, 0.3, 1.6, 0.3, 0.2)
KINK = 1.3  # how much steeper demand is above the going rate
SHORTER = 1.4  # how much more a loan shorter than wanted costs than one longer
OUTSIDE = 0.8  # how far a riskier applicant's other offers follow the risk, in logarithms
STRAIN = 0.3  # what a rate twice the going one adds to the log odds of default

ODDS, ODDS_SD = -3.2, 0.25  # log odds of default of the average applicant over two years
FUNDING, FUNDING_SD = 0.045, 0.005
MARGIN = 0.03  # of the market, a year
LISTED_SD = 0.03  # how far list rates are off, in logarithms
GROWTH = recorded()["weights"]["years"]  # of the log odds of default, a year

# A default loses little where the loan is cured, else most of the amount; `LGD` on average.
CURED, LIGHT = 0.5, 0.1
HEAVY = (LGD - CURED * LIGHT) / (1.0 - CURED)

SCORE_ERROR = 0.15  # of a lender's scorecard, in log odds (`mis`)
SCORE_NOISE = {"well": 0.3, "mis": 0.2}  # of an applicant's score; in `well` it is part of the risk
COMPARABLE = 100  # loans behind a label
LABEL_NOISE = 0.2

# Of log δ* in `well`, in the order of the features; and how the log odds follow it.
THETA = (0.30, 0.15, 0.25, -0.12, -0.12, 0.10, -0.08, -0.15, 0.12, -0.20)
THETA_SD = (0.06, 0.06, 0.06, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05)
RISK = 3.0


def _doubled(base: Array) -> Array:
    """Return twice the market's rate, and at most twelve points above it: the German courts'."""
    return np.minimum(2.0 * base, base + 0.12)


def _third(base: Array) -> Array:
    """Return the market's rate and a third: the French rule."""
    return np.asarray(base * 4.0 / 3.0)


def _flat(base: Array) -> Array:
    return np.full_like(base, 0.24)


# Caps of jurisdictions; a branch is in one of them, each as likely.
CAPS = (_doubled, _third, _flat)
