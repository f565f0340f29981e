"""Hierarchical Beta-Thompson: against integrals over the hyper-parameters by SciPy."""

from __future__ import annotations

from dataclasses import replace
from math import log, prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special, stats

from gdcb import records
from gdcb.arms import ArmList
from gdcb.arrays import Array
from gdcb.bandits import BetaThompson, hierarchical_beta
from gdcb.bandits.hierarchical_beta import (
    HierarchicalBetaState,
    HierarchicalBetaThompson,
    log_rise,
)
from gdcb.errors import InvalidInput
from gdcb.records import Evidence, Located, Setting
from tests.parts.builders import bytes_of, evidence, evidences, fixed, rng_of, stream, take

ARMS = ArmList(values=(-1.0, 0.0, 2.0)).build()
GROUP = np.array([0, 0, 1, 0, 1])
BANDIT = HierarchicalBetaThompson(wins=1.5, losses=2.5, concentration=(1.0, 6.0), nodes=16)


def learned(*batches: Evidence, bandit: HierarchicalBetaThompson = BANDIT) -> HierarchicalBetaState:
    """Return the state of five cells in two groups after some batches."""
    state = bandit.init(GROUP, ARMS)
    for batch in batches:
        bandit.update(state, batch)
    return state


def means(
    state: HierarchicalBetaState, cell: Any, bandit: HierarchicalBetaThompson = BANDIT
) -> Array:
    """Return the posterior mean of every arm in some cells."""
    return bandit.mean(state, Setting(np.asarray(cell)), ARMS.nominal)


def agree(one: HierarchicalBetaState, other: HierarchicalBetaState) -> None:
    """Compare counts, and hyper-posteriors as probabilities."""
    np.testing.assert_allclose(one.counts, other.counts, rtol=0, atol=1e-10)
    np.testing.assert_allclose(one.hyper, other.hyper, rtol=0, atol=1e-10)


def by_integration(
    bandit: HierarchicalBetaThompson, counts: Array, unit: int, power: int = 1
) -> float:
    """Integrate E[θᵤ^power | counts (U, 2)] over m by SciPy, summed over κ.

    Given m and κ the units are independent: each has a beta-binomial likelihood, and
    E[θ^p | m, κ, own counts] = B(a + W + p, b + L) / B(a + W, b + L).
    """
    parts = np.zeros(2)
    kappas = bandit.concentration
    for kappa in kappas if isinstance(kappas, tuple) else (kappas,):

        def density(m: float, p: int, kappa: float = kappa) -> float:
            a, b = kappa * m, kappa * (1 - m)
            log_density = stats.beta.logpdf(m, bandit.wins, bandit.losses)
            for won, lost in counts:
                log_density += special.betaln(a + won, b + lost) - special.betaln(a, b)
            won, lost = counts[unit]
            log_density += special.betaln(a + won + p, b + lost)
            log_density -= special.betaln(a + won, b + lost)
            return float(np.exp(log_density))

        for i, p in enumerate((0, power)):
            parts[i] += integrate.quad(density, 0, 1, (p,), epsabs=0, epsrel=1e-11, limit=200)[0]
    return float(parts[1] / parts[0])


def test_posterior_by_hand() -> None:
    """m uniform, κ = 2; unit 0 won twice, unit 1 lost once.

    Likelihoods m·(2m + 1)/3 and 1 − m, so m has the density ∝ m(2m + 1)(1 − m) = m + m² − 2m³.
    ∫ = 1/2 + 1/3 − 1/2 = 1/3 and ∫ m· = 1/3 + 1/4 − 2/5 = 11/60, so E[m] = 11/20: the mean of
    unit 3 without rows. Unit 0 has (2·11/20 + 2)/4 = 31/40, unit 1 (2·11/20)/3 = 11/30.
    """
    bandit = HierarchicalBetaThompson(concentration=2.0)
    state = learned(evidence([0, 0, 1], [1, 1, 1], [1, 1, 0]), bandit=bandit)
    found = means(state, [3, 0, 1, 2], bandit)[:, 1]
    assert found.tolist() == pytest.approx([11 / 20, 31 / 40, 11 / 30, 0.5], rel=1e-12)


