"""Where priors come from, and what a history weighs by importance: by hand, and against SciPy."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression

from gdcb.arms import ArmList, Grid
from gdcb.arrays import Array, logistic
from gdcb.composition import Identity, Multiply
from gdcb.context import Number, Schema
from gdcb.instance import Cells, Instance
from gdcb.instances import study
from gdcb.instances.str_pricing.columns import POSITIONS, scale_of
from gdcb.instances.str_pricing.learners import delta_of
from gdcb.protocol import fitting, priors
from gdcb.protocol.ground import shared_by
from gdcb.protocol.importance import CLIP, chances, reweighted
from gdcb.protocol.sampling import Sample, sample, tuning_of
from gdcb.protocol.task import GROUND, Task
from gdcb.records import History, Log, Rows, Verdict, to_bytes
from gdcb.rewards import Payoff, Scaled
from gdcb.scalers import ConstantScaler
from tests.parts.builders import rng_of

UNITS, GROUPS, CONTEXTS = 8, 12, 120


@pytest.fixture(scope="module", params=["well", "mis"])
def found(request: pytest.FixtureRequest) -> Any:
    """Return a small sample of tuning worlds."""
    subject = study("str", request.param, {}, 10)
    plain = subject.domain.instance
    without = replace(plain, scaler=ConstantScaler(1.0), gate=plain.chain)
    return SimpleNamespace(
        subject=subject,
        variant=request.param,
        sample=sample(subject, without, 7, GROUPS, CONTEXTS),
    )


# The sample


def test_a_sample_has_every_unit_s_rows_together(found: Any) -> None:
    sample: Sample = found.sample
    n = GROUPS * UNITS * CONTEXTS
    assert sample.rows.n == n
    assert (sample.rows.unit == np.repeat(np.arange(GROUPS * UNITS), CONTEXTS)).all()
    assert (sample.rows.group == sample.rows.unit // UNITS).all()
    by_unit = sample.by_unit(sample.rows.unit)
    assert by_unit.shape == (GROUPS * UNITS, CONTEXTS)
    assert (by_unit == np.arange(GROUPS * UNITS)[:, None]).all()
    assert sample.action == pytest.approx(sample.coord * scale_of(sample.rows.x)[:, None])
    world = found.subject.domain.world
    chance = world.chance(sample.state, sample.action[:, None], sample.rows)[:, 0]
    assert sample.target.tolist() == chance.tolist()


def test_arms_are_drawn_evenly_and_apart_from_context(found: Any) -> None:
    """χ² of 25 arms, and the correlation of price and occupancy: p < 1e-5 each."""
    sample: Sample = found.sample
    counts = np.bincount(sample.arm, minlength=25)
    assert stats.chisquare(counts).pvalue > 1e-5
    assert stats.pearsonr(sample.coord[:, 0], sample.rows.x[:, 0]).pvalue > 1e-5


# Moments


def test_moments_by_hand() -> None:
    """Two groups of two units: 1, 3 | 5, 9. Means 2 and 7; 4.5 in all.

    sd of all: √((12.25 + 2.25 + 0.25 + 20.25)/3) = √(35/3) = 3.4157; of the groups' means
    5/√2 = 3.5355; within groups (√2 + √8)/2 = 2.1213. A constant gets the least sd.
    """
    weights = np.array([[1.0, 4.0], [3.0, 4.0], [5.0, 4.0], [9.0, 4.0]])
    moments = priors.spread(weights, 2)
    assert moments["mean"] == [4.5, 4.0]
    assert moments["sd"] == [3.4157, 0.02]
    assert moments["group"] == [3.5355, 0.02]
    assert moments["own"] == [2.1213, 0.02]
    assert priors.spread(weights, 1)["own"] == [0.02, 0.02]


def test_moments_of_a_pool_by_hand() -> None:
    """Three units, one feature, degree 1: (1, x, u₁, u₂, c), then x·c, u₁·c and u₂·c."""
    moments = {
        "mean": [1.0, 2.0, 3.0, 4.0],
        "sd": [0.5, 0.6, 0.7, 0.8],
        "group": [0.1, 0.2, 0.3, 0.4],
        "own": [0.06, 0.02, 0.03, 0.04],
    }
    plain = priors.pooled_moments(moments, 1, 3, degree=1, interactions=True)
    assert plain["mean"] == [1.0, 2.0, 0.0, 0.0, 3.0, 4.0, 0.0, 0.0]
    apart, slope = round(math.sqrt(2) * 0.06, 4), round(math.sqrt(2) * 0.03, 4)
    assert plain["sd"] == [0.5, 0.2, apart, apart, 0.3, 0.4, slope, slope]
    short = {name: values[:3] for name, values in moments.items()}
    without = priors.pooled_moments(short, 1, 3, degree=1, interactions=False)
    assert without["mean"] == [1.0, 2.0, 0.0, 0.0, 3.0]
    assert without["sd"] == [0.5, 0.2, apart, apart, 0.3]


def test_weights_that_made_the_chances_are_found_again() -> None:
    """Exact probabilities determine the weights; a precision of 1e-4 moves them by below 1e-4."""
    rng = rng_of(4)
    design = np.concatenate((np.ones((5, 200, 1)), rng.uniform(-1, 1, (5, 200, 2))), axis=2)
    weights = rng.normal(0.0, 1.0, (5, 3))
    eta = (design @ weights[:, :, None])[..., 0]
    assert priors.logistic_weights(design, logistic(eta)) == pytest.approx(weights, abs=1e-4)
    assert priors.linear_weights(design, eta) == pytest.approx(weights, abs=1e-4)


def test_the_prior_of_arms_is_a_beta_with_the_units_moments(found: Any) -> None:
    """Mean m and variance v of a unit's mean chance: α + β = m(1 − m)/v − 1."""
    sample: Sample = found.sample
    chances = priors.arm_targets(sample)
    space, rows = sample.instance.space, sample.rows
    assert chances.shape == (rows.n, 25)
    price = space.coords[7, 0] * scale_of(rows.x)
    asked = found.subject.domain.world.chance(sample.state, price[:, None, None], rows)[:, 0]
    assert chances[:, 7] == pytest.approx(asked)
    counts = priors.arm_moments(sample, chances)
    means = chances.reshape(-1, CONTEXTS, 25).mean(axis=1)
    m, v = means.mean(axis=0), means.var(axis=0, ddof=1)
    assert counts["mean"] == pytest.approx(m, abs=6e-5)
    for k in (0, 12, 24):
        total = counts["total"][k]
        law = stats.beta(m[k] * total, (1 - m[k]) * total)
        assert (law.mean(), law.var()) == pytest.approx((m[k], v[k]), rel=1e-3)
    levels = priors.level_moments(sample, chances, sample.instance)
    first = space.levels[:, 0] == 0
    assert len(levels["mean"]) == 10
    assert levels["mean"][0] == pytest.approx(m[first].mean(), abs=6e-5)
    order = np.argsort(space.coords[:, 0])
    assert (np.diff(np.array(counts["mean"])[order]) < 0).all()  # a dearer night is booked less


