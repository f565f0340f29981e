"""A reward surface m(a, x) fitted by ridge regression, in sums over blocks of a history.

Sums by block make a refit cheap: a fold, or a bootstrap draw of whole blocks, weighs them anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.parts import check_number

LEAST_ROWS = 20  # an arm that ran less often is not compared
_OUTSIDE = 0.01  # share of rows on either side beyond which a coordinate counts as untried
_MOST_BLOCKS = 100
_TINY = 1e-6  # penalty a row of what is not shrunk, so that every fit has a solution


@dataclass(frozen=True)
class Surface:
    """m(a, x) = φ(x)ᵀ Θ g(a), Θ by ridge regression of rewards.

    φ(x) = (1, z) or (1, z, zzᵀ) with z the columns of x at mean 0 and variance 1. g(a) =
    (1, c, …, c^degree), c the action scaled to [−1, 1] over the arms; where arms are categories,
    (1, one column an arm). The penalty is on the products of context and action only: a level that
    all arms share is not shrunk, and so never mistaken for a difference.

    Parameters
    ----------
    degree : of the polynomial in the action
    context_degree : 1 (z), or 2 (z, squares and products)
    penalty : λ on each product of context and action
    """

    degree: int = 2
    context_degree: int = 1
    penalty: float = 0.1

    def __post_init__(self) -> None:
        for name, high in (("degree", 6), ("context_degree", 2)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= high:
                raise InvalidInput(
                    f"surface.{name}: expected a whole number from 1 to {high}, got {value!r}"
                )
        check_number("surface.penalty", self.penalty, 0.0)

    def width(self, columns: int) -> int:
        """Return how many features φ makes of so many columns."""
        return columns + 1 if self.context_degree == 1 else (columns + 1) * (columns + 2) // 2

    def n_actions(self, arms: Array | int) -> int:
        """Return how many features g makes of an action."""
        return arms + 1 if isinstance(arms, int) else self.degree + 1

    def context(self, x: Array) -> Array:
        """Return φ(x): (n, P). Columns that do not vary are left out."""
        centred = x - x.mean(axis=0)
        sd = centred.std(axis=0)
        varies = sd > 1e-12 * (1.0 + np.abs(x).max(axis=0, initial=0.0))
        z = centred[:, varies] / sd[varies]
        parts = [np.ones((x.shape[0], 1)), z]
        if self.context_degree == 2:
            first, second = np.triu_indices(z.shape[1])
            parts.append(z[:, first] * z[:, second])
        return np.concatenate(parts, axis=1)

    def action(self, arms: Array | int, action: Array) -> Array:
        """Return g of actions (...): (..., k)."""
        if isinstance(arms, int):
            return np.concatenate(
                (np.ones((*action.shape, 1)), np.eye(arms)[action] - 1.0 / arms), axis=-1
            )
        middle, half = (arms.max() + arms.min()) / 2, (arms.max() - arms.min()) / 2
        scaled = (action - middle) / half
        return np.asarray(scaled[..., None] ** np.arange(self.degree + 1))


@dataclass(frozen=True, slots=True)
class Table:
    """The columns of a history that were checked; see `variance_ratio` for what they are.

    `block` (n,) is the block of every row, 0 to B − 1.
    """

    x: Array
    action: Array
    reward: Array
    arms: Array | int
    block: Array
    delta: Array | None

    @property
    def is_category(self) -> bool:
        """Whether arms are categories."""
        return isinstance(self.arms, int)

    @property
    def n_arms(self) -> int:
        """Return K."""
        return self.arms if isinstance(self.arms, int) else int(self.arms.size)

    def take(self, rows: Array, columns: Array, kept: Array) -> Table:
        """Return some rows and context columns; categories are numbered anew, by `kept`."""
        some = replace(
            self,
            x=self.x[rows][:, columns],
            action=self.action[rows],
            reward=self.reward[rows],
            block=np.unique(self.block[rows], return_inverse=True)[1].reshape(-1),
            delta=None if self.delta is None else self.delta[rows],
        )
        if not self.is_category:
            return some
        return replace(some, action=np.searchsorted(kept, some.action), arms=int(kept.size))


@dataclass(slots=True)
class BlockSums:
    """Sums of a history over its blocks, B of them, ψ = φ(x) ⊗ g(a).

    Parameters
    ----------
    gram, moment, square, count : (B, d, d), (B, d), (B,), (B,) Σψψᵀ, Σψr, Σr², rows
    context : Σφ and Σφφᵀ: (B, P), (B, P, P)
    paper : the same of ψ at the action Φ(a, δ(x)), a the best arm: (B, d), (B, d, d)
    penalty : (d,) on the coefficients
    arms : (K', k) g of the arms that were tried enough
    kept : (K',) which arms these are
    """

    gram: Array
    moment: Array
    square: Array
    count: Array
    context: tuple[Array, Array]
    paper: tuple[Array, Array]
    penalty: Array
    arms: Array
    kept: Array

    def solve(self, gram: Array, moment: Array) -> Array:
        """Return Θ of weighted sums, as a vector: (..., d)."""
        whole = gram + np.diag(self.penalty)
        return np.asarray(np.linalg.solve(whole, moment[..., None])[..., 0])

    def spread(self, weights: Array, of: str) -> tuple[Array, Array]:
        """Return mean and covariance of 'context' or 'paper' under block weights (W, B)."""
        first, second = self.context if of == "context" else self.paper
        rows, d = weights @ self.count, first.shape[1]
        mean = weights @ first / rows[:, None]
        square = (weights @ second.reshape(-1, d * d) / rows[:, None]).reshape(-1, d, d)
        return mean, square - mean[:, :, None] * mean[:, None, :]


def block_sums(surface: Surface, history: Table, joins: str = "product") -> BlockSums:
    """Add a history up."""
    x, action, reward, arms = history.x, history.action, history.reward, history.arms
    label, delta = history.block, history.delta
    reward = reward - reward.mean()  # no ratio knows the level, and the penalty must not either
    kept = _tried(arms, action)
    phi, g = surface.context(x), surface.action(arms, action)
    psi = _times(phi, g)
    values = kept if isinstance(arms, int) else arms[kept]
    at_arms = surface.action(arms, values)
    is_product = np.zeros((phi.shape[1], g.shape[1]), dtype=bool)
    is_product[1:, 1:] = True
    penalty = np.where(is_product, surface.penalty, 0.0).ravel() + _TINY * reward.size
    gram, moment = _by_block(label, psi), _sums(label, psi * reward[:, None])
    sums = BlockSums(
        gram,
        moment,
        _sums(label, reward**2),
        _sums(label, np.ones(reward.size)),
        (_sums(label, phi), _by_block(label, phi)),
        (moment, gram),
        penalty,
        at_arms,
        kept,
    )
    theta = sums.solve(gram.sum(axis=0), moment.sum(axis=0)).reshape(is_product.shape)
    best = int((phi.mean(axis=0) @ theta @ at_arms.T).argmax())
    g_best = np.broadcast_to(at_arms[best], g.shape)
    if delta is not None and not isinstance(arms, int):
        value = float(arms[kept[best]])
        g_best = surface.action(arms, value * delta if joins == "product" else value + delta)
    at_best = _times(phi, g_best)
    sums.paper = _sums(label, at_best), _by_block(label, at_best)
    return sums


def checked(
    x: Array,
    action: Array,
    reward: Array,
    arms: Array | int,
    block: Array | None = None,
    delta: Array | None = None,
) -> Table:
    """Check the columns of a history; see `variance_ratio` for what they are."""
    x, reward = np.asarray(x, dtype=float), np.asarray(reward, dtype=float)
    if reward.ndim != 1 or reward.size == 0:
        raise InvalidInput(f"reward: expected (n,) numbers, got shape {reward.shape}")
    n = reward.size
    if x.ndim != 2 or x.shape[0] != n:
        raise InvalidInput(f"x: expected ({n}, p) numbers, got shape {x.shape}")
    columns = {"x": x, "reward": reward, "action": np.asarray(action, dtype=float)}
    if delta is not None:
        columns["delta"] = np.asarray(delta, dtype=float)
    for name, values in columns.items():
        if name != "x" and values.shape != (n,):
            raise InvalidInput(f"{name}: expected shape ({n},), got {values.shape}")
        if not np.isfinite(values).all():
            raise InvalidInput(
                f"{name}: expected finite numbers; leave out rows without an outcome, or in which "
                "nothing ran"
            )
    action = columns["action"]
    if isinstance(arms, int | np.integer) and not isinstance(arms, bool):
        if arms < 2:
            raise InvalidInput(f"arms: expected at least two, got {arms}")
        if not (np.isin(action, np.arange(arms))).all():
            raise InvalidInput(f"action: expected arms 0 to {arms - 1}, got others")
        return Table(
            x, action.astype(np.int64), reward, int(arms), _blocks(n, block), columns.get("delta")
        )
    coords = np.asarray(arms, dtype=float)
    if coords.ndim != 1 or not np.isfinite(coords).all() or np.unique(coords).size < 2:
        raise InvalidInput(f"arms: expected (K,) coordinates, two of them different, got {arms!r}")
    return Table(x, action, reward, coords, _blocks(n, block), columns.get("delta"))


def _blocks(n: int, block: Array | None) -> Array:
    """Return the block of every row, 0 to B − 1."""
    if block is None:
        n_blocks = min(_MOST_BLOCKS, max(1, round(n ** (2 / 3))))
        return np.asarray(np.arange(n) * n_blocks // n)
    label = np.asarray(block)
    if label.shape != (n,):
        raise InvalidInput(f"block: expected one label a row ({n}), got shape {label.shape}")
    return np.asarray(np.unique(label, return_inverse=True)[1].reshape(-1))


def _tried(arms: Array | int, action: Array) -> Array:
    """Return the arms that the history can speak of."""
    if isinstance(arms, int):
        kept = np.flatnonzero(np.bincount(action, minlength=arms) >= LEAST_ROWS)
    else:
        low, high = np.quantile(action, [_OUTSIDE, 1.0 - _OUTSIDE])
        slack = 1e-9 * (np.abs(arms).max() + 1.0)
        kept = np.flatnonzero((arms >= low - slack) & (arms <= high + slack))
        kept = kept[np.unique(arms[kept], return_index=True)[1]]
    if kept.size < 2:
        raise InvalidInput(
            f"action: expected rows at two arms at least ({LEAST_ROWS} each, or around their "
            f"coordinates); the history has tried {kept.size}"
        )
    return kept


def _times(phi: Array, g: Array) -> Array:
    return np.asarray((phi[:, :, None] * g[:, None, :]).reshape(phi.shape[0], -1))


def _sums(label: Array, values: Array) -> Array:
    out = np.zeros((int(label.max()) + 1, *values.shape[1:]))
    np.add.at(out, label, values)
    return out


def _by_block(label: Array, values: Array) -> Array:
    """Return Σ values·valuesᵀ of every block: (B, d, d)."""
    order = np.argsort(label, kind="stable")
    edges = np.searchsorted(label[order], np.arange(int(label.max()) + 2))
    rows = values[order]
    return np.stack([rows[i:j].T @ rows[i:j] for i, j in pairwise(edges)])
