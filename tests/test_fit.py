"""What cannot work together is refused when an instance is built or a world is run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import gdcb
from gdcb.analysis import Ledger
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.gates import HardGate
from gdcb.instances import load
from gdcb.records import Rows
from gdcb.simulate import simulate
from gdcb.streams import Stream


def shop(**changed: Any) -> gdcb.Instance:
    """Return a small pricing instance with some parts replaced."""
    parts: dict[str, Any] = {
        "context": gdcb.Schema(
            {"base": gdcb.Number(1, 1000), "channel": gdcb.Category(("web", "shop"))}
        ),
        "arms": gdcb.ArmList(values=(0.9, 1.0, 1.1)),
        "composition": gdcb.Multiply(base=("base",), names=("price",)),
        "gate": gdcb.Cap(limit=500.0),
        "reward": gdcb.Payoff(outcome=("sold",), action=0),
    }
    return gdcb.Instance(**(parts | changed))


CATEGORIES = gdcb.ArmList(names=("allow", "warn", "remove"))
UNFIT: list[tuple[str, Callable[[], object], str]] = [
    (
        "a payoff of a column that is not there",
        lambda: shop(reward=gdcb.Payoff(action=3)),
        "column 3",
    ),
    ("a category as base", lambda: shop(composition=gdcb.Multiply(base=("channel",))), "category"),
    ("a negative scale", lambda: shop(scaler=gdcb.ConstantScaler(-1.0)), "above 0"),
    (
        "a ridge that may be negative under a product",
        lambda: shop(scaler=gdcb.RidgeScaler(features=("base",), link="identity")),
        "above 0",
    ),
    ("a bare name of features", lambda: gdcb.RidgeScaler(features="base"), "tuple"),  # type: ignore[arg-type]
    ("numbers as categories", lambda: shop(composition=gdcb.Identity()), "categories"),
    (
        "a cap on a category",
        lambda: shop(
            arms=CATEGORIES, composition=gdcb.Identity(severity=False), gate=gdcb.Cap(1.5)
        ),
        "is a category",
    ),
    (
        "more scaler columns than coordinates",
        lambda: shop(scaler=gdcb.RidgeScaler(features=("base",), n_columns=2)),
        "do not fit",
    ),
    ("a dictionary as context", lambda: shop(context={"base": 1}), "context: expected"),
    ("a list as arms", lambda: shop(arms=[1, 2]), "arms: expected"),
    ("a name as gate", lambda: shop(gate="cap"), "gate: expected a gate"),
    ("a class as gate", lambda: shop(gate=[gdcb.Cap]), r"gates: expected gates, .* write Cap\(…\)"),
    ("a bare class as gate", lambda: shop(gate=gdcb.Cap), r"ungated; got .* write Cap\(…\)"),
    ("nothing among gates", lambda: shop(gate=[None]), "gates: expected gates, got None"),
    (
        "a person as gate",
        lambda: shop(gate=[gdcb.Hold()]),
        r"gates: expected gates, .* inside a gate: Approval\(person=Hold\(…\)\)",
    ),
    ("a bare person as gate", lambda: shop(gate=gdcb.Hold()), r"Approval\(person=Hold\(…\)\)"),
    (
        "a kernel as gate",
        lambda: shop(gate=[gdcb.NumberKernel()]),
        r"what an approval learns: Approval\(kernel=NumberKernel\(…\)\)",
    ),
    (
        "a kernel of categories for prices",
        lambda: shop(gate=[gdcb.Approval(kernel=gdcb.CategoryKernel()), gdcb.Cap(500.0)]),
        "kernel: 'price' is a number; use NumberKernel",
    ),
    (
        "a person with nothing behind",
        lambda: shop(gate=[gdcb.Approval()]),
        r"waive it: Chain\(\[…\], closed=False\), in a file closed = false",
    ),
    ("words as values", lambda: gdcb.ArmList(values=("a", "b")).build(), "expected numbers"),  # type: ignore[arg-type]
    (
        "a prior that is no number",
        lambda: gdcb.CurveThompson(prior_mean=(math.nan, 0.0)),
        "prior_mean",
    ),
    (
        "a policy that asks for no number",
        lambda: gdcb.PolicyFilter(require="base", at_least=math.nan),
        "at_least",
    ),
    (
        "a policy whose cost is no number",
        lambda: gdcb.PolicyFilter(cost=(math.nan, 1.0), budget="base"),
        "cost",
    ),
    ("a bandit for an instance", lambda: gdcb.Agent(gdcb.BetaThompson(), shop()), "instance"),  # type: ignore[arg-type]
    ("a class for a bandit", lambda: gdcb.Agent(shop(), gdcb.BetaThompson), "bandit"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(
    ("build", "said"), [(b, s) for _, b, s in UNFIT], ids=[n for n, _, _ in UNFIT]
)
def test_what_does_not_fit_is_refused(build: Callable[[], object], said: str) -> None:
    """Each is an InvalidInput that names what is wrong, before any decision."""
    with pytest.raises(InvalidInput, match=said):
        build()


@dataclass(frozen=True)
class InPlace(HardGate):
    """A gate that writes into what it is given."""

    name: str = "in place"

    def project(self, e: Array, rows: Rows) -> Array:
        e[...] = np.minimum(e, 20.0)
        return e


@pytest.mark.parametrize("first", [(), (gdcb.Cap(limit=80.0),)], ids=["alone", "behind a cap"])
def test_a_gate_cannot_rewrite_a_proposal(first: tuple[Any, ...]) -> None:
    """Proposals are read-only: writing into one raises, and so vetoes, with the proposal kept."""
    agent = gdcb.Agent(shop(gate=[*first, InPlace()]), gdcb.BetaThompson(), seed=1)
    case = agent.decide({"base": 100, "channel": "web"})
    assert case.proposed is not None
    assert case.proposed["price"] >= 90.0
    assert (case.status, case.executed) == ("vetoed", None)
    assert "read-only" in case.reason


class Bare(HardGate):
    """A gate that is no dataclass and has only what it must."""

    def __init__(self, floor: float) -> None:
        self.floor = floor

    def project(self, e: Array, rows: Rows) -> Array:
        return np.maximum(e, self.floor)


def test_a_plain_class_is_a_gate_and_can_be_saved(tmp_path: Any) -> None:
    """Its settings are part of the fingerprint."""
    agent = gdcb.Agent(shop(gate=Bare(95.0)), gdcb.BetaThompson(), seed=1)
    agent.decide({"base": 100, "channel": "web"})
    agent.save(tmp_path / "agent")
    gdcb.Agent.load(tmp_path / "agent", shop(gate=Bare(95.0)), gdcb.BetaThompson())
    with pytest.raises(InvalidInput, match="another instance"):
        gdcb.Agent.load(tmp_path / "agent", shop(gate=Bare(96.0)), gdcb.BetaThompson())


def test_functions_are_told_apart_by_what_they_hold() -> None:
    """Two payoffs of one lambda with other constants have other fingerprints."""

    def agent(k: float) -> gdcb.Agent:
        reward = gdcb.Payoff(outcome=("sold",), win=lambda e, x: e[..., 0] - k)
        return gdcb.Agent(shop(reward=reward), gdcb.BetaThompson())

    assert agent(1.0).fingerprint() == agent(1.0).fingerprint()
    assert agent(1.0).fingerprint() != agent(99.0).fingerprint()


def test_valuing_leaves_the_draw_as_it_was() -> None:
    """Three arms, nodes of a learned person in the same shape: the best arm is still found."""
    person = gdcb.SimulatedPerson(
        lambda e, rows: np.full(e.shape[:2], 0.8), lambda rows: np.full((rows.n, 1), 0.95)
    )
    instance = shop(
        gate=[gdcb.Approval(person), gdcb.Bounds(low=0.0, high=1000.0)],
        reward=gdcb.Scaled(outcome=("sold",)),
        composition=gdcb.Multiply(names=("price",)),
    )
    agent = gdcb.Agent(instance, gdcb.HierarchicalThompson(noise=0.5), seed=3)
    rng, arms = np.random.default_rng(3), []
    for _ in range(200):
        case = agent.decide({"base": 100, "channel": "web"})
        assert case.executed is not None
        arms.append(case.arm)
        mean = 5.0 if case.executed["price"] > 1.05 else 0.0
        agent.observe(case.id, {"sold": float(mean + 0.5 * rng.normal())})
    assert arms[-50:].count("1.1") > 45


def test_a_hold_cannot_be_simulated() -> None:
    """A real person does not answer a simulation."""
    world = load("str").world
    instance = shop(gate=[gdcb.Approval(name="boss"), gdcb.Cap(limit=500.0)])
    with pytest.raises(InvalidInput, match="boss"):
        simulate(instance, gdcb.BetaThompson(), world, rounds=1, replicates=1)


class Flat:
    """The STR world with outcomes of the wrong shape."""

    def __init__(self) -> None:
        self._inner = load("str").world

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def sample(self, rng: Stream, state: Any, e: Array, rows: Rows) -> Array:
        return self._inner.sample(rng, state, e, rows)[:, 0]


def test_a_world_of_the_wrong_shape_is_named() -> None:
    """Outcomes without columns, ledgers of another size, rounds that are no whole number."""
    domain = load("str")
    run: dict[str, Any] = {"rounds": 3, "replicates": 2, "units": 4}
    with pytest.raises(InvalidInput, match=r"world.sample: expected shape \(8, 1\)"):
        simulate(domain.instance, domain.bandit, Flat(), **run)
    ledger = Ledger(domain.instance, domain.world, 3, 5)
    with pytest.raises(InvalidInput, match="ledger: made for 3 rounds of 5"):
        simulate(domain.instance, domain.bandit, domain.world, watch=ledger, **run)
    with pytest.raises(InvalidInput, match="rounds"):
        simulate(domain.instance, domain.bandit, domain.world, **(run | {"rounds": 2.5}))


def test_a_label_may_come_after_its_outcome() -> None:
    """Given with the same outcome once more it teaches the scaler, once, and replays."""
    scaler = gdcb.RidgeScaler(features=("base",), every=1000)
    agent = gdcb.Agent(shop(scaler=scaler), gdcb.BetaThompson(), seed=1)
    case = agent.decide({"base": 100, "channel": "web"})
    assert agent.observe(case.id, {"sold": 1})
    assert agent.state.scaler.since[0] == 0
    assert agent.observe(case.id, {"sold": 1}, label=[0.2])
    assert agent.state.scaler.since[0] == 1
    assert not agent.observe(case.id, {"sold": 1}, label=[0.2])
    with pytest.raises(gdcb.errors.Conflict, match="label"):
        agent.observe(case.id, {"sold": 1}, label=[0.3])
    again = gdcb.Agent.replay(agent.events, shop(scaler=scaler), gdcb.BetaThompson(), seed=1)
    assert again.state.scaler.since[0] == 1
    outcome = next(e for e in agent.events if type(e).__name__ == "OutcomeObserved")
    with pytest.raises(gdcb.errors.Conflict, match="twice"):
        gdcb.Agent.replay(
            [*agent.events, outcome], shop(scaler=scaler), gdcb.BetaThompson(), seed=1
        )


def test_a_base_price_is_no_excitation() -> None:
    """One arm, a varying base: log(e / base) does not vary, so a floor stops the publication."""
    scaler = gdcb.RidgeScaler(features=("channel",), every=20, floor=0.01)
    instance = shop(scaler=scaler, arms=gdcb.ArmList(values=(1.0,)))
    agent = gdcb.Agent(instance, gdcb.BetaThompson(), seed=1)
    rng = np.random.default_rng(1)
    for _ in range(60):
        case = agent.decide({"base": float(rng.uniform(50, 400)), "channel": "web"})
        agent.observe(case.id, {"sold": 1}, label=[0.1])
    assert agent.state.scaler.versions[0] == 0


def test_an_infinite_action_is_worth_the_null_in_both_faces() -> None:
    """A gate that answers infinity before a cap is vetoed, so its arms are worth nothing."""

    @dataclass(frozen=True)
    class Wild(HardGate):
        name: str = "wild"

        def project(self, e: Array, rows: Rows) -> Array:
            return np.where(e > 105.0, np.inf, e)

    agent = gdcb.Agent(shop(gate=[Wild(), gdcb.Cap(limit=200.0)]), gdcb.BetaThompson(), seed=1)
    cases = [agent.decide({"base": 100, "channel": "web"}) for _ in range(20)]
    assert {case.status for case in cases} == {"passed"}
    assert "1.1" not in {case.arm for case in cases}
