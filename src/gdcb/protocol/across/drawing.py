"""GDCB over its best rival in every instance, drawn: one dot and its interval a run and start.

The page's colours, light or dark; dots and rings differ in grey too. Narrow enough that its words
can be read on a phone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gdcb.pages.marks import marker, rule, svg, text
from gdcb.pages.numbers import NONE
from gdcb.protocol.across.tables import name_of

_WIDTH, _LEFT, _RIGHT, _ROW, _TOP, _BOTTOM = 452.0, 118.0, 82.0, 38.0, 40.0, 44.0
_LOW, _HIGH = 0.05, 2.5
_TICKS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
_APART = 8.5  # how far the dots of the two starts lie from the middle of their row
_BASELINE = 4.0  # from the middle of a letter to the line that it stands on
_STARTS = (("warm", -_APART, "c-ours", "dot"), ("cold", _APART, "c-red", "ring"))


def ratios(found: Mapping[str, Any]) -> str:
    """Return the drawing as SVG; what lies beyond the axis is drawn at its end."""
    runs = found["runs"]
    height = _TOP + _ROW * len(runs) + _BOTTOM
    base = height - _BOTTOM
    marks = []
    for tick in _TICKS:
        kind = "axis" if tick == 1.0 else "grid"
        marks.append(rule(_x(tick), _TOP, _x(tick), base, kind))
        marks.append(text(_x(tick), base + 17, f"{tick:g}", "middle"))
    marks.append(rule(_x(0.5), _TOP, _x(0.5), base, "axis", ' stroke-dasharray="4 3"'))
    marks.append(text(_x(1.0) - 6, 28, "← GDCB better", "end", "soft"))
    marks.append(text(_x(1.0) + 6, 28, "worse →", kind="soft"))
    marks.append(text(_WIDTH, 28, "ratio, rival", "end", "soft"))
    words = "regret above the floor over the best rival's"
    marks.append(text((_LEFT + _WIDTH - _RIGHT) / 2, base + 36, words, "middle", "soft"))
    said = []
    for i, run in enumerate(runs):
        y = _TOP + _ROW * (i + 0.5)
        if i and run["instance"] != runs[i - 1]["instance"]:
            marks.append(rule(0, y - _ROW / 2, _WIDTH, y - _ROW / 2, "grid"))
        marks.append(text(0, y + _BASELINE, name_of(run)))
        for start, shift, colour, shape in _STARTS:
            value = run["standing"].get(start)
            if value is None:
                marks.append(text(_WIDTH - _RIGHT + 38, y + shift + _BASELINE, NONE, "end", "soft"))
            else:
                marks.append(_dot(value, y + shift, colour, shape))
                ratio = f"{value['ratio']['mean']:.2f} of {value['rival']}"
                said.append(f"{name_of(run)}, {start}: {ratio}.")
    title = "GDCB's regret above the gate floor over that of the best rival, by instance"
    return svg("ratios", "ratios", title, " ".join(said), _WIDTH, (height, "".join(marks)))


def _x(value: float) -> float:
    """Return where a ratio lies, on a logarithmic axis."""
    share = math.log(min(max(value, _LOW), _HIGH) / _LOW) / math.log(_HIGH / _LOW)
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _dot(value: Mapping[str, Any], y: float, colour: str, shape: str) -> str:
    """Return a marker, its interval, and what it says at the right, level with it."""
    ratio = value["ratio"]
    ends = [_x(end) for end in (ratio["low"], ratio["high"]) if end is not None]
    line = rule(ends[0], y, ends[1], y, "line", ' stroke-width="2"') if len(ends) == 2 else ""
    dot = marker(shape, _x(ratio["mean"]), y, 4.2)
    # Numbers and names stand in a column each: keys differ in length.
    share, rival = f"{ratio['mean']:.2f}", value["rival"]
    left, at = _WIDTH - _RIGHT, y + _BASELINE
    label = text(left + 38, at, share, "end") + text(left + 43, at, rival)
    return f'<g class="{colour}">{line}{dot}</g>{label}'
