"""Events: plain, frozen, bytes, and refused where they are not what was written."""

from __future__ import annotations

import dataclasses
import json
import math
import struct
from functools import cache
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb import events as ev
from gdcb.cases import about
from gdcb.codec import from_body, leaves, to_body
from gdcb.errors import InvalidInput
from tests.builders import letting, letting_log, night, worked
from tests.properties import examples

QUIET = examples(60)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(max_size=20)


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
    agent.correct(first.id, {"booked": 0}, "cancelled", by="bea")
    agent.roll_back(12, "a bad week")
    return list(agent.events)


def test_the_story_has_every_kind() -> None:
    """The union, the table of kinds and a full story name the same events."""
    kinds = set(ev.KINDS.values())
    assert kinds == set(get_args(ev.Event))
    assert {type(event) for event in stories()} == kinds - set(get_args(ev.Act))
    assert all(name == kind.__name__ for name, kind in ev.KINDS.items())


def test_every_event_survives_the_codec() -> None:
    """Reading what was written gives an equal event, and writing it again the same bytes."""
    for event in stories():
        body = to_body(event)
        again = from_body(type(event).__name__, body)
        assert again == event
        assert to_body(again) == body
        assert len(leaves(event)) == (len(about(event)) if event.columns else 1)
        json.loads(ev.to_json(event))


@QUIET
@given(
    TEXT,
    st.lists(st.floats(), min_size=1, max_size=3),
    st.none() | st.lists(st.floats(), min_size=1),
    NUMBER,
)
def test_any_outcome_survives_the_codec(
    name: str, outcome: list[float], label: list[float] | None, weight: float
) -> None:
    """Floats come back to the last bit, whatever the id is; NaN and infinities too."""
    labels = None if label is None else np.array([label])
    event = ev.OutcomeObserved([name], np.array([outcome]), labels, np.array([weight]))
    again = from_body("OutcomeObserved", to_body(event))
    assert again == event
    assert isinstance(again, ev.OutcomeObserved)
    assert again.outcome.tobytes() == event.outcome.tobytes()
    json.loads(ev.to_json(event))


@QUIET
@given(st.lists(st.tuples(TEXT, TEXT, NUMBER), min_size=2, max_size=5, unique=True))
def test_rows_that_differ_have_other_leaves(rows: list[tuple[str, str, float]]) -> None:
    """Where one name ends and the next begins shows, and so does every number."""
    ids, units, values = zip(*rows, strict=True)
    n = len(rows)
    zeros, column = np.zeros(n, dtype=np.int64), np.array(values)[:, None]
    made = ev.DecisionMade(
        list(ids), list(units), zeros, 0, ["u"] * n, column, None, zeros, column,
        column[:, None], zeros, column,
    )  # fmt: skip
    numbers = {struct.pack("<d", value) for value in values}
    assert len(set(leaves(made))) == len({(a, b, struct.pack("<d", c)) for a, b, c in rows})
    assert all(any(number in leaf for leaf in leaves(made)) for number in numbers)


ACTS: list[ev.Event] = [
    ev.InstanceChanged('name = "x"', 7, "ab12", None, "first"),
    ev.ChangeProposed('name = "y"', "higher limits"),
    ev.ChangeRefused(3, "not now"),
    ev.Paused("odd prices"),
    ev.Resumed("mended"),
    ev.Retired("sold"),
    ev.LedgerSetBack(12, "00ff", 7),
    ev.SetBackAcknowledged("a disk was replaced"),
    ev.Shown("7", "ann", "00ff"),
    ev.StateSealed("AA==", True, "a guest asked"),
    ev.SubjectErased(["k1"], "a guest asked"),
    ev.CertificateGiven("log.csv", "ab", {"verdict": "refuse"}),
]


def test_every_act_survives_the_codec() -> None:
    """What people do to an instance is written and read like all else."""
    assert {type(act) for act in ACTS} == set(get_args(ev.Act))
    for act in ACTS:
        assert from_body(type(act).__name__, to_body(act)) == act
        assert leaves(act) == [to_body(act)]


@pytest.mark.parametrize("kind", list(ev.KINDS.values()), ids=lambda kind: kind.__name__)
def test_an_event_is_frozen(kind: type[ev.Event]) -> None:
    """What happened cannot be changed."""
    event = next(event for event in [*stories(), *ACTS] if type(event) is kind)
    name = dataclasses.fields(event)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(event, name, "other")


def written(head: str) -> bytes:
    """Return a body with this head and no arrays."""
    text = head.encode()
    return struct.pack("<I", len(text)) + text + bytes(-(4 + len(text)) % 8)


@pytest.mark.parametrize(
    ("kind", "body", "message"),
    [
        ("Erased", b"", "no kind 'Erased'"),
        ("Expired", b"", "cannot read this Expired"),
        ("Expired", b"\x09", "cannot read this Expired"),
        ("Expired", written("not json"), "cannot read this Expired"),
        ("Expired", written("null"), "cannot read this Expired"),
        ("Expired", written("[]"), "cannot read this Expired"),
        ("Expired", written('{"fields":{"id":"1"},"arrays":[]}'), "missing 1 required"),
        ("Expired", written('{"fields":{"id":"1","reason":"","x":1},"arrays":[]}'), "unexpected"),
        ("Expired", written('{"fields":{"id":NaN,"reason":""},"arrays":[]}'), "NaN is no number"),
        ("Expired", written('{"fields":{"id":"1"},"arrays":[["reason","|O",[1]]]}'), "of type"),
        ("Expired", written('{"fields":{"id":"1"},"arrays":[["id","<f8",[0]]]}'), "an array 'id'"),
        ("Expired", written('{"fields":{"id":"1"},"arrays":[["reason","<f8",[9]]]}'), "buffer"),
        ("Expired", to_body(ev.Expired("1", "")) + b"more", "bytes where"),
        ("Expired", to_body(ev.Expired("1", ""))[:-1], "bytes where"),
    ],
)
def test_bytes_that_are_no_event_are_refused(kind: str, body: bytes, message: str) -> None:
    """An event that is unknown, lacks a field or has one too many is refused, never skipped."""
    with pytest.raises(InvalidInput, match=f"^event: .*{message}"):
        from_body(kind, body)


def test_a_column_of_another_type_is_not_written() -> None:
    """Objects, text and single precision are no columns of an event."""
    with pytest.raises(InvalidInput, match="outcome: expected <f8"):
        to_body(ev.OutcomeObserved(["1"], np.array([["x"]]), None, np.ones(1)))


def test_events_are_equal_where_all_they_say_is() -> None:
    """NaN is equal to itself; a type, a shape or one number makes another event."""
    one = ev.ActionExecuted(["a"], np.array([[np.nan]]), np.array([True]))
    assert one == ev.ActionExecuted(["a"], np.array([[np.nan]]), np.array([True]))
    assert one != ev.ActionExecuted(["a"], np.array([[1.0]]), np.array([True]))
    assert one != ev.ActionExecuted(["a"], np.array([[np.nan, np.nan]]), np.array([True]))
    assert one != ev.ActionExecuted(["a"], np.array([[np.nan]]), np.array([1]))
    assert one != ev.Expired("a", "")
    assert hash(one) == hash(ev.ActionExecuted(["b"], np.array([[2.0]]), np.array([True])))


def test_numbers_that_are_not_there() -> None:
    """What is not finite is null for people and NaN as a number: [1, NaN, ∞] → [1, null, null]."""
    assert ev.plain(np.array([1.0, math.nan, math.inf])) == [1.0, None, None]
    back = ev.numbers([1.0, None])
    assert back[0] == 1.0
    assert math.isnan(back[1])
