"""Regret in three parts from a log alone, with intervals: live there is no oracle.

The parts are those of `gdcb.analysis.regret`, with four means in place of the truth:

- S*, the best action that the log supports;
- S_free, the best arm under δ̂ as it is composed, no gate;
- S_gated, the best arm behind the gates;
- S, what was earned.

calibration = S* − S_free, bandit = S_gated − S, gate = S_free − S_gated, total = S* − S: the parts
sum to the total. That what was proposed earned S on average behind the gates needs no estimate.

Whoever takes the largest of noisy values overrates it. So three fifths of the log choose the
action, one fifth says what it is worth, and the rows of the last correct that by what came of it
(the four ways to share out choosing and valuing are averaged):

    mean of m̂(e°, x) + t(c | x)/b(c | x)·(r − m̂(e, x))

with e° the action chosen, c the executed cell, b = P(c | x) in the log and t under the choice. That
is the value of what was *chosen*, which is at most that of the best: it leans low. The largest m̂
itself, chosen and valued by all rows, leans high. An interval reaches from the lower limit of the
first to the upper limit of the second, and is widened by the noise of the models, found by leaving
out a tenth of their rows in turn.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.analysis.contraction import arm_cells
from gdcb.analysis.what_if.another_gate import own_worth
from gdcb.analysis.what_if.answer import Limits, percent
from gdcb.analysis.what_if.coverage import NEAR, ran_nearby
from gdcb.analysis.what_if.laws import Laws, learn_laws, learn_persons
from gdcb.analysis.what_if.log import GatedLog, nulled
from gdcb.analysis.what_if.means import Features, Means, fit_apart
from gdcb.analysis.what_if.passing import through
from gdcb.analysis.what_if.questions import Propose
from gdcb.analysis.what_if.scores import limits
from gdcb.arms import Arms
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.parts import check_number
from gdcb.streams import check_seed

_FOLDS = 5
# Folds behind a row's own: one values, the three others choose, in four ways that are averaged.
_VALUE = ((1,), (2,), (3,), (4,))
_CHOOSE = ((2, 3, 4), (1, 3, 4), (1, 2, 4), (1, 2, 3))
MOST_WEIGHT = (
    20.0  # a bandit that learns leaves arms behind; larger weights cost more than they mend
)
_GROUPS = 10  # left out in turn, to see how far the valuing model's own noise moves a part
_LEAST_ROWS = 60
_BETWEEN = 4  # actions looked at from one arm to the next
_MOST_CANDIDATES = 400
_MOST_BEYOND = 0.05  # of what an arm leads to may lie in cells that never ran in like contexts


@dataclass(frozen=True, slots=True)
class LiveRegret:
    """Mean regret a round, in parts, as far as a log supports it.

    Parameters
    ----------
    total, calibration, bandit, gate : estimates with intervals; the means sum to the total. Means
        are those of what was chosen on other rows, which lean low; intervals reach to what the
        same rows would choose and value
    parts : (N, 4) the rows' scores of the four, in this order; one row's score is mostly noise
    rows : N; cumulative regret is N times the mean
    unsupported : share of rows in which some arm never ran in comparable contexts, so that it was
        not among those compared
    ess : effective rows behind S_free and S_gated, the smaller
    level : of the intervals
    says : all of it in words
    """

    total: Limits
    calibration: Limits
    bandit: Limits
    gate: Limits
    parts: Array
    rows: int
    unsupported: float
    ess: float
    level: float
    says: str

    def as_json(self) -> dict[str, Any]:
        """Return the figures as plain data."""
        figures: dict[str, Any] = {}
        for name in ("total", "calibration", "bandit", "gate"):
            one = getattr(self, name)
            figures[name] = {"mean": one.mean, "low": one.low, "high": one.high}
        for name in ("rows", "unsupported", "ess", "level", "says"):
            figures[name] = getattr(self, name)
        return figures


def live_regret(
    instance: Instance,
    log: GatedLog,
    *,
    proposal_law: Any = None,
    block: Any = None,
    near: int = NEAR,
    level: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
) -> LiveRegret:
    """Estimate R_cal, R_bandit and R_gate of the executed rounds, with block-bootstrap intervals.

    Parameters
    ----------
    instance : whose gates made the log
    log : rows in the order of time (`gdcb.analysis.what_if.gated_log`), δ as it was in force
    proposal_law : (N, K) of the log's proposals, where it is known; None: estimated
    block : (N,) rows of a block are drawn, and put into a fold, together; None: stretches of about
        N^⅓ rows
    near : contexts nearest to a row that count as comparable
    level, draws, seed : of the intervals

    Notes
    -----
    Assumes: the reward of an action in a context is the same throughout, persons used nothing
    outside x that predicts it, and contexts do not depend on what ran before.

    Stops applying: e* is the best action among those that ran in comparable contexts, up to half a
    step beyond the outer arms; what nobody tried cannot be missed. Within an arm cell the outcome
    model alone tells actions apart, and calibration is mostly that. The chosen arm is worth no more
    than the best, so the parts lean low where rows are few. An estimate may be below 0 where the
    truth cannot be.
    """
    check_number("level", level, 0.5, 1.0 - 1e-9)
    check_number("draws", draws, 20)
    check_number("near", near, 1)
    check_seed(seed)
    if log.n < _LEAST_ROWS:
        raise InvalidInput(f"log: expected at least {_LEAST_ROWS} rows, got {log.n}")
    owner = _blocks(log, block)
    law = None if proposal_law is None else Propose(proposal_law).on(log.rows, instance.space.n)
    features = Features.of(instance, log)
    fold = owner % _FOLDS
    laws = learn_laws(features, law)
    nearby = ran_nearby(features, instance.space.n + 2, near)
    arms = instance.composition.compose(instance.space, log.delta, log.rows.x)
    more = _candidates(instance, log, arms)

    def of(chooser: Means) -> _Chosen:
        behind = _behind(chooser, laws, nearby, arms)
        return _free(chooser, laws, nearby, more), _free(chooser, laws, nearby, arms), behind

    chosen = [of(chooser) for chooser in fit_apart(features, fold, _CHOOSE)]
    parts = _mean_parts(chosen, fit_apart(features, fold, _VALUE), laws)
    error = _model_error(of, features, laws, owner)
    all_rows = fit_apart(features, fold, (range(_FOLDS),))[0]
    largest = _parts(of(all_rows), all_rows, laws, is_corrected=False)

    def estimate(j: int) -> Limits:
        one, other = (
            limits(each[:, j], owner, level, int(draws), seed) for each in (parts, largest)
        )
        return _joined(one, other, float(error[j]), level)

    total, calibration, bandit, gate = (estimate(j) for j in range(4))
    can = chosen[0][1].can
    ess = min(_ess(one.weight) for each in chosen for one in each[1:])
    unsupported = float((~can.all(axis=1)).mean())
    says = _says(total, calibration, bandit, gate, unsupported, level)
    return LiveRegret(total, calibration, bandit, gate, parts, log.n, unsupported, ess, level, says)


@dataclass(slots=True)
class _Free:
    """An action chosen in every row, as if there were no gates.

    `can` (N, M) says which actions were supported; where none was, the row keeps its outcome.
    """

    action: Array
    weight: Array
    can: Array

    def score(self, value: Means, laws: Laws, is_corrected: bool) -> Array:
        log = value.features.log
        found = value(self.action)
        if is_corrected:
            found = found + self.weight * (log.reward - value(log.executed))
        return np.where(self.can.any(axis=1), found, log.reward)


@dataclass(slots=True)
class _Behind:
    """An arm chosen in every row for what it is worth behind the gates.

    Rows in which it was proposed anyway (`same`) keep their own outcome.
    """

    best: Array
    left: list[Array]
    same: Array
    weight: Array
    can: Array

    def score(self, value: Means, laws: Laws, is_corrected: bool) -> Array:
        log = value.features.log
        worth = _worth_behind(laws, value, self.left)[np.arange(log.n), self.best]
        if is_corrected:
            rest = self.weight * (log.reward - value(log.executed))
            worth = np.where(self.same, log.reward, worth) + rest
        return np.where(self.can.any(axis=1), worth, log.reward)


_Chosen = tuple[_Free, _Free, _Behind]


def _parts(chosen: _Chosen, value: Means, laws: Laws, is_corrected: bool = True) -> Array:
    """Return total, calibration, bandit and gate of every row: (N, 4)."""
    star, free, gated = (one.score(value, laws, is_corrected) for one in chosen)
    r = value.features.log.reward
    return np.stack((star - r, star - free, gated - r, free - gated), axis=1)


def _mean_parts(chosen: list[_Chosen], value: list[Means], laws: Laws) -> Array:
    """Return the parts of every row, averaged over the ways to share out choosing and valuing."""
    found = [_parts(*pair, laws) for pair in zip(chosen, value, strict=True)]
    return np.asarray(np.mean(found, axis=0))


def _model_error(
    of: Callable[[Means], _Chosen], features: Features, laws: Laws, owner: Array
) -> Array:
    """Return the standard error (4,) of the parts' means that the models are to blame for.

    The models that choose and value, and those of what persons do, are fitted without a tenth of
    the blocks in turn (jackknife); all rows are scored. What weighs rows needs none of it: its
    error is of second order.
    """
    moved, fold = np.empty((_GROUPS, 4)), owner % _FOLDS
    for j in range(_GROUPS):
        others = owner // _FOLDS % _GROUPS != j
        chosen = [of(chooser) for chooser in fit_apart(features, fold, _CHOOSE, others)]
        passed, own, _ = learn_persons(features, laws.approved, others)
        fewer = dataclasses.replace(laws, passed=passed, own=own)
        value = fit_apart(features, fold, _VALUE, others)
        moved[j] = _mean_parts(chosen, value, fewer).mean(axis=0)
    off = moved - moved.mean(axis=0)
    return np.asarray(np.sqrt((_GROUPS - 1) / _GROUPS * (off**2).sum(axis=0)))


def _joined(chosen: Limits, largest: Limits, error: float, level: float) -> Limits:
    """Return the first estimate with an interval that holds both, and the model's own error."""
    from scipy.special import ndtri

    more = float(ndtri(0.5 + level / 2.0)) * error
    low, high = [], []
    for one in (chosen, largest):
        mean = one.mean or 0.0
        low.append(mean - float(np.hypot(mean - one.low, more)))
        high.append(mean + float(np.hypot(one.high - mean, more)))
    return Limits(chosen.mean, min(low), max(high))


