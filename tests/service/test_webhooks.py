"""Webhooks arrive signed, in order and at least once, whatever breaks on the way."""

from __future__ import annotations

import json
import logging
import random
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from gdcb.cases import about
from gdcb.client import BadSignature, verify
from gdcb.errors import Conflict, InvalidInput, StoreUnavailable, UnknownInstance
from gdcb.ledger.sql import SqlStore
from gdcb.ledger.tables import VERSION_TABLE
from gdcb.service import answering, operating
from gdcb.service.tables import metadata
from gdcb.service.webhooks import (
    KINDS,
    Hook,
    Sender,
    UnknownHook,
    add_hook,
    document,
    find_hook,
    list_hooks,
    remove_hook,
    resume_hook,
    rotate,
)
from gdcb.service.webhooks import sender as sending
from gdcb.service.webhooks.leases import LEASE, LONGEST_WAIT, LeaseLost, Leases
from gdcb.service.webhooks.messages import body_of
from tests.postgres import Cluster
from tests.service.desks import SECOND, Office, held, held_twice, night, office
from tests.service.receivers import Receiver, receiving

pytestmark = pytest.mark.filterwarnings("error")
DAY = 86_400


@dataclass
class Line:
    """An office whose hook goes to a receiver on this machine."""

    office: Office
    store: SqlStore
    receiver: Receiver
    hook: Hook
    secret: str
    sender: Sender

    def another(self, **given: Any) -> Sender:
        return Sender(self.store, self.office.clock, allow_local=True, **given)

    def now(self) -> Hook:
        return find_hook(self.store, self.office.chain, self.hook.id)

    def due(self) -> None:
        """Let time pass until the next try."""
        self.office.clock.pass_by(LONGEST_WAIT + 1)


@pytest.fixture
def sqlite_store(sqlite_template: Path, tmp_path: Path) -> Iterator[SqlStore]:
    store = SqlStore(shutil.copy(sqlite_template, tmp_path / "ledger.db"))
    yield store
    store.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest) -> Iterator[SqlStore]:
    if request.param == "sqlite":
        yield request.getfixturevalue("sqlite_store")
        return
    cluster: Cluster = request.getfixturevalue("postgres")
    name = cluster.create(f"TEMPLATE {request.getfixturevalue('postgres_template')}")
    found = SqlStore(cluster.url(name))
    yield found
    found.close()
    cluster.drop(name)


def line_of(made: Office, store: SqlStore, receiver: Receiver, *kinds: str) -> Line:
    hook, secret = add_hook(
        store,
        made.chain,
        f"{receiver.url}/hooks?team=7",
        kinds or KINDS,
        "ann [1f]",
        clock=made.clock,
        allow_local=True,
    )
    sender = Sender(store, made.clock, allow_local=True, timeout=2.0)
    return Line(made, store, receiver, hook, secret, sender)


@pytest.fixture
def line(sqlite_store: SqlStore) -> Iterator[Line]:
    with office(held(), sqlite_store) as made, receiving() as receiver:
        yield line_of(made, sqlite_store, receiver)


# What is said


def test_a_message_is_signed_and_says_what_happened(line: Line) -> None:
    line.office.decide("n1", night(busy=0.9), unit="flat 3")
    assert line.sender.pass_once() == 1
    (post,) = line.receiver.posts
    assert post.path == "/hooks?team=7"
    assert post.headers["content-type"] == "application/json"
    seconds = line.office.clock.at // SECOND
    assert verify(line.secret, post.signature, post.body, now=seconds) == seconds
    with pytest.raises(BadSignature):
        verify(line.secret, post.signature, post.body + b" ", now=seconds)
    assert post.told["hook"] == line.hook.id
    (message,) = post.messages
    decision = message.pop("decision")
    assert message == {
        "id": "rooms:3:0",
        "kind": "held",
        "instance": "rooms",
        "at": "2026-01-01T00:00:00.000Z",
        "by": "shop",
        "entry": 3,
    }
    assert decision == line.office.document("n1")
    assert (decision["id"], decision["unit"], decision["status"]) == ("n1", "flat 3", "held")


