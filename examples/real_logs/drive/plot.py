"""Tracks on a plane: east to the right, north up, both at one scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array
from gdcb.pages.marks import Frame, marker, rule, svg, text

WIDTH, _MARGIN, _HEAD, _FOOT = 720.0, 16.0, 64.0, 34.0
_TALLEST = 760.0  # of the plane: what a screen shows at once
_EVERY = 1.0  # s between the points of a track that are drawn
# White paper and dark ink whatever the page's colours, so that it reads in the dark and in print.
_STYLE = """
text { font: 13px system-ui, "Liberation Sans", sans-serif; fill: #1a1a1a; }
.soft { fill: #555; } .grid { stroke: #e4e4e4; } .axis { stroke: #1a1a1a; stroke-width: 2; }
.line { fill: none; stroke: var(--c); stroke-linejoin: round; stroke-linecap: round; }
.mark { fill: var(--c); stroke: var(--c); } .open { fill: none; stroke: var(--c); }
.c-ink { --c: #1a1a1a; } .c-red { --c: #b3400f; } .c-ours { --c: #0b4f8a; }
.c-green { --c: #1a7a58; } .c-floor { --c: #9a9a9a; }
"""


@dataclass(frozen=True, slots=True)
class Layer:
    """A track to draw.

    Parameters
    ----------
    name : what the legend says
    position : (T, 2 or more) east and north, m
    colour : class of a colour
    shape : 'line', or a marker for every point
    width : of the line, or size of the marker
    dash : of the line, as SVG has it; empty: solid
    """

    name: str
    position: Array
    colour: str
    shape: str = "line"
    width: float = 2.0
    dash: str = ""


def thinned(time: Array, position: Array, every: float = _EVERY) -> Array:
    """Return the positions nearest to every so many seconds: a picture, not a table.

    >>> thinned(np.arange(5) / 2, np.arange(5.0)[:, None]).ravel().tolist()
    [0.0, 2.0, 4.0]
    """
    at = np.arange(time[0], time[-1] + 1e-9, every)
    return np.asarray(position[np.unique(np.abs(time[:, None] - at).argmin(axis=0))])


def plane(layers: Sequence[Layer], title: str, says: str, note: str) -> str:
    """Return the drawing as an SVG document; `says` describes it to who listens."""
    points = np.concatenate([layer.position[:, :2] for layer in layers])
    low, high = points.min(axis=0), points.max(axis=0)
    middle, size = (low + high) / 2, np.maximum(high - low, 1.0) * 1.06
    room = WIDTH - 2 * _MARGIN
    scale = min(room / size[0], _TALLEST / size[1])  # pixels a metre, in both directions
    size[0] = room / scale
    height = _HEAD + _FOOT + scale * size[1]
    x_low, x_high = middle[0] - size[0] / 2, middle[0] + size[0] / 2
    y_low, y_high = middle[1] - size[1] / 2, middle[1] + size[1] / 2
    sides = (_MARGIN, _MARGIN, _HEAD, _FOOT)
    frame = Frame(WIDTH, height, *sides, x_low, x_high, y_low, y_high)
    step = _step(float(size.max()))
    marks = [f"<style>{_STYLE}</style>", '<rect width="100%" height="100%" fill="#ffffff"/>']
    marks += _grid(frame, step)
    marks += [_track(frame, layer) for layer in layers]
    marks += _legend(layers)
    marks += _bar(frame, step)
    marks.append(text(WIDTH - _MARGIN, height - 12, note, "end", "soft"))
    drawn = svg("plane", "map", title, says, WIDTH, (round(height, 1), "".join(marks)))
    return drawn.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1) + "\n"


def _step(width: float) -> float:
    """Return a round number of metres, at most an eighth of the drawing."""
    size = 10.0 ** math.floor(math.log10(width / 8))
    return max(size * k for k in (1, 2, 5) if size * k <= width / 8)


def _grid(frame: Frame, step: float) -> list[str]:
    top, base = frame.top, frame.height - frame.bottom
    left, right = frame.left, frame.width - frame.right
    uprights = np.arange(math.ceil(frame.x_low / step), frame.x_high / step) * step
    levels = np.arange(math.ceil(frame.y_low / step), frame.y_high / step) * step
    return [
        *(rule(frame.x(x), top, frame.x(x), base, "grid") for x in uprights.tolist()),
        *(rule(left, frame.y(y), right, frame.y(y), "grid") for y in levels.tolist()),
    ]


def _track(frame: Frame, layer: Layer) -> str:
    places = [(frame.x(float(e)), frame.y(float(n))) for e, n in layer.position[:, :2]]
    if layer.shape != "line":
        drawn = "".join(marker(layer.shape, x, y, layer.width) for x, y in places)
    else:
        dash = f' stroke-dasharray="{layer.dash}"' if layer.dash else ""
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        look = f'stroke-width="{layer.width:g}"{dash}'
        drawn = f'<polyline class="line" points="{points}" {look}/>'
    return f'<g class="{layer.colour}">{drawn}</g>'


def _legend(layers: Sequence[Layer]) -> list[str]:
    """Name the layers above the drawing, in columns."""
    out, columns = [], 2
    for i, layer in enumerate(layers):
        x = _MARGIN + (i % columns) * (WIDTH - 2 * _MARGIN) / columns
        y = 16.0 + 18.0 * (i // columns)
        if layer.shape == "line":
            dash = f' stroke-dasharray="{layer.dash}"' if layer.dash else ""
            sample = rule(x, y, x + 26, y, "line", f' stroke-width="{layer.width:g}"{dash}')
        else:
            sample = marker(layer.shape, x + 13, y, layer.width)
        out.append(f'<g class="{layer.colour}">{sample}</g>{text(x + 34, y + 4.5, layer.name)}')
    return out


def _bar(frame: Frame, step: float) -> list[str]:
    """Draw a scale bar, and an arrow to the north."""
    y = frame.height - 14
    end = frame.left + frame.x(step) - frame.x(0.0)
    bar = rule(frame.left, y, end, y, "axis")
    ends = [rule(x, y - 4, x, y + 4, "axis") for x in (frame.left, end)]
    shown = text(end + 8, y + 4, f"{step:g} m")
    x = frame.width - frame.right - 14
    arrow = rule(x, frame.top + 44, x, frame.top + 16, "axis")
    tip = f'<path d="M{x:.1f},{frame.top + 8:.1f}l5,10h-10z" fill="#1a1a1a"/>'
    return [bar, *ends, shown, arrow, tip, text(x, frame.top + 60, "N", "middle")]
