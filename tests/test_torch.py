"""One program on NumPy and on torch: equal draws give equal results, own draws equal statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from scipy import stats

import gdcb.simulate
from gdcb import (
    Add,
    Approval,
    ArmList,
    BetaThompson,
    Bounds,
    Cap,
    Chain,
    ConstantScaler,
    CurveThompson,
    GaussianThompson,
    Grid,
    HierarchicalThompson,
    Identity,
    Instance,
    LinearThompson,
    LinearUCB,
    Multiply,
    Number,
    Payoff,
    PolicyFilter,
    RidgeScaler,
    Rules,
    Scaled,
    Schema,
    SimulatedPerson,
    arrays,
)
from gdcb.analysis import Ledger, gate_floor
from gdcb.arrays import Array, namespace, on_host, put_where
from gdcb.bandits import Bandit
from gdcb.errors import InvalidInput, ValuationError
from gdcb.gates import HardGate
from gdcb.instance import Cells, NullAction
from gdcb.posterior import REFRESH
from gdcb.records import Rows, Setting, flatten, to_host
from gdcb.simulate import Simulation, Turn, simulate
from gdcb.streams import DRAW, OUTCOME
from gdcb.torch_streams import TorchStreams

torch = pytest.importorskip("torch")
EXAMPLE: Any = import_module("examples.device_world")
Nights, pricing = EXAMPLE.Nights, EXAMPLE.pricing

PERSON = Chain(
    (
        Approval(
            SimulatedPerson(
                lambda e, rows: 0.9 - 0.003 * e[..., 0],
                lambda rows: 90.0 + 10.0 * rows.x[:, :1],
                spread=4.0,
                veto=0.2,
            )
        ),
        Bounds(low=50.0, high=130.0),
    )
)
NOMINAL = Rules(select="nominal")
GATES: dict[str, Callable[[], Instance]] = {
    "open": pricing,
    "bounds": lambda: pricing(Bounds(low=50.0, high=110.0)),
    "person": lambda: pricing(PERSON, rules=NOMINAL),
}
BANDITS: dict[str, tuple[Bandit, int]] = {
    "beta": (BetaThompson(), 1),
    "hierarchical": (HierarchicalThompson(0.5, 0.3, 0.2, 0.5), 4),
    "gaussian": (GaussianThompson(0.5, 1.0, 1.0, 0.1), 1),
    "lints": (LinearThompson(noise=0.5), 1),
    "linucb": (LinearUCB(noise=0.5), 1),
}


# Equal draws


class FedStream:
    """Numbers of NumPy's generators by (stage, round, call), handed over as NumPy's or torch's."""

    def __init__(self, place: tuple[int, int], device: Any) -> None:
        self._place, self._device, self._calls = place, device, 0

    def _rng(self) -> np.random.Generator:
        self._calls += 1
        return np.random.default_rng((*self._place, self._calls))

    def _given(self, array: Array) -> Any:
        return array if self._device is None else torch.tensor(array, device=self._device)

    def uniform(self, *shape: int) -> Any:
        return self._given(self._rng().random(shape))

    def normal(self, *shape: int) -> Any:
        return self._given(self._rng().standard_normal(shape))

    def beta(self, counts: Any) -> Any:
        a, b = np.moveaxis(to_host(counts), 1, 0)
        return self._given(stats.beta.ppf(self._rng().random(a.shape), a, b))


class FedStreams:
    """Takes the place of both kinds of streams."""

    def __init__(
        self, seed: int, device: Any = None, rows_per_replicate: int = 1, first_block: int = 0
    ) -> None:
        self._device = device

    def at(self, stage: int, t: int) -> FedStream:
        return FedStream((stage, t), self._device)


