"""Bad input: the right error, a sentence that says so, and not a byte changed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from gdcb import (
    Agent,
    Approval,
    ArmList,
    BetaThompson,
    CategoryKernel,
    Chain,
    GdcbError,
    PolicyFilter,
)
from gdcb.arrays import Array
from gdcb.errors import (
    Conflict,
    InvalidInput,
    NothingAllowed,
    UnknownDecision,
    UnknownField,
)
from gdcb.records import Rows
from tests.builders import Fickle, FickleRule, choosing, letting, live, night, pricing, worked

HUGE = 10**400
_FAR = (
    r"^label: expected log δ between -20\.7 and 6\.9, got (139|-21); a price p is log\(p / base\)$"
)
ODD: Any = object()
Call = Callable[[Agent], object]


def ready() -> Agent:
    """Return an agent at work: 'ran' waits for its outcome, 'done' has one, 'held' is held."""
    agent = worked(n=5)
    agent.decide(night(100.0), id="ran")
    agent.observe(agent.decide(night(110.0), id="done").id, {"booked": 1})
    agent.decide(night(700.0), id="held")
    return agent


def refused(agent: Agent, call: Call, error: type[GdcbError], message: str) -> None:
    """Expect `error` with `message`, and the agent as it was."""
    before, events = live(agent), list(agent.events)
    with pytest.raises(error, match=message):
        call(agent)
    assert live(agent) == before
    assert agent.events == events


def case(name: str, call: Call, error: type[GdcbError], message: str) -> Any:
    return pytest.param(call, error, message, id=name)


def decide(**changes: Any) -> Call:
    """Ask for a decision with some fields of the context changed."""
    return lambda agent: agent.decide(night() | changes)


def without(name: str) -> Call:
    return lambda agent: agent.decide({k: v for k, v in night().items() if k != name})


def observe(outcome: Any, id: Any = "ran", **changes: Any) -> Call:
    return lambda agent: agent.observe(id, outcome, **changes)


def resolve(verdict: Any, action: Any = None, id: Any = "held", **changes: Any) -> Call:
    return lambda agent: agent.resolve(id, verdict, action, **changes)


def ask(context: Any = None, **changes: Any) -> Call:
    return lambda agent: agent.decide(night() if context is None else context, **changes)


CONTEXTS = [
    case("nan", decide(base=math.nan), InvalidInput, "context.base: expected a finite number"),
    case("inf", decide(base=math.inf), InvalidInput, "context.base: expected a finite number"),
    case("-inf", decide(base=-math.inf), InvalidInput, "context.base: expected a finite number"),
    case("numpy nan", decide(base=np.float32("nan")), InvalidInput, "context.base"),
    case("1e400", decide(base=1e400), InvalidInput, "context.base: expected a finite number"),
    case("huge integer", decide(base=HUGE), InvalidInput, "context.base"),
    case("text for a number", decide(base="100"), InvalidInput, "expected a number, got '100'"),
    case("'1e9'", decide(base="1e9"), InvalidInput, "expected a number, got '1e9'"),
    case("bool for a number", decide(base=True), InvalidInput, "expected a number, got True"),
    case("numpy bool for a number", decide(base=np.True_), InvalidInput, "expected a number"),
    case("none for a number", decide(base=None), InvalidInput, "expected a number, got None"),
    case("list for a number", decide(base=[100]), InvalidInput, "expected a number"),
    case("complex", decide(base=1j), InvalidInput, "expected a number, got 1j"),
    case("array for a number", decide(base=np.array([1.0])), InvalidInput, "expected a number"),
    case("below", decide(base=0.5), InvalidInput, "context.base: expected 1 to 1000, got 0.5"),
    case("above", decide(base=1e9), InvalidInput, "context.base: expected 1 to 1000"),
    case("unknown category", decide(season="mid"), InvalidInput, "one of low, high; got 'mid'"),
    case("number for a category", decide(season=0), InvalidInput, "context.season"),
    case("none for a category", decide(season=None), InvalidInput, "context.season"),
    case("list for a category", decide(season=["low"]), InvalidInput, "context.season"),
    case("array for a category", decide(season=np.array(["low", "x"])), InvalidInput, "season"),
    case("number for a flag", decide(gap=1), InvalidInput, "context.gap: expected true or false"),
    case("text for a flag", decide(gap="false"), InvalidInput, "expected true or false"),
    case("missing", without("busy"), InvalidInput, "context: missing busy"),
    case("unknown", decide(colour="red"), UnknownField, "context: no column colour"),
    case("unknown number name", decide(**{"1": 1.0}), UnknownField, "context: no column 1"),
    case("empty context", ask({}), InvalidInput, "context: missing base"),
    case("empty batch", ask([]), InvalidInput, "expected at least one row, got none"),
    case("text", ask("base=100"), InvalidInput, "expected named fields or rows of them"),
    case("bytes", ask(b"base"), InvalidInput, "expected named fields or rows of them"),
    case("number", ask(100.0), InvalidInput, "expected named fields or rows of them"),
    case("rows of numbers", ask([1.0, 2.0]), InvalidInput, "expected named fields, got 1.0"),
    case("rows of lists", ask([[1.0, 2.0]]), InvalidInput, "expected named fields"),
    case("one bad row", ask([night(), night(-1.0)]), InvalidInput, "context.base"),
    case("array", ask(np.ones((2, 4))), InvalidInput, "expected named fields or rows of them"),
]

IDS = [
    case("number id", ask(id=7), InvalidInput, "id: expected a name, got 7"),
    case("empty id", ask(id=""), InvalidInput, "id: expected a name, got ''"),
    case("bytes id", ask(id=b"x"), InvalidInput, "id: expected a name"),
    case("list id", ask(id=["x"]), InvalidInput, "id: expected a name"),
    case("id that is no text", ask(id="\ud800"), InvalidInput, "id"),
    case("taken id", ask(night(101.0), id="ran"), Conflict, "another context, unit or mask"),
    case("number unit", ask(unit=7), InvalidInput, "unit"),
    case("no unit", ask(unit=None), InvalidInput, "unit"),
    case("empty unit", ask(unit=""), InvalidInput, "unit: expected a name, got ''"),
    case("unit of a row", ask([night()], unit=[7]), InvalidInput, "unit: expected a name, got 7"),
    case("too few units", ask([night()] * 2, unit=["a"]), InvalidInput, "expected 2 names, got 1"),
    case("too many units", ask(unit=["a", "b"]), InvalidInput, "unit: expected 1 names, got 2"),
]

MASKS = [
    case("nothing allowed", ask(mask=[]), NothingAllowed, r"no arm is allowed in row \[0\]"),
    case("nothing for a newcomer", ask(unit="new", mask=[]), NothingAllowed, "no arm is allowed"),
    case("unknown arm", ask(mask=["9"]), UnknownField, "mask: no arm"),
    case("one unknown arm", ask(mask=["1", "9"]), UnknownField, "mask: no arm"),
    case("arm as text", ask(mask="1"), InvalidInput, "mask: expected a list"),
    case("arm as a number", ask(mask=[1.0]), UnknownField, "mask: no arm"),
    case("number mask", ask(mask=1), InvalidInput, "mask"),
]

OUTCOMES = [
    case("nan outcome", observe({"booked": math.nan}), InvalidInput, "outcome.booked"),
    case("inf outcome", observe({"booked": math.inf}), InvalidInput, "outcome.booked"),
    case("1e400 outcome", observe({"booked": 1e400}), InvalidInput, "outcome.booked"),
    case("huge outcome", observe({"booked": HUGE}), InvalidInput, "outcome.booked"),
    case("numpy nan", observe({"booked": np.float64("nan")}), InvalidInput, "outcome.booked"),
    case("neither 0 nor 1", observe({"booked": 0.5}), InvalidInput, "expected 0 or 1, got 0.5"),
    case("minus one", observe({"booked": -1}), InvalidInput, "expected 0 or 1, got -1"),
    case("text outcome", observe({"booked": "1"}), InvalidInput, "outcome.booked"),
    case("no value", observe({"booked": None}), InvalidInput, "outcome.booked"),
    case("list value", observe({"booked": [1]}), InvalidInput, "outcome.booked"),
    case("unknown outcome", observe({"sold": 1}), UnknownField, "expected booked"),
    case("one too many", observe({"booked": 1, "sold": 1}), UnknownField, "expected booked"),
    case("no outcome", observe({}), UnknownField, "expected booked"),
    case("bare outcome", observe(1), InvalidInput, "outcome"),
    case("none for outcome", observe(None), InvalidInput, "outcome"),
    case("text for outcome", observe("booked"), InvalidInput, "outcome"),
    case(
        "another value",
        observe({"booked": 0}, id="done"),
        Conflict,
        r"has \[1.0\] with weight 1 already",
    ),
    case("held", observe({"booked": 1}, id="held"), Conflict, "is held and has not run"),
    case("unknown decision", observe({"booked": 1}, id="x"), UnknownDecision, "no decision 'x'"),
    case("number decision", observe({"booked": 1}, id=7), GdcbError, "no decision 7|id"),
    case("list decision", observe({"booked": 1}, id=["ran"]), GdcbError, "no decision|id"),
    case("none decision", observe({"booked": 1}, id=None), GdcbError, "no decision None|id"),
    case("negative weight", observe({"booked": 1}, weight=-1.0), InvalidInput, "weight"),
    case("nan weight", observe({"booked": 1}, weight=math.nan), InvalidInput, "weight"),
    case("inf weight", observe({"booked": 1}, weight=math.inf), InvalidInput, "weight"),
    case("huge weight", observe({"booked": 1}, weight=HUGE), InvalidInput, "weight"),
    case("text weight", observe({"booked": 1}, weight="1"), InvalidInput, "weight"),
    case("bool weight", observe({"booked": 1}, weight=True), InvalidInput, "weight"),
    case("no weight", observe({"booked": 1}, weight=None), InvalidInput, "weight"),
    case("short label", observe({"booked": 1}, label=[]), InvalidInput, "label: expected 1"),
    case("long label", observe({"booked": 1}, label=[0.1, 0.2]), InvalidInput, "label: expected 1"),
    case("nan label", observe({"booked": 1}, label=[math.nan]), InvalidInput, "label"),
    case("inf label", observe({"booked": 1}, label=[math.inf]), InvalidInput, "label"),
    case("huge label", observe({"booked": 1}, label=[HUGE]), InvalidInput, "label"),
    case("price as label", observe({"booked": 1}, label=[139.0]), InvalidInput, _FAR),
    case("small δ as label", observe({"booked": 1}, label=[-21.0]), InvalidInput, _FAR),
    case("text label", observe({"booked": 1}, label=["0.1"]), InvalidInput, "label"),
    case("bool label", observe({"booked": 1}, label=[True]), InvalidInput, "label"),
    case("bare label", observe({"booked": 1}, label=0.1), InvalidInput, "label"),
]

VERDICTS = [
    case("not held", resolve("approve", id="ran"), Conflict, "is not held; it is passed"),
    case("resolved unknown", resolve("approve", id="x"), UnknownDecision, "no decision 'x'"),
    case("resolved list", resolve("approve", id=["held"]), GdcbError, "no decision|id"),
    case("unknown verdict", resolve("maybe"), InvalidInput, "verdict: expected one of approve"),
    case("no verdict", resolve(None), InvalidInput, "verdict: expected"),
    case("list verdict", resolve(["veto"]), InvalidInput, "verdict: expected"),
    case("edit without action", resolve("edit"), InvalidInput, "give one with 'edit'"),
    case("veto with action", resolve("veto", {"price": 9.0}), InvalidInput, "give one with 'edit'"),
    case("approve with action", resolve("approve", {"price": 9.0}), InvalidInput, "with 'edit'"),
    case("unknown field", resolve("edit", {"cost": 9.0}), UnknownField, "expected price; got cost"),
    case("extra field", resolve("edit", {"price": 9.0, "x": 1}), UnknownField, "expected price"),
    case("no field", resolve("edit", {}), UnknownField, "action: expected price"),
    case("nan edit", resolve("edit", {"price": math.nan}), InvalidInput, "action.price"),
    case("inf edit", resolve("edit", {"price": math.inf}), InvalidInput, "action.price"),
    case("huge edit", resolve("edit", {"price": HUGE}), InvalidInput, "action.price"),
    case("text edit", resolve("edit", {"price": "9"}), InvalidInput, "action.price"),
    case("bool edit", resolve("edit", {"price": True}), InvalidInput, "action.price"),
    case("bare edit", resolve("edit", 9.0), InvalidInput, "action"),
    case("list edit", resolve("edit", [9.0]), InvalidInput, "action"),
    case("odd reviewer", resolve("veto", by=ODD), InvalidInput, "by"),
    case("odd reason", resolve("veto", reason=ODD), InvalidInput, "reason"),
    case("expire not held", lambda a: a.expire("ran"), Conflict, "is not held; it is passed"),
    case("expire done", lambda a: a.expire("done"), Conflict, "is not held"),
    case("expire unknown", lambda a: a.expire("x"), UnknownDecision, "no decision 'x'"),
    case("expire oddly", lambda a: a.expire("held", ODD), InvalidInput, "reason"),
    case("look at a stranger", lambda a: a["x"], UnknownDecision, "no decision 'x'"),
    case("refit a stranger", lambda a: a.refit([99]), GdcbError, "owner"),
    case("refit before the first", lambda a: a.refit([-1]), GdcbError, "owner"),
]


@pytest.mark.parametrize(
    ("call", "error", "message"), [*CONTEXTS, *IDS, *MASKS, *OUTCOMES, *VERDICTS]
)
def test_bad_input_is_refused(call: Call, error: type[GdcbError], message: str) -> None:
    """Refused by the right error with a sentence; state and events keep every byte."""
    refused(ready(), call, error, message)


@pytest.mark.parametrize(
    "seed", [-1, 2**64, 1.5, "7", None, True, math.nan], ids=lambda seed: repr(seed)
)
def test_a_bad_seed_is_refused(seed: Any) -> None:
    """A seed is a whole number from 0 to 2⁶⁴ − 1."""
    with pytest.raises(InvalidInput, match="seed: expected"):
        Agent(letting(), BetaThompson(), seed)


def test_a_refusal_is_one_family_of_errors() -> None:
    """Catching GdcbError catches all; bad values are ValueErrors, strangers KeyErrors."""
    agent = ready()
    for call in (decide(base="x"), observe({"booked": 2}), resolve("maybe"), ask(mask=[])):
        with pytest.raises(ValueError, match=r"expected|allowed") as caught:
            call(agent)
        assert isinstance(caught.value, GdcbError)
    with pytest.raises(KeyError) as stranger:
        agent.observe("x", {"booked": 1})
    assert str(stranger.value) == "no decision 'x' was made here"


def test_a_kernel_that_cannot_know_the_arms_is_refused() -> None:
    """Three arms and a person's table of two: the instance is refused, not its third verdict."""
    person = Approval(kernel=CategoryKernel(n_categories=2))
    gate = Chain((person, PolicyFilter(denied=(2,))))
    with pytest.raises(InvalidInput, match="n_categories: expected 3"):
        Agent(choosing(3, gate=gate), BetaThompson())


