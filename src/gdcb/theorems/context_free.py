"""The bias of a context-free warm-up against the truth, scaler on and off, and what it costs.

Truth and estimate speak of the same thing: the booking rate that an arm's rows of the history
show, less the rate that the arm has over a frozen sample of contexts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gdcb import credit
from gdcb import round as turn
from gdcb.analysis.bias import ContextBias, context_bias
from gdcb.arrays import Array
from gdcb.bandits import Bandit, BetaThompson, CurveThompson
from gdcb.instance import Instance
from gdcb.records import History, Rows
from gdcb.streams import CONTEXT, WORLD, Streams
from gdcb.theorems import warm_start
from gdcb.theorems.warm_start import ARMS, Reviewed, behind, paired, past, warmed

SCALERS = {"none": "off", "outcomes": "fitted on the history", "known": "known"}
LEARNERS: dict[str, Bandit] = {
    "flat arms": BetaThompson(),
    "curve": CurveThompson(prior_mean=(0.0, -1.5), prior_sd=(1.5, 1.0)),
}
_LARGE = 60_000  # rows from which the truth is computed
_REFERENCE = 500


def world_of(own_sd: float) -> Reviewed:
    """Return the world: three columns of context, nobody knows more than they say."""
    return Reviewed(spread=0.3, own_sd=own_sd, weights=(0.7, -0.5, 0.5))


def reference(world: Reviewed, seed: int) -> Array:
    """Return the frozen sample of contexts: (M, p)."""
    group = np.arange(_REFERENCE)
    state = world.start(Streams(seed).at(WORLD, 0), group)
    return world.context(Streams(seed).at(CONTEXT, warm_start.BEFORE + 1), state, 0, group).x


def estimated(
    instance: Instance, state: turn.RoundState, history: History, contexts: Array
) -> tuple[ContextBias, Array]:
    """Return b̂ of every replicate and arm, and the arm that each row is credited to.

    Features are the context and how far the executed price lies from its arm, which is 0 where
    the arm itself runs.
    """
    log = history.log
    delta, version = turn.scale(instance, state, log)
    seen, _ = credit.evidence(instance, log, delta, version)
    off = np.where(seen.arm >= 0, seen.coord[:, 0] - np.array(ARMS)[np.maximum(seen.arm, 0)], 0.0)
    found = context_bias(
        np.concatenate((log.x, off[:, None]), axis=1),
        seen.arm,
        log.y,
        np.concatenate((contexts, np.zeros((contexts.shape[0], 1))), axis=1),
        n_arms=len(ARMS),
        group=log.group,
        link="logistic",
    )
    return found, seen.arm


def true_bias(
    instance: Instance, world: Reviewed, state: turn.RoundState, contexts: Array, seed: int
) -> Array:
    """Return b(a) of every replicate under its own δ: (R, K). All replicates share one demand."""
    large = past(instance, world, 1, _LARGE, seed)
    demand = world.start(Streams(seed).at(WORLD, 0), np.zeros(1, dtype=np.int64))
    booked = world.booked(demand, large.log.action[:, None], large.rows)[:, 0]
    n_groups = state.null.count.size
    at = np.zeros(contexts.shape[0], dtype=np.int64)
    rows = Rows(at, at, contexts)
    out = np.empty((n_groups, len(ARMS)))
    for g in range(n_groups):
        log = replace(large.log, unit=large.log.unit + g, group=large.log.group + g)
        delta, version = turn.scale(instance, state, log)
        seen, _ = credit.evidence(instance, log, delta, version)
        on = seen.arm >= 0
        ran = np.bincount(seen.arm[on], booked[on], len(ARMS)) / np.bincount(seen.arm[on])
        here = instance.scaler.predict(state.scaler, at + g, contexts)
        actions = instance.composition.compose(instance.space, here, contexts)
        out[g] = ran - world.booked(demand, actions, rows).mean(axis=0)
    return out


def bias_figures(scaler: str, replicates: int, nights: int, seed: int) -> dict[str, Any]:
    """Return b̂ beside b, arm by arm, and how often the interval held it."""
    world = world_of(0.0)
    instance, bandit = behind(world, scaler, False), BetaThompson()
    history = past(instance, world, replicates, nights, seed)
    state, contexts = warmed(instance, bandit, history), reference(world, seed)
    found, _ = estimated(instance, state, history, contexts)
    truth = true_bias(instance, world, state, contexts, seed + 1)
    inside = (found.low <= truth) & (truth <= found.high)
    gap = found.bias - truth
    sizes = np.sqrt(np.mean(truth**2))
    return {
        "scaler": SCALERS[scaler],
        "arms": list(ARMS),
        "truth": truth.mean(axis=0),
        "estimate": np.nanmean(found.bias, axis=0),
        "standard_error": np.nanmean(found.standard_error, axis=0),
        "posterior_error": np.nanmean(np.sqrt(found.noise[:, None] / found.n), axis=0),
        "weight": found.weight.mean(axis=0),
        "coverage": inside.mean(axis=0),
        "coverage_all": float(inside.mean()),
        "root_mean_square": float(sizes),
        "root_mean_square_error": float(np.sqrt(np.nanmean(gap**2))),
        "mean_weight": float((found.weight * found.n).sum() / found.n.sum()),
        "correlation": float(np.corrcoef(truth.ravel(), found.bias.ravel())[0, 1])
        if sizes > 0.02
        else None,
    }


def cost_figures(
    scaler: str, learner: str, replicates: int, nights: int, rounds: int, seed: int
) -> dict[str, Any]:
    """Return regret above the floor: cold, warm, and warm with rows weighed by the bias.

    'weighed': each arm's rows by its own n_eff; 'together': all rows by the bias that they share.
    """
    world, bandit = world_of(0.15), LEARNERS[learner]
    instance = behind(world, scaler, False)
    history = past(instance, world, replicates, nights, seed)
    known = warmed(instance, bandit, history)
    found, arm = estimated(instance, known, history, reference(world, seed))
    starts = {
        "cold": None,
        "warm": history,
        "weighed": _weighed(history, found.of_rows(history.log.group, arm)),
        "together": _weighed(history, found.shared_weight[history.log.group]),
    }
    floors: dict[int, Array] = {}
    runs = {
        name: warm_start.regret(
            instance, bandit, world, start, floors, rounds=rounds, replicates=replicates, seed=seed
        )
        for name, start in starts.items()
    }
    at = sorted({min(50, rounds), rounds})

    def gaps(first: str, second: str) -> list[dict[str, float]]:
        return [paired(runs[first][t - 1], runs[second][t - 1]) for t in at]

    return {
        "scaler": SCALERS[scaler],
        "learner": learner,
        "episodes": at,
        "regret": {name: [float(run[t - 1].mean()) for t in at] for name, run in runs.items()},
        "warm_minus_cold": gaps("warm", "cold"),
        "weighed_minus_cold": gaps("weighed", "cold"),
        "weighed_minus_warm": gaps("weighed", "warm"),
        "together_minus_cold": gaps("together", "cold"),
        "together_minus_warm": gaps("together", "warm"),
    }


def _weighed(history: History, weight: Array) -> History:
    return History(replace(history.log, weight=weight), history.rows, history.verdict)
