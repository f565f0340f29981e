"""From the document of a decision's evidence to the page that shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from gdcb.ledger.evidence_page import answer_in_words
from gdcb.ledger.proof import check_proof
from gdcb.outlook import WORDS
from gdcb.service.pages.views import audit as screen
from gdcb.service.pages.views.decision import Action, GateStep, Quantity
from gdcb.service.pages.views.frame import Frame
from gdcb.service.pages.views.review import Factor
from gdcb.service.web.build import digits_of
from gdcb.service.who import name_of

Document = Mapping[str, Any]
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_ACTED = ("modified", "vetoed", "held", "expired")


def evidence_view(
    frame: Frame, document: Document, at: int, composition: str, codes: Mapping[str, str]
) -> Any:
    """Return the page of a document that was made at a time, µs.

    Parameters
    ----------
    frame : what stands around it
    document : as `gdcb.ledger.evidence.evidence_of` writes it
    at : when it was worked out
    composition : name of the part that composed the action
    codes : the reviewers' reasons by code, as they are declared
    """
    proposed, verdicts = document["proposed"], document["verdicts"]
    ran, last = document["executed"], verdicts[-1] if verdicts else None
    return screen.EvidenceView(
        frame=frame,
        id=document["id"],
        unit=document["unit"],
        status=document["status"],
        at=moment(document["at"]),
        proposed=action(proposed["action"]),
        executed=None if ran is None else action(ran["action"]),
        rule=_rule(document),
        timeline=tuple(timeline(document, codes)),
        context=tuple(Quantity(name, _value(v)) for name, v in document["input"].items()),
        chances=tuple(
            screen.Chance(arm["name"], arm["probability"], arm["worth"], is_chosen)
            for arm, is_chosen in _arms(document)
        ),
        factors=tuple(factors(document)),
        composition=composition,
        nominal=(Quantity("arm", proposed["arm"]),),
        gates=() if last is None else tuple(steps(last)),
        seen=tuple(seen(document, codes)),
        outcome=tuple(outcome(document)),
        versions=(
            ("state", f"entry {document['version']}"),
            ("scaler", str(document["scaler"]["version"])),
            ("chain", f"{document['head']['entries']} entries"),
            ("head", str(document["head"]["hash"])),
        ),
        proof=proof(document["proofs"][0]) if document["proofs"] else None,
        replay=replayed(document["recomputed"], at),
    )


def moment(written: str) -> int:
    """Read a time of a document, µs.

    >>> moment("1970-01-01T00:00:01.000002Z")
    1000002
    """
    return (datetime.fromisoformat(written) - _EPOCH) // timedelta(microseconds=1)


def action(named: Mapping[str, Any] | None) -> Action:
    """Return an action by name as pages show it; empty where nothing runs."""
    found = ((name, _value(value)) for name, value in (named or {}).items())
    return tuple(Quantity(name, value, digits=digits_of(value)) for name, value in found)


def _value(value: Any) -> float | str | None:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if value is None or isinstance(value, str) else float(value)


def _arms(document: Document) -> list[tuple[Mapping[str, Any], bool]]:
    chosen = document["proposed"]["arm"]
    return [(arm, arm["name"] == chosen) for arm in document["arms"]]


def _rule(document: Document) -> str:
    """Return the gate that had the last word; of one that was let through, who had been asked."""
    for verdict in reversed(document["verdicts"]):
        acted = [g["name"] for g in verdict["gates"] if g["status"] in _ACTED]
        if acted:
            return str(acted[-1])
    return ""


def steps(verdict: Mapping[str, Any]) -> Iterator[GateStep]:
    """Yield what each gate did; the reason of a verdict is that of the last gate that acted."""
    acted = [i for i, gate in enumerate(verdict["gates"]) if gate["status"] in _ACTED]
    for i, gate in enumerate(verdict["gates"]):
        reason = verdict["reason"] if acted and i == acted[-1] else ""
        yield GateStep(
            gate["name"],
            gate["status"],
            action(gate["entered"]),
            action(gate["left"]),
            gate["fault"] or reason,
            "" if gate["version"] is None else str(gate["version"]),
        )


def factors(document: Document) -> Iterator[Factor]:
    """Yield the scaler's factors by name, or δ where it has no names for them."""
    scaler = document["scaler"]
    if scaler["factors"]:
        for name, delta in scaler["factors"].items():
            yield Factor(name, None, float(delta))
        return
    rows = scaler["delta"]
    for i, row in enumerate(rows):
        of = "all arms" if len(rows) == 1 else document["arms"][i]["name"]
        for j, delta in enumerate(row):
            yield Factor(of if len(row) == 1 else f"{of}, column {j + 1}", None, float(delta))


