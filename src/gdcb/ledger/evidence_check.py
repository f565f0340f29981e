"""Check a document of evidence from it alone: proofs first, then all that it tells.

The account of the decision is worked out again of the proven rows and declarations, by the
functions that wrote it, and held against the document field by field.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from gdcb import declaration
from gdcb import events as ev
from gdcb.cases import about
from gdcb.errors import GdcbError
from gdcb.instance import Instance
from gdcb.ledger.about_one import Said
from gdcb.ledger.changing import check_change
from gdcb.ledger.evidence_account import account_of, made_in
from gdcb.ledger.evidence_apart import apart
from gdcb.ledger.evidence_story import Declared
from gdcb.ledger.proof import check_proof, entry_in, event_in

FORMAT = 2

# What a document tells and no entry says: it is worked out again, or known from elsewhere.
UNPROVEN = (
    "arms[].probability",
    "arms[].error",
    "propensity",
    "scaler.factors",
    "recomputed",
    "head",
)
# What cannot be proven of a decision whose entry has several rows: fields of the entry as a whole.
UNPROVEN_IN_BATCHES = (
    "executed.is_told",
    "verdicts[].gates[].fault",
    "request.rows",
    "proofs[].rows",
)
_BESIDE = ("format", "declarations", "proofs", "propensity", "recomputed", "head")
_OPTIONAL = ("mask", "share", "instead", "by", "sealed", "key", "nonce", "label")
_UNREADABLE = (
    GdcbError,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    ArithmeticError,
    OSError,
    RecursionError,
    struct.error,
)


def verify(document: Mapping[str, Any]) -> list[str]:
    """Check a document from it alone; return what is wrong, nothing where all fits.

    Each row is held against its entry's root, and each entry's header against its hash. Then the
    whole account, with the names that the proven declarations give, is worked out of the rows
    again, and whatever the document tells otherwise is named. Fields that no entry says are in
    `UNPROVEN`, those that a row of many cannot prove in `UNPROVEN_IN_BATCHES`; what stands under a
    subject's key is taken as told. That the entries stand in the chain, and that none was left
    out, is for `gdcb ledger verify`, or for whoever has kept the head.
    """
    wrong: list[str] = []
    try:
        if document["format"] != FORMAT:
            return [f"Expected a document of format {FORMAT}, got {document['format']!r}."]
        wrong += _unproven(document)
        proofs = document["proofs"]
        if not proofs or proofs[0]["kind"] != "DecisionMade":
            return [*wrong, "The document does not prove that the decision was made."]
        wrong += _told_otherwise(document)
    except _UNREADABLE as error:
        wrong.append(f"The document cannot be read ({type(error).__name__}: {error}).")
    return wrong


def _unproven(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the proofs, each by itself and with its neighbours."""
    for proof in (*document["declarations"], *document["proofs"]):
        yield from check_proof(proof)
        if proof["chain"] != document["chain"]:
            yield f"Entry {proof['seq']} is of chain '{proof['chain']}'."
    for proofs in (document["declarations"], document["proofs"]):
        for one, other in pairwise(proofs):
            if one["seq"] >= other["seq"]:
                yield f"Entry {other['seq']} does not come after entry {one['seq']}."
            if one["seq"] + 1 == other["seq"] and one["hash"] != other["prev"]:
                yield f"Entry {other['seq']} does not follow on entry {one['seq']}."
    head = document["head"]
    for proof in document["proofs"][-1:]:
        behind = head["entries"] - proof["seq"]
        if behind < 1 or (behind == 1 and head["hash"] != proof["hash"]):
            yield f"Entry {proof['seq']} does not stand before the head."


