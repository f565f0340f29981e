"""What holds of the theorems for an instance: measured against the truth, and by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gdcb import round as turn
from gdcb.arms import ArmList
from gdcb.arrays import Array
from gdcb.bandits import GaussianThompson
from gdcb.composition import Identity
from gdcb.context import Number, Schema
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.instances.str_pricing.columns import OCCUPANCY
from gdcb.instances.str_pricing.learners import UNTUNED
from gdcb.protocol.block import run_setup
from gdcb.protocol.ground import Shared, shared_by
from gdcb.protocol.methods import Setup, build
from gdcb.protocol.record import Record
from gdcb.protocol.report.read import read
from gdcb.protocol.specialise import specialised
from gdcb.protocol.specialise.measured import (
    CONTEXTS,
    Past,
    bias_of,
    cross_of,
    eta_of,
    past_of,
    ratio_of,
    trust_of,
)
from gdcb.protocol.specialise.runs import look
from gdcb.protocol.specialise.variance import variance
from gdcb.protocol.task import Options, Task
from gdcb.records import Log
from gdcb.scalers import ConstantScaler

EPISODES, REPLICATES = 20, 10


def drawn(
    variant: str = "well",
    options: Options = (),
    episodes: int = EPISODES,
    replicates: int = REPLICATES,
) -> tuple[Shared, Setup]:
    shared = shared_by(Task("str", variant, options, 3, episodes, 0, replicates, ""))
    return shared, build(shared.study, "B4", {"B4": UNTUNED})


@pytest.fixture(scope="module")
def world() -> tuple[Shared, Setup]:
    return drawn()


def record(parts: Array, paper: Array | None = None) -> Record:
    """Return a record of these parts (T, R, 3), whose total is their sum."""
    shape = parts.shape[:2]
    one, bins = np.ones(shape), np.ones((shape[1], 36))
    total = parts.sum(axis=-1, keepdims=True)
    missing = np.full((*shape, 3), np.nan) if paper is None else paper
    whole = np.concatenate((total, parts), axis=-1)
    return Record(whole, missing, one, one, 0.25 * one, one, one, bins, bins)


def even(calibration: float, bandit: float, gate: float) -> Array:
    """Return the same parts in every episode, and replicates a per cent or so apart."""
    sizes = 1.0 + 0.01 * np.arange(REPLICATES)
    parts = sizes[:, None] * np.array([calibration, bandit, gate])
    return np.tile(parts, (EPISODES, 1, 1))


def figures(found: dict[str, Any], theorem: str) -> dict[str, Any]:
    return {one["name"]: one["value"] for one in found["theorems"][theorem]["figures"]}


def notes(found: dict[str, Any], theorem: str) -> dict[str, str]:
    return {one["name"]: one["note"] for one in found["theorems"][theorem]["figures"]}


class Once(Mapping[str, Record]):
    """Records that may be read once each."""

    def __init__(self, records: dict[str, Record]) -> None:
        self._records = dict(records)
        self._keys = list(records)

    def __getitem__(self, key: str) -> Record:
        return self._records.pop(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def test_whole_document_is_plain_and_repeatable(world: tuple[Shared, Setup]) -> None:
    shared, setup = world
    task = Task("str", "well", (), 3, EPISODES, 0, REPLICATES, "B4")
    run = run_setup(setup, shared, task)
    found = specialised(shared, Once({"B4": run}), 3, setup)
    again = specialised(shared, {"B4": run}, 3, setup)
    text = json.dumps(found, allow_nan=False)
    assert text == json.dumps(again, allow_nan=False)
    assert set(found["theorems"]) == {"t1", "t2", "t3", "t4"}
    head = {"instance": "str", "episodes": EPISODES, "replicates": REPLICATES}
    page = read({**head, **json.loads(text)})
    assert page.variance_ratio is not None
    for theorem in page.theorems.values():
        assert theorem is not None
        assert theorem.statement.endswith(".")
        assert theorem.verdict.endswith(".")
        assert all(name and note for name, _, note in theorem.figures)
    assert figures(found, "t3")["largest rest, main split"] < 1e-9
    assert "Both splits sum" in found["theorems"]["t3"]["verdict"]


def true_ratio(shared: Shared, noise: float) -> float:
    """Return Var_x D/σ² from the world itself: best arm and its rival, market by market."""
    instance, found = shared.instance, []
    for rows in shared.world.nights:
        actions = instance.composition.compose(instance.space, np.ones((rows.n, 1, 1)), rows.x)
        relative = instance.composition.relative(np.ones((rows.n, 1)), rows.x)
        found.append(shared.world.mean(shared.world.state, actions, rows) * relative)
    n_groups = shared.delta.shape[0]
    means = np.stack(found).reshape(len(found), n_groups, -1, instance.space.n)
    spreads = []
    for group in range(n_groups):
        mean = means[:, group].reshape(-1, instance.space.n)
        gap = mean - mean[:, [mean.mean(axis=0).argmax()]]
        spreads.append(gap[:, np.maximum(gap, 0).mean(axis=0).argmax()].var())
    return float(np.mean(spreads)) / noise


def test_variance_ratio_holds_the_truth(world: tuple[Shared, Setup]) -> None:
    """A 95 % interval, one fixed seed."""
    shared, setup = world
    ratio = ratio_of(past_of(shared, setup), 3)
    assert ratio.low <= true_ratio(shared, ratio.noise) <= ratio.high
    assert ratio.high < 0.2
    found = specialised(shared, {}, 3, setup)
    assert found["variance_ratio"]["mean"] == ratio.ratio
    assert found["variance_ratio"]["advice"] == ratio.advice
    assert set(found["variance_ratio"]["paper"]) == {"mean", "low", "high"}
    spread = np.log(shared.delta).var(axis=1)
    assert figures(found, "t1")["Var log δ°"]["mean"] == pytest.approx(spread.mean())


@pytest.mark.parametrize("kind", ["plain", "changing"])
def test_eta_is_the_chance_of_approval(kind: str) -> None:
    """η(x) = p(x) for a person who approves with p(x), until the bounds make arms one."""
    shared, setup = drawn(options=(("manager", kind),))
    found = eta_of(shared, past_of(shared, setup))
    nights, units = shared.world.nights, REPLICATES * shared.study.domain.units
    when = np.arange(CONTEXTS) * EPISODES // CONTEXTS
    x = np.array([nights[t].x[i % units] for i, t in enumerate(when)])
    p = 0.55 + 0.3 * x[:, OCCUPANCY]
    if kind == "changing":
        p -= 0.3 * (when >= EPISODES // 2)
    assert (found.eta <= p + 1e-12).all()
    assert (np.abs(found.eta - p) < 1e-12).mean() > 0.9
    assert found.by_gate["revenue manager"] == pytest.approx(p.mean())
    assert found.by_gate["price bounds"] == 1.0


def test_scaler_makes_history_usable(world: tuple[Shared, Setup]) -> None:
    shared, setup = world
    found = specialised(shared, {"B4": record(even(1.0, 2.0, 3.0))}, 3, setup)
    values = figures(found, "t2")
    assert values["b̂, scaler fitted"]["high"] < values["b̂, scaler off"]["low"]
    assert values["n_eff, scaler off"]["high"] < values["n_eff, scaler fitted"]["low"]
    assert values["n_eff, scaler fitted"]["mean"] <= 1461
    assert values["override rate"]["mean"] == 0.25
    past = 1.0 - shared.history.log.is_own.mean()
    assert values["override rate, history"]["mean"] == pytest.approx(past)
    verdict = found["theorems"]["t2"]["verdict"]
    assert "equality does not hold" in verdict
    assert "the scaler that makes it usable" in verdict


def test_private_information_is_seen() -> None:
    trusts = {}
    for kind in ("plain", "private"):
        shared, setup = drawn(options=(("manager", kind),), episodes=2, replicates=20)
        trusts[kind] = trust_of(past_of(shared, setup))
    assert trusts["plain"] is not None
    assert trusts["private"] is not None
    assert trusts["plain"].mean() > trusts["private"].mean() + 0.1


def test_parts_and_floor_by_hand(world: tuple[Shared, Setup]) -> None:
    shared, setup = world
    parts, paper = even(1.0, 2.0, 7.0), even(8.0, 1.0, 1.0)
    found = specialised(shared, {"B4": record(parts, paper), "B1": record(parts)}, 3, setup)
    values = figures(found, "t3")
    assert values["largest rest, main split"] == 0.0
    assert values["largest rest, paper's order"] < 1e-12
    assert values["dominant part of B4, main split"] == "gate"
    assert values["dominant part of B4, paper's order"] == "bandit"
    share = shared.floor.sum() / parts.sum()
    assert values["gate floor, share of B4's regret"]["mean"] == pytest.approx(share)
    assert notes(found, "t3")["largest rest, main split"].endswith("400 episodes of 2 methods")


def test_share_of_the_floor_has_the_error_of_a_ratio(world: tuple[Shared, Setup]) -> None:
    """Regret that is twice the floor in every replicate: no doubt about one half."""
    shared, setup = world
    regret = 2.0 * shared.floor[..., None] * np.array([0.2, 0.3, 0.5])
    found = specialised(shared, {"B4": record(regret)}, 3, setup)
    part = figures(found, "t3")["gate floor, share of B4's regret"]
    assert [part[end] for end in ("mean", "low", "high")] == pytest.approx([0.5] * 3)
    assert "50 % of it is the gate floor." in found["theorems"]["t3"]["verdict"]


def test_parts_that_do_not_sum_are_told(world: tuple[Shared, Setup]) -> None:
    shared, setup = world
    broken = record(even(1.0, 2.0, 3.0), even(1.0, 2.0, 3.0))
    broken.parts_paper[4, 2, 0] += 0.5
    found = specialised(shared, {"B1": broken}, 3, setup)
    assert figures(found, "t3")["largest rest, paper's order"] == pytest.approx(0.5)
    assert "Both splits do not sum" in found["theorems"]["t3"]["verdict"]


@pytest.mark.parametrize(
    ("high", "without", "told"),
    [
        (
            0.09,
            10.0,
            "saved 40 % of the regret that was there without it. So the ratio does not",
        ),
        (0.11, 10.0, "scaler saved 40 % of the regret that was there without it."),
        (0.09, 6.2, "scaler saved 3 % of the regret that was there without it."),
        (0.09, 4.0, "In this run a scaler did harm"),
    ],
)
def test_advice_is_held_to_the_run(
    world: tuple[Shared, Setup], high: float, without: float, told: str
) -> None:
    """B4 loses 6 an episode; a ratio surely below 0.1 is misleading only where much was saved."""
    shared, setup = world
    past = past_of(shared, setup)
    ratio = replace(ratio_of(past, 3), ratio=0.05, low=0.01, high=high)
    runs = {"B4": record(even(1.0, 2.0, 3.0)), "A1": record(even(without, 0.0, 0.0))}
    found = {"theorems": {"t1": variance(shared, past, look(runs, EPISODES), ratio, "")}}
    verdict = found["theorems"]["t1"]["verdict"]
    assert told in verdict
    assert ("So the ratio does not decide" in verdict) == (high < 0.1 and without > 7.0)
    gap = EPISODES * (without - 6.0) * (1.0 + 0.01 * np.arange(REPLICATES))
    saved = figures(found, "t1")["regret saved by the scaler, A1 − B4"]
    assert saved["mean"] == pytest.approx(gap.mean())


def test_advice_agrees_where_no_difference_can_be_told(world: tuple[Shared, Setup]) -> None:
    shared, setup = world
    same = even(1.0, 2.0, 3.0)
    other = same + np.where(np.arange(REPLICATES) % 2, 0.1, -0.1)[:, None]
    found = specialised(shared, {"B4": record(same), "A1": record(other)}, 3, setup)
    assert "no difference can be told" in found["theorems"]["t1"]["verdict"]


def test_cross_information_bounds_the_sample_size(world: tuple[Shared, Setup]) -> None:
    shared, setup = world
    found = specialised(shared, {}, 3, setup)
    values = figures(found, "t4")
    assert 0.0 < values["ρ²"]["low"] <= values["ρ²"]["mean"] < 1.0
    assert values["1/(1 − ρ²)"]["mean"] >= 1.0 / (1.0 - values["ρ²"]["mean"])  # by convexity
    past = past_of(shared, setup)
    arm = past.evidence(is_scaled=True).arm
    ran = [np.unique(arm[past.rows_of(i)]) for i in range(REPLICATES)]
    assert values["arms that ran"] == np.mean([(arms >= 0).sum() for arms in ran])
    assert "cold start" in found["theorems"]["t4"]["verdict"]


def test_what_was_not_run_is_null_with_a_reason(world: tuple[Shared, Setup]) -> None:
    shared, setup = world
    found = specialised(shared, {}, 3, setup)
    for name, theorem in (
        ("override rate", "t2"),
        ("dominant part of B4, main split", "t3"),
        ("gate floor, share of B4's regret", "t3"),
        ("regret saved by the scaler, A1 − B4", "t1"),
    ):
        assert figures(found, theorem)[name] is None
        assert "not" in notes(found, theorem)[name]
    assert "No method was run" in found["theorems"]["t3"]["verdict"]


def test_outside_the_family_there_is_no_order_of_the_paper() -> None:
    shared, setup = drawn("mis", episodes=EPISODES)
    found = specialised(shared, {"B4": record(even(1.0, 2.0, 3.0))}, 3, setup)
    values = figures(found, "t3")
    assert values["largest rest, paper's order"] is None
    assert values["dominant part of B4, paper's order"] is None
    assert "main split sum to the total" in found["theorems"]["t3"]["verdict"]


@pytest.mark.parametrize("replicates", [1, 3])
def test_short_history_says_that_it_is_short(replicates: int) -> None:
    shared, setup = drawn(options=(("nights", 1),), episodes=2, replicates=replicates)
    found = specialised(shared, {}, 3, setup)
    json.dumps(found, allow_nan=False)
    assert found["variance_ratio"] is None
    assert "not measured" in notes(found, "t1")["variance ratio"]
    assert figures(found, "t4")["ρ²"] is None
    assert "too short" in found["theorems"]["t2"]["verdict"]


def test_one_replicate_has_a_ratio_with_an_interval_of_its_own() -> None:
    shared, setup = drawn(episodes=2, replicates=1)
    found = specialised(shared, {}, 3, setup)
    assert found["variance_ratio"]["low"] < found["variance_ratio"]["high"]
    assert figures(found, "t4")["ρ²"]["low"] is None


def test_scaler_that_does_not_learn_says_nothing(world: tuple[Shared, Setup]) -> None:
    shared, setup = world
    plain = replace(setup.instance, scaler=ConstantScaler(1.0), gate=setup.instance.chain)
    found = specialised(shared, {}, 3, replace(setup, instance=plain))
    assert figures(found, "t2")["b̂, scaler fitted"] is None
    assert figures(found, "t2")["b̂, scaler off"] is not None
    assert figures(found, "t4")["1/(1 − ρ²)"] is None
    assert "does not learn" in notes(found, "t4")["ρ²"]
    assert "neutral δ" in notes(found, "t1")["the paper's ratio"]


def test_records_of_another_length_are_refused(world: tuple[Shared, Setup]) -> None:
    shared, setup = world
    short = record(even(1.0, 2.0, 3.0)[:5])
    with pytest.raises(InvalidInput, match=r"record of B4: expected 20 episodes.*got 5"):
        specialised(shared, {"B4": short}, 3, setup)


def test_arms_without_a_line_are_compared_as_categories() -> None:
    """One arm pays 0, the other x = ∓1: Var D = 1, against a noise of 0.01."""
    instance = Instance(
        Schema({"x": Number()}), ArmList(names=("left", "right")), Identity(severity=False), []
    )
    n = 600
    rng, zero = np.random.default_rng(4), np.zeros(n, dtype=np.int64)
    x, arm = np.where(rng.random((n, 1)) < 0.5, -1.0, 1.0), rng.integers(2, size=n)
    ran, action = np.ones(n, dtype=bool), arm[:, None].astype(float)
    y = x[:, 0] * arm + np.where(rng.random(n) < 0.5, -0.1, 0.1)
    log = Log(zero, zero, x, zero - 1, zero - 1, action, ~ran, ran, ~ran, y, None, np.ones(n))
    state = turn.init(instance, instance.bind(GaussianThompson()), zero[:1])
    delta = np.ones((n, 1, 1))
    past = Past(instance, 1, log, delta, delta, zero, x, x[:50], state, is_fitted=False)
    assert not past.is_on_a_line
    assert 80 < ratio_of(past, 3).ratio < 120
    assert np.abs(bias_of(past, is_scaled=False).bias).max() < 0.2
    assert 0.0 <= cross_of(past, 3)[0].rho2 < 0.05
    assert trust_of(past) is None
