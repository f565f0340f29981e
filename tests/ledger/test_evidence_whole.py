"""Evidence: not one field of a document can be changed, dropped or emptied unnoticed.

The few that a document cannot prove by itself are named, in the code and in the guide, and here it
is checked that these are all.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gdcb.ledger import evidence
from gdcb.ledger.evidence import evidence_of, verify
from gdcb.ledger.evidence_check import UNPROVEN, UNPROVEN_IN_BATCHES
from gdcb.service import answering, erasing, observing
from tests.service.desks import Office, held, learning, night, office

_BOUNDS = '{ part = "bounds", name = "limits", low = 50, high = %d, version = "%d" }'
_POLICY = """
outcomes = { correction = "replace" }
launch = { mode = "holdback", share = 0.1, incumbent = { price = 110.0 } }
"""
_RIDGE = 'scaler = { part = "ridge", features = ["busy"], every = 4, penalty = 1.0 }\n'
_SEALED = 'personal = ["busy"]\n'

Way = tuple[str | int, ...]


def _evidence(made: Office, id: str) -> dict[str, Any]:
    found = evidence_of(made.store, made.chain, id, draws=20)
    plain: dict[str, Any] = json.loads(json.dumps(found, allow_nan=False))
    return plain


def _rules(version: int) -> str:
    return held(_POLICY, _BOUNDS % (300 if version == 1 else 105, version), _RIDGE)


@pytest.fixture(scope="module")
def single() -> dict[str, Any]:
    """Return the evidence of a decision to which everything happened that can."""
    with office(_rules(1)) as made:
        made.decide("before")
        mask = ["0.8", "1.2"]
        made.decide("one", night(0.9, 100.0), mask=mask)
        made.do(answering.show, "one", "cy")
        made.change(_rules(2))
        made.answer("one", "edit", {"price": 115.0}, reason="a fair is in town")
        made.observe({"one": 1.0}, label=[0.25])
        made.observe({"one": 0.0}, reason="it was called off")
        made.do(observing.appeal, "one", True, "too dear", "board")
        return _evidence(made, "one")


@pytest.fixture(scope="module")
def batched() -> dict[str, Any]:
    """Return the evidence of a row of a batch, which ran at once with others."""
    with office(learning()) as made:
        made.decide("many", [night(0.2 * i, 90.0 + i) for i in range(5)])
        made.observe({"many.1": 1.0, "many.0": 0.0}, label=[0.25])
        return _evidence(made, "many.1")


@pytest.fixture(scope="module")
def sealed() -> dict[str, Any]:
    """Return the evidence of a decision with a personal field, whose key is there."""
    with office(held(_SEALED)) as made:
        made.decide("one", night(0.9), subject="guest 1")
        made.answer("one", "veto", reason="no")
        return _evidence(made, "one")


# Every field, one at a time


def _nodes(value: Any, at: Way = ()) -> Iterator[tuple[Way, Any]]:
    """Yield everything in a document with the way to it, the document itself excepted."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in inside:
        yield (*at, key), one
        if isinstance(one, dict | list):
            yield from _nodes(one, (*at, key))


def _name(at: Way) -> str:
    """Return a way as the lists of unproven fields write it."""
    joined = "".join("[]" if isinstance(key, int) else f".{key}" for key in at)
    return joined.removeprefix(".")


def _others(value: Any) -> Iterator[Any]:
    """Yield values that could stand in place of one; lists are emptied, cut and turned round."""
    if isinstance(value, dict):
        yield {}
        for name in value:
            yield {other: one for other, one in value.items() if other != name}
        yield value | {"one more": 1}
    elif isinstance(value, list):
        yield [*value, value[0] if value else 1]
        if value:
            yield []
            yield value[:-1]
        if len(value) > 1:
            yield value[::-1]
    elif isinstance(value, bool):
        yield not value
        yield int(value)
    elif isinstance(value, int | float):
        yield value + 1
        yield value - 1
        yield value / 2 + 0.1
    elif isinstance(value, str):
        # A hash stays one, so that its value is looked at and not only its form.
        yield ("1" if value.startswith("0") else "0") + value[1:]
        yield value + "0"
    else:
        yield 0
        yield "something"
    if value is not None:
        yield None


def _unnoticed(document: dict[str, Any]) -> dict[str, list[Any]]:
    """Return what can be put in its place where, and nothing is found to be wrong."""
    found: dict[str, list[Any]] = {}
    assert verify(document) == []
    for at, value in list(_nodes(document)):
        inside: Any = document
        for key in at[:-1]:
            inside = inside[key]
        for other in _others(value):
            if other == value and isinstance(other, bool) == isinstance(value, bool):
                continue
            inside[at[-1]] = other
            if verify(document) == []:
                found.setdefault(_name(at), []).append(other)
        inside[at[-1]] = value
    assert verify(document) == []
    return found


def _is_listed(name: str, names: Iterable[str]) -> bool:
    """Whether a field is in a list, or is a part of one that is."""
    return any(re.match(re.escape(one) + r"($|[.\[])", name) for one in names)