def timeline(document: Document, codes: Mapping[str, str]) -> Iterator[screen.Entry]:
    """Yield every entry about the decision, with what it says in short."""
    said = _said(document, codes)
    for one in document["entries"]:
        number = one["entry"]
        yield screen.Entry(
            number,
            moment(one["at"]),
            name_of(one["by"]),
            one["kind"],
            said.get(number, ""),
            one["hash"],
        )


def _said(document: Document, codes: Mapping[str, str]) -> dict[int, str]:
    """Return what entries say, by their numbers."""
    proposed = document["proposed"]
    found = {}
    if document["entries"]:
        live = "" if proposed["live"] else "; the incumbent's action entered the gates instead"
        found[document["entries"][0]["entry"]] = f"arm {proposed['arm']}{live}"
    for one in (*document["verdicts"], *document["asked"]):
        found[one["entry"]] = one["reason"]
    for one in document["reviews"]:
        what, why = answer_in_words(one, codes)
        found[one["entry"]] = f"{what}: {why}" if why else what
    for one in document["corrections"]:
        found[one["entry"]] = f"{_named(one['values'])}: {one['reason']}"
    if document["outcome"] is not None:
        found[document["outcome"]["entry"]] = _named(document["outcome"]["values"])
    if document["executed"] is not None:
        ran = document["executed"]
        what = "the null action" if ran["is_null"] else _named(ran["action"] or {})
        found[ran["entry"]] = f"{what}{', as was reported' if ran['is_told'] else ''}"
    if document["appeal"] is not None:
        end = "upheld" if document["appeal"]["upheld"] else "turned down"
        found[document["appeal"]["entry"]] = f"{end}: {document['appeal']['reason']}"
    return found


def _named(values: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {value:.6g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in values.items()
    )


def seen(document: Document, codes: Mapping[str, str]) -> list[screen.Seen]:
    """Return who looked at the decision and who answered it, in order."""
    found = [
        screen.Seen(name_of(one["by"]), moment(one["at"]), "looked") for one in document["shown"]
    ]
    for one in document["reviews"]:
        what = WORDS.get(one["verdict"], one["verdict"])
        by, at = name_of(one["by"]), moment(one["at"])
        code = codes.get(one["code"], one["code"])
        found.append(screen.Seen(by, at, what, code, one["reason"]))
    return sorted(found, key=lambda one: one.at)


def outcome(document: Document) -> list[Quantity]:
    """Return what came of it, as it is known now."""
    if document["outcome"] is None:
        return []
    values = dict(document["outcome"]["values"])
    for one in document["corrections"]:
        values.update(one["values"])
    return [Quantity(name, _value(value)) for name, value in values.items()]


def proof(given: Mapping[str, Any]) -> screen.Proof:
    """Return how the decision's row hangs in the chain, and whether it does."""
    leaf = sha256(b"\0" + bytes.fromhex(given["leaf"])).hexdigest()
    return screen.Proof(
        int(given["row"]),
        leaf,
        tuple(zip(sides(given["row"], given["rows"]), given["path"], strict=False)),
        given["root"],
        given["hash"],
        given["prev"],
        not check_proof(given),
    )


def sides(row: int, rows: int) -> list[str]:
    """Return on which side of the way up from a row each hash of its path stands.

    >>> sides(2, 3), sides(1, 3)
    (['left'], ['left', 'right'])
    """
    found, last = [], rows - 1
    while last > 0:
        if row & 1 or row < last:
            found.append("left" if row & 1 else "right")
        row, last = row >> 1, last >> 1
    return found


def replayed(again: Mapping[str, Any], at: int) -> screen.Replay:
    """Return whether the decision came out the same when it was made again."""
    verdict = again["verdict"]
    words = {
        "equal": "To the last bit.",
        "to rounding": f"Numbers are apart by at most {again['worst']:.2g}, which is rounding.",
    }
    differing: Sequence[Mapping[str, Any]] = again["differing"]
    return screen.Replay(
        at,
        verdict != "differs",
        words.get(verdict, "Something comes out otherwise."),
        tuple((str(d["field"]), str(d["recorded"]), str(d["recomputed"])) for d in differing)
        if verdict == "differs"
        else (),
    )
