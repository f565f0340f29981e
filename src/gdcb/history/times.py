"""Times of a log as seconds since 1970 (UTC), and whether they say in which zone they are."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from gdcb.arrays import Array
from gdcb.history.cells import MISSING, Reasons, as_text, is_text, numbers

if TYPE_CHECKING:
    import polars as pl

_FIRST, _LAST = -62_135_596_800.0, 253_402_300_800.0  # the years 1 to 9999
FAR = "a time outside of the years 1 to 9999 (numbers are seconds since 1970, not milliseconds)"
AWARE, NAIVE, PLAIN = "with a zone", "without a zone", "as numbers"
# A zone at the end: Z, UTC, +02, +0200 or +02:00; a date's own '-15' is no zone.
_ZONE = r"(?i)(?:z|utc|(?:\d{2}:\d{2}.*)[+-]\d{2}(?::?\d{2})?)$"
# 2025-01-01T09 and 2025-01-01 09Z: ISO 8601 has hours without minutes.
_HOUR = r"^(\d{4}-\d{2}-\d{2}[ tT]\d{2})(\s*(?i:z|utc|[+-]\d{2}(?::?\d{2})?))?$"
_WITH_ZONE = ("%Y-%m-%dT%H:%M:%S%.f%:z", "%Y-%m-%dT%H:%M%:z")
_WITHOUT = ("%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d")


def times(series: pl.Series) -> tuple[Array, Reasons, set[str]]:
    """Return seconds (N,), the reasons against rows, and how the times say their zone.

    A time with a zone is turned to UTC; one without is read as UTC. Numbers are seconds.

    >>> import polars as pl
    >>> seconds, _, zones = times(pl.Series(["1970-01-01T01:00:00+01:00", "1970-01-01 00:00:05Z"]))
    >>> seconds.tolist(), zones
    ([0.0, 5.0], {'with a zone'})
    """
    import polars as pl

    dtype = series.dtype
    if isinstance(dtype, pl.Datetime):
        zone = {NAIVE if dtype.time_zone is None else AWARE}
        seconds, reasons = _missing(_seconds(series))
    elif dtype == pl.Date:
        zone = {NAIVE}
        seconds, reasons = _missing(_seconds(series))
    elif not is_text(series):
        zone = {PLAIN}
        seconds, reasons = numbers(series)
    else:
        seconds, reasons, zone = _parsed(series)
    is_far = np.isfinite(seconds) & ((seconds < _FIRST) | (seconds >= _LAST))
    if is_far.any():
        seconds = np.where(is_far, np.nan, seconds)
        reasons = [*reasons, (FAR, is_far)]
    return seconds, reasons, zone


def in_iso(seconds: float) -> str | float:
    """Return a time as ISO 8601 in UTC; as it is where no calendar has it."""
    if not _FIRST <= seconds < _LAST:
        return seconds
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _parsed(series: pl.Series) -> tuple[Array, Reasons, set[str]]:
    import polars as pl

    text = as_text(series).str.strip_chars().replace("", None)
    text = text.str.replace(_HOUR, "${1}:00${2}")
    with_zone = text.str.contains(_ZONE).fill_null(False)
    plain = (
        text.str.replace(r"^(\d{4}-\d{2}-\d{2})[ t]", "${1}T")
        .str.replace(r"(?i)\s*(?:z|utc)$", "+00:00")
        .str.replace(r"\s*([+-]\d{2})(\d{2})$", "${1}:${2}")
        .str.replace(r"(:\d{2}.*[+-]\d{2})$", "${1}:00")
    )
    seconds = np.full(len(series), np.nan)
    zones: set[str] = set()
    for is_here, formats, name in ((with_zone, _WITH_ZONE, AWARE), (~with_zone, _WITHOUT, NAIVE)):
        todo = (is_here & plain.is_not_null()).to_numpy()
        for form in formats:
            if not todo.any():
                break
            some = plain.filter(pl.Series(todo))
            zone = "UTC" if name is AWARE else None
            read = some.str.to_datetime(form, time_unit="us", time_zone=zone, strict=False)
            found = _seconds(read)
            seconds[np.flatnonzero(todo)] = found
            todo[todo] = np.isnan(found)
            if not np.isnan(found).all():
                zones.add(name)
    empty = text.is_null().to_numpy()
    rest = np.isnan(seconds) & ~empty
    if rest.any():
        as_numbers = text.cast(pl.Float64, strict=False).to_numpy()
        is_plain = rest & np.isfinite(as_numbers)
        if is_plain.any():
            seconds = np.where(is_plain, as_numbers, seconds)
            zones.add(PLAIN)
        rest = rest & ~is_plain
    reasons: Reasons = [(MISSING, empty)] if empty.any() else []
    if rest.any():
        reasons.append(("not a time (ISO 8601, or seconds since 1970)", rest))
    return seconds, reasons, zones


def _seconds(series: pl.Series) -> Array:
    """Return seconds since 1970; NaN where there is no time."""
    import polars as pl

    values: Array = series.to_physical().cast(pl.Float64).to_numpy()
    if series.dtype == pl.Date:
        return values * 86_400.0
    unit = getattr(series.dtype, "time_unit", None) or "us"
    return values / {"ms": 1e3, "us": 1e6, "ns": 1e9}[unit]


def _missing(seconds: Array) -> tuple[Array, Reasons]:
    empty = np.isnan(seconds)
    return seconds, [(MISSING, empty)] if bool(empty.any()) else []
