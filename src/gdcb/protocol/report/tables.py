"""Tables: one row a method, numbers to the right and under each other."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from gdcb.pages.numbers import (
    NONE,
    Estimate,
    anything,
    bracketed,
    common_digits,
    percent,
    plus_minus,
    probability,
    share,
)
from gdcb.protocol.report.document import ABLATIONS, Document, Method, names_in
from gdcb.protocol.report.layout import prose
from gdcb.protocol.report.words import WINDOW, second_name, threshold_number

VERDICTS = {1: "GDCB better", 0: "no clear difference", -1: "GDCB worse"}
ABLATED = {
    "A1": "no scaler",
    "A2": "no gate",
    "A3": "no history",
    "A3s": "history for the scaler only",
    "A3a": "history for the arms only",
    "A4": "flat arms",
    "A5m": "modes not seeded",
    "A5c": "covariances not seeded",
    "A5p": "P₀ not seeded",
}


def table(
    caption: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    n_words: int = 1,
    keys: Sequence[str] = (),
) -> str:
    """Return a table that scrolls by itself on a phone; the first `n_words` columns are words.

    `keys` stand in bold before the first cell of each row; B4's row is bold.
    """
    e = html.escape

    def kind(i: int) -> str:
        return ' class="stay"' if i == 0 else ' class="n"' if i >= n_words else ""

    names = "".join(f'<th scope="col"{kind(i)}>{e(name)}</th>' for i, name in enumerate(head))
    body = []
    for i, row in enumerate(rows):
        key = keys[i] if keys else ""
        mark = ' class="ours"' if key == "B4" else ""
        shown = f'<span class="key">{e(key)}</span> ' if key else ""
        name = "" if row[0] == key else e(row[0])
        first = f'<th scope="row"{kind(0)}>{shown}{name}</th>'
        rest = "".join(f"<td{kind(j)}>{prose(cell)}</td>" for j, cell in enumerate(row) if j)
        body.append(f"<tr{mark}>{first}{rest}</tr>")
    # The caption stands outside: it would scroll away with the table.
    return (
        f'<p class="caption">{prose(caption)}</p>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{e(caption)}"><table>'
        f"<thead><tr>{names}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def _column(
    values: Sequence[Estimate | None], digits: int | None = None, *, is_bracketed: bool = False
) -> list[str]:
    shown = common_digits(values) if digits is None else digits
    write = bracketed if is_bracketed else plus_minus
    return [write(value, shown) for value in values]


def _rows(methods: Sequence[Method], *columns: Sequence[str]) -> list[list[str]]:
    return [[m.label, *cells] for m, *cells in zip(methods, *columns, strict=True)]


def by_regret(methods: Sequence[Method]) -> list[Method]:
    """Return the methods that have a regret, least first."""
    found = [(m.regret.mean, m.key, m) for m in methods if m.regret is not None]
    return [m for *_, m in sorted(found, key=lambda item: item[:2])]


def all_methods(run: Document) -> str:
    """Return regret, excess and reward of every method."""
    methods = by_regret(run.distinct)
    rows = _rows(
        methods,
        _column([m.regret for m in methods]),
        _column([m.excess for m in methods]),
        _column([m.reward for m in methods]),
    )
    head = ["method", "regret", "above the floor", "reward"]
    caption = f"All methods after {run.episodes:,} episodes, in {run.unit}; least regret first."
    return table(caption, head, rows, keys=[m.key for m in methods])


def readings(run: Document) -> str:
    """Return what people of the field read, of what every method's decisions executed."""
    methods = [m for m in by_regret(run.distinct) if m.measures]
    columns = []
    for one in run.readings:
        values = [m.measures.get(one.name) for m in methods]
        columns.append([percent(v) for v in values] if one.is_share else _column(values))
    caption = (
        "Expected values of what was executed, means over episodes with 95 % intervals over "
        "replicates; least regret first."
    )
    head = ["method", *(one.label for one in run.readings)]
    return table(caption, head, _rows(methods, *columns), keys=[m.key for m in methods])


def versus(run: Document) -> str:
    """Return the paired difference of each rival to GDCB that starts alike, with its interval."""
    pairs = {m.key: (value, "B4") for m, value in run.faced(is_warm=True)}
    pairs |= {m.key: (value, "A3") for m, value in run.faced(is_warm=False)}
    shown = [m for m in by_regret(run.rivals) if m.key in pairs]
    differences = [pairs[m.key][0] for m in shown]
    rows = _rows(
        shown,
        ["yes" if m.is_warm else "no" for m in shown],
        [pairs[m.key][1] for m in shown],
        _column([m.regret for m in shown]),
        _column(differences, is_bracketed=True),
        [probability(v.p) for v in differences],
        [VERDICTS[v.sign] if v.low is not None else NONE for v in differences],
    )
    head = ["rival", "history", "against", "regret", "regret − GDCB's", "p", "verdict"]
    caption = (
        "Paired differences over the same worlds. Each rival is set against GDCB with the same "
        "start: B4 with the history, A3 without. Intervals and p are corrected by Holm's method."
    )
    return table(caption, head, rows, keys=[m.key for m in shown])


