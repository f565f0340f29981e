"""Random streams that are keyed, not passed around.

A stream is a place in one counter-based generator (Philox): its key says *what* is drawn, its
counter says *for whom*. So no result depends on the worker, on the order of work or on what runs
beside. In a simulation the place is (seed, stage, round, block of replicates); live it is
(seed, request, stage, row), where a service puts a nonce before the request's id. Every draw is
made for every row, in row order, whether or not the row uses it; a row's numbers therefore never
depend on another row's state.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gdcb import betas
from gdcb.arrays import Array
from gdcb.errors import InvalidInput

# Stages: what a random number is for. Their values are part of every stored seed: append only.
CONTEXT, DRAW, GATE, OUTCOME, LABEL, WORLD, ADVANCE, PROPENSITY, INCUMBENT, LAUNCH = range(1, 11)

_LIMIT = 2**64
_FEW = 256  # numbers a block; up to here it costs more to start SFC64 than it saves


class Stream:
    """Random numbers for N rows of one stage; each call is keyed by its ordinal.

    `block` rows share a key; `first` blocks come before these rows and are drawn elsewhere. With
    `block=1` (live) every row has its own key and Philox draws its numbers. Larger blocks mostly
    have many numbers to draw: there Philox only draws the 256 bits at which SFC64, three times as
    fast, starts.
    """

    __slots__ = (
        "_block",
        "_calls",
        "_counter",
        "_fast",
        "_fast_generator",
        "_fast_state",
        "_first",
        "_generator",
        "_high",
        "_key",
        "_philox",
        "_places",
        "_state",
        "_work",
    )

    def __init__(self, key: tuple[int, int], high: int, block: int, first: int = 0) -> None:
        self._first = first
        self._philox, self._fast = np.random.Philox(0), np.random.SFC64(0)
        self._generator = np.random.Generator(self._philox)
        self._fast_generator = np.random.Generator(self._fast)
        self._fast_state = self._fast.state
        self._counter, self._key = [0, 0, 0, 0], [0, 0]
        # Lists: a state is set for every row, and arrays of four numbers are slow to walk.
        state: Any = {"counter": self._counter, "key": self._key}
        fresh: Any = {"state": state, "buffer": [0, 0, 0, 0], "buffer_pos": 4}
        self._state = self._philox.state | fresh
        self._work: Array | None = None
        self.rekey(key, high, block)

    def rekey(self, key: tuple[int, int], high: int, block: int) -> Stream:
        """Move to another place; one Philox serves a whole run."""
        self._key[0], self._key[1] = key
        self._high = high
        self._block = block
        self._calls = 0
        self._places: Sequence[tuple[int, int, int]] | None = None
        return self

    def rekey_rows(self, places: Sequence[tuple[int, int, int]], high: int) -> Stream:
        """Move to rows that have keys of their own: (first key, second key, row) of each.

        A row's numbers are those that it would get alone, or among other rows.
        """
        self.rekey(places[0][:2], high, 1)
        self._places = places
        return self

    def _at(self, row: int) -> np.random.Generator:
        """Return Philox at the place of this call and, live, this row."""
        counter, places = self._counter, self._places
        if places is not None:
            self._key[0], self._key[1], row = places[row]
        counter[0], counter[1], counter[2], counter[3] = 0, self._calls, row, self._high
        self._philox.state = self._state
        return self._generator

    def _blocks(self, n: int, size: int) -> Iterator[tuple[slice, np.random.Generator]]:
        """Yield the rows of every block, and the generator at its place, for one call.

        `size` numbers a row: where a block needs few, Philox draws them itself.
        """
        self._calls += 1
        if self._block == 1 or self._block * size <= _FEW:
            for i in range(-(-n // self._block)):
                yield slice(i * self._block, (i + 1) * self._block), self._at(self._first + i)
            return
        self._at(0)
        starts = self._philox.random_raw(4 * (self._first - (-n // self._block))).reshape(-1, 4)
        for i, start in enumerate(starts[self._first :]):
            self._fast_state["state"]["state"] = start
            self._fast.state = self._fast_state
            yield slice(i * self._block, (i + 1) * self._block), self._fast_generator

    def uniform(self, n: int, *shape: int) -> Array:
        """Draw (n, *shape) uniforms on [0, 1)."""
        if n == self._block == 1:
            self._calls += 1
            return self._at(0).random((n, *shape))
        out = np.empty((n, *shape))
        for rows, generator in self._blocks(n, math.prod(shape)):
            generator.random(out=out[rows])
        return out

    def normal(self, n: int, *shape: int) -> Array:
        """Draw (n, *shape) standard normals."""
        if n == self._block == 1:
            self._calls += 1
            return self._at(0).standard_normal((n, *shape))
        out = np.empty((n, *shape))
        for rows, generator in self._blocks(n, math.prod(shape)):
            generator.standard_normal(out=out[rows])
        return out

    def beta(self, counts: Array) -> Array:
        """Draw Beta(α, β) for counts (n, 2, K) of α and β: (n, K).

        Live a row has a key of its own, and may take as many numbers as NumPy's sampler needs. In
        blocks each entry is drawn by itself (`gdcb.betas`).
        """
        n, _, k = counts.shape
        if self._block == 1:
            return self._live_beta(counts)
        if self._work is None or self._work.shape[1] < k:
            self._work = betas.workspace(k)
        uniforms = self.uniform(n, 2, k)  # row by row, so that a block may end anywhere
        self._calls += 1
        self._at(0)
        before = self._first * self._block * k
        return betas.beta(counts, uniforms, self._philox.random_raw(), self._work, before)

    def _live_beta(self, counts: Array) -> Array:
        """Draw Beta(α, β) as γ(α) / (γ(α) + γ(β)), every row with NumPy's sampler at its key."""
        if counts.shape[0] == 1:
            self._calls += 1
            gammas = self._at(0).standard_gamma(counts)
        else:
            gammas = np.empty(counts.shape)
            for rows, generator in self._blocks(counts.shape[0], 0):
                generator.standard_gamma(counts[rows], out=gammas[rows])
        first = gammas[:, 0]
        return np.asarray(first / (first + gammas[:, 1]))


