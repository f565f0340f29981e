"""Seed R, Q and P₀ from innovations that were left under fixed covariances.

R̂ and Q̂ come from the steady part of all tracks by autocovariance least squares, P̂₀ from the *first*
innovations, the only ones that have not forgotten P₀: Var ν₁ = HP₀Hᵀ + R. What they do not say,
on ker H, is taken from the prior. One long record has no first innovations to speak of; its filter
starts from the steady state at (Q̂, R̂).

A measurement that is wrong by many standard deviations would be taken for R, and a jump of the
state for Q. Both are found by their innovations and named, and their responses are taken out of the
innovations, as if the measurement had not been made or the state had not jumped.

Each seed says in a sentence which assumption it leans on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.kalman.autocovariance import NoiseFit, autocovariance_fit, standard_error
from gdcb.kalman.filter import Model
from gdcb.kalman.inputs import count
from gdcb.kalman.model import floats
from gdcb.kalman.riccati import gain as best_gain
from gdcb.kalman.riccati import riccati
from gdcb.kalman.semidefinite import psd_part
from gdcb.kalman.steady import (
    checked_innovations,
    checked_system,
    innovations_under,
    require_fixed,
    settling,
    whiteness,
)

__all__ = ["Outlier", "Seed", "Seeds", "initial_covariance", "replaced", "require_fixed", "seed"]

FALSE_ALARM = 0.001  # rate of each warning where nothing is wrong
_TRACKS = 10  # first innovations for every row of Ŝ₁, and one lot more
_SAME = 0.01  # by how much a gain may move, relative to its size: it settles, never arrives
_MATTERS = 0.02  # autocorrelation below which no warning is given, however sure
_MOST_OUTLIERS = 0.02  # share of the measurements; more of them are no outliers but another law
_FEW_OUTLIERS = 3  # so many may be left out of a short record too
_ANSWERED = 1e-16  # of a jump: what is left of its answer in the innovations is rounding
_LONGEST_ANSWER = 2_000  # steps
_LOOK_BACK = 10  # steps before the largest innovation at which it may have begun
_WITHIN = 3.0  # robust standard deviations within which innovations tell their covariance
_AT_BOUND = 1e-3  # of the innovations' variance: a fitted R below it says that none was found

_STEADY = (
    "F, H, Q, R and the gain are the same over time and in all tracks once the filter is steady, "
    "and both noises are white, apart and of mean 0"
)


@dataclass(frozen=True, slots=True, eq=False)
class Seed:
    """One covariance to start from.

    Parameters
    ----------
    value : (k, k)
    standard_error : (k, k) of its entries; None where there is no telling
    leans_on : the assumption that it stands and falls with, a sentence
    method : how it was found
    """

    value: Array
    standard_error: Array | None
    leans_on: str
    method: str


@dataclass(frozen=True, slots=True, eq=False)
class Outlier:
    """A jump that was left out of the seeds.

    Parameters
    ----------
    kind : 'measurement': one is wrong, the next is right again; 'state': what is followed jumped,
        or all later measurements are off alike
    step, track : where it is
    size : (m,) by how much the measurement jumped there
    deviations : how many standard deviations the innovations are off with it, all it explains taken
        together
    """

    kind: str
    step: int
    track: int
    size: Array
    deviations: float


@dataclass(frozen=True, slots=True, eq=False)
class Seeds:
    """All three, and what speaks against them.

    Parameters
    ----------
    noise, process, initial : R̂, Q̂ and P̂₀
    first : (m, m) Ŝ₁, or None where P̂₀ is the Riccati solution
    fit : the fit behind R̂ and Q̂
    warnings : sentences, each wrong at the rate `FALSE_ALARM` where all assumptions hold
    outliers : jumps that were left out, the largest first
    """

    noise: Seed
    process: Seed
    initial: Seed
    first: Array | None
    fit: NoiseFit
    warnings: tuple[str, ...]
    outliers: tuple[Outlier, ...] = ()


def seed(
    innovation: Array,
    model: Model,
    gain: Array,
    prior: Array | None,
    *,
    basis: Array | None = None,
    is_noise_diagonal: bool = False,
    n_lags: int | None = None,
    burn_in: int | None = None,
    leave_out_outliers: bool = True,
) -> Seeds:
    """Seed R, Q and P₀ from a history under fixed (Q₀, R₀).

    Parameters
    ----------
    innovation : (T, N, m) ν; step 0 of every track is its first measurement
    model : F, H and the (Q₀, R₀) that the history was filtered with, none of which may vary
    gain : (n, m), (N, n, m) or (T, N, n, m) K as the filter had it. It may settle during the
        burn-in, as that of a Kalman filter does, but not vary afterwards
    prior : (n, n) P_prior, positive definite, of which P̂₀ keeps what first innovations do not say;
        None for one long record: P̂₀ is then the steady state
    basis, is_noise_diagonal, n_lags, burn_in : as in `autocovariance.autocovariance_fit`
    leave_out_outliers : whether jumps after the burn-in that are too large for Gaussian noise, of a
        measurement or of the state, are left out; up to 2 % of the measurements, or three

    Returns
    -------
    seeds : with warnings where jumps were left out, where ν is not white under the gain of
        (Q̂, R̂), where R̂ is as good as 0, or where the mean of the first innovations is not 0

    Raises
    ------
    InvalidInput
        where Q₀, R₀, F, H or the gain varied, the gain is unstable, innovations are not finite,
        Q has too many unknowns, or there are fewer than 10·(m + 1) tracks for Ŝ₁

    Notes
    -----
    Stops applying: where tracks start differently (P₀ is then a mean over them), or where those
    that begin later are not like those of the history; where jumps belong to what is followed, so
    that a filter must expect them (see `Outlier`). Wrong first measurements count in P̂₀.

    Examples
    --------
    Random walks (Q = 1, R = 2) under a gain of ½, first measured after one step from a variance
    of 8, so that P₀ = 9: the prior said 1.

    >>> rng = np.random.default_rng(0)
    >>> walk = rng.normal(size=(40, 9999, 1)).cumsum(axis=0) + 8**0.5 * rng.normal(size=(9999, 1))
    >>> z = walk + 2**0.5 * rng.normal(size=walk.shape)
    >>> nu, mean = np.empty_like(z), 0.0
    >>> for t in range(40):
    ...     nu[t] = z[t] - mean
    ...     mean = mean + 0.5 * nu[t]
    >>> one = np.ones((1, 1))
    >>> seeds = seed(nu, Model(one, one, one, 2 * one), 0.5 * one, one)
    >>> [round(part.value.item()) for part in (seeds.noise, seeds.process, seeds.initial)]
    [2, 1, 9]
    """
    f, h = (
        require_fixed(name, part)
        for name, part in (("transition", model.transition), ("measurement", model.measurement))
    )
    for name, part in (("process", model.process), ("noise", model.noise)):
        require_fixed(name, part)
    k_all = floats("gain", gain)
    k = k_all if k_all.ndim < 2 else k_all.reshape(-1, *k_all.shape[-2:])[-1]
    nu = floats("innovation", innovation)
    outliers: tuple[Outlier, ...] = ()
    warnings: tuple[str, ...] = ()

    def fitted(innovations: Array) -> NoiseFit:
        return autocovariance_fit(
            innovations,
            f,
            h,
            k,
            basis=basis,
            is_noise_diagonal=is_noise_diagonal,
            n_lags=n_lags,
            burn_in=burn_in,
        )

    if leave_out_outliers:
        nu, outliers, warnings = _without_outliers(nu, f, h, k, burn_in, fitted)
    fit = fitted(nu)
    require_fixed("gain", k_all, after=fit.burn_in, tolerance=_SAME)
    noise = Seed(fit.noise, fit.noise_error, _STEADY + ".", _how(fit))
    process = Seed(
        fit.process,
        fit.process_error,
        _STEADY + "; Q is a combination of the given basis."
        if basis is not None
        else _STEADY + ".",
        _how(fit),
    )
    warnings += _no_noise(nu[fit.burn_in :], fit) + _not_white(nu, f, h, k, fit)
    if prior is None:
        initial, first = _steady_state(f, h, fit), None
    else:
        initial, first = initial_covariance(nu[0], h, prior, fit)
        warnings += _off_centre(nu[0], first)
    return Seeds(noise, process, initial, first, fit, warnings, outliers)


def initial_covariance(first: Array, h: Array, prior: Array, fit: NoiseFit) -> tuple[Seed, Array]:
    """Return P̂₀ = P + K₀[(Ŝ₁ − R̂)₊ − HPHᵀ]K₀ᵀ, K₀ = PHᵀ(HPHᵀ)⁺, P the prior; and Ŝ₁.

    The marginal law of what is measured is exchanged, and the prior's law of the state *given*
    what is measured is kept: what is not measured keeps its regression on what is, and its
    variance given it. Without a prior cross-covariance it is not moved at all. P̂₀ is positive
    semi-definite by construction: P − K₀HPHᵀK₀ᵀ is the variance given what is measured.

    Parameters
    ----------
    first : (N, m) ν₁, one a track
    h, prior : (m, n), (n, n) H and P_prior, positive definite
    fit : R̂, with its values by block for the standard error

    Returns
    -------
    seed, total : P̂₀, whose arithmetic `replaced` shows, and Ŝ₁ (m, m)
    """
    n_tracks, m = first.shape
    p = _checked_prior(prior, h.shape[1])
    if n_tracks < _TRACKS * (m + 1):
        raise InvalidInput(
            f"innovation: expected at least {_TRACKS * (m + 1)} tracks, for the covariance of {m} "
            f"first innovations; got {n_tracks}. For one long record give no prior"
        )
    apart = first - first.mean(axis=0)
    products = apart[:, :, None] * apart[:, None, :] * (n_tracks / (n_tracks - 1.0))
    total = products.mean(axis=0)
    excess = psd_part(total - fit.noise)
    k0 = p @ h.T @ np.linalg.pinv(h @ p @ h.T, hermitian=True)
    each = products - fit.noise_by_block if fit.n_blocks == n_tracks else products
    value = Seed(
        replaced(p, h, excess),
        standard_error(k0 @ each @ k0.T),
        "tracks start alike, with a prediction error of mean 0 and one covariance P₀ that does not "
        "depend on the noise of the first measurement; where H sees nothing, on the prior.",
        f"first innovations of {n_tracks:,} tracks less R̂, the prior kept given what is measured",
    )
    return value, total


def replaced(prior: Array, h: Array, measured: Array) -> Array:
    """Return the covariance whose measured part is M, not HPHᵀ, the rest as the prior has it.

    Parameters
    ----------
    prior, h, measured : (n, n), (m, n), (m, m) P, H and M, positive semi-definite

    Returns
    -------
    P + K₀(M − HPHᵀ)K₀ᵀ : (n, n), K₀ = PHᵀ(HPHᵀ)⁺. Its measured part is M on the range of H

    Examples
    --------
    Position and velocity with variances 4 and 2 and a covariance of 1; position is found to have 8.
    K₀ = (1, ¼): the covariance becomes 1 + ¼·4 = 2, velocity 2 + 4/16 = 2.25; velocity given
    position keeps ¼ and 2 − ¼ = 2.25 − 8/16.

    >>> p = np.array([[4.0, 1.0], [1.0, 2.0]])
    >>> replaced(p, np.array([[1.0, 0.0]]), np.array([[8.0]])).tolist()
    [[8.0, 2.0], [2.0, 2.25]]
    """
    seen = h @ prior @ h.T
    k0 = prior @ h.T @ np.linalg.pinv(seen, hermitian=True)
    found = prior + k0 @ (measured - seen) @ k0.T
    return np.asarray(0.5 * (found + found.T))


def _how(fit: NoiseFit) -> str:
    inside = ", held positive definite by a barrier" if fit.is_constrained else ""
    return (
        f"autocovariance least squares, {fit.n_lags} lags after a burn-in of {fit.burn_in} steps"
        f"{inside}"
    )


def _steady_state(f: Array, h: Array, fit: NoiseFit) -> Seed:
    p = riccati(f, h, fit.process, fit.noise)
    if not np.isfinite(p).all():
        raise InvalidInput(
            "model: expected (F, H) detectable and (F, Q̂) stabilisable, so that there is a steady "
            "state to start from; got none"
        )
    return Seed(
        p,
        None,
        "the filter starts in its steady state: what it follows has been followed for long under "
        "the same Q and R.",
        "Riccati solution at the fitted Q and R",
    )


@dataclass(frozen=True, slots=True)
class _Jump:
    """A jump as it was fitted: the numbers (p,) of a wrong measurement or of a state, and where."""

    step: int
    track: int
    kind: str
    size: Array
    explained: float


def _without_outliers(
    innovation: Array,
    f: Array,
    h: Array,
    k: Array,
    burn_in: int | None,
    fitted: Callable[[Array], NoiseFit],
) -> tuple[Array, tuple[Outlier, ...], tuple[str, ...]]:
    """Return innovations as if nothing had jumped, the jumps, and a warning that names them.

    A filter whose Q and R are far off leaves innovations among which a jump does not stand out.
    Where they are not white, jumps are looked for once more in those of the gain that fits.
    """
    f, h, k = checked_system(f, h, k)
    nu = checked_innovations(innovation, h.shape[0])
    start = settling(f, h, k) if burn_in is None else count("burn_in", burn_in, 0)
    if nu.shape[0] - start < 2:
        return nu, (), ()
    responses, n = _responses(f, h, k), (nu.shape[0] - start) * nu.shape[1]
    jumps, said = _jumps(nu, responses, start)
    rest = _taken_off(nu, jumps, responses)
    again = None if said else _under_the_fit(rest, f, h, k, start, fitted)
    if again is not None:
        whiter, other, begin = again
        more, said = _jumps(whiter, _responses(f, h, other), begin, len(jumps))
        jumps, rest = jumps + more, _taken_off(rest, more, responses)
    if said:
        return nu, (), said
    outliers = tuple(
        Outlier(
            one.kind,
            one.step,
            one.track,
            responses[one.kind][0] @ one.size,
            float(np.sqrt(one.explained)),
        )
        for one in sorted(jumps, key=lambda one: -one.explained)
    )
    return rest, outliers, _named(outliers, n)


def _under_the_fit(
    nu: Array, f: Array, h: Array, k: Array, start: int, fitted: Callable[[Array], NoiseFit]
) -> tuple[Array, Array, int] | None:
    """Return innovations under the gain that fits, that gain, and the step from which it holds.

    None where the innovations are white already, or no gain is found under which they could be.
    """
    fit = fitted(nu)
    if nu.shape[0] - start < fit.n_lags + 2:
        return None
    p_value, largest = whiteness(nu[start:], fit.n_lags)
    p = riccati(f, h, fit.process, fit.noise)
    if p_value >= FALSE_ALARM or largest < _MATTERS or not np.isfinite(p).all():
        return None
    other = best_gain(h, p, fit.noise)
    try:
        begin = max(start, settling(f, h, other))
    except InvalidInput:  # it forgets too slowly
        return None
    if nu.shape[0] - begin < fit.n_lags + 2:
        return None
    return innovations_under(nu, f, h, k, other), other, begin


def _taken_off(nu: Array, jumps: tuple[_Jump, ...], responses: dict[str, Array]) -> Array:
    """Return innovations less what the jumps moved them by."""
    nu = nu.copy()
    for one in jumps:
        here = nu[one.step : one.step + len(responses[one.kind]), one.track]
        here -= responses[one.kind][: len(here)] @ one.size
    return nu


def _jumps(
    nu: Array, responses: dict[str, Array], start: int, n_before: int = 0
) -> tuple[tuple[_Jump, ...], tuple[str, ...]]:
    """Return the jumps from step `start` on; where there are too many none, and a warning.

    A measurement that is off by s moves its own innovation by s and later ones by −HAʲ⁻¹FK·s; a
    state that jumps by d moves them by HAʲ·d. While an innovation is too large for Gaussian noise,
    as one is in one of a thousand histories, the jump near the largest that explains most is found
    by least squares and its response is taken off.
    """
    steady, m = nu[start:].copy(), nu.shape[2]
    weight = np.linalg.inv(_robust_covariance(steady.reshape(-1, m)))
    limit = _squared_limit(m, steady.shape[0] * steady.shape[1])
    most = max(_FEW_OUTLIERS, int(_MOST_OUTLIERS * steady.shape[0] * steady.shape[1]))
    found: dict[tuple[int, int], _Jump] = {}
    distance = np.einsum("tna,ab,tnb->tn", steady, weight, steady)
    while distance.max() > limit:
        worst, track = (int(i) for i in np.unravel_index(int(distance.argmax()), distance.shape))
        # A gain above 1 makes the next innovation larger than the wrong measurement's own.
        tries = [
            (t, kind, *_fitted_jump(steady[t:, track], responses[kind], weight))
            for t in range(max(0, worst - _LOOK_BACK), worst + 1)
            for kind in responses
        ]
        penalty = np.log(steady.size)  # for every number of the jump, as of Schwarz's criterion
        t, kind, size, explained = max(tries, key=lambda one: one[3] - penalty * one[2].size)
        if (t, track) in found or n_before + len(found) == most:
            said = (
                f"more than {most} measurements in {distance.size:,} are too far off for Gaussian "
                "noise, or they come in runs: the noise has heavy tails or the state turns more "
                "sharply than the model knows. All were kept, and the seeds count them."
            )
            return (), (said,)
        found[t, track] = _Jump(start + t, track, kind, size, explained)
        after = slice(t, t + len(responses[kind]))
        here = steady[after, track]
        here -= responses[kind][: len(here)] @ size
        distance[after, track] = np.einsum("ta,ab,tb->t", here, weight, here)
    return tuple(found.values()), ()


def _responses(f: Array, h: Array, k: Array) -> dict[str, Array]:
    """Return how innovations (J, m, …) answer a wrong measurement, and a state that jumps."""
    carried, a = f @ k, f @ (np.eye(f.shape[0]) - k @ h)
    power = np.eye(f.shape[0])
    states: list[Array] = []
    while len(states) <= _LONGEST_ANSWER and np.abs(power).max() > _ANSWERED:
        states.append(h @ power)
        power = a @ power
    state = np.stack(states)
    measurement = np.concatenate((np.eye(h.shape[0])[None], -state[:-1] @ carried))
    return {"measurement": measurement, "state": state}


def _named(outliers: tuple[Outlier, ...], n: int) -> tuple[str, ...]:
    """Say what was left out, and which was the largest."""
    if not outliers:
        return ()
    first = outliers[0]
    many = "one jump is" if len(outliers) == 1 else f"{len(outliers)} jumps are"
    which = f"of track {first.track} the measurement at step {first.step} is"
    if first.kind == "state":
        which = f"of track {first.track} all measurements from step {first.step} on are"
    off = f"{np.linalg.norm(first.size):.3g}, {first.deviations:.1f} standard deviations"
    said = (
        f"{many} too large for Gaussian noise, among {n:,} measurements, and left out of the "
        f"seeds. The largest: {which} off by {off}."
    )
    return (said,)


def _fitted_jump(innovation: Array, response: Array, weight: Array) -> tuple[Array, float]:
    """Return the jump (p,) by least squares, and by how much it lowers Σ νᵀS⁻¹ν.

    innovation : (T, m) from the jump on; response : (J, m, p); weight : (m, m) S⁻¹
    """
    n = min(len(innovation), len(response))
    whitened = response[:n].swapaxes(1, 2) @ weight
    gram = (whitened @ response[:n]).sum(axis=0)
    pull = (whitened @ innovation[:n, :, None]).sum(axis=0)[:, 0]
    size = np.linalg.lstsq(gram, pull, rcond=1e-10)[0]
    return size, float(size @ pull)


def _robust_covariance(rows: Array) -> Array:
    """Return the covariance of rows (N, m) of mean 0, but for those that are far off.

    Within three standard deviations a normal variable has 0.9733 of its variance.
    """
    size = np.median(np.abs(rows), axis=0) / 0.6745
    near = rows[(np.abs(rows) <= _WITHIN * size).all(axis=1)]
    if near.shape[0] <= 2 * rows.shape[1]:  # most are 0, say
        near = rows
    found = near.T @ near / near.shape[0] / 0.9733
    return np.asarray(found + (1e-12 * np.trace(found) + 1e-300) * np.eye(rows.shape[1]))


def _squared_limit(m: int, n: int) -> float:
    """Return what none of n squared distances of Gaussian rows (m) exceeds but at `FALSE_ALARM`.

    Their covariance is estimated from the same rows, so the law is Hotelling's, not χ².
    """
    from scipy.special import fdtri

    rest = max(n - m, 1)
    return float(m * (n - 1) / rest * fdtri(m, rest, 1.0 - FALSE_ALARM / n))


def _no_noise(steady: Array, fit: NoiseFit) -> tuple[str, ...]:
    """Warn where R̂ lies at the edge of what a covariance can be."""
    rows = steady.reshape(-1, steady.shape[-1])
    most = float(np.linalg.eigvalsh(rows.T @ rows / rows.shape[0]).min())
    least = float(np.linalg.eigvalsh(fit.noise).min())
    if not fit.is_constrained or least > _AT_BOUND * most:
        return ()
    said = (
        f"the fitted R is as good as 0 (smallest eigenvalue {least:.1g}, of innovations "
        f"{most:.1g}): it lies at its bound, since the innovations did not show any measurement "
        "noise apart from Q. Do not start from it; give more data, fewer unknowns in Q, or R."
    )
    return (said,)


def _not_white(nu: Array, f: Array, h: Array, k: Array, fit: NoiseFit) -> tuple[str, ...]:
    """Warn where the best filter for the fitted covariances would not leave white innovations."""
    p = riccati(f, h, fit.process, fit.noise)
    if not np.isfinite(p).all():
        return ("whiteness was not tested: the fitted Q and R have no steady gain.",)
    other = best_gain(h, p, fit.noise)
    try:
        skipped = fit.burn_in + settling(f, h, other)
    except InvalidInput as error:  # a diagnostic never stops an estimate
        return (f"whiteness was not tested, under the fitted covariances: {error}.",)
    if nu.shape[0] - skipped < fit.n_lags + 2:
        return ("whiteness was not tested: tracks are too short for the fitted gain to settle.",)
    p_value, largest = whiteness(innovations_under(nu, f, h, k, other)[skipped:], fit.n_lags)
    if p_value >= FALSE_ALARM or largest < _MATTERS:
        return ()
    said = (
        f"innovations are not white under the fitted covariances (p = {p_value:.1g}, "
        f"autocorrelation up to {largest:.2f}): the model has the wrong form, a mean or periodic "
        "lines, and what it does not explain was taken for Q or R."
    )
    return (said,)


def _off_centre(first: Array, total: Array) -> tuple[str, ...]:
    """Warn where the first innovations have a mean: the prior mean is off for all tracks."""
    from scipy.special import chdtrc

    mean = first.mean(axis=0)
    statistic = first.shape[0] * float(mean @ np.linalg.pinv(total, hermitian=True) @ mean)
    p_value = float(chdtrc(mean.size, statistic))
    if p_value >= FALSE_ALARM:
        return ()
    said = (
        f"first innovations have a mean of {np.array2string(mean, precision=3)} (p = "
        f"{p_value:.1g}): the prior mean is off, and the seeded P₀ does not count that."
    )
    return (said,)


def _checked_prior(prior: Array, n: int) -> Array:
    p = np.asarray(prior, dtype=float)
    if p.shape != (n, n) or not np.isfinite(p).all():
        raise InvalidInput(f"prior: expected a finite matrix {(n, n)}, got shape {p.shape}")
    size = np.abs(p).max()
    if np.abs(p - p.T).max() > 1e-9 * size:
        raise InvalidInput("prior: expected a symmetric matrix, got one that is not")
    least = float(np.linalg.eigvalsh(p).min())
    if least <= 0.0:
        raise InvalidInput(
            f"prior: expected a positive definite matrix, got a smallest eigenvalue of {least:.3g}"
        )
    return np.asarray(0.5 * (p + p.T))
