"""Ridge regression on declared labels, in batch or row by row, published on a schedule."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array
from gdcb.parts import take_all
from gdcb.regression import with_intercept
from gdcb.scalers.head import LinearHead, RidgeState, positive


@dataclass(frozen=True)
class RidgeScaler(LinearHead):
    """δ_θ(x) = g(θᵀ(φ(x) − φ̄)), θ by ridge regression of the label on φ(x) = (1, columns).

    Labels are on the scale of the linear predictor: log δ for `link='exp'`, δ for
    `link='identity'`. Where δ is a factor a new label above log 1000 (or far below) is refused.

    θ̂ = (Σ w φφᵀ + λI)⁻¹ Σ w φ·label, the posterior mean under θ ~ N(0, σ²/λ); the intercept is
    penalised like the rest. Sums are kept, so a batch and any order of rows give the same fit.

    Parameters
    ----------
    features : context columns
    link : 'exp' for products (neutral 1) or 'identity' for sums (neutral 0)
    penalty : λ > 0, so that the fit is unique whatever the design
    every : rows an owner sees between publications
    growth : share of the rows before that must have come since the last publication; 0: any
    centre : φ̄, the mean of `features` over a frozen reference sample of contexts. Where given,
        the intercept is left out of δ and mean log δ = 0 (products) or mean δ = 0 (sums) over
        that sample: scale is not identified between arms and scaler. None: δ is not normalised
        (a severity score).
    floor : excitation floor. A publication is refused while the residual variance of log e
        (or e; relative to its base) given φ(x), since the last one, is below it: as arms
        converge, e loses the variation that identifies a fit on outcomes. 0: no floor, right
        for labels that do not depend on e.
    per : 'unit' or 'group'
    n_arms : length of δ's arm axis, 1 where all arms share one δ
    n_columns : columns q of δ; a row has n_arms · n_columns labels
    noise : what the standard deviation of a label around its mean is taken for before labels
        tell, on the scale of the linear predictor. It counts as one row, and for the standard
        error only: without rows that is the prior's, noise·‖φ(x) − φ̄‖/√λ.

    Notes
    -----
    Assumes: the label's mean is linear in the columns, its noise has one variance, and labels
    are missing at random given the columns, or weighted for it.

    Stops applying: where the truth bends, θ̂ is the best line for the contexts that were seen,
    and extrapolates as a line. Features of very different size share one penalty: scale them.

    Examples
    --------
    Two rows, φ = (1, x), x = ∓1, labels ∓2, λ = 2: gram 2I, so θ = (4I)⁻¹(0, 4) = (0, 1).

    >>> scaler = RidgeScaler(features=(0,), link="identity", penalty=2.0)
    >>> state = scaler.init(1)
    >>> x, label, owner = np.array([[-1.0], [1.0]]), np.array([[-2.0], [2.0]]), np.zeros(2, int)
    >>> scaler.observe(state, owner, x, np.ones((2, 1)), label, np.ones(2))
    >>> scaler.publish(state, np.array([0])).tolist(), state.theta[0, 0].tolist()
    ([0], [0.0, 1.0])
    """

    @property
    def width(self) -> int:
        """One column a feature, and the leading 1."""
        return len(self.features) + 1

    def phi(self, x: Array) -> Array:
        """Return φ(x) = (1, columns): (N, d)."""
        return with_intercept(x, self.features)

    def predict(self, state: RidgeState, owner: Array, x: Array) -> Array:
        """Evaluate the published δ: (N, n_arms, n_columns)."""
        # Every decision waits for this: φ is not built where two terms will do.
        theta, features = state.theta.take(owner, axis=0), take_all(x, self.features)
        if self.centre is None:
            predictor = theta[..., :1] + theta[..., 1:] @ features[:, :, None]
        else:
            predictor = theta[..., 1:] @ (features - self.centre)[:, :, None]
        if self.link == "exp":
            predictor = positive(predictor)
        if self.n_arms > 1 or self.n_columns > 1:
            predictor = predictor.reshape(x.shape[0], self.n_arms, self.n_columns)
        return np.asarray(predictor)
