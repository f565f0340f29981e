"""Plain records of arrays that travel through a round, and their bytes.

Shapes: N rows, K arms, M actions a row, D action columns, C coordinates, q scaler columns,
G gates. A row is one decision; `unit` says whose state it touches.
"""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from gdcb.arrays import Array, namespace
from gdcb.errors import InvalidInput

# What became of a proposal at a gate. Stored in ledgers: append only.
PASSED, MODIFIED, VETOED, HELD, EXPIRED = range(5)
NOT_REACHED = -1
STATUS = ("passed", "modified", "vetoed", "held", "expired")

FORMAT = 1
R = TypeVar("R")


@dataclass(slots=True)
class Rows:
    """N decisions to be made.

    Parameters
    ----------
    unit : (N,) integers, whose learner decides
    group : (N,) integers, the group that the unit belongs to
    x : (N, p) context, finite
    mask : (N, K) booleans or None, the arms that may be proposed
    hidden : (N, h) or None, what gate and world see and the learner never does
    """

    unit: Array
    group: Array
    x: Array
    mask: Array | None = None
    hidden: Array | None = None

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.x.shape[0])

    def take(self, index: Any) -> Rows:
        """Return the rows at `index`."""
        return Rows(
            self.unit[index],
            self.group[index],
            self.x[index],
            None if self.mask is None else self.mask[index],
            None if self.hidden is None else self.hidden[index],
        )

    @staticmethod
    def concatenate(some: list[Rows]) -> Rows:
        """Join rows in order."""
        return _joined(Rows, some)


@dataclass(slots=True)
class Located:
    """Actions seen from the arms: M actions in each of N rows.

    Parameters
    ----------
    arm : (N, M) nearest arm, −1 where no arm is comparable (an unknown category)
    coord : (N, M, C) coordinates that the outcome can see, in the arms' own scale
    measure : returns `steps`; a decision never asks, credit does
    is_nominal : the actions are the K arms themselves, in order; arrays then have one row
    """

    arm: Array
    coord: Array
    measure: Callable[[], Array]
    is_nominal: bool = False

    @property
    def steps(self) -> Array:
        """Distance (N, M) to the nearest arm in steps, the maximum over coordinates."""
        return self.measure()


@dataclass(slots=True)
class Setting:
    """Where N rows stand: whose posterior speaks, in which context, under which δ.

    Parameters
    ----------
    cell : (N,) a unit, or a unit's band of δ
    x : (N, p) context; only contextual learners read it
    delta : (N, 1 or K, q) scaler output in force; only forms that rebuild the action read it
    """

    cell: Array
    x: Array | None = None
    delta: Array | None = None


@dataclass(slots=True)
class Evidence:
    """What N executed rows say to the bandit.

    Parameters
    ----------
    cell : (N,) whose posterior learns (a unit, or a unit's band of δ)
    arm : (N,) arm that is credited, −1: none, only the response curve learns
    coord : (N, C) coordinate of the executed action under the δ in force
    y : (N,) learning target: class in [0, 1] or reward
    scale : (N,) declared reward scale s(x), or None for 1
    weight : (N,) non-negative, 0: ignore
    x, delta : (N, p), (N, 1 or K, q) context and δ in force, as in `Setting`
    """

    cell: Array
    arm: Array
    coord: Array
    y: Array
    scale: Array | None
    weight: Array
    x: Array | None = None
    delta: Array | None = None


@dataclass(slots=True)
class Decision:
    """What was proposed, before any gate.

    Parameters
    ----------
    arm : (N,) proposed nominal arm a
    action : (N, D) recommended executable e_rec = Φ(a, δ)
    delta : (N, 1 or K, q) scaler output δ_θ(x)
    version : (N,) version of the scaler that gave δ
    worth : (N, K) sampled value of each arm behind the gate, −inf where masked
    actions : (N, K, D) what every arm would have proposed
    """

    arm: Array
    action: Array
    delta: Array
    version: Array
    worth: Array
    actions: Array


@dataclass(slots=True)
class Verdict:
    """What the gates made of the proposals.

    Parameters
    ----------
    action : (N, D) what may run; NaN: nothing (vetoed, held)
    status : (N,) PASSED, MODIFIED, VETOED, HELD or EXPIRED
    trail : (N, G+1, D) what entered each gate, and what left the last
    statuses : (N, G) status at each gate, NOT_REACHED behind a veto or a hold; EXPIRED where
        nobody answered, also where a declared action then took the proposal's place
    faults : {(row, gate): sentence} of gates that raised or answered nonsense
    """

    action: Array
    status: Array
    trail: Array
    statuses: Array
    faults: dict[tuple[int, int], str]

    @property
    def gate(self) -> Array:
        """The gate (N,) that had the last word; −1: none acted."""
        n_gates = self.statuses.shape[1]
        acted = np.where(self.statuses > PASSED, np.arange(n_gates), -1)
        return np.asarray(acted.max(axis=1, initial=-1))

    def take(self, index: Array) -> Verdict:
        """Return the rows at `index`, without what was said of faults."""
        action, status = self.action[index], self.status[index]
        return Verdict(action, status, self.trail[index], self.statuses[index], {})

    @staticmethod
    def concatenate(verdicts: list[Verdict]) -> Verdict:
        """Join verdicts in order, without what was said of faults."""
        return Verdict(
            np.concatenate([one.action for one in verdicts]),
            np.concatenate([one.status for one in verdicts]),
            np.concatenate([one.trail for one in verdicts]),
            np.concatenate([one.statuses for one in verdicts]),
            {},
        )


