"""The seven domains: they run, regret splits and falls, replicates are apart, truth is true."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

from gdcb import Category, Flag, Schema
from gdcb import round as turn
from gdcb.analysis import Ledger, regret_parts
from gdcb.arrays import Array
from gdcb.composition import Add, Identity, KalmanGain, Multiply, Prompt
from gdcb.errors import InvalidInput
from gdcb.instances import NAMES, Domain, load
from gdcb.records import Log, Rows, flatten, to_bytes
from gdcb.simulate import Simulation, Turn, World, simulate
from gdcb.streams import ADVANCE, CONTEXT, OUTCOME, WORLD, Stream
from tests.builders import stream

ROUNDS, REPLICATES = 300, 50


@dataclass
class Seen:
    """Every row of a run: regret (rounds, rows, 4), and what happened to the proposals."""

    domain: Domain
    parts: list[Array] = field(default_factory=list)
    vetoed: list[float] = field(default_factory=list)
    modified: list[float] = field(default_factory=list)
    overridden: list[float] = field(default_factory=list)
    rows: list[Rows] = field(default_factory=list)
    delta: list[Array] = field(default_factory=list)
    versions: int = 0

    def __call__(self, played: Turn) -> None:
        parts = regret_parts(self.domain.instance, self.domain.world, played)
        columns = (parts.total, parts.calibration, parts.bandit, parts.gate)
        self.parts.append(np.stack(columns, axis=1))
        self.vetoed.append(float(played.executed.is_null.mean()))
        self.modified.append(float((played.verdict.status == 1).mean()))
        self.overridden.append(float(played.executed.is_override.mean()))
        self.versions = int(played.decision.version.max())
        if played.t % 30 == 0:
            self.rows.append(played.rows)
            self.delta.append(played.decision.delta)


# A whole run


def the_parts_sum_to_the_total(seen: Seen) -> None:
    """Calibration, bandit and gate sum to the regret in every row of every round, to 1e-9."""
    parts = np.array(seen.parts)
    assert parts.shape == (ROUNDS, REPLICATES * seen.domain.units, 4)
    assert np.abs(parts[..., 0] - parts[..., 1:].sum(axis=-1)).max() < 1e-9


def calibration_and_bandit_are_not_negative(seen: Seen) -> None:
    """Only the gate's part has a sign."""
    parts = np.array(seen.parts)
    assert np.isfinite(parts).all()
    assert parts[..., 1].min() >= -1e-9
    assert parts[..., 2].min() >= -1e-9


def regret_falls(seen: Seen) -> None:
    """The last 50 rounds lose less than the first 50: a paired one-sided t test over the 50
    replicates at 1e-3. Seven domains: a false alarm of 0.7 %, and the seed is fixed."""
    total = np.array(seen.parts)[..., 0].reshape(ROUNDS, REPLICATES, -1).mean(axis=-1)
    first, last = total[:50].mean(axis=0), total[-50:].mean(axis=0)
    result = stats.ttest_rel(first, last, alternative="greater")
    assert result.pvalue < 1e-3
    assert seen.versions >= 5  # the scaler was published along the way


def contexts_lie_in_the_declared_schema(seen: Seen) -> None:
    """Every context that the world shows could have been sent by a client, to the last bit."""
    schema = seen.domain.instance.context
    for rows in seen.rows:
        contexts = [decoded(schema, x) for x in rows.x]
        assert schema.encode(contexts).tobytes() == rows.x.tobytes()
        seen.domain.instance.check_rows(rows, rows.n)


def decoded(schema: Schema, x: Array) -> dict[str, Any]:
    """Return encoded columns as named fields."""
    context: dict[str, Any] = {}
    for name, kind in schema.columns.items():
        values = x[schema.positions[name]]
        if isinstance(kind, Flag):
            context[name] = bool(values[0])
        elif isinstance(kind, Category):
            context[name] = kind.levels[int(values.argmax())]
        else:
            context[name] = float(values[0])
    return context


def locating_inverts_composing(seen: Seen) -> None:
    """Under the domain's own contexts and fitted δ, what arm a proposes is located at arm a.

    Arms with the same coordinate (0.7·1.1 and 0.77) are one; a step is far more than 1e-6.
    """
    instance = seen.domain.instance
    coords = instance.space.coords
    arms = np.arange(instance.space.n)
    categorical = isinstance(instance.composition, KalmanGain)
    for rows, delta in zip(seen.rows, seen.delta, strict=True):
        e = instance.composition.compose(instance.space, delta, rows.x)
        located = instance.composition.locate(instance.space, e, delta, rows.x)
        assert np.isfinite(e).all()
        assert located.steps.max() < 1e-6
        if categorical or instance.space.is_exact.any():
            assert (located.arm == arms).all()
        else:
            assert np.abs(located.coord - coords).max() < 1e-9
            assert np.abs(coords[located.arm] - coords).max() < 1e-9


