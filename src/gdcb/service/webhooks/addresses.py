"""Where a webhook may go: to public addresses by HTTPS, and never into our own network.

Whoever registers a hook makes this machine send requests. Without rules they could reach what only
this machine can: databases, the metadata of a cloud, a router's pages. So a name is resolved here,
every address that it has is checked, and the connection goes to an address that was checked: a
name that points elsewhere a moment later changes nothing.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from gdcb.errors import InvalidInput

Resolver = Callable[[str, int], Sequence[str]]
LONGEST_URL = 2_000
_PORTS = {"https": 443, "http": 80}
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)", re.ASCII | re.IGNORECASE)
# What a resolver of old reads as a number: 127.1, 0x7f.1, 2130706433.
_NUMBER = re.compile(r"(0x[0-9a-f]*|[0-9]+)", re.ASCII | re.IGNORECASE)
# Addresses that carry one of version 4 in their last 32 bits: mapped, and translated (NAT64).
_CARRIERS = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))
# Ranges for special purposes of which versions of Python think differently, and tunnels, whose
# other end is somebody else's choice.
_SPECIAL = tuple(
    ip_network(text)
    for text in (
        "100.64.0.0/10",
        "192.0.0.0/24",
        "192.88.99.0/24",
        "198.18.0.0/15",
        "::/96",
        "::ffff:0:0:0/96",
        "64:ff9b:1::/48",
        "100::/64",
        "2001::/23",
        "2001:db8::/32",
        "2002::/16",
        "3fff::/20",
        "5f00::/16",
        "fec0::/10",
    )
)


@dataclass(frozen=True, slots=True)
class Target:
    """A URL in its parts, checked: `host` as a name for resolvers, `path` with its query."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """What the header `Host` says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def target_of(url: object, allow_local: bool = False) -> Target:
    """Take a URL apart; refuse one to which no hook may go, whatever its name resolves to.

    >>> target_of("https://hooks.example.org/gdcb?team=7")
    Target(scheme='https', host='hooks.example.org', port=443, path='/gdcb?team=7')
    """
    if not isinstance(url, str) or not 0 < len(url) <= LONGEST_URL:
        raise InvalidInput(f"url: expected a URL of at most {LONGEST_URL} characters")
    if not url.isascii() or re.search(r"[\x00-\x20\x7f\\]", url):
        raise InvalidInput("url: expected no spaces, backslashes or letters beyond ASCII in it")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise InvalidInput(f"url: it cannot be read ({error})") from error
    schemes = ("https", "http") if allow_local else ("https",)
    if parts.scheme not in schemes:
        raise InvalidInput(f"url: expected {' or '.join(schemes)}, got {parts.scheme[:20]!r}")
    if "@" in parts.netloc:
        raise InvalidInput("url: expected no user name or password in it; messages are signed")
    if "#" in url:
        raise InvalidInput("url: expected no fragment (#…) in it; it would never be sent")
    port = _PORTS[parts.scheme] if port is None else port
    if not allow_local and port not in (80, 443) and not 8000 <= port <= 9999:
        raise InvalidInput(f"url: expected port 443, 80 or 8000 to 9999, got {port}")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, _host(host, "[" in parts.netloc), port, path)


def _host(host: str, is_bracketed: bool) -> str:
    """Refuse a host that is neither a name nor an address as it is written today."""
    if not host:
        raise InvalidInput("url: expected a host in it, got none")
    try:
        return str(ip_address(host))
    except ValueError:
        labels = host.removesuffix(".").split(".")
        is_name = len(host) <= 253 and all(_LABEL.fullmatch(label) for label in labels)
        if is_name and not is_bracketed and not _NUMBER.fullmatch(labels[-1]):
            return host
    raise InvalidInput(f"url: expected the name or the address of a host, got {host[:80]!r}")


def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host, as the machine knows them."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise InvalidInput(f"url: no address is known of host {host[:80]!r}") from error
    return list(dict.fromkeys(str(address[4][0]) for address in found))


def addresses_of(
    target: Target, allow_local: bool = False, resolver: Resolver = resolve
) -> list[str]:
    """Return the addresses to connect to; refuse a host that has one inside a network.

    One bad address is enough: a name with a public and a private one is how such checks are got
    around.
    """
    found = list(resolver(target.host, target.port))
    if not found:
        raise InvalidInput(f"url: no address is known of host {target.host[:80]!r}")
    for address in found:
        if not allow_local and not is_public(address):
            raise InvalidInput(
                f"url: host {target.host[:80]!r} is not on the public internet; hooks do not go "
                "into this machine or its network"
            )
    return found


def is_public(address: str) -> bool:
    """Whether an address is one of the public internet, and of one host.

    >>> [is_public(text) for text in ("9.9.9.9", "10.0.0.1", "::1", "::ffff:10.0.0.1")]
    [True, False, False, False]
    """
    try:
        found = ip_address(address)
    except ValueError:
        return False
    if isinstance(found, IPv6Address):
        if found.scope_id is not None:
            return False
        if any(found in carrier for carrier in _CARRIERS):
            found = IPv4Address(int(found) & 0xFFFFFFFF)
    if any(found in special for special in _SPECIAL):
        return False
    return (
        found.is_global
        and not found.is_private
        and not found.is_multicast
        and not found.is_reserved
        and not found.is_unspecified
        and not found.is_loopback
        and not found.is_link_local
    )