@dataclass(slots=True)
class Executed:
    """What really ran: the verdict's action, or the null action where nothing was let through.

    Parameters
    ----------
    action : (N, D) executed action; NaN only where the null action is 'nothing'
    is_null : (N,) whether the null action ran
    is_own : (N,) whether the proposal ran unchanged
    is_override : (N,) whether a person put another action in its place
    """

    action: Array
    is_null: Array
    is_own: Array
    is_override: Array


@dataclass(slots=True)
class Log:
    """Finished rows as columns: all that a refold needs. See `Executed` for the flags.

    `propensity` (N,) is how likely the executed arm was, where somebody asked (AIPW does).
    """

    unit: Array
    group: Array
    x: Array
    arm: Array
    version: Array
    action: Array
    is_null: Array
    is_own: Array
    is_override: Array
    y: Array
    scale: Array | None
    weight: Array
    propensity: Array | None = None

    def take(self, index: Array) -> Log:
        """Return the rows at `index`."""
        columns: dict[str, Any] = {}
        for field in dataclasses.fields(Log):
            column = getattr(self, field.name)
            columns[field.name] = None if column is None else column[index]
        return Log(**columns)

    @staticmethod
    def concatenate(logs: list[Log]) -> Log:
        """Join logs in order."""
        return _joined(Log, logs)


@dataclass(slots=True)
class History:
    """Finished rows of another policy, and what the gates made of its proposals.

    Parameters
    ----------
    log : (N,) what ran and what came of it; arms and versions of −1: credit goes by what ran
    rows, verdict : the same rows as the gates saw them, for whoever learns the gates
    kernels : what the gates' kernels know of them, where somebody has worked it out already
    plain : the same rows as the scaler learns them, where `log` holds outcomes that were adjusted
        for the arms; None: both loops learn `log`
    label : (N, labels) what a scaler of labels learns, NaN: not seen; None: it learns nothing here
    limits : how far δ̂ may go, of every owner (`gdcb.delta_limits`); None: as far as it likes
    """

    log: Log
    rows: Rows
    verdict: Verdict
    kernels: tuple[Any, ...] | None = None
    plain: Log | None = None
    label: Array | None = None
    limits: Any = None

    def take(self, index: Array) -> History:
        """Return the rows at `index`; what the kernels know is of all rows, and left out."""
        return History(
            self.log.take(index),
            self.rows.take(index),
            self.verdict.take(index),
            None,
            None if self.plain is None else self.plain.take(index),
            None if self.label is None else self.label[index],
            self.limits,
        )

    def of(self, loop: str) -> Log:
        """Return the rows that a loop ('scaler', 'arms') learns from."""
        return self.plain if loop == "scaler" and self.plain is not None else self.log


def _joined(kind: type[R], records: list[R]) -> R:
    """Join records of columns, row behind row; what the first lacks all lack."""
    columns: dict[str, Any] = {}
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        parts = [getattr(record, field.name) for record in records]
        columns[field.name] = None if parts[0] is None else namespace(parts[0]).concat(parts)
    return kind(**columns)


def take_rows(draw: Any, index: Any) -> Any:
    """Return the rows at `index` of an array, or of every array in a tuple of them."""
    if isinstance(draw, tuple):
        return tuple(take_rows(part, index) for part in draw)
    return draw[index]


def copy(record: R) -> R:
    """Return a deep copy of a record of arrays."""
    if isinstance(record, np.ndarray):
        return record.copy()
    if isinstance(record, tuple):
        return tuple(copy(part) for part in record)  # type: ignore[return-value]
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        fields = {f.name: copy(getattr(record, f.name)) for f in dataclasses.fields(record)}
        return type(record)(**fields)
    return record


def to_host(record: R) -> R:
    """Return a record of arrays with NumPy's in place of a device's."""
    same: R = _mapped(record, lambda a: a.cpu().numpy() if hasattr(a, "cpu") else a)
    return same


def beside(record: R, array: Array) -> R:
    """Return a record of arrays where `array` is: itself, or a copy on its device."""
    xp = namespace(array)
    there: R = record
    if xp is not np:
        there = _mapped(record, lambda part: xp.asarray(part, device=array.device))
    return there


