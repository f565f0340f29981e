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
_SPARE = (8, 4)  # spare candidates a row for rejected gamma draws: first try, then later ones


class Stream:
    """Random numbers for N rows of one stage; each call is keyed by its ordinal.

    `block` rows share a key. With `block=1` (live) every row has its own key.
    """

    __slots__ = ("_block", "_calls", "_generator", "_high", "_philox", "_state")

    def __init__(self, key: tuple[int, int], high: int, block: int) -> None:
        self._philox = np.random.Philox(0)
        self._generator = np.random.Generator(self._philox)
        self._state = self._philox.state
        self._state["buffer_pos"] = 4
        self.rekey(key, high, block)

    def rekey(self, key: tuple[int, int], high: int, block: int) -> Stream:
        """Move to another place; one Philox serves a whole run."""
        self._state["state"]["key"][:] = key
        self._high = high
        self._block = block
        self._calls = 0
        return self

    def _at(self, block: int) -> np.random.Generator:
        self._state["state"]["counter"][:] = (0, self._calls, block, self._high)
        self._philox.state = self._state
        return self._generator

    def uniform(self, n: int, *shape: int) -> Array:
        """Draw (n, *shape) uniforms on [0, 1)."""
        self._calls += 1
        out = np.empty((n, *shape))
        for block, start in enumerate(range(0, n, self._block)):
            self._at(block).random(out=out[start : start + self._block])
        return out

    def normal(self, n: int, *shape: int) -> Array:
        """Draw (n, *shape) standard normals."""
        self._calls += 1
        out = np.empty((n, *shape))
        for block, start in enumerate(range(0, n, self._block)):
            self._at(block).standard_normal(out=out[start : start + self._block])
        return out

    def beta(self, a: Array, b: Array) -> Array:
        """Draw Beta(a, b) for (n, K) parameters, each row from its own numbers alone."""
        n = a.shape[0]
        if self._block == 1:
            self._calls += 1
            if n == 1:
                return self._at(0).beta(a, b)
            return np.stack([self._at(i).beta(a[i], b[i]) for i in range(n)])
        gammas = self.gamma(np.concatenate((a, b), axis=1))
        first = gammas[:, : a.shape[1]]
        return np.asarray(first / (first + gammas[:, a.shape[1] :]))

    def gamma(self, shape: Array) -> Array:
        """Draw Gamma(shape, 1) for (n, K) shapes after Marsaglia and Tsang (2000).

        NumPy's own sampler takes as many numbers as its rejections need, so one row's parameters
        would shift the next row's draw. Here the first try has a fixed shape, and a rejected
        entry takes the next spare candidate of its own row.
        """
        n, k = shape.shape
        small = shape < 1.0
        any_small = bool(small.any())
        d = (np.where(small, shape + 1.0, shape) if any_small else shape) - 1.0 / 3.0
        c = 1.0 / np.sqrt(9.0 * d)
        z = self.normal(n, k)
        u = self.uniform(n, k)
        boost = self.uniform(n, k) if any_small else None
        self._calls += not any_small  # the same ordinals follow, whatever other rows' shapes
        v = 1.0 + c * z
        v *= v * v
        z *= z
        out = d * v
        z *= z
        pending = np.flatnonzero(u > 1.0 - 0.0331 * z)  # outside Marsaglia and Tsang's squeeze
        flat_d, flat_c, flat_out = d.ravel(), c.ravel(), out.ravel()
        z2 = np.sqrt(z.ravel()[pending])
        pending = pending[~_accepts(u.ravel()[pending], z2, v.ravel()[pending], flat_d[pending])]
        spare = _SPARE[0]
        while pending.size:
            row = pending // k
            rank = np.arange(pending.size) - np.searchsorted(row, row)
            z, u = self.normal(n, spare), self.uniform(n, spare)
            now = rank < spare
            tried, at = pending[now], (row[now], rank[now])
            v = (1.0 + flat_c[tried] * z[at]) ** 3
            good = _accepts(u[at], z[at] ** 2, v, flat_d[tried])
            flat_out[tried[good]] = (flat_d[tried] * v)[good]
            now[np.flatnonzero(now)[~good]] = False
            pending = pending[~now]
            spare = _SPARE[1]
        if boost is not None:
            out = np.where(small, out * boost ** (1.0 / shape), out)
        return np.asarray(out)


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
