"""No public constructor takes a setting for something that it is not.

Python is silent about all of these: a name where several are asked for is a sequence of letters,
'no' is true, True is 1, and a name stands where a part belongs until something calls it.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gdcb
from gdcb import parts
from gdcb.checks import examples
from gdcb.declaration import GROUPS, registered
from gdcb.errors import InvalidInput
from gdcb.log_columns import LogColumns
from tests.builders import pricing


def _person() -> gdcb.SimulatedPerson:
    return gdcb.SimulatedPerson(
        lambda e, rows: np.full(e.shape[:2], 0.5), lambda rows: rows.x[:, :1]
    )


OTHERS: tuple[Callable[[], Any], ...] = (
    lambda: gdcb.Number(0, 1),
    gdcb.Flag,
    lambda: gdcb.Category(("a", "b")),
    lambda: gdcb.Schema({"x": gdcb.Number(0, 1)}),
    gdcb.NullAction,
    lambda: gdcb.Cells((0.5,)),
    gdcb.Rules,
    gdcb.Chain,
    lambda: gdcb.Adjustment(((0.0,),), ("x",)),
    gdcb.NumberKernel,
    gdcb.CategoryKernel,
    _person,
    lambda: gdcb.Approval(_person()),
    LogColumns,
)
PARTS = [(kind, name) for kind in GROUPS for name in registered(kind)]


def kinds_of(hint: Any) -> set[Any]:
    """Return what a type is a union of."""
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return set(typing.get_args(hint)) if is_union else {hint}


def wrong_for(hint: Any) -> Iterator[Any]:
    """Yield values that a newcomer might give for a setting of this type, and that it is not."""
    kinds = kinds_of(hint)
    several = [typing.get_args(one)[0] for one in kinds if typing.get_origin(one) is tuple]
    if not kinds & {str, Any}:
        yield "abc"
    if bool not in kinds:
        yield True
    if bool in kinds:
        yield from ("no", 2)
    if int in kinds and float not in kinds:
        yield 1.5
    if str in kinds and not kinds & {int, float}:
        yield 3
    for inner in several:
        inner_kinds = kinds_of(inner)
        if not kinds & {int, float}:
            yield 1.0
        if not inner_kinds & {str, Any}:
            yield ("a", "b")
        if Any not in inner_kinds:
            yield (True, False)
        if str in inner_kinds:
            yield (1.5, 2.5)
    if not several and not kinds & {str, int, float, bool, Any}:
        yield 3


def refused(part: Any) -> int:
    """Try every wrong value for every setting of a part; return how many were tried."""
    hints, tried, taken = typing.get_type_hints(type(part)), 0, []
    for field in dataclasses.fields(part):
        for value in wrong_for(hints[field.name]) if field.init else ():
            tried += 1
            try:
                dataclasses.replace(part, **{field.name: value})
            except InvalidInput:
                continue
            except Exception as error:
                taken.append(f"{field.name}={value!r}: {type(error).__name__}: {error}")
            else:
                taken.append(f"{field.name}={value!r} was taken")
    assert not taken, f"{type(part).__name__}: " + "; ".join(taken)
    return tried


@pytest.mark.parametrize(("kind", "name"), PARTS, ids=[f"{k} {n}" for k, n in PARTS])
def test_a_registered_part_refuses_settings_of_another_type(kind: str, name: str) -> None:
    part, _ = examples.example(kind, name)
    assert refused(part) > 0


@pytest.mark.parametrize(("kind", "name"), PARTS, ids=[f"{k} {n}" for k, n in PARTS])
def test_a_registered_part_takes_lists_for_tuples(kind: str, name: str) -> None:
    """It is then the same part, which compares, hashes and binds as one made of tuples."""
    part, _ = examples.example(kind, name)
    names = [field.name for field in dataclasses.fields(part) if field.init]
    several = {one: getattr(part, one) for one in names if type(getattr(part, one)) is tuple}
    listed = dataclasses.replace(part, **{one: list(value) for one, value in several.items()})
    assert {one: getattr(listed, one) for one in several} == several
    assert all(type(getattr(listed, one)) is tuple for one in several)


MADE_OF_LISTS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "features": (lambda: gdcb.LinearThompson(["z"]), lambda: gdcb.LinearThompson(("z",))),  # type: ignore[arg-type]
    "an array": (
        lambda: gdcb.GaussianThompson(np.array([1.0, 2.0])),  # type: ignore[arg-type]
        lambda: gdcb.GaussianThompson((1.0, 2.0)),
    ),
    "a list of lists": (
        lambda: gdcb.LogisticArmsThompson(["z"], prior_mean=[[1.0], [2.0]]),  # type: ignore[arg-type]
        lambda: gdcb.LogisticArmsThompson(("z",), prior_mean=((1.0,), (2.0,))),
    ),
    "both rates": (
        lambda: gdcb.BetaThompson([1, 2], [2, 1]),  # type: ignore[arg-type]
        lambda: gdcb.BetaThompson((1, 2), (2, 1)),
    ),
    "a curve": (
        lambda: gdcb.CurveThompson(prior_mean=[0, -1], prior_sd=[1, 1]),  # type: ignore[arg-type]
        lambda: gdcb.CurveThompson(prior_mean=(0, -1), prior_sd=(1, 1)),
    ),
    "learners": (
        lambda: gdcb.StackedThompson([gdcb.BetaThompson(), gdcb.CurveThompson()]),  # type: ignore[arg-type]
        lambda: gdcb.StackedThompson((gdcb.BetaThompson(), gdcb.CurveThompson())),
    ),
    "factors": (
        lambda: gdcb.LogLinearScaler([("occ", ["z"])]),  # type: ignore[arg-type]
        lambda: gdcb.LogLinearScaler({"occ": ("z",)}),
    ),
}


@pytest.mark.parametrize("case", MADE_OF_LISTS, ids=str)
def test_a_part_made_of_lists_is_one_made_of_tuples(case: str) -> None:
    of_lists, of_tuples = (make() for make in MADE_OF_LISTS[case])
    assert of_lists == of_tuples
    assert hash(of_lists) == hash(of_tuples)
    columns = {"z": [3]}
    assert parts.bind(of_lists, columns) == parts.bind(of_tuples, columns)


@pytest.mark.parametrize("make", OTHERS, ids=lambda make: type(make()).__name__)
def test_what_else_is_public_refuses_settings_of_another_type(make: Callable[[], Any]) -> None:
    assert refused(make()) > 0


def _has_settings(one: Any) -> bool:
    return isinstance(one, type) and dataclasses.is_dataclass(one)


def test_every_public_constructor_is_tried() -> None:
    """Instances and arm spaces have tests of their own; the rest has no settings."""
    tried = {type(examples.example(kind, name)[0]) for kind, name in PARTS}
    tried |= {type(make()) for make in OTHERS}
    public = {getattr(gdcb, name) for name in gdcb.__all__}
    left = {one.__name__ for one in public - tried if _has_settings(one)}
    assert left == {"Arms", "Case", "Hold", "Instance", "Open", "Propensity"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("names", "ab"),
        ("names", (1, 2)),
        ("coords", [[1.0], [2.0]]),
        ("coords", np.array([["a"], ["b"]])),
        ("steps", [1.0]),
        ("is_exact", np.array([0.0])),
    ],
)
def test_an_arm_space_refuses_what_it_is_not_made_of(name: str, value: Any) -> None:
    good: dict[str, Any] = {
        "names": ("a", "b"),
        "coords": np.array([[1.0], [2.0]]),
        "steps": np.ones(1),
        "is_exact": np.array([False]),
    }
    assert gdcb.Arms(**good).n == 2
    with pytest.raises(InvalidInput, match=rf"^arms\.{name}: expected"):
        gdcb.Arms(**(good | {name: value}))


INSTANCE: dict[str, Any] = {
    "context": gdcb.Schema({"x": gdcb.Number(0, 1)}),
    "arms": gdcb.ArmList((1.0, 2.0)),
    "composition": gdcb.Multiply(),
    "gate": [],
}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("context", ({"x": gdcb.Number(0, 1)}, None)),
        ("arms", ([1.0, 2.0], None)),
        ("composition", ("multiply", gdcb.Multiply, gdcb.ConstantScaler(), None)),
        ("gate", ("bounds", gdcb.Bounds, 3, True, None)),
        ("scaler", ("ridge", gdcb.ConstantScaler, gdcb.Multiply(), None)),
        ("reward", ("payoff", gdcb.Payoff, gdcb.ConstantScaler(), None)),
        ("null", (0.0, (1.0,), None)),
        ("cells", ((0.5,), None)),
        ("rules", ("nominal", None)),
        ("adjustment", ("linear", True)),
        ("name", (3, "", None)),
        ("title", (3, None)),
    ],
)
def test_an_instance_refuses_what_belongs_elsewhere(name: str, values: tuple[Any, ...]) -> None:
    for value in values:
        with pytest.raises(InvalidInput, match=rf"^{name}: expected"):
            gdcb.Instance(**(INSTANCE | {name: value}))


def test_a_limit_that_is_no_number_limits_nothing_and_is_refused() -> None:
    """No price is above NaN: the cap would let everything pass."""
    with pytest.raises(InvalidInput, match=r"gate\.limit: expected a number, got nan"):
        gdcb.Cap(limit=float("nan"))


def test_an_action_is_not_called_like_a_context_column() -> None:
    """A log's one column of that name would be the context and what ran; recorded ones stay."""

    def named() -> gdcb.Instance:
        return pricing(composition=gdcb.Multiply(base=("base",), names=("base",)))

    with pytest.raises(InvalidInput, match="the action is called 'base', as a context column is"):
        named()
    with parts.as_recorded():
        assert [one.name for one in named().actions] == ["base"]


