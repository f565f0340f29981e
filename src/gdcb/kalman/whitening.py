"""Flatten the background of a series, so that a line can be judged against its neighbours.

Innovations of a mistuned filter are coloured: next to a white null, a broad hill looks like a line.
So the coarse shape is taken off first by an autoregression, and what is left is judged bin by bin
against the bins around it. The autoregression must not take off the line itself: its
autocovariances come from a periodogram whose narrow peaks are clipped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array

_SIDE = 5  # bins a side to which a bin is compared before it is clipped
_LOBE = 2  # bins between them: half of what a tapered line fills
_CLIP = 4.0  # times the higher side; noise is cut alike everywhere, which leaves the shape as it is
_LN2 = float(np.log(2.0))  # median of a standard exponential
_MOST = 0.9999  # largest reflection coefficient, against rounding
_REFITS = 3  # with gaps
BINS = 16  # bins that a background is the mean of
GUARD = 1.5  # bins on each side of a line that its background leaves out


@dataclass(frozen=True, slots=True)
class White:
    """Whitened series of one record.

    Parameters
    ----------
    values : (n, S) residuals of the autoregressions, 0 where nothing was seen
    steps : (n,) step that each row belongs to
    coefficients : (S, p) of x_t = Σ_j φ_j x_{t−j} + e_t, 0 beyond a series' own order
    """

    values: Array
    steps: Array
    coefficients: Array

    def response(self, frequency: float) -> Array:
        """Return |1 − Σ_j φ_j exp(−2πi f j)|² (S,): what whitening did to the power at f."""
        lags = np.arange(1, self.coefficients.shape[1] + 1)
        turned = np.exp(-2j * np.pi * frequency * lags)
        return np.asarray(np.abs(1.0 - (self.coefficients * turned).sum(axis=1)) ** 2)


def clipped_periodogram(values: Array) -> Array:
    """Return the power of a Hann-tapered record at its Fourier frequencies (T, S), peaks clipped.

    A bin may be four times the level of the higher of its two sides, a side being five bins beyond
    the four that a tapered line fills. A hill is wider than that, and is left as it is.

    Examples
    --------
    A line of 4 cycles is clipped to nothing, since its sides are empty.

    >>> wave = 8.0 * np.cos(2 * np.pi * 4 * np.arange(64) / 64)[:, None]
    >>> bool(clipped_periodogram(wave).max() < 1e-9)
    True
    """
    n = values.shape[0]
    taper = np.sin(np.pi * (np.arange(n) + 0.5) / n) ** 2
    power = np.abs(np.fft.fft(values * taper[:, None], axis=0)) ** 2 / (taper**2).sum()
    edge = _SIDE + _LOBE
    around = np.concatenate([power[-edge:], power, power[:edge]])
    windows = np.lib.stride_tricks.sliding_window_view(around, _SIDE, axis=0)
    level = np.median(windows, axis=-1) / _LN2
    below, above = level[:n], level[edge + _LOBE + 1 : edge + _LOBE + 1 + n]
    return np.asarray(np.minimum(power, _CLIP * np.maximum(below, above)))


def autoregression(values: Array, count: Array, order: int) -> Array:
    """Return coefficients (S, p) of an autoregression a series, its order chosen by Schwarz.

    Levinson's recursion on the autocovariances of the clipped periodogram, so always stable.

    Parameters
    ----------
    values : (T, S) series with mean 0
    count : (S,) how many of them were seen
    order : p, the largest order
    """
    lags = np.fft.ifft(clipped_periodogram(values), axis=0).real[: order + 1]
    error = np.maximum(lags[0], np.finfo(float).tiny)
    phi = np.zeros((order, values.shape[1]))
    best, score = phi.copy(), count * np.log(error)
    for k in range(order):
        reflect = (lags[k + 1] - (phi[:k] * lags[k:0:-1]).sum(axis=0)) / error
        reflect = np.clip(reflect, -_MOST, _MOST)
        phi[:k] -= reflect * phi[:k][::-1].copy()
        phi[k] = reflect
        error = error * (1.0 - reflect**2)
        now = count * np.log(error) + np.log(count) * (k + 1)
        is_better = now < score
        best = np.where(is_better, phi, best)
        score = np.where(is_better, now, score)
    return np.ascontiguousarray(best.T)


def whiten(values: Array, is_seen: Array, order: int) -> White:
    """Return residuals of an autoregression fitted to each series (T, S); see `autoregression`.

    `values` have mean 0, and 0 where not seen. There they are taken for their predictions, and the
    autoregression is fitted again; their residuals are 0.
    """
    count, filled = is_seen.sum(axis=0), values
    phi = autoregression(filled, count, order)
    if not is_seen.all():
        for _ in range(_REFITS):
            filled = _filled(values, is_seen, phi)
            phi = autoregression(filled, count, order)
        filled = _filled(values, is_seen, phi)
    n = values.shape[0]
    rest = filled[order:].copy()
    for j in range(order):
        rest -= phi[:, j] * filled[order - 1 - j : n - 1 - j]
    return White(np.where(is_seen[order:], rest, 0.0), np.arange(order, n), phi)


def _filled(values: Array, is_seen: Array, phi: Array) -> Array:
    filled, order = values.copy(), phi.shape[1]
    for t in np.flatnonzero(~is_seen.all(axis=1)):
        past = filled[max(t - order, 0) : t][::-1]
        guess = (phi[:, : past.shape[0]] * past.T).sum(axis=1)
        filled[t] = np.where(is_seen[t], filled[t], guess)
    return filled


def decorrelate(white: White, channels: int) -> White:
    """Return the series of each track turned so that its channels are uncorrelated at lag 0.

    `channels` series that follow each other are one track's. Their sum of evidence is then that of
    independent ones.
    """
    if channels == 1:
        return white
    n, n_series = white.values.shape
    split = white.values.reshape(n, n_series // channels, channels).transpose(1, 0, 2)
    covariance = split.transpose(0, 2, 1) @ split / n
    size, vectors = np.linalg.eigh(covariance)
    size = np.maximum(size, size[:, -1:] * 1e-12)
    turned = split @ (vectors / np.sqrt(size)[:, None, :])
    return White(turned.transpose(1, 0, 2).reshape(n, n_series), white.steps, white.coefficients)


def power_at(white: White, frequency: Array) -> Array:
    """Return |Σ_t e_t exp(−2πi f t)|²/n of each series at any frequencies: (F, S)."""
    turned = np.exp(-2j * np.pi * np.outer(frequency, white.steps))
    return np.asarray(np.abs(turned @ white.values) ** 2 / white.steps.size)


def background(white: White, frequency: Array) -> tuple[Array, Array]:
    """Return the mean power of the bins around each frequency (F, S), and how many they are (F,).

    Eight Fourier bins below and eight above, fewer at the ends; those within 1.5 bins of
    the frequency are left out, so that a line does not raise what it is compared to.
    """
    n = white.steps.size
    power = np.abs(np.fft.rfft(white.values, axis=0)[1 : (n + 1) // 2]) ** 2 / n
    total = np.concatenate([np.zeros((1, power.shape[1])), np.cumsum(power, axis=0)])
    n_bins = power.shape[0]
    place = frequency * n
    below = np.clip(np.floor(place - GUARD), 0, n_bins).astype(np.int64)
    above = np.clip(np.ceil(place + GUARD) - 1, 0, n_bins).astype(np.int64)
    half = min(BINS, n_bins // 4) // 2
    # Not more on one side where the other has too few: at the red end of a spectrum the bins
    # further up lie lower, and a background that reaches for them is too low.
    take_below = np.minimum(half, below)
    take_above = np.minimum(half, n_bins - above)
    count = take_below + take_above
    around = total[below] - total[below - take_below] + total[above + take_above] - total[above]
    return around / count[:, None], count


def evidence(power: Array, level: Array, count: Array) -> Array:
    """Return Σ_s −log p_s (F,), p_s the chance of so high a bin beside its background.

    A bin over the mean of M others is F(2, 2M) under the null: p = (1 + r/M)^(−M). The sum over S
    independent series is then Gamma(S).

    >>> evidence(np.array([[3.0]]), np.array([[1.0]]), np.array([3])).round(3).tolist()
    [2.079]
    """
    ratio = power / np.maximum(level, np.finfo(float).tiny)
    return np.asarray((count[:, None] * np.log1p(ratio / count[:, None])).sum(axis=1))
