"""P(arm a is best) where the arms' values are independent: ∫ Π_{b≠a} F_b dF_a."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.bandits import Marginals

_LEVELS = 32  # quantiles of each arm between which is integrated
_TAILS = (1e-12, 1e-10, 1e-8, 1e-6, 1e-5, 1e-4, 5e-4)  # and some more, where densities may blow up
_NODES = 5  # points of an interval, both ends included
_FURTHEST = 700.0  # log-odds that can still be told from 0 and 1
_NEXT_TO_ONE = 2.0**-54  # a draw of 1 − this is rounded to 1
_NEXT_TO_ZERO = 1e-308


def best_arm(laws: Marginals, mask: Array | None) -> tuple[Array, Array]:
    """Return the probability that each arm's value is the largest, and its error: (N, K) each.

    The line is cut at the quantiles of all arms, so every law is resolved where it has its mass,
    however different their widths. Between two cuts F_a and Π_{b≠a} F_b are interpolated by
    polynomials, and ∫ Π F_b dF_a of these is exact. No density is asked for: a Beta law with a
    shape below 1 has one without limit, and its mass is counted all the same. Beta laws are
    integrated on the scale of log-odds, where they are smooth up to both ends.

    The error is the largest of: what halving the cuts changes; how far the probabilities are from
    adding up to 1; and the chance of a tie, which the draws have because numbers are rounded: a
    Beta law with a shape far below 1 often draws 0 or 1 itself.

    Parameters
    ----------
    laws : of the arms' values, with a density
    mask : (N, K) arms that may win, None: all

    Examples
    --------
    Two uniform arms and a Beta(2, 1), F = u²: it is best with ∫ u·u·2u du = ½, and the others share
    the rest.

    >>> law = Marginals("beta", (np.array([[1.0, 1.0, 2.0]]), np.ones((1, 3))))
    >>> best_arm(law, None)[0].round(9).tolist()
    [[0.25, 0.25, 0.5]]
    """
    n, k = laws.parameters[0].shape
    allowed = np.ones((n, k), dtype=bool) if mask is None else mask
    proposed, error = np.zeros((n, k)), np.zeros((n, k))
    for i in range(n):
        one = _Row(laws.take(slice(i, i + 1)), allowed[i])
        cuts = one.cuts()
        fine, coarse = _integrate(one, cuts), _integrate(one, cuts[:, ::2])
        off = max(abs(float(fine.sum()) - 1.0), one.tie())
        proposed[i, allowed[i]] = fine
        error[i, allowed[i]] = np.maximum(np.abs(fine - coarse), off)
    return proposed, error


def _integrate(row: _Row, cuts: Array) -> Array:
    """Return ∫ Π_{b≠a} F_b dF_a for every arm of a row."""
    edges = np.unique(cuts)
    if cuts.shape[0] == 1:
        return np.ones(1)  # nobody else is allowed
    at, product = _interpolation()
    grid = edges[:-1, None] + np.diff(edges)[:, None] * at
    below = row.cdf(grid.ravel()).reshape(-1, *grid.shape)
    ones = np.ones((1, *grid.shape))
    before = np.cumprod(np.concatenate((ones, below[:-1])), axis=0)
    behind = np.cumprod(np.concatenate((ones, below[:0:-1])), axis=0)[::-1]
    return np.asarray(((before * behind) * (below @ product.T)).sum(axis=(1, 2)))


@cache
def _interpolation() -> tuple[Array, Array]:
    """Return the points of an interval (Q,) on [0, 1], and ∫ l_j·l_k′ of their polynomials."""
    at = 0.5 - 0.5 * np.cos(np.pi * np.arange(_NODES) / (_NODES - 1))
    basis = [np.polynomial.Polynomial.fromroots(np.delete(at, j)) for j in range(_NODES)]
    basis = [one / one(at[j]) for j, one in enumerate(basis)]
    product = np.empty((_NODES, _NODES))
    for j, first in enumerate(basis):
        for k, second in enumerate(basis):
            whole = (first * second.deriv()).integ()
            product[j, k] = whole(1.0) - whole(0.0)
    return at, product


class _Row:
    """The laws of the allowed arms of one row, on a line where they are smooth.

    A Beta arm's value lies between offset and offset + slope. The line is the log-odds of the
    value's place between the lowest and the highest of these ends, low and high; the distance to
    either end is kept by itself, so that nothing is lost to rounding next to them.
    """

    def __init__(self, laws: Marginals, allowed: Array) -> None:
        shape = laws.parameters[0].shape
        offset, slope = (np.broadcast_to(part, shape) for part in (laws.offset, laws.slope))
        self.kind = laws.kind
        self.parameters: list[Any] = [part[0, allowed][:, None] for part in laws.parameters]
        self.offset, self.slope = offset[0, allowed][:, None], slope[0, allowed][:, None]
        self.top = self.offset + self.slope
        self.low, self.high = self.offset.min(), self.top.max()
        # Every arm as a row of its own.
        self.laws = Marginals(laws.kind, tuple(self.parameters), self.offset, self.slope)

    def cuts(self) -> Array:
        """Return where each arm's quantiles lie on the line: (arms, Q)."""
        from scipy.special import betaincinv

        angle = np.linspace(0.0, np.pi / 2, _LEVELS + 1)[1:-1]
        tails, middle = np.array(_TAILS), np.sin(angle) ** 2
        share = np.concatenate((tails, middle, 1.0 - tails[::-1]))
        if self.kind != "beta":
            return self.laws.quantile(share)[:, 0]
        a, b = self.parameters
        rest = np.concatenate((1.0 - tails, np.cos(angle) ** 2, tails[::-1]))
        above = (self.offset - self.low) + self.slope * betaincinv(a, b, share)
        under = (self.high - self.top) + self.slope * betaincinv(b, a, rest)
        with np.errstate(divide="ignore"):
            odds = np.log(above) - np.log(under)
        return np.asarray(np.clip(odds, -_FURTHEST, _FURTHEST))

    def cdf(self, line: Array) -> Array:
        """Return every arm's distribution function at points (Q,) of the line: (arms, Q)."""
        from scipy.special import betainc, expit

        if self.kind != "beta":
            return self.laws.cdf(line[None, None, :])[:, 0]
        a, b = self.parameters
        width = self.high - self.low
        x = np.clip(((self.low - self.offset) + width * expit(line)) / self.slope, 0.0, 1.0)
        y = np.clip(((self.top - self.high) + width * expit(-line)) / self.slope, 0.0, 1.0)
        is_near_one = x > 0.5
        first, second = np.where(is_near_one, b, a), np.where(is_near_one, a, b)
        share = betainc(first, second, np.where(is_near_one, y, x))
        return np.asarray(np.where(is_near_one, 1.0 - share, share))

    def tie(self) -> float:
        """Return the largest chance that two arms draw the same end of their range."""
        from scipy.special import betainc

        if self.kind != "beta":
            return 0.0
        (a, b), largest = self.parameters, 0.0
        for end, mass in (
            (self.top, betainc(b, a, _NEXT_TO_ONE)),
            (self.offset, betainc(a, b, _NEXT_TO_ZERO)),
        ):
            both = np.where(end == end.T, mass * mass.T, 0.0)
            np.fill_diagonal(both, 0.0)
            largest = max(largest, float(both.max()))
        return largest
