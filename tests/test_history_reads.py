"""A warm start leaves every learner what it reads, on one log where the best arm depends on x."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from gdcb import (
    KLUCB,
    UCB1,
    ArmList,
    BayesUCB,
    BetaThompson,
    BradleyTerryThompson,
    Category,
    ConstantScaler,
    CurveThompson,
    FactoredThompson,
    GaussianThompson,
    GPCurveThompson,
    HierarchicalBetaThompson,
    HierarchicalCurveThompson,
    HierarchicalThompson,
    Identity,
    Instance,
    LinearThompson,
    LinearUCB,
    LogisticArmsThompson,
    LogisticThompson,
    Multiply,
    NormalCurveThompson,
    Number,
    Payoff,
    RelevanceThompson,
    RidgeScaler,
    Scaled,
    Schema,
    SharedLinearThompson,
    SharedLinearUCB,
    StackedThompson,
)
from gdcb import round as turn
from gdcb.arrays import Array
from gdcb.declaration import registered
from gdcb.history import Batch, certify
from gdcb.history.certificate import Certificate
from gdcb.history.warm import warm_start
from gdcb.instances.moderation.banded import BandedThompson
from gdcb.records import Setting

ARMS = np.array([0.7, 0.85, 1.0, 1.15, 1.3])
ROWS = 6000
OVERALL = 2
CURVE: dict[str, Any] = {"degree": 2, "prior_sd": 3.0}
NORMAL = CurveThompson(link="identity", noise=0.3, **CURVE)


@dataclass(frozen=True)
class Trial:
    """A learner, what it reads, and whether the scaler of its instance moves."""

    bandit: Any
    reads: str = ""
    moves: bool = False


# What every registered learner reads. The additive forms read δ, so theirs moves.
TRIALS = {
    "banded-thompson": Trial(BandedThompson.example()),
    "bayes-ucb": Trial(BayesUCB()),
    "beta-thompson": Trial(BetaThompson()),
    "bradley-terry-thompson": Trial(BradleyTerryThompson(("x",)), "x"),
    "curve-thompson": Trial(CurveThompson(**CURVE)),
    "factored-thompson": Trial(FactoredThompson()),
    "gaussian-thompson": Trial(GaussianThompson()),
    "gp-curve-thompson": Trial(GPCurveThompson(link="identity", noise=0.3)),
    "hierarchical-beta-thompson": Trial(HierarchicalBetaThompson()),
    "hierarchical-curve-thompson": Trial(HierarchicalCurveThompson(CurveThompson(**CURVE))),
    "hierarchical-thompson": Trial(HierarchicalThompson()),
    "kl-ucb": Trial(KLUCB()),
    "linear-thompson": Trial(LinearThompson(), "x"),
    "linear-ucb": Trial(LinearUCB(), "x"),
    "logistic-arms-thompson": Trial(LogisticArmsThompson(), "x"),
    "logistic-thompson": Trial(LogisticThompson(degree=2, interactions=True), "x"),
    "normal-curve-thompson": Trial(NormalCurveThompson(NORMAL)),
    "relevance-thompson": Trial(RelevanceThompson(tuple(f"near {a}" for a in range(5))), "x"),
    "shared-linear-thompson": Trial(SharedLinearThompson(noise=0.3), "x"),
    "shared-linear-ucb": Trial(SharedLinearUCB(noise=0.3), "x"),
    "stacked-thompson": Trial(
        StackedThompson((NORMAL, replace(NORMAL, form="additive"))), "delta", moves=True
    ),
    "ucb1": Trial(UCB1()),
}
MORE = {
    "additive curve": Trial(replace(NORMAL, form="additive"), "delta", moves=True),
    "additive logistic curve": Trial(CurveThompson(form="additive", **CURVE), "delta", moves=True),
    "additive curve, δ fixed": Trial(replace(NORMAL, form="additive")),
    "additive hierarchical curve": Trial(
        HierarchicalCurveThompson(CurveThompson(form="additive", **CURVE)), "delta", moves=True
    ),
    "additive normal curve": Trial(
        NormalCurveThompson(replace(NORMAL, form="additive")), "delta", moves=True
    ),
    "stack of one that reads x and one that reads nothing": Trial(
        StackedThompson((LogisticThompson(degree=2, interactions=True), CurveThompson(**CURVE))),
        "x",
    ),
    "no context columns": Trial(LinearThompson(features=())),
}


def log_for(trial: Trial) -> tuple[Instance, Batch]:
    """Return the log as the learner's instance has it: classes for those that learn classes.

    Worth falls with (c·δ(x) − 1)², δ = exp(0.3·x): the best arm is 1.3 at x = −1, 0.7 at x = 1 and
    1.0 over all contexts. It also rises with x, and higher arms ran more often where x is high, so
    that plain averages over the arms' rows prefer a higher arm.
    """
    rng = np.random.default_rng(20)
    x = rng.uniform(-1.0, 1.0, ROWS)
    chance = np.exp(1.2 * x[:, None] * (ARMS - 1.0) / 0.3)
    chance /= chance.sum(axis=1, keepdims=True)
    arm = (rng.random((ROWS, 1)) > chance.cumsum(axis=1)).sum(axis=1).clip(0, 4)
    delta = np.exp(0.3 * x)
    near = np.exp(-6.0 * (ARMS * delta[:, None] - 1.0) ** 2)
    worth = near[np.arange(ROWS), arm]
    is_class = trial.bandit.target == "class"
    if isinstance(trial.bandit, BradleyTerryThompson):
        rival = rng.integers(5, size=ROWS)
        gap = 6.0 * (worth - near[np.arange(ROWS), rival])
        y = (rng.random(ROWS) < 1.0 / (1.0 + np.exp(-gap))).astype(float)
        columns = {"x": x, "rival": ARMS[rival]}
    else:
        level = 0.1 + 0.45 * worth + 0.2 * (1.0 + x)
        number = rng.random(ROWS)
        y = number < level if is_class else level + 0.5 * x + 0.3 * rng.normal(size=ROWS)
        columns = {"x": x}
    if isinstance(trial.bandit, RelevanceThompson):
        columns |= {f"near {a}": near[:, a] for a in range(5)}
    is_named = isinstance(trial.bandit, RelevanceThompson)
    scaler = RidgeScaler(features=("x",), penalty=1e-3) if trial.moves else ConstantScaler()
    instance = Instance(
        context=Schema({name: Number(-2.0, 2.0) for name in columns}),
        arms=ArmList(names=tuple("abcde")) if is_named else ArmList(values=tuple(ARMS)),
        composition=Identity(severity=False) if is_named else Multiply(names=("e",)),
        gate=[],
        reward=Payoff(outcome=("y",)) if is_class else Scaled(outcome=("y",)),
        scaler=scaler,
    )
    action = (arm.astype(float) if is_named else ARMS[arm])[:, None]
    batch = Batch(
        np.stack(list(columns.values()), axis=1),
        action * delta[:, None] if trial.moves else action,
        np.asarray(y, dtype=float)[:, None],
        np.zeros(ROWS, dtype=np.int64),
        np.arange(float(ROWS)),
        label=0.3 * x[:, None] if trial.moves else None,
    )
    return instance, batch


def started(trial: Trial) -> tuple[Certificate, list[int]]:
    """Return the certificate, and the arms that are best at x = −1 and x = 1 after a warm start."""
    instance, batch = log_for(trial)
    bandit: Any = instance.bind(trial.bandit)
    certificate = certify(batch, instance, bandit, full=False)
    group = np.zeros(1, dtype=np.int64)
    state = turn.init(instance, bandit, group)
    warm_start(certificate, batch, instance, bandit, state, group)
    zero, x = np.zeros(2, dtype=np.int64), contexts(instance)
    at = Setting(zero, x, instance.scaler.predict(state.scaler, zero, x))
    mean = bandit.mean(state.bandit, at, instance.space.nominal)
    return certificate, np.broadcast_to(mean, (2, 5)).argmax(axis=1).tolist()


def contexts(instance: Instance) -> Array:
    """Return the contexts x = −1 and x = 1, the middle arm for a rival."""
    x = np.array([-1.0, 1.0])
    near = np.exp(-6.0 * (ARMS * np.exp(0.3 * x)[:, None] - 1.0) ** 2)
    columns = {"x": x, "rival": np.ones(2)} | {f"near {a}": near[:, a] for a in range(5)}
    return np.stack([columns[name] for name in instance.context.columns], axis=1)


def test_every_registered_learner_is_tried() -> None:
    assert sorted(TRIALS) == sorted(registered("bandit"))


@pytest.mark.parametrize("name", [*TRIALS, *MORE])
def test_a_warm_start_keeps_what_the_learner_reads(name: str) -> None:
    """A learner that reads the context finds a high arm at x = −1 and a low one at x = 1.

    The best one or the next: lines in x bend less than the truth. The others find the best arm over
    all contexts. One fixed log of 6,000 rows, so that nothing is random.
    """
    trial = (TRIALS | MORE)[name]
    certificate, best = started(trial)
    assert certificate.verdict != "refuse"
    if trial.reads:
        assert best[0] in (3, 4)
        assert best[1] in (0, 1)
        taken = certificate.treatment.slopes
        assert taken is None or certificate.plan.part is not None, "context was taken off whole"
    else:
        assert set(certificate.treatment.verdicts) & {"adjust", "reweight"}
        assert best == [OVERALL, OVERALL]


def test_columns_that_the_learner_does_not_read_are_named() -> None:
    """Outcomes and arms may hang on a column that is not among its features."""
    instance, batch = log_for(TRIALS["linear-thompson"])
    instance = replace(instance, context=Schema({"x": Number(-2, 2), "busy": Number(-2, 2)}))
    busy = np.random.default_rng(1).uniform(-1, 1, (ROWS, 1))
    batch = replace(batch, x=np.concatenate((batch.x, busy), axis=1))
    for features, is_told in ((("x",), True), (("*",), False)):
        bandit = instance.bind(LinearThompson(features))
        certificate = certify(batch, instance, bandit, full=False)
        told = [reason for reason in certificate.reasons if "does not read" in reason]
        assert [("busy" in reason) for reason in told] == [True] * is_told


@pytest.mark.parametrize(
    ("features", "named"),
    [
        (("x", "flat=Sea", "flat=City"), ""),
        (("x", "flat=Sea"), "flat=Quay and flat=City"),
    ],
)
def test_a_level_that_the_others_imply_is_not_called_unread(
    features: tuple[str, ...], named: str
) -> None:
    """Whoever reads all levels of a category but one knows that one, too."""
    instance, batch = log_for(TRIALS["linear-thompson"])
    flats = Category(("Quay", "Sea", "City"))
    instance = replace(instance, context=Schema({"x": Number(-2, 2), "flat": flats}))
    which = np.eye(3)[np.random.default_rng(1).integers(0, 3, ROWS)]
    batch = replace(batch, x=np.concatenate((batch.x, which), axis=1))
    bandit = instance.bind(LinearThompson(features))
    reasons = certify(batch, instance, bandit, full=False).reasons
    told = [reason for reason in reasons if "does not read" in reason]
    assert [f"columns {named}:" in reason for reason in told] == ([True] if named else [])


LEVELS = np.array([1.0, 2.0, 3.0])
LINEAR: dict[str, Any] = {"noise": 0.3, "prior_sd": 3.0}
SHARED: dict[str, Any] = {"degree": 2, "interactions": True, "noise": 0.3}
UNREAD: dict[str, tuple[Any, str]] = {
    "lines in another column": (LinearThompson(("load",), **LINEAR), "column"),
    "an index in another column": (LinearUCB(("load",), **LINEAR), "column"),
    "shared lines in another column": (SharedLinearThompson(("load",), **SHARED), "column"),
    "odds in another column": (LogisticArmsThompson(("load",)), "column"),
    "lines where it bends": (LinearThompson(**LINEAR), "bend"),
    "shared lines where it bends": (SharedLinearThompson(**SHARED), "bend"),
    "odds where it bends": (LogisticArmsThompson(), "bend"),
}


@pytest.mark.parametrize("name", UNREAD)
def test_what_arms_were_chosen_by_misleads_nobody_who_does_not_read_it(name: str) -> None:
    """High levels ran in good seasons. A learner of another column, or of lines where worth bends
    with the season, found the worst one best, with the verdict `direct`.

    Level 1 is best by 0.15, and 3 is worst, in every season.
    """
    bandit, kind = UNREAD[name]
    is_class, n = bandit.target == "class", 4000
    rng = np.random.default_rng(8)
    season, load = rng.uniform(-1, 1, n), rng.uniform(0, 1, n)
    good = season if kind == "column" else 2.0 * np.abs(season) - 1.0
    # Classes are weighed, and weights are cut: there every arm ran somewhere in every season.
    chance = np.exp((1.0 if is_class else 3.0) * good[:, None] * np.array([-1.0, 0.0, 1.0]))
    chance /= chance.sum(axis=1, keepdims=True)
    arm = (rng.random((n, 1)) > chance.cumsum(axis=1)).sum(axis=1).clip(0, 2)
    worth = 1.5 * good + np.array([0.15, 0.0, -0.3])[arm] + 0.2 * load
    y = worth + 0.3 * rng.normal(size=n)
    if is_class:
        y = (rng.random(n) < 0.5 + 0.2 * worth).astype(float)
    instance = Instance(
        context=Schema({"season": Number(-1, 1), "load": Number(0, 1)}),
        arms=ArmList(values=tuple(LEVELS)),
        composition=Multiply(names=("e",)),
        gate=[],
        reward=Payoff(outcome=("y",)) if is_class else Scaled(outcome=("y",)),
    )
    x, zero = np.stack((season, load), axis=1), np.zeros(n, dtype=np.int64)
    batch = Batch(x, LEVELS[arm][:, None], y[:, None], zero, np.arange(float(n)))
    bandit = instance.bind(bandit)
    certificate = certify(batch, instance, bandit, full=False)
    assert certificate.verdict == ("reweight" if is_class else "adjust")
    state, one = turn.init(instance, bandit, np.zeros(1, dtype=np.int64)), np.zeros(1, np.int64)
    warm_start(certificate, batch, instance, bandit, state, one)
    at = np.array([[s, 0.5] for s in (-0.6, 0.0, 0.6)])
    setting = Setting(np.zeros(3, dtype=np.int64), at, np.ones((3, 1, 1)))
    mean = bandit.mean(state.bandit, setting, instance.space.nominal)
    assert mean.argmax(axis=1).tolist() == [0, 0, 0]


@pytest.mark.parametrize(("n", "k", "seed"), [(10_000, 4, 1), (10_000, 4, 2), (2000, 3, 0)])
def test_a_learner_of_the_right_odds_keeps_its_arms(n: int, k: int, seed: int) -> None:
    """An incumbent took the arm that it thought best in nine rows of ten, from what is logged.

    The learner's model is the true one. Lines through probabilities bend where log odds are
    straight: arms with up to 2,000 rows were refused for that, and the learner then did worse than
    the incumbent.
    """
    rng = np.random.default_rng(seed)
    x, weights = rng.normal(size=(n, 2)), 0.8 * rng.normal(size=(k, 2))
    eta, thought = -1.0 + x @ weights.T, weights + 0.3 * rng.normal(size=weights.shape)
    chance = np.full((n, k), 0.1 / k)
    chance[np.arange(n), (x @ thought.T).argmax(axis=1)] += 0.9
    arm = (rng.random((n, 1)) > chance.cumsum(axis=1)).sum(axis=1).clip(0, k - 1)
    sold = rng.random(n) < 1.0 / (1.0 + np.exp(-eta[np.arange(n), arm]))
    instance = Instance(
        context=Schema({"x": Number(-9, 9), "y": Number(-9, 9)}),
        arms=ArmList(names=tuple("abcd"[:k])),
        composition=Identity(severity=False),
        gate=[],
        reward=Payoff(outcome=("sold",)),
    )
    bandit, zero = instance.bind(LogisticArmsThompson()), np.zeros(n, dtype=np.int64)
    batch = Batch(x, arm[:, None] * 1.0, sold[:, None] * 1.0, zero, np.arange(float(n)))
    certificate = certify(batch, instance, bandit, full=False)
    assert [one.refused_for for one in certificate.arms] == [""] * k
    one = np.zeros(1, dtype=np.int64)
    state = turn.init(instance, bandit, one)
    warm_start(certificate, batch, instance, bandit, state, one)
    mean = bandit.mean(state.bandit, Setting(zero, x, np.ones((n, 1, 1))), instance.space.nominal)
    earns = 1.0 / (1.0 + np.exp(-eta[np.arange(n), mean.argmax(axis=1)]))
    assert earns.mean() > sold.mean()
