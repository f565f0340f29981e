"""Gaussian Thompson: Bayes' rule by integration, digits far from 0, and merging summaries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from gdcb import records
from gdcb.arms import ArmList
from gdcb.bandits.gaussian import GaussianState, GaussianThompson
from gdcb.errors import InvalidInput
from gdcb.records import Evidence, Located, Setting
from tests.parts.builders import bytes_of, evidence, evidences, fixed, rng_of, stream, take

ARMS = ArmList(values=(-1.0, 0.0, 2.0)).build()
BANDIT = GaussianThompson(prior_mean=0.5, strength=0.8, shape=1.5, rate=2.0)
CELLS = np.zeros(4, dtype=np.int64)


def learned(*batches: Evidence, bandit: GaussianThompson = BANDIT) -> GaussianState:
    """Return the state of four cells after some batches."""
    state = bandit.init(CELLS, ARMS)
    for batch in batches:
        bandit.update(state, batch)
    return state


def agree(one: GaussianState, other: GaussianState, bandit: GaussianThompson = BANDIT) -> None:
    """Compare posteriors, not states: an estimate that weighs nothing may be any number."""
    cells = np.arange(4)
    for mine, its in zip(
        bandit._posterior(one, cells), bandit._posterior(other, cells), strict=True
    ):
        np.testing.assert_allclose(mine, its, rtol=1e-10, atol=1e-10)


def test_posterior_by_hand() -> None:
    """Prior m₀ = 0, κ₀ = a₀ = b₀ = 1; rewards 1 and 3.

    θ̂ = 2, residual sum 2: κ = 3, m = 4/3, a = 2, b = 1 + ½(2 + 4·2/3) = 10/3.
    """
    bandit = GaussianThompson()
    state = learned(evidence([1, 1], [2, 2], [1.0, 3.0]), bandit=bandit)
    found = [float(part[0, 2]) for part in bandit._posterior(state, np.array([1]))]
    assert found == pytest.approx([3.0, 4 / 3, 2.0, 10 / 3], rel=1e-15)
    untouched = [float(part[0, 1]) for part in bandit._posterior(state, np.array([1]))]
    assert untouched == [1.0, 0.0, 1.0, 1.0]


def test_a_scale_is_regressed_on_not_divided_out() -> None:
    """r = 4 at s = 2 and r = 1 at s = 1: n = 5, Σsr = 9, θ̂ = 9/5, residuals 0.4 and −0.8.

    R = 0.16 + 0.64 = 0.8; κ = 6, m = 9/6, b = 1 + ½(0.8 + 1.8²·5/6) = 2.75.
    """
    bandit = GaussianThompson()
    state = learned(evidence([0, 0], [0, 0], [4.0, 1.0], scale=[2.0, 1.0]), bandit=bandit)
    found = [float(part[0, 0]) for part in bandit._posterior(state, np.array([0]))]
    assert found == pytest.approx([6.0, 1.5, 2.0, 2.75], rel=1e-14)


def test_posterior_is_bayes_rule() -> None:
    """Prior density × likelihood, integrated over σ² and θ, has the Student t's density."""
    r, s = np.array([0.3, 2.1, -0.4, 1.7, 0.9]), np.array([1.0, 0.5, 2.0, 1.0, 1.5])
    w = np.array([1.0, 2.0, 1.0, 0.5, 1.0])
    state = learned(evidence([0] * 5, [1] * 5, r, scale=s, weight=w))
    log_variance = np.linspace(-10.0, 12.0, 401)[:, None]
    theta = np.linspace(-30.0, 30.0, 4_001)
    variance = np.exp(log_variance)
    log = stats.invgamma.logpdf(variance, BANDIT.shape, scale=BANDIT.rate) + log_variance
    spread = np.sqrt(variance / BANDIT.strength)
    log = log + stats.norm.logpdf(theta, BANDIT.prior_mean, spread)
    for ri, si, wi in zip(r, s, w, strict=True):
        log += wi * (-0.5 * log_variance - 0.5 * (ri - si * theta) ** 2 / variance)
    density = integrate.simpson(np.exp(log), x=log_variance[:, 0], axis=0)
    total = integrate.simpson(density, x=theta)
    location, scale, freedom = (
        float(part[0, 1]) for part in BANDIT.marginals(state, Setting(CELLS[:1])).parameters
    )
    ours = stats.t(freedom, location, scale)
    tails = ours.cdf(theta[0]) + ours.sf(theta[-1])
    middle = np.abs(theta) < 10
    np.testing.assert_allclose(
        density[middle] / total * (1 - tails), ours.pdf(theta[middle]), rtol=1e-6, atol=1e-9
    )


