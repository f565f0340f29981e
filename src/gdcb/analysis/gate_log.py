"""What a log says of the gates: η̂ with an upper limit, and the ratio that was realised.

Cells are those of `gdcb.analysis.contraction.arm_cells`: the K arms, 'off every arm', and 'nothing
runs'.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.parts import check_choice, check_number
from gdcb.streams import check_seed


@dataclass(slots=True)
class Contraction:
    """η as estimated from a log.

    Parameters
    ----------
    estimate, upper, level : largest η̂ over strata, its upper confidence limit and their level;
        NaN and 1 where no stratum has two arms that were seen often enough
    strata, estimates, uppers : the same for each stratum by itself, NaN and 1 where not judged
    pair : the two arms of the largest η̂, as (stratum, arm, arm); None where not judged
    excluded : (stratum, arm, times seen) of the arms that were seen too rarely: nothing is said
        of them
    """

    estimate: float
    upper: float
    level: float
    strata: Array
    estimates: Array
    uppers: Array
    pair: tuple[Any, int, int] | None
    excluded: list[tuple[Any, int, int]]


def estimate_contraction(
    entered_cell: Array,
    left_cell: Array,
    n_cells: int,
    *,
    stratum: Array | None = None,
    level: float = 0.95,
    n_min: int = 20,
    design: str = "fixed",
) -> Contraction:
    """Estimate η from what entered a gate and what left it, with an upper confidence limit.

    P̂_a is the share of each cell among the rows in which arm a entered, and η̂ the largest
    ½‖P̂_a − P̂_b‖₁. Noise only adds to a distance, so η̂ is biased upwards in small samples, the
    more so the more arms there are: with η = 0 and 20 rows an arm it is far from 0.

    The upper limit is the largest of TV̂(a, b) + √(½·ln(M/α)·(1/n_a + 1/n_b)) over pairs, α being
    1 − level, and M = 1 for a fixed design. Proof: let η = P_a(A) − P_b(A), the worst stratum, pair
    and set of cells, none of which depends on the data. TV̂(a, b) ≥ P̂_a(A) − P̂_b(A), which is a
    difference of means of n_a and n_b independent numbers in {0, 1}; by Hoeffding it lies below
    η − c with probability at most exp(−2c²/(1/n_a + 1/n_b)). So only one event must be excluded,
    and no union over pairs or cells is needed. In an adaptive design the sizes n_a, n_b and the
    pairs that are judged depend on earlier verdicts; the union over all pairs of all strata and
    over all sizes n_a + n_b ≤ n_s has M = Σ_s (pairs of s)·n_s²/2 terms.

    Parameters
    ----------
    entered_cell, left_cell : (N,) cells 0 to n_cells − 1 (see `arm_cells`); the last, 'nothing',
        cannot enter
    n_cells : K + 2
    stratum : (N,) labels, rows with comparable contexts; None: one stratum
    n_min : arms seen fewer times in a stratum are left out there, and named
    design : 'fixed': what was proposed did not depend on earlier verdicts (a history under an
        incumbent); 'adaptive': it may have, as with a bandit that learns from the gate

    Notes
    -----
    Assumes: within a stratum, rows are independent and the gate does not change.

    Stops applying: within a stratum η is that of the average kernel. If the arms were proposed in
    different contexts, what the contexts do is counted as the gate's.

    Examples
    --------
    Two arms, 100 rows each: 80 and 20 of them end in cell 0. η̂ = 0.6, and the limit is
    0.6 + √(½·ln 20·0.02) = 0.6 + 0.1731.

    >>> entered = np.repeat([0, 1], 100)
    >>> left = np.concatenate((np.repeat([0, 1], [80, 20]), np.repeat([0, 1], [20, 80])))
    >>> found = estimate_contraction(entered, left, n_cells=4)
    >>> round(found.estimate, 4), round(found.upper, 4)
    (0.6, 0.7731)
    """
    check_number("n_cells", n_cells, 3)
    check_number("level", level, 0.5, 1.0 - 1e-12)
    check_number("n_min", n_min, 1)
    check_choice("design", design, ("fixed", "adaptive"))
    entered, left, where = _columns(
        n_cells, entered_cell=entered_cell, left_cell=left_cell, stratum=stratum
    )
    if (entered == n_cells - 1).any():
        raise InvalidInput(f"entered_cell: {n_cells - 1} is 'nothing', which cannot enter a gate")
    strata, place = np.unique(where, return_inverse=True)
    flat = (place * n_cells + entered) * n_cells + left
    table = np.bincount(flat, minlength=strata.size * n_cells**2)
    table = table.reshape(strata.size, n_cells, n_cells).astype(float)
    seen = table.sum(axis=-1)
    counted = seen >= n_min
    terms = 1.0
    if design == "adaptive":
        n_pairs = (n_cells - 1) * (n_cells - 2) / 2
        terms = float((n_pairs * seen.sum(axis=1) ** 2 / 2).sum())
    log = np.log(terms / (1.0 - level))
    estimates, uppers = np.full(strata.size, np.nan), np.ones(strata.size)
    pairs: dict[int, tuple[Any, int, int]] = {}
    for s in range(strata.size):
        arms = np.flatnonzero(counted[s])
        if arms.size < 2:
            continue
        shares = table[s, arms] / seen[s, arms, None]
        gap = 0.5 * np.abs(shares[:, None] - shares[None]).sum(axis=-1)
        slack = np.sqrt(0.5 * log * (1.0 / seen[s, arms, None] + 1.0 / seen[s, arms]))
        np.fill_diagonal(gap, -1.0)  # an arm and itself are no pair
        np.fill_diagonal(slack, 0.0)
        estimates[s], uppers[s] = gap.max(), min(1.0, float((gap + slack).max()))
        a, b = divmod(int(gap.argmax()), arms.size)
        pairs[s] = (strata[s].item(), int(arms[a]), int(arms[b]))
    judged = list(pairs)
    return Contraction(
        float(estimates[judged].max()) if pairs else float("nan"),
        float(uppers[judged].max()) if pairs else 1.0,
        level,
        strata,
        estimates,
        uppers,
        pairs[int(np.nanargmax(estimates))] if pairs else None,
        [
            (strata[s].item(), int(arm), int(seen[s, arm]))
            for s, arm in np.argwhere(~counted[:, : n_cells - 2])
        ],
    )


@dataclass(slots=True)
class RealisedRatio:
    """TV of what was executed over TV of what was recommended, between two periods.

    Parameters
    ----------
    ratio, low, high : the ratio and its interval; NaN where nothing was recommended differently
    recommended, executed : the two total variations, averaged over strata
    dropped : strata that only one of the periods has
    """

    ratio: float
    low: float
    high: float
    recommended: float
    executed: float
    dropped: list[Any]


def realised_ratio(
    recommended0: Array,
    recommended1: Array,
    executed0: Array,
    executed1: Array,
    n_cells: int,
    *,
    stratum0: Array | None = None,
    stratum1: Array | None = None,
    level: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
) -> RealisedRatio:
    """Compare how far two periods (or policies) differ in what ran and in what was proposed.

    ratio = Σ_s w_s TV(executed₀, executed₁ | s) / Σ_s w_s TV(recommended₀, recommended₁ | s), with
    w_s the stratum's share of all rows. Behind one and the same gate it is at most η, up to
    noise, and equals p where a person approves with p and else runs an action of their own.

    Parameters
    ----------
    recommended0, executed0 : (N₀,) cells of the first period, 0 to n_cells − 1; likewise 1
    n_cells : K + 2
    stratum0, stratum1 : labels of comparable contexts; strata of one period only are dropped
    level, draws, seed : of the percentile bootstrap; rows are drawn within period and stratum

    Notes
    -----
    Assumes: rows are independent within a period and stratum.

    Stops applying: a plug-in TV never falls below its noise, about √(cells/rows). Where the periods
    hardly differ, ratio and interval are both pulled towards the ratio of two noises, 1.

    Examples
    --------
    Recommended: arm 0 in 8 of 10, then in 2 of 10, TV 0.6. Executed: 5 of 10, then 2 of 10, TV 0.3.

    >>> a, b = np.repeat([0, 1], [8, 2]), np.repeat([0, 1], [2, 8])
    >>> found = realised_ratio(a, b, np.repeat([0, 1], 5), b, n_cells=4, draws=10)
    >>> round(found.ratio, 12)
    0.5
    """
    check_number("n_cells", n_cells, 3)
    check_number("level", level, 0.5, 1.0 - 1e-12)
    check_number("draws", draws, 1)
    rng = np.random.default_rng(check_seed(seed))
    if (stratum0 is None) != (stratum1 is None):
        raise InvalidInput("stratum0, stratum1: give both or none")
    first = _columns(n_cells, recommended0=recommended0, executed0=executed0, stratum0=stratum0)
    second = _columns(n_cells, recommended1=recommended1, executed1=executed1, stratum1=stratum1)
    both = np.intersect1d(first[2], second[2])
    dropped = np.setxor1d(first[2], second[2]).tolist()
    if both.size == 0:
        raise InvalidInput("stratum0, stratum1: no stratum has rows of both periods")
    size = n_cells**2
    total, found = 0, np.zeros((2, draws + 1))  # recommended and executed; the data come first
    for label in both:
        shares = np.zeros((2, 2, draws + 1, n_cells))  # recommended/executed × period
        rows = 0
        for period, (entered, left, where) in enumerate((first, second)):
            here = where == label
            pairs = np.bincount(entered[here] * n_cells + left[here], minlength=size)
            n = int(pairs.sum())
            again = rng.multinomial(n, pairs / n, size=draws)
            joint = np.concatenate((pairs[None], again)).reshape(draws + 1, n_cells, n_cells) / n
            shares[0, period], shares[1, period] = joint.sum(axis=2), joint.sum(axis=1)
            rows += n
        total += rows
        found += rows * 0.5 * np.abs(shares[:, 0] - shares[:, 1]).sum(axis=-1)
    recommended, executed = found / total
    if recommended[0] == 0:
        nan = float("nan")
        return RealisedRatio(nan, nan, nan, 0.0, float(executed[0]), dropped)
    ratios = executed[1:] / np.where(recommended[1:] > 0, recommended[1:], np.nan)
    low, high = np.nanquantile(ratios, [(1.0 - level) / 2, (1.0 + level) / 2])
    ratio = float(executed[0] / recommended[0])
    return RealisedRatio(
        ratio, float(low), float(high), float(recommended[0]), float(executed[0]), dropped
    )


def _columns(n_cells: int, **columns: Any) -> list[Array]:
    """Return two columns of cells and one of strata, checked; None is one stratum."""
    (first, a), (second, b), (third, where) = columns.items()
    out = []
    for name, cells in ((first, a), (second, b)):
        column = np.asarray(cells)
        if column.ndim != 1 or column.size == 0 or column.dtype.kind not in "iu":
            raise InvalidInput(f"{name}: expected a column of whole numbers, got {cells!r}")
        if (column < 0).any() or (column >= n_cells).any():
            raise InvalidInput(f"{name}: expected cells 0 to {n_cells - 1}")
        out.append(column.astype(np.int64))
    labels = np.zeros(out[0].size, dtype=np.int64) if where is None else np.asarray(where)
    if out[1].shape != out[0].shape or labels.shape != out[0].shape:
        raise InvalidInput(f"{first}, {second}, {third}: expected columns of one length")
    return [*out, labels]
