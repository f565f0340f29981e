"""`gdcb instances [NAME] [--json]`: what can be run, and what a context looks like."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from gdcb.cli.say import as_json, fail, out, wrong_usage
from gdcb.errors import GdcbError, InvalidInput
from gdcb.gates import UNGATED
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


def _described(name: str) -> dict[str, Any]:
    """Return one instance as the protocol runs it."""
    from gdcb.instances import study

    subject = study(name, "well", {}, 1)
    real, made = (
        " ".join(f"{_sentence(line)}" for line in subject.about[k]) for k in ("real", "made")
    )
    about = f"Real: {real}\n\nMade: {made}"
    return describe(name, subject.domain) | {"about": about}


def _sentence(line: str) -> str:
    return f"{line[:1].upper()}{line[1:].rstrip('.;')}."


def instances(
    name: Annotated[str | None, typer.Argument(help="One instance, with its context.")] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--write", metavar="FOLDER", help="Write its TOML and a made log, for gdcb check."
        ),
    ] = None,
    rows: Annotated[int, typer.Option(help="Rows of the made log.")] = 4000,
    variant: Annotated[str, typer.Option(help="Whose truth made the log: well or mis.")] = "well",
    seed: Annotated[int, typer.Option(help="Seed of the made log.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the instances, or show one with the JSON schema of its context.

    With --write FOLDER you get the instance as a file, and a made history of it under an incumbent
    behind the same gate: something to try `gdcb check` on before you have a log of your own.
    """
    if folder is not None:
        _write(name, folder, rows, variant, seed)
        return
    try:
        found = [_described(name)] if name else [describe(one, load(one)) for one in NAMES]
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
                " → ".join(one["gates"]) or UNGATED,
            )
        out.print(table)
        out.print("\n[dim]gdcb instances NAME shows one; gdcb run NAME runs it.[/dim]")
        return
    one = found[0]
    out.print(f"[bold]{one['title']}[/bold] ({one['name']})\n\n{one['about']}\n")
    table = Table("part", "value", box=None, show_header=False)
    for key in ("arms", "composition", "scaler", "gates", "bandit", "outcome", "action", "unit"):
        value = one[key]
        shown = ", ".join(value) if isinstance(value, list) else str(value)
        table.add_row(key, UNGATED if key == "gates" and not value else shown)
    for field, schema in one["context"]["properties"].items():
        table.add_row(f"context.{field}", _in_words(schema))
    out.print(table)
    out.print(
        f"\n[dim]gdcb run {name} runs it against every rival; gdcb instances {name} "
        "--write FOLDER writes it as a file, with a made log.[/dim]"
    )


def _write(name: str | None, folder: Path, rows: int, variant: str, seed: int) -> None:
    """Write the instance's file and a made log of it."""
    from gdcb.instances import study
    from gdcb.instances.made_log import write_log
    from gdcb.protocol.files import prepare_folder

    if name not in STUDIES:
        wrong_usage(f"--write: name one of {', '.join(STUDIES)}")
    if rows < 1 or seed < 0:
        wrong_usage(f"--rows and --seed: expected at least 1 and 0, got {rows} and {seed}")
    declared, path = (
        files("gdcb.instances") / STUDIES[name] / f"{name}.toml",
        folder / f"{name}.toml",
    )
    text = declared.read_text(encoding="utf-8") if declared.is_file() else None
    try:
        subject = study(name, variant, {}, 1)
        log = prepare_folder(folder) / f"{name}.parquet"
        if path.exists() and path.read_text(encoding="utf-8") != text:
            fail(f"{path} is there already, and not as it was written; name another folder")
        n = write_log(subject, log, rows, seed)
    except GdcbError as error:
        fail(str(error))
    out.print(f"{n:,} made rows: [bold]{log}[/bold]", soft_wrap=True)
    if text is not None:
        path.write_text(text, encoding="utf-8")
        out.print(f"The instance: [bold]{path}[/bold]", soft_wrap=True)
    out.print(f"\n[dim]Next: gdcb check {log} --instance {name}[/dim]", soft_wrap=True)


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
