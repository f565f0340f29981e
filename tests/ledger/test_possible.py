"""What nobody could do: a chain that was rewritten, with all hashes made to fit, and its replay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb import events as ev
from gdcb.codec import from_body, leaves, to_body
from gdcb.ledger import merkle
from gdcb.ledger.audit import verify_chain
from gdcb.ledger.entry import Draft
from gdcb.ledger.live import Live, opened
from gdcb.ledger.possible import Rules
from gdcb.ledger.replay_report import ReplayReport
from gdcb.ledger.replaying import replay_chain
from gdcb.ledger.store import Store, open_store
from gdcb.service import answering, erasing, observing, operating
from gdcb.service.policy import policy_of
from tests.properties import examples
from tests.service.desks import Office, held, night, office, plain

POLICY = (
    'expiry = { after = 60, then = "fallback", fallback = { price = 120 } }\n'
    'outcomes = { correction = "replace" }\n'
    'launch = { mode = "holdback", share = 0.25, drawn_by = "unit", incumbent = { price = 90 } }\n'
)


@dataclass
class Told:
    """An entry as somebody would rewrite it."""

    event: Any
    at: int
    by: str


Change = Callable[[list[Told]], None]


def live_through(made: Office) -> None:
    """Let people answer, time pass, and the instance pause and change."""
    batch = [night(0.9), *[night(0.02 * i) for i in range(11)]]
    made.decide("a", batch, unit=[f"u{i}" for i in range(12)])
    made.do(answering.show, "a.0", "ann")
    made.answer("a.0")
    made.decide("b", night(0.9))
    made.do(answering.show, "b", "ann")
    made.answer("b", "veto", code="other")
    made.decide("c", night(0.9))
    made.clock.pass_by(60)
    made.do(answering.expire, "c")
    made.observe({"a.0": 1, "a.1": 0})
    made.observe({"a.1": 1}, by="till", reason="counted again")
    made.do(observing.appeal, "a.1", False, "it was fair", "board")
    made.do(operating.pause, "a look", "ann")
    made.do(operating.resume, "it is fine", "ann")
    made.do(operating.refuse_change, propose(made, 7), "no", "bob")
    made.do(operating.agree, propose(made, 8), "", "bob")
    made.decide("d", night(0.1), by="shop")


def propose(made: Office, bulk: int) -> int:
    """Propose other declarations in the name of Ann."""
    return made.do(operating.propose_change, held(POLICY + f"bulk = {bulk}"), "less", "ann")


@pytest.fixture(scope="module")
def story() -> list[Told]:
    """Return what happened, entry by entry."""
    with office(held(POLICY)) as made:
        live_through(made)
        return [
            Told(from_body(entry.kind, entry.body), entry.at, entry.by)
            for entry in made.store.read(made.chain)
        ]


def retold(story: list[Told], change: Change) -> Store:
    """Write a story down otherwise, all hashes made to fit."""
    entries = [replace(one) for one in story]
    change(entries)
    store = open_store("memory:")
    with store.writing("rooms") as writing:
        for one in entries:
            root = merkle.root(leaves(one.event)) if one.event.columns else b""
            kind = type(one.event).__name__
            writing.append([Draft(kind, to_body(one.event), root, one.at, one.by)])
    return store


def replayed(story: list[Told], change: Change) -> ReplayReport:
    return replay_chain(retold(story, change), "rooms")


def of(entries: list[Told], kind: type[ev.Told], nth: int = 0) -> Told:
    """Return an entry of a kind."""
    return [one for one in entries if type(one.event) is kind][nth]


def told(kind: type[ev.Told], nth: int = 0, entry_by: str | None = None, **changes: Any) -> Change:
    """Return a change of one entry: fields of its event, and who it is of."""

    def change(entries: list[Told]) -> None:
        one = of(entries, kind, nth)
        one.event = replace(one.event, **changes)
        one.by = one.by if entry_by is None else entry_by

    return change


def instead(kind: type[ev.Told], event: ev.Event, nth: int = 0) -> Change:
    """Return a change that puts another event in an entry's place."""

    def change(entries: list[Told]) -> None:
        of(entries, kind, nth).event = event

    return change


def made(nth: int, **changes: Callable[[Any], Any]) -> Change:
    """Return a change of decisions, column by column."""

    def change(entries: list[Told]) -> None:
        one = of(entries, ev.DecisionMade, nth)
        new = {name: work(getattr(one.event, name)) for name, work in changes.items()}
        one.event = replace(one.event, **new)

    return change


def early(entries: list[Told]) -> None:
    """Let the hold expire a second before its time."""
    at = entries.index(of(entries, ev.Expired))
    for one in entries[at : at + 3]:
        one.at -= 1_000_000


def of_ann(entries: list[Told]) -> None:
    """Let somebody end a hold with the fallback."""
    at = entries.index(of(entries, ev.Expired))
    for one in entries[at : at + 3]:
        one.by = "ann"