def test_every_kind_is_told_in_the_order_of_the_ledger(line: Line) -> None:
    made = line.office
    for id in ("a", "b", "c", "d"):
        made.decide(id, night(busy=0.9))
    made.answer("a")
    made.answer("b", "edit", {"price": 70.0})
    made.answer("c", "veto", code="not-now", reason="no")
    made.clock.pass_by(4 * 3600 + 1)
    made.do(answering.expire, "d")
    made.observe({"a": 1.0})
    made.do(operating.pause, "stop", "ann")
    made.do(operating.resume, "go", "ann")
    made.change(held('execution = "report"'))
    made.do(operating.retire, "end", "ann")
    line.sender.pass_once()
    told = [(one["kind"], one.get("decision", {}).get("id")) for one in line.receiver.messages]
    assert told == [
        *(("held", id) for id in "abcd"),
        ("approved", "a"),
        ("executed", "a"),
        ("approved", "b"),
        ("executed", "b"),
        ("vetoed", "c"),
        ("executed", "c"),
        ("expired", "d"),
        ("executed", "d"),
        ("outcome", "a"),
        ("paused", None),
        ("resumed", None),
        ("changed", None),
        ("retired", None),
    ]
    assert set(line.receiver.kinds) == set(KINDS)
    by_kind = {(one["kind"], one.get("decision", {}).get("id")): one for one in messages(line)}
    assert by_kind["approved", "b"]["decision"]["action"] == {"price": 70.0}
    assert by_kind["approved", "b"]["decision"]["status"] == "modified"
    assert by_kind["vetoed", "c"]["decision"]["action"] is None
    assert by_kind["expired", "d"]["decision"]["status"] == "expired"
    assert by_kind["executed", "a"]["decision"]["executed"] == made.document("a")["executed"]
    assert by_kind["outcome", "a"]["decision"]["outcome"] == {"booked": 1.0}
    assert by_kind["paused", None]["reason"] == "stop"
    entries = [one["entry"] for one in line.receiver.messages]
    assert entries == sorted(entries)
    assert line.now().cursor == made.size
    assert line.now().waiting == 0


def messages(line: Line) -> list[dict[str, Any]]:
    return line.receiver.messages


def test_a_message_says_how_things_stood_then_and_not_now(line: Line) -> None:
    line.office.decide("n1", night(busy=0.9))
    line.office.answer("n1")
    line.office.observe({"n1": 1.0})
    line.sender.pass_once()
    stood = [
        (m["decision"]["status"], m["decision"]["has_run"], m["decision"]["outcome"])
        for m in messages(line)
    ]
    assert stood == [
        ("held", False, None),
        ("passed", False, None),
        ("passed", True, None),
        ("passed", True, {"booked": 1.0}),
    ]


def test_an_approval_that_the_next_person_holds_is_no_release(sqlite_store: SqlStore) -> None:
    with office(held_twice(), sqlite_store) as made, receiving() as receiver:
        line = line_of(made, sqlite_store, receiver)
        made.decide("n1", night(busy=0.9, base=290.0))
        made.answer("n1")
        line.sender.pass_once()
        assert receiver.kinds == ["held", "held"]
        made.answer("n1", "veto", by="bob", code="too-high")
        line.sender.pass_once()
        assert receiver.kinds == ["held", "held", "vetoed", "executed"]


def test_a_hook_hears_only_what_it_asked_for(sqlite_store: SqlStore) -> None:
    with office(held(), sqlite_store) as made, receiving() as receiver:
        line = line_of(made, sqlite_store, receiver, "paused", "vetoed")
        made.decide("n1", night(busy=0.9))
        made.answer("n1")
        assert line.sender.pass_once() == 0
        assert line.now().cursor == made.size  # read, and none of its business
        made.decide("n2", night(busy=0.9))
        made.answer("n2", "veto")
        made.do(operating.pause, "stop", "ann")
        line.sender.pass_once()
        assert receiver.kinds == ["vetoed", "paused"]


def test_what_happened_before_a_hook_was_made_is_not_told(line: Line) -> None:
    line.sender.pass_once()
    assert line.receiver.posts == []
    assert line.now().waiting == 0


