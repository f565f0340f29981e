"""Starting warm from a history, and single blocks of replicates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from gdcb import (
    Approval,
    ArmList,
    BetaThompson,
    Bounds,
    Chain,
    CurveThompson,
    Instance,
    LogLinearScaler,
    Multiply,
    Number,
    NumberKernel,
    Payoff,
    Schema,
    SimulatedPerson,
    StackedThompson,
)
from gdcb import round as turn
from gdcb.arrays import Array, logistic
from gdcb.bandits import Bandit, HierarchicalCurveThompson
from gdcb.credit import evidence
from gdcb.errors import GdcbError, InvalidInput
from gdcb.records import (
    Decision,
    History,
    Log,
    Rows,
    Verdict,
    copy,
    flatten,
    to_bytes,
)
from gdcb.refold import warm_up
from gdcb.simulate import Simulation, Turn, simulate
from gdcb.streams import CONTEXT, DRAW, GATE, OUTCOME, WORLD, Stream, Streams
from tests.builders import Coins, choosing, with_rules
from tests.parts.builders import Worth

REPLICATES, UNITS, PAST = 3, 2, 60  # rounds of the past: 120 rows a group
BEFORE = 2**40  # far from the rounds of any run
ADDITIVE = CurveThompson(form="additive", prior_sd=2.0)


@dataclass(frozen=True)
class Shop:
    """Sales at σ(level − 4·(log(e/100) − ½·busy)); a level of its own for every unit."""

    def start(self, rng: Stream, group: Array) -> Array:
        return 0.3 * rng.normal(group.size)

    def context(self, rng: Stream, state: Array, t: int, group: Array) -> Rows:
        busy = 2.0 * rng.uniform(group.size) - 1.0
        x = np.column_stack((np.full(group.size, 100.0), busy))
        return Rows(np.arange(group.size), group, x)

    def mean(self, state: Array, e: Array, rows: Rows) -> Array:
        worth = e[..., 0] * self.chance(state, e[..., 0], rows)
        return np.where(np.isnan(worth), 0.0, worth)

    def chance(self, state: Array, e: Array, rows: Rows) -> Array:
        felt = np.log(e / 100.0) - 0.5 * rows.x[:, 1:]
        return np.asarray(logistic(state[rows.unit][:, None] - 4.0 * felt))

    def best(self, state: Array, rows: Rows) -> Array:
        return np.full((rows.n, 1), 100.0)

    def candidates(self, state: Array, rows: Rows) -> Array:
        return np.tile(np.linspace(50.0, 200.0, 31)[:, None], (rows.n, 1, 1))

    def sample(self, rng: Stream, state: Array, e: Array, rows: Rows) -> Array:
        return np.asarray(rng.uniform(rows.n)[:, None] < self.chance(state, e, rows), dtype=float)

    def label(self, rng: Stream, state: Array, e: Array, rows: Rows) -> None:
        return None

    def advance(self, rng: Stream, state: Array, e: Array, outcome: Array, rows: Rows) -> Array:
        return state


def approve(e: Array, rows: Rows) -> Array:
    """Approve less of what is dear."""
    return np.asarray(logistic(3.0 - e[..., 0] / 50.0))


def own(rows: Rows) -> Array:
    """Want 95 and a little more on busy days."""
    return 95.0 + 20.0 * rows.x[:, 1:]


def shop(**changes: Any) -> Instance:
    """Return the instance: a day signal fitted on sales, a manager, bounds of 50 to 200."""
    manager = Approval(
        SimulatedPerson(approve, own, spread=5.0), NumberKernel(features=("busy",), base=("base",))
    )
    parts: dict[str, Any] = {
        "context": Schema({"base": Number(1, 1000), "busy": Number(-1, 1)}),
        "arms": ArmList(values=(0.7, 0.85, 1.0, 1.15, 1.3)),
        "composition": Multiply(base=("base",), names=("price",)),
        "scaler": LogLinearScaler(factors={"busy": ("busy",)}, every=10, sure=0.5),
        "gate": Chain((manager, Bounds(low=50.0, high=200.0))),
        "reward": Payoff(outcome=("booked",), action=0),
    }
    return with_rules(Instance(**(parts | changes)), overrides="all")


def past(
    instance: Instance, replicates: int = REPLICATES, units: int = UNITS, rounds: int = PAST
) -> History:
    """Return what a policy of prices at random left, behind the same gates."""
    group = np.repeat(np.arange(replicates), units)
    world, streams = Shop(), Streams(9, rows_per_replicate=units)
    state = world.start(streams.at(WORLD, 0), group)
    parts: list[tuple[Log, Rows, Verdict]] = []
    for t in range(BEFORE, BEFORE + rounds):
        rows = world.context(streams.at(CONTEXT, t), state, t, group)
        price = 60.0 + 90.0 * streams.at(DRAW, t).uniform(group.size, 1)
        draws = instance.chain.draw(streams.at(GATE, t), rows.n)
        verdict = instance.chain.apply(draws, price, rows)
        executed = turn.execute(instance, verdict, rows)
        outcome = world.sample(streams.at(OUTCOME, t), state, executed.action, rows)
        none = np.full(group.size, -1)
        decision = Decision(none, price, price, none, price, price[:, None])
        parts.append((turn.finished(instance, rows, decision, executed, outcome), rows, verdict))
    logs, contexts, verdicts = zip(*parts, strict=True)
    return History(
        Log.concatenate(list(logs)),
        Rows.concatenate(list(contexts)),
        Verdict.concatenate(list(verdicts)),
    )


@dataclass
class Watch:
    """Keeps what a run was at its first decision, and every decision's bytes."""

    first: Any = None
    delta: Array | None = None
    version: Array | None = None

    def __call__(self, seen: Turn) -> None:
        if seen.t == 0:
            self.first, self.delta = copy(seen.state), seen.decision.delta.copy()
            self.version = seen.decision.version.copy()