def parts(run: Document, *, is_paper: bool) -> str:
    """Return the three parts of every method, in the main split or in the paper's."""
    methods = [
        m for m in by_regret(run.distinct) if (m.parts_paper if is_paper else m.parts) is not None
    ]
    splits = [(m.parts_paper if is_paper else m.parts) or {} for m in methods]
    digits = common_digits([part for split in splits for part in split.values()])
    names = names_in(splits[0] if splits else {})
    columns = [_column([split.get(name) for split in splits], digits) for name in names]
    order = "the paper's order" if is_paper else "the main split"
    caption = f"Regret by part, {order}. A negative gate part is what the gate saved."
    rows = _rows(methods, *columns)
    return table(caption, ["method", *names], rows, keys=[m.key for m in methods])


def ablations(run: Document) -> str:
    """Return what each part is worth: the regret without it."""
    found = [("B4", run.ours), *((key, run.ablation(key)) for key in ABLATIONS)]
    methods = [(key, m) for key, m in found if m is not None and m.regret is not None]
    regrets = _column([m.regret for _, m in methods])
    excesses = _column([m.excess for _, m in methods])
    differences = _column([m.versus for _, m in methods], is_bracketed=True)
    rows = []
    for i, (key, _) in enumerate(methods):
        other = second_name(key, run)
        word = ABLATED.get(key, "everything")
        label = f"{word} (= {other})" if other else word
        rows.append([label, regrets[i], excesses[i], differences[i]])
    head = ["GDCB with", "regret", "above the floor", "regret − GDCB's"]
    caption = (
        "Ablations: GDCB with one part taken away. Differences are paired; their intervals are "
        "corrected by Holm's method."
    )
    return table(caption, head, rows, keys=[key for key, _ in methods])


def thresholds(run: Document) -> str:
    """Return episodes until a method is as good as the incumbent."""
    methods = [m for m in run.distinct if m.threshold is not None]
    rows, order = [], []
    for m in methods:
        found = m.threshold
        if found is None:
            continue
        ends = [threshold_number(end, run) for end in (found.low, found.high)]
        is_open = found.low is None and found.high is None
        interval = f"[{ends[0]}, {ends[1]}]" if not is_open else NONE
        # Censored replicates are counted up to the last window only.
        least = "≥ " if found.censored and found.booked else ""
        order.append((found.median if found.median is not None else float("inf"), m.key))
        rows.append(
            [
                m.label,
                threshold_number(found.median, run),
                "not reached" if is_open and found.censored else interval,
                share(found.censored),
                f"{least}{plus_minus(found.booked)}",
            ]
        )
    ranked = sorted(range(len(rows)), key=lambda i: order[i])
    head = ["method", "median", "95 % interval", "censored", "booked by then"]
    last = run.episodes - WINDOW + 1
    seen = (
        f"by episode {last:,}, the last from which {WINDOW} are left"
        if last > 0
        else "in so short a run"
    )
    caption = (
        f"The first episode from which {WINDOW} in a row are on average worth at least the "
        f"incumbent's, who always works behind the gate. Censored: not reached {seen}."
    )
    keys = [methods[i].key for i in ranked]
    return table(caption, head, [rows[i] for i in ranked], keys=keys)


def settings(run: Document) -> str:
    """Return the settings of every method, tuned or not."""
    families: list[list[Method]] = []
    for method in (m for m in run.distinct if m.tuned):
        same = next((one for one in families if one[0].tuned == method.tuned), None)
        if same is None:
            families.append([method])
        else:
            same.append(method)
    rows = [["", *_assignments(one[0].tuned)] for one in families]
    caption = (
        "Untuned settings: wide priors, the same for all rivals. Learners that are not here are "
        "as the file declares them, or start from even odds."
        if run.is_model
        else "Tuned settings, found for every method by the same procedure on other seeds. Judged: "
        "the regret above the floor they had there; tried: how many settings were compared."
    )
    keys = [", ".join(m.key for m in one) for one in families]
    return table(caption, ["methods", "settings"], rows, n_words=2, keys=keys)


def _assignments(tuned: dict[str, Any]) -> list[str]:
    return ["; ".join(f"{name} = {anything(value)}" for name, value in tuned.items())]
