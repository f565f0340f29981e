"""Prove that an entry says what a document says of one decision, from the document alone."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np

from gdcb import events as ev
from gdcb.codec import from_body, leaves
from gdcb.ledger import merkle
from gdcb.ledger.about_one import Said
from gdcb.ledger.entry import FORMAT, Entry, hash_of

_WHOLE = ("seq", "at", "row", "rows")
_FIELDS = {
    *("format", "chain", "seq", "at", "by", "kind", "body_sha256", "root", "prev", "hash"),
    *("leaf", "row", "rows", "path", "columns", "body"),
}


def proof_of(said: Said) -> dict[str, Any]:
    """Return an entry's header, the decision's row in it as bytes, and its way up to the root.

    An event without columns is one row, which is its whole body; it has no root, and its bytes
    are held against the body's hash. An entry with columns and one row has its body with it too:
    it proves the fields that no row holds. That of several rows would tell of other decisions.
    """
    entry, event = said.entry, said.event
    rows = leaves(event)
    header = {
        "format": FORMAT,
        "chain": entry.chain,
        "seq": entry.seq,
        "at": entry.at,
        "by": entry.by,
        "kind": entry.kind,
        "body_sha256": sha256(entry.body).hexdigest(),
        "root": entry.root.hex(),
        "prev": entry.prev.hex(),
        "hash": entry.hash.hex(),
    }
    if not event.columns:
        leaf = {"leaf": entry.body.hex(), "row": 0, "rows": 1, "path": [], "columns": []}
        return header | leaf | {"body": None}
    return header | {
        "leaf": rows[said.row].hex(),
        "row": said.row,
        "rows": len(rows),
        "path": [step.hex() for step in merkle.path(rows, said.row)],
        "columns": _columns(event),
        "body": entry.body.hex() if len(rows) == 1 else None,
    }


def alone(said: Said) -> Said:
    """Return what an entry says of one decision only: its event with one row."""
    event, row = said.event, said.row
    if not event.columns:
        return said
    fields: dict[str, Any] = {}
    for name in event.columns:
        value = getattr(event, name)
        fields[name] = None if value is None else value[row : row + 1]
    if isinstance(event, ev.GateApplied):
        places = {at: at.split(" ") for at in event.faults}
        fields["faults"] = {
            f"0 {gate}": event.faults[at] for at, (of, gate) in places.items() if of == str(row)
        }
    return replace(said, event=replace(event, **fields), row=0)


def _columns(event: ev.Event) -> list[list[Any]]:
    """Return how a row's bytes are laid out: [name, type, shape]; texts have the type 'text'."""
    layout: list[list[Any]] = []
    for name in event.columns:
        value = getattr(event, name)
        if isinstance(value, np.ndarray):
            layout.append([name, value.dtype.newbyteorder("<").str, list(value.shape[1:])])
        elif value is not None:
            layout.append([name, "text", []])
    return layout


# Checking


def check_proof(proof: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a proof; nothing: the row is in the entry that has this hash.

    How the row's bytes are to be read (`columns`) is not in the hash where an entry has several
    rows: whoever reads them knows it from the declaration.
    """
    number = proof["seq"]
    if proof["format"] != FORMAT:
        return [f"Entry {number}: expected format {FORMAT}, got {proof['format']!r}."]
    if proof.keys() != _FIELDS:
        other = sorted(proof.keys() ^ _FIELDS)
        return [f"Entry {number}: a proof has other fields than this one ({', '.join(other)})."]
    odd = [name for name in _WHOLE if type(proof[name]) is not int]
    if odd:
        return [f"Entry {number}: expected a whole number as {odd[0]}, got {proof[odd[0]]!r}."]
    wrong = []
    expected = hash_of(
        proof["chain"],
        number,
        proof["at"],
        proof["by"],
        proof["kind"],
        bytes.fromhex(proof["body_sha256"]),
        bytes.fromhex(proof["root"]),
        bytes.fromhex(proof["prev"]),
    )
    if expected.hex() != proof["hash"]:
        wrong.append(f"Entry {number}: its hash is not that of its header.")
    if ev.KINDS[proof["kind"]].columns:
        return wrong + _check_row(proof)
    leaf, body = bytes.fromhex(proof["leaf"]), bytes.fromhex(proof["body_sha256"])
    if sha256(leaf).digest() != body:
        wrong.append(f"Entry {number}: its bytes are not those of its body.")
    names = ("root", "row", "rows", "path", "columns", "body")
    if [proof[name] for name in names] != ["", 0, 1, [], [], None]:
        wrong.append(f"Entry {number}: it has no rows, and its proof tells of one.")
    return wrong


def _check_row(proof: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the way from a row up to its entry's root."""
    number, wrong = proof["seq"], []
    leaf, root = bytes.fromhex(proof["leaf"]), bytes.fromhex(proof["root"])
    path = [bytes.fromhex(step) for step in proof["path"]]
    if not merkle.verify(leaf, proof["row"], proof["rows"], path, root):
        wrong.append(f"Entry {number}: row {proof['row']} is not under its root.")
    if path and proof["body"] is not None:
        wrong.append(f"Entry {number}: it has several rows, and its proof a body.")
    if not path:
        body = bytes.fromhex(proof["body"] or "")
        if sha256(body).hexdigest() != proof["body_sha256"]:
            return [*wrong, f"Entry {number}: its bytes are not those of its body."]
        event = from_body(proof["kind"], body)
        if leaves(event) != [leaf] or _columns(event) != proof["columns"]:
            wrong.append(f"Entry {number}: its row is not that of its body.")
    return wrong


def entry_in(proof: Mapping[str, Any]) -> Entry:
    """Read a proof's header as an entry, without its body."""
    return Entry(
        proof["chain"],
        proof["seq"],
        proof["kind"],
        proof["at"],
        proof["by"],
        b"",
        bytes.fromhex(proof["root"]),
        bytes.fromhex(proof["prev"]),
        bytes.fromhex(proof["hash"]),
    )


def event_in(proof: Mapping[str, Any], rest: Mapping[str, Any]) -> ev.Event:
    """Read what a proven row says, as an event of one row.

    `rest` are the fields that no row holds: they are taken where an entry has several rows, and
    so no body with it.
    """
    kind = ev.KINDS[proof["kind"]]
    if not kind.columns:
        return from_body(proof["kind"], bytes.fromhex(proof["leaf"]))
    if proof["body"] is not None:
        return from_body(proof["kind"], bytes.fromhex(proof["body"]))
    read = _read(bytes.fromhex(proof["leaf"]), proof["columns"])
    return kind(**{**rest, **dict.fromkeys(kind.columns), **read})


def _read(leaf: bytes, columns: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Read a row's bytes, by name: a list of one text, or an array with one row."""
    (length,) = struct.unpack_from("<I", leaf)
    texts, at = iter(json.loads(leaf[4 : 4 + length])), 4 + length
    found: dict[str, Any] = {}
    for name, kind, shape in columns:
        if kind == "text":
            found[name] = [next(texts, None)]
            continue
        count = int(np.prod(shape, dtype=np.int64))
        found[name] = np.frombuffer(leaf, np.dtype(kind), count, at).reshape(1, *shape)
        at += found[name].nbytes
    if at != len(leaf) or next(texts, None) is not None:
        raise ValueError(f"{len(leaf)} bytes where {at} were expected")
    return found
