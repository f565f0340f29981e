"""`gdcb`: its help reads like a table of contents."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from gdcb.cli.access import access_app
from gdcb.cli.check import check
from gdcb.cli.decide import decide
from gdcb.cli.instances import instances
from gdcb.cli.ledger import ledger_app
from gdcb.cli.new import new
from gdcb.cli.parts import parts
from gdcb.cli.run import run
from gdcb.cli.serve import serve
from gdcb.cli.validate import validate
from gdcb.cli.verify import verify

app = typer.Typer(
    name="gdcb",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gdcb {version('gdcb')}")
        raise typer.Exit


@app.callback()
def main(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Gated decoupled compositional bandits: a bandit proposes, a scaler adapts, a gate decides."""


app.command("run")(run)
app.command("check")(check)
app.command("instances")(instances)
app.command("new")(new)
app.command("validate")(validate)
app.command("parts")(parts)
app.command("verify")(verify)
app.command("serve")(serve)
app.command("decide")(decide)
app.add_typer(access_app)
app.add_typer(ledger_app)
