"""Personal numbers under the keys of those whom they are about: who destroys a key erases them.

An entry of the ledger never changes, so personal fields of a context are written as ciphertext
(AES-256 in Galois/counter mode, a random nonce for each text), and hashes and roots are over that.
Every subject has a key of its own; entries name it by a random name and never say whose it is.
What follows from a context in words, the reasons of gates, stands under the same key. Snapshots,
which hold the contexts of many, stand under a key of the chain, and every erasure replaces it.

Each text is bound to its chain, its decision and its field: moved elsewhere it cannot be read.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import zlib
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from hashlib import blake2b

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gdcb import events as ev
from gdcb.codec import from_body
from gdcb.errors import BrokenChain, StoreUnavailable
from gdcb.ledger.entry import Entry
from gdcb.ledger.store import Key, Snapshot, Store, Writing

ERASED = "erased"
CHAIN = ""
_NONCE = 12
_MOST = 100_000
_BOX = b"gdcb sealed "
_NAME = re.compile(r"[0-9a-z-]{1,80}")
_TEXT = re.compile(r"sealed:([0-9a-f]{32}):([A-Za-z0-9+/]+=*)")

Worded = ev.GateApplied | ev.ReviewRequested


def vault_of(chain: str, erasures: int) -> str:
    """Return the name of a chain's own key, after so many erasures.

    >>> vault_of("prices", 0) == vault_of("prices", 1)
    False
    """
    return f"{blake2b(chain.encode(), digest_size=12).hexdigest()}-{erasures}"


def unsealed(store: Store, snapshot: Snapshot | None) -> Snapshot | None:
    """Return a snapshot as it can be read; None where its key was destroyed."""
    if snapshot is None or not snapshot.body.startswith(_BOX):
        return snapshot
    body = Sealer(store, snapshot.chain).unboxed(snapshot.body)
    return None if body is None else replace(snapshot, body=body)


def _row(at: str) -> int:
    """Return the row of a fault, whose place is 'row gate'."""
    return int(at.partition(" ")[0])


class Sealer:
    """Seals what is written to one chain, and opens what is read from it.

    Parameters
    ----------
    store, chain : where the keys are, and whose
    """

    def __init__(self, store: Store, chain: str) -> None:
        self.store, self.chain = store, chain
        self._ciphers: dict[str, AESGCM | None] = {}

    # Keys

    def keys_for(
        self, writing: Writing, subjects: Sequence[str], erasures: int, now: int
    ) -> list[str]:
        """Return the name of each subject's key; those that are missing are made and kept."""
        wanted = list(dict.fromkeys((CHAIN, *subjects)))
        known = {key.subject: key for key in writing.keys_of(wanted)}
        new = [self.new_key(subject, erasures) for subject in wanted if subject not in known]
        if new:
            writing.add_keys(new, now)
        known |= {key.subject: key for key in new}
        self._make_room()
        self.learn(known.values())
        return [known[subject].name for subject in subjects]

    def new_key(self, subject: str, erasures: int = 0) -> Key:
        """Return a fresh key, which nobody keeps yet."""
        name = os.urandom(16).hex() if subject else vault_of(self.chain, erasures)
        return Key(name, subject, AESGCM.generate_key(256))

    def learn(self, keys: Iterable[Key]) -> None:
        """Remember keys, as the newest."""
        for key in keys:
            self._ciphers.pop(key.name, None)
            self._ciphers[key.name] = AESGCM(key.secret)

    def forget(self, names: Iterable[str]) -> None:
        """Forget keys that were destroyed."""
        self._ciphers |= dict.fromkeys(names)

    def _fetch(self, names: Iterable[str]) -> None:
        """See that keys are at hand, until others are asked for."""
        wanted = set(names)
        missing = [name for name in wanted if name not in self._ciphers]
        if missing:
            self._make_room(wanted)
            # A key is kept with the first entry that names it: one that is not there is gone.
            self.forget(missing)
            self.learn(self.store.keys(self.chain, missing))

    def _make_room(self, wanted: Set[str] = frozenset()) -> None:
        """Let go of the older half once there are many; the store has them.

        The newest stay: the store does not show those of a transaction that is not at its end.
        """
        if len(self._ciphers) > _MOST:
            for name in list(self._ciphers)[: len(self._ciphers) // 2]:
                if name not in wanted:
                    del self._ciphers[name]

    # Events

    def event_of(self, entry: Entry) -> ev.Event:
        """Read an entry's event, with all that its keys still open."""
        return self.opened(from_body(entry.kind, entry.body))

    def opened(self, event: ev.Event) -> ev.Event:
        """Return an event as it was before it was sealed; what was erased is NaN, or 'erased'."""
        if isinstance(event, ev.DecisionMade):
            return self._opened_made(event)
        return self._opened_words(event) if isinstance(event, Worded) else event

    def sealed(
        self, made: ev.DecisionMade, columns: Sequence[int], keys: list[str]
    ) -> tuple[ev.DecisionMade, ev.DecisionMade]:
        """Seal columns of x, each row under its key; return how it is written, and how it is read.

        Parameters
        ----------
        made : N decisions, as they were made
        columns : positions of the personal columns in x
        keys : (N) names of keys that `keys_for` returned
        """
        x, texts = made.x.copy(), []
        numbers = np.ascontiguousarray(x[:, list(columns)], dtype="<f8")
        for i, (id, key) in enumerate(zip(made.id, keys, strict=True)):
            texts.append(self._sealed(numbers[i].tobytes(), key, id, "x"))
        x[:, list(columns)] = np.nan
        read = replace(made, sealed=texts, key=list(keys))
        return replace(read, x=x), read

    def _opened_made(self, made: ev.DecisionMade) -> ev.DecisionMade:
        if made.key is None or made.sealed is None:
            return made
        self._fetch(made.key)
        x = made.x.copy()
        for i, (id, key, text) in enumerate(zip(made.id, made.key, made.sealed, strict=True)):
            data = self._unsealed(text, key, id, "x")
            if data is not None:
                is_sealed = np.isnan(x[i])
                if len(data) != 8 * is_sealed.sum():
                    raise BrokenChain(f"decision {id}: what was sealed does not fit its context")
                x[i, is_sealed] = np.frombuffer(data, "<f8")
        return replace(made, x=x)

    def worded(self, event: Worded, keys: Sequence[str]) -> Worded:
        """Seal what verdicts say, each under the key of its decision; '' for none."""
        self._fetch(key for key in keys if key)
        reasons = [
            self._worded(reason, key, id, "reason")
            for id, key, reason in zip(event.id, keys, event.reason, strict=True)
        ]
        if not isinstance(event, ev.GateApplied):
            return replace(event, reason=reasons)
        faults = {
            at: self._worded(said, keys[_row(at)], event.id[_row(at)], "fault")
            for at, said in event.faults.items()
        }
        return replace(event, reason=reasons, faults=faults)

    def _worded(self, text: str, key: str, id: str, field: str) -> str:
        if not key:
            return text
        return f"sealed:{key}:{self._sealed(text.encode(), key, id, field)}"

    def _opened_words(self, event: Worded) -> Worded:
        found = [_TEXT.fullmatch(reason) for reason in event.reason]
        if not any(found):
            return event
        self._fetch(one[1] for one in found if one is not None)
        pairs = zip(event.id, event.reason, strict=True)
        reasons = [self._read(text, id, "reason") for id, text in pairs]
        if not isinstance(event, ev.GateApplied):
            return replace(event, reason=reasons)
        faults = {
            at: self._read(said, event.id[_row(at)], "fault") for at, said in event.faults.items()
        }
        return replace(event, reason=reasons, faults=faults)

    def _read(self, text: str, id: str, field: str) -> str:
        """Return a text as it was before it was sealed, if it was."""
        found = _TEXT.fullmatch(text)
        if found is None:
            return text
        data = self._unsealed(found[2], found[1], id, field)
        return ERASED if data is None else data.decode()

    # Snapshots

    def boxed(self, body: bytes, erasures: int) -> bytes:
        """Put a snapshot's body under the chain's key; refuse where that was destroyed."""
        name = vault_of(self.chain, erasures)
        self._fetch([name])
        cipher = self._ciphers[name]
        if cipher is None:
            raise StoreUnavailable(f"'{self.chain}': the key of its snapshots is gone")
        head = _BOX + name.encode() + b"\n"
        nonce = os.urandom(_NONCE)
        return head + nonce + cipher.encrypt(nonce, zlib.compress(body), self._bound("", "state"))

    def unboxed(self, body: bytes) -> bytes | None:
        """Return the body of a snapshot; None where its key was destroyed."""
        if not body.startswith(_BOX):
            return body
        head, _, data = body.removeprefix(_BOX).partition(b"\n")
        name = head.decode("ascii", "replace")
        if not _NAME.fullmatch(name):
            raise BrokenChain(f"'{self.chain}': a sealed state names no key")
        self._fetch([name])
        cipher = self._ciphers[name]
        if cipher is None:
            return None
        try:
            found = cipher.decrypt(data[:_NONCE], data[_NONCE:], self._bound("", "state"))
        except (InvalidTag, ValueError) as error:
            raise BrokenChain(f"'{self.chain}': a sealed state was changed") from error
        try:
            return zlib.decompress(found)
        except zlib.error as error:
            raise BrokenChain(f"'{self.chain}': a sealed state cannot be read") from error

    # Texts

    def _bound(self, id: str, field: str) -> bytes:
        """Return what a text is bound to; lengths come first, so that no two are alike."""
        parts = (self.chain.encode(), id.encode(), field.encode())
        return b"".join([b"%d:%b," % (len(part), part) for part in parts])

    def _sealed(self, data: bytes, key: str, id: str, field: str) -> str:
        cipher, nonce = self._ciphers[key], os.urandom(_NONCE)
        if cipher is None:
            raise StoreUnavailable(f"decision {id}: the key of its subject is gone; ask once more")
        sealed = nonce + cipher.encrypt(nonce, data, self._bound(id, field))
        return base64.b64encode(sealed).decode()

    def _unsealed(self, text: str, key: str, id: str, field: str) -> bytes | None:
        """Return what stands under a key; None where the key was destroyed."""
        cipher = self._ciphers[key]
        if cipher is None:
            return None
        try:
            data = base64.b64decode(text, validate=True)
            return cipher.decrypt(data[:_NONCE], data[_NONCE:], self._bound(id, field))
        except (InvalidTag, ValueError, binascii.Error) as error:
            raise BrokenChain(
                f"decision {id}: what was sealed of its {field} was changed, or is another's"
            ) from error
