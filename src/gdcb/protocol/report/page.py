"""The page: a summary, then the paper's three parts, then how to make it again."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from gdcb.pages.numbers import anything, plus_minus
from gdcb.protocol.report import standing, tables, words
from gdcb.protocol.report.document import Document, Theorem
from gdcb.protocol.report.figures import Figures
from gdcb.protocol.report.layout import MISSING, folded, paragraph, prose
from gdcb.protocol.report.read import read
from gdcb.protocol.report.results import results
from gdcb.protocol.report.style import CSS

THEOREMS = {
    "t1": "Theorem 1, variance",
    "t2": "Theorem 2, gate equivalence",
    "t3": "Theorem 3, regret in three parts",
    "t4": "Theorem 4, lifting",
}
VARIANTS = {
    "well": "the truth lies inside the scaler's family",
    "mis": "the truth lies outside the scaler's family",
    "model": "the response is a model that was fitted on the log",
}


def report(document: Mapping[str, Any]) -> str:
    """Return the report of a run as one self-contained HTML page.

    Parameters
    ----------
    document : the document of a run, as `summary.json` holds it; what is null is left out

    Examples
    --------
    >>> page = report({"instance": "str", "episodes": 20, "replicates": 4, "methods": {}})
    >>> "GDCB (B4) was not run" in page
    True
    """
    run = read(document)
    e = html.escape
    sentences = "".join(f"<li>{prose(sentence)}</li>" for sentence in summary(run))
    facts = [f"variant {run.variant}" if run.variant else "", f"{run.replicates:,} replicates"]
    facts += [f"{run.episodes:,} episodes", f"seed {run.seed}" if run.seed else ""]
    figures = Figures()
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>gdcb: {e(run.title)}</title><style>{CSS}</style></head><body>
<header><h1>{e(run.title)}</h1>
<p class="facts">{e(", ".join(fact for fact in facts if fact))}</p>{_modelled(run)}</header>
<section class="summary" aria-label="Summary"><ul>{sentences}</ul></section>
<nav aria-label="Parts"><a href="#specification">Specification</a>
<a href="#theorems">Theorems</a> <a href="#results">Results</a>
<a href="#again">Reproduction</a></nav>
<main><section id="specification"><h2>1. Specification</h2>{specification(run)}</section>
<section id="theorems"><h2>2. Theorem specialisation</h2>{_modelled(run)}{theorems(run)}</section>
<section id="results"><h2>3. Results</h2>{_modelled(run)}{results(run, figures)}</section>
<section id="again"><h2>Reproduction</h2>{again(run)}</section></main>
</body></html>
"""


def _modelled(run: Document) -> str:
    """Say above every part of the page that the response is a model, where it is one."""
    return f'<p class="modelled"><b>{prose(words.MODELLED)}</b></p>' if run.is_model else ""


def summary(run: Document) -> list[str]:
    """Return the three to six sentences at the top of the page."""
    found = [words.opening(run), words.NO_GATE if run.is_ungated else ""]
    found += [standing.against(run), words.history(run)]
    found += [words.made_of(run)[0], words.reach(run)]
    return [sentence for sentence in found if sentence]


def specification(run: Document) -> str:
    """Return the tuple, what is real and what is made, options and tuned settings."""
    found = []
    rows = [[word, value] for _, word, value in run.specification]
    if rows:
        symbols = [symbol for symbol, *_ in run.specification]
        caption = "The tuple of the instance, filled in."
        found.append(tables.table(caption, ["", "here"], rows, n_words=2, keys=symbols))
    if run.variant:
        meaning = VARIANTS.get(run.variant)
        found.append(paragraph(f"Variant {run.variant}{': ' + meaning if meaning else ''}."))
    for title, lines in (("What is real", run.real), ("What is made", run.made)):
        if lines:
            items = "".join(f"<li>{prose(line)}</li>" for line in lines)
            found.append(f"<h3>{title}</h3><ul>{items}</ul>")
    if run.options:
        options = [[name, anything(value)] for name, value in run.options.items()]
        found.append(tables.table("Options of the run.", ["option", "value"], options, n_words=2))
    if any(method.tuned for method in run.methods.values()):
        title = (
            "Settings of the rivals, untuned" if run.is_model else "Tuned settings of every method"
        )
        found.append(folded(title, tables.settings(run)))
    return "".join(found) or MISSING


def theorems(run: Document) -> str:
    """Return what each theorem says of this instance, with what was measured."""
    if run.variance_ratio is None and not any(run.theorems.values()):
        return MISSING
    found = []
    if run.variance_ratio is not None:
        found.append(paragraph(f"Variance ratio of Theorem 1: {plus_minus(run.variance_ratio)}."))
    for key in [*THEOREMS, *(key for key in run.theorems if key not in THEOREMS)]:
        theorem = run.theorems.get(key)
        body = MISSING if theorem is None else _theorem(theorem)
        found.append(f"<h3>{html.escape(THEOREMS.get(key, key))}</h3>{body}")
    return "".join(found)


def _theorem(theorem: Theorem) -> str:
    body = paragraph(theorem.statement)
    if theorem.figures:
        rows = [[name, anything(value), note] for name, value, note in theorem.figures]
        body += tables.table("Measured here.", ["quantity", "value", "note"], rows, n_words=3)
    return body + (f"<p><b>{prose(theorem.verdict)}</b></p>" if theorem.verdict else "")


def again(run: Document) -> str:
    """Return all that is needed to make the page again."""
    rows = [
        ["command", run.command or "not recorded"],
        ["version", f"gdcb {run.version}" if run.version else "not recorded"],
        ["seed", run.seed or "not recorded"],
        ["replicates", f"{run.replicates:,}"],
        ["episodes", f"{run.episodes:,}"],
    ]
    body = "".join(
        f'<tr><th scope="row">{name}</th><td><code>{html.escape(value)}</code></td></tr>'
        for name, value in rows
    )
    worlds = "a draw of a model of the log" if run.is_model else "simulated"
    note = (
        f"Every world on this page is {worlds}. All methods meet the same worlds, contexts and "
        "random numbers, so that differences are paired."
    )
    return f"{paragraph(note)}<table><tbody>{body}</tbody></table>"
