"""Logs in files: CSV and Parquet, one file or a folder of them, read lazily."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from gdcb.errors import InvalidInput

if TYPE_CHECKING:
    import polars as pl

CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
PARQUET = (".parquet", ".pq")
# Rows of a part: a multiple of the row groups that Polars writes, so that parts cut few of them.
_PART = 2**22
_NOTHING = "__HIVE_DEFAULT_PARTITION__"


def plain_names(columns: Sequence[str]) -> list[str]:
    """Return the names of columns to select; refuse '*' and '^…$', which Polars takes for patterns.

    >>> plain_names(["price", "*"])
    Traceback (most recent call last):
    gdcb.errors.InvalidInput: column '*': names like '*' and '^…$' are patterns to Polars; rename it
    """
    for name in columns:
        if name == "*" or (name.startswith("^") and name.endswith("$")):
            said = "names like '*' and '^…$' are patterns to Polars; rename it"
            raise InvalidInput(f"column {name!r}: {said}")
    return list(columns)


@contextmanager
def reading(where: object, as_what: str) -> Iterator[None]:
    """Turn what goes wrong while a file is read into a sentence about that file."""
    import polars as pl

    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, EOFError) as error:
        first = str(error).strip().split("\n")[0][:200]
        hint = {
            "Parquet": "truncated, damaged or not Parquet",
            "CSV": "rows with more fields than the header has names, or damaged text",
        }.get(as_what, "damaged")
        raise InvalidInput(f"{where}: cannot be read as {as_what}: {hint} ({first})") from error


@dataclass(frozen=True)
class LogFile:
    """Rows [start, start + length) of one file; what its folders are named for is a column too."""

    path: str
    kind: str
    partition: tuple[tuple[str, str], ...] = ()
    start: int = 0
    length: int | None = None

    def scan(self) -> pl.LazyFrame:
        """Return the rows, lazily; a CSV's cells are text as they stand."""
        import polars as pl

        if self.kind == "Parquet":
            lazy = pl.scan_parquet(self.path, hive_partitioning=False, glob=False)
        else:
            lazy = pl.scan_csv(self.path, infer_schema=False, separator=self._separator, glob=False)
        if self.length is not None:
            lazy = lazy.slice(self.start, self.length)
        if self.partition:
            said = [
                pl.lit(None if value == _NOTHING else value, dtype=pl.String).alias(name)
                for name, value in self.partition
            ]
            lazy = lazy.with_columns(said)
        return lazy

    @cached_property
    def _separator(self) -> str:
        """The one of , ; and tab that the header has most of."""
        import gzip

        opened: Any = gzip.open if self.path.endswith(".gz") else open
        with opened(self.path, "rt", encoding="utf-8", errors="replace") as file:
            header = file.readline()
        return max(",;\t", key=header.count)

    @cached_property
    def schema(self) -> dict[str, Any]:
        """Types of the columns, by name."""
        if not Path(self.path).exists():
            raise InvalidInput(f"{self.path}: there is no such file")
        if Path(self.path).stat().st_size == 0:
            raise InvalidInput(f"{self.path}: the file is empty")
        with reading(self.path, self.kind):
            return dict(self.scan().collect_schema())

    def count(self) -> int:
        """Return the number of rows."""
        import polars as pl

        if self.length is not None:
            return self.length
        with reading(self.path, self.kind):
            return int(self.scan().select(pl.len()).collect().item())

    def frames(self, columns: Sequence[str], batch_rows: int) -> Iterator[pl.DataFrame]:
        """Read some columns, so many rows at a time, in order."""
        with reading(self.path, self.kind):
            yield from (
                self.scan()
                .select(plain_names(columns))
                .collect_batches(chunk_size=batch_rows, maintain_order=True)
            )

    def head(self, n: int) -> pl.DataFrame:
        """Return the first rows, all columns."""
        with reading(self.path, self.kind):
            return self.scan().head(n).collect()

    def distinct(self, column: str) -> pl.Series:
        """Return the different values of a column."""
        import polars as pl

        with reading(self.path, self.kind):
            lazy = self.scan().select(pl.col(plain_names([column])).unique())
            return lazy.collect(engine="streaming").to_series()


