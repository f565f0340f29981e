"""The scaler: how relevant every tool is to a request, by one model that all tools share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from gdcb.arrays import Array, logistic, scatter_add
from gdcb.errors import InvalidInput
from gdcb.parts import Column, column, take_all
from gdcb.records import Rows
from gdcb.regression import CentredSums, RidgeSums
from gdcb.scalers import Trunk
from gdcb.scalers.head import LinearHead, RidgeState
from gdcb.scalers.settings import columns_of, numbers_of

N_INPUTS = 4  # of a tool: see `inputs`
_WEAK = 1e-2  # penalty that keeps a fit finite and changes little else


def inputs(near: Array, past: Array) -> Array:
    """Return what is seen of every tool (N, K, 4) from similarities (N, K) of both kinds.

    Near to its description, near to a past success, and by how much each leads that of the best
    other tool.

    >>> inputs(np.array([[0.5, 0.2]]), np.array([[0.0, 0.3]])).round(1).tolist()
    [[[0.5, 0.0, 0.3, -0.3], [0.2, 0.3, -0.3, 0.3]]]
    """
    return np.stack((near, past, near - _best_other(near), past - _best_other(past)), axis=-1)


def _best_other(values: Array) -> Array:
    """Return for every entry (N, K) the largest of the others in its row."""
    n, k = values.shape
    if k == 1:
        return np.zeros((n, 1))
    two = np.partition(values, k - 2, axis=1)[:, k - 2 :]
    is_first = values == two[:, 1:]
    return np.where(is_first, two[:, :1], two[:, 1:])


def _activations(trunk: Trunk, seen: Array) -> Array:
    """Return what `Trunk.forward` says of inputs (..., p), summed input by input: (..., width).

    Products of one row and a small matrix, one a tool, would take ten times as long.
    """
    h = (seen - trunk.mean) / trunk.scale
    for weight, bias in zip(trunk.weights, trunk.biases, strict=True):
        total = h[..., :1] * weight[0]
        for i in range(1, weight.shape[0]):
            total += h[..., i : i + 1] * weight[i]
        h = _ACTIVATIONS[trunk.activation](total + bias)
    return np.asarray(h)


def _relu(values: Array) -> Array:
    return np.maximum(values, 0.0)


_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "identity": np.asarray,
    "logistic": logistic,
    "tanh": np.tanh,
    "relu": _relu,
}


@dataclass(frozen=True)
class RelevanceScaler(LinearHead):
    """δ_a(x) = θᵀφ(z_a), how relevant tool a is to a request: one θ for all tools of an owner.

    z_a holds the similarity of the request to what tool a says of itself, to its nearest past
    success, and by how much both lead the best other tool's (`inputs`); φ(z) = (1, z, activations
    of a trunk at z). The trunk is fitted once to a pilot; θ is a ridge around θ₀, from sums that
    every owner keeps. All tools share θ: a rating of one tool teaches what similarity is worth for
    all of them, tools that were never rated included.

    Parameters
    ----------
    near : context columns, one a tool: similarity to its description
    past : context columns, one a tool: similarity to its nearest past success
    penalty : λ > 0 of the ridge around θ₀
    every : rated rows between publications
    theta : θ₀, what θ is thought to be beforehand, d numbers; none: 0
    per : 'unit' or 'group'
    noise : standard deviation of a rating, before ratings tell
    trunk : hidden layers on z; None: δ is linear in z

    Notes
    -----
    Assumes: tools are exchangeable: what makes one relevant is in its z, and a tool's own level
    is the learner's to find. Ratings are of the tool that ran, and are missing at random given x.

    Stops applying: a tool whose description misleads is misjudged alike in every request. The
    standard error is the head's alone, as if the trunk were known.

    Examples
    --------
    One tool, no trunk: z = (s, p, s, p), there being no other; θ₀ = (0, 1, 0, 0, 0) says δ = s.

    >>> scaler = RelevanceScaler(near=(0,), past=(1,), theta=(0, 1, 0, 0, 0))
    >>> scaler.predict(scaler.init(1), np.zeros(1, int), np.array([[0.4, 0.9]])).tolist()
    [[[0.4]]]
    """

    features: tuple[Column, ...] = field(default=(), init=False, repr=False)
    link: str = field(default="identity", init=False, repr=False)
    centre: tuple[float, ...] | None = field(default=None, init=False, repr=False)
    floor: float = field(default=0.0, init=False, repr=False)
    n_arms: int = field(default=1, init=False, repr=False)
    n_columns: int = field(default=1, init=False, repr=False)
    near: tuple[Column, ...] = column((), numeric=True)
    past: tuple[Column, ...] = column((), numeric=True)
    theta: tuple[float, ...] = ()
    trunk: Trunk | None = field(default=None, metadata={"reads": Trunk.read})

    def __post_init__(self) -> None:
        object.__setattr__(self, "near", columns_of("scaler.near", self.near))
        object.__setattr__(self, "past", columns_of("scaler.past", self.past))
        if len(self.near) != len(self.past):
            raise InvalidInput(
                f"scaler: expected as many columns of past as of near, {len(self.near)}, "
                f"got {len(self.past)}"
            )
        object.__setattr__(self, "features", self.near + self.past)
        object.__setattr__(self, "n_arms", len(self.near))
        object.__setattr__(self, "theta", numbers_of("scaler.theta", self.theta))
        super().__post_init__()
        if self.trunk is not None and self.trunk.mean.size != N_INPUTS:
            raise InvalidInput(
                f"scaler.trunk: expected {N_INPUTS} inputs, got {self.trunk.mean.size}"
            )
        if self.theta and len(self.theta) != self.width:
            raise InvalidInput(
                f"scaler.theta: expected {self.width} numbers, got {len(self.theta)}"
            )

    @property
    def is_informed(self) -> bool:
        """Whether δ is known to some degree before any row."""
        return bool(self.theta)

    @property
    def width(self) -> int:
        """The leading 1, what is seen of a tool, and an activation each."""
        return 1 + N_INPUTS + (0 if self.trunk is None else self.trunk.width)

    def phi(self, x: Array) -> Array:
        """Return φ(z_a) of every tool: (N, K, d)."""
        seen = inputs(take_all(x, self.near), take_all(x, self.past))
        n, k, p = seen.shape
        out = np.empty((n, k, self.width))
        out[..., 0], out[..., 1 : 1 + p] = 1.0, seen
        if self.trunk is not None:
            out[..., 1 + p :] = _activations(self.trunk, seen)
        return out

    def init(self, n_owners: int) -> RidgeState:
        """Return empty sums and θ = θ₀."""
        d = self.width
        theta = np.tile(np.array(self.theta or (0.0,) * d), (n_owners, 1, 1))
        zero = np.zeros(n_owners, dtype=np.int64)
        sums, none = RidgeSums.zeros(n_owners, 1, d), CentredSums.zeros(0, d)
        return RidgeState(sums, theta, zero, zero.copy(), zero.copy(), none)

    def predict(self, state: RidgeState, owner: Array, x: Array) -> Array:
        """Evaluate the published δ: (N, K, 1)."""
        return np.asarray(self.phi(x) @ state.theta.take(owner, axis=0).swapaxes(1, 2))

    def uncertainty(self, state: RidgeState, owner: Array, x: Array) -> Array:
        """Return the posterior standard error of δ, from all rows so far: (N, K, 1)."""
        phi = self.phi(x)
        gram = state.sums.penalised(owner, self.penalty)[:, 0]
        sigma2 = state.sums.variance(owner, self.solve(state.sums, owner), self.noise**2)
        spread = np.linalg.solve(gram, phi.swapaxes(1, 2)).swapaxes(1, 2)
        return np.asarray(np.sqrt(sigma2[:, :, None] * (phi * spread).sum(axis=-1, keepdims=True)))

    def observe(
        self, state: RidgeState, owner: Array, x: Array, action: Array, label: Array, weight: Array
    ) -> None:
        """Add rated rows to the sums; NaN: a tool that was not rated."""
        if label.shape != (x.shape[0], self.n_labels):
            raise InvalidInput(
                f"label: expected shape {(x.shape[0], self.n_labels)}, got {label.shape}"
            )
        row, arm = np.nonzero(np.isfinite(label) & (weight > 0)[:, None])
        if row.size == 0:
            return
        rows, place = np.unique(row, return_inverse=True)
        phi = self.phi(x[rows])[place, arm]
        state.sums.add(owner[row], phi, label[row, arm][:, None], weight[row])
        scatter_add(state.since, owner[rows], np.ones(rows.size, dtype=np.int64))

    def solve(self, sums: RidgeSums, owners: Array) -> Array:
        """Return θ̂ = (Σ wφφᵀ + λI)⁻¹(Σ wφ·label + λθ₀): (owners, 1, d)."""
        gram, moment = sums.penalised(owners, self.penalty), sums.moment[owners]
        if self.theta:
            moment = moment + self.penalty * np.array(self.theta)
        return np.asarray(np.linalg.solve(gram, moment[..., None])[..., 0])


def best_head(
    scaler: RelevanceScaler, rounds: Iterable[Rows], rated: Callable[[Rows], Array], groups: int
) -> Array:
    """Return θ° of every group (groups, d): the least-squares fit of mean ratings (N, K).

    Over the tools that are offered in all rows of `rounds`.
    """
    sums = RidgeSums.zeros(groups, 1, scaler.width)
    for rows in rounds:
        offered = np.ones(rated(rows).shape, dtype=bool) if rows.mask is None else rows.mask
        row, arm = np.nonzero(offered)
        phi, label = scaler.phi(rows.x)[row, arm], rated(rows)[row, arm]
        sums.add(rows.group[row], phi, label[:, None], np.ones(row.size))
    return sums.solve(np.arange(groups), _WEAK)[:, 0]
