"""A scaler on trial: the contexts and labels it is tried with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.checks.ground import Ground
from gdcb.records import copy

OWNERS = np.arange(4)


@dataclass(slots=True)
class Lesson:
    """Rows for `observe`, in its order."""

    owner: Array
    x: Array
    action: Array
    label: Array
    weight: Array

    def take(self, index: Array) -> Lesson:
        """Return some rows."""
        columns = (self.owner, self.x, self.action, self.label, self.weight)
        return Lesson(*(column[index] for column in columns))

    def parts(self) -> tuple[Array, ...]:
        """Return what `observe` is given behind the state."""
        return self.owner, self.x, self.action, self.label, self.weight


@dataclass(frozen=True, eq=False)
class ScalerCase:
    """A scaler, and the contexts it is tried on."""

    scaler: Any
    ground: Ground

    @property
    def learns_from(self) -> str:
        """What its rows bring."""
        return str(getattr(self.scaler, "learns_from", ""))

    @property
    def n(self) -> int:
        """Rows that make a fit: an outcome says less of δ than a label does."""
        return 600 if self.learns_from == "outcome" else 60

    def signal(self, x: Array) -> Array:
        """Return the truth behind the labels (N, K·q): it rises with the first column in use.

        A scaler whose arms read columns of their own names the first of each by `leading`; None
        there: that entry of δ reads no column, and the truth of it is 0.
        """
        leading = self.leading
        column = x[:, [first if isinstance(first, int) else 0 for first in leading]]
        middle, size = column.mean(axis=0), column.std(axis=0)
        rises = np.array([first is not None for first in leading])
        return np.asarray(0.5 * rises * (column - middle) / np.where(size > 0, size, 1.0))

    @property
    def leading(self) -> tuple[Any, ...]:
        """The first column that each entry of δ reads; None: it reads none."""
        features = getattr(self.scaler, "features", ()) or (0,)
        usual = features[:1] * max(self.scaler.n_labels, 1)
        return tuple(getattr(self.scaler, "leading", usual))

    def lesson(self, n: int, seed: int = 3) -> Lesson:
        """Return n rows over all owners, whose labels or outcomes follow the signal."""
        rng = np.random.default_rng(seed)
        x = self.ground.contexts(n, seed)
        signal = self.signal(x)
        action = np.exp(0.5 * rng.normal(size=(n, 1)))
        if self.learns_from == "outcome":
            chance = 1.0 / (1.0 + np.exp(-6.0 + 6.0 * action[:, 0] / np.exp(signal[:, 0])))
            label = (rng.random((n, 1)) < chance[:, None]).astype(float)
        elif hasattr(self.scaler, "made_labels"):
            delta = np.exp(signal) if self.scaler.is_positive else signal
            shape = (n, self.scaler.n_arms, self.scaler.n_columns)
            label = self.scaler.made_labels(rng, x, delta.reshape(shape))
        else:
            noise = 0.1 * rng.normal(size=(n, self.scaler.n_labels))
            label = signal + noise
        return Lesson(np.arange(n) % OWNERS.size, x, action, label, 0.5 + rng.random(n))

    def state(self, lesson: Lesson | None = None, n_owners: int = OWNERS.size) -> Any:
        """Return the state before any data, or after some rows."""
        state = self.scaler.init(n_owners)
        if lesson is not None:
            self.scaler.observe(state, *lesson.parts())
        return state

    def taught(self) -> Any:
        """Return a state that saw `n` rows."""
        return copy(self._taught)

    @cached_property
    def _taught(self) -> Any:
        return self.state(self.lesson(self.n))

    def delta(self, state: Any, owner: Array = OWNERS) -> Array:
        """Return the δ in force of each owner at the same three contexts: (owners, 3, K, q)."""
        x = self.ground.contexts(3, seed=5)
        many = np.tile(x, (owner.size, 1))
        delta = self.scaler.predict(state, np.repeat(owner, 3), many)
        return np.asarray(delta.reshape(owner.size, 3, *delta.shape[1:]))

    def fitted(self, state: Any) -> Array:
        """Return δ after publishing a copy of a state to all owners."""
        after = copy(state)
        self.scaler.publish(after, OWNERS.copy())
        return self.delta(after)

    def published(self, n: int = 0) -> Any:
        """Return a state that was taught and published."""
        state = self.state(self.lesson(n)) if n else self.taught()
        self.scaler.publish(state, OWNERS.copy())
        return state


def case_of(scaler: Any, ground: Ground) -> ScalerCase:
    """Return the scaler on its ground."""
    return ScalerCase(scaler, ground)
