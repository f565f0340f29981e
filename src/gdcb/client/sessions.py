"""The two clients: one that waits, and one to await; what they ask is in `surface`."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

from gdcb.client.calls import Call, get
from gdcb.client.errors import ClientError
from gdcb.client.retrying import Patience, Tries
from gdcb.client.surface import Surface
from gdcb.errors import InvalidInput

Json = dict[str, Any]
_KEY = re.compile(r"[\x21-\x7e]{1,500}", re.ASCII)
# The request never left: it is certain that nothing was done.
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
# Mistakes of this side, which another try would repeat.
_OURS = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)


class Client(Surface[Json, list[Json]]):
    """A client that waits for its answers; it may be used by many threads.

    Parameters
    ----------
    base_url : where the service is, such as https://gdcb.example.org
    key : an API key
    timeout : seconds for one try
    retries : tries after the first, at most; only where trying again does no harm
    deadline : seconds for all tries and waits of one call
    transport : how httpx sends; None: as usual
    clock, sleep, rng : time and chance, for tests

    Examples
    --------
    >>> import httpx
    >>> def service(request: httpx.Request) -> httpx.Response:
    ...     return httpx.Response(201, json={"id": "n1", "status": "passed", "arm": "1.0"})
    >>> with Client("https://x.org", "key", transport=httpx.MockTransport(service)) as client:
    ...     client.decide("rooms", {"base": 100.0}, id="n1")["status"]
    'passed'
    """

    def __init__(
        self,
        base_url: str,
        key: str,
        *,
        timeout: float = 10,
        retries: int = 5,
        deadline: float = 60,
        transport: httpx.BaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        rng: random.Random | None = None,
    ) -> None:
        self._patience = Patience(timeout, retries, deadline, clock, rng)
        self._sleep = sleep
        self._http = httpx.Client(
            base_url=_base(base_url), headers=_headers(key), transport=transport
        )

    def _one(self, call: Call) -> Json:
        return _document(call, self._send(call))

    def _many(self, call: Call) -> list[Json]:
        return _documents(call, self._send(call))

    def _send(self, call: Call, patience: Patience | None = None) -> Any:
        tries = Tries(call, patience or self._patience)
        while True:
            try:
                answer = self._http.send(_request(self._http, tries))
            except httpx.RequestError as error:
                wait: float | None = _failed(tries, error)
            else:
                wait = tries.answered(answer.status_code, answer.headers, answer.content)
            if wait is None:
                return tries.answer
            self._sleep(wait)

    def healthy(self) -> bool:
        """Return whether the service can be reached and can decide, at the first try."""
        try:
            self._send(get("readyz"), replace(self._patience, retries=0))
        except ClientError:
            return False
        return True

    def close(self) -> None:
        """Let go of connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(Surface[Awaitable[Json], Awaitable[list[Json]]]):
    """A client whose answers are awaited; see `Client` for its parameters.

    >>> async def ask() -> str:
    ...     async with AsyncClient("https://gdcb.example.org", "key") as client:
    ...         answer = await client.decide("rooms", {"base": 100.0})
    ...     return str(answer["status"])
    """

    def __init__(
        self,
        base_url: str,
        key: str,
        *,
        timeout: float = 10,
        retries: int = 5,
        deadline: float = 60,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> None:
        self._patience = Patience(timeout, retries, deadline, clock, rng)
        self._sleep = sleep
        self._http = httpx.AsyncClient(
            base_url=_base(base_url), headers=_headers(key), transport=transport
        )

    async def _one(self, call: Call) -> Json:
        return _document(call, await self._send(call))

    async def _many(self, call: Call) -> list[Json]:
        return _documents(call, await self._send(call))

    async def _send(self, call: Call, patience: Patience | None = None) -> Any:
        tries = Tries(call, patience or self._patience)
        while True:
            try:
                answer = await self._http.send(_request(self._http, tries))
            except httpx.RequestError as error:
                wait: float | None = _failed(tries, error)
            else:
                wait = tries.answered(answer.status_code, answer.headers, answer.content)
            if wait is None:
                return tries.answer
            await self._sleep(wait)

    async def healthy(self) -> bool:
        """Return whether the service can be reached and can decide, at the first try."""
        try:
            await self._send(get("readyz"), replace(self._patience, retries=0))
        except ClientError:
            return False
        return True

    async def close(self) -> None:
        """Let go of connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _request(http: httpx.Client | httpx.AsyncClient, tries: Tries) -> httpx.Request:
    call = tries.call
    headers = {"x-request-id": call.request}
    if call.kind:
        headers["content-type"] = call.kind
    # The base may have a path of its own, behind which the service stands.
    return http.build_request(
        call.method,
        call.path,
        params=dict(call.query) or None,
        content=call.body or None,
        headers=headers,
        timeout=tries.timeout,
    )


def _failed(tries: Tries, error: httpx.RequestError) -> float:
    if isinstance(error, _OURS):
        raise InvalidInput(f"{tries.call.what}: cannot be sent ({error})") from error
    return tries.failed(error, was_sent=not isinstance(error, _UNSENT))


def _document(call: Call, answer: Any) -> Json:
    if not isinstance(answer, dict):
        raise ClientError(f"{call.what}: expected a document, got {type(answer).__name__}")
    return answer


def _documents(call: Call, answer: Any) -> list[Json]:
    if not isinstance(answer, list):
        raise ClientError(f"{call.what}: expected a list, got {type(answer).__name__}")
    return answer


def _base(url: str) -> str:
    """Refuse an address that is none; a key does not stand in it."""
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except (ValueError, AttributeError, TypeError):
        is_url = False
    if not is_url or parts.query or parts.fragment:
        raise InvalidInput("base_url: expected an address such as https://gdcb.example.org")
    if "@" in parts.netloc:
        raise InvalidInput("base_url: expected no user name or password in it; give the key")
    return url.rstrip("/")


def _headers(key: object) -> dict[str, str]:
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        # Never what came: it may be a key with a slip in it.
        raise InvalidInput("key: expected an API key, as it was shown when it was made")
    return {
        "authorization": f"Bearer {key}",
        "accept": "application/json",
        "user-agent": "gdcb-client",
    }
