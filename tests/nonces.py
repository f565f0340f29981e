"""Nonces that repeat: a service draws them anew each time, and a test must come out the same."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from gdcb.service import turn

_numbers = count()


def _next(size: int) -> str:
    return f"{next(_numbers):0{2 * size}x}"


@pytest.fixture(autouse=True, scope="session")
def counted_nonces() -> Iterator[None]:
    """Count nonces in this process instead of drawing them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(turn, "token_hex", _next, raising=False)
        yield


@pytest.fixture(autouse=True)
def repeatable_nonces() -> None:
    """Begin each test with the same nonce."""
    global _numbers
    _numbers = count(1)
