"""A desk against a reference of plain dictionaries, through any story that Hypothesis thinks of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from gdcb import events as ev
from gdcb.codec import from_body
from gdcb.errors import Conflict, GdcbError
from gdcb.ledger.live import Live, begun, follow, opened
from gdcb.ledger.store import Store
from gdcb.replay import check_event
from gdcb.service import answering, deciding, observing, operating
from gdcb.service.schedule import Schedule
from gdcb.service.turn import TooLate
from tests.properties import examples
from tests.service.desks import (
    SECOND,
    everything,
    held_twice,
    learning,
    night,
    office,
    together,
)
from tests.service.test_live import POLICY as BUSY
from tests.service.test_live import busy

AFTER = 60  # seconds until a hold expires
POLICY = f'expiry.after = {AFTER}\noutcomes.correction = "replace"\n'
RAMP = """mode = "ramp", incumbent = { price = 90 },
steps = [{ since = 2026-01-01T00:00:30Z, share = 0.5 }]""".replace("\n", " ")
LOW, HIGH = 50.0, 300.0
Case = dict[str, Any]
places = st.integers(0, 10**6)
nights = st.tuples(st.sampled_from([0.0, 0.3, 0.5, 0.9]), st.sampled_from([20.0, 100.0, 290.0]))
units = st.sampled_from(["sea", "farm", "hill"])
masks = st.sampled_from([None, ["1"], ["0.8", "1.2"]])


def replayed(store: Store, chain: str) -> Live:
    """Fold a chain from its start, working out again whatever follows from what was known."""
    fold = begun(store, chain)
    for entry in store.read(chain):
        event = from_body(entry.kind, entry.body)
        if isinstance(event, ev.DecisionMade):
            assert event.version == entry.seq
            check_event(fold, replace(event, by=None))  # who asked follows from nothing
        else:
            check_event(fold, event)
        follow(fold, [entry])
    return fold


class Days(RuleBasedStateMachine):
    """One desk; `cases` is what the reference knows of each decision."""

    execution = "release"

    def __init__(self) -> None:
        super().__init__()
        self.context = office(learning(f'{POLICY}execution = "{self.execution}"\n'))
        self.made = self.context.__enter__()
        self.cases: dict[str, Case] = {}
        self.requests: dict[str, tuple[Any, dict[str, Any], list[Case]]] = {}
        self.counts = dict.fromkeys(("Reviewed", "Expired", "told", "seen", "corrected"), 0)
        self.is_paused = False

    @property
    def is_reported(self) -> bool:
        return self.execution == "report"

    # The reference

    def judge(self, case: Case, price: float | None, is_changed: bool) -> None:
        """Let a price meet the limits; None: nothing may run."""
        if price is None:
            case.update(ran=True, executed=None)
            return
        left = min(max(price, LOW), HIGH)
        case["status"] = "modified" if is_changed or left != price else "passed"
        case["action"] = left
        if not self.is_reported:
            case.update(ran=True, executed=left)

    def remember(self, id: str, row: dict[str, Any], busy: float) -> Case:
        """Write down what must have become of a decision that was just made."""
        price = row["proposed"]["price"]
        case: Case = {"proposed": price, "status": "held", "action": None, "ran": False}
        case.update(executed=None, outcome=None, by=None, what=None, since=self.made.clock.at)
        if busy < 0.5:
            self.judge(case, price, False)
        self.cases[id] = case
        return case

    def pick(self, at: int, status: str | None = None) -> str:
        """Choose a decision."""
        ids = [id for id, case in self.cases.items() if status in (None, case["status"])]
        return ids[at % len(ids)]

    def has(self, status: str) -> bool:
        return any(case["status"] == status for case in self.cases.values())

    # Decide

    def ask(self, id: str, contexts: Any, more: dict[str, Any]) -> None:
        busy = [one["busy"] for one in ([contexts] if isinstance(contexts, dict) else contexts)]
        if self.is_paused:
            with pytest.raises(deciding.Stopped, match="paused by ann: holiday"):
                self.made.decide(id, contexts, **more)
            return
        rows = self.made.rows(id, contexts, **more)
        for row, one in zip(rows, busy, strict=True):
            self.remember(row["id"], row, one)
            if more["mask"] is not None:
                assert row["arm"] in more["mask"]
        self.requests[id] = (contexts, more, rows)

    @initialize(one=nights)
    def begin(self, one: tuple[float, float]) -> None:
        self.ask("first", night(*one), {"unit": "sea", "mask": None})

    @rule(one=nights, unit=units, mask=masks)
    def decide(self, one: tuple[float, float], unit: str, mask: Any) -> None:
        self.ask(f"r{len(self.requests)}", night(*one), {"unit": unit, "mask": mask})

    @rule(several=st.lists(st.tuples(nights, units), min_size=1, max_size=4), mask=masks)
    def decide_batch(self, several: list[tuple[tuple[float, float], str]], mask: Any) -> None:
        contexts = [night(*one) for one, _ in several]
        more = {"unit": [unit for _, unit in several], "mask": mask}
        self.ask(f"r{len(self.requests)}", contexts, more)

    @rule(at=places)
    def decide_again(self, at: int) -> None:
        id = list(self.requests)[at % len(self.requests)]
        contexts, more, rows = self.requests[id]
        size = self.made.size
        assert self.made.rows(id, contexts, **more) == rows
        with pytest.raises(Conflict, match="was used before"):
            self.made.decide(id, contexts, **{**more, "unit": ["moor"] * len(rows)})
        assert self.made.size == size

    # Answer

    @precondition(lambda self: self.has("held"))
    @rule(
        at=places,
        by=st.sampled_from(["ann", "bob"]),
        verdict=st.sampled_from(["approve", "edit", "veto"]),
        price=st.sampled_from([30.0, 90.0, 100.0, 900.0]),
    )
    def answer(self, at: int, by: str, verdict: str, price: float) -> None:
        if self.is_paused:
            verdict = "veto"  # whether anything else may run in a pause is not this test's
        id = self.pick(at, "held")
        case = self.cases[id]
        action = {"price": price} if verdict == "edit" else None
        if self.is_late(case) and verdict != "veto":
            with pytest.raises(TooLate):
                self.made.answer(id, verdict, action, by=by)
            return
        self.made.answer(id, verdict, action, by=by)
        self.counts["Reviewed"] += 1
        case.update(
            by=by, what={"approve": "approved", "edit": "edited", "veto": "vetoed"}[verdict]
        )
        if verdict == "veto":
            case["status"] = "vetoed"
            self.judge(case, None, True)
        else:
            entered = case["proposed"] if action is None else price
            self.judge(case, entered, entered != case["proposed"])

    def is_late(self, case: dict[str, Any]) -> bool:
        """Whether a hold is at or after its deadline, be it expired already or not."""
        is_held = case["status"] == "held"
        return is_held and bool(self.made.clock.at >= case["since"] + AFTER * SECOND)

    @rule(at=places)
    def answer_wrongly(self, at: int) -> None:
        id = self.pick(at)
        case, size = self.cases[id], self.made.size
        answer = self.made.asked(id)
        own: type[GdcbError] = TooLate if self.is_late(case) else answering.OwnProposal
        wrong: list[tuple[answering.Review, type[GdcbError]]] = [
            (replace(answer, version=answer.version - 1), answering.Stale),
            (replace(answer, by="shop"), Conflict if self.is_paused else own),
        ]
        if case["by"] is not None:
            wrong = [(answer, answering.Decided)]
        elif case["status"] != "held":
            wrong = [(answer, Conflict)]
        for one, error in wrong:
            with pytest.raises(error) as caught:
                self.made.do(answering.review, one)
            if isinstance(caught.value, answering.Decided):
                decided = caught.value.decided
                assert (decided["by"], decided["what"]) == (case["by"], case["what"])
        assert self.made.size == size

    @rule(seconds=st.sampled_from([1, 20, 59]))
    def wait(self, seconds: int) -> None:
        self.made.clock.pass_by(seconds)

    @rule()
    def tick(self) -> None:
        due = 0
        for case in self.cases.values():
            if self.is_late(case):
                case.update(status="expired", by="policy", what="expired")
                self.judge(case, None, True)
                due += 1
        assert Schedule(self.made.desk).tick() == due
        self.counts["Expired"] += due

    # Execute and observe

    @rule(at=places, price=st.sampled_from([None, 80.0, 100.0, 444.0, "as let through"]))
    def execute(self, at: int, price: Any) -> None:
        id = self.pick(at)
        case, size = self.cases[id], self.made.size
        told = case["action"] if price == "as let through" else price
        if case["ran"] and case["executed"] == told:
            assert not self.made.execute(id, told)
            assert self.made.size == size
        elif case["ran"] or case["status"] == "held":
            with pytest.raises(Conflict, match=r"^executed: "):
                self.made.execute(id, told)
            assert self.made.size == size
        else:
            assert self.made.execute(id, told)
            case.update(ran=True, executed=told)
            self.counts["told"] += 1

    @rule(
        several=st.lists(places, min_size=1, max_size=4),
        booked=st.integers(0, 1),
        label=st.sampled_from([None, 0.2, -0.4]),
    )
    def observe(self, several: list[int], booked: int, label: float | None) -> None:
        """Outcomes are taken together or not at all; another one is a correction."""
        ids = list(dict.fromkeys(self.pick(at) for at in several))
        cases, size = [self.cases[id] for id in ids], self.made.size
        labels = None if label is None or any(c["outcome"] is not None for c in cases) else [label]
        given = dict.fromkeys(ids, float(booked))
        if not all(case["ran"] for case in cases):
            with pytest.raises(Conflict, match=r"^outcome: .* has not run$"):
                self.made.observe(given, reason="counted again")
            assert self.made.size == size
            return
        news = self.made.observe(given, label=labels, reason="counted again")
        assert news == [case["outcome"] != booked for case in cases]
        for case in cases:
            if case["outcome"] is None:
                self.counts["seen"] += 1
            elif case["outcome"] != booked:
                self.counts["corrected"] += 1
            case["outcome"] = float(booked)

    # Operate

    @rule()
    def pause(self) -> None:
        assert self.made.do(operating.pause, "holiday", "ann") != self.is_paused
        self.is_paused = True

    @rule()
    def resume(self) -> None:
        assert self.made.do(operating.resume, "back", "ann") == self.is_paused
        self.is_paused = False

    @rule()
    def refit(self) -> None:
        self.made.do(operating.refit, "ann")

    @rule(at=places)
    def roll_back(self, at: int) -> None:
        self.made.do(operating.roll_back, 1 + at % self.made.size, "bad data", "ann")

    @rule(is_kept=st.booleans())
    def restart(self, is_kept: bool) -> None:
        if is_kept:
            self.made.snapshot()
        self.made.restart()

    # Agree

    @invariant()
    def agrees(self) -> None:
        def found(live: Live) -> dict[str, Case]:
            records = {id: answering.find(live, id) for id in self.cases}
            return {
                id: {
                    "status": record.status,
                    "ran": record.ran is not None,
                    "executed": _price(record.executed),
                    "outcome": None if record.outcome is None else record.outcome[0],
                }
                for id, record in records.items()
            }

        names = ("status", "ran", "executed", "outcome")
        expected = {id: {name: case[name] for name in names} for id, case in self.cases.items()}
        assert self.made.look(found) == expected
        waiting = {id: w.since for id, w in self.made.look(lambda live: live.waiting).items()}
        held = {id: c["since"] for id, c in self.cases.items() if c["status"] == "held"}
        assert waiting == held
        assert (self.made.look(lambda live: live.paused) is not None) == self.is_paused

    def teardown(self) -> None:
        try:
            events = self.made.events()
            found = {
                "Reviewed": sum(isinstance(event, ev.Reviewed) for event in events),
                "Expired": sum(isinstance(event, ev.Expired) for event in events),
                "told": sum(isinstance(e, ev.ActionExecuted) and e.is_told for e in events),
                "seen": sum(len(e.id) for e in events if isinstance(e, ev.OutcomeObserved)),
                "corrected": sum(isinstance(e, ev.OutcomeCorrected) for e in events),
            }
            assert found == self.counts
            made = [id for e in events if isinstance(e, ev.DecisionMade) for id in e.id]
            assert made == list(self.cases)
            self.made.check()
            fold = replayed(self.made.store, self.made.chain)
            assert everything(fold) == self.made.look(everything)
            assert everything(opened(self.made.store, self.made.chain)) == everything(fold)
        finally:
            self.context.__exit__(None, None, None)


def _price(executed: Any) -> float | None:
    return None if executed is None or executed[0] != executed[0] else float(executed[0])


class ReportedDays(Days):
    """As `Days`, where what was let through has run when somebody says so."""

    execution = "report"


def _run(machine: type[Days], n: int, steps: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=examples(n, stateful_step_count=steps),
    )


@pytest.mark.parametrize("machine", [Days, ReportedDays])
def test_a_desk_and_its_reference_agree(machine: type[Days]) -> None:
    _run(machine, 12, 40)


@pytest.mark.soak
@pytest.mark.parametrize("machine", [Days, ReportedDays])
def test_a_desk_and_its_reference_agree_for_long(machine: type[Days]) -> None:
    _run(machine, 150, 60)


@pytest.mark.parametrize(
    "launch",
    [
        'mode = "shadow", incumbent = { price = 90 }',
        'mode = "holdback", share = 0.4, incumbent = { price = 90 }',
        'mode = "holdback", share = 0.4, drawn_by = "unit", incumbent = "arm", arm = "0.8"',
        RAMP,
    ],
)
def test_what_the_incumbent_runs_is_worked_out_again(launch: str) -> None:
    """Groups of requests, held rows and outcomes in every launch mode come out the same."""
    with office(learning(f"{POLICY}launch = {{ {launch} }}\n")) as made:
        for i in range(4):
            several = [night(), night(0.9), night(0.2)]
            together(
                made,
                made.request(f"one-{i}", night(), unit=f"u{i}", mask=["1"]),
                made.request(f"week-{i}", several, unit=["sea", "farm", f"u{i}"], by="bob"),
            )
            made.answer(f"week-{i}.1", ["approve", "veto"][i % 2])
            made.observe({f"one-{i}": 1, f"week-{i}.0": 0, f"week-{i}.1": 1}, label=[0.1])
            made.clock.pass_by(20)
        assert everything(replayed(made.store, made.chain)) == made.look(everything)
        made.check()


def test_a_busy_story_is_worked_out_again() -> None:
    with office(learning(BUSY)) as made:
        busy(made)
        assert everything(replayed(made.store, made.chain)) == made.look(everything)


def test_two_people_and_a_fallback_are_worked_out_again() -> None:
    policy = 'execution = "report"\nexpiry = { after = 60, then = "fallback", '
    with office(held_twice(policy + "fallback = { price = 250 } }\n")) as made:
        made.decide("week", [night(0.9), night(0.9), night(), night(base=20)])
        made.answer("week.0", "edit", {"price": 240})
        made.answer("week.0", by="bob")
        made.clock.pass_by(60)
        assert Schedule(made.desk).tick() == 1  # the fallback waits for the owner now
        made.answer("week.1", "veto")
        together(
            made,
            made.request("late"),
            lambda turn: observing.execute(turn, "late", {"price": 99.0}, "shop"),
            lambda turn: observing.execute(turn, "week.0", None, "shop"),
            lambda turn: observing.execute(turn, "week.2", {"price": 97.0}, "shop"),
        )
        made.observe({"late": 1, "week.0": 0, "week.1": 0, "week.2": 1})
        assert everything(replayed(made.store, made.chain)) == made.look(everything)
        made.check()


def test_the_replay_finds_what_did_not_happen_so() -> None:
    """A decision in the ledger that does not follow from what was known is found."""
    with office(learning(POLICY)) as made:
        made.decide("a")
        (event,) = made.events(1)[:1]
        assert isinstance(event, ev.DecisionMade)
        other = replace(event, arm=(event.arm + 1) % 3, by=None)
        fold = begun(made.store, "rooms")
        follow(fold, made.store.read("rooms", 0, 1))
        with pytest.raises(GdcbError, match="decision a comes out differently"):
            check_event(fold, other)
