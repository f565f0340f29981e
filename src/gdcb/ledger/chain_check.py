"""Check a chain as an auditor does: recompute every hash, and say what was done to it.

An entry's hash says which number it was written at and which entry it followed, whatever the
store says now. So a number that was changed is recognised, and one deletion is one finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256

from gdcb.ledger.entry import GENESIS, Entry, hash_of
from gdcb.ledger.store import Head, Store

# How far from where it stands an entry's number is looked for.
_REACH = 256


@dataclass(frozen=True, slots=True)
class Finding:
    """Say what is wrong at one place.

    Parameters
    ----------
    seq : number of the entry, as it stands; of one that is not there, the number that it had
    what : 'changed', 'hash', 'prev', 'renumbered', 'deleted', 'inserted', 'duplicated',
        'reordered', 'rewritten', 'foreign', 'truncated', 'surplus' or 'head'
    says : one sentence
    """

    seq: int
    what: str
    says: str


@dataclass(frozen=True, slots=True)
class ChainReport:
    """Say whether a chain is as it was written.

    Parameters
    ----------
    size : entries that were read
    ok : whether nothing was found
    findings : what was found, in order
    hash : of the last entry up to which all fits together
    """

    size: int
    ok: bool
    findings: list[Finding]
    hash: bytes


def check_chain(entries: Iterable[Entry], head: Head | None, chain: str) -> ChainReport:
    """Check entries in the order in which they stand; go on after whatever is found.

    Parameters
    ----------
    entries : all of the chain, from the first on
    head : how far the chain claims to go; None: nothing is known of its end
    chain : its name

    Notes
    -----
    Whoever rewrites an entry, every hash after it and the head leaves nothing to find here. Keep a
    head elsewhere from time to time, and check against it.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from gdcb.ledger.entry import Draft, link
    >>> first = link("prices", 0, GENESIS, Draft("Paused", b"{}", b"", 17, "ann"))
    >>> second = link("prices", 1, first.hash, Draft("Resumed", b"{}", b"", 18, "ann"))
    >>> head = Head(2, second.hash)
    >>> check_chain([first, second], head, "prices").ok
    True
    >>> report = check_chain([replace(first, by="bob"), second], head, "prices")
    >>> [(finding.seq, finding.what) for finding in report.findings]
    [(0, 'changed')]
    """
    check = _Check(chain)
    for entry in entries:
        check.add(entry)
    return check.close(head)


def check_store(store: Store, chain: str) -> ChainReport:
    """Check a chain where it is kept, also while others append to it."""
    check = _Check(chain)
    heads: list[Head] = []
    for entry in _read_to_head(store, chain, heads):
        check.add(entry)
    return check.close(heads[-1])


def _read_to_head(store: Store, chain: str, heads: list[Head]) -> Iterator[Entry]:
    """Read all entries, then those that came meanwhile; the last of `heads` is the end's."""
    after = 0
    for entry in store.read(chain):
        after = entry.seq + 1
        yield entry
    heads.append(store.head(chain))
    # Bounded by the head, for else a busy chain would never end.
    if heads[-1].size > after:
        yield from store.read(chain, after, heads[-1].size)


@dataclass(slots=True)
class _Doubt:
    """An entry that does not fit its own hash: changed, or put in? The next one tells."""

    entry: Entry
    # Its hash, had it been written as it stands after one of the tips.
    recomputed: set[bytes]


