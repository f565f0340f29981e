"""An entry of the ledger, and the hash that ties it to all entries before it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

from gdcb.errors import InvalidInput

FORMAT = 1
GENESIS = bytes(32)
LONGEST_NAME = 200
_LIMIT = 2**63


@dataclass(frozen=True, slots=True)
class Draft:
    """Say what happened, before it has a place in a chain.

    Parameters
    ----------
    kind : name of the event, in the past tense
    body : the event itself, as bytes
    root : Merkle root over its rows, 32 bytes; empty where it has none
    at : when, in microseconds since 1970, UTC
    by : who
    """

    kind: str
    body: bytes
    root: bytes
    at: int
    by: str

    def __post_init__(self) -> None:
        check_names("kind", (self.kind,))
        check_names("by", (self.by,))
        _check_bytes("body", self.body)
        _check_bytes("root", self.root)
        if len(self.root) not in (0, 32):
            raise InvalidInput(f"root: expected 32 bytes or none, got {self.root!r}")
        if not _is_number(self.at) or not -_LIMIT <= self.at < _LIMIT:
            raise InvalidInput(f"at: expected whole microseconds since 1970, got {self.at!r}")


@dataclass(frozen=True, slots=True)
class Entry:
    """Hold an event at its place in a chain.

    Parameters
    ----------
    chain : name of the chain
    seq : its number, from 0 on
    kind, at, by, body, root : as in `Draft`
    prev : hash of the entry before it, 32 bytes; `GENESIS` for the first
    hash : its own, 32 bytes; `link` says of what
    """

    chain: str
    seq: int
    kind: str
    at: int
    by: str
    body: bytes
    root: bytes
    prev: bytes
    hash: bytes


def link(chain: str, seq: int, prev: bytes, draft: Draft) -> Entry:
    """Give a draft its place: number `seq` of a chain, after the entry whose hash is `prev`.

    The hash is SHA-256 over nine parts, each written as a netstring: its length in decimal
    digits, a colon, its bytes, a comma. The parts are the format (1), chain, seq, at, by, kind,
    SHA-256 of the body, root and prev. Numbers are decimal digits, texts are UTF-8, the last three
    are raw bytes. Lengths come first, so that no two entries are written alike.

    Examples
    --------
    By hand, with hashlib alone:

    >>> import hashlib
    >>> body = hashlib.sha256(b"{}").digest()
    >>> head = b"1:1,6:prices,1:0,2:17,3:ann,6:Paused,"
    >>> written = head + b"32:" + body + b"," + b"0:," + b"32:" + bytes(32) + b","
    >>> entry = link("prices", 0, GENESIS, Draft("Paused", b"{}", b"", 17, "ann"))
    >>> entry.hash == hashlib.sha256(written).digest()
    True
    >>> entry.hash.hex()[:16]
    '630c800ed2383221'
    """
    digest = hash_of(
        chain, seq, draft.at, draft.by, draft.kind, sha256(draft.body).digest(), draft.root, prev
    )
    return Entry(chain, seq, draft.kind, draft.at, draft.by, draft.body, draft.root, prev, digest)


def hash_of(
    chain: str, seq: int, at: int, by: str, kind: str, body: bytes, root: bytes, prev: bytes
) -> bytes:
    """Return the hash of an entry; `body` is SHA-256 of its body. `link` says how."""
    name, who, what = chain.encode(), by.encode(), kind.encode()
    number, when = b"%d" % seq, b"%d" % at
    parts = (b"%d" % FORMAT, name, number, when, who, what, body, root, prev)
    return sha256(b"".join([b"%d:%b," % (len(part), part) for part in parts])).digest()


def is_as_written(entry: Entry) -> bool:
    """Return whether an entry has the hash of what it says."""
    body = sha256(entry.body).digest()
    given = (entry.chain, entry.seq, entry.at, entry.by, entry.kind, body, entry.root, entry.prev)
    return hash_of(*given) == entry.hash


def check_names(what: str, names: Iterable[str]) -> None:
    """Refuse texts that a store cannot keep: empty, too long, with NUL, or not Unicode.

    Examples
    --------
    >>> check_names("chain", ["prices", ""])
    Traceback (most recent call last):
    gdcb.errors.InvalidInput: chain: expected a text of 1 to 200 characters, got ''
    """
    for name in names:
        if not _is_text(name) or not 0 < len(name) <= LONGEST_NAME:
            shown = repr(name) if len(repr(name)) < 80 else f"{repr(name)[:60]}…"
            raise InvalidInput(
                f"{what}: expected a text of 1 to {LONGEST_NAME} characters, got {shown}"
            )
        if not name.isascii() and any("\ud800" <= sign <= "\udfff" for sign in name):
            raise InvalidInput(f"{what}: expected Unicode text, got half a character in {name!r}")
        if "\0" in name:
            raise InvalidInput(f"{what}: expected a text without NUL, got {name!r}")


def _check_bytes(what: str, given: object) -> None:
    if not isinstance(given, bytes):
        raise InvalidInput(f"{what}: expected bytes, got {type(given).__name__}")


def _is_text(given: object) -> bool:
    return isinstance(given, str)


def _is_number(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool)