def _mapped(record: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(record, tuple):
        return tuple(_mapped(part, change) for part in record)
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        fields = dataclasses.fields(record)
        return type(record)(**{f.name: _mapped(getattr(record, f.name), change) for f in fields})
    return change(record) if _is_array(record) else record


def _is_array(record: Any) -> bool:
    return isinstance(record, np.ndarray) or hasattr(record, "is_floating_point")


def flatten(record: Any, prefix: str = "") -> dict[str, Array]:
    """Return the arrays of a nested record by dotted name."""
    if record is None:
        return {}
    if _is_array(record):
        return {prefix: record}
    if isinstance(record, tuple):
        named = [(str(i), part) for i, part in enumerate(record)]
    else:
        named = [(f.name, getattr(record, f.name)) for f in dataclasses.fields(record)]
    found: dict[str, Array] = {}
    for name, part in named:
        found.update(flatten(part, f"{prefix}.{name}" if prefix else name))
    return found


def to_bytes(record: Any) -> bytes:
    """Write a record of arrays as a versioned npz; the same record gives the same bytes."""
    header = np.frombuffer(
        json.dumps({"format": FORMAT, "type": type(record).__name__}).encode(), dtype=np.uint8
    )
    buffer = io.BytesIO()
    arrays: dict[str, Any] = flatten(record)
    np.savez(buffer, header=header, **arrays)
    return buffer.getvalue()


def from_bytes(data: bytes, like: R) -> R:
    """Read what `to_bytes` wrote into the shape of `like`; refuse anything else.

    A field whose metadata says 'since' may be missing: states that were written before it was
    there keep what `like` has.
    """
    expected = flatten(like)
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            if any(member.compress_type for member in archive.zip.infolist()):
                raise ValueError("it is compressed, and might be of any size")
            found = {name: archive[name] for name in archive.files}
        header = json.loads(found.pop("header").tobytes())
        kind = (header["format"], header["type"])
    except Exception as error:  # broken zip files have many exceptions
        raise InvalidInput(f"state: not a gdcb state ({error})") from error
    if kind != (FORMAT, type(like).__name__):
        raise InvalidInput(
            f"state: expected format {FORMAT} of {type(like).__name__}, got {header}"
        )
    later = tuple(f"{f.name}." for f in dataclasses.fields(like) if "since" in f.metadata)  # type: ignore[arg-type]
    if later and not any(name.startswith(later) for name in found):
        found |= {name: one.copy() for name, one in expected.items() if name.startswith(later)}
    if set(found) != set(expected):
        odd = sorted(set(found) ^ set(expected))
        raise InvalidInput(f"state: arrays do not match this learner: {', '.join(odd)}")
    for name, array in found.items():
        if array.dtype != expected[name].dtype or array.shape != expected[name].shape:
            raise InvalidInput(
                f"state: {name} has shape {array.shape} and type {array.dtype}, "
                f"expected {expected[name].shape} and {expected[name].dtype}"
            )
    rebuilt: R = _rebuild(like, found, "")
    return rebuilt


def _rebuild(like: Any, found: dict[str, Array], prefix: str) -> Any:
    if like is None:
        return None
    if isinstance(like, np.ndarray):
        return found[prefix]
    dotted = f"{prefix}." if prefix else ""
    if isinstance(like, tuple):
        return tuple(_rebuild(part, found, f"{dotted}{i}") for i, part in enumerate(like))
    fields = dataclasses.fields(like)
    return type(like)(
        **{f.name: _rebuild(getattr(like, f.name), found, f"{dotted}{f.name}") for f in fields}
    )


def grow(small: R, large: R) -> R:
    """Copy `small` into the front of `large`: the same record with longer arrays.

    A joint posterior of a group's cells is longer in every axis.
    """
    source, target = flatten(small), flatten(large)
    for name, array in source.items():
        target[name][tuple(slice(n) for n in array.shape)] = array
    return large


def replace_rows(record: Any, fresh: Any, index: dict[str, Array]) -> None:
    """Overwrite some rows of `record` by those of `fresh`, in place.

    A field's leading axis is 'cell' unless its metadata says 'pool' (one row a group and band)
    or 'constant' (left alone). Records inside a record, alone or in a tuple, speak for themselves.
    """
    for field in dataclasses.fields(record):
        axis = field.metadata.get("axis", "cell")
        if axis == "constant":
            continue
        mine, theirs = getattr(record, field.name), getattr(fresh, field.name)
        if isinstance(mine, np.ndarray):
            mine[index[axis]] = theirs[index[axis]]
        elif isinstance(mine, tuple):
            for part, other in zip(mine, theirs, strict=True):
                replace_rows(part, other, index)
        else:
            replace_rows(mine, theirs, index)
