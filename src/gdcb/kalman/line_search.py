"""Look for lines in one record: harmonics by least squares, evidence at any frequency, its p-value.

`spectrum.find_lines` is the way in; this is what it does again after each line it finds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array
from gdcb.kalman.whitening import White, background, decorrelate, evidence, power_at, whiten

FEWEST_CYCLES = 3.0  # of a given period; below that a line cannot be told from a level and a drift
_SEARCHED = 5.0  # cycles from which on lines are searched for: below, a red background looks alike
_RED = 6.0  # evidence at c cycles is divided by 1 + 6/c²; set so that the false-alarm rate holds
_FINER = 4  # frequencies looked at in a Fourier bin
_APART = 1.0  # bins between two lines
_ZOOMS = 9


def fit_harmonics(series: Array, frequency: Array) -> Array:
    """Return level, then cosine and sine weights of each line, by least squares: (1 + 2L, S)."""
    n, n_series = series.shape
    design = np.concatenate([np.ones((n, 1)), basis(np.arange(n), frequency)], axis=1)
    weights = np.empty((design.shape[1], n_series))
    for s in range(n_series):
        is_seen = ~np.isnan(series[:, s])
        seen, values = design[is_seen], series[is_seen, s]
        weights[:, s] = np.linalg.lstsq(seen, values, rcond=1e-10)[0]
    return weights


def basis(steps: Array, frequency: Array) -> Array:
    """Return cos and sin of 2π f t in turn: (T, 2L)."""
    angle = 2.0 * np.pi * np.outer(steps, frequency)
    return np.stack([np.cos(angle), np.sin(angle)], axis=2).reshape(len(steps), -1)


@dataclass(frozen=True, slots=True)
class Found:
    """A line on its way: its frequency, evidence, p-value, summed ratio, and where it is from."""

    frequency: float
    z: float
    p_value: float
    ratio: float
    is_given: bool


class Look:
    """One record, looked at again after each line."""

    def __init__(self, series: Array, channels: int, order: int) -> None:
        self.series, self.order, self.channels = series, order, channels
        self.n, self.n_series = series.shape
        self.is_seen = ~np.isnan(series)

    def rest(self, found: Sequence[Found]) -> White:
        """Whiten what is left when the lines found are regressed out."""
        frequency = np.array([one.frequency for one in found])
        weights = fit_harmonics(self.series, frequency)
        left = self.series - weights[0] - basis(np.arange(self.n), frequency) @ weights[1:]
        left = np.where(self.is_seen, left, 0.0)
        return decorrelate(whiten(left, self.is_seen, self.order), self.channels)

    def given(self, frequencies: Sequence[float], level: float) -> list[Found]:
        """Return which given frequencies are lines, by Holm: the clearest first, each removed."""
        from scipy import special

        left, found = sorted(set(frequencies)), list[Found]()
        while left:
            white, at = self.rest(found), np.array(left)
            z, ratio = _evidence(white, at)
            best = int(np.argmax(z))
            p = min(1.0, len(left) * float(special.gammaincc(self.n_series, z[best])))
            if p > level:
                break
            found.append(Found(left.pop(best), float(z[best]), p, float(ratio[best]), True))
        return found

    def best(self, found: Sequence[Found]) -> Found | None:
        """Return the clearest frequency that is not next to a line found before."""
        white = self.rest(found)
        n = white.steps.size
        size = _FINER * n
        grid = np.arange(size // 2 + 1) / size
        low, high = _SEARCHED / n, 0.5 - 1.0 / n
        inside = (grid >= low) & (grid <= high)
        for one in found:
            inside &= np.abs(grid - one.frequency) >= _APART / n
        if not inside.any():
            return None
        power = np.abs(np.fft.rfft(white.values, n=size, axis=0)[inside]) ** 2 / n
        level, count = background(white, grid[inside])
        z = evidence(power, level, count) / _reddened(grid[inside] * n)
        top = int(np.argmax(z))
        at = _zoomed(white, float(grid[inside][top]), 1.0 / size, low, high)
        return self._judged(white, at, high - low)

    def polish(self, found: list[Found]) -> list[Found]:
        """Move each searched frequency to its best place with the others taken out."""
        done = list(found)
        for i, one in enumerate(done):
            if one.is_given or len(done) == 1:
                continue
            white = self.rest(done[:i] + done[i + 1 :])
            n = white.steps.size
            low, high = _SEARCHED / n, 0.5 - 1.0 / n
            at = _zoomed(white, one.frequency, 0.5 / n, low, high)
            moved = self._judged(white, at, high - low)
            done[i] = Found(at, moved.z, one.p_value, moved.ratio, False)
        return done

    def _judged(self, white: White, frequency: float, width: float) -> Found:
        z, ratio = _evidence(white, np.array([frequency]))
        seen = self.is_seen[self.order :]
        spread = max(float(np.var(white.steps[seen[:, s]])) for s in range(self.n_series))
        p = highest(float(z[0]), self.n_series, width * float(np.sqrt(4.0 * np.pi * spread)))
        return Found(frequency, float(z[0]), p, float(ratio[0]), False)


def highest(z: float, n_series: int, crossings: float) -> float:
    """Return an upper limit of P(max z(f) ≥ z): that of one place, plus expected upcrossings.

    Parameters
    ----------
    z : summed evidence, Gamma(S) at any one frequency under the null
    n_series : S
    crossings : Δf·√(4π Var t), for S = 1 the upcrossings of level 1 times e

    Examples
    --------
    With S = 1 it is e^(−z)·(1 + crossings·√z): at z = 9 and 100 crossings, 301·e^(−9).

    >>> round(highest(9.0, 1, 100.0), 4), round(301 * float(np.exp(-9.0)), 4)
    (0.0371, 0.0371)
    """
    from scipy import special

    if z <= n_series - 0.5:  # below the mode the sum only counts; it is no limit
        return 1.0
    rate = crossings * np.exp((n_series - 0.5) * np.log(z) - z - special.gammaln(n_series))
    return float(min(1.0, special.gammaincc(n_series, z) + rate))


def _evidence(white: White, frequency: Array) -> tuple[Array, Array]:
    """Return evidence and the summed ratio of line to background at each frequency: (F,) each."""
    power = power_at(white, frequency)
    level, count = background(white, frequency)
    ratio = power / np.maximum(level, np.finfo(float).tiny)
    z = evidence(power, level, count) / _reddened(frequency * white.steps.size)
    return z, np.asarray(ratio.sum(axis=1))


def _reddened(cycles: Array) -> Array:
    """Return by what evidence is divided at so many cycles in the record.

    Near frequency 0 a background has too few bins below it, and the autoregression is at its
    worst. Where the spectrum is red, which it is under too low a gain, both take it for too low.
    """
    return np.asarray(1.0 + _RED / cycles**2)


def _zoomed(white: White, frequency: float, width: float, low: float, high: float) -> float:
    """Return the frequency within `width` at which evidence is highest, the background held."""
    level, count = background(white, np.array([frequency]))
    for _ in range(_ZOOMS):
        near = np.clip(np.linspace(frequency - width, frequency + width, 9), low, high)
        z = evidence(power_at(white, near), level, count.repeat(near.size))
        frequency, width = float(near[int(np.argmax(z))]), width / 4.0
    return frequency