class Streams:
    """All random numbers of one seed, for a simulation of blocks of replicates.

    With `first_block` b the replicates are those from 100·b on: bit for bit what they are where
    all are drawn together.

    >>> a, b = Streams(7, rows_per_replicate=2), Streams(7, rows_per_replicate=2)
    >>> bool((a.at(DRAW, 3).normal(10, 2)[:4] == b.at(DRAW, 3).normal(4, 2)).all())
    True
    """

    replicates_per_block = 100

    def __init__(self, seed: int, rows_per_replicate: int = 1, first_block: int = 0) -> None:
        self._seed = check_seed(seed)
        self._block = self.replicates_per_block * rows_per_replicate
        self._first = check_block(first_block)
        self._streams: dict[int, Stream] = {}

    def at(self, stage: int, t: int) -> Stream:
        """Return the stream of `stage` in round `t`; valid until the stage is asked for again."""
        stream = self._streams.get(stage)
        if stream is None:
            stream = self._streams[stage] = Stream((self._seed, stage), t, self._block, self._first)
            return stream
        return stream.rekey((self._seed, stage), t, self._block)


def check_seed(seed: int) -> int:
    """Refuse a seed that is not an integer in 0..2⁶⁴−1."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise InvalidInput(f"seed: expected a whole number, got {seed!r}")
    if not 0 <= seed < _LIMIT:
        raise InvalidInput(f"seed: expected 0 to 2**64 - 1, got {seed}")
    return int(seed)


def check_block(block: int) -> int:
    """Refuse a first block that is not a whole number from 0 up."""
    given: object = block
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 0:
        raise InvalidInput(f"first_block: expected a whole number >= 0, got {block!r}")
    return int(given)


def key_of(identifier: str) -> int:
    """Return the 64-bit key of a decision or batch id (BLAKE2b)."""
    return int.from_bytes(hashlib.blake2b(identifier.encode(), digest_size=8).digest(), "little")
