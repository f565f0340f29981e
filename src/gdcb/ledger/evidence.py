"""One decision whole: what went in, how it was chosen, who changed it and why, what came of it.

Everything is taken from the entries about it, worked out again on the state that it was decided
on, and proven: `verify` checks the proof from the document alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gdcb import declaration
from gdcb import events as ev
from gdcb.cases import made_event, rows_of
from gdcb.errors import BrokenChain
from gdcb.instance import Instance
from gdcb.ledger.about_one import Said, entries_about
from gdcb.ledger.differing import TOLERANCE, Compared, compare
from gdcb.ledger.entry import Entry
from gdcb.ledger.evidence_account import account_of, made_in
from gdcb.ledger.evidence_chance import Chances, chances_of
from gdcb.ledger.evidence_check import FORMAT, verify
from gdcb.ledger.evidence_story import Declared
from gdcb.ledger.live import follow
from gdcb.ledger.proof import alone, proof_of
from gdcb.ledger.recalled import Recall, declared_in, recall
from gdcb.ledger.replaying import chosen
from gdcb.ledger.store import Store
from gdcb.outlook import keys_of
from gdcb.records import Decision, Rows
from gdcb.round import RoundState, delta_of

__all__ = ["evidence_of", "verify"]

_BLOCK = 1_000  # entries that are gone through first; then twice as many, and so on


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

    format : 2
    chain, id, unit, at, asked_by : which decision, whose, when, and who asked for it
    request : {id, row, rows, nonce}: the request that it was part of, and what was drawn for it
        when it was taken; no nonce where the decision is from before there were any
    status, reason : where it stands now, and why
    input : the context by name
    version : entries behind the state that it was decided on
    scaler : {version, delta, factors}: the fit in force, δ (arms or 1, columns), and its factors
        by name where the scaler has them
    arms : [{name, allowed, nominal, composed, worth, probability, error}]: every arm with its
        coordinates, what it would have been composed to under δ, its drawn value, and how likely
        it was to be proposed
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
    declarations : proofs of the entries that declare the instance as it was when the decision was
        made, and when a verdict came after a change
    proofs : what `verify` checks, an entry each; see `gdcb.ledger.proof.proof_of`
    head : {entries, hash}: how far the chain went when this was written
    recomputed : {verdict, based_on, tolerance, worst, differing}: 'equal', 'to rounding',
        'differs', or 'erased' where its input, or what taught the state behind it, is gone;
        entries behind the snapshot that was taken as said
    """
    head = store.head(chain)
    said = entries_about(store, chain, id)
    number = said[0].entry.seq
    live = recall(store, chain, number)
    based_on = len(live.events)
    follow(live, store.read(chain, based_on, number))
    # What stands under a subject's key is told while the key is there; proven is what is written.
    read = [alone(replace(one, event=live.event_of(one.entry))) for one in said]
    made = made_in(read[0])
    rows = rows_of(live.places([made.unit[0]]), made.x, made.mask)
    decision = None
    if np.isfinite(made.x).all() and not live.is_lossy:
        decision = live.propose(keys_of(made), rows)
    in_force = _in_force(store, live, said)
    declared = Declared(tuple((one.entry.seq, _instance(live, one)) for one in in_force))
    together = made_in(said[0]).batch.count(made.batch[0])
    document: dict[str, Any] = {"format": FORMAT}
    document |= account_of(declared, read, [one.row for one in said], together)
    document |= _worked_out(live, document, made, rows, decision, draws)
    return document | {
        "declarations": [proof_of(one) for one in in_force],
        "proofs": [proof_of(one) for one in said],
        "head": {"entries": head.size, "hash": head.hash.hex()},
        "recomputed": {"based_on": based_on}
        | _recomputed(live, read, made, rows, decision, tolerance),
    }


# Which declarations were in force


