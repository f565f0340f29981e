"""`gdcb instances [NAME] [--json]`: what can be run, and what a context looks like."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from gdcb.cli.say import as_json, out, wrong_usage
from gdcb.errors import InvalidInput
from gdcb.instances import NAMES, STUDIES, Domain, load


def paragraphs(text: str) -> str:
    """Join the lines of each paragraph, so that the screen may break them."""
    return "\n\n".join(" ".join(block.split()) for block in text.strip().split("\n\n"))


def describe(name: str, domain: Domain) -> dict[str, Any]:
    """Return a domain as plain data: the tuple, filled in."""
    instance = domain.instance
    return {
        "name": name,
        "title": instance.title,
        "arms": list(instance.space.names),
        "composition": type(instance.composition).__name__,
        "scaler": type(instance.scaler).__name__,
        "gates": [gate.name for gate in instance.chain.gates],
        "bandit": type(domain.bandit).__name__,
        "outcome": list(instance.reward.outcome),
        "action": [column.name for column in instance.actions],
        "unit": domain.unit,
        "about": paragraphs(domain.about),
        "context": instance.context.json_schema(),
    }


def instances(
    name: Annotated[str | None, typer.Argument(help="One instance, with its context.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the instances, or show one with the JSON schema of its context."""
    try:
        found = [describe(one, load(one)) for one in ([name] if name else NAMES)]
    except InvalidInput as error:
        wrong_usage(str(error))
    if json:
        as_json(found[0] if name else found)
        return
    if name is None:
        table = Table("name", "what", "arms", "composition", "gates", box=None)
        for one in found:
            table.add_row(
                one["name"],
                one["title"],
                str(len(one["arms"])),
                one["composition"],
                " → ".join(one["gates"]),
            )
        out.print(table)
        out.print("\n[dim]gdcb instances NAME shows one; gdcb run NAME runs it.[/dim]")
        return
    one = found[0]
    out.print(f"[bold]{one['title']}[/bold] ({one['name']})\n\n{one['about']}\n")
    table = Table("part", "value", box=None, show_header=False)
    for key in ("arms", "composition", "scaler", "gates", "bandit", "outcome", "action", "unit"):
        value = one[key]
        table.add_row(key, ", ".join(value) if isinstance(value, list) else str(value))
    for field, schema in one["context"]["properties"].items():
        table.add_row(f"context.{field}", _in_words(schema))
    out.print(table)
    if name in STUDIES:
        out.print(
            f"\n[dim]This is the stylised form. gdcb run {name} runs a fuller one, with more "
            "context, a history and rivals: docs/protocol.md.[/dim]"
        )


def _in_words(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        text = " | ".join(schema["enum"])
    elif schema["type"] == "boolean":
        text = "true or false"
    else:
        low, high = schema.get("minimum"), schema.get("maximum")
        text = "number" if low is None and high is None else f"number, {low} to {high}"
    about = schema.get("description")
    return f"{text}: {about}" if about else text
