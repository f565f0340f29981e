"""What reading a log found: rows that break the schema with reasons, copies, leaks."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from gdcb.errors import InvalidInput
from gdcb.history.batch import Batch
from gdcb.history.hashing import Content, Copies, row_hashes
from gdcb.history.layout import Layout
from gdcb.history.leakage import Sample, leaks_of, suspects_of, tells_rows_apart
from gdcb.history.pairs import jointly_of
from gdcb.history.rows import Parsed
from gdcb.history.times import AWARE, NAIVE, PLAIN

_EXAMPLES = 3
_MOST = 0.5  # share of rows from which on the file is refused, not the rows


@dataclass(frozen=True)
class ReadReport:
    """What a pass over a log found.

    Parameters
    ----------
    read, valid, rejected : rows; a row with several reasons is rejected once
    reasons : what is wrong with how many rows: {reason, column, rows, examples}, most rows first;
        an example is (number of the row, counted from 1, and what the log says there)
    warnings : sentences about the log as a whole
    leaks : sentences about columns that may have known the answer, and about copies
    duplicates : valid rows that are exact copies of an earlier one
    """

    read: int
    valid: int
    rejected: int
    reasons: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    leaks: list[str] = field(default_factory=list)
    duplicates: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return asdict(self)

    def sentences(self) -> list[str]:
        """Return the reasons against rows, one sentence each."""
        return [_sentence(one) for one in self.reasons]

    def insist(self, where: str) -> None:
        """Refuse a log with any row that breaks the schema, and with any leak: strict reading."""
        if not self.rejected and not self.leaks:
            return
        said = []
        if self.rejected:
            said = [f"{self.rejected:,} of {self.read:,} rows break the schema", *self.sentences()]
        raise InvalidInput(f"{where}: refused, strictly: " + "; ".join([*said, *self.leaks]))


def _sentence(reason: dict[str, Any]) -> str:
    column = f"{reason['column']}: " if reason["column"] else ""
    examples = ", ".join(f"row {number}: {value!r}" for number, value in reason["examples"])
    return f"{column}{reason['reason']} in {_rows(reason['rows'])} ({examples})"


def _rows(n: int) -> str:
    return "1 row" if n == 1 else f"{n:,} rows"


@dataclass(slots=True)
class Tally:
    """What was found in some rows; tallies of the parts of a log add up to that of the whole."""

    read: int = 0
    rejected: int = 0
    reasons: dict[tuple[str, str], tuple[int, list[tuple[int, Any]]]] = field(default_factory=dict)
    zones: set[str] = field(default_factory=set)
    latest: float = 0.0
    late: dict[str, int] = field(default_factory=dict)
    content: Content = field(default_factory=Content)
    copies: Copies = field(default_factory=Copies)
    sample: Sample = field(default_factory=Sample)

    def add(self, parsed: Parsed, layout: Layout, first: int, where: str) -> None:
        """Add the rows of a frame, of which the first is row `first` of the log."""
        self.read += parsed.n_read
        self.rejected += parsed.n_read - parsed.batch.n
        for fault in parsed.faults:
            shown = [(first + at, _plain(value)) for at, value in fault.examples]
            self._blame((fault.column, fault.reason), len(fault.rows), shown)
        self.zones |= parsed.zones
        self.check_zones(layout, where)
        for name, n in parsed.late.items():
            self.late[name] = self.late.get(name, 0) + n
        if parsed.batch.n == 0:
            return
        if PLAIN in parsed.zones:
            self.latest = max(self.latest, float(parsed.batch.time.max()))
        hashes = row_hashes(_content(parsed.batch, layout))
        self.content.add(hashes, parsed.number)
        self.copies.add(hashes)
        self.sample.add(parsed.batch, hashes, parsed.number)

    def merge(self, other: Tally) -> None:
        """Add what was found in a later part."""
        self.read += other.read
        self.rejected += other.rejected
        for key, (rows, examples) in other.reasons.items():
            self._blame(key, rows, examples)
        self.zones |= other.zones
        self.latest = max(self.latest, other.latest)
        for name, n in other.late.items():
            self.late[name] = self.late.get(name, 0) + n
        self.content.merge(other.content)
        self.copies.merge(other.copies)
        self.sample.merge(other.sample)

    def _blame(self, key: tuple[str, str], rows: int, examples: list[tuple[int, Any]]) -> None:
        before, shown = self.reasons.get(key, (0, []))
        self.reasons[key] = before + rows, [*shown, *examples][:_EXAMPLES]

    def check_zones(self, layout: Layout, where: str) -> None:
        """Refuse times of which some say their zone and others do not."""
        if {AWARE, NAIVE} <= self.zones:
            raise InvalidInput(
                f"{where}: mixed time zones in {layout.time!r}: some times say their zone and "
                "others do not, so that their order is unknown; write all of them with a zone, "
                "such as 2024-05-01T12:00:00Z, or none"
            )

    def report(self, layout: Layout, where: str, warnings: list[str]) -> ReadReport:
        """Return the report, or refuse a log that as a whole cannot be what was declared."""
        valid = self.read - self.rejected
        if self.read == 0:
            raise InvalidInput(f"{where}: the log has no rows")
        self.check_zones(layout, where)
        reasons = sorted(self.reasons.items(), key=lambda one: -one[1][0])
        listed = [
            {"reason": reason, "column": column, "rows": rows, "examples": examples}
            for (column, reason), (rows, examples) in reasons
        ]
        if valid == 0:
            why = "; ".join(_sentence(one) for one in listed[:5])
            raise InvalidInput(f"{where}: none of {self.read:,} rows fits the schema: {why}")
        duplicates, is_exact = self.copies.count()
        said = list(warnings) + list(layout.warnings) + self._times(layout)
        known, asked = jointly_of(self.sample, layout)
        said += suspects_of(self.sample, layout) + asked
        leaks = leaks_of(self.sample, layout) + known + self._late(layout)
        if duplicates:
            about = "" if is_exact else "about "
            sentence = (
                f"{about}{duplicates:,} of {valid:,} rows ({duplicates / valid:.1%}) are exact "
                "copies of an earlier row"
            )
            if not tells_rows_apart(self.sample, layout):
                told = f"{sentence[:1].upper()}{sentence[1:]}"
                said.append(
                    f"{told}; no time or context column tells rows apart: it may be chance."
                )
            elif duplicates > _MOST * valid:
                raise InvalidInput(f"{where}: {sentence}: was it written several times?")
            else:
                leaks.append(f"{sentence[:1].upper()}{sentence[1:]}: was a part written twice?")
        return ReadReport(self.read, valid, self.rejected, listed, said, leaks, duplicates)

    def mostly_broken(self) -> list[tuple[str, int]]:
        """Return the columns that break the schema in most rows, and in how many."""
        by_column: dict[str, int] = {}
        for (column, _), (rows, _) in self.reasons.items():
            by_column[column] = by_column.get(column, 0) + rows
        return [(name, n) for name, n in by_column.items() if n > _MOST * self.read]

    def _times(self, layout: Layout) -> list[str]:
        said = []
        if NAIVE in self.zones:
            said.append(f"Times in '{layout.time}' do not say their zone; they are read as UTC.")
        if PLAIN in self.zones and len(self.zones) > 1:
            said.append(f"'{layout.time}' has dates and bare numbers; numbers are read as seconds.")
        if self.latest > 1e11:
            said.append(
                f"'{layout.time}' has numbers beyond the year 5000 if they are seconds since 1970: "
                "are they milliseconds?"
            )
        return said

    def _late(self, layout: Layout) -> list[str]:
        return [
            f"The context column '{name}' was known only after the decision in {_rows(n)}."
            for name, n in self.late.items()
            if n
        ]


def _content(batch: Batch, layout: Layout) -> list[Any]:
    """Return the columns that are the log's own: a row's number is not."""
    columns = [batch.x, batch.action, batch.outcome]
    columns += [batch.time] if layout.time else []
    columns += [batch.unit] if layout.unit else []
    status = batch.statuses if batch.statuses is not None else batch.status
    more = [batch.recommended, status, batch.reviewer, batch.propensity, batch.label, batch.reward]
    more.append(batch.observed)
    return columns + [one for one in more if one is not None]


def _plain(value: Any) -> Any:
    """Return a value as it may stand in JSON, and not too long."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and value - value == 0.0:
        return value
    text = str(value.to_list() if hasattr(value, "to_list") else value)
    return text if len(text) <= 80 else f"{text[:77]}..."
