"""The market of a made log, played on: what a start is worth over the first rounds.

Every replicate has a log of its own, and its own best level. Starts are compared with common random
numbers: contexts, signals, answers and noise are the same for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gdcb import round as turn
from gdcb.arrays import Array
from gdcb.bandits import Bandit
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.records import Log, Rows, flatten
from gdcb.refold import publish, refold
from gdcb.streams import CONTEXT, DRAW, GATE, LABEL, OUTCOME, Streams
from gdcb.theorems.made_logs import (
    LABEL_NOISE,
    Kind,
    best_level,
    contexts,
    hidden,
    mean_reward,
    true_delta,
)
from gdcb.theorems.made_truth import best_arms, best_price


@dataclass(slots=True)
class Start:
    """What the replicates know before the first round.

    Parameters
    ----------
    state : of as many units as there are replicates
    past : finished rows that a refold must read again, unit and group being the replicate
    """

    state: turn.RoundState
    past: list[Log] = field(default_factory=list)


def cold(instance: Instance, bandit: Bandit, replicates: int) -> Start:
    """Return a start from the prior."""
    return Start(turn.init(instance, instance.bind(bandit), np.arange(replicates)))


def put(start: Start, replicate: int, state: turn.RoundState) -> None:
    """Write what one unit knows into the place of a replicate."""
    mine = flatten(start.state)
    for name, array in flatten(state).items():
        # Whose group a cell is of stays as it is here; what a part does not keep has no rows.
        if not name.endswith(".group") and array.shape[0]:
            mine[name][replicate] = array[0]


def play(
    kind: Kind,
    instance: Instance,
    bandit: Bandit,
    start: Start,
    *,
    rounds: int = 200,
    first: int = 0,
    seed: int = 0,
) -> Array:
    """Play on and return the regret of every round: (rounds, replicates).

    The regret of a proposal e is P(approve)·(μ(e°, x) − μ(e, x)), e° the price of the arm that is
    best on average: what the person would have made of either. `first` is the number of the first
    replicate's log. The start's state is used up.
    """
    state, bandit = start.state, instance.bind(bandit)
    replicates = int(state.null.count.shape[0])
    group, best = np.arange(replicates), best_level(first + np.arange(replicates))
    streams, arm = Streams(seed), best_arms(kind, best)
    approves = np.full(replicates, kind.approves_later)
    logs, regret = list(start.past), np.zeros((rounds, replicates))
    for t in range(rounds):
        rng = streams.at(CONTEXT, t)
        x = contexts(rng, replicates)
        rows = Rows(group, group, x, hidden=hidden(rng, kind, approves))
        decision = turn.decide(streams.at(DRAW, t), instance, bandit, state, rows)
        offered = np.stack((best_price(kind, x, arm), decision.action[:, 0]), axis=1)
        worth = kind.paid(mean_reward(offered, x, best))
        regret[t] = approves * (worth[:, 0] - worth[:, 1])
        verdict = turn.gate(streams.at(GATE, t), instance, decision, rows)
        executed = turn.execute(instance, verdict, rows)
        mean = mean_reward(executed.action, x, best)[:, 0] + kind.signal * _signal(rows)
        outcome = kind.sample(streams.at(OUTCOME, t), mean)
        label = None
        if instance.scaler.n_labels:
            noise = LABEL_NOISE * streams.at(LABEL, t).normal(replicates)
            label = (np.log(true_delta(x)) + noise)[:, None]
        log = turn.finished(instance, rows, decision, executed, outcome)
        due = turn.learn(instance, bandit, state, log, outcome, label, decision.delta)
        if instance.scaler.learns_from == "nothing":
            continue
        logs.append(log)
        if due.size:
            known = Log.concatenate(logs)
            changed = publish(instance, state, due, group, known)
            if changed.size:
                refold(instance, bandit, state, known, group, changed)
    return regret


def _signal(rows: Rows) -> Array:
    if rows.hidden is None:
        raise InvalidInput("rows: expected what only the person sees")
    return np.asarray(rows.hidden[:, 0])


def as_share(warm: Array, cold: Array) -> dict[str, Any]:
    """Return Σ(warm − cold) over rounds as a share of cold, replicates paired, with 95 % limits.

    The share is a ratio of means; its error is that of the residuals (warm − cold) − share·cold.

    Examples
    --------
    Regrets of 1 and 3 against 2 and 4: the difference is −1 in both replicates, a third of 3.

    >>> found = as_share(np.array([[1.0, 3.0]]), np.array([[2.0, 4.0]]))
    >>> round(found["mean"], 6), round(found["cold"], 6)
    (-0.333333, 3.0)
    """
    from scipy.special import stdtrit

    one, other = warm.sum(axis=0), cold.sum(axis=0)
    if one.shape != other.shape or one.size < 2:
        raise InvalidInput(f"expected as many replicates twice, at least 2, got {one.shape}")
    share = float((one - other).mean() / other.mean())
    rest = (one - other) - share * other
    error = float(rest.std(ddof=1)) / one.size**0.5 / abs(float(other.mean()))
    half = float(stdtrit(one.size - 1, 0.975)) * error
    return {
        "mean": share,
        "low": share - half,
        "high": share + half,
        "warm": float(one.mean()),
        "cold": float(other.mean()),
        "replicates": int(one.size),
    }
