"""How both loops learn: calibration, overrides, actions, and what the history was worth."""

from __future__ import annotations

from gdcb.pages.numbers import NONE, percent
from gdcb.protocol.report import tables, words
from gdcb.protocol.report.bars import histogram, histogram_legend
from gdcb.protocol.report.document import Document, Method
from gdcb.protocol.report.drawing import Series, smoothed
from gdcb.protocol.report.figures import Figures, at_the_end, curves
from gdcb.protocol.report.layout import MISSING, has_points, key_methods, paragraph
from gdcb.protocol.report.style import COLD, OURS, RIVALS, THIRD


def loops(run: Document, figures: Figures) -> str:
    """Return calibration error and override rate over time."""
    pens = {"B4": OURS, "A3": COLD, "A3a": RIVALS[0], "B4ope": THIRD}
    scaled = [(run.methods[key], pen) for key, pen in pens.items() if key in run.methods]
    errors = [Series(m.key, m.label, pen, m.error_curve) for m, pen in scaled]
    errors = [line for line in errors if has_points(line.curve)]
    rates, window = [], 1
    for m, pen in key_methods(run):
        if has_points(m.override_curve):
            moving, window = smoothed(m.override_curve, 100.0)
            rates.append(Series(m.key, m.label, pen, moving))
    found = []
    if errors:
        found.append(
            figures.figure(
                "Calibration error of the scaler",
                at_the_end(errors),
                curves(errors, "‖δ̂ − δ°‖"),
                "Distance to the best scaler of the family, over the reference contexts.",
                legend=errors,
                is_small=True,
            )
        )
    if rates:
        over = f"Moving means over {window} episodes." if window > 1 else ""
        found.append(
            figures.figure(
                "Override rate",
                at_the_end(rates),
                curves(rates, "executed ≠ recommended", " %"),
                f"Share of decisions that the gate changed. {over}".strip(),
                legend=rates,
                is_small=True,
            )
        )
    return f'<div class="pair">{"".join(found)}</div>' if found else MISSING


def actions(run: Document, figures: Figures) -> str:
    """Return what was proposed against what ran: GDCB, and the best rival beside it."""
    found = []
    for m in (run.ours, run.best()):
        if m is None or m.actions is None:
            continue
        recommended, executed = (_middle(m, is_executed=flag) for flag in (False, True))
        found.append(
            figures.figure(
                f"Actions of {m.key}",
                f"Mean recommended {recommended:.2f}, mean executed {executed:.2f}.",
                histogram(m.actions, run.action),
                f"{m.label}: on average {recommended:.2f} recommended, {executed:.2f} executed.",
                keys=histogram_legend(),
                is_small=True,
            )
        )
    return f'<div class="pair">{"".join(found)}</div>' if found else MISSING


def _middle(method: Method, *, is_executed: bool) -> float:
    """Return the mean action, every bin taken at its middle."""
    assert method.actions is not None
    a = method.actions
    shares = a.executed if is_executed else a.recommended
    middles = [(low + high) / 2 for low, high in zip(a.edges[:-1], a.edges[1:], strict=True)]
    whole = sum(shares) or 1.0
    return sum(s * m for s, m in zip(shares, middles, strict=True)) / whole


def cold_start(run: Document, figures: Figures) -> str:
    """Return what the history was worth: curves, paired difference, saving, compression."""
    start = run.cold_start
    if start is None or not start.is_compared:
        return _certificates(run) or MISSING
    lines = [
        Series("warm", "GDCB with history", OURS, start.warm),
        Series("cold", "GDCB without", COLD, start.cold),
        Series("weighted", "importance-weighted history", THIRD, start.ope),
    ]
    lines = [line for line in lines if has_points(line.curve)]
    found = [paragraph(words.history(run))]
    pair = []
    if lines:
        pair.append(
            figures.figure(
                "Cold start",
                at_the_end(lines),
                curves(lines, f"regret, {run.unit}"),
                "Cumulative regret by how GDCB started.",
                legend=lines,
                is_small=True,
            )
        )
    if has_points(start.difference):
        line = Series("", "warm − cold", OURS, start.difference)
        pair.append(
            figures.figure(
                "Warm less cold, paired",
                at_the_end([Series("warm less cold", "", OURS, start.difference)]),
                curves([line], f"difference, {run.unit}"),
                "Below zero the history helps."
                f"{'' if run.replicates == 1 else ' Band: 95 % interval, episode by episode.'}",
                is_small=True,
            )
        )
    found.append(f'<div class="pair">{"".join(pair)}</div>' if pair else "")
    found.append(_cold_numbers(run))
    found.append(_certificates(run))
    return "".join(found)


def _certificates(run: Document) -> str:
    """Return what the certificates of the histories decided, arm by arm; nothing without any."""
    if run.certificates is None:
        return ""
    method, found = run.certificates
    rows = [[name, *(f"{n:,}" for n in counts)] for name, *counts in found.arms]
    caption = f"What the certificates let {method.key} use: histories by verdict, arm by arm."
    head = ["arm", "as is", "adjusted", "weighted", "refused"]
    return paragraph(found.sentence) + tables.table(caption, head, rows)


def _cold_numbers(run: Document) -> str:
    start = run.cold_start
    assert start is not None
    is_str = run.instance == "str"
    early = (
        "" if start.saving_total else f" (the run has {run.episodes})" if run.episodes < 50 else ""
    )
    rows = [
        [f"saving at episode 50, total{early}", percent(start.saving_total)],
        [f"saving at episode 50, above the floor{early}", percent(start.saving_excess)],
        ["cold-start compression", words.compression(run)],
    ]
    papers = [words.PAPER_SAVING, NONE, words.PAPER_COMPRESSION]
    if is_str:
        rows.append(["booked episodes to threshold, cold → warm", words.booked(run)])
        papers.append(words.PAPER_BOOKED)
    if is_str:
        rows = [[*row, paper] for row, paper in zip(rows, papers, strict=True)]
    head = ["", "measured", *(["the paper"] if is_str else [])]
    sentence = start.compression.sentence if start.compression else ""
    return tables.table("What the history saved.", head, rows) + paragraph(sentence)
