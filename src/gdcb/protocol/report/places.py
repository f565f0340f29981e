"""Where the gate changes what is proposed, in words."""

from __future__ import annotations

import itertools
import math

from gdcb.pages.numbers import Estimate, decimals, fixed, listed, percent, plain, share
from gdcb.protocol.report.document import Band, Feature, Method, Overrides

TITLE = "Where the gate changes proposals"
ANCHOR = "overrides"
WAYS = {
    "raised": "mostly raised",
    "lowered": "mostly lowered",
    "vetoed": "mostly stopped",
    "other": "mostly changed otherwise",
}


def sentences(method: Method, n_bands: int, is_ungated: bool = False) -> list[str]:
    """Say how much was changed, and where most; or that there is no gate to change anything."""
    found = method.overrides
    if found is None or found.whole.changed is None:
        return []
    whole = found.whole
    if is_ungated:
        return [f"There is no gate: whatever {method.label} proposed ran as it was."]
    if whole.changed is not None and whole.changed.mean == 0:
        return [f"The gate changed nothing of what {method.label} proposed."]
    ways = [("raised", whole.raised), ("lowered", whole.lowered), ("stopped", whole.vetoed)]
    shown = [f"{share(value.mean)} were {way}" for way, value in ways if value and value.mean > 0]
    said = [f"The gate changed {percent(whole.changed)} of {method.label}'s proposals"]
    said[0] += f": {listed(shown)}." if shown else "."
    return [sentence for sentence in (*said, *_most(found, n_bands)) if sentence]


def _most(found: Overrides, n_bands: int) -> list[str]:
    top, whole = found.highest, found.whole.changed
    if top is None or whole is None:
        return []
    there = f"{where(top.feature, top.band)}: {percent(top.changed)}, {way(found)}"
    if top.changed.low is None:
        return [f"The largest share is {there}; one replicate has no interval."]
    by = _by(top.band)
    chosen = f"(the interval allows for the choice among {n_bands} bands)"
    if not stands_out(found):
        return [f"No band clearly stands out; the largest share is {there} {chosen}.", by]
    return [f"It did so most often {there} {chosen}.", by]


def stands_out(found: Overrides) -> bool:
    """Whether one band is clearly changed more often than all together."""
    top, whole = found.highest, found.whole.changed
    if top is None or whole is None or top.changed.low is None:
        return False
    return top.changed.low > whole.mean


def way(found: Overrides) -> str:
    """Say in which direction most were changed where most were changed."""
    return WAYS.get(found.highest.direction, "changed") if found.highest else ""


def _by(band: Band) -> str:
    """Say by how much, in the mean of logarithms, where that can be told from nothing."""
    log = band.did.log_ratio
    if log is None or log.low is None or log.high is None or log.sign == 0:
        return ""
    ends = [math.expm1(end) for end in (log.mean, log.low, log.high)]
    if log.sign < 0:
        ends = [-ends[0], -ends[2], -ends[1]]
    side = "above" if log.sign > 0 else "below"
    size = f"{percent(Estimate(*ends))} {side} the proposal"
    return f"What was raised or lowered there ran on average {size}."


def where(feature: Feature, band: Band) -> str:
    """Say in words which band it is: 'where occupancy is below 0.31'."""
    name, _, level = feature.name.partition("=")
    if feature.is_flag:
        is_yes = band.low is not None
        if level:
            return f"where {name} is {'' if is_yes else 'not '}{level}"
        return f"where {name} is {'yes' if is_yes else 'no'}"
    low, high = (_edge(feature, edge) for edge in (band.low, band.high))
    if band.low is None and band.high is None:
        return f"whatever {name} is"
    if band.low is None:
        return f"where {name} is below {high}"
    return (
        f"where {name} is {low} or more"
        if band.high is None
        else (f"where {name} is from {low} to {high}")
    )


def label(feature: Feature, band: Band) -> str:
    """Name the band beside its bar: 'below 0.31', 'yes'."""
    if feature.is_flag:
        return "no" if band.low is None else "yes"
    low, high = (_edge(feature, edge) for edge in (band.low, band.high))
    if band.low is None:
        return "all" if band.high is None else f"below {high}"
    return f"{low} or more" if band.high is None else f"{low} to {high}"


def _edge(feature: Feature, value: float | None) -> str:
    """Write an edge with as many digits as tell it from the next."""
    edges = [band.low for band in feature.bands if band.low is not None]
    gaps = [b - a for a, b in itertools.pairwise(edges)]
    if value is None:
        return ""
    return fixed(value, decimals(2 * min(gaps))) if gaps and min(gaps) > 0 else plain(value)


def described(found: Overrides) -> str:
    """Say all that the figure shows, for those who do not see it."""
    parts = []
    for feature in found.features:
        bands = [
            f"{label(feature, band)} {share(band.did.raised.mean)} raised and "
            f"{share(band.did.lowered.mean)} lowered"
            for band in feature.bands
            if band.did.raised and band.did.lowered
        ]
        parts.append(f"{feature.name}: {', '.join(bands) or 'no decision'}")
    return f"{'; '.join(parts)}."


def rest_of(band: Band) -> float:
    """Return the share that was changed, but neither raised nor lowered."""
    did = band.did
    if did.changed is None or did.raised is None or did.lowered is None:
        return 0.0
    rest = did.changed.mean - did.raised.mean - did.lowered.mean
    return rest if rest > 1e-9 else 0.0
