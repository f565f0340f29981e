"""Hold what was recorded against what comes out: equal, equal to rounding, or different."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gdcb import events as ev
from gdcb.arrays import Array
from gdcb.cases import about

TOLERANCE = 1e-9
_DIGITS = re.compile(r"[\d.,]+")


@dataclass(frozen=True, slots=True)
class Difference:
    """Say what of a recorded event comes out otherwise.

    Parameters
    ----------
    seq, kind : number and kind of the entry
    id : decision, where it is about one; empty: the entry as a whole
    field : which of its fields; 'order' where it cannot have happened at that point
    recorded, recomputed : what it says, and what comes out
    """

    seq: int
    kind: str
    id: str
    field: str
    recorded: Any
    recomputed: Any

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "entry": self.seq,
            "kind": self.kind,
            "id": self.id,
            "field": self.field,
            "recorded": ev.plain(self.recorded),
            "recomputed": ev.plain(self.recomputed),
        }

    @property
    def says(self) -> str:
        """The same in a sentence."""
        of = f" of {self.id}" if self.id else ""
        if self.field == "order":
            return f"Entry {self.seq} ({self.kind}{of}): {self.recomputed}"
        old, new = _short(ev.plain(self.recorded)), _short(ev.plain(self.recomputed))
        return f"Entry {self.seq} ({self.kind}{of}): {self.field} is {old}, and comes out as {new}"


@dataclass(slots=True)
class Compared:
    """What became of the rows of one event, or of several.

    Parameters
    ----------
    rows : how many were worked out again
    rounded : how many of them are equal to rounding, and not to the bit
    differ : how many are not equal
    worded : how many are equal but for the sentence that says why: another version words it
        otherwise, and numbers and statuses are what was decided
    worst : largest distance of a number that is equal to rounding, relative where it is above 1
    """

    rows: int = 0
    rounded: int = 0
    differ: int = 0
    worded: int = 0
    worst: float = 0.0
    found: list[Difference] = field(default_factory=list)

    def add(self, other: Compared, keep: int) -> None:
        """Count another event's rows in; keep at most so many differences."""
        self.rows += other.rows
        self.rounded += other.rounded
        self.differ += other.differ
        self.worded += other.worded
        self.worst = max(self.worst, other.worst)
        self.found += other.found[: max(keep - len(self.found), 0)]

    def refuse(self, why: Compared) -> None:
        """Let every row of an event differ, which can also not have happened as it says."""
        self.rows = max(self.rows, why.rows)
        self.rounded, self.worded, self.differ = 0, 0, self.rows
        self.found += why.found

    def as_json(self) -> dict[str, Any]:
        """Return the counts."""
        equal = self.rows - self.rounded - self.differ
        return {
            "rows": self.rows,
            "equal": equal,
            "to_rounding": self.rounded,
            "differ": self.differ,
            "worded_otherwise": self.worded,
        }


def compare(
    seq: int, recorded: ev.Event, again: ev.Event, tolerance: float = TOLERANCE
) -> Compared:
    """Compare an event with what comes out in its place, row by row where it has rows."""
    ids = about(recorded)
    result = Compared(max(len(ids), 1))
    if again is recorded or _is_equal(recorded, again):
        return result
    kind, n = type(recorded).__name__, len(ids)
    if type(again) is not type(recorded) or len(about(again)) != n:
        told = [type(again).__name__, about(again)]
        result.found = [Difference(seq, kind, "", "id", [kind, ids], told)]
        result.differ = result.rows
        return result
    bad, near = np.zeros(result.rows, dtype=bool), np.zeros(result.rows, dtype=bool)
    texts: list[str] = []
    for name in _names(type(recorded)):
        old, new = getattr(recorded, name), getattr(again, name)
        if ev.is_same(old, new):
            continue
        if name not in recorded.columns or not _are_alike(old, new):
            bad[:] = True
            result.found.append(Difference(seq, kind, "", name, old, new))
        elif isinstance(old, np.ndarray):
            wrong, close, worst = _rows(old, new, tolerance)
            result.worst = max(result.worst, worst)
            near |= close
            bad |= wrong
            result.found += [
                Difference(seq, kind, ids[i], name, np.asarray(old[i]), np.asarray(new[i]))
                for i in np.flatnonzero(wrong)
            ]
        else:
            texts.append(name)
    worded = np.zeros(result.rows, dtype=bool)
    for name in texts:
        old, new = getattr(recorded, name), getattr(again, name)
        for i in [i for i in range(n) if old[i] != new[i]]:
            # A sentence holds rounded figures, which may tip where the numbers behind them do.
            if near[i] and _DIGITS.sub("#", old[i]) == _DIGITS.sub("#", new[i]):
                continue
            (worded if name == "reason" else bad)[i] = True
            result.found.append(Difference(seq, kind, ids[i], name, old[i], new[i]))
    result.worded = int((worded & ~bad).sum())
    result.differ, result.rounded = int(bad.sum()), int((near & ~bad).sum())
    return result


