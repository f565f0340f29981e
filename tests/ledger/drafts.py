"""Entries to try things on."""

from __future__ import annotations

from hashlib import sha256

from gdcb.ledger import GENESIS, Draft, Entry, Store, link


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
