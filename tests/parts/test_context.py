"""Contexts: what is encoded, what is refused, and a JSON schema that says the same."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb.context import Category, Flag, Number, Schema
from gdcb.errors import InvalidInput, UnknownField
from gdcb.parts import bind
from gdcb.rewards import Scaled
from gdcb.scalers import RidgeScaler
from tests.properties import examples

SCHEMA = Schema(
    {
        "occupancy": Number(0, 1, about="share of nights sold"),
        "season": Category(("low", "high", "peak")),
        "weekend": Flag(),
        "balance": Number(),
    }
)
GOOD = {"occupancy": 0.4, "season": "high", "weekend": True, "balance": -2}
CHECKER = jsonschema.Draft202012Validator(SCHEMA.json_schema())


def test_encoding_by_hand() -> None:
    """0.4, a one among three levels, true as 1, −2; names and positions follow the columns."""
    assert SCHEMA.encode([GOOD]).tolist() == [[0.4, 0.0, 1.0, 0.0, 1.0, -2.0]]
    assert SCHEMA.names == (
        "occupancy",
        "season=low",
        "season=high",
        "season=peak",
        "weekend",
        "balance",
    )
    assert SCHEMA.positions == {
        "occupancy": [0],
        "season": [1, 2, 3],
        "season=low": [1],
        "season=high": [2],
        "season=peak": [3],
        "weekend": [4],
        "balance": [5],
    }
    assert SCHEMA.width == 6


def test_parts_may_name_one_level() -> None:
    """A level is a column of 0 and 1 by itself; a category is all of its levels, '*' all columns
    once. Where one number is needed a category is refused and a level is not."""
    for features, expected in (
        (("season=peak", "balance"), (3, 5)),
        (("season", "weekend"), (1, 2, 3, 4)),
        (("*",), (0, 1, 2, 3, 4, 5)),
    ):
        assert bind(RidgeScaler(features=features), SCHEMA.positions).features == expected
    assert bind(Scaled(scale="season=low"), SCHEMA.positions).scale == 1
    with pytest.raises(InvalidInput, match="'season' is a category; name a number or a flag"):
        bind(Scaled(scale="season"), SCHEMA.positions)
    with pytest.raises(UnknownField, match="no context column 'season=mid'"):
        bind(RidgeScaler(features=("season=mid",)), SCHEMA.positions)


def test_a_level_is_no_field_of_a_context() -> None:
    """Contexts name the category, and say its level."""
    bad = {name: value for name, value in GOOD.items() if name != "season"} | {"season=low": 1.0}
    with pytest.raises(UnknownField, match="no column season=low; it has occupancy, season, week"):
        SCHEMA.encode([bad])


def test_no_contexts_are_no_rows() -> None:
    """An empty batch has the right width."""
    assert SCHEMA.encode([]).shape == (0, 6)


def test_order_of_fields_does_not_matter() -> None:
    """Fields are taken by name."""
    backwards = dict(reversed(GOOD.items()))
    assert (SCHEMA.encode([backwards]) == SCHEMA.encode([GOOD])).all()


@pytest.mark.parametrize(
    "value", [np.float64(0.5), np.float32(0.5), np.int64(1), 1, 0, 0.0, 1.0, -0.0]
)
def test_numbers_of_every_type_are_taken(value: Any) -> None:
    """Python's and NumPy's numbers are numbers, the limits included."""
    assert SCHEMA.encode([GOOD | {"occupancy": value}])[0, 0] == float(value)


def test_numpy_flags_are_taken() -> None:
    """NumPy's booleans are flags."""
    assert SCHEMA.encode([GOOD | {"weekend": np.bool_(True)}])[0, 4] == 1.0


