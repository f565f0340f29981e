"""Random streams that are keyed, not passed around.

A stream is a place in one counter-based generator (Philox): its key says *what* is drawn, its
counter says *for whom*. So no result depends on the worker, on the order of work or on what runs
beside. In a simulation the place is (seed, stage, round, block of replicates); live it is
(seed, decision id, stage, row). Every draw is made for every row, in row order, whether or not
the row uses it; a row's numbers therefore never depend on another row's state.
"""

from __future__ import annotations

import hashlib

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput

# Stages: what a random number is for. Their values are part of every stored seed: append only.
CONTEXT, DRAW, GATE, OUTCOME, LABEL, WORLD, ADVANCE = range(1, 8)

_LIMIT = 2**64
_FINE = 2.0**-24  # what a 32-bit uniform cannot tell apart


class Stream:
    """Random numbers for N rows of one stage; each call is keyed by its ordinal.

    `block` rows share a key. With `block=1` (live) every row has its own key.
    """

    __slots__ = ("_block", "_calls", "_counter", "_generator", "_high", "_key", "_philox", "_state")

    def __init__(self, key: tuple[int, int], high: int, block: int) -> None:
        self._philox = np.random.Philox(0)
        self._generator = np.random.Generator(self._philox)
        self._state = self._philox.state
        self._state["buffer_pos"] = 4
        self._counter = self._state["state"]["counter"]
        self._key = self._state["state"]["key"]
        self.rekey(key, high, block)

    def rekey(self, key: tuple[int, int], high: int, block: int) -> Stream:
        """Move to another place; one Philox serves a whole run."""
        self._key[0], self._key[1] = key
        self._high = high
        self._block = block
        self._calls = 0
        return self

    def _at(self, block: int) -> np.random.Generator:
        counter = self._counter
        counter[0], counter[1], counter[2], counter[3] = 0, self._calls, block, self._high
        self._philox.state = self._state
        return self._generator

    def uniform(self, n: int, *shape: int) -> Array:
        """Draw (n, *shape) uniforms on [0, 1)."""
        self._calls += 1
        if n <= self._block:
            return self._at(0).random((n, *shape))
        out = np.empty((n, *shape))
        for block, start in enumerate(range(0, n, self._block)):
            self._at(block).random(out=out[start : start + self._block])
        return out

    def normal(self, n: int, *shape: int) -> Array:
        """Draw (n, *shape) standard normals."""
        self._calls += 1
        if n <= self._block:
            return self._at(0).standard_normal((n, *shape))
        out = np.empty((n, *shape))
        for block, start in enumerate(range(0, n, self._block)):
            self._at(block).standard_normal(out=out[start : start + self._block])
        return out

    def beta(self, counts: Array) -> Array:
        """Draw Beta(α, β) for counts (n, 2, K) of α and β: (n, K)."""
        n, _, k = counts.shape
        if self._block > 1:
            gammas = self.gamma(counts.reshape(n, 2 * k)).reshape(n, 2, k)
        elif n == 1:
            self._calls += 1
            gammas = self._at(0).standard_gamma(counts)
        else:
            self._calls += 1
            gammas = np.stack([self._at(i).standard_gamma(counts[i]) for i in range(n)])
        first = gammas[:, 0]
        return np.asarray(first / (first + gammas[:, 1]))

    def gamma(self, shape: Array) -> Array:
        """Draw Gamma(shape, 1) for (n, K) shapes after Marsaglia and Tsang (2000).

        NumPy's own sampler takes as many numbers as its rejections need, so one row's parameters
        would shift the next row's draw. Here the first candidates have a fixed shape; what an
        entry needs beyond them is a hash of its own place and try.
        """
        n, k = shape.shape
        out = np.empty((n, k))
        self._calls += 3
        salt = int(self._at(0).integers(2**64, dtype=np.uint64))
        small = shape < 1.0
        has_small = bool(small.any())
        lifted = np.where(small, shape + 1.0, shape) if has_small else shape
        doubts = []
        for block, start in enumerate(range(0, n, self._block)):
            rows = slice(start, start + self._block)
            place, *rest = self._first_try(block, lifted[rows], out[rows])
            doubts.append((place + start * k, *rest))
        pending, u, z2, v, d = (np.concatenate(parts) for parts in zip(*doubts, strict=True))
        u = u + _FINE * _hashed(salt, pending, 0)  # the digits that 24 bits leave open
        pending, flat = pending[~_accepts(u, z2, v, d)], out.reshape(-1)
        attempt = 1
        while pending.size:
            if attempt > 10_000:  # a chance below 10⁻¹⁰⁰⁰⁰ for any shape there is
                raise InvalidInput("gamma: expected finite shapes above 0")
            d = lifted.reshape(-1)[pending] - 1.0 / 3.0
            u = _hashed(salt, pending, 4 * attempt)
            radius = np.sqrt(-2.0 * np.log(_hashed(salt, pending, 4 * attempt + 1)))
            z = radius * np.cos(2.0 * np.pi * _hashed(salt, pending, 4 * attempt + 2))
            v = (1.0 + z / np.sqrt(9.0 * d)) ** 3
            good = _accepts(u, z * z, v, d)
            flat[pending[good]] = (d * v)[good]
            pending = pending[~good]
            attempt += 1
        if has_small:
            # Gamma(a) = Gamma(a + 1) · U^(1/a) for a below 1.
            entry = np.flatnonzero(small)
            flat[entry] *= _hashed(salt, entry, 3) ** (1.0 / shape.reshape(-1)[entry])
        return out

    def _first_try(self, block: int, shape: Array, out: Array) -> tuple[Array, ...]:
        """Draw one candidate an entry into `out`.

        Returns the places, u, z², v and d of those that are not surely to be accepted.
        """
        self._calls -= 2
        z = self._at(block).standard_normal(shape.shape)
        self._calls += 1
        u = self._at(block).random(shape.shape, dtype=np.float32)
        self._calls += 1
        d = shape - 1.0 / 3.0
        v = np.sqrt(d)
        np.divide(1.0 / 3.0, v, out=v)
        v *= z
        v += 1.0
        np.multiply(v, v, out=out)
        v *= out
        np.multiply(d, v, out=out)
        z *= z
        limit = z * z
        limit *= -0.0331
        limit += 1.0 - _FINE
        place = np.flatnonzero(u > limit)  # not surely inside Marsaglia and Tsang's squeeze
        return (place, *(part.ravel()[place] for part in (u, z, v, d)))


