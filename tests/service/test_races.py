"""Of many who answer the same held decision at once exactly one counts, and all others hear who.

What each may be answered, and nothing else:

- veto: 200, it counts; 409 'decided', with the name of who was first (or 'policy', where its time
  was over); 409 'stale', only where the first answer made another person be asked;
- approve, edit: the same, and 409 'stopped' during a pause, in which nothing is let through, and
  409 'too_late' after the deadline, where nobody had let it through before;
- pause, resume: 200, whether it was news or not;
- decide: 201; 409 'stopped', during a pause;
- expire, by the clock of any process: once, where nobody was first.
"""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gdcb import events as ev
from gdcb.cases import about
from gdcb.ledger.live import Live, opened
from gdcb.ledger.replaying import replay_chain
from gdcb.ledger.sql import SqlStore
from gdcb.service import operating
from gdcb.service.who import name_of
from tests.postgres import Cluster
from tests.service.desks import held_twice, night
from tests.service.race_clients import Caller, Server, Staff, check_ledger, staff_of

CHAIN = "rooms"
EXPIRY_S = 5.0
N_REVIEWERS = 28
_VERBS = ("approve", "edit", "veto")


@dataclass(frozen=True)
class Said:
    """What somebody asked for a held decision, and what they were answered."""

    by: str
    id: str
    verdict: str
    action: dict[str, float] | None
    status: int
    answer: dict[str, Any]