@dataclass(frozen=True)
class LogFiles:
    """One log in one or more files, in the order of their names."""

    name: str
    files: tuple[LogFile, ...]
    warnings: list[str] = field(default_factory=list)

    def columns(self) -> list[str]:
        """Names of the columns that all files have."""
        first, *others = (list(file.schema) for file in self.files)
        common = set(first).intersection(*others) if others else set(first)
        partial = sorted(set(first).union(*others) - common) if others else []
        if partial:
            shown = ", ".join(partial[:10])
            self.warnings[:] = [f"Not all files of {self.name} have {shown}: not read."]
        return [name for name in first if name in common]

    def agree(self, needed: Sequence[str]) -> None:
        """Refuse a name that two columns have, and files that mean different things by one."""
        first = self.files[0]
        self.refuse_doubles(needed)
        for file in self.files[1:]:
            for name in needed:
                mine, other = _meaning(first.schema[name]), _meaning(file.schema[name])
                if mine == other or "nothing" in (mine, other):
                    continue
                zones = "mixed time zones: " if "zone" in mine and "zone" in other else ""
                raise InvalidInput(
                    f"{self.name}: {zones}the files have different types: {name!r} is {mine} in "
                    f"{_short(first.path)} and {other} in {_short(file.path)}"
                )

    def refuse_doubles(self, needed: Sequence[str]) -> None:
        """Refuse a name that two columns have: Polars gives the second another one."""
        for file in self.files:
            for name in needed:
                if file.kind == "CSV" and f"{name}_duplicated_0" in file.schema:
                    raise InvalidInput(f"{file.path}: two columns are named {name!r}")

    def count(self) -> int:
        """Return the number of rows."""
        return sum(file.count() for file in self.files)

    def frames(self, columns: Sequence[str], batch_rows: int) -> Iterator[pl.DataFrame]:
        """Read some columns, so many rows at a time, file after file."""
        for file in self.files:
            yield from file.frames(columns, batch_rows)

    def head(self, n: int) -> pl.DataFrame:
        """Return the first rows, all columns."""
        return self.files[0].head(n)

    def distinct(self, column: str) -> pl.Series:
        """Return the different values of a column, as text."""
        import polars as pl

        from gdcb.history.cells import as_text

        return pl.concat([as_text(file.distinct(column)).rename("") for file in self.files])

    def split(self) -> list[LogFiles]:
        """Return one piece a file, or several of a large Parquet file."""
        pieces: list[LogFiles] = []
        for file in self.files:
            n = file.count() if file.kind == "Parquet" else 0
            cuts = range(0, n, _PART) if n > _PART else []
            some = [replace(file, start=at, length=min(_PART, n - at)) for at in cuts] or [file]
            pieces += [LogFiles(self.name, (one,)) for one in some]
        return pieces


def files_at(path: str | Path) -> LogFiles:
    """Return the log at a path: a file, or a folder with Parquet files (or else CSV files)."""
    path = Path(path)
    if path.is_dir():
        return _folder(path)
    kind = kind_of(path.name)
    if not path.exists():
        raise InvalidInput(f"{path}: there is no such file")
    if not kind:
        ends = ", ".join((*CSV, *PARQUET, ".dsjson"))
        raise InvalidInput(f"{path}: expected a file that ends in {ends}")
    return LogFiles(str(path), (LogFile(str(path), kind),))


def kind_of(name: str) -> str:
    """Return what a file's name says it is: 'Parquet', 'CSV' or ''.

    >>> kind_of("log.CSV.gz"), kind_of("log.parquet"), kind_of("log.txt")
    ('CSV', 'Parquet', '')
    """
    name = name.lower()
    return "Parquet" if name.endswith(PARQUET) else "CSV" if name.endswith(CSV) else ""


def _folder(root: Path) -> LogFiles:
    """Return the files below a folder; `season=high/` on the way is a column."""
    found: dict[str, list[LogFile]] = {"Parquet": [], "CSV": []}
    for path in sorted(root.rglob("*"), key=lambda one: one.relative_to(root).as_posix()):
        inside = path.relative_to(root).parts
        if path.is_file() and kind_of(path.name) and not any(p[0] in "._" for p in inside):
            pairs = [part.split("=", 1) for part in inside[:-1] if "=" in part]
            partition = tuple((unquote(name), unquote(value)) for name, value in pairs)
            kind = kind_of(path.name)
            found[kind].append(LogFile(str(path), kind, partition))
    files = found["Parquet"] or found["CSV"]
    if not files:
        raise InvalidInput(f"{root}: the folder has no Parquet files (nor CSV files)")
    return LogFiles(str(root), tuple(files))


def _meaning(dtype: Any) -> str:
    import polars as pl

    if dtype == pl.Null:
        return "nothing"
    if dtype.is_numeric():
        return "a number"
    if isinstance(dtype, pl.Datetime):
        return "a time without a zone" if dtype.time_zone is None else "a time with a zone"
    if isinstance(dtype, pl.String | pl.Categorical | pl.Enum):
        return "text"
    return str(dtype).lower()


def _short(path: str) -> str:
    return "/".join(Path(path).parts[-2:])
