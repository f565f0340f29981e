"""What a bandit's update promises."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gdcb.checks.bandits.case import GROUP, BanditCase, by_axis, delta_of, some
from gdcb.checks.base import bytes_of, require, require_close, require_same_bytes, require_twice
from gdcb.checks.ground import stream
from gdcb.errors import InvalidInput
from gdcb.records import Evidence


def inputs_are_left_alone(case: BanditCase) -> None:
    """Nothing that it is given is changed, except the state that `update` is to teach."""
    group, state = GROUP.copy(), case.taught()
    case.bandit.init(group, case.arms)
    require_same_bytes(group, GROUP, "the groups given to `init`")
    coords = case.arms.coords.tobytes()
    at, located, seen = case.at(), case.between(GROUP.size), case.evidence(12)
    before = bytes_of(at), located.arm.tobytes(), located.coord.tobytes(), bytes_of(seen)
    draw = case.bandit.draw(stream(), state, at)
    drawn = bytes_of(draw)
    case.bandit.value(draw, located)
    case.bandit.value(draw, case.arms.nominal)
    require(bytes_of(draw) == drawn, "`value` changed the draw")
    case.bandit.mean(state, at, located)
    case.bandit.update(state, seen)
    after = bytes_of(at), located.arm.tobytes(), located.coord.tobytes(), bytes_of(seen)
    for name, one, two in zip(
        ("the setting", "the located arms", "their coordinates", "the evidence"),
        before,
        after,
        strict=True,
    ):
        require(one == two, f"{name} was changed")
    require(case.arms.coords.tobytes() == coords, "the arms' coordinates were changed")


def a_row_without_weight_teaches_nothing(case: BanditCase) -> None:
    """Rows of weight 0 leave the state's bytes as they were."""
    state, seen = case.taught(), case.evidence(12, seed=4)
    before = bytes_of(state)
    case.bandit.update(state, replace(seen, weight=np.zeros(12)))
    require(bytes_of(state) == before, "rows of weight 0 changed the state")
    case.bandit.update(state, some(seen, np.arange(0)))
    require(bytes_of(state) == before, "no rows at all changed the state")


def a_row_without_an_arm_teaches_no_arm(case: BanditCase) -> None:
    """Rows credited to no arm teach only curves, and rows without a place not even those."""
    state, seen = case.taught(), case.evidence(12, seed=4)
    lost = replace(seen, arm=np.full(12, -1), coord=np.full(seen.coord.shape, np.nan))
    before = bytes_of(state)
    case.bandit.update(state, lost)
    require(bytes_of(state) == before, "rows in which nothing ran changed the state")
    case.bandit.update(state, replace(seen, arm=np.full(12, -1)))
    if case.bandit.is_curve:
        require(bytes_of(state) != before, "a curve learned nothing between its arms")
    else:
        require(bytes_of(state) == before, "rows of no arm changed independent arms")


def a_batch_is_a_loop(case: BanditCase) -> None:
    """Rows learned at once teach what they teach one by one in their order, to 1e-9."""
    seen = case.evidence(30)
    one, two = case.state(), case.state()
    case.bandit.update(one, seen)
    for i in range(30):
        case.bandit.update(two, some(seen, np.array([i])))
    require_close(case.behaviour(two), case.behaviour(one), "a batch and a loop")


def cells_may_change_places(case: BanditCase) -> None:
    """Cells under other numbers learn and draw the same, to 1e-9."""
    seen, order = case.evidence(24), np.array([4, 5, 0, 1, 3, 2])  # groups move as a whole
    group = np.empty_like(GROUP)
    group[order] = GROUP
    moved = case.bandit.init(group, case.arms)
    case.bandit.update(moved, replace(seen, cell=order[seen.cell]))
    state = case.state()
    case.bandit.update(state, seen)
    at, located = case.at(), case.between(GROUP.size)
    for name, here, where in (("before", state, at), ("after", moved, None)):
        setting = where or replace(at, cell=order)
        draw = case.bandit.draw(stream(), here, setting)
        mean = case.bandit.mean(here, setting, located)
        found = np.concatenate((mean, case.bandit.value(draw, located)), axis=1)
        if name == "before":
            expected = found
    require_close(found, expected, "cells under other numbers")


def an_update_does_not_see_its_neighbours(case: BanditCase) -> None:
    """Cells of a group learn the same bits whichever groups learn beside it, in one row or many."""
    for n in (6, 30):
        seen = case.evidence(n)
        whole, alone = case.state(), case.state()
        case.bandit.update(whole, seen)
        case.bandit.update(alone, some(seen, np.flatnonzero(GROUP[seen.cell] == 0)))
        pairs = zip(by_axis(whole), by_axis(alone), strict=True)
        for (name, axis, one), (_, _, two) in pairs:
            if axis != "constant":
                rows = slice(0, 2) if axis == "cell" else slice(0, 1)
                require_same_bytes(two[rows], one[rows], f"{name} of a group that learned alone")


