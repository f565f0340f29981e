"""Hashes of rows: what tells one content from another, and what finds copies.

A row's hash is 64 bits of its encoded numbers, column after column: xor, multiply, fold. It is
made for speed (a cryptographic hash of 100,000,000 rows would cost as much as reading them) and
keeps apart what differs by accident, not what somebody made alike on purpose: two given rows
agree with a chance of about 2⁻⁶⁴, and among 10⁸ different rows about 3 in 10,000 logs hold one
false copy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gdcb.arrays import Array

_BLOCK = 8192  # rows: columns of a block and both scratch arrays stay in the processor's cache
_START = np.uint64(0x9E3779B97F4A7C15)
_TIMES = np.uint64(0xD6E8FEB86659FD93)
_AGAIN = np.uint64(0xFF51AFD7ED558CCD)
_HALF, _FOLD = np.uint64(32), np.uint64(29)
_WORD = 2**64


def row_hashes(columns: Sequence[Array]) -> Array:
    """Return one 64-bit number (N,) a row of some columns (N,) or (N, c) of numbers.

    >>> first = row_hashes([np.array([1.0, 2.0]), np.array([[0.5], [0.5]])])
    >>> again = row_hashes([np.array([2.0, 1.0]), np.array([[0.5], [0.5]])])
    >>> bool(first[0] == again[1]), bool(first[0] == first[1])
    (True, False)
    """
    flat: list[Array] = []
    for column in columns:
        wide = column if column.dtype.itemsize == 8 else column.astype(np.int64)
        bits = wide.view(np.uint64)
        flat += [bits] if bits.ndim == 1 else [bits[:, j] for j in range(bits.shape[1])]
    n = len(flat[0])
    hashes, scratch = np.empty(n, dtype=np.uint64), np.empty(_BLOCK, dtype=np.uint64)
    for start in range(0, n, _BLOCK):
        part = hashes[start : start + _BLOCK]
        some = scratch[: len(part)]
        part.fill(_START)
        for column in flat:
            np.bitwise_xor(part, column[start : start + _BLOCK], out=part)
            np.right_shift(part, _HALF, out=some)
            np.bitwise_xor(part, some, out=part)
            np.multiply(part, _TIMES, out=part)
            np.right_shift(part, _FOLD, out=some)
            np.bitwise_xor(part, some, out=part)
    return hashes


@dataclass(slots=True)
class Content:
    """Σ over rows of a mix of row hash and row number: two sums of 64 bits, order counted.

    Sums do not care where batches or parts end, and those of parts add up to those of the whole.
    """

    n: int = 0
    sums: tuple[int, int] = (0, 0)

    def add(self, hashes: Array, number: Array) -> None:
        """Add rows with their hashes (N,) and their numbers (N,) in the log."""
        mixed = hashes + number.astype(np.uint64) * _START
        totals = []
        for times in (_TIMES, _AGAIN):
            mixed ^= mixed >> _HALF
            mixed *= times
            mixed ^= mixed >> _FOLD
            totals.append(int(np.sum(mixed)))
        self.n += len(hashes)
        self._plus(totals)

    def merge(self, other: Content) -> None:
        """Add the rows of another part of the same log."""
        self.n += other.n
        self._plus(other.sums)

    def _plus(self, more: Sequence[int]) -> None:
        self.sums = ((self.sums[0] + more[0]) % _WORD, (self.sums[1] + more[1]) % _WORD)

    def digest(self, header: str) -> str:
        """Return the fingerprint, 64 hexadecimal digits, of the rows and of what they are."""
        said = f"{header}\n{self.n}\n{self.sums[0]:016x}{self.sums[1]:016x}"
        return hashlib.sha256(said.encode()).hexdigest()


@dataclass(slots=True)
class Copies:
    """How many rows are exact copies of an earlier one, in bounded memory.

    Distinct hashes are kept; when there are more than `limit`, only those that end in `k` zero
    bits stay, k as large as needed. Copies share their hash, so the rows that stay are a fair
    sample of distinct rows, all their copies included: the number of copies is exact with k = 0
    and an estimate beyond.
    """

    limit: int = 2**21
    k: int = 0
    kept: Array = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    copied: Array = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    times: Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    waiting: list[Array] = field(default_factory=list)
    n_waiting: int = 0

    def add(self, hashes: Array) -> None:
        """Add rows by their hashes (N,)."""
        some = hashes if self.k == 0 else hashes[self._stays(hashes)]
        self.waiting.append(some)
        self.n_waiting += len(some)
        if self.n_waiting >= self.limit:
            self._compact()

    def merge(self, other: Copies) -> None:
        """Add the rows of another part of the same log."""
        self.k = max(self.k, other.k)
        if len(other.copied):
            self._repeat(other.copied, other.times)
        for hashes in (other.kept, *other.waiting):
            self.add(hashes)

    def count(self) -> tuple[int, bool]:
        """Return the number of copies, and whether it is exact.

        >>> copies = Copies()
        >>> copies.add(np.array([7, 8, 7, 7], dtype=np.uint64))
        >>> copies.count()
        (2, True)
        """
        self._compact()
        return int(self.times.sum()) << self.k, self.k == 0

    @property
    def n_distinct(self) -> int:
        """Number of different rows, about."""
        self._compact()
        return len(self.kept) << self.k

    def _stays(self, hashes: Array) -> Array:
        stays: Array = (hashes & np.uint64(2**self.k - 1)) == 0
        return stays

    def _compact(self) -> None:
        if not self.waiting:
            return
        found = np.concatenate([self.kept, *self.waiting])
        self.waiting, self.n_waiting = [], 0
        found.sort()
        is_first = np.ones(len(found), dtype=bool)
        np.not_equal(found[1:], found[:-1], out=is_first[1:])
        if not is_first.all():
            self._repeat(*np.unique(found[~is_first], return_counts=True))
            found = found[is_first]
        stays = self._stays(found)
        while int(stays.sum()) > self.limit:
            self.k += 1
            stays = self._stays(found)
        self.kept = found[stays]
        stays = self._stays(self.copied)
        self.copied, self.times = self.copied[stays], self.times[stays]

    def _repeat(self, hashes: Array, times: Array) -> None:
        """Count so many more copies of rows with these hashes."""
        both = np.concatenate([self.copied, hashes])
        self.copied, place = np.unique(both, return_inverse=True)
        weights = np.concatenate([self.times, times])
        self.times = np.bincount(place, weights, len(self.copied)).astype(np.int64)
