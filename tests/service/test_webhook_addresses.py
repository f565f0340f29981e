"""Webhooks go to public addresses only, however the address is written and whenever it changes."""

from __future__ import annotations

import re
import shutil
import socket
import ssl
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from gdcb.errors import InvalidInput
from gdcb.ledger.sql import SqlStore
from gdcb.service.webhooks import Sender, add_hook, find_hook, posting
from gdcb.service.webhooks.addresses import Target, addresses_of, is_public, resolve, target_of
from tests.service.desks import held, night, office
from tests.service.receivers import receiving

INSIDE = [
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.8",
    "192.0.2.1",
    "192.168.1.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:a9fe:a9fe",
    "64:ff9b::10.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::1",
    "2001:db8::1",
    "2001::7f00:1",
    "2002:7f00:1::1",
    "fc00::1",
    "fd12:3456::1",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "no address",
]
OUTSIDE = ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "::ffff:9.9.9.9", "64:ff9b::9.9.9.9"]


@pytest.mark.parametrize("address", INSIDE)
def test_addresses_inside_a_network(address: str) -> None:
    assert not is_public(address)
    target = target_of("https://innocent.example.org/")
    with pytest.raises(InvalidInput, match=r"host 'innocent\.example\.org' is not on the public"):
        addresses_of(target, resolver=lambda host, port: [address])


@pytest.mark.parametrize("address", OUTSIDE)
def test_addresses_of_the_public_internet(address: str) -> None:
    assert is_public(address)
    target = target_of("https://hooks.example.org/")
    assert addresses_of(target, resolver=lambda host, port: [address]) == [address]


@given(st.ip_addresses(v=4).filter(lambda address: not address.is_global))
def test_no_carrier_takes_a_private_address_outside(address: object) -> None:
    inner = int(ip_address(str(address)))
    for start in ("::ffff:0:0", "64:ff9b::", "::"):
        assert not is_public(str(ip_address(int(ip_address(start)) + inner)))


def test_one_address_inside_is_enough_to_refuse() -> None:
    with pytest.raises(InvalidInput, match="is not on the public internet"):
        addresses_of(
            target_of("https://two.example.org/"),
            resolver=lambda host, port: ["1.1.1.1", "10.0.0.1"],
        )


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "[::1]", "[::ffff:10.0.0.1]", "localhost", "0.0.0.0"]
)
def test_hosts_as_the_machine_resolves_them(host: str) -> None:
    with pytest.raises(InvalidInput, match="is not on the public internet"):
        addresses_of(target_of(f"https://{host}/"))


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://hooks.example.org/", "expected https, got 'http'"),
        ("ftp://hooks.example.org/", "expected https, got 'ftp'"),
        ("file:///etc/passwd", "expected https, got 'file'"),
        ("gopher://hooks.example.org:9000/_x", "expected https, got 'gopher'"),
        ("hooks.example.org/x", "expected https, got ''"),
        ("https://ann:secret@hooks.example.org/", "expected no user name or password in it"),
        ("https://@hooks.example.org/", "expected no user name or password in it"),
        ("https://hooks.example.org@10.0.0.1/", "expected no user name or password in it"),
        ("https://hooks.example.org/#top", "expected no fragment"),
        ("https://hooks.example.org:22/", "expected port 443, 80 or 8000 to 9999, got 22"),
        ("https://hooks.example.org:5432/", "expected port 443, 80 or 8000 to 9999, got 5432"),
        ("https://hooks.example.org:0/", "expected port 443, 80 or 8000 to 9999, got 0"),
        ("https://hooks.example.org:99999/", "it cannot be read (Port out of range"),
        ("https://hooks.example.org:x/", "it cannot be read (Port could not be cast"),
        ("https:///x", "expected a host in it, got none"),
        ("https://127.1/", "expected the name or the address of a host, got '127.1'"),
        ("https://2130706433/", "expected the name or the address of a host, got '2130706433'"),
        ("https://0x7f000001/", "expected the name or the address of a host, got '0x7f000001'"),
        ("https://0177.0.0.1/", "expected the name or the address of a host, got '0177.0.0.1'"),
        ("https://127.0.0.0x1/", "expected the name or the address of a host, got '127.0.0.0x1'"),
        ("https://hooks..example.org/", "expected the name or the address of a host"),
        ("https://-hooks.example.org/", "expected the name or the address of a host"),
        ("https://hooks_%00.example.org/", "expected the name or the address of a host"),
        ("https://[::1/", "it cannot be read"),
        ("https://[v1.x]/", "expected the name or the address of a host"),
        ("https://hooks.example.org/a b", "expected no spaces, backslashes or letters beyond"),
        ("https://hooks.example.org/\r\nhost: x", "expected no spaces, backslashes or letters"),
        ("https://hooks.example.org\\@10.0.0.1/", "expected no spaces, backslashes or letters"),
        ("https://hööks.example.org/", "expected no spaces, backslashes or letters beyond ASCII"),
        ("https://hooks.example.org/" + 2_000 * "x", "expected a URL of at most 2000 characters"),
        ("", "expected a URL of at most 2000 characters"),
        (7, "expected a URL of at most 2000 characters"),
    ],
)
def test_urls_that_no_hook_may_have(url: object, says: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(f"url: {says}")):
        target_of(url)


