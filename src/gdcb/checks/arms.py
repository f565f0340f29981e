"""What every arm space promises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.arms import Arms
from gdcb.checks.base import (
    require,
    require_described,
    require_finite,
    require_frozen,
    require_same_bytes,
    require_shape,
)


@dataclass(frozen=True, eq=False)
class ArmsCase:
    """What declares an arm space."""

    part: Any

    def build(self) -> Arms:
        """Return the arm space."""
        arms: Arms = self.part if isinstance(self.part, Arms) else self.part.build()
        return arms


def settings_are_frozen(case: ArmsCase) -> None:
    """Its settings cannot be set, and are plain data."""
    require_frozen(case.part)
    if not isinstance(case.part, Arms):
        require_described(case.part)


def it_builds_the_same_arms_again(case: ArmsCase) -> None:
    """Arms that it builds have different names and finite coordinates, the same every time."""
    arms, again = case.build(), case.build()
    require(isinstance(arms, Arms), f"build: expected Arms, got {type(arms).__name__}")
    require(arms.n >= 1 and len(set(arms.names)) == arms.n, f"names: got {arms.names}")
    require_shape(arms.coords, (arms.n, arms.n_coords), "coordinates")
    require_finite(arms.coords, "coordinates")
    require(arms.names == again.names, "built twice, its names differ")
    require_same_bytes(again.coords, arms.coords, "coordinates built twice")


def every_arm_is_where_it_is(case: ArmsCase) -> None:
    """Located by its own coordinates every arm is found, or its first twin, at 0 steps."""
    arms = case.build()
    found = arms.locate(arms.coords[None])
    require((found.arm >= 0).all(), "an arm is located at no arm")
    require((arms.coords[found.arm[0]] == arms.coords).all(), "an arm is located at another arm")
    require((found.steps == 0).all(), f"arms lie off themselves: {found.steps.max():.3g} steps")
    first = [int(np.flatnonzero((arms.coords == c).all(axis=1))[0]) for c in arms.coords]
    require(found.arm[0].tolist() == first, "of arms at one place another than the first is found")


def nothing_far_is_near(case: ArmsCase) -> None:
    """Half-way between two arms is at most half a local step off; an unknown category is at none.

    With a declared step the distance is counted in it.
    """
    arms = case.build()
    if arms.is_exact.any():
        far = np.full((1, 1, arms.n_coords), float(np.abs(arms.coords).max()) + 1.0)
        require(arms.locate(far).arm[0, 0] == -1, "an unknown category is located at an arm")
        return
    for j in range(arms.n_coords):
        levels = np.unique(arms.coords[:, j])
        if levels.size < 2:
            continue
        here = np.repeat(arms.coords[None, :1], levels.size - 1, axis=1)
        here[0, :, j] = (levels[1:] + levels[:-1]) / 2
        gap = arms.locate(here).steps
        local = 1.0 if np.isnan(arms.steps[j]) else float(np.diff(levels).max() / arms.steps[j])
        is_grid = arms.n == np.prod([np.unique(column).size for column in arms.coords.T])
        if arms.n_coords == 1 or is_grid:
            require((gap <= 0.5 * local + 1e-9).all(), f"half-way is {gap.max():.3g} steps off")
        require((gap > 0).all(), "half-way between two arms is at an arm")


CHECKS = (
    settings_are_frozen,
    it_builds_the_same_arms_again,
    every_arm_is_where_it_is,
    nothing_far_is_near,
)
