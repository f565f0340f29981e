"""What a call is worth: its success, after the time that it took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gdcb.arrays import Array, all_finite
from gdcb.errors import InvalidInput
from gdcb.parts import check_number, check_settings
from gdcb.rewards import Payoff


@dataclass(frozen=True)
class Latency:
    """Pay a success what is left of it after its latency: success × latency factor.

    r = y·exp(−latency[tool] − per_example·examples), y ∈ {0, 1}. The learner's posterior is on
    P(y = 1), and the factor, known before the call, multiplies its draw. Where no tool runs the
    factor is 1, and the null action's declared reward stands.

    Parameters
    ----------
    latency : −log of the factor, one number a tool in the order of the arms
    per_example : the same for every example that the prompt carries
    outcome : name of the 0/1 outcome

    Notes
    -----
    Assumes: action columns tool and examples, as `Prompt` composes them; a tool's latency is known
    and does not depend on the request.

    Stops applying: where latency is random and long waits are abandoned, success and latency are
    not a product of two known things; learn the reward itself there (`Scaled`).

    Examples
    --------
    A tool with latency 0.1 and two examples at 0.05 each: a success is worth e^−0.2.

    >>> reward = Latency(latency=(0.1,), per_example=0.05)
    >>> e, x = np.array([[0.0, 2.0, 1.0]]), np.zeros((1, 1))
    >>> reward.reward(np.ones((1, 1)), e, x).round(4).tolist()
    [0.8187]
    """

    latency: tuple[float, ...]
    per_example: float = 0.0
    outcome: tuple[str, ...] = ("success",)
    target: ClassVar[str] = "class"

    def __post_init__(self) -> None:
        check_settings(self, "reward")
        for one in self.latency:
            check_number("reward.latency", one, 0.0)
        if not self.latency:
            raise InvalidInput("reward.latency: expected one number a tool, got none")
        check_number("reward.per_example", self.per_example, 0.0)

    @classmethod
    def example(cls) -> Latency:
        """Return one that can be checked."""
        return cls(latency=(0.1, 0.2, 0.05), per_example=0.05)

    def factor(self, e: Array) -> Array:
        """Return the latency factor of prompts (..., 3): 1 where no known tool runs."""
        tool, k = e[..., 0], len(self.latency)
        runs = all_finite(e[..., :2]) & (tool >= 0) & (tool < k)
        known = np.where(runs, tool, 0.0).astype(np.int64)
        examples = np.where(runs, e[..., 1], 0.0)
        lost = np.array(self.latency)[known] + self.per_example * examples
        return np.where(runs, np.exp(-lost), 1.0)

    def reward(self, y: Array, e: Array, x: Array) -> Array:
        """Return y · factor; NaN where nothing ran, for the null action's reward."""
        return self.worth(y[:, :1], e[:, None], x)[:, 0]

    def learn(self, y: Array, x: Array) -> tuple[Array, None]:
        """Learn the class itself."""
        return y[:, 0], None

    def worth(self, value: Array, e: Array, x: Array) -> Array:
        """Return P · factor."""
        return np.asarray(value * self.factor(e))

    def fits(self, n_columns: int) -> None:
        """Refuse actions that have no number of examples."""
        if n_columns < 2:
            raise InvalidInput("reward: expected action columns tool and examples, as of a prompt")

    def check(self, y: Array) -> None:
        """Refuse what is not 0 or 1."""
        Payoff(outcome=self.outcome).check(y)
