"""Figures of rows: signed stacks of regret, paired differences; and of bins: actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gdcb.pages.marks import Frame, margin, marker, rule, text, tick_labels, ticks, x_axis, y_axis
from gdcb.pages.numbers import Estimate, bracketed, common_digits, fixed
from gdcb.protocol.report.document import PARTS, Actions, Split, names_in
from gdcb.protocol.report.drawing import bar
from gdcb.protocol.report.figures import NARROW, Draw

ROW = 24.0


@dataclass(frozen=True, slots=True)
class Row:
    """A labelled row: `key` where there is little room, key and label where there is more."""

    key: str
    label: str
    is_ours: bool = False
    heading: str = ""

    def shown(self, width: float) -> str:
        """Return what fits on a row of a figure this wide."""
        if width <= NARROW:
            return self.key
        words = f"{self.key}  {self.label}" if self.label != self.key else self.key
        return words if len(words) <= 40 else f"{words[:39]}…"


def segments(split: Split) -> list[tuple[str, float, float]]:
    """Return (part, from, to) of a signed stack: gains lie left of zero, losses right of it.

    Examples
    --------
    >>> gate = {"calibration": Estimate(3.0), "bandit": Estimate(1.0), "gate": Estimate(-2.0)}
    >>> segments(gate)
    [('calibration', 0.0, 3.0), ('bandit', 3.0, 4.0), ('gate', -2.0, 0.0)]
    """
    found, right, left = [], 0.0, 0.0
    for name in names_in(split):
        value = split[name].mean
        if value >= 0:
            found.append((name, right, right + value))
            right += value
        else:
            found.append((name, left + value, left))
            left += value
    return found


def stacks(rows: Sequence[tuple[Row, Split]], floor: float | None, title: str) -> Draw:
    """Draw one signed stack a row, a diamond at the total, and a dotted line at the gate floor."""
    parts = [segments(split) for _, split in rows]
    totals = [sum(part.mean for part in split.values()) for _, split in rows]
    ends = [end for stack in parts for _, *pair in stack for end in pair]
    values = ticks(min([0.0, *ends]), max([0.0, floor or 0.0, *ends]))
    digits = common_digits([Estimate(total) for total in totals])
    numbers = [fixed(total, digits) for total in totals]

    def draw(width: float) -> tuple[float, str]:
        height = 30 + ROW * len(rows) + 38
        left = 1.06 * margin([row.shown(width) for row, _ in rows])
        frame = Frame(
            width, height, left, margin(numbers), 30.0, 38.0, values[0], values[-1], 0.0, 1.0
        )
        base = height - frame.bottom
        marks = [_columns(frame, values), x_axis(frame, _fewer(values, frame), title)]
        marks.append(text(width, 13, "total", "end", "soft"))
        if floor is not None:
            x = frame.x(floor)
            dots = ' stroke-dasharray="1 4" stroke-width="2.2"'
            marks += [
                f'<g class="c-floor">{rule(x, 18, x, base, "line", dots)}</g>',
                text(x, 13, "floor", "middle", "soft"),
            ]
        for i, ((row, _), stack, total) in enumerate(zip(rows, parts, totals, strict=True)):
            middle = frame.top + ROW * (i + 0.5)
            kind = "bold" if row.is_ours else ""
            marks.append(text(frame.left - 8, middle + 4, row.shown(width), "end", kind))
            for name, start, end in stack:
                x = frame.x(start)
                marks.append(bar(name, x, middle - 7, max(frame.x(end) - x, 0), 14))
            at, place = f"{frame.x(total):.1f},{middle:.1f}", width
            marks.append(f'<path class="total" d="M{at}m0,-5l5,5l-5,5l-5,-5z"/>')
            marks.append(text(place, middle + 4, numbers[i], "end", kind))
        return height, "".join([*marks, _zero(frame)])

    return draw


def _columns(frame: Frame, values: Sequence[float]) -> str:
    base = frame.height - frame.bottom
    return "".join(rule(frame.x(v), frame.top - 6, frame.x(v), base, "grid") for v in values)


def _zero(frame: Frame) -> str:
    x = frame.x(0.0)
    return rule(x, frame.top - 6, x, frame.height - frame.bottom, "axis")


def _fewer(values: Sequence[float], frame: Frame) -> Sequence[float]:
    """Return every other tick where there is no room for the numbers of all."""
    room = (frame.x(values[-1]) - frame.x(values[0])) / max(len(values) - 1, 1)
    if room >= 7.5 * max(len(label) for label in tick_labels(values)):
        return values
    return [v for v in values if round(v / (values[1] - values[0])) % 2 == 0]


def stack_legend(names: Sequence[str] = PARTS) -> str:
    """Return the legend of the stacks: patterns as well as colours."""
    items = "".join(sample(name, name) for name in names)
    total = '<path class="total" d="M19,6m0,-5l5,5l-5,5l-5,-5z"/>'
    return (
        f'{items}<li><svg viewBox="0 0 38 12" aria-hidden="true" focusable="false">{total}</svg>'
        "total</li>"
    )


def sample(name: str, words: str) -> str:
    """Return the item of a legend for one kind of bar."""
    drawn = bar(name, 4, 1, 30, 10)
    return (
        f'<li><svg viewBox="0 0 38 12" aria-hidden="true" focusable="false">{drawn}</svg>'
        f"{words}</li>"
    )


def forest(rows: Sequence[tuple[Row, Estimate]], title: str) -> Draw:
    """Draw paired differences with intervals: right of zero GDCB is better, left of it worse.

    What lies far outside the others is cut at an arrow; its numbers stand beside it.
    """
    bounds = [end for _, v in rows for end in (v.mean, v.low, v.high) if end is not None]
    far = sorted(abs(v.mean) for _, v in rows)
    limit = 3.0 * far[(2 * len(far)) // 3] if far else 1.0
    reach = max(limit, 1e-9)
    low = max(min([0.0, *bounds]), -reach)
    high = min(max([0.0, *bounds]), reach)
    values = ticks(low, high if high > low else low + 1.0)
    digits = common_digits([v for _, v in rows])
    numbers = [bracketed(v, digits) for _, v in rows]

    def draw(width: float) -> tuple[float, str]:
        is_wide = width > NARROW
        n_headings = sum(bool(row.heading) for row, _ in rows)
        # Where there is little room, names and numbers have a line of their own.
        step = ROW if is_wide else 1.7 * ROW
        height = 30 + step * len(rows) + ROW * n_headings + 38
        left = 1.1 * margin([row.shown(width) for row, _ in rows]) if is_wide else 12.0
        right = margin(numbers) if is_wide else 12.0
        frame = Frame(width, height, left, right, 30.0, 38.0, values[0], values[-1], 0.0, 1.0)
        marks = [_columns(frame, values), x_axis(frame, _fewer(values, frame), title), _zero(frame)]
        zero = frame.x(0.0)
        if values[0] < 0:
            marks.append(text(zero - 8, 15, "← worse", "end", "soft"))
        marks.append(text(zero + 8, 15, "GDCB better →", "start", "soft"))
        y = frame.top
        for (row, value), number in zip(rows, numbers, strict=True):
            if row.heading:
                marks.append(text(0, y + ROW * 0.75, row.heading, kind="soft halo"))
                y += ROW
            middle = y + step - ROW * 0.5
            name, kind = row.shown(width), "bold halo"
            if is_wide:
                marks.append(text(frame.left - 8, middle + 4, name, "end", kind))
                marks.append(text(width, middle + 4, number, "end"))
            else:
                marks.append(text(0, middle - 11, name, kind=kind))
                marks.append(text(width, middle - 11, number, "end", "halo"))
            marks.append(_whisker(frame, value, middle))
            y += step
        return height, "".join(marks)

    return draw


def _whisker(frame: Frame, value: Estimate, y: float) -> str:
    """Return mean and interval: filled where it excludes zero, a triangle where GDCB is worse."""
    colour = {1: "c-ours", 0: "c-floor", -1: "c-red"}[value.sign]
    shape = {1: "square", 0: "ring", -1: "triangle"}[value.sign]
    low, high = frame.x_low, frame.x_high
    marks = []
    if value.low is not None and value.high is not None and value.high > low and value.low < high:
        x1, x2 = frame.x(max(value.low, low)), frame.x(min(value.high, high))
        marks.append(rule(x1, y, x2, y, "line", ' stroke-width="2"'))
        for x, is_inside in ((x1, value.low >= low), (x2, value.high <= high)):
            if is_inside:
                marks.append(rule(x, y - 4, x, y + 4, "line", ' stroke-width="2"'))
    if low <= value.mean <= high:
        marks.append(marker(shape, frame.x(value.mean), y, 4.2))
    else:
        x, way = (frame.x(high), 1) if value.mean > high else (frame.x(low), -1)
        arrow = f"M{x:.1f},{y:.1f}m{-way * 10},-5l{way * 10},5l{-way * 10},5z"
        marks.append(f'<path class="mark" d="{arrow}"/>')
    return f'<g class="{colour}">{"".join(marks)}</g>'


def histogram(actions: Actions, title: str) -> Draw:
    """Draw executed shares as bars and recommended shares as a stepped line over them."""
    shown = [
        i
        for i, pair in enumerate(zip(actions.recommended, actions.executed, strict=True))
        if any(pair)
    ]
    first, last = (shown[0], shown[-1] + 1) if shown else (0, len(actions.recommended))
    edges = actions.edges[first : last + 1]
    bars, steps = actions.executed[first:last], actions.recommended[first:last]
    values = ticks(0.0, 100 * max([*bars, *steps, 1e-9]), 4)

    def draw(width: float) -> tuple[float, str]:
        labels = tick_labels(values, " %")
        frame = Frame(
            width, 220.0, margin(labels), 12.0, 24.0, 38.0, edges[0], edges[-1], 0.0, values[-1]
        )
        marks = [y_axis(frame, values, "share of decisions", " %")]
        marks.append(x_axis(frame, ticks(edges[0], edges[-1], 5), title))
        line = [f"M{frame.x(edges[0]):.1f},{frame.y(0):.1f}"]
        for a, b, share, step in zip(edges[:-1], edges[1:], bars, steps, strict=True):
            x, y = frame.x(a), frame.y(100 * share)
            marks.append(
                f'<rect class="f-executed" x="{x:.1f}" y="{y:.1f}" '
                f'width="{frame.x(b) - x:.1f}" height="{frame.y(0) - y:.1f}"/>'
            )
            line.append(f"V{frame.y(100 * step):.1f}H{frame.x(b):.1f}")
        line.append(f"V{frame.y(0):.1f}")
        path = f'<path class="line" d="{"".join(line)}" stroke-width="2.2"/>'
        return 220.0, "".join([*marks, f'<g class="c-red">{path}</g>'])

    return draw


def histogram_legend() -> str:
    """Return the legend of the actions: a line for what was recommended, bars for what ran."""
    return (
        '<li><svg class="c-red" viewBox="0 0 38 12" aria-hidden="true" focusable="false">'
        '<path class="line" d="M2,11V2H36V11" stroke-width="2.2"/></svg>recommended</li>'
        '<li><svg viewBox="0 0 38 12" aria-hidden="true" focusable="false">'
        '<rect class="f-executed" x="2" y="1" width="34" height="11"/></svg>executed</li>'
    )