@pytest.fixture
def fed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Feed simulations on NumPy and on torch the same numbers."""
    monkeypatch.setattr(gdcb.simulate, "Streams", FedStreams)
    monkeypatch.setattr(gdcb.simulate, "TorchStreams", FedStreams)


def both(instance: Instance, bandit: Bandit, world: Any, **sizes: Any) -> list[Any]:
    """Run on NumPy and on torch; return state, log, verdicts, rewards, regret and floor."""
    found: list[Any] = []
    for device in (None, "cpu"):
        seen: list[tuple[Array, ...]] = []
        ledger = Ledger(instance, world, sizes["rounds"], sizes["replicates"])

        def watch(turn: Turn, seen: Any = seen, ledger: Any = ledger) -> None:
            ledger(turn)
            floor = gate_floor(instance, world, turn)
            verdict, decision = turn.verdict, turn.decision
            parts = (verdict.trail, verdict.statuses, decision.arm, turn.reward, floor)
            seen.append(tuple(to_host(part).copy() for part in parts))

        run = simulate(
            instance, bandit, world, seed=3, watch=watch, keep_log=True, device=device, **sizes
        )
        assert on_host(run.group) is (device is None)
        state = replace(run.state, kernels=())
        arrays = {name: to_host(array) for name, array in flatten((state, run.log)).items()}
        if device is not None and not instance.chain.has_person:
            arrays["0.contrast.sums"] = found[0][0]["0.contrast.sums"]  # it is not kept there
        found.append((arrays, seen, ledger.parts))
    return found


def assert_same(found: list[Any]) -> None:
    """Arrays agree to 1e-12, whole numbers and NaN exactly."""
    (one, seen_one, parts_one), (two, seen_two, parts_two) = found
    assert one.keys() == two.keys()
    for name, array in one.items():
        assert array.dtype == two[name].dtype, name
        np.testing.assert_allclose(two[name], array, rtol=1e-12, atol=1e-12, err_msg=name)
    for these, those in zip(seen_one, seen_two, strict=True):
        for this, that in zip(these, those, strict=True):
            np.testing.assert_allclose(that, this, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(parts_two, parts_one, rtol=1e-12, atol=1e-10)


@pytest.mark.usefixtures("fed")
@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("name", BANDITS)
def test_equal_draws_give_equal_results(name: str, gate: str) -> None:
    """Every decision, verdict, reward, statistic and part of the regret is the same."""
    bandit, units = BANDITS[name]
    assert_same(both(GATES[gate](), bandit, Nights(), rounds=40, replicates=30, units=units))


@dataclass(frozen=True)
class Loans:
    """Rows with a base, a cap of their own and a size; now and then the base is beyond floats."""

    is_class: bool = False
    width: int = 2

    def start(self, rng: Any, group: Any) -> Any:
        return rng.normal(group.shape[0])

    def context(self, rng: Any, state: Any, t: int, group: Any) -> Rows:
        xp, n = namespace(group), group.shape[0]
        u = rng.uniform(n, 3)
        base = put_where(1.0 + u[:, 0], u[:, 0] > 0.95, 1e308)
        x = xp.stack((base, 3.0 + 3.0 * u[:, 1], 0.5 + u[:, 2]), axis=1)
        mask = rng.uniform(n, 6) < 0.8
        mask = mask | ~mask.any(axis=1)[:, None]
        return Rows(xp.arange(n, device=group.device), group, x, mask)

    def mean(self, state: Any, e: Any, rows: Rows) -> Any:
        value = state[rows.unit][:, None] - (e[..., 0] - 4.0) ** 2
        value = value + 0.1 * e[..., -1] * rows.x[:, 1:2]
        value = put_where(value, value != value, -1.0)
        return 1.0 / (1.0 + namespace(e).exp(-value)) if self.is_class else value

    def best(self, state: Any, rows: Rows) -> Any:
        return self.candidates(state, rows)[:, 0]

    def candidates(self, state: Any, rows: Rows) -> Any:
        xp = namespace(rows.x)
        points = xp.asarray(((1.0, 1.0), (2.0, 0.7), (4.0, 2.0)), dtype=xp.float64)
        return xp.tile(points[:, : self.width], (rows.n, 1, 1))

    def sample(self, rng: Any, state: Any, e: Any, rows: Rows) -> Any:
        mean, u = self.mean(state, e[:, None], rows), rng.uniform(rows.n, 1)
        return namespace(u).astype(u < mean, u.dtype) if self.is_class else mean + u - 0.5

    def label(self, rng: Any, state: Any, e: Any, rows: Rows) -> None:
        return None

    def advance(self, rng: Any, state: Any, e: Any, outcome: Any, rows: Rows) -> Any:
        return 0.9 * state + 0.1 * outcome[:, 0]


@dataclass(frozen=True)
class Moody(HardGate):
    """Answers some actions with infinity and some with NaN."""

    on_device: bool = True
    name: str = "moody"

    def project(self, e: Array, rows: Rows) -> Array:
        left = put_where(e, (e[..., :1] > 4.5) & (rows.x[:, None, 2:] > 1.0), np.inf)
        return put_where(left, e[..., :1] < 1.2, np.nan)


LOANS = Schema({"base": Number(), "cap": Number(), "size": Number()})
RATES = Grid({"rate": (1.0, 2.0, 4.0), "tenor": (1.0, 2.0)})
WIDER: dict[str, tuple[Instance, Bandit, Loans]] = {
    "a factor that δ scales and one that it does not, a cap of the row's own, a reward scale": (
        Instance(
            context=LOANS,
            arms=RATES,
            composition=Multiply(base=("base",)),
            gate=Cap(limit=5.0, limit_column="cap"),
            reward=Scaled(scale="size"),
            null=NullAction(action=(1.0, 2.0), mean=-2.0),
        ),
        GaussianThompson(),
        Loans(),
    ),
    "an offset, a gate that answers nonsense before limits that veto": (
        Instance(
            context=LOANS,
            arms=RATES,
            composition=Add(),
            scaler=ConstantScaler(0.5),
            gate=Chain((Moody(), Bounds(low=1.0, high_column="cap", outside="veto"))),
            reward=Scaled(),
        ),
        HierarchicalThompson(),
        Loans(),
    ),
    "an offset for every arm, credit to the proposal": (
        Instance(
            context=LOANS,
            arms=RATES,
            composition=Add(),
            scaler=ConstantScaler(0.5, n_arms=6, n_columns=2),
            gate=Bounds(low=1.0, high=3.4),
            reward=Scaled(scale="size"),
            rules=Rules(credit="proposed"),
        ),
        LinearThompson(features=("cap", "size")),
        Loans(),
    ),
    "categories with a severity, cells of δ, rules that deny": (
        Instance(
            context=LOANS,
            arms=ArmList(names=tuple("abcdef")),
            composition=Identity(),
            scaler=ConstantScaler(0.7),
            cells=Cells((0.2, 0.6, 0.9)),
            gate=PolicyFilter(
                denied=(3,), cost=(1.0, 2.0, 1.0, 1.0, 5.0, 9.0), budget="cap", require="size"
            ),
            reward=Payoff(lose=-0.5),
            null=NullAction(action=(2.0, 0.3), teaches=True),
        ),
        BetaThompson(2.0, 3.0),
        Loans(is_class=True),
    ),
    "a cost, and overrides that only count where approved": (
        Instance(
            context=LOANS,
            arms=ArmList(values=(1.0, 2.0, 3.0, 4.0, 5.0, 6.0), step=0.4),
            composition=Multiply(),
            gate=Chain((Approval(PERSON.gates[0].person), Bounds(high=5.5))),  # type: ignore[attr-defined]
            reward=Payoff(action=0, cost="size", lose=0.25),
            rules=Rules(select="nominal", overrides="approved"),
        ),
        LinearUCB(features=("size",)),
        Loans(is_class=True, width=1),
    ),
}


@pytest.mark.usefixtures("fed")
@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("case", WIDER)
def test_equal_draws_give_equal_results_with_other_parts(case: str) -> None:
    """Masks, vetoes, infinite actions, null actions, cells and scales come out the same."""
    instance, bandit, world = WIDER[case]
    found = both(instance, bandit, world, rounds=25, replicates=40, units=2)
    assert_same(found)
    statuses = np.concatenate([seen[1] for seen in found[0][1]])
    assert {0, 1} <= set(np.unique(statuses)) or {0, 2} <= set(np.unique(statuses))


@pytest.mark.usefixtures("fed")
def test_rank_one_steps_are_put_right_on_a_device() -> None:
    """Beyond the round in which all posteriors are solved for afresh, LinTS still agrees."""
    sizes = {"rounds": REFRESH + 8, "replicates": 2}
    runs = [
        simulate(pricing(), LinearThompson(), Nights(), device=device, **sizes)  # type: ignore[arg-type]
        for device in (None, "cpu")
    ]
    one, two = (to_host(run.state.bandit.weights) for run in runs)
    np.testing.assert_allclose(two.mean, one.mean, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(two.covariance, one.covariance, rtol=1e-9, atol=1e-13)
    assert two.steps.max() <= 8


# What differs between the libraries


def pair(array: Any) -> tuple[Array, Any]:
    """Return an array as NumPy's and as torch's."""
    return np.array(array), torch.tensor(np.array(array))


ODD_NUMBERS = [[1.0, np.nan, -2.0], [np.inf, 0.0, 3.0], [-np.inf, 4.0, -0.5]]
ROW_MASK = [True, False, True]
SAME: dict[str, Callable[[Any, Any, Any], Any]] = {
    "is_finite": lambda x, mask, at: arrays.is_finite(x),
    "all_finite": lambda x, mask, at: arrays.all_finite(x),
    "all_finite, one column": lambda x, mask, at: arrays.all_finite(x[:, :1]),
    "finite_or_nan": lambda x, mask, at: arrays.finite_or_nan(x),
    "at_least": lambda x, mask, at: arrays.at_least(x, 0.5),
    "at_least an array": lambda x, mask, at: arrays.at_least(x, x[:, 2:]),
    "at_most": lambda x, mask, at: arrays.at_most(x, 0.5),
    "at_most an array": lambda x, mask, at: arrays.at_most(x, x[:, 2:]),
    "put_where": lambda x, mask, at: arrays.put_where(x, mask[:, None], -7.0),
    "put_rows": lambda x, mask, at: arrays.put_rows(
        arrays.full((3, 3), 9.0, x), mask, x[arrays.chosen(mask)]
    ),
    "take_at": lambda x, mask, at: arrays.take_at(x, at, axis=1),
    "along": lambda x, mask, at: arrays.along(x, at[:, None], axis=1),
    "rows_at": lambda x, mask, at: arrays.rows_at(x, at),
    "search": lambda x, mask, at: arrays.search(arrays.like((0.0, 1.0, 3.0), x), x),
    "search, right": lambda x, mask, at: arrays.search(arrays.like((0.0, 3.0), x), x.T, "right"),
    "like": lambda x, mask, at: arrays.like((1.5, 2.0), x),
    "repeated": lambda x, mask, at: arrays.once(lambda y: 2.0 * y, arrays.repeated(x[2:], 4)),
    "logistic": lambda x, mask, at: arrays.logistic(x),
}


@pytest.mark.parametrize("name", SAME)
def test_both_libraries_give_the_same(name: str) -> None:
    """NaN, infinities and shapes included."""
    (x, y), (mask, other_mask), (at, other_at) = pair(ODD_NUMBERS), pair(ROW_MASK), pair([2, 0, 1])
    one, two = SAME[name](x, mask, at), SAME[name](y, other_mask, other_at)
    assert on_host(one)
    assert not on_host(two)
    assert one.dtype == to_host(two).dtype
    np.testing.assert_array_equal(to_host(two), one)


@pytest.mark.parametrize("shared", [False, True])
def test_scatter_add_on_both(shared: bool) -> None:
    """Indices that repeat add up too."""
    index = [0, 2, 2] if shared else [0, 2, 1]
    (target, other), (values, more) = pair(np.zeros((3, 2))), pair(np.arange(6.0).reshape(3, 2))
    arrays.scatter_add(target, np.array(index), values, shared=shared)
    arrays.scatter_add(other, torch.tensor(index), more, shared=shared)
    np.testing.assert_array_equal(to_host(other), target)


def test_a_device_is_never_looked_at() -> None:
    """What NumPy answers by a look has one answer there."""
    for mask in (torch.tensor([True]), torch.tensor([False])):
        assert arrays.maybe_any(mask)
        assert not arrays.surely_all(mask)
    assert arrays.surely_all(np.array([True]))
    assert not arrays.maybe_any(np.array([False]))


def test_all_rows_in_order_are_read_without_a_copy() -> None:
    """Only the one index that is known to be in order spares the copy."""
    state = torch.ones((3, 2))
    assert arrays.rows_at(state, arrays.in_order(3, state.device)) is state
    assert arrays.rows_at(state, torch.arange(3)) is not state


# Own draws


def statistics(run: Simulation, bandit: Bandit, instance: Instance, ledger: Ledger) -> Array:
    """Return numbers of every replicate: rewards and regret by third, overrides, arms' means."""
    thirds = np.stack(np.split(ledger.reward, 3)).mean(axis=1).T
    parts = np.stack(np.split(ledger.parts[..., 2], 3)).mean(axis=1).T
    shares = np.stack((ledger.overridden.mean(axis=0), ledger.vetoed.mean(axis=0)), axis=1)
    state = to_host(run.state.bandit)
    cell = np.arange(run.group.shape[0])
    at = Setting(cell, np.full((cell.size, 1), 0.1))
    means = instance.bind(bandit).mean(state, at, instance.space.nominal)
    by_replicate = means.reshape(thirds.shape[0], -1, means.shape[1]).mean(axis=1)
    return np.concatenate((thirds, parts, shares, by_replicate), axis=1)


