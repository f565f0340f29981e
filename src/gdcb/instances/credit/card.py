"""The incumbent: a rate card by risk band, as lenders had before they had bandits."""

from __future__ import annotations

from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.instances.credit.columns import BASE, PD, tenors
from gdcb.records import Rows
from gdcb.streams import Stream

BANDS = (0.02, 0.04, 0.08, 0.16)  # edges of the scorecard's probability of default
CARD = (0.92, 1.0, 1.12, 1.4, 2.0)  # rates of the bands, over the list rate
SPECIALS_SD = 0.08  # how far offers of the week and branches' discretion are off, in logarithms
OTHER = 0.15  # how often a branch talks an applicant into the shorter tenor, and into the longer
APPLICATIONS = 1200  # of a lender, before the first episode


def own(rows: Rows) -> Array:
    """Return what the card says: the band's rate, over the duration asked for: (N, 2)."""
    x = rows.x
    rate = x[:, BASE] * np.array(CARD)[np.searchsorted(BANDS, x[:, PD])]
    return np.stack((rate, tenors(x)[:, 1]), axis=1)


def incumbent(rng: Stream, _state: Any, rows: Rows) -> Array:
    """Return the card's offer with what specials and branches make of it: (N, 2)."""
    offer, u = own(rows), rng.uniform(rows.n)
    offer[:, 0] *= np.exp(SPECIALS_SD * rng.normal(rows.n))
    months = tenors(rows.x)
    offer[u < OTHER, 1] = months[u < OTHER, 0]
    offer[u > 1.0 - OTHER, 1] = months[u > 1.0 - OTHER, 2]
    return offer