def played(
    instance: Instance, bandit: Bandit, rounds: int = 1, **settings: Any
) -> tuple[Simulation, Watch]:
    """Run the shop; return the run, and what it knew at its first decision."""
    watch = Watch()
    given: dict[str, Any] = {"replicates": REPLICATES, "units": UNITS, "seed": 4, "keep_log": True}
    run = simulate(instance, bandit, Shop(), rounds=rounds, watch=watch, **(given | settings))
    return run, watch


def known(instance: Instance, state: turn.RoundState, bandit: Bandit, log: Log) -> Any:
    """Return what the arms know of finished rows under the δ in force: an exact fit."""
    group = np.repeat(np.arange(REPLICATES), UNITS)
    fresh: Any = bandit.init(group, instance.space)
    delta, in_force = turn.scale(instance, state, log)
    any_bandit: Any = bandit
    any_bandit.refit(fresh, evidence(instance, log, delta, in_force)[0])
    return fresh


def require_close(found: Any, expected: Any, within: float = 1e-9) -> None:
    """Compare two records of arrays."""
    wanted = flatten(expected)
    for name, array in flatten(found).items():
        np.testing.assert_allclose(array, wanted[name], rtol=0, atol=within, err_msg=name)


# Warm ----------------------------------------------------------------------------------------


def test_a_history_is_known_at_the_first_decision() -> None:
    """The scaler has its exact fit in force (version 1), the arms that of what ran under this δ,
    kernels learned the manager; without a history all have their priors."""
    instance = shop()
    history = past(instance)
    watch = played(instance, ADDITIVE, history=history)[1]
    scaler: Any = instance.scaler
    fitted = scaler.init(REPLICATES)
    log = history.log
    action = instance.composition.relative(log.action, log.x)
    scaler.refit(fitted, np.arange(3), log.group, log.x, action, log.y, log.weight)
    require_close(watch.first.scaler.posterior, fitted.posterior)
    np.testing.assert_array_equal(watch.version, 1)
    np.testing.assert_allclose(
        watch.first.scaler.theta[:, 0], scaler.estimate(fitted, np.arange(3))[0]
    )
    assert watch.delta is not None
    assert np.abs(np.log(watch.delta)).max() > 0.05
    require_close(watch.first.bandit, known(instance, watch.first, ADDITIVE, log), 1e-7)
    kernels = turn.init(instance, ADDITIVE, np.repeat(np.arange(3), 2)).kernels
    instance.chain.learn(kernels, history.rows, history.verdict)
    for one, other in zip(watch.first.kernels, kernels, strict=True):
        if one is not None:
            assert to_bytes(one) == to_bytes(other)
    cold = played(instance, ADDITIVE)[1]
    assert to_bytes(cold.first) == to_bytes(
        turn.init(instance, ADDITIVE, np.repeat(np.arange(3), 2))
    )
    np.testing.assert_array_equal(cold.delta, 1.0)


