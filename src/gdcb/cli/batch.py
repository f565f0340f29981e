"""A file of rows at a desk: which requests it is, what stands under their ids, and the answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gdcb.cli import rows
from gdcb.errors import Conflict, GdcbError, InvalidInput

if TYPE_CHECKING:
    import polars as pl

    from gdcb.ledger.live import Live
    from gdcb.ledger.store import Store
    from gdcb.service.deciding import Answer, Request
    from gdcb.service.desk import Desk
    from gdcb.service.line import Job
    from gdcb.service.policy import Policy
    from gdcb.service.turn import Turn

BY = "command line [console]"


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns say what beside the context.

    Parameters
    ----------
    unit, subject : names of columns
    incumbent : as given on the command line, for `rows.incumbent_columns`
    """

    unit: str
    subject: str
    incumbent: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of a file that are one request.

    Parameters
    ----------
    id : of the request
    rows : which rows
    is_known : whether it was decided before
    """

    id: str
    rows: slice
    is_known: bool


def decided(
    store: Store, name: str, frame: pl.DataFrame, id: str, columns: Columns
) -> dict[str, Any]:
    """Decide all rows, as many at once as the instance takes; return the answer's document."""
    from gdcb.service import deciding
    from gdcb.service.desk import Desk

    desk: Desk = Desk(store, name)
    try:
        policy = desk.policy
        size = deciding.most_rows(desk.instance, policy)
        parts = _parts(store, name, id, frame.height, size)
        # All parts are checked before any is decided.
        wanted, read = _requests(desk, frame, parts, columns)
        answers = _answers(desk, wanted, id)
        then = [row for answer in answers for row in deciding.answer_rows(answer, policy)]
        is_new = [answer.is_new for answer in answers for _ in answer.request.units]
        decisions = _as_now(desk, then, is_new)
    finally:
        desk.close()
    settled = [
        now["status"]
        for before, now in zip(then, decisions, strict=True)
        if before["status"] == "held" != now["status"]
    ]
    let_through = sum(status in ("passed", "modified") for status in settled)
    return {
        "instance": name,
        "requests": [request.id for request in wanted],
        "is_new": any(is_new),
        "held": sum(row["status"] == "held" for row in decisions),
        "let_through_since": let_through,
        "stopped_since": len(settled) - let_through,
        "not_read": [column for column in frame.columns if column not in read],
        "decisions": decisions,
    }


def _as_now(
    desk: Desk, then: Sequence[dict[str, Any]], is_new: Sequence[bool]
) -> list[dict[str, Any]]:
    """Return rows as they stand now: people may have answered what was decided before."""
    from gdcb.service import deciding

    if all(is_new):
        return list(then)

    def read(live: Live) -> list[dict[str, Any]]:
        found = []
        for row, is_fresh in zip(then, is_new, strict=True):
            now = row if is_fresh else deciding.document(live.instance, live.records[row["id"]])
            found.append({field: now[field] for field in row})
        return found

    return desk.look(read).result()


def _parts(store: Store, name: str, id: str, n: int, size: int) -> list[Part]:
    """Divide n rows into requests: as they were the first time, and the rest by what is taken now.

    How many rows a request may have can change. Were the parts to follow it, the same rows would
    stand under other ids, and be decided once more.
    """
    if id in store.places(name, [id]):
        return [Part(id, slice(0, n), True)]
    parts: list[Part] = []
    start = 0
    while True:
        part = _part(id, len(parts) + 1)
        place = store.places(name, [part]).get(part)
        if place is None:
            break
        if start + place.n > n:
            raise Conflict(f"id: {id!r} was used before, for another number of rows")
        parts.append(Part(part, slice(start, start + place.n), True))
        start += place.n
    if not parts and n <= size:
        return [Part(id, slice(0, n), False)]
    for first in range(start, n, size):
        stop = min(first + size, n)
        parts.append(Part(_part(id, len(parts) + 1), slice(first, stop), False))
    return parts


def _part(id: str, number: int) -> str:
    # No hyphen: 'week-1' may well be a request of its own, beside 'week'.
    return f"{id}~{number}"


def _requests(
    desk: Desk, frame: pl.DataFrame, parts: Sequence[Part], columns: Columns
) -> tuple[list[Request], set[str]]:
    """Read and check all rows; return the requests, and the names of the columns read."""
    from gdcb.service import deciding

    instance, policy = desk.instance, desk.policy
    has_new = not all(part.is_known for part in parts)
    units = rows.texts_of(frame, columns.unit)
    if units is None and columns.unit != "unit":
        raise InvalidInput(f"--unit-column: there is no column {columns.unit}")
    subjects = rows.texts_of(frame, columns.subject) if policy.personal else None
    if policy.personal and subjects is None and has_new:
        raise InvalidInput(
            f"--subject-column: there is no column {columns.subject}, and "
            f"{', '.join(policy.personal)} is personal"
        )
    named = rows.incumbent_columns(instance, frame, columns.incumbent)
    launch = policy.launch
    if named is None and has_new and launch.mode != "live" and launch.incumbent == "given":
        usual = ", ".join(f"incumbent_{part.name}" for part in instance.actions)
        raise InvalidInput(
            f"--incumbent-column: there is no column {usual}, and this instance runs in mode "
            f"'{launch.mode}': say what runs where the proposal does not"
        )
    x = instance.context.encode(rows.contexts_of(instance, frame))
    instead = None if named is None else rows.incumbents_of(instance, frame, named)
    wanted = [
        deciding.encoded(
            instance,
            _policy_for(policy, part, instead is not None, subjects is not None),
            part.id,
            x[part.rows],
            False,
            BY,
            "default" if units is None else units[part.rows],
            incumbent=None
            if instead is None
            else {action: values[part.rows] for action, values in instead.items()},
            subject=None if subjects is None else subjects[part.rows],
        )
        for part in parts
    ]
    read = {*instance.context.columns, *(named or {}).values()}
    read |= {columns.unit} if units is not None else set()
    return wanted, read | ({columns.subject} if subjects is not None else set())


def _policy_for(policy: Policy, part: Part, has_incumbent: bool, has_subject: bool) -> Policy:
    """Return a policy that asks nothing more of what was decided before than was asked then."""
    from gdcb.service.policy import Launch

    changed: dict[str, Any] = {}
    if part.is_known and not has_incumbent:
        changed["launch"] = Launch()
    if part.is_known and not has_subject:
        changed["personal"] = ()
    return policy.model_copy(update=changed)


def _answers(desk: Desk, wanted: Sequence[Request], id: str) -> list[Answer]:
    """Decide one request after the other; where one fails, say what stands."""
    answers: list[Answer] = []
    for request in wanted:
        try:
            answers.append(desk.put(_job(request, id)).result())
        except GdcbError as error:
            n = sum(len(answer.request.units) for answer in answers)
            if not n:
                raise
            raise Conflict(
                f"{error}. The first {n} rows were decided, and stay so; the same file again "
                "goes on behind them"
            ) from error
    return answers


def _job(request: Request, id: str) -> Job:
    """Return the job that decides a part, unless the file was divided otherwise meanwhile."""
    from gdcb.service import deciding

    rival = _part(id, 1) if request.id == id else id

    def decide_unless(turn: Turn, jobs: Sequence[Job]) -> None:
        # Looked up within the transaction: another process may have run with another limit.
        if turn.writing is not None and turn.writing.places([rival]):
            raise Conflict(f"id: {id!r} is being decided by somebody else; ask once more")
        deciding.decide(turn, jobs)

    job = deciding.job(request)
    job.together = decide_unless
    return job