def _is_equal(one: ev.Event, other: ev.Event) -> bool:
    """Whether two events say the same; most do to the byte, which is quick to see."""
    if type(one) is not type(other):
        return False
    for name in _names(type(one)):
        old, new = getattr(one, name), getattr(other, name)
        if old is new:
            continue
        if isinstance(old, np.ndarray) and isinstance(new, np.ndarray):
            is_same = old.dtype == new.dtype and old.shape == new.shape
            if is_same and old.tobytes() == new.tobytes():
                continue
        if not ev.is_same(old, new):
            return False
    return True


_FIELDS: dict[type[ev.Told], tuple[str, ...]] = {}


def _names(kind: type[ev.Told]) -> tuple[str, ...]:
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(one.name for one in dataclasses.fields(kind))
    return _FIELDS[kind]


def with_rows(event: ev.Event, other: ev.Event, ids: set[str]) -> ev.Event:
    """Return an event with the rows of some decisions as another says; both are about the same."""
    at = [i for i, id in enumerate(about(event)) if id in ids]
    if not at or event is other or about(event) != about(other):
        return event
    changed: dict[str, Any] = {}
    for name in event.columns:
        mine, theirs = getattr(event, name), getattr(other, name)
        if not _are_alike(mine, theirs):
            continue
        changed[name] = mine.copy()
        for i in at:
            changed[name][i] = theirs[i]
    if isinstance(event, ev.GateApplied) and isinstance(other, ev.GateApplied):
        rows = {str(i) for i in at}
        kept = {key: said for key, said in event.faults.items() if key.split(" ")[0] not in rows}
        said = {key: said for key, said in other.faults.items() if key.split(" ")[0] in rows}
        changed["faults"] = kept | said
    return dataclasses.replace(event, **changed)


def refused(seq: int, event: ev.Event | None, kind: str, why: str) -> Compared:
    """Return that an event cannot have happened as it says."""
    ids = [] if event is None else about(event)
    id = ids[0] if len(ids) == 1 else ""
    rows = max(len(ids), 1)
    return Compared(rows, 0, rows, found=[Difference(seq, kind, id, "order", None, why)])


def compare_arrays(
    old: dict[str, Array], new: dict[str, Array], tolerance: float
) -> tuple[bool, float, list[str]]:
    """Compare named arrays: whether all are equal to the bit, the worst distance, which differ."""
    is_equal, worst, odd = True, 0.0, sorted(old.keys() ^ new.keys())
    for name in sorted(old.keys() & new.keys()):
        if ev.is_same(old[name], new[name]):
            continue
        is_equal = False
        if not _are_alike(old[name], new[name]) or old[name].dtype.kind != "f":
            odd.append(name)
            continue
        wrong, _, apart = _rows(old[name].reshape(1, -1), new[name].reshape(1, -1), tolerance)
        worst = max(worst, apart)
        odd += [name] if wrong.any() else []
    return is_equal and not odd, worst, odd


def _are_alike(old: Any, new: Any) -> bool:
    if isinstance(old, np.ndarray) and isinstance(new, np.ndarray):
        return bool(old.shape == new.shape and old.dtype == new.dtype)
    return isinstance(old, list) and isinstance(new, list) and len(old) == len(new)


def _rows(old: Array, new: Array, tolerance: float) -> tuple[Array, Array, float]:
    """Return the rows that differ, those that are only near, and how far those are apart."""
    n = old.shape[0]
    one, other = old.reshape(n, -1), new.reshape(n, -1)
    if old.dtype.kind != "f":
        wrong = (one != other).any(axis=1)
        return wrong, np.zeros(n, dtype=bool), 0.0
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    with np.errstate(invalid="ignore"):
        apart = np.abs(one - other) / np.maximum(np.abs(one), 1.0)
    apart = np.where(same, 0.0, apart)
    wrong = np.asarray(~(apart <= tolerance).all(axis=1))
    close = ~same.all(axis=1) & ~wrong
    return wrong, close, float(apart[close].max()) if close.any() else 0.0


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}…"
