"""Nominal arm spaces A: lists, and grids of named factors, with coordinates.

Coordinates are what the outcome can see. A 5 × 5 grid of price multipliers whose product is the
price has 25 arms and 15 distinct coordinates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from gdcb.arrays import Array, along, at_least, is_finite, like, put_where, search, zeros
from gdcb.errors import InvalidInput
from gdcb.parts import check_choice, check_number, check_settings, check_size
from gdcb.records import Located

NUMBERS, CATEGORIES = "numbers", "categories"  # kinds of arms


@dataclass(frozen=True, eq=False)
class Arms:
    """K nominal arms.

    Distances are in steps: declared ones, or the spacing of the arms around a point, so that
    what lies between two neighbouring arms is within half a step of one of them.

    Parameters
    ----------
    names : K names, for people
    coords : (K, C) coordinate of each arm
    steps : (C,) what counts as one step along each coordinate; NaN: the local spacing
    is_exact : (C,) coordinates that are categories and match exactly
    levels : (K, F) level of each arm along each of F factors, counted from 0; one factor with a
        level an arm where omitted
    """

    names: tuple[str, ...]
    coords: Array
    steps: Array
    is_exact: Array
    levels: Array = field(default_factory=lambda: np.empty((0, 1), dtype=np.int64))
    nominal: Located = field(init=False)
    _values: tuple[Array, ...] = field(init=False)
    _middle: Array = field(init=False)
    _first: Array = field(init=False)
    places: Array = field(init=False)

    def __post_init__(self) -> None:
        check_settings(self, "arms")
        for name, kinds in (("coords", "fiu"), ("steps", "fiu"), ("is_exact", "b")):
            value: Any = getattr(self, name)
            if not isinstance(value, np.ndarray) or value.dtype.kind not in kinds:
                what = "true or false" if kinds == "b" else "numbers"
                raise InvalidInput(f"arms.{name}: expected an array of {what}, got {value!r}")
        k = len(self.names)
        if k == 0:
            raise InvalidInput("arms: expected at least one arm, got none")
        if len(set(self.names)) != k:
            raise InvalidInput(f"arms: names must differ, got {', '.join(self.names)}")
        if self.coords.shape[0] != k or not np.isfinite(self.coords).all():
            raise InvalidInput("arms: every arm needs finite coordinates")
        if (self.steps <= 0).any() or np.isinf(self.steps).any():
            raise InvalidInput(f"arms: steps must be positive, got {self.steps.tolist()}")
        if self.levels.size == 0:
            object.__setattr__(self, "levels", np.arange(k)[:, None])
        shape, kind = self.levels.shape, self.levels.dtype.kind
        if len(shape) != 2 or shape[0] != k or kind not in "iu" or (self.levels < 0).any():
            raise InvalidInput(f"arms: expected a level >= 0 of every factor for {k} arms")
        located = Located(np.arange(k)[None], self.coords[None], partial(np.zeros, (1, k)), True)
        values = tuple(np.unique(column) for column in self.coords.T)
        object.__setattr__(self, "nominal", located)
        object.__setattr__(self, "_values", values)
        object.__setattr__(self, "_middle", (values[0][1:] + values[0][:-1]) / 2)
        object.__setattr__(self, "_first", np.unique(self.coords[:, 0], return_index=True)[1])
        object.__setattr__(self, "places", self.in_steps(self.coords))

    @property
    def n(self) -> int:
        """Number of arms K."""
        return len(self.names)

    @property
    def kind(self) -> str:
        """'numbers', 'categories', or 'a mixture of numbers and categories'."""
        if not self.is_exact.any():
            return NUMBERS
        return CATEGORIES if self.is_exact.all() else f"a mixture of {NUMBERS} and {CATEGORIES}"

    @property
    def n_coords(self) -> int:
        """Number of coordinates C."""
        return int(self.coords.shape[1])

    def in_steps(self, coord: Array) -> Array:
        """Return coordinates (..., C) in steps; with local spacing the arms lie at 0, 1, 2, etc."""
        out = zeros(coord.shape, coord)
        for j, known in enumerate(self._values):
            value, step = coord[..., j], float(self.steps[j])
            if known.size == 1 or not np.isnan(step):
                out[..., j] = value / (1.0 if np.isnan(step) else step)
                continue
            levels = like(known, coord)
            left = (search(levels, value, side="right") - 1).clip(0, known.size - 2)
            out[..., j] = left + (value - levels[left]) / (levels[left + 1] - levels[left])
        return out

    def distance(self, coord: Array, arm: Array | slice | None = None) -> Array:
        """Return the distance in steps from coordinates (..., C) to every arm, or to `arm`.

        The maximum over coordinates; infinite where a category differs.
        """
        known, here = like(self.places, coord), self.in_steps(coord)
        places = known if arm is None else known[arm]
        if arm is None:
            here = here[..., None, :]
        largest: Array = self._apart(0, here, places)
        for j in range(1, self.n_coords):  # column by column: quicker than along a short axis
            largest = at_least(largest, self._apart(j, here, places))
        return largest

    def _apart(self, j: int, here: Array, places: Array) -> Array:
        """Return the distance along one coordinate; infinite where a category differs."""
        gap = abs(here[..., j : j + 1] - places[..., j : j + 1])[..., 0]
        return put_where(gap, gap > 0, np.inf) if self.is_exact[j] else gap

    def locate(self, coord: Array) -> Located:
        """Find the nearest arm of each coordinate (N, M, C).

        Of arms at the same place the first is found; half-way between two arms, the one with
        the smaller number (one coordinate) or the first (several).

        >>> arms = ArmList(values=(1.0, 2.0, 4.0)).build()
        >>> found = arms.locate(np.array([[[1.4], [2.5], [4.5]]]))
        >>> found.arm.tolist(), found.steps.round(2).tolist()
        ([[0, 1, 2]], [[0.4, 0.25, 0.25]])
        """
        if self.n_coords == 1 and not self.is_exact[0]:
            arm = like(self._first, coord)[search(like(self._middle, coord), coord[..., 0])]
            return Located(arm, coord, lambda: self.distance(coord, arm))
        if self.n_coords == 1:
            return self._matched(coord)
        gap = self.distance(coord)
        arm = gap.argmin(axis=-1)
        steps = along(gap, arm[..., None], axis=-1)[..., 0]
        return Located(put_where(arm, ~is_finite(steps), -1), coord, lambda: steps)

    def _matched(self, coord: Array) -> Located:
        """Find the category that each coordinate (N, M, 1) is: 0 steps away, or infinitely far."""
        known, code = like(self._values[0], coord), coord[..., 0]
        place = search(known, code).clip(0, self._values[0].size - 1)
        other = known[place] != code
        arm = put_where(like(self._first, coord)[place], other, -1)
        return Located(arm, coord, lambda: put_where(zeros(arm.shape, coord), other, np.inf))


@dataclass(frozen=True)
class ArmList:
    """A list of arms: numbers with a metric, or bare categories.

    A = {a₁, …, a_K}. With values the arm k has the coordinate a_k, and a coordinate c lies
    |c − a_k| / step away from it; where no step is declared, distance is counted in spacings of
    the arms around c. Without values an action is an arm or is none: the distance is 0 or ∞.

    Parameters
    ----------
    values : one number an arm, or none: the arms are categories
    names : names of the arms; made from the values where omitted
    step : what counts as one step; the spacing of the arms where omitted

    Notes
    -----
    Assumes: outcomes of arms with values vary smoothly with the coordinate: what lies within half
    a step of an arm is credited to it.

    Stops applying: a coordinate is one number. Two settings that act apart are a grid; an action
    of many columns that has no such number is a list of categories.

    Examples
    --------
    Between 1 and 2 a spacing is 1, between 2 and 4 it is 2: the coordinate 2.5 lies 0.25 spacings
    from the arm 2.

    >>> import numpy as np
    >>> arms = ArmList(values=(1.0, 2.0, 4.0)).build()
    >>> found = arms.locate(np.array([[[2.5]]]))
    >>> arms.names[found.arm[0, 0]], found.steps.tolist()
    ('2', [[0.25]])
    >>> ArmList([0.8, 0.9, 1.0]).build().coords.ravel().tolist()
    [0.8, 0.9, 1.0]
    >>> ArmList(names=("allow", "remove")).build().is_exact.tolist()
    [True]
    """

    values: tuple[float, ...] = ()
    names: tuple[str, ...] = ()
    step: float | None = None

    def __post_init__(self) -> None:
        given: Any = self.values
        if isinstance(given, tuple | list) and any(isinstance(value, str) for value in given):
            raise InvalidInput(
                f"arms.values: expected numbers, got {self.values!r}; arms that are only names are "
                "given as ArmList(names=...)"
            )
        names: Any = self.names
        if isinstance(names, tuple | list) and any(isinstance(name, int | float) for name in names):
            raise InvalidInput(
                f"arms.names: expected a tuple of names, got {self.names!r}; arms that are numbers "
                "are given as ArmList(values=...)"
            )
        check_settings(self, "arms")

    @property
    def n(self) -> int:
        """Number of arms K."""
        return len(self.values or self.names)

    def build(self) -> Arms:
        """Return the arm space."""
        if not self.values:
            k = len(self.names)
            coords = np.arange(k, dtype=float)[:, None]
            return Arms(self.names, coords, np.ones(1), np.array([True]))
        for value in self.values:
            check_number("arms.values", value)
        names = self.names or tuple(f"{value:g}" for value in self.values)
        if len(names) != len(self.values):
            raise InvalidInput(
                f"arms: expected as many names as values, got {len(names)} and {len(self.values)}"
            )
        coords = np.array(self.values, dtype=float)[:, None]
        return Arms(names, coords, np.array([_step(self.step)]), np.array([False]))


@dataclass(frozen=True)
class Grid:
    """A grid of named factors: one arm a combination.

    A = A¹ × … × A^F, one arm for each (a¹, …, a^F). Its coordinate is what the outcome can see: the
    product a¹·…·a^F, or (a¹, …, a^F) itself. Distances are the largest over the coordinates, in
    steps of each.

    Parameters
    ----------
    factors : {name: values}, the first varies slowest
    combine : 'product': the outcome sees the product of the factors (one coordinate);
        'none': each factor is a coordinate of its own
    steps : {name: step}, or {'product': step}; the spacing of the arms where omitted

    Notes
    -----
    Assumes: with 'product', that the outcome depends on the factors through their product alone.

    Stops applying: the number of arms is the product of the numbers of levels, and independent
    arms learn each by itself: only a learner over coordinates (`is_curve`) carries what one
    combination taught to the others. Arms of equal product stay apart as arms.

    Examples
    --------
    Nine combinations of three multipliers, five distinct products: 0.8·1.25 = 1 = 1·1, and so on.

    >>> import numpy as np
    >>> factor = (0.8, 1.0, 1.25)
    >>> arms = Grid({"A": factor, "B": factor}, combine="product").build()
    >>> arms.n, np.unique(arms.coords).tolist()
    (9, [0.64, 0.8, 1.0, 1.25, 1.5625])
    >>> arms.names[1]
    'A=0.8 B=1'
    """

    factors: dict[str, tuple[float, ...]]
    combine: str = "none"
    steps: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_settings(self, "arms")

    @property
    def n(self) -> int:
        """Number of arms K, counted before any is made."""
        return math.prod(len(values) for values in self.factors.values())

    def build(self) -> Arms:
        """Return the arm space."""
        check_size("arms", "arms × factors", self.n, len(self.factors))
        check_choice("arms.combine", self.combine, ("none", "product"))
        if not self.factors or not all(self.factors.values()):
            raise InvalidInput("arms.factors: expected at least one factor with values")
        axes = list(self.factors.values())
        for name, values in self.factors.items():
            for value in values:
                check_number(f"arms.factors.{name}", value)
        coords = np.array(list(product(*axes)), dtype=float)
        levels = np.array(list(product(*(range(len(values)) for values in axes))), dtype=np.int64)
        names = tuple(
            " ".join(f"{name}={value:g}" for name, value in zip(self.factors, row, strict=True))
            for row in coords
        )
        if self.combine == "product":
            # Rounded so that 0.8·1.25 and 1.25·0.8 are one coordinate.
            coords, labels = coords.prod(axis=1, keepdims=True).round(12), ["product"]
        else:
            labels = list(self.factors)
        unknown = set(self.steps) - set(labels)
        if unknown:
            raise InvalidInput(f"arms.steps: no coordinate {', '.join(sorted(unknown))}")
        steps = np.array([_step(self.steps.get(label)) for label in labels])
        return Arms(names, coords, steps, np.zeros(len(labels), dtype=bool), levels)


def _step(declared: float | None) -> float:
    if declared is None:
        return float("nan")
    check_number("arms.step", declared, 0.0, open_low=True)
    return float(declared)