def test_zero_is_no_null_action() -> None:
    """Taken as a truth value it said that nothing runs at all; (0.0,) says what was meant."""
    with pytest.raises(InvalidInput, match=r"null\.action: expected a tuple of numbers, got 0\.0"):
        gdcb.NullAction(0.0)  # type: ignore[arg-type]
    assert gdcb.NullAction((0.0,)).of(np.ones((1, 1)), 1).tolist() == [[0.0]]


@dataclasses.dataclass(frozen=True)
class Settings:
    """A part with a setting of every kind."""

    several: tuple[float, ...] = ()
    pairs: dict[str, tuple[float, ...]] = dataclasses.field(default_factory=dict)
    pair: tuple[float, int] = (0.0, 0)
    some: float | tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        parts.check_settings(self, "part")


def test_lists_and_arrays_become_tuples_of_plain_numbers() -> None:
    part = Settings(np.array([1.0, 2.0]), {"a": [1, 2]}, [0.5, np.int64(3)], np.float32(0.5))  # type: ignore[arg-type,dict-item]
    assert part == Settings((1.0, 2.0), {"a": (1, 2)}, (0.5, 3), 0.5)
    assert [type(value) for value in (part.several, part.pairs["a"], part.pair[1], part.some)] == [
        tuple,
        tuple,
        int,
        float,
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"several": "ab"}, "part.several: expected a tuple of numbers, got 'ab'"),
        ({"pairs": {"a": 1.0}}, "part.pairs: expected a dictionary whose values are each a tuple"),
        ({"pairs": {1: (1.0,)}}, "part.pairs: expected a dictionary"),
        ({"pair": (1.0,)}, "part.pair: expected a tuple of numbers, got (1.0,)"),
        ({"some": "x"}, "part.some: expected a number or a tuple of numbers or None, got 'x'"),
    ],
)
def test_an_error_says_what_was_expected_and_what_came(given: Any, said: str) -> None:
    with pytest.raises(InvalidInput) as error:
        Settings(**given)
    assert str(error.value).startswith(said)
