"""GDCB over its best rival in every instance, drawn: one dot and its interval a run and start.

White paper and black ink whatever the page's colours; filled and hollow dots differ in grey too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from typing import Any

from gdcb.protocol.across.tables import name_of

_WIDTH, _LEFT, _RIGHT, _ROW, _TOP, _BOTTOM = 720.0, 130.0, 110.0, 30.0, 44.0, 40.0
_LOW, _HIGH = 0.05, 2.5
_TICKS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)


def ratios(found: Mapping[str, Any]) -> str:
    """Return the drawing as SVG; what lies beyond the axis is drawn at its end."""
    runs = found["runs"]
    height = _TOP + _ROW * len(runs) + _BOTTOM
    base = height - _BOTTOM
    marks = [f'<rect width="{_WIDTH:g}" height="{height:g}" fill="#fff"/>']
    for tick in _TICKS:
        ink = "#333" if tick == 1.0 else "#ccc"
        marks.append(_line(_x(tick), _TOP - 8, _x(tick), base, ink))
        marks.append(_text(_x(tick), base + 17, f"{tick:g}", "middle"))
    marks.append(_line(_x(0.5), _TOP - 8, _x(0.5), base, "#1f4e79", ' stroke-dasharray="4 3"'))
    marks.append(_text(_x(1.0) - 6, 18, "← GDCB better", "end"))
    marks.append(_text(_x(1.0) + 6, 18, "worse →", "start"))
    marks.append(
        _text(_WIDTH / 2, height - 6, "regret above the floor over the best rival's", "middle")
    )
    for i, run in enumerate(runs):
        y = _TOP + _ROW * (i + 0.5)
        marks.append(_text(_LEFT - 12, y + 5, name_of(run), "end"))
        for start, shift in (("warm", -5.0), ("cold", 5.0)):
            value = run["standing"].get(start)
            if value is not None:
                marks.append(_dot(value, y + shift, start == "warm"))
    label = "GDCB's regret above the gate floor over that of the best rival, by instance"
    return (
        f'<svg viewBox="0 0 {_WIDTH:g} {height:g}" role="img" aria-label="{escape(label)}" '
        f'xmlns="http://www.w3.org/2000/svg" style="max-width:{_WIDTH:g}px;width:100%">'
        f"{''.join(marks)}</svg>"
    )


def _x(value: float) -> float:
    """Return where a ratio lies, on a logarithmic axis."""
    share = math.log(min(max(value, _LOW), _HIGH) / _LOW) / math.log(_HIGH / _LOW)
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _dot(value: Mapping[str, Any], y: float, is_warm: bool) -> str:
    ratio, ink = value["ratio"], "#1f4e79" if is_warm else "#7a3900"
    ends = [end for end in (ratio["low"], ratio["high"]) if end is not None]
    line = _line(_x(ends[0]), y, _x(ends[1]), y, ink, ' stroke-width="2"') if len(ends) == 2 else ""
    fill = ink if is_warm else "#fff"
    dot = (
        f'<circle cx="{_x(ratio["mean"]):.1f}" cy="{y:.1f}" r="4.5" fill="{fill}" stroke="{ink}"/>'
    )
    words = f"{ratio['mean']:.2f} {value['rival']}"
    return line + dot + _text(_WIDTH - 4, y + (0 if is_warm else 8), words, "end", 11)


def _line(x1: float, y1: float, x2: float, y2: float, ink: str, more: str = "") -> str:
    place = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {place} stroke="{ink}"{more}/>'


def _text(x: float, y: float, words: str, anchor: str, size: int = 13) -> str:
    font = f'font-family="sans-serif" font-size="{size}" fill="#222"'
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {font}>{escape(words)}</text>'