def _ess(weight: Array) -> float:
    square = float((weight**2).sum())
    return float(weight.sum()) ** 2 / square if square > 0 else 0.0


def _blocks(log: GatedLog, block: Any) -> Array:
    """Return the block of every row, from 0 on in the order in which they come."""
    if block is None and log.cluster is None:
        return np.asarray(np.arange(log.n) // max(1, round(log.n ** (1 / 3))))
    label = np.asarray(log.cluster if block is None else block)
    if label.shape != (log.n,):
        raise InvalidInput(f"block: expected one label a row ({log.n}), got shape {label.shape}")
    _, first, place = np.unique(label, return_index=True, return_inverse=True)
    if first.size < _FOLDS * 2:
        raise InvalidInput(f"block: expected at least {_FOLDS * 2} blocks, got {first.size}")
    return np.asarray(np.argsort(np.argsort(first))[place.reshape(-1)])


def _candidates(instance: Instance, log: GatedLog, arms: Array) -> Array:
    """Return the actions among which e* is looked for: (N, M, D), the arms among them."""
    space = instance.space
    if space.is_exact.any() or log.delta.shape[1] > 1:
        return arms
    columns = []
    for values in (np.unique(column) for column in space.coords.T):
        if values.size < 2:
            columns.append(values)
            continue
        steps = np.arange(-_BETWEEN // 2, (values.size - 1) * _BETWEEN + _BETWEEN // 2 + 1)
        ends = (2 * values[0] - values[1], *values, 2 * values[-1] - values[-2])
        columns.append(np.interp(steps / _BETWEEN, np.arange(-1.0, values.size + 1.0), ends))
    coords = np.stack(np.meshgrid(*columns, indexing="ij"), axis=-1).reshape(-1, len(columns))
    if coords.shape[0] > _MOST_CANDIDATES:
        return arms
    names = tuple(str(i) for i in range(coords.shape[0]))
    dense = Arms(names, coords, np.ones(coords.shape[1]), space.is_exact)
    found = instance.composition.compose(dense, log.delta, log.rows.x)
    return np.concatenate((arms, found), axis=1)


def _free(choose: Means, laws: Laws, nearby: Array, actions: Array) -> _Free:
    """Choose the best supported action (N, M, D) of every row, as if there were no gates."""
    log, instance = choose.features.log, choose.features.instance
    everyone = np.arange(log.n)
    cell = arm_cells(instance, actions, log.delta, log.rows.x)
    can = np.take_along_axis(nearby, cell, axis=1)
    worth = np.stack([choose(actions[:, m]) for m in range(actions.shape[1])], axis=1)
    best = np.where(can, worth, -np.inf).argmax(axis=1)
    ran = laws.behaviour[everyone, log.cell]
    is_it = cell[everyone, best] == log.cell
    weight = np.where(is_it, np.minimum(1.0 / ran, MOST_WEIGHT), 0.0)
    return _Free(actions[everyone, best], weight, can)


def _behind(choose: Means, laws: Laws, nearby: Array, arms: Array) -> _Behind:
    """Choose the best arm (N, K, D) of every row by what it is worth behind the gates."""
    log, instance = choose.features.log, choose.features.instance
    everyone, k, kernel = np.arange(log.n), arms.shape[1], laws.kernel
    can = (kernel * ~nearby[:, None, :]).sum(axis=2) <= _MOST_BEYOND
    left = [
        nulled(instance, through(instance, instance.chain.gates, arms[:, a], log.rows), log.rows.x)
        for a in range(k)
    ]
    best = np.where(can, _worth_behind(laws, choose, left), -np.inf).argmax(axis=1)
    same, share = np.zeros(log.n, dtype=bool), np.ones(log.n)
    if laws.proposed is not None:
        same, share = log.proposed == best, 1.0 - laws.proposed[everyone, best]
    target = share * kernel[everyone, best, log.cell]
    weight = np.minimum(target / laws.behaviour[everyone, log.cell], MOST_WEIGHT)
    return _Behind(best, left, same, weight, can)


def _worth_behind(laws: Laws, means: Means, left: list[Array]) -> Array:
    """Return (K̂m̂) of every arm, `left` being what the hard gates make of it: (N, K)."""
    own = own_worth(means, laws.approved)
    passed = np.stack([means(e) for e in left], axis=1)
    return np.asarray(laws.passed * passed + (1.0 - laws.passed) * own[:, None])


def _says(
    total: Limits, calibration: Limits, bandit: Limits, gate: Limits, share: float, level: float
) -> str:
    said = (
        f"A round lost {total} against the best action that the log supports: calibration "
        f"{calibration}, bandit {bandit}, gate {gate} ({100 * level:g} % intervals). What no arm "
        "could reach is calibration's, a better arm is the bandit's, and what the gates change is "
        "theirs, below 0 where they help."
    )
    if share > 0:
        said += (
            f" In {percent(share)} of the rows some arm never ran in comparable contexts; it was "
            "left out there, and what it would have been worth is in no part."
        )
    return said
