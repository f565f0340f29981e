"""`gdcb check HISTORY --instance NAME_OR_TOML`: whether a log may be believed, with a page."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Column, Table

from gdcb.cli.say import as_json, bar_of, fail, out, wrong_usage
from gdcb.errors import GdcbError, InvalidInput
from gdcb.instances import NAMES

if TYPE_CHECKING:
    from gdcb.history.page.document import Document

DEFAULT = Path("gdcb-out") / "check" / "certificate.html"
_MOST = 30  # arms on the screen; the page has all
_MOST_REASONS = 5  # for which rows were rejected, likewise


def check(
    history: Annotated[
        str,
        typer.Argument(help="A CSV or Parquet file, a folder of them, dsjson, or a database URL."),
    ],
    instance: Annotated[
        str, typer.Option("--instance", help="A name (gdcb instances) or a TOML file.")
    ],
    query: Annotated[
        str | None, typer.Option(help="SQL that gives the log, with a database URL.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail if any row breaks the schema, or a column leaks.")
    ] = False,
    override: Annotated[
        str | None,
        typer.Option(
            metavar="REASON", help="Use what is refused all the same; the reason is written down."
        ),
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.html", help=f"Default: {DEFAULT}.")
    ] = None,
    level: Annotated[
        float, typer.Option(help="One error rate for all tests together, from 0.001.")
    ] = 0.05,
    margin: Annotated[
        float, typer.Option(help="Largest bias let pass, in standard deviations of the outcome.")
    ] = 0.1,
    json: Annotated[bool, typer.Option("--json", help="Print the certificate as JSON.")] = False,
) -> None:
    """Certify a decision log: whether a learner may start warm from it, arm by arm, and why.

    It writes a page to be filed, and the same as JSON beside it. Exit 0: it may be used, directly,
    adjusted or with weights. Exit 3: it is refused.
    """
    _check(level, margin, override, query, history)
    declared, bandit, columns = _instance(instance)
    target = _target(page)
    try:
        document = _certified(
            history,
            declared,
            bandit,
            columns,
            query,
            strict,
            {"level": level, "margin": margin, "override": override},
        )
        document["command"] = _command(history, instance, query, strict, override, level, margin)
        _write(target, document)
    except KeyboardInterrupt:
        fail("interrupted: nothing was written")
    except MemoryError:
        fail("out of memory: nothing was written")
    except (GdcbError, OSError) as error:
        fail(str(error))
    except Exception as error:  # a log may be odd in ways that nobody thought of
        fail(_fault(history, error))
    if json:
        as_json(document)
    else:
        show(document, target)
    if document["verdict"] == "refuse":
        raise typer.Exit(3)


def _fault(history: str, error: Exception) -> str:
    """Say that a log cannot be certified for a reason that is not its own, and where that arose."""
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    ours = [one for one in frames if f"{os.sep}gdcb{os.sep}" in one.filename]
    at = f" at {Path(ours[-1].filename).name}, line {ours[-1].lineno}" if ours else ""
    return (
        f"{_hidden(history)}: it cannot be certified, which is a fault of gdcb's and not of the "
        f"log's ({type(error).__name__}{at}: {error}); nothing was written. Please report it"
    )


def _check(
    level: float, margin: float, override: str | None, query: str | None, history: str
) -> None:
    if not 0 < level < 0.5:
        wrong_usage(f"--level: expected a number above 0 and below 0.5, got {level:g}")
    if not 0 < margin < float("inf"):
        wrong_usage(f"--margin: expected a number above 0, got {margin:g}")
    if override is not None and not override.strip():
        wrong_usage("--override: expected a reason in words, got none")
    if query is not None and "://" not in history:
        wrong_usage(f"--query goes with a database URL, not with {history}")


def _instance(name: str) -> tuple[Any, Any, Any]:
    """Return instance, bandit and log columns; what the protocol runs is what has a history."""
    from gdcb.declaration import read
    from gdcb.instances import study
    from gdcb.log_columns import LogColumns

    if name.endswith(".toml"):
        try:
            declared = read(Path(name))
        except InvalidInput as error:
            fail(str(error))
        return declared.instance, declared.bandit, declared.columns
    if name not in NAMES:
        wrong_usage(f"no instance {name}; there are {', '.join(NAMES)}, or a .toml file")
    domain = study(name, "well", {}, 1).domain
    return domain.instance, domain.bandit, LogColumns()


def _target(page: Path | None) -> Path:
    """Make the folder before the work, so that a bad one costs nothing."""
    from gdcb.protocol.files import prepare_folder

    target = DEFAULT if page is None else page
    if target.suffix.lower() not in (".html", ".htm"):
        wrong_usage(f"--out: expected a file that ends in .html, got {target}")
    if target.is_dir():
        wrong_usage(f"--out: expected a file, got the folder {target}")
    try:
        prepare_folder(target.parent)
    except InvalidInput as error:
        fail(f"--out: {error}")
    return target


def _certified(
    history: str,
    instance: Any,
    bandit: Any,
    columns: Any,
    query: str | None,
    strict: bool,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    from gdcb.history import certify, open_log

    with bar_of() as bar:
        task = bar.add_task("reading the log", total=None)

        def step(done: int, total: int) -> None:
            if done == total:  # how long the rest takes hangs on arms and context, not on rows
                bar.update(task, total=None, description="certifying")
            else:
                bar.update(task, completed=done, total=total)

        source = open_log(history, instance, columns, query, strict=strict)
        return dict(certify(source, instance, bandit, progress=step, **settings).as_json())


def _hidden(history: str) -> str:
    """Return a log's address without its password."""
    return re.sub(r"(://[^:/@]*):[^@/]*@", r"\1:***@", history)


