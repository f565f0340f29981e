"""Logs in a database: any SQLAlchemy URL with a query, streamed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gdcb.errors import InvalidInput
from gdcb.history.cells import as_text
from gdcb.history.frames import series_of

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Query:
    """The rows of a query, in the order in which the database gives them."""

    url: str = field(repr=False)  # it may hold a password
    query: str
    warnings: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The database without its password, and the query."""
        from sqlalchemy.engine import make_url

        shown = make_url(self.url).render_as_string(hide_password=True)
        return f"{shown} ({self.query.strip()[:80]})"

    def columns(self) -> list[str]:
        """Names of the query's columns."""
        with self._rows(1) as result:
            return list(result.keys())

    def agree(self, needed: Sequence[str]) -> None:
        """Refuse a name that two columns have; cells are read by what each of them is."""
        names = self.columns()
        for name in needed:
            if names.count(name) > 1:
                raise InvalidInput(f"{self.name}: two columns are named {name!r}")

    def count(self) -> int:
        """Return the number of rows."""
        return sum(frame.height for frame in self.frames(self.columns()[:1], 2**16))

    def frames(self, columns: Sequence[str], batch_rows: int) -> Iterator[pl.DataFrame]:
        """Read some columns, so many rows at a time."""
        with self._rows(batch_rows) as result:
            names = list(result.keys())
            places = [names.index(name) for name in columns]
            for rows in result.partitions(batch_rows):
                yield _frame(rows, columns, places)

    def head(self, n: int) -> pl.DataFrame:
        """Return the first rows, all columns."""
        with self._rows(n) as result:
            names = list(result.keys())
            return _frame(result.fetchmany(n), names, range(len(names)))

    def distinct(self, column: str) -> pl.Series:
        """Return the different values of a column, as text."""
        import polars as pl

        found = [as_text(frame[column].unique()) for frame in self.frames([column], 2**16)]
        return pl.concat(found).unique() if found else pl.Series(column, [], dtype=pl.String)

    def split(self) -> list[Query]:
        """Return the whole: where a query may be cut is the database's secret."""
        return [self]

    @contextmanager
    def _rows(self, batch_rows: int) -> Iterator[Any]:
        """Run the query and stream its result; nothing is ever committed."""
        from sqlalchemy.exc import SQLAlchemyError

        engine = _engine(self.url)
        options = {"stream_results": True, "yield_per": batch_rows}
        try:
            with engine.connect() as connection:
                # As the driver takes it: a colon in the query is no parameter.
                result = connection.exec_driver_sql(self.query, execution_options=options)
                if not result.returns_rows:
                    raise InvalidInput(f"{self.name}: the query gives no rows; expected a SELECT")
                with result:
                    yield result
        except SQLAlchemyError as error:
            first = str(getattr(error, "orig", None) or error).strip().split("\n")[0][:200]
            raise InvalidInput(f"{self.name}: the query cannot be run ({first})") from error
        finally:
            engine.dispose()


def _engine(url: str) -> Any:
    try:
        from sqlalchemy import create_engine
        from sqlalchemy.exc import ArgumentError, NoSuchModuleError
    except ImportError as error:
        raise InvalidInput(
            "a log in a database needs SQLAlchemy: pip install 'gdcb[sql]', and the driver of "
            "your database"
        ) from error
    scheme = url.split(":")[0]
    try:
        return create_engine(url)
    except NoSuchModuleError as error:
        raise InvalidInput(f"{scheme}: SQLAlchemy knows no such database; see its URLs") from error
    except ArgumentError as error:
        raise InvalidInput(f"{scheme}: not a database URL such as sqlite:///log.db") from error
    except ImportError as error:
        driver = error.name or str(error)
        raise InvalidInput(
            f"{scheme}: the driver {driver} of this database is missing; install it beside gdcb"
        ) from error


def query_of(url: str, query: str | None) -> Query:
    """Return the log of a database URL and a query."""
    if not query or not query.strip():
        raise InvalidInput(
            f"{url.split(':')[0]}: a database needs a query that gives the log, such as "
            "SELECT * FROM decisions ORDER BY decided_at"
        )
    _engine(url).dispose()
    return Query(url, query)


def _frame(rows: Sequence[Any], names: Sequence[str], places: Sequence[int]) -> pl.DataFrame:
    import polars as pl

    columns = list(zip(*rows, strict=True)) if rows else []
    data = [
        series_of(name, columns[at] if rows else []) for name, at in zip(names, places, strict=True)
    ]
    return pl.DataFrame(data)
