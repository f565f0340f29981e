"""What happened to one decision after it was proposed, as people read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb import events as ev
from gdcb.arrays import Array
from gdcb.cases import label_at
from gdcb.context import Category, Flag
from gdcb.instance import Instance
from gdcb.ledger.about_one import Said, stamp
from gdcb.records import NOT_REACHED, STATUS


@dataclass(frozen=True, slots=True)
class Declared:
    """The declarations of one instance that were in force, in the order of their entries.

    Parameters
    ----------
    instances : number of the entry that put it in force, and the instance; the first came before
        the decision
    """

    instances: tuple[tuple[int, Instance], ...]

    def at(self, number: int) -> Instance:
        """Return the instance as it was declared when an entry was written."""
        return [instance for since, instance in self.instances if since < number][-1]


def context_of(instance: Instance, x: Array) -> dict[str, Any]:
    """Return a context (p,) by name, as it was given; None where it is not known any more."""
    found: dict[str, Any] = {}
    for name, kind in instance.context.columns.items():
        at = list(instance.context.positions[name])
        if not np.isfinite(x[at]).all():
            found[name] = None
        elif isinstance(kind, Category):
            found[name] = kind.levels[int(np.argmax(x[at]))]
        else:
            found[name] = bool(x[at[0]] > 0.5) if isinstance(kind, Flag) else float(x[at[0]])
    return found


def story_of(declared: Declared, said: Sequence[Said]) -> dict[str, Any]:
    """Return what happened to it after it was proposed.

    A change of the declaration leaves all names as they are; what it changes is the gates'
    versions, so each verdict has those that were in force when it was given.
    """
    found: dict[str, Any] = {
        name: [] for name in ("verdicts", "asked", "shown", "reviews", "corrections", "labels")
    }
    found |= {"executed": None, "outcome": None, "appeal": None}
    for one in said:
        event, row, when = one.event, one.row, stamp(one)
        instance = declared.at(one.entry.seq)
        names = instance.reward.outcome
        if isinstance(event, ev.GateApplied):
            found["verdicts"].append(when | _verdict(instance, event, row))
        elif isinstance(event, ev.ReviewRequested):
            told = {"gate": event.gate[row], "reason": event.reason[row]}
            found["asked"].append(when | told)
        elif isinstance(event, ev.Shown):
            found["shown"].append(when | {"by": event.by, "content": event.content})
        elif isinstance(event, ev.Reviewed | ev.Expired):
            found["reviews"].append(when | _review(instance, event))
        elif isinstance(event, ev.ActionExecuted):
            found["executed"] = when | {
                "action": action_of(instance, event.action[row]),
                "is_null": bool(event.is_null[row]),
                "is_told": event.is_told,
            }
        elif isinstance(event, ev.OutcomeObserved):
            values = dict(zip(names, event.outcome[row].tolist(), strict=True))
            weight = float(event.weight[row])
            label = label_at(event, row)
            found["outcome"] = when | {"values": values, "label": label, "weight": weight}
        elif isinstance(event, ev.OutcomeCorrected):
            values = dict(zip(names, event.outcome, strict=True))
            found["corrections"].append(when | {"values": values, "reason": event.reason})
        elif isinstance(event, ev.LabelObserved):
            found["labels"].append(when | {"label": event.label})
        elif isinstance(event, ev.AppealDecided):
            found["appeal"] = when | {
                "by": event.by,
                "upheld": event.upheld,
                "reason": event.reason,
            }
    return found


def _verdict(instance: Instance, event: ev.GateApplied, row: int) -> dict[str, Any]:
    gates = instance.chain.gates
    known = [(gate.name, getattr(gate, "version", None)) for gate in gates]
    n = event.statuses.shape[1]
    names = known if len(known) == n else [(f"gate {i}", None) for i in range(n)]
    return {
        "status": status_of(int(event.status[row])),
        "action": action_of(instance, event.action[row]),
        "reason": event.reason[row],
        "gates": [
            {
                "name": name,
                "version": version,
                "entered": action_of(instance, event.trail[row, i]),
                "left": action_of(instance, event.trail[row, i + 1]),
                "status": status_of(int(event.statuses[row, i])),
                "fault": event.faults.get(f"{row} {i}"),
            }
            for i, (name, version) in enumerate(names)
        ],
    }


def _review(instance: Instance, event: ev.Reviewed | ev.Expired) -> dict[str, Any]:
    action = None if event.action is None else action_of(instance, np.array(event.action))
    if isinstance(event, ev.Expired):
        told: dict[str, Any] = {"verdict": "expired", "action": action, "code": ""}
        return told | {"reason": event.reason}
    return {
        "by": event.by,
        "verdict": event.verdict,
        "action": action,
        "code": event.code,
        "reason": event.reason,
    }


def action_of(instance: Instance, action: Array) -> dict[str, Any] | None:
    """Return an action (D,) by name; None where nothing runs."""
    return instance.decode_action(np.asarray(action))


def status_of(code: int) -> str:
    """Return a status as a word.

    >>> status_of(3), status_of(-1)
    ('held', 'not reached')
    """
    return "not reached" if code == NOT_REACHED else STATUS[code]
