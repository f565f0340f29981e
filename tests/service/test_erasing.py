"""Erase a subject: what goes, what stays, and what can still be worked out."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb import Agent, declaration
from gdcb import events as ev
from gdcb.codec import from_body
from gdcb.errors import BrokenChain, Conflict, InvalidInput, StoreUnavailable
from gdcb.ledger.audit import verify_chain
from gdcb.ledger.live import Live, begun, follow, opened, sealed_state
from gdcb.ledger.replaying import replay_chain
from gdcb.ledger.sealing import ERASED, unsealed
from gdcb.ledger.store import Store, open_store
from gdcb.records import to_bytes
from gdcb.service import deciding, erasing, observing, operating, showing
from gdcb.service.answering import content_of
from gdcb.service.web.memory import Memory
from tests.properties import examples
from tests.service.desks import Clock, Office, everything, held, learning, night, office, together

PERSONAL = 'personal = ["busy"]\n'
POLICY = PERSONAL + 'outcomes = { correction = "replace" }\n'
# Numbers that nothing else in a ledger can be by chance.
CALM, BUSY = 0.4137261951, 0.8731904623
ANN, BOB, CY, DAN = "guest 4711", "guest 4712", "guest 4713", "guest 4714"


@pytest.fixture
def made(sqlite_template: Path, tmp_path: Path) -> Iterator[Office]:
    """Lend an office on a database of its own, whose field 'busy' is personal."""
    path = tmp_path / "ledger.db"
    path.write_bytes(sqlite_template.read_bytes())
    store = open_store(path)
    with office(learning(POLICY), store) as lent:
        yield lent
    store.close()


def live_a_little(made: Office) -> None:
    """Decide for ann, bob and cy; observe most of it, so that both loops learn."""
    for i in range(4):
        rows = [night(CALM), night(0.1 + 0.01 * i), night(0.3)]
        made.decide(f"d{i}", rows, subject=[ANN, BOB, CY], unit=["sea", "farm", "sea"])
        for row in range(3):
            made.observe({f"d{i}.{row}": float((i + row) % 2)}, label=[0.1 * row - 0.1])


def erase(made: Office, subject: str = ANN) -> erasing.Erasure:
    return erasing.run(made.desk, subject, "they asked for it", "root")


def contexts(made: Office, request: str, n: int) -> list[Any]:
    def read(live: Live) -> list[Any]:
        ids = [f"{request}.{i}" for i in range(n)]
        return [showing.context_of(live.instance, live.records[id].rows.x[0]) for id in ids]

    return made.look(read)


def learned(live: Live) -> bytes:
    return to_bytes(live.state)


def from_start(store: Store, chain: str = "rooms") -> Live:
    """Fold a chain without any snapshot."""
    live = begun(store, chain)
    follow(live, store.read(chain))
    return live


# What is written


def test_personal_fields_are_written_under_a_key(made: Office) -> None:
    answer = made.decide("one", [night(BUSY, 120.0), night(CALM)], subject=[ANN, BOB])
    entry = next(iter(made.store.read("rooms", 1, 2)))
    written = from_body(entry.kind, entry.body)
    assert isinstance(written, ev.DecisionMade)
    assert np.isnan(written.x[:, 1]).all()
    assert written.x[:, 0].tolist() == [120.0, 100.0]
    assert written.key is not None
    assert len(set(written.key)) == 2
    assert ANN not in str(written)
    assert answer.made.x[:, 1].tolist() == [BUSY, CALM]
    assert contexts(made, "one", 2) == [night(BUSY, 120.0), night(CALM)]
    assert made.look(lambda live: learned(live)) == learned(from_start(made.store))


def test_reasons_that_quote_a_personal_field_are_sealed_too(made: Office) -> None:
    (row,) = made.rows("one", night(BUSY), subject=ANN)
    assert "0.873" in row["reason"]
    written = [from_body(e.kind, e.body) for e in made.store.read("rooms", 2)]
    for event in written:
        assert isinstance(event, ev.GateApplied | ev.ReviewRequested)
        assert event.reason[0].startswith("sealed:")
    assert made.document("one")["reason"] == row["reason"]
    made.answer("one", "approve")
    assert made.document("one")["reason"].startswith("every gate let it pass; approved by ann")
    made.check()


def test_a_sealed_chain_verifies_and_replays(made: Office) -> None:
    live_a_little(made)
    made.decide("held", night(BUSY), subject=ANN)
    made.answer("held", "edit", {"price": 90.0})
    assert verify_chain(made.store, "rooms").ok
    report = replay_chain(made.store, "rooms")
    assert (report.verdict, report.erased, report.unknown) == ("equal", 0, 0)
    made.check()


def test_the_same_request_is_the_same_and_another_is_not(made: Office) -> None:
    first = made.rows("one", night(CALM), subject=ANN)
    assert made.rows("one", night(CALM), subject=ANN) == first
    made.restart()
    assert made.rows("one", night(CALM), subject=ANN) == first
    with pytest.raises(Conflict, match="with another context"):
        made.rows("one", night(0.4), subject=ANN)
    with pytest.raises(Conflict, match="for another subject"):
        made.rows("one", night(CALM), subject=BOB)


@pytest.mark.parametrize(
    ("service", "subject", "message"),
    [
        (PERSONAL, None, "subject: expected whom the row is about, since busy is personal here"),
        (PERSONAL, [ANN], r"subject: expected one, or one a row \(2\), got 1"),
        (PERSONAL, "", "subject: expected a text of 1 to 200 characters"),
        (PERSONAL, [ANN, 7], "subject: expected a text of 1 to 200 characters"),
        ("", ANN, "subject: expected none, since no field of this instance is personal"),
    ],
)
def test_subjects_that_cannot_be(service: str, subject: Any, message: str) -> None:
    with office(held(service)) as made, pytest.raises(InvalidInput, match=message):
        made.decide("one", [night(), night()], subject=subject)


def test_a_request_from_before_fields_were_personal_asks_once_more() -> None:
    with office(held()) as made:
        request = made.request("one")
        made.change(held(PERSONAL))
        with pytest.raises(Conflict, match="which fields are personal has changed"):
            made.desk.put(deciding.job(request)).result(timeout=60)


# What an erasure does


def test_an_erasure_leaves_the_chain_and_what_was_learned(made: Office) -> None:
    live_a_little(made)
    before, knew = list(made.store.read("rooms")), made.look(learned)
    done = erase(made)
    assert (done.keys, done.rows, done.ended, done.replayed) == (1, 4, (), True)
    after = list(made.store.read("rooms"))
    assert after[: len(before)] == before
    assert [entry.kind for entry in after[len(before) :]] == ["SubjectErased", "StateSealed"]
    assert made.look(learned) == knew
    assert verify_chain(made.store, "rooms").ok
    assert contexts(made, "d0", 3) == [
        {"base": 100.0, "busy": ERASED},
        night(0.1),
        night(0.3),
    ]
    assert made.look(lambda live: np.isfinite(live.kept.log.x).all() if live.kept.log else None)
    assert made.look(lambda live: live.kept.numbers.size) == 8
    made.check()


def test_the_desk_goes_on_and_a_restart_knows_the_same(made: Office) -> None:
    live_a_little(made)
    erase(made)
    made.decide("later", [night(0.2)] * 6, subject=BOB)
    made.observe({f"later.{i}": 1.0 for i in range(6)}, label=[0.2])
    assert "ScalerFitted" in made.kinds(made.size - 1)
    known = made.look(everything)
    made.restart()
    assert made.look(everything) == known
    assert everything(from_start(made.store)) == known
    assert not from_start(made.store).is_lossy


def test_nothing_of_it_is_left_in_the_database(made: Office, tmp_path: Path) -> None:
    live_a_little(made)
    made.decide("held", night(BUSY), subject=ANN)
    made.snapshot()
    secrets = _secrets(tmp_path)
    assert len(secrets) == 4  # of three subjects, and the chain's own
    done = erase(made)
    assert done.scrubbed
    for file in tmp_path.iterdir():
        data = file.read_bytes()
        for number in (CALM, BUSY):
            assert struct.pack("<d", number) not in data
            assert struct.pack(">d", number) not in data
            assert str(number).encode() not in data
            assert f"{number:.3g}".encode() not in data
        assert ANN.encode() not in data
        gone = [secret for subject, secret in secrets if subject in (ANN, "")]
        assert not any(secret in data for secret in gone)
    assert {subject for subject, _ in _secrets(tmp_path)} == {BOB, CY, ""}


def _secrets(folder: Path) -> list[tuple[str, bytes]]:
    with sqlite3.connect(folder / "ledger.db") as connection:
        return connection.execute("SELECT subject, secret FROM subject_keys").fetchall()


def test_even_before_an_erasure_nothing_personal_is_in_the_clear(
    made: Office, tmp_path: Path
) -> None:
    live_a_little(made)
    made.snapshot()
    made.store.scrub()
    data = (tmp_path / "ledger.db").read_bytes()
    assert struct.pack("<d", 100.0) in data  # 'base' is nobody's
    assert struct.pack("<d", CALM) not in data
    snapshot = made.store.snapshot("rooms")
    assert snapshot is not None
    found = unsealed(made.store, snapshot)
    assert found is not None
    assert struct.pack("<d", CALM) in found.body


def test_old_snapshots_go_with_their_key(made: Office) -> None:
    live_a_little(made)
    made.snapshot()
    old = made.store.snapshot("rooms")
    assert old is not None
    erase(made)
    new = made.store.snapshot("rooms")
    assert new is not None
    assert new.size == made.size
    assert made.store.snapshot("rooms", new.size - 1) is None
    # Somebody who was slow brings the old one back: nobody can read it, and nothing breaks.
    assert unsealed(made.store, old) is None
    made.store.put_snapshot(old)
    assert everything(opened(made.store, "rooms", made.size)) == made.look(everything)
    past = opened(made.store, "rooms", old.size)
    assert past.is_lossy


def test_a_subject_that_is_not_known_is_no_news(made: Office) -> None:
    live_a_little(made)
    size = made.size
    assert erase(made, DAN) == erasing.Erasure()
    assert made.size == size
    assert erase(made).keys == 1
    assert erase(made).keys == 0


def test_who_comes_back_has_another_key(made: Office) -> None:
    live_a_little(made)
    erase(made)
    made.decide("again", [night(CALM)], subject=ANN)
    assert contexts(made, "again", 1) == [night(CALM)]
    assert contexts(made, "d0", 1) == [{"base": 100.0, "busy": ERASED}]
    assert erase(made).keys == 1
    assert contexts(made, "again", 1) == [{"base": 100.0, "busy": ERASED}]


def test_reasons_and_words_are_needed(made: Office) -> None:
    with pytest.raises(InvalidInput, match="reason: say why it is erased"):
        erasing.run(made.desk, ANN, " ", "root")
    with pytest.raises(InvalidInput, match="subject: expected a text"):
        erasing.run(made.desk, "", "asked", "root")


def test_what_is_held_is_ended(made: Office) -> None:
    made.decide("held", [night(BUSY), night(BUSY)], subject=[ANN, BOB])
    assert erase(made).ended == ("held.0",)
    assert list(made.look(lambda live: live.waiting)) == ["held.1"]
    document = made.document("held.0")
    assert (document["status"], document["has_run"]) == ("expired", True)
    assert document["executed"] is None
    assert document["reason"] == ERASED
    made.answer("held.1", "approve")
    made.check()


def test_it_says_when_what_is_known_did_not_come_out_again(made: Office) -> None:
    live_a_little(made)

    def spoil(live: Live) -> None:
        live.state.bandit.counts[0, 0] += 1.0

    made.look(spoil)
    knew = made.look(learned)
    assert not erase(made).replayed
    sealed = made.events(made.size - 1)[0]
    assert isinstance(sealed, ev.StateSealed)
    assert not sealed.replayed
    # Whoever folds the chain knows from there what the desk knew when it sealed it.
    assert learned(from_start(made.store)) == knew


def test_it_shares_its_transaction_with_nobody(made: Office) -> None:
    live_a_little(made)
    request = made.request("beside", night(CALM), subject=ANN)

    def command(turn: Any) -> erasing.Erasure:
        return erasing.erase(turn, ANN, "they asked", "root")

    decided, done = together(made, request, command)
    assert isinstance(decided, deciding.Answer)
    assert isinstance(done, erasing.Erasure)
    assert done.keys == 1
    assert not done.replayed  # nothing was brought to compare with
    made.check()
    assert verify_chain(made.store, "rooms").ok


# What comes after


def test_an_outcome_that_comes_too_late_is_recorded_and_teaches_nothing(made: Office) -> None:
    live_a_little(made)
    made.decide("late", [night(CALM), night(0.2)], subject=[ANN, BOB])
    erase(made)
    knew = made.look(learned)
    assert made.observe({"late.0": 1.0}, label=[0.3]) == [True]
    assert made.observe({"late.0": 1.0}, label=[0.3]) == [False]
    assert made.look(learned) == knew
    assert made.document("late.0")["outcome"] == {"booked": 1.0}
    kept = made.look(lambda live: live.kept.numbers.size)
    made.observe({"late.1": 1.0}, label=[0.3])
    assert made.look(learned) != knew
    assert made.look(lambda live: live.kept.numbers.size) == kept + 1
    made.check()
    assert replay_chain(made.store, "rooms").ok


def test_outcomes_that_come_together_teach_what_they_can(made: Office) -> None:
    live_a_little(made)
    made.decide("late", [night(CALM), night(0.2)], subject=[ANN, BOB])
    erase(made)
    made.observe({"late.0": 1.0, "late.1": 0.0})
    made.observe({"late.1": 1.0}, reason="counted again")  # its row is found behind the gap
    assert made.document("late.1")["outcome"] == {"booked": 1.0}
    made.check()
    report = replay_chain(made.store, "rooms")
    assert report.ok
    assert report.erased == 5


def test_an_outcome_of_an_erased_decision_cannot_be_corrected(made: Office) -> None:
    live_a_little(made)
    erase(made)
    size = made.size
    with pytest.raises(Conflict, match=r"the context of decision d0\.0 was erased"):
        made.observe({"d0.0": 1.0}, reason="counted again", label=[-0.1])
    assert made.size == size
    made.observe({"d0.1": 0.0}, reason="counted again", label=[0.0])
    made.check()


def test_evidence_is_discounted_as_far_as_it_is_there(made: Office) -> None:
    live_a_little(made)
    erase(made)
    made.do(operating.discount, 0.5, 5, None, "the season is over", "ann")
    made.do(operating.discount, 0.0, 1, "manager", "a new manager", "ann")
    made.do(operating.refit, "ann")
    made.check()
    assert replay_chain(made.store, "rooms").ok


def test_no_way_back_to_what_cannot_be_worked_out(made: Office) -> None:
    made.decide("first", night(CALM), subject=CY)
    start = made.size
    live_a_little(made)
    erase(made)
    with pytest.raises(Conflict, match=rf"known after {start + 9} events cannot be worked out"):
        made.do(operating.roll_back, start + 9, "bad data", "root")
    after = made.size
    made.decide("later", night(0.2), subject=BOB)
    made.observe({"later": 1.0}, label=[0.2])
    made.do(operating.roll_back, after, "bad data", "root")
    made.do(operating.roll_back, start, "all of it was bad", "root")  # nothing was erased by then
    made.check()


def test_a_way_back_before_an_erasure_does_not_close_the_chain(made: Office) -> None:
    live_a_little(made)
    made.do(operating.roll_back, made.size - 3, "bad data", "root")
    erase(made)
    made.check()
    assert everything(from_start(made.store)) == made.look(everything)
    assert replay_chain(made.store, "rooms").ok


def test_an_id_is_not_used_again(made: Office) -> None:
    made.rows("one", night(CALM), subject=ANN)
    erase(made)
    with pytest.raises(Conflict, match="personal fields of it were erased since"):
        made.rows("one", night(CALM), subject=ANN)


def test_replay_says_what_it_cannot_work_out(made: Office) -> None:
    made.decide("before", [night(0.2), night(CALM)], subject=[BOB, ANN])
    live_a_little(made)
    before = replay_chain(made.store, "rooms")
    assert (before.verdict, before.decisions.rows, before.erased) == ("equal", 14, 0)
    erase(made)
    made.decide("after", [night(0.2)] * 3, subject=BOB)
    report = replay_chain(made.store, "rooms")
    assert (report.verdict, report.erased) == ("equal", 5)
    assert report.decisions.rows == 1 + 3
    # 'before' rests on nothing that was erased; what the gates said of it taught all since.
    assert report.unknown == 4 * 2
    assert report.seals == [report.stop - 4]
    document = report.as_json()
    assert (document["erased"], document["not_recomputable"]) == (5, 8)
    # From the seal on everything is worked out again.
    late = replay_chain(made.store, "rooms", start=report.stop - 3)
    assert (late.verdict, late.unknown, late.decisions.rows) == ("equal", 0, 3)


def test_one_erasure_after_another(made: Office) -> None:
    live_a_little(made)
    assert erase(made).replayed
    for i in range(3):
        made.decide(f"e{i}", [night(0.2), night(0.3)], subject=[BOB, CY])
        made.observe({f"e{i}.0": 1.0, f"e{i}.1": 0.0}, label=[0.2])
    assert erase(made, BOB).replayed
    assert erase(made, CY).replayed
    assert made.look(lambda live: live.kept.log) is None
    assert everything(from_start(made.store)) == made.look(everything)
    made.decide("last", night(0.2), subject=DAN)
    made.observe({"last": 1.0}, label=[0.1])
    made.check()
    assert verify_chain(made.store, "rooms").ok
    report = replay_chain(made.store, "rooms")
    assert report.ok
    assert (report.erased, report.unknown) == (18, 0)


_SUBJECTS = st.sampled_from([ANN, BOB, CY])
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("decide"), st.lists(_SUBJECTS, min_size=1, max_size=3)),
        st.tuples(st.just("observe"), st.integers(0, 9)),
        st.tuples(st.just("erase"), _SUBJECTS),
        st.tuples(st.just("refit"), st.just(0)),
        st.tuples(st.just("correct"), st.integers(0, 9)),
        st.tuples(st.just("back"), st.integers(0, 9)),
    ),
    min_size=4,
    max_size=14,
)


@given(_STEPS)
@examples(25)
def test_whatever_happens_a_fold_from_the_start_knows_what_the_desk_knows(steps: Any) -> None:
    with office(learning(POLICY)) as made:
        ran: list[str] = []
        for i, (what, of) in enumerate(steps):
            try:
                _step(made, i, what, of, ran)
            except Conflict:
                continue  # refused, so nothing happened
        known = made.look(everything)
        again = from_start(made.store)
        assert everything(again) == known
        assert not again.is_lossy
        assert verify_chain(made.store, "rooms").ok
        report = replay_chain(made.store, "rooms")
        assert report.ok, report.as_json()
        n_gone = made.look(lambda live: _n_erased(live))
        assert report.erased == n_gone


def _step(made: Office, i: int, what: str, of: Any, ran: list[str]) -> None:
    """Do one thing; `ran` are the decisions that ran so far."""
    if what == "decide":
        contexts_of_all = [night(0.1 * (i % 9)) for _ in of]
        rows = made.rows(f"n{i}", contexts_of_all, subject=of)
        ran += [row["id"] for row in rows if row["has_run"]]
    elif what == "observe" and ran:
        made.observe({ran[of % len(ran)]: float(i % 2)}, label=[0.1], reason="counted")
    elif what == "correct" and ran:
        made.observe({ran[of % len(ran)]: float(of % 2)}, reason="counted again", label=[0.1])
    elif what == "erase":
        done = erase(made, of)
        assert done.replayed == (done.keys > 0)
    elif what == "refit":
        made.do(operating.refit, "root")
    elif what == "back":
        made.do(operating.roll_back, max(1, made.size - of), "bad data", "root")


def _n_erased(live: Live) -> int:
    made = [event for event in live.events if isinstance(event, ev.DecisionMade)]
    return sum(int(np.isnan(event.x).any(axis=1).sum()) for event in made)


# Several processes, and what they remember


def test_another_desk_forgets_when_it_follows(made: Office, tmp_path: Path) -> None:
    live_a_little(made)
    store = open_store(tmp_path / "ledger.db")
    other = Office(store, "rooms", Clock())
    try:
        assert contexts(other, "d0", 1) == [night(CALM)]
        erase(made)
        assert contexts(other, "d0", 1) == [{"base": 100.0, "busy": ERASED}]
        assert other.look(everything) == made.look(everything)
        other.decide("there", night(0.2), subject=BOB)
        other.observe({"there": 1.0}, label=[0.1])
        assert other.look(everything) == made.look(everything)
        assert erase(other, BOB).replayed
        assert contexts(made, "d0", 3)[1:] == [{"base": 100.0, "busy": ERASED}, night(0.3)]
        made.check()
    finally:
        other.desk.close()
        store.close()


def test_a_desk_that_has_not_heard_of_it_writes_no_snapshot(made: Office, tmp_path: Path) -> None:
    """Its fold still holds the contexts: they must not come back under the new key."""
    live_a_little(made)
    store = open_store(tmp_path / "ledger.db")
    stale = opened(store, "rooms")
    erase(made)
    with pytest.raises(StoreUnavailable, match="the key of its snapshots is gone"):
        stale.to_snapshot(b"x" * 32)
    store.close()


def test_similar_cases_forget_too(made: Office) -> None:
    live_a_little(made)
    memory = Memory()
    made.look(memory.backfill)
    made.desk.listeners.append(memory.heard)
    x = np.array([100.0, CALM])
    assert "d0.0" in [one.id for one, _ in memory.similar(x, "sea", 99)]
    erase(made)
    found = [one.id for one, _ in memory.similar(x, "sea", 99)]
    assert len(found) == 8
    assert not [id for id in found if id.endswith(".0")]


def test_what_a_reviewer_saw_says_nothing_of_it(made: Office) -> None:
    """The hash of it is written down: of few possible values the right one could be guessed."""

    def content(live: Live, busy: float) -> str:
        record = live.records["held"]
        x = np.array([[100.0, busy]])
        return content_of(live, replace(record, made=replace(record.made, x=x)))

    made.decide("held", night(BUSY), subject=ANN)
    assert made.look(lambda live: content(live, BUSY)) == made.look(lambda live: content(live, 0.5))


def test_execution_is_reported_after_an_erasure_too() -> None:
    with office(held(PERSONAL + 'execution = "report"\n')) as made:
        made.decide("one", night(CALM), subject=ANN)
        erase(made)
        assert made.execute("one", 101.0)
        made.do(observing.observe, [observing.Outcome("one", {"booked": 1.0})], "shop")
        made.check()
        assert replay_chain(made.store, "rooms").ok


def test_a_sealed_state_of_another_shape_is_refused_in_a_sentence(
    made: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier version wrote it: nothing says which arrays were missing to whom before."""
    made.decide("d1", [night()], subject=["ann"], unit=["sea"])
    made.observe({"d1.0": 1.0})
    erasing.run(made.desk, "ann", "asked", "root")
    read = declaration.parse(held().replace('"beta-thompson"', '"curve-thompson"'))
    other = to_bytes(Agent(read.instance, read.bandit).state)
    real = sealed_state

    def older(*given: Any) -> Any:
        found = real(*given)
        return None if found is None else found | {"state": np.frombuffer(other, np.uint8)}

    monkeypatch.setattr("gdcb.ledger.live.sealed_state", older)
    monkeypatch.setattr("gdcb.ledger.live.restored", lambda *_: None)
    said = r"event \d+: the state that was sealed with an erasure is of another shape"
    with pytest.raises(BrokenChain, match=said):
        opened(made.store, made.chain)