def test_a_batch_is_told_in_parts(line: Line) -> None:
    line.office.decide("night", [night(busy=0.9 * (i % 2)) for i in range(1_203)], unit="u")
    line.sender.pass_once()
    assert [len(post.messages) for post in line.receiver.posts] == [500, 102, 500, 101]
    assert line.receiver.kinds == 602 * ["executed"] + 601 * ["held"]
    ids = [one["decision"]["id"] for one in messages(line)]
    assert ids == [f"night.{i}" for i in [*range(0, 1203, 2), *range(1, 1203, 2)]]
    assert len(set(line.receiver.ids)) == 1_203
    assert {post.headers["gdcb-hook"] for post in line.receiver.posts} == {line.hook.id}


def test_a_part_that_was_received_is_not_sent_again(line: Line) -> None:
    line.office.decide("night", [night() for _ in range(1_203)], unit="u")
    line.receiver.script = [200, 500]
    line.sender.pass_once()
    line.due()
    line.sender.pass_once()
    assert [len(post.messages) for post in line.receiver.posts] == [500, 500, 500, 203]
    first, failed, again, _ = (post.messages for post in line.receiver.posts)
    assert failed == again
    assert first[-1]["id"] != again[0]["id"]


def test_bodies_have_no_nan() -> None:
    told = body_of("hook_1", [{"x": float("nan"), "y": [1.5, float("inf")], "z": {"w": 2}}])
    assert told == b'{"hook":"hook_1","messages":[{"x":null,"y":[1.5,null],"z":{"w":2}}]}'


# What breaks on the way


def slow() -> int:
    time.sleep(1.0)
    return 200


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (500, "expected an answer of 2xx, got 500"),
        (404, "expected an answer of 2xx, got 404"),
        (302, "expected an answer of 2xx, got 302; redirects are not followed"),
        (b"", "the connection was closed before an answer came"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "the answer is not HTTP"),
        (b"x" * 10_000, "the answer is not HTTP"),
        (b"HTTP/1.1 100 Continue\r\n" + b"a: b\r\n" * 2_000, "the answer is not HTTP"),
        (slow, "no answer within 0.3 seconds"),
    ],
)
def test_what_is_not_received_is_sent_again(line: Line, answer: Any, says: str) -> None:
    sender = line.another(timeout=0.3 if answer is slow else 10.0)
    line.office.decide("n1", night(busy=0.9))
    line.receiver.script = [answer]
    assert sender.pass_once() == 0
    hook = line.now()
    assert (hook.failures, hook.last_error, hook.is_on) == (1, says, True)
    assert hook.failing_since == line.office.clock.at
    assert sender.pass_once() == 0  # not before its time
    assert len(line.receiver.posts) == 1
    line.due()
    line.office.decide("n2", night(busy=0.9))
    assert line.another(timeout=10.0).pass_once() == 1
    assert line.receiver.ids[0] == line.receiver.ids[1]
    assert [m["decision"]["id"] for m in messages(line)] == ["n1", "n1", "n2"]
    assert all(post.path.startswith("/hooks") for post in line.receiver.posts)
    hook = line.now()
    assert (hook.failures, hook.last_error, hook.failing_since) == (0, "", None)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n" + b"x" * 100_000,
        b"HTTP/1.0 204 \r\n\r\n",
        b"HTTP/1.1 200\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\n\r\n",
    ],
)
def test_any_2xx_is_enough(line: Line, answer: bytes) -> None:
    line.office.decide("n1", night(busy=0.9))
    line.receiver.script = [answer]
    assert line.sender.pass_once() == 1
    assert line.now().waiting == 0


def test_a_receiver_that_is_down_is_called_again(line: Line) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/"
    hook, _ = add_hook(
        line.store, "rooms", url, ["held"], "ann", clock=line.office.clock, allow_local=True
    )
    line.office.decide("n1", night(busy=0.9))
    line.sender.pass_once()
    assert find_hook(line.store, "rooms", hook.id).last_error == "the connection was refused"
    assert line.now().last_error == ""  # the other hook has its own row and its own luck


def test_a_receiver_that_dribbles_cannot_keep_the_sender(line: Line) -> None:
    """A byte at a time would never run into a timeout of a single read."""
    listening = socket.create_server(("127.0.0.1", 0))
    is_over = threading.Event()

    def dribble() -> None:
        link, _ = listening.accept()
        with link:
            while not is_over.wait(0.05):
                try:
                    link.sendall(b"H")
                except OSError:
                    return

    thread = threading.Thread(target=dribble)
    thread.start()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
    hook, _ = add_hook(
        line.store, "rooms", url, ["held"], "ann", clock=line.office.clock, allow_local=True
    )
    line.office.decide("n1", night(busy=0.9))
    started = time.monotonic()
    line.another(timeout=0.4).pass_once()
    is_over.set()
    thread.join()
    listening.close()
    assert time.monotonic() - started < 3
    says = find_hook(line.store, "rooms", hook.id).last_error
    assert says == "no answer within 0.4 seconds"


