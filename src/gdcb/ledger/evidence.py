"""One decision whole: what went in, how it was chosen, who changed it and why, what came of it.

Everything is taken from the entries about it, worked out again on the state that it was decided
on, and proven: `verify` checks the proof from the document alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gdcb import events as ev
from gdcb.cases import made_event, rows_of
from gdcb.instance import Instance
from gdcb.ledger.about_one import Said, entries_about, stamp, written
from gdcb.ledger.differing import TOLERANCE, Compared, compare
from gdcb.ledger.evidence_chance import Chances, chances_of
from gdcb.ledger.evidence_story import action_of, context_of, status_of, story_of
from gdcb.ledger.live import follow
from gdcb.ledger.proof import check_proof, proof_of, read_leaf
from gdcb.ledger.recalled import Recall, recall
from gdcb.ledger.replaying import chosen
from gdcb.ledger.store import Store
from gdcb.records import Decision, Rows

FORMAT = 1


def evidence_of(
    store: Store, chain: str, id: str, *, tolerance: float = TOLERANCE, draws: int = 2_000
) -> dict[str, Any]:
    """Return all that is known of a decision, as values that JSON has.

    Parameters
    ----------
    store, chain, id : which decision
    tolerance : how far numbers that come out again may be apart
    draws : repetitions of the decision, where its propensity has no closed form

    Returns
    -------
    A document with these keys; what is not there is null, times are ISO 8601 (UTC).

    format : 1
    chain, id, unit, at, asked_by : which decision, whose, when, and who asked for it
    request : {id, row, rows}: the request that it was part of
    status, reason : where it stands now, and why
    input : the context by name
    version : entries behind the state that it was decided on
    scaler : {version, delta, factors}: the fit in force, δ (arms or 1, columns), and its factors
        by name where the scaler has them
    arms : [{name, allowed, nominal, composed, worth, probability, error}]: every arm with its
        coordinates, what it would have been composed to, its drawn value, and how likely it was
        to be proposed
    propensity : {method, executed}: how the probabilities were found; probability of each arm cell
        to run, then 'off every arm', then 'nothing ran', where the launch's draw between proposal
        and incumbent counts. `executed` is null where the incumbent's action came with the
        request and did not enter the gates: it is not written down then
    proposed : {arm, nominal, action, live, share, entered}: what was proposed, and what entered
        the gates
    verdicts : [{entry, at, by, status, action, reason, gates}], the last one in force; gates:
        [{name, version, entered, left, status, fault}]
    asked : [{entry, at, by, gate, reason}]: when a person was asked
    shown : [{entry, at, by, content}]: who opened it, and the hash of what they saw
    reviews : [{entry, at, by, verdict, action, code, reason}]: a person's answers, and expiry
    executed : {entry, at, by, action, is_null, is_told}: what ran
    outcome : {entry, at, by, values, label, weight}
    corrections : [{entry, at, by, values, reason}]
    labels : [{entry, at, by, label}]
    appeal : {entry, at, by, upheld, reason}
    entries : [{entry, kind, at, by, hash, row}]: every entry about it
    proofs : what `verify` checks, an entry each; see `gdcb.ledger.proof.proof_of`
    head : {entries, hash}: how far the chain went when this was written
    recomputed : {verdict, based_on, tolerance, worst, differing}: 'equal', 'to rounding',
        'differs', or 'erased' where its input, or what taught the state behind it, is gone;
        entries behind the snapshot that was taken as said
    """
    head = store.head(chain)
    said = entries_about(store, chain, id)
    first = said[0]
    live = recall(store, chain, store.snapshot(chain, first.entry.seq))
    based_on = len(live.events)
    follow(live, store.read(chain, based_on, first.entry.seq))
    # What stands under a subject's key is told while the key is there; proven is what is written.
    read = [replace(one, event=live.event_of(one.entry)) for one in said]
    made = _made(read[0])
    rows = rows_of(live.places([made.unit[0]]), made.x, made.mask)
    decision = None
    if np.isfinite(made.x).all() and not live.is_lossy:
        decision = live.propose([(made.batch[0], int(made.row[0]))], rows)
    document: dict[str, Any] = {
        "format": FORMAT,
        "chain": chain,
        "id": id,
        "unit": made.unit[0],
        "at": written(first.entry.at),
        "asked_by": first.entry.by if made.by is None else made.by[0],
        "request": _request(first),
    }
    document |= _standing(read)
    document |= _inputs(live, made, rows, decision, draws)
    document |= story_of(live.instance, read)
    document |= {
        "entries": [
            {**stamp(one), "kind": one.entry.kind, "hash": one.entry.hash.hex(), "row": one.row}
            for one in said
        ],
        "proofs": [proof_of(one) for one in said],
        "head": {"entries": head.size, "hash": head.hash.hex()},
        "recomputed": {"based_on": based_on}
        | _recomputed(live, read, made, rows, decision, tolerance),
    }
    return document


def verify(document: Mapping[str, Any]) -> list[str]:
    """Check the proofs in a document, from it alone; return what is wrong, nothing where all fits.

    Each row is held against its entry's root, and each entry's header against its hash. Then what
    the document tells is held against the proven rows: id, input to the gates, arm and action,
    worth, verdict, what ran, outcome. That the entries stand in the chain is for `gdcb ledger
    verify`, or for whoever has kept the head.
    """
    wrong: list[str] = []
    try:
        read: dict[int, dict[str, Any]] = {}
        for proof in document["proofs"]:
            wrong += check_proof(proof)
            read[proof["seq"]] = read_leaf(proof) | {"kind": proof["kind"]}
            if proof["chain"] != document["chain"]:
                wrong.append(f"Entry {proof['seq']} is of chain '{proof['chain']}'.")
            if read[proof["seq"]].get("id") != document["id"]:
                wrong.append(f"Entry {proof['seq']} is not about decision '{document['id']}'.")
        if not document["proofs"] or document["proofs"][0]["kind"] != "DecisionMade":
            return [*wrong, "The document does not prove that the decision was made."]
        wrong += _told_otherwise(document, read)
    except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
        wrong.append(f"The document cannot be read ({type(error).__name__}: {error}).")
    return wrong


def _told_otherwise(document: Mapping[str, Any], read: dict[int, dict[str, Any]]) -> list[str]:
    """Return where the document tells something else than its proven rows."""
    made = read[document["proofs"][0]["seq"]]
    names = [arm["name"] for arm in document["arms"]]
    ran, seen = document["executed"], document["outcome"]
    pairs: list[tuple[str, Any, Any]] = [
        ("unit", document["unit"], made["unit"]),
        ("arm", document["proposed"]["arm"], names[made["arm"]]),
        ("worth", [arm["worth"] for arm in document["arms"]], made["worth"]),
        ("scaler version", document["scaler"]["version"], made["scaler_version"]),
        ("delta", document["scaler"]["delta"], made["delta"]),
        ("action", *_numbers(document["proposed"]["action"], made["action"])),
    ]
    inputs = [value for value in document["input"].values() if isinstance(value, float)]
    if None not in made["x"]:  # else some of it stands under a subject's key
        pairs += [("input", value, value if value in made["x"] else None) for value in inputs]
    for verdict in document["verdicts"]:
        row = read[verdict["entry"]]
        pairs += [("status", verdict["status"], status_of(row["status"]))]
        if not row["reason"].startswith("sealed:"):  # else it is told under a subject's key
            pairs += [("reason", verdict["reason"], row["reason"])]
    for review in document["reviews"]:
        row = read[review["entry"]]
        pairs += [("reason", review["reason"], row["reason"])]
        pairs += [("answer", review["verdict"], row.get("verdict", "expired"))]
    if ran is not None:
        row = read[ran["entry"]]
        pairs += [("null", ran["is_null"], row["is_null"])]
        pairs += [("what ran", *_numbers(ran["action"], row["action"]))]
    if seen is not None:
        pairs += [("outcome", list(seen["values"].values()), read[seen["entry"]]["outcome"])]
    told = {one["entry"] for one in document["entries"]}
    odd = [
        f"The document says {name} {said!r}, and its entry {proven!r}."
        for name, said, proven in pairs
        if said != proven
    ]
    odd += [f"Entry {number} is told of and not proven." for number in sorted(told - read.keys())]
    return odd


def _numbers(told: Mapping[str, Any] | None, proven: list[float | None]) -> tuple[Any, Any]:
    """Return a named action and a proven one, to be compared; categories are numbers there."""
    if told is None:
        return None in proven, True
    named = list(told.values())
    numbers = [value for value, said in zip(proven, named, strict=True) if isinstance(said, float)]
    return [said for said in named if isinstance(said, float)], numbers


# What is in a document


def _made(said: Said) -> ev.DecisionMade:
    """Return the decision as a batch of one."""
    event, one = said.event, slice(said.row, said.row + 1)
    if not isinstance(event, ev.DecisionMade):
        raise TypeError(f"expected DecisionMade, got {type(event).__name__}")
    columns: dict[str, Any] = {name: getattr(event, name) for name in event.columns}
    alone: dict[str, Any] = {k: None if v is None else v[one] for k, v in columns.items()}
    return replace(event, **alone)


def _request(said: Said) -> dict[str, Any]:
    made: Any = said.event
    name = made.batch[said.row]
    return {"id": name, "row": int(made.row[said.row]), "rows": made.batch.count(name)}


def _standing(said: list[Said]) -> dict[str, Any]:
    judged = [one for one in said if isinstance(one.event, ev.GateApplied)]
    if not judged:
        return {"status": "open", "reason": ""}
    last: Any = judged[-1].event
    row = judged[-1].row
    return {"status": status_of(int(last.status[row])), "reason": last.reason[row]}


def _inputs(
    live: Recall, made: ev.DecisionMade, rows: Rows, decision: Decision | None, draws: int
) -> dict[str, Any]:
    instance, space = live.instance, live.instance.space
    state = live.room(int(rows.unit.max()) + 1)[0]
    chance = Chances([None] * space.n, [None] * space.n, None)
    if decision is not None:
        chance = chances_of(live, state, made, rows, draws)
    worth = ev.plain(made.worth[0])
    composed = None if decision is None else decision.actions
    arms = [
        {
            "name": space.names[k],
            "allowed": made.mask is None or bool(made.mask[0, k]),
            "nominal": space.coords[k].tolist(),
            "composed": None if composed is None else action_of(instance, composed[0, k]),
            "worth": worth[k],
            "probability": chance.proposed[k],
            "error": chance.error[k],
        }
        for k in range(space.n)
    ]
    arm = int(made.arm[0])
    is_live = made.instead is None or not bool(np.isfinite(made.instead[0]).all())
    entered = made.action[0] if is_live or made.instead is None else made.instead[0]
    return {
        "input": context_of(instance, made.x[0]),
        "version": made.version,
        "scaler": {
            "version": int(made.scaler_version[0]),
            "delta": made.delta[0].tolist(),
            "factors": None if decision is None else _factors(instance, state.scaler, rows),
        },
        "arms": arms,
        "propensity": chance.how,
        "proposed": {
            "arm": space.names[arm],
            "nominal": space.coords[arm].tolist(),
            "action": action_of(instance, made.action[0]),
            "live": is_live,
            "share": None if made.share is None else float(made.share[0]),
            "entered": action_of(instance, entered),
        },
    }


def _factors(instance: Instance, state: Any, rows: Rows) -> dict[str, float] | None:
    scaler: Any = instance.scaler
    if not hasattr(scaler, "by_factor"):
        return None
    owner = rows.unit if scaler.per == "unit" else rows.group
    found = scaler.by_factor(state, owner, rows.x)[0].tolist()
    return dict(zip(scaler.names, found, strict=True))


def _recomputed(
    live: Recall,
    said: list[Said],
    made: ev.DecisionMade,
    rows: Rows,
    decision: Decision | None,
    tolerance: float,
) -> dict[str, Any]:
    """Hold the recorded decision, and the gates' first answer, against what comes out."""
    if decision is None:
        return {"verdict": "erased", "tolerance": tolerance, "worst": 0.0, "differing": []}
    number = said[0].entry.seq
    decision = chosen(made, decision, tolerance)
    launched = (made.share, made.drawn_by, made.instead)
    again = made_event(
        decision, made.id, made.batch, made.row, made.version, made.unit, rows, launched, made.by
    )
    if made.key is not None:
        again = replace(again, sealed=made.sealed, key=made.key)
    result = Compared()
    result.add(compare(number, made, again, tolerance), 100)
    judged = next((one for one in said if isinstance(one.event, ev.GateApplied)), None)
    if judged is not None and isinstance(judged.event, ev.GateApplied):
        one = slice(judged.row, judged.row + 1)
        event = judged.event
        alone = replace(
            event,
            **{name: getattr(event, name)[one] for name in event.columns},
            faults={
                f"0 {key.split(' ')[1]}": text
                for key, text in event.faults.items()
                if key.split(" ")[0] == str(judged.row)
            },
        )
        result.add(compare(judged.entry.seq, alone, live.gated(made, rows), tolerance), 100)
    verdict = "differs" if result.differ else "to rounding" if result.rounded else "equal"
    return {
        "verdict": verdict,
        "tolerance": tolerance,
        "worst": result.worst,
        "differing": [one.as_json() for one in result.found],
    }
