"""The certificate's arithmetic where logs are awkward: sizes of tests, scales, ties, few rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gdcb import ArmList, CurveThompson, GaussianThompson, Instance, Multiply, Number, Schema
from gdcb import round as turn
from gdcb.arrays import Array
from gdcb.bandits.stacked import StackedThompson
from gdcb.history import Batch, certify
from gdcb.history.arms import arm_sums, bias_of
from gdcb.history.certification import summed
from gdcb.history.evidence import law_rows, robustness_of_scores
from gdcb.history.overrides import Contrast, contrast_of
from gdcb.history.stability import LawRows, Stability, reward_law
from gdcb.history.verdict import twins
from gdcb.history.warm import warm_start, warm_start_from_sums
from gdcb.instance import Rules
from gdcb.instances import load
from gdcb.rewards import Scaled
from gdcb.theorems.made_logs import KINDS, Kind, made_log

BANDIT = GaussianThompson()


def market(n_arms: int = 4, scale: bool = False, columns: str = "ab") -> Instance:
    """Return numbered arms without gates or scaler."""
    fields = {name: Number(-50, 50) for name in columns}
    if scale:
        fields["s"] = Number(1e-6, 1e6)
    return Instance(
        context=Schema(fields),
        arms=ArmList(values=tuple(np.arange(1.0, n_arms + 1))),
        composition=Multiply(names=("e",)),
        gate=[],
        reward=Scaled(outcome=("y",), scale="s" if scale else None),
    )


def batch_of(x: Array, arm: Array, y: Array, **columns: Any) -> Batch:
    n = y.size
    zero = np.zeros(n, dtype=np.int64)
    return Batch(x, (arm + 1.0)[:, None], y[:, None], zero, np.arange(float(n)), **columns)


def law_of(batch: Batch, instance: Instance, level: float = 0.05) -> Stability:
    plan, sums = summed(batch, instance, BANDIT)
    names = (*plan.features.names, "off")
    space, rows = instance.space, law_rows(plan, batch.n)
    return reward_law(
        sums.moments,
        names,
        space.names,
        level,
        robustness_of_scores(sums, rows),
        space.coords,
        rows,
    )


# The reward law


def test_a_variance_that_changes_is_no_change_of_the_law() -> None:
    """40 logs whose noise falls from 2 to 0.7: 2 alarms at 0.05 are expected, not 20."""
    alarms = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x, arm = rng.normal(size=(2000, 2)), rng.integers(0, 4, 2000)
        noise = np.where(np.arange(2000) < 600, 2.0, 0.7)
        y = 0.1 * arm + 0.5 * x[:, 0] + noise * rng.normal(size=2000)
        alarms += law_of(batch_of(x, arm, y), market()).p <= 0.05
    assert alarms <= 7  # more come with probability 0.001


def test_the_size_of_a_change_is_told_though_contexts_drift() -> None:
    """A column that is nearly time itself takes most of a step; what is left says 0.5 again."""
    rng = np.random.default_rng(0)
    n = 20_000
    t = np.arange(n) / n
    x, arm = rng.normal(size=(n, 2)), rng.integers(0, 4, n)
    x[:, 0] = 4 * t + 0.5 * x[:, 0]
    y = 0.5 * x[:, 0] + 0.5 * (t > 0.6) + rng.normal(size=n)
    found = law_of(batch_of(x, arm, y), market()).changes
    assert [change.what for change in found] == ["the level of the reward"]
    assert found[0].after - found[0].before == pytest.approx(0.5, abs=0.1)


def test_few_rows_an_arm_are_judged_all_the_same() -> None:
    """25 arms with 48 rows each and 14 columns of φ: slopes are shared, and a step is found."""
    rng = np.random.default_rng(1)
    n = 1200
    x, arm = rng.normal(size=(n, 4)), rng.integers(0, 25, n)
    y = 0.05 * arm + 0.5 * x[:, 0] + rng.normal(size=n)
    instance = market(25, columns="abcd")
    assert not law_of(batch_of(x, arm, y), instance, 0.01).changes
    found = law_of(batch_of(x, arm, y - 0.8 * (np.arange(n) > 0.6 * n)), instance, 0.01)
    assert found.changes[0].split == pytest.approx(60, abs=5)
    assert found.changes[0].after - found.changes[0].before == pytest.approx(-0.8, abs=0.3)


# Scales


def scaled_log(seed: int = 0, n: int = 2000) -> tuple[Array, Array, Array, Array]:
    rng = np.random.default_rng(seed)
    x, arm, s = rng.normal(size=(n, 2)), rng.integers(0, 4, n), rng.uniform(0.5, 2.0, n)
    return x, arm, s, s * (0.2 * arm + 0.3 * x[:, 0]) + rng.normal(size=n)


def test_the_unit_of_a_scale_changes_nothing() -> None:
    """Rewards and scale in cents rather than in euros: the same verdicts, tests and weights."""
    x, arm, s, y = scaled_log()
    found = [
        certify(
            batch_of(np.column_stack((x, c * s)), arm, c * y),
            market(scale=True),
            BANDIT,
            full=False,
        ).as_json()
        for c in (1.0, 100.0)
    ]
    for one, other in zip(found[0]["arms"], found[1]["arms"], strict=True):
        assert one["verdict"] == other["verdict"]
        for name in ("rows", "weight", "n_eff", "standard_error"):
            assert one[name] == pytest.approx(other[name], rel=1e-6)
    for one, other in zip(found[0]["tests"], found[1]["tests"], strict=True):
        assert one["p"] == pytest.approx(other["p"], rel=1e-6)


def test_scaled_sums_teach_what_scaled_rows_teach() -> None:
    x, arm, s, y = scaled_log()
    instance, batch = market(scale=True), batch_of(np.column_stack((x, 10 * s)), arm, y)
    certificate = certify(batch, instance, BANDIT, full=False)
    group = np.zeros(1, dtype=np.int64)
    by_rows, by_sums = (turn.init(instance, BANDIT, group) for _ in range(2))
    warm_start(certificate, batch, instance, BANDIT, by_rows, group)
    assert certificate.statistics is not None
    warm_start_from_sums(certificate, certificate.statistics, instance, BANDIT, by_sums)
    for name in ("weight", "estimate", "rest"):
        mine, theirs = getattr(by_rows.bandit, name), getattr(by_sums.bandit, name)
        np.testing.assert_allclose(mine, theirs, rtol=1e-6, err_msg=name)
    np.testing.assert_allclose(by_rows.bandit.count, by_sums.bandit.count, rtol=0.1)


# The bias of contexts


def test_equal_times_hide_no_bias() -> None:
    """A log with one date for all rows has no other folds; its bias is seen all the same."""
    log = made_log(KINDS["c"], 5000)
    dated, undated = (
        certify(replace(log.batch, time=time), log.instance, log.bandit, full=False)
        for time in (log.batch.time, np.zeros(5000))
    )
    assert undated.verdict == "adjust"
    for one, other in zip(dated.arms, undated.arms, strict=True):
        assert one.bias == pytest.approx(other.bias, abs=0.06)


def test_the_interval_of_a_bias_holds_where_slopes_differ_a_little() -> None:
    """Slopes 0.3 to 0.6: one common slope predicts nearly as well, and its b̂ is off."""
    held = 0
    slopes, pull = np.array([0.3, 0.4, 0.5, 0.6]), np.array([-1.5, -0.5, 0.5, 1.5])
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(4000, 2))
        arm = (x[:, :1] * pull + rng.gumbel(size=(4000, 4))).argmax(axis=1)
        y = slopes[arm] * x[:, 0] + rng.normal(size=4000)
        _, sums = summed(batch_of(x, arm, y), market(), BANDIT)
        found, _ = bias_of(arm_sums(sums.moments, 1.0), 0.95)
        middle = x[:, 0].mean()
        truth = [slopes[a] * (x[arm == a, 0].mean() - middle) for a in range(4)]
        held += int(((found.low[0] <= truth) & (truth <= found.high[0])).sum())
    assert held >= 68  # of 80; with the best pooling alone 48


# Overrides


def contrast(arm: Array, over: Array, x: Array, y: Array, level: float) -> Contrast:
    """Return approved against overridden rows, as the certificate compares them."""
    n, k = y.size, int(arm.max()) + 1
    z = np.column_stack((np.ones(n), x))
    moments = np.zeros((1, k + 1, 2, z.shape[1] + 1, z.shape[1] + 1))
    for a in range(k):
        for o in range(2):
            some = np.column_stack((z, y))[(arm == a) & (over == o)]
            moments[0, a, o] = some.T @ some
    none = np.zeros(n, dtype=np.int64)
    rows = LawRows(z, y, np.ones(n), arm * 2 + over, none, np.zeros(n), none)
    found = contrast_of(moments, rows, level)
    assert found is not None
    return found


def test_overridden_rows_of_another_spread_are_no_private_information() -> None:
    """3 % are overridden, with twice the noise: at 0.05, 2 alarms of 40 are expected, not 23."""
    alarms = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x, arm = rng.normal(size=4000), rng.integers(0, 4, 4000)
        over = (rng.random(4000) < 0.03).astype(int)
        y = 0.5 * x + (1 + over) * rng.normal(size=4000)
        alarms += contrast(arm, over, x, y, 0.05).p <= 0.05
    assert alarms <= 7  # more come with probability 0.001 of a test of this size


@pytest.mark.parametrize(
    ("n", "overridden", "rate"),
    [(4000, 0.05, 0.01), (4000, 0.02, 0.004), (2000, 0.01, None), (2000, 0.03, "skewed")],
    ids=["one in a hundred", "four in a thousand", "four rows an arm", "skewed rewards"],
)
def test_few_overridden_rows_and_rare_outcomes_are_no_private_information(
    n: int, overridden: float, rate: float | str | None
) -> None:
    """Nobody knew anything: at 0.05, 2 alarms of 40 are expected, and 38 intervals hold 0.

    With each arm's own variance there were 18 to 54 alarms of a hundred, and 27 to 77 intervals.
    More than 7 alarms come with probability 0.001 of a test of this size.
    """
    alarms = held = doubted = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x, arm = rng.normal(size=(n, 2)), rng.integers(0, 5, n)
        over = (rng.random(n) < overridden).astype(int)
        y = rng.normal(size=n)
        if rate == "skewed":
            y = np.exp(1.5 * y)
        elif isinstance(rate, float):
            y = (rng.random(n) < rate).astype(float)
        found = contrast(arm, over, x, y, 0.05)
        alarms += found.p <= 0.05
        held += found.low <= 0.0 <= found.high
        doubted += found.posterior < 0.05
    assert alarms <= 7
    assert held >= 33
    assert doubted <= 4


def test_what_overriders_knew_of_rare_outcomes_is_found() -> None:
    """One outcome in fifty, one in seven where a person overrides: 10 of 10 logs say so."""
    held = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x, arm = rng.normal(size=(6000, 2)), rng.integers(0, 5, 6000)
        over = (rng.random(6000) < 0.05).astype(int)
        y = (rng.random(6000) < np.where(over, 1 / 7, 1 / 50)).astype(float)
        found = contrast(arm, over, x, y, 0.01)
        assert found.p <= 0.01
        assert found.posterior < 0.05
        held += found.low < 1 / 7 - 1 / 50 < found.high
    assert held >= 8  # of 10 intervals of 95 %; fewer come with probability 0.01


def test_a_law_and_a_gate_that_change_together_are_no_private_information() -> None:
    """Rewards fall by 1 when overrides become more frequent: rows are compared from then on."""
    log = made_log(Kind(falls=1.0, approves_later=0.3), 10_000, replicate=3)
    certificate = certify(log.batch, log.instance, log.bandit, full=False)
    assert certificate.treatment.first > 0
    assert certificate.treatment.overrides > 0.5


# What is promised is what is taught


def test_a_curve_learns_as_many_rows_as_the_certificate_says() -> None:
    """Overrides believed wholly, all rows on an arm: Σ of the rows' weights is Σ of n_eff."""
    for kind in ("b", "c"):
        log = made_log(KINDS[kind], 3000)
        instance = replace(log.instance, rules=Rules(select="nominal", overrides="all"))
        curve = CurveThompson(link="identity", degree=2, prior_mean=(0, 0, 0), prior_sd=(1, 1, 1))
        certificate = certify(log.batch, instance, curve, full=False)
        group = np.zeros(1, dtype=np.int64)
        state = turn.init(instance, certificate.plan.bandit, group)
        taught = warm_start(
            certificate, log.batch, instance, certificate.plan.bandit, state, group
        ).log
        on_arms = sum(arm.n_eff for arm in certificate.arms)
        assert taught.weight.sum() == pytest.approx(on_arms, rel=0.1)