def run_statistics(
    instance: Instance, bandit: Bandit, units: int, device: str | None, seed: int
) -> Array:
    """Run 1,500 replicates over 60 rounds."""
    world, replicates, rounds = Nights(), 1500, 60
    ledger = Ledger(instance, world, rounds, replicates)
    run = simulate(
        instance,
        bandit,
        world,
        rounds=rounds,
        replicates=replicates,
        units=units,
        seed=seed,
        watch=ledger,
        device=device,
    )
    return statistics(run, bandit, instance, ledger)


def z_scores(one: Array, two: Array) -> Array:
    """Compare means over replicates; 0 where neither varies."""
    gap = one.mean(axis=0) - two.mean(axis=0)
    error = np.sqrt(one.var(axis=0, ddof=1) / len(one) + two.var(axis=0, ddof=1) / len(two))
    assert (gap[error == 0.0] == 0.0).all()
    return np.asarray(gap / np.where(error > 0.0, error, 1.0))


N_COMPARED = 13 * len(BANDITS) * len(GATES)
FALSE_ALARM = 1e-4  # over all comparisons together (Bonferroni)
LARGEST_Z = float(stats.norm.isf(FALSE_ALARM / N_COMPARED / 2))


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("name", BANDITS)
def test_own_draws_give_equal_statistics(name: str, gate: str) -> None:
    """Rewards, regret, overrides, vetoes and posterior means agree within Monte Carlo error."""
    (bandit, units), instance = BANDITS[name], GATES[gate]()
    one = run_statistics(instance, bandit, units, None, 5)
    two = run_statistics(instance, bandit, units, "cpu", 6)
    assert one.shape[1] == N_COMPARED // (len(BANDITS) * len(GATES))
    assert np.abs(z_scores(one, two)).max() < LARGEST_Z


