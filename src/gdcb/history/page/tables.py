"""Tables of a certificate: arms, tests, rejected rows."""

from __future__ import annotations

import html
from collections.abc import Sequence

from gdcb.history.page.document import Arm, Document, Rejected
from gdcb.history.page.drawing import bias_bar, reach_of
from gdcb.history.sentences import SHORT, chance, short
from gdcb.pages.numbers import NONE, bracketed, common_digits, decimals, fixed
from gdcb.pages.words import capital, prose, some

Cell = tuple[str, str]  # class and HTML


def table(label: str, head: Sequence[Cell], rows: Sequence[tuple[str, Sequence[Cell]]]) -> str:
    """Return a table that scrolls by itself on a phone; the first cell of a row is its header."""
    names = "".join(f'<th scope="col"{_kind(kind)}>{cell}</th>' for kind, cell in head)
    body = []
    for mark, cells in rows:
        (kind, name), *rest = cells
        first = f'<th scope="row"{_kind(kind)}>{name}</th>'
        others = "".join(f"<td{_kind(kind)}>{cell}</td>" for kind, cell in rest)
        body.append(f"<tr{_kind(mark)}>{first}{others}</tr>")
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{html.escape(label)}"><table>'
        f"<thead><tr>{names}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def _kind(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def arms(run: Document) -> str:
    """Return one row an arm: the verdict, its figures, and why."""
    if not run.arms:
        return "<p>The certificate names no arm.</p>"
    biases = [arm.bias for arm in run.arms]
    reach, digits = reach_of(biases, run.margin), common_digits(biases)
    errors = [arm.standard_error for arm in run.arms]
    sizes = [error for error in errors if error is not None and error > 0]
    places = decimals(min(sizes)) if sizes else 0
    rows = []
    for arm in run.arms:
        drawn = "" if arm.bias is None else bias_bar(arm.bias, run.margin, reach)
        error = NONE if arm.standard_error is None else fixed(arm.standard_error, places)
        cells = [
            ("stay name", html.escape(arm.name) or "unnamed"),
            ("", SHORT[arm.verdict]),
            ("n", whole(arm.rows)),
            ("n", whole(arm.ess)),
            ("bias", f"{drawn}{prose(bracketed(arm.bias, digits))}"),
            ("n", error),
            ("n", _counted(arm)),
            ("why", prose(_why(arm))),
        ]
        rows.append((f"is-{arm.verdict}", cells))
    head = [
        ("stay", "arm"),
        ("", "verdict"),
        ("n", "rows"),
        ("n", "effective sample size"),
        ("", "bias [interval]"),
        ("n", "standard error"),
        ("n", "counts as (n_eff)"),
        ("", "why"),
    ]
    return table("Arms", head, rows)


def legend(run: Document) -> str:
    """Return what the bars show."""
    if run.margin is None or not any(arm.bias for arm in run.arms):
        return ""
    unit = f" {run.unit}" if run.unit else ""
    words = (
        f"Grey band: the margin, ±{short(run.margin)}{unit}. Line: the interval of the bias. "
        "Round mark: within the margin; square: beyond it; arrow: off the scale. One scale for all."
    )
    return f'<p class="legend">{prose(words)}</p>'


def _why(arm: Arm) -> str:
    """Return an arm's reasons; its name, which stands in the same row, is left out of them."""
    named = f"Arm “{arm.name}”"
    said = []
    for reason in arm.reasons:
        rest = reason.removeprefix(named)
        said.append(reason if rest == reason else capital(rest.lstrip(": ")))
    return " ".join(said)


def _counted(arm: Arm) -> str:
    if arm.n_eff is None or arm.weight is None:
        return whole(arm.n_eff)
    return f"{whole(arm.n_eff)} (× {fixed(arm.weight, 2)})"


def whole(value: float | None) -> str:
    """Write a count, thousands apart."""
    return NONE if value is None else fixed(value, 0)


def tests(run: Document) -> str:
    """Return one row a test: p, threshold, what it found."""
    found = {True: "found", False: "nothing found", None: "not made"}
    rows = []
    for one in run.tests:
        p = NONE if one.p is None else chance(one.p).removeprefix("p ").removeprefix("= ")
        limit = NONE if one.threshold is None else short(one.threshold)
        cells = [
            ("stay name", html.escape(one.name)),
            ("n", prose(p)),
            ("n", prose(limit)),
            ("found" if one.is_significant else "", found[one.is_significant]),
            ("why", prose(one.says)),
        ]
        rows.append(("", cells))
    head = [("stay", "test"), ("n", "p"), ("n", "threshold"), ("", "result"), ("", "what it says")]
    return table("Tests", head, rows)


def rejected(one: Rejected) -> str:
    """Return one reason for which rows were rejected, with examples."""
    column = f"column “{one.column}”" if one.column else ""
    counted = "" if one.rows is None else some(one.rows, "row")
    start = ", ".join(part for part in (counted, column) if part)
    example = f" (for example {'; '.join(one.examples[:2])})" if one.examples else ""
    return f"{capital(f'{start}: ' if start else '')}{one.reason}{example}."
