"""What the columns of a log hold, before anybody says what they mean."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.history.cells import MISSING, NOT_FINITE, as_text, numbers
from gdcb.history.database import query_of
from gdcb.history.files import files_at
from gdcb.history.frames import frame_of
from gdcb.history.times import AWARE, NAIVE, times

if TYPE_CHECKING:
    import polars as pl

SAMPLE = 100_000  # rows that are looked at in full; ranges and levels are of all rows
MOST_LEVELS = 30  # of a category
_MANY = 1000  # different texts from which they are no longer counted
_TRUTHS = {"true", "false", "t", "f", "yes", "no"}
_ODD = 0.05  # share of known cells, at most, that may be no numbers in a column of numbers
_MOST = 0.95  # of the texts that must look alike
_CURRENCY = r"(?:[€$£¥₹%]|EUR|USD|GBP|CHF|JPY|INR|SEK|NOK|DKK|PLN|CAD|AUD)"
# 110, 110.0, 110,50, 1,200.50, 1.200,50: with a currency or without.
_AMOUNT = (
    rf"^(?:{_CURRENCY}\s*)?[+-]?(?:\d+(?:[.,]\d+)?|\d{{1,3}}(?:[,.' ]\d{{3}})+(?:[.,]\d+)?)"
    rf"(?:\s*{_CURRENCY})?$"
)
# 31/12/2025, 31.12.25, 2025/12/31, 31 Dec 2025, Dec 31, 2025; a time of day may follow.
_DATE = (
    r"^(?:\d{1,2}[/.-]\d{1,2}[/.-](?:\d{4}|\d{2})|\d{4}[/.]\d{1,2}[/.]\d{1,2}"
    r"|\d{1,2}[ -][A-Za-z]{3,9}\.?[ -]\d{2,4}|[A-Za-z]{3,9}\.? \d{1,2},? \d{4})(?:[ T,].*)?$"
)


@dataclass
class Column:
    """One column of a log.

    Parameters
    ----------
    name : as in the log
    kind : 'number', 'flag', 'text', 'time' or 'empty'
    values : (n,) numbers of the sampled rows; codes of `levels` for text; NaN: missing
    levels : different texts of all rows, sorted, or the two of a flag; none where there are
        too many
    n_different : different values: of the sample, or of all rows for text
    missing : share of all rows that are empty
    low, high : smallest and largest number of all rows
    n_odd, odd : cells of a column of numbers that are none; and the first: (row from 1, text)
    looks : 'amount' or 'date' where texts look like numbers or dates that are not read as such;
        'infinite' where more cells of numbers are infinite than may be odd
    example : one of these texts
    """

    name: str
    kind: str
    values: Array
    levels: tuple[str, ...] = ()
    n_different: int = 0
    missing: float = 0.0
    low: float = np.nan
    high: float = np.nan
    n_odd: int = 0
    odd: tuple[int, str] = (0, "")
    looks: str = ""
    example: str = ""

    @property
    def is_binary(self) -> bool:
        """Whether it is a flag: true and false, or nothing but 0 and 1."""
        return self.kind == "flag"

    @property
    def is_constant(self) -> bool:
        """Whether it never varies."""
        return self.n_different < 2

    @cached_property
    def middle(self) -> float:
        """The median of what is known."""
        return float(np.nanmedian(self.values))


def hint(column: Column) -> str:
    """Say what is to be mended in a column's text; '' where there is nothing.

    >>> import polars as pl
    >>> hint(look(pl.DataFrame({"price": ["€110.0", "€95"]})).columns["price"])
    'price holds text such as "€110.0"; write it as a number'
    """
    if column.looks == "date":
        return (
            f'{column.name} looks like dates, such as "{column.example}", in a form that is not '
            "read; write them as 2025-12-31 (ISO 8601)"
        )
    if column.looks == "amount":
        return f'{column.name} holds text such as "{column.example}"; write it as a number'
    if column.looks == "infinite":
        return (
            f'{column.name} holds numbers, and some are infinite, such as "{column.example}"; '
            "leave such cells empty"
        )
    return ""


@dataclass
class Look:
    """A log at first sight: its columns by name, and how many rows it has."""

    name: str
    columns: dict[str, Column] = field(default_factory=dict)
    rows: int = 0


@dataclass
class _Running:
    """What is kept of a column over all rows."""

    n_missing: int = 0
    low: float = np.inf
    high: float = -np.inf
    n_odd: int = 0
    odd: tuple[int, str] = (0, "")
    texts: set[str] | None = field(default_factory=set)

    def add(self, series: pl.Series, first: int) -> None:
        import polars as pl

        if series.dtype == pl.Boolean or isinstance(series.dtype, pl.Date | pl.Datetime):
            self.n_missing += series.null_count()
            return
        values, reasons = numbers(series)
        lost = np.zeros(len(series), dtype=bool)
        for why, mask in reasons:
            if why == MISSING:
                self.n_missing += int(mask.sum())
            else:
                lost |= mask
        if lost.any():
            at = int(lost.argmax())
            self.odd = self.odd if self.n_odd else (first + at + 1, str(series[at]))
            self.n_odd += int(lost.sum())
        known = values[np.isfinite(values)]
        if known.size:
            self.low, self.high = min(self.low, known.min()), max(self.high, known.max())
        if self.texts is not None:
            self.texts |= set(as_text(series).drop_nulls().unique().head(_MANY + 1).to_list())
            if len(self.texts) > _MANY:
                self.texts = None


def look(given: Any, query: str | None = None) -> Look:
    """Read a log once and say what each of its columns holds.

    >>> import polars as pl
    >>> found = look(pl.DataFrame({"price": [90, 110], "booked": [True, False], "day": ["a", "b"]}))
    >>> [(column.name, column.kind) for column in found.columns.values()]
    [('price', 'number'), ('booked', 'flag'), ('day', 'text')]
    """
    import polars as pl

    table: Any
    if isinstance(given, str) and "://" in given:
        table = query_of(given, query)
    elif query is not None:
        raise InvalidInput("query: it belongs to a database URL such as sqlite:///log.db")
    elif hasattr(given, "__arrow_c_stream__") or hasattr(given, "collect_batches"):
        table = frame_of(given)
    else:
        table = files_at(given)
        table.refuse_doubles(table.columns())
    names = table.columns()
    running = {name: _Running() for name in names}
    kept: list[pl.DataFrame] = []
    n_rows, step = 0, 1
    for frame in table.frames(names, 2**17):
        for name in names:
            running[name].add(frame[name], n_rows)
        place = np.arange(n_rows, n_rows + frame.height)
        kept.append(frame.filter(pl.Series(place % step == 0)))
        n_rows += frame.height
        while sum(one.height for one in kept) > SAMPLE:
            step *= 2
            kept = [one.gather_every(2) for one in kept]
    if n_rows == 0:
        raise InvalidInput(f"{table.name}: it has no row")
    whole = pl.concat(kept)
    found = Look(str(table.name), rows=n_rows)
    for name in names:
        found.columns[name] = _column(whole[name], running[name], n_rows)
    return found


def _column(series: pl.Series, seen: _Running, n_rows: int) -> Column:
    """Say what a column holds, from its sampled cells."""
    import polars as pl

    missing, name = seen.n_missing / n_rows, series.name
    n = len(series)
    empty = np.full(n, np.nan)
    if series.null_count() == n or series.dtype == pl.Null:
        return Column(name, "empty", empty, missing=1.0)
    if series.dtype == pl.Boolean:
        values = series.cast(pl.Float64).to_numpy()
        return Column(name, "flag", values, ("false", "true"), _different(values), missing)
    if isinstance(series.dtype, pl.Date | pl.Datetime):
        seconds = times(series)[0]
        return Column(name, "time", seconds, n_different=_different(seconds), missing=missing)
    values, reasons = numbers(series, optional=True)
    n_known = n_rows - seen.n_missing
    if not reasons or seen.n_odd <= _ODD * n_known:
        values = np.where(np.isfinite(values), values, np.nan)
        different = _different(values)
        is_flag = {*np.unique(values[np.isfinite(values)]).tolist()} == {0.0, 1.0}
        is_flag = is_flag and seen.low >= 0 and seen.high <= 1
        kind, two = ("flag", ("0", "1")) if is_flag else ("number", ())
        low, high = float(seen.low), float(seen.high)
        odd = (seen.n_odd, seen.odd)
        return Column(name, kind, values, two, different, missing, low, high, *odd)
    odd_rows = dict(reasons)
    infinite = odd_rows.pop(NOT_FINITE, None)
    if infinite is not None and sum(mask.sum() for mask in odd_rows.values()) <= _ODD * n:
        cell = str(series[int(infinite.argmax())])
        return Column(name, "text", empty, (), 2, missing, looks="infinite", example=cell)
    text = as_text(series).str.strip_chars().replace("", None)
    some = text.drop_nulls()
    if len(some) == 0:
        return Column(name, "empty", empty, missing=1.0)
    if set(some.str.to_lowercase().unique().to_list()) <= _TRUTHS:
        values, _ = numbers(series, optional=True, truths=True)
        words = tuple(sorted(one for one in seen.texts or () if one.strip()))
        return Column(name, "flag", values, words, _different(values), missing)
    seconds, faults, zones = times(text)
    bad = sum(int(mask.sum()) for why, mask in faults if why != MISSING)
    if zones & {AWARE, NAIVE} and bad <= 0.01 * len(some):
        return Column(name, "time", seconds, n_different=_different(seconds), missing=missing)
    texts = seen.texts
    levels = tuple(sorted(one for one in texts if one.strip())) if texts is not None else ()
    n_different = len(levels) if texts is not None else int(some.n_unique())
    seems: dict[str, Any] = {"looks": _looks(some), "example": str(some[0])}
    if not levels:
        return Column(name, "text", empty, (), n_different, missing, **seems)
    codes = as_text(series).cast(pl.Enum(levels), strict=False).to_physical().cast(pl.Float64)
    values = codes.fill_null(float("nan")).to_numpy()
    return Column(name, "text", values, levels, n_different, missing, **seems)


def _looks(texts: pl.Series) -> str:
    """Say whether most texts look like dates, or like numbers, in a form that is not read."""
    for looks, pattern in (("date", _DATE), ("amount", _AMOUNT)):
        if float(texts.str.contains(pattern).sum()) >= _MOST * len(texts):
            return looks
    return ""


def _different(values: Array) -> int:
    return int(np.unique(values[np.isfinite(values)]).size)
