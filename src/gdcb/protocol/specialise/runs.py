"""What the theorems need of the records, each read once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.protocol.record import Record

OURS, WITHOUT = "B4", "A1"  # GDCB, and the same without a scaler


@dataclass(slots=True)
class Runs:
    """What is kept of the records.

    Parameters
    ----------
    n_methods, n_rounds : records, and their episodes of all replicates together
    rest, rest_paper : largest |Σ parts − total| of an episode; None: there is no such split
    regret : (R,) total regret of B4 and A1, those that were run
    parts, parts_paper : (R, 3) of B4 over all episodes, in the record's order; parts (R, 4) with
        what was inherited, where context is endogenous
    overridden : (R,) share of B4's rows whose proposal did not run
    """

    n_methods: int = 0
    n_rounds: int = 0
    rest: float | None = None
    rest_paper: float | None = None
    regret: dict[str, Array] = field(default_factory=dict)
    parts: Array | None = None
    parts_paper: Array | None = None
    overridden: Array | None = None


def look(records: Mapping[str, Record], episodes: int) -> Runs:
    """Read every record once; refuse those of another length."""
    runs = Runs()
    for key in records:
        record = records[key]
        total, parts, paper = record.parts[..., 0], record.parts[..., 1:], record.parts_paper
        if total.shape[0] != episodes:
            raise InvalidInput(
                f"record of {key}: expected {episodes} episodes, as the block has, got "
                f"{total.shape[0]}"
            )
        runs.n_methods += 1
        runs.n_rounds += total.size
        runs.rest = _larger(runs.rest, parts.sum(axis=-1) - total)
        runs.rest_paper = _larger(runs.rest_paper, paper.sum(axis=-1) - total)
        if key in (OURS, WITHOUT):
            runs.regret[key] = total.sum(axis=0)
        if key == OURS:
            runs.parts, runs.parts_paper = parts.sum(axis=0), paper.sum(axis=0)
            runs.overridden = record.overridden.mean(axis=0)
    return runs


def _larger(so_far: float | None, rest: Array) -> float | None:
    known = np.abs(rest[np.isfinite(rest)])
    return max(so_far or 0.0, float(known.max())) if known.size else so_far
