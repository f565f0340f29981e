"""One error body for everything that is refused, and the status that fits each refusal."""

from __future__ import annotations

import logging
import re
from typing import Any

from gdcb.errors import (
    BrokenChain,
    Conflict,
    GdcbError,
    InvalidInput,
    LedgerPutBack,
    OutOfMemory,
    StoreError,
    StoreFull,
    StoreReadOnly,
    UnknownDecision,
    UnknownInstance,
    ValuationError,
)
from gdcb.service.access import AccessError, NotSignedIn, TooMany
from gdcb.service.answering import Decided, OwnProposal, Stale
from gdcb.service.deciding import Stopped
from gdcb.service.line import Overloaded
from gdcb.service.turn import TooLate
from gdcb.service.webhooks.hooks import UnknownHook

log = logging.getLogger("gdcb.service")
LONGEST = 1_000
_WHERE = re.compile(r"^store '.*?': ", re.DOTALL)
_DRIVER = re.compile(r" \(.*\)$", re.DOTALL)


class BadRequest(GdcbError):
    """A request that cannot be read; `status` says in which way."""

    def __init__(self, message: str, status: int = 400, code: str = "bad_request") -> None:
        super().__init__(message)
        self.status, self.code = status, code


# The first that fits: a kind of error, its status, and its code for programs.
_KINDS: tuple[tuple[type[BaseException], int, str], ...] = (
    (NotSignedIn, 401, "not_signed_in"),
    (TooMany, 429, "too_many"),
    (Overloaded, 429, "overloaded"),
    (OwnProposal, 403, "own_proposal"),
    (AccessError, 403, "not_allowed"),
    (Decided, 409, "decided"),
    (Stale, 409, "stale"),
    (Stopped, 409, "stopped"),
    (TooLate, 409, "too_late"),
    (Conflict, 409, "conflict"),
    (UnknownDecision, 404, "unknown_decision"),
    (UnknownInstance, 404, "unknown_instance"),
    (UnknownHook, 404, "unknown_webhook"),
    (StoreFull, 507, "store_full"),
    (StoreReadOnly, 503, "store_read_only"),
    (LedgerPutBack, 503, "ledger_put_back"),
    (StoreError, 503, "store_unavailable"),
    (BrokenChain, 500, "broken_chain"),
    (OutOfMemory, 503, "out_of_memory"),
    (ValuationError, 500, "damaged_learner"),
    (InvalidInput, 422, "invalid_input"),
)
CODES = {
    "bad_request": 400,
    "not_found": 404,
    "method_not_allowed": 405,
    "not_acceptable": 406,
    "too_large": 413,
    "unsupported_media_type": 415,
    "internal": 500,
} | {code: status for _, status, code in _KINDS}


def problem_of(
    error: BaseException, request: str = ""
) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Return status, body and headers of a refusal.

    What is not ours to explain is logged under the request's id and answered with one sentence:
    the words of an exception are never sent.
    """
    if isinstance(error, BadRequest):
        return error.status, body(error.code, str(error), request), {}
    if isinstance(error, MemoryError):
        error = OutOfMemory()
    for kind, status, code in _KINDS:
        if isinstance(error, kind):
            details = getattr(error, "decided", None)
            headers = {}
            wait = getattr(error, "retry_after", 2 if status == 503 else None)
            if wait is not None:
                headers["retry-after"] = str(wait)
            if status == 401:
                headers["www-authenticate"] = 'Bearer realm="gdcb"'
            if isinstance(error, StoreError):
                log.warning("request %s: %s", request, error)
                return status, body(code, placeless(error), request), headers
            return status, body(code, str(error), request, details), headers
    if isinstance(error, GdcbError):
        return 422, body("invalid_input", str(error), request), {}
    log.error("request %s", request, exc_info=error)
    said = f"something went wrong on our side; the log has it under request {request}"
    return 500, body("internal", said, request), {}


def placeless(error: StoreError) -> str:
    """Return what is wrong with the store, without where it is and what its driver said.

    >>> placeless(StoreError("store 'postgresql://ann@10.0.0.7/a': it is full; make room (53100)"))
    'the ledger: it is full; make room'
    """
    words = _DRIVER.sub("", _WHERE.sub("the ledger: ", str(error)))
    return "the ledger does not answer; ask again in a moment" if "/" in words else words


def body(
    code: str, message: str, request: str = "", details: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return the one error body.

    Half of a pair of surrogates cannot be sent; what a stranger wrote is not repeated at length.
    """
    words = message.encode("utf-8", "backslashreplace").decode()
    if len(words) > LONGEST:
        words = f"{words[:LONGEST]}…"
    said = {"code": code, "message": words, "request": request}
    return {"error": said | ({} if details is None else {"details": details})}
