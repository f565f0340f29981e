"""p-values from resampled data where a normal reference is wrong: rare or skewed outcomes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from gdcb.arrays import Array

FEW = 5_000.0  # events below which the normal reference may be wrong in the far tail
_SCALING = 400  # resamples from which the tail of each statistic is taken
_USUAL = 0.9  # the quantile at which the tail begins
_LEAST_EXCESS = 0.1  # of that quantile: about what a normal reference has
_AT_ONCE = 20_000_000  # numbers in memory
_LEAST, _MOST = 199, 1999  # resamples; more where the level needs them
_FOUND = 2.0  # resamples times the level, at small levels: p can be half the level, or 1 above

Draw = Callable[[int], Array]


def resampled_p(
    largest: Callable[[Array], Array], observed: Array, draw: Draw, level: float, size: int
) -> tuple[float, int]:
    """Return p of the largest of k statistics, and which of them it is.

    Statistics with other tails are made comparable by a first set of resamples: of each, the excess
    over its 90 % quantile is divided by the mean excess there, so that the tail is about e^−x. The
    largest of these is then compared with that of a second set, to which
    the observed data belong if nothing is wrong, so that p is valid whatever the tails are. Drawing
    stops as soon as p cannot fall to the level any more.

    Parameters
    ----------
    largest : from data (..., P) to the statistics (k, P)
    observed : the data (..., 1)
    draw : resampled data (..., P), from P
    level : of the test; more resamples are drawn for a smaller one, so that p can always fall to it
    size : numbers in memory for each resample

    Examples
    --------
    Two of ten rows are 1, and both are among the first five: 2·(5·4)/(10·9) = 0.44, both sides.

    >>> rng = np.random.default_rng(0)
    >>> y = np.array([1.0, 1, 0, 0, 0, 0, 0, 0, 0, 0])
    >>> def largest(some):
    ...     return np.abs(some[:5].mean(axis=0) - some[5:].mean(axis=0))[None]
    >>> def draw(n):
    ...     return np.stack([rng.permutation(y) for _ in range(n)], axis=1)
    >>> p, which = resampled_p(largest, y[:, None], draw, 0.5, 10)
    >>> 0.3 < p < 0.6, which
    (True, 0)
    """
    most = int(np.clip(np.ceil(4.0 / level) - 1, _LEAST, max(_MOST, np.ceil(_FOUND / level) - 1)))
    at_once = int(np.clip(_AT_ONCE // max(size, 1), 10, 200))
    usual, excess = _tails(np.concatenate(list(_batches(largest, draw, _SCALING, at_once)), axis=1))
    ratio = (largest(observed) - usual) / excess
    which, top = int(ratio[:, 0].argmax()), float(ratio.max())
    done = above = 0
    for some in _batches(largest, draw, most, at_once):
        done += some.shape[1]
        above += int((((some - usual) / excess).max(axis=0) >= top - 1e-9 * abs(top)).sum())
        if above + 1 > level * (most + 1):
            break
    return (above + 1) / (done + 1), which


def _tails(sizes: Array) -> tuple[Array, Array]:
    """Return the 90 % quantile of statistics (k, P), and the mean excess over it: (k, 1) each."""
    usual = np.quantile(sizes, _USUAL, axis=1, keepdims=True)
    above = sizes >= usual
    excess = np.where(above, sizes - usual, 0.0).sum(axis=1, keepdims=True)
    excess = excess / np.maximum(above.sum(axis=1, keepdims=True), 1)
    least = np.maximum(_LEAST_EXCESS * usual, np.finfo(float).tiny)
    return usual, np.where(usual > 0, np.maximum(excess, least), np.inf)


def _batches(
    largest: Callable[[Array], Array], draw: Draw, n: int, at_once: int
) -> Iterator[Array]:
    for start in range(0, n, at_once):
        yield largest(draw(min(at_once, n - start)))


def shuffled(values: Array, group: Array, n: int, rng: np.random.Generator) -> Array:
    """Return values (N, n), shuffled n times within groups (N,) of rows."""
    out = np.empty((values.size, n))
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    for start, stop in zip(starts, [*starts[1:], order.size], strict=True):
        rows = order[start:stop]
        out[rows] = rng.permuted(np.repeat(values[rows][:, None], n, axis=1), axis=0)
    return out


def in_bands(fitted: Array, block: Array, bands: int = 5, least: int = 20) -> Array:
    """Return groups (N,) of rows with about equal fitted values within the same block (N,).

    A block has as many bands as it has `least` rows for, `bands` at most.
    """
    group = np.empty(fitted.size, dtype=np.int64)
    order = np.lexsort((fitted, block))
    starts = np.flatnonzero(np.diff(block[order], prepend=-1))
    for i, (start, stop) in enumerate(zip(starts, [*starts[1:], order.size], strict=True)):
        n = stop - start
        own = min(bands, max(n // least, 1))
        group[order[start:stop]] = i * bands + np.arange(n) * own // n
    return group


def is_rare(scores: Array, share: float = 1.0, kurtosis: float = 40.0) -> bool:
    """Whether the normal reference is wrong for sums of some column of (N, k).

    That is where few rows carry a column although there are many: its kurtosis is larger than
    that of a product of three normals, 27. `share`: of all rows that these are.

    >>> rng = np.random.default_rng(0)
    >>> is_rare(rng.normal(size=(900, 1))), is_rare((rng.random((900, 1)) < 0.01) - 0.01)
    (False, True)
    """
    found = events(scores)
    peaked = scores.shape[0] > kurtosis * found
    return bool((peaked & (found > 0) & (found < FEW * share)).any())


def events(scores: Array) -> Array:
    """Return how many equal scores would be as irregular, (Σs²)²/Σs⁴, for each column of (N, k).

    Of 0/1 outcomes that come np times that is about np: few, where they are rare.

    >>> events(np.array([[1.0], [1.0], [0.0], [0.0]])).tolist()
    [2.0]
    """
    square = scores * scores
    fourth = (square * square).sum(axis=0)
    return np.asarray(square.sum(axis=0) ** 2 / np.where(fourth > 0, fourth, 1.0))