def test_as_it_was_told_it_comes_out(story: list[Told]) -> None:
    report = replayed(story, lambda entries: None)
    assert report.verdict == "equal", report.as_json()["differing"]
    kinds = {type(one.event) for one in story}
    assert {ev.Reviewed, ev.Expired, ev.OutcomeCorrected, ev.ChangeRefused} <= kinds
    entered = of(story, ev.DecisionMade).event.instead
    assert 0 < int(np.isfinite(entered).sum()) < 12, "some proposals are live, some are not"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (told(ev.Reviewed, by="shop"), "it is of 'shop', and its entry is of 'ann'"),
        (
            told(ev.Reviewed, entry_by="shop", by="shop"),
            "decision a.0 was let through by whoever had asked for it",
        ),
        (made(0, by=lambda by: ["ann"] * len(by)), "it says that it is of 'ann'"),
        (made(0, by=lambda by: ["ann", *by[1:]]), "it says that it is of 'several'"),
        (instead(ev.Shown, ev.Paused("now")), "a.0 was let through while the instance was paused"),
        (instead(ev.Resumed, ev.Paused("still")), "it was paused, and was so already"),
        (instead(ev.Resumed, ev.Paused("still")), "decided while the instance was paused"),
        (instead(ev.Resumed, ev.Retired("sold")), "decided while the instance was retired"),
        (instead(ev.Resumed, ev.Retired("sold")), "the instance was retired before"),
        (instead(ev.Paused, ev.Resumed("on")), "it was resumed, and was not paused"),
        (told(ev.InstanceChanged, 0, proposal=3), "the first declaration says that somebody had"),
        (told(ev.InstanceChanged, 1, proposal=None), "change None did not wait for an answer"),
        (told(ev.InstanceChanged, 1, proposal=2), "change 2 did not wait for an answer"),
        (told(ev.InstanceChanged, 1, "ann"), "was agreed to by whoever had proposed it"),
        (
            told(ev.ChangeProposed, 1, declaration=held(POLICY + "bulk = 6")),
            "another declaration than change",
        ),
        (
            told(ev.ChangeProposed, 0, declaration=held(POLICY)),
            "a change to what was in force was proposed",
        ),
        (told(ev.ChangeRefused, proposal=4), "change 4 did not wait for an answer"),
        (told(ev.AppealDecided, by="ann"), "it is of 'ann', and its entry is of 'board'"),
        (told(ev.OutcomeCorrected, by="ann"), "it is of 'ann', and its entry is of 'till'"),
        (made(0, share=lambda share: share + 0.1), "a share of 0.75 was live, drawn by unit; got"),
        (made(0, drawn_by=lambda _: "decision"), "got 0.75 by decision"),
        (
            made(0, share=lambda _: None, instead=lambda _: None, drawn_by=lambda _: "decision"),
            "the launch was in mode 'holdback', and the draw says otherwise",
        ),
        (
            made(0, instead=lambda entered: np.where(np.isnan(entered), entered, 95.0)),
            "another action than the declared incumbent's ran in its place",
        ),
        (told(ev.Expired, action=[110.0]), "expired to [110.0]; declared was 'fallback', [120.0]"),
        (told(ev.Expired, action=None), "expired to None; declared was 'fallback', [120.0]"),
        (early, "decision c expired before its time"),
        (of_ann, "decision c expired by ann, and ran an action"),
    ],
)
def test_what_nobody_could_do_is_named(story: list[Told], change: Change, says: str) -> None:
    store = retold(story, change)
    assert verify_chain(store, "rooms").ok
    report = replay_chain(store, "rooms")
    assert report.verdict == "differs"
    found = [one for kind in report.kinds.values() for one in kind.found]
    assert any(says in str(one.recomputed) for one in found), [one.says for one in found]
    assert report.stop == len(story), "it went on to the end"


def test_a_veto_is_possible_in_a_pause(story: list[Told]) -> None:
    """Paused between a look and a veto: only what was decided after it is named."""
    report = replayed(story, instead(ev.Shown, ev.Paused("now"), 1))
    assert report.kinds["Reviewed"].differ == 0
    assert report.decisions.differ == 1


def test_an_erasure_ends_a_hold_with_nothing() -> None:
    """Whoever erases is named as the one who ended it, long before its time."""
    text = held(POLICY + 'personal = ["busy"]')
    with office(text) as made:
        made.decide("a", night(0.9), subject="guest")
        assert erasing.run(made.desk, "guest", "asked for it", "ann").ended == ("a",)
        assert replay_chain(made.store, made.chain).ok


# What is read of a declaration, and of names, is what the service reads

_SHARES = st.floats(0.0, 1.0)
_TIMES = st.integers(1_600_000_000, 1_900_000_000)


@st.composite
def launches(draw: st.DrawFn) -> dict[str, Any]:
    """Return a table `[service.launch]`, times written in any way that a service takes."""
    mode = draw(st.sampled_from(("live", "shadow", "holdback", "ramp")))
    table: dict[str, Any] = {"mode": mode, "drawn_by": draw(st.sampled_from(("decision", "unit")))}
    if mode == "holdback" and draw(st.booleans()):
        table["share"] = draw(_SHARES)
    if mode == "ramp":
        times = sorted(draw(st.lists(_TIMES, min_size=1, max_size=4)))
        steps = []
        for second in times:
            told = datetime.fromtimestamp(second, UTC)
            since = draw(st.sampled_from((told, told.isoformat(), second, second * 1000)))
            steps.append({"since": since, "share": draw(_SHARES)})
        table["steps"] = steps
    return table


@examples(60)
@given(launch=launches(), at=_TIMES, after=st.none() | st.floats(0.5, 1e6))
def test_rules_are_the_policy(
    live: Live, launch: dict[str, Any], at: int, after: float | None
) -> None:
    expiry = {} if after is None else {"after": after, "then": "wait"}
    table = {"launch": launch, "expiry": expiry}
    live.declared = replace(live.declared, service=table)
    policy, rules = policy_of(table, live.instance), Rules.of(live)
    moments = [at, *(round(step.since.timestamp()) for step in policy.launch.steps)]
    for moment in moments:
        assert rules.live_share(moment * 10**6) == policy.launch.live_share(moment * 10**6)
    assert rules.drawn_by == policy.launch.drawn_by
    assert (rules.after, rules.then) == (round(policy.expiry.after * 1e6), policy.expiry.then)


@pytest.fixture(scope="module")
def live() -> Live:
    """Return a fold whose declaration a test replaces."""
    with office(plain()) as made:
        return opened(made.store, made.chain)