def test_half_a_history_warms_one_loop() -> None:
    """'scaler': arms have the prior. 'arms': δ is neutral, and they know what ran under it.
    Neither: the gates' kernels only, which learn in every case."""
    instance = shop()
    history = past(instance)
    both, scaler, arms, neither = (
        played(instance, ADDITIVE, history=history, teaches=teaches)[1].first
        for teaches in (("scaler", "arms"), ("scaler",), ("arms",), ())
    )
    prior = turn.init(instance, ADDITIVE, np.repeat(np.arange(3), 2))
    assert to_bytes(scaler.scaler) == to_bytes(both.scaler)
    assert to_bytes(scaler.bandit) == to_bytes(neither.bandit) == to_bytes(prior.bandit)
    assert to_bytes(arms.scaler) == to_bytes(neither.scaler) == to_bytes(prior.scaler)
    require_close(arms.bandit, known(instance, prior, ADDITIVE, history.log), 1e-7)
    assert np.abs(arms.bandit.mean - both.bandit.mean).max() > 1e-3
    for one in (scaler, arms, neither):
        assert to_bytes(one.kernels[0]) == to_bytes(both.kernels[0])
    assert to_bytes(prior.kernels[0]) != to_bytes(both.kernels[0])


def test_the_manager_is_known_beforehand() -> None:
    """What is expected of prices of 70 to 150 is within 10 of the truth after 400 verdicts; a
    kernel that has seen none trusts the proposal and is off by more than 20."""
    instance = shop()
    state = turn.init(instance, ADDITIVE, np.zeros(2, dtype=np.int64))
    history = past(instance, replicates=1, rounds=200)
    rows = Rows(np.zeros(1, dtype=int), np.zeros(1, dtype=int), np.array([[100.0, 0.5]]))
    e = np.array([[[70.0], [90.0], [110.0], [130.0], [150.0]]])

    worth = Worth(lambda e, centre: e[..., 0] + 0.0 * centre, np.zeros(1), np.zeros(1))
    p = approve(e, rows)
    truth = p * e[..., 0] + (1.0 - p) * own(rows)
    off = []
    for _ in range(2):
        expected = instance.chain.gates[0].expect(worth, e, rows, state.kernels[0])
        off.append(np.abs(expected - truth).max())
        warm_up(instance, ADDITIVE, state, history, np.zeros(2, dtype=np.int64), ())
    assert off[0] > 20.0
    assert off[1] < 10.0


@pytest.mark.parametrize("teaches", [("scaler", "arms"), ("scaler",), ("arms",)])
def test_a_history_stays_part_of_every_fit(teaches: tuple[str, ...]) -> None:
    """5 rounds of 2 units: each group publishes after its 10th row. The scaler is then the fit of
    the past and the run together, and so are the arms under it; of the run alone where the past
    does not teach them. The log that is returned is the run's."""
    instance = shop()
    history = past(instance)
    run = played(instance, ADDITIVE, rounds=5, history=history, teaches=teaches)[0]
    assert run.log is not None
    assert run.log.unit.size == 5 * REPLICATES * UNITS
    together = Log.concatenate([history.log, run.log])
    scaler: Any = instance.scaler
    log = together if "scaler" in teaches else run.log
    fitted = scaler.init(REPLICATES)
    action = instance.composition.relative(log.action, log.x)
    scaler.refit(fitted, np.arange(3), log.group, log.x, action, log.y, log.weight)
    require_close(run.state.scaler.posterior, fitted.posterior)
    changed = run.state.scaler.versions > int("scaler" in teaches)
    assert changed.any()
    log = together if "arms" in teaches else run.log
    expected = known(instance, run.state, ADDITIVE, log)
    units = np.repeat(changed, UNITS)
    np.testing.assert_allclose(run.state.bandit.mean[units], expected.mean[units], atol=1e-7)


def test_too_short_a_history_publishes_nothing_and_still_teaches_the_arms() -> None:
    """One round: β is not clearly above 0, so δ stays neutral; its rows wait for the next try."""
    instance = shop(scaler=LogLinearScaler(factors={"busy": ("busy",)}, every=10, sure=3.0))
    history = past(instance, rounds=1)
    first = played(instance, ADDITIVE, history=history)[1].first
    assert not first.scaler.theta.any()
    assert (first.scaler.versions.tolist(), first.scaler.since.tolist()) == ([0] * 3, [2] * 3)
    assert first.bandit.mean.any()


def test_warm_is_better_than_cold() -> None:
    """Mean expected revenue of 10 rounds in 40 replicates, common random numbers: the paired
    difference is more than 4 standard errors above 0."""
    instance = shop()
    history = past(instance, replicates=40)
    gains = []
    for given in (history, None):
        worth = np.zeros((10, 40))

        def watch(seen: Turn, worth: Array = worth) -> None:
            mean = Shop().mean(seen.world, seen.executed.action[:, None], seen.rows)[:, 0]
            worth[seen.t] = mean.reshape(40, UNITS).mean(axis=1)

        settings: dict[str, Any] = {"replicates": 40, "units": UNITS, "seed": 4}
        simulate(instance, ADDITIVE, Shop(), rounds=10, watch=watch, history=given, **settings)
        gains.append(worth.mean(axis=0))
    gap = gains[0] - gains[1]
    assert gap.mean() > 4.0 * gap.std(ddof=1) / np.sqrt(40)


