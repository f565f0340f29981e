"""`gdcb parts [KIND]`: what a TOML file may name, and the settings of every part; `--check`."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from gdcb.cli.say import as_json, err, out, wrong_usage
from gdcb.declaration import GROUPS, part_named, registered
from gdcb.errors import GdcbError


def describe(kind: str, name: str) -> dict[str, Any]:
    """Return one registered part: its first sentence, and its settings with their defaults."""
    try:
        cls = part_named(kind, name)
    except Exception as error:  # another package's part must not end the listing
        return {"kind": kind, "name": name, "about": told(error), "settings": {}}
    settings = {}
    for field in dataclasses.fields(cls):
        if not field.init:
            continue
        default: Any = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        settings[field.name] = "required" if default is dataclasses.MISSING else repr(default)
    about = (cls.__doc__ or "").strip().splitlines()[0]
    return {"kind": kind, "name": name, "about": about, "settings": settings}


def told(error: Exception) -> str:
    """Return an error's sentence; where it is none of ours, what it is."""
    return str(error) if isinstance(error, GdcbError) else f"{type(error).__name__}: {error}"


def parts(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"A kind ({', '.join(GROUPS)}); with --check also names of parts, or 'domain'.",
            metavar="[KIND]",
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Run every promise of the parts' kinds on them.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the parts that a TOML instance may name, with their settings; or check them."""
    wanted = names or []
    if check:
        _check(wanted, json)
        return
    if len(wanted) > 1 or not set(wanted) <= set(GROUPS):
        wrong_usage(f"no kind of part '{' '.join(wanted)}'; there are {', '.join(GROUPS)}")
    kind = wanted[0] if wanted else None
    found = [
        describe(one, name) for one in ([kind] if kind else GROUPS) for name in registered(one)
    ]
    if json:
        as_json(found)
        return
    table = Table("table", "part", "what it is, and its settings with their defaults", box=None)
    for one in found:
        settings = ", ".join(f"{name} = {value}" for name, value in one["settings"].items())
        table.add_row(one["kind"], one["name"], escape(f"{one['about']}\n{settings}\n"))
    out.print(table)


def _check(wanted: list[str], json: bool) -> None:
    """Run the promises of some parts, or of all; exit 1 where one is broken."""
    from gdcb import checks

    known = checks.names()
    unknown = sorted(set(wanted) - {word for pair in known for word in pair})
    if unknown:
        kinds = ", ".join([*GROUPS, "domain"])
        wrong_usage(f"no part '{unknown[0]}'; gdcb parts lists them, and there are {kinds}")
    chosen = [pair for pair in known if not wanted or set(pair) & set(wanted)]
    found: list[dict[str, Any]] = []
    with err.status("checking") as status:
        for kind, name in chosen:
            status.update(f"checking {kind} {name}")
            found.append(_promises(kind, name))
    if json:
        as_json(found)
    else:
        _show(found)
    if any(promise["broken"] for one in found for promise in one["promises"]):
        raise typer.Exit(1)


def _promises(kind: str, name: str) -> dict[str, Any]:
    """Return what became of every promise of one part."""
    from gdcb import checks

    try:
        report = checks.report(*checks.build(kind, name))
        promises = [dataclasses.asdict(result) for result in report.results]
    except Exception as error:  # whatever a part does, the other parts are checked
        sentence = "It can be built and tried."
        promises = [{"name": "can be tried", "sentence": sentence, "broken": told(error)}]
    return {"kind": kind, "name": name, "promises": promises}


def _show(found: list[dict[str, Any]]) -> None:
    table = Table("", "table", "part", "promises", box=None)
    for one in found:
        broken = [promise for promise in one["promises"] if promise["broken"]]
        kept = f"{len(one['promises']) - len(broken)} of {len(one['promises'])} kept"
        lines = [f"{p['name']}: {p['sentence']}\n  {p['broken']}" for p in broken]
        mark = "[red]✗[/red]" if broken else "[green]✓[/green]"
        table.add_row(mark, one["kind"], one["name"], escape("\n".join([kept, *lines])))
    out.print(table)
