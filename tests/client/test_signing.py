"""A receiver accepts what the service signed, and nothing else."""

from __future__ import annotations

import hashlib
import hmac
import re
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb.client import BadSignature, ClientError, verify
from gdcb.client.signing import read_secret, show_secret, sign
from gdcb.errors import InvalidInput
from gdcb.service.webhooks.signing import Secrets, new_secrets

SECRET = bytes(range(32))
TEXT = show_secret(SECRET)


def test_a_signature_by_hand() -> None:
    """HMAC-SHA256 of '1000.{}', with hmac alone."""
    expected = hmac.new(SECRET, b"1000.{}", hashlib.sha256).hexdigest()
    assert sign([SECRET], 1_000, b"{}") == f"t=1000,v1={expected}"
    assert verify(TEXT, f"t=1000,v1={expected}", b"{}", now=1_000) == 1_000


@given(st.binary(max_size=200), st.integers(0, 2**35), st.integers(0, 200), st.integers(0, 7))
def test_one_bit_is_enough_to_refuse(body: bytes, at: int, place: int, bit: int) -> None:
    header = sign([SECRET], at, body)
    assert verify(TEXT, header, body, now=at) == at
    if body:
        place %= len(body)
        changed = body[:place] + bytes([body[place] ^ (1 << bit)]) + body[place + 1 :]
        with pytest.raises(BadSignature, match="not that of this body"):
            verify(TEXT, header, changed, now=at)
    with pytest.raises(BadSignature, match="not that of this body"):
        verify(TEXT, header, body + b"\n", now=at)
    with pytest.raises(BadSignature, match="not that of this body"):
        verify(TEXT, header.replace(f"t={at},", f"t={at + 1},"), body, now=at)


def test_another_secret_does_not_fit() -> None:
    with pytest.raises(BadSignature, match="not that of this body under this secret"):
        verify(show_secret(bytes(32)), sign([SECRET], 5, b"x"), b"x", now=5)


@pytest.mark.parametrize(
    ("now", "says"),
    [
        (1_301.0, "expected one of the last 300 seconds, got one that is 301 seconds old"),
        (699.0, "got one that is 301 seconds ahead of the clock"),
        (float("nan"), "expected one of the last 300 seconds"),
    ],
)
def test_a_recorded_message_is_refused_later(now: float, says: str) -> None:
    header = sign([SECRET], 1_000, b"{}")
    assert verify(TEXT, header, b"{}", now=1_300.0) == 1_000
    assert verify(TEXT, header, b"{}", now=700.0) == 1_000
    assert verify(TEXT, header, b"{}", now=9_000.0, tolerance=9_000) == 1_000
    with pytest.raises(BadSignature, match=says):
        verify(TEXT, header, b"{}", now=now)


def test_the_clock_of_the_machine_is_the_default() -> None:
    with pytest.raises(BadSignature, match="seconds old"):
        verify(TEXT, sign([SECRET], 1_000, b""), b"")


def test_secrets_are_replaced_on_either_side() -> None:
    old, new = bytes(32), SECRET
    both = sign([new, old], 5, b"x")
    assert both.count("v1=") == 2
    for one in (old, new):
        assert verify(show_secret(one), both, b"x", now=5) == 5
    assert verify([show_secret(old), TEXT], sign([new], 5, b"x"), b"x", now=5) == 5
    with pytest.raises(BadSignature):
        verify([], both, b"x", now=5)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "t=5",
        "v1=" + "0" * 64,
        "t=5,v1=",
        "t=5,v1=xyz",
        "t=5,v2=" + "0" * 64,
        "t=-5,v1=" + "0" * 64,
        "t=5,t=5,v1=" + "0" * 64,
        "t=٥,v1=" + "0" * 64,
        "t=5,v1=" + "é" * 64,
        "t=" + "9" * 5_000 + ",v1=" + "0" * 64,
    ],
)
def test_headers_that_are_none(header: str) -> None:
    with pytest.raises(BadSignature, match="signature: expected t=SECONDS,v1=HEX"):
        verify(TEXT, header, b"x", now=5)


@given(st.text(max_size=200))
def test_any_header_is_read_without_a_crash(header: str) -> None:
    with pytest.raises(BadSignature):
        verify(TEXT, header, b"x", now=5)


def test_no_header() -> None:
    with pytest.raises(BadSignature, match="expected the header gdcb-signature, got none"):
        verify(TEXT, None, b"x", now=5)


@pytest.mark.parametrize(
    "secret", ["", "whsec_", "whsec_" + "0" * 63, "0" * 64, "whsec_" + "G" * 64, 7]
)
def test_secrets_that_are_none_are_not_repeated(secret: object) -> None:
    with pytest.raises(InvalidInput, match=r"^secret: expected whsec_ and 64 hexadecimal digits$"):
        read_secret(secret)


def test_the_body_must_be_the_bytes_as_they_came() -> None:
    said: Any = {"messages": []}
    with pytest.raises(InvalidInput, match="body: expected bytes as they came, got dict"):
        verify(TEXT, sign([SECRET], 5, b""), said, now=5)


def test_one_family_of_errors() -> None:
    assert issubclass(BadSignature, ClientError)


def test_secrets_in_the_database() -> None:
    made = new_secrets()
    assert len(made.current) == 32
    assert made != new_secrets()
    assert made.at(0) == [made.current]
    assert Secrets.from_bytes(made.to_bytes()) == made
    after = made.replaced(until=100)
    assert Secrets.from_bytes(after.to_bytes()) == after
    assert after.at(99) == [after.current, made.current]
    assert after.at(100) == [after.current]
    assert made.current.hex() not in repr(after)
    assert re.fullmatch("whsec_[0-9a-f]{64}", show_secret(after.current))
    with pytest.raises(InvalidInput, match="secret: expected 32 or 72 bytes"):
        Secrets.from_bytes(b"short")


def test_a_receiver_needs_nothing_but_the_standard_library() -> None:
    program = (
        "import sys; from gdcb.client import verify; "
        "print([m for m in ('httpx', 'sqlalchemy', 'fastapi', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
