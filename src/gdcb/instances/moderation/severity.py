"""The severity score: the pilot's reading, and what this platform's panel has taught since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.parts import numbers
from gdcb.scalers.head import RidgeState
from gdcb.scalers.neural import NeuralScaler, Trunk
from gdcb.scalers.settings import numbers_of


@dataclass(frozen=True)
class SeverityScaler(NeuralScaler):
    """A neural scaler that starts from a head known beforehand.

    δ_θ(x) = (θ₀ + θ)ᵀφ(x), φ(x) = (1, last hidden activations of the trunk). θ₀ is what a pilot
    found; θ is the ridge regression of (label − θ₀ᵀφ(x)) on φ(x), an owner each. Before the
    first label δ is the pilot's reading, and it returns there where evidence is discounted.
    Severity is not normalised: there is no `centre`, and the link is the identity.

    Parameters
    ----------
    start : θ₀, the intercept first
    features, penalty, every, floor, per, noise, trunk : as of `NeuralScaler`

    Notes
    -----
    Assumes: platforms differ from the pilot by heads that scatter evenly around θ₀, with variance
    noise²/penalty; the panel's ratings have one variance.

    Stops applying: what the trunk did not learn to see, no head can use: a new turn of phrase keeps
    its wrong score however often the panel says so.

    Examples
    --------
    One input, one hidden unit max(x, 0), θ₀ = (0.1, 0.5): at x = 1 the pilot reads 0.6. A panel
    says 0.9; with λ = 1, φ = (1, 1) and 0.3 left, θ = (0.3, 0.3)/3, so δ = 0.6 + 0.2.

    >>> trunk = Trunk(np.zeros(1), np.ones(1), (np.ones((1, 1)),), (np.zeros(1),))
    >>> scaler = SeverityScaler(features=(0,), link="identity", trunk=trunk, start=(0.1, 0.5))
    >>> x, zero = np.array([[1.0]]), np.zeros(1, dtype=int)
    >>> state = scaler.fit(x, np.array([[0.9]]))
    >>> [float(scaler.predict(s, zero, x).round(9)[0, 0, 0]) for s in (scaler.init(1), state)]
    [0.6, 0.8]
    """

    start: tuple[float, ...] = ()
    is_informed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "start", numbers_of("scaler.start", self.start))
        if self.link != "identity" or self.centre is not None:
            raise InvalidInput("scaler: a severity has the link 'identity' and no centre")
        if self.n_arms != 1 or self.n_columns != 1:
            raise InvalidInput("scaler: a severity is one number a row")
        if len(self.start) != self.trunk.width + 1:
            raise InvalidInput(
                f"scaler.start: expected {numbers(self.trunk.width + 1)}, the intercept first, "
                f"got {len(self.start)}"
            )

    @classmethod
    def example(cls) -> SeverityScaler:
        """Return a scaler for the checks of parts."""
        rng = np.random.default_rng(0)
        weights, biases = (rng.normal(size=(2, 6)),), (rng.normal(size=6),)
        trunk = Trunk(np.ones(2), np.ones(2), weights, biases, "tanh")
        start = tuple(np.linspace(0.0, 0.3, 7).tolist())
        return cls(features=("first", "second"), link="identity", trunk=trunk, start=start)

    def _before(self, x: Array) -> Array:
        """Return θ₀ᵀφ(x): (N,)."""
        return np.asarray((self.phi(x) * np.array(self.start)).sum(axis=1))

    def predict(self, state: RidgeState, owner: Array, x: Array) -> Array:
        """Evaluate the published δ: (N, 1, 1)."""
        theta = state.theta[:, 0].take(owner, axis=0) + np.array(self.start)
        return np.asarray((theta * self.phi(x)).sum(axis=1))[:, None, None]

    def observe(
        self, state: RidgeState, owner: Array, x: Array, action: Array, label: Array, weight: Array
    ) -> None:
        """Add rows to the sums: what their labels have above the pilot's reading."""
        if label.shape != (x.shape[0], 1):
            raise InvalidInput(f"label: expected shape {(x.shape[0], 1)}, got {label.shape}")
        seen = np.flatnonzero(np.isfinite(label[:, 0]))  # most posts are never rated
        if seen.size == 0:
            return
        left = label[seen] - self._before(x[seen])[:, None]
        super().observe(state, owner[seen], x[seen], action[seen], left, weight[seen])
