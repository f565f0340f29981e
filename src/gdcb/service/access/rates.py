"""Rate limits: token buckets per principal and per address, in the memory of one process.

With several processes each one grants the rate: they protect a process from its clients, and the
tries of passwords from haste. How many requests may wait in all is decided elsewhere.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv6Address, ip_address

from gdcb.errors import InvalidInput
from gdcb.service.access.errors import TooMany


@dataclass(frozen=True, slots=True)
class Rate:
    """A bucket: `burst` at once, filled again by `per_second`."""

    per_second: float
    burst: float

    def __post_init__(self) -> None:
        for name in ("per_second", "burst"):
            value = getattr(self, name)
            if not (isinstance(value, (int, float)) and 0 < value < math.inf):
                raise InvalidInput(f"{name}: expected a number above 0, got {value!r}")


@dataclass(frozen=True, slots=True)
class RateLimits:
    """Rates of the three kinds of requests, for one principal and for one address.

    An address may be a whole office or a row of machines behind one router: it has more room than
    a principal, except at the door.
    """

    decide: Rate = Rate(2_000.0, 20_000.0)
    decide_address: Rate = Rate(10_000.0, 100_000.0)
    sign_in: Rate = Rate(10 / 60, 10.0)
    sign_in_address: Rate = Rate(20 / 60, 20.0)
    other: Rate = Rate(20.0, 200.0)
    other_address: Rate = Rate(100.0, 1_000.0)

    @classmethod
    def deciding(cls, per_second: float) -> RateLimits:
        """Return limits with another rate of decisions for one principal, bursts of ten seconds.

        An address has five times as much, as by default.

        Examples
        --------
        >>> RateLimits.deciding(2_000.0) == RateLimits()
        True
        """
        decide, address = (Rate(n * per_second, 10 * n * per_second) for n in (1, 5))
        return cls(decide, address)

    def of(self, kind: str) -> tuple[Rate, Rate]:
        """Return the rates of a kind: for a principal and for an address."""
        if kind == "decide":
            return self.decide, self.decide_address
        if kind == "sign-in":
            return self.sign_in, self.sign_in_address
        if kind == "other":
            return self.other, self.other_address
        raise InvalidInput(f"kind: expected one of {', '.join(_WORDS)}, got {kind!a}")


_WORDS = {"decide": "decisions", "sign-in": "tries to sign in", "other": "requests"}
_FROM = {kind: f"{kind} from" for kind in _WORDS}


@dataclass(slots=True)
class Limiter:
    """Counts requests and refuses those above the limits.

    Parameters
    ----------
    limits : the rates
    clock : seconds of a clock that never goes back
    most : buckets that are kept; a full bucket is as good as none, and those go first
    """

    limits: RateLimits = field(default_factory=RateLimits)
    clock: Callable[[], float] = time.monotonic
    most: int = 100_000
    _buckets: dict[tuple[str, str], tuple[float, float, Rate]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, kind: str, who: str | None, address: str, n: int = 1, paid: int = 0) -> None:
        """Count n requests (rows of a batch are decisions); TooMany where a bucket has too few.

        A refused request costs nothing more. A batch above the burst passes when the bucket is
        full, and what it owes delays the next.

        Parameters
        ----------
        kind, who, address : of what, and for whom it counts
        n : how many, those in `paid` included
        paid : for how many this request was counted before
        """
        mine, theirs = self.limits.of(kind)
        if n < 1:
            raise InvalidInput(f"n: expected a number of requests from 1 on, got {n!r}")
        asked = [((_FROM[kind], network(address)), theirs)]
        if who is not None:
            asked.append(((kind, who), mine))
        with self._lock:
            at, held, wait = self.clock(), [], 0.0
            for key, rate in asked:
                level = self._level(key, rate, at)
                short = min(n, rate.burst) - level
                # A hair of time is no wait: the level is a sum of many small additions.
                if (short - paid) / rate.per_second > 1e-9:
                    wait = max(wait, short / rate.per_second)
                held.append((key, rate, level))
            if wait > 0.0:
                raise TooMany(_WORDS[kind], wait)
            for key, rate, level in held:
                self._buckets.pop(key, None)
                self._buckets[key] = (level - (n - paid), at, rate)
            if len(self._buckets) > self.most:
                self._drop(at)

    def _level(self, key: tuple[str, str], rate: Rate, at: float) -> float:
        level, then, _ = self._buckets.get(key, (rate.burst, at, rate))
        return min(rate.burst, level + (at - then) * rate.per_second)

    def _drop(self, at: float) -> None:
        """Forget buckets that are full again, then those that were used longest ago."""
        full = [key for key, (_, _, rate) in self._buckets.items() if self._is_full(key, rate, at)]
        for key in full:
            del self._buckets[key]
        for key in list(self._buckets)[: max(0, len(self._buckets) - self.most * 9 // 10)]:
            del self._buckets[key]

    def _is_full(self, key: tuple[str, str], rate: Rate, at: float) -> bool:
        return self._level(key, rate, at) >= rate.burst


@lru_cache(maxsize=10_000)
def network(address: str) -> str:
    """Return what counts as one address: of IPv6 the first 64 bits, which one household has.

    Examples
    --------
    >>> network("203.0.113.9"), network("2001:db8:1:2:3::4"), network("::ffff:203.0.113.9")
    ('203.0.113.9', '2001:db8:1:2::', '203.0.113.9')
    """
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address[:100]  # A socket's path, or a test's client.
    if not isinstance(found, IPv6Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(IPv6Address(int(found) >> 64 << 64))
