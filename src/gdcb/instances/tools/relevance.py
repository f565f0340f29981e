"""The scaler: how relevant every tool is to a request, by one model that all tools share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gdcb.arrays import Array, logistic, scatter_add
from gdcb.errors import InvalidInput
from gdcb.parts import Column, check_number, check_settings, check_tuple, column, numbers, take_all
from gdcb.records import Rows
from gdcb.regression import CentredSums, RidgeSums
from gdcb.scalers import Trunk
from gdcb.scalers.head import LinearHead, RidgeState
from gdcb.scalers.settings import columns_of, numbers_of

N_INPUTS = 4  # of a tool: see `inputs`
_MANY = 2048  # rows that are worked out at once
_WEAK = 1.0  # penalty, in rows, that keeps a fit from going astray where no request was seen


def inputs(near: Array, past: Array) -> tuple[Array, ...]:
    """Return what is seen of every tool, (N, K) each, from similarities (N, K) of both kinds.

    Near to its description, near to a past success, and by how much each leads that of the best
    other tool.

    >>> [one.round(1).tolist() for one in inputs(np.array([[0.5, 0.2]]), np.array([[0.0, 0.3]]))]
    [[[0.5, 0.2]], [[0.0, 0.3]], [[0.3, -0.3]], [[-0.3, 0.3]]]
    """
    return near, past, near - _best_other(near), past - _best_other(past)


def _best_other(values: Array) -> Array:
    """Return for every entry (N, K) the largest of the others in its row."""
    n, k = values.shape
    if k == 1:
        return np.zeros((n, 1))
    # Column by column: rows are many and short.
    first, second = np.maximum(values[:, 0], values[:, 1]), np.minimum(values[:, 0], values[:, 1])
    for j in range(2, k):
        second = np.maximum(second, np.minimum(first, values[:, j]))
        first = np.maximum(first, values[:, j])
    return np.where(values == first[:, None], second[:, None], first[:, None])


def _with_lead(values: Array, arm: Array) -> tuple[Array, Array]:
    """Return one entry a row of values (N, K), and by how much it leads the others: (N,) each."""
    row, others = np.arange(arm.size), values.copy()
    own = values[row, arm]
    if values.shape[1] == 1:
        return own, own - 0.0
    others[row, arm] = -np.inf
    best = others[:, 0].copy()
    for j in range(1, values.shape[1]):
        np.maximum(best, others[:, j], out=best)
    return own, own - best


def activations(trunk: Trunk, seen: Sequence[Array]) -> list[Array]:
    """Return what `Trunk.forward` says of inputs, each an array: one of that shape a unit.

    Unit by unit: products of one row and a small matrix, one a tool, take ten times as long.
    """
    scaled = zip(seen, trunk.mean, trunk.scale, strict=True)
    h = [(one - mean) / scale for one, mean, scale in scaled]
    for weight, bias in zip(trunk.weights, trunk.biases, strict=True):
        after, part = [], np.empty_like(h[0])  # one piece of memory, which stays in the cache
        for unit in range(bias.size):
            total = h[0] * weight[0, unit]
            for one, strength in zip(h[1:], weight[1:, unit], strict=True):
                total += np.multiply(one, strength, out=part)
            total += bias[unit]
            after.append(_ACTIVATIONS[trunk.activation](total))
        h = after
    return h


def _relu(values: Array) -> Array:
    """Write over what is below 0."""
    return np.asarray(np.maximum(values, 0.0, out=values))


_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "identity": np.asarray,
    "logistic": logistic,
    "tanh": np.tanh,
    "relu": _relu,
}


@dataclass(frozen=True)
class RelevanceScaler(LinearHead):
    """δ_a(x) = θ_aᵀφ(z_a) + β_aᵀv, how relevant tool a is to a request: heads that know each other.

    z_a holds the similarity of the request to what tool a says of itself, to its nearest past
    success, and by how much both lead the best other tool's (`inputs`); φ(z) = (1, z, activations
    of a trunk at z); v are columns of the whole request, other tools' similarities among them. The
    trunk is fitted once to a pilot; heads are a ridge in two levels from sums that every owner
    keeps: Σ (label − δ)² + own·Σ_a ‖θ_a − θ‖² + apart·Σ_a ‖β_a‖² + penalty·‖θ − θ₀‖². So a rating
    of one tool teaches through θ what similarity is worth for all of them, tools that were never
    rated included, through θ_a what is odd about this one, and through β_a which others it is
    mistaken for.

    Parameters
    ----------
    near : context columns, one a tool: similarity to its description
    past : context columns, one a tool: similarity to its nearest past success
    penalty : λ > 0 of the ridge of θ around θ₀
    own : λ > 0 of the ridge of every tool's θ_a around θ
    request : context columns v that every tool weighs in its own way; none: δ depends on z_a alone
    apart : λ > 0 of the ridge of these weights β_a around 0
    every : rows between publications, rated or not, so that owners of equally many rows publish
        together
    theta : θ₀, what θ is thought to be beforehand, a number for each of φ; none: 0
    per : 'unit' or 'group'
    noise : standard deviation of a rating, before ratings tell
    trunk : hidden layers on z; None: δ is linear in z

    Notes
    -----
    Assumes: tools are exchangeable beforehand, and what makes one relevant is in its z, and in v
    where that is given. Ratings are of the tool that ran, and are missing at random given x.

    Stops applying: without `request`, what another tool's similarity says of this one beyond the
    lead over the best is not seen. The standard error is the heads' alone, as if trunk and θ were
    known.

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
    growth: float = field(default=0.0, init=False, repr=False)
    n_arms: int = field(default=1, init=False, repr=False)
    n_columns: int = field(default=1, init=False, repr=False)
    near: tuple[Column, ...] = column((), numeric=True)
    past: tuple[Column, ...] = column((), numeric=True)
    own: float = 10.0
    request: tuple[Column, ...] = column((), numeric=True)
    apart: float = 10.0
    theta: tuple[float, ...] = ()
    trunk: Trunk | None = field(default=None, metadata={"reads": Trunk.read})

    def __post_init__(self) -> None:
        check_settings(self, "scaler")
        object.__setattr__(self, "near", columns_of("scaler.near", self.near))
        object.__setattr__(self, "past", columns_of("scaler.past", self.past))
        if len(self.near) != len(self.past):
            raise InvalidInput(
                f"scaler: expected as many columns of past as of near, {len(self.near)}, "
                f"got {len(self.past)}"
            )
        check_tuple("scaler.request", self.request)
        if self.request:
            object.__setattr__(self, "request", columns_of("scaler.request", self.request))
        object.__setattr__(self, "features", self.near + self.past)
        object.__setattr__(self, "n_arms", len(self.near))
        object.__setattr__(self, "theta", numbers_of("scaler.theta", self.theta))
        super().__post_init__()
        check_number("scaler.own", self.own, 0.0, open_low=True)
        check_number("scaler.apart", self.apart, 0.0, open_low=True)
        if self.trunk is not None and self.trunk.mean.size != N_INPUTS:
            raise InvalidInput(
                f"scaler.trunk: expected {N_INPUTS} inputs, got {self.trunk.mean.size}"
            )
        if self.theta and len(self.theta) != self.n_shared:
            raise InvalidInput(
                f"scaler.theta: expected {numbers(self.n_shared)}, got {len(self.theta)}"
            )

    @classmethod
    def example(cls) -> RelevanceScaler:
        """Return one of two tools that can be checked."""
        return cls(near=("first", "second"), past=("second", "first"))

    @property
    def leading(self) -> tuple[Column, ...]:
        """The column by which each tool is judged first."""
        return self.near

    @property
    def is_informed(self) -> bool:
        """Whether δ is known to some degree before any row."""
        return bool(self.theta)

    @property
    def n_shared(self) -> int:
        """The leading 1, what is seen of a tool, and an activation each: the length of θ."""
        return 1 + N_INPUTS + (0 if self.trunk is None else self.trunk.width)

    @property
    def width(self) -> int:
        """The lengths of θ_a and β_a: d."""
        return self.n_shared + len(self.request)

    @property
    def _ridge(self) -> Array:
        """What holds a tool's (θ_a, β_a) to (θ, 0): (d,)."""
        return np.repeat((self.own, self.apart), (self.n_shared, len(self.request)))

    def _seen(self, x: Array) -> list[Array]:
        """Return φ(z_a) without its leading 1, (N, K) each."""
        columns = (take_all(x, names) for names in (self.near, self.past))
        seen = inputs(*(np.ascontiguousarray(values) for values in columns))
        return [*seen, *(() if self.trunk is None else activations(self.trunk, seen))]

    def phi(self, x: Array) -> Array:
        """Return (φ(z_a), v) of every tool: (N, K, d)."""
        seen = self._seen(x)
        shape = (x.shape[0], self.n_arms, len(self.request))
        beside = np.broadcast_to(take_all(x, self.request)[:, None], shape)
        return np.concatenate((np.stack([np.ones_like(seen[0]), *seen], axis=-1), beside), axis=-1)

    def phi_at(self, x: Array, arm: Array) -> Array:
        """Return (φ(z_a), v) of one tool a row: (N, d)."""
        return np.stack([np.ones(x.shape[0]), *self._seen_at(x, arm)], axis=-1)

    def _seen_at(self, x: Array, arm: Array) -> list[Array]:
        """Return (φ(z_a), v) of one tool a row without the leading 1, (N,) each."""
        found = [_with_lead(take_all(x, names), arm) for names in (self.near, self.past)]
        seen = [one for pair in zip(*found, strict=True) for one in pair]
        hidden = [] if self.trunk is None else activations(self.trunk, seen)
        return [*seen, *hidden, *take_all(x, self.request).T]

    def init(self, n_owners: int) -> RidgeState:
        """Return empty sums and θ_a = θ₀."""
        k, d = self.n_arms, self.width
        theta = np.tile(self._before, (n_owners, k, 1))
        zero = np.zeros(n_owners, dtype=np.int64)
        sums, none = RidgeSums.zeros(n_owners, k, d), CentredSums.zeros(0, d)
        return RidgeState(sums, theta, zero, zero.copy(), zero.copy(), none)

    @property
    def _before(self) -> Array:
        """(θ₀, 0): (d,)."""
        before = self.theta or (0.0,) * self.n_shared
        return np.array((*before, *(0.0,) * len(self.request)), dtype=float)

    def predict(self, state: RidgeState, owner: Array, x: Array) -> Array:
        """Evaluate the published δ: (N, K, 1)."""
        if x.shape[0] > _MANY:  # what does not fit into the cache takes twice as long
            out = np.empty((x.shape[0], self.n_arms, 1))
            for i in range(0, x.shape[0], _MANY):
                some = slice(i, i + _MANY)
                out[some] = self.predict(state, owner[some], x[some])
            return out
        theta = np.moveaxis(state.theta, -1, 0)
        total = theta[0].take(owner, axis=0)
        for j, one in enumerate((*self._seen(x), *take_all(x, self.request).T[..., None])):
            total += one * theta[1 + j].take(owner, axis=0)
        return np.asarray(total[..., None])

    def predict_at(self, state: RidgeState, owner: Array, x: Array, arm: Array) -> Array:
        """Evaluate the published δ of one tool a row: (N, 1), to the bit what `predict` says."""
        total = np.empty(x.shape[0])
        for i in range(0, x.shape[0], _MANY):
            some = slice(i, i + _MANY)
            theta = state.theta[owner[some], arm[some]].T
            part = theta[0].copy()
            for one, weight in zip(self._seen_at(x[some], arm[some]), theta[1:], strict=True):
                part += one * weight
            total[some] = part
        return total[:, None]

    def uncertainty(self, state: RidgeState, owner: Array, x: Array) -> Array:
        """Return the posterior standard error of δ given θ, from all rows so far: (N, K, 1)."""
        phi, sums = self.phi(x), state.sums
        gram = sums.penalised(owner, self._ridge)
        theta = self.solve(sums, owner)
        rest = sums.square[owner] - 2.0 * (theta * sums.moment[owner]).sum(axis=-1)
        rest += (theta * (sums.gram[owner] @ theta[..., None])[..., 0]).sum(axis=-1)
        count = sums.count[owner].sum(axis=1, keepdims=True)
        sigma2 = (np.maximum(rest, 0.0).sum(axis=1, keepdims=True) + self.noise**2) / (count + 1.0)
        spread = (phi * np.linalg.solve(gram, phi[..., None])[..., 0]).sum(axis=-1)
        return np.asarray(np.sqrt(sigma2 * spread)[..., None])

    def observe(
        self, state: RidgeState, owner: Array, x: Array, action: Array, label: Array, weight: Array
    ) -> None:
        """Add rated rows to the sums; NaN: a tool that was not rated."""
        if label.shape != (x.shape[0], self.n_labels):
            raise InvalidInput(
                f"label: expected shape {(x.shape[0], self.n_labels)}, got {label.shape}"
            )
        scatter_add(state.since, owner, (weight > 0).astype(np.int64))
        row, arm = np.nonzero(np.isfinite(label) & (weight > 0)[:, None])
        if row.size == 0:
            return
        phi = self.phi_at(x[row], arm)
        flat = RidgeSums(*(_flat(part) for part in _parts(state.sums)))
        flat.add(owner[row] * self.n_arms + arm, phi, label[row, arm][:, None], weight[row])

    def solve(self, sums: RidgeSums, owners: Array) -> Array:
        """Return every tool's (θ_a, β_a): (owners, K, d).

        With B_a = (Σ wφφᵀ + diag(own, apart))⁻¹, (θ_a, β_a) = B_a(Σ wφ·label + own·(θ, 0)), which
        put into the sum leaves a ridge in θ alone.
        """
        inverse, s = np.linalg.inv(sums.penalised(owners, self._ridge)), self.n_shared
        alone = (inverse @ sums.moment[owners][..., None])[..., 0]
        told = self.own * (np.eye(s) - self.own * inverse[..., :s, :s]).sum(axis=1)
        pull = self.penalty * self._before[:s] + self.own * alone[..., :s].sum(axis=1)
        gram = told + self.penalty * np.eye(s)
        shared = np.linalg.solve(gram, pull[..., None])
        return np.asarray(alone + self.own * (inverse[..., :s] @ shared[:, None])[..., 0])


def _parts(sums: RidgeSums) -> tuple[Array, Array, Array, Array]:
    return sums.gram, sums.moment, sums.square, sums.count


def _flat(part: Array) -> Array:
    """Return the same memory with owner and tool on one axis, and one label: (owners·K, 1, …)."""
    return part.reshape(part.shape[0] * part.shape[1], 1, *part.shape[2:])


def best_heads(
    scaler: RelevanceScaler, rounds: Iterable[Rows], rated: Callable[[Rows], Array], groups: int
) -> Array:
    """Return (θ°, β°)_a of every group (groups, K, d): the fits of mean ratings (N, K).

    Each over the requests with which its tool is offered in all rows of `rounds`, by a ridge that
    counts as one row.
    """
    state, k = scaler.init(groups), scaler.n_arms
    for rows in rounds:
        offered = np.ones((rows.n, k), dtype=bool) if rows.mask is None else rows.mask
        label = np.where(offered, rated(rows), np.nan)
        scaler.observe(state, rows.group, rows.x, label, label, np.ones(rows.n))
    plain = replace(scaler, theta=(), penalty=_WEAK, own=_WEAK, apart=_WEAK)
    return plain.solve(state.sums, np.arange(groups))