def _in_force(store: Store, live: Recall, said: Sequence[Said]) -> list[Said]:
    """Return the entries that declare the instance as it was for each verdict, in order.

    `live` has come to the decision. The first declaration is found at once; another one is looked
    for from the decision back, since no index says where it is.
    """
    number = said[0].entry.seq
    found = _said(*store.get(live.chain, [0]))
    if found is None or _text(found) != live.text:
        found = _latest(store, live.chain, 0, number)
    if found is None:
        raise BrokenChain(f"chain '{live.chain}': no entry before {number} declares it")
    in_force = [found]
    for one in said:
        if isinstance(one.event, ev.GateApplied):
            found = _latest(store, live.chain, number, one.entry.seq)
            in_force += [] if found is None else [found]
            number = one.entry.seq
    return in_force


def _latest(store: Store, chain: str, start: int, stop: int) -> Said | None:
    """Return the last declaration among the entries from `start` up to, not including, `stop`."""
    size, found = _BLOCK, None
    while found is None and stop > start:
        at = max(start, stop - size)
        for entry in store.read(chain, at, stop):
            found = _said(entry) or found
        stop, size = at, 2 * size
    return found


def _said(entry: Entry) -> Said | None:
    """Return what an entry declares; None where it is about something else."""
    event = declared_in(entry)
    return None if event is None else Said(entry, event, 0)


def _text(said: Said) -> str:
    return said.event.declaration if isinstance(said.event, ev.InstanceChanged) else ""


def _instance(live: Recall, said: Said) -> Instance:
    """Return the instance that an entry declares."""
    text = _text(said)
    return (
        live.instance if text == live.text else declaration.parse(text, is_recorded=True).instance
    )


# What is worked out again


def _worked_out(
    live: Recall,
    document: dict[str, Any],
    made: ev.DecisionMade,
    rows: Rows,
    decision: Decision | None,
    draws: int,
) -> dict[str, Any]:
    """Return what no entry says: chances of the arms, and the factors of δ."""
    state = live.room(int(rows.unit.max()) + 1)[0]
    n, factors = live.instance.space.n, None
    chance = Chances([None] * n, [None] * n, None)
    if decision is not None:
        chance = chances_of(live, state, made, rows, draws)
        factors = factors_of(live.instance, state, rows)
    return {
        "scaler": document["scaler"] | {"factors": factors},
        "arms": [
            arm | {"probability": chance.proposed[k], "error": chance.error[k]}
            for k, arm in enumerate(document["arms"])
        ],
        "propensity": chance.how,
    }


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
        decision,
        made.id,
        made.batch,
        made.row,
        made.version,
        made.unit,
        rows,
        launched,
        made.by,
        made.nonce,
    )
    if made.key is not None:
        again = replace(again, sealed=made.sealed, key=made.key)
    result = Compared()
    result.add(compare(number, made, again, tolerance), 100)
    judged = next((one for one in said if isinstance(one.event, ev.GateApplied)), None)
    if judged is not None:
        gated = live.gated(made, rows)
        result.add(compare(judged.entry.seq, judged.event, gated, tolerance), 100)
    verdict = "differs" if result.differ else "to rounding" if result.rounded else "equal"
    return {
        "verdict": verdict,
        "tolerance": tolerance,
        "worst": result.worst,
        "differing": [one.as_json() for one in result.found],
    }


def factors_of(instance: Instance, state: RoundState, rows: Rows) -> dict[str, float] | None:
    """Return the factors of the first row's δ by name; None where the scaler has no names.

    Where a limit holds δ back, one more factor, 'limit', says by how much: their product is δ.
    """
    scaler: Any = instance.scaler
    if not hasattr(scaler, "by_factor"):
        return None
    owner = rows.unit if scaler.per == "unit" else rows.group
    found = scaler.by_factor(state.scaler, owner, rows.x)[0].tolist()
    named = dict(zip(scaler.names, found, strict=True))
    plain = float(scaler.predict(state.scaler, owner, rows.x)[0, 0, 0])
    held = float(delta_of(instance, state, owner, rows.x)[0, 0, 0])
    return named if held == plain else named | {"limit": held / plain}
