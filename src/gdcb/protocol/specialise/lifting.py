"""Theorem 4: what two loops that learn from the same rows cost each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from gdcb.pages.numbers import plain as number
from gdcb.protocol.metrics import estimate
from gdcb.protocol.specialise.figures import figure, measured, theorem
from gdcb.protocol.specialise.measured import NO_FIT, Past, cross_of

STATEMENT = (
    "Both loops are ready after the larger of their sample sizes, not the sum, where their scores "
    "are uncorrelated. ρ² is the largest squared canonical correlation of the scores of arm values "
    "and θ. Where the other loop is unknown, a loop's variance grows by at most 1/(1 − ρ²), and "
    "N_joint/max is at most that."
)
MEASURED = "What the history saved was measured: see the cold start; no formula is used for it."


def lifting(past: Past, seed: int) -> dict[str, Any]:
    """Return Theorem 4."""
    found, why = measured(lambda: cross_of(past, seed)) if past.is_fitted else NO_FIT
    if found is None:
        figures = [figure(name, None, why) for name in ("ρ²", "1/(1 − ρ²)")]
        return theorem(STATEMENT, figures, (MEASURED,))
    rho2 = estimate(np.array([one.rho2 for one in found]))
    inflation = estimate(np.array([one.inflation for one in found]))
    chance = float(np.mean([one.noise for one in found if one.noise is not None]))
    tried = past.instance.space.n - float(np.mean([len(one.excluded) for one in found]))
    figures = [
        figure("ρ²", rho2, f"history, δ̂ fitted on it; {number(chance)} where nothing is shared"),
        figure(
            "1/(1 − ρ²)",
            inflation,
            "bounds N_joint/max" if inflation else "infinite: some history cannot tell them apart",
        ),
        figure("arms that ran", tried, f"of {past.instance.space.n}; mean over replicates"),
    ]
    return theorem(STATEMENT, figures, (_told(rho2, inflation, chance), MEASURED))


def _told(rho2: Any, inflation: Any, chance: float) -> str:
    if inflation is None:
        return "In some history arm values and scaler cannot be told apart (ρ = 1)."
    if rho2["low"] is not None and rho2["low"] <= chance:
        return "Arm values and scaler share no information that could be told from chance."
    return (
        "'Max, not sum' holds up to a factor: to learn both from this history takes, on average, "
        f"at most {number(inflation['mean'])} times the rows of the slower loop."
    )
