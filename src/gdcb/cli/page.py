"""The report: one self-contained page, legible on a phone, in grey and in print."""

from __future__ import annotations

import html
import math
from typing import Any

from gdcb.cli.instances import paragraphs
from gdcb.cli.stylised import Result
from gdcb.protocol.metrics import in_words

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 386, 72, 12, 24, 62
# Told apart in grey too: one dark and solid, one lighter and dashed, the floor dotted.
STYLES = {
    "B4": ("#1f4e79", ""),
    "A1": ("#c05a00", "8 4"),
    "floor": ("#666666", "2 4"),
}
_CSS = """
:root { color-scheme: light dark; --ink: #1b1b1b; --paper: #ffffff; --line: #cccccc; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --paper: #161616; --line: #555; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
.scroll { overflow-x: auto; } .numbers td { white-space: nowrap; }
svg { width: 100%; height: auto; }
svg text { fill: var(--ink); font: 15px system-ui, sans-serif; }
@media (max-width: 32rem) { svg text { font-size: 24px; } svg { overflow: visible; }
  .numbers { font-size: .72rem; } .numbers td, .numbers th { padding-right: .35rem; } }
code { overflow-wrap: anywhere; } .note { border-left: 4px solid #c05a00; padding-left: .8rem; }
@media print { body { margin: 0; max-width: none; } }
"""


