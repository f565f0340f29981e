"""What applicants are like: who takes an offer and repays it, and where its worth is highest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array, logistic
from gdcb.instances.credit import prior as pr
from gdcb.instances.credit.columns import LGD, MIDDLE, TYPICAL, loan_years

_COARSE = np.log(np.geomspace(0.35, 6.0, 16))  # over the going rate, where a search begins
_GOLDEN = (5.0**0.5 - 1.0) / 2.0
_STEPS = 27  # of the search: the bracket then is 1e-6 wide, in logarithms


@dataclass(slots=True)
class WellDemand:
    """Demand of N applicants in `well`: all (N, 1).

    Parameters
    ----------
    going : base · δ*(x)
    wanted : years asked for
    level, slope, tenor : α, β and γ of their branch
    odds : of default over two years
    """

    going: Array
    wanted: Array
    level: Array
    slope: Array
    tenor: Array
    odds: Array

    def taken(self, e: Array) -> Array:
        """Return P(accepted) of offers (N, M, 2): (N, M)."""
        steps = self.slope * (e[..., 0] / self.going - 1.0)
        return logistic(self._start(e[..., 1]) - steps)

    def default(self, e: Array) -> Array:
        """Return P(default | accepted) of offers (N, M, 2): (N, M)."""
        odds = self._late(e[..., 1])
        return np.asarray(odds / (1.0 + odds))

    def _start(self, months: Array) -> Array:
        return np.asarray(
            self.level + self.tenor * (months / 12.0 * TYPICAL / self.wanted - TYPICAL)
        )

    def _late(self, months: Array) -> Array:
        return np.asarray(self.odds * np.exp(pr.GROWTH * (months - MIDDLE) / 12.0))

    def best_rate(self, months: Array, funding: Array) -> Array:
        """Return the best rate of tenors (N, T): (N, T).

        At a tenor the gain is k·σ(s − βc)·(c − c₀), c the relative rate, c₀ the one that covers
        funding and loss, s the level at c = 0: β(c* − c₀) = 1 + W(exp(s − βc₀ − 1)).
        """
        from scipy.special import wrightomega

        cost = funding + LGD * self._late(months) / loan_years(months)
        least = cost / self.going
        start = self._start(months) + self.slope * (1.0 - least)
        return np.asarray(self.going * (least + (1.0 + wrightomega(start - 1.0)) / self.slope))


@dataclass(slots=True)
class MisDemand:
    """Demand of N applicants in `mis`: all (N, 1).

    Parameters
    ----------
    going : the rate that they are offered elsewhere
    wanted : years asked for
    level, slope, tenor : of their branch
    score : log odds of default over two years
    """

    going: Array
    wanted: Array
    level: Array
    slope: Array
    tenor: Array
    score: Array

    def taken(self, e: Array) -> Array:
        """Return P(accepted) of offers (N, M, 2): (N, M)."""
        return self._taken(self._above(e[..., 0]), self._missed(e[..., 1]))

    def default(self, e: Array) -> Array:
        """Return P(default | accepted) of offers (N, M, 2): (N, M)."""
        return self._default(self._above(e[..., 0]), self._late(e[..., 1]))

    def gain_at(self, months: Array, funding: Array) -> Callable[[Array], Array]:
        """Return what one mark lent earns as a function of the rates (N, M) alone.

        A search asks for many rates of the same tenors: what these do is worked out once.
        """
        missed, late, years = self._missed(months), self._late(months), loan_years(months)

        def worth(rate: Array) -> Array:
            above = self._above(rate)
            margin = (rate - funding) * years
            return earned(self._taken(above, missed), self._default(above, late), margin)

        return worth

    def _above(self, rate: Array) -> Array:
        """Return by how much rates lie above what is offered elsewhere."""
        return np.asarray(rate / self.going - 1.0)

    def _missed(self, months: Array) -> Array:
        """Return what a tenor other than the wanted one takes off the log odds."""
        off = np.log(months / (12.0 * self.wanted))
        return np.asarray(self.tenor * np.where(off < 0.0, -pr.SHORTER * off, off))

    def _taken(self, above: Array, missed: Array) -> Array:
        steep = above + (pr.KINK - 1.0) * np.maximum(above, 0.0)
        return logistic(self.level - self.slope * steep - missed)

    def _late(self, months: Array) -> Array:
        """Return the log odds of default over a tenor, at the rate offered elsewhere."""
        return np.asarray(self.score + pr.GROWTH * (months - MIDDLE) / 12.0)

    def _default(self, above: Array, late: Array) -> Array:
        return logistic(late + pr.STRAIN * above)


def earned(taken: Array, default: Array, margin: Array) -> Array:
    """Return E[r] of one mark lent: P(taken)·((1 − P(default))·margin − P(default)·loss)."""
    return np.asarray(taken * ((1.0 - default) * margin - default * LGD))


def peak(worth: Callable[[Array], Array], start: Array, shape: tuple[int, ...]) -> Array:
    """Return where functions that rise and then fall are highest, by golden section.

    >>> at = peak(lambda v: -((v - 0.2) ** 2), np.zeros((1, 1)), (1, 1))
    >>> at.round(6).tolist()
    [[0.2]]
    """
    start = np.broadcast_to(start, shape)
    found = np.stack([worth(start + step) for step in _COARSE])
    at = np.clip(found.argmax(axis=0), 1, _COARSE.size - 2)
    low, high = start + _COARSE[at - 1], start + _COARSE[at + 1]
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = worth(left), worth(right)
    for _ in range(_STEPS):
        is_left = at_left > at_right
        low, high = np.where(is_left, low, left), np.where(is_left, right, high)
        kept, known = np.where(is_left, left, right), np.where(is_left, at_left, at_right)
        fresh = np.where(is_left, high - _GOLDEN * (high - low), low + _GOLDEN * (high - low))
        asked = worth(fresh)
        left, right = np.where(is_left, fresh, kept), np.where(is_left, kept, fresh)
        at_left, at_right = np.where(is_left, asked, known), np.where(is_left, known, asked)
    return np.asarray(np.where(at_left > at_right, left, right))
