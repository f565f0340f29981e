"""`gdcb access link | key | end | log`: for whoever holds the database of a service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from gdcb.cli.say import as_json, fail, out
from gdcb.cli.serve import DEFAULT_DB
from gdcb.errors import GdcbError

if TYPE_CHECKING:
    from gdcb.ledger.sql import SqlStore
    from gdcb.service.access import Books

access_app = typer.Typer(
    name="access",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="Let people into a service, put them out, see who changed what: from its database.",
)

_BASE = "http://127.0.0.1:8000"  # where a service is that was never told otherwise
Url = Annotated[
    str, typer.Option("--db", metavar="URL", help="The ledger: a path, or postgresql://….")
]


@access_app.command("link")
def link(
    login: Annotated[
        str | None,
        typer.Argument(help="Whose; without it, the administrator's where there is only one."),
    ] = None,
    db: Url = DEFAULT_DB,
    base_url: Annotated[
        str | None,
        typer.Option(
            help="Where people reach the service; by default where it was reached when `gdcb "
            "serve` last started."
        ),
    ] = None,
    hours: Annotated[float, typer.Option(min=0.01, max=720, help="How long it works.")] = 24,
) -> None:
    """Print a one-time link that signs somebody in, by default the administrator.

    The service may be running. A password that they had is forgotten once the link is used.
    """
    with _opened(db) as (_, books):
        from gdcb.service.access import console_link, known_base

        base = base_url or known_base(books) or _BASE
        made = console_link(books, base, login, hours * 3600)
    typer.echo(made)


@access_app.command("key")
def key(
    name: Annotated[str, typer.Argument(help="What the key is for, such as 'booking system'.")],
    may: Annotated[
        list[str],
        typer.Option(
            "--may", metavar="ROLE", help="decide, outcome, operate or audit; may be repeated."
        ),
    ],
    instance: Annotated[
        list[str] | None,
        typer.Option("--instance", metavar="NAME", help="Of which instances; default: of all."),
    ] = None,
    days: Annotated[
        float, typer.Option(min=0.01, max=3650, help="After how many days it expires.")
    ] = 365,
    db: Url = DEFAULT_DB,
) -> None:
    """Print a new API key for a program; it is shown this once.

    It belongs to nobody who signs in, so that whoever may approve may answer what it asks for.
    """
    with _opened(db) as (store, books):
        from gdcb.service.access import CONSOLE, EVERY, add_key

        known = store.chains()
        for one in instance or ():
            if one not in (EVERY, *known):
                there = f"there are {', '.join(known)}" if known else "there is none yet"
                fail(f"--instance: no instance '{one}' in this ledger; {there}")
        roles = [(role, of) for role in may for of in instance or [EVERY]]
        made = add_key(books, CONSOLE, name, roles, days * 86_400)
    typer.echo(made.text)


@access_app.command("end")
def end(
    login: Annotated[str, typer.Argument(help="Whose access ends.")], db: Url = DEFAULT_DB
) -> None:
    """End somebody's access at once, also that of the last administrator.

    The next start of the service then prints a link for a new one.
    """
    with _opened(db) as (_, books):
        from gdcb.service.access import CONSOLE, end_person, person_by_login

        end_person(books, CONSOLE, person_by_login(books, login))
    out.print(f"{escape(login)} is signed out everywhere and can sign in no more.")


@access_app.command("log")
def log(
    db: Url = DEFAULT_DB,
    after: Annotated[int, typer.Option(min=0, help="Only lines behind this number.")] = 0,
    most: Annotated[int, typer.Option(min=1, help="So many lines at most.")] = 1000,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show who signed in, and who granted, revoked or made what; the log only grows."""
    with _opened(db) as (_, books):
        from gdcb.service.access import CONSOLE, list_keys, list_people, read_log

        lines = read_log(books, after, most)
        names = {one.id: one.name for one in list_people(books, CONSOLE)}
        names |= {one.id: one.name for one in list_keys(books, CONSOLE)}
    told: list[dict[str, Any]] = [
        {
            "n": one.n,
            "at": _date(one.at),
            "by": one.by,
            "name": names.get(one.by, one.by),
            "what": one.what,
            "detail": _dated(one.detail),
        }
        for one in lines
    ]
    if json:
        as_json(told)
        return
    for line in told:
        detail = ", ".join(f"{name} {_words(value)}" for name, value in line["detail"].items())
        words = f"{line['n']}  {line['at']}  {line['name']}: {line['what']}  {detail}"
        out.print(escape(words.rstrip()), soft_wrap=True)


def _date(at: int) -> str:
    return datetime.fromtimestamp(at / 1e6, UTC).isoformat(timespec="seconds")


def _dated(detail: Mapping[str, Any]) -> dict[str, Any]:
    """Write times as dates: the database has µs since the epoch, under names that end in _at."""
    return {
        name: _date(value) if name.endswith("_at") and isinstance(value, int) else value
        for name, value in detail.items()
    }


def _words(value: Any) -> str:
    """Write a particular for people; roles come as pairs of role and instance."""
    if isinstance(value, list):
        return " and ".join(" on ".join(map(str, pair)) for pair in value) or "none"
    return "never" if value is None else str(value)


@contextmanager
def _opened(db: str) -> Iterator[tuple[SqlStore, Books]]:
    """Open a service's database: its ledger and its books; none is made where there is none."""
    try:
        from gdcb.service.access import open_books
        from gdcb.service.running import sql_store
    except ImportError as error:
        fail(f"the service needs its packages: pip install 'gdcb[serve]' ({error})")
    path = db.removeprefix("sqlite:///").partition("?")[0]
    if "://" not in path and not Path(path).is_file():
        fail(f"no ledger at {path}")
    try:
        store = sql_store(db)
        try:
            yield store, open_books(store.engine)
        finally:
            store.close()
    except GdcbError as error:
        fail(str(error))
