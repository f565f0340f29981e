"""Addresses of the pages and of what their forms post to; every name in them is quoted.

Pages
    `/`, `/sign-in`, `/sign-in?link={token}`, `/settings`, `/account`, `/people`;
    under `/i/{instance}`: nothing more (the dashboard), `/queue`, `/d/{id}`, `/d/{id}/evidence`,
    `/d/{id}/evidence.{json|html}` (files), `/audit`, `/changes`, `/changes/{id}`, `/certificate`
Posts
    `/sign-in` (login and password, or link), `/sign-out`, `/settings`, `/account/password`,
    `/account/sign-out`, `/people`,
    `/people/{id}/{grant|revoke|link|disable}`, `/keys`, `/keys/{id}/revoke`;
    under `/i/{instance}`: `/pause`, `/resume`, `/refit`, `/queue/bulk`, `/queue/bulk/confirm`,
    `/d/{id}/{claim|release|approve|edit|veto|preview|replay}`,
    `/changes`, `/changes/{id}/{agree|refuse}`
JSON
    `/i/{instance}/queue.json?since=`; `/i/{instance}/d/{id}/preview` for who accepts JSON
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode


def instance(name: str, *parts: str) -> str:
    """Return an address of an instance; what is empty is left out.

    Examples
    --------
    >>> instance("rent", "d", "a/b", "evidence")
    '/i/rent/d/a%2Fb/evidence'
    """
    return "/" + "/".join(_segment(part) for part in ("i", name, *parts) if part)


def _segment(part: str) -> str:
    """Quote one piece of a path. Ids '.' and '..' have none: browsers walk them even quoted."""
    return quote(part, safe="~", errors="replace")


def person(name: str, what: str) -> str:
    """Return where a form about a person posts to."""
    return f"/people/{_segment(name)}/{what}"


def key(name: str, what: str) -> str:
    """Return where a form about a key posts to."""
    return f"/keys/{_segment(name)}/{what}"


def asked(path: str, query: Mapping[str, str | int]) -> str:
    """Return a path with its question; without fields the path alone.

    Examples
    --------
    >>> asked("/i/rent/queue", {"text": "lake & sun"})
    '/i/rent/queue?text=lake+%26+sun'
    """
    return f"{path}?{urlencode(query, errors='replace')}" if query else path


def own(path: str) -> str:
    """Return a path of ours to go back to; anything else, such as another host, is the home page.

    Examples
    --------
    >>> own("/i/rent/queue?rule=cap"), own("//elsewhere.example"), own("javascript:alert(1)")
    ('/i/rent/queue?rule=cap', '/', '/')
    """
    is_ours = path.startswith("/") and not path.startswith(("//", "/\\"))
    return path if is_ours and all(" " < letter != "\\" for letter in path) else "/"
