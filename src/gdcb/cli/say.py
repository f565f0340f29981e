"""How commands speak: answers on stdout, progress and complaints on stderr, exit codes.

0 done, 1 failed, 2 wrong usage, 3 done and the answer is no (`gdcb verify`).
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def fail(message: str, code: int = 1) -> NoReturn:
    """Complain in one sentence and stop."""
    err.print(f"[red]gdcb:[/red] {escape(message)}", soft_wrap=True)
    raise typer.Exit(code)


def wrong_usage(message: str) -> NoReturn:
    """Say what the call should have been and stop with code 2."""
    fail(message, code=2)


def as_json(document: Any) -> None:
    """Print one JSON document and nothing else."""
    typer.echo(json.dumps(document, indent=2, allow_nan=False))
