"""Signatures of webhooks: how the service makes them, and how a receiver checks them.

A message comes with the header ``gdcb-signature: t=TIME,v1=HEX``: TIME is seconds since 1970, HEX
is HMAC-SHA256 of ``TIME.BODY`` under the secret that both sides know. While a secret is being
replaced there are two of ``v1``, and one that fits is enough. Only the standard library is needed.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from collections.abc import Iterable

from gdcb.client.errors import BadSignature
from gdcb.errors import InvalidInput

HEADER = "gdcb-signature"
TOLERANCE = 300
_SECRET = re.compile(r"whsec_([0-9a-f]{64})", re.ASCII)
_TIME = re.compile(r"[0-9]{1,12}", re.ASCII)
_SIGNED = re.compile(r"[0-9a-f]{64}", re.ASCII)
_LONGEST = 1_000


def show_secret(secret: bytes) -> str:
    """Write a secret of 32 bytes as text; its form lets secret scanners find leaks.

    >>> show_secret(bytes(32))[:12]
    'whsec_000000'
    """
    return f"whsec_{secret.hex()}"


def read_secret(text: object) -> bytes:
    """Read what `show_secret` wrote."""
    found = _SECRET.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        # Never what came: it may be a secret with a slip in it.
        raise InvalidInput("secret: expected whsec_ and 64 hexadecimal digits")
    return bytes.fromhex(found[1])


def sign(secrets: Iterable[bytes], at: int, body: bytes) -> str:
    """Return the header's value for a body, signed with every secret in force.

    >>> sign([bytes(32)], 17, b"{}")[:16]
    't=17,v1=6f082fa8'
    """
    signed = [f"v1={_mac(secret, b'%d' % at, body)}" for secret in secrets]
    return ",".join([f"t={at}", *signed])


def verify(
    secret: str | Iterable[str],
    header: str | None,
    body: bytes,
    now: float | None = None,
    tolerance: float = TOLERANCE,
) -> int:
    """Return when a message was signed, in seconds since 1970; refuse one that is not genuine.

    Parameters
    ----------
    secret : as it was shown when the hook was made; several while one replaces another
    header : the value of ``gdcb-signature``, None where there was none
    body : the bytes as they came, before anything parses them
    now : seconds since 1970; None: this machine's clock
    tolerance : how far from now, in seconds, the time of signing may be. A message that somebody
        recorded is refused once it is older; within that time, and for messages that are sent
        again, compare the messages' ids.

    Examples
    --------
    >>> secret = show_secret(bytes(32))
    >>> header = sign([bytes(32)], 1_000, b"{}")
    >>> verify(secret, header, b"{}", now=1_100)
    1000
    >>> verify(secret, header, b"{ }", now=1_100)
    Traceback (most recent call last):
    gdcb.client.errors.BadSignature: signature: it is not that of this body under this secret
    """
    if not isinstance(body, bytes):
        raise InvalidInput(f"body: expected bytes as they came, got {type(body).__name__}")
    known = [read_secret(one) for one in ([secret] if isinstance(secret, str) else secret)]
    at, signed = _read(header)
    fits = False
    # Every pair is compared, each in constant time: how long it takes says nothing.
    for one in known:
        expected = _mac(one, at.encode(), body)
        for given in signed:
            fits |= hmac.compare_digest(expected, given)
    if not fits:
        raise BadSignature("signature: it is not that of this body under this secret")
    age = (time.time() if now is None else now) - int(at)
    if not abs(age) <= tolerance:
        raise BadSignature(
            f"signature: expected one of the last {tolerance:g} seconds, got one that is "
            f"{abs(age):.0f} seconds {'old' if age > 0 else 'ahead of the clock'}"
        )
    return int(at)


def _read(header: str | None) -> tuple[str, list[str]]:
    if header is None:
        raise BadSignature(f"signature: expected the header {HEADER}, got none")
    parts = [part.strip().partition("=") for part in header[:_LONGEST].split(",")]
    times = [value for name, _, value in parts if name == "t"]
    signed = [value for name, _, value in parts if name == "v1" and _SIGNED.fullmatch(value)]
    if len(times) != 1 or not _TIME.fullmatch(times[0]) or not signed:
        raise BadSignature("signature: expected t=SECONDS,v1=HEX")
    return times[0], signed


def _mac(secret: bytes, at: bytes, body: bytes) -> str:
    return hmac.new(secret, at + b"." + body, hashlib.sha256).hexdigest()