def test_arms_that_are_scaled_scatter_less(found: Any) -> None:
    """δ takes off what context explains: an arm's chance varies less from night to night."""
    sample: Sample = found.sample
    delta = delta_of(sample, "both")
    assert delta.shape == (sample.rows.n, 1, 1)
    plain = priors.arm_targets(sample).reshape(-1, CONTEXTS, 25).std(axis=1).mean()
    scaled = priors.arm_targets(sample, delta).reshape(-1, CONTEXTS, 25).std(axis=1).mean()
    assert scaled < (0.1 if found.variant == "well" else 0.4) * plain


def test_weights_of_each_arm_are_a_regression_of_its_own(found: Any) -> None:
    sample: Sample = found.sample
    weights = priors.arm_weights(sample, found.subject.features)
    assert np.shape(weights["mean"]) == np.shape(weights["sd"]) == (25, 7)
    chances = priors.arm_targets(sample).reshape(-1, CONTEXTS, 25)
    x = sample.rows.x[:, POSITIONS].reshape(-1, CONTEXTS, 6)
    fits = []
    for unit in range(GROUPS * UNITS):
        design = np.concatenate((np.ones((CONTEXTS, 1)), x[unit]), axis=1)
        fits.append(np.linalg.lstsq(design, chances[unit, :, 3], rcond=None)[0])
    assert weights["mean"][3] == pytest.approx(np.mean(fits, axis=0), abs=1e-3)
    assert weights["sd"][3] == pytest.approx(np.std(fits, axis=0, ddof=1), abs=1e-3)


