"""The shipped checks: every registered part passes them, and no check lets everything pass."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from inspect import isfunction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from gdcb import (
    Approval,
    ArmList,
    BetaThompson,
    Bounds,
    CategoryKernel,
    CurveThompson,
    Grid,
    HierarchicalCurveThompson,
    Identity,
    LogLinearScaler,
    Multiply,
    NumberKernel,
    Payoff,
    PolicyFilter,
    RidgeScaler,
    Scaled,
    StackedThompson,
    checks,
)
from gdcb.bandits import Bandit
from gdcb.checks import arms, bandits, compositions, domains, gates, rewards, scalers
from gdcb.checks.base import keyed_numbers_only, require_close
from gdcb.cli import app
from gdcb.composition import Composition
from gdcb.declaration import registered
from gdcb.errors import GdcbError, InvalidInput
from gdcb.gates import Gate
from gdcb.instances import load
from gdcb.rewards import Reward
from gdcb.scalers import Scaler
from tests import broken_parts as broken
from tests.broken_parts import Broken

# Every registered part, and every domain


@pytest.mark.parametrize(
    ("kind", "name"), checks.names(), ids=[f"{kind} {name}" for kind, name in checks.names()]
)
def test_a_registered_part_keeps_its_promises(kind: str, name: str) -> None:
    """All of them: `check` names each one that is broken."""
    report = checks.check(*checks.build(kind, name))
    assert report.kind == kind
    assert len(report.results) >= 4


OTHERS: list[Any] = [
    ArmList(names=("a", "b")),
    ArmList(values=(1.0, 2.0, 4.0), step=0.5),
    Grid({"A": (0.8, 1.0, 1.25), "B": (0.8, 1.0, 1.25)}, combine="product"),
    CurveThompson(link="identity"),
    CurveThompson(degree=2),
    CurveThompson(form="additive"),
    StackedThompson((CurveThompson(), CurveThompson(form="additive"))),
    StackedThompson(
        (CurveThompson(link="identity"), CurveThompson(link="identity", form="additive")),
        share="cell",
    ),
    HierarchicalCurveThompson(CurveThompson(form="additive"), own_sd=0.2, share=0.0),
    HierarchicalCurveThompson(CurveThompson(degree=2), share=1.0, width=2.0),
    LogLinearScaler(
        {"first": ("first",), "rest": ("second",)},
        penalty=(1.0, 4.0),
        level=0.5,
        slope=2.0,
        theta=(0.3, -0.2),
        growth=0.5,
    ),
    RidgeScaler(features=("first", "second"), link="identity", centre=(1.0, 1.0)),
    RidgeScaler(features=("first",), n_arms=3, n_columns=2),
    RidgeScaler(features=("first",), floor=0.01, per="unit"),
    Multiply(),
    Identity(severity=False),
    Payoff(win=lambda e, x: x[:, :1] - e[..., 0]),
    Payoff(),
    Scaled(),
    Bounds(low=1.0, high=100.0, outside="veto"),
    Bounds(low=1.0, high_column="most"),
    PolicyFilter(cost=(1.0, 2.0), budget="budget"),
    PolicyFilter(require="glucose", at_least=1.0),
    Approval(kernel=CategoryKernel(n_categories=3, edges=(1.0,))),
    broken.PERSON,
]


@pytest.mark.parametrize("part", OTHERS, ids=lambda part: type(part).__name__)
def test_other_settings_keep_the_promises_too(part: Any) -> None:
    """Links, vetoes, limits from the context, bands, a simulated person."""
    checks.check(part)


# No check that cannot fail


def names_of(functions: Any) -> set[str]:
    """Return the names of checks."""
    return {function.__name__.replace("_", " ") for function in functions}


LISTS = {
    "arms": (broken.ARMS, names_of(arms.CHECKS)),
    "bandit": (
        broken.BANDITS,
        names_of(
            (
                *bandits.CHECKS,
                *bandits.REWARDS,
                *(one for some in bandits.OPTIONAL.values() for one in some),
            )
        ),
    ),
    "composition": (broken.COMPOSITIONS, names_of(compositions.CHECKS)),
    "domain": (broken.DOMAINS, names_of(domains.CHECKS)),
    "gate": (broken.GATES, names_of(gates.CHECKS)),
    "kernel": (broken.KERNELS, names_of(gates.KERNELS)),
    "reward": (broken.REWARDS, names_of(rewards.CHECKS)),
    "scaler": (
        broken.SCALERS,
        names_of((*scalers.CHECKS, *(one for some in scalers.OPTIONAL.values() for one in some))),
    ),
}
CASES = [
    pytest.param(name, part, id=f"{kind}: {name}")
    for kind, (parts, _) in LISTS.items()
    for name, part in parts.items()
] + [pytest.param(name, part, id=f"more: {name}") for name, part in broken.MORE]


@pytest.mark.parametrize("kind", LISTS)
def test_every_check_has_a_part_that_breaks_it(kind: str) -> None:
    """No more and no fewer."""
    parts, names = LISTS[kind]
    assert set(parts) == names


@pytest.mark.parametrize(("name", "case"), CASES)
def test_a_broken_promise_is_found_and_no_other(name: str, case: Broken) -> None:
    """A part that breaks one promise fails that check, and others only where it must."""
    part, extras = case
    report = checks.report(part)
    assert {result.name for result in report.broken} == {name} | extras, str(report)


def chance(source: str) -> Any:
    """Return a draw that asks another source of chance than `rng`, but hardly ever uses it."""

    def draw(self: Any, rng: Any, state: Any, at: Any) -> Any:
        sources: dict[str, Callable[[], float]] = {
            "numpy.random": lambda: np.random.random(),  # noqa: NPY002
            "random": lambda: random.random(),
            "a generator": lambda: np.random.default_rng().random(),
            "a generator of Python's": lambda: random.Random().random(),
            "the machine": lambda: random.SystemRandom().random(),
            "a generator of its module": lambda: self.chance.random(),
        }
        asked = sources[source]()
        told = BetaThompson.draw(self, rng, state, at)
        return tuple(part * (2.0 if asked < 1e-12 else 1.0) for part in told)

    return draw


@pytest.mark.parametrize(
    "source",
    [
        "numpy.random",
        "random",
        "a generator",
        "a generator of Python's",
        "the machine",
        "a generator of its module",
    ],
)
def test_other_sources_of_chance_are_always_found(source: str) -> None:
    """Two draws agree in all but one of 10¹² runs: it is the asking that is found."""
    kept = {"chance": np.random.default_rng(0)}  # made before, so that it has a seed
    part, _ = broken.but(BetaThompson(), draw=chance(source), **kept)
    told = {result.name: result.broken for result in checks.report(part).broken}
    assert "draw from `rng`" in told["the same key draws the same"]


class Slotted:
    """Keeps its generator where no `__dict__` is."""

    __slots__ = ("__own",)

    def __init__(self) -> None:
        self.__own = np.random.default_rng(3)

    def draw(self) -> float:
        return float(self.__own.random())


class Shared:
    rng = np.random.default_rng(3)

    def draw(self) -> float:
        return float(self.rng.random())


class Inherits(Shared):
    """Keeps none; the class that it is made of does."""


@dataclass
class Keeps:
    rngs: Any

    def draw(self) -> float:
        kept = self.rngs
        while not isinstance(kept, np.random.Generator):
            kept = list(kept.values())[-1] if isinstance(kept, dict) else list(kept)[-1]
        return float(kept.random())


def two() -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in (3, 4)]


@dataclass
class Drawn:
    part: Any


@pytest.mark.parametrize(
    "part",
    [Inherits(), Slotted(), Keeps(two()), Keeps(tuple(two())), Keeps({"a": two()})],
    ids=["a base", "slots", "a list", "a tuple", "a dictionary"],
)
def test_a_generator_is_found_wherever_a_part_keeps_it(part: Any) -> None:
    """Seeded once, its numbers depend on how often it was asked: replay cannot draw them again."""
    with (
        pytest.raises(checks.NonConforming, match="draw from `rng` instead"),
        keyed_numbers_only(Drawn(part)),
    ):
        part.draw()
    with keyed_numbers_only(Drawn(part)):
        pass


# The list itself


def test_check_raises_with_every_broken_promise() -> None:
    """One error of our family; it names the part, each promise and how it was broken."""
    part, _ = broken.BANDITS["merging the prior changes nothing"]
    with pytest.raises(checks.NonConforming) as caught:
        checks.check(part)
    text = str(caught.value)
    assert isinstance(caught.value, GdcbError)
    assert isinstance(caught.value, AssertionError)
    assert "BrokenBetaThompson (bandit): keeps 35 of 37 promises" in text
    assert "✗ merging the prior changes nothing: Priors have no evidence to add" in text
    assert "after merging the prior: they differ by" in text
    assert "✗ merging halves is the whole" in text


def test_a_part_that_raises_has_broken_its_promise() -> None:
    """Whatever it raises is reported, and the rest of the list is run."""

    def fail(self: Any, *at: Any) -> Any:
        raise KeyError("no such thing")

    report = checks.report(broken.but(BetaThompson(), mean=fail)[0])
    told = {result.name: result.broken for result in report.broken}
    assert "KeyError" in told["values and means have their shape"]
    assert not report.is_conforming
    assert any(result.is_kept for result in report.results)


def test_an_error_that_repeats_is_told_once_and_where() -> None:
    """The place is the last line of the part's author, not the library's that raised."""

    def fail(self: Any, *arguments: Any) -> None:
        np.zeros(2).reshape(3)

    line = fail.__code__.co_firstlineno + 1
    report = checks.report(broken.but(BetaThompson(), init=fail)[0])
    text = f"test_checks.py:{line})"
    same = [result for result in report.broken if result.broken.endswith(text)]
    assert len(same) > 2
    assert str(report).count(text) == 1
    assert f"{text} … and {len(same) - 1} checks more" in str(report)


def test_a_part_with_required_settings_is_told_how_to_be_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The message names the settings, and the method that would do."""

    @dataclasses.dataclass(frozen=True)
    class Needs:
        limit: float

    monkeypatch.setattr("gdcb.checks.examples.part_named", lambda kind, name: Needs)
    text = r"gate 'mine': limit must be given; .* give it a classmethod example\(\)"
    with pytest.raises(InvalidInput, match=text):
        checks.build("gate", "mine")


