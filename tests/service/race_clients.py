"""Servers that can be killed, people and programs who talk to them, and what must hold after."""

from __future__ import annotations

from collections import Counter

from gdcb import events as ev
from gdcb.ledger.audit import verify_chain
from gdcb.ledger.live import Live, begun, follow, opened
from gdcb.ledger.store import Store
from tests.service.desks import everything, known

# What must hold of a ledger, whatever happened to who wrote it


def check_ledger(store: Store, chain: str) -> Live:
    """Check a chain, its index, its snapshot and its executions; return its fold."""
    audit = verify_chain(store, chain)
    assert audit.ok, audit.findings
    quick, whole = opened(store, chain), begun(store, chain)
    follow(whole, store.read(chain))
    assert everything(quick) == everything(whole)
    ids = [id for event in whole.events if isinstance(event, ev.DecisionMade) for id in event.id]
    assert max(Counter(ids).values(), default=1) == 1
    for id in ids:
        assert known(quick.records[id]) == known(whole.records[id])
    ran = Counter(
        id for event in whole.events if isinstance(event, ev.ActionExecuted) for id in event.id
    )
    assert max(ran.values(), default=1) == 1, ran.most_common(3)
    assert set(ran) <= set(ids)
    assert [id for id in ids if whole.records[id].status == "held"] == sorted(
        whole.waiting, key=ids.index
    )
    return whole
