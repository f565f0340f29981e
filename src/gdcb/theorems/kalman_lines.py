"""Records with periodic lines, and covariances fitted to them with and without a notch.

A scalar system is filtered with a fixed, mistuned gain in two contexts, calm and rough. The line is
in the measurements; it is neither noise nor motion, and a covariance fit takes it for both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array
from gdcb.kalman.line_response import innovation_response, measurement_lines
from gdcb.kalman.line_search import fit_harmonics
from gdcb.kalman.riccati import gain, riccati
from gdcb.kalman.spectrum import Lines, find_lines, line_profile, notch
from gdcb.kalman.steady import innovation_autocovariance

F = 0.98
PROCESS, NOISE = np.array([0.1, 0.6]), np.array([1.0, 2.0])  # Q* and R*, calm and rough
HISTORY_GAIN = 0.15  # K of the fixed (Q₀, R₀), too low in both contexts
LOW, HIGH = 1e-2, 1e2  # the compact set that covariances are confined to
WAYS = ("raw", "notched", "known", "false")
_BURN_IN = 200
_FALSE = (3.3, 11.0, 29.0)  # periods at which there is no line
_ONE = np.ones((1, 1))
_LAGS = 18
_SYSTEM = (F * _ONE, _ONE, HISTORY_GAIN * _ONE)


@dataclass(frozen=True)
class Case:
    """One kind of record.

    Parameters
    ----------
    steps : T
    amplitude : of the line in the measurements; the calm context's noise has √R* = 1
    period : of the line, in steps
    wander : standard deviation of the phase's walk, in radians a step; 0: a line
    """

    steps: int
    amplitude: float
    period: float = 7.0
    wander: float = 0.0


@dataclass(frozen=True)
class Fitted:
    """What was fitted to the records of one case.

    Parameters
    ----------
    error : ways → (R, 2, 2) log δ̂ − log δ*, replicate, context, (Q, R)
    gain : ways → (R, 2) K̂ − K*
    excess : ways → (R, 2) mean squared error of the filter with the fitted gain over the best
        possible, the line still in the measurements
    cleaned : ways → (R, 2) the same where the line found is taken off the measurements as well
    found : (R,) whether a line within one bin of the true one was found
    n_found : (R,) how many lines were found
    """

    error: dict[str, Array]
    gain: dict[str, Array]
    excess: dict[str, Array]
    cleaned: dict[str, Array]
    found: Array
    n_found: Array


def records(
    rng: np.random.Generator, case: Case, replicates: int, k: float = HISTORY_GAIN
) -> tuple[Array, Array]:
    """Return innovations (T, R, 2) under a fixed gain and the line in the measurements (2T, R).

    The second half of the line is what comes after the record.
    """
    from scipy.signal import lfilter

    total = case.steps + _BURN_IN
    shape = (total, replicates, 2)
    state = lfilter([1.0], [1.0, -F], rng.normal(size=shape) * np.sqrt(PROCESS), axis=0)
    phase = rng.uniform(0.0, 2.0 * np.pi, replicates)
    walk = rng.normal(size=(2 * case.steps + _BURN_IN, replicates)).cumsum(axis=0)
    steps = np.arange(-_BURN_IN, 2 * case.steps)[:, None]
    angle = 2.0 * np.pi * steps / case.period + phase + case.wander * walk
    line = case.amplitude * np.cos(angle)
    seen = state + rng.normal(size=shape) * np.sqrt(NOISE) + line[:total, :, None]
    carried = F * k
    predicted = lfilter([0.0, carried], [1.0, -(F - carried)], seen, axis=0)
    return (seen - predicted)[_BURN_IN:], line[_BURN_IN:]


def fitted(rng: np.random.Generator, case: Case, replicates: int, false_alarm: float) -> Fitted:
    """Fit covariances to every record in all ways."""
    nu, line = records(rng, case, replicates)
    error = {way: np.empty((replicates, 2, 2)) for way in WAYS}
    off = {way: np.empty((replicates, 2)) for way in WAYS}
    excess = {way: np.empty((replicates, 2)) for way in WAYS}
    cleaned = {way: np.empty((replicates, 2)) for way in WAYS}
    found, n_found = np.zeros(replicates, dtype=bool), np.zeros(replicates, dtype=int)
    for i in range(replicates):
        record = nu[:, i]
        searched = find_lines(record, false_alarm=false_alarm)
        n_found[i] = searched.n_lines
        away = np.abs(searched.frequency - 1.0 / case.period)
        found[i] = bool((away < 1.0 / case.steps).any())
        lines = {
            "raw": None,
            "notched": searched,
            "known": _at(record, (case.period,)),
            "false": _at(record, _FALSE),
        }
        for way, taken in lines.items():
            q, r = covariances(record if taken is None else notch(record, taken))
            error[way][i] = np.log(np.stack([q / PROCESS, r / NOISE], axis=1))
            k = _gain(q, r)
            off[way][i] = k - _GAIN
            after = line[case.steps :, i]
            excess[way][i] = filter_error(k, after[:, None]) / _BEST
            left = after[:, None] - _profile(taken, case.steps)
            cleaned[way][i] = filter_error(k, left) / _BEST
    return Fitted(error, off, excess, cleaned, found, n_found)


def limit(case: Case) -> Array:
    """Return log δ̂ − log δ* of an infinite record that is not notched: (2, 2), context, (Q, R).

    A line of amplitude a adds ½a²|G(f)|² cos(2πfj) to the autocovariance of the innovations at lag
    j, G the response of the filter. The fit is linear, so it takes that for Q and R.
    """
    at = 1.0 / case.period
    power = 0.5 * case.amplitude**2 * np.abs(innovation_response([at], *_SYSTEM)[0, 0, 0]) ** 2
    added = _SOLVED @ (power * np.cos(2.0 * np.pi * at * np.arange(_LAGS)))
    fit = np.stack([PROCESS + added[0], NOISE + added[1]], axis=1)
    return np.asarray(np.log(np.clip(fit, LOW, HIGH) / np.stack([PROCESS, NOISE], axis=1)))


def filter_error(k: Array, line: Array) -> Array:
    """Return the mean squared error of ŝ_{t|t} under gains k (2,) with a line (T, 1 or 2) left in.

    The noise's part is F(1−K) iterated to its steady state; the line's is what passes the filter.
    """
    from scipy.signal import lfilter

    p = (PROCESS + (F * k) ** 2 * NOISE) / (1.0 - (F * (1.0 - k)) ** 2)
    noise = (1.0 - k) ** 2 * p + k**2 * NOISE
    line = np.broadcast_to(line, (line.shape[0], 2))
    passed = [lfilter([k[c]], [1.0, -F * (1.0 - k[c])], line[:, c]) for c in range(2)]
    return np.asarray(noise + np.array([np.mean(one**2) for one in passed]))


def _at(record: Array, periods: tuple[float, ...]) -> Lines:
    """Return lines at given periods whatever the evidence, their amplitudes fitted."""
    frequency = 1.0 / np.array(periods)
    weights = fit_harmonics(record, frequency)[1:].reshape(len(periods), 2, -1)
    phasor = weights[:, 0] - 1j * weights[:, 1]
    none = np.zeros(len(periods))
    return Lines(
        frequency=frequency,
        amplitude=np.abs(phasor),
        phase=np.angle(phasor),
        p_value=none + 1.0,
        is_given=none == 0.0,
        frequency_error=none,
        amplitude_error=np.zeros(phasor.shape),
        false_alarm=1.0,
    )


def _profile(lines: Lines | None, steps: int) -> Array:
    """Return what is to be taken off the measurements after the record: (T, 2)."""
    if lines is None or lines.n_lines == 0:
        return np.zeros((steps, 2))
    mapped = measurement_lines(lines, *_SYSTEM)
    return line_profile(mapped, np.arange(steps, 2 * steps))


def covariances(record: Array) -> tuple[Array, Array]:
    """Return Q̂ (2,) and R̂ (2,) of the two contexts, confined to the compact set.

    `autocovariance_fit` with equal weights, whose design is the same for every record here.
    """
    n = record.shape[0]
    lags = [(record[j:] * record[: n - j]).sum(axis=0) / (n - j) for j in range(_LAGS)]
    q, r = _SOLVED @ np.stack(lags)
    return np.clip(q, LOW, HIGH), np.clip(r, LOW, HIGH)


def _gain(q: Array, r: Array) -> Array:
    """Return the steady gain of each context: (2,)."""
    one = np.ones((2, 1, 1))
    p = riccati(F * one, one, q[:, None, None], r[:, None, None])
    return gain(one, p, r[:, None, None])[:, 0, 0]


_GAIN = _gain(PROCESS, NOISE)  # K* of both contexts
_BEST = filter_error(_GAIN, np.zeros((1, 1)))
_SOLVED = np.linalg.pinv(
    innovation_autocovariance(
        *_SYSTEM,
        np.array([1.0, 0.0])[:, None, None],
        np.array([0.0, 1.0])[:, None, None],
        _LAGS,
    )[..., 0, 0].T
)
