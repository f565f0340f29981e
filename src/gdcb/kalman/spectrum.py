"""Find periodic lines in innovations, at a stated rate of false alarms, and take them out.

A line is a cosine of fixed frequency, amplitude and phase. Innovations of the right filter are
white; those of a mistuned one are coloured, and a test that takes white noise for granted finds
lines where there are none. Here the background is flattened and estimated beside the line
(`whitening`), and the maximum over all frequencies is judged by the upcrossings of the null.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.kalman.line_search import FEWEST_CYCLES, Found, Look, basis, fit_harmonics
from gdcb.kalman.whitening import background, whiten

SHORTEST = 40  # values a series


@dataclass(frozen=True, slots=True)
class Lines:
    """Periodic lines a·cos(2π f t + φ), t the step from the record's first row.

    Parameters
    ----------
    frequency : (L,) f in cycles a step, the largest line first
    amplitude : (L, ...) a, in the units of the series, one a series
    phase : (L, ...) φ in radians at step 0, in (−π, π]
    p_value : (L,) chance of so clear a line anywhere among those looked for, if there is none
    is_given : (L,) whether the line is a given period; the others were searched for
    frequency_error : (L,) standard error of f; 0 for a given period
    amplitude_error : (L, ...) standard error of a
    false_alarm : rate at which any line is found where there is none
    """

    frequency: Array
    amplitude: Array
    phase: Array
    p_value: Array
    is_given: Array
    frequency_error: Array
    amplitude_error: Array
    false_alarm: float

    @property
    def n_lines(self) -> int:
        """How many lines there are."""
        return int(self.frequency.size)

    @property
    def period(self) -> Array:
        """Steps a cycle, 1/f: (L,)."""
        return np.asarray(1.0 / self.frequency)

    @property
    def phasor(self) -> Array:
        """Amplitude and phase as one complex number a·exp(iφ): (L, ...)."""
        return np.asarray(self.amplitude * np.exp(1j * self.phase))

    def only(self, is_kept: Array) -> Lines:
        """Return the lines where `is_kept` (L,) is true."""
        kept = {one.name: getattr(self, one.name) for one in fields(self)}
        kept = {name: v[is_kept] if isinstance(v, np.ndarray) else v for name, v in kept.items()}
        return Lines(**kept)


def find_lines(
    innovations: npt.ArrayLike,
    *,
    false_alarm: float = 0.05,
    periods: Sequence[float] = (),
    search: bool = True,
    max_lines: int = 8,
    max_order: int | None = None,
) -> Lines:
    """Find lines that all tracks share, each with an amplitude and a phase of its own a series.

    Parameters
    ----------
    innovations : (T,), (T, N) or (T, N, m): steps, tracks, channels; NaN: not seen
    false_alarm : rate at which any line is found in a record without one
    periods : known periods in steps (7, 365.25), tested as they are. They are corrected for their
        number alone (Holm) and have half of `false_alarm`; the search has the other half
    search : whether unknown frequencies are looked for as well
    max_lines : of the search
    max_order : largest order of the autoregression that flattens the background; ⌊10 log₁₀ T⌋
        unless given, a 20th of T at most

    Returns
    -------
    Lines : none where nothing was found

    Notes
    -----
    Tracks must be independent: evidence is summed over them, and over channels after these were
    decorrelated. A line that only one of many tracks has is better looked for in that track alone,
    at `false_alarm`/N. The rate is for Gaussian series with a background that is smooth over some
    ten bins; a lightly damped oscillation of the state, narrower than that, is taken for a line.
    A line whose phase wanders over the record is found late or as several. The search begins at
    five cycles in the record; a given period needs three. Near those, evidence is discounted.

    The maximum of evidence z over frequency has P(max ≥ z) ≤ P(Gamma(S) ≥ z) +
    Δf·√(4π Var t)·z^(S−1/2) e^(−z)/Γ(S) (Davies 1987): frequencies off the Fourier grid are
    counted, not ignored.

    Examples
    --------
    >>> t = np.arange(140)
    >>> noise = np.random.default_rng(0).normal(size=140)
    >>> lines = find_lines(noise + 2.0 * np.cos(2 * np.pi * t / 7))
    >>> lines.period.round(1).tolist(), lines.amplitude.round(0).tolist()
    ([7.0], [2.0])
    """
    series, shape = _series(innovations)
    n = series.shape[0]
    _check(false_alarm, periods, max_lines, n)
    order = int(10 * np.log10(n)) if max_order is None else max_order
    if not 0 <= order <= n // 4:
        raise InvalidInput(f"max_order: expected 0 to {n // 4} for {n} steps, got {order}")
    order = min(order, n // 20) if max_order is None else order
    look = Look(series, shape[2] if len(shape) == 3 else 1, order)
    share = false_alarm / 2 if search and len(periods) else false_alarm
    found: list[Found] = []
    if len(periods):
        found = look.given([1.0 / period for period in periods], share)
    while search and sum(not one.is_given for one in found) < max_lines:
        best = look.best(found)
        if best is None or best.p_value > share:
            break
        found = look.polish([*found, best])
    return _lines(look, found, shape[1:], false_alarm)


def notch(innovations: npt.ArrayLike, lines: Lines) -> Array:
    """Return innovations without the lines: regressed out of each series, its mean kept.

    Parameters
    ----------
    innovations : (T, ...) as given to `find_lines`, or another record of the same series; the
        amplitudes and phases are fitted anew
    lines : whose frequencies are taken out

    Notes
    -----
    A regression, not a recursive notch filter: it has no start-up, shifts no phase, leaves every
    other frequency as it was (so autocovariances at all lags lose only the line), steps over gaps,
    and costs two degrees of freedom a line. A recursive notch also takes the noise of a whole band
    and so colours what a covariance fit reads. It is the better choice only for a line whose phase
    wanders; there, notch shorter pieces.

    Examples
    --------
    >>> t = np.arange(140)
    >>> wave = 3.0 + 2.0 * np.cos(2 * np.pi * t / 7)
    >>> lines = find_lines(wave + 0.1 * np.sin(t**2.0), periods=(7,), search=False)
    >>> bool(np.allclose(notch(wave, lines), 3.0))
    True
    """
    series, shape = _series(innovations)
    weights = fit_harmonics(series, lines.frequency)
    waves = basis(np.arange(series.shape[0]), lines.frequency)
    left = np.empty(series.shape)
    for s in range(series.shape[1]):  # one by one: a track's bits do not depend on its neighbours
        left[:, s] = series[:, s] - waves @ weights[1:, s].copy()
    return left.reshape(shape)


def line_profile(lines: Lines, steps: npt.ArrayLike) -> Array:
    """Return what the lines add at any steps, past or to come: (K, ...) for K steps.

    Parameters
    ----------
    lines : from `find_lines`, or from `measurement_lines`, whose profile is to be subtracted from
        measurements
    steps : (K,) counted from the first row of the record in which they were found

    Notes
    -----
    The phase errs by 2π·h·(standard error of f) h steps after the record's middle: past a quarter
    of a cycle the profile adds more than it takes. Given periods do not drift.

    Examples
    --------
    >>> one = np.ones(1)
    >>> lines = Lines(0.25 * one, 2 * one, 0 * one, 0 * one, one > 0, 0 * one, 0 * one, 0.05)
    >>> (line_profile(lines, [0, 1, 2, 3, 400]).round(9) + 0.0).tolist()
    [2.0, 0.0, -2.0, 0.0, 2.0]
    """
    at = np.asarray(steps, dtype=float)
    if at.ndim != 1 or not np.isfinite(at).all():
        raise InvalidInput(f"steps: expected a finite vector, got shape {at.shape}")
    angle = 2.0 * np.pi * at[:, None] * lines.frequency
    angle = angle.reshape(angle.shape + (1,) * (lines.phase.ndim - 1)) + lines.phase
    return np.asarray((lines.amplitude * np.cos(angle)).sum(axis=1))


def _lines(look: Look, found: list[Found], tail: tuple[int, ...], false_alarm: float) -> Lines:
    frequency = np.array([one.frequency for one in found])
    weights = fit_harmonics(look.series, frequency)[1:].reshape(-1, 2, look.n_series)
    order = np.argsort(-(weights**2).sum(axis=(1, 2)), kind="stable")
    found, frequency, weights = [found[i] for i in order], frequency[order], weights[order]
    phasor = weights[:, 0] - 1j * weights[:, 1]
    left = look.series - fit_harmonics(look.series, frequency)[0]
    left = left - basis(np.arange(look.n), frequency) @ weights.reshape(-1, look.n_series)
    white = whiten(np.where(look.is_seen, left, 0.0), look.is_seen, look.order)
    count = look.is_seen.sum(axis=0)
    error = np.zeros((len(found), look.n_series))
    for i, one in enumerate(found):
        level, _ = background(white, np.array([one.frequency]))
        # Zeros in gaps thin the whitened power by the share that was seen.
        level = level[0] * look.n / count / white.response(one.frequency)
        error[i] = np.sqrt(2.0 * level / count)
    n = look.n - look.order
    ratio = np.array([one.ratio for one in found])
    is_given = np.array([one.is_given for one in found], dtype=bool)
    wide = (len(found), *tail)
    return Lines(
        frequency=frequency,
        amplitude=np.abs(phasor).reshape(wide),
        phase=np.angle(phasor).reshape(wide),
        p_value=np.array([one.p_value for one in found]),
        is_given=is_given,
        frequency_error=np.where(is_given, 0.0, np.sqrt(6.0 / ratio) / (2.0 * np.pi * n)),
        amplitude_error=error.reshape(wide),
        false_alarm=float(false_alarm),
    )


def _series(innovations: npt.ArrayLike) -> tuple[Array, tuple[int, ...]]:
    """Return the record as (T, S) and its own shape; refuse what no line can be found in."""
    try:
        values = np.asarray(innovations, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"innovations: expected numbers, got {error}") from None
    if not 1 <= values.ndim <= 3 or 0 in values.shape:
        raise InvalidInput(
            f"innovations: expected (T,), (T, N) or (T, N, m), got shape {values.shape}"
        )
    if np.isinf(values).any():
        raise InvalidInput("innovations: expected finite values or NaN, got an infinite one")
    series = values.reshape(values.shape[0], -1)
    for s in range(series.shape[1]):
        seen = series[~np.isnan(series[:, s]), s]
        where = "" if series.shape[1] == 1 else f" in series {s}"
        if seen.size == 0:
            raise InvalidInput(f"innovations: every value is NaN{where}")
        if seen.size < SHORTEST:
            raise InvalidInput(
                f"innovations: expected at least {SHORTEST} seen values, got {seen.size}{where}"
            )
        if np.ptp(seen) <= 1e-12 * np.abs(seen).max():
            raise InvalidInput(f"innovations: constant at {seen[0]:g}{where}")
    return series, values.shape


def _check(false_alarm: float, periods: Sequence[float], max_lines: int, n: int) -> None:
    if not 0.0 < false_alarm < 1.0:
        raise InvalidInput(f"false_alarm: expected a rate between 0 and 1, got {false_alarm}")
    if max_lines < 1:
        raise InvalidInput(f"max_lines: expected at least 1, got {max_lines}")
    for period in periods:
        if not np.isfinite(period) or period <= 2.0:
            raise InvalidInput(
                f"periods: expected more than 2 steps, got {period:g}: its frequency is not below "
                "the Nyquist frequency of half a cycle a step"
            )
        if period * FEWEST_CYCLES > n:
            raise InvalidInput(
                f"periods: expected at least {FEWEST_CYCLES:g} cycles in the record's {n} steps, "
                f"got a period of {period:g}"
            )