def _hashed(salt: int, place: Array, ordinal: int) -> Array:
    """Return a uniform on (0, 1) for every place: SplitMix64 of salt, place and ordinal."""
    x = place.astype(np.uint64) * np.uint64(2**20) + np.uint64(ordinal + 1)
    x *= np.uint64(0x9E3779B97F4A7C15)
    x += np.uint64(salt)
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return ((x >> np.uint64(11)).astype(float) + 0.5) * 2.0**-53


def _accepts(u: Array, z2: Array, v: Array, d: Array) -> Array:
    """Marsaglia and Tsang's exact test on a candidate d·v."""
    positive = v > 0.0
    log_v = np.log(np.where(positive, v, 1.0))
    return positive & (np.log(u) < 0.5 * z2 + d * (1.0 - v + log_v))


class Streams:
    """All random numbers of one seed, for a simulation of blocks of replicates.

    >>> a, b = Streams(7, rows_per_replicate=2), Streams(7, rows_per_replicate=2)
    >>> bool((a.at(DRAW, 3).normal(10, 2)[:4] == b.at(DRAW, 3).normal(4, 2)).all())
    True
    """

    replicates_per_block = 100

    def __init__(self, seed: int, rows_per_replicate: int = 1) -> None:
        self._seed = check_seed(seed)
        self._block = self.replicates_per_block * rows_per_replicate
        self._streams: dict[int, Stream] = {}

    def at(self, stage: int, t: int) -> Stream:
        """Return the stream of `stage` in round `t`; valid until the stage is asked for again."""
        stream = self._streams.get(stage)
        if stream is None:
            stream = self._streams[stage] = Stream((self._seed, stage), t, self._block)
            return stream
        return stream.rekey((self._seed, stage), t, self._block)


def check_seed(seed: int) -> int:
    """Refuse a seed that is not an integer in 0..2⁶⁴−1."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise InvalidInput(f"seed: expected a whole number, got {seed!r}")
    if not 0 <= seed < _LIMIT:
        raise InvalidInput(f"seed: expected 0 to 2**64 - 1, got {seed}")
    return int(seed)


def key_of(identifier: str) -> int:
    """Return the 64-bit key of a decision or batch id (BLAKE2b)."""
    return int.from_bytes(hashlib.blake2b(identifier.encode(), digest_size=8).digest(), "little")
