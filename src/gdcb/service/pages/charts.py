"""Figures as inline SVG: they need no script, print, and bear the strictest policy.

Across, everything is in per cent of the width and down in pixels: a figure fits a phone and a
desk without its letters growing or shrinking, and its height is known before it is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from gdcb.pages.marks import tick_labels, ticks
from gdcb.pages.numbers import Estimate, plain, share
from gdcb.service.pages.views.dashboard import Bin, Series
from gdcb.service.pages.wording import clock

# Room on both sides for half a marker or half a label, in per cent.
_EDGE = 4.0


@dataclass(frozen=True, slots=True)
class Scale:
    """Numbers across a figure, from its left edge to its right."""

    low: float
    high: float
    ticks: tuple[float, ...] = ()

    def at(self, value: float) -> float:
        """Return where a value lies, in per cent of the width; what lies outside is at the edge."""
        where = (value - self.low) / ((self.high - self.low) or 1.0)
        if math.isnan(where):
            return _EDGE
        return _EDGE + (100 - 2 * _EDGE) * min(max(where, 0.0), 1.0)


def _finite(values: Iterable[float | None]) -> list[float]:
    """Return the numbers that can be drawn; one beyond 10¹⁵ would flatten all the others."""
    return [value for value in values if value is not None and abs(value) <= 1e15]


def _ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return round numbers around a range, which is widened where it is hardly one."""
    if high - low <= 1e-9 * max(1.0, abs(low)):
        high = low + max(1.0, abs(low))
    return ticks(low, high, most)


def scale_of(values: Iterable[Estimate | None], *others: float | None, most: int = 4) -> Scale:
    """Return a scale that holds all of these, with their intervals; ticks lie within it."""
    found = _finite(others)
    for value in values:
        if value is not None:
            found += _finite((value.mean, value.low, value.high))
    low, high = min(found, default=0.0), max(found, default=1.0)
    marks = _ticks(low, high, most)
    inside = tuple(tick for tick in marks if low <= tick <= high)
    if len(inside) > 1:
        return Scale(low, high, inside)
    return Scale(marks[0], marks[-1], tuple(marks))


def top_of(all_series: Sequence[Series]) -> float:
    """Return the round number that no value of these series exceeds."""
    found = [value for one in all_series for value in _finite(one.values)]
    return _ticks(0.0, max(found, default=0.0))[-1]


def _svg(kind: str, height: int, label: str, marks: Iterable[Markup]) -> Markup:
    """Return a drawing; without a label it repeats numbers that stand beside it."""
    told = Markup('role="img" aria-label="{}"').format(label)
    return Markup('<svg class="figure {}" width="100%" height="{}" {}>{}</svg>').format(
        kind, height, told if label else Markup('aria-hidden="true"'), Markup("").join(marks)
    )


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    return Markup(
        f'<line x1="{x1:.2f}%" y1="{y1:.1f}" x2="{x2:.2f}%" y2="{y2:.1f}" class="{kind}"/>'
    )


def _dot(x: float, y: float, radius: float, kind: str) -> Markup:
    return Markup(f'<circle cx="{x:.2f}%" cy="{y:.1f}" r="{radius:g}" class="{kind}"/>')


def _words(x: float, y: float, words: str, anchor: str = "middle") -> Markup:
    return Markup('<text x="{:.2f}%" y="{:.1f}" text-anchor="{}">{}</text>').format(
        x, y, anchor, words
    )


def interval(value: Estimate | None, scale: Scale, mark: bool = False, ruler: float = 0) -> Markup:
    """Return one row of a picture: the dot of a mean on the line of its interval.

    What is marked is larger and square; `ruler` is a number that all rows are compared with.
    """
    marks = [_line(scale.at(tick), 0, scale.at(tick), 26, "grid") for tick in scale.ticks]
    if scale.low <= ruler <= scale.high:
        marks.append(_line(scale.at(ruler), 0, scale.at(ruler), 26, "axis"))
    if value is not None and math.isfinite(value.mean):
        x = scale.at(value.mean)
        if value.low is not None and value.high is not None:
            low, high = scale.at(value.low), scale.at(value.high)
            marks.append(_line(low, 13, high, 13, "whisker bold" if mark else "whisker"))
        if mark:
            # A square cannot be centred in per cent: a short thick line can.
            marks.append(_line(x, 6, x, 20, "slab"))
        else:
            marks.append(_dot(x, 13, 4.5, "dot"))
    return _svg("interval", 26, "", marks)


