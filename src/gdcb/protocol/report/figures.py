"""The figures of the report: each is drawn wide and narrow, with title, description and caption."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gdcb.pages.marks import Frame, margin, rule, svg, text, tick_labels, ticks, x_axis, y_axis
from gdcb.pages.numbers import Estimate, plus_minus
from gdcb.protocol.report.document import Curve
from gdcb.protocol.report.drawing import Series, drawn, end_labels, extent, swatch
from gdcb.protocol.report.style import OURS, Pen

WIDE, NARROW, SMALL = 704.0, 336.0, 156.0
Draw = Callable[[float], tuple[float, str]]


@dataclass(slots=True)
class Figures:
    """Numbers the figures of one page, so that every title has an id of its own."""

    count: int = 0
    n_small: int = 0

    def figure(
        self,
        title: str,
        description: str,
        draw: Draw,
        caption: str,
        *,
        legend: Sequence[Series] = (),
        keys: str = "",
        is_small: bool = False,
    ) -> str:
        """Return the figure; `draw` gives height and marks for a width, `keys` legend items."""
        self.count += 1
        e = html.escape
        items = "".join(
            f"<li>{swatch(one.pen)}<b>{e(one.name)}</b> {e(one.label)}</li>" for one in legend
        )
        sizes = {"small": NARROW} if is_small else {"wide": WIDE, "narrow": NARROW}
        drawings = "".join(
            svg(f"f{self.count}-{kind}", kind, title, description, width, draw(width))
            for kind, width in sizes.items()
        )
        whole = f'<ul class="legend">{items}{keys}</ul>' if items or keys else ""
        return (
            f"<figure>{drawings}{whole}<figcaption><b>Figure {self.count}. {e(title)}.</b> "
            f"{e(caption)}</figcaption></figure>"
        )

    def thumbnail(self, title: str, description: str, label: str, marks: tuple[float, str]) -> str:
        """Return one of many small figures, with a label instead of a caption."""
        self.n_small += 1
        drawing = svg(f"s{self.n_small}", "thumb", title, description, SMALL, marks)
        return f"<figure>{drawing}<figcaption>{html.escape(label)}</figcaption></figure>"


def at_the_end(series: Sequence[Series]) -> str:
    """Say in words where every line ends, for those who do not see it."""
    ends = []
    for one in series:
        last = [point for point in one.curve if point is not None][-1:]
        ends += [f"{one.name} {plus_minus(point)}" for point in last]
    return f"At the last episode: {'; '.join(ends)}." if ends else "Nothing was measured."


def curves(series: Sequence[Series], title: str, suffix: str = "") -> Draw:
    """Draw lines with bands over episodes; zero is always in the frame."""
    shown = [one for one in series if any(point is not None for point in one.curve)]
    n = max((len(one.curve) for one in shown), default=1)
    low, high = extent([one.curve for one in shown])
    # An interval that dips a hair below zero is no reason for a whole step of empty frame.
    values = ticks(0.0 if -0.02 * high < low < 0 else min(0.0, low), max(0.0, high))

    def draw(width: float) -> tuple[float, str]:
        height = 300.0 if width > NARROW else 250.0
        frame = Frame(
            width,
            height,
            left=margin(tick_labels(values, suffix)),
            right=1.1 * margin([one.name for one in shown]) + 8,
            top=24.0,
            bottom=38.0,
            x_low=0.0,
            x_high=float(n),
            y_low=values[0],
            y_high=values[-1],
        )
        marks = [y_axis(frame, values, title, suffix), x_axis(frame, ticks(0, n, 4), "episode")]
        # Ours last, so that nothing lies over it.
        for order, one in sorted(enumerate(shown), key=lambda pair: pair[1].pen is OURS):
            marks.append(drawn(frame, one, order))
        return height, "".join([*marks, end_labels(frame, shown)])

    return draw


def thumbnail(curve: Curve, reference: Curve, high: float, pen: Pen) -> tuple[float, str]:
    """Draw one method over GDCB, on the scale that all small figures share."""
    n = max(len(curve), len(reference), 1)
    values = [0.0, high]
    height = 100.0
    frame = Frame(SMALL, height, 4.0, 4.0, 16.0, 16.0, 0.0, float(n), 0.0, high)
    marks = [
        rule(4, frame.y(value), SMALL - 4, frame.y(value), "axis" if value == 0 else "grid")
        for value in values
    ]
    labels = tick_labels(values)
    marks += [
        text(4, 12, labels[1], kind="soft"),
        text(4, height - 3, "0", kind="soft"),
        text(SMALL - 4, height - 3, f"{n:,}", "end", "soft"),
        drawn(frame, Series("", "", Pen(OURS.colour, "2 3", "", 1.6), _mean(reference)), 0),
        drawn(frame, Series("", "", Pen(pen.colour, "", "", 2.0), curve), 0),
    ]
    return height, "".join(marks)


def _mean(curve: Curve) -> Curve:
    """Return the curve without its band, as a reference line."""
    return [None if point is None else Estimate(point.mean) for point in curve]
