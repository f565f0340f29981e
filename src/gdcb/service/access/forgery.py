"""Requests that another site makes a browser send: two checks before anything is changed.

A browser adds the session's cookie by itself. So whatever changes something and comes with the
cookie must show that our own page made it: by a token in the form that only our pages can know, and
by the origin that the browser states. `SameSite=Strict` is a third line, kept by the browser.
A request with an API key needs none of it: no browser adds the key by itself.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from hashlib import sha256

from gdcb.service.access.errors import Forged

SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
FIELD = "csrf"
HEADER = "x-csrf-token"
_ADVICE = "open the page again and repeat what you did"


def form_token(secret: bytes, session: str) -> str:
    """Return the token for the forms of a session: HMAC-SHA-256 under the database's secret.

    It is bound to the session, so it ends with it and is of no use in another. It is the same on
    every page, which would let a compressed page leak it to somebody who can make the browser fetch
    pages with the cookie (BREACH); `SameSite=Strict` denies exactly that.
    """
    return hmac.new(secret, b"gdcb form\0" + session.encode("ascii"), sha256).hexdigest()


def check_token(secret: bytes, session: str, token: object) -> None:
    """Refuse a form whose token is missing or belongs to another session."""
    if not isinstance(token, str) or not token:
        raise Forged(f"the form's token is missing: {_ADVICE}")
    given = token.encode("utf-8", "surrogatepass")
    if not hmac.compare_digest(form_token(secret, session).encode("ascii"), given):
        raise Forged(f"the form is of another session, perhaps one that ended: {_ADVICE}")


def check_origin(headers: Mapping[str, str], base_url: str) -> None:
    """Refuse a request that the browser says another site began.

    Browsers send `Sec-Fetch-Site` on HTTPS and localhost, and `Origin` with every POST. Programs
    send neither, and have no cookie to abuse. The origin must be where the service is reached, or
    the host that the request itself is for: no page can set `Host`.

    Parameters
    ----------
    headers : by names in small letters
    base_url : scheme, host and port where the service is reached
    """
    site = headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        raise Forged(f"another site sent this (Sec-Fetch-Site: {site[:20]!a}): {_ADVICE}")
    origin = headers.get("origin")
    # A page that asks for no referrer posts its forms with the origin 'null', and so does a page
    # in a foreign frame; only of the first does the browser say that it is ours.
    if origin is None or (origin == "null" and site == "same-origin"):
        return
    scheme = base_url.partition("://")[0]
    own = {base_url, f"{scheme}://{headers.get('host', '').lower()}"}
    if origin.lower() not in own:
        raise Forged(f"another site sent this (Origin: {origin[:100]!a}): {_ADVICE}")