@dataclass
class Race:
    """Answers to the same decisions, from all at once.

    Parameters
    ----------
    store, servers : the database, and the processes that serve it
    n_answers : how many of the fifty each reviewer answers
    said : what reviewers were answered
    other : what the others were: (what they asked, id or '', status, code)
    """

    store: SqlStore
    servers: list[Server]
    n_answers: int = 25
    said: list[Said] = field(default_factory=list)
    other: list[tuple[str, str, int, str]] = field(default_factory=list)
    once: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Hold fifty decisions, and let everybody at them shortly before their time is over."""
        with staff_of(self.store, self.servers, CHAIN) as staff:
            self._run(staff)

    def _run(self, staff: Staff) -> None:
        people = [staff.person(f"p{i:02d}", "approve") for i in range(N_REVIEWERS)]
        operators = [staff.person(f"o{i}", "operate") for i in range(2)]
        shop = staff.program("shop", "decide")
        for prefer in range(len(self.servers)):  # all are up before the time runs
            assert shop.ask("GET", f"{CHAIN}/decisions/none", prefer=prefer)[0] == 404
        begun = time.monotonic()
        self._hold(shop)
        status, queue = people[0].ask("GET", f"{CHAIN}/queue?limit=60")
        assert (status, queue["total"]) == (200, 50)
        seen = {one["id"]: {k: one[k] for k in ("version", "content")} for one in queue["waiting"]}
        work = [partial(self._review, i, who, seen) for i, who in enumerate(people)]
        work += [partial(self._stop_and_go, who) for who in operators]
        work += [partial(self._decide, i, shop) for i in range(2)]
        time.sleep(max(0.0, begun + EXPIRY_S - 1.2 - time.monotonic()))
        self._all_at_once(work)
        until = time.monotonic() + 20
        while people[0].ask("GET", f"{CHAIN}/queue")[1]["total"] and not self.servers[0].is_planted:
            assert time.monotonic() < until, "what is left does not expire"
            time.sleep(0.05)

    def _hold(self, shop: Caller) -> None:
        for id, n, base in (("once", 42, 100.0), ("twice", 8, 280.0)):
            contexts = [night(0.9, base) for _ in range(n)]
            status, batch = shop.post(
                f"{CHAIN}/decisions/batch", {"id": id, "contexts": contexts, "mask": ["1"]}
            )
            assert status == 201
            assert {one["status"] for one in batch["decisions"]} == {"held"}
            getattr(self, id).extend(one["id"] for one in batch["decisions"])

    def _all_at_once(self, work: Sequence[Callable[[], None]]) -> None:
        start = threading.Barrier(len(work))

        def begin(one: Callable[[], None]) -> None:
            start.wait(timeout=30)
            one()

        with ThreadPoolExecutor(len(work)) as pool:
            for done in [pool.submit(begin, one) for one in work]:
                done.result()

    def _review(self, number: int, who: Caller, seen: dict[str, dict[str, Any]]) -> None:
        rng = random.Random(number)
        for id in rng.sample(sorted(seen), self.n_answers):
            verdict = rng.choice(_VERBS)
            action = {"price": 60.0 + number + 0.5} if verdict == "edit" else None
            body = {"verdict": verdict, "action": action, "code": "other"} | seen[id]
            status, answer = who.post(f"{CHAIN}/decisions/{id}/review", body, prefer=number)
            self.said.append(Said(who.name, id, verdict, action, status, answer))

    def _stop_and_go(self, who: Caller) -> None:
        for i in range(10):
            verb = "resume" if i % 2 else "pause"
            status, answer = who.post(f"{CHAIN}/{verb}", {"reason": "a race"}, prefer=i)
            self.other.append((verb, "", status, str(answer.get("news"))))

    def _decide(self, number: int, shop: Caller) -> None:
        for i in range(10):
            id = f"new-{number}-{i}"
            status, answer = shop.post(
                f"{CHAIN}/decisions", {"id": id, "context": night()}, prefer=i
            )
            self.other.append(("decide", id, status, answer.get("error", {}).get("code", "")))

    # What came of it

    def violations(self) -> list[str]:
        """Return what went against the rules at the head of this file."""
        live = opened(self.store, CHAIN)
        answers: dict[str, list[ev.Reviewed | ev.Expired]] = {}
        for event in live.events:
            if isinstance(event, ev.Reviewed | ev.Expired):
                answers.setdefault(event.id, []).append(event)
        found = []
        for id in (*self.once, *self.twice):
            found += self._of_hold(live, id, answers.get(id, []))
        return found + self._of_others(live)

    def _of_hold(self, live: Live, id: str, answers: list[ev.Reviewed | ev.Expired]) -> list[str]:
        found: list[str] = []
        if len(answers) > (1 if id in self.once else 2):
            return [f"{id}: answered {len(answers)} times"]
        if not answers:
            return [f"{id}: never answered"]
        first, asked = answers[0], [one for one in self.said if one.id == id]
        winners = [one for one in asked if one.status == 200]
        by = name_of(first.by) if isinstance(first, ev.Reviewed) else "policy"
        if [one.by for one in winners] != ([] if by == "policy" else [by]):
            found.append(f"{id}: {by} counts, and 200 went to {[one.by for one in winners]}")
        names = {by, "policy"} if len(answers) > 1 else {by}
        for one in asked:
            if one.status == 200:
                continue
            error = one.answer["error"]
            is_told = error["code"] == "decided" and error["details"]["by"] in names
            is_stale = error["code"] == "stale" and id in self.twice and by != "policy"
            is_stopped = error["code"] == "stopped" and one.verdict != "veto"
            is_let_through = isinstance(first, ev.Reviewed) and first.verdict != "veto"
            is_late = error["code"] == "too_late" and one.verdict != "veto" and not is_let_through
            if one.status != 409 or not (is_told or is_stale or is_stopped or is_late):
                found.append(f"{id}: {one.by} got {one.status} {error}")
        if winners and len(answers) == 1:
            found += self._of_winner(live, winners[0])
        return found

    def _of_winner(self, live: Live, won: Said) -> list[str]:
        """Hold what ran against what the winner said, and against what they were told."""
        record = live.records[won.id]
        ran = None if record.executed is None else live.instance.decode_action(record.executed)
        wanted = {"approve": {"price": 100.0}, "edit": won.action, "veto": None}[won.verdict]
        status = {"approve": "passed", "edit": "modified", "veto": "vetoed"}[won.verdict]
        if (ran, record.status) != (wanted, status) or won.answer["status"] != status:
            return [f"{won.id}: {won.verdict} {wanted} won, and {record.status} {ran} ran"]
        return []

    def _of_others(self, live: Live) -> list[str]:
        allowed = {
            "pause": {(200, "True"), (200, "False")},
            "resume": {(200, "True"), (200, "False")},
            "decide": {(201, ""), (409, "stopped")},
        }
        found = [f"{one}" for one in self.other if one[2:] not in allowed[one[0]]]
        made = {id for e in live.events if isinstance(e, ev.DecisionMade) for id in about(e)}
        for what, id, status, _ in self.other:
            if what == "decide" and (status == 201) != (id in made):
                found.append(f"{id}: answered {status}, and in the ledger: {id in made}")
        is_paused = False
        for event in live.events:
            if isinstance(event, ev.Paused | ev.Resumed):
                is_paused = isinstance(event, ev.Paused)
            elif isinstance(event, ev.DecisionMade) and is_paused:
                found.append(f"{event.id} were decided during a pause")
            elif isinstance(event, ev.Reviewed) and is_paused and event.verdict != "veto":
                found.append(f"{event.id} was let through during a pause")
        return found


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    return str(shutil.copy(sqlite_template, tmp_path / "race.db"))


@pytest.fixture
def postgres_url(postgres: Cluster, postgres_template: str) -> Iterator[str]:
    name = postgres.create(f"TEMPLATE {postgres_template}")
    yield postgres.url(name)
    postgres.drop(name)


def _raced(url: str, n_servers: int, is_planted: bool = False) -> Race:
    store = SqlStore(url)
    # What runs on release has a place in the index, which would stop a mistake at the last moment.
    service = f'execution = "{"report" if is_planted else "release"}"\nexpiry.after = {EXPIRY_S}\n'
    operating.create(store, held_twice(service), "ann", "a race", seed=3)
    servers = [Server(url, is_planted=is_planted) for _ in range(n_servers)]
    race = Race(store, servers, 6 if is_planted else 25)
    try:
        for server in servers:
            server.start()
        race.run()
    finally:
        for server in servers:
            server.close()
    return race


@pytest.mark.parametrize(("url", "n_servers"), [("sqlite_url", 1), ("postgres_url", 3)])
def test_one_answer_counts(url: str, n_servers: int, request: pytest.FixtureRequest) -> None:
    race = _raced(request.getfixturevalue(url), n_servers)
    assert len(race.said) == N_REVIEWERS * race.n_answers
    assert race.violations() == []
    check_ledger(race.store, CHAIN)
    assert replay_chain(race.store, CHAIN).ok  # nothing was let through after its deadline, either
    assert any(one.status == 200 for one in race.said)
    race.store.close()


def test_a_planted_mistake_is_found(sqlite_url: str) -> None:
    race = _raced(sqlite_url, 1, is_planted=True)
    assert any("answered 2 times" in one for one in race.violations())
    race.store.close()