def what_the_gate_does_happens(seen: Seen) -> None:
    """Proposals are changed in every domain, vetoed where a rule or a person may say no, and
    overridden only where there is a person."""
    name = seen.domain.instance.name
    chain = seen.domain.instance.chain
    vetoes = {"dosing", "grid", "moderation", "tools", "kalman"}
    assert (np.mean(seen.vetoed) > 0) == (name in vetoes)
    assert (np.mean(seen.modified) > 0) == (name != "tools")
    assert (np.mean(seen.overridden) > 0) == chain.has_person


@pytest.mark.parametrize("name", NAMES)
def test_a_whole_run(name: str) -> None:
    """300 rounds of 50 replicates, once: the parts sum, two are not negative, regret falls,
    contexts lie in the schema, locating inverts composing, and the gate does its work.

    One test a domain and not one a claim, so that no worker repeats the run.
    """
    domain = load(name)
    seen = Seen(domain)
    simulate(
        domain.instance,
        domain.bandit,
        domain.world,
        rounds=ROUNDS,
        replicates=REPLICATES,
        units=domain.units,
        seed=1,
        watch=seen,
    )
    for check in (
        the_parts_sum_to_the_total,
        calibration_and_bandit_are_not_negative,
        regret_falls,
        contexts_lie_in_the_declared_schema,
        locating_inverts_composing,
        what_the_gate_does_happens,
    ):
        check(seen)


# What each domain has


@cache
def domain_of(name: str) -> Domain:
    return load(name)


def next_context(domain: Domain, arm: int) -> tuple[Rows, Array]:
    """Return the rows and contexts of the second round after every unit ran `arm`."""
    group = np.repeat(np.arange(3), domain.units)
    world, instance = domain.world, domain.instance
    state = world.start(stream(1, WORLD), group)
    rows = world.context(stream(1, CONTEXT), state, 0, group)
    fresh = turn.init(instance, domain.bandit, group)
    delta, _ = turn.scale(instance, fresh, rows)
    e = instance.composition.compose(instance.space, delta, rows.x)[:, arm]
    outcome = world.sample(stream(1, OUTCOME), state, e, rows)
    state = world.advance(stream(1, ADVANCE), state, e, outcome, rows)
    return rows, world.context(stream(2, CONTEXT), state, 1, group).x


FEATURES: dict[str, dict[str, Any]] = {
    "str": {
        "arms": (25, 25),
        "composition": Multiply,
        "columns": 1,
        "person": True,
        "hard": True,
        "target": "class",
    },
    "dosing": {
        "arms": (5, 7),
        "composition": Add,
        "columns": 1,
        "person": True,
        "hard": True,
        "target": "reward",
        "endogenous": True,
    },
    "credit": {
        "arms": (15, 15),
        "composition": Multiply,
        "columns": 2,
        "hard": True,
        "target": "class",
    },
    "grid": {
        "arms": (5, 5),
        "composition": Add,
        "columns": 1,
        "hard": True,
        "target": "reward",
        "endogenous": True,
    },
    "moderation": {
        "arms": (3, 3),
        "composition": Identity,
        "columns": 2,
        "person": True,
        "hard": True,
        "target": "class",
        "cells": True,
        "hidden": True,
    },
    "tools": {
        "arms": (3, 99),
        "composition": Prompt,
        "columns": 3,
        "hard": True,
        "target": "class",
        "mask": True,
        "arm_axis": True,
        "endogenous": True,
    },
    "kalman": {
        "arms": (2, 9),
        "composition": KalmanGain,
        "columns": 2,
        "person": True,
        "hard": True,
        "target": "reward",
        "arm_axis": True,
        "endogenous": True,
    },
}


def test_there_are_seven() -> None:
    """The catalogue has the seven domains of the paper, in its order, and no other name."""
    assert list(NAMES) == list(FEATURES)
    with pytest.raises(InvalidInput, match="no instance 'poker'"):
        load("poker")


@pytest.mark.parametrize("name", FEATURES)
def test_a_domain_has_what_the_table_says(name: str) -> None:
    """Arms, Φ, scaler, gate, reward, masks, hidden columns, cells and memory as section 3 has
    them; memory is tried out: two different actions, and does the next context differ?"""
    domain, wanted = domain_of(name), FEATURES[name]
    instance = domain.instance
    low, high = wanted["arms"]
    assert low <= instance.space.n <= high
    assert isinstance(instance.composition, wanted["composition"])
    assert len(instance.actions) == wanted["columns"]
    assert instance.chain.has_person == wanted.get("person", False)
    assert instance.chain.gates[-1].is_hard == wanted["hard"]
    assert instance.reward.target == wanted["target"]
    assert bool(instance.cells.edges) == wanted.get("cells", False)
    assert (instance.scaler.n_arms > 1) == wanted.get("arm_axis", False)
    assert instance.scaler.n_labels == instance.scaler.n_arms * instance.scaler.n_columns > 0
    assert domain.units >= 2
    assert len(domain.about) > 200
    assert "Made:" in domain.about
    assert "Real:" in domain.about
    rows, after = next_context(domain, 0)
    _, other = next_context(domain, 1)
    endogenous = wanted.get("endogenous", False)
    assert (after.tobytes() != other.tobytes()) == endogenous
    assert domain.is_endogenous == endogenous
    assert (rows.mask is not None) == wanted.get("mask", False)
    assert (rows.hidden is not None) == wanted.get("hidden", False)