# Blocks --------------------------------------------------------------------------------------

LEARNERS: dict[str, Any] = {
    "flat": BetaThompson(),
    "curve": CurveThompson(),
    "hierarchical": HierarchicalCurveThompson(ADDITIVE, own_sd=0.4),
    "stack": StackedThompson((CurveThompson(), ADDITIVE)),
}


def half(history: History, units: int) -> History:
    """Return the rows of replicates 100 to 199 under their numbers in a run of their own."""
    index = np.flatnonzero(history.rows.group >= 100)
    log, rows = history.log.take(index), history.rows.take(index)
    unit, group = rows.unit - 100 * units, rows.group - 100
    return History(
        replace(log, unit=unit, group=group),
        replace(rows, unit=unit, group=group),
        history.verdict.take(index),
    )


def seen_in(
    instance: Instance, bandit: Any, replicates: int, units: int, **settings: Any
) -> tuple[Simulation, dict[str, Array]]:
    """Return a run of 12 rounds, and what each decided, ran and earned."""
    kept: dict[str, list[Array]] = {}

    def watch(seen: Turn) -> None:
        for name, array in (
            ("x", seen.rows.x),
            ("worth", seen.decision.worth),
            ("delta", seen.decision.delta),
            ("action", seen.executed.action),
            ("outcome", seen.outcome),
            ("reward", seen.reward),
        ):
            kept.setdefault(name, []).append(array.copy())

    run = simulate(
        instance,
        bandit,
        Shop(),
        rounds=12,
        replicates=replicates,
        units=units,
        seed=6,
        watch=watch,
        **settings,
    )
    return run, {name: np.stack(arrays) for name, arrays in kept.items()}


