"""A bandit on trial: the arms, contexts, outcomes and actions it is tried with."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gdcb.arms import Arms
from gdcb.arrays import Array
from gdcb.checks.ground import Ground, fitting, stream
from gdcb.errors import InvalidInput
from gdcb.records import Evidence, Located, Setting

GROUP = np.array([0, 0, 1, 1, 2, 2])  # six cells in three groups
CELLS = np.arange(GROUP.size)


@dataclass(frozen=True, eq=False)
class BanditCase:
    """A bandit, the arms and contexts it is tried on, and whether it learns classes there."""

    bandit: Any
    ground: Ground
    arms: Arms
    is_class: bool

    def state(self, group: Array = GROUP) -> Any:
        """Return the prior."""
        return self.bandit.init(group.copy(), self.arms)

    def taught(self, n: int = 30, seed: int = 3) -> Any:
        """Return a state that saw n rows, in all cells."""
        state = self.state()
        self.bandit.update(state, self.evidence(n, seed))
        return state

    def at(self, cell: Array = CELLS) -> Setting:
        """Return a setting a row; a cell's context and δ are the same wherever it stands."""
        x = self.ground.contexts(int(GROUP.size), seed=7)[cell % GROUP.size]
        return Setting(cell.copy(), x, delta_of(x))

    def evidence(self, n: int, seed: int = 3, cell: Array | None = None) -> Evidence:
        """Return n rows over all cells: executed arms, outcomes, weights, a reward scale."""
        rng = np.random.default_rng(seed)
        arm = rng.integers(self.arms.n, size=n)
        x = self.ground.contexts(n, seed)
        cells = rng.permutation(np.arange(n) % GROUP.size) if cell is None else cell
        scale = None if self.is_class else 0.5 + rng.random(n)
        y = rng.random(n) < 0.5 if self.is_class else rng.normal(1.0, 1.0, n)
        weight = 0.5 + rng.random(n)
        coord = self.arms.coords[arm].copy()
        return Evidence(cells, arm, coord, y.astype(float), scale, weight, x, delta_of(x))

    def between(self, n: int) -> Located:
        """Locate actions that gates moved: the arms, and points between and beyond them."""
        coords = self.arms.coords
        if not self.arms.is_exact.any():
            coords = np.concatenate((coords, (coords[1:] + coords[:-1]) / 2, coords[-1:] * 1.1))
        return self.arms.locate(np.repeat(coords[None], n, axis=0))

    def behaviour(self, state: Any, cell: Array = CELLS) -> Array:
        """Return all that a round can see of cells: means and draws, on and off the arms."""
        at, located = self.at(cell), self.between(cell.size)
        draw = self.bandit.draw(stream(5), state, at)
        mean = self.bandit.mean(state, at, located)
        return np.concatenate((mean, self.bandit.value(draw, located)), axis=1)


def case_of(bandit: Any, ground: Ground) -> BanditCase:
    """Find arms and outcomes that a bandit takes."""
    arms = fitting(lambda arms: bandit.init(np.zeros(1, dtype=np.int64), arms), ground)
    case = BanditCase(bandit, ground, arms, is_class=getattr(bandit, "target", "") == "class")
    if getattr(bandit, "target", "") == "any":
        try:
            case.taught(6)
        except InvalidInput:
            return replace(case, is_class=True)
        except Exception:  # its own fault: the checks will say so
            return case
    return case


def delta_of(x: Array) -> Array:
    """Return δ (N, 1, 1) above 0, which follows the first column."""
    return np.exp(0.2 * (x[:, :1, None] - 1.0))


def some(record: Evidence, index: Array) -> Evidence:
    """Return some rows of evidence."""
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(record):
        column = getattr(record, field.name)
        fields[field.name] = None if column is None else column[index]
    return Evidence(**fields)


def by_axis(state: Any, prefix: str = "") -> list[tuple[str, str, Any]]:
    """Return name, axis and value of every field of a state, records inside it included."""
    found: list[tuple[str, str, Any]] = []
    for field in dataclasses.fields(state):
        axis, value = field.metadata.get("axis", "cell"), getattr(state, field.name)
        name = f"{prefix}{field.name}"
        parts = value if isinstance(value, tuple) else (value,)
        if axis == "constant" or not all(dataclasses.is_dataclass(part) for part in parts):
            found.append((name, axis, value))
            continue
        for i, part in enumerate(parts):
            dotted = f"{name}.{i}." if isinstance(value, tuple) else f"{name}."
            found += by_axis(part, dotted)
    return found