@pytest.mark.parametrize(("degree", "interactions"), [(1, False), (1, True), (2, False), (2, True)])
def test_shared_features_are_context_and_price(found: Any, degree: int, interactions: bool) -> None:
    """(1, x, c, c², x·c), c from −1 for the lowest arm to 1 for the highest."""
    sample: Sample = found.sample
    design = priors.shared_design(sample, found.subject.features, degree, interactions)
    low, high = sample.instance.space.coords.min(), sample.instance.space.coords.max()
    c = (2.0 * sample.coord - low - high) / (high - low)
    x = sample.rows.x[:, POSITIONS]
    parts = [np.ones_like(c), x, c, *([c * c] if degree == 2 else [])]
    parts += [x * c] if interactions else []
    assert design == pytest.approx(sample.by_unit(np.concatenate(parts, axis=1)))


def test_the_recommended_learner_s_prior_is_the_world_s(found: Any) -> None:
    """In `well` level and slope of the relative curve are α − β·1.03 and −0.4·β of every listing.

    1.03 and 0.4 are middle and half-width of the arms. The scaler's own curve is in log e, so that
    δ̂ is δ* but for some per cent; hence the tolerances.
    """
    sample: Sample = found.sample
    fitted = tuning_of(found.subject).fitted(sample, priors.spread, "both")
    state = sample.state
    assert set(fitted) == {"form", "scaler", "relative", "additive"}
    assert [len(fitted[form]["mean"]) for form in ("relative", "additive")] == [2, 3]
    own = {"well": "relative", "mis": "additive"}[found.variant]
    alone = tuning_of(found.subject).fitted(sample, priors.spread, own)
    assert set(alone) == {"form", "scaler", own}
    assert alone[own]["mean"][:2] == pytest.approx(fitted[own]["mean"][:2], abs=0.05)
    truth = np.stack((state.alpha - 1.03 * state.beta, -0.4 * state.beta), axis=1)
    if found.variant == "well":
        moments = priors.spread(truth, UNITS)
        for name, slack in (("mean", 0.03), ("group", 0.01), ("own", 0.01)):
            assert fitted["relative"][name] == pytest.approx(moments[name], abs=slack)
        theta = state.theta[::UNITS].mean(axis=0)
        assert fitted["scaler"]["theta"] == pytest.approx(theta, abs=0.03)
    else:
        # σ(α − βe + context), context = γηᵀφ: the curve in e has the world's weights.
        for name in ("mean", "group", "own"):
            exact = priors.spread(truth, UNITS)[name]
            assert fitted["additive"][name][:2] == pytest.approx(exact, abs=0.01)
    assert fitted["scaler"]["slope"] > 1.0
    assert min(fitted["scaler"]["sd"]) > 0.0


def test_every_family_has_a_prior_and_the_same_one_each_time() -> None:
    subject = study("str", "mis", {}, 10)
    one, two = (fitting.fitted_priors(subject, contexts=40) for _ in range(2))
    assert one == two
    assert {key.split()[0] for key in one} == set(fitting.JUDGED)
    for family in fitting.SHAPES:
        forms = fitting.forms_of(subject, family)
        assert len(forms) == 2 * len(fitting.SHAPES[family])
        assert all(fitting.key_of(family, form) in one for form in forms)


# Importance


