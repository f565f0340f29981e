"""`gdcb parts [KIND or PART]`: what a TOML file may name, the settings of a part; `--check`."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterable
from difflib import get_close_matches
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


def details(kind: str, name: str) -> dict[str, Any]:
    """Return one registered part with what it declares and where its theory ends."""
    found = describe(kind, name)
    return found | {"declares": _declared(kind, name), "notes": _notes(kind, name)}


def _declared(kind: str, name: str) -> dict[str, str]:
    """Return the plain attributes of a part that are no settings, as an example of it has them."""
    from gdcb import checks

    try:
        part, _ = checks.build(kind, name)
        settings = {field.name for field in dataclasses.fields(part) if field.init}
    except Exception:  # a part that cannot be built still has its settings and notes
        return {}
    found = {}
    for attribute in sorted(set(dir(part)) - settings):
        if attribute.startswith("_"):
            continue
        try:
            value = getattr(part, attribute)
        except Exception:  # a property may need what only an instance gives
            continue
        if isinstance(value, set | frozenset):
            value = tuple(sorted(value))
        if value is None or isinstance(value, bool | int | float | str | tuple):
            found[attribute] = repr(value)
    return found


def _notes(kind: str, name: str) -> str:
    """Return the section 'Notes' of a part's docstring; empty where it has none."""
    try:
        text = inspect.getdoc(part_named(kind, name)) or ""
    except Exception:  # what is wrong with it stands in its first line already
        return ""
    section = re.search(
        r"^Notes\n-+\n(.*?)(?=^\S[^\n]*\n-{3,}$|\Z)", text, re.DOTALL | re.MULTILINE
    )
    return section[1].strip() if section else ""


def _nearest(name: str, known: Iterable[str]) -> str:
    """Return a question that names what may have been meant; empty where nothing is near."""
    near = get_close_matches(name, sorted(set(known)), n=3)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def told(error: Exception) -> str:
    """Return an error's sentence; where it is none of ours, what it is."""
    return str(error) if isinstance(error, GdcbError) else f"{type(error).__name__}: {error}"


def parts(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"A kind ({', '.join(GROUPS)}), or a part's name for all that is known of it; "
            "with --check several, and 'domain'.",
            metavar="[KIND|PART]",
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
    known = [(kind, name) for kind in GROUPS for name in registered(kind)]
    if len(wanted) > 1:
        wrong_usage(f"expected one kind or one part, got {', '.join(wanted)}")
    if wanted and wanted[0] not in GROUPS:
        _tell(wanted[0], known, json)
        return
    found = [describe(*pair) for pair in known if not wanted or pair[0] == wanted[0]]
    if json:
        as_json(found)
        return
    table = Table("kind", "part", "what it is, and its settings with their defaults", box=None)
    for one in found:
        settings = ", ".join(f"{name} = {value}" for name, value in one["settings"].items())
        table.add_row(one["kind"], one["name"], escape(f"{one['about']}\n{settings}\n"))
    out.print(table)


def _tell(name: str, known: list[tuple[str, str]], json: bool) -> None:
    """Print all that is known of the parts of one name: most often there is one."""
    found = [details(*pair) for pair in known if pair[1] == name]
    if not found:
        near = _nearest(name, [*GROUPS, *(other for _, other in known)])
        kinds = ", ".join(GROUPS)
        wrong_usage(f"no part and no kind '{name}'{near or f'; there are {kinds}'}")
    if json:
        as_json(found)
        return
    for one in found:
        lines = [f"{one['kind']} {one['name']}: {one['about']}"]
        for title in ("settings", "declares"):
            if one[title]:
                lines += ["", title]
                lines += [f"  {key} = {value}" for key, value in one[title].items()]
        if one["notes"]:
            lines += ["", one["notes"]]
        out.print(escape("\n".join(lines)), soft_wrap=True)


def _check(wanted: list[str], json: bool) -> None:
    """Run the promises of some parts, or of all; exit 1 where one is broken."""
    from gdcb import checks

    known = checks.names()
    unknown = sorted(set(wanted) - {word for pair in known for word in pair})
    if unknown:
        kinds = ", ".join([*GROUPS, "domain"])
        near = _nearest(unknown[0], (word for pair in known for word in pair))
        listed = f"; gdcb parts lists them, and there are {kinds}"
        wrong_usage(f"no part '{unknown[0]}'{near or listed}")
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
    from gdcb.checks import Result
    from gdcb.checks.base import counted

    table = Table("", "kind", "part", "promises", box=None)
    for one in found:
        broken = [Result(**promise) for promise in one["promises"] if promise["broken"]]
        kept = f"{len(one['promises']) - len(broken)} of {len(one['promises'])} kept"
        lines = [f"{p.name}: {p.sentence}\n  {p.broken}{more}" for p, more in counted(broken)]
        mark = "[red]✗[/red]" if broken else "[green]✓[/green]"
        table.add_row(mark, one["kind"], one["name"], escape("\n".join([kept, *lines])))
    out.print(table)
