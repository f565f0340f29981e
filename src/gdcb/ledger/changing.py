"""Which changes of a declaration leave the meaning of what was learned, and what they cost."""

from __future__ import annotations

import json
from typing import Any

from gdcb.agent import Agent
from gdcb.declaration import Declaration
from gdcb.errors import Conflict
from gdcb.parts import describe


def check_change(old: Declaration, new: Declaration) -> None:
    """Refuse a change under which what was learned would no longer mean the same.

    What gates say and the service's policy may change. Another context, other arms, another
    composition, scaler, reward or bandit is another instance. So are other gates: verdicts are
    written down gate by gate, and those on decisions that are held or have no outcome yet are
    read again.
    """
    one, other = old.instance, new.instance
    gates = [[(gate.name, gate.is_person) for gate in it.chain.gates] for it in (one, other)]
    if gates[0] != gates[1]:
        names = ", ".join(name for name, _ in gates[0]) or "none"
        raise Conflict(
            f"gates: expected {names}, in this order; their settings may change, a gate more or "
            "less is a new instance"
        )
    pairs: list[tuple[str, Any, Any]] = [
        (name, getattr(one, name), getattr(other, name))
        for name in (
            "context",
            "arms",
            "composition",
            "scaler",
            "reward",
            "null",
            "cells",
            "rules",
        )
    ]
    pairs += [("adjustment", one.adjustment, other.adjustment), ("bandit", old.bandit, new.bandit)]
    pairs += [("name", one.name, other.name)]
    for name, before, after in pairs:
        if settings_of(before) != settings_of(after):
            raise Conflict(
                f"{name}: what was learned would no longer mean the same; gates and [service] may "
                "change, anything else is a new instance"
            )


def settings_of(part: Any) -> str:
    """Return a part's settings as text: the same for two that do the same."""
    return json.dumps(describe(part), sort_keys=True)  # as text, since NaN is no number's equal


def kernels_under(live: Agent, declared: Declaration) -> tuple[Any, ...]:
    """Return what is known of each gate: of those that stayed as they are, what was learned."""
    chain, n_columns = declared.instance.chain, len(declared.instance.actions)
    n_groups = int(live.group.max()) + 1
    fresh = chain.init_kernels(live.group.size, n_groups, n_columns)
    known = {
        gate.name: (settings_of(gate), kernel)
        for gate, kernel in zip(live.instance.chain.gates, live.state.kernels, strict=True)
    }
    return tuple(
        known[gate.name][1]
        if gate.name in known and known[gate.name][0] == settings_of(gate)
        else kernel
        for gate, kernel in zip(chain.gates, fresh, strict=True)
    )
