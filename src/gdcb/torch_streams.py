"""Random streams on a torch device, with the interface of `gdcb.streams`.

Each call has a generator of its own place: (seed, stage, round, call). The rows of a call share
it, so what is promised is less than on NumPy: the same seed, device, version of torch and number
of rows give the same numbers; another number of rows gives others.
"""

from __future__ import annotations

import hashlib
from typing import Any

from gdcb.arrays import torch
from gdcb.streams import check_seed

_WORD = 2**64
_GOLDEN = 0x9E3779B97F4A7C15  # odd: different places give different keys
_STAGES, _CALLS = 2**4, 2**8  # most stages, and most calls of one in a round


class TorchStream:
    """Random numbers for N rows of one stage in one round, as 64-bit floating-point tensors."""

    __slots__ = ("_calls", "_generator", "_key", "_options")

    def __init__(self, device: Any) -> None:
        self._generator = torch().Generator(device)
        self._options = {"dtype": torch().float64, "device": device, "generator": self._generator}
        self._key, self._calls = 0, 0

    def rekey(self, key: int, stage: int, t: int) -> TorchStream:
        """Move to another place."""
        self._key = key + _GOLDEN * (t * _CALLS * _STAGES + stage)
        self._calls = 0
        return self

    def _next(self) -> Any:
        """Return the generator at the place of this call.

        On a processor torch reads the lower 32 bits of the key only; those of different places
        within 2²⁰ rounds still differ.
        """
        self._calls += 1
        return self._generator.manual_seed((self._key + _GOLDEN * _STAGES * self._calls) % _WORD)

    def uniform(self, n: int, *shape: int) -> Any:
        """Draw (n, *shape) uniforms on [0, 1)."""
        self._next()
        return torch().rand((n, *shape), **self._options)

    def normal(self, n: int, *shape: int) -> Any:
        """Draw (n, *shape) standard normals."""
        self._next()
        return torch().randn((n, *shape), **self._options)

    def beta(self, counts: Any) -> Any:
        """Draw Beta(α, β) for counts (n, 2, K) of α and β: (n, K).

        α/(α + β) of two gamma variates; torch keeps them above 0.
        """
        # torch's public samplers take no generator; the one behind them does.
        gammas = torch()._standard_gamma(counts, generator=self._next())
        return gammas[:, 0] / (gammas[:, 0] + gammas[:, 1])


class TorchStreams:
    """All random numbers of one seed on one device."""

    def __init__(self, seed: int, device: Any) -> None:
        digest = hashlib.blake2b(check_seed(seed).to_bytes(8, "little"), digest_size=8).digest()
        self._key = int.from_bytes(digest, "little")
        self._device = device
        self._streams: dict[int, TorchStream] = {}

    def at(self, stage: int, t: int) -> TorchStream:
        """Return the stream of `stage` in round `t`; valid until the stage is asked for again."""
        stream = self._streams.get(stage)
        if stream is None:
            stream = self._streams[stage] = TorchStream(self._device)
        return stream.rekey(self._key, stage, t)
