"""`gdcb verify [t1 t2 t3 t4 kalman]`: what holds of the theorems, each by a small experiment."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

from gdcb.cli.say import as_json, err, fail, out, wrong_usage
from gdcb.engine import named
from gdcb.errors import GdcbError
from gdcb.instances import NAMES
from gdcb.theorems.catalogue import KEYS, THEOREMS, Asked, run, tables

_LONG = 24  # rows of a table; longer ones are not for reading on a screen
_LOOK = 0.3  # seconds between two looks at what the checks are at


def verify(
    theorems: Annotated[
        list[str] | None,
        typer.Argument(metavar="THEOREM", help="t1, t2, t3, t4 or kalman. Default: all."),
    ] = None,
    instance: Annotated[
        str, typer.Option(help="Whose methods (t3) and history (t4) are looked at.")
    ] = "str",
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print the answers as JSON.")] = False,
) -> None:
    """Check the paper's theorems and its Kalman section: its own form of each, and the repaired.

    Exit 0: every repaired form holds. Exit 3: one does not.
    """
    wanted = list(dict.fromkeys(theorems or KEYS))
    unknown = [key for key in wanted if key not in THEOREMS]
    if unknown:
        wrong_usage(f"no theorem {', '.join(unknown)}; there are {', '.join(KEYS)}")
    if instance not in NAMES:
        wrong_usage(f"no instance {instance}; there are {', '.join(NAMES)}")
    if not 0 <= seed < 2**64:
        wrong_usage(f"--seed: expected 0 to 2**64 - 1, got {seed}")
    order = [key for key in THEOREMS if key in wanted]
    answers = _answers([Asked(key, seed, instance) for key in order])
    answers = {key: answers[key] for key in KEYS if key in answers}
    if json:
        as_json(answers)
    else:
        for key, answer in answers.items():
            _show(key, answer)
    if not all(answer["repaired_holds"] for answer in answers.values()):
        raise typer.Exit(3)


def _answers(asked: list[Asked]) -> dict[str, dict[str, Any]]:
    """Check all of them, side by side where there are several."""
    engine = named("pool" if len(asked) > 1 else "local")
    try:
        with TemporaryDirectory() as folder:
            asked = [replace(one, told=Path(folder) / one.key) for one in asked]
            with _bars(asked) as bars, closing(engine.run(run, asked)) as finished:
                found = {}
                for index, answer in finished:
                    found[asked[index].key] = answer
                    bars(asked[index].key)
                return found
    except KeyboardInterrupt:
        fail("interrupted")
    except GdcbError as error:
        fail(str(error))


@contextmanager
def _bars(asked: list[Asked]) -> Iterator[Any]:
    """Show what every check is at; hand out a function that ends the line of one."""
    columns = (SpinnerColumn(), TextColumn("{task.fields[key]}  {task.description:<52}"))
    with Progress(*columns, TimeElapsedColumn(), console=err, transient=True) as bar:
        lines: dict[str, TaskID] = {
            one.key: bar.add_task("waits for a worker", total=1, key=one.key) for one in asked
        }
        stop = threading.Event()

        def look() -> None:
            while not stop.wait(_LOOK):
                for one in asked:
                    if one.told is not None and one.told.exists() and one.key in lines:
                        text = escape(one.told.read_text(encoding="utf-8"))
                        bar.update(lines[one.key], description=text)

        def end(key: str) -> None:
            bar.update(lines.pop(key), description="done", completed=1)

        watcher = threading.Thread(target=look, daemon=True)
        watcher.start()
        try:
            yield end
        finally:
            stop.set()
            watcher.join()


def _show(key: str, answer: dict[str, Any]) -> None:
    claims = Table(
        Column("form", no_wrap=True),
        Column("holds", no_wrap=True),
        Column("claim", ratio=2),
        Column("measured", ratio=3),
        box=None,
        pad_edge=False,
        title=f"[bold]{key}  {escape(answer['title'])}[/bold]",
        title_justify="left",
        expand=True,
    )
    for one in answer["claims"]:
        held = "yes" if one["holds"] else "[bold]no[/bold]"
        claims.add_row(one["form"], held, escape(one["claim"]), escape(one["found"]))
    out.print(claims, "")
    for title, table in tables(key, answer).items():
        _figures(title, table)
    for note in (*answer["verdict"][len(answer["claims"]) :], *answer.get("notes", ())):
        out.print(escape(note))
    words = {True: "holds", False: "does not hold"}
    out.print(
        f"[bold]{key}[/bold]: the paper's form {words[answer['paper_holds']]}; the repaired form "
        f"{words[answer['repaired_holds']]}.\n"
    )


def _figures(title: str, figures: dict[str, Any]) -> None:
    if len(figures["rows"]) > _LONG:
        out.print(f"{escape(title)}: {len(figures['rows'])} rows, with --json\n")
        return
    table = Table(
        *figures["columns"],
        box=None,
        pad_edge=False,
        title=escape(title.replace("_", " ")),
        title_justify="left",
    )
    for row in figures["rows"]:
        table.add_row(*(_cell(value) for value in row))
    out.print(table, "")


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return escape(str(value))
