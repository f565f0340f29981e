"""When to ask again, and what an answer means; nothing is sent here, so both clients share it.

Asked again is where nobody answered, and where the answer is 429, 502, 503 or 504. The wait grows
from try to try and is drawn at random between nothing and its limit, so that many clients that
were turned away together do not come back together; it is never shorter than what the service asks
for (``Retry-After``). One deadline holds for all tries and waits of a call.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from gdcb.client.calls import Call
from gdcb.client.errors import Refused, Unreachable
from gdcb.errors import InvalidInput

_BUSY = 429
_AGAIN = (429, 502, 503, 504)
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 8.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to try.

    Parameters
    ----------
    timeout : seconds for one try
    retries : tries after the first, at most
    deadline : seconds for all tries and waits of one call
    clock : seconds, from any start
    rng : draws the waits
    """

    timeout: float = 10.0
    retries: int = 5
    deadline: float = 60.0
    clock: Callable[[], float] = time.monotonic
    rng: random.Random | None = None

    def __post_init__(self) -> None:
        for name in ("timeout", "deadline"):
            if not getattr(self, name) > 0:
                raise InvalidInput(f"{name}: expected seconds above 0, got {getattr(self, name)!r}")
        if self.retries < 0:
            raise InvalidInput(f"retries: expected 0 or more, got {self.retries!r}")


class Tries:
    """The tries of one call.

    Parameters
    ----------
    call, patience : what is asked, and how long to try
    """

    def __init__(self, call: Call, patience: Patience) -> None:
        self.call, self._patience = call, patience
        self._rng = patience.rng or random.SystemRandom()
        self._started = patience.clock()
        self._n_failed = 0
        self.answer: Any = None

    @property
    def _left(self) -> float:
        spent = self._patience.clock() - self._started
        return self._patience.deadline + self.call.slow - spent

    @property
    def timeout(self) -> float:
        """Seconds that the next try may take."""
        return max(0.001, min(self._patience.timeout + self.call.slow, self._left))

    def answered(self, status: int, headers: Mapping[str, str], body: bytes) -> float | None:
        """Judge an answer: None and it is in `answer`, or seconds to wait; else `Refused`."""
        if 200 <= status < 300:
            self.answer = _json(body)
            return None
        refused = refused_of(status, headers, body)
        is_sure = status == _BUSY or self.call.is_repeatable
        wait = self._wait(refused.retry_after or 0.0) if status in _AGAIN and is_sure else None
        if wait is None:
            raise refused
        return wait

    def failed(self, error: Exception, was_sent: bool) -> float:
        """Judge a try without an answer: seconds to wait, else `Unreachable`."""
        says = str(error) or type(error).__name__
        wait = self._wait() if self.call.is_repeatable or not was_sent else None
        if wait is not None:
            return wait
        spent = self._patience.clock() - self._started
        n = self._n_failed + 1
        doubt = ""
        if was_sent and not self.call.is_repeatable:
            doubt = "; it may have been done: look before you ask again"
        raise Unreachable(
            f"{self.call.what}: no answer after {n} {'try' if n == 1 else 'tries'} in "
            f"{spent:.1f} seconds ({says}), request {self.call.request}{doubt}"
        ) from error

    def _wait(self, at_least: float = 0.0) -> float | None:
        """Return how long to wait before the next try; None: there is none."""
        if self._n_failed >= self._patience.retries:
            return None
        limit = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(self._n_failed, 10))
        wait = at_least + self._rng.uniform(0.0, limit)
        if wait >= self._left:
            return None
        self._n_failed += 1
        return wait


def refused_of(status: int, headers: Mapping[str, str], body: bytes) -> Refused:
    """Read a refusal; whoever stands between may have answered in the service's place."""
    wait = retry_after(headers)
    if 300 <= status < 400:
        to = headers.get("location", "elsewhere")[:200]
        says = f"expected an answer, got a redirect to {to}; give the service's own address"
        return Refused(status, "redirected", says, retry_after=wait)
    try:
        said = json.loads(body)["error"]
        code, message = str(said["code"]), str(said["message"])
        request, details = str(said.get("request", "")), said.get("details")
    except (ValueError, TypeError, KeyError, RecursionError):
        text = body[:200].decode(errors="replace").strip()
        request = headers.get("x-request-id", "")
        return Refused(status, "unknown", text or "no reason was given", request, None, wait)
    details = details if isinstance(details, dict) else None
    return Refused(status, code, message, request, details, wait)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return how many seconds to wait, as the answer says: a number, or a date.

    >>> retry_after({"retry-after": "3"})
    3.0
    >>> date = {"date": "Mon, 05 Jan 2026 09:00:00 GMT"}
    >>> retry_after(date | {"retry-after": "Mon, 05 Jan 2026 09:00:20 GMT"})
    20.0
    """
    said = headers.get("retry-after", "").strip()
    if said.isascii() and said.isdigit():
        return float(said[:9])
    try:
        then = parsedate_to_datetime(said).timestamp()
        # By the service's own clock where it says what time it is.
        now = parsedate_to_datetime(headers["date"]).timestamp() if "date" in headers else None
    except (ValueError, TypeError, IndexError):
        return None
    return max(0.0, then - (time.time() if now is None else now))


def _json(body: bytes) -> Any:
    if not body.strip():
        return {}
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Unreachable("the answer is not JSON; is this the address of a service?") from error
