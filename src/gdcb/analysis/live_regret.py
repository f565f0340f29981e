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
from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.analysis.live_choice import Choice, Ground
from gdcb.analysis.what_if.answer import Limits, percent
from gdcb.analysis.what_if.coverage import NEAR
from gdcb.analysis.what_if.laws import learn_laws, learn_persons
from gdcb.analysis.what_if.log import GatedLog
from gdcb.analysis.what_if.means import Features, Means, fit_apart
from gdcb.analysis.what_if.questions import Propose
from gdcb.analysis.what_if.scores import limits
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.parts import check_number
from gdcb.streams import check_seed

_FOLDS = 5
# Folds behind a row's own: one values, the three others choose, in four ways that are averaged.
_VALUE = ((1,), (2,), (3,), (4,))
_CHOOSE = ((2, 3, 4), (1, 3, 4), (1, 2, 4), (1, 2, 3))
_GROUPS = 10  # left out in turn, to see how far the valuing model's own noise moves a part
_LEAST_ROWS, _MOST_ROWS = 60, 30_000


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
    log : rows in the order of time (`gdcb.analysis.gated_log`), δ as it was in force; of a long run
        the latest rounds, 30,000 at most
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
    truth cannot be. A bandit that has learned leaves few rows for the arms it has left: with an
    `ess` below 100 or so, intervals are too short (81 to 89 % for the gate and the total).
    """
    check_number("level", level, 0.5, 1.0 - 1e-9)
    check_number("draws", draws, 20)
    check_number("near", near, 1)
    check_seed(seed)
    if log.n < _LEAST_ROWS:
        raise InvalidInput(f"log: expected at least {_LEAST_ROWS} rows, got {log.n}")
    if log.n > _MOST_ROWS:
        raise InvalidInput(f"log: expected at most {_MOST_ROWS} rows, the latest; got {log.n}")
    owner = _blocks(log, block)
    fold = owner % _FOLDS
    law = None if proposal_law is None else Propose(proposal_law).on(log.rows, instance.space.n)
    features = Features.of(instance, log)
    ground = Ground.of(features, learn_laws(features, law), int(near))
    chosen = [ground.choose(chooser) for chooser in fit_apart(features, fold, _CHOOSE)]
    parts = _mean_parts(ground, chosen, fit_apart(features, fold, _VALUE))
    error = _model_error(ground, owner)
    all_rows = fit_apart(features, fold, (range(_FOLDS),))[0]
    largest = _parts(log.reward, ground.value(ground.choose(all_rows), all_rows, False))

    def estimate(j: int) -> Limits:
        one, other = (
            limits(each[:, j], owner, level, int(draws), seed) for each in (parts, largest)
        )
        return _joined(one, other, float(error[j]), level)

    total, calibration, bandit, gate = (estimate(j) for j in range(4))
    unsupported = float((~ground.can[:, : instance.space.n].all(axis=1)).mean())
    ess = min(ground.ess(choice) for choice in chosen)
    says = _says(total, calibration, bandit, gate, unsupported, level)
    return LiveRegret(total, calibration, bandit, gate, parts, log.n, unsupported, ess, level, says)


def _parts(r: Array, values: tuple[Array, Array, Array]) -> Array:
    """Return total, calibration, bandit and gate of every row: (N, 4)."""
    star, free, gated = values
    return np.stack((star - r, star - free, gated - r, free - gated), axis=1)


def _mean_parts(ground: Ground, chosen: list[Choice], value: list[Means]) -> Array:
    """Return the parts of every row, averaged over the ways to share out choosing and valuing."""
    pairs = zip(chosen, value, strict=True)
    r = ground.features.log.reward
    return np.asarray(np.mean([_parts(r, ground.value(*pair)) for pair in pairs], axis=0))


def _model_error(ground: Ground, owner: Array) -> Array:
    """Return the standard error (4,) of the parts' means that the models are to blame for.

    The models that choose and value, and those of what persons do, are fitted without a tenth of
    the blocks in turn (jackknife); all rows are scored. What weighs rows needs none of it: its
    error is of second order.
    """
    features, laws = ground.features, ground.laws
    moved, fold = np.empty((_GROUPS, 4)), owner % _FOLDS
    for j in range(_GROUPS):
        others = owner // _FOLDS % _GROUPS != j
        passed, own, _ = learn_persons(features, laws.approved, others)
        fewer = dataclasses.replace(ground, laws=dataclasses.replace(laws, passed=passed, own=own))
        chosen = [ground.choose(chooser) for chooser in fit_apart(features, fold, _CHOOSE, others)]
        value = fit_apart(features, fold, _VALUE, others)
        moved[j] = _mean_parts(fewer, chosen, value).mean(axis=0)
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
