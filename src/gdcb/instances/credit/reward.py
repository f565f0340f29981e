"""What a loan is worth: repaid, defaulted or never taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.parts import Column, check_number, check_settings, column, take

OUTCOME = ("accepted", "repaid", "loss")


@dataclass(frozen=True)
class NetInterest:
    """Pay a loan that is repaid its net interest, take a default's loss off, pay 0 for no loan.

    The outcome is (accepted, repaid, loss): three classes, and of a default the share of the
    amount that was lost. r = repaid·W − loss·amount with W = (apr − funding)·years·amount, the
    years being those for which the whole amount is out, (tenor + 1)/24 for equal parts a month.

    The learner's posterior is on P, the probability that the offer is accepted: that is known at
    once, and no loan pays nothing. What an accepted one pays is known in expectation, from the
    lender's scorecard: with o = odds(pd)·exp(growth·(tenor − 24)) and q = o/(1 + o) for the tenor,
    an action is worth P·((1 − q)·W − q·lgd·amount).

    Parameters
    ----------
    funding, amount, pd : context columns: cost of funds a year, amount, the scorecard's probability
        of default over 24 months
    lgd : share of the amount that a default loses on average
    growth : what a month more adds to the log odds of default
    unit : what one of the amount is in the reward's currency, 1,000 for amounts in thousands
    rate, tenor : action columns: the APR and the tenor in months
    outcome : names of the three numbers of an outcome

    Notes
    -----
    Assumes: the scorecard is right, and the rate does not move who defaults; loss given default
    does not depend on the applicant.

    Stops applying: where a dearer loan defaults more often, or the scorecard is off, worth is off
    by P·(q̂ − q)·(W + lgd·amount). The realised reward is not: it has the loss that came.

    Examples
    --------
    1,000 over 23 months at 15 %, funded at 5 %: 0.1 · 1 year · 1,000 = 100. With P = ½, a
    probability of default of 0.1 and no growth, ½·(0.9·100 − 0.1·0.45·1,000) = 22.5.

    >>> reward = NetInterest(funding=0, amount=1, pd=2, lgd=0.45, growth=0.0)
    >>> x, e = np.array([[0.05, 1000.0, 0.1]]), np.array([[[0.15, 23.0]]])
    >>> reward.worth(np.array([[0.5]]), e, x).round(9).tolist()
    [[22.5]]
    >>> reward.reward(np.array([[1.0, 0.0, 0.4]]), e[:, 0], x).tolist()
    [-400.0]
    """

    funding: Column = column("funding")
    amount: Column = column("amount")
    pd: Column = column("pd")
    lgd: float = 0.45
    growth: float = 0.0411
    unit: float = 1.0
    rate: int = 0
    tenor: int = 1
    outcome: tuple[str, ...] = OUTCOME
    on_device: ClassVar[bool] = False
    # What a loan that is accepted pays is known in expectation only.
    is_exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_settings(self, "reward")
        check_number("reward.lgd", self.lgd, 0.0, 1.0)
        check_number("reward.growth", self.growth)
        check_number("reward.unit", self.unit, 0.0, open_low=True)
        if tuple(self.outcome) != OUTCOME:
            raise InvalidInput(f"reward.outcome: expected {', '.join(OUTCOME)}, got {self.outcome}")

    @property
    def target(self) -> str:
        """The learner learns the class 'accepted'."""
        return "class"

    def _amount(self, x: Array) -> Array:
        return np.asarray(self.unit * take(x, self.amount))

    def interest(self, e: Array, x: Array) -> Array:
        """Return W of actions (N, M, D): (N, M)."""
        years = (e[..., self.tenor] + 1.0) / 24.0
        margin = e[..., self.rate] - take(x, self.funding)[:, None]
        return np.asarray(margin * years * self._amount(x)[:, None])

    def default(self, e: Array, x: Array) -> Array:
        """Return q, the scorecard's probability of default over the tenors: (N, M)."""
        pd = take(x, self.pd)[:, None]
        odds = pd / (1.0 - pd) * np.exp(self.growth * (e[..., self.tenor] - 24.0))
        return np.asarray(odds / (1.0 + odds))

    def reward(self, y: Array, e: Array, x: Array) -> Array:
        """Return the net interest of a loan repaid, less what a default lost; 0 for no loan."""
        gain = self.interest(e[:, None], x)[:, 0]
        realised = y[:, 1] * gain - y[:, 2] * self._amount(x)
        return np.where((y[:, 0] == 0.0) & np.isfinite(gain), 0.0, realised)

    def learn(self, y: Array, x: Array) -> tuple[Array, None]:
        """Learn the class 'accepted'."""
        return y[:, 0], None

    def worth(self, value: Array, e: Array, x: Array) -> Array:
        """Return P·((1 − q)·W − q·lgd·amount)."""
        default, lost = self.default(e, x), (self.lgd * self._amount(x))[:, None]
        return np.asarray(value * ((1.0 - default) * self.interest(e, x) - default * lost))

    def possible(self, rng: np.random.Generator, n: int) -> Array:
        """Draw outcomes that can be: (n, 3)."""
        kind = np.arange(n) % 3
        lost = np.where(kind == 2, rng.random(n), 0.0)
        return np.stack((kind > 0, kind == 1, lost), axis=1).astype(float)

    def fits(self, n_columns: int) -> None:
        """Refuse an action without a rate or a tenor."""
        for name, at in (("rate", self.rate), ("tenor", self.tenor)):
            if not 0 <= at < n_columns:
                raise InvalidInput(f"reward.{name}: there is no action column {at}")

    def check(self, y: Array) -> None:
        """Refuse what cannot be: a loan repaid and not accepted, a loss without default."""
        accepted, repaid, loss = y.T
        is_flag = ((y[:, :2] == 0.0) | (y[:, :2] == 1.0)).all(axis=1)
        if not is_flag.all():
            raise InvalidInput(
                f"outcome: expected accepted and repaid of 0 or 1, got {y[~is_flag]}"
            )
        if (repaid > accepted).any():
            raise InvalidInput("outcome.repaid: expected 0 where the offer was not accepted, got 1")
        if not ((loss >= 0.0) & (loss <= 1.0)).all():
            raise InvalidInput(f"outcome.loss: expected a share from 0 to 1, got {loss}")
        if (loss[(repaid == 1.0) | (accepted == 0.0)] > 0.0).any():
            raise InvalidInput("outcome.loss: expected 0 unless the loan was taken and defaulted")
