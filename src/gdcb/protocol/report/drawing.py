"""Marks of curves and bars: lines with bands, labels at their ends, textures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gdcb.pages.marks import Frame, marker, rule, spread, text
from gdcb.pages.numbers import Estimate
from gdcb.protocol.report.document import Curve
from gdcb.protocol.report.style import TEXTURES, Pen

LINE = 15.0


@dataclass(frozen=True, slots=True)
class Series:
    """One line: the short name at its end, the words of the legend, pen and values."""

    name: str
    label: str
    pen: Pen
    curve: Curve


def bar(name: str, x: float, y: float, width: float, height: float) -> str:
    """Return a bar with the texture of its name, so that it is told from others in grey.

    Textures are strokes, not SVG patterns: browsers print a pattern as an image of the whole page.
    """
    box = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    solid = f'<rect class="f-{name}" {box}/>'
    kind = TEXTURES.get(name)
    if kind is None:
        return solid
    strokes = (_stripes if kind == "stripes" else _dots)(x, y, width, height)
    return f'{solid}<path class="t-{kind}" d="{strokes}"/>' if strokes else solid


def _stripes(x: float, y: float, width: float, height: float) -> str:
    """Return rising diagonals 8.5 apart, cut at the bar; those of neighbouring bars line up."""
    left, right, top, low = x + 1, x + width - 1, y + 1, y + height - 1
    found, at = [], 8.5 * math.ceil((left + top) / 8.5)
    while right > left and at < right + low:
        start, end = max(left, at - low), min(right, at - top)
        if end > start:
            found.append(f"M{start:.1f},{at - start:.1f}L{end:.1f},{at - end:.1f}")
        at += 8.5
    return "".join(found)


def _dots(x: float, y: float, width: float, height: float) -> str:
    """Return points 6 apart that lie whole within the bar."""
    n = max(int((height - 4) // 6) + 1, 1)
    rows = [y + height / 2 + 6 * (i - (n - 1) / 2) for i in range(n)]
    first, last = math.ceil((x + 2) / 6), math.floor((x + width - 2) / 6)
    return "".join(f"M{6 * i},{row:.1f}h.01" for row in rows for i in range(first, last + 1))


def swatch(pen: Pen) -> str:
    """Return the sample of a line for the legend."""
    return (
        f'<svg class="{pen.colour}" viewBox="0 0 38 12" aria-hidden="true" focusable="false">'
        f'<line class="line" x1="0" y1="6" x2="38" y2="6" stroke-width="{pen.width}" '
        f'stroke-dasharray="{pen.dash}"/>{marker(pen.marker, 19, 6)}</svg>'
    )


def thin(n: int, most: int = 120) -> list[int]:
    """Return at most about `most` positions of a curve of n points, its ends among them."""
    if n <= most:
        return list(range(n))
    return sorted({round(i * (n - 1) / (most - 1)) for i in range(most)})


def smoothed(curve: Curve, factor: float = 1.0) -> tuple[Curve, int]:
    """Return the moving mean over a twentieth of the curve, times `factor`, and that window.

    A rate jumps from one episode to the next; the interval of a moving mean is not in the
    document, so that the smoothed curve has none.

    Examples
    --------
    >>> smoothed([Estimate(1.0), Estimate(3.0)])
    ([Estimate(mean=1.0, low=None, high=None, p=None),
      Estimate(mean=3.0, low=None, high=None, p=None)], 1)
    """
    half = len(curve) // 40
    moving: Curve = []
    for t, point in enumerate(curve):
        near = [p.mean for p in curve[max(0, t - half) : t + half + 1] if p is not None]
        moving.append(Estimate(factor * sum(near) / len(near)) if point and near else None)
    return moving, 2 * half + 1


def extent(curves: Sequence[Curve]) -> tuple[float, float]:
    """Return the least and greatest of means and interval ends; (0, 1) where there is nothing."""
    values = [
        value
        for curve in curves
        for point in curve
        if point is not None
        for value in (point.mean, point.low, point.high)
        if value is not None
    ]
    return (min(values), max(values)) if values else (0.0, 1.0)


def stretches(curve: Curve, at: Sequence[int]) -> list[list[tuple[int, Estimate]]]:
    """Split the chosen points of a curve where one is missing."""
    found: list[list[tuple[int, Estimate]]] = [[]]
    for t in at:
        point = curve[t]
        if point is None:
            found.append([])
        else:
            found[-1].append((t, point))
    return [stretch for stretch in found if stretch]


def drawn(frame: Frame, series: Series, order: int) -> str:
    """Return band, line and a few markers of one series; `order` keeps markers apart."""
    marks = [f'<g class="{series.pen.colour}">']
    at = thin(len(series.curve))
    for stretch in stretches(series.curve, at):
        upper = [(t, p.high) for t, p in stretch if p.high is not None]
        lower = [(t, p.low) for t, p in reversed(stretch) if p.low is not None]
        if len(upper) > 1:
            marks.append(f'<polygon class="band" points="{_points(frame, upper + lower)}"/>')
        line = [(t, point.mean) for t, point in stretch]
        marks.append(
            f'<polyline class="line" points="{_points(frame, line)}" '
            f'stroke-width="{series.pen.width}" stroke-dasharray="{series.pen.dash}"/>'
        )
    n = len(series.curve)
    if series.pen.marker and n:
        # Staggered: lines that run together would otherwise hide each other's markers.
        places = {min(n - 1, round((i + 0.3 + 0.14 * order) * n / 5)) for i in range(5)}
        for t in sorted(places | ({0} if n == 1 else set())):
            point = series.curve[t]
            if point is not None:
                marks.append(marker(series.pen.marker, frame.x(t + 1), frame.y(point.mean)))
    return "".join([*marks, "</g>"])


def _points(frame: Frame, values: Sequence[tuple[int, float]]) -> str:
    return " ".join(f"{frame.x(t + 1):.1f},{frame.y(value):.1f}" for t, value in values)


def end_labels(frame: Frame, series: Sequence[Series]) -> str:
    """Return the name of every line at its right end, moved apart where lines end together."""
    ends = []
    for one in (named for named in series if named.name):
        last = [(t, p.mean) for t, p in enumerate(one.curve) if p is not None][-1:]
        ends += [(one, t, frame.y(mean)) for t, mean in last]
    places = spread([y for *_, y in ends], LINE - 1, frame.top + 4, frame.height - frame.bottom + 2)
    x = frame.width - frame.right
    marks = []
    for (one, t, y), place in zip(ends, places, strict=True):
        label = text(x + 12, place + 4, one.name, kind="end")
        leader = rule(frame.x(t + 1) + 1, y, x + 10, place, "leader")
        marks.append(f'<g class="{one.pen.colour}">{leader}{label}</g>')
    return "".join(marks)
