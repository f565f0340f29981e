"""The tables of an export: their columns, and their rows as the chain is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gdcb import events as ev
from gdcb.codec import from_body
from gdcb.context import Category, Flag
from gdcb.declaration import Declaration
from gdcb.ledger.decided import Decided, decisions_of
from gdcb.ledger.evidence_story import context_of, status_of
from gdcb.ledger.store import Store

# Names that a context column cannot have here.
_DECISION = {"id", "request", "row", "unit", "at", "by", "arm", "live", "has_run", "told"}
_ENDED = {"status", "gate", "reason", "reviewer", "code", "words", "weight", "appeal"}
_PLACED = {"scaler_version", "version", "entry", "row_in_entry"}
_TAKEN = _DECISION | _ENDED | _PLACED
# Rows, each with the number of the entry that it is from.
Rows = Iterator[tuple[int, dict[str, Any]]]
_BEGINNINGS = ("proposed_", "entered_", "executed_", "outcome_", "status_", "context_")


def decision_schema(declared: Declaration) -> dict[str, Any]:
    """Return the columns of the table of decisions."""
    import polars as pl

    instance, time = declared.instance, pl.Datetime("us", "UTC")
    schema: dict[str, Any] = {"id": pl.String, "request": pl.String, "row": pl.Int64}
    schema |= {"unit": pl.String, "at": time, "by": pl.String}
    columns = context_columns(declared)
    for name, kind in instance.context.columns.items():
        is_text, is_flag = isinstance(kind, Category), isinstance(kind, Flag)
        schema[columns[name]] = pl.String if is_text else pl.Boolean if is_flag else pl.Float64
    schema |= {"arm": pl.String}
    for what in ("proposed", "entered", "executed"):
        schema |= _action_schema(declared, what)
    schema |= {"status": pl.String, "gate": pl.String, "reason": pl.String}
    schema |= {f"status_{gate.name}": pl.String for gate in instance.chain.gates}
    schema |= {"reviewer": pl.String, "code": pl.String, "words": pl.String}
    schema |= {"live": pl.Boolean, "has_run": pl.Boolean, "executed_at": time, "told": pl.Boolean}
    schema |= {f"outcome_{name}": pl.Float64 for name in instance.reward.outcome}
    schema |= {"outcome_at": time, "weight": pl.Float64, "appeal": pl.Boolean}
    schema |= {"scaler_version": pl.Int64, "version": pl.Int64, "entry": pl.Int64}
    return schema | {"row_in_entry": pl.Int64}


def context_columns(declared: Declaration) -> dict[str, str]:
    """Return under which name each context column stands: its own, unless that is taken."""
    names = declared.instance.context.columns
    return {name: f"context_{name}" if _is_taken(name) else name for name in names}


def _is_taken(name: str) -> bool:
    return name in _TAKEN or name.startswith(_BEGINNINGS)


def _action_schema(declared: Declaration, what: str) -> dict[str, Any]:
    import polars as pl

    columns = declared.instance.actions
    return {f"{what}_{one.name}": pl.String if one.levels else pl.Float64 for one in columns}


def decisions(store: Store, chain: str, size: int, declared: Declaration) -> Rows:
    """Yield a row a decision, with the number of its entry."""
    for decided in decisions_of(store, chain, size):
        yield decided.seq, _decision(decided, declared)


def _decision(one: Decided, declared: Declaration) -> dict[str, Any]:
    """Return one decision as a row; what is not there is null."""
    instance, record = declared.instance, one.record
    made, at = record.made, record.at
    row: dict[str, Any] = {
        "id": record.id,
        "request": made.batch[at],
        "row": int(made.row[at]),
        "unit": record.unit,
        "at": one.at,
        "by": one.by if made.by is None else made.by[at],
        "arm": instance.space.names[int(made.arm[at])],
        "status": record.status,
        "reason": record.reason,
        "live": record.is_live,
        "has_run": record.ran is not None,
        "executed_at": one.ran_at,
        "told": None if record.ran is None else record.ran[0].is_told,
        "outcome_at": one.seen_at,
        "weight": None if record.seen is None else record.weight,
        "appeal": None if record.appeal is None else record.appeal.upheld,
        "scaler_version": int(made.scaler_version[at]),
        "version": made.version,
        "entry": one.seq,
        "row_in_entry": at,
    }
    columns = context_columns(declared)
    row |= {columns[name]: value for name, value in context_of(instance, made.x[at]).items()}
    row |= _action(declared, "proposed", made.action[at])
    row |= _action(declared, "entered", record.entered)
    if record.ran is not None and not bool(record.ran[0].is_null[record.ran[1]]):
        row |= _action(declared, "executed", record.ran[0].action[record.ran[1]])
    if record.judged is not None:
        event, judged_row = record.judged
        statuses = [status_of(int(code)) for code in event.statuses[judged_row]]
        names = [gate.name for gate in instance.chain.gates]
        # Behind a veto or a hold a gate is not reached, which a log says with an empty cell.
        each = dict(zip(names, statuses, strict=False))
        row |= {f"status_{k}": None if v == "not reached" else v for k, v in each.items()}
        row["gate"] = next((k for k, v in each.items() if v not in ("passed", "not reached")), None)
    if one.review is not None:
        row["reviewer"] = one.review.by if isinstance(one.review, ev.Reviewed) else None
        row["code"] = one.review.code if isinstance(one.review, ev.Reviewed) else "expired"
        row["words"] = one.review.reason
    if record.outcome is not None:
        names = [f"outcome_{name}" for name in instance.reward.outcome]
        row |= dict(zip(names, record.outcome, strict=True))
    return row


def _action(declared: Declaration, what: str, action: Any) -> dict[str, Any]:
    named = declared.instance.decode_action(np.asarray(action))
    return {} if named is None else {f"{what}_{name}": value for name, value in named.items()}


# Events and reviews


def event_schema() -> dict[str, Any]:
    """Return the columns of the table of events."""
    import polars as pl

    time, names = pl.Datetime("us", "UTC"), ("by", "kind", "hash", "prev", "root", "body")
    return {"seq": pl.Int64, "at": time, **dict.fromkeys(names, pl.String)}


def events(store: Store, chain: str, size: int) -> Rows:
    """Yield a row an entry."""
    for entry in store.read(chain, 0, size):
        row: dict[str, Any] = {"seq": entry.seq, "at": entry.at, "by": entry.by}
        row |= {"kind": entry.kind, "hash": entry.hash.hex(), "prev": entry.prev.hex()}
        row |= {"root": entry.root.hex() or None}
        row["body"] = ev.to_json(from_body(entry.kind, entry.body))
        yield entry.seq, row


def review_schema(declared: Declaration) -> dict[str, Any]:
    """Return the columns of the table of reviews."""
    import polars as pl

    time, names = pl.Datetime("us", "UTC"), ("by", "answer", "code", "words")
    schema: dict[str, Any] = {"id": pl.String, "at": time, **dict.fromkeys(names, pl.String)}
    return schema | _action_schema(declared, "edited") | {"entry": pl.Int64}


def reviews(store: Store, chain: str, size: int, declared: Declaration) -> Rows:
    """Yield a row an answer to a held decision, expiry included."""
    for entry in store.read(chain, 0, size):
        if entry.kind not in ("Reviewed", "Expired"):
            continue
        event = from_body(entry.kind, entry.body)
        if not isinstance(event, ev.Reviewed | ev.Expired):
            continue
        row: dict[str, Any] = {"id": event.id, "at": entry.at, "by": entry.by}
        row |= {"answer": "expired", "code": None, "words": event.reason, "entry": entry.seq}
        if isinstance(event, ev.Reviewed):
            row |= {"by": event.by, "answer": event.verdict, "code": event.code}
        if event.action is not None:
            row |= _action(declared, "edited", event.action)
        yield entry.seq, row
