"""Events: plain, frozen, JSON, and refused where they are not what was written."""

from __future__ import annotations

import dataclasses
import json
import math
from functools import cache
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdcb import events as ev
from gdcb.errors import InvalidInput
from tests.builders import letting, letting_log, night, worked

QUIET = settings(derandomize=True, deadline=None, max_examples=60)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(max_size=20)
MAYBE = st.none() | NUMBER


@cache
def stories() -> list[ev.Event]:
    """Return the events of an agent that met every kind of them."""
    agent = worked(letting(), n=9, history=letting_log())
    first = agent.decide(night(700.0), id="edited")
    agent.resolve(first.id, "edit", {"price": 123.0}, by="ann", reason="quiet week")
    agent.observe(first.id, {"booked": 1})
    agent.observe(first.id, {"booked": 1}, label=[0.1])
    agent.appeal(first.id, True, "the guest had a voucher", by="bea")
    agent.decide(night(800.0), id="lost")
    agent.expire("lost")
    agent.decide(night(900.0), id="waiting", mask=["1"])
    agent.refit()
    agent.report_drift(ev.DriftFound("reward", 9, 0.5, 0.3, 9.3, 9.2, 0.05, "the reward fell"))
    agent.discount(0.5, "the reward fell", since=9)
    return agent.events


def test_the_story_has_every_kind() -> None:
    """The union, the table of kinds and a full story name the same events."""
    kinds = set(ev.KINDS.values())
    assert kinds == set(get_args(ev.Event))
    assert {type(event) for event in stories()} == kinds
    assert all(name == kind.__name__ for name, kind in ev.KINDS.items())


def test_every_event_survives_json() -> None:
    """Reading what was written gives an equal event, and writing it again the same line."""
    for event in stories():
        line = ev.to_json(event)
        assert "\n" not in line
        again = ev.from_json(line)
        assert again == event
        assert ev.to_json(again) == line


@QUIET
@given(TEXT, st.lists(NUMBER, min_size=1, max_size=3), st.none() | st.lists(MAYBE), NUMBER)
def test_any_outcome_survives_json(
    name: str, outcome: list[float], label: list[float | None] | None, weight: float
) -> None:
    """Floats come back to the last bit, whatever the id is."""
    event = ev.OutcomeObserved(name, outcome, label, weight)
    assert ev.from_json(ev.to_json(event)) == event


@pytest.mark.parametrize("kind", list(ev.KINDS.values()), ids=lambda kind: kind.__name__)
def test_an_event_is_frozen(kind: type[ev.Event]) -> None:
    """What happened cannot be changed."""
    event = next(event for event in stories() if type(event) is kind)
    name = dataclasses.fields(event)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(event, name, "other")


@pytest.mark.parametrize(
    "line",
    [
        "",
        "not json",
        "null",
        "3",
        "[]",
        "{}",
        '{"event": "Erased", "id": "1"}',
        '{"event": ["Expired"], "id": "1", "reason": ""}',
        '{"event": "Expired", "id": "1"}',
        '{"event": "Expired", "id": "1", "reason": "", "more": 1}',
        '{"event": "Expired", "id": "1", "reason": ""',
    ],
)
def test_an_unknown_event_is_refused(line: str) -> None:
    """An event that is unknown, lacks a field or has one too many is refused, never skipped."""
    with pytest.raises(InvalidInput, match="event: cannot read"):
        ev.from_json(line)


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_is_not_there_is_null(word: str) -> None:
    """NaN and infinity are not JSON: neither is written, and neither is read."""
    event = ev.OutcomeObserved("1", [float(word)], None, 1.0)
    with pytest.raises(ValueError, match="not JSON compliant"):
        ev.to_json(event)
    line = f'{{"event": "OutcomeObserved", "id": "1", "outcome": [{word}], "label": null, '
    with pytest.raises(InvalidInput):
        ev.from_json(line + '"weight": 1.0}')


def test_lists_and_numbers_are_inverse() -> None:
    """What is not finite is null in a list and NaN as a number: [1, NaN, ∞] → [1, null, null]."""
    assert ev.listed([1.0, math.nan, math.inf]) == [1.0, None, None]
    back = ev.numbers([1.0, None])
    assert back[0] == 1.0
    assert math.isnan(back[1])
    assert json.loads(json.dumps(ev.listed([0.1]))) == [0.1]