def tiny(relative: list[float], group: list[int] | None = None, x: Any = None) -> tuple[Any, ...]:
    """Return an instance with arms 0.8, 1.0 and 1.2, its study, and a history of base 100."""
    instance = Instance(
        context=Schema({"base": Number(1, 1000), "busy": Number(-9, 9)}),
        arms=ArmList(values=(0.8, 1.0, 1.2)),
        composition=Multiply(base=("base",)),
        gate=[],
        reward=Payoff(outcome=("booked",), action=0),
    )
    n = len(relative)
    unit = np.zeros(n, dtype=np.int64) if group is None else np.array(group)
    busy = np.zeros(n) if x is None else np.asarray(x, dtype=float)
    context = np.stack((np.full(n, 100.0), busy), axis=1)
    action, no = 100.0 * np.array(relative)[:, None], np.zeros(n, dtype=bool)
    none = np.full(n, -1)
    log = Log(unit, unit, context, none, none, action, no, no, no, np.ones(n), None, np.ones(n))
    verdict = Verdict(
        action, np.zeros(n, dtype=np.int8), action[:, None], np.zeros((n, 0), dtype=np.int8), {}
    )
    features = () if x is None else ("busy",)
    return (
        instance,
        History(log, Rows(unit, unit, context), verdict),
        SimpleNamespace(features=features),
    )


def weights_of(*parts: Any) -> Array:
    """Return the weights by importance of a tiny history."""
    instance, history, features = tiny(*parts)
    return reweighted(instance, history, features).log.weight


def test_importance_by_hand() -> None:
    """Prices 0.8, 1, 1.2, 1: mean 1, sd √0.02. Edges 0.7, 0.9, 1.1, 1.3 lie at ±0.7071, ±2.1213.

    The middle cell has Φ(0.7071) − Φ(−0.7071) = 0.5205, the outer ones 0.2228 each; 0.0339 is
    off. 1/p = 4.489 and 1.921, over their mean 3.205: 1.4006, 0.5994. Σw = 4, Σw² = 4.6421:
    effective rows 16/4.6421 = 3.4467, so that the weights are 1.2068 and 0.5165.
    """
    weight = weights_of([0.8, 1.0, 1.2, 1.0])
    assert weight == pytest.approx([1.2068, 0.5165, 1.2068, 0.5165], abs=2e-4)
    assert weight.sum() == pytest.approx(3.4467, abs=1e-3)


def test_propensities_are_masses_of_a_normal_law_given_x() -> None:
    """Weights are 1/p of SciPy's normal around a regression line; all cells sum to one."""
    rng = rng_of(6)
    x = rng.normal(size=200)
    relative = np.clip(1.0 + 0.05 * x + 0.1 * rng.normal(size=200), 0.71, 1.29)
    weight = weights_of(relative.tolist(), None, x)
    line = stats.linregress(x, relative)
    mean = line.intercept + line.slope * x
    law = stats.norm(mean, (relative - mean).std())
    edges = np.array([-np.inf, 0.7, 0.9, 1.1, 1.3, np.inf])
    mass = np.diff([law.cdf(edge) for edge in edges], axis=0)
    assert mass.sum(axis=0) == pytest.approx(1.0)
    cell = np.searchsorted(edges, relative) - 1
    p = mass[cell, np.arange(200)]
    assert weight * p == pytest.approx(np.full(200, (weight * p).mean()))
    raw = 1.0 / p
    assert weight.sum() == pytest.approx(raw.sum() ** 2 / (raw**2).sum())


def test_rows_off_every_arm_weigh_nothing() -> None:
    """1.31 lies more than half a step above 1.2; 1.29 does not."""
    weight = weights_of([0.8, 1.0, 1.2, 1.31, 1.0, 1.29, 0.5])
    assert (weight[[3, 6]] == 0).all()
    assert (weight[[0, 1, 2, 4, 5]] > 0).all()


def test_a_rare_arm_s_weight_is_clipped() -> None:
    """One row of 100 at 0.8: 1/p is 10,000 at most, 99 times the mean; 20 is the clip.

    The others are 1 / 101.0 of the mean each, 0.98 together: Σw = 20.98, Σw² = 400.01. Effective
    rows: 1.1004, which the weights sum to.
    """
    weight = weights_of([0.8] + [1.0] * 99)
    rest = 1.0 / (10_099.0 / 100.0)
    total, square = CLIP + 99 * rest, CLIP**2 + 99 * rest**2
    assert weight.sum() == pytest.approx(total**2 / square, rel=1e-6)
    assert weight[0] / weight[1] == pytest.approx(CLIP / rest, rel=1e-6)