def test_a_curve_in_a_delta_that_never_moves_does_not_read_the_context() -> None:
    """Higher arms ran in better contexts. The additive form sees these through δ alone: 1."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(3000, 2))
    arm = np.clip(np.round(1.5 + x[:, 0] + 0.7 * rng.normal(size=3000)), 0, 3).astype(int)
    batch = batch_of(x, arm, 2.0 * x[:, 0] + 0.3 * rng.normal(size=3000))
    settings: dict[str, Any] = {"link": "identity", "degree": 2, "prior_sd": 5.0}
    told = {}
    for form in ("relative", "additive"):
        curve = CurveThompson(form=form, **settings)
        certificate = certify(batch, market(), curve, full=False)
        told[form] = [(one.verdict, one.weight) for one in certificate.arms]
    assert told["additive"] == told["relative"]
    assert ("direct", 1.0) not in told["additive"]
    both = StackedThompson((CurveThompson(**settings), CurveThompson(form="additive", **settings)))
    assert both.reads == {"delta"}
    certificate = certify(batch, market(), both, full=False)
    assert ("direct", 1.0) not in [(one.verdict, one.weight) for one in certificate.arms]


# What must not break


@pytest.mark.parametrize("name", ["dosing", "kalman", "tools", "moderation"])
def test_logs_in_which_nothing_ran_or_came_are_refused(name: str) -> None:
    domain = load(name)
    instance = domain.instance
    n, columns = 30, len(instance.actions)
    rng = np.random.default_rng(0)
    x = rng.uniform(0.1, 0.9, (n, instance.context.width))
    zero, time = np.zeros(n, dtype=np.int64), np.zeros(n)
    outcome = np.full((n, len(instance.reward.outcome)), np.nan)
    for action in (np.full((n, columns), np.nan), np.zeros((n, columns))):
        batch = Batch(x, action, outcome, zero, time)
        assert certify(batch, instance, domain.bandit).verdict == "refuse"


def test_outcomes_that_never_vary_are_no_change_and_no_bias() -> None:
    rng = np.random.default_rng(0)
    x, arm = rng.normal(size=(1000, 2)), rng.integers(0, 4, 1000)
    certificate = certify(batch_of(x, arm, np.full(1000, 0.1)), market(), BANDIT)
    assert certificate.verdict == "refuse"  # nor anything to learn from
    assert max(abs(arm.bias) for arm in certificate.arms) < 1e-9
    assert certificate.as_json()["reward_law"]["p"] == 1.0


def test_arms_at_one_place_are_one_to_the_outcome() -> None:
    assert twins(np.array([[1.0], [2.0], [2.0], [1.0]])).tolist() == [0, 1, 1, 0]
