"""The Python client of the service, and what a receiver of its webhooks needs.

The clients need httpx (``pip install 'gdcb[client]'``); checking a webhook's signature does not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gdcb.client.errors import BadSignature, ClientError, Refused, Unreachable
from gdcb.client.signing import HEADER, verify

if TYPE_CHECKING:
    from gdcb.client.sessions import AsyncClient, Client

__all__ = [
    "HEADER",
    "AsyncClient",
    "BadSignature",
    "Client",
    "ClientError",
    "Refused",
    "Unreachable",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Import the clients when they are first used: receivers of webhooks need no httpx."""
    if name not in ("AsyncClient", "Client"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module("gdcb.client.sessions"), name)
    except ModuleNotFoundError as error:
        if error.name != "httpx":
            raise
        raise ModuleNotFoundError(
            "the client needs httpx: pip install 'gdcb[client]'", name="httpx"
        ) from error
