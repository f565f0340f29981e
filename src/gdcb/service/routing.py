"""What all routes share: strict JSON, who asks, which desk, and how refusals are answered."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Coroutine, MutableMapping
from typing import Any, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from gdcb.errors import GdcbError
from gdcb.ledger.live import Live
from gdcb.service.access import NotAllowed, NotSignedIn, Principal, require
from gdcb.service.access.rates import network
from gdcb.service.desk import Desk
from gdcb.service.house import House
from gdcb.service.problems import BadRequest, body, problem_of
from gdcb.service.strict_json import loads
from gdcb.service.turn import Turn

log = logging.getLogger("gdcb.service")
T = TypeVar("T")
_WHO, _OURS, _PAID = "gdcb_principal", "gdcb_is_ours", "gdcb_paid"
_OBJECT = "expected a JSON object with named fields"
# What the checker of models says in words of Python, said in words of JSON.
_SAYS = {
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "dict_type": _OBJECT,
    "list_type": "expected a list",
    "missing": "expected a value, got none",
    "extra_forbidden": "there is no such field",
}
_UNION = {
    "bool": "true or false",
    "float": "a number",
    "str": "a text",
    "constrained-str": "a text",
    "none": "null",
}
_WRITES = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_LARGE = 64 * 2**10  # bytes of a body from which on it is read and checked in a thread
_KIB = 2**10
_PLAIN = {404: "not_found", 405: "method_not_allowed", 406: "not_acceptable", 413: "too_large"}


class StrictRequest(Request):
    """A request whose JSON is read strictly, and checked as it is read."""

    async def read(self, check: Callable[[Any], T]) -> T:
        """Return what a check makes of the body, which is JSON; `json` returns the same then.

        NaN is refused, a name twice, and what is nested too deep. The body counts as `weight`
        decisions before it is read. Two large ones are read and checked at a time, in threads.
        """
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise BadRequest(
                "expected a body of type application/json", 415, "unsupported_media_type"
            )
        who = await principal_of(self)
        if who is None:
            raise NotSignedIn
        count(self, who, "decide", self.weight())
        raw = await self.body()
        count(self, who, "decide", _weight(len(raw)))  # where its length was not announced
        if len(raw) <= _LARGE:
            self._json = found = check(loads(raw))
            return found
        async with house_of(self).large:
            self._json = found = await run_in_threadpool(lambda: check(loads(raw)))
        return found

    async def json(self) -> Any:
        """Return the body as it was read."""
        return self._json

    def weight(self) -> int:
        """Return as how many decisions the body counts: one for each KiB that is announced."""
        announced = self.headers.get("content-length", "")
        length = int(announced[:20]) if announced.isascii() and announced.isdigit() else 0
        is_read = length <= house_of(self).settings.largest
        return _weight(length) if is_read else 1


def _weight(length: int) -> int:
    return max(1, -(-length // _KIB))


class Answered(JSONResponse):
    """An answer in JSON, made for those who ask thousands of times a second."""

    def __init__(self, said: Any, status: int) -> None:
        self.status_code, self.background = status, None
        self.body = _WRITES.encode(said).encode()
        length = str(len(self.body)).encode()
        self.raw_headers = [(b"content-length", length), (b"content-type", b"application/json")]


class StrictRoute(APIRoute):
    """A route for those who are known, whose requests are strict."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, fed with strict requests."""
        handler, field = super().get_route_handler(), self.body_field

        def check(found: Any) -> Any:
            assert field is not None
            made, wrong = field.validate(found, {}, loc=("body",))
            if wrong:
                raise RequestValidationError(wrong)
            return made

        async def strict(request: Request) -> Response:
            made = StrictRequest(request.scope, request.receive)
            await check_known(made)
            if field is not None:  # what the handler then checks is of its model already
                await made.read(check)
            return await handler(made)

        return strict


def house_of(request: Request) -> House:
    """Return what all requests share."""
    house: House = request.app.house
    return house


def address_of(request: Request) -> str:
    """Return where a request comes from, for whoever counts."""
    return request.client.host if request.client else "unknown"


def sender_of(scope: MutableMapping[str, Any]) -> str:
    """Return for whom the bytes of a body count: who is known, or else an address."""
    known, client = scope["state"].get(_WHO), scope.get("client")
    if known is not None:
        return str(known.id)
    return network(client[0]) if client else "unknown"


async def found_out(request: Request, is_use: bool = True) -> Principal | None:
    """Return who is behind what a request shows; strangers are counted before they are looked up.

    Of one request that is found out once. `is_use` is false where a page asks by itself: that
    keeps nobody signed in.
    """
    state = request.scope.setdefault("state", {})
    if _WHO in state:
        found: Principal | None = state[_WHO]
        return found
    house, headers = house_of(request), request.headers
    known = house.door.known(headers)
    if known is None:
        if not house.door.has_met(headers):
            house.limiter.take("other", None, address_of(request))
        if "authorization" in headers or "cookie" in headers:
            known = await house.door.ask(headers, is_use)
    state[_WHO] = known
    return known


