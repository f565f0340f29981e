"""Ridge regression from sums: shared by the scaler and by the model of a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array, like, scatter_add, stable_order, zeros
from gdcb.errors import InvalidInput
from gdcb.parts import Column, numbers, take_all

_MOST = 2**22  # numbers that a batch of outer products may hold at once
_WIDE = 11  # features from which an owner's rows are multiplied together


@dataclass(slots=True)
class RidgeSums:
    """Additive statistics of m targets on d features for every owner.

    Parameters
    ----------
    gram, moment : (owners, m, d, d), (owners, m, d) Σ w·φφᵀ and Σ w·φ·y
    square, count : (owners, m) Σ w·y² and Σ w
    """

    gram: Array
    moment: Array
    square: Array
    count: Array

    @staticmethod
    def zeros(n_owners: int, m: int, d: int) -> RidgeSums:
        """Return sums over no rows."""
        return RidgeSums(
            np.zeros((n_owners, m, d, d)),
            np.zeros((n_owners, m, d)),
            np.zeros((n_owners, m)),
            np.zeros((n_owners, m)),
        )

    def add(self, owner: Array, phi: Array, y: Array, weight: Array) -> None:
        """Add rows: φ (N, d), y (N, m) with NaN where not seen, weight (N,)."""
        m, d = self.moment.shape[1:]
        if d >= _WIDE:
            self._add_wide(owner, phi, y, weight)
            return
        step = max(1, _MOST // (m * d * d))
        if y.shape[0] > step:
            for at in range(0, y.shape[0], step):
                part = slice(at, at + step)
                self.add(owner[part], phi[part], y[part], weight[part])
            return
        seen = np.isfinite(y)
        w = np.where(seen, weight[:, None], 0.0)
        y = np.where(seen, y, 0.0)
        weighted = w[:, :, None] * phi[:, None, :]
        scatter_add(self.gram, owner, weighted[..., None] * phi[:, None, None, :])
        scatter_add(self.moment, owner, y[:, :, None] * weighted)
        scatter_add(self.square, owner, w * y * y)
        scatter_add(self.count, owner, w)

    def _add_wide(self, owner: Array, phi: Array, y: Array, weight: Array) -> None:
        """Add rows of many features, without a matrix for every row."""
        everyone = slice(None)
        for some, rows in by_owner(owner, phi.shape[1]):
            who = everyone if some.size == self.count.shape[0] else some  # then nothing is copied
            mine, label, given = phi[rows], y[rows], weight[rows]
            for j in range(y.shape[1]):
                seen = np.isfinite(label[..., j])
                w = np.where(seen, given, 0.0)
                value = np.where(seen, label[..., j], 0.0)
                turned = (w[..., None] * mine).swapaxes(-1, -2)
                self.gram[who, j] += turned @ mine
                self.moment[who, j] += (turned @ value[..., None])[..., 0]
                self.square[who, j] += (w * value * value).sum(axis=1)
                self.count[who, j] += w.sum(axis=1)

    def solve(self, owner: Array, penalty: Array | float) -> Array:
        """Return θ̂ = (Σ wφφᵀ + diag(penalty))⁻¹ Σ wφy: (N, m, d)."""
        gram = self.penalised(owner, penalty)
        return np.asarray(np.linalg.solve(gram, self.moment[owner][..., None])[..., 0])

    def penalised(self, owner: Array, penalty: Array | float) -> Array:
        """Return Σ wφφᵀ + diag(penalty): (N, m, d, d)."""
        d = self.gram.shape[-1]
        return np.asarray(self.gram[owner] + penalty * np.eye(d))

    def merge(self, other: RidgeSums) -> None:
        """Add the sums of other rows of the same owners."""
        self.gram += other.gram
        self.moment += other.moment
        self.square += other.square
        self.count += other.count

    def scale(self, owner: Array, factor: float) -> None:
        """Multiply all sums of some owners: their rows count for `factor`."""
        for sums in (self.gram, self.moment, self.square, self.count):
            sums[owner] = sums[owner] * factor + 0.0  # 0, never −0, where nothing is left

    def reweigh(self, owner: Array, root: Array, theta: Array) -> None:
        """Multiply the weights of past rows by root², each feature having its own; no owner twice.

        Exact where all rows of an owner change alike, and where each row has one feature. θ fits
        the sums afterwards as it did before: what it left of the moments is scaled with them.

        Parameters
        ----------
        owner : (N,)
        root, theta : (N, d) factors above 0, and a fit that all targets share

        Examples
        --------
        Two rows φ = 1, y = 3 of weight 1, at a quarter of it:

        >>> sums, one = RidgeSums.zeros(1, 1, 1), np.ones((2, 1))
        >>> sums.add(np.zeros(2, dtype=int), one, 3 * one, one[:, 0])
        >>> sums.reweigh(np.array([0]), np.array([[0.5]]), np.array([[3.0]]))
        >>> sums.gram.item(), sums.moment.item(), sums.square.item(), sums.count.item()
        (0.5, 1.5, 4.5, 0.5)
        """
        old, fitted = self.gram[owner], theta[:, None, :, None]
        left = self.moment[owner] - (old @ fitted)[..., 0]
        new = root[:, None, :, None] * old * root[:, None, None, :]
        before, after = (np.trace(gram, axis1=-2, axis2=-1) for gram in (old, new))
        share = np.divide(after, before, out=np.ones_like(before), where=before > 0.0)
        self.gram[owner] = new
        self.moment[owner] = (new @ fitted)[..., 0] + root[:, None] ** 2 * left
        self.square[owner] *= share
        self.count[owner] *= share

    def variance(self, owner: Array, theta: Array, before: float | None = None) -> Array:
        """Return the penalised residual sum of squares over the rows, at the optimum: (N, m).

        `before` is a variance that counts as one row more: what is taken for it without rows.
        """
        rest = self.square[owner] - (theta * self.moment[owner]).sum(axis=-1)
        count = self.count[owner]
        if before is None:
            return np.asarray(np.maximum(rest, 0.0) / np.maximum(count, 1.0))
        return np.asarray((np.maximum(rest, 0.0) + before) / (count + 1.0))


def by_owner(owner: Array, width: int) -> Iterator[tuple[Array, Array]]:
    """Yield owners (k,) that have n rows each, and these (k, n), in their order.

    A stack of products (k, n, d) has one product an owner, of its own rows: its bytes do not depend
    on the rows of others. `width` is d, and keeps a stack small.

    >>> [(who.tolist(), rows.tolist()) for who, rows in by_owner(np.array([4, 2, 4, 1]), 3)]
    [([1, 2], [[3], [1]]), ([4], [[0, 2]])]
    """
    order = stable_order(owner)
    ordered = owner[order]
    start = np.flatnonzero(np.diff(ordered, prepend=-1))
    who, count = ordered[start], np.diff(start, append=owner.size)
    for n in np.unique(count):
        some = np.flatnonzero(count == n)
        for part in np.array_split(some, -(-some.size * n * width // _MOST)):
            yield who[part], order[start[part][:, None] + np.arange(n)]


@dataclass(slots=True)
class CentredSums:
    """Means and centred sums of columns z = (φ, y) for every owner, φ without its leading 1.

    Columns far from 0 cost no digits, as they do in Σ w·zzᵀ: what y varies given φ is a small
    difference of large numbers there. Rows are centred on the mean of their batch, and batches
    are joined by Chan's formula, so order matters to rounding only.

    Parameters
    ----------
    count, mean : (owners,), (owners, d) Σ w and Σ w·z / Σ w
    scatter : (owners, d, d) Σ w·(z − mean)(z − mean)ᵀ

    Examples
    --------
    Two rows far from 0, y = φ: both vary by Σ (z − mean)² = ½, and nothing is left of y given φ.

    >>> sums, z = CentredSums.zeros(1, 2), np.array([[1e6, 1e6], [1e6 + 1, 1e6 + 1]])
    >>> sums.add(np.zeros(2, dtype=int), z, np.ones(2))
    >>> sums.scatter.tolist(), sums.residual_variance(np.array([0])).round(9).tolist()
    ([[[0.5, 0.5], [0.5, 0.5]]], [0.0])
    """

    count: Array
    mean: Array
    scatter: Array

    @staticmethod
    def zeros(n_owners: int, d: int) -> CentredSums:
        """Return sums over no rows."""
        return CentredSums(np.zeros(n_owners), np.zeros((n_owners, d)), np.zeros((n_owners, d, d)))

    def add(self, owner: Array, z: Array, weight: Array) -> None:
        """Add rows z (N, d); those with a column that is not finite, or weight 0, add nothing."""
        rows = np.flatnonzero((weight > 0) & np.isfinite(z).all(axis=1))
        if rows.size == 0:
            return
        who, place = np.unique(owner[rows], return_inverse=True)
        z, w, d = z[rows], weight[rows, None], z.shape[1]
        new = CentredSums.zeros(who.size, d)
        scatter_add(new.count, place, w[:, 0])
        scatter_add(new.mean, place, w * z)
        new.mean /= new.count[:, None]
        off = z - new.mean[place]
        step = max(1, _MOST // (d * d))
        for at in range(0, rows.size, step):
            part = slice(at, at + step)
            outer = (w[part] * off[part])[:, :, None] * off[part, None, :]
            scatter_add(new.scatter, place[part], outer)
        self._join(who, new)

    def put(self, owner: Array, z: Array, weight: Array) -> None:
        """Put the sums of rows z (m, n, d), weight (m, n), in place of what m owners had.

        Rows of weight 0 add nothing. An owner's sums are the same whoever is beside.
        """
        count = weight.sum(axis=1)
        share = weight / np.where(count > 0, count, 1.0)[:, None]
        mean = (share[:, None, :] @ z)[:, 0]
        off = z - mean[:, None]
        self.count[owner], self.mean[owner] = count, mean
        self.scatter[owner] = (weight[..., None] * off).swapaxes(-1, -2) @ off

    def merge(self, other: CentredSums) -> None:
        """Add the sums of other rows of the same owners."""
        self._join(np.arange(self.count.size), other)

    def _join(self, who: Array, new: CentredSums) -> None:
        """Add rows of some owners, no owner twice."""
        old = self.count[who]
        both = old + new.count
        share = new.count / np.where(both > 0, both, 1.0)
        move = new.mean - self.mean[who]
        apart = (old * share)[:, None, None] * (move[:, :, None] * move[:, None, :])
        self.scatter[who] += new.scatter + apart
        # Where there was nothing the mean is the new one, to the bit.
        self.mean[who] += share[:, None] * move
        self.count[who] = both

    def clear(self, owner: Array) -> None:
        """Forget the rows of some owners."""
        for sums in (self.count, self.mean, self.scatter):
            sums[owner] = 0.0

    def residual_variance(self, owner: Array) -> Array:
        """Return the unbiased residual variance of the last column given the others: (N,)."""
        count, scatter = self.count[owner], self.scatter[owner]
        size = np.sqrt(np.diagonal(scatter, axis1=1, axis2=2))
        unit = np.where(size > 0, size, 1.0)
        related = scatter / (unit[:, :, None] * unit[:, None, :])
        phi, y = related[:, :-1, :-1], related[:, :-1, -1:]
        # A pinch of penalty, of each column's own size: columns may depend on each other.
        pinched = phi + 1e-12 * np.eye(phi.shape[-1])
        explained = (y * np.linalg.solve(pinched, y)).sum(axis=(1, 2))
        rest = size[:, -1] ** 2 * np.maximum(1.0 - explained, 0.0)
        return np.asarray(rest / np.maximum(count - scatter.shape[-1], 1.0))


def with_intercept(x: Array, features: Sequence[Column], centre: tuple[float, ...] = ()) -> Array:
    """Return φ(x) = (1, chosen columns less their centre): (N, 1 + len(features))."""
    out = zeros((x.shape[0], len(features) + 1), x)
    out[:, 0] = 1.0
    if features:
        out[:, 1:] = centred(take_all(x, features), centre)
    return out


def centred(columns: Array, centre: tuple[float, ...]) -> Array:
    """Return columns (N, p) less what is taken off each; nothing where none is declared."""
    if not centre:
        return columns
    less: Array = columns - like(centre, columns)
    return less


def check_centre(centre: tuple[float, ...], n_features: int) -> None:
    """Refuse a centre of other columns than there are."""
    if centre and len(centre) != n_features:
        raise InvalidInput(
            f"bandit.centre: expected {numbers(n_features)}, one a feature; got {len(centre)}"
        )
