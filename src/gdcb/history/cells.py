"""One column of a log as numbers, with a mask of rows for every reason against it.

Everything goes by whole columns. A valid column of numbers costs one look for its smallest and one
for its largest value: what is missing, NaN or infinite shows there too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from gdcb.arrays import Array
from gdcb.records import EXPIRED, HELD, MODIFIED, NOT_REACHED, PASSED, VETOED

if TYPE_CHECKING:
    import polars as pl

# Reasons against some rows of a column: the sentence's words, and a mask (N,) of the rows.
Reasons = list[tuple[str, Array]]

MISSING = "missing"
NOT_A_NUMBER = "not a number"
NOT_FINITE = "not a finite number"
UNREADABLE = "\N{REPLACEMENT CHARACTER}"
# What people write into a column of numbers for 'missing'. No such word is taken from a category.
_NOTHING = ("", "na", "n/a", "null", "none", "nan")
_MANY = 10_000  # names from which on Polars' own categories are slower than a dictionary
_TRUTHS = {"true": 1.0, "t": 1.0, "yes": 1.0, "false": 0.0, "f": 0.0, "no": 0.0}
_STATUSES = {
    **dict.fromkeys(("passed", "approved", "accepted", "approve", "0"), PASSED),
    **dict.fromkeys(("modified", "edited", "overridden", "changed", "edit", "1"), MODIFIED),
    **dict.fromkeys(("vetoed", "declined", "rejected", "denied", "veto", "2"), VETOED),
    **dict.fromkeys(("held", "pending", "3"), HELD),
    **dict.fromkeys(("expired", "4"), EXPIRED),
    **dict.fromkeys(("not reached", "not_reached", "", "-1"), NOT_REACHED),
}


def numbers(
    series: pl.Series,
    low: float = -math.inf,
    high: float = math.inf,
    optional: bool = False,
    truths: bool = False,
    expected: str = "",
) -> tuple[Array, Reasons]:
    """Return numbers (N,) within [low, high].

    `optional`: what is missing is NaN and no reason; `truths`: true and false count as 1 and 0.

    >>> import polars as pl
    >>> values, reasons = numbers(pl.Series(["0.5", "2", "many", None]), 0, 1)
    >>> [(reason, mask.tolist()) for reason, mask in reasons]  # doctest: +NORMALIZE_WHITESPACE
    [('missing', [False, False, False, True]), ('not a number', [False, False, True, False]),
     ('outside 0 to 1', [False, True, False, False])]
    """
    values, unread = _as_floats(series, truths)
    if unread is None and len(values):
        least, most = values.min(), values.max()  # NaN, if there is any
        if low <= least and most <= high and math.isfinite(least) and math.isfinite(most):
            return values, []
    reasons: Reasons = []
    is_nan, is_null = np.isnan(values), series.is_null().to_numpy()
    lost = np.zeros(len(values), dtype=bool) if unread is None else unread
    empty = is_null | (_is_nothing(series) if _is_text(series) else is_null)
    if not optional:
        _add(reasons, MISSING, empty)
    _add(reasons, NOT_A_NUMBER, lost)
    infinite = np.isinf(values)
    _add(reasons, NOT_FINITE, infinite if optional else infinite | (is_nan & ~lost & ~empty))
    outside = ((values < low) | (values > high)) & ~infinite
    _add(reasons, expected or f"outside {low:g} to {high:g}", outside)
    if optional and bool(is_nan.any()):
        values = np.where(is_nan, np.nan, values)  # one kind of NaN, so that hashes agree
    return values, reasons


def flags(series: pl.Series) -> tuple[Array, Reasons]:
    """Return 0 or 1 (N,) of true, false, 1 and 0.

    >>> import polars as pl
    >>> flags(pl.Series(["true", "0", "No"]))[0].tolist()
    [1.0, 0.0, 0.0]
    """
    values, reasons = numbers(series, truths=True)
    _add(reasons, "not true or false", np.isfinite(values) & (values != 0.0) & (values != 1.0))
    words = {NOT_A_NUMBER: "not true or false", NOT_FINITE: "not true or false"}
    return values, [(words.get(reason, reason), mask) for reason, mask in reasons]


def levels(series: pl.Series, among: tuple[str, ...]) -> tuple[Array, Reasons]:
    """Return the position (N,) of each level's name; −1 where there is none.

    >>> import polars as pl
    >>> codes, reasons = levels(pl.Series(["high", "low", "hgih"]), ("low", "high"))
    >>> codes.tolist(), reasons[0][0]
    ([1, 0, -1], 'not one of low, high')
    """
    codes, is_null = _codes(as_text(series), among)
    reasons: Reasons = []
    if bool((codes < 0).any()):
        _add(reasons, MISSING, is_null)
        shown = ", ".join(among[:8]) + (", …" if len(among) > 8 else "")
        _add(reasons, f"not one of {shown}", (codes < 0) & ~is_null)
    return codes, reasons


def choices(series: pl.Series, among: tuple[str, ...]) -> tuple[Array, Reasons]:
    """Return the position (N,) of an action's category: by its name, or by its number from 0.

    Numbers are positions only where no level is itself named by a number. NaN: nothing ran.
    """
    codes, reasons = levels(series, among)
    if any(_is_number(name) for name in among) or not reasons:
        values = codes.astype(np.float64)
    else:
        position, _ = numbers(series, optional=True)
        whole = (position == np.floor(position)) & (position >= 0) & (position < len(among))
        values = np.where(codes < 0, np.where(whole, position, -1.0), codes)
    reasons = [(why, mask & (values < 0)) for why, mask in reasons if why != MISSING]
    values = np.where(values < 0, np.nan, values)
    return values, [(why, mask) for why, mask in reasons if mask.any()]


def statuses(series: pl.Series) -> tuple[Array, Reasons]:
    """Return what became of proposals (N,), `gdcb.records.STATUS` by number; −1: not said.

    >>> import polars as pl
    >>> statuses(pl.Series(["Approved", "overridden", None, "3"]))[0].tolist()
    [0, 1, -1, 3]
    """
    text = as_text(series).str.strip_chars().str.to_lowercase()
    words = tuple(_STATUSES)
    codes, is_null = _codes(text, words)
    numbers_of = np.array([*_STATUSES.values(), NOT_REACHED], dtype=np.int8)
    reasons: Reasons = []
    unknown = (codes < 0) & ~is_null
    if bool(unknown.any()):
        _add(reasons, "not a status (passed, modified, vetoed, held, expired)", unknown)
    return numbers_of[codes], reasons


def status_words(texts: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return which texts say what became of a proposal, and which do not; numbers are neither.

    >>> status_words(["Approved", "auto", "3"])
    (['Approved'], ['auto'])
    """
    words = [text for text in texts if text.strip() and not _is_number(text)]
    is_known = [text.strip().lower() in _STATUSES for text in words]
    known = [text for text, yes in zip(words, is_known, strict=True) if yes]
    return known, [text for text, yes in zip(words, is_known, strict=True) if not yes]


