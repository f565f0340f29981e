"""What a run prints: methods side by side, and what the history was worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from gdcb.pages.numbers import Estimate, bracketed, common_digits, fixed, plus_minus
from gdcb.pages.words import some
from gdcb.protocol.report.document import ColdStart, Document, Method
from gdcb.protocol.report.read import read
from gdcb.protocol.report.standing import FACED
from gdcb.protocol.report.words import MODELLED, NO_GATE, is_harm, saved_or_cost

ENDINGS = {"w": "in w start warm", "u": "in u run ungated"}


def show(document: Mapping[str, Any], folder: Path, out: Console) -> None:
    """Print the table of a run and where its files are."""
    run = read(document)
    # Neither title nor footnotes belong to the table: there they would wrap at its width.
    title = escape(f"{run.title}, variant {run.variant}")
    size = f"{some(run.replicates, 'replicate')} of {some(run.episodes, 'episode')}"
    out.print(f"[bold]{title}[/bold]: {size}\n")
    out.print(_table(run))
    for sentence in _footnotes(run):
        out.print(f"[dim]{escape(sentence)}[/dim]")
    out.print()
    for sentence in (*_ours(run), *_certificates(run), *_cold_start(run.cold_start)):
        out.print(escape(sentence))
    path = escape(str(folder / "report.html"))
    out.print(
        f"Report: [bold]{path}[/bold]; beside it summary.json, episodes.parquet", soft_wrap=True
    )


def show_all(found: Mapping[str, Any], folder: Path, out: Console) -> None:
    """Print how GDCB stands in every instance, and where the page is."""
    from gdcb.protocol.across.tables import in_short, reasons

    words = in_short(found)
    columns = [
        Column(name, justify="left" if name in ("instance", "largest part") else "right")
        for name in words.head
    ]
    for column in columns:
        column.no_wrap = True
    table = Table(*columns, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for row in words.rows:
        table.add_row(*map(escape, row))
    out.print(table)
    out.print(f"[dim]{escape(words.caption)}[/dim]\n")
    for sentence in reasons(found):
        out.print(escape(sentence))
    out.print(f"Page: [bold]{escape(str(folder / 'index.html'))}[/bold]", soft_wrap=True)


def _table(run: Document) -> Table:
    """Return one row a method; columns that would be empty are left out."""
    methods = list(run.methods.values())
    columns = {
        "regret": _sizes([method.regret for method in methods]),
        "above floor": _sizes([method.excess for method in methods]),
        "vs B4": _differences([None if _is_cold(m, run) else m.versus for m in methods]),
        "vs A3": _differences([m.versus_cold if _is_cold(m, run) else None for m in methods]),
    }
    columns = {name: cells for name, cells in columns.items() if any(cells)}
    table = Table(
        Column("", no_wrap=True),
        Column("method"),
        *(Column(name, justify="right", no_wrap=True) for name in columns),
        box=None,
        pad_edge=False,
    )
    for method, *cells in zip(methods, *columns.values(), strict=True):
        style = "bold" if method.key == "B4" else None
        table.add_row(method.key, escape(method.label), *cells, style=style)
    return table


def _is_cold(method: Method, run: Document) -> bool:
    """Say whether a method is held against GDCB without history: a rival without it."""
    return method.is_rival and not method.is_warm and "A3" in run.methods


def _sizes(values: Sequence[Estimate | None]) -> list[str]:
    digits = common_digits(values)
    return ["" if value is None else plus_minus(value, digits) for value in values]


def _differences(values: Sequence[Estimate | None]) -> list[str]:
    """Write paired differences with their sign, starred where they are one."""
    digits, found = common_digits(values), []
    for value in values:
        text = "" if value is None else fixed(value.mean, digits) + ("*" if value.sign else " ")
        found.append(f"+{text}" if value is not None and value.mean > 0 else text)
    return found


def _footnotes(run: Document) -> list[str]:
    said = [f"Regret over all episodes, {run.unit}: mean ± half a 95 % interval."]
    if any(method.excess for method in run.methods.values()):
        lost = "what even the best proposal loses behind the gate"
        lost = "nothing, for there is no gate" if run.is_ungated else lost
        said.append(f"above floor: less {'the gate floor' if run.oracle_knows else lost}.")
    if any(method.versus for method in run.methods.values()):
        said.append("vs: paired difference; * where its interval, after Holm, excludes 0.")
    seen = [word for end, word in ENDINGS.items() if any(key.endswith(end) for key in run.methods)]
    said += [f"Keys that end {', '.join(seen)}."] if seen else []
    if run.ours is not None and any(not method.is_warm for method in run.rivals):
        cold = ", as A3 does" if "A3" in run.methods else ""
        said.append(f"The history is known to B4; rivals without w start cold{cold}.")
    return [*said, MODELLED if run.is_model else "All worlds are simulated: made, not real."]


def _ours(run: Document) -> list[str]:
    """Say how ours stands to the best rival, what B4's regret is made of, and the floor."""
    said = [
        f"Above the floor, {FACED[start][0]} has {bracketed(best.ratio)} times the regret of "
        f"{best.rival.key}, the best rival {FACED[start][1]} in these runs."
        for start, best in run.against_best.items()
        if best.ratio is not None
    ]
    if run.ours is not None and run.ours.parts is not None:
        parts = run.ours.parts
        words = ", ".join(f"{name} {plus_minus(part)}" for name, part in parts.items())
        said.append(f"Parts of B4's regret: {words}.")
    if run.is_ungated:
        said.append(NO_GATE)
    elif run.floor is not None:
        lost = "" if run.oracle_knows else ", which even the best proposal loses"
        said.append(f"Gate floor{lost}: {plus_minus(run.floor)}. {run.oracle_knows}".rstrip())
    return said


def _certificates(run: Document) -> list[str]:
    """Say what the certificates of the histories decided, where they were certified."""
    return [] if run.certificates is None else [run.certificates[1].sentence]


def _cold_start(found: ColdStart | None) -> list[str]:
    """Say what the history was worth."""
    said = []
    if found is not None and found.saving_total is not None:
        change = saved_or_cost(found.saving_total)
        hurt = " The warm start hurt." if is_harm(found.saving_total) else ""
        said.append(f"Warm start: at episode 50 it {change} of the cold start's regret.{hurt}")
    if found is not None and found.below_from is not None:
        said.append(f"Warm lies below cold from episode {found.below_from:,} on.")
    if found is not None and found.compression is not None:
        said.append(f"Cold-start compression: {found.compression.sentence}")
    return said
