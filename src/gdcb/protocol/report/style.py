"""How the page looks: light, dark, in grey, at phone width and on paper."""

from __future__ import annotations

from dataclasses import dataclass

from gdcb.pages.style import CSS as BASE


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
    "inherited": Pen("c-purple", "12 3 2 3", "diamond"),
}

OWN = """
h1 { font-size: 1.6rem; line-height: 1.2; margin: .2rem 0 .4rem; }
h2 { font-size: 1.3rem; margin: 2.6rem 0 .6rem; padding-top: .5rem;
  border-top: 3px solid var(--ink); }
h3 { font-size: 1.05rem; margin: 2rem 0 .3rem; } p { margin: .5rem 0; }
a { color: var(--ours); } nav { margin: .8rem 0; } nav a { margin-right: 1.1rem; }
.facts { color: var(--soft); margin: 0 0 .8rem; }
.summary { background: var(--tint); border-left: 4px solid var(--ours); padding: .5rem 1rem; }
.summary li { margin: .35rem 0; } .summary ul { margin: .3rem 0; padding-left: 1.1rem; }
.note { border-left: 4px solid var(--red); padding-left: .8rem; }
.caption { color: var(--soft); font-size: .9rem; margin: 1rem 0 0; }
th, td { text-align: left; padding: .3rem .9rem .3rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
thead th { border-bottom: 2px solid var(--ink); vertical-align: bottom; }
th { font-weight: 600; } tbody th { font-weight: 400; } .ours th, .ours td { font-weight: 700; }
.key { font-weight: 700; }
figure { margin: 1rem 0; break-inside: avoid; }
figcaption { color: var(--soft); font-size: .88rem; line-height: 1.4; margin-top: .3rem; }
figcaption b { color: var(--ink); }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; list-style: none; padding: 0;
  margin: .2rem 0; font-size: .88rem; }
.legend svg { width: 38px; height: 12px; margin-right: .4rem; vertical-align: -1px; }
.pair { display: grid; grid-template-columns: repeat(auto-fill, minmax(18rem, 1fr)); gap: 0 1rem; }
.many { display: grid; grid-template-columns: repeat(auto-fill, minmax(9.6rem, 1fr));
  gap: .8rem; } .many figure { margin: 0; }
.narrow { display: none; }
.pair .chart { max-width: 30rem; }
.f-calibration { fill: var(--ours); stroke: var(--ours); }
.f-bandit, .f-lowered { fill: var(--paper); stroke: var(--red); }
.f-gate, .f-stopped { fill: var(--paper); stroke: var(--green); }
.f-inherited { fill: var(--purple); stroke: var(--purple); }
.f-raised { fill: var(--cold); stroke: var(--cold); }
.t-stripes { stroke: var(--red); stroke-width: 2.3; fill: none; }
.t-dots { stroke: var(--green); stroke-width: 3; stroke-linecap: round; fill: none; }
.whisker { stroke: var(--ink); stroke-width: 1.3; }
.f-executed { fill: var(--cold); opacity: .35; }
.total { fill: var(--paper); stroke: var(--ink); stroke-width: 1.6; }
summary { cursor: pointer; color: var(--ours); padding: .3rem 0; }
@media screen { details:not([open]) + .folded { display: none; } }
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
CSS = BASE + OWN
