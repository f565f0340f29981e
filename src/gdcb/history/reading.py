"""Open a decision log, read it batch by batch, and say what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gdcb.errors import InvalidInput
from gdcb.history.batch import Batch
from gdcb.history.cells import MISSING, UNREADABLE
from gdcb.history.layout import Layout, layout_of
from gdcb.history.report import ReadReport, Tally
from gdcb.history.rows import parse
from gdcb.history.sources import Table, table_of
from gdcb.instance import Instance
from gdcb.log_columns import LogColumns

if TYPE_CHECKING:
    import polars as pl

BATCH_ROWS = 2**18
_HEAD = 10_000
_SHOWN = 12  # broken columns that a refusal names
_TRIED = 100  # columns that are tried in place of each


@dataclass(slots=True)
class Part:
    """A piece of a log that can be read by itself, elsewhere.

    After a pass over its batches `tally` holds what was found; `Source.settle` takes those of all
    parts and makes the report and the fingerprint of the whole.

    Parameters
    ----------
    table : where its rows are
    layout : which column is what
    units, reviewers : names that the batches point into
    first : number of its first row in the log, counted from 1
    batch_rows : most rows of a batch
    """

    table: Table
    layout: Layout
    units: tuple[str, ...]
    reviewers: tuple[str, ...]
    first: int = 1
    batch_rows: int = BATCH_ROWS
    tally: Tally | None = None

    def batches(self) -> Iterator[Batch]:
        """Read its valid rows, in order."""
        tally = Tally()
        first = self.first
        for frame in self.table.frames(self.layout.needed, self.batch_rows):
            parsed = parse(frame, self.layout, self.units, self.reviewers, first)
            tally.add(parsed, self.layout, first, self.table.name)
            first += frame.height
            if parsed.batch.n:
                yield parsed.batch
        self.tally = tally


@dataclass
class Source:
    """A log that was opened: its columns are known, its rows are read as often as asked.

    Parameters
    ----------
    table : where its rows are
    layout : which column is what
    units : names of the units, sorted; `Batch.unit` points into it; empty where there are none
    reviewers : names of the reviewers, sorted; `Batch.reviewer` points into it
    batch_rows : most rows of a batch
    strict : whether a pass refuses a log with any row that breaks the schema, or with a leak
    """

    table: Table
    layout: Layout
    units: tuple[str, ...]
    reviewers: tuple[str, ...]
    batch_rows: int = BATCH_ROWS
    strict: bool = False
    _tally: Tally | None = field(default=None, repr=False)
    _report: ReadReport | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The log, as it is called in sentences."""
        return self.table.name

    @property
    def matures_after(self) -> float | None:
        """How long outcomes take as declared, in seconds; None: not declared."""
        return self.layout.matures_after

    def batches(self) -> Iterator[Batch]:
        """Read all valid rows, in the order of the log; at the end the report is there.

        A log that as a whole cannot be what was declared is refused at the end of the pass: keep
        nothing of it before.
        """
        whole = self._part(self.table, 1)
        yield from whole.batches()
        if whole.tally is not None:
            self.settle([whole.tally])

    def parts(self) -> list[Part]:
        """Return pieces that together give the same rows: one a file, several of a large one."""
        pieces = self.table.split()
        if len(pieces) == 1:
            return [self._part(pieces[0], 1)]
        starts = np.cumsum([1, *(piece.count() for piece in pieces)])
        return [self._part(piece, int(at)) for piece, at in zip(pieces, starts[:-1], strict=True)]

    def settle(self, tallies: Sequence[Tally]) -> ReadReport:
        """Make the report of the whole from what its parts found, in their order."""
        whole = tallies[0]
        for tally in tallies[1:]:
            whole.merge(tally)
        self._refuse_broken(whole)
        report = whole.report(self.layout, self.name, self.table.warnings)
        if self.strict:
            report.insist(self.name)
        self._tally, self._report = whole, report
        return report

    @property
    def report(self) -> ReadReport:
        """What the last pass found; without one, a pass is made."""
        if self._report is None:
            for _ in self.batches():
                pass
        assert self._report is not None
        return self._report

    @property
    def fingerprint(self) -> str:
        """64 hexadecimal digits: the same for the same valid rows in the same places.

        It is of the encoded rows, so that a CSV and a Parquet file of the same values agree.
        """
        if self._tally is None:
            _ = self.report
        assert self._tally is not None
        layout = self.layout
        has = [bool(part) for part in (layout.recommended, layout.status, layout.propensity)]
        has += [bool(part) for part in (layout.time, layout.label, layout.reward)]
        header = [list(self.units), list(self.reviewers), has, layout.width, len(layout.status)]
        return self._tally.content.digest(json.dumps(header))

    def _part(self, table: Table, first: int) -> Part:
        return Part(table, self.layout, self.units, self.reviewers, first, self.batch_rows)

    def _refuse_broken(self, tally: Tally) -> None:
        """Refuse a log in which a column breaks the schema in most rows: it is another column."""
        broken = tally.mostly_broken()
        if not broken:
            return
        head, said, is_moved = self.table.head(_HEAD), [], False
        for column, rows in broken[:_SHOWN]:
            found = {name: seen for (at, name), seen in tally.reasons.items() if at == column}
            others = [] if set(found) == {MISSING} else self._fits(head, column, dict(broken))
            is_moved = is_moved or bool(others)
            hint = f", and the values under {' or '.join(others)} would fit it" if others else ""
            if column and column == self.layout.propensity:
                hint += ", where a probability is expected (divide percent by 100; a column of that"
                hint += " name that is none needs another name)"
            wrong = "; ".join(
                f"{reason} ({', '.join(f'row {at}: {value!r}' for at, value in examples)})"
                for reason, (_, examples) in found.items()
            )
            place = f"'{column}'" if column else "the line"
            said.append(
                f"{place} breaks the schema in {rows:,} of {tally.read:,} rows{hint}: {wrong}"
            )
        moved = "columns look moved, " if is_moved else ""
        raise InvalidInput(f"{self.name}: {moved}nothing is read: {' | '.join(said)}")

    def _fits(self, head: pl.DataFrame, column: str, broken: Mapping[str, int]) -> list[str]:
        """Return the log columns that are out of place and would fit where `column` is expected.

        Out of place may be what breaks the schema itself, what nobody asked for, and names, since
        any text is a name.
        """
        layout, fits = self.layout, []
        settled = set(layout.needed) - set(broken) - {layout.unit, layout.reviewer}
        for other in head.columns[:_TRIED]:
            if other in settled or other == column or column not in head.columns:
                continue
            moved = head.with_columns(head[other].alias(column))
            found = parse(moved, layout, self.units, self.reviewers, 1)
            bad = sum(len(fault.rows) for fault in found.faults if fault.column == column)
            if bad <= 0.01 * head.height and head[other].null_count() < head.height:
                fits.append(f"'{other}'")
        return fits


