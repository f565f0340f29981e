"""What one method leaves behind, episode by replicate, and what all methods share."""

from __future__ import annotations

from dataclasses import dataclass

from gdcb.arrays import Array


@dataclass(slots=True)
class Record:
    """One method on R replicates of T episodes; figures are means over a replicate's units.

    Parameters
    ----------
    parts : (T, R, 4) regret: total, calibration, bandit, gate; (T, R, 5) with what was inherited,
        where what runs changes what can be reached later
    parts_paper : (T, R, 3) bandit, calibration, gate in the paper's order; NaN where δ* is unknown
    reward : (T, R) realised reward
    advantage : (T, R) expected executed reward less the incumbent's behind the same gate, in the
        same contexts and with the same draws
    overridden : (T, R) share of rows in which e_exec ≠ e_rec
    success : (T, R) share of rows whose outcome is the class that pays (booked)
    error : (T, R) ‖δ̂_t − δ°‖ in L²(reference), δ° the best of the family; NaN: no scaler
    recommended, executed : (R, bins) counts of e_rec and e_exec, relative, between `Ground.edges`
    overrides : (R, F, MOST, 6) by feature and band of it (`gdcb.protocol.bands`): counts of what
        became of the proposals, by `FATES`, and Σ log(e_exec/e_rec) over those raised or lowered,
        NaN where there is no logarithm; None: not counted
    measures : (R, M) means over episodes and units of what is read beside regret; None: nothing
    certificates : (R, K) what the certificate of a replicate's history decided for each arm, as its
        place in `gdcb.history.certificate.FATES`, −1: there was no history; None: not certified
    """

    parts: Array
    parts_paper: Array
    reward: Array
    advantage: Array
    overridden: Array
    success: Array
    error: Array
    recommended: Array
    executed: Array
    overrides: Array | None = None
    measures: Array | None = None
    certificates: Array | None = None


@dataclass(slots=True)
class Ground:
    """What all methods share: the gate floor (T, R), and the edges (bins + 1,) of the actions."""

    floor: Array
    edges: Array
