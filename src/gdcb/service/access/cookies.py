"""The session's cookie: its name, its attributes, and how it is read.

HttpOnly keeps it from scripts, `SameSite=Strict` from every request that another site began, Secure
from plain HTTP. On HTTPS its name has the prefix `__Host-`, with which browsers refuse a cookie
that is not Secure, or that a neighbouring host set for the whole domain. Without HTTPS (a laptop)
the prefix and Secure are not to be had. Under Strict a link from elsewhere arrives signed out, and
the first click on our page is signed in; `links` says what follows for one-time links.
"""

from __future__ import annotations

from gdcb.service.access.tokens import is_token


def cookie_name(is_https: bool) -> str:
    """Return the cookie's name."""
    return "__Host-gdcb" if is_https else "gdcb"


def set_cookie(token: str, is_https: bool, lasts_s: float) -> str:
    """Return the value of `Set-Cookie` that hands a session's token to the browser.

    Examples
    --------
    >>> set_cookie("0f", is_https=True, lasts_s=60)
    '__Host-gdcb=0f; Path=/; HttpOnly; SameSite=Strict; Max-Age=60; Secure'
    """
    secure = "; Secure" if is_https else ""
    fixed = f"Path=/; HttpOnly; SameSite=Strict; Max-Age={int(lasts_s)}{secure}"
    return f"{cookie_name(is_https)}={token}; {fixed}"


def clear_cookie(is_https: bool) -> str:
    """Return the value of `Set-Cookie` that takes the token from the browser."""
    return set_cookie("", is_https, 0)


def session_token(header: str | None, is_https: bool) -> str | None:
    """Return the session's token in a `Cookie` header; None where there is none of its form.

    A header with two of them is read as none: without HTTPS a neighbouring host can add a cookie of
    the same name, and no order tells which one is ours.
    """
    if not header or len(header) > 16_384:
        return None
    name, found = cookie_name(is_https), set()
    for part in header.split(";"):
        key, equals, value = part.partition("=")
        if equals and key.strip() == name:
            found.add(value.strip())
    token = found.pop() if len(found) == 1 else None
    return token if token is not None and is_token(token) else None
