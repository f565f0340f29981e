"""The law of every arm's drawn value by itself, where arms are independent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput


@dataclass(slots=True)
class Marginals:
    """Independent laws of the arms' values: offset + slope · (what was drawn).

    Parameters
    ----------
    kind : 'normal' (mean, standard deviation), 'beta' (α, β), 't' (location, scale, degrees of
        freedom) or 'point' (the value: nothing is random)
    parameters : arrays (N, K), as the kind has them
    offset, slope : (N, K) or numbers; slope above 0

    Examples
    --------
    >>> law = Marginals("beta", (np.array([[2.0]]), np.array([[1.0]])))
    >>> law.cdf(np.array([[[0.5]]])).ravel().tolist()  # x² for Beta(2, 1)
    [0.25]
    """

    kind: str
    parameters: tuple[Array, ...]
    offset: Any = 0.0
    slope: Any = 1.0

    def take(self, index: Any) -> Marginals:
        """Return the laws of some rows."""
        offset, slope = (
            part[index] if isinstance(part, np.ndarray) else part
            for part in (self.offset, self.slope)
        )
        return Marginals(self.kind, tuple(p[index] for p in self.parameters), offset, slope)

    def cdf(self, value: Array) -> Array:
        """Return P(value of the arm ≤ value) at values (N, 1 or K, Q): (N, K, Q)."""
        from scipy import special

        drawn = (value - _wide(self.offset)) / _wide(self.slope)
        first, *rest = (_wide(part) for part in self.parameters)
        if self.kind == "normal":
            return np.asarray(special.ndtr((drawn - first) / rest[0]))
        if self.kind == "beta":
            return np.asarray(special.betainc(first, rest[0], np.clip(drawn, 0.0, 1.0)))
        if self.kind == "t":
            return np.asarray(special.stdtr(rest[1], (drawn - first) / rest[0]))
        raise InvalidInput(f"marginals: no distribution function of kind {self.kind!r}")

    def quantile(self, share: Array) -> Array:
        """Return every arm's quantiles at shares (Q,): (N, K, Q)."""
        from scipy import special

        first, *rest = (_wide(part) for part in self.parameters)
        if self.kind == "normal":
            drawn = first + rest[0] * special.ndtri(share)
        elif self.kind == "beta":
            drawn = special.betaincinv(first, rest[0], share)
        elif self.kind == "t":
            drawn = first + rest[0] * special.stdtrit(rest[1], share)
        else:
            raise InvalidInput(f"marginals: no quantiles of kind {self.kind!r}")
        return np.asarray(_wide(self.offset) + _wide(self.slope) * drawn)


def _wide(part: Any) -> Any:
    return part[..., None] if isinstance(part, np.ndarray) else part