def _command(
    history: str,
    instance: str,
    query: str | None,
    strict: bool,
    override: str | None,
    level: float,
    margin: float,
) -> str:
    """Return the command that makes the certificate again; a password in a URL is left out."""
    words = ["gdcb", "check", _hidden(history)]
    words += ["--instance", instance]
    words += ["--query", query] if query is not None else []
    words += ["--strict"] if strict else []
    words += ["--override", override] if override is not None else []
    words += ["--level", f"{level:g}"] if level != 0.05 else []
    words += ["--margin", f"{margin:g}"] if margin != 0.1 else []
    return shlex.join(words)


def _write(target: Path, document: Mapping[str, Any]) -> None:
    from gdcb.history.page import certificate_page
    from gdcb.protocol.files import write_summary, write_text_whole

    write_text_whole(target, certificate_page(document))
    write_summary(target.with_suffix(".json"), document)


def show(document: Mapping[str, Any], target: Path) -> None:
    """Print verdict and reasons, the arms, what the tests found, and where the page is."""
    from gdcb.history import sentences as say
    from gdcb.history.page.read import read
    from gdcb.history.page.tables import rejected
    from gdcb.pages.words import some

    run = read(document)
    colour = "red" if run.verdict == "refuse" or run.override else "green"
    out.print(f"[bold {colour}]{say.VERDICTS[run.verdict]}[/] [dim]({run.verdict})[/dim]")
    if run.override is not None:
        said = say.override_of_verdict(run.override.reason, run.override.without)
        out.print(f"[bold red]{escape(said)}[/]")
    out.print()
    if run.read and run.rejected:
        out.print(f"• {run.rejected:,.0f} of {run.read:,.0f} rows were rejected:")
        for one in run.rejections[:_MOST_REASONS]:
            out.print(f"  {escape(rejected(one))}")
    for doubt in run.leaks:
        out.print(f"• {escape(doubt)}")
    for reason in run.why:
        out.print(f"• {escape(reason)}")
    out.print("\n[bold]What this rests on[/]")
    for i, each in enumerate(run.assumptions, start=1):
        tested = escape(each.state[:1].lower() + each.state[1:])
        tested = f"[bold red]{tested}[/]" if each.is_doubted else tested
        out.print(f"{i}. {escape(each.name)} ({tested}). {escape(each.result)}".rstrip())
    out.print()
    out.print(_arms(run))
    if len(run.arms) > _MOST:
        out.print(f"[dim]and {len(run.arms) - _MOST} more arms, on the page[/dim]")
    found = [one.name for one in run.tests if one.is_significant]
    made = sum(one.p is not None for one in run.tests)
    if made:
        told = f"{len(found)} of {some(made, 'test')} found something"
        out.print(f"\n{told}{escape(': ' + '; '.join(found)) if found else ''}.")
    if run.scaler_says:
        out.print(escape(run.scaler_says))
    out.print(
        f"Certificate: [bold]{escape(str(target))}[/bold]; beside it "
        f"{escape(target.with_suffix('.json').name)}",
        soft_wrap=True,
    )


def _arms(run: Document) -> Table:
    """Return one row an arm."""
    from gdcb.history.page.tables import whole
    from gdcb.history.sentences import SHORT
    from gdcb.pages.numbers import bracketed, common_digits

    names = ("rows", "effective", "bias", "counts as")
    table = Table(
        Column("arm"),
        Column("verdict", no_wrap=True),
        *(Column(name, justify="right", no_wrap=True) for name in names),
        box=None,
        pad_edge=False,
    )
    digits = common_digits([arm.bias for arm in run.arms])
    for arm in run.arms[:_MOST]:
        style = "dim" if arm.verdict == "refuse" else None
        figures = (whole(arm.rows), whole(arm.ess), bracketed(arm.bias, digits), whole(arm.n_eff))
        table.add_row(escape(arm.name), SHORT[arm.verdict], *map(escape, figures), style=style)
    return table