def names(series: pl.Series, known: tuple[str, ...], optional: bool) -> tuple[Array, Reasons]:
    """Return the place (N,) of each name among the known ones; −1 where there is none."""
    codes, is_null = _codes(as_text(series), known)
    reasons: Reasons = []
    if bool((codes < 0).any()):
        if not optional:
            _add(reasons, MISSING, is_null)
        _add(reasons, "a name that the first look did not find", (codes < 0) & ~is_null)
    return codes, reasons


def as_text(series: pl.Series) -> pl.Series:
    """Return names as text: whole floating-point numbers without their point, NaN as missing.

    What no name can be (lists, bytes) is `UNREADABLE`, not missing.
    """
    import polars as pl

    if series.dtype == pl.String:
        return series
    if series.dtype.is_float():
        whole = series.cast(pl.Int64, strict=False)
        is_whole = (whole.cast(series.dtype) == series).fill_null(False)
        text = series.fill_nan(None).cast(pl.String)
        return whole.cast(pl.String).zip_with(is_whole, text)
    try:
        text = series.cast(pl.String, strict=False)
    except pl.exceptions.PolarsError:
        text = pl.Series(series.name, [None] * len(series), dtype=pl.String)
    unreadable = pl.Series(series.name, [UNREADABLE], dtype=pl.String).new_from_index(0, len(text))
    return text.zip_with(text.is_not_null() | series.is_null(), unreadable)


def is_text(series: pl.Series) -> bool:
    """Return whether a column holds text."""
    return _is_text(series)


def _is_text(series: pl.Series) -> bool:
    import polars as pl

    return isinstance(series.dtype, pl.String | pl.Categorical | pl.Enum)


def _is_nothing(series: pl.Series) -> Array:
    import polars as pl

    text = series.cast(pl.String).str.strip_chars().str.to_lowercase()
    found: Array = text.is_in(_NOTHING).fill_null(False).to_numpy()
    return found


def _as_floats(series: pl.Series, truths: bool) -> tuple[Array, Array | None]:
    """Return numbers, NaN where there is none, and a mask of what could not be read, or None."""
    import polars as pl

    dtype = series.dtype
    if dtype == pl.Float64:
        return series.to_numpy(), None
    if dtype.is_numeric() or dtype == pl.Null or (truths and dtype == pl.Boolean):
        return series.cast(pl.Float64).to_numpy(), None
    present = series.is_not_null().to_numpy()
    if not _is_text(series):
        return np.full(len(series), np.nan), present
    text = series.cast(pl.String).str.strip_chars()
    read = text.cast(pl.Float64, strict=False)
    values, unread = read.to_numpy(), present & read.is_null().to_numpy()
    if not unread.any():
        return values, None
    if truths:
        words = text.str.to_lowercase().replace_strict(
            list(_TRUTHS), list(_TRUTHS.values()), default=None, return_dtype=pl.Float64
        )
        values = np.where(unread, words.to_numpy(), values)
        unread = unread & words.is_null().to_numpy()
    return values, unread & ~_is_nothing(series)


def _codes(text: pl.Series, among: tuple[str, ...]) -> tuple[Array, Array]:
    """Return the place of each text in a list, −1 where it is not there, and where it is null."""
    import polars as pl

    is_null = text.is_null().to_numpy()
    if not among:
        return np.full(len(text), -1, dtype=np.int64), is_null
    if len(among) > _MANY:
        place = _places(among)
        found = np.array([place.get(one, -1) for one in text.to_list()], dtype=np.int64)
        return found, is_null
    codes = text.cast(_enum(among), strict=False).to_physical().cast(pl.Int64)
    return codes.fill_null(-1).to_numpy(), is_null


@lru_cache(maxsize=64)
def _enum(among: tuple[str, ...]) -> pl.Enum:
    import polars as pl

    return pl.Enum(among)


@lru_cache(maxsize=4)
def _places(among: tuple[str, ...]) -> dict[str | None, int]:
    return {name: place for place, name in enumerate(among)}


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _add(reasons: Reasons, reason: str, mask: Array) -> None:
    if bool(mask.any()):
        reasons.append((reason, mask))