def test_groups_are_weighed_by_themselves() -> None:
    one, two = [0.8, 1.0, 1.2, 1.0, 0.9], [1.2, 1.0, 1.15, 1.0]
    both = weights_of(one + two, [0] * 5 + [1] * 4)
    assert both[:5] == pytest.approx(weights_of(one), rel=1e-12)
    assert both[5:] == pytest.approx(weights_of(two), rel=1e-12)


def test_a_group_whose_rows_are_all_off_weighs_nothing() -> None:
    assert weights_of([1.5, 1.6, 1.0, 1.2], [0, 0, 1, 1])[:2].tolist() == [0.0, 0.0]


def test_a_reweighted_history_counts_as_its_effective_size() -> None:
    """Of the real past: no more than its rows on arms, and nothing but the weights is new."""
    shared = shared_by(Task("str", "well", (), 3, 1, 0, 3, GROUND))
    past = shared.history
    before = to_bytes(past.log)
    new = reweighted(shared.instance, past, shared.study)
    assert to_bytes(past.log) == before
    assert new.rows is past.rows
    assert new.verdict is past.verdict
    for name in ("unit", "group", "x", "action", "y", "arm"):
        assert getattr(new.log, name) is getattr(past.log, name)
    weight, group = new.log.weight, past.log.group
    on_arm = weight > 0
    for g in range(3):
        mine = weight[group == g]
        effective = mine.sum() ** 2 / (mine**2).sum()
        assert mine.sum() == pytest.approx(effective)
        assert 50 < effective < on_arm[group == g].sum()
    relative = shared.instance.composition.relative(past.log.action, past.log.x)[:, 0]
    edges = 0.63 - 0.5 * 0.035, 1.43 + 0.5 * 0.065
    inside = (relative > edges[0]) & (relative < edges[1])
    assert (on_arm == inside).all()


# Masks, bands and several coordinates


