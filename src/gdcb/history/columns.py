"""What the columns of a log hold, before anybody says what they mean."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.history.cells import MISSING, as_text, numbers
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
    """

    name: str
    kind: str
    values: Array
    levels: tuple[str, ...] = ()
    n_different: int = 0
    missing: float = 0.0
    low: float = np.nan
    high: float = np.nan

    @property
    def is_binary(self) -> bool:
        """Whether it is a flag: true and false, or nothing but 0 and 1."""
        return self.kind == "flag"

    @property
    def is_constant(self) -> bool:
        """Whether it never varies."""
        return self.n_different < 2


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
    texts: set[str] | None = field(default_factory=set)

    def add(self, series: pl.Series) -> None:
        import polars as pl

        if series.dtype == pl.Boolean or isinstance(series.dtype, pl.Date | pl.Datetime):
            self.n_missing += series.null_count()
            return
        values, reasons = numbers(series)
        lost = np.zeros(len(series), dtype=bool)
        for why, mask in reasons:
            self.n_missing += int(mask.sum()) if why == MISSING else 0
            lost |= mask
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
    names = table.columns()
    running = {name: _Running() for name in names}
    kept: list[pl.DataFrame] = []
    n_rows, step = 0, 1
    for frame in table.frames(names, 2**17):
        for name in names:
            running[name].add(frame[name])
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
    if not reasons:
        different = _different(values)
        is_flag = {*np.unique(values[np.isfinite(values)]).tolist()} == {0.0, 1.0}
        is_flag = is_flag and seen.low >= 0 and seen.high <= 1
        kind, two = ("flag", ("0", "1")) if is_flag else ("number", ())
        low, high = float(seen.low), float(seen.high)
        return Column(name, kind, values, two, different, missing, low, high)
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
    if not levels:
        return Column(name, "text", empty, (), n_different, missing)
    codes = as_text(series).cast(pl.Enum(levels), strict=False).to_physical().cast(pl.Float64)
    values = codes.fill_null(float("nan")).to_numpy()
    return Column(name, "text", values, levels, n_different, missing)


def _different(values: Array) -> int:
    return int(np.unique(values[np.isfinite(values)]).size)