def page(result: Result, document: dict[str, Any], command: str) -> str:
    """Return the whole report as HTML."""
    instance = result.domain.instance
    e = html.escape
    specification = "".join(f"<tr><th>{e(k)}</th><td>{e(v)}</td></tr>" for k, v in _tuple(result))
    methods = "".join(_row(method) for method in document["methods"].values())
    blocks = paragraphs(result.domain.about).split("\n\n")
    about = "".join(f"<p>{e(block)}</p>" for block in blocks)
    floor = document["floor"]
    floor_text = (
        f"<p>Gate floor, what even the best proposal would lose behind the same gate: "
        f"{in_words(floor)}; compare it with the total.</p>"
        if floor
        else "<p>What runs here changes later contexts, so a gate floor would hang on the "
        "trajectory: compare the totals.</p>"
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>gdcb: {e(instance.title)}</title><style>{_CSS}</style></head><body>
<h1>{e(instance.title)}</h1>
<p class="note">A stylised world: small and made, with a known truth, so that regret is exact.
It says how the parts work together, not how they would do on real data.</p>
<h2>Cumulative regret</h2>
{_figure(document)}
<p>Mean over {result.replicates} replicates, band: 95 % interval. Both methods meet the same
worlds, gates and random numbers.</p>
{floor_text}
<h2>What the regret is made of</h2>
<div class="scroll numbers"><table>
<tr><th>method</th><th>regret</th><th>calibration</th><th>bandit</th>
<th>gate</th><th>reward</th></tr>{methods}</table></div>
<p>Calibration is what no arm could have reached under the fitted scaler; bandit is what another arm
would have been worth behind the gate; gate is what the gate changed, signed: a good one can lower
it below the floor. {e(_largest(document))}</p>
<h2>Specification</h2>
<div class="scroll"><table>{specification}</table></div>
{about}
<h2>How it was made</h2>
<p><code>{e(command)}</code>, gdcb {e(_version())}.</p>
</body></html>
"""


def _version() -> str:
    from importlib.metadata import version

    return version("gdcb")


def _tuple(result: Result) -> list[tuple[str, str]]:
    instance = result.domain.instance
    gates = " → ".join(gate.name for gate in instance.chain.gates) or "open"
    return [
        ("context X", ", ".join(instance.context.columns)),
        (
            "arms A",
            f"{instance.space.n}: {', '.join(instance.space.names[:8])}"
            + (" …" if instance.space.n > 8 else ""),
        ),
        ("scaler δ", type(instance.scaler).__name__),
        ("composition Φ", type(instance.composition).__name__),
        ("action E", ", ".join(column.name for column in instance.actions)),
        ("gate g", gates),
        ("outcome Y", ", ".join(instance.reward.outcome)),
        ("reward R", type(instance.reward).__name__),
        ("bandit", type(result.domain.bandit).__name__),
        ("units", f"{result.domain.units} a replicate, each a {result.domain.unit}"),
    ]


def _row(method: dict[str, Any]) -> str:
    cells = [method["regret"], *method["parts"].values(), method["reward"]]
    inner = "".join(f"<td>{in_words(cell)}</td>" for cell in cells)
    return f"<tr><th>{html.escape(method['label'])}</th>{inner}</tr>"


def _largest(document: dict[str, Any]) -> str:
    parts = document["methods"]["B4"]["parts"]
    largest = max(parts, key=lambda name: float(parts[name]["mean"]))
    return f"The largest part of GDCB's regret here is {largest}."


def _figure(document: dict[str, Any]) -> str:
    curves = {key: method["regret_curve"] for key, method in document["methods"].items()}
    labels = {key: method["label"] for key, method in document["methods"].items()}
    if document["floor_curve"]:
        curves["floor"], labels["floor"] = document["floor_curve"], "gate floor"
    n = int(document["episodes"])
    points = [point for curve in curves.values() for point in curve]
    ticks = _ticks(
        min(0.0, *(point["low"] or point["mean"] for point in points)),
        max(1e-9, *(point["high"] or point["mean"] for point in points)),
    )
    low, high = ticks[0], ticks[-1]

    def x(t: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (t + 1) / n

    def y(value: float) -> float:
        return TOP + (HEIGHT - BOTTOM - TOP) * (high - value) / (high - low)

    marks = [f'<text x="{LEFT}" y="14">regret</text>']
    marks += [
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" '
        f'stroke="var(--line)"/><text x="{LEFT - 8}" y="{y(tick) + 5:.1f}" '
        f'text-anchor="end">{tick:,.4g}</text>'
        for tick in ticks
    ]
    for share in (0.25, 0.5, 0.75, 1) if n >= 8 else (1,):
        t = max(int(n * share) - 1, 0)
        anchor = "end" if share == 1 else "middle"
        at = WIDTH - RIGHT if share == 1 else x(t)
        marks.append(f'<text x="{at:.1f}" y="{HEIGHT - 34}" text-anchor="{anchor}">{t + 1}</text>')
    # On a line of its own: on a phone it would run into the numbers.
    marks.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 8}" text-anchor="end">episodes</text>')
    times = [*range(0, n, max(n // 200, 1)), n - 1]
    for i, (key, curve) in enumerate(curves.items()):
        colour, dash = STYLES[key]
        if curve[0]["high"] is not None:
            band = [f"{x(t):.1f},{y(curve[t]['high']):.1f}" for t in times]
            band += [f"{x(t):.1f},{y(curve[t]['low']):.1f}" for t in reversed(times)]
            marks.append(f'<polygon points="{" ".join(band)}" fill="{colour}" opacity="0.2"/>')
        line = " ".join(f"{x(t):.1f},{y(curve[t]['mean']):.1f}" for t in times)
        marks.append(
            f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2.5" '
            f'stroke-dasharray="{dash}"/>'
        )
        marks.append(_legend(i, html.escape(labels[key]), key))
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="Cumulative regret by episode">{"".join(marks)}</svg>'
    )


def _ticks(low: float, high: float) -> list[float]:
    """Return four to eight round numbers from `low` or below to `high` or above."""
    size = 10.0 ** math.floor(math.log10((high - low) / 4))
    step = next(size * k for k in (1, 2, 5, 10) if (high - low) / (size * k) <= 6)
    return [step * i for i in range(math.floor(low / step), math.ceil(high / step) + 1)]


def _legend(i: int, label: str, key: str) -> str:
    colour, dash = STYLES[key]
    height = TOP + 16 + 24 * i
    return (
        f'<line x1="{LEFT + 12}" x2="{LEFT + 44}" y1="{height}" y2="{height}" stroke="{colour}" '
        f'stroke-width="2.5" stroke-dasharray="{dash}"/>'
        f'<text x="{LEFT + 52}" y="{height + 4}">{label}</text>'
    )