def axis(scale: Scale) -> Markup:
    """Return the numbers under such rows."""
    labels = tick_labels(scale.ticks) if len(scale.ticks) > 1 else []
    step = 1 if len(labels) <= 5 else 2
    shown = list(zip(scale.ticks, labels, strict=False))[::step]
    return _svg("scale", 18, "", [_words(scale.at(at), 13, label) for at, label in shown])


def bar(value: float | None) -> Markup:
    """Return a share of 0 to 1 as a bar in its frame."""
    width = 0.0 if value is None or not math.isfinite(value) else 100 * min(max(value, 0.0), 1.0)
    frame = Markup('<rect class="trough" width="100%" height="12" y="3" rx="2"/>')
    filled = Markup(f'<rect class="fill" width="{width:.2f}%" height="12" y="3" rx="2"/>')
    return _svg("bar", 18, "", [frame, filled])


def columns(series: Series, times: Sequence[int]) -> Markup:
    """Return counts over time as columns, the highest of them as tall as the figure."""
    found = _finite(series.values)
    highest = max(found, default=0.0) or 1.0
    width = 100 / max(len(series.values), 1)
    marks = [_line(0, 47.5, 100, 47.5, "axis")]
    for i, value in enumerate(series.values):
        if value is not None and 0 < value <= highest:
            tall = max(44 * min(value / highest, 1.0), 1.5)
            marks.append(
                Markup(
                    f'<rect class="fill" x="{i * width + 0.12 * width:.2f}%" y="{47 - tall:.1f}" '
                    f'width="{0.76 * width:.2f}%" height="{tall:.1f}"/>'
                )
            )
    total, most = plain(float(sum(found))), plain(max(found, default=0.0))
    told = f"{series.name}: {total} in all, at most {most} in one hour, {_reach(times)}"
    return _svg("columns", 48, told, marks)


def rates(series: Series, times: Sequence[int], top: float) -> Markup:
    """Return shares over time as a line; alarms are ringed and have a rule."""
    n = len(series.values)
    scale = Scale(0.0, max(n - 1, 1))
    marks = [_line(0, 47.5, 100, 47.5, "axis")]
    points = [
        None
        if value is None or math.isnan(value)
        else (scale.at(i), 45 - 38 * min(max(value / top, 0.0), 1.0))
        for i, value in enumerate(series.values)
    ]
    alarms = [i for i in series.alarms if 0 <= i < n]
    for before, after in pairwise(points):
        if before and after:
            marks.append(_line(*before, *after, "line"))
    marks += [_dot(*point, 2, "dot") for point in points if point]
    for i in alarms:
        marks.append(_line(scale.at(i), 0, scale.at(i), 48, "alarm"))
        marks += [_dot(*point, 6, "ring") for point in (points[i],) if point]
    found = _finite(series.values)
    last = share(found[-1]) if found else "not known"
    told = f"{series.name}: {last} at the end, {_reach(times)}"
    if alarms:
        told += (
            f"; drift alarms: {', '.join(clock(at) for i, at in enumerate(times) if i in alarms)}"
        )
    return _svg("rates", 48, told, marks)


def _reach(times: Sequence[int]) -> str:
    return f"from {clock(times[0])} to {clock(times[-1])}" if times else "no times"


def calibration(bins: Sequence[Bin]) -> Markup:
    """Return observed against predicted; on the diagonal they agree."""
    height, base = 220, 196
    observed = [one.observed for one in bins]
    both = scale_of(observed, *(one.predicted for one in bins))

    def down(value: float) -> float:
        return base - (base - 12) * (both.at(value) - _EDGE) / (100 - 2 * _EDGE)

    marks = []
    for tick, label in zip(both.ticks, tick_labels(both.ticks), strict=True):
        marks.append(_line(_EDGE, down(tick), 100 - _EDGE, down(tick), "grid"))
        marks.append(_words(both.at(tick), height - 6, label))
        if tick > both.low:
            marks.append(_words(_EDGE, down(tick) - 3, label, "start"))
    marks.append(
        _line(both.at(both.low), down(both.low), both.at(both.high), down(both.high), "diagonal")
    )
    for one in bins:
        if one.observed is None or not math.isfinite(one.observed.mean):
            continue
        x, value = both.at(one.predicted), one.observed
        if value.low is not None and value.high is not None:
            marks.append(_line(x, down(value.low), x, down(value.high), "whisker"))
        marks.append(_dot(x, down(value.mean), 4.5, "dot"))
    told = (
        f"Observed against predicted in {len(bins)} bins, with intervals; "
        "points on the diagonal agree"
    )
    return _svg("calibration", height, told, marks)
