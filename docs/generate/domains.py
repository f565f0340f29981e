"""Results of all instances, from the table that `gdcb run --all` left in `docs/domains/`."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from docs.generate import curves, suites
from docs.generate.chart import framed
from gdcb.pages.numbers import percent, plus_minus
from gdcb.protocol.across import tables
from gdcb.protocol.across.drawing import ratios
from gdcb.protocol.across.files import CAPTION, REACH, markdown_table
from gdcb.protocol.across.tables import Words, estimate_of

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "domains" / "table.json"


PICTURES = {
    "dosing": curves.dosing,
    "credit": curves.credit,
    "grid": curves.grid,
    "moderation": curves.moderation,
    "tools": suites.tools,
    "kalman": curves.kalman,
}


def described(instance: str) -> str:
    """Return the instance's README with its figure before the first section."""
    text = (ROOT / "src" / "gdcb" / "instances" / instance / "README.md").read_text("utf-8")
    start, mark, rest = text.partition("\n## ")
    return f"{start}\n{PICTURES[instance]()}\n{mark}{rest}"


@cache
def found() -> dict[str, Any]:
    """Return the table as it was made."""
    read: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return read


def made_by() -> str:
    """Say which command made it, and what it reaches."""
    one = found()["runs"][0]
    size = f"{one['replicates']:,} replicates of {one['episodes']:,} episodes"
    return f"```sh\n{found()['command']}\n```\n\n{size}, seed {one['seed']}. {REACH}"


def figure() -> str:
    """Return the drawing of all ratios."""
    return framed(ratios(found()), CAPTION)


def overview() -> str:
    """Return the table of how GDCB stands."""
    # The others stand under each run's own table, and these fit the page.
    return markdown_table(tables.overview(found()).without("regret", "variance ratio"))


def reasons() -> str:
    """Return where GDCB is not first, and why."""
    said = tables.reasons(found())
    if not said:
        return "GDCB is first in every instance, variant and start."
    lines = "\n".join(f"- {one}" for one in said)
    runs = found()["runs"]
    standings = [run["standing"][start] for run in runs for start in ("warm", "cold")]
    if all(one is None or one["is_first"] for one in standings):
        first = "GDCB is first in every instance, variant and start, but not for certain in all:"
        return f"{first}\n\n{lines}"
    return lines


def predictions() -> str:
    """Return how the paper's Table 3 did; folded, every cell beside what was measured."""
    every = _folded("Every cell: predicted and measured", tables.predictions(found()))
    return f"{markdown_table(tables.verdicts(found()))}\n\n{every}"


def every_method() -> str:
    """Return all methods of all runs, folded."""
    runs = found()["runs"]
    return "\n\n".join(_folded(tables.name_of(run), tables.methods(run)) for run in runs)


def _folded(title: str, words: Words) -> str:
    body = "\n".join(f"    {line}" for line in markdown_table(words).split("\n"))
    return f'??? note "{title}"\n\n{body}'


def results(instance: str) -> str:
    """Return what came out for one instance, in both variants."""
    parts = []
    for run in found()["runs"]:
        if run["instance"] != instance:
            continue
        parts.append(f"### `{run['variant']}`\n\n{markdown_table(tables.methods(run))}")
        read = measures(run)
        if read is not None:
            parts.append(markdown_table(read))
    return "\n\n".join((*parts, _onward(instance)))


def _onward(instance: str) -> str:
    """Say how to see the whole report, and how to go on to a log of one's own."""
    written = f"mine/{instance}.parquet --instance {instance}"
    return (
        "### The report, and a log of your own\n\n"
        "A run writes its whole report, with curves, overrides and theorems, as a page. The "
        "instance can be written as a file with a made log in its columns, which `gdcb check` "
        "certifies; "
        "[A log of your own](../history/own-log.md) goes on from there.\n\n"
        "```sh\n"
        f"gdcb run {instance} --variant mis           # gdcb-out/{instance}/report.html\n"
        f"gdcb instances {instance} --write mine\n"
        f"gdcb check {written}\n"
        "```"
    )


def measures(run: dict[str, Any]) -> Words | None:
    """Return what people of the field read beside regret; None where there is nothing."""
    readings = run.get("readings") or []
    if not readings:
        return None
    rows = []
    listed = sorted(run["methods"], key=lambda m: (m["regret"] or {"mean": 0.0})["mean"])
    for method in listed:
        cells = []
        for one in readings:
            value = estimate_of(method["measures"].get(one["name"]))
            cells.append(percent(value) if one["is_share"] else plus_minus(value))
        rows.append([f"{method['key']} {method['label']}", *cells])
    caption = f"{tables.name_of(run)}: what was executed, expected values, 95 % intervals."
    return Words(caption, ["method", *(one["label"] for one in readings)], rows)