@pytest.mark.parametrize(
    "counts",
    [
        [[0, 0], [3, 1], [0, 4]],
        [[10, 2], [7, 3], [0, 0]],
        [[2.5, 0.5], [0.0, 1.75], [4.0, 4.0]],
    ],
)
def test_means_are_integrals(counts: list[list[float]]) -> None:
    """Two and three units: the mean of each agrees with SciPy's integral to 1e-9."""
    given = np.array(counts)
    cells, rows = np.array([0, 1, 3]), []
    for cell, (won, lost) in zip(cells, counts, strict=True):
        rows += [(cell, 1.0, won), (cell, 0.0, lost)]
    cell, y, weight = (list(part) for part in zip(*rows, strict=True))
    state = learned(evidence(cell, [2] * 6, y, weight=weight))
    found = means(state, cells)[:, 2]
    expected = [by_integration(BANDIT, given, unit) for unit in range(3)]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_one_unit_a_group_and_no_spread_between_are_the_two_ends() -> None:
    """A huge κ pools everything: Beta(wins + ΣW, losses + ΣL); alone, E[θ] is E[m | own rows].

    At κ = 10,000 the rates of a group are one rate but for a spread of 0.005.
    """
    pooled = HierarchicalBetaThompson(concentration=1e4, nodes=320)
    state = learned(evidence([0, 0, 1, 3], [0] * 4, [1, 1, 0, 1]), bandit=pooled)
    np.testing.assert_allclose(means(state, [0, 1, 3], pooled)[:, 0], 4 / 6, rtol=1e-3)
    alone = HierarchicalBetaThompson(concentration=4.0)
    lonely = alone.init(np.arange(2), ARMS)
    alone.update(lonely, evidence([1] * 5, [0] * 5, [1, 0, 0, 0, 1]))
    expected = by_integration(alone, np.array([[2.0, 3.0]]), 0)
    found = alone.mean(lonely, Setting(np.arange(2)), ARMS.nominal)[:, 0]
    assert found.tolist() == pytest.approx([0.5, expected], rel=1e-10)


@pytest.mark.parametrize("block", [1, 500], ids=["live", "blocks"])
def test_draws_follow_the_integrated_posterior(block: int) -> None:
    """Draws pass Kolmogorov–Smirnov against the mixture Σ_q p_q·Beta (false alarm 1e-3 over 6).

    The mixture's second moment is SciPy's integral too, so the weights are right as well.
    """
    counts, n = np.array([[6.0, 1.0], [2.0, 3.0], [0.0, 0.0]]), 4_000
    rows = evidence([0, 0, 1, 1], [1] * 4, [1, 0, 1, 0], weight=[6, 1, 2, 3])
    state = learned(rows)
    weight = np.diff(state.hyper[0, 1], prepend=0.0)
    for unit, cell in enumerate((0, 1, 3)):
        a, b = state.node[0] + counts[unit, 0], state.node[1] + counts[unit, 1]
        second = (weight * a * (a + 1) / ((a + b) * (a + b + 1))).sum()
        assert second == pytest.approx(by_integration(BANDIT, counts, unit, 2), rel=1e-9)
        draws = BANDIT.draw(stream(31, block), state, Setting(np.full(n, cell)))[:, 1]
        cdf = (weight * special.betainc(a, b, draws[:, None])).sum(axis=1)
        assert stats.kstest(cdf, "uniform").pvalue > 1e-3 / 6


