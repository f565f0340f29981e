"""What every composition promises."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gdcb.arms import NUMBERS, ArmList, Arms
from gdcb.arrays import Array
from gdcb.checks.base import (
    bytes_of,
    require,
    require_close,
    require_described,
    require_finite,
    require_frozen,
    require_same_bytes,
    require_shape,
)
from gdcb.checks.ground import Ground, fitting
from gdcb.composition import ActionColumn, check_arms
from gdcb.records import Located

_N = 5


@dataclass(frozen=True, eq=False)
class CompositionCase:
    """A composition Φ, and the arms, contexts and δ it is tried with."""

    composition: Any
    ground: Ground
    arms: Arms

    def x(self) -> Array:
        """Return contexts, read-only."""
        return _sealed(self.ground.contexts(_N, seed=5))

    def deltas(self) -> dict[str, Array]:
        """Return δ with one row a context, shared by all arms or an arm's own; read-only."""
        rng = np.random.default_rng(6)
        own = 0.8 + 0.4 * rng.random((_N, self.arms.n, self.ground.n_columns))
        return {"one δ a row": _sealed(own[:, :1].copy()), "one δ an arm": _sealed(own)}

    def compose(self, delta: Array) -> Array:
        """Return what every arm proposes, read-only."""
        return _sealed(self.composition.compose(self.arms, delta, self.x()))

    def locate(self, e: Array, delta: Array) -> Located:
        """Locate actions."""
        found: Located = self.composition.locate(self.arms, e, delta, self.x())
        return found


def case_of(composition: Any, ground: Ground) -> CompositionCase:
    """Find arms that a composition takes."""

    def takes(arms: Arms) -> None:
        if hasattr(composition, "arm_kind"):  # where it is missing a check says so
            check_arms(composition, arms)
        composition.columns(arms)

    return CompositionCase(composition, ground, fitting(takes, ground))


def _sealed(array: Array) -> Array:
    array.flags.writeable = False
    return array


def settings_are_frozen(case: CompositionCase) -> None:
    """Its settings cannot be set, and are plain data."""
    require_frozen(case.composition)
    require_described(case.composition)


def it_says_which_arms_it_takes(case: CompositionCase) -> None:
    """Arms that it can use are declared, and the position of a category is no number to it."""
    check_arms(case.composition, case.arms)
    if case.composition.arm_kind != NUMBERS:
        arms = ArmList(names=case.arms.names).build()
        turned = replace(arms, coords=arms.coords[::-1].copy())
        numbers = [not column.levels for column in case.composition.columns(arms)]
        for name, delta in case.deltas().items():
            e, other = (
                case.composition.compose(some, delta, case.x())[..., numbers]
                for some in (arms, turned)
            )
            text = f"{name}: numbers of an action depend on the position of a category in the list"
            require(bytes_of(e) == bytes_of(other), text)


def columns_have_names(case: CompositionCase) -> None:
    """Columns of an action have different names, and it says whether δ must be above 0."""
    needs = getattr(case.composition, "needs_positive", None)
    require(isinstance(needs, bool), f"needs_positive: expected true or false, got {needs!r}")
    columns = case.composition.columns(case.arms)
    good = isinstance(columns, tuple) and all(isinstance(one, ActionColumn) for one in columns)
    require(good and columns, f"columns: expected a tuple of ActionColumn, got {columns!r}")
    names = [column.name for column in columns]
    require(len(set(names)) == len(names), f"columns: names must differ, got {names}")


def actions_have_their_shape(case: CompositionCase) -> None:
    """Composed actions are finite, (N, K, D); a category's column holds positions of its levels."""
    columns = case.composition.columns(case.arms)
    for name, delta in case.deltas().items():
        e = case.compose(delta)
        require_shape(e, (_N, case.arms.n, len(columns)), f"actions with {name}")
        require_finite(e, f"actions with {name}")
        for j, column in enumerate(columns):
            if column.levels:
                known = np.isin(e[..., j], np.arange(len(column.levels)))
                require(known.all(), f"{column.name}: positions of no level, {e[..., j].ravel()}")


def a_shared_delta_is_every_arms(case: CompositionCase) -> None:
    """One δ for all arms composes and locates as the same δ written down for every arm."""
    one = case.deltas()["one δ a row"]
    each = np.repeat(one, case.arms.n, axis=1)
    e = case.compose(one)
    require_close(case.compose(each), e, "actions under the same δ")
    found, other = case.locate(e, one), case.locate(e, each)
    require_same_bytes(found.arm, other.arm, "arms under the same δ")
    require_close(found.steps, other.steps, "steps under the same δ")


def locating_inverts_composing(case: CompositionCase) -> None:
    """Proposals are located at their own arm, at 0 steps; arms at one place count as one."""
    coords = case.arms.coords
    for name, delta in case.deltas().items():
        located = case.locate(case.compose(delta), delta)
        require(np.abs(located.steps).max() < 1e-6, f"{name}: a proposal lies off its own arm")
        require((located.arm >= 0).all(), f"{name}: a proposal is located at no arm")
        gap = np.abs(coords[located.arm] - coords).max()
        require(gap < 1e-6, f"{name}: a proposal is located at another arm than its own")


