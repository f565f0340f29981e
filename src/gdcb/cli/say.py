"""How commands speak: answers on stdout, progress and complaints on stderr, exit codes.

0 done, 1 failed, 2 wrong usage, 3 done and the answer is no (`gdcb verify`, `gdcb check`).
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def fail(message: str, code: int = 1) -> NoReturn:
    """Complain in one sentence and stop."""
    err.print(f"[red]gdcb:[/red] {escape(message)}", soft_wrap=True)
    raise typer.Exit(code)


def wrong_usage(message: str) -> NoReturn:
    """Say what the call should have been and stop with code 2."""
    fail(message, code=2)


def notice(sentence: str) -> None:
    """Tell people beside the answer what they should know."""
    err.print(f"[dim]{escape(sentence)}[/dim]", soft_wrap=True)


def as_json(document: Any) -> None:
    """Print one JSON document and nothing else."""
    typer.echo(json.dumps(document, indent=2, allow_nan=False))


def bar_of() -> Progress:
    """Return a progress bar on stderr, which goes when it is done; none where nobody looks."""
    columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn())
    return Progress(
        *columns, TimeRemainingColumn(), console=err, transient=True, disable=not err.is_terminal
    )
