"""Decide: requests that wait together are proposed for, judged and written down together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb import events as ev
from gdcb.arguments import mask_of, units_of
from gdcb.arrays import Array
from gdcb.cases import Record, made_event, rows_of
from gdcb.errors import Conflict, GdcbError, InvalidInput, OutOfMemory
from gdcb.instance import Instance
from gdcb.ledger.changing import settings_of
from gdcb.ledger.entry import check_names
from gdcb.ledger.live import Live
from gdcb.outlook import keyed
from gdcb.parts import check_text
from gdcb.records import STATUS, Rows
from gdcb.service.incumbents import incumbents_of
from gdcb.service.line import Job
from gdcb.service.policy import Policy
from gdcb.service.turn import Turn
from gdcb.service.who import id_of, name_of

LONGEST_ID = 120
# What rows cost: some 100 to 200 bytes for every arm, and to locate moved arms a distance to every
# arm from each of the others, in time; see `gdcb.arrays.in_parts`.
MOST_CHOICES = 2_000_000  # rows × arms that are decided together
MOST_DISTANCES = 1_000_000_000  # rows × arms²
MEBIBYTE = 2**20
_ROW_LIKE = re.compile(r"\.[0-9]+$")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@+~-]*")


@dataclass(frozen=True, slots=True)
class Request:
    """A request to decide n rows, checked and encoded against an instance.

    Parameters
    ----------
    id, is_one : its id, and whether one decision is wanted and not a batch
    units, x, mask : (n), (n, p) and (n, K); mask None: all arms
    incumbent : (n, D) what runs where the proposal does not; None: everything is live
    by : who asks
    instance : what it was encoded for
    subjects : (n) whom each row is about; None: no field of the instance is personal
    """

    id: str
    is_one: bool
    units: list[str]
    x: Array
    mask: Array | None
    incumbent: Array | None
    by: str
    instance: Instance
    subjects: list[str] | None = None

    @property
    def ids(self) -> list[str]:
        """The ids of its decisions."""
        return [self.id] if self.is_one else [f"{self.id}.{i}" for i in range(self.x.shape[0])]


@dataclass(frozen=True, slots=True)
class Answer:
    """What was decided on a request: rows `first` to before `first + n` of its events."""

    request: Request
    made: ev.DecisionMade
    judged: ev.GateApplied
    first: int
    version: int
    is_new: bool


def check_id(id: str, is_one: bool = True) -> str:
    """Refuse an id that cannot be one, or that a row of a batch would have."""
    check_text("id", id)
    if len(id) > LONGEST_ID or not _ID.fullmatch(id):
        raise InvalidInput(
            f"id: expected at most {LONGEST_ID} of letters, digits and _.:@+~-, beginning with a "
            "letter or digit"
        )
    if is_one and _ROW_LIKE.search(id):
        raise InvalidInput("id: may not end in .NUMBER, which names the rows of a batch")
    return id


def request_of(
    instance: Instance,
    policy: Policy,
    id: str,
    contexts: Sequence[Mapping[str, Any]],
    is_one: bool,
    by: str,
    unit: Any,
    mask: Any = None,
    incumbent: Any = None,
    subject: Any = None,
) -> Request:
    """Check a request and encode it; refuse it whole where one row is wrong."""
    if not contexts:
        raise InvalidInput("contexts: expected at least one row, got none")
    check_rows(instance, policy, len(contexts))
    return encoded(
        instance,
        policy,
        id,
        instance.context.encode(contexts),
        is_one,
        by,
        unit,
        mask,
        incumbent,
        subject,
    )


def most_rows(instance: Instance, policy: Policy) -> int:
    """Return how many rows a request may have: `batch`, or fewer where there are many arms."""
    return max(1, min(policy.batch, _most_at_once(instance)))


def _most_at_once(instance: Instance) -> int:
    """Return how many rows may be decided together, of one request or of several."""
    n_arms = instance.space.n
    most = MOST_CHOICES // n_arms
    if instance.space.n_coords > 1 or instance.scaler.n_arms > 1:  # a moved arm meets all others
        most = min(most, MOST_DISTANCES // n_arms**2)
    return most


def check_rows(instance: Instance, policy: Policy, n: int) -> None:
    """Refuse a request of more rows than can be decided together."""
    most = most_rows(instance, policy)
    if n > most:
        why = "" if most == policy.batch else f" of {instance.space.n:,} arms each"
        raise InvalidInput(f"contexts: expected at most {most} rows{why}, got {n}")


def encoded(
    instance: Instance,
    policy: Policy,
    id: str,
    x: Array,
    is_one: bool,
    by: str,
    unit: Any,
    mask: Any = None,
    incumbent: Any = None,
    subject: Any = None,
) -> Request:
    """Check a request whose contexts were checked and encoded already."""
    n = x.shape[0]
    allowed = mask_of(instance, mask, n)
    units = units_of(unit, n)
    if allowed is not None:
        instance.check_mask(allowed, n)
    given = incumbents_of(policy, instance, incumbent, x)
    about = subjects_of(policy, subject, n)
    return Request(check_id(id, is_one), is_one, units, x, allowed, given, by, instance, about)


def subjects_of(policy: Policy, given: Any, n: int) -> list[str] | None:
    """Return whom n rows are about; where no field is personal, nobody."""
    if given is None and not policy.personal:
        return None
    if given is None:
        raise InvalidInput(
            f"subject: expected whom the row is about, since {', '.join(policy.personal)} is "
            "personal here"
        )
    if not policy.personal:
        raise InvalidInput("subject: expected none, since no field of this instance is personal")
    found = [given] * n if isinstance(given, str) else list(given)
    if len(found) != n:
        raise InvalidInput(f"subject: expected one, or one a row ({n}), got {len(found)}")
    check_names("subject", dict.fromkeys(found))
    return found


def job(request: Request) -> Job:
    """Return the job that decides a request, together with all others that wait."""
    return Job(together=decide, what=request)


def decide(turn: Turn, jobs: Sequence[Job]) -> None:
    """Answer all requests: those that were answered before as they were, the others together."""
    fresh: dict[str, Job] = {}
    again: list[Job] = []
    newcomers: set[str] = set()
    known = _known(turn, [one.what.id for one in jobs])
    for one in jobs:
        request: Request = one.what
        if request.id in known or request.id in fresh:
            again.append(one)
            continue
        try:
            check_open(turn)
            check_current(turn, request)
            newcomers |= check_room(turn, request, newcomers)
            fresh[request.id] = one
        except GdcbError as error:
            one.error = error
    for some in _together(list(fresh.values())):
        try:
            answers = _decided(turn, [one.what for one in some])
        except MemoryError as error:
            raise OutOfMemory() from error
        for one, answer in zip(some, answers, strict=True):
            one.answer = answer
    for one in again:
        try:
            _check_asker(turn.live, one.what)
            one.answer = same_again(turn.live, one.what)
            _check_subjects(turn, one.answer)
            if turn.policy.launch.incumbent == "given":
                _check_incumbent(one.answer)
        except GdcbError as error:
            one.error = error


def _together(jobs: Sequence[Job]) -> list[list[Job]]:
    """Divide jobs into those whose rows are decided at once, in their order."""
    parts: list[list[Job]] = []
    together = 0
    for one in jobs:
        request: Request = one.what
        n = len(request.units)
        together += n
        if not parts or together > _most_at_once(request.instance):
            parts.append([])
            together = n
        parts[-1].append(one)
    return parts


def _known(turn: Turn, requests: list[str]) -> set[str]:
    """Return the requests that were decided before, as the transaction sees it."""
    live = turn.live
    if turn.writing is not None:
        found = set(turn.writing.places(requests))
    else:
        found = set(live.store.places(live.chain, requests))
    return found | (live.stored.places.keys() & set(requests))


def check_same(live: Live, instance: Any) -> None:
    """Refuse what was worked out for an instance that is no longer in force."""
    other = live.instance
    # A fold that was opened again has the same instance in another object.
    if instance is not other and settings_of(instance) != settings_of(other):
        raise Conflict("the instance has changed since the request came; ask once more")


def check_current(turn: Turn, request: Request) -> None:
    """Refuse a request that was encoded for what is no longer in force."""
    check_same(turn.live, request.instance)
    if turn.policy.launch.mode != "live" and request.incumbent is None:
        raise Conflict("the launch has changed since the request came; ask once more")
    if bool(turn.policy.personal) != (request.subjects is not None):
        raise Conflict("which fields are personal has changed since; ask once more")


def check_open(turn: Turn) -> None:
    """Refuse decisions while the instance is paused, or after its end."""
    for what, stopped in (("retired", turn.live.retired), ("paused", turn.live.paused)):
        if stopped is not None:
            event, _, by = stopped
            raise Stopped(f"the instance is {what} by {name_of(by)}: {event.reason}")


def check_room(turn: Turn, request: Request, newcomers: set[str]) -> set[str]:
    """Return the new units of a request; refuse them where the policy's `memory` is too small.

    `newcomers` are those of the requests before.
    """
    live, most = turn.live, turn.policy.memory
    found = {one for one in request.units if one not in live.units and one not in newcomers}
    n = len(live.units) + len(newcomers) + len(found)
    if found and n > live.group.size:
        check_memory(live, n, most)
    return found


def check_memory(live: Live, n_units: int, most: int) -> None:
    """Refuse more units than `most` MiB have room for."""
    held = live.bytes_for(n_units)
    if held > most * MEBIBYTE:
        raise InvalidInput(
            f"unit: what is learned of {n_units:,} units would take {held / MEBIBYTE:,.0f} MiB, "
            f"more than the {most:,} MiB that `memory` of [service] allows; take units that are "
            "known, fewer new ones, or have the limit raised"
        )


class Stopped(Conflict):
    """Nothing is decided: the instance is paused or retired."""


def _decided(turn: Turn, requests: Sequence[Request]) -> list[Answer]:
    live, policy = turn.live, turn.policy
    ids = [id for one in requests for id in one.ids]
    batch = [one.id for one in requests for _ in one.units]
    units = [unit for one in requests for unit in one.units]
    row = np.concatenate([np.arange(len(one.units)) for one in requests])
    by = [one.by for one in requests for _ in one.units]
    x = np.concatenate([one.x for one in requests]) if len(requests) > 1 else requests[0].x
    rows = rows_of(live.places(units), x, _masks(requests, live.instance.space.n))
    # Drawn here, where the request is taken and its id can no longer be another one.
    nonce = [text for one in requests for text in [turn.nonce()] * len(one.units)]
    keys = list(zip(map(keyed, batch, nonce), row.tolist(), strict=True))
    share = policy.launch.live_share(turn.now)
    launched: Any = (None, "decision", None)
    if share is not None:
        given = [one.incumbent for one in requests if one.incumbent is not None]
        instead = np.concatenate(given)
        shares = np.full(len(ids), share)
        launched = live.launched(keys, units, shares, policy.launch.drawn_by, instead, nonce)
    decision = live.propose(keys, rows)
    version = len(live.events)
    made = made_event(decision, ids, batch, row, version, units, rows, launched, by, nonce)
    judged = live.gated(made, rows)
    who = by[0] if len(set(by)) == 1 else "several"
    subjects = [subject for one in requests for subject in one.subjects or ()]
    if subjects:
        made = turn.add_sealed(made, subjects, who)
    else:
        turn.add(made, who)
    follow(turn, judged, rows, who)
    answers, first = [], 0
    for one in requests:
        answers.append(Answer(one, made, judged, first, version + 1, True))
        first += len(one.units)
    return answers


def follow(turn: Turn, judged: ev.GateApplied, rows: Rows, by: str) -> None:
    """Add what the gates said, what runs at once, and whom to ask."""
    live = turn.live
    turn.add(judged, by)
    ran = live.released(judged, rows, only_null=turn.policy.execution == "report")
    for event in (ran, live.requested(judged)):
        if event is not None:
            turn.add(event, by)


def _masks(requests: Sequence[Request], n_arms: int) -> Array | None:
    if all(one.mask is None for one in requests):
        return None
    whole = [
        np.ones((len(one.units), n_arms), dtype=bool) if one.mask is None else one.mask
        for one in requests
    ]
    return np.concatenate(whole)


def _check_asker(live: Live, request: Request) -> None:
    """Refuse an id that another key or person used before anything of the request is compared.

    The answer would else be theirs, and whether contexts or subjects agree would tell what they
    asked.
    """
    record = live.records.find(request.id) or live.records.find(f"{request.id}.0")
    if record is None or record.made.by is None:
        return
    if id_of(record.made.by[record.at]) != id_of(request.by):
        raise Conflict(f"id: {request.id!r} was used before by another key or person")


def same_again(live: Live, request: Request) -> Answer:
    """Return what was decided on the request before; refuse another request under its id."""
    record = live.records.find(request.ids[0])
    place = live.stored.place(request.id)
    if place is None or place.n != len(request.units):
        raise Conflict(f"id: {request.id!r} was used before, for another number of rows")
    if record is None:
        was = "a batch" if request.is_one else "one decision"
        raise Conflict(f"id: {request.id!r} was used before, for {was}")
    made, first = record.made, record.at
    rows = slice(first, first + place.n)
    if not np.isfinite(made.x[rows]).all():
        raise Conflict(
            f"id: {request.id!r} was used before, and personal fields of it were erased since"
        )
    allowed = None if made.mask is None else made.mask[rows]
    same = (
        made.id[rows] == request.ids
        and made.unit[rows] == request.units
        and bool((made.x[rows] == request.x).all())
        and bool((_whole(allowed, request) == _whole(request.mask, request)).all())
    )
    if not same:
        raise Conflict(f"id: {request.id!r} was used before with another context, unit or mask")
    judged = live.events[place.seq + 1]
    if not isinstance(judged, ev.GateApplied):
        raise Conflict(f"id: {request.id!r} is being decided; ask once more")
    return Answer(request, made, judged, first, place.seq + 1, False)


def _check_incumbent(answer: Answer) -> None:
    """Refuse a request that gives another incumbent than before, where that one was to run."""
    request, instead = answer.request, answer.made.instead
    if instead is None or request.incumbent is None:
        return
    known = instead[answer.first : answer.first + len(request.units)]
    if not (np.isnan(known) | (known == request.incumbent)).all():
        raise Conflict(f"id: {request.id!r} was used before with another incumbent")


def _check_subjects(turn: Turn, answer: Answer) -> None:
    """Refuse a request that is about others than before."""
    request, keys = answer.request, answer.made.key
    if keys is None or request.subjects is None or turn.writing is None:
        return
    known = {key.subject: key.name for key in turn.writing.keys_of(request.subjects)}
    rows = slice(answer.first, answer.first + len(request.units))
    if keys[rows] != [known.get(subject) for subject in request.subjects]:
        raise Conflict(f"id: {request.id!r} was used before for another subject")


def _whole(mask: Array | None, request: Request) -> Array:
    shape = (len(request.units), request.instance.space.n)
    return np.ones(shape, dtype=bool) if mask is None else mask


def document(instance: Instance, record: Record) -> dict[str, Any]:
    """Return one decision as the API shows it."""
    at, made = record.at, record.made
    released = None
    if record.judged is not None:
        released = instance.decode_action(record.judged[0].action[record.judged[1]])
    return {
        "id": record.id,
        "unit": record.unit,
        "status": record.status,
        "arm": instance.space.names[int(made.arm[at])],
        "proposed": instance.decode_action(made.action[at]),
        "live": record.is_live,
        "action": released,
        "executed": None if record.executed is None else instance.decode_action(record.executed),
        "has_run": record.ran is not None,
        "reason": record.reason,
        "version": record.judged_at,
        "outcome": None
        if record.outcome is None
        else dict(zip(instance.reward.outcome, record.outcome, strict=True)),
    }


def answer_rows(answer: Answer, policy: Policy) -> list[dict[str, Any]]:
    """Return the decisions of an answer as the API shows them, as they were decided."""
    instance, made, judged = answer.request.instance, answer.made, answer.judged
    names, is_released = instance.space.names, policy.execution == "release"
    first, stop = answer.first, answer.first + len(answer.request.units)
    proposed, released = made.action[first:stop].tolist(), judged.action[first:stop].tolist()
    instead = made.instead
    rows = []
    for i in range(first, stop):
        status = STATUS[int(judged.status[i])]
        has_run = status != "held" and (is_released or status not in ("passed", "modified"))
        rows.append(
            {
                "id": made.id[i],
                "unit": made.unit[i],
                "status": status,
                "arm": names[int(made.arm[i])],
                "proposed": instance.named_action(proposed[i - first]),
                "live": instead is None or bool(np.isnan(instead[i]).any()),
                "action": instance.named_action(released[i - first]),
                "has_run": has_run,
                "reason": judged.reason[i],
                "version": answer.version,
            }
        )
    return rows