@pytest.mark.parametrize("is_live", [True, False], ids=["live", "blocks"])
def test_draws_follow_the_posterior(is_live: bool) -> None:
    """Draws of 2 × 3 arms pass Kolmogorov–Smirnov against Student t (false alarm 1e-3 over 12).

    Cell 3 has seen nothing: its draws come from the prior.
    """
    rng, n = rng_of(1), 4_000
    state = learned(evidence([2] * 30, rng.integers(0, 3, 30), 3.0 * rng.normal(size=30)))
    for cell in (2, 3):
        at = Setting(np.full(n, cell))
        draws = BANDIT.draw(stream(31, 1 if is_live else 500), state, at)
        location, scale, freedom = (part[0] for part in BANDIT.marginals(state, at).parameters)
        for k in range(3):
            law = stats.t(freedom[k], location[k], scale[k])
            assert stats.kstest(draws[:, k], law.cdf).pvalue > 1e-3 / 12


@pytest.mark.parametrize("block", [1, 1000], ids=["live", "blocks"])
def test_draws_are_finite_and_precise_at_both_ends(block: int) -> None:
    """Almost Cauchy, 20,000 × 3 draws are finite; after 1e8 rows they are normal to KS.

    False alarm 1e-3 over 2.
    """
    at = Setting(np.zeros(20_000 // (10 if block == 1 else 1), dtype=np.int64))
    wild = GaussianThompson(shape=0.500001)
    assert np.isfinite(wild.draw(stream(7, block), learned(bandit=wild), at)).all()
    some = evidence([0, 0], [1, 1], [2.0, 4.0], weight=[5e7, 5e7])
    draws = BANDIT.draw(stream(8, block), learned(some), at)[:, 1]
    # 1e8 rows of mean 3 and variance 1: the mean is known to 1e-4.
    assert stats.kstest((draws - 3.0) / 1e-4, "norm").pvalue > 1e-3 / 2


def test_a_draw_does_not_depend_on_the_rows_beside() -> None:
    """Row i has the same bytes in a batch of 7 and in one of 3, whatever the others are."""
    rng = rng_of(4)
    state = learned(evidence([0, 1, 2], [0, 1, 2], rng.normal(size=3)))
    for block in (1, 100):
        many = BANDIT.draw(stream(5, block), state, Setting(np.array([2, 0, 1, 3, 3, 0, 1])))
        few = BANDIT.draw(stream(5, block), state, Setting(np.array([2, 1, 1])))
        assert bytes_of(many[[0, 2]]) == bytes_of(few[[0, 2]])


@pytest.mark.parametrize("one_by_one", [True, False])
def test_rewards_far_from_zero_keep_their_digits(one_by_one: bool) -> None:
    """1,000,000 ± 1: the residual sum of squares agrees with exact arithmetic to 1e-9.

    Σr² − (Σr)²/n in double precision is wrong by more than 1e-6.
    """
    from fractions import Fraction

    r = 1e6 + rng_of(6).normal(size=3_000)
    some = evidence([0] * r.size, [1] * r.size, r)
    batches = (take(some, [i]) for i in range(r.size)) if one_by_one else [some]
    state = learned(*batches)
    exact = [Fraction(float(value)) for value in r]
    mean = sum(exact) / len(exact)
    rest = float(sum((value - mean) ** 2 for value in exact))
    assert state.rest[0, 1] == pytest.approx(rest, rel=1e-9)
    assert state.estimate[0, 1] == pytest.approx(float(mean), rel=1e-13)
    naive = float((r * r).sum() - r.sum() ** 2 / r.size)
    assert abs(naive / rest - 1.0) > 1e-6


def test_values_of_located_actions() -> None:
    """An action has its nearest arm's value; one comparable to none has the prior mean."""
    located = Located(np.array([[2, -1]]), np.zeros((1, 2, 1)), lambda: np.zeros((1, 2)))
    assert BANDIT.value(np.array([[0.1, 0.2, 0.3]]), located).tolist() == [[0.3, 0.5]]
    state = learned(evidence([0], [2], [4.5]))
    at = Setting(CELLS[:1])
    # n = 1: m = 0.5 + (4.5 − 0.5)·1/1.8
    assert BANDIT.mean(state, at, located)[0].tolist() == pytest.approx([0.5 + 4 / 1.8, 0.5])


@given(some=evidences(4, ARMS.coords, is_class=False, with_scale=True), seed=st.integers(0, 99))
@fixed
def test_batch_equals_loop_in_any_order(some: Evidence, seed: int) -> None:
    """One batch, rows one by one, and rows in another order give the same posterior."""
    n = some.cell.size
    agree(learned(*(take(some, [i]) for i in range(n))), learned(some))
    agree(learned(take(some, rng_of(seed).permutation(n))), learned(some))


@given(some=evidences(4, ARMS.coords, is_class=False, with_scale=True), cut=st.integers(0, 12))
@fixed
def test_merged_halves_are_the_whole(some: Evidence, cut: int) -> None:
    """Two learners that saw half each, merged either way, know what one that saw all knows."""
    first, second = learned(take(some, slice(cut))), learned(take(some, slice(cut, None)))
    before = records.to_bytes(second)
    merged = records.copy(first)
    BANDIT.merge(merged, second)
    agree(merged, learned(some))
    assert records.to_bytes(second) == before
    BANDIT.merge(second, first)
    agree(second, learned(some))


@given(
    some=evidences(4, ARMS.coords, is_class=False, with_scale=True),
    factor=st.sampled_from([0.0, 0.25, 0.9, 1.0]),
)
@fixed
def test_decay_weighs_every_row_less(some: Evidence, factor: float) -> None:
    """Keeping a share of the evidence is having seen every row with that share of its weight."""
    decayed = learned(some)
    BANDIT.decay(decayed, factor, np.array([0, 2]))
    faded = np.where(np.isin(some.cell, [0, 2]), factor, 1.0) * some.weight
    seen = Evidence(some.cell, some.arm, some.coord, some.y, some.scale, faded)
    agree(decayed, learned(seen))


def test_what_was_forgotten_leaves_no_rounding_behind() -> None:
    """Rewards of 1e12, wholly forgotten, then 1 and 2: as if they were the first."""
    state = learned(evidence([0, 0], [0, 0], [1e12, 1e12 + 1]))
    BANDIT.decay(state, 0.0, np.array([0]))
    BANDIT.update(state, evidence([0, 0], [0, 0], [1.0, 2.0]))
    fresh = learned(evidence([0, 0], [0, 0], [1.0, 2.0]))
    assert bytes_of(state.estimate, state.rest) == bytes_of(fresh.estimate, fresh.rest)


@given(some=evidences(4, ARMS.coords, is_class=False, with_scale=True))
@fixed
def test_posteriors_are_sound(some: Evidence) -> None:
    """Shape, rate and strength never fall below the prior's; the mean lies between m₀ and θ̂."""
    state = learned(some)
    strength, mean, shape, rate = BANDIT._posterior(state, np.arange(4))
    assert (strength >= BANDIT.strength).all()
    assert (shape >= BANDIT.shape).all()
    assert (rate >= BANDIT.rate).all()
    seen = state.weight > 0
    low = np.minimum(BANDIT.prior_mean, state.estimate) - 1e-12
    high = np.maximum(BANDIT.prior_mean, state.estimate) + 1e-12
    assert ((mean >= low) & (mean <= high))[seen].all()
    assert (mean[~seen] == BANDIT.prior_mean).all()


@given(some=evidences(3, ARMS.coords, is_class=False))
@fixed
def test_uncredited_rows_and_other_cells_are_not_touched(some: Evidence) -> None:
    """Rows of arm −1 or weight 0 leave the same bytes; so do rows of one cell another's."""
    kept = np.flatnonzero((some.arm >= 0) & (some.weight > 0))
    state = learned(some)
    assert records.to_bytes(state) == records.to_bytes(learned(take(some, kept)))
    alone = learned(take(some, some.cell == 1))
    for name, array in records.flatten(state).items():
        assert bytes_of(array[1]) == bytes_of(records.flatten(alone)[name][1])
        assert bytes_of(array[3]) == bytes_of(np.zeros(3))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [1.0, np.nan]}, "Gaussian Thompson: expected finite rewards, got"),
        ({"y": [np.inf, 1.0]}, "Gaussian Thompson: expected finite rewards, got"),
        ({"scale": [1.0, 0.0]}, "Gaussian Thompson: expected finite scales"),
        ({"scale": [1.0, np.nan]}, "Gaussian Thompson: expected finite scales"),
        ({"weight": [1.0, np.inf]}, "Gaussian Thompson: expected finite weights"),
        ({"weight": [1.0, -1.0]}, "Gaussian Thompson: expected finite weights"),
    ],
)
def test_bad_evidence_is_refused_whole(change: dict[str, Any], message: str) -> None:
    """A bad row is refused, and the good row beside it has not been learned either."""
    state = learned(evidence([0], [1], [1.0]))
    before = records.to_bytes(state)
    with pytest.raises(InvalidInput, match=message):
        BANDIT.update(state, evidence(**({"cell": [0, 1], "arm": [0, 1], "y": [1, 0]} | change)))
    assert records.to_bytes(state) == before