def a_refusal_changes_nothing(case: BanditCase) -> None:
    """Evidence that it refuses leaves the state's bytes, even where good rows come first.

    A class learner refuses outcomes outside [0, 1]; what else is wrong the round refuses first.
    """
    seen = case.evidence(12, seed=4)
    bad = seen.y.copy()
    bad[-1] = 2.5
    trials = [("an outcome of 2.5", replace(seen, y=bad))]
    for name, value in (("NaN", np.nan), ("infinite", np.inf)):
        spoilt = seen.y.copy()
        spoilt[-1] = value
        trials.append((f"an outcome that is {name}", replace(seen, y=spoilt)))
    trials.append(("a scale for a class", replace(seen, scale=np.full(12, 2.0))))
    for what, evidence in trials:
        state = case.taught()
        before = bytes_of(state)
        try:
            with np.errstate(all="ignore"):
                case.bandit.update(state, evidence)
        except InvalidInput:
            require(bytes_of(state) == before, f"{what} was refused after the first write")
        except Exception as error:
            require(False, f"{what}: expected InvalidInput, got {type(error).__name__}: {error}")
        else:
            refuses = case.bandit.target == "class" and what == "an outcome of 2.5"
            require(not refuses, f"{what} was taken for a class in [0, 1]")


def a_row_of_weight_2_is_two_rows(case: BanditCase) -> None:
    """Rows of twice the weight teach as much as the same rows that each come twice.

    To 1e-9 where evidence is sums ('merge'). A learner that goes from row to row may approximate:
    its means, after rows before, miss by at most 0.3 of what the second coming changes.
    """
    is_sum, seen = "merge" in case.bandit.supports, case.evidence(30, seed=4)
    found = []
    for rows in (
        seen,
        some(seen, np.repeat(np.arange(30), 2)),
        replace(seen, weight=2.0 * seen.weight),
    ):
        state = case.taught(60)
        case.bandit.update(state, rows)
        mean = case.bandit.mean(state, case.at(), case.between(GROUP.size))
        found.append(case.behaviour(state) if is_sum else mean)
    require_twice(found, is_sum)


def a_scale_is_taken_off_the_reward(case: BanditCase) -> None:
    """With a declared scale, r = s·v + noise: v is learned by least squares, Σ w·s·r / Σ w·s².

    Rows of one arm that agree on v = 1½ under scales from ½ to 4, and two that say 2 under ½ and 1
    under 4: that is 1.015 and not 1½, the average of r/s. To 0.05, at a weight of 1,000 a row.
    """
    for scale, worth in (((0.5, 1.0, 4.0), (1.5, 1.5, 1.5)), ((0.5, 4.0), (2.0, 1.0))):
        s, v = np.array(scale), np.array(worth)
        zero, weight = np.zeros(s.size, dtype=np.int64), np.full(s.size, 1_000.0)
        at, state = case.at(zero), case.state()
        coord = case.arms.coords[zero].copy()
        seen = Evidence(zero, zero, coord, s * v, s, weight, at.x, at.delta)
        case.bandit.update(state, seen)
        mean = float(case.bandit.mean(state, case.at(zero[:1]), case.arms.nominal)[0, 0])
        expected = float((s * s * v).sum() / (s * s).sum())
        text = f"r/s is {worth} under s = {scale}: expected {expected:.3f}, got {mean:.3f}"
        require(abs(mean - expected) <= 0.05, text)


def it_ranks_rewards_below_zero(case: BanditCase) -> None:
    """Of rewards that are all below 0 its draws prefer the one nearest to 0, after 40 rows an arm.

    As in 'it learns which arm is best', with the same false alarm.
    """
    best = max(_share_of_best(case, is_falling, -4.0) for is_falling in (False, True))
    require(best > 0.5, f"only {best:.0%} of the draws prefer the arm that loses least")


def it_learns_which_arm_is_best(case: BanditCase) -> None:
    """After 40 rows an arm whose worth rises (or falls) along the arms, its draws agree.

    Outcomes have their exact frequencies, so only the 200 draws are random: a learner that
    prefers the best arm nine times in ten fails with a chance below exp(−2·200·0.4²) = 1e-27.
    """
    shares = [_share_of_best(case, is_falling) for is_falling in (False, True)]
    best = max(shares)
    require(best > 0.5, f"only {best:.0%} of the draws prefer the best arm after 200 rows")


def _share_of_best(case: BanditCase, is_falling: bool, offset: float = 0.0) -> float:
    k, each, n = case.arms.n, 40, 200
    arm = np.random.default_rng(11).permutation(np.tile(np.arange(k), each))
    rank = np.unique(case.arms.coords[:, 0], return_inverse=True)[1]
    level = rank / max(rank.max(), 1)
    level = 1.0 - level if is_falling else level
    turn = np.zeros(arm.size)
    for a in range(k):
        turn[arm == a] = np.arange(each)
    chance = 0.1 + 0.8 * level[arm]
    y = ((turn + 0.5) / each < chance).astype(float) if case.is_class else 3.0 * level[arm]
    y = y + offset
    x = case.ground.contexts(arm.size, seed=9)
    zero, one = np.zeros(arm.size, dtype=np.int64), np.ones(arm.size)
    coord, state = case.arms.coords[arm], case.state()
    case.bandit.update(state, Evidence(zero, arm, coord, y, None, one, x, delta_of(x)))
    draw = case.bandit.draw(stream(), state, case.at(np.zeros(n, dtype=np.int64)))
    value = case.bandit.value(draw, case.arms.nominal)
    return float((level[value.argmax(axis=1)] == 1.0).mean())
