"""What a bandit's draws and means promise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gdcb.checks.bandits.case import CELLS, GROUP, BanditCase
from gdcb.checks.base import (
    bytes_of,
    require,
    require_close,
    require_finite,
    require_same_bytes,
    require_shape,
)
from gdcb.checks.ground import stream
from gdcb.records import Located, take_rows
from gdcb.streams import Stream


def a_draw_has_the_rows_first(case: BanditCase) -> None:
    """Draws are arrays, or tuples of them (within tuples), whose leading axis is the rows'."""
    for rng in (stream(), Stream((1, 2), 3, 1)):  # a simulation, and live: a key a row
        draw = case.bandit.draw(rng, case.taught(), case.at())
        for part in _parts(draw):
            require(isinstance(part, np.ndarray), f"expected arrays, got {type(part).__name__}")
            rows = part.shape[0] if part.ndim else 0
            require(rows == GROUP.size, f"expected {GROUP.size} rows, got {rows}")
            require_finite(part, "a draw")


def _parts(draw: Any) -> list[Any]:
    """Return the arrays of a draw; a learner of several learners has tuples within tuples."""
    if isinstance(draw, tuple):
        return [one for part in draw for one in _parts(part)]
    return [draw]


def values_and_means_have_their_shape(case: BanditCase) -> None:
    """Values and means are finite, (N, M) for M actions, on the arms and between them.

    What is learned of a class lies within [0, 1].
    """
    state, at = case.taught(), case.at()
    draw = case.bandit.draw(stream(), state, at)
    for where, located in (("arms", case.arms.nominal), ("actions", case.between(GROUP.size))):
        shape = (GROUP.size, located.arm.shape[1])
        value, mean = case.bandit.value(draw, located), case.bandit.mean(state, at, located)
        for name, found in ((f"value at {where}", value), (f"mean at {where}", mean)):
            require_shape(found, shape, name)
            require_finite(found, name)
        if case.bandit.target == "class":
            inside = (mean >= 0.0).all() and (mean <= 1.0).all()
            require(inside, f"mean at {where}: a class's probability outside 0 and 1")


def an_arm_located_is_the_arm(case: BanditCase) -> None:
    """Actions located exactly at an arm are worth what the arm is."""
    state, at = case.taught(), case.at()
    draw = case.bandit.draw(stream(), state, at)
    coords = np.repeat(case.arms.coords[None], GROUP.size, axis=0)
    located, nominal = case.arms.locate(coords), case.arms.nominal
    first = located.arm[:1]  # twins are found as the first of them
    pick = np.repeat(first, GROUP.size, axis=0)
    for name, found, arms in (
        ("value", case.bandit.value(draw, located), case.bandit.value(draw, nominal)),
        ("mean", case.bandit.mean(state, at, located), case.bandit.mean(state, at, nominal)),
    ):
        expected = np.take_along_axis(arms, pick, axis=1)
        require_close(found, expected, f"{name} at the arms, located and nominal")


def some_rows_of_a_draw_stand_alone(case: BanditCase) -> None:
    """Rows taken out of a draw say of their actions what they said among all rows, to the bit."""
    draw = case.bandit.draw(stream(), case.taught(), case.at())
    some = np.array([4, 1])
    for located, few in (
        (case.arms.nominal, case.arms.nominal),
        (case.between(GROUP.size), case.between(2)),
    ):
        whole = case.bandit.value(draw, located)[some]
        require_same_bytes(case.bandit.value(take_rows(draw, some), few), whole, "values")


def what_does_not_run_disturbs_nothing(case: BanditCase) -> None:
    """Beside an action that does not run (NaN), and one near no arm, values stay as they were."""
    draw = case.bandit.draw(stream(), case.taught(), case.at())
    located = case.between(GROUP.size)
    expected = case.bandit.value(draw, located)
    coord, arm = located.coord.copy(), located.arm.copy()
    coord[:, 0] = np.nan
    if not case.bandit.is_curve:
        arm[:, 1] = -1
    steps = located.steps
    value = case.bandit.value(draw, Located(arm, coord, lambda: steps))
    require_shape(value, expected.shape, "values beside NaN")
    require_same_bytes(value[:, 2:].copy(), expected[:, 2:].copy(), "values beside NaN")
    require_finite(value[:, 1:], "the value of an action near no arm")


def the_same_key_draws_the_same(case: BanditCase) -> None:
    """Under the same key it draws the same, and drawing does not change the state."""
    state, at = case.taught(), case.at()
    before = bytes_of(state)
    one = case.bandit.draw(stream(2), state, at)
    require_same_bytes(case.bandit.draw(stream(2), state, at), one, "two draws of one key")
    require(bytes_of(state) == before, "drawing changed the state")
    case.bandit.mean(state, at, case.arms.nominal)
    require(bytes_of(state) == before, "reading the mean changed the state")