def test_every_feature_is_somewhere() -> None:
    """Each thing that a round can do is done by at least one domain."""
    domains = [domain_of(name).instance for name in NAMES]
    assert any(instance.cells.edges for instance in domains)
    assert any(instance.scaler.n_arms > 1 for instance in domains)
    assert any(instance.scaler.n_columns > 1 for instance in domains)
    assert any(instance.scaler.per == "unit" for instance in domains)
    assert any(len(instance.actions) > 1 for instance in domains)
    assert any(instance.null.teaches for instance in domains)
    assert any(instance.null.columns for instance in domains)
    assert any(len(instance.chain.gates) > 2 for instance in domains)
    assert any(not instance.chain.has_person for instance in domains)
    assert {type(domain_of(name).bandit).__name__ for name in NAMES} == {
        "BetaThompson",
        "CurveThompson",
        "HierarchicalThompson",
    }


# Truth


@pytest.mark.parametrize("name", NAMES)
def test_the_mean_is_the_mean_of_samples(name: str) -> None:
    """μ(e, x) is E[r | e, x]: 20,000 samples of every unit's arm, and of nothing running.

    |z| < 5.2 in each of at most 24 cells and seven domains: a false alarm of 3e-5 in all, by
    the central limit theorem; the seed is fixed.
    """
    domain = domain_of(name)
    instance, world = domain.instance, domain.world
    group = np.repeat(np.arange(3), domain.units)
    state = world.start(stream(5, WORLD), group)
    rows = world.context(stream(5, CONTEXT), state, 0, group)
    fresh = turn.init(instance, domain.bandit, group)
    delta, _ = turn.scale(instance, fresh, rows)
    e = instance.composition.compose(instance.space, delta, rows.x)
    e = e[np.arange(rows.n), np.arange(rows.n) % instance.space.n]
    nothing = instance.null.of(rows.x, e.shape[1])
    n = 20_000
    many = rows.take(np.repeat(np.arange(rows.n), n))
    for place, action in enumerate((e, nothing)):
        expected = world.mean(state, action[:, None], rows)[:, 0]
        outcome = world.sample(stream(6, place), state, np.repeat(action, n, axis=0), many)
        instance.reward.check(outcome)
        reward = instance.realised(outcome, np.repeat(action, n, axis=0), many.x)
        reward = reward.reshape(rows.n, n)
        error = reward.std(axis=1, ddof=1) / n**0.5
        assert (np.abs(reward.mean(axis=1) - expected) <= 5.2 * error + 1e-9).all()


@pytest.mark.parametrize("name", NAMES)
def test_the_optimum_is_best(name: str) -> None:
    """No candidate, and no arm under any δ tried, is worth more than e*."""
    domain = domain_of(name)
    instance, world = domain.instance, domain.world
    group = np.repeat(np.arange(6), domain.units)
    state = world.start(stream(7, WORLD), group)
    rows = world.context(stream(7, CONTEXT), state, 0, group)
    best = world.mean(state, world.best(state, rows)[:, None], rows)
    fresh = turn.init(instance, domain.bandit, group)
    delta, _ = turn.scale(instance, fresh, rows)
    assert (world.mean(state, world.candidates(state, rows), rows) <= best + 1e-9).all()
    for factor in (0.7, 1.0, 1.4):
        e = instance.composition.compose(instance.space, factor * delta, rows.x)
        assert (world.mean(state, e, rows) <= best + 1e-9).all()


# Replicates are apart


def kept(
    domain: Domain, world: World, replicates: int, rounds: int
) -> tuple[Ledger, Log, Simulation]:
    ledger = Ledger(domain.instance, world, rounds, replicates)
    run = simulate(
        domain.instance,
        domain.bandit,
        world,
        rounds=rounds,
        replicates=replicates,
        units=domain.units,
        seed=3,
        watch=ledger,
        keep_log=True,
    )
    assert run.log is not None
    return ledger, run.log, run