def test_an_edit_to_an_unknown_category_is_refused() -> None:
    """Categories are edited by name."""
    gate = Chain((Approval(kernel=CategoryKernel(n_categories=3)), PolicyFilter(denied=(2,))))
    agent = Agent(choosing(3, gate=gate), BetaThompson())
    agent.decide({"x": 0.0}, id="held")
    for value in ("arm 9", 1, 1.0, None, ["arm 1"]):
        refused(agent, resolve("edit", {"action": value}), InvalidInput, "action.action: expected")
    assert agent.resolve("held", "edit", {"action": "arm 1"}).executed == {"action": "arm 1"}


def test_an_unknown_category_among_arms_is_refused_by_name() -> None:
    """Arms are masked by name: positions and values are not names."""
    agent = Agent(pricing(arms=ArmList(values=(0.9, 1.1), names=("low", "high"))), BetaThompson())
    refused(agent, ask({"base": 100.0}, mask=["0.9"]), UnknownField, "there are low, high")
    assert agent.decide({"base": 100.0}, mask=["low"]).arm == "low"


# Gates that raise


@pytest.mark.parametrize(
    "gate",
    [
        FickleRule(150.0),
        Fickle(150.0, faces=("apply",)),
        Fickle(150.0, faces=("apply", "expect")),
        Fickle(150.0, faces=("apply", "expect", "moved")),
    ],
    ids=["hard gate", "apply", "both faces", "moved too"],
)
def test_a_gate_that_raises_vetoes(gate: Any) -> None:
    """The decision is a veto with a reason, the next one runs, and replay gives the same."""
    agent = Agent(pricing(gate=gate), BetaThompson(), seed=1)
    case = agent.decide({"base": 200.0})
    assert (case.status, case.executed) == ("vetoed", None)
    assert case.reason == "fickle (version 1): the gate raised RuntimeError: boom; vetoed"
    other = agent.decide({"base": 100.0})
    assert (other.status, other.executed) == ("passed", other.proposed)
    both = agent.decide([{"base": 100.0}, {"base": 200.0}])
    assert [case.status for case in both] == ["passed", "vetoed"]
    again = Agent.replay(agent.events, agent.instance, agent.bandit, seed=1)
    assert live(again) == live(agent)