def _exactly(found: Iterable[str], names: Iterable[str]) -> None:
    """Check that all unnoticed changes are in a list, and that all of the list is needed."""
    found, names = sorted(found), sorted(names)
    assert [name for name in found if not _is_listed(name, names)] == []
    assert [one for one in names if not any(_is_listed(name, (one,)) for name in found)] == []


def test_no_field_of_a_single_decision_can_be_changed(single: dict[str, Any]) -> None:
    assert len(single["declarations"]) == len(single["verdicts"]) == 2
    assert {len(single[name]) for name in ("asked", "shown", "reviews", "corrections")} == {1}
    assert None not in (single["executed"], single["outcome"], single["appeal"])
    _exactly(_unnoticed(single), UNPROVEN)


def test_of_a_row_of_a_batch_only_fields_of_the_entry_can(batched: dict[str, Any]) -> None:
    assert batched["proofs"][0]["rows"] == 5
    assert batched["executed"]["entry"] == 3
    _exactly(_unnoticed(batched), (*UNPROVEN, *UNPROVEN_IN_BATCHES))


def test_what_stands_under_a_key_is_taken_as_told(sealed: dict[str, Any]) -> None:
    under_a_key = ("input.busy", "verdicts[].reason", "asked[].reason")
    found = _unnoticed(sealed)
    _exactly(found, (*UNPROVEN, *under_a_key))
    # It is a number within the declared limits, and words, or nothing at all.
    assert all(isinstance(one, str) for one in found["asked[].reason"])


def test_the_guide_names_what_is_not_proven() -> None:
    guide = Path(__file__).parents[2] / "docs" / "service" / "ledger.md"
    text = guide.read_text(encoding="utf-8")
    for name in (*UNPROVEN, *UNPROVEN_IN_BATCHES):
        assert f"`{name}`" in text


# What was erased, and what was changed since


def test_an_erased_decision_is_proven_without_what_is_gone() -> None:
    with office(held(_SEALED)) as made:
        made.decide("one", night(0.9), subject="guest 1")
        made.decide("two", night(0.9), subject="guest 2")
        before = _evidence(made, "one")
        erasing.run(made.desk, "guest 1", "they asked for it", "root")
        after, beside = _evidence(made, "one"), _evidence(made, "two")
    assert [verify(one) for one in (before, after, beside)] == [[], [], []]
    assert before["input"]["busy"] == beside["input"]["busy"] == 0.9
    assert after["input"]["busy"] is None
    assert {arm["composed"] is None for arm in after["arms"]} == {True}
    assert after["verdicts"][0]["reason"] == "erased"
    assert after["recomputed"]["verdict"] == "erased"


def _versions(found: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the version of the limits at each verdict, and why it was given."""
    return [(one["gates"][1]["version"], one["reason"]) for one in found["verdicts"]]


def _numbers(found: dict[str, Any]) -> list[int]:
    return [proof["seq"] for proof in found["declarations"]]


def test_each_verdict_has_the_version_in_force() -> None:
    with office(_rules(1)) as made:
        made.decide("one", night(0.9, 140.0))
        made.change(_rules(2))
        made.answer("one", "approve")
        made.decide("two", night(0.9, 140.0))
        made.change(_rules(3))
        made.change(_rules(4))
        made.answer("two", "approve")
        made.decide("three", night(0.0, 140.0))
        found = [_evidence(made, id) for id in ("one", "two", "three")]
    assert [verify(one) for one in found] == [[], [], []]
    changed = [number for number, kind in enumerate(made.kinds()) if kind == "InstanceChanged"]
    assert [_numbers(one) for one in found] == [
        [0, changed[1]],
        [changed[1], changed[3]],
        [changed[3]],
    ]
    [(held_by, _), (let_by, why)] = _versions(found[0])
    assert (held_by, let_by) == ("1", "2")
    assert "limits (version 2)" in why
    assert [version for version, _ in _versions(found[1])] == ["2", "4"]
    assert [version for version, _ in _versions(found[2])] == ["4"]


def test_a_declaration_far_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "_BLOCK", 2)
    with office(_rules(1)) as made:
        made.change(_rules(2))
        for i in range(6):
            made.decide(f"d{i}")
        found = _evidence(made, "d5")
    assert _numbers(found) == [2]
    assert verify(found) == []


def test_another_declaration_is_not_taken() -> None:
    """It is proven by itself, and its arms are others."""
    with office(_rules(1)) as made, office(_rules(1).replace("0.8, 1.0", "0.9, 1.0")) as other:
        made.decide("one")
        other.decide("one")
        found, beside = _evidence(made, "one"), _evidence(other, "one")
    assert verify(found | {"declarations": beside["declarations"]})
    later = copy.deepcopy(beside["declarations"][0]) | {"seq": 1}
    assert "would no longer mean the same" in " ".join(
        verify(found | {"declarations": [*found["declarations"], later]})
    )
