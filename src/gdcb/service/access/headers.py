"""Headers that every answer has: what a page may load, and who may keep it."""

from __future__ import annotations

# No inline script or style at all: text that slipped through escaping stays text.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
_OFF = ("camera", "display-capture", "geolocation", "microphone", "payment", "usb")

_EVERY = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    # Not 'no-referrer': browsers then send 'Origin: null' with our own forms.
    "referrer-policy": "same-origin",
    "permissions-policy": ", ".join(f"{feature}=()" for feature in _OFF),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
}


def security_headers(*, is_static: bool = False, is_https: bool = False) -> dict[str, str]:
    """Return the headers of an answer, by names in small letters.

    Parameters
    ----------
    is_static : a file of the package (script, style): others may keep it for an hour. Everything
        else has data in it or depends on who asks: nobody keeps it, the browser's disk included.
    is_https : whether people reach the service by HTTPS; they then never come back without it

    Examples
    --------
    >>> security_headers()["cache-control"]
    'no-store'
    """
    kept = "public, max-age=3600" if is_static else "no-store"
    headers = {**_EVERY, "cache-control": kept}
    if not is_static:
        headers["vary"] = "Cookie, Authorization"
    if is_https:
        headers["strict-transport-security"] = "max-age=31536000"
    return headers
