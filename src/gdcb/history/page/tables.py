"""Tables of a certificate: arms, tests, rejected rows."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from gdcb.gates import UNGATED
from gdcb.history.page.document import Change, Document, Rejected
from gdcb.history.page.drawing import bias_bar, reach_of
from gdcb.history.sentences import SHORT, chance, day, finding, named, short
from gdcb.history.sentences.arms import MOVED
from gdcb.pages.numbers import (
    NONE,
    bracketed,
    common_digits,
    decimals,
    fixed,
    listed,
    probability,
    share,
)
from gdcb.pages.words import capital, prose, some

Cell = tuple[str, str]  # class and HTML


def table(
    label: str, head: Sequence[Cell], rows: Sequence[tuple[str, Sequence[Cell]]], kind: str = ""
) -> str:
    """Return a table; the first cell of a row is its header.

    On a phone it scrolls by itself, or, if of the kind 'stacked', has its cells under each other.
    """
    names = "".join(f'<th scope="col"{_kind(look)}>{cell}</th>' for look, cell in head)
    body = []
    for mark, cells in rows:
        (look, name), *rest = cells
        first = f'<th scope="row"{_kind(look)}>{name}</th>'
        others = "".join(f"<td{_kind(look)}>{cell}</td>" for look, cell in rest)
        body.append(f"<tr{_kind(mark)}>{first}{others}</tr>")
    region = f'tabindex="0" role="region" aria-label="{html.escape(label)}"'
    return (
        f'<div class="{f"scroll {kind}".rstrip()}" {region}><table>'
        f"<thead><tr>{names}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def _kind(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def arms(run: Document) -> str:
    """Return one row an arm: the verdict and its figures."""
    if not run.arms:
        return "<p>The certificate names no arm.</p>"
    biases = [arm.bias for arm in run.arms]
    reach, digits = reach_of(biases, run.limit), common_digits(biases)
    errors = [arm.standard_error for arm in run.arms]
    sizes = [error for error in errors if error is not None and error > 0]
    places = decimals(min(sizes)) if sizes else 0
    rows = []
    for arm in run.arms:
        drawn = "" if arm.bias is None else bias_bar(arm.bias, run.limit, reach)
        error = NONE if arm.standard_error is None else fixed(arm.standard_error, places)
        cells = [
            ("stay name", html.escape(arm.name) or "unnamed"),
            ("what", SHORT[arm.verdict]),
            ("n", whole(arm.rows)),
            ("n", whole(arm.ess)),
            ("bias", f"{drawn}{prose(bracketed(arm.bias, digits))}"),
            ("n", error),
            ("n", whole(arm.n_eff)),
            ("n", NONE if arm.weight is None else share(arm.weight)),
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
        ("n", "of its rows"),
    ]
    return table("Arms", head, rows)


def legend(run: Document) -> str:
    """Return what the bars show."""
    if run.margin is None or run.limit is None or not any(arm.bias for arm in run.arms):
        return ""
    size = f"±{short(run.limit)} {run.unit}".rstrip()
    if run.spread is not None:
        size += f" ({short(run.margin)} standard deviations of the outcome)"
    words = (
        f"Grey band: the margin, {size}. Line: the interval of the bias. "
        "Round mark: within the margin; square: beyond it; arrow: off the scale. One scale for all."
    )
    return f'<p class="legend">{prose(words)}</p>'


def reasons(run: Document) -> str:
    """Return why each arm has its verdict; arms of which the same is said stand together.

    Of biases the same is said where all but the figure is the same.
    """
    found: dict[str, list[str]] = {}
    moved: dict[str, list[tuple[str, str]]] = {}
    for arm in run.arms:
        said = []
        for reason in arm.reasons:
            rest = reason.removeprefix(f"Arm “{arm.name}”").lstrip(": ")
            # A name that opens its sentence stands before it already.
            said.append(reason if rest == reason else capital(rest))
        words = " ".join(said)
        start = capital(MOVED)
        figure, comma, tail = words.removeprefix(start).partition(", ")
        if words.startswith(start) and comma:
            moved.setdefault(tail, []).append((arm.name, figure))
        elif words:
            found.setdefault(words, []).append(arm.name)
    items = [_moved(tail, arms) for tail, arms in moved.items()]
    items += [
        f"<b>{html.escape(named(names))}</b>: {prose(words)}" for words, names in found.items()
    ]
    listed_items = "".join(f"<li>{item}</li>" for item in items)
    return f'<ul class="notes">{listed_items}</ul>' if items else ""


def _moved(tail: str, arms: Sequence[tuple[str, str]]) -> str:
    """Return one sentence about the biases of arms of which all else is the same."""
    if len(arms) == 1:
        ((name, figure),) = arms
        return f"<b>{html.escape(name)}</b>: {prose(f'{capital(MOVED)}{figure}, {tail}')}"
    unit = " standard deviations"
    is_common = all(figure.endswith(unit) for _, figure in arms)
    each = [
        f"of <b>{html.escape(name)}</b> by "
        f"{prose(figure.removesuffix(unit) if is_common else figure)}"
        for name, figure in arms
    ]
    return f"Contexts move the mean {listed(each)}{unit if is_common else ''}, {prose(tail)}"


def over_time(run: Document, numbers: Mapping[int, int]) -> str:
    """Return the reward law and every gate: what changed when, and η of a gate."""
    law = NONE if run.law_is_stable is None else "no change found"
    rows = [("", _line("reward law", run.law_changes, numbers, law, run.law_p, ""))]
    if run.law_changes and not run.law_is_certain:
        told = "possible changes only: they cannot be told from swings, and discard no row"
        rows.append(("", [("stay name", ""), ("", prose(told)), ("n", "")]))
    for gate in run.gates:
        eta = NONE if gate.eta is None else fixed(gate.eta, 2)
        if gate.eta_high is not None:
            eta += f" (at most {fixed(gate.eta_high, 2)})"
        none = "no change found"
        rows.append(("", _line(gate.name, gate.changes, numbers, none, None, eta)))
    if run.is_ungated:
        rows.append(
            (
                "",
                [
                    ("stay name", "gate"),
                    ("", prose(f"{UNGATED}: proposals run as they are")),
                    ("n", NONE),
                ],
            )
        )
    head = [("stay", "what"), ("", "changes"), ("n", "contraction η")]
    return table("Reward law and gates over time", head, rows)


def _line(
    name: str,
    changes: Sequence[Change],
    numbers: Mapping[int, int],
    none: str,
    p: float | None,
    eta: str,
) -> list[Cell]:
    words = [_change(change, numbers[id(change)]) for change in changes]
    without = none if p is None else f"{none} ({chance(p)})"
    return [
        ("stay name", html.escape(name) or "unnamed"),
        ("", "<br>".join(words) or prose(without)),
        ("n", prose(eta)),
    ]


def _change(change: Change, number: int) -> str:
    what = change.what
    if change.before is not None and change.after is not None:
        rates = f"pass rate {share(change.before)} → {share(change.after)}"
        what = f"{what}, {rates}" if what else rates
    p = "" if change.p is None else f" ({chance(change.p)})"
    words = f"{day(change.time)}: {what or 'changed'}{p}"
    return f"<b>{number}</b> {prose(words)}"


def figures(rows: Sequence[tuple[str, str, str]]) -> str:
    """Return further figures: what, how much, what it means."""
    head = [("stay", "what"), ("", "figure"), ("", "what it means")]
    body = [
        ("", [("stay name", prose(what)), ("figure", prose(value)), ("why", prose(words))])
        for what, value, words in rows
    ]
    return table("Further figures", head, body, "stacked")


def whole(value: float | None) -> str:
    """Write a count, thousands apart."""
    return NONE if value is None else fixed(value, 0)


def tests(run: Document) -> str:
    """Return one row a test: p, threshold, what it found."""
    found = {True: "departure found", False: "none found", None: "not made"}
    rows = []
    for one in run.tests:
        p = NONE if one.p is None else probability(one.p)
        limit = NONE if one.threshold is None else short(one.threshold)
        is_told = one.p is not None and one.threshold is not None
        again = finding(one.name, one.p or 0.0, one.threshold or 0.0) if is_told else ""
        more = f"<br>{prose(one.says)}" if one.says and one.says != again else ""
        cells = [
            ("stay name", f"{html.escape(one.name)}<span>{more}</span>"),
            ("n", prose(p)),
            ("n", prose(limit)),
            ("result found" if one.is_significant else "result", found[one.is_significant]),
        ]
        rows.append(("", cells))
    head = [("stay", "test"), ("n", "p"), ("n", "threshold"), ("", "result")]
    return table("Tests", head, rows)


def rejected(one: Rejected) -> str:
    """Return one reason for which rows were rejected, with examples."""
    column = f"column “{one.column}”" if one.column else ""
    counted = "" if one.rows is None else some(one.rows, "row")
    start = ", ".join(part for part in (counted, column) if part)
    example = f" (for example {'; '.join(one.examples[:2])})" if one.examples else ""
    return f"{capital(f'{start}: ' if start else '')}{one.reason}{example}."
