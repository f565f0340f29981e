"""Regret in three parts from a log alone, with intervals: live there is no oracle.

The parts are those of `gdcb.analysis.regret` for the very rounds of the log, with an outcome model
m̂ in place of μ and what the log says of gates, K̂, in place of K:

- calibration = m̂(e°) − max_a m̂(Φ(a, δ̂)), e° the best action that the log supports;
- bandit = max_a (K̂m̂)(Φ(a, δ̂)) − (K̂m̂)(e_rec);
- gate = [max_a m̂(Φ(a, δ̂)) − max_a (K̂m̂)(Φ(a, δ̂))] + [(K̂m̂)(e_rec) − m̂(e_exec)].

They sum to m̂(e°) − m̂(e_exec). Where outcomes are classes with known payoffs, m̂ is a logistic
regression and the payoff multiplies.

The largest of noisy values is too large, by an amount that falls as 1/N. A jackknife, which fits m̂
and K̂ without a twentieth of the blocks in turn, says by how much, B̂, and how far noise moves the
parts, ŝ. The estimate is the plug-in less ½B̂ (the whole of it would cost more noise than it mends),
and the interval reaches ½|B̂| + t·ŝ to both sides, t with 19 degrees of freedom: it holds what one
would say with all of the mending, and with none. Rows and actions are held fixed, since the regret
asked for is theirs.

A model may be wrong. Rows in which the best action ran anyway tell: their residuals, weighted by
t(c | x)/b(c | x) (the doubly robust correction), are 0 but for noise where m̂ is right. By as much
as they are not, beyond twice their standard error, the interval is longer on that side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.analysis.interval import Interval
from gdcb.analysis.live_choice import Ground
from gdcb.analysis.live_means import Rows
from gdcb.analysis.what_if.answer import percent
from gdcb.analysis.what_if.coverage import NEAR
from gdcb.analysis.what_if.laws import learn_laws
from gdcb.analysis.what_if.log import GatedLog
from gdcb.analysis.what_if.means import Features
from gdcb.analysis.what_if.questions import Propose
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.parts import check_number

_GROUPS = 20  # of blocks, left out in turn
_LEAST_BLOCKS = 10
_NOISE = 2.0  # standard errors up to which weighted residuals are noise
_MOST_BEYOND = 0.05  # of the rows: more is said
_LEAST_ROWS, _MOST_ROWS = 60, 30_000
_COVERS = (
    "this part of the mean regret a round, against the best action that the log supports, if the "
    "reward of an action in a context is the same throughout, persons used nothing outside x that "
    "predicts it, contexts do not depend on what ran before, and the outcome model is right where "
    "the rows that ran the best action cannot contradict it"
)


@dataclass(frozen=True, slots=True)
class LiveRegret:
    """Mean regret a round, in parts, as far as a log supports it.

    Parameters
    ----------
    total, calibration, bandit, gate : estimates with intervals; the means sum to the total
    parts : (N, 4) the same of every row, by the outcome model, in this order
    rows : N; cumulative regret is N times the mean
    unsupported : share of rows in which some arm never ran in comparable contexts, so that it was
        not among those compared
    beyond : share of rows in which the outcome model expects most of such an arm: the gate's part
        is likely too low then, and its interval too short
    ess : effective rows that ran what is called best, of action, arm or arm behind the gates: the
        fewest. The fewer, the further a model must be off there to be noticed
    misfit : (4,) by how much the rows that ran what is called best contradict the outcome model,
        beyond noise; the intervals are longer by it. Mostly 0
    level : of the intervals
    says : all of it in words
    """

    total: Interval
    calibration: Interval
    bandit: Interval
    gate: Interval
    parts: Array
    rows: int
    unsupported: float
    beyond: float
    ess: float
    misfit: Array
    level: float
    says: str

    def as_json(self) -> dict[str, Any]:
        """Return the figures as plain data."""
        figures: dict[str, Any] = {}
        for name in ("total", "calibration", "bandit", "gate"):
            one = getattr(self, name)
            figures[name] = {"mean": one.mean, "low": one.low, "high": one.high}
        figures["covers"] = _COVERS
        figures["misfit"] = self.misfit.tolist()
        for name in ("rows", "unsupported", "beyond", "ess", "level", "says"):
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
) -> LiveRegret:
    """Estimate R_cal, R_bandit and R_gate of the executed rounds, with intervals.

    Parameters
    ----------
    instance : whose gates made the log
    log : rows in the order of time (`gdcb.analysis.gated_log`), δ as it was in force; of a long run
        the latest rounds, 30,000 at most
    proposal_law : (N, K) of the log's proposals, where it is known; None: estimated
    block : (N,) rows of a block are left out together; None: stretches of about N^⅓ rows
    near : contexts nearest to a row that count as comparable
    level : of the intervals

    Notes
    -----
    Assumes: the reward of an action in a context is the same throughout, persons used nothing
    outside x that predicts it, and contexts do not depend on what ran before.

    Stops applying: e° is the best action among those that ran in comparable contexts, up to half a
    step beyond the outer arms; what nobody tried cannot be missed, and where a hard gate keeps the
    best arm from ever running, the gate's part is too low by that. The outcome model (curves in
    the action, quadratic in x) carries the estimate; only where it is wrong by more than the noise
    of the rows that ran the best action does the interval say so. Rows that a bandit chose by
    earlier outcomes are taken as if they had been chosen by their contexts. Simulated coverage,
    and where it falls short, is in the documentation; `python -m benchmarks.live_regret` measures
    it.
    """
    check_number("level", level, 0.5, 1.0 - 1e-9)
    check_number("near", near, 1)
    if log.n < _LEAST_ROWS:
        raise InvalidInput(f"log: expected at least {_LEAST_ROWS} rows, got {log.n}")
    if log.n > _MOST_ROWS:
        raise InvalidInput(f"log: expected at most {_MOST_ROWS} rows, the latest; got {log.n}")
    owner = _blocks(log, block)
    law = None if proposal_law is None else Propose(proposal_law).on(log.rows, instance.space.n)
    features = Features.of(instance, log)
    ground, rows = Ground.of(features, learn_laws(features, law), int(near)), Rows.of(features)
    seen = ground.see(rows.fit())
    lean, error, freedom = _jackknife(ground, rows, owner, seen.parts.mean(axis=0))
    missed, ess = ground.missed(seen)
    off = _beyond_noise(missed, owner)
    parts = seen.parts - lean / 2.0
    total, calibration, bandit, gate = (
        _limits(float(parts[:, j].mean()), lean[j], error[j], off[j], freedom, level)
        for j in range(4)
    )
    unsupported = float((~ground.can[:, : instance.space.n].all(axis=1)).mean())
    figures = (total, calibration, bandit, gate)
    beyond = float(seen.is_beyond.mean())
    says = _says(*figures, unsupported, beyond, level, bool(off[[0, 2, 3]].any()))
    few = float(ess.min())
    return LiveRegret(*figures, parts, log.n, unsupported, beyond, few, off, level, says)


def _jackknife(ground: Ground, rows: Rows, owner: Array, whole: Array) -> tuple[Array, Array, int]:
    """Return by how much the parts' means lean (4,), their standard errors (4,), and freedom.

    Groups of blocks are left out of the fits in turn, and all rows are scored: the actions that
    ran are given, what is not known is what they are worth.
    """
    n_groups = min(_GROUPS, int(owner.max()) + 1)
    moved = np.empty((n_groups, 4))
    for j in range(n_groups):
        others = owner % n_groups != j
        moved[j] = ground.without(others).see(rows.fit(others)).parts.mean(axis=0)
    middle = moved.mean(axis=0)
    share = (n_groups - 1) / n_groups
    error = np.sqrt(share * ((moved - middle) ** 2).sum(axis=0))
    return (n_groups - 1) * (middle - whole), error, n_groups - 1


def _beyond_noise(missed: Array, owner: Array) -> Array:
    """Return means of weighted residuals (4,), less what noise explains; mostly 0."""
    blocks = np.stack([np.bincount(owner, column) for column in missed.T])
    n_blocks = blocks.shape[1]
    error = blocks.std(axis=1, ddof=1) * n_blocks**0.5 / missed.shape[0]
    mean = missed.mean(axis=0)
    return np.asarray(np.sign(mean) * np.maximum(0.0, np.abs(mean) - _NOISE * error))


def _limits(
    mean: float, lean: float, error: float, off: float, freedom: int, level: float
) -> Interval:
    """Return an estimate that is already mended by half of its lean, with its interval."""
    from scipy.special import stdtrit

    half = float(stdtrit(freedom, 0.5 + level / 2.0) * error + abs(lean) / 2.0)
    low, high = mean - half + min(0.0, float(off)), mean + half + max(0.0, float(off))
    return Interval(mean, low, high, level, _COVERS)


def _blocks(log: GatedLog, block: Any) -> Array:
    """Return the block of every row, from 0 on in the order in which they come."""
    if block is None and log.cluster is None:
        return np.asarray(np.arange(log.n) // max(1, round(log.n ** (1 / 3))))
    label = np.asarray(log.cluster if block is None else block)
    if label.shape != (log.n,):
        raise InvalidInput(f"block: expected one label a row ({log.n}), got shape {label.shape}")
    _, first, place = np.unique(label, return_index=True, return_inverse=True)
    if first.size < _LEAST_BLOCKS:
        raise InvalidInput(f"block: expected at least {_LEAST_BLOCKS} blocks, got {first.size}")
    return np.asarray(np.argsort(np.argsort(first))[place.reshape(-1)])


def _says(
    total: Interval,
    calibration: Interval,
    bandit: Interval,
    gate: Interval,
    share: float,
    beyond: float,
    level: float,
    is_off: bool,
) -> str:
    said = (
        f"A round lost {total} against the best action that the log supports: calibration "
        f"{calibration}, bandit {bandit}, gate {gate} ({100 * level:g} % intervals). What no arm "
        "could reach is calibration's, a better arm is the bandit's, and what the gates change is "
        "theirs, below 0 where they help."
    )
    if is_off:
        said += (
            " Rows in which the best action ran contradict the outcome model; intervals are longer "
            "by that."
        )
    if share > 0:
        said += (
            f" In {percent(share)} of the rows some arm never ran in comparable contexts; it was "
            "left out there, and what it would have been worth is in no part."
        )
    if beyond > _MOST_BEYOND:
        said += (
            f" In {percent(beyond)} the outcome model expects most of such an arm: the gate's part "
            "is likely too low, and its interval too short."
        )
    return said
