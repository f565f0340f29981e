"""Whether steps explain a path over time better than slow swings do: seasons, trends, walks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gdcb.arrays import Array

_ROUGH = (0.05, 0.1, 0.2, 0.4)  # lengths of a path's memory, as shares of its span
_SMOOTH = (0.1, 0.2, 0.4)  # lengths over which a smooth path bends
_SIZES = np.concatenate(([0.0], np.geomspace(1e-3, 1e4, 43)))  # of swings, against the noise


def log_odds_of_steps(
    mean: Array, variance: Array, time: Array, splits: Sequence[Array], least: float = 0.0
) -> float:
    """Return by how much steps at known dates are likelier than the likeliest swings.

    Both are normal paths around an unknown level, of a size that is fitted: steps at the dates, of
    sizes drawn alike; a walk, a trend, a path that forgets within a share of the span, or a smooth
    path. With the level integrated out each has a likelihood, and the logarithms are compared.

    Parameters
    ----------
    mean, variance : (M,) of the rows in M blocks of time
    time : (M,)
    splits : for each step, whether a block comes after it: (M,)
    least : taken off for each step, as the price of choosing its date

    Examples
    --------
    >>> t, sd = np.linspace(0, 1, 40), 0.1
    >>> noise = sd * np.random.default_rng(0).normal(size=40)
    >>> after = [t > 0.5]
    >>> log_odds_of_steps(noise + 0.5 * after[0], np.full(40, sd**2), t, after) > 3
    True
    >>> log_odds_of_steps(noise + 0.5 * np.sin(6 * t), np.full(40, sd**2), t, after) > 3
    False
    """
    root = 1.0 / np.sqrt(variance)
    # What is orthogonal to the level, in units of the noise.
    basis = np.linalg.qr(np.concatenate((root[:, None], np.eye(mean.size)), axis=1))[0][:, 1:]
    path = basis.T @ (root * mean)
    scale = 1.0 / np.mean(root**2)

    def likelihood(kernel: Array) -> float:
        inner = basis.T @ (root[:, None] * kernel * root) @ basis * scale
        spread, axes = np.linalg.eigh(inner)
        over = _SIZES[:, None] * np.maximum(spread, 0.0)
        square = (axes.T @ path) ** 2
        return float((0.5 * square * over / (1.0 + over) - 0.5 * np.log1p(over)).sum(1).max())

    span = max(float(time.max() - time.min()), 1e-12)
    t = (time - time.min()) / span
    apart = np.abs(t[:, None] - t)
    swings = [np.minimum(t[:, None], t), t[:, None] * t]
    swings += [np.exp(-apart / length) for length in _ROUGH]
    swings += [np.exp(-0.5 * (apart / length) ** 2) for length in _SMOOTH]
    steps = np.stack([np.asarray(after, dtype=float) for after in splits])
    return likelihood(steps.T @ steps) - least * len(splits) - max(map(likelihood, swings))
