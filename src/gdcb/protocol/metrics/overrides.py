"""How often the gate changed what was proposed, which way and by how much, by band of context."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.protocol.bands import FATES, LOWERED, OTHER, PASSED, RAISED, VETOED, Bands
from gdcb.protocol.metrics.estimates import LEVEL, Estimate, of_replicates

# Which way a proposal can be changed, and where that is counted.
WAYS = {"raised": RAISED, "lowered": LOWERED, "vetoed": VETOED, "other": OTHER}


def ratio(above: Array, below: Array, level: float = LEVEL) -> Estimate | None:
    """Return Σ above / Σ below over replicates (R,), and its interval; None where Σ below is 0.

    Every decision weighs the same, in whichever replicate it was made. With residuals
    u = above − ratio · below, the standard error is √(R/(R − 1) · Σu²) / Σ below (the delta
    method), and the interval Student's with R − 1 degrees of freedom. It stops applying where
    Σ below hangs on a few replicates.

    Examples
    --------
    1 of 2 and 3 of 6: a half in both, so that nothing is left between them. 1 of 2 and 1 of 6:
    2/8, residuals ±½, √(2 · ½)/8 = 1/8, and t with one degree of freedom is 12.706.

    >>> ratio(np.array([1.0, 3.0]), np.array([2.0, 6.0]))
    {'mean': 0.5, 'low': 0.5, 'high': 0.5}
    >>> found = ratio(np.array([1.0, 1.0]), np.array([2.0, 6.0]))
    >>> {name: round(value, 3) for name, value in found.items()}
    {'mean': 0.25, 'low': -1.338, 'high': 1.838}
    """
    from scipy.special import stdtrit

    above, below = (of_replicates("ratio", values, 1) for values in (above, below))
    if above.size != below.size:
        raise InvalidInput(f"ratio: expected as many values, got {above.size} and {below.size}")
    n, whole = above.size, float(below.sum())
    if not whole > 0 or not np.isfinite(above).all():
        return None
    mean = float(above.sum()) / whole
    if n < 2:
        return Estimate(mean=mean, low=None, high=None)
    error = math.sqrt(n / (n - 1) * float(((above - mean * below) ** 2).sum())) / whole
    half = error * float(stdtrit(n - 1, 0.5 + level / 2))
    return Estimate(mean=mean, low=mean - half, high=mean + half)


def share(above: Array, below: Array, level: float = LEVEL) -> Estimate | None:
    """Return a ratio that is a share: its interval ends at 0 and at 1."""
    found = ratio(above, below, level)
    if found is None or found["low"] is None or found["high"] is None:
        return found
    return Estimate(
        mean=found["mean"], low=max(found["low"], 0.0), high=min(max(found["high"], 0.0), 1.0)
    )


def overrides(counts: Array, bands: Bands) -> dict[str, Any]:
    """Return what the gate did with the proposals of a method, as a whole and by band.

    Parameters
    ----------
    counts : (R, F, MOST, 6) as a record has them
    bands : of the F features

    Returns
    -------
    `whole`, and `features` with their `bands`: each with the shares `changed`, `raised`, `lowered`
    and `vetoed` of its decisions, and `log_ratio`, the mean of log(executed / recommended) over
    those raised or lowered. `highest` is the band of the largest share changed, and the way in
    which most were changed there. It was chosen among all bands of all features; its interval is
    therefore at 1 − 0.05/(number of bands), so that it holds for whichever had been chosen.
    """
    if counts.shape[1] != len(bands.names):
        raise InvalidInput(
            f"overrides: expected counts of {len(bands.names)} features, got {counts.shape[1]}"
        )
    if not bands.names:
        return {"whole": None, "features": [], "highest": None}
    decisions = counts[..., : len(FATES)].sum(axis=-1)
    features = []
    for i, name in enumerate(bands.names):
        n = int(bands.n[i])
        inner = [float(edge) for edge in bands.edges[i, : n - 1]]
        ends = [None, *inner, None]
        features.append(
            {
                "name": name,
                "is_flag": bool(bands.is_flag[i]),
                "bands": [
                    {
                        "low": ends[k],
                        "high": ends[k + 1],
                        "decisions": share(decisions[:, i, k], decisions[:, i].sum(axis=1)),
                        **_changes(counts[:, i, k]),
                    }
                    for k in range(n)
                ],
            }
        )
    # All features count the same decisions.
    whole = _changes(counts[:, 0].sum(axis=1))
    return {"whole": whole, "features": features, "highest": _highest(counts, bands)}


def _changes(counts: Array) -> dict[str, Estimate | None]:
    """Return the shares of one band, of counts (R, 6)."""
    decisions = counts[:, : len(FATES)].sum(axis=1)
    moved = counts[:, RAISED] + counts[:, LOWERED]
    return {
        "changed": share(decisions - counts[:, PASSED], decisions),
        **{way: share(counts[:, WAYS[way]], decisions) for way in ("raised", "lowered", "vetoed")},
        "log_ratio": ratio(counts[:, -1], moved),
    }


def _highest(counts: Array, bands: Bands) -> dict[str, Any] | None:
    """Return the band in which the largest share was changed; None where nothing was.

    A band with less than a hundredth of the decisions is too small to stand for a place.
    """
    whole = counts.sum(axis=0)
    decisions = whole[..., : len(FATES)].sum(axis=-1)
    changed = decisions - whole[..., PASSED]
    if not changed.any():
        return None
    is_some = decisions >= 0.01 * decisions.sum(axis=1, keepdims=True)
    rate = np.where((decisions > 0) & is_some, changed / np.maximum(decisions, 1.0), -1.0)
    i, k = (int(at) for at in np.unravel_index(int(rate.argmax()), rate.shape))
    mine = counts[:, i, k]
    n = mine[:, : len(FATES)].sum(axis=1)
    level = 1 - (1 - LEVEL) / int(bands.n.sum())
    return {
        "feature": bands.names[i],
        "band": k,
        "changed": share(n - mine[:, PASSED], n, level),
        "direction": max(WAYS, key=lambda way: float(whole[i, k, WAYS[way]])),
    }