def test_the_comparison_finds_a_small_difference() -> None:
    """A prior of one more win is found: the test above can fail."""
    instance = GATES["bounds"]()
    one = run_statistics(instance, BetaThompson(1.0, 1.0), 1, None, 5)
    two = run_statistics(instance, BetaThompson(2.0, 1.0), 1, "cpu", 6)
    assert np.abs(z_scores(one, two)).max() > 2.0 * LARGEST_Z


def test_the_same_seed_gives_the_same_bytes() -> None:
    """A run on a device repeats itself; another seed gives another run."""

    def state(seed: int) -> dict[str, bytes]:
        run = simulate(
            GATES["person"](),
            HierarchicalThompson(),
            Nights(),
            rounds=20,
            replicates=50,
            units=3,
            seed=seed,
            device="cpu",
        )
        return {name: a.tobytes() for name, a in flatten(to_host(run.state)).items()}

    assert state(1) == state(1)
    assert state(1)["bandit.total"] != state(2)["bandit.total"]


# Streams


def test_streams_are_keyed() -> None:
    """Seed, stage, round and call each give other numbers; the same place the same ones."""

    def drawn(seed: int, stage: int, t: int, calls: int = 1) -> float:
        stream = TorchStreams(seed, "cpu").at(stage, t)
        return float([stream.uniform(2, 3) for _ in range(calls)][-1][1, 2])

    places = [(s, stage, t, c) for s in (1, 2) for stage in (1, 2) for t in (0, 1) for c in (1, 2)]
    assert len({drawn(*place) for place in places}) == len(places)
    assert [drawn(*place) for place in places] == [drawn(*place) for place in places]


