"""Rate limits: hand arithmetic, a reference for any sequence, memory that stays small."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb.errors import InvalidInput
from gdcb.service.access import Limiter, Rate, RateLimits, TooMany
from gdcb.service.access.rates import network

WIDE = Rate(1e6, 1e6)


@dataclass
class Seconds:
    at: float = 1000.0

    def __call__(self) -> float:
        return self.at


def limiter(rate: Rate, address: Rate = WIDE, most: int = 100_000) -> tuple[Limiter, Seconds]:
    clock = Seconds()
    limits = RateLimits(other=rate, other_address=address)
    return Limiter(limits, clock, most), clock


def test_a_bucket_by_hand() -> None:
    """Three at once; then one every half second."""
    limits, clock = limiter(Rate(per_second=2, burst=3))
    for _ in range(3):
        limits.take("other", "ann", "10.0.0.1")
    with pytest.raises(TooMany, match="too many requests: try again in 1 second") as caught:
        limits.take("other", "ann", "10.0.0.1")
    assert caught.value.retry_after == 1
    limits.take("other", "bob", "10.0.0.1")
    clock.at += 0.5
    limits.take("other", "ann", "10.0.0.1")
    with pytest.raises(TooMany):
        limits.take("other", "ann", "10.0.0.1")


def test_an_address_is_limited_whoever_comes_from_it() -> None:
    limits, _ = limiter(WIDE, Rate(1, 2))
    limits.take("other", "ann", "10.0.0.1")
    limits.take("other", None, "10.0.0.1")
    with pytest.raises(TooMany):
        limits.take("other", "bob", "10.0.0.1")
    limits.take("other", "bob", "10.0.0.2")


def test_a_refused_request_costs_neither_bucket_anything() -> None:
    limits, clock = limiter(Rate(1, 1), Rate(1, 10))
    limits.take("other", "ann", "10.0.0.1")
    for _ in range(100):
        with pytest.raises(TooMany):
            limits.take("other", "ann", "10.0.0.1")
    for name in range(9):
        limits.take("other", f"p{name}", "10.0.0.1")
    clock.at += 1
    limits.take("other", "ann", "10.0.0.1")


def test_kinds_have_their_own_buckets() -> None:
    clock = Seconds()
    limits = Limiter(RateLimits(sign_in_address=Rate(1, 1)), clock)
    limits.take("sign-in", None, "10.0.0.1")
    with pytest.raises(TooMany, match="too many tries to sign in"):
        limits.take("sign-in", None, "10.0.0.1")
    limits.take("other", None, "10.0.0.1")
    limits.take("decide", "key", "10.0.0.1", n=1000)


def test_a_batch_above_the_burst_passes_when_full_and_owes_the_rest() -> None:
    limits, clock = limiter(Rate(per_second=10, burst=100))
    limits.take("other", "key", "10.0.0.1", n=150)
    with pytest.raises(TooMany) as caught:
        limits.take("other", "key", "10.0.0.1")
    assert caught.value.retry_after == 6  # 50 owed and 1 wanted, at 10 a second.
    clock.at += 5.1
    limits.take("other", "key", "10.0.0.1")


@given(
    st.lists(st.tuples(st.floats(0, 5), st.integers(1, 4)), max_size=40),
    st.floats(0.5, 5),
    st.integers(1, 6),
)
def test_no_window_ever_gets_more_than_burst_and_rate(
    steps: list[tuple[float, int]], per_second: float, burst: int
) -> None:
    """In any window of w seconds: at most burst + w·rate, and one batch beyond the burst."""
    limits, clock = limiter(Rate(per_second, burst))
    taken: list[tuple[float, int]] = []
    for wait, n in steps:
        clock.at += wait
        try:
            limits.take("other", "ann", "10.0.0.1", n)
        except TooMany as refused:
            clock.at += refused.retry_after  # Whoever waits as told gets through.
            limits.take("other", "ann", "10.0.0.1", n)
        taken.append((clock.at, n))
    beyond = max([0, *(n - burst for _, n in taken)])
    for first in range(len(taken)):
        whole = 0
        for at, n in taken[first:]:
            whole += n
            assert whole <= burst + beyond + (at - taken[first][0]) * per_second + 1e-6


def test_memory_stays_small_under_many_addresses() -> None:
    limits, clock = limiter(WIDE, Rate(0.001, 5), most=100)
    for n in range(1000):
        clock.at += 0.01
        limits.take("other", None, f"10.0.{n // 250}.{n % 250}")
    assert len(limits._buckets) <= 100


def test_full_buckets_are_forgotten_before_those_in_use() -> None:
    limits, clock = limiter(Rate(0.001, 1), Rate(1000, 1000), most=10)
    limits.take("other", "busy", "10.0.0.1")
    clock.at += 1
    for n in range(1, 9):
        limits.take("other", None, f"10.0.1.{n}")
    clock.at += 1
    limits.take("other", None, "10.0.2.1")
    limits.take("other", None, "10.0.2.2")
    with pytest.raises(TooMany):
        limits.take("other", "busy", "10.0.0.1")


def test_threads_share_one_bucket() -> None:
    limits, _ = limiter(Rate(0.001, 50))

    def attempt(_: int) -> bool:
        try:
            limits.take("other", "ann", "10.0.0.1")
        except TooMany:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(200))) == 50


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("fe80::1%eth0", "fe80::1%eth1", True),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("testclient", "testclient", True),
        ("x" * 1000, "x" * 2000, True),
    ],
)
def test_what_counts_as_one_address(one: str, other: str, is_same: bool) -> None:
    assert (network(one) == network(other)) is is_same


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), None, "1"])
def test_bad_rates_are_refused(value: float) -> None:
    with pytest.raises(InvalidInput, match="per_second: expected a number above 0"):
        Rate(value, 1)
    with pytest.raises(InvalidInput, match="burst: expected a number above 0"):
        Rate(1, value)


def test_bad_questions_are_refused() -> None:
    limits, _ = limiter(WIDE)
    with pytest.raises(InvalidInput, match="kind: expected one of decide, sign-in, other, got"):
        limits.take("all", None, "10.0.0.1")
    with pytest.raises(InvalidInput, match="n: expected a number of requests from 1 on, got -5"):
        limits.take("other", None, "10.0.0.1", n=-5)