def assert_equal_replicates(
    one: tuple[Ledger, Log, Simulation], two: tuple[Ledger, Log, Simulation], which: Array
) -> None:
    """Compare some replicates of two runs, byte for byte: ledgers, logs and learned arms."""
    for name in ("parts", "reward", "overridden", "vetoed"):
        left, right = getattr(one[0], name)[:, which], getattr(two[0], name)[:, which]
        assert left.tobytes() == right.tobytes(), name
    logs = [log.take(np.flatnonzero(np.isin(log.group, which))) for _, log, _ in (one, two)]
    assert to_bytes(logs[0]) == to_bytes(logs[1])
    units = [np.isin(run.group, which) for _, _, run in (one, two)]
    arrays = [flatten(run.state.null) for _, _, run in (one, two)]
    for name in arrays[0]:
        assert arrays[0][name][units[0]].tobytes() == arrays[1][name][units[1]].tobytes()
    contrasts = [run.state.contrast for _, _, run in (one, two)]
    assert contrasts[0].totals[which].tobytes() == contrasts[1].totals[which].tobytes()
    cells = [np.isin(contrast.group, which) for contrast in contrasts]
    sums = [part.sums[index].tobytes() for part, index in zip(contrasts, cells, strict=True)]
    assert sums[0] == sums[1]


@pytest.mark.parametrize("name", NAMES)
def test_replicates_do_not_depend_on_their_number(name: str) -> None:
    """The first 7 of 50 replicates are the 7 of a run of 7, bit for bit."""
    domain = domain_of(name)
    many = kept(domain, domain.world, 50, 80)
    few = kept(domain, domain.world, 7, 80)
    assert_equal_replicates(many, few, np.arange(7))


def test_replicates_do_not_depend_on_other_blocks() -> None:
    """Random numbers come in blocks of 100 replicates; the first 7 of 103 are those of 7."""
    domain = domain_of("credit")
    many = kept(domain, domain.world, 103, 15)
    few = kept(domain, domain.world, 7, 15)
    assert_equal_replicates(many, few, np.arange(7))


@dataclass(frozen=True)
class Perturbed:
    """A world in which the outcomes of one replicate come out otherwise."""

    world: Any
    replicate: int

    def start(self, rng: Stream, group: Array) -> Any:
        return self.world.start(rng, group)

    def context(self, rng: Stream, state: Any, t: int, group: Array) -> Rows:
        rows: Rows = self.world.context(rng, state, t, group)
        return rows

    def mean(self, state: Any, e: Array, rows: Rows) -> Array:
        return np.asarray(self.world.mean(state, e, rows))

    def best(self, state: Any, rows: Rows) -> Array:
        return np.asarray(self.world.best(state, rows))

    def candidates(self, state: Any, rows: Rows) -> Array:
        return np.asarray(self.world.candidates(state, rows))

    def sample(self, rng: Stream, state: Any, e: Array, rows: Rows) -> Array:
        outcome = np.asarray(self.world.sample(rng, state, e, rows)).copy()
        outcome[rows.group == self.replicate, 0] = 1.0
        return outcome

    def label(self, rng: Stream, state: Any, e: Array, rows: Rows) -> Array:
        label = np.asarray(self.world.label(rng, state, e, rows)).copy()
        label[rows.group == self.replicate] += 0.3
        return label

    def advance(self, rng: Stream, state: Any, e: Array, outcome: Array, rows: Rows) -> Any:
        return self.world.advance(rng, state, e, outcome, rows)


@pytest.mark.parametrize("name", NAMES)
def test_one_replicate_never_disturbs_another(name: str) -> None:
    """Other outcomes and labels in replicate 3 change it, and no byte of the others."""
    domain = domain_of(name)
    plain = kept(domain, domain.world, 8, 60)
    other = kept(domain, Perturbed(domain.world, 3), 8, 60)
    assert_equal_replicates(plain, other, np.array([0, 1, 2, 4, 5, 6, 7]))
    assert plain[0].parts[:, 3].tobytes() != other[0].parts[:, 3].tobytes()


def test_a_run_can_be_repeated() -> None:
    """The same seed gives the same bytes, another seed others."""
    domain = domain_of("moderation")

    def state(seed: int) -> bytes:
        run = simulate(
            domain.instance,
            domain.bandit,
            domain.world,
            rounds=20,
            replicates=3,
            units=4,
            seed=seed,
        )
        return to_bytes(run.state)

    assert state(1) == state(1)
    assert state(1) != state(2)


@pytest.mark.parametrize("bad", ["rounds", "replicates", "units"])
def test_a_run_of_nothing_is_refused(bad: str) -> None:
    """Rounds, replicates and units are whole numbers of at least one."""
    domain = domain_of("credit")
    counts: dict[str, Any] = {"rounds": 1, "replicates": 1, "units": 1} | {bad: 0}
    with pytest.raises(InvalidInput, match=f"{bad}: expected a whole number >= 1"):
        simulate(domain.instance, domain.bandit, domain.world, **counts)
