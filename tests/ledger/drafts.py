"""Entries to try things on."""

from __future__ import annotations

from hashlib import sha256

import numpy as np

from gdcb import events as ev
from gdcb.codec import leaves, to_body
from gdcb.ledger import GENESIS, Draft, Entry, Place, Store, link, merkle


def draft(i: int = 0, body: bytes | None = None) -> Draft:
    """Return a draft that differs from the others."""
    text = f"body {i}".encode() if body is None else body
    return Draft("DecisionMade", text, sha256(text).digest(), 1_000 * i, f"user {i % 3}")


def made(n: int, chain: str = "prices") -> list[Entry]:
    """Return the first entries of a chain."""
    entries: list[Entry] = []
    prev = GENESIS
    for i in range(n):
        entries.append(link(chain, i, prev, draft(i)))
        prev = entries[-1].hash
    return entries


def fill(store: Store, n: int, chain: str = "prices") -> list[Entry]:
    """Append entries to a chain, and return them."""
    with store.writing(chain) as writing:
        return writing.append([draft(writing.head.size + i) for i in range(n)])


def decided(i: int = 0) -> Draft:
    """Return a draft that says what it seems to: two decisions for one request."""
    zeros, whole = np.zeros((2, 1)), np.zeros(2, dtype=np.int64)
    ids, batch, units = [f"r{i}.0", f"r{i}.1"], [f"r{i}"] * 2, ["unit"] * 2
    x, delta = np.array([[1.0 + i], [2.0]]), np.zeros((2, 1, 1))
    event = ev.DecisionMade(
        ids, batch, np.arange(2), 1, units, x, None, whole, zeros, delta, whole, zeros
    )
    return Draft(
        "DecisionMade", to_body(event), merkle.root(leaves(event)), 1_000 * i, f"user {i % 3}"
    )


def fill_decided(store: Store, n: int, chain: str) -> list[Entry]:
    """Append decisions to an empty chain, with the index that they need."""
    with store.writing(chain) as writing:
        writing.add_places([Place(f"r{i}", i, 0, 2) for i in range(n)])
        return writing.append([decided(i) for i in range(n)])
