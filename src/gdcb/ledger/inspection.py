"""What a check of a chain knows as it goes from entry to entry, and what it finds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256

from gdcb.ledger.entry import GENESIS, Entry, hash_of
from gdcb.ledger.store import Head

# How far from where it stands an entry's number is looked for.
_REACH = 256


@dataclass(frozen=True, slots=True)
class Finding:
    """Say what is wrong at one place.

    Parameters
    ----------
    seq : number of the entry, as it stands; of one that is not there, the number that it had
    what : 'changed', 'hash', 'prev', 'renumbered', 'deleted', 'inserted', 'duplicated',
        'reordered', 'rewritten', 'foreign', 'truncated', 'surplus', 'head' or 'damaged'
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


@dataclass(slots=True)
class _Doubt:
    """An entry that does not fit: was it put in, or was something changed? The next one tells."""

    entry: Entry
    # Its hash, had it been written as it stands after one of the tips; it fits its own if 'stray'.
    recomputed: set[bytes]
    is_stray: bool
    # Why it cannot be read, where it cannot.
    why: str = ""


@dataclass(slots=True)
class _Gap:
    """Numbers that did not come, and those of them that came later."""

    first: int
    last: int
    finding: int
    returned: set[int] = field(default_factory=set)

    def result(self) -> Finding:
        """Return what is to be said of it in the end."""
        numbers, came = self.last - self.first + 1, len(self.returned)
        which = f"Entry {self.first}" if numbers == 1 else f"Entries {self.first} to {self.last}"
        if came == numbers:
            does = "does not stand in its place" if came == 1 else "do not stand in their places"
            return Finding(self.first, "reordered", f"{which} {does}, but after a later one.")
        if came:
            says = f"{which}: {came} stand after a later one, and {numbers - came} are missing."
            return Finding(self.first, "deleted", says)
        says = f"{which} {'is' if numbers == 1 else 'are'} missing."
        return Finding(self.first, "deleted", says)