@dataclass(slots=True)
class _Check:
    """The state of a check: `due` is the next number, `tips` the hashes it may follow."""

    chain: str
    due: int = 0
    tips: set[bytes] = field(default_factory=lambda: {GENESIS})
    verified: bytes = GENESIS
    size: int = 0
    shift: int = 0
    doubt: _Doubt | None = None
    missing: dict[int, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def add(self, entry: Entry) -> None:
        """Take the next entry as it stands."""
        self.size += 1
        body, found = sha256(entry.body).digest(), len(self.findings)
        if entry.chain != self.chain and self._is_foreign(entry, body):
            return
        number = self._number(entry, body)
        if number is None:
            self._unfit(entry, body)
        else:
            # An entry whose number has passed says nothing of the one in doubt.
            if number >= self.due:
                self._settle(number, entry.prev)
            self._place(entry, number)
            moved = entry.seq - number
            if moved not in (0, self.shift) and len(self.findings) == found:
                says = f"Entry {number} stands as number {entry.seq}."
                self._found(entry.seq, "renumbered", says)
            self.shift = moved
        if not self.findings and self.doubt is None:
            self.verified = entry.hash

    def close(self, head: Head | None) -> ChainReport:
        """Compare the end with what the head claims, and report."""
        if head is not None:
            self._end(head)
        elif self.doubt is not None:
            self._settle(self.due + 1, b"")
        ok = not self.findings
        return ChainReport(self.size, ok, self.findings, self.verified)

    def _found(self, seq: int, what: str, says: str) -> None:
        self.findings.append(Finding(seq, what, says))

    def _is_foreign(self, entry: Entry, body: bytes) -> bool:
        """Say that an entry names another chain; return whether it was written for that one."""
        is_foreign = _rehash(entry, entry.chain, entry.seq, entry.prev, body) == entry.hash
        says = "was written for it" if is_foreign else "should name this one"
        says = f"Entry {entry.seq} names chain '{entry.chain}' and {says}."
        self._found(entry.seq, "foreign", says)
        return is_foreign

    def _number(self, entry: Entry, body: bytes) -> int | None:
        """Return the number at which an entry was written; None where its hash fits none."""
        near = sorted(range(-_REACH, _REACH + 1), key=abs)
        for number in (entry.seq, entry.seq - self.shift, *(entry.seq + step for step in near)):
            if _rehash(entry, self.chain, number, entry.prev, body) == entry.hash:
                return number
        return None

    def _unfit(self, entry: Entry, body: bytes) -> None:
        """Take an entry that does not fit its own hash."""
        if self.doubt is not None:
            self._settle(self.due + 1, b"")
        as_due = {_rehash(entry, self.chain, self.due, tip, body) for tip in self.tips}
        if entry.hash in as_due:
            says = (
                f"Entry {entry.seq} names another entry before it than the one that it was "
                "written after."
            )
            self._found(entry.seq, "prev", says)
            self.tips, self.due = {entry.hash}, self.due + 1
            return
        self.doubt = _Doubt(entry, as_due)

    def _settle(self, number: int, prev: bytes) -> None:
        """Say what became of the entry in doubt, now that the next one's number is known."""
        doubt, self.doubt = self.doubt, None
        if doubt is None:
            return
        seq = doubt.entry.seq
        if number == self.due and prev in self.tips:
            says = f"Entry {seq} was put in: the entries around it follow each other without it."
            self._found(seq, "inserted", says)
            return
        if prev in doubt.recomputed:
            says = f"The stored hash of entry {seq} was changed; what it says is as written."
            self._found(seq, "hash", says)
        else:
            says = (
                f"Entry {seq} is not as written: its kind, time, author, body or root was changed."
            )
            self._found(seq, "changed", says)
        self.due += 1
        # What follows cannot be held to a hash that is not known to be right.
        self.tips = {prev} if number == self.due else {doubt.entry.hash}

    def _place(self, entry: Entry, number: int) -> None:
        """Take an entry that fits its own hash."""
        if number < self.due:
            self._again(entry, number)
            return
        if number > self.due:
            self._gap(self.due, number - 1, "deleted")
        elif entry.prev not in self.tips:
            says = (
                f"Entry {number} was written after another entry than the one that now stands "
                "before it, which was rewritten together with its hash."
            )
            self._found(max(number - 1, 0), "rewritten", says)
        self.tips, self.due = {entry.hash}, number + 1

    def _gap(self, first: int, last: int, what: str) -> None:
        one = first == last
        which = f"Entry {first} is" if one else f"Entries {first} to {last} are"
        for number in range(first, min(last, first + _REACH) + 1):
            self.missing[number] = len(self.findings)
        self._found(first, what, f"{which} missing.")

    def _again(self, entry: Entry, number: int) -> None:
        """Take an entry whose number has passed."""
        at = self.missing.pop(number, None)
        if at is not None:
            says = f"Entry {number} does not stand in its place, but after a later one."
            if self.findings[at].what == "deleted" and at not in self.missing.values():
                self.findings[at] = Finding(self.findings[at].seq, "reordered", says)
            else:
                self._found(number, "reordered", says)
        elif entry.hash in self.tips or number < self.due - 1:
            says = f"Entry {number} stands here a second time, as number {entry.seq}."
            self._found(entry.seq, "duplicated", says)
        else:
            says = f"Two different entries claim number {number}; one of them was put in."
            self._found(number, "inserted", says)
            self.tips.add(entry.hash)

    def _end(self, head: Head) -> None:
        """Compare the end of the chain with its head."""
        if self.doubt is not None:
            is_put_in = head.size == self.due and head.hash in self.tips
            self._settle(self.due if is_put_in else self.due + 1, head.hash)
            if not is_put_in and head.size == self.due:
                return
        if head.size > self.due + max(self.shift, 0):
            missing = head.size - self.due
            says = (
                f"The chain ends before entry {self.due}, but its head says {head.size}: "
                f"{missing} at the end {'is' if missing == 1 else 'are'} missing."
            )
            self._found(self.due, "truncated", says)
        elif head.size < self.due + min(self.shift, 0):
            says = f"The head says {head.size} entries, but the chain goes on to {self.due}."
            self._found(head.size, "surplus", says)
        elif head.hash not in self.tips:
            says = "The head's hash is not that of the last entry: one of the two was changed."
            self._found(max(self.due - 1, 0), "head", says)


def _rehash(entry: Entry, chain: str, seq: int, prev: bytes, body: bytes) -> bytes:
    return hash_of(chain, seq, entry.at, entry.by, entry.kind, body, entry.root, prev)
