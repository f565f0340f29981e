"""What access refuses: each error is one sentence and has the HTTP status that fits it."""

from __future__ import annotations

import math
from typing import ClassVar

from gdcb.errors import GdcbError


class AccessError(GdcbError):
    """A request that is refused for who sent it or how; nothing was changed."""

    status: ClassVar[int] = 403


class NotSignedIn(AccessError):
    """Nobody known sent the request."""

    status = 401

    def __init__(
        self, says: str = "sign in, or send an API key as 'Authorization: Bearer gdcb_…'"
    ) -> None:
        super().__init__(says)


class SignInRefused(NotSignedIn):
    """A link or a password that does not open anything; the sentence never says which part."""


class NotAllowed(AccessError):
    """Somebody known asked for what their roles do not cover."""


class Forged(NotAllowed):
    """A request with a session cookie that our own page did not make."""


class TooMany(AccessError):
    """More requests than the limit; `retry_after` says when to come again, in whole seconds."""

    status = 429

    def __init__(self, what: str, wait_s: float) -> None:
        self.retry_after = max(1, math.ceil(wait_s))
        seconds = "1 second" if self.retry_after == 1 else f"{self.retry_after} seconds"
        super().__init__(f"too many {what}: try again in {seconds}")
