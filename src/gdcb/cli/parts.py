"""`gdcb parts [KIND]`: what a TOML file may name, and the settings of every part."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from gdcb.cli.say import as_json, out, wrong_usage
from gdcb.declaration import GROUPS, part_named, registered


def describe(kind: str, name: str) -> dict[str, Any]:
    """Return one registered part: its first sentence, and its settings with their defaults."""
    cls = part_named(kind, name)
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


def parts(
    kind: Annotated[str | None, typer.Argument(help=f"One of {', '.join(GROUPS)}.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the parts that a TOML instance may name, with their settings."""
    if kind is not None and kind not in GROUPS:
        wrong_usage(f"no kind of part '{kind}'; there are {', '.join(GROUPS)}")
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
