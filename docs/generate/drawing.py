"""The taxonomy as a drawing: columns of compositions, rows of scalers, a glyph for the gate.

White paper and black ink whatever the site's colours, so that it reads in the dark and in print;
the glyphs differ in shape, so that it reads in grey.
"""

from __future__ import annotations

from html import escape

from docs.generate.taxonomy import (
    COMPOSITIONS,
    GATES,
    SCALERS,
    Placement,
    gates_by_step,
    placements,
    steps,
)

_FONT, _SMALL, _LINE, _PAD, _GLYPH = 17, 15, 25, 12, 24
_LETTER = 10.4  # width of a letter, on average, bold and in a wide font
_NAMES = 54.0  # the line on which columns are named
# Fill and outline of a gate's glyph.
_INK = {
    "open": ("#ffffff", "#333333"),
    "hard rule": ("#8fb3d9", "#1f4e79"),
    "person": ("#c05a00", "#7a3900"),
}


def figure() -> str:
    """Return the figure as HTML: the drawing and a caption."""
    domains = [one for one in placements() if one.source is None]
    cells = len({one.cell for one in domains})
    return (
        f'<figure class="taxonomy">\n<div>{svg()}</div>\n'
        f"<figcaption>Drawn from the registered parts. The {len(domains)} domains, in bold, stand "
        f"in {cells} cells. Tinted: scaler and composition are both at work.</figcaption>\n"
        "</figure>"
    )


def svg() -> str:
    """Draw every placement in the cell of its composition and scaler."""
    columns = steps("composition", COMPOSITIONS)
    rows = dict(reversed(steps("scaler", SCALERS).items()))  # the simplest at the bottom
    inside: dict[tuple[str, str], list[Placement]] = {}
    for one in placements():
        inside.setdefault(one.cell, []).append(one)
    widths = {}
    for column, names in columns.items():
        labels = [one.label for row in rows for one in inside.get((column, row), ())]
        widest = [_width(column), *map(_width, names), *(_GLYPH + _width(one) for one in labels)]
        widths[column] = max(widest) + 2 * _PAD
    heights = {}
    for row, names in rows.items():
        counts = [len(inside.get((column, row), ())) for column in columns]
        heights[row] = 2 * _PAD + _LINE * max(1 + len(names), *counts)
    top = _NAMES + 20 * max(map(len, columns.values())) + _PAD
    start = max(map(_width, rows)) + 2 * _PAD
    across, down = start + sum(widths.values()) + _PAD, top + sum(heights.values())
    legend, bottom = _legend(start, down + 34, across)
    out = [
        _text(start + _PAD, 26, "composition Φ: simple → complex", fill="#555555"),
        _text(_PAD, top - _PAD, "scaler δ ↑", fill="#555555"),
    ]
    left = start
    for column, width in widths.items():
        out += _heading("composition", column, columns[column], left + _PAD, _NAMES)
        left += width
    for row, height in heights.items():
        out += _heading("scaler", row, rows[row], _PAD, top + _PAD + _FONT)
        left = start
        for column, width in widths.items():
            fill = "#eef2f7" if column != "identity" and row != "none" else "#ffffff"
            out.append(
                f'<rect x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}" '
                f'fill="{fill}" stroke="#999999"/>'
            )
            for i, one in enumerate(inside.get((column, row), ())):
                y = top + _PAD + _LINE * i
                out.append(_glyph(one.gate, left + _PAD, y + 3))
                weight = "bold" if one.source is None else "normal"
                out.append(_text(left + _PAD + _GLYPH, y + _FONT, one.label, weight=weight))
            left += width
        top += height
    words = " ".join(f"{one.label}: {', '.join((*one.cell, one.gate))}." for one in placements())
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {across:g} {bottom:g}" role="img" '
        'aria-labelledby="taxonomy-title taxonomy-desc" font-family="system-ui, sans-serif" '
        f'font-size="{_FONT}">'
        '<title id="taxonomy-title">Where algorithms live: composition, scaler and gate</title>'
        f'<desc id="taxonomy-desc">{escape(words)}</desc>'
        f'<rect width="{across:g}" height="{bottom:g}" rx="8" fill="#ffffff"/>'
    )
    return "".join([head, *out, *legend, "</svg>"])


def _legend(start: float, y: float, across: float) -> tuple[list[str], float]:
    """Draw the steps of the gate with the gates of each; return where it ends, too."""
    out = [_text(_PAD, y, "gate g", fill="#555555")]
    for step, names in gates_by_step().items():
        out += [
            _glyph(step, start + _PAD, y - 14),
            _text(start + _PAD + _GLYPH, y, step, weight="bold"),
        ]
        x = indent = start + _GLYPH + max(map(_width, GATES)) + 2 * _PAD
        for name in names:
            if x + _width(name) > across:
                x, y = indent, y + 20
            out.append(_link("gate", name, x, y))
            x += _width(name) + _PAD
        y += _LINE
    return out, y


def _heading(kind: str, step: str, names: list[str], x: float, y: float) -> list[str]:
    links = [_link(kind, name, x, y + 20 * (i + 1)) for i, name in enumerate(names)]
    return [_text(x, y, step, weight="bold"), *links]


def _width(text: str) -> float:
    return _LETTER * len(text)


def _text(x: float, y: float, text: str, fill: str = "#1b1b1b", weight: str = "normal") -> str:
    look = f'fill="{fill}" font-weight="{weight}"'
    return f'<text x="{x:g}" y="{y:g}" {look}>{escape(text)}</text>'


def _link(kind: str, name: str, x: float, y: float) -> str:
    look = f'font-size="{_SMALL}" fill="#1f4e79" text-decoration="underline"'
    text = f'<text x="{x:g}" y="{y:g}" {look}>{escape(name)}</text>'
    return f'<a href="parts/{kind}/{name}.html">{text}</a>'


def _glyph(gate: str, x: float, y: float) -> str:
    """Draw a hollow circle, a square or a triangle, 16 units wide."""
    fill, ink = _INK[gate]
    paint = f'fill="{fill}" stroke="{ink}" stroke-width="2"'
    if gate == "open":
        return f'<circle cx="{x + 8:g}" cy="{y + 8:g}" r="6.5" {paint}/>'
    if gate == "hard rule":
        return f'<rect x="{x + 1.5:g}" y="{y + 1.5:g}" width="13" height="13" {paint}/>'
    return f'<path d="M{x + 8:g} {y + 1:g} l7 13 h-14 z" {paint}/>'
