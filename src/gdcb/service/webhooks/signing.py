"""Secrets of webhooks as the database keeps them: the one in force, and the one that it replaces.

How a message is signed stands in `gdcb.client.signing`, which receivers use without a service.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from gdcb.client.signing import HEADER, read_secret, show_secret, sign, verify
from gdcb.errors import InvalidInput

__all__ = ["HEADER", "Secrets", "new_secrets", "read_secret", "show_secret", "sign", "verify"]

_SIZE, _TIME = 32, 8


@dataclass(frozen=True, slots=True)
class Secrets:
    """The secret in force, and until when (µs) messages are signed with the one before it too."""

    current: bytes
    old: bytes = b""
    until: int = 0

    @classmethod
    def from_bytes(cls, kept: bytes) -> Secrets:
        """Read what `to_bytes` wrote."""
        if len(kept) == _SIZE:
            return cls(kept)
        if len(kept) != 2 * _SIZE + _TIME:
            raise InvalidInput(f"secret: expected {_SIZE} or {2 * _SIZE + _TIME} bytes")
        until = int.from_bytes(kept[2 * _SIZE :], "big")
        return cls(kept[:_SIZE], kept[_SIZE : 2 * _SIZE], until)

    def to_bytes(self) -> bytes:
        """Write both down; the database must have them, since it signs with them."""
        if not self.old:
            return self.current
        return self.current + self.old + self.until.to_bytes(_TIME, "big")

    def at(self, now: int) -> list[bytes]:
        """Return the secrets to sign with at a time, µs."""
        return [self.current, self.old] if self.old and now < self.until else [self.current]

    def replaced(self, until: int) -> Secrets:
        """Return a fresh secret, with this one beside it for a while."""
        return Secrets(secrets.token_bytes(_SIZE), self.current, until)

    def __repr__(self) -> str:
        """Show that there is one, and not which."""
        return "Secrets(…)"


def new_secrets() -> Secrets:
    """Return a fresh secret of 256 random bits."""
    return Secrets(secrets.token_bytes(_SIZE))