async def principal_of(request: Request) -> Principal | None:
    """Return who asks; None: nobody who is known."""
    known, state = await found_out(request), request.scope["state"]
    if known is not None and _OURS not in state:
        headers = request.headers
        house_of(request).door.check_forgery(request.method, headers, headers.get("x-csrf-token"))
        state[_OURS] = True
    return known


def permitted(request: Request, who: Principal | None, name: str, *roles: str) -> Principal:
    """Return who asks if they have one of the roles on an instance; a refusal is counted."""
    try:
        return require(who, roles, name)
    except NotAllowed:
        house_of(request).limiter.take("other", who.id if who else None, address_of(request))
        raise


async def check_known(request: Request) -> None:
    """Refuse strangers before their body is read: nobody has us parse megabytes for nothing."""
    if await principal_of(request) is None:
        raise NotSignedIn


def count(request: Request, who: Principal, kind: str, n: int) -> None:
    """Count a request as n of a kind, less the decisions that it was counted for already."""
    state = request.scope["state"]
    paid = state.get(_PAID, 0) if kind == "decide" else 0
    if n > paid:
        house_of(request).limiter.take(kind, who.id, address_of(request), n, paid)
    if kind == "decide":
        state[_PAID] = max(n, paid)


async def enter(
    request: Request, name: str, *roles: str, kind: str = "other", n: int = 1
) -> tuple[Principal, Desk]:
    """Return who asks and the desk of an instance; refuse who has none of the roles on it."""
    house = house_of(request)
    allowed = permitted(request, await principal_of(request), name, *roles)
    count(request, allowed, kind, n)
    desk = house.known(name)
    if desk is None:
        desk = await run_in_threadpool(house.desk, name)
    return allowed, desk


async def command(desk: Desk, run: Callable[[Turn], T]) -> T:
    """Run a command at a desk."""
    return await desk.command(run)


async def look(desk: Desk, read: Callable[[Live], T]) -> T:
    """Look at an instance as its ledger has it now."""
    return await desk.glimpse(read)


def request_id(request: Request) -> str:
    """Return the id of a request."""
    return str(request.scope.get("state", {}).get("request_id", ""))


def add_handlers(app: FastAPI, wants_page: Callable[[Request], bool], page: Any) -> None:
    """Answer every refusal with the one error body, or with a page for people."""

    async def refused(request: Request, error: Exception) -> Response:
        status, said, headers = refusal(error, request_id(request))
        if wants_page(request) and not isinstance(error, ClientDisconnect):  # else nobody sees it
            shown: Response = await page(request, status, said["error"], headers)
            return shown
        return JSONResponse(said, status, headers)

    known = (HTTPException, RequestValidationError, GdcbError, ClientDisconnect)
    for kind in (*known, Exception):
        app.add_exception_handler(kind, refused)


def refusal(error: Exception, request: str) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Return status, body and headers of whatever was raised on the way of a request."""
    if isinstance(error, ClientDisconnect):
        log.info("request %s: the client left before its body was whole", request)
        return problem_of(BadRequest("the body ended before it was whole"), request)
    if isinstance(error, HTTPException):
        if isinstance(error.__cause__, BadRequest):
            return problem_of(error.__cause__, request)
        code = _PLAIN.get(error.status_code, "bad_request")
        said = body(code, str(error.detail), request)
        return error.status_code, said, dict(error.headers or {})
    if isinstance(error, RequestValidationError | ValidationError):
        return 422, body("invalid_input", _first(error), request), {}
    return problem_of(error, request)


def _first(error: RequestValidationError | ValidationError) -> str:
    """Return the first thing that is wrong, and where."""
    found = error.errors()
    what = found[0]
    at, kind = [part for part in what["loc"] if part != "body"], str(what["type"])
    says = _SAYS.get(kind) or str(what["msg"]).removeprefix("Value error, ")
    if not at and kind == "missing":
        says = _SAYS["model_type"]
    if kind != "extra_forbidden" and at and at[-1] in _UNION:
        says = _of_union([one for one in found if one["loc"][:-1] == what["loc"][:-1]])
        at.pop()
    where = ".".join(str(part) for part in at)
    return f"{where}: {says}" if where else says


def _of_union(found: list[Any]) -> str:
    """Return what is wrong with a value that is of no kind that it may be of."""
    for one in found:
        if one["type"] not in ("bool_type", "float_type", "string_type"):
            return str(one["msg"])
    return f"expected {' or '.join(_UNION[one['loc'][-1]] for one in found)}"
