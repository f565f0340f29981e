"""Figures of a page as panels side by side, which stand under each other on a phone.

Marks and colours are those of the report (`gdcb.pages.marks`); `assets/extra.css` gives them the
site's light and dark paper. Lines differ in dash too, and markers in shape, so that a figure reads
in grey.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from gdcb.pages.marks import Frame, margin, marker, rule, svg, text, tick_labels, x_axis, y_axis

WIDTH, HEIGHT = 330.0, 250.0
_TOP, _BOTTOM, _RIGHT = 26.0, 42.0, 12.0


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis: what it says with its unit, and its ticks, of which the outer ones are its ends.

    With `names` these stand at 1, 2, … in place of ticks.
    """

    label: str
    ticks: Sequence[float]
    suffix: str = ""
    names: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """A line with its name beside it.

    Parameters
    ----------
    name : what stands beside it; it may be empty
    x, y : its points
    colour : class of a colour
    dash : as SVG has it; empty: solid
    at : where its name stands, in the units of the axes
    anchor : which end of the name stands there
    dots : places along the line that are marked
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    colour: str
    dash: str = ""
    at: tuple[float, float] = (0.0, 0.0)
    anchor: str = "start"
    dots: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Panel:
    """One drawing: a title, two axes, and what lies between them.

    Parameters
    ----------
    title : stands above
    says : what the drawing shows, in words, for who listens
    x, y : axes
    lines : drawn in their order
    areas : (name of a colour, points) that are tinted, under everything
    uprights, levels : (name, place, dash) of lines across the panel
    points : (colour, shape, size, places) of markers
    legend : (words, colour, shape) of markers that are explained under the drawing
    """

    title: str
    says: str
    x: Axis
    y: Axis
    lines: Sequence[Line] = ()
    areas: Sequence[tuple[str, Sequence[tuple[float, float]]]] = ()
    uprights: Sequence[tuple[str, float, str]] = ()
    levels: Sequence[tuple[str, float, str]] = ()
    points: Sequence[tuple[str, str, float, Sequence[tuple[float, float]]]] = ()
    legend: Sequence[tuple[str, str, str]] = ()


def figure(name: str, panels: Sequence[Panel], caption: str) -> str:
    """Return panels and caption as HTML; `name` makes the ids."""
    drawn = "".join(
        f"<div><p>{escape(panel.title)}</p>{drawing(f'{name}-{i}', panel)}{_legend(panel)}</div>"
        for i, panel in enumerate(panels)
    )
    return framed(f'<div class="panels">{drawn}</div>', caption)


def framed(inside: str, caption: str) -> str:
    """Return a figure as wide as the page's text."""
    return (
        f'<figure class="drawn">\n{inside}\n<figcaption>{escape(caption)}</figcaption>\n</figure>'
    )


def drawing(name: str, panel: Panel) -> str:
    """Return one panel as SVG."""
    x, y = panel.x.ticks, panel.y.ticks
    left = margin(tick_labels(y, panel.y.suffix))
    frame = Frame(WIDTH, HEIGHT, left, _RIGHT, _TOP, _BOTTOM, x[0], x[-1], y[0], y[-1])
    marks = [
        f'<polygon class="band {colour}" points="{_points(frame, places)}"/>'
        for colour, places in panel.areas
    ]
    marks.append(y_axis(frame, y, panel.y.label, panel.y.suffix))
    base = HEIGHT - _BOTTOM
    if panel.x.names:
        places = enumerate(panel.x.names, 1)
        marks += [text(frame.x(i), base + 17, words, "middle") for i, words in places]
        marks.append(text(WIDTH - _RIGHT, base + 33, panel.x.label, "end", "soft"))
    else:
        marks.append(x_axis(frame, x, panel.x.label))
    for words, at, dash in panel.uprights:
        more = f' stroke-dasharray="{dash}"'
        marks.append(rule(frame.x(at), _TOP, frame.x(at), base, "axis", more))
        # Written upwards beside its line: names of neighbours would run into each other.
        spot = f"translate({frame.x(at) - 4:.1f} {base - 5:.1f}) rotate(-90)"
        marks.append(f'<g transform="{spot}">{text(0, 0, words, kind="soft halo")}</g>')
    for words, at, dash in panel.levels:
        y_at, more = frame.y(at), f' stroke-dasharray="{dash}"'
        marks.append(rule(left, y_at, WIDTH - _RIGHT, y_at, "axis", more))
        marks.append(text(left + 4, y_at - 5, words, kind="soft halo"))
    marks += [_line(frame, one) for one in panel.lines]
    for colour, shape, size, where in panel.points:
        dots = "".join(marker(shape, frame.x(a), frame.y(b), size) for a, b in where)
        marks.append(f'<g class="{colour}">{dots}</g>')
    marks += [_name(frame, one) for one in panel.lines if one.name]
    return svg(name, "panel", panel.title, panel.says, WIDTH, (HEIGHT, "".join(marks)))


def _legend(panel: Panel) -> str:
    samples = (
        f'<li><svg class="{colour}" viewBox="0 0 12 12" aria-hidden="true">'
        f"{marker(shape, 6, 6)}</svg>{escape(words)}</li>"
        for words, colour, shape in panel.legend
    )
    return f"<ul>{''.join(samples)}</ul>" if panel.legend else ""


def _line(frame: Frame, line: Line) -> str:
    places = list(zip(line.x, line.y, strict=True))
    dots = "".join(marker("dot", frame.x(line.x[i]), frame.y(line.y[i]), 4.2) for i in line.dots)
    dash = f' stroke-dasharray="{line.dash}"' if line.dash else ""
    path = f'<polyline class="line" points="{_points(frame, places)}" stroke-width="2.2"{dash}/>'
    return f'<g class="{line.colour}">{path}{dots}</g>'


def _name(frame: Frame, line: Line) -> str:
    words = text(frame.x(line.at[0]), frame.y(line.at[1]), line.name, line.anchor, "end halo")
    return f'<g class="{line.colour}">{words}</g>'


def _points(frame: Frame, places: Sequence[tuple[float, float]]) -> str:
    """Return points; those beyond the frame's top and bottom are left out."""
    return " ".join(
        f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in places if frame.y_low <= y <= frame.y_high
    )
