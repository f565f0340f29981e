"""The evidence of one decision as a page of its own: no script, nothing from elsewhere, prints."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gdcb.ledger.evidence import verify
from gdcb.outlook import WORDS
from gdcb.pages.style import CSS
from gdcb.pages.words import some

_STYLE = (
    CSS
    + """
h1 { font-size: 1.5rem; margin: 0 0 .2rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 1.6rem 0 .4rem; border-bottom: 1px solid var(--line); }
th { text-align: left; font-weight: 600; vertical-align: top; padding: .2rem .6rem .2rem 0; }
td { vertical-align: top; padding: .2rem .6rem .2rem 0; border-top: 1px solid var(--line);
  overflow-wrap: anywhere; }
th[scope=row] { font-weight: 400; color: var(--soft); border-top: 1px solid var(--line);
  width: 12rem; }
.good { color: var(--green); font-weight: 600; } .bad { color: var(--red); font-weight: 600; }
.soft { color: var(--soft); } .ours td { font-weight: 600; }
.hash { font-family: ui-monospace, monospace; font-size: .8rem; overflow-wrap: anywhere; }
@media print { body { max-width: none; font-size: 11px; } h2 { break-after: avoid; }
  tr { break-inside: avoid; } }
"""
)


def evidence_page(document: Mapping[str, Any], codes: Mapping[str, str] | None = None) -> str:
    """Return the page of a document that `evidence_of` returned; its proofs are checked here.

    Parameters
    ----------
    document : all that is known of the decision
    codes : the reviewers' reasons by code, as they are declared; what is not among them stands as
        it is
    """
    wrong = verify(document)
    title = f"Decision {document['id']}"
    about = f"{document['chain']}, {document['unit']}, {document['at']}"
    parts = [
        f"<h1>{_text(title)}</h1>",
        f'<p class="soft">{_text(about)}; {_text(document["asked_by"])} asked for it</p>',
        _verdict(document, wrong),
        _section("Input", _pairs(document["input"])),
        _section("How it was chosen", _chosen(document) + _arms(document)),
        _section("Gates", "".join(_gates(one) for one in document["verdicts"])),
        _section("People", _people(document, codes or {})),
        _section("What ran, and what came of it", _after(document)),
        _section("Entries in the ledger", _entries(document)),
        _section("Proof", _proof(document, wrong)),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _verdict(document: Mapping[str, Any], wrong: Sequence[str]) -> str:
    again = document["recomputed"]
    words = {
        "equal": "Worked out again, it comes out the same to the last bit.",
        "to rounding": f"Worked out again, it comes out the same to {again['tolerance']:g}.",
        "differs": "Worked out again, it comes out otherwise.",
        "erased": "It cannot be worked out again: what it was decided on was erased.",
    }
    lines = [
        f"<p><strong>{_text(document['status'])}</strong>: {_text(document['reason'])}</p>",
        _line(again["verdict"] != "differs", words[again["verdict"]]),
        _line(not wrong, "Its proofs hold." if not wrong else "Its proofs do not hold."),
    ]
    lines += [_line(False, sentence) for sentence in wrong]
    for one in again["differing"]:
        if again["verdict"] != "differs" and one["field"] == "reason":  # nothing else is otherwise
            other = f"This version would word entry {one['entry']}: {plain(one['recomputed'])}"
            lines.append(f'<p class="soft">{_text(other)}</p>')
            continue
        lines.append(
            _line(
                False,
                f"Entry {one['entry']}: {one['field']} is {plain(one['recorded'])}, and comes out "
                f"as {plain(one['recomputed'])}.",
            )
        )
    return "".join(lines)


def _chosen(document: Mapping[str, Any]) -> str:
    scaler, proposed = document["scaler"], document["proposed"]
    told: dict[str, Any] = {
        "arm": proposed["arm"],
        "nominal": proposed["nominal"],
        "δ": scaler["delta"],
        "fit of the scaler": scaler["version"],
    }
    if scaler["factors"]:
        told |= {f"factor {name}": value for name, value in scaler["factors"].items()}
    told["composed"] = proposed["action"]
    if not proposed["live"]:
        told["in its place"] = proposed["entered"]
    told["state"] = f"after {some(document['version'], 'entry', 'entries')}"
    return _pairs(told)


def _arms(document: Mapping[str, Any]) -> str:
    rows = []
    for arm in document["arms"]:
        chance = arm["probability"]
        shown = "–" if chance is None else f"{100 * chance:.1f} %"
        name = arm["name"] + ("" if arm["allowed"] else " (not allowed)")
        cells = (name, plain(arm["composed"]), _number(arm["worth"]), shown)
        is_ours = arm["name"] == document["proposed"]["arm"]
        rows.append((cells, "ours" if is_ours else ""))
    how = document["propensity"]
    note = "" if how is None else f'<p class="soft">Probabilities: {_text(how["method"])}.</p>'
    return _table(("arm", "composed", "drawn worth", "probability"), rows) + note


def _gates(verdict: Mapping[str, Any]) -> str:
    rows = [
        (
            (
                gate["name"],
                plain(gate["version"]),
                plain(gate["entered"]),
                plain(gate["left"]),
                gate["status"] + (f": {gate['fault']}" if gate["fault"] else ""),
            ),
            "",
        )
        for gate in verdict["gates"]
    ]
    head = f"<p>{verdict['at']}: <strong>{_text(verdict['status'])}</strong>, "
    if not rows:
        return f"{head}ungated: there was no gate.</p>"
    return f"{head}{_text(verdict['reason'])}</p>" + _table(
        ("gate", "version", "entered", "left", "status"), rows
    )


def answer_in_words(review: Mapping[str, Any], codes: Mapping[str, str]) -> tuple[str, str]:
    """Return what an answer of a document says, and why: its code as declared, then the words.

    >>> said = {"verdict": "edit", "action": {"price": 120.0}, "code": "fits", "reason": "a fair"}
    >>> answer_in_words(said, {"fits": "It fits"})
    ('edited to price 120', 'It fits: a fair')
    """
    to = "" if review["action"] is None else f" to {plain(review['action'])}"
    why = [codes.get(review["code"], review["code"]), review["reason"]]
    what = WORDS.get(review["verdict"], review["verdict"])
    return f"{what}{to}", ": ".join(one for one in why if one)


def outcome_in_words(document: Mapping[str, Any]) -> str:
    """Return what came of a decision, as it is known now; empty where nothing is."""
    if document["outcome"] is None:
        return ""
    values = dict(document["outcome"]["values"])
    for one in document["corrections"]:
        values.update(one["values"])
    return plain(values)


def _people(document: Mapping[str, Any], codes: Mapping[str, str]) -> str:
    rows: list[tuple[Sequence[str], str]] = [
        ((one["at"], "", f"asked by {one['gate']}", one["reason"]), "") for one in document["asked"]
    ]
    rows += [((one["at"], one["by"], "opened it", one["content"]), "") for one in document["shown"]]
    for one in document["reviews"]:
        rows.append(((one["at"], one["by"], *answer_in_words(one, codes)), ""))
    rows.sort(key=lambda row: row[0][0])
    if not rows:
        return "<p>Nobody was asked.</p>"
    return _table(("when", "who", "what", "why"), rows)


def _after(document: Mapping[str, Any]) -> str:
    told: dict[str, Any] = {}
    ran, seen, appeal = document["executed"], document["outcome"], document["appeal"]
    if ran is not None:
        how = "as reported" if ran["is_told"] else "as released"
        what = "the null action" if ran["is_null"] else plain(ran["action"])
        told["ran"] = f"{what}, {how}, {ran['at']}, {ran['by']}"
    if seen is not None:
        told["outcome"] = f"{plain(seen['values'])}, {seen['at']}, {seen['by']}"
    for one in document["corrections"]:
        told[f"corrected {one['at']}"] = f"{plain(one['values'])} by {one['by']}: {one['reason']}"
    for one in document["labels"]:
        told[f"label {one['at']}"] = one["label"]
    if appeal is not None:
        word = "upheld" if appeal["upheld"] else "turned down"
        told["appeal"] = f"{word} by {appeal['by']}: {appeal['reason']}"
    return _pairs(told) if told else "<p>Nothing has run.</p>"


def _entries(document: Mapping[str, Any]) -> str:
    rows = [
        ((str(one["entry"]), one["kind"], one["at"], one["by"], one["hash"]), "hash")
        for one in document["entries"]
    ]
    return _table(("entry", "kind", "when", "who", "hash"), rows)


def _proof(document: Mapping[str, Any], wrong: Sequence[str]) -> str:
    head = document["head"]
    size = some(head["entries"], "entry", "entries")
    fine = _line(True, "Every row is under its entry's root, and every header has its hash.")
    parts = [_line(False, sentence) for sentence in wrong] or [fine]
    parts.append(f'<p>Head of the chain: {size}, <span class="hash">{head["hash"]}</span></p>')
    for proof in (*document["declarations"], *document["proofs"]):
        told = {name: proof[name] for name in ("body_sha256", "root", "prev", "hash", "leaf")}
        told["row"] = f"{proof['row']} of {proof['rows']}"
        told["path"] = " ".join(proof["path"]) or "–"
        name = f"Entry {proof['seq']}, {proof['kind']}"
        parts.append(f"<h3>{_text(name)}</h3>{_pairs(told, 'hash')}")
    return "".join(parts)


# Pieces


def _section(title: str, body: str) -> str:
    return f"<section><h2>{_text(title)}</h2>{body}</section>"


def _pairs(told: Mapping[str, Any], kind: str = "") -> str:
    rows = "".join(
        f'<tr><th scope="row">{_text(name)}</th><td class="{kind}">{_text(plain(value))}</td></tr>'
        for name, value in told.items()
    )
    return f"<table>{rows}</table>"


def _table(head: Sequence[str], rows: Iterable[tuple[Sequence[str], str]]) -> str:
    top = "".join(f'<th scope="col">{_text(name)}</th>' for name in head)
    body = "".join(
        f'<tr class="{kind}">' + "".join(f"<td>{_text(cell)}</td>" for cell in cells) + "</tr>"
        for cells, kind in rows
    )
    scroll = '<div class="scroll" tabindex="0" role="group" aria-label="table">'
    return f"{scroll}<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"


def _line(is_good: bool, sentence: str) -> str:
    mark = "✓" if is_good else "✗"
    return f'<p class="{"good" if is_good else "bad"}">{mark} {_text(sentence)}</p>'


def plain(value: Any) -> str:
    """Return a value in few words.

    >>> plain({"price": 120.0}), plain([[1.0, None]]), plain(None)
    ('price 120', '1, –', '–')
    """
    if value is None:
        return "–"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {plain(one)}" for name, one in value.items())
    if isinstance(value, list):
        return ", ".join(plain(one) for one in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _number(value) if isinstance(value, float) else str(value)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.6g}"


def _text(words: Any) -> str:
    return html.escape(words if isinstance(words, str) else json.dumps(words))
