"""Why the bootstrap has no interval of a value: what no resampled log can tell.

Too few effective rows, too few that differ, or cells that decide and may never have run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gdcb.analysis.off_policy.bootstrap import effective_others, effective_spread, sums_of
from gdcb.analysis.off_policy.estimators import Terms, Weights
from gdcb.analysis.off_policy.feedback import Feedback
from gdcb.arrays import Array

LEAST_ESS = 30.0  # effective rows below which the bootstrap has no interval
LEAST_LOGGED_ESS = 100.0  # the same where weights that may come up are not known
LEAST_OTHERS = 10.0  # effective rows that must differ from the most common reward, or spread
LEAST_RUNS = 4.0  # expected runs of a group of cells; with 4, none of them came in 2 of 100 logs
# By how much weights stand out, and standard errors by which they may then move a value: cells
# whose weights differ by less tell about each other, the more the nearer they are.
_STANDING_OUT = ((4.0, 1.0), (2.0, 2.0))


def too_few(feedback: Feedback, weights: Weights) -> str:
    """Say why too few rows carry an estimate for the bootstrap; nothing where they are enough.

    Effective rows are counted by the weights that may come up in these contexts, not by those that
    did: whether an interval is given must not depend on luck, or those given cover less. Where the
    log only says how likely what ran was, there are only those that did, and more are asked for.
    """
    used, n, least = weights.used, feedback.n, LEAST_ESS
    first, second = float(used.mean()), float((used**2).mean())
    if weights.lost is None:
        least = LEAST_LOGGED_ESS
    else:
        kept = feedback.target - weights.lost
        first, second = float(kept.sum()) / n, _second_moment(feedback, kept)
    ess = n * first**2 / second if second > 0 else 0.0
    if ess >= least:
        return ""
    return (
        f"{n:,} rows count as {ess:,.0f} by the weights that may come up, and the bootstrap needs "
        f"{least:g}; declare reward_range and a clip or weight_bound, and take interval='betting'"
    )


def what_is_missing(
    estimator: str,
    pieces: Sequence[tuple[float, Feedback, Weights, Terms]],
    ends: tuple[Terms, Terms],
    reward_range: tuple[float, float] | None,
) -> str:
    """Say what no resampled log can tell of a value or a difference; nothing where there is none.

    `pieces` as in `least_error`.
    """
    error = least_error(estimator, pieces)
    return (
        _too_few_differ(pieces)
        or _too_alike(pieces, ends)
        or _too_rare(pieces, reward_range, error)
        or _too_few_decide(pieces)
        or _unseen(pieces, reward_range, error)
    )


def _too_rare(
    pieces: Sequence[tuple[float, Feedback, Weights, Terms]],
    reward_range: tuple[float, float] | None,
    error: float,
) -> str:
    """Say which cells the log may have missed although they decide; nothing where it has none.

    The target runs them in a share of its rows, and their rewards may differ from the others' by
    as much as was seen, or as the declared range allows, however well a model predicts those that
    ran. They decide where that could move the value by a standard error, or by two where their
    weights stand out less.
    """
    feedback = pieces[0][1]
    if feedback.is_partial:
        return ""
    kept = np.abs(sum(sign * (part.target - _lost(weights)) for sign, part, weights, _ in pieces))
    rare = rarely_run(feedback.behaviour, kept, feedback.cell, feedback.cluster)
    size = float(np.ptp(feedback.reward))
    if reward_range is not None:
        size = reward_range[1] - reward_range[0]
    return in_words_if_rare(rare, size, error)


def _used(pieces: Sequence[tuple[float, Feedback, Weights, Terms]]) -> Array:
    """Return by how much each row counts for the value, or for the difference, (N,)."""
    return np.asarray(np.abs(np.sum([sign * each.used for sign, _, each, _ in pieces], axis=0)))


def _too_few_decide(pieces: Sequence[tuple[float, Feedback, Weights, Terms]]) -> str:
    """Say where a few rewards far from the others make up what is known of their spread."""
    feedback = pieces[0][1]
    found = effective_spread(feedback.reward, _used(pieces), feedback.cluster)
    if found >= LEAST_OTHERS:
        return ""
    rows = "rows" if feedback.cluster is None else "clusters"
    return (
        f"only {found:.2g} effective {rows} make up the spread of rewards, and the bootstrap needs "
        f"{LEAST_OTHERS:g}"
    )


def _unseen(
    pieces: Sequence[tuple[float, Feedback, Weights, Terms]],
    reward_range: tuple[float, float] | None,
    error: float,
) -> str:
    """Say where one reward at the end of the declared range would have moved all that is known.

    What comes once in as many rows as the log counts for may well not be in it.
    """
    if reward_range is None:
        return ""
    used = _used(pieces)
    if not used.any():
        return ""
    reward = pieces[0][1].reward
    middle = float(np.average(reward, weights=used))
    end = max(reward_range, key=lambda each: abs(each - middle))
    share = float((used**2).sum() / used.sum()) / reward.size
    if share * abs(end - middle) <= error:
        return ""
    return (
        f"one reward of {end:g}, which the declared range allows, would move the value by more "
        "than its standard error, and the log may well have none although they come"
    )


def _too_few_differ(pieces: Sequence[tuple[float, Feedback, Weights, Terms]]) -> str:
    """Say where only a few rows tell two targets apart."""
    used = _used(pieces)
    square = float((used**2).sum())
    if len(pieces) == 1 or float(used.sum()) ** 2 >= LEAST_ESS * square:
        return ""
    return (
        f"only {float(used.sum()) ** 2 / square:.2g} effective rows tell the two apart, and the "
        f"bootstrap needs {LEAST_ESS:g}"
    )


def _too_alike(
    pieces: Sequence[tuple[float, Feedback, Weights, Terms]], ends: tuple[Terms, Terms]
) -> str:
    """Say why rows differ too little for the bootstrap; nothing where they differ enough.

    Noise that has not shown up in the log is in no resampled log either: 100 rows without a success
    do not tell that there never is one.
    """
    feedback = pieces[0][1]
    rows = "rows" if feedback.cluster is None else "clusters"
    others = effective_others(feedback.reward, _used(pieces), feedback.cluster)
    if others < LEAST_OTHERS:
        return (
            f"only {others:.2g} effective {rows} have another reward than the most common one, and "
            f"the bootstrap needs {LEAST_OTHERS:g}"
        )
    rounding = 1e-12 * float(np.abs(feedback.reward).max())
    if any(sums_of(end, feedback.cluster).standard_error <= rounding for end in ends):
        return f"all {rows} count the same, so that their noise cannot be told"
    return ""


def _second_moment(feedback: Feedback, kept: Array) -> float:
    """Return the mean over rows of Σ_c kept²/behaviour = E[ω² | x], kept = ω·behaviour (N, C)."""
    is_run = feedback.behaviour > 0
    square = np.where(is_run, kept**2, 0.0) / np.where(is_run, feedback.behaviour, 1.0)
    return float(square.sum()) / feedback.n


def least_error(estimator: str, pieces: Sequence[tuple[float, Feedback, Weights, Terms]]) -> float:
    """Return the standard error that the law of the weights implies, of a value or a difference.

    √((E ω²·mean rest² + Var q̂(x))/n), rest = r − q̂, r − V̂ for SNIPS, and r less V̂² in the end for
    IPS. Rows with large weights that have not been met, or whose rewards happened to be alike,
    are in no resampled log; in E ω² they are. `pieces` has the sign, rows, weights and terms of
    each value. Where rewards vary more in rows with large weights it is too small, and the
    bootstrap's own is not: the larger counts.
    """
    feedback, r = pieces[0][1], pieces[0][1].reward
    value = sum(sign * terms.value for sign, _, _, terms in pieces)
    if feedback.is_partial:
        used = [sign * weights.used for sign, _, weights, _ in pieces]
        second = float((np.sum(used, axis=0) ** 2).mean())
    else:
        kept = [sign * (part.target - _lost(weights)) for sign, part, weights, _ in pieces]
        second = _second_moment(feedback, np.sum(kept, axis=0))
    if estimator == "ips":
        return math.sqrt(max(second * float((r**2).mean()) - value**2, 0.0) / feedback.n)
    if estimator == "snips":
        middle = float(np.mean([terms.value for *_, terms in pieces]))
        return math.sqrt(second * float(((r - middle) ** 2).mean()) / feedback.n)
    rest = r - feedback.outcome[np.arange(feedback.n), feedback.cell]
    direct = sum(sign * (part.target * part.outcome).sum(axis=1) for sign, part, _, _ in pieces)
    return math.sqrt((second * float((rest**2).mean()) + float(np.var(direct))) / feedback.n)


def _lost(weights: Weights) -> Array:
    assert weights.lost is not None
    return weights.lost


@dataclass(frozen=True, slots=True)
class Rare:
    """Cells of large weight that the log may have missed.

    Parameters
    ----------
    share : of what the target would run in these contexts, that falls on them
    most : the same and its standard error, for these contexts are a sample
    runs : how often they were expected to run in the log
    weight : their least weight
    errors : standard errors by which they may move a value
    """

    share: float
    most: float
    runs: float
    weight: float
    errors: float

    def decides(self, size: float, error: float) -> bool:
        """Whether they could move a value too far; rewards differ by `size` at most."""
        return self.most * size > self.errors * error

    def __str__(self) -> str:
        """Say it.

        >>> str(Rare(0.057, 0.1, 0.54, 15.8333, 1.0))
        'weights of 15.8 and more stand for 5.7 % of what the target would run, and only 0.54 \
runs with such weights were to be expected in the log: without them it does not show what they earn'
        """
        return (
            f"weights of {self.weight:.3g} and more stand for {100 * self.share:.2g} % of what the "
            f"target would run, and only {self.runs:.2g} runs with such weights were to be "
            "expected in the log: without them it does not show what they earn"
        )


def rarely_run(
    behaviour: Array, kept: Array, cell: Array, cluster: Array | None
) -> tuple[Rare, ...]:
    """Return the cells of large weight that the log may have missed.

    They are as many of the largest weights as were expected to run fewer than `LEAST_RUNS` times in
    these contexts, together with all cells of at least a quarter of their weight; and the same with
    half of it. So weights that fall off steadily are not meant, but some that stand out. Whether
    any of them ran is not asked: an interval that is given by luck covers less than it says.

    Parameters
    ----------
    behaviour : (N, C) P(cell executed | x) in the log
    kept : (N, C) the target's mass that weights stand for, at least 0; weight·behaviour
    cell : (N,) what ran
    cluster : (N,) labels, or None. Where the rows of a cluster tend to run one cell, these runs
        count as one

    Examples
    --------
    One row of ten has a cell that ran with probability 0.1 and always runs under the target: weight
    10, expected 0.1 times. It is a tenth of what the target would run. In 400 rows there would be
    four such runs.

    >>> behaviour, target, cell = np.full((10, 2), 0.5), np.full((10, 2), 0.5), np.zeros(10)
    >>> behaviour[0], target[0] = (0.9, 0.1), (0.0, 1.0)
    >>> [(one.share, one.runs, one.weight) for one in rarely_run(behaviour, target, cell, None)]
    [(0.1, 0.1, 10.0), (0.1, 0.1, 10.0)]
    >>> many = (np.tile(behaviour, (40, 1)), np.tile(target, (40, 1)), np.tile(cell, 40))
    >>> rarely_run(*many, None)
    ()
    """
    n = cell.size
    rows, cells = np.nonzero((kept > behaviour) & (behaviour > 0))
    weight = kept[rows, cells] / behaviour[rows, cells]
    order = np.argsort(-weight, kind="stable")
    rows, cells, weight = rows[order], cells[order], weight[order]
    mass, runs = kept[rows, cells], behaviour[rows, cells].cumsum()
    if cluster is not None:
        runs = _runs_of_clusters(behaviour, rows, cells, cell, cluster)
    is_enough = runs >= LEAST_RUNS * (1.0 - 1e-9)
    usual = float(weight[is_enough.argmax()]) if is_enough.any() else 1.0
    found = []
    for factor, errors in _STANDING_OUT:
        end = int(np.searchsorted(-weight, -factor * usual * (1.0 - 1e-9), side="right"))
        if end == 0:
            continue
        by_row = np.bincount(rows[:end], mass[:end], n)
        share = float(by_row.mean())
        most = share + float(np.sqrt((by_row**2).sum())) / n
        found.append(Rare(share, most, float(runs[end - 1]), float(weight[end - 1]), errors))
    return tuple(found)


def _runs_of_clusters(
    behaviour: Array, rows: Array, cells: Array, cell: Array, cluster: Array
) -> Array:
    """Return how many runs were to be expected of the first k pairs (row, cell), for every k.

    If draws are independent within a cluster, each counts with its probability; if one draw
    decides for all k rows of a cluster, with a k-th of it. Which holds is told by how many
    different cells ran in the clusters that the pairs lie in: 1 in each if one draw decides, and
    Σ_c (1 − Π (1 − P(c))) if none does. What lies between is taken in proportion.
    """
    owner = np.unique(cluster, return_inverse=True)[1].reshape(-1)
    kinds = np.bincount(np.unique(np.stack((owner, cell)), axis=1)[0].astype(int))
    none = np.log1p(-np.minimum(behaviour, 1.0 - 1e-12))
    free = -np.expm1(np.stack([np.bincount(owner, column) for column in none.T])).sum(axis=0)
    at = owner[rows]
    is_new = np.zeros(rows.size, dtype=bool)
    is_new[np.unique(at, return_index=True)[1]] = True
    seen, possible = (np.where(is_new, each[at] - 1.0, 0.0).cumsum() for each in (kinds, free))
    chance = behaviour[rows, cells]
    apart = np.clip(seen / np.maximum(possible, 1.0), 0.0, 1.0)
    together = (chance / np.bincount(owner)[at]).cumsum()
    return np.asarray(apart * chance.cumsum() + (1.0 - apart) * together)


def in_words_if_rare(rare: tuple[Rare, ...], size: float, error: float) -> str:
    """Say which cells the log may have missed although they decide; nothing where it has none."""
    return next((str(one) for one in rare if one.decides(size, error)), "")
