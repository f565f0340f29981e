"""Check a chain as an auditor does: recompute every hash, and say what was done to it.

An entry's hash says which number it was written at and which entry it followed, whatever the
store says now. So a number that was changed is recognised, and one deletion is one finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count

from gdcb.errors import StoreError
from gdcb.ledger.entry import Entry
from gdcb.ledger.inspection import ChainReport, Finding, Inspection
from gdcb.ledger.store import Head, Store

__all__ = ["ChainReport", "Finding", "check_chain", "check_store"]


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
    >>> from gdcb.ledger.entry import GENESIS, Draft, link
    >>> first = link("prices", 0, GENESIS, Draft("Paused", b"{}", b"", 17, "ann"))
    >>> second = link("prices", 1, first.hash, Draft("Resumed", b"{}", b"", 18, "ann"))
    >>> head = Head(2, second.hash)
    >>> check_chain([first, second], head, "prices").ok
    True
    >>> report = check_chain([replace(first, by="bob"), second], head, "prices")
    >>> [(finding.seq, finding.what) for finding in report.findings]
    [(0, 'changed')]
    """
    check = Inspection(chain)
    for entry in entries:
        check.add(entry)
    return check.close(head)


def check_store(store: Store, chain: str) -> ChainReport:
    """Check a chain where it is kept, also while others append to it."""
    check = Inspection(chain)
    heads: list[Head] = []
    for entry in read_to_head(store, chain, heads):
        if isinstance(entry, Lost):
            check.lose(entry.seq, entry.why)
        else:
            check.add(entry)
    return check.close(heads[-1])


@dataclass(frozen=True, slots=True)
class Lost:
    """Stand for an entry that cannot be read, and say why."""

    seq: int
    why: str


def read_to_head(store: Store, chain: str, heads: list[Head]) -> Iterator[Entry | Lost]:
    """Read all entries, then those that came meanwhile; the last of `heads` is the end's.

    Where the database is damaged, entries are read one by one, and those that cannot be are `Lost`.
    """
    after = 0
    try:
        for entry in store.read(chain):
            after = entry.seq + 1
            yield entry
    except StoreError as error:
        _check_damage(error)
        for found in _one_by_one(store, chain, after):
            after = found.seq + 1
            yield found
    heads.append(store.head(chain))
    # Bounded by the head, for else a busy chain would never end.
    if heads[-1].size > after:
        yield from store.read(chain, after, heads[-1].size)


def _one_by_one(store: Store, chain: str, start: int) -> Iterator[Entry | Lost]:
    """Read on behind what is damaged, up to a number after the head that nobody has."""
    size = store.head(chain).size
    for seq in count(start):
        found: list[Entry | Lost]
        try:
            found = [*store.read(chain, seq, seq + 1)]
        except StoreError as error:
            _check_damage(error)
            found = [Lost(seq, str(error))]
        if not found and seq >= size:
            return
        yield from found


def _check_damage(error: StoreError) -> None:
    """Raise an error that does not say that the database is damaged."""
    from gdcb.ledger.trouble import is_damage

    if not is_damage(error):
        raise error