def _told_otherwise(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield where the document tells something else than its proven rows."""
    proofs, declared = document["proofs"], _declared(document["declarations"])
    instance = declared.at(proofs[0]["seq"])
    said: list[Said] = []
    key = ""
    for proof in proofs:
        yield from _laid_out_otherwise(instance, proof)
        event = event_in(proof, _rest(document, proof))
        if about(event) != [document["id"]]:
            yield f"Entry {proof['seq']} is not about decision '{document['id']}'."
        if isinstance(event, ev.DecisionMade):
            key = "" if event.key is None else event.key[0]
        event = _opened(document, instance, event, proof["seq"], key)
        said.append(Said(entry_in(proof), event, 0))
    rows = [proof["row"] for proof in proofs]
    account = account_of(declared, said, rows, _together(document, said[0]))
    yield from apart("", _claimed(document), account)


def _declared(proofs: Sequence[Mapping[str, Any]]) -> Declared:
    """Read the declarations; one that means something else than the one before is refused."""
    found: list[tuple[int, Instance]] = []
    before = ""
    for proof in proofs:
        event = event_in(proof, {})
        if not isinstance(event, ev.InstanceChanged):
            raise TypeError(f"expected InstanceChanged, got {proof['kind']}")
        found.append((proof["seq"], _read(event.declaration, before).instance))
        before = event.declaration
    return Declared(tuple(found))


@lru_cache(maxsize=8)
def _read(text: str, before: str) -> declaration.Declaration:
    """Read a declaration; whoever checks many documents of an instance reads it once."""
    read = declaration.parse(text, is_recorded=True)
    if before:
        check_change(declaration.parse(before, is_recorded=True), read)
    return read


def _laid_out_otherwise(instance: Instance, proof: Mapping[str, Any]) -> Iterator[str]:
    """Yield where a row would be read otherwise than rows of this instance are written."""
    known = _layout(instance).get(proof["kind"], {})
    names = [one[0] for one in proof["columns"]]
    expected = [
        [name, *known.get(name, ("text", []))]
        for name in ev.KINDS[proof["kind"]].columns
        if name in names or name not in _OPTIONAL
    ]
    if [list(one) for one in proof["columns"]] != expected:
        yield f"Entry {proof['seq']}: rows of {proof['kind']} are not laid out as it says."


def _layout(instance: Instance) -> dict[str, dict[str, tuple[str, list[int]]]]:
    """Return type and shape of the columns of numbers; all others are texts."""
    k, d = instance.space.n, len(instance.actions)
    gates, scaler = len(instance.chain.gates), instance.scaler
    return {
        "DecisionMade": {
            "row": ("<i8", []),
            "x": ("<f8", [instance.context.width]),
            "mask": ("|b1", [k]),
            "arm": ("<i8", []),
            "action": ("<f8", [d]),
            "delta": ("<f8", [scaler.n_arms, scaler.n_columns]),
            "scaler_version": ("<i8", []),
            "worth": ("<f8", [k]),
            "share": ("<f8", []),
            "instead": ("<f8", [d]),
        },
        "GateApplied": {
            "status": ("|i1", []),
            "action": ("<f8", [d]),
            "trail": ("<f8", [gates + 1, d]),
            "statuses": ("|i1", [gates]),
        },
        "ActionExecuted": {"action": ("<f8", [d]), "is_null": ("|b1", [])},
        "OutcomeObserved": {
            "outcome": ("<f8", [len(instance.reward.outcome)]),
            "label": ("<f8", [scaler.n_labels]),
            "weight": ("<f8", []),
        },
    }


# What is taken as told


def _rest(document: Mapping[str, Any], proof: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that no row of an entry holds, as the document tells them.

    The version of a decision is no claim: it is the number of entries before it.
    """
    number = proof["seq"]
    if proof["kind"] == "DecisionMade":
        return {"version": number}
    if proof["kind"] == "GateApplied":
        told = _at(document["verdicts"], number)
        gates = [] if told is None else told["gates"]
        faults = {f"0 {i}": gate["fault"] for i, gate in enumerate(gates)}
        return {"faults": {at: text for at, text in faults.items() if isinstance(text, str)}}
    if proof["kind"] == "ActionExecuted":
        told = _at([document["executed"]], number)
        return {"is_told": told is not None and told["is_told"] is True}
    return {}


def _opened(
    document: Mapping[str, Any], instance: Instance, event: ev.Event, number: int, key: str
) -> ev.Event:
    """Put what is told into the places of what stands under a subject's key."""
    if not key:
        return event
    if isinstance(event, ev.DecisionMade):
        x = event.x.copy()
        for name, kind in instance.context.columns.items():
            at, told = list(instance.context.positions[name]), document["input"].get(name)
            if np.isnan(x[0, at]).all() and told is not None:
                x[0, at] = kind.encode(name, told)
        return replace(event, x=x)
    if isinstance(event, ev.GateApplied):
        told = _at(document["verdicts"], number) or {}
        gates = [gate["fault"] for gate in told.get("gates", ())]
        faults = {
            at: _words(text, dict(enumerate(gates)).get(int(at.split(" ")[1])), key)
            for at, text in event.faults.items()
        }
        reason = _words(event.reason[0], told.get("reason"), key)
        return replace(event, reason=[reason], faults=faults)
    if isinstance(event, ev.ReviewRequested):
        told = _at(document["asked"], number) or {}
        return replace(event, reason=[_words(event.reason[0], told.get("reason"), key)])
    return event


def _words(written: str, told: Any, key: str) -> str:
    """Return a text as told, where it is written under a key; else as it is written."""
    is_sealed = written.startswith(f"sealed:{key}:")
    return told if is_sealed and isinstance(told, str) else written


def _at(told: Sequence[Mapping[str, Any] | None], number: int) -> Mapping[str, Any] | None:
    """Return what is told of an entry."""
    return next((one for one in told if one is not None and one["entry"] == number), None)


def _together(document: Mapping[str, Any], said: Said) -> int:
    """Return how many rows a request has: what is told, where that can be."""
    made, told = made_in(said), document["request"]["rows"]
    row, rows = int(made.row[0]), document["proofs"][0]["rows"]
    if made.batch[0] == made.id[0]:
        return 1
    return told if type(told) is int and row < told <= rows else row + 1


def _claimed(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document without what no entry says."""
    return _without(document, _BESIDE) | {
        "scaler": _without(document["scaler"], ("factors",)),
        "arms": [_without(arm, ("probability", "error")) for arm in document["arms"]],
    }


def _without(told: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return what is told but for some names, all of which must be there."""
    missing = [name for name in names if name not in told]
    if missing:
        raise KeyError(missing[0])
    return {name: value for name, value in told.items() if name not in names}