@pytest.mark.parametrize("is_warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("name", LEARNERS)
def test_a_block_alone_is_the_block_of_one_long_run(name: str, is_warm: bool) -> None:
    """Replicates 100 to 199 run by themselves: contexts, draws, actions and outcomes of 12 rounds,
    publications in between, and all that was learned have the bytes of a run of 200."""
    bandit, units = LEARNERS[name], 2
    instance = shop()
    history = past(instance, replicates=200, units=units, rounds=20) if is_warm else None
    whole, long = seen_in(instance, bandit, 200, units, history=history)
    later = None if history is None else half(history, units)
    alone, short = seen_in(instance, bandit, 100, units, history=later, first_block=1)
    for field, array in short.items():
        assert array.tobytes() == long[field][:, 100 * units :].tobytes(), field
    learned = flatten(whole.state)
    for field, array in flatten(alone.state).items():
        rows = {200 * units: 100 * units, 200: 100}.get(learned[field].shape[0])
        if rows is not None and array.shape[0] in (100 * units, 100) and "group" not in field:
            assert array.tobytes() == learned[field][rows:].tobytes(), field
    assert (whole.state.scaler.versions > int(is_warm)).any()
    first = seen_in(instance, bandit, 100, units)[1]
    assert first["x"].tobytes() == long["x"][:, : 100 * units].tobytes()
    assert not (first["x"][..., 1] == short["x"][..., 1]).any()


def test_betas_with_later_tries_do_not_show_the_block() -> None:
    """Counts below 1, for which a third of the candidates are rejected: 250 replicates of 3 arms,
    whole and from 100 or 200 on."""
    instance, world = choosing(3), Coins((0.2, 0.5, 0.6))
    bandit = BetaThompson(wins=0.3, losses=0.4)
    runs = {
        block: simulate(
            instance,
            bandit,
            world,
            rounds=30,
            replicates=250 - 100 * block,
            seed=8,
            first_block=block,
        )
        for block in (0, 1, 2)
    }
    counts = runs[0].state.bandit.counts
    for block in (1, 2):
        assert runs[block].state.bandit.counts.tobytes() == counts[100 * block :].tobytes()


# What is refused -----------------------------------------------------------------------------


def test_loops_that_do_not_exist_are_refused() -> None:
    """With and without a history, and before the world starts."""

    @dataclass(frozen=True)
    class Never(Shop):
        def start(self, rng: Stream, group: Array) -> Array:
            raise AssertionError("started")

    instance = shop()
    wrong: tuple[Any, ...] = (("arms", "gate"), "arms", ["arms"], None, (1,))
    for teaches in wrong:
        for history in (None, past(instance, 1, 1, 2)):
            given: dict[str, Any] = {"rounds": 1, "replicates": 1, "history": history}
            with pytest.raises(InvalidInput, match="teaches: expected some of scaler, arms, got"):
                simulate(instance, ADDITIVE, Never(), teaches=teaches, **given)


@pytest.mark.parametrize("block", [-1, 0.5, "1", None, True])
def test_blocks_that_do_not_exist_are_refused(block: Any) -> None:
    """A block is a whole number from 0 up."""
    with pytest.raises(InvalidInput, match="first_block: expected a whole number >= 0, got"):
        simulate(shop(), ADDITIVE, Shop(), rounds=1, replicates=1, first_block=block)


@pytest.mark.parametrize("settings", [{"first_block": 1}, {"history": "some"}])
def test_a_device_takes_neither(settings: dict[str, Any]) -> None:
    """They are refused by name."""
    if "history" in settings:
        settings = {"history": past(shop(), 1, 1, 2)}
    with pytest.raises(InvalidInput, match="a warm start and single blocks run on NumPy only"):
        simulate(
            choosing(2),
            BetaThompson(),
            Coins((0.5, 0.5)),
            rounds=1,
            replicates=1,
            device="cpu",
            **settings,
        )


def spoilt(history: History, name: str) -> History:
    """Return a history with one thing wrong in its last row."""
    log, rows, verdict = copy(history.log), copy(history.rows), copy(history.verdict)
    last = rows.n - 1
    if name == "unit":
        rows.unit[last] = log.unit[last] = 6
    elif name == "group":
        rows.group[last] = log.group[last] = 0
    elif name == "apart":
        log.unit[last] = 4
    elif name == "x":
        rows.x[last, 1] = np.nan
    elif name == "width":
        rows.x = rows.x[:, :1]
    elif name == "y":
        log.y[last] = 2.0
    elif name == "nan":
        log.y[last] = np.nan
    elif name == "weight":
        log.weight[last] = -1.0
    elif name == "arm":
        log.arm[last] = 5
    elif name == "short":
        log = log.take(np.arange(last))
    elif name == "verdict":
        verdict = verdict.take(np.arange(last))
    return History(log, rows, verdict)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("unit", "unit: expected 0 to 5, got"),
        ("group", "history: expected every unit in the group that it has here"),
        ("apart", "history: expected the same units and groups in log and rows"),
        ("x", "x: expected finite floating-point numbers"),
        ("width", "x: expected at least one row of 2 columns"),
        ("y", r"history: expected outcomes in \[0, 1\]"),
        ("nan", "y: expected 360 numbers within"),
        ("weight", "weight: expected 360 finite numbers >= 0"),
        ("arm", "arm: expected -1 to 4"),
        ("short", r"history: expected 360 rows in log and verdict, got \(359, 360\)"),
        ("verdict", r"history: expected 360 rows in log and verdict, got \(360, 359\)"),
    ],
)
def test_a_bad_history_is_refused_and_teaches_nobody(name: str, message: str) -> None:
    """Neither loop, nor the kernels; a run with it does not begin."""
    instance = shop()
    history = spoilt(past(instance), name)
    group = np.repeat(np.arange(REPLICATES), UNITS)
    state = turn.init(instance, ADDITIVE, group)
    before = to_bytes(state)
    with pytest.raises(InvalidInput, match=message):
        warm_up(instance, ADDITIVE, state, history, group)
    assert to_bytes(state) == before
    with pytest.raises(GdcbError, match=message):
        played(instance, ADDITIVE, history=history)


def test_who_only_watches_need_not_learn_from_the_last_round() -> None:
    """What is seen is the same; the last round is neither learned nor logged."""

    def run(learns_last: bool) -> tuple[list[Array], Simulation]:
        seen: list[Array] = []
        found = simulate(
            shop(),
            BetaThompson(),
            Shop(),
            rounds=4,
            replicates=2,
            units=2,
            watch=lambda at: seen.append(at.executed.action.copy()),
            keep_log=True,
            learns_last=learns_last,
        )
        return seen, found

    (every, whole), (watched, short) = run(True), run(False)
    assert len(watched) == 4
    np.testing.assert_array_equal(np.stack(watched), np.stack(every))
    assert whole.log is not None
    assert short.log is not None
    np.testing.assert_array_equal(short.log.y, whole.log.y[:-4])
    taught = [float(one.state.bandit.counts.sum()) for one in (whole, short)]
    assert taught[0] == pytest.approx(taught[1] + np.isfinite(whole.log.y[-4:]).sum())
