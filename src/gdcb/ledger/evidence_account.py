"""What the entries about a decision say of it, by the names that its declaration gives.

A document is written with this, and checked with this: whoever has the proven rows works the same
account out of them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gdcb import events as ev
from gdcb.arrays import finite_or_nan
from gdcb.instance import Instance
from gdcb.ledger.about_one import Said, stamp, written
from gdcb.ledger.evidence_story import Declared, action_of, context_of, status_of, story_of


def account_of(
    declared: Declared, said: Sequence[Said], rows: Sequence[int], together: int
) -> dict[str, Any]:
    """Return what the entries say of a decision: `gdcb.ledger.evidence.evidence_of` has the keys.

    Parameters
    ----------
    declared : the declarations in force
    said : the entries about it, each with an event of one row; the first one is its own
    rows : its row in each of them, as it was written
    together : how many rows its request has
    """
    first, made = said[0], made_in(said[0])
    number = first.entry.seq
    request: dict[str, Any] = {"id": made.batch[0], "row": int(made.row[0]), "rows": together}
    if made.nonce is not None:
        request["nonce"] = made.nonce[0]
    return {
        "chain": first.entry.chain,
        "id": made.id[0],
        "unit": made.unit[0],
        "at": written(first.entry.at),
        "asked_by": first.entry.by if made.by is None else made.by[0],
        "request": request,
        **_standing(said),
        **_choice(declared.at(number), made),
        **story_of(declared, said),
        "entries": [
            {**stamp(one), "kind": one.entry.kind, "hash": one.entry.hash.hex(), "row": row}
            for one, row in zip(said, rows, strict=True)
        ],
    }


def made_in(said: Said) -> ev.DecisionMade:
    """Return the decision as it was made; TypeError where it is something else."""
    if not isinstance(said.event, ev.DecisionMade):
        raise TypeError(f"expected DecisionMade, got {type(said.event).__name__}")
    return said.event


def _standing(said: Sequence[Said]) -> dict[str, Any]:
    judged = [one.event for one in said if isinstance(one.event, ev.GateApplied)]
    if not judged:
        return {"status": "open", "reason": ""}
    return {"status": status_of(int(judged[-1].status[0])), "reason": judged[-1].reason[0]}


def _choice(instance: Instance, made: ev.DecisionMade) -> dict[str, Any]:
    """Return what went in, and what was proposed."""
    space, arm = instance.space, int(made.arm[0])
    worth = ev.plain(made.worth[0])
    composed = None
    if np.isfinite(made.x).all():  # else some of it was erased
        composed = finite_or_nan(instance.composition.compose(space, made.delta, made.x))[0]
    is_live = made.instead is None or not bool(np.isfinite(made.instead[0]).all())
    entered = made.action[0] if is_live or made.instead is None else made.instead[0]
    return {
        "input": context_of(instance, made.x[0]),
        "version": made.version,
        "scaler": {"version": int(made.scaler_version[0]), "delta": made.delta[0].tolist()},
        "arms": [
            {
                "name": space.names[k],
                "allowed": made.mask is None or bool(made.mask[0, k]),
                "nominal": space.coords[k].tolist(),
                "composed": None if composed is None else action_of(instance, composed[k]),
                "worth": worth[k],
            }
            for k in range(space.n)
        ],
        "proposed": {
            "arm": space.names[arm],
            "nominal": space.coords[arm].tolist(),
            "action": action_of(instance, made.action[0]),
            "live": is_live,
            "share": None if made.share is None else float(made.share[0]),
            "entered": action_of(instance, entered),
        },
    }
