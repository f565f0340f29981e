"""A quick lane for decisions: the same endpoints, without the machinery of routing around them.

Matching some sixty routes, resolving dependencies and checking answers against models costs a
request more than deciding does. The two routes that are asked thousands of times a second are
found by their path and fed with what their models make of the body, strictly; the endpoints, their
refusals and their answers are the same, and so is their place in the OpenAPI document.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from fastapi import Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from gdcb.service.envelope import Message, Receive, Send
from gdcb.service.routing import StrictRequest, check_known, enter, refusal, request_id

if TYPE_CHECKING:
    from gdcb.service.app import Application

_PATH = re.compile(r"^/v1/instances/([^/]+)/decisions(/batch)?$")
Endpoint = Callable[[str, Any, Any], Awaitable[Response]]


class _Route:
    """What a request was matched with, for whoever counts."""

    def __init__(self, path: str) -> None:
        self.path = path


class Lane:
    """Answer some paths directly and hand the others on.

    Parameters
    ----------
    app : the application with all routes
    endpoints : by what follows '/decisions' in the path, with the model of the body
    """

    def __init__(
        self, app: Application, endpoints: Mapping[str, tuple[Endpoint, type[BaseModel]]]
    ) -> None:
        self._app, self._endpoints = app, endpoints
        self._routes = {
            rest: _Route(f"/v1/instances/{{name}}/decisions{rest}") for rest in endpoints
        }

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        found = None
        if scope["type"] == "http" and scope["method"] == "POST":
            found = _PATH.match(scope["path"])
        if found is None:
            await self._app.routed(scope, receive, send)
            return
        rest = found[2] or ""
        endpoint, model = self._endpoints[rest]
        scope["app"], scope["route"] = self._app, self._routes[rest]
        request = StrictRequest(scope, receive)
        try:
            await check_known(request)
            await enter(request, found[1], "decide", kind="decide", n=request.weight())
            asked = await request.read(model.model_validate)
            answer = await endpoint(found[1], request, asked)
        except Exception as error:  # whatever it is, the one error body says so
            status, said, headers = refusal(error, request_id(request))
            answer = JSONResponse(said, status, headers)
        await answer(scope, receive, send)
