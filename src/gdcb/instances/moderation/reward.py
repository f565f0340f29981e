"""What a moderated post is worth: a satisfied community, less what violations and appeals cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.parts import Column, check_settings, column, take


@dataclass(frozen=True)
class ModerationReward:
    """Satisfaction less the cost of a violation and of an appeal, which a community sets itself.

    r = y₁ − c_v(x)·y₂ − c_a(x)·y₃ with y₁ (satisfied), y₂ (violation) and y₃ (appeal) 0 or 1. The
    learner learns r itself: three outcomes that may come together are no two classes, so there is
    no single probability whose payoff is known.

    Parameters
    ----------
    violation_cost, appeal_cost : context columns of the two costs; None: 1
    outcome : names of the three outcomes

    Notes
    -----
    Assumes: all three are known when the outcome is told. An appeal that comes later is an event
    (`Agent.appeal`) and changes no reward.

    Stops applying: rewards have few values and are not normal; a Gaussian learner's draws are right
    in the mean and only roughly right in spread.

    Examples
    --------
    Satisfied, and appealed against at a cost of 0.5: 1 − 0.5 = 0.5. Not satisfied, and a violation
    at a cost of 2: −2.

    >>> reward = ModerationReward(violation_cost=0, appeal_cost=1)
    >>> y, x = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]), np.array([[2.0, 0.5], [2.0, 0.5]])
    >>> reward.reward(y, np.zeros((2, 2)), x).tolist()
    [0.5, -2.0]
    """

    violation_cost: Column | None = column(None)
    appeal_cost: Column | None = column(None)
    outcome: tuple[str, ...] = ("satisfied", "violation", "appeal")

    def __post_init__(self) -> None:
        check_settings(self, "reward")
        if len(self.outcome) != 3:
            raise InvalidInput(f"reward.outcome: expected 3 names, got {self.outcome!r}")

    @property
    def target(self) -> str:
        """The learner learns the reward."""
        return "reward"

    def reward(self, y: Array, e: Array, x: Array) -> Array:
        """Return satisfaction less costs, whatever ran: (N,)."""
        return self.learn(y, x)[0]

    def learn(self, y: Array, x: Array) -> tuple[Array, None]:
        """Learn the reward itself."""
        violation = 1.0 if self.violation_cost is None else take(x, self.violation_cost)
        appeal = 1.0 if self.appeal_cost is None else take(x, self.appeal_cost)
        return np.asarray(y[:, 0] - violation * y[:, 1] - appeal * y[:, 2]), None

    def worth(self, value: Array, e: Array, x: Array) -> Array:
        """Return the value: it is the expected reward."""
        return value

    def fits(self, n_columns: int) -> None:
        """Fit any action: it reads none."""

    def possible(self, rng: np.random.Generator, n: int) -> Array:
        """Return n outcomes that can be, for the checks of parts: (n, 3)."""
        return np.asarray(rng.random((n, 3)) < 0.5, dtype=float)

    def check(self, y: Array) -> None:
        """Refuse what is not 0 or 1."""
        bad = (y != 0.0) & (y != 1.0)
        if bad.any():
            row, at = (int(index[0]) for index in np.nonzero(bad))
            raise InvalidInput(f"outcome.{self.outcome[at]}: expected 0 or 1, got {y[row, at]:g}")
