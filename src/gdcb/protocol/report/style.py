"""How the page looks: light, dark, in grey, at phone width and on paper."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pen:
    """How one line is told from the others without colour: dash and marker; `colour` is a class."""

    colour: str
    dash: str = ""
    marker: str = ""
    width: float = 1.8


# Roles, not keys: the same pen means the same thing in every figure.
OURS = Pen("c-ours", "", "dot", 3.0)
COLD = Pen("c-cold", "9 4", "ring")
FLOOR = Pen("c-floor", "1 4", "", 2.2)
THIRD = Pen("c-green", "12 3 2 3", "triangle")
RIVALS = (
    Pen("c-red", "5 3", "square"),
    Pen("c-green", "2 3", "triangle"),
    Pen("c-purple", "12 3 2 3", "diamond"),
    Pen("c-gold", "8 3 2 3 2 3", "cross"),
)
# Bars are told apart in grey by what is drawn on them; a name without any is solid.
TEXTURES = {"bandit": "stripes", "gate": "dots", "lowered": "stripes", "stopped": "dots"}
PART_PENS = {
    "calibration": Pen("c-ours", "", "dot", 2.4),
    "bandit": Pen("c-red", "6 3", "square"),
    "gate": Pen("c-green", "2 3", "triangle"),
}

CSS = """
:root { color-scheme: light dark; --ink: #1a1a1a; --soft: #555; --paper: #fff; --line: #d0d0d0;
  --tint: #f3f5f7; --ours: #0b4f8a; --cold: #3f86c6; --red: #b3400f; --green: #1a7a58;
  --purple: #74409a; --gold: #806600; --floor: #666; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e9e9e9; --soft: #b0b0b0;
  --paper: #15171a; --line: #44484d; --tint: #202428; --ours: #8cc4ff; --cold: #5b9bdb;
  --red: #ff9d6b; --green: #62cda4; --purple: #cfa4f0; --gold: #dcbf5c; --floor: #a5a5a5; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif;
  color: var(--ink); background: var(--paper); max-width: 46rem; margin: 0 auto;
  padding: 1.2rem 1rem 3rem; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: .2rem 0 .4rem; }
h2 { font-size: 1.3rem; margin: 2.6rem 0 .6rem; padding-top: .5rem;
  border-top: 3px solid var(--ink); }
h3 { font-size: 1.05rem; margin: 2rem 0 .3rem; } p { margin: .5rem 0; }
a { color: var(--ours); } nav { margin: .8rem 0; } nav a { margin-right: 1.1rem; }
.facts { color: var(--soft); margin: 0 0 .8rem; }
.summary { background: var(--tint); border-left: 4px solid var(--ours); padding: .5rem 1rem; }
.summary li { margin: .35rem 0; } .summary ul { margin: .3rem 0; padding-left: 1.1rem; }
.note { border-left: 4px solid var(--red); padding-left: .8rem; }
table { border-collapse: collapse; width: 100%; font-size: .9rem;
  font-variant-numeric: tabular-nums; }
.caption { color: var(--soft); font-size: .9rem; margin: 1rem 0 0; }
th, td { text-align: left; padding: .3rem .9rem .3rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
thead th { border-bottom: 2px solid var(--ink); vertical-align: bottom; }
th { font-weight: 600; } tbody th { font-weight: 400; } .ours th, .ours td { font-weight: 700; }
.n { text-align: right; white-space: nowrap; } .n:last-child { padding-right: 0; }
.key { font-weight: 700; }
.scroll { overflow-x: auto; margin: 0 0 .6rem; }
.scroll:focus-visible { outline: 2px solid var(--ours); }
figure { margin: 1rem 0; break-inside: avoid; }
figcaption { color: var(--soft); font-size: .88rem; line-height: 1.4; margin-top: .3rem; }
figcaption b { color: var(--ink); }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; list-style: none; padding: 0;
  margin: .2rem 0; font-size: .88rem; }
.legend svg { width: 38px; height: 12px; margin-right: .4rem; vertical-align: -1px; }
.pair { display: grid; grid-template-columns: repeat(auto-fill, minmax(18rem, 1fr)); gap: 0 1rem; }
.many { display: grid; grid-template-columns: repeat(auto-fill, minmax(9.6rem, 1fr));
  gap: .8rem; } .many figure { margin: 0; }
.chart { display: block; width: 100%; height: auto; overflow: visible; }
.narrow { display: none; }
.pair .chart { max-width: 30rem; }
.chart text { fill: var(--ink); font-size: 12.5px; font-family: inherit; }
.chart .halo { paint-order: stroke; stroke: var(--paper); stroke-width: 5px; }
.chart .soft { fill: var(--soft); } .chart .bold { font-weight: 700; }
.chart .end { font-weight: 700; fill: var(--c); }
.grid { stroke: var(--line); stroke-width: 1; } .axis { stroke: var(--soft); stroke-width: 1.2; }
.line { fill: none; stroke: var(--c); stroke-linejoin: round; }
.band { fill: var(--c); opacity: .16; } .mark { fill: var(--c); stroke: var(--c); }
.open { fill: var(--paper); stroke: var(--c); } .leader { stroke: var(--c); stroke-width: .8; }
.c-ours { --c: var(--ours); } .c-cold { --c: var(--cold); } .c-red { --c: var(--red); }
.c-green { --c: var(--green); } .c-purple { --c: var(--purple); } .c-gold { --c: var(--gold); }
.c-floor { --c: var(--floor); } .c-ink { --c: var(--ink); }
.f-calibration { fill: var(--ours); stroke: var(--ours); }
.f-bandit, .f-lowered { fill: var(--paper); stroke: var(--red); }
.f-gate, .f-stopped { fill: var(--paper); stroke: var(--green); }
.f-raised { fill: var(--cold); stroke: var(--cold); }
.t-stripes { stroke: var(--red); stroke-width: 2.3; fill: none; }
.t-dots { stroke: var(--green); stroke-width: 3; stroke-linecap: round; fill: none; }
.whisker { stroke: var(--ink); stroke-width: 1.3; }
.f-executed { fill: var(--cold); opacity: .35; }
.total { fill: var(--paper); stroke: var(--ink); stroke-width: 1.6; }
summary { cursor: pointer; color: var(--ours); padding: .3rem 0; }
@media screen { details:not([open]) + .folded { display: none; } }
code { overflow-wrap: anywhere; font-size: .92em; } .wrap { overflow-wrap: anywhere; }
@media screen and (max-width: 40rem) { .wide { display: none; } .narrow { display: block; }
  body { padding: .8rem .7rem 2rem; } table { font-size: .8rem; }
  th, td { padding-right: .35rem; } .n { white-space: normal; }
  .scroll .stay { position: sticky; left: 0; background: var(--paper); max-width: 9.5rem; } }
@page { margin: 16mm 14mm; }
@media print { nav, details { display: none; }
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  .chart, .legend svg { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  .scroll { overflow: visible; } h2, h3, .caption { break-after: avoid; }
  tr { break-inside: avoid; }
  table { font-size: 8.5pt; } th, td { padding-right: .6rem; } a { color: inherit; }
  .pair { grid-template-columns: 1fr 1fr; } .many { grid-template-columns: repeat(4, 1fr); } }
"""
