"""What a client may meet: the service refuses, or it cannot be reached."""

from __future__ import annotations

from typing import Any

from gdcb.errors import GdcbError


class ClientError(GdcbError):
    """Anything that a client of the service raises; catch this to catch them all."""


class Refused(ClientError):
    """The service answered, and the answer is no.

    Parameters
    ----------
    status, code : HTTP status, and the reason as a word for programs
    message : the reason as a sentence
    request : under which the service's log has it; '' where it did not say
    details : what else it said, such as who decided first
    retry_after : seconds after which to ask again, where it said so
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        request: str = "",
        details: dict[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{message} ({status} {code})")
        self.status, self.code, self.message = status, code, message
        self.request, self.details = request, details or {}
        self.retry_after = retry_after

    @property
    def decided(self) -> dict[str, Any] | None:
        """Who was first, with what and when, where somebody else has answered a held decision."""
        return self.details if self.code == "decided" else None


class Unreachable(ClientError):
    """No answer came in time, or none that can be read; what was asked may have been done.

    A decision, an outcome or a report of what ran may be sent again under the same id: it is
    done once, however often it is asked for.
    """


class BadSignature(ClientError, ValueError):
    """A message that is not from the service, was changed on its way, or is too old."""
