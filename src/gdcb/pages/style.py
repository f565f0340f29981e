"""How every page looks: its colours on light and on dark paper, its letters, its marks."""

from __future__ import annotations

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
table { border-collapse: collapse; width: 100%; font-size: .9rem;
  font-variant-numeric: tabular-nums; }
.n { text-align: right; white-space: nowrap; } .n:last-child { padding-right: 0; }
.scroll { overflow-x: auto; margin: 0 0 .6rem; }
.scroll:focus-visible { outline: 2px solid var(--ours); }
.chart { display: block; width: 100%; height: auto; overflow: visible; }
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
code { overflow-wrap: anywhere; font-size: .92em; } .wrap { overflow-wrap: anywhere; }
"""
