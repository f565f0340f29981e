"""The files of a run over all instances: a page to open, Markdown for documentation, JSON."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gdcb.protocol.across import tables
from gdcb.protocol.across.drawing import ratios
from gdcb.protocol.across.tables import Words
from gdcb.protocol.files import write_summary, write_text_whole
from gdcb.protocol.report.layout import folded, prose
from gdcb.protocol.report.style import CSS
from gdcb.protocol.report.tables import table

PAGE, MARKDOWN, TABLE = "index.html", "table.md", "table.json"
CAPTION = (
    "Filled: B4 against the best rival with the history. Hollow: A3 against the best without. "
    "Lines are 95 % intervals; the dashed line is one half."
)
# Tables here have more columns than a report's: their cells may wrap, where `kept` lets them.
_OWN = """
body { max-width: 60rem; }
@media screen { .n { white-space: normal; } }
.ratios { max-width: 32rem; margin: 0 auto; }
"""
REACH = "All worlds are simulated, with a known truth; this says nothing yet of a real one."


def write(found: Mapping[str, Any], folder: Path, command: str) -> None:
    """Write page, Markdown and JSON; reports of the runs lie in folders beside them."""
    write_summary(folder / TABLE, {**found, "command": command})
    write_text_whole(folder / MARKDOWN, markdown(found, command))
    write_text_whole(folder / PAGE, page(found, command))


def page(found: Mapping[str, Any], command: str) -> str:
    """Return the page."""
    e = html.escape
    reasons = "".join(f"<li>{prose(reason)}</li>" for reason in tables.reasons(found))
    runs = "".join(
        f'<li><a href="{e(folder_of(run))}/report.html">{e(tables.name_of(run))}: '
        f"{e(run['title'])}</a></li>"
        for run in found["runs"]
    )
    every = "".join(
        folded(tables.name_of(run), _html(tables.methods(run))) for run in found["runs"]
    )
    lost = (
        f"<h2>Where GDCB is not first, or not for certain</h2><ul>{reasons}</ul>" if reasons else ""
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>gdcb: all instances</title><style>{CSS}{_OWN}</style></head><body>
<header><h1>All instances</h1><p class="facts">{e(_facts(found))}</p></header>
<main><section><p>{REACH}</p>{_figure(found)}
{_html(tables.overview(found))}{lost}</section>
<section><h2>What the paper predicts</h2>{_html(tables.verdicts(found))}
{folded("Every cell: predicted and measured", _html(tables.predictions(found)))}</section>
<section><h2>Every method</h2>{every}</section>
<section><h2>Reports</h2><ul>{runs}</ul></section>
<section><h2>Reproduction</h2><pre><code>{e(command)}</code></pre></section></main>
</body></html>
"""


def _figure(found: Mapping[str, Any]) -> str:
    return f"<figure>{ratios(found)}<figcaption>{html.escape(CAPTION)}</figcaption></figure>"


def folder_of(run: Mapping[str, Any]) -> str:
    """Return the folder of one run's report."""
    return f"{run['instance']}-{run['variant']}"


def _facts(found: Mapping[str, Any]) -> str:
    runs = found["runs"]
    if not runs:
        return "nothing was run"
    one = runs[0]
    return f"{one['replicates']:,} replicates, {one['episodes']:,} episodes, seed {one['seed']}"


def _html(words: Words) -> str:
    rows = [[kept(cell) for cell in row] for row in words.rows]
    return table(words.caption, words.head, rows, n_words=words.n_words)


def markdown(found: Mapping[str, Any], command: str) -> str:
    """Return the tables as Markdown."""
    parts = [f"Made by `{command}`: {_facts(found)}. {REACH}"]
    parts.append(markdown_table(tables.overview(found)))
    reasons = tables.reasons(found)
    if reasons:
        parts.append(
            "Where GDCB is not first, or not for certain:\n\n"
            + "\n".join(f"- {one}" for one in reasons)
        )
    parts.append("## What the paper predicts\n\n" + markdown_table(tables.verdicts(found)))
    parts.append(markdown_table(tables.predictions(found)))
    parts.append("## Every method")
    parts += [
        f"### {tables.name_of(run)}\n\n{markdown_table(tables.methods(run))}"
        for run in found["runs"]
    ]
    return "\n\n".join(parts) + "\n"


def markdown_table(words: Words) -> str:
    """Return one table; what would break its cells is escaped."""
    rule = ["---" if i < words.n_words else "---:" for i in range(len(words.head))]
    lines = [words.head, rule, *words.rows]
    cells = [[kept(c).replace("|", "\\|").replace("\n", " ") for c in line] for line in lines]
    body = "\n".join(f"| {' | '.join(line)} |" for line in cells)
    return f"{words.caption}\n\n{body}"


def kept(cell: str) -> str:
    r"""Return a cell that wraps between a number and its interval, and not within either.

    >>> kept("12.6 ± 0.8") == "12.6\u00a0±\u00a00.8"
    True
    >>> kept("0.5 [0.4, 0.6] B2g") == "0.5 [0.4,\u00a00.6] B2g"
    True
    """
    cell = cell.replace(" ± ", "\u00a0±\u00a0").replace(" %", "\u00a0%")
    return re.sub(r"\[[^]]*\]", lambda found: found[0].replace(" ", "\u00a0"), cell)
