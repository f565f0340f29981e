"""Part three of the report: results, section by section."""

from __future__ import annotations

import html
from collections.abc import Sequence

from gdcb.pages.marks import ticks
from gdcb.pages.numbers import Estimate, bracketed, plus_minus
from gdcb.protocol.report import overrides, places, standing, tables, words
from gdcb.protocol.report.bars import Row, forest, stack_legend, stacks
from gdcb.protocol.report.document import INHERITED, Document, Method, names_in
from gdcb.protocol.report.drawing import Series, extent
from gdcb.protocol.report.figures import Figures, at_the_end, curves, thumbnail
from gdcb.protocol.report.layout import MISSING, folded, has_points, key_methods, paragraph
from gdcb.protocol.report.learning import actions, cold_start, loops
from gdcb.protocol.report.style import FLOOR, PART_PENS, RIVALS

FAR = 4.0  # times the second lowest line, from which one is told and not drawn


def results(run: Document, figures: Figures) -> str:
    """Return the whole part."""
    sections = [
        ("Cumulative regret", regret(run, figures)),
        ("GDCB against every rival", rivals(run, figures)),
        ("What the regret is made of", composition(run, figures)),
        *([("What the field reads", tables.readings(run))] if run.readings else []),
        ("Calibration and overrides", loops(run, figures)),
        (places.TITLE, overrides.section(run, figures)),
        ("Recommended against executed", actions(run, figures)),
        ("Cold start", cold_start(run, figures)),
        ("Ablations", ablations(run)),
        ("Episodes to threshold", thresholds(run)),
    ]
    ids = {places.TITLE: f' id="{places.ANCHOR}"'}
    return "".join(
        f"<h3{ids.get(title, '')}>{html.escape(title)}</h3>{body}" for title, body in sections
    )


def regret(run: Document, figures: Figures) -> str:
    """Regret of the key methods over time, total and above the floor; then the others, small."""
    key = key_methods(run)
    lines = [Series(m.key, m.label, pen, m.regret_curve) for m, pen in key]
    lines.append(Series("floor", "gate floor", FLOOR, run.floor_curve))
    lines = [line for line in lines if has_points(line.curve)]
    above = [Series(m.key, m.label, pen, m.excess_curve) for m, pen in key]
    above, far = _near([line for line in above if has_points(line.curve)])
    found = []
    band = "" if run.replicates == 1 else " Bands: 95 % intervals of the mean over replicates."
    floor = "; the gate floor is what even the best proposal would lose behind the same gate"
    saved = "What a method could still have saved behind this gate: its regret less the floor."
    if run.oracle_knows:
        floor, saved = f". {run.oracle_knows.removesuffix('.')}", run.oracle_knows
    if far:
        saved += (
            f" Beyond the figure: {'; '.join(f'{line.name} ends at {at}' for line, at in far)}."
        )
    if lines:
        found.append(
            figures.figure(
                "Cumulative regret",
                at_the_end(lines),
                curves(lines, f"regret, {run.unit}"),
                "Against the best ungated action, so that every line rises"
                f"{floor if has_points(run.floor_curve) else ''}.{band} Of a "
                "rival's forms only the best is drawn.",
                legend=lines,
            )
        )
    if above:
        found.append(
            figures.figure(
                "Regret above the gate floor",
                at_the_end(above),
                curves(above, f"above the floor, {run.unit}"),
                saved,
                legend=above,
            )
        )
    shown = {m.key for m, _ in key}
    rest = [m for m in tables.by_regret(run.distinct) if m.key not in shown]
    found.append(others(run, figures, rest))
    found.append(folded("Table of all methods", tables.all_methods(run)))
    return "".join(found) if lines or above else MISSING


def _near(lines: list[Series]) -> tuple[list[Series], list[tuple[Series, str]]]:
    """Return the lines that fit on one scale, and the others with where they end.

    A line that ends at more than `FAR` times the second lowest would press the rest to the ground.
    """
    ends = {line.name: [point for point in line.curve if point is not None][-1] for line in lines}
    means = sorted(end.mean for end in ends.values())
    if len(lines) < 3 or means[1] <= 0:
        return lines, []
    is_far = {name: end.mean > FAR * means[1] for name, end in ends.items()}
    beyond = [(line, plus_minus(ends[line.name])) for line in lines if is_far[line.name]]
    return [line for line in lines if not is_far[line.name]], beyond


def others(run: Document, figures: Figures, methods: Sequence[Method]) -> str:
    """Return the remaining methods as small figures on one scale, GDCB dotted in each."""
    drawn = [m for m in methods if has_points(m.regret_curve)]
    if not drawn:
        return ""
    reference = run.ours.regret_curve if run.ours else []
    high = ticks(0.0, max(extent([m.regret_curve for m in drawn])[1], 1e-9))[-1]
    grid = "".join(
        figures.thumbnail(
            f"Cumulative regret of {m.key}",
            f"At the last episode {plus_minus(m.regret)}.",
            m.key if m.label == m.key else f"{m.key} {m.label}",
            thumbnail(m.regret_curve, reference, high, RIVALS[0]),
        )
        for m in drawn
    )
    dotted = " Dotted: GDCB." if reference else ""
    head = paragraph(f"The other methods, all on one scale.{dotted}")
    return f'{head}<div class="many">{grid}</div>'


