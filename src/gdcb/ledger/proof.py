"""Prove that an entry says what a document says of one decision, from the document alone."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np

from gdcb import events as ev
from gdcb.codec import leaves
from gdcb.ledger import merkle
from gdcb.ledger.about_one import Said
from gdcb.ledger.entry import FORMAT, hash_of


def proof_of(said: Said) -> dict[str, Any]:
    """Return an entry's header, the decision's row in it as bytes, and its way up to the root.

    An event without columns is one row, which is its whole body; it has no root, and its bytes
    are held against the body's hash.
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
        return header | leaf
    return header | {
        "leaf": rows[said.row].hex(),
        "row": said.row,
        "rows": len(rows),
        "path": [step.hex() for step in merkle.path(rows, said.row)],
        "columns": _columns(event),
    }


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


def check_proof(proof: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a proof; nothing: the row is in the entry that has this hash."""
    number = proof["seq"]
    if proof["format"] != FORMAT:
        return [f"Entry {number}: expected format {FORMAT}, got {proof['format']!r}."]
    wrong = []
    leaf, root = bytes.fromhex(proof["leaf"]), bytes.fromhex(proof["root"])
    body = bytes.fromhex(proof["body_sha256"])
    expected = hash_of(
        proof["chain"],
        number,
        proof["at"],
        proof["by"],
        proof["kind"],
        body,
        root,
        bytes.fromhex(proof["prev"]),
    )
    if expected.hex() != proof["hash"]:
        wrong.append(f"Entry {number}: its hash is not that of its header.")
    if not root:
        if sha256(leaf).digest() != body:
            wrong.append(f"Entry {number}: its bytes are not those of its body.")
        return wrong
    path = [bytes.fromhex(step) for step in proof["path"]]
    if not merkle.verify(leaf, proof["row"], proof["rows"], path, root):
        wrong.append(f"Entry {number}: row {proof['row']} is not under its root.")
    return wrong


def read_leaf(proof: Mapping[str, Any]) -> dict[str, Any]:
    """Read what a proven row says, by name; an event without columns is read as its body."""
    leaf = bytes.fromhex(proof["leaf"])
    (length,) = struct.unpack_from("<I", leaf)
    head = json.loads(leaf[4 : 4 + length])
    if not proof["root"]:
        return dict(head["fields"])
    texts, at = iter(head), 4 + length
    found: dict[str, Any] = {}
    for name, kind, shape in proof["columns"]:
        if kind == "text":
            found[name] = next(texts)
            continue
        count = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(leaf, np.dtype(kind), count, at).reshape(shape)
        found[name] = ev.plain(array)
        at += array.nbytes
    if at != len(leaf) or next(texts, None) is not None:
        raise ValueError(f"{len(leaf)} bytes where {at} were expected")
    return found