@dataclass(slots=True)
class Inspection:
    """The state of a check: `due` is the next number, `tips` the hashes that it may follow.

    `leap` is an entry that came before its turn, until the next one tells whether those between
    are gone or only it is in a wrong place; `early` are the hashes of those.
    """

    chain: str
    due: int = 0
    tips: set[bytes] = field(default_factory=lambda: {GENESIS})
    verified: bytes = GENESIS
    size: int = 0
    shift: int = 0
    doubt: _Doubt | None = None
    leap: tuple[Entry, int] | None = None
    early: dict[int, bytes] = field(default_factory=dict)
    gaps: list[_Gap] = field(default_factory=list)
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
            is_plain = self._place(entry, number)
            moved = entry.seq - number
            if is_plain and moved not in (0, self.shift) and len(self.findings) == found:
                says = f"Entry {number} stands as number {entry.seq}."
                self._found(entry.seq, "renumbered", says)
            self.shift = moved
        if not self.findings and self.doubt is None and self.leap is None:
            self.verified = entry.hash

    def lose(self, seq: int, why: str) -> None:
        """Take note that an entry stands here and cannot be read."""
        self.size += 1
        self._land()
        self._settle(self.due + 1, b"")
        self.doubt = _Doubt(
            Entry(self.chain, seq, "", 0, "", b"", b"", b"", b""), set(), False, why
        )

    def close(self, head: Head | None) -> ChainReport:
        """Compare the end with what the head claims, and report."""
        self._land()
        if head is not None:
            self._end(head)
        self._settle(self.due + 1, b"")
        for gap in self.gaps:
            self.findings[gap.finding] = gap.result()
        return ChainReport(self.size, not self.findings, self.findings, self.verified)

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
        for number in self._candidates(entry.seq):
            if _rehash(entry, self.chain, number, entry.prev, body) == entry.hash:
                return number
        return None

    def _candidates(self, seq: int) -> Iterator[int]:
        yield from (seq, seq - self.shift, self.due)
        for step in range(1, _REACH + 1):
            yield from (seq - step, seq + step)
        for gap in self.gaps:
            yield from range(gap.first, min(gap.last, gap.first + _REACH) + 1)

    def _unfit(self, entry: Entry, body: bytes) -> None:
        """Take an entry that does not fit its own hash."""
        self._land()
        self._settle(self.due + 1, b"")
        as_due = {_rehash(entry, self.chain, self.due, tip, body) for tip in self.tips}
        if entry.hash in as_due:
            says = (
                f"Entry {entry.seq} names another entry before it than the one that it was "
                "written after."
            )
            self._found(entry.seq, "prev", says)
            self._go_on(self.due, entry.hash)
        else:
            self.doubt = _Doubt(entry, as_due, False)

    def _place(self, entry: Entry, number: int) -> bool:
        """Take an entry that fits its own hash; return whether it came in its turn."""
        if self.leap is not None and number >= self.due:
            self._land(number)
        # An entry whose number has passed says nothing of the one in doubt.
        if number >= self.due:
            self._settle(number, entry.prev)
        if number < self.due:
            self._again(entry, number)
        elif number > self.due:
            self.leap = entry, number
        elif entry.prev not in self.tips:
            self.doubt = _Doubt(entry, set(), True)
        else:
            self._go_on(number, entry.hash)
            return True
        return False

    def _go_on(self, number: int, tip: bytes) -> None:
        """Expect what follows entry `number`, whose hash is `tip`."""
        self.due, self.tips = number + 1, {tip}
        while self.due in self.early:
            self.tips = {self.early.pop(self.due)}
            self.due += 1

    def _land(self, following: int | None = None) -> None:
        """Say what became of the entry that came early, now that the next one's number is known."""
        leap, self.leap = self.leap, None
        if leap is None:
            return
        entry, number = leap
        if following is not None and following < number:
            says = f"Entry {number} does not stand in its place, but before an earlier one."
            self._found(number, "reordered", says)
            self.early[number] = entry.hash
            return
        gap = _Gap(self.due, number - 1, len(self.findings))
        self.gaps.append(gap)
        self.findings.append(gap.result())
        self._go_on(number, entry.hash)

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
        # What follows cannot be held to a hash that is not known to be right.
        tip = prev if number == self.due + 1 and prev else doubt.entry.hash
        if doubt.is_stray:
            tip = doubt.entry.hash
            says = (
                f"Entry {seq} was written after another entry than the one that now stands before "
                "it, which was rewritten together with its hash."
            )
            self._found(max(seq - 1, 0), "rewritten", says)
        elif prev in doubt.recomputed:
            says = f"The stored hash of entry {seq} was changed; what it says is as written."
            self._found(seq, "hash", says)
        elif doubt.why:
            self._found(seq, "damaged", f"Entry {seq} cannot be read: {doubt.why}.")
        else:
            says = (
                f"Entry {seq} is not as written: its kind, time, author, body or root was changed."
            )
            self._found(seq, "changed", says)
        self._go_on(self.due, tip)

    def _again(self, entry: Entry, number: int) -> None:
        """Take an entry whose number has passed."""
        gap = next((gap for gap in self.gaps if gap.first <= number <= gap.last), None)
        if gap is not None and number not in gap.returned:
            gap.returned.add(number)
        elif entry.hash in self.tips or number < self.due - 1 or self.doubt is not None:
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
            self._settle(self.due if is_put_in else head.size, head.hash)
        if head.hash in self.tips:
            if head.size not in (self.due, self.due + self.shift):
                says = f"The head says {head.size} entries, but its hash is that of {self.due}."
                self._found(max(self.due - 1, 0), "head", says)
        elif head.size > self.due:
            missing = head.size - self.due
            says = (
                f"The chain ends before entry {self.due}, but its head says {head.size}: "
                f"{missing} at the end {'is' if missing == 1 else 'are'} missing."
            )
            self._found(self.due, "truncated", says)
        elif head.size < self.due:
            says = f"The head says {head.size} entries, but the chain goes on to {self.due}."
            self._found(head.size, "surplus", says)
        else:
            says = "The head's hash is not that of the last entry: one of the two was changed."
            self._found(max(self.due - 1, 0), "head", says)


def _rehash(entry: Entry, chain: str, seq: int, prev: bytes, body: bytes) -> bytes:
    return hash_of(chain, seq, entry.at, entry.by, entry.kind, body, entry.root, prev)