@pytest.mark.parametrize("block", [1, 1000], ids=["live", "blocks"])
def test_draws_are_finite_at_the_smallest_concentration(block: int) -> None:
    """κ = ½ makes Beta shapes of 0.0007 at the outermost nodes: rates stay within [0, 1]."""
    bandit = HierarchicalBetaThompson(concentration=0.5)
    at = Setting(np.zeros(20_000 // (10 if block == 1 else 1), dtype=np.int64))
    draws = bandit.draw(stream(6, block), learned(bandit=bandit), at)
    assert ((draws >= 0.0) & (draws <= 1.0)).all()
    # E[θ] = ½, Var ≤ ¼: |mean − ½| < 4 standard errors of 3n draws
    assert abs(draws.mean() - 0.5) < 4 * 0.5 / np.sqrt(draws.size)


def test_a_group_helps_its_cold_units() -> None:
    """200 groups of 9 units with 40 rows, one without: its rate is met better than by ½.

    Rates spread by √(m(1−m)/9); the paired gain in squared error has z > 5 (one fixed seed), and
    the learned κ is nearer 8 than its rivals in most groups.
    """
    rng, n_groups = rng_of(7), 200
    m = rng.uniform(0.05, 0.95, n_groups)
    theta = rng.beta(8 * m, 8 * (1 - m), (10, n_groups)).T.ravel()
    group = np.repeat(np.arange(n_groups), 10)
    warm = np.flatnonzero(np.arange(group.size) % 10 > 0)
    one = ArmList(names=("a",)).build()
    bandit = HierarchicalBetaThompson(concentration=(1.0, 8.0, 64.0))
    state = bandit.init(group, one)
    won = rng.binomial(40, theta[warm])
    zero = np.zeros(warm.size, dtype=np.int64)
    for y, weight in ((1.0, won), (0.0, 40 - won)):
        bandit.update(state, evidence(warm, zero, np.full(warm.size, y), weight=weight))
    cold = np.arange(0, group.size, 10)
    found = bandit.mean(state, Setting(cold), one.nominal)[:, 0]
    gain = (theta[cold] - 0.5) ** 2 - (theta[cold] - found) ** 2
    assert gain.mean() / (gain.std() / np.sqrt(n_groups)) > 5
    mass = np.diff(state.hyper[:, 0], axis=-1, prepend=0.0).reshape(n_groups, 3, -1).sum(axis=-1)
    assert (mass.argmax(axis=1) == 1).mean() > 0.5


def test_a_group_makes_cold_units_regret_less() -> None:
    """A tenth unit beside nine warm ones regrets less in 100 rounds than a lone Beta-Thompson.

    100 groups, paired over common luck: z > 5 at one fixed seed.
    """
    rng, n_groups = rng_of(9), 100
    m = rng.uniform(0.1, 0.9, (n_groups, 3))
    theta = rng.beta(16 * m, 16 * (1 - m), (10, n_groups, 3)).swapaxes(0, 1).reshape(-1, 3)
    group, cold = np.repeat(np.arange(n_groups), 10), np.arange(0, 10 * n_groups, 10)
    warm = np.flatnonzero(np.arange(group.size) % 10 > 0)
    won = rng.binomial(30, theta[warm])

    def regret(bandit: Any) -> Array:
        state, total, luck = bandit.init(group, ARMS), np.zeros(n_groups), rng_of(10)
        for arm in range(3):
            arms = np.full(warm.size, arm)
            for y, weight in ((1.0, won[:, arm]), (0.0, 30 - won[:, arm])):
                bandit.update(state, evidence(warm, arms, np.full(warm.size, y), weight=weight))
        for t in range(100):
            arm = bandit.draw(stream(11, 500, at=t), state, Setting(cold)).argmax(axis=1)
            p = theta[cold, arm]
            bandit.update(state, evidence(cold, arm, luck.random(n_groups) < p))
            total += theta[cold].max(axis=1) - p
        return total

    gain = regret(BetaThompson()) - regret(HierarchicalBetaThompson())
    assert gain.mean() / (gain.std() / np.sqrt(n_groups)) > 5


@pytest.mark.parametrize("count", [0, 1, 7, 29, 30, 31, 500, 10**6, 10**12])
def test_log_rise_keeps_its_digits(count: int) -> None:
    """For whole a, Γ(count + a)/Γ(count + 1) is a product of whole numbers: exact by hand.

    gammaln(1e12) alone is 2.7e13 and wrong by 1e-3.
    """
    for a in (1, 2, 5, 40):
        exact = log(prod(range(count + 1, count + a)))
        found = float(log_rise(np.array([[float(count)]]), np.array([float(a)]))[0, 0])
        assert found == pytest.approx(exact, rel=1e-13, abs=1e-12)


def test_log_rise_is_continuous_where_it_changes_formula() -> None:
    """Below and above 30 rows SciPy's gammaln is met, for small and fractional a too."""
    a = np.array([0.001, 0.3, 1.7, 33.3, 109.0])
    count = np.array([[0.0], [0.25], [29.999], [30.0], [44.5], [1000.0]])
    expected = special.gammaln(count + a) - special.gammaln(count + 1)
    np.testing.assert_allclose(log_rise(count, a), expected, rtol=1e-13, atol=2e-12)


@given(some=evidences(5, ARMS.coords, is_class=True), seed=st.integers(0, 99))
@fixed
def test_batch_equals_loop_in_any_order(some: Evidence, seed: int) -> None:
    """One batch, rows one by one, and rows in another order give the same posterior."""
    n = some.cell.size
    agree(learned(*(take(some, [i]) for i in range(n))), learned(some))
    agree(learned(take(some, rng_of(seed).permutation(n))), learned(some))


@given(
    some=evidences(5, ARMS.coords, is_class=True),
    cut=st.integers(0, 12),
    factor=st.sampled_from([0.0, 0.25, 0.9, 1.0]),
)
@fixed
def test_merge_and_decay(some: Evidence, cut: int, factor: float) -> None:
    """Merged halves are the whole; a kept share of the evidence is a share of every weight."""
    state = learned(take(some, slice(cut)))
    BANDIT.merge(state, learned(take(some, slice(cut, None))))
    agree(state, learned(some))
    BANDIT.decay(state, factor, np.array([0, 2]))
    faded = np.where(np.isin(some.cell, [0, 2]), factor, 1.0) * some.weight
    agree(state, learned(replace(some, weight=faded)))


@given(some=evidences(5, ARMS.coords, is_class=True))
@fixed
def test_groups_are_apart_to_the_last_byte(some: Evidence) -> None:
    """What group 1 learns, forgets or draws has the same bytes without group 0 beside it."""
    alone, state = learned(take(some, GROUP[some.cell] == 1)), learned(some)
    for _ in range(2):
        assert bytes_of(state.counts[GROUP == 1], state.hyper_log[1], state.hyper[1]) == bytes_of(
            alone.counts[GROUP == 1], alone.hyper_log[1], alone.hyper[1]
        )
        draws = [BANDIT.draw(stream(3), each, Setting(GROUP * 2)) for each in (state, alone)]
        assert bytes_of(draws[0][GROUP == 1]) == bytes_of(draws[1][GROUP == 1])
        BANDIT.decay(state, 0.5, np.array([0, 1]))  # group 0 only


def test_a_large_batch_is_parted_without_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages of one arm at a time and of all arms at once leave the same bytes."""
    rng = rng_of(12)
    some = evidence(rng.integers(0, 5, 90), rng.integers(0, 3, 90), rng.integers(0, 2, 90))
    whole = learned(some)
    monkeypatch.setattr(hierarchical_beta, "_MOST", 10)
    assert records.to_bytes(learned(some)) == records.to_bytes(whole)


@given(some=evidences(5, ARMS.coords, is_class=True))
@fixed
def test_hyper_posteriors_are_sound(some: Evidence) -> None:
    """Cumulative probabilities rise to 1, means are within (0, 1), silent rows say nothing."""
    state = learned(some)
    assert (np.diff(state.hyper, axis=-1, prepend=0.0) >= 0).all()
    assert (state.hyper[..., -1] == 1.0).all()
    found = means(state, np.arange(5))
    assert ((found > 0) & (found < 1)).all()
    kept = np.flatnonzero((some.arm >= 0) & (some.weight > 0))
    assert records.to_bytes(state) == records.to_bytes(learned(take(some, kept)))


def test_a_win_raises_all_units_of_the_group_and_the_winner_most() -> None:
    """One win of unit 0 at arm 1: units 1 and 3 rise too, group 1 and other arms stay."""
    rise = means(learned(evidence([0], [1], [1.0])), np.arange(5)) - means(learned(), np.arange(5))
    assert rise[0, 1] > rise[1, 1] == rise[3, 1] > 0.01
    assert not rise[[2, 4]].any()
    assert not rise[:, [0, 2]].any()


def test_the_prior_is_exact() -> None:
    """Before any row the mean is wins/(wins + losses), and nodes carry the prior's moments."""
    assert means(learned(), [0]).tolist() == [pytest.approx([1.5 / 4.0] * 3, rel=1e-12)]
    m = BANDIT._nodes(3)[0] / (BANDIT._nodes(3)[0] + BANDIT._nodes(3)[1])
    weight = np.exp(BANDIT._nodes(3)[2]) / 2  # two κ
    for k in range(1, 9):
        assert (weight * m**k).sum() == pytest.approx(stats.beta(1.5, 2.5).moment(k), rel=1e-11)


def test_new_units_find_their_group_s_knowledge() -> None:
    """A state that grew by cells without rows has the same hyper-posterior."""
    small = learned(evidence([0, 1, 4], [0, 1, 2], [1, 0, 1]))
    wide = BANDIT.init(np.concatenate((GROUP, [0, 1])), ARMS)
    grown = records.grow(records.copy(small), wide)
    assert bytes_of(grown.hyper) == bytes_of(small.hyper)
    np.testing.assert_array_equal(means(grown, [5])[0, 0], means(small, [3])[0, 0])


def test_values_of_located_actions() -> None:
    """An action has its nearest arm's value; one comparable to none has the prior mean."""
    located = Located(np.array([[2, -1]]), np.zeros((1, 2, 1)), lambda: np.zeros((1, 2)))
    assert BANDIT.value(np.array([[0.1, 0.2, 0.3]]), located).tolist() == [[0.3, 0.375]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [1.0, 1.5]}, r"Hierarchical Beta-Thompson: expected outcomes in \[0, 1\], got"),
        ({"y": [1.0, np.nan]}, r"Hierarchical Beta-Thompson: expected outcomes in \[0, 1\], got"),
        ({"scale": [1.0, 1.0]}, r"Hierarchical Beta-Thompson: learns classes and takes no reward"),
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
    """Other cells or other groups do not merge, and a share is within [0, 1]."""
    state = learned(evidence([0], [1], [1.0]))
    before = records.to_bytes(state)
    with pytest.raises(InvalidInput, match=r"merge: expected a state of shape \(5, 2, 3\)"):
        BANDIT.merge(state, BANDIT.init(GROUP[:2], ARMS))
    with pytest.raises(InvalidInput, match="merge: expected a state of the same groups"):
        BANDIT.merge(state, BANDIT.init(GROUP[::-1], ARMS))
    with pytest.raises(InvalidInput, match="merge: expected a state of the same prior"):
        BANDIT.merge(state, replace(BANDIT, losses=2.0).init(GROUP, ARMS))
    with pytest.raises(InvalidInput, match="decay: expected a"):
        BANDIT.decay(state, 1.5, np.array([0]))
    assert records.to_bytes(state) == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"wins": 0.0}, "bandit.wins: expected a"),
        ({"losses": np.nan}, "bandit.losses: expected a"),
        ({"concentration": 0.4}, "bandit.concentration: expected a number >= 0.5"),
        ({"concentration": (8.0, np.inf)}, "bandit.concentration: expected a finite"),
        ({"concentration": ()}, "bandit.concentration: expected at least one"),
        ({"concentration": 200.0}, "bandit.nodes: expected a number >= 45"),
        ({"nodes": 18}, "bandit.nodes: expected a number >= 19"),
        ({"nodes": 32.5}, "bandit.nodes: expected a whole number"),
        ({"nodes": 32.0}, "bandit.nodes: expected a whole number"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    """Every setting is refused by its name; nodes must lie within a spread of each other."""
    with pytest.raises(InvalidInput, match=message):
        HierarchicalBetaThompson(**settings)