@pytest.mark.parametrize(
    ("context", "error", "message"),
    [
        (GOOD | {"occupancy": "0.4"}, InvalidInput, "context.occupancy: expected a number, got '0"),
        (GOOD | {"occupancy": True}, InvalidInput, "context.occupancy: expected a number, got Tr"),
        (GOOD | {"occupancy": np.bool_(0)}, InvalidInput, "context.occupancy: expected a number"),
        (GOOD | {"occupancy": None}, InvalidInput, "context.occupancy: expected a number, got No"),
        (GOOD | {"occupancy": [0.4]}, InvalidInput, "context.occupancy: expected a number, got "),
        (GOOD | {"occupancy": 1j}, InvalidInput, "context.occupancy: expected a number"),
        (GOOD | {"occupancy": math.nan}, InvalidInput, "context.occupancy: expected a finite"),
        (GOOD | {"balance": math.inf}, InvalidInput, "context.balance: expected a finite number"),
        (GOOD | {"balance": -math.inf}, InvalidInput, "context.balance: expected a finite number"),
        (GOOD | {"balance": 10**400}, InvalidInput, "context.balance: expected a finite number"),
        (GOOD | {"occupancy": 1.5}, InvalidInput, "context.occupancy: expected 0 to 1, got 1.5"),
        (GOOD | {"occupancy": -1}, InvalidInput, "context.occupancy: expected 0 to 1, got -1"),
        (GOOD | {"season": "mid"}, InvalidInput, "context.season: expected one of low, high, peak"),
        (GOOD | {"season": 1}, InvalidInput, "context.season: expected one of low, high, peak"),
        (GOOD | {"season": ["low"]}, InvalidInput, "context.season: expected one of low, high"),
        (GOOD | {"season": None}, InvalidInput, "context.season: expected one of low, high, peak"),
        (GOOD | {"weekend": 1}, InvalidInput, "context.weekend: expected true or false, got 1"),
        (GOOD | {"weekend": "yes"}, InvalidInput, "context.weekend: expected true or false, got "),
        (GOOD | {"weekend": None}, InvalidInput, "context.weekend: expected true or false"),
        (GOOD | {"wind": 1.0}, UnknownField, "context: no column wind; it has occupancy, season"),
        ({"occupancy": 0.4}, InvalidInput, "context: missing season, weekend, balance"),
        ({}, InvalidInput, "context: missing occupancy, season, weekend, balance"),
        ([0.4], InvalidInput, "context: expected named fields, got"),
        (None, InvalidInput, "context: expected named fields, got None"),
        ("occupancy", InvalidInput, "context: expected named fields, got 'occupancy'"),
    ],
)
def test_bad_contexts_are_refused(context: Any, error: type[Exception], message: str) -> None:
    """Every bad context is refused with the column, what was expected and what came."""
    with pytest.raises(error, match=message):
        SCHEMA.encode([GOOD, context])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Schema({}), "expected at least one column"),
        (lambda: Schema({1: Number()}), "expected columns by names that are text, got 1"),  # type: ignore[dict-item]
        (lambda: Number(2, 1), "low 2 is above high 1"),
        (lambda: Number(math.nan, 1), "expected numbers, got low nan, high 1"),
        (lambda: Category(("one",)), "at least two different levels"),
        (lambda: Category(()), "at least two different levels"),
        (lambda: Category(("a", "b", "a")), "at least two different levels"),
        (
            lambda: Schema({"day=fri": Flag(), "day": Category(("fri", "sat"))}),
            "context: two columns are named day=fri",
        ),
    ],
)
def test_bad_schemas_are_refused(build: Callable[[], Any], message: str) -> None:
    """A schema that cannot hold any context is refused when it is written."""
    with pytest.raises(InvalidInput, match=message):
        build()


def test_json_schema_by_hand() -> None:
    """Limits, levels and descriptions are carried over; infinite limits are left out."""
    schema = SCHEMA.json_schema()
    assert schema["properties"] == {
        "occupancy": {
            "type": "number",
            "minimum": 0,
            "maximum": 1,
            "description": "share of nights sold",
        },
        "season": {"enum": ["low", "high", "peak"]},
        "weekend": {"type": "boolean"},
        "balance": {"type": "number"},
    }
    assert schema["required"] == ["occupancy", "season", "weekend", "balance"]
    assert schema["additionalProperties"] is False


def test_json_schema_is_a_schema() -> None:
    """It is valid under its own draft."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA.json_schema())


anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["low", "high", "peak", "", "0.4", "true"]),
    st.lists(st.integers(0, 1), max_size=2),
    st.dictionaries(st.sampled_from(["low"]), st.integers(0, 1), max_size=1),
)
nearly = {
    "occupancy": st.floats(0, 1) | st.sampled_from([0, 1, -1e-9, 1.0000001]),
    "season": st.sampled_from(["low", "high", "peak", "Low"]),
    "weekend": st.booleans() | st.integers(0, 1),
    "balance": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**30), 10**30),
}


@st.composite
def contexts(draw: st.DrawFn) -> Any:
    """Draw JSON values, most of them contexts with few faults."""
    if draw(st.integers(0, 19)) == 0:
        return draw(anything)
    context = {name: draw(values) for name, values in nearly.items()}
    if draw(st.booleans()):
        name = draw(st.sampled_from(sorted(nearly)))
        if draw(st.booleans()):
            context[name] = draw(anything)
        else:
            del context[name]
    if draw(st.integers(0, 9)) == 0:
        context["wind"] = draw(anything)
    return context


@given(contexts())
@examples(400)
def test_json_schema_accepts_what_encode_accepts(context: Any) -> None:
    """A JSON value passes the published schema exactly where `encode` takes it."""
    try:
        encoded = SCHEMA.encode([context])
    except InvalidInput:
        accepted = False
    else:
        accepted = True
        assert np.isfinite(encoded).all()
    assert CHECKER.is_valid(context) is accepted
