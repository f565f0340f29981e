"""What an instance's history and gate let one measure: the numbers behind the theorems.

All is measured on the first replicates of a block, each by itself; what is said of the instance is
the mean over them. Both loops of GDCB learn the history of each replicate and nothing else, so that
δ̂ is what a warm start has.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gdcb import credit
from gdcb import round as turn
from gdcb.analysis.bias import ContextBias, context_bias
from gdcb.analysis.contraction import cell_kernel, dobrushin
from gdcb.analysis.cross_information import CrossInformation, Design
from gdcb.analysis.ratio import VarianceRatio, variance_ratio
from gdcb.arrays import Array
from gdcb.contrast import no_private_information
from gdcb.instance import Instance
from gdcb.protocol.ground import Shared, neutral_of
from gdcb.protocol.methods import Setup
from gdcb.protocol.metrics.estimates import interval
from gdcb.records import Evidence, Log, Rows
from gdcb.refold import learns_before, warm_up

REPLICATES = 24  # of a block, so that all of this costs seconds
CONTEXTS = 256  # in which η is computed
NO_FIT = None, "the scaler does not learn from finished rows"
_SHUFFLED = 4  # replicates of which it is asked what ρ² reads by chance
_DRAWS = 200  # of a bootstrap, where there is one replicate and no interval over them


@dataclass(slots=True)
class Past:
    """The history of some replicates, and what was learned from it.

    Parameters
    ----------
    instance : with the scaler that was fitted
    log : finished rows of the first `replicates` replicates
    delta, neutral : (N, 1 or K, q) δ̂ of every row; and the δ that leaves the arms as they are
    version : (N,) of the scaler
    features, reference : (N, p), (M, p) what the scaler reads, there and in the reference sample
    state : what was learned
    is_fitted : whether the scaler could learn from the history
    """

    instance: Instance
    replicates: int
    log: Log
    delta: Array
    neutral: Array
    version: Array
    features: Array
    reference: Array
    state: turn.RoundState
    is_fitted: bool

    def rows_of(self, replicate: int) -> Array:
        """Return the rows of one replicate."""
        return np.flatnonzero(self.log.group == replicate)

    def evidence(self, is_scaled: bool) -> Evidence:
        """Return what the rows say to arms, under δ̂ or with the scaler off."""
        if is_scaled:
            return credit.evidence(self.instance, self.log, self.delta, self.version)[0]
        never = np.full_like(self.version, -2)  # nobody proposed under this δ
        return credit.evidence(self.instance, self.log, self.neutral, never)[0]

    @property
    def is_on_a_line(self) -> bool:
        """Whether arms have one coordinate, which δ moves."""
        space, joins = self.instance.space, self.instance.composition.joins
        is_line = space.coords.shape[1] == 1 and not space.is_exact.any()
        return bool(is_line and joins in ("product", "sum") and self.delta.shape[1:] == (1, 1))


def past_of(shared: Shared, setup: Setup) -> Past:
    """Return the history of a block's first replicates, and what a method learns from it alone."""
    instance, bandit = setup.instance, setup.instance.bind(setup.bandit)
    units, n = shared.study.domain.units, min(REPLICATES, shared.delta.shape[0])
    history = shared.history
    some = np.flatnonzero(history.log.group < n)
    history = history.take(some)
    group = np.repeat(np.arange(n), units)
    state = turn.init(instance, bandit, group)
    warm_up(instance, bandit, state, history, group)
    log = history.log
    delta, version = turn.scale(instance, state, log)
    neutral = neutral_of(instance).value
    places = instance.context.positions
    columns = [place for name in shared.study.features for place in places[name]]
    return Past(
        instance,
        n,
        log,
        delta,
        np.full((log.unit.size, 1, delta.shape[2]), neutral),
        version,
        log.x[:, columns],
        shared.reference[:, columns],
        state,
        learns_before(instance, history),
    )


def ratio_of(past: Past, seed: int) -> VarianceRatio:
    """Return the variance ratio, averaged over replicates, with an interval over them.

    Of a single replicate the interval is a bootstrap of its rows. The two arms are those that
    most replicates chose.
    """
    draws = _DRAWS if past.replicates == 1 else 2  # else nobody reads them
    found = [_ratio(past, replicate, seed, draws) for replicate in range(past.replicates)]
    if len(found) == 1:
        return found[0]
    pairs, often = np.unique([(one.best, one.rival) for one in found], axis=0, return_counts=True)
    best, rival = pairs[often.argmax()].tolist()
    both = np.array([[one.ratio for one in found], [one.paper for one in found]])
    (ratio, paper), (low, paper_low), (high, paper_high) = (end.tolist() for end in interval(both))
    return replace(
        found[0],
        ratio=ratio,
        low=low,
        high=high,
        paper=paper,
        paper_low=paper_low,
        paper_high=paper_high,
        noise=float(np.mean([one.noise for one in found])),
        best=best,
        rival=rival,
    )


