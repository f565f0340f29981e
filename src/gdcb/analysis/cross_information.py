"""How far arm values and scaler share their information (Theorem 4).

The scores of the arm values v and of the scaler's θ have the Fisher information

    I = [[I_aa, I_aθ], [I_θa, I_θθ]].

ρ² is the largest eigenvalue of I_aa⁻¹ I_aθ I_θθ⁻¹ I_θa: the largest squared canonical correlation
of the two raw scores. Where one block is unknown, the other's variance grows by at most
1/(1 − ρ²), and in one direction by just that. At ρ = 0 neither loop pays for the other; at ρ = 1
a log cannot tell them apart.

θ is taken under its normalisation: features have mean 0 over the reference sample. Without it θ
holds a level that the arms hold too, and ρ is 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput

_SHUFFLES = 40
_BLOCKS = 50


@dataclass(frozen=True, slots=True)
class CrossInformation:
    """What two loops share.

    Parameters
    ----------
    rho2 : ρ², the largest squared canonical correlation, 0 to 1
    correlations : all squared canonical correlations, falling
    low, high : 95 % bootstrap interval of ρ² over blocks of rows; None: not asked for
    noise : what ρ² reads on average where arms and features were shuffled apart, so that the
        truth is 0: a sample's largest correlation is biased upwards, the more so the more arms
        and features there are; None: not asked for
    excluded : arms that the log never executed; nothing is known of them
    """

    rho2: float
    correlations: tuple[float, ...]
    low: float | None = None
    high: float | None = None
    noise: float | None = None
    excluded: tuple[int, ...] = ()

    @property
    def inflation(self) -> float:
        """1/(1 − ρ²), what the worst direction pays; infinite at ρ = 1."""
        return float("inf") if self.rho2 >= 1.0 else 1.0 / (1.0 - self.rho2)


def canonical(information: Array, n_arms: int) -> CrossInformation:
    """Return ρ² of an information matrix (n_arms + q, n_arms + q), arm values first.

    Examples
    --------
    One arm value and one θ: I_aθ²/(I_aa I_θθ) = 3²/(2·9) = 0.5, so the variance doubles.

    >>> found = canonical(np.array([[2.0, 3.0], [3.0, 9.0]]), n_arms=1)
    >>> round(found.rho2, 12), round(found.inflation, 12)
    (0.5, 2.0)
    """
    information = _information(information, n_arms)
    known = np.diagonal(information)[:n_arms] > 0
    excluded = tuple(int(arm) for arm in np.flatnonzero(~known))
    kept = np.concatenate((known, np.ones(information.shape[0] - n_arms, dtype=bool)))
    if not known.any():
        raise InvalidInput("information: no arm was executed")
    squared = _squared(information[np.ix_(kept, kept)], int(known.sum()))
    return CrossInformation(float(squared[0]), tuple(squared.tolist()), excluded=excluded)


def _information(information: Any, n_arms: int) -> Array:
    matrix = np.asarray(information, dtype=float)
    size = matrix.shape[0] if matrix.ndim else 0
    if matrix.shape != (size, size) or not 0 < n_arms < size or not np.isfinite(matrix).all():
        raise InvalidInput(
            f"information: expected a finite square matrix of more than {n_arms} rows, got shape "
            f"{matrix.shape}"
        )
    if not np.allclose(matrix, matrix.T, rtol=1e-9, atol=1e-12 * np.abs(matrix).max()):
        raise InvalidInput("information: expected a symmetric matrix")
    return matrix


def _root(block: Array, name: str) -> Array:
    """Return an inverse square root of a block, or refuse one that is singular."""
    values, vectors = np.linalg.eigh(block)
    if values[0] <= 1e-10 * max(values[-1], 0.0):
        raise InvalidInput(f"information: {name} are not identified (their block is singular)")
    root: Array = vectors / np.sqrt(values)
    return root


def _squared(information: Array, n_arms: int) -> Array:
    """Return the squared canonical correlations, falling."""
    arms = _root(information[:n_arms, :n_arms], "arm values")
    theta = _root(information[n_arms:, n_arms:], "scaler parameters")
    cross = arms.T @ information[:n_arms, n_arms:] @ theta
    return np.asarray(np.clip(np.linalg.svd(cross, compute_uv=False) ** 2, 0.0, 1.0))


def score_information(arm_scores: Array, theta_scores: Array) -> Array:
    """Return the mean outer product of raw scores (N, K) and (N, q): (K + q, K + q).

    A row's score is ∂ log p(r | e, x) / ∂(v, θ); its mean is 0 at the truth, so this estimates
    the Fisher information of a row.
    """
    both = np.concatenate((arm_scores, theta_scores), axis=1)
    if both.ndim != 2 or both.shape[0] == 0 or not np.isfinite(both).all():
        raise InvalidInput(f"scores: expected finite rows, got shape {both.shape}")
    information: Array = both.T @ both / both.shape[0]
    return information


@dataclass(frozen=True)
class Design:
    """What a log says of its own information: which arm ran in which context.

    Where the mean of an outcome is m(v_a + θᵀ·slope·φ(x)), a row adds w·ψψᵀ to the information,
    ψ = (1[a], slope·φ(x)) and w the Fisher weight of the outcome: 1/σ² for a Gaussian, p(1 − p)
    for a class on the logit scale. Factors common to all rows do not change ρ².

    Parameters
    ----------
    arm : (N,) executed arm, −1: off every arm, the row is left out
    features : (N, q) φ(x)
    n_arms : number of arms K
    centre : (q,) mean of φ over the reference sample; None: over these rows
    slope : (N,) how the outcome moves with log δ (products) or δ (sums); for a curve in the
        coordinate c = e/δ it is proportional to c. None: 1
    weight : (N,) Fisher weight of the outcome; None: 1

    Examples
    --------
    Two arms, and a feature that is 1 where the second ran: it cannot be told from the arm. Where
    the feature is balanced over the arms, ρ is 0.

    >>> arm = np.array([0, 0, 1, 1])
    >>> Design(arm, np.array([[0.0], [0.0], [1.0], [1.0]]), 2).cross().rho2
    1.0
    >>> Design(arm, np.array([[0.0], [1.0], [0.0], [1.0]]), 2).cross().rho2
    0.0
    """

    arm: Array
    features: Array
    n_arms: int
    centre: Array | None = None
    slope: Array | None = None
    weight: Array | None = None
    _rows: Array = field(init=False, repr=False)
    _arm: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        arm, phi = np.asarray(self.arm), np.asarray(self.features, dtype=float)
        if phi.ndim != 2 or arm.shape != phi.shape[:1] or arm.dtype.kind not in "iu":
            raise InvalidInput(
                f"design: expected N whole arms and (N, q) features, got {arm.shape} of "
                f"{arm.dtype} and {phi.shape}"
            )
        if arm.size and (arm.min() < -1 or arm.max() >= self.n_arms):
            raise InvalidInput(f"design.arm: expected -1 to {self.n_arms - 1}")
        columns = {"slope": self.slope, "weight": self.weight}
        for name, column in columns.items():
            if column is not None and np.shape(column) != arm.shape:
                raise InvalidInput(f"design.{name}: expected {arm.shape}, got {np.shape(column)}")
        ran = arm >= 0
        if not ran.any():
            raise InvalidInput("design: no row ran an arm")
        arm, phi = arm[ran], phi[ran]
        phi = phi - (phi.mean(axis=0) if self.centre is None else np.asarray(self.centre))
        slope, weight = (None if c is None else np.asarray(c)[ran] for c in columns.values())
        rows = phi if slope is None else phi * slope[:, None]
        if weight is not None and (weight < 0).any():
            raise InvalidInput("design.weight: expected numbers >= 0")
        root = np.ones(arm.size) if weight is None else np.sqrt(weight)
        # The last column is the arm's own score; the arm says whose.
        rows = np.concatenate((rows * root[:, None], root[:, None]), axis=1)
        if not np.isfinite(rows).all():
            raise InvalidInput("design: expected finite features, slopes and weights")
        object.__setattr__(self, "_rows", rows)
        object.__setattr__(self, "_arm", arm)

    def information(self) -> Array:
        """Return the information of all rows: (K + q, K + q)."""
        return self._of(self._arm)

    def _of(self, arm: Array) -> Array:
        whole: Array = self._sums(arm, np.zeros(arm.size, dtype=np.int64), 1)[0]
        return whole

    def _sums(self, arm: Array, block: Array, n_blocks: int) -> Array:
        """Return the information of each block of rows: (n_blocks, K + q, K + q)."""
        k, q = self.n_arms, self._rows.shape[1] - 1
        phi, own = self._rows[:, :q], self._rows[:, q]
        out = np.zeros((n_blocks, k + q, k + q))
        cell = block * k + arm
        size = n_blocks * k
        out[:, range(k), range(k)] = np.bincount(cell, own * own, size).reshape(n_blocks, k)
        for i in range(q):
            shared = np.bincount(cell, own * phi[:, i], size).reshape(n_blocks, k)
            out[:, :k, k + i] = out[:, k + i, :k] = shared
            for j in range(i + 1):
                both = np.bincount(block, phi[:, i] * phi[:, j], n_blocks)
                out[:, k + i, k + j] = out[:, k + j, k + i] = both
        return out

    def cross(
        self,
        *,
        n_bootstrap: int = 0,
        blocks: Array | None = None,
        seed: int = 0,
    ) -> CrossInformation:
        """Return ρ² of this log; with `n_bootstrap`, its interval and the level of noise.

        `blocks` (N,) are whole numbers: rows of a block (a listing's month) are drawn together.
        Without it rows fall into 50 runs of neighbours.
        """
        found = canonical(self.information(), self.n_arms)
        if n_bootstrap < 1:
            return found
        rng = np.random.default_rng(seed)
        block, n_blocks = self._blocks(blocks)
        sums = self._sums(self._arm, block, n_blocks)
        drawn = []
        for _ in range(n_bootstrap):
            times = rng.multinomial(n_blocks, np.full(n_blocks, 1.0 / n_blocks))
            again = np.tensordot(times.astype(float), sums, axes=1)
            drawn.append(self._told(again))
        apart = [self._told(self._of(rng.permutation(self._arm))) for _ in range(_SHUFFLES)]
        low, high = np.quantile(drawn, (0.025, 0.975))
        return CrossInformation(
            found.rho2,
            found.correlations,
            float(low),
            float(high),
            float(np.mean(apart)),
            found.excluded,
        )

    def _told(self, information: Array) -> float:
        """Return ρ², or 1 where some blocks alone do not identify θ: nothing tells it apart."""
        try:
            return canonical(information, self.n_arms).rho2
        except InvalidInput:
            return 1.0

    def _blocks(self, blocks: Array | None) -> tuple[Array, int]:
        n = self._arm.size
        if blocks is None:
            n_blocks = min(_BLOCKS, n)
            return np.arange(n) * n_blocks // n, n_blocks
        if np.shape(blocks) != np.shape(self.arm):
            raise InvalidInput(
                f"blocks: expected {np.shape(self.arm)} whole numbers, got {np.shape(blocks)}"
            )
        names, index = np.unique(np.asarray(blocks)[np.asarray(self.arm) >= 0], return_inverse=True)
        return index, int(names.size)
