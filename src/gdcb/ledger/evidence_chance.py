"""How likely each arm was to be proposed, and each arm cell to run, in one recorded decision.

Where a launch draws whether the proposal or the incumbent's action enters the gates, what runs is
a mixture of the two: share · (what runs of a proposal) + (1 − share) · (what runs of the
incumbent's action).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb import events as ev
from gdcb.analysis.contraction import InCell
from gdcb.analysis.propensity import propensity
from gdcb.arrays import Array
from gdcb.declaration import Declaration
from gdcb.errors import GdcbError
from gdcb.instance import Instance
from gdcb.ledger.recalled import Recall
from gdcb.records import Rows
from gdcb.round import RoundState

# Where no arm is within half a step, and where nothing runs.
OTHER = ("off every arm", "nothing ran")


@dataclass(frozen=True, slots=True)
class Chances:
    """What is known of the chances in one decision.

    Parameters
    ----------
    proposed, error : (K) how likely each arm was, and the error of that; None: nobody can say
    how : method, and the probability of each cell to run by name, as the document has it
    """

    proposed: list[float | None]
    error: list[float | None]
    how: dict[str, Any] | None


def chances_of(
    live: Recall, state: RoundState, made: ev.DecisionMade, rows: Rows, draws: int
) -> Chances:
    """Return how likely the arms of one decision were, on the state that it was decided on."""
    names = live.instance.space.names
    try:
        chance = propensity(live.instance, live.bandit, state, rows, draws=draws)
        executed = _launched(live.declared, state, made, rows, chance.executed[0])
    except GdcbError:  # a part that cannot say how likely an arm was
        return Chances([None] * len(names), [None] * len(names), None)
    by_name = None
    if executed is not None:
        by_name = dict(zip((*names, *OTHER), executed.tolist(), strict=True))
    how = {"method": chance.method, "executed": by_name}
    return Chances(chance.proposed[0].tolist(), chance.error[0].tolist(), how)


def _launched(
    declared: Declaration, state: RoundState, made: ev.DecisionMade, rows: Rows, executed: Array
) -> Array | None:
    """Return the law of what runs (K + 2,), the launch's draw counted; None: it is not known.

    `executed` (K + 2,) is that law where the proposal enters the gates for sure.
    """
    share = 1.0 if made.share is None else float(made.share[0])
    if share >= 1.0:
        return executed
    action = _incumbent(declared, made, rows)
    if action is None:
        return None
    law: Array = share * executed + (1.0 - share) * _law_of(
        declared.instance, state, made, rows, action
    )
    return law


def _incumbent(declared: Declaration, made: ev.DecisionMade, rows: Rows) -> Array | None:
    """Return the incumbent's action (D,); None where it came with the request and did not enter.

    An action that came with a request is written down only where it takes the proposal's place.
    """
    if made.instead is not None and np.isfinite(made.instead[0]).all():
        return np.asarray(made.instead[0])
    instance, launch = declared.instance, declared.service.get("launch", {})
    said = launch.get("incumbent", "given")
    if isinstance(said, dict):
        return instance.encode_action(said)
    if said != "arm":
        return None
    scaler, owner = instance.scaler, np.zeros(1, dtype=np.int64)
    delta = scaler.predict(scaler.init(1), owner, rows.x)
    actions = instance.composition.compose(instance.space, delta, rows.x)
    return np.asarray(actions[0, instance.space.names.index(launch["arm"])])


def _law_of(
    instance: Instance, state: RoundState, made: ev.DecisionMade, rows: Rows, action: Array
) -> Array:
    """Return how likely each cell is to run (K + 2,) where an action (D,) enters the gates."""
    law = np.empty(instance.space.n + len(OTHER))
    entered = np.array(action, dtype=float)[None, None]
    for cell in range(law.size):
        value = InCell(instance, made.delta, rows.x, cell)
        law[cell] = instance.chain.expect(value, entered, rows, state.kernels)[0, 0]
    return law