@pytest.mark.parametrize(
    ("url", "authority", "path"),
    [
        ("https://hooks.example.org", "hooks.example.org", "/"),
        ("https://HOOKS.example.org.:8443/a?b=c", "hooks.example.org.:8443", "/a?b=c"),
        ("https://[2606:4700::1111]/", "[2606:4700::1111]", "/"),
        ("https://1.1.1.1:9999/x", "1.1.1.1:9999", "/x"),
    ],
)
def test_urls_that_a_hook_may_have(url: str, authority: str, path: str) -> None:
    target = target_of(url)
    assert (target.scheme, target.authority, target.path) == ("https", authority, path)


def test_trying_out_is_allowed_where_somebody_says_so() -> None:
    target = target_of("http://127.0.0.1:54321/x", allow_local=True)
    assert addresses_of(target, allow_local=True) == ["127.0.0.1"]
    with pytest.raises(InvalidInput, match="expected https or http, got 'ftp'"):
        target_of("ftp://127.0.0.1/", allow_local=True)


def test_a_name_that_nobody_knows() -> None:
    with pytest.raises(InvalidInput, match=r"no address is known of host 'nobody\.invalid'"):
        resolve("nobody.invalid", 443)
    with pytest.raises(InvalidInput, match="no address is known of host 'empty"):
        addresses_of(target_of("https://empty.example.org/"), resolver=lambda host, port: [])


# With a hook behind it


@pytest.fixture
def store(sqlite_template: Path, tmp_path: Path) -> Iterator[SqlStore]:
    found = SqlStore(shutil.copy(sqlite_template, tmp_path / "ledger.db"))
    yield found
    found.close()


def test_a_refused_url_leaves_no_hook(store: SqlStore) -> None:
    with office(held(), store) as made:
        for url in ("http://hooks.example.org/", "https://localhost/"):
            with pytest.raises(InvalidInput, match="url: "):
                add_hook(store, made.chain, url, ["held"], "ann")


def test_a_name_that_moves_inside_later_is_refused_then(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rebinding: public when the hook is made, this machine when it is used."""
    answers = [["93.184.216.34"], ["127.0.0.1"]]

    def rebinding(host: str, port: int) -> Sequence[str]:
        assert host == "rebind.example.org"
        return answers.pop(0)

    def never(*_: object, **__: object) -> socket.socket:
        raise AssertionError("something was connected to")

    with office(held(), store) as made:
        url = "https://rebind.example.org/"
        hook, _ = add_hook(store, made.chain, url, ["held"], "ann", resolver=rebinding)
        made.decide("n1", night(busy=0.9))
        monkeypatch.setattr(socket, "create_connection", never)
        Sender(store, made.clock, resolver=rebinding).pass_once()
        says = find_hook(store, made.chain, hook.id).last_error
        assert says.startswith("url: host 'rebind.example.org' is not on the public internet")
    assert answers == []


def test_the_connection_goes_to_the_address_that_was_checked(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is resolved once a POST: what it points to a moment later changes nothing."""
    asked, connected = [], []

    def resolver(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["93.184.216.34"]

    def refuse(address: tuple[str, int], timeout: float) -> socket.socket:
        connected.append(address)
        raise ConnectionRefusedError

    with office(held(), store) as made:
        url = "https://hooks.example.org/"
        add_hook(store, made.chain, url, ["held"], "ann", resolver=resolver)
        made.decide("n1", night(busy=0.9))
        monkeypatch.setattr(socket, "create_connection", refuse)
        Sender(store, made.clock, resolver=resolver).pass_once()
    assert asked == 2 * ["hooks.example.org"]
    assert connected == [("93.184.216.34", 443)]


# HTTPS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a certificate for hooks.example.org, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hooks.example.org")])
    today = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - timedelta(days=1))
        .not_valid_after(today + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("hooks.example.org")]), False)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.write_bytes(secret + made.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.mark.parametrize(
    ("host", "is_trusted", "says"),
    [
        ("hooks.example.org", True, ""),
        ("hooks.example.org", False, "its certificate does not verify: self-signed certificate"),
        ("other.example.org", True, "its certificate does not verify: Hostname mismatch"),
    ],
)
def test_the_certificate_must_be_that_of_the_name(
    certificate: Path, monkeypatch: pytest.MonkeyPatch, host: str, is_trusted: bool, says: str
) -> None:
    """The connection goes to an address; the certificate is checked against the host."""
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(certificate)
    trusted = ssl.create_default_context(cafile=str(certificate) if is_trusted else None)
    monkeypatch.setattr(posting, "_context", lambda: trusted)
    with receiving(server_side) as receiver:
        port = int(receiver.url.rsplit(":", 1)[1])
        target = Target("https", host, port, "/x")
        if says:
            with pytest.raises(posting.NoAnswer, match=says):
                posting.post(target, ["127.0.0.1"], {}, b"{}")
            assert receiver.posts == []
        else:
            assert posting.post(target, ["127.0.0.1"], {}, b"{}") == 204
            assert receiver.posts[0].headers["host"] == f"hooks.example.org:{port}"