def hand_made(
    target: Any, mask: Any = None, edges: tuple[float, ...] = (), is_class: bool = True
) -> Sample:
    """Return a sample of two units a group, two rows each, of two categories."""
    instance = Instance(
        context=Schema({"busy": Number(-9, 9)}),
        arms=ArmList(names=("a", "b")),
        composition=Identity(),
        gate=[],
        reward=Payoff() if is_class else Scaled(),
        cells=Cells(edges),
    )
    values = np.asarray(target, dtype=float)
    n = values.shape[0]
    unit = np.arange(n) // 2
    rows = Rows(unit, unit // 2, np.zeros((n, 1)), None if mask is None else np.array(mask))
    none = np.zeros(n, dtype=np.int64)
    return Sample(
        instance=instance,
        world=None,  # type: ignore[arg-type]
        state=None,
        units=2,
        contexts=2,
        seed=0,
        rows=rows,
        arm=none,
        coord=none[:, None] * 1.0,
        action=np.zeros((n, 2)),
        target=values[:, 0],
        scale=None,
        noise=0.5,
        ask=lambda e, rows: values,
    )


def test_an_arm_s_mean_is_of_the_rows_that_allow_it() -> None:
    """Arm b of the first unit: 0.4 alone, its other row is barred; of the second none at all."""
    yes, no = True, False
    targets = [[0.2, 0.9], [0.4, 0.4], [0.6, 0.7], [0.8, 0.7]] * 2
    mask = [[yes, no], [yes, yes], [yes, no], [yes, no]] + [[yes, yes]] * 4
    found = hand_made(targets, mask)
    means = priors.arm_means(found, np.array(targets))
    assert means.shape == (1, 4, 2)
    assert means[0, :, 0] == pytest.approx([0.3, 0.7, 0.3, 0.7])
    assert means[0, [0, 2, 3], 1] == pytest.approx([0.4, 0.65, 0.7])
    assert np.isnan(means[0, 1, 1])
    moments = priors.arm_moments(found, np.array(targets))
    assert moments["mean"] == pytest.approx([0.5, (0.4 + 0.65 + 0.7) / 3], abs=1e-4)
    assert all(np.isfinite(moments["total"]))


def test_an_arm_that_was_never_allowed_has_the_prior_of_all() -> None:
    targets = [[0.2, 0.9], [0.4, 0.9], [0.6, 0.9], [0.8, 0.9]] * 2
    moments = priors.arm_moments(hand_made(targets, [[True, False]] * 8), np.array(targets))
    assert moments["mean"] == pytest.approx([0.5, 0.5])
    assert all(np.isfinite(moments["total"]))


def test_bands_of_delta_are_cells_of_their_own() -> None:
    """Rows below 0.5 and above, one each a unit: arm a is 0.1 and 0.9 there, whatever the unit."""
    targets = np.array([[0.1, 0.5], [0.9, 0.5]] * 4)
    found = hand_made(targets, edges=(0.5,))
    delta = np.array([0.2, 0.7] * 4)[:, None, None]
    means = priors.arm_means(found, targets, delta)
    assert means.shape == (2, 4, 2)
    assert (means[0, :, 0] == 0.1).all()
    assert (means[1, :, 0] == 0.9).all()
    moments = priors.arm_moments(found, targets, delta)
    # Over all eight cells: mean ½, variance 8·0.16/7; groups and units do not differ.
    total = 0.25 / (8 * 0.16 / 7) - 1.0
    assert moments["mean"] == [0.5, 0.5]
    assert moments["total"][0] == pytest.approx(max(total, 0.5), abs=1e-3)
    assert moments["group"] == moments["own"] == [0.02]
    # Without a scaler all rows are in one band, and the prior is that of their mean.
    assert np.isfinite(priors.arm_means(found, targets)).sum() == 8
    assert priors.arm_moments(found, targets)["total"] == pytest.approx([624.0, 624.0])


def test_rewards_have_a_spread_and_a_noise() -> None:
    """Means 1 and 3 a unit of arm a, two rows ±1 around: noise √(½² + 1) for a, beside b's ½."""
    targets = np.array([[0.0, 2.0], [2.0, 2.0], [2.0, 2.0], [4.0, 2.0]] * 2)
    moments = priors.arm_moments(hand_made(targets, is_class=False), targets)
    assert moments["mean"] == [2.0, 2.0]
    assert moments["sd"][0] == pytest.approx(np.std([1, 3, 1, 3], ddof=1), abs=1e-4)
    assert moments["noise"] == pytest.approx(math.sqrt(0.25 + 0.5), abs=1e-3)
    assert "total" not in moments


def test_a_pool_of_two_coordinates_by_hand() -> None:
    """One feature, two units, degree 1: (1, x, u, c, d), then x·c, u·c, x·d and u·d."""
    moments = {
        "mean": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        "sd": [0.5] * 6,
        "group": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6],
        "own": [0.06, 0.0, 0.07, 0.08, 0.0, 0.0],
    }
    found = priors.pooled_moments(moments, 1, 2, degree=1, interactions=True, n_coords=2)
    assert found["mean"] == [1.0, 2.0, 0.0, 3.0, 4.0, 5.0, 0.0, 6.0, 0.0]
    apart, c, d = (round(math.sqrt(2) * own, 4) for own in (0.06, 0.07, 0.08))
    assert found["sd"] == [0.5, 0.2, apart, 0.3, 0.4, 0.5, c, 0.6, d]


def test_small_numbers_keep_their_digits() -> None:
    """A weight on a column of size 200 has a least sd of 0.0001, and is stored as finely."""
    weights = np.array([[0.000123456], [0.000223456]])
    found = priors.spread(weights, 1, np.array([0.0001]))
    assert found["mean"] == [0.0001735]
    assert found["sd"] == [0.0001]


# Importance of categories and of offers


def test_categories_weigh_as_rare_as_they_were() -> None:
    """Without features: 6 of 'a' and 2 of 'b' in one replicate weigh 1/6 and 1/2 each, scaled."""
    instance, history, study = categories([0] * 6 + [1] * 2)
    weight = reweighted(instance, history, study).log.weight
    assert weight[:6].sum() == pytest.approx(weight[6:].sum(), rel=1e-3)
    raw = np.array([8 / 6] * 6 + [8 / 2] * 2)
    assert weight.sum() == pytest.approx(raw.sum() ** 2 / (raw**2).sum(), rel=1e-3)


