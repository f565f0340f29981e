"""The physician who approves a bolus, and the incumbent whose proposals the physician saw."""

from __future__ import annotations

import numpy as np

from gdcb.arrays import Array
from gdcb.gates import SimulatedPerson
from gdcb.instances.dosing.columns import WEIGHT, by_weight, calculated
from gdcb.instances.dosing.world import OWN, Clinic
from gdcb.records import Rows
from gdcb.streams import Stream

TRUST = 0.97  # how often a dose equal to the physician's own is approved
NEAR, NEAR_SHARE = 1.0, 0.5  # how far off a dose may be: units, and a share of the own dose
SCATTER = 0.05  # of the physician's own dose, as a share of it
VETO = 0.05  # share of the doses not approved that are refused, and none is given
INCUMBENT_SCATTER = 0.15  # sd of the log of an incumbent's dose: rounding, habits, guesses


def own(rows: Rows) -> Array:
    """Return the physician's own dose: (N, 1); of a stranger, what goes by weight."""
    if rows.hidden is None:
        return np.asarray(calculated(rows.x, *by_weight(rows.x[:, WEIGHT]))[:, None])
    return np.asarray(rows.hidden[:, OWN : OWN + 1])


def approve(e: Array, rows: Rows) -> Array:
    """Approve with 0.97·exp(−½·(gap / (1 U + 0.5·own))²): (N, M)."""
    mine = own(rows)
    return np.asarray(TRUST * np.exp(-0.5 * ((e[..., 0] - mine) / (NEAR + NEAR_SHARE * mine)) ** 2))


def person() -> SimulatedPerson:
    """Return the person who stands in the gate."""
    return SimulatedPerson(approve, own, spread=_scatter, veto=VETO)


def _scatter(rows: Rows) -> Array:
    return np.asarray(SCATTER * own(rows)[:, 0])


def incumbent(rng: Stream, _clinic: Clinic, rows: Rows) -> Array:
    """Return what was given before there was a bandit: (N, 1).

    A bolus calculator whose ratios are those of the weight (the 450 and 1800 rules), the same for
    every patient of that weight, scattered by 15 %.
    """
    usual = calculated(rows.x, *by_weight(rows.x[:, WEIGHT]))
    return np.asarray((usual * np.exp(INCUMBENT_SCATTER * rng.normal(rows.n)))[:, None])