def test_a_gate_that_raises_in_expect_alone_still_judges() -> None:
    """Where only `expect` raises the arms are worth the null, and `apply` has its say."""
    agent = Agent(pricing(gate=Fickle(150.0, faces=("expect",))), BetaThompson())
    assert agent.decide({"base": 200.0}).status == "passed"


@dataclass(frozen=True)
class Mute(FickleRule):
    """A hard gate that vetoes all, and raises when it is asked why."""

    name: str = "mute"

    def project(self, e: Array, rows: Rows) -> Array:
        return np.full(e.shape, np.nan)

    def reason(self, entered: Array, left: Array, row: Rows) -> str:
        raise RuntimeError("boom")


@pytest.mark.parametrize("gate", [Mute(), Fickle(faces=("draw",))], ids=["reason", "draw"])
def test_no_decision_is_left_half_made(gate: Any) -> None:
    """A gate that raises where it gives its reason or draws: a veto, or nothing at all.

    A decision that is made and never gated would answer every later request with a case that
    has no status.
    """
    agent = Agent(pricing(gate=gate), BetaThompson())
    try:
        case = agent.decide({"base": 200.0}, id="x")
    except GdcbError:
        assert not len(agent.events)
    else:
        assert case.status == agent["x"].status == "vetoed"
        assert "boom" in case.reason


def test_no_verdict_is_left_half_given() -> None:
    """Approved, and the gate behind raises when asked why: vetoed, or the hold stands as it was."""
    agent = Agent(pricing(gate=Chain((Approval(), Mute()))), BetaThompson())
    agent.decide({"base": 200.0}, id="x")
    events = list(agent.events)
    try:
        case = agent.resolve("x", "approve")
    except GdcbError:
        assert agent.events == events
    else:
        assert case.status == "vetoed"


def test_names_and_ids_are_text() -> None:
    """A number in the place of either is refused with the text that it stands for."""
    agent = Agent(pricing(), BetaThompson(), seed=1)
    with pytest.raises(UnknownField, match=r"mask: no arm 0\.8; .*; names are text: '0\.8'"):
        agent.decide({"base": 100.0}, mask=[0.8])  # type: ignore[list-item]
    with pytest.raises(UnknownDecision, match="no decision 1 was made here; ids are text: '1'"):
        agent[1]  # type: ignore[index]