def test_a_check_that_fails_does_not_end_the_list() -> None:
    """A gate or a kernel whose `check` raises what it should not is told so, and tried on."""

    def fail(self: Any, columns: Any) -> None:
        raise KeyError("price")

    kernel = broken.but(CategoryKernel(), check=fail)[0]
    for part in (broken.but(Bounds(high=9.0), check=fail)[0], kernel, Approval(kernel=kernel)):
        told = {result.name: result.broken for result in checks.report(part).broken}
        assert "it raised KeyError: 'price'" in told["it says what it cannot judge"]


def test_a_part_that_cannot_even_be_asked_is_reported() -> None:
    """What it raises while the list is made is one broken promise, also within a domain."""

    def fail(self: Any) -> Any:
        raise RuntimeError("not today")

    part = broken.but(BetaThompson(), supports=property(fail))[0]
    (result,) = checks.report(part).broken
    assert result.name == "can be tried"
    assert result.broken.startswith("it raised RuntimeError: not today (")
    assert "test_checks.py:" in result.broken
    report = checks.report(dataclasses.replace(load("credit"), bandit=part))
    assert [result.name for result in report.broken][-1] == "bandit: can be tried"
    assert "scaler: delta has its shape" in {result.name for result in report.results}


METHODS = {
    "bandit": Bandit,
    "scaler": Scaler,
    "composition": Composition,
    "gate": Gate,
    "reward": Reward,
    "kernel": NumberKernel,
}