def test_keys_of_a_run_differ_in_their_lower_bits() -> None:
    """On a processor torch reads 32 bits of a key; those of a run's first calls all differ."""
    seen: Counter[int] = Counter()

    class Noting:
        def manual_seed(self, key: int) -> Noting:
            seen[key % 2**32] += 1
            return self

    streams = TorchStreams(9, "cpu")
    for t in (0, 1, 2, 1000, 2**20 - 1):
        for stage in range(1, 9):
            stream = streams.at(stage, t)
            stream._generator = Noting()
            for _ in range(255):
                stream._next()
    assert len(seen) == 5 * 8 * 255


@pytest.mark.parametrize(("a", "b"), [(0.05, 2.0), (1.0, 1.0), (0.3, 4.0), (300.0, 2.0)])
def test_beta_draws_have_their_law(a: float, b: float) -> None:
    """Kolmogorov and Smirnov at 20,000 draws; a false alarm in 10,000 runs."""
    counts = torch.tensor([[[a], [b]]], dtype=torch.float64).expand(20_000, 2, 1)
    drawn = TorchStreams(4, "cpu").at(DRAW, 0).beta(counts)[:, 0].numpy()
    assert stats.kstest(drawn, stats.beta(a, b).cdf).pvalue > 1e-4


def test_uniforms_and_normals_have_their_law() -> None:
    """Kolmogorov and Smirnov at 20,000 draws; a false alarm in 10,000 runs."""
    stream = TorchStreams(4, "cpu").at(OUTCOME, 0)
    assert stats.kstest(stream.uniform(10_000, 2).numpy().ravel(), "uniform").pvalue > 1e-4
    assert stats.kstest(stream.normal(10_000, 2).numpy().ravel(), "norm").pvalue > 1e-4