def _ratio(past: Past, replicate: int, seed: int, draws: int) -> VarianceRatio:
    log, instance = past.log, past.instance
    rows = past.rows_of(replicate)
    rows = rows[~log.is_null[rows] & np.isfinite(log.action[rows]).all(axis=1)]
    reward = log.y[rows]
    if instance.reward.target == "class":
        action, x = log.action[rows][:, None], log.x[rows]
        reward = instance.reward.worth(reward[:, None], action, x)[:, 0]
    if not past.is_on_a_line:
        arm = past.evidence(is_scaled=False).arm[rows]
        on = arm >= 0
        x, n = past.features[rows], instance.space.n
        return variance_ratio(x[on], arm[on], reward[on], n, draws=draws, seed=seed)
    relative = instance.composition.relative(log.action[rows], log.x[rows])[:, 0]
    if instance.composition.joins == "product":  # the reward, too, is taken relative to the base
        reward = reward * instance.composition.relative(np.ones((rows.size, 1)), log.x[rows])[:, 0]
    return variance_ratio(
        past.features[rows],
        relative,
        reward,
        instance.space.coords[:, 0],
        delta=past.delta[rows, 0, 0] if past.is_fitted else None,
        joins=instance.composition.joins,
        draws=draws,
        seed=seed,
    )


def bias_of(past: Past, is_scaled: bool) -> ContextBias:
    """Return b̂ of a posterior without context, by replicate and arm: under δ̂, or scaler off.

    Features are the scaler's, and how far what ran lies from its arm.
    """
    seen, coords = past.evidence(is_scaled), past.instance.space.coords
    is_on = (seen.arm >= 0)[:, None]
    off = np.where(is_on, seen.coord - coords[np.maximum(seen.arm, 0)], 0.0)
    at_arms = np.zeros((past.reference.shape[0], off.shape[1]))
    return context_bias(
        np.concatenate((past.features, off), axis=1),
        seen.arm,
        past.log.y,
        np.concatenate((past.reference, at_arms), axis=1),
        n_arms=past.instance.space.n,
        group=past.log.group,
        row_weight=seen.weight,
        link="logistic" if past.instance.reward.target == "class" else "identity",
    )


def trust_of(past: Past) -> Array | None:
    """Return the probability that overrides carry no private information, by replicate: (R,).

    None where nobody overrides, or where the instance does not ask.
    """
    is_asked = past.instance.rules.overrides == "pooled" and past.instance.chain.has_person
    if not is_asked or not past.log.is_override.any():
        return None
    return no_private_information(past.state.contrast, np.arange(past.replicates))


def cross_of(past: Past, seed: int) -> list[CrossInformation]:
    """Return the cross-information of every replicate's history; of the first few, its noise."""
    seen = past.evidence(is_scaled=True)
    centre, n_arms = past.reference.mean(axis=0), past.instance.space.n
    found = []
    for replicate in range(past.replicates):
        rows = past.rows_of(replicate)
        arm, y = seen.arm[rows], seen.y[rows]
        slope, weight = None, None
        if past.is_on_a_line:  # what runs is c·δ or c + δ, and the outcome answers to c
            is_product = past.instance.composition.joins == "product"
            slope = np.where(arm >= 0, seen.coord[rows, 0] if is_product else 1.0, 0.0)
        if past.instance.reward.target == "class":
            on = arm >= 0  # one row of each outcome is added, so that no arm is certain
            p = np.bincount(arm[on], y[on], n_arms) + 1.0
            p /= np.bincount(arm[on], minlength=n_arms) + 2.0
            weight = (p * (1.0 - p))[np.maximum(arm, 0)]
        design = Design(arm, past.features[rows], n_arms, centre, slope, weight)
        found.append(design.cross(n_bootstrap=int(replicate < _SHUFFLED), seed=seed))
    return found


@dataclass(slots=True)
class Eta:
    """η(x) of the gate chain on arm cells, and a bound of it for each gate.

    Parameters
    ----------
    eta : (N,) the Dobrushin coefficient of the chain's kernel on arm cells, exact
    by_gate : each gate's name, and the mean of what bounds its own η(x)
    """

    eta: Array
    by_gate: dict[str, float]


def eta_of(shared: Shared, past: Past) -> Eta:
    """Return η in contexts of the run itself, spread over its episodes and units.

    These have what only the gate sees, and the gate may change in mid-run. Where context is
    endogenous they are those that the incumbent met.
    """
    nights, units = shared.world.nights, past.replicates * shared.study.domain.units
    n = min(CONTEXTS, len(nights) * units)
    rows = Rows.concatenate(
        [nights[i * len(nights) // n].take(np.array([i % units])) for i in range(n)]
    )
    delta, _ = turn.scale(past.instance, past.state, rows)
    eta = dobrushin(cell_kernel(past.instance, rows, delta), rows.mask)
    actions = past.instance.composition.compose(past.instance.space, delta, rows.x)
    bounds = past.instance.chain.contraction(actions, rows).mean(axis=0).tolist()
    names = [gate.name for gate in past.instance.chain.gates]
    return Eta(eta, dict(zip(names, bounds, strict=True)))
