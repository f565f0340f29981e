"""How a certificate looks: on a phone, on a desk, dark, and on one sheet of A4, both sides."""

from __future__ import annotations

from gdcb.pages.style import CSS as BASE

OWN = """
body { max-width: 62rem; }
h1 { font-size: 1.35rem; line-height: 1.2; margin: 0; }
h2 { font-size: 1.05rem; margin: 1.5rem 0 .3rem; padding-top: .3rem;
  border-top: 2px solid var(--ink); }
h3 { font-size: .95rem; margin: .8rem 0 .1rem; } p, ul { margin: .3rem 0; }
ul { padding-left: 1.1rem; } li { margin: .15rem 0; overflow-wrap: anywhere; }
header p { color: var(--soft); margin: .2rem 0 .9rem; overflow-wrap: anywhere; }
.verdict { display: flex; gap: 1rem; border: 2px solid var(--c); border-left-width: 10px;
  padding: .7rem 1rem; background: var(--tint); }
.verdict svg { flex: none; width: 3rem; height: 3rem; }
.verdict h2 { border: 0; margin: 0; padding: 0; font-size: 1.35rem; line-height: 1.2; }
.verdict p, .verdict ul { margin-bottom: 0; }
.sign { fill: none; stroke: var(--c); stroke-width: 4; stroke-linecap: round;
  stroke-linejoin: round; }
.override { border: 6px double var(--red); padding: .6rem 1rem; margin: 0 0 .8rem; }
.override h2 { border: 0; margin: 0; padding: 0; color: var(--red); font-size: 1.25rem; }
.override blockquote { margin: .3rem 0; padding-left: .8rem; border-left: 4px solid var(--red);
  font-weight: 700; overflow-wrap: anywhere; }
.rests { border: 2px solid var(--ink); padding: .5rem 1rem; margin: .8rem 0 0; }
.rests h2 { border: 0; margin: 0; padding: 0; } .rests ol { margin: .3rem 0; padding-left: 1.4rem; }
.untested, .doubted, .tested { font-weight: 600; color: var(--red); }
.tested { color: var(--green); }
.doubted { font-weight: 700; border-bottom: 2px solid; } .doubted::before { content: "⚠ "; }
th, td { text-align: left; padding: .22rem .8rem .22rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
thead th { border-bottom: 2px solid var(--ink); vertical-align: bottom; font-weight: 600; }
tbody th { font-weight: 600; } td, th { overflow-wrap: break-word; }
th.n { white-space: normal; } .why { min-width: 15rem; } .name { min-width: 5rem; }
.name span { font-weight: 400; } .figure { min-width: 9rem; width: 27%; }
.result, .what { white-space: nowrap; }
.notes { columns: 24rem; column-gap: 1.6rem; font-size: .9rem; } .notes li { break-inside: avoid; }
.bias { white-space: nowrap; } .bias svg { vertical-align: -4px; margin-right: .5rem; }
.within { fill: var(--line); opacity: .75; } .whisker { stroke: var(--c); stroke-width: 2; }
.is-refuse th, .is-refuse td { color: var(--soft); } .found { font-weight: 700; }
.legend { color: var(--soft); font-size: .88rem; } .time { max-width: 32rem; }
.span { stroke: var(--c); stroke-width: 7; } .cut { stroke: var(--red); stroke-width: 2; }
.number { fill: var(--paper); stroke: var(--red); stroke-width: 1.6; }
.scroll, .scroll table { margin: 0; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr));
  gap: 0 1.6rem; }
dl { margin: .2rem 0; font-size: .9rem; } dt { font-weight: 600; } dd { margin: 0 0 .3rem; }
dl.facts { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem; }
dl.facts dd { margin: 0; overflow-wrap: anywhere; }
.glossary { columns: 19rem; column-gap: 1.6rem; } .glossary div { break-inside: avoid; }
.glossary dt, .glossary dd { display: inline; } .glossary dt::after { content: ":"; }
.glossary div { margin-bottom: .2rem; }
.signatures { display: grid; grid-template-columns: 2fr 2fr 1fr; gap: 0 1.6rem;
  margin-top: 2.4rem; }
.signatures p { border-top: 1px solid var(--ink); margin: 0; padding-top: .1rem;
  font-size: .9rem; }
@media screen and (max-width: 40rem) {
  body { padding: .8rem .7rem 2rem; } table { font-size: .82rem; }
  .verdict { padding: .6rem .7rem; gap: .7rem; } .verdict svg { width: 2rem; height: 2rem; }
  .scroll .stay { position: sticky; left: 0; background: var(--paper); max-width: 8rem; }
  .rests { padding: .5rem .7rem; }
  .stacked :is(table, tbody, tr, th, td) { display: block; width: auto; min-width: 0; }
  .stacked thead { display: none; } .stacked .stay { position: static; max-width: none; }
  .stacked :is(th, td) { padding-right: 0; overflow-wrap: anywhere; }
  .stacked :is(th, .figure) { border: 0; padding-bottom: 0; }
  .why { min-width: 10rem; } .figure { min-width: 0; } .name { min-width: 0; }
  dl.facts { display: block; } dl.facts dd { margin-bottom: .3rem; }
  .signatures { grid-template-columns: 1fr; } .signatures p { margin-bottom: 2.4rem; } }
@page { size: A4; margin: 8mm 10mm; }
@media print {
  body { max-width: none; padding: 0; font: 8pt/1.2 Arial, Helvetica, "Liberation Sans",
    "Nimbus Sans", "DejaVu Sans Condensed", sans-serif; }
  .verdict, .chart, .bias svg { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  h1 { font-size: 11pt; display: inline; } header p { display: inline; margin: 0 0 0 3mm; }
  header { margin-bottom: 1mm; }
  h2 { font-size: 9pt; margin: 1mm 0 .2mm; padding-top: .2mm; border-top-width: 1px;
    break-after: avoid; }
  p, ul { margin: .3mm 0; } ul { padding-left: 3mm; } li { margin: 0; }
  .verdict, .override { padding: .8mm 2mm; } .verdict { gap: 2.5mm; }
  .verdict svg { width: 7mm; height: 7mm; } .verdict h2, .override h2 { font-size: 11pt; }
  .override { margin-bottom: 1mm; border-width: 4px; }
  .rests { padding: .4mm 2mm; margin: 1mm 0 0; border-width: 1px; font-size: 7.6pt; }
  .rests ol { columns: 2; column-gap: 4mm; margin: 0; padding-left: 4mm; }
  .rests li { break-inside: avoid; }
  .override blockquote { margin: .3mm 0 0; }
  #done + ul, .verdict ul { columns: 2; column-gap: 4mm; } .verdict li { break-inside: avoid; }
  .scroll { overflow: visible; } table { font-size: 7.8pt; } tr { break-inside: avoid; }
  th, td { padding: .15mm 2mm .15mm 0; } thead th { border-bottom-width: 1px; }
  .bias svg { width: 26mm; height: 2.6mm; vertical-align: -.4mm; }
  .why, .name, .figure { min-width: 0; } .legend { font-size: 7.2pt; }
  .notes { columns: 2; column-gap: 4mm; font-size: 7.6pt; }
  dl { font-size: 7.6pt; margin: 0; } dl.facts { gap: 0 2mm; }
  .pair { grid-template-columns: 1fr 1fr; gap: 0 4mm; }
  .uneven { grid-template-columns: 6fr 5fr; }
  .drawn { grid-template-columns: 4fr 5fr; } .time { max-height: 17mm; }
  .glossary { columns: 4; column-gap: 3mm; font-size: 7pt; line-height: 1.15; }
  .glossary div { margin-bottom: .1mm; }
  .signatures { margin-top: 5.5mm; break-inside: avoid; } .signatures p { font-size: 7.8pt; }
  code { font-size: 1em; } a { color: inherit; } }
"""
CSS = BASE + OWN
