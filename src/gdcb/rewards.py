"""R: what an outcome is worth, and what the learner learns from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from gdcb.arrays import Array, is_any
from gdcb.errors import InvalidInput
from gdcb.parts import Column, check_number, check_settings, column, take


class Reward(Protocol):
    """φ and the scale on which the bandit learns.

    `target` is 'class' (the posterior is on an outcome class whose payoff is known) or 'reward'.
    """

    @property
    def outcome(self) -> tuple[str, ...]:
        """Names of the outcome columns."""

    @property
    def target(self) -> str:
        """'class' or 'reward'."""

    def reward(self, y: Array, e: Array, x: Array) -> Array:
        """Return r = φ(y) of executed actions: y (N, outcomes), e (N, D) → (N,)."""

    def learn(self, y: Array, x: Array) -> tuple[Array, Array | None]:
        """Return the learning target (N,) and the declared scale s(x) or None."""

    def worth(self, value: Array, e: Array, x: Array) -> Array:
        """Turn learned values (N, M) of actions (N, M, D) into expected rewards."""

    def check(self, y: Array) -> None:
        """Refuse outcomes that cannot be."""

    def fits(self, n_columns: int) -> None:
        """Refuse an instance whose action lacks a column that this reward reads."""


@dataclass(frozen=True)
class Payoff:
    """Pay two outcome classes what they are known to be worth: booked × price.

    r = y·win(e, x) + (1 − y)·lose with y ∈ {0, 1}. The learner's posterior is on P(y = 1), and
    the payoff multiplies its draw: the worth of an action is P·win(e, x) + (1 − P)·lose.

    Parameters
    ----------
    outcome : name of the 0/1 outcome (booked, repaid, succeeded). Names behind it are recorded
        with it for other readers; no reward comes of them
    action : action column that `win` pays (booked × price); None pays 1
    cost : context column taken off `win`
    lose : what the other class pays
    win : a function (e (N, M, D), x (N, p)) → (N, M) instead, from Python only; where nothing
        runs e is NaN, and so may the payoff be: the null action's declared reward stands in

    Notes
    -----
    Assumes: what a class pays is known, given the action and the context, before the outcome is.

    Stops applying: three classes and more, and payoffs that vary within a class in a way that the
    class does not tell; learn the reward itself there (`Scaled`).

    Examples
    --------
    A price of 120, booked with probability ½, is worth 60; with 10 lost on every night that stays
    empty it is worth ½·120 − ½·10 = 55.

    >>> import numpy as np
    >>> p, e, x = np.array([[0.5]]), np.array([[[120.0]]]), np.zeros((1, 1))
    >>> Payoff(action=0).worth(p, e, x).tolist()
    [[60.0]]
    >>> Payoff(action=0, lose=-10.0).worth(p, e, x).tolist()
    [[55.0]]
    """

    outcome: tuple[str, ...] = ("success",)
    action: int | None = None
    cost: Column | None = column(None)
    lose: float = 0.0
    win: Callable[[Array, Array], Array] | None = None
    on_device: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_settings(self, "reward")
        _check_names(self.outcome)
        check_number("reward.lose", self.lose)

    @property
    def target(self) -> str:
        """The learner learns the class."""
        return "class"

    def _win(self, e: Array, x: Array) -> Array | float:
        if self.win is not None:
            return self.win(e, x)
        paid: Array | float = 1.0 if self.action is None else e[..., self.action]
        if self.cost is not None:
            paid = paid - take(x, self.cost)[:, None]
        return paid

    def reward(self, y: Array, e: Array, x: Array) -> Array:
        """Return the payoff of the class that came."""
        return self.worth(y[:, :1], e[:, None, :], x)[:, 0]

    def learn(self, y: Array, x: Array) -> tuple[Array, None]:
        """Learn the class itself."""
        return y[:, 0], None

    def worth(self, value: Array, e: Array, x: Array) -> Array:
        """Return P·win + (1 − P)·lose."""
        win = self._win(e, x)
        if self.lose == 0.0:
            return value if isinstance(win, float) and win == 1.0 else value * win
        return value * win + (1.0 - value) * self.lose

    def fits(self, n_columns: int) -> None:
        """Refuse to pay an action column that there is not."""
        if self.action is not None and not 0 <= self.action < n_columns:
            raise InvalidInput(f"reward.action: there is no action column {self.action}")

    def check(self, y: Array) -> None:
        """Refuse what is not 0 or 1."""
        bad = (y[:, 0] != 0.0) & (y[:, 0] != 1.0)
        if is_any(bad):
            raise InvalidInput(
                f"outcome.{self.outcome[0]}: expected 0 or 1, got {_some(y[bad, 0])}"
            )


@dataclass(frozen=True)
class Scaled:
    """Learn the reward itself, whose size may vary with a declared scale.

    r = s(x)·v(a) + noise, s declared and never divided out: the update is the weighted regression
    of r on s, never the mean of r/s, in which the noise of rows with small s would drown the rest.

    Parameters
    ----------
    outcome : name of the reward. Names behind it are recorded with it for other readers; they are
        not added to it
    scale : context column s(x) > 0; None: 1

    Notes
    -----
    Assumes: s(x) is known and above 0, and the noise of r has the same variance in every row.

    Stops applying: where the noise grows with s, rows of large s are believed too much. A scale
    that context makes but nobody declared belongs in the scaler, or in a learner that reads x.

    Examples
    --------
    v = 0.5 in a row of scale 8 is worth 4; a reward of 4 is learned as 4 at scale 8.

    >>> import numpy as np
    >>> reward, x = Scaled(scale=0), np.array([[8.0]])
    >>> reward.worth(np.array([[0.5]]), np.zeros((1, 1, 1)), x).tolist()
    [[4.0]]
    >>> y, s = reward.learn(np.array([[4.0]]), x)
    >>> y.tolist(), s.tolist()
    ([4.0], [8.0])
    """

    outcome: tuple[str, ...] = ("reward",)
    scale: Column | None = column(None)
    on_device: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_settings(self, "reward")
        _check_names(self.outcome)

    @property
    def target(self) -> str:
        """The learner learns the reward."""
        return "reward"

    def reward(self, y: Array, e: Array, x: Array) -> Array:
        """Return the outcome: it is the reward."""
        return y[:, 0]

    def learn(self, y: Array, x: Array) -> tuple[Array, Array | None]:
        """Learn the reward, weighted by its scale."""
        return y[:, 0], None if self.scale is None else take(x, self.scale)

    def worth(self, value: Array, e: Array, x: Array) -> Array:
        """Return s(x)·v."""
        return value if self.scale is None else value * take(x, self.scale)[:, None]

    def fits(self, n_columns: int) -> None:
        """Fit any action: it reads none."""

    def check(self, y: Array) -> None:
        """Refuse what is not finite."""
        bad = ~np.isfinite(y[:, 0])
        if is_any(bad):
            raise InvalidInput(
                f"outcome.{self.outcome[0]}: expected finite numbers, got {_some(y[bad, 0])}"
            )


def _check_names(outcome: tuple[str, ...]) -> None:
    """Refuse an outcome without a name, and two of one name."""
    if not outcome or not all(name.strip() for name in outcome):
        raise InvalidInput(f"reward.outcome: expected a name or several, got {outcome!r}")
    if len(set(outcome)) < len(outcome):
        raise InvalidInput(
            f"reward.outcome: expected every name once, got {', '.join(outcome)}; the reward is "
            "made of the first, and those behind it are recorded only"
        )


def _some(values: Array) -> str:
    return ", ".join(f"{value:g}" for value in values[:5])