# What a device does not do


def waits() -> Iterator[str]:
    """Yield the operations that a GPU would make the host wait for, by a part of their name."""
    yield from ("_local_scalar_dense", "nonzero", "unique", "scalar_tensor", "is_nonzero")


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("name", BANDITS)
def test_no_round_waits_for_the_device(name: str, gate: str) -> None:
    """After the first round no operation hands a number over, in either direction."""
    mode: Any = import_module("torch.utils._python_dispatch").TorchDispatchMode
    found: Counter[str] = Counter()
    is_on = False

    class Audit(mode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if is_on:
                found["all"] += 1
                text = str(func)
                if any(wait in text for wait in waits()):
                    found[text] += 1
                if "where" in text and any(getattr(a, "ndim", 1) == 0 for a in args):
                    found["where with a number"] += 1
                if text.startswith("aten.index"):
                    indices = args[1] if isinstance(args[1], list | tuple) else [args[1]]
                    if any(getattr(i, "dtype", None) == torch.bool for i in indices):
                        found["index by a mask"] += 1
            return func(*args, **(kwargs or {}))

    def watch(turn: Turn) -> None:
        nonlocal is_on
        is_on = 1 <= turn.t < 3

    bandit, units = BANDITS[name]
    with Audit():
        simulate(
            GATES[gate](),
            bandit,
            Nights(),
            rounds=4,
            replicates=10,
            units=units,
            watch=watch,
            device="cpu",
        )
    assert found.pop("all") > 100
    assert not found


REFUSED: dict[str, tuple[Instance, Bandit, str]] = {
    "a curve": (pricing(), CurveThompson(), "CurveThompson runs on NumPy only"),
    "a learned person": (pricing(PERSON), BetaThompson(), "Rules\\(select='nominal'\\)"),
    "a scaler": (
        replace(pricing(), scaler=RidgeScaler(features=("season",), link="identity")),
        BetaThompson(),
        "RidgeScaler runs on NumPy only",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_parts_that_run_on_numpy_only_are_refused(case: str) -> None:
    """The message names the part and says what to do."""
    instance, bandit, text = REFUSED[case]
    with pytest.raises(InvalidInput, match=text):
        simulate(instance, bandit, Nights(), rounds=1, replicates=1, device="cpu")


@dataclass(frozen=True)
class Raising(HardGate):
    """Raises in the third round."""

    on_device: bool = True
    name: str = "raising"
    seen: Any = None

    def project(self, e: Array, rows: Rows) -> Array:
        self.seen.append(1)
        if len(self.seen) > 6:
            raise RuntimeError("boom")
        return e


def test_a_gate_that_raises_ends_a_run_on_a_device() -> None:
    """NumPy vetoes what the gate fails on; a device has no row to blame."""
    with pytest.raises(RuntimeError, match="boom"):
        simulate(
            pricing(Raising(seen=[])),
            BetaThompson(),
            Nights(),
            rounds=9,
            replicates=3,
            device="cpu",
        )


class Odd(EXAMPLE.Nights):  # type: ignore[misc]
    """Nights whose rows or outcomes are not what they should be, from round `since` on."""

    def __init__(self, kind: str, since: int = 0) -> None:
        self.kind, self.since, self.t = kind, since, 0

    def context(self, rng: Any, state: Any, t: int, group: Any) -> Rows:
        self.t = t
        rows: Rows = super().context(rng, state, t, group)
        if self.kind == "on the host":
            return Rows(rows.unit, rows.group, to_host(rows.x))
        if self.kind == "out of order":
            return Rows(rows.unit.flip(0), rows.group, rows.x)  # type: ignore[attr-defined]
        if self.kind == "narrow":
            return Rows(rows.unit, rows.group, rows.x.float())  # type: ignore[attr-defined]
        return rows

    def sample(self, rng: Any, state: Any, e: Any, rows: Rows) -> Any:
        outcome = super().sample(rng, state, e, rows)
        return outcome + np.nan if self.kind == "no number" and self.t >= self.since else outcome


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("on the host", "expected x on cpu"),
        ("out of order", "in order"),
        ("narrow", "64-bit"),
        ("no number", "expected 0 or 1"),
    ],
)
def test_the_first_round_is_checked(kind: str, text: str) -> None:
    """Rows and outcomes that cannot be are refused as on NumPy."""
    with pytest.raises(InvalidInput, match=text):
        simulate(pricing(), BetaThompson(), Odd(kind), rounds=3, replicates=4, device="cpu")


def test_outcomes_that_are_no_numbers_later_are_found_at_the_end() -> None:
    """No state is returned that such an outcome has damaged."""
    world = Odd("no number", since=2)
    with pytest.raises(ValuationError, match="not numbers"):
        simulate(pricing(), BetaThompson(), world, rounds=3, replicates=4, device="cpu")