def test_waits_grow_up_to_an_hour_and_differ(line: Line) -> None:
    line.office.decide("n1", night(busy=0.9))
    line.receiver.script = [503] * 20
    waits = []
    for _ in range(20):
        line.sender.pass_once()
        hook = line.now()
        waits.append((hook.next_at - line.office.clock.at) / SECOND)
        line.office.clock.at = hook.next_at
    for n, wait in enumerate(waits, start=1):
        longest = min(2.0**n, 3_600)
        assert longest / 2 <= wait <= longest
    assert len(set(waits)) == len(waits)


def test_after_three_days_a_hook_is_off_and_says_so(
    line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    line.office.decide("n1", night(busy=0.9))
    line.receiver.script = [503] * 3
    line.sender.pass_once()
    since = line.office.clock.at
    line.office.clock.pass_by(3 * DAY - 1)
    line.sender.pass_once()
    assert line.now().is_on
    line.office.clock.pass_by(DAY)
    with caplog.at_level(logging.WARNING, "gdcb.service.webhooks"):
        line.sender.pass_once()
    assert "is off: it failed for three days" in caplog.text
    (hook,) = list_hooks(line.store, "rooms")
    assert (hook.is_on, hook.failures, hook.failing_since) == (False, 3, since)
    assert hook.last_error == "expected an answer of 2xx, got 503"
    assert hook.waiting == 1
    line.due()
    assert line.sender.pass_once() == 0
    assert resume_hook(line.store, "rooms", hook.id).is_on
    assert line.sender.pass_once() == 1
    assert set(line.receiver.ids) == {"rooms:3:0"}


def test_a_crash_after_the_post_sends_the_same_ids_again(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    line.office.decide("n1", night(busy=0.9))

    def die(*_: object) -> None:
        raise KeyboardInterrupt  # what no code here catches

    with monkeypatch.context() as patch:
        patch.setattr(Leases, "move", die)
        with pytest.raises(KeyboardInterrupt):
            line.sender.pass_once()
    assert line.now().waiting == 1
    after = line.another()
    assert after.pass_once() == 0  # the lease of the dead one runs still
    line.office.clock.pass_by(LEASE / SECOND + 1)
    assert after.pass_once() == 1
    assert line.receiver.ids == ["rooms:3:0", "rooms:3:0"]
    assert line.receiver.posts[0].body == line.receiver.posts[1].body


def test_a_store_that_is_away_is_no_failure_of_the_receiver(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    line.office.decide("n1", night(busy=0.9))

    def away(*_: object) -> None:
        raise StoreUnavailable("it cannot be reached")

    with monkeypatch.context() as patch:
        patch.setattr(sending, "messages_of", away)
        assert line.sender.pass_once() == 0
    assert line.now().failures == 0
    assert line.sender.pass_once() == 1


def test_what_is_our_own_fault_waits_and_loses_nothing(
    line: Line, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    line.office.decide("n1", night(busy=0.9))

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(sending, "messages_of", broken)
        assert line.sender.pass_once() == 0
    assert line.now().last_error == "nothing was sent: something went wrong on our side"
    assert "ZeroDivisionError" in caplog.text
    line.due()
    assert line.sender.pass_once() == 1


@pytest.mark.parametrize("seed", range(2))
def test_whatever_fails_nothing_is_lost_and_the_order_stays(line: Line, seed: int) -> None:
    """Decisions come while receivers refuse, break off and senders die, by chance."""
    rng, made, n = random.Random(seed), line.office, 0
    for _ in range(25):
        if rng.random() < 0.6:
            rows = rng.choice([1, 1, 3, 600])
            contexts: Any = [night(busy=rng.choice([0.0, 0.9])) for _ in range(rows)]
            made.decide(f"n{n}", contexts, unit="u")
            n += 1
        fates: list[Any] = [200, 500, 302, b"", b"nonsense\n"]
        line.receiver.script = rng.choices(fates, k=3)
        line.sender.pass_once()
        if rng.random() < 0.2:
            line.sender = line.another(timeout=2.0)
        made.clock.pass_by(rng.choice([0.5, 60, 4_000]))
    line.receiver.script = []
    for _ in range(3):
        line.due()
        line.sender.pass_once()
    assert line.now().waiting == 0
    expected = [
        f"rooms:{entry.seq}:{row}"
        for entry, event in zip(line.store.read("rooms"), made.events(), strict=True)
        if entry.kind in ("ReviewRequested", "ActionExecuted")
        for row, _ in enumerate(about(event))
    ]
    assert list(dict.fromkeys(line.receiver.ids)) == expected
    assert len(expected) > 300
    assert len(line.receiver.ids) > len(expected)  # some came twice, or the test tries nothing


# Several senders


def test_two_senders_send_nothing_twice(store: SqlStore) -> None:
    with office(held(), store) as made, receiving() as receiver:
        line = line_of(made, store, receiver)
        senders = [line.another(), line.another()]
        for one in senders:
            made.desk.listeners.append(one.heard)
            one.start()
        for i in range(40):
            made.decide(f"n{i}", night(busy=0.9 * (i % 2)))
        ends = time.monotonic() + 20
        while line.now().waiting and time.monotonic() < ends:
            time.sleep(0.02)
        for one in senders:
            one.stop()
        assert [m["decision"]["id"] for m in receiver.messages] == [f"n{i}" for i in range(40)]
        assert len(set(receiver.ids)) == 40


def test_a_lease_has_one_holder(store: SqlStore) -> None:
    """Both see that the hook is due; one of them gets it, until it gives it back or dies."""
    with office(held(), store) as made, receiving() as receiver:
        line = line_of(made, store, receiver)
        made.decide("n1", night(busy=0.9))
        one, other = Leases(store, "one"), Leases(store, "other")
        now = made.clock.at
        assert [job.id for job in one.due(now)] == [job.id for job in other.due(now)]
        taken = one.take(line.hook.id, now)
        assert taken is not None
        assert other.take(line.hook.id, now) is None
        assert other.due(now) == []
        assert not other.skip(taken, 3, now)
        assert one.take(line.hook.id, now) is not None  # its own, once more
        assert other.take(line.hook.id, now + LEASE) is not None  # the first has died, they say
        with pytest.raises(LeaseLost):
            one.move(taken, 4, now)
        one.give_back(taken)  # not its own any more: it stays with the other
        assert one.take(line.hook.id, now + LEASE) is None


def test_a_lease_that_was_lost_stops_the_sender(line: Line) -> None:
    line.office.decide("night", [night() for _ in range(1_203)], unit="u")
    other = line.another()

    def overtake() -> int:
        line.office.clock.pass_by(LEASE / SECOND + 1)
        other.pass_once()
        return 200

    line.receiver.script = [overtake]
    assert line.sender.pass_once() == 0
    sizes = [len(post.messages) for post in line.receiver.posts]
    assert sizes == [500, 500, 500, 203]  # the first of the slow one, and all of the other
    assert line.now().waiting == 0


def test_a_hook_that_is_removed_is_left_alone(line: Line) -> None:
    line.office.decide("night", [night() for _ in range(1_203)], unit="u")

    def remove() -> int:
        remove_hook(line.store, "rooms", line.hook.id)
        return 200

    line.receiver.script = [remove]
    line.sender.pass_once()
    assert len(line.receiver.posts) == 1
    assert list_hooks(line.store, "rooms") == []


def test_in_the_background_a_slow_receiver_keeps_nobody_waiting(line: Line) -> None:
    with receiving() as other:
        add_hook(line.store, "rooms", other.url, ["held"], "ann", allow_local=True)
        go = threading.Event()

        def wait() -> int:
            go.wait(timeout=10)
            return 200

        line.receiver.script = [wait]
        line.sender.start()
        line.office.desk.listeners.append(line.sender.heard)
        line.office.decide("n1", night(busy=0.9))
        ends = time.monotonic() + 10
        while not (other.posts and line.receiver.posts) and time.monotonic() < ends:
            time.sleep(0.01)
        assert other.kinds == ["held"]
        go.set()
        line.sender.stop()
        line.sender.stop()  # once more does nothing
    assert line.now().waiting == 0


# The list of hooks


def test_a_hook_is_listed_without_its_secret(line: Line) -> None:
    (hook,) = list_hooks(line.store)
    assert hook == line.hook
    assert hook.kinds == tuple(KINDS)
    assert hook.made_by == "ann [1f]"
    assert line.secret.startswith("whsec_")
    assert line.secret[6:] not in repr(hook)


def test_a_hook_as_the_api_shows_it(line: Line) -> None:
    line.office.decide("n1", night(busy=0.9))
    line.receiver.script = [500]
    line.sender.pass_once()
    shown = document(line.now())
    assert json.loads(json.dumps(shown)) == shown
    assert shown.pop("next_at").startswith("2026-01-01T00:00:0")
    assert shown == {
        "id": line.hook.id,
        "url": line.hook.url,
        "kinds": list(KINDS),
        "made_by": "ann",
        "made_at": "2026-01-01T00:00:00.000Z",
        "is_on": True,
        "waiting": 1,
        "failures": 1,
        "failing_since": "2026-01-01T00:00:00.000Z",
        "last_error": "expected an answer of 2xx, got 500",
    }


def test_the_migration_makes_the_tables(store: SqlStore) -> None:
    def is_ours(name: str | None, kind: str, *_: object) -> bool:
        return kind != "table" or name in metadata.tables

    options = {"version_table": VERSION_TABLE, "include_name": is_ours, "compare_type": True}
    with store.connecting() as connection:
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, metadata) == []


def test_secrets_change_over(line: Line) -> None:
    clock = line.office.clock
    line.office.decide("n1", night(busy=0.9))
    new = rotate(line.store, "rooms", line.hook.id, clock=clock)
    line.sender.pass_once()
    post = line.receiver.posts[0]
    for secret in (line.secret, new):
        verify(secret, post.signature, post.body, now=clock.at / SECOND)
    clock.pass_by(DAY + 1)
    line.office.decide("n2", night(busy=0.9))
    line.sender.pass_once()
    post = line.receiver.posts[1]
    verify(new, post.signature, post.body, now=clock.at / SECOND)
    with pytest.raises(BadSignature):
        verify(line.secret, post.signature, post.body, now=clock.at / SECOND)


def test_a_secret_that_is_known_ends_at_once(line: Line) -> None:
    clock = line.office.clock
    new = rotate(line.store, "rooms", line.hook.id, clock=clock, overlap_s=0)
    line.office.decide("n1", night(busy=0.9))
    line.sender.pass_once()
    post = line.receiver.posts[0]
    assert post.signature.count("v1=") == 1
    verify(new, post.signature, post.body, now=clock.at / SECOND)


def test_hooks_of_other_instances_are_not_found(line: Line) -> None:
    for act in (remove_hook, resume_hook, rotate, find_hook):
        with pytest.raises(UnknownHook, match=r"instance 'other' has no webhook 'hook_"):
            act(line.store, "other", line.hook.id)
    assert list_hooks(line.store, "other") == []
    with pytest.raises(UnknownInstance, match="no instance 'other' here"):
        add_hook(line.store, "other", line.receiver.url, ["held"], "ann", allow_local=True)
    with pytest.raises(InvalidInput, match=r"overlap_s: expected 0 to 2\.592e"):
        rotate(line.store, "rooms", line.hook.id, overlap_s=-1.0)


def test_an_instance_has_so_many_hooks_at_most(line: Line) -> None:
    for _ in range(19):
        add_hook(line.store, "rooms", line.receiver.url, ["held"], "ann", allow_local=True)
    with pytest.raises(Conflict, match="instance 'rooms' has 20 webhooks already"):
        add_hook(line.store, "rooms", line.receiver.url, ["held"], "ann", allow_local=True)


@pytest.mark.parametrize(
    ("kinds", "got"), [((), "none"), (("held", "nonsense"), "'nonsense'"), ("all", "'all'")]
)
def test_kinds_that_there_are_not(line: Line, kinds: Any, got: str) -> None:
    with pytest.raises(InvalidInput, match=f"kinds: expected some of held, .*; got {got}"):
        add_hook(line.store, "rooms", line.receiver.url, kinds, "ann", allow_local=True)
