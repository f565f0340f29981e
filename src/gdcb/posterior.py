"""The normal posterior of a linear regression, many at once, updated by low-rank steps.

Symmetric matrices are kept packed: the upper triangle row by row. So φᵀΣφ is one dot product with
the products φᵢφⱼ, and half of the memory is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from gdcb.arrays import Array, copies, like, namespace, on_host, stable_order, take_at, zeros
from gdcb.errors import InvalidInput

REFRESH = 512  # rows after which a covariance is solved for afresh
_MOST = 2**20  # matrices solved for at once, or numbers in those of one step
_MANY = 64  # rows of one posterior from which a matrix product pays
_WIDE = 32  # weights from which a few rows together are quicker than a new solution
_FEW = 4  # as many weights a row at least: then they go together


@cache
def _triangle(d: int) -> tuple[Array, Array, Array, Array]:
    """Return rows and columns of the upper triangle, its weights in a form, and how to unpack."""
    row, column = np.triu_indices(d)
    place = np.empty((d, d), dtype=np.int64)
    place[row, column] = place[column, row] = np.arange(row.size)
    return row, column, np.where(row == column, 1.0, 2.0), place.reshape(-1)


def _triangle_beside(phi: Array) -> tuple[Array, Array, Array]:
    """Return rows, columns and weights of the upper triangle where φ (N, d) is."""
    row, column, weight, _ = _triangle(phi.shape[1])
    if on_host(phi):
        return row, column, weight
    return like(row, phi), like(column, phi), like(weight, phi)


def n_packed(d: int) -> int:
    """Return the length of a packed symmetric matrix of order d."""
    return d * (d + 1) // 2


def outer(phi: Array) -> Array:
    """Return φφᵀ packed: (N, d) → (N, P)."""
    row, column, _ = _triangle_beside(phi)
    product = take_at(phi, row, axis=1)
    product *= take_at(phi, column, axis=1)
    return product


def form(phi: Array) -> Array:
    """Return what a packed Σ is multiplied with for φᵀΣφ: (N, d) → (N, P).

    >>> packed = np.array([2.0, 1.0, 3.0])  # [[2, 1], [1, 3]]
    >>> float(form(np.array([[1.0, 2.0]]))[0] @ packed)  # 2 + 2·1·2 + 3·4
    18.0
    """
    row, column, weight = _triangle_beside(phi)
    product = take_at(phi, row, axis=1)
    product *= take_at(phi, column, axis=1)
    product *= weight
    return product


def pack(matrix: Array) -> Array:
    """Return the upper triangle: (..., d, d) → (..., P)."""
    row, column, _, _ = _triangle(matrix.shape[-1])
    packed: Array = matrix[..., like(row, matrix), like(column, matrix)]
    return packed


def unpack(packed: Array, d: int) -> Array:
    """Return the whole matrix: (..., P) → (..., d, d)."""
    whole = take_at(packed, like(_triangle(d)[3], packed), axis=-1)
    return whole.reshape(*packed.shape[:-1], d, d)


def _diagonal(values: Array) -> Array:
    """Return diagonal matrices: (..., d) → (..., d, d)."""
    d = values.shape[-1]
    out = np.zeros((*values.shape, d))
    out[..., np.arange(d), np.arange(d)] = values
    return out


@dataclass(slots=True)
class NormalPosterior:
    """w ~ N(mean, Σ) for every owner, from the sums that imply it.

    The sums are the truth: they add up in any order and merge. Mean and covariance follow them by
    rank-one steps (Sherman and Morrison), and are solved for afresh by Cholesky factors every
    `REFRESH` rows and after every batch that repeats an owner, so that rounding cannot build up.
    Where an owner has many weights and a few rows in a batch, these are one step of their rank
    (Woodbury).

    Parameters
    ----------
    precision, shift : (..., P), (..., d) prior plus Σ φφᵀ·strength and Σ φ·strength·y
    covariance, mean : (..., P), (..., d) the posterior they imply
    steps : (...) rows since the last exact solution
    """

    precision: Array
    shift: Array
    covariance: Array
    mean: Array
    steps: Array

    @staticmethod
    def prior(
        owners: tuple[int, ...], mean: Array, sd: Array, beside: Array | None = None
    ) -> NormalPosterior:
        """Return independent normal coefficients with this mean and standard deviation (..., d).

        Axes before the last are further owners, behind the others. They are where `beside` is;
        NumPy's without it.
        """
        beside = mean if beside is None else beside
        precise, varied = _diagonal(sd**-2.0), _diagonal(sd**2.0)
        parts = (pack(precise), mean * sd**-2.0, pack(varied), mean)
        precision, shift, covariance, centre = (copies(part, owners, beside) for part in parts)
        steps = zeros((*owners, *mean.shape[:-1]), beside, namespace(beside).int64)
        return NormalPosterior(precision, shift, covariance, centre, steps)

    def observe(self, owner: Array, phi: Array, y: Array, strength: Array) -> None:
        """Add rows y = φᵀw + N(0, 1/strength) of owners (flat index), repeats allowed.

        An owner's bytes do not depend on the rows of others in the same call. On a device every
        owner has one row, and `refresh_all` must be called now and then.
        """
        flat = self._flat()
        n = owner.shape[0]
        if not on_host(owner) or n == 1 or int(np.bincount(owner).max(initial=0)) <= 1:
            flat._step(owner, phi, y, strength)
            return
        order = stable_order(owner)
        ordered = owner[order]
        starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        counts = np.diff(np.append(starts, n))
        alone = order[starts[counts == 1]]
        if alone.size:
            flat._step(owner[alone], phi[alone], y[alone], strength[alone])
        if phi.shape[1] >= _WIDE:
            is_left = flat._together(ordered, order, starts, counts, (phi, y, strength))
            inside = np.repeat(is_left, counts)
            ordered, order, counts = ordered[inside], order[inside], counts[is_left]
            starts = counts.cumsum() - counts
        flat._gather(ordered, order, starts, counts, (phi, y, strength))

    def _flat(self) -> NormalPosterior:
        """Return the same memory with one axis of owners."""
        p, d = self.precision.shape[-1], self.shift.shape[-1]
        return NormalPosterior(
            self.precision.reshape(-1, p),
            self.shift.reshape(-1, d),
            self.covariance.reshape(-1, p),
            self.mean.reshape(-1, d),
            self.steps.reshape(-1),
        )

    def _step(self, owner: Array, phi: Array, y: Array, strength: Array) -> None:
        """Add one row each to different owners."""
        d = phi.shape[1]
        added = outer(phi)
        added *= strength[:, None]
        self.precision[owner] += added
        self.shift[owner] += (strength * y)[:, None] * phi
        covariance, mean = take_at(self.covariance, owner), take_at(self.mean, owner)
        reach = (unpack(covariance, d) @ phi[:, :, None])[:, :, 0]
        gain = strength / (1.0 + strength * (phi * reach).sum(axis=1))
        error = y - (phi * mean).sum(axis=1)
        taken = outer(reach)
        taken *= gain[:, None]
        covariance -= taken
        self.covariance[owner] = covariance
        mean += (gain * error)[:, None] * reach
        self.mean[owner] = mean
        steps = take_at(self.steps, owner) + (strength > 0)
        self.steps[owner] = steps
        if on_host(steps) and int(steps.max()) >= REFRESH:
            self.refresh(owner[steps >= REFRESH])

    def _together(
        self,
        ordered: Array,
        order: Array,
        starts: Array,
        counts: Array,
        rows: tuple[Array, Array, Array],
    ) -> Array:
        """Add the rows of owners with a few each in one step; return which owners are left.

        With U the rows √strength·φ, S = I + UΣUᵀ and its factor LLᵀ, G = L⁻¹UΣ: the covariance
        loses GᵀG, and the mean gains GᵀL⁻¹·√strength·(y − φᵀmean).
        """
        d = self.shift.shape[1]
        is_left = np.ones(counts.shape, dtype=bool)
        for n in np.unique(counts[(counts > 1) & (counts * _FEW <= d)]):
            which = np.flatnonzero(counts == n)
            is_left[which] = False
            for some in np.array_split(which, -(-which.size * d * d // _MOST)):
                at = order[starts[some][:, None] + np.arange(n)]
                self._low_rank(ordered[starts[some]], *(part[at] for part in rows))
        return is_left

    def _low_rank(self, owner: Array, phi: Array, y: Array, strength: Array) -> None:
        """Add n rows each to different owners: φ (k, n, d), y and strength (k, n)."""
        root = np.sqrt(strength)
        scaled = root[..., None] * phi
        turned, target = scaled.swapaxes(1, 2), (root * y)[..., None]
        self.precision[owner] += pack(turned @ scaled)
        self.shift[owner] += (turned @ target)[..., 0]
        covariance = take_at(self.covariance, owner)
        reach = scaled @ unpack(covariance, scaled.shape[2])
        within = np.eye(phi.shape[1]) + reach @ turned
        factor = np.linalg.inv(np.linalg.cholesky(within))
        gain, mean = factor @ reach, take_at(self.mean, owner)
        back = gain.swapaxes(1, 2)
        covariance -= pack(back @ gain)
        self.covariance[owner] = covariance
        error = factor @ (target - scaled @ mean[..., None])
        self.mean[owner] = mean + (back @ error)[..., 0]
        self.steps[owner] += np.count_nonzero(strength > 0, axis=1)
        late = owner[self.steps[owner] >= REFRESH]
        if late.size:
            self.refresh(late)

    def _gather(
        self,
        ordered: Array,
        order: Array,
        starts: Array,
        counts: Array,
        rows: tuple[Array, Array, Array],
    ) -> None:
        """Add the rows of owners that have several, then solve for these owners."""
        phi, y, strength = rows
        some = (counts > 1) & (counts < _MANY)
        if some.any():
            inside = order[np.repeat(some, counts)]
            first = np.concatenate(([0], counts[some].cumsum()[:-1]))
            owner, weighted = ordered[starts[some]], strength[inside, None] * phi[inside]
            row, column, _, _ = _triangle(phi.shape[1])
            products = weighted.take(row, axis=1) * phi[inside].take(column, axis=1)
            self.precision[owner] += np.add.reduceat(products, first)
            self.shift[owner] += np.add.reduceat(weighted * y[inside, None], first)
        many = np.flatnonzero(counts >= _MANY)
        if many.size:
            phi, y, strength = phi.take(order, axis=0), y.take(order), strength.take(order)
        for at in many:
            rows_of = slice(starts[at], starts[at] + counts[at])
            own, strong, owner = phi[rows_of], strength[rows_of], ordered[starts[at]]
            if (strong == strong[0]).all():
                self.precision[owner] += pack(strong[0] * (own.T @ own))
                self.shift[owner] += strong[0] * (y[rows_of] @ own)
            else:
                weighted = own * strong[:, None]
                self.precision[owner] += pack(weighted.T @ own)
                self.shift[owner] += y[rows_of] @ weighted
        several = ordered[starts[counts > 1]]
        if several.size:
            self.refresh(several)

    def refresh(self, owner: Array) -> None:
        """Solve for mean and covariance of some owners (flat index) from their sums."""
        flat = self._flat()
        d, linalg = flat.shift.shape[1], namespace(self.shift).linalg
        precision = unpack(flat.precision[owner], d)
        try:
            root = linalg.inv(linalg.cholesky(precision))
        except (np.linalg.LinAlgError, RuntimeError) as error:  # torch has a kind of its own
            raise InvalidInput("posterior: its precision is not positive definite") from error
        covariance = root.swapaxes(-1, -2) @ root
        flat.covariance[owner] = pack(covariance)
        flat.mean[owner] = (covariance @ flat.shift[owner][..., None])[..., 0]
        flat.steps[owner] = 0

    def refresh_all(self) -> None:
        """Solve for mean and covariance of all owners from their sums."""
        n = int(np.prod(self.steps.shape))
        everyone = namespace(self.steps).arange(n, device=self.steps.device)
        for start in range(0, n, _MOST):
            self.refresh(everyone[start : start + _MOST])

    def decay(self, owner: Array, factor: float, prior: NormalPosterior) -> None:
        """Keep `factor` of the evidence of some owners (leading index)."""
        for name in ("precision", "shift"):
            mine, start = getattr(self, name), getattr(prior, name)
            mine[owner] = start + factor * (mine[owner] - start)
        self.refresh(self._places(owner))

    def merge(self, other: NormalPosterior, prior: NormalPosterior) -> None:
        """Add another posterior's evidence; the prior is counted once."""
        self.precision += other.precision - prior.precision
        self.shift += other.shift - prior.shift
        self.refresh_all()

    def _places(self, owner: Array) -> Array:
        """Return the flat places behind leading indices."""
        width = int(self.steps[0].size)
        return (np.asarray(owner)[:, None] * width + np.arange(width)).ravel()
