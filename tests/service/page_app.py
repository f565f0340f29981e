"""A small application that serves the sample pages under the policy of the real one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from gdcb.service.pages import render
from gdcb.service.pages.views.frame import Settings, View
from gdcb.service.pages.views.queue import QueueNews
from tests.service import sample_views as samples

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class PageApp:
    """The sample pages, at addresses of their own and where the links point.

    Parameters
    ----------
    pages : views by name, served at /page/{name}
    """

    def __init__(self, pages: Mapping[str, View]) -> None:
        self.pages = dict(pages)
        self.posts: list[tuple[str, list[tuple[str, str]]]] = []
        self.news = QueueNews(8131, 7)
        self.previewed = samples.PREVIEW
        self.asked: list[str] = []
        self.app = Starlette(
            routes=[
                Route("/static/{name}", self.static),
                Route("/page/{name}", self.page),
                Route("/settings", self.keep, methods=["POST"]),
                Route("/i/rent/queue", self.queue),
                Route("/i/rent/queue.json", self.changes),
                Route("/i/rent/d/{id}", self.review),
                Route("/i/rent/d/{id}/preview", self.preview, methods=["POST"]),
                Route("/{path:path}", self.post, methods=["POST"]),
            ]
        )

    def html(self, view: View, request: Request) -> Response:
        """Draw a view as the cookies of the request want it."""
        cookies = request.cookies
        settings = Settings(
            cookies.get("theme", "system"),
            cookies.get("keys") != "off",
            cookies.get("refresh") != "off",
        )
        shown = replace(view, frame=replace(view.frame, settings=settings))
        return HTMLResponse(render.page(shown), headers={"Content-Security-Policy": POLICY})

    async def static(self, request: Request) -> Response:
        path = render.STATIC / request.path_params["name"]
        return FileResponse(path, media_type=TYPES[path.suffix])

    async def page(self, request: Request) -> Response:
        return self.html(self.pages[request.path_params["name"]], request)

    async def queue(self, request: Request) -> Response:
        return self.html(samples.QUEUE, request)

    async def changes(self, request: Request) -> Response:
        self.asked.append(str(request.url.query))
        return JSONResponse(self.news.document())

    async def review(self, request: Request) -> Response:
        return self.html(samples.REVIEW, request)

    async def preview(self, request: Request) -> Response:
        if "json" in request.headers["accept"]:
            return JSONResponse(render.preview(self.previewed, "€ a night"))
        return self.html(samples.REVIEW_PREVIEW, request)

    async def keep(self, request: Request) -> Response:
        form = await request.form()
        answer = RedirectResponse(str(form["back"]), 303)
        for name in ("theme", "keys", "refresh"):
            answer.set_cookie(name, str(form[name]), samesite="strict")
        return answer

    async def post(self, request: Request) -> Response:
        form = await request.form()
        fields: list[tuple[str, Any]] = list(form.multi_items())
        self.posts.append((request.url.path, [(name, str(value)) for name, value in fields]))
        return self.html(samples.REVIEW_DONE, request)
