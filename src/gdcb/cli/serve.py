"""`gdcb serve`: the decision service, with something to look at unless told otherwise."""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from gdcb.cli.say import bar_of, fail, notice, out, wrong_usage
from gdcb.errors import GdcbError

DEFAULT_DB = "gdcb.db"


def serve(
    instances: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME_OR_TOML]...",
            help="Instances to declare where the ledger does not have them yet: TOML files, or "
            "names of `gdcb instances` that have one.",
        ),
    ] = None,
    db: Annotated[
        str,
        typer.Option(help="Where the ledger is: a path, sqlite:///PATH or postgresql://…"),
    ] = DEFAULT_DB,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8000,
    base_url: Annotated[
        str | None,
        typer.Option(help="Where people reach it, such as https://decisions.example.com."),
    ] = None,
    empty: Annotated[
        bool, typer.Option("--empty", help="Start without the made-up operator, for real use.")
    ] = False,
    processes: Annotated[
        int, typer.Option(min=1, max=64, help="API processes; more than one needs PostgreSQL.")
    ] = 1,
    rate: Annotated[
        float,
        typer.Option(
            min=0.001,
            max=1e9,
            help="Decisions a second that one key or person may ask for, in each process; an "
            "address may five times as many.",
        ),
    ] = 2000.0,
    timeout: Annotated[
        float,
        typer.Option(
            min=0.1,
            max=3600,
            help="Seconds in which the headers of a request must come, and its body beyond what it "
            "takes at 10 kB a second (100 after 256 KiB); then the connection is closed, or the "
            "request refused.",
        ),
    ] = 10.0,
) -> None:
    """Run the decision service: HTTP API, approval pages, dashboard, audit.

    With nothing else it shows a made-up operator of holiday flats on SQLite, with a month of
    history, a queue to answer and nights that come in. The first start prints a one-time link to
    sign in with; `gdcb access link` prints another at any time.
    """
    try:
        import uvicorn
        from uvicorn.supervisors import Multiprocess

        from gdcb.service.running import Plan, furnished
    except ImportError as error:
        fail(f"the service needs its packages: pip install 'gdcb[serve]' ({error})")
    address = base_url or f"http://{_reached(host)}:{port}"
    if processes > 1 and not db.startswith("postgresql"):
        wrong_usage("--processes above 1 needs PostgreSQL: give --db postgresql://…")
    plan = Plan(db, address, tuple(instances or ()), not empty and not instances, rate, timeout)
    sockets = _bound(host, port)  # before anything is made or said to be there
    try:
        with bar_of() as bar:
            task = bar.add_task("opening the ledger", total=30)

            def told(what: str, done: int, total: int) -> None:
                bar.update(task, description=what, completed=done, total=total)

            found = furnished(plan, told)
    except GdcbError as error:
        fail(str(error))
    _listen(sockets, host, port)
    if found.made_up:
        notice(f"{found.made_up} For real use, --empty and another --db.")
    out.print(f"gdcb serves at [bold]{address}[/bold]  (ledger: {_shown(db)}; stop with Ctrl-C)")
    if found.link:
        out.print("Sign in once with this link, set a password, and make accounts for others:")
        out.print(f"  {found.link}", soft_wrap=True)
    else:
        out.print("Sign in with your password; `gdcb access link` with this --db prints a link.")
    config = uvicorn.Config(
        "gdcb.service.running:application",
        factory=True,
        host=host,
        port=port,
        workers=processes,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=10,
        server_header=False,
        http="gdcb.service.listening:Http",
        ws="none",
    )
    with plan.environment():
        if processes == 1:
            uvicorn.Server(config).run(sockets)
        else:
            Multiprocess(config, sockets).run()


def _bound(host: str, port: int) -> list[socket.socket]:
    """Take the port on every address that the host has here, or say why not."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        wrong_usage(f"--host: {host} is no address that can be found ({error.strerror or error})")
    taken: list[socket.socket] = []
    absent: OSError | None = None
    for family, kind, protocol, _, where in dict.fromkeys(found):
        one = None
        try:
            one = socket.socket(family, kind, protocol)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind(where)
        except OSError as error:
            if one is not None:
                one.close()
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                _refuse(host, port, error)
            absent = error  # localhost may stand for ::1 where there is no IPv6
            continue
        one.set_inheritable(True)
        taken.append(one)
    if not taken and absent is not None:
        _refuse(host, port, absent)
    return taken


def _listen(sockets: Sequence[socket.socket], host: str, port: int) -> None:
    """Let connections come: of two who took the port at the same moment, one may."""
    try:
        for one in sockets:
            one.listen(2048)
    except OSError as error:
        _refuse(host, port, error)


def _refuse(host: str, port: int, error: OSError) -> NoReturn:
    if error.errno == errno.EADDRINUSE:
        fail(f"port {port} is taken; choose another with --port")
    fail(f"cannot listen at {host}, port {port} ({error.strerror or error})")


def _reached(host: str) -> str:
    """Return the host as addresses have it: an IPv6 one stands in brackets."""
    if host in ("0.0.0.0", "::"):  # on all of them, so on this one
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def _shown(db: str) -> str:
    """Return where the ledger is, without a password."""
    if "://" not in db:
        return str(Path(db))
    scheme, _, rest = db.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"
