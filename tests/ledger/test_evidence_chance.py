"""Evidence: how likely each cell was to run, where a launch draws what enters the gates."""

from __future__ import annotations

from typing import Any

import pytest

from gdcb.ledger.evidence import evidence_of
from tests.service.desks import Office, night, office, plain

_FIXED = 'launch = { mode = "%s", incumbent = { price = 120.0 }%s }\n'
_GIVEN = 'launch = { mode = "holdback", share = 0.5 }\n'


def _executed(made: Office, id: str) -> tuple[dict[str, Any], dict[str, float] | None]:
    found = evidence_of(made.store, made.chain, id, draws=50)
    return found, found["propensity"]["executed"]


def _proposed(found: dict[str, Any]) -> dict[str, float]:
    return {arm["name"]: arm["probability"] for arm in found["arms"]}


def test_without_a_launch_what_is_proposed_runs() -> None:
    with office(plain()) as made:
        made.decide("a")
        found, executed = _executed(made, "a")
    assert executed == pytest.approx(_proposed(found) | {"off every arm": 0.0, "nothing ran": 0.0})


def test_in_shadow_the_incumbent_runs_for_sure() -> None:
    with office(plain(_FIXED % ("shadow", ""))) as made:
        made.decide("a")
        found, executed = _executed(made, "a")
    assert not found["proposed"]["live"]
    assert _proposed(found)["1.2"] < 1.0
    none = {"0.8": 0.0, "1": 0.0, "off every arm": 0.0, "nothing ran": 0.0}
    assert executed == none | {"1.2": 1.0}


def test_an_incumbent_between_the_arms_runs_off_every_arm() -> None:
    service = 'launch = { mode = "shadow", incumbent = { price = 200.0 } }\n'
    with office(plain(service)) as made:
        made.decide("a")
        _, executed = _executed(made, "a")
    assert executed is not None
    assert executed["off every arm"] == 1.0


def test_the_incumbent_meets_the_gates_too() -> None:
    """At a base of 250 the upper limit of 300 makes an incumbent of 900 the arm 1.2."""
    service = 'launch = { mode = "shadow", incumbent = { price = 900.0 } }\n'
    with office(plain(service)) as made:
        made.decide("a", night(base=250.0))
        _, executed = _executed(made, "a")
    assert executed is not None
    assert executed["1.2"] == 1.0


@pytest.mark.parametrize(
    "service",
    [
        _FIXED % ("holdback", ", share = 0.25"),
        'launch = { mode = "holdback", share = 0.25, incumbent = "arm", arm = "1.2" }\n',
    ],
    ids=["action", "arm"],
)
def test_a_holdback_mixes_both_whichever_was_drawn(service: str) -> None:
    """¾ of the proposal's law, and ¼ for the incumbent, the arm 1.2."""
    drawn = set()
    with office(plain(service)) as made:
        for i in range(12):
            made.decide(f"d{i}")
            found, executed = _executed(made, f"d{i}")
            drawn.add(found["proposed"]["live"])
            law = {name: 0.75 * chance for name, chance in _proposed(found).items()}
            law["1.2"] += 0.25
            assert executed == pytest.approx(law | {"off every arm": 0.0, "nothing ran": 0.0})
    assert drawn == {True, False}


def test_an_incumbent_that_was_given_and_did_not_enter_is_not_known() -> None:
    known = {}
    with office(plain(_GIVEN)) as made:
        for i in range(12):
            made.decide(f"d{i}", incumbent={"price": 120.0})
            found, executed = _executed(made, f"d{i}")
            known[found["proposed"]["live"]] = executed
            assert sum(_proposed(found).values()) == pytest.approx(1.0)
    assert known[True] is None
    entered = known[False]
    assert entered is not None
    assert entered["1.2"] > 0.5
    assert sum(entered.values()) == pytest.approx(1.0)
