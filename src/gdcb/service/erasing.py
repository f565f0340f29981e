"""Erase a subject: destroy the keys of their personal fields, and write down what is still known.

The chain stays as it is, to the byte. Before the keys go, what the learners know is worked out
again and held against the desk's own fold. After that it cannot be, so it is written into the
chain, and whoever folds it takes it over from there.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass

from gdcb import events as ev
from gdcb.errors import Conflict, GdcbError
from gdcb.ledger.entry import check_names
from gdcb.ledger.live import Live, follow
from gdcb.ledger.recalled import recall
from gdcb.ledger.sealing import CHAIN, vault_of
from gdcb.ledger.store import Store
from gdcb.service.deciding import follow as follow_verdict
from gdcb.service.desk import Desk
from gdcb.service.operating import check_reason
from gdcb.service.turn import Turn

ENDED = "the personal fields of its subject were erased"


@dataclass(frozen=True, slots=True)
class Erasure:
    """Say what an erasure did.

    Parameters
    ----------
    keys : how many keys were destroyed; 0: the subject was not known, and nothing was written
    rows : finished decisions that refits no longer see
    ended : held decisions of the subject, which were ended: nobody can judge them any more
    replayed : whether what is known had been worked out again, and came out the same
    scrubbed : whether the database has overwritten the keys already
    """

    keys: int = 0
    rows: int = 0
    ended: tuple[str, ...] = ()
    replayed: bool = False
    scrubbed: bool = False


class Alone(Exception):
    """A command that shares its transaction with nobody; the desk runs each by itself."""


def run(desk: Desk, subject: str, reason: str, by: str) -> Erasure:
    """Erase a subject at a desk; working everything out again takes long, and runs outside."""
    check_names("subject", (subject,))
    check_reason(reason, "say why it is erased")
    if not desk.submit(lambda turn: _names(turn, subject)).result():
        return Erasure()
    past = _worked_out(desk.store, desk.chain)
    done = desk.submit(lambda turn: erase(turn, subject, reason, by, past)).result()
    desk.look(lambda live: _put_snapshot(desk.store, live)).result()
    is_scrubbed = desk.store.scrub()
    return Erasure(done.keys, done.rows, done.ended, done.replayed, is_scrubbed)


def erase(turn: Turn, subject: str, reason: str, by: str, past: Live | None = None) -> Erasure:
    """Destroy a subject's keys in the desk's own transaction, and seal what is known.

    Parameters
    ----------
    turn : the transaction
    subject, reason, by : whose fields, why, and who says so; neither reason nor `by` may name them
    past : a fold of the chain from its start, up to some entry; None: nothing is compared
    """
    check_reason(reason, "say why it is erased")
    if turn.drafts or turn.writing is None:  # what others add here would be forgotten half-way
        raise Alone
    live, writing, names = turn.live, turn.writing, _names(turn, subject)
    if not names:
        return Erasure()
    ended = [id for id in live.waiting if _key_of(live, id) in names]
    for id in ended:
        _end(turn, id, by)
    is_same = past is not None and _is_same(turn, past)
    n_kept = live.kept.numbers.size
    writing.destroy([*names, vault_of(live.chain, live.erasures)])
    vault = live.sealer.new_key(CHAIN, live.erasures + 1)
    writing.add_keys([vault], turn.now)
    turn.add(ev.SubjectErased(names, reason), by)
    live.sealer.learn([vault])
    state = base64.b64encode(live.sealer.boxed(live.to_bytes(), live.erasures)).decode()
    turn.add(ev.StateSealed(state, is_same, reason), by)
    return Erasure(len(names), n_kept - live.kept.numbers.size, tuple(ended), is_same)


def _names(turn: Turn, subject: str) -> list[str]:
    """Return the names of a subject's keys."""
    if turn.writing is None:
        raise Conflict("nothing may be erased in a look")
    return [key.name for key in turn.writing.keys_of([subject])]


def _key_of(live: Live, id: str) -> str:
    record = live.records[id]
    return "" if record.made.key is None else record.made.key[record.at]


def _end(turn: Turn, id: str, by: str) -> None:
    """End a hold: gates could not judge what a person lets through without its context."""
    record, answer = turn.live.records[id], ev.Expired(id, ENDED)
    rows, judged = record.rows, turn.live.answered(record, answer)
    turn.add(answer, by)
    follow_verdict(turn, judged, rows, by)


def _worked_out(store: Store, chain: str) -> Live | None:
    """Fold a chain from its first entry on; None where that cannot be done."""
    try:
        live = recall(store, chain)
        follow(live, store.read(chain))
    except GdcbError:
        return None
    return live


def _is_same(turn: Turn, past: Live) -> bool:
    """Bring another fold up to this point, and compare what the two know."""
    live, drafts = turn.live, turn.drafts
    size = len(live.events) - len(drafts)
    try:
        follow(past, live.store.read(live.chain, len(past.events), size))
        for number, draft in enumerate(drafts, size):
            past.take(live.events[number], draft.at, draft.by)
    except GdcbError:
        return False
    return not past.is_lossy and past.to_bytes() == live.to_bytes()


def _put_snapshot(store: Store, live: Live) -> None:
    """Let whoever opens the chain next start here; older snapshots went with their key."""
    head = store.head(live.chain)
    if head.size == len(live.events):
        store.put_snapshot(live.to_snapshot(head.hash))