def rivals(run: Document, figures: Figures) -> str:
    """Return the paired differences, as a figure and as a table, and where GDCB loses in words."""
    if run.ours is None:
        return paragraph(*standing.losses(run))
    variants = [m for m in run.distinct if _is_variant(m)]
    ungated = [m for m in run.distinct if m.is_ungated]
    groups = [
        ("Rivals with the history, less B4", run.faced(is_warm=True)),
        *_cold(run),
        ("GDCB's own variants, less B4", _less(variants)),
        ("Ungated as in the paper, less B4", _less(ungated)),
    ]
    rows: list[tuple[Row, Estimate]] = []
    for title, pairs in groups:
        ranked = sorted(pairs, key=lambda pair: (pair[1].mean, pair[0].key))
        for i, (m, value) in enumerate(ranked):
            rows.append((Row(m.key, m.label, heading="" if i else title), value))
    if not rows:
        return paragraph(*standing.losses(run)) or MISSING
    text = "; ".join(f"{row.key} {bracketed(value)}" for row, value in rows)
    return "".join(
        [
            paragraph(*standing.losses(run)),
            figures.figure(
                "Regret less GDCB's, paired",
                f"Above zero GDCB is better. {text}.",
                forest(rows, f"difference in regret, {run.unit}"),
                "Intervals corrected by Holm's method over all methods. Square: GDCB better; "
                "triangle: GDCB worse; ring: no clear difference; arrow: beyond the figure.",
            ),
            folded("Table of rivals", tables.versus(run)) if run.rivals else "",
        ]
    )


def _less(methods: Sequence[Method]) -> list[tuple[Method, Estimate]]:
    return [(m, m.versus) for m in methods if m.versus is not None]


def _cold(run: Document) -> list[tuple[str, list[tuple[Method, Estimate]]]]:
    """Return rivals without history against A3, or against B4 where that was not run."""
    if "A3" in run.methods:
        return [("Rivals without history, less A3", run.faced(is_warm=False))]
    cold = [m for m in run.rivals if not m.is_warm]
    return [("Rivals without history, less B4, which has it", _less(cold))]


def _is_variant(method: Method) -> bool:
    is_own = method.key.startswith(("B4", "A")) and method.key != "B4"
    return is_own and not method.is_ungated


def composition(run: Document, figures: Figures) -> str:
    """Return the three parts: stacks of all methods, GDCB over time, both splits, and advice."""
    shown = [m for m in tables.by_regret(run.distinct) if m.parts is not None and not m.is_ungated]
    if not shown:
        return MISSING
    rows = [(Row(m.key, m.label, m.key == "B4"), m.parts) for m in shown]
    found = [paragraph(words.made_of(run)[0])]
    found.append(
        figures.figure(
            f"{'Four' if _inherited(run) else 'Three'} parts of the regret, signed",
            "; ".join(
                f"{m.key}: " + ", ".join(f"{n} {plus_minus(p)}" for n, p in m.parts.items())
                for m in shown
                if m.parts
            ),
            stacks(
                [(row, split) for row, split in rows if split],
                run.floor.mean if run.floor else None,
                f"regret, {run.unit}",
            ),
            "Calibration: what no arm could have reached under the fitted scaler. Bandit: what "
            "another arm would have been worth behind the gate. Gate: the rest; left of zero it is "
            "what the gate saved. It may be less than the floor, which is counted from the best "
            "action of all and not from what this scaler's arms could reach." + _inherited(run),
            keys=stack_legend(names_in(shown[0].parts or {})),
        )
    )
    found.append(f'<div class="pair">{_over_time(run, figures)}{_two_splits(run, figures)}</div>')
    tabled = tables.parts(run, is_paper=False)
    if any(m.parts_paper for m in run.distinct):
        tabled += tables.parts(run, is_paper=True)
    found.append(folded("Tables of the parts", tabled))
    return "".join(found)


def _inherited(run: Document) -> str:
    """Say what is inherited, where anything is."""
    if run.ours is None or INHERITED not in (run.ours.parts or {}):
        return ""
    return (
        " Inherited: what no action could regain, because of what ran before; regret is counted "
        "from a trajectory of optimal actions."
    )


def _over_time(run: Document, figures: Figures) -> str:
    if run.ours is None or run.ours.parts_curve is None:
        return ""
    lines = [
        Series(n, "", PART_PENS[n], run.ours.parts_curve[n]) for n in names_in(run.ours.parts_curve)
    ]
    return figures.figure(
        "GDCB's parts over time",
        at_the_end(lines),
        curves(lines, f"cumulative, {run.unit}"),
        "Main split, cumulative.",
        is_small=True,
    )


def _two_splits(run: Document, figures: Figures) -> str:
    ours = run.ours
    if ours is None or ours.parts is None or ours.parts_paper is None:
        return ""
    rows = [(Row("main", "main"), ours.parts), (Row("paper's", "paper's"), ours.parts_paper)]
    text = "; ".join(
        f"{row.key}: " + ", ".join(f"{n} {plus_minus(part)}" for n, part in split.items())
        for row, split in rows
    )
    return figures.figure(
        "GDCB's regret in both splits",
        text,
        stacks(rows, None, f"regret, {run.unit}"),
        "The paper's order blames both loops for errors that cancel; the totals are the same.",
        keys=stack_legend(),
        is_small=True,
    )


def ablations(run: Document) -> str:
    """Return the table of ablations, with a sentence."""
    is_run = any(run.ablation(key) for key in tables.ABLATED)
    return paragraph(words.ablated(run)) + tables.ablations(run) if is_run else MISSING


def thresholds(run: Document) -> str:
    """Return the table of episodes to threshold."""
    has_any = any(m.threshold is not None for m in run.methods.values())
    return tables.thresholds(run) if has_any else MISSING