def open_log(
    given: Any,
    instance: Instance,
    columns: LogColumns | Mapping[str, Any] | None = None,
    query: str | None = None,
    batch_rows: int = BATCH_ROWS,
    strict: bool = False,
) -> Source:
    """Open a decision log and match its columns with what an instance declares.

    Parameters
    ----------
    given : path of a CSV (also .gz) or Parquet file, of a folder of such files, or of VW dsjson
        lines; a frame with an Arrow stream; a SQLAlchemy URL, with `query`; an obp feedback
        dictionary
    instance : declares context, action and outcome
    columns : which log column is what, where names differ
    query : SQL that gives the log, with a database only; say ORDER BY, for order counts
    batch_rows : most rows of a batch
    strict : refuse a log with any row that breaks the schema, or with a leak

    Examples
    --------
    >>> import polars as pl
    >>> from gdcb.declaration import parse as declare
    >>> listing = declare('''
    ... context.base = { type = "number", low = 1, high = 1000 }
    ... arms = { part = "list", values = [0.9, 1.0, 1.1] }
    ... composition = { part = "multiply", base = ["base"], names = ["price"] }
    ... gates = []
    ... reward = { part = "payoff", outcome = ["booked"], action = 0 }
    ... bandit = { part = "beta-thompson" }
    ... ''').instance
    >>> log = pl.DataFrame({"base": [100, 0, 80], "price": [90, 1, 88], "booked": [1, 0, None]})
    >>> source = open_log(log, listing)
    >>> [batch.x.tolist() for batch in source.batches()]
    [[[100.0], [80.0]]]
    >>> source.report.sentences()
    ['base: outside 1 to 1000 in 1 row (row 2: 0)']
    """
    if batch_rows < 1:
        raise InvalidInput(f"batch_rows: expected a whole number from 1 on, got {batch_rows!r}")
    columns = LogColumns.of(columns)
    table = table_of(given, instance, columns, query)
    layout = layout_of(instance, columns, table.columns(), table.name)
    table.agree(layout.needed)
    return Source(
        table,
        layout,
        _names(table, layout.unit),
        _names(table, layout.reviewer),
        batch_rows,
        strict,
    )


def read(
    given: Any,
    instance: Instance,
    columns: LogColumns | Mapping[str, Any] | None = None,
    query: str | None = None,
    strict: bool = False,
) -> tuple[Batch, ReadReport]:
    """Read a whole log into memory: its valid rows, and what was found."""
    source = open_log(given, instance, columns, query, strict=strict)
    batches = list(source.batches())
    return Batch.concatenate(batches), source.report


def _names(table: Table, column: str) -> tuple[str, ...]:
    if not column:
        return ()
    return tuple(sorted(set(table.distinct(column).drop_nulls().to_list()) - {UNREADABLE}))
