"""The law of every arm's drawn value by itself, where arms are independent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput


@dataclass(slots=True)
class Marginals:
    """Independent laws of the arms' drawn values.

    Parameters
    ----------
    kind : 'normal' (mean, standard deviation), 'beta' (α, β), 't' (location, scale, degrees of
        freedom) or 'point' (the value: nothing is random)
    parameters : arrays (N, K), as the kind has them

    Examples
    --------
    >>> law = Marginals("beta", (np.array([[2.0]]), np.array([[1.0]])))
    >>> law.cdf(np.array([[[0.5]]])).ravel().tolist()  # x² for Beta(2, 1)
    [0.25]
    """

    kind: str
    parameters: tuple[Array, ...]

    def cdf(self, value: Array) -> Array:
        """Return P(draw ≤ value) of every arm at values (N, 1 or K, Q): (N, K, Q)."""
        from scipy import special

        a, b, *rest = (part[..., None] for part in (*self.parameters, np.zeros_like(value[..., 0])))
        if self.kind == "normal":
            return np.asarray(special.ndtr((value - a) / b))
        if self.kind == "beta":
            return np.asarray(special.betainc(a, b, np.clip(value, 0.0, 1.0)))
        if self.kind == "t":
            return np.asarray(special.stdtr(rest[0], (value - a) / b))
        raise InvalidInput(f"marginals: no distribution function of kind {self.kind!r}")

    def quantile(self, share: Array) -> Array:
        """Return every arm's quantiles at shares (Q,): (N, K, Q)."""
        from scipy import special

        a, b, *rest = (part[..., None] for part in (*self.parameters, self.parameters[0]))
        if self.kind == "normal":
            return np.asarray(a + b * special.ndtri(share))
        if self.kind == "beta":
            return np.asarray(special.betaincinv(a, b, share))
        if self.kind == "t":
            return np.asarray(a + b * special.stdtrit(rest[0], share))
        raise InvalidInput(f"marginals: no quantiles of kind {self.kind!r}")
