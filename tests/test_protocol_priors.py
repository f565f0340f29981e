"""Where priors come from, and what a history weighs by importance: by hand, and against SciPy."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from gdcb.arms import ArmList
from gdcb.arrays import Array, logistic
from gdcb.composition import Multiply
from gdcb.context import Number, Schema
from gdcb.instance import Instance
from gdcb.instances import study
from gdcb.instances.str_pricing.columns import POSITIONS, scale_of
from gdcb.instances.str_pricing.learners import delta_of
from gdcb.protocol import fitting, priors
from gdcb.protocol.ground import shared_by
from gdcb.protocol.importance import CLIP, reweighted
from gdcb.protocol.sampling import Sample, sample, tuning_of
from gdcb.protocol.task import GROUND, Task
from gdcb.records import History, Log, Rows, Verdict, to_bytes
from gdcb.rewards import Payoff
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
