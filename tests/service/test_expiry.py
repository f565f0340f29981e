"""A hold that nobody answers: told apart from what people say, wherever anybody looks."""

from __future__ import annotations

import numpy as np
import pytest

from gdcb import events as ev
from gdcb.ledger.evidence import evidence_of
from gdcb.ledger.live import opened
from gdcb.ledger.replaying import replay_chain
from gdcb.records import EXPIRED, MODIFIED, PASSED, to_bytes
from gdcb.service import answering, operating
from gdcb.service.figures.reading import Reader
from tests.service.desks import Office, held, held_twice, night, office

FALLBACK = 'expiry = { after = 60, then = "fallback", fallback = { price = 120 } }'
# Arm 1.2 on a base of 100 proposes the fallback itself, arm 0.8 another price.
ARMS = pytest.mark.parametrize("arm", ["1.2", "0.8"], ids=["as proposed", "another"])


def expired(made: Office, id: str, arm: str) -> None:
    """Decide on a busy night, and let its time pass."""
    made.decide(id, night(0.9), mask=[arm])
    made.clock.pass_by(60)
    made.do(answering.expire, id)


def kernels(made: Office) -> list[bytes]:
    """Return what is known of the people."""
    return made.look(lambda live: [to_bytes(one) for one in live.state.kernels if one is not None])


@ARMS
def test_what_runs_after_an_expiry_is_nobodys_answer(arm: str) -> None:
    """The declared action runs as modified; no person's kernel, approval or override counts it."""
    with office(held(FALLBACK)) as made:
        before = kernels(made)
        assert before
        expired(made, "a", arm)
        judged = made.events()[-2]
        assert isinstance(judged, ev.GateApplied)
        assert judged.status.tolist() == [MODIFIED]
        assert judged.statuses.tolist() == [[EXPIRED, PASSED]]
        document = made.document("a")
        assert (document["status"], document["executed"]) == ("modified", {"price": 120.0})
        assert kernels(made) == before
        made.observe({"a": 1})
        kept = made.look(lambda live: live.kept.log)
        assert kept is not None
        assert (kept.is_own.tolist(), kept.is_override.tolist()) == ([False], [False])
        # The arm within half a step of what ran is credited: 120 is arm 1.2, whoever chose it.
        assert made.counts()[2] == [2.0, 1.0]
        assert replay_chain(made.store, made.chain).verdict == "equal"
        made.check()


@ARMS
def test_a_gate_that_is_seen_anew_learns_no_expiry(arm: str) -> None:
    """One approval and one expiry: a kernel that starts afresh has the approval alone."""
    with office(held(FALLBACK)) as made:
        made.decide("b", night(0.9))
        made.answer("b")
        expired(made, "a", arm)
        before = kernels(made)
        made.do(operating.discount, 0.0, 0, "manager", "a new manager", "ann")
        assert kernels(made) == before
        assert made.look(lambda live: float(live.state.kernels[0].counts.sum())) == 1.0


@ARMS
def test_evidence_and_figures_tell_an_expiry_from_an_answer(arm: str) -> None:
    """Beside one approval, the manager has one verdict and no override."""
    with office(held(FALLBACK)) as made:
        made.decide("b", night(0.9))
        made.answer("b")
        expired(made, "a", arm)
        told = evidence_of(made.store, made.chain, "a", draws=20)
        assert [one["verdict"] for one in told["reviews"]] == ["expired"]
        last = told["verdicts"][-1]
        assert (last["status"], last["gates"][0]["status"]) == ("modified", "expired")
        reader = Reader(made.store, made.chain, made.look(lambda live: live.instance))
        reader.catch_up()
        counts = sum(reader.running.hours.verdicts.values())
        assert np.asarray(counts)[0].tolist() == [1, 0]


def test_a_second_person_may_answer_what_the_first_left() -> None:
    """The manager lets it expire, and the owner approves 250: modified, by nobody's change."""
    with office(held_twice(FALLBACK.replace("120", "250"))) as made:
        expired(made, "a", "1.2")
        made.answer("a", by="owner")
        judged = made.events()[-2]
        assert isinstance(judged, ev.GateApplied)
        assert judged.statuses.tolist() == [[EXPIRED, PASSED, PASSED]]
        document = made.document("a")
        assert (document["status"], document["executed"]) == ("modified", {"price": 250.0})
        counts = made.look(lambda live: [float(k.counts.sum()) for k in live.state.kernels[:2]])
        assert counts == [0.0, 1.0]
        made.observe({"a": 1})
        live = opened(made.store, made.chain)
        assert live.kept.log is not None
        assert not live.kept.log.is_override.any()
        assert replay_chain(made.store, made.chain).verdict == "equal"