def test_bad_merges_and_shares_are_refused() -> None:
    """Another number of cells, or a share outside [0, 1], changes nothing."""
    state = learned(evidence([0], [1], [1.0]))
    before = records.to_bytes(state)
    with pytest.raises(InvalidInput, match=r"merge: expected a state of shape \(4, 3\)"):
        BANDIT.merge(state, BANDIT.init(CELLS[:2], ARMS))
    with pytest.raises(InvalidInput, match="decay: expected a"):
        BANDIT.decay(state, 1.5, CELLS[:1])
    assert records.to_bytes(state) == before


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("prior_mean", (np.nan, "0")),
        ("strength", (0.0, -1.0, np.inf)),
        ("shape", (0.5, 0.0, np.nan)),
        ("rate", (0.0, -1.0, np.inf)),
    ],
)
def test_bad_priors_are_refused(name: str, values: tuple[Any, ...]) -> None:
    """Every setting is refused by its name."""
    for value in values:
        with pytest.raises(InvalidInput, match=f"bandit.{name}: expected a"):
            GaussianThompson(**{name: value})


def test_arms_have_priors_of_their_own() -> None:
    """Means 1 and 3 worth 1 and 4 rows; a reward 2 each: (1 + 2)/2 and (4·3 + 2)/5; elsewhere 2."""
    arms = ArmList(names=("a", "b")).build()
    bandit = GaussianThompson(prior_mean=(1.0, 3.0), strength=(1.0, 4.0))
    zero, both = np.zeros(1, dtype=int), np.arange(2)
    state = bandit.init(zero, arms)
    bandit.update(state, evidence(0 * both, both, [2.0, 2.0]))
    assert bandit.mean(state, Setting(zero), arms.nominal)[0] == pytest.approx([1.5, 2.8])
    nowhere = arms.locate(np.array([[[7.0]]]))
    assert bandit.mean(state, Setting(zero), nowhere).tolist() == [[2.0]]
    same = GaussianThompson(prior_mean=(0.5, 0.5), strength=(0.8, 0.8), shape=1.5, rate=2.0)
    states = [one.init(zero, arms) for one in (same, BANDIT)]
    for one, learned in zip((same, BANDIT), states, strict=True):
        one.update(learned, evidence(0 * both, both, [1.0, 4.0]))
    draws = [
        one.draw(stream(3), learned, Setting(zero))
        for one, learned in zip((same, BANDIT), states, strict=True)
    ]
    assert draws[0].tobytes() == draws[1].tobytes()


@pytest.mark.parametrize("name", ["prior_mean", "strength"])
def test_as_many_priors_as_arms(name: str) -> None:
    settings: dict[str, Any] = {name: (1.0, 2.0)}
    with pytest.raises(
        InvalidInput, match=rf"bandit\.{name}: expected 3 numbers, one an arm; got 2"
    ):
        GaussianThompson(**settings).init(
            np.zeros(1, dtype=int), ArmList(names=("a", "b", "c")).build()
        )
