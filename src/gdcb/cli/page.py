"""The report: one self-contained page, legible on a phone, in grey and in print."""

from __future__ import annotations

import html
from typing import Any

from gdcb.cli.experiment import Result, in_words
from gdcb.cli.instances import paragraphs

WIDTH, HEIGHT, LEFT, BOTTOM = 720, 320, 64, 36
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
th, td { text-align: left; padding: .35rem .6rem .35rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
.scroll { overflow-x: auto; } svg { width: 100%; height: auto; }
svg text { fill: var(--ink); font: 13px system-ui, sans-serif; }
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
        f"{in_words(floor)}.</p>"
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
<div class="scroll"><table><tr><th>method</th><th>regret</th><th>calibration</th><th>bandit</th>
<th>gate</th><th>reward</th></tr>{methods}</table></div>
<p>{e(_advice(document))}</p>
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


def _advice(document: dict[str, Any]) -> str:
    parts = document["methods"]["B4"]["parts"]
    largest = max(parts, key=lambda name: float(parts[name]["mean"]))
    what = {
        "calibration": "better labels or features for the scaler pay most",
        "bandit": "more rounds, history or sharing between units pay most",
        "gate": "look at what the gate changes and why; a better proposal cannot win this back",
    }[largest]
    return f"The largest part of GDCB's regret is {largest}: {what}."


def _figure(document: dict[str, Any]) -> str:
    curves = {key: method["regret_curve"] for key, method in document["methods"].items()}
    n = int(document["episodes"])
    top = max(point["high"] or point["mean"] for curve in curves.values() for point in curve)
    top = float(max(top, 1e-9))

    def x(t: int) -> float:
        return LEFT + (WIDTH - LEFT - 8) * (t + 1) / n

    def y(value: float) -> float:
        return (HEIGHT - BOTTOM) * (1 - max(value, 0.0) / top) + 6

    marks = []
    for share in (0, 0.25, 0.5, 0.75, 1):
        height = y(share * top)
        marks.append(
            f'<line x1="{LEFT}" x2="{WIDTH - 8}" y1="{height:.1f}" y2="{height:.1f}" '
            f'stroke="var(--line)"/><text x="{LEFT - 8}" y="{height + 4:.1f}" '
            f'text-anchor="end">{share * top:,.3g}</text>'
        )
    for share in (0.25, 0.5, 0.75, 1):
        t = max(int(n * share) - 1, 0)
        marks.append(f'<text x="{x(t):.1f}" y="{HEIGHT - 8}" text-anchor="middle">{t + 1}</text>')
    step = max(n // 200, 1)
    for i, (key, curve) in enumerate(curves.items()):
        colour, dash = STYLES[key]
        ts = [*range(0, n, step), n - 1]
        line = " ".join(f"{x(t):.1f},{y(curve[t]['mean']):.1f}" for t in ts)
        if curve[0]["high"] is not None:
            band = [f"{x(t):.1f},{y(curve[t]['high']):.1f}" for t in ts]
            band += [f"{x(t):.1f},{y(curve[t]['low']):.1f}" for t in reversed(ts)]
            marks.append(f'<polygon points="{" ".join(band)}" fill="{colour}" opacity="0.2"/>')
        marks.append(
            f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2.5" '
            f'stroke-dasharray="{dash}"/>'
        )
        label = html.escape(document["methods"][key]["label"])
        marks.append(_legend(i, label, key))
    if document["floor"]:
        # The floor grows evenly: contexts are drawn alike in every episode.
        end = y(document["floor"]["mean"])
        colour, dash = STYLES["floor"]
        marks.append(
            f'<line x1="{x(-1):.1f}" y1="{y(0):.1f}" x2="{x(n - 1):.1f}" y2="{end:.1f}" '
            f'stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>'
        )
        marks.append(_legend(len(curves), "gate floor", "floor"))
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="Cumulative regret by episode">{"".join(marks)}</svg>'
    )


def _legend(i: int, label: str, key: str) -> str:
    colour, dash = STYLES[key]
    height = 20 + 20 * i
    return (
        f'<line x1="{LEFT + 12}" x2="{LEFT + 44}" y1="{height}" y2="{height}" stroke="{colour}" '
        f'stroke-width="2.5" stroke-dasharray="{dash}"/>'
        f'<text x="{LEFT + 52}" y="{height + 4}">{label}</text>'
    )
