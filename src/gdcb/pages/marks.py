"""Marks of a figure: scales, ticks and axes, words, lines, markers."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

from gdcb.pages.numbers import decimals, fixed

LETTER = 7.0


@dataclass(frozen=True, slots=True)
class Frame:
    """A rectangle of paper, and the numbers that its edges stand for."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    x_low: float
    x_high: float
    y_low: float
    y_high: float

    def x(self, value: float) -> float:
        """Return where a value lies from the left, in pixels."""
        share = (value - self.x_low) / ((self.x_high - self.x_low) or 1.0)
        return self.left + (self.width - self.left - self.right) * share

    def y(self, value: float) -> float:
        """Return where a value lies from the top, in pixels."""
        share = (self.y_high - value) / ((self.y_high - self.y_low) or 1.0)
        return self.top + (self.height - self.top - self.bottom) * share


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return up to about `most` round numbers from `low` or below to `high` or above.

    Examples
    --------
    >>> ticks(0, 87)
    [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
    """
    if not high > low:
        high = low + (abs(low) or 1.0)
    size = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(size * k for k in (1, 2, 5, 10, 20) if (high - low) / (size * k) <= most)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [step * i for i in range(first, max(last, first + 1) + 1)]


def tick_labels(values: Sequence[float], suffix: str = "") -> list[str]:
    """Write ticks with the decimals that their step needs, and no more."""
    step = values[1] - values[0]
    digits = next((n for n in range(10) if abs(round(step, n) - step) < 1e-9 * step), 9)
    return [fixed(value, min(digits, decimals(step))) + suffix for value in values]


def text(x: float, y: float, words: str, anchor: str = "start", kind: str = "") -> str:
    """Return words at a point, escaped."""
    name = f' class="{kind}"' if kind else ""
    where = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}"{where}{name}>{html.escape(words)}</text>'


def rule(x1: float, y1: float, x2: float, y2: float, kind: str, more: str = "") -> str:
    """Return a straight line."""
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} class="{kind}"{more}/>'


def marker(shape: str, x: float, y: float, r: float = 3.6) -> str:
    """Return a marker, told from the others by its shape."""
    at = f"{x:.1f},{y:.1f}"
    if shape in ("dot", "ring"):
        kind = "mark" if shape == "dot" else "open"
        return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{r}" stroke-width="1.6"/>'
    moves = {
        "square": f"M{at}m{-r},{-r}h{2 * r}v{2 * r}h{-2 * r}z",
        "triangle": f"M{at}m0,{-1.3 * r:.1f}l{1.2 * r:.1f},{2.2 * r:.1f}h{-2.4 * r:.1f}z",
        "diamond": f"M{at}m0,{-1.4 * r:.1f}l{1.2 * r:.1f},{1.4 * r:.1f}l{-1.2 * r:.1f},"
        f"{1.4 * r:.1f}l{-1.2 * r:.1f},{-1.4 * r:.1f}z",
        "cross": f"M{at}m{-r},{-r}l{2 * r},{2 * r}m0,{-2 * r}l{-2 * r},{2 * r}",
    }
    return f'<path class="mark" d="{moves[shape]}" stroke-width="1.4"/>' if shape in moves else ""


def y_axis(frame: Frame, values: Sequence[float], title: str, suffix: str = "") -> str:
    """Return horizontal rules with their numbers; the title stands above them, level."""
    marks = [_title(2, 13, title, "start", frame.width - 2)]
    for value, label in zip(values, tick_labels(values, suffix), strict=True):
        y = frame.y(value)
        kind = "axis" if value == 0 else "grid"
        marks += [
            rule(frame.left, y, frame.width - frame.right, y, kind),
            text(frame.left - 6, y + 4, label, "end"),
        ]
    return "".join(marks)


def x_axis(frame: Frame, values: Sequence[float], title: str) -> str:
    """Return numbers under the frame, and the title under them at the right."""
    base = frame.height - frame.bottom
    marks = []
    for value, label in zip(values, tick_labels(values), strict=True):
        if frame.x_low <= value <= frame.x_high:
            x = frame.x(value)
            marks += [
                rule(x, base, x, base + 4, "axis"),
                text(x, base + 17, label, "middle"),
            ]
    end = frame.width - frame.right
    marks.append(_title(end, base + 33, title, "end", end))
    return "".join(marks)


def _title(x: float, y: float, words: str, anchor: str, room: float) -> str:
    """Return the title of an axis, set narrower where it would not fit."""
    shown = text(x, y, words, anchor, "soft")
    if LETTER * len(words) <= room:
        return shown
    fit = f'<text textLength="{room:.0f}" lengthAdjust="spacingAndGlyphs" '
    return shown.replace("<text ", fit, 1)


def margin(labels: Sequence[str]) -> float:
    """Return the room that the longest of these labels takes."""
    return LETTER * max((len(label) for label in labels), default=0) + 10


def svg(
    name: str, kind: str, title: str, description: str, width: float, drawing: tuple[float, str]
) -> str:
    """Return a drawing of (height, marks) as an image with title and description for who listens.

    `name` makes the ids, and is unique on the page.
    """
    height, marks = drawing
    e = html.escape
    return (
        f'<svg class="chart {kind}" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-labelledby="{name}-t {name}-d"><title id="{name}-t">{e(title)}</title>'
        f'<desc id="{name}-d">{e(description)}</desc>{marks}</svg>'
    )


def spread(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move labels apart, in their order, so that neighbours are `gap` apart within [low, high].

    Examples
    --------
    >>> spread([10, 12, 50], gap=10, low=0, high=60)
    [10, 20, 50]
    """
    order = sorted(range(len(places)), key=lambda i: places[i])
    moved = list(places)
    floor = low
    for i in order:
        moved[i] = max(moved[i], floor)
        floor = moved[i] + gap
    ceiling = high
    for i in reversed(order):
        moved[i] = min(moved[i], ceiling)
        ceiling = moved[i] - gap
    return moved
