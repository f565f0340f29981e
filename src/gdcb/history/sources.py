"""From what is given to a table of rows: files, frames, databases, other libraries' logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from gdcb.errors import InvalidInput
from gdcb.history.bandit_logs import LINES, DecisionLines, feedback_of, is_feedback
from gdcb.history.database import query_of
from gdcb.history.files import files_at, kind_of
from gdcb.history.frames import frame_of
from gdcb.instance import Instance
from gdcb.log_columns import LogColumns

if TYPE_CHECKING:
    import polars as pl


@runtime_checkable
class Table(Protocol):
    """A log before anybody looked at what its columns mean."""

    @property
    def name(self) -> str:
        """What to call it in sentences; never a password."""

    @property
    def warnings(self) -> list[str]:
        """What is odd about it."""

    def columns(self) -> list[str]:
        """Names of its columns."""

    def agree(self, needed: Sequence[str]) -> None:
        """Refuse a log whose files mean different things by a column."""

    def count(self) -> int:
        """Return the number of rows."""

    def frames(self, columns: Sequence[str], batch_rows: int) -> Iterator[pl.DataFrame]:
        """Read some columns, so many rows at a time at most, in order; again from the start."""

    def head(self, n: int) -> pl.DataFrame:
        """Return the first rows, all columns."""

    def distinct(self, column: str) -> pl.Series:
        """Return the different values of a column, as text."""

    def split(self) -> Sequence[Table]:
        """Return pieces whose rows, one after the other, are those of the whole."""


def table_of(
    given: Any, instance: Instance, columns: LogColumns, query: str | None = None
) -> Table:
    """Return the table that was given; a sentence says what could have been."""
    if isinstance(given, Table):
        return given
    if is_feedback(given):
        return feedback_of(given, instance)
    if isinstance(given, str) and "://" in given:
        if query is None and kind_of(given):
            raise InvalidInput(
                f"{given.split(':')[0]}: files are read from this machine; fetch it first, or give "
                "a Polars lazy frame that scans it"
            )
        return query_of(given, query)
    if query is not None:
        raise InvalidInput("query: it belongs to a database URL such as sqlite:///log.db")
    if isinstance(given, str | Path):
        if str(given).lower().endswith(LINES):
            return _lines(Path(given), instance, columns)
        return files_at(given)
    if hasattr(given, "__arrow_c_stream__") or hasattr(given, "collect_batches"):
        return frame_of(given)
    raise InvalidInput(
        "log: expected a path, a frame with an Arrow stream (Polars, pandas), a database URL with "
        f"a query, or an obp feedback dictionary; got {type(given).__name__}"
    )


def _lines(path: Path, instance: Instance, columns: LogColumns) -> DecisionLines:
    if not path.is_file():
        raise InvalidInput(f"{path}: there is no such file")
    if path.stat().st_size == 0:
        raise InvalidInput(f"{path}: the file is empty")
    return DecisionLines(str(path), instance, columns)