def test_what_was_not_allowed_is_no_surprise() -> None:
    """'b' ran in each of the two rows that allowed nothing else: there it was certain.

    Where both are allowed, 'a' and 'b' ran 3 times each: chance ½ of 2 arms. All weigh the same.
    """
    both, only = [True, True], [False, True]
    instance, history, study = categories([0, 0, 0, 1, 1, 1, 1, 1], [both] * 6 + [only] * 2)
    weight = reweighted(instance, history, study).log.weight
    assert weight == pytest.approx(np.ones(8), rel=1e-3)


def test_rows_in_which_nothing_ran_weigh_nothing() -> None:
    instance, history, study = categories([0, 0, 1, 1])
    history.log.is_null[3] = True
    history.log.action[3] = np.nan
    weight = reweighted(instance, history, study).log.weight
    assert weight[3] == 0.0
    assert weight[2] > weight[0] > 0.0


def test_chances_are_scikit_learn_s() -> None:
    """Three classes on two columns, standardised, ridge 1 on the slopes."""
    rng = rng_of(8)
    x = rng.normal(size=(300, 2)) * np.array([3.0, 0.1]) + 5.0
    label = (x[:, 0] + rng.normal(size=300) > 5).astype(int) + (x[:, 1] > 5.05)
    ours = chances(x, label, np.zeros(300, dtype=int))
    scaled = (x - x.mean(axis=0)) / x.std(axis=0)
    fit = LogisticRegression(C=1.0, tol=1e-8, max_iter=5000).fit(scaled, label)
    assert ours == pytest.approx(fit.predict_proba(scaled)[np.arange(300), label], abs=2e-3)


def test_offers_weigh_by_rate_and_by_tenor() -> None:
    """Rates vary around 1 whatever the tenor, which is 12 in 3 rows of 4: those weigh less."""
    instance = Instance(
        context=Schema({"base": Number(1, 1000)}),
        arms=Grid({"rate": (0.8, 1.0, 1.2), "tenor": (12.0, 24.0)}),
        composition=Multiply(base=("base",)),
        gate=[],
        reward=Payoff(action=0),
    )
    rng = rng_of(3)
    n = 400
    rate, tenor = 1.0 + 0.08 * rng.normal(size=n), np.where(np.arange(n) % 4 < 3, 12.0, 24.0)
    _, plain, study = tiny([1.0] * n)
    context = np.full((n, 1), 100.0)
    log = replace(plain.log, x=context, action=np.stack((100.0 * rate, tenor), axis=1))
    history = replace(plain, log=log, rows=replace(plain.rows, x=context))
    weight = reweighted(instance, history, study).log.weight
    edges = np.array([0.7, 0.9, 1.1, 1.3])
    law = stats.norm(rate.mean(), rate.std())
    cell = np.searchsorted(edges, rate) - 1
    known = (cell >= 0) & (cell < 3)
    mass = np.diff(law.cdf(edges))[np.clip(cell, 0, 2)] * np.where(tenor == 12.0, 0.75, 0.25)
    assert (weight[~known] == 0).all()
    ratio = (weight * mass)[known]
    assert ratio == pytest.approx(np.full(ratio.shape, ratio.mean()), rel=0.1)


def categories(ran: list[int], mask: Any = None) -> tuple[Any, History, Any]:
    """Return an instance of categories a and b, and a history in which some of them ran."""
    instance = Instance(
        context=Schema({"base": Number(1, 1000), "busy": Number(-9, 9)}),
        arms=ArmList(names=("a", "b")),
        composition=Identity(severity=False),
        gate=[],
        reward=Payoff(),
    )
    _, history, study = tiny([1.0] * len(ran))
    action = np.array(ran, dtype=float)[:, None]
    rows = replace(history.rows, mask=None if mask is None else np.array(mask))
    return instance, replace(history, log=replace(history.log, action=action), rows=rows), study