def located_actions_have_their_shape(case: CompositionCase) -> None:
    """Anything that may run is located: an arm or −1, coordinates, and steps of at least 0."""
    rng = np.random.default_rng(7)
    for name, delta in case.deltas().items():
        e = case.compose(delta)[:, :3] * (0.9 + 0.3 * rng.random((_N, 3, 1)))
        for j, column in enumerate(case.composition.columns(case.arms)):
            if column.levels:
                e[..., j] = rng.integers(len(column.levels), size=(_N, 3))
        located = case.locate(_sealed(e), delta)
        require_shape(located.arm, (_N, 3), f"arms with {name}")
        require_shape(located.coord, (_N, 3, case.arms.n_coords), f"coordinates with {name}")
        require_shape(located.steps, (_N, 3), f"steps with {name}")
        known = (located.arm >= -1) & (located.arm < case.arms.n)
        require(located.arm.dtype.kind in "iu" and known.all(), f"arms: got {located.arm}")
        require((located.steps >= 0).all(), f"steps: expected numbers >= 0, got {located.steps}")


def rows_stand_alone(case: CompositionCase) -> None:
    """Rows alone compose and are located as they were among all rows, to the bit."""
    x, some = case.x(), np.array([4, 1])
    for name, delta in case.deltas().items():
        e = case.compose(delta)
        alone = case.composition.compose(case.arms, delta[some], x[some])
        require_same_bytes(alone, e[some], f"actions of some rows with {name}")
        located = case.locate(e, delta)
        few = case.composition.locate(case.arms, e[some], delta[some], x[some])
        require_same_bytes(few.arm, located.arm[some], f"arms of some rows with {name}")
        require_same_bytes(few.coord, located.coord[some], f"coordinates of some rows, {name}")


def inputs_are_left_alone(case: CompositionCase) -> None:
    """Actions, δ and context are read-only, and are not written to."""
    for name, delta in case.deltas().items():
        x, e = case.x(), case.compose(delta)
        before = x.tobytes(), delta.tobytes(), e.tobytes(), bytes_of(case.arms.coords)
        case.composition.locate(case.arms, e, delta, x)
        case.composition.relative(e[:, 0], x)
        case.composition.lipschitz(case.arms, delta, x)
        after = x.tobytes(), delta.tobytes(), e.tobytes(), bytes_of(case.arms.coords)
        require(before == after, f"what it was given was changed, with {name}")


def what_does_not_run_disturbs_nothing(case: CompositionCase) -> None:
    """Beside an action that does not run (NaN) the others are located as before."""
    for name, delta in case.deltas().items():
        e = case.compose(delta)
        expected = case.locate(e, delta)
        holed = e.copy()
        holed[:, 0] = np.nan
        found = case.locate(_sealed(holed), delta)
        same = (found.arm[:, 1:] == expected.arm[:, 1:]).all()
        require(same, f"{name}: NaN beside them changed where actions are located")
        require_close(found.coord[:, 1:], expected.coord[:, 1:], f"coordinates beside NaN, {name}")


def relative_takes_the_context_off(case: CompositionCase) -> None:
    """Under one δ, relative actions of an arm are the same in every context, where δ scales."""
    delta = np.repeat(case.deltas()["one δ a row"][:1], _N, axis=0)
    e = case.compose(delta)
    for a in range(case.arms.n):
        found = case.composition.relative(e[:, a], case.x())
        require_shape(found, (_N, e.shape[-1]), "relative actions")
        scaled = found[:, : case.ground.n_columns]  # what passes through is nobody's concern
        require_close(scaled, np.repeat(scaled[:1], _N, axis=0), "relative actions of one arm")


def the_lipschitz_bound_holds(case: CompositionCase) -> None:
    """‖Φ(a, δ₁) − Φ(a, δ₂)‖ ≤ L·‖δ₁ − δ₂‖ for small steps of δ, to one part in a thousand."""
    rng = np.random.default_rng(8)
    for name, delta in case.deltas().items():
        bound = case.composition.lipschitz(case.arms, delta, case.x())
        require(isinstance(bound, float) and bound >= 0, f"lipschitz: got {bound!r}")
        if not np.isfinite(bound):
            continue
        for _ in range(4):
            step = 1e-5 * rng.normal(size=delta.shape)
            moved = np.linalg.norm(case.compose(delta + step) - case.compose(delta), axis=-1)
            length = np.linalg.norm(step, axis=-1)
            worst = float((moved / length).max())
            text = f"{name}: actions move {worst:.4g} times as far as δ, the bound is {bound:.4g}"
            require(worst <= 1.001 * bound + 1e-6, text)


CHECKS = (
    settings_are_frozen,
    it_says_which_arms_it_takes,
    columns_have_names,
    actions_have_their_shape,
    a_shared_delta_is_every_arms,
    locating_inverts_composing,
    located_actions_have_their_shape,
    rows_stand_alone,
    inputs_are_left_alone,
    what_does_not_run_disturbs_nothing,
    relative_takes_the_context_off,
    the_lipschitz_bound_holds,
)
