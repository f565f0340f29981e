"""Logs in memory: any frame with an Arrow stream, and Polars' lazy frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gdcb.errors import InvalidInput
from gdcb.history.cells import as_text
from gdcb.history.files import plain_names, reading

if TYPE_CHECKING:
    import polars as pl

_PART = 2**20


@dataclass(frozen=True)
class Frame:
    """A log that is in memory."""

    name: str
    data: pl.DataFrame
    warnings: list[str] = field(default_factory=list)

    def columns(self) -> list[str]:
        """Names of the columns."""
        return self.data.columns

    def agree(self, needed: Sequence[str]) -> None:
        """Do nothing: one frame has one type a column."""

    def count(self) -> int:
        """Return the number of rows."""
        return self.data.height

    def frames(self, columns: Sequence[str], batch_rows: int) -> Iterator[pl.DataFrame]:
        """Give some columns, so many rows at a time."""
        yield from self.data.select(plain_names(columns)).iter_slices(batch_rows)

    def head(self, n: int) -> pl.DataFrame:
        """Return the first rows."""
        return self.data.head(n)

    def distinct(self, column: str) -> pl.Series:
        """Return the different values of a column, as text."""
        return as_text(self.data[column].unique())

    def split(self) -> list[Frame]:
        """Return slices; they carry their rows with them."""
        starts = range(0, self.data.height, _PART)
        return [Frame(self.name, self.data.slice(at, _PART)) for at in starts] or [self]


@dataclass(frozen=True)
class Lazy:
    """A log that a Polars query makes."""

    name: str
    data: pl.LazyFrame
    warnings: list[str] = field(default_factory=list)

    def columns(self) -> list[str]:
        """Names of the columns."""
        with reading(self.name, "a lazy frame"):
            return self.data.collect_schema().names()

    def agree(self, needed: Sequence[str]) -> None:
        """Do nothing: one query has one type a column."""

    def count(self) -> int:
        """Return the number of rows."""
        import polars as pl

        with reading(self.name, "a lazy frame"):
            return int(self.data.select(pl.len()).collect().item())

    def frames(self, columns: Sequence[str], batch_rows: int) -> Iterator[pl.DataFrame]:
        """Read some columns, so many rows at a time, in order."""
        with reading(self.name, "a lazy frame"):
            yield from self.data.select(plain_names(columns)).collect_batches(
                chunk_size=batch_rows, maintain_order=True
            )

    def head(self, n: int) -> pl.DataFrame:
        """Return the first rows."""
        with reading(self.name, "a lazy frame"):
            return self.data.head(n).collect()

    def distinct(self, column: str) -> pl.Series:
        """Return the different values of a column, as text."""
        import polars as pl

        with reading(self.name, "a lazy frame"):
            found = self.data.select(pl.col(plain_names([column])).unique()).collect(
                engine="streaming"
            )
        return as_text(found.to_series())

    def split(self) -> list[Lazy]:
        """Return the whole: a query's rows cannot be cut without running it."""
        return [self]


def frame_of(given: Any) -> Frame | Lazy:
    """Return the log in a frame, whichever library made it."""
    import polars as pl

    name = f"a {type(given).__module__.split('.')[0]} frame"
    if isinstance(given, pl.LazyFrame):
        return Lazy(name, given)
    if isinstance(given, pl.DataFrame):
        return Frame(name, given)
    try:
        made: pl.DataFrame = pl.DataFrame(given)
        return Frame(name, made)
    except ImportError:
        pass  # pandas makes its Arrow stream with pyarrow, which need not be there
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, TypeError) as error:
        raise InvalidInput(f"{name}: its Arrow stream cannot be read ({error})") from error
    columns = [series_of(str(one), given[one].tolist()) for one in given.columns]
    return Frame(name, pl.DataFrame(columns))


def series_of(name: str, values: Sequence[Any]) -> pl.Series:
    """Return Python values as one column: numbers, truths, times, or else text.

    >>> series_of("price", [1, None, 2.5]).to_list(), series_of("price", [1, "two"]).to_list()
    ([1.0, None, 2.5], ['1', 'two'])
    """
    import polars as pl

    plain = [None if _is_missing(value) else value for value in values]
    kinds = {type(value) for value in plain if value is not None}
    if not kinds:
        return pl.Series(name, plain, dtype=pl.Null)
    if kinds == {bool}:
        return pl.Series(name, plain, dtype=pl.Boolean)
    if kinds == {int} and all(value is None or abs(value) < 2**63 for value in plain):
        return pl.Series(name, plain, dtype=pl.Int64)
    if kinds <= {int, float, Decimal}:
        numbers = [None if value is None else _as_float(value) for value in plain]
        return pl.Series(name, numbers, dtype=pl.Float64)
    if all(issubclass(kind, datetime) for kind in kinds):
        return _datetimes(name, plain)
    if kinds == {date}:
        return pl.Series(name, plain, dtype=pl.Date)
    text = [None if value is None else str(value) for value in plain]
    return pl.Series(name, text, dtype=pl.String)


def _datetimes(name: str, plain: list[Any]) -> pl.Series:
    import polars as pl

    aware = {value.tzinfo is not None for value in plain if value is not None}
    if len(aware) > 1:  # as text, so that both kinds are seen
        text = [None if value is None else value.isoformat() for value in plain]
        return pl.Series(name, text, dtype=pl.String)
    zone = "UTC" if aware == {True} else None
    return pl.Series(name, plain, dtype=pl.Datetime("us", zone))


def _is_missing(value: Any) -> bool:
    """Return whether a value is None, or one of pandas' words for it."""
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
