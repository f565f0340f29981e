"""What a bandit promises by what it supports: merge, decay, marginals, predictive, refit."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from gdcb.checks.bandits.case import CELLS, BanditCase, some
from gdcb.checks.base import (
    bytes_of,
    require,
    require_close,
    require_finite,
    require_refusal,
    require_same_bytes,
    require_shape,
)
from gdcb.checks.ground import stream
from gdcb.errors import InvalidInput
from gdcb.records import copy


def the_order_of_rows_does_not_matter(case: BanditCase) -> None:
    """Evidence that merges is sums: rows in another order teach the same, to 1e-9."""
    seen = case.evidence(30)
    one, two = case.state(), case.state()
    case.bandit.update(one, seen)
    case.bandit.update(two, some(seen, np.random.default_rng(5).permutation(30)))
    require_close(case.behaviour(two), case.behaviour(one), "rows in another order")


def merging_halves_is_the_whole(case: BanditCase) -> None:
    """Two halves learned apart and merged are the whole, to 1e-9; what is merged in stays."""
    seen = case.evidence(30)
    whole, one, two = case.state(), case.state(), case.state()
    case.bandit.update(whole, seen)
    case.bandit.update(one, some(seen, np.arange(12)))
    case.bandit.update(two, some(seen, np.arange(12, 30)))
    before = bytes_of(two)
    case.bandit.merge(one, two)
    require(bytes_of(two) == before, "`merge` changed the state that it took from")
    require_close(case.behaviour(one), case.behaviour(whole), "two halves and the whole")


def merging_the_prior_changes_nothing(case: BanditCase) -> None:
    """Priors have no evidence to add, and states merge in any grouping, to 1e-9."""
    state = case.taught()
    expected = case.behaviour(state)
    case.bandit.merge(state, case.state())
    require_close(case.behaviour(state), expected, "after merging the prior")
    parts = [case.taught(12, seed) for seed in (4, 5, 6)]
    left, right = copy(parts[0]), copy(parts[1])
    case.bandit.merge(left, parts[1])
    case.bandit.merge(left, parts[2])
    case.bandit.merge(right, parts[2])
    other = copy(parts[0])
    case.bandit.merge(other, right)
    require_close(case.behaviour(other), case.behaviour(left), "(a + b) + c and a + (b + c)")


def a_wrong_merge_is_refused(case: BanditCase) -> None:
    """States of other cells are refused, and nothing is changed."""
    state = case.taught()
    before, other = bytes_of(state), case.bandit.init(np.arange(2), case.arms)
    require_refusal(lambda: case.bandit.merge(state, other), InvalidInput, "a state of 2 cells")
    require(bytes_of(state) == before, "a refused merge changed the state")


def decay_goes_from_all_to_nothing(case: BanditCase) -> None:
    """Decay by 1 keeps everything, by 0 returns to the prior, by ½ twice is by ¼ once."""
    expected = case.behaviour(case.taught())
    kept, gone = case.taught(), case.taught()
    case.bandit.decay(kept, 1.0, CELLS)
    require_close(case.behaviour(kept), expected, "after decay by 1")
    case.bandit.decay(gone, 0.0, CELLS)
    require_close(case.behaviour(gone), case.behaviour(case.state()), "after decay by 0")
    one, two = case.taught(), case.taught()
    case.bandit.decay(one, 0.5, CELLS)
    case.bandit.decay(one, 0.5, CELLS)
    case.bandit.decay(two, 0.25, CELLS)
    require_close(case.behaviour(one), case.behaviour(two), "decay by ½ twice and by ¼ once")
    moved = np.abs(case.behaviour(two) - expected).max()
    require(moved > 1e-9, "decay by ¼ changed nothing")


def decay_halves_the_evidence(case: BanditCase) -> None:
    """Rows of weight 2, decayed by ½, are rows of weight 1 where evidence is sums."""
    seen = case.evidence(30)
    heavy, light = case.state(), case.state()
    case.bandit.update(heavy, replace(seen, weight=2.0 * seen.weight))
    case.bandit.update(light, seen)
    case.bandit.decay(heavy, 0.5, CELLS)
    require_close(case.behaviour(heavy), case.behaviour(light), "half of twice the evidence")


def decay_touches_its_cells_only(case: BanditCase) -> None:
    """Other groups keep their bits; a factor outside [0, 1] is refused and changes nothing."""
    state = case.taught()
    before, whole = case.behaviour(state), bytes_of(state)
    for factor in (-0.1, 1.1, np.nan):
        act = partial(case.bandit.decay, state, factor, CELLS)
        require_refusal(act, InvalidInput, f"a factor of {factor}")
        require(bytes_of(state) == whole, f"the refused factor {factor} changed the state")
    case.bandit.decay(state, 0.3, np.array([0, 1]))
    after = case.behaviour(state)
    require_same_bytes(after[2:], before[2:], "cells of other groups")
    require(np.abs(after[:2] - before[:2]).max() > 1e-9, "the cells to be decayed kept all")


def marginals_are_the_law_of_the_draws(case: BanditCase) -> None:
    """Each arm's 4,000 draws follow its declared law, and arms are drawn independently.

    Kolmogorov and Smirnov's distance stays below √(ln(2/α)/2n), a false alarm of at most α =
    1e-7 an arm (Massart 1990); correlations below 6/√n, 2e-9 a pair. Seeds are fixed.
    """
    state, n = case.taught(), 4_000
    law = case.bandit.marginals(state, case.at(np.zeros(1, dtype=np.int64)))
    draw = case.bandit.draw(stream(), state, case.at(np.zeros(n, dtype=np.int64)))
    value = np.sort(case.bandit.value(draw, case.arms.nominal), axis=0)
    if law.kind == "point":
        point = np.repeat(law.parameters[0], n, axis=0)
        require_close(value, point, "draws of a law without chance")
        return
    chance = law.cdf(value.T[None])[0]
    require_shape(chance, (case.arms.n, n), "the distribution function")
    steps = np.arange(n + 1) / n
    gap = np.maximum(np.abs(chance - steps[1:]), np.abs(chance - steps[:-1])).max(axis=1)
    limit = (np.log(2 / 1e-7) / (2 * n)) ** 0.5
    worst = int(gap.argmax())
    text = f"arm {worst}: the draws lie {gap[worst]:.3f} off the law, {limit:.3f} is allowed"
    require(gap[worst] <= limit, text)
    unsorted = case.bandit.value(draw, case.arms.nominal)
    together = np.corrcoef(unsorted.T) - np.eye(case.arms.n)
    require(
        np.abs(together).max() <= 6 / n**0.5,
        f"arms are drawn together: a correlation of {np.abs(together).max():.2f}",
    )


def predictive_is_a_density(case: BanditCase) -> None:
    """Predictive densities of an outcome sum or integrate to 1, and asking teaches nothing.

    Bernoulli: P(0) + P(1) = 1 to 1e-9. Normal: a sum over a fine grid, to 1e-3. Rows without a
    density are NaN.
    """
    likelihood = getattr(case.bandit, "likelihood", None)
    require(likelihood in ("bernoulli", "normal"), f"likelihood: got {likelihood!r}")
    state, seen = case.taught(), case.evidence(12, seed=4)
    before, given = bytes_of(state), bytes_of(seen)
    found = case.bandit.predictive(state, seen)
    require(bytes_of(state) == before, "`predictive` changed the state")
    require(bytes_of(seen) == given, "`predictive` changed the evidence")
    require_shape(found, (12,), "log densities")
    require_finite(found, "log densities of rows with an arm")
    grid = np.array([0.0, 1.0]) if likelihood == "bernoulli" else np.linspace(-60.0, 60.0, 4001)
    step = 1.0 if likelihood == "bernoulli" else grid[1] - grid[0]
    total = np.zeros(12)
    for y in grid:
        total += step * np.exp(case.bandit.predictive(state, replace(seen, y=np.full(12, y))))
    within = 1e-9 if likelihood == "bernoulli" else 1e-3
    require_close(total, np.ones(12), "the sum of the predictive density", within)


def a_refit_is_of_its_rows_alone(case: BanditCase) -> None:
    """Whatever was learned before, and in any order of its rows, a refit leaves the same, to 1e-7.

    Groups that none of its rows is of keep their bits.
    """
    seen = case.evidence(24, cell=np.arange(24) % 4)  # of two groups in three
    one, two = case.state(), case.taught()
    before = case.behaviour(two)
    case.bandit.refit(one, seen)
    case.bandit.refit(two, some(seen, np.random.default_rng(5).permutation(24)))
    found, expected = case.behaviour(two), case.behaviour(one)
    require_close(found[:4], expected[:4], "a refit of what was taught and of the prior", 1e-7)
    require_same_bytes(found[4:], before[4:], "cells of other groups")
    require(np.abs(found[:4] - before[:4]).max() > 1e-6, "a refit changed nothing")


def a_refused_refit_changes_nothing(case: BanditCase) -> None:
    """Outcomes that are no numbers are refused by a refit too, and leave the state's bytes."""
    state, seen = case.taught(), case.evidence(12, seed=4)
    before = bytes_of(state)
    bad = seen.y.copy()
    bad[-1] = np.nan
    require_refusal(
        lambda: case.bandit.refit(state, replace(seen, y=bad)), InvalidInput, "an outcome of NaN"
    )
    require(bytes_of(state) == before, "a refused refit changed the state")
