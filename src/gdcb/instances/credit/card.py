"""The incumbent: a rate card by risk band, as lenders had before they had bandits."""

from __future__ import annotations

from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.instances.credit.columns import BASE, PD, TENORS, WANTED
from gdcb.records import Rows
from gdcb.streams import Stream

BANDS = (0.02, 0.04, 0.08, 0.16)  # edges of the scorecard's probability of default
CARD = (0.92, 1.0, 1.12, 1.4, 2.0)  # rates of the bands, over the list rate
SPECIALS_SD = 0.08  # how far offers of the week and branches' discretion are off, in logarithms
APPLICATIONS = 1200  # of a lender, before the first episode


def own(rows: Rows) -> Array:
    """Return what the card says: the band's rate, and the tenor nearest to the wish: (N, 2)."""
    x = rows.x
    rate = x[:, BASE] * np.array(CARD)[np.searchsorted(BANDS, x[:, PD])]
    gap = np.abs(np.log(np.array(TENORS) / (12.0 * x[:, WANTED, None])))
    return np.stack((rate, np.array(TENORS)[gap.argmin(axis=1)]), axis=1)


def incumbent(rng: Stream, state: Any, rows: Rows) -> Array:
    """Return the card's offer with what weekly specials make of it: (N, 2)."""
    offer = own(rows)
    offer[:, 0] *= np.exp(SPECIALS_SD * rng.normal(rows.n))
    return offer