@pytest.mark.parametrize(
    ("kind", "lacking"),
    [
        (kind, name)
        for kind, protocol in METHODS.items()
        for name, value in vars(protocol).items()
        if isfunction(value) and not name.startswith("_")
    ],
)
def test_a_missing_method_is_named(kind: str, lacking: str) -> None:
    """Whichever it is: the report says the nearest kind, and what is not there."""
    methods = {name: print for name, value in vars(METHODS[kind]).items() if isfunction(value)}
    del methods[lacking]
    report = checks.report(SimpleNamespace(**methods))
    (result,) = report.broken
    assert (report.kind, result.name) == (kind, "has its methods")
    assert result.broken == f"it is nearest to a part of the kind '{kind}', and lacks '{lacking}'"


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        (BetaThompson(), "bandit"),
        (RidgeScaler(features=("a",)), "scaler"),
        (Multiply(), "composition"),
        (Bounds(high=9.0), "gate"),
        (CategoryKernel(), "kernel"),
        (Scaled(), "reward"),
        (ArmList(values=(1.0, 2.0)), "arms"),
        (ArmList(values=(1.0, 2.0)).build(), "arms"),
        (load("credit"), "domain"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_kind_is_known_by_its_methods(part: Any, kind: str) -> None:
    """And every list is one of named checks with a sentence each."""
    assert checks.kind_of(part) == kind
    found = checks.of(part)
    names = [str(one) for one in found]
    assert len(set(names)) == len(names)
    assert all(one.sentence.endswith(".") and len(one.sentence) > 20 for one in found)


@pytest.mark.parametrize("part", [3, "beta", object(), BetaThompson])
def test_what_is_no_part_is_refused(part: Any) -> None:
    """A number, a name, a class: the error says what there is."""
    with pytest.raises((InvalidInput, checks.NonConforming), match=r"bandit|class"):
        checks.check(part)


def test_a_gate_that_judges_nothing_tried_asks_for_an_instance() -> None:
    """A kernel of nine categories fits none of the actions at hand."""
    with pytest.raises(InvalidInput, match="give an instance"):
        checks.of(Approval(kernel=CategoryKernel(n_categories=9)))


def test_a_part_can_be_tried_on_an_instance() -> None:
    """Columns of the instance's context, its arms and its actions are used."""
    instance = load("str").instance
    part = RidgeScaler(features=("occupancy", "gap"))
    assert checks.check(part, instance).is_conforming
    with pytest.raises(InvalidInput, match="no context column 'rain'"):
        checks.of(RidgeScaler(features=("rain",)), instance)


def test_numbers_are_compared_to_the_largest() -> None:
    """1e-9 of the largest is allowed, and no more; shapes must agree."""
    one = np.array([1e6, 1.0])
    require_close(one + np.array([0.0, 9e-4]), one, "sums")
    for other in (one + np.array([0.0, 2e-3]), one[:1], [1e6, 1.0], one * np.nan):
        with pytest.raises(checks.NonConforming, match="sums"):
            require_close(other, one, "sums")  # type: ignore[arg-type]


# The command


def run(*arguments: str) -> tuple[int, str, str]:
    """Return exit code, stdout and stderr of `gdcb parts`."""
    result = CliRunner().invoke(app, ["parts", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_the_command_checks_parts_by_name_and_kind() -> None:
    """A table with a tick a part, and exit code 0."""
    code, out, _ = run("--check", "reward", "bounds")
    assert code == 0
    assert out.count("✓") == 1 + len(registered("reward"))
    assert "9 of 9 kept" in out


def test_the_command_prints_one_json_document() -> None:
    """Kind, name and every promise with its sentence; nothing else on stdout."""
    code, out, _ = run("--check", "cap", "--json")
    (found,) = json.loads(out)
    assert code == 0
    assert (found["kind"], found["name"]) == ("gate", "cap")
    assert {promise["broken"] for promise in found["promises"]} == {""}


def test_the_command_fails_where_a_promise_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 1, a cross, and what was broken; also where a part cannot be built at all."""
    part, _ = broken.REWARDS["worth agrees with reward"]
    monkeypatch.setattr(checks, "build", lambda kind, name: (part, None))
    code, out, _ = run("--check", "payoff")
    assert code == 1
    assert "✗" in out
    assert "worth agrees with reward" in out

    for error, said in (
        (InvalidInput("features must be given"), "features must be given"),
        (ImportError("no module 'poker'"), "ImportError: no module 'poker'"),
    ):

        def refuse(kind: str, name: str, error: Exception = error) -> Any:
            raise error

        monkeypatch.setattr(checks, "build", refuse)
        code, out, _ = run("--check", "payoff", "--json")
        assert code == 1
        assert json.loads(out)[0]["promises"][0]["broken"] == said


def test_the_command_refuses_what_nobody_registered() -> None:
    """Wrong usage is exit code 2."""
    code, _, err = run("--check", "poker")
    assert code == 2
    assert "no part 'poker'" in err
    assert run("bandit", "gate")[0] == 2