def a_draw_does_not_see_its_neighbours(case: BanditCase) -> None:
    """Rows draw the same bits whatever rows come behind them and whatever other groups learned."""
    state, located = case.taught(), case.between(GROUP.size)
    whole = case.bandit.value(case.bandit.draw(stream(), state, case.at()), located)
    mean = case.bandit.mean(state, case.at(), located)
    few = replace(located, arm=located.arm[:4], coord=located.coord[:4])
    alone = case.bandit.value(case.bandit.draw(stream(), state, case.at(CELLS[:4])), few)
    require_same_bytes(alone, whole[:4], "rows drawn without those behind them")
    alone = case.bandit.mean(state, case.at(CELLS[:4]), few)
    require_same_bytes(alone, mean[:4], "means without the rows behind them")
    for group in (0, 2):  # in front and behind
        other, cell = case.taught(), np.repeat(np.flatnonzero(group == GROUP), 5)
        case.bandit.update(other, case.evidence(cell.size, seed=8, cell=cell))
        beside = case.bandit.value(case.bandit.draw(stream(), other, case.at()), located)
        rows = np.not_equal(GROUP, group)
        require_same_bytes(beside[rows], whole[rows], "rows beside cells that learned more")


def rows_of_a_cell_draw_apart(case: BanditCase) -> None:
    """Two rows of one cell differ in a batch as often as one row does under two keys.

    Over 9 keys and 100 rows, at least 0.7 times as often. A learner without chance never differs.
    """
    state, at = case.taught(), case.at(np.zeros(100, dtype=np.int64))
    values = np.stack(
        [
            case.bandit.value(case.bandit.draw(stream(t), state, at), case.arms.nominal)
            for t in range(9)
        ]
    )
    by_key = float((values[1:] != values[:-1]).any(axis=-1).mean())
    by_row = float((values[:, 1:] != values[:, :-1]).any(axis=-1).mean())
    text = f"rows of one cell differ in {by_row:.0%} of the pairs, a row's draws in {by_key:.0%}"
    require(by_row >= 0.7 * by_key, text)


def draws_average_to_the_mean(case: BanditCase) -> None:
    """On average 4,000 draws of an arm are worth its mean.

    |z| < 6 where the law of the draws is declared ('marginals'), a false alarm of 2e-9 an arm.
    Otherwise within one standard deviation of a draw: a mean may be the value at a mode, and a
    learner may explore beside what it knows. Indices without chance are no draws of a law.
    """
    state, zero = case.taught(), np.zeros(4_000, dtype=np.int64)
    draw = case.bandit.draw(stream(), state, case.at(zero))
    value = case.bandit.value(draw, case.arms.nominal)
    if (value == value[0]).all():
        return
    mean = case.bandit.mean(state, case.at(zero[:1]), case.arms.nominal)[0]
    within = value.std(axis=0)
    if "marginals" in case.bandit.supports:
        within = 6.0 * within / zero.size**0.5
    gap = np.abs(value.mean(axis=0) - mean)
    worst = int((gap - within).argmax())
    text = f"arm {worst}: the draws' average lies {gap[worst]:.3g} off the mean"
    require(gap[worst] <= within[worst] + 1e-9, f"{text}, {within[worst]:.3g} is allowed")


def what_it_does_not_read_changes_nothing(case: BanditCase) -> None:
    """Where x or δ is not in `reads`, changing it or leaving it out changes nothing, to the bit.

    x changes under the same δ, and δ under the same x. Means, draws and what is learned are
    compared.
    """
    state, located, at, seen = (
        case.taught(60),
        case.between(GROUP.size),
        case.at(),
        case.evidence(12),
    )
    learned = case.state()
    case.bandit.update(learned, seen)
    mean, draw = case.bandit.mean(state, at, located), case.bandit.draw(stream(), state, at)
    for name in sorted({"x", "delta"} - case.bandit.reads):
        for how, other in (("another", _other), ("no", lambda *_: None)):
            new: dict[str, Any] = {name: other(case, name, at)}
            here = replace(at, **new)
            text = f"under {how} {name}, which it does not declare to read"
            require_same_bytes(case.bandit.mean(state, here, located), mean, f"means {text}")
            require_same_bytes(case.bandit.draw(stream(), state, here), draw, f"draws {text}")
            one = case.state()
            new = {name: other(case, name, seen)}
            case.bandit.update(one, replace(seen, **new))
            require_same_bytes(one, learned, f"what is learned {text}")


def what_it_reads_matters(case: BanditCase) -> None:
    """Where x or δ is in `reads`, its means depend on it while the other stays as it is.

    A warm start does not adjust outcomes for what a learner declares to read.
    """
    state, located, at = case.taught(60), case.between(GROUP.size), case.at()
    mean = case.bandit.mean(state, at, located)
    for name in sorted(case.bandit.reads):
        new: dict[str, Any] = {name: _other(case, name, at)}
        moved = case.bandit.mean(state, replace(at, **new), located)
        text = f"it declares to read {name}, and its means do not depend on it"
        require(moved.tobytes() != mean.tobytes(), text)


def _other(case: BanditCase, name: str, rows: Any) -> Any:
    """Return other contexts, or another δ, of as many rows."""
    return case.ground.contexts(rows.cell.size, seed=8) if name == "x" else 1.3 * rows.delta
