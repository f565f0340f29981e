"""What every store does, in memory, in SQLite and in PostgreSQL."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from gdcb.errors import Conflict, InvalidInput
from gdcb.ledger import GENESIS, Draft, Head, Place, Snapshot, Store, Touch, check_store
from tests.ledger.conftest import Opener
from tests.ledger.drafts import draft, fill, made


def test_nothing_is_there_at_first(store: Store) -> None:
    assert store.chains() == []
    assert store.head("prices") == Head(0, GENESIS)
    assert list(store.read("prices")) == []
    assert store.get("prices", []) == []
    assert store.places("prices", ["r"]) == {}
    assert store.touches("prices", ["r"]) == []
    assert store.near("prices", 0) == 0
    assert store.snapshot("prices") is None


def test_entries_come_back_as_they_were_appended(store: Store) -> None:
    entries = fill(store, 3) + fill(store, 2)
    assert entries == made(5)
    assert store.head("prices") == Head(5, entries[-1].hash)
    assert list(store.read("prices")) == entries
    assert list(store.read("prices", 1, 3)) == entries[1:3]
    assert list(store.read("prices", 3)) == entries[3:]
    assert list(store.read("prices", 9)) == []
    assert store.get("prices", [4, 0, 4]) == [entries[4], entries[0], entries[4]]
    assert check_store(store, "prices").ok


def test_chains_are_apart(store: Store) -> None:
    fill(store, 3, "prices")
    fill(store, 1, "doses")
    assert store.chains() == ["doses", "prices"]
    assert store.head("doses") == Head(1, made(1, "doses")[-1].hash)
    with store.writing("doses") as writing:
        writing.add_places([Place("r", 0, 0, 1)])
        writing.add_touches([Touch("r", 0, "outcome", 0, 0)])
    assert store.places("prices", ["r"]) == {}
    assert store.touches("prices", ["r"]) == []


def test_a_transaction_sees_its_own_work(store: Store) -> None:
    fill(store, 2)
    with store.writing("prices") as writing:
        assert writing.head.size == 2
        [entry] = writing.append([draft(2)])
        assert writing.head == Head(3, entry.hash)
        assert writing.read(1) == made(3)[1:]
        assert writing.read(0, 1) == made(1)
        assert writing.read(3) == []
        writing.add_places([Place("r", 2, 0, 4)])
        assert writing.places(["r", "other"]) == {"r": Place("r", 2, 0, 4)}
        writing.add_touches([Touch("r", 1, "outcome", 2, 0)])
        assert writing.touches(["r", "other"]) == [Touch("r", 1, "outcome", 2, 0)]
        assert writing.append([]) == []
        # Nobody else does, before its end.
        assert store.head("prices").size == 2
        assert store.places("prices", ["r"]) == {}
        assert store.touches("prices", ["r"]) == []
    assert store.head("prices").size == 3
    assert store.places("prices", ["r"]) == {"r": Place("r", 2, 0, 4)}
    assert store.touches("prices", ["r"]) == [Touch("r", 1, "outcome", 2, 0)]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_exception_leaves_nothing_behind(store: Store, error: type[BaseException]) -> None:
    entries = fill(store, 2)

    def work() -> None:
        with store.writing("prices") as writing:
            writing.append([draft(2)])
            writing.add_places([Place("r", 2, 0, 1)])
            writing.add_touches([Touch("r", 0, "outcome", 2, 0)])
            raise error("in the middle")

    with pytest.raises(error, match="in the middle"):
        work()
    assert list(store.read("prices")) == entries
    assert store.places("prices", ["r"]) == {}
    assert store.touches("prices", ["r"]) == []
    assert fill(store, 1) == made(3)[2:]


def test_a_chain_is_created_by_its_first_entry(store: Store) -> None:
    with store.writing("prices") as writing:
        assert writing.head == Head(0, GENESIS)
    assert store.chains() == []

    def work() -> None:
        with store.writing("prices") as writing:
            writing.append([draft()])
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        work()
    assert store.chains() == []
    fill(store, 1)
    assert store.chains() == ["prices"]


def test_a_request_is_taken_once(store: Store) -> None:
    with store.writing("prices") as writing:
        writing.append([draft()])
        writing.add_places([Place("r", 0, 0, 2), Place("s", 0, 2, 1)])
    with store.writing("prices") as writing:
        with pytest.raises(Conflict, match=r"request 's' is taken$"):
            writing.add_places([Place("t", 0, 0, 1), Place("s", 0, 2, 1)])
        with pytest.raises(Conflict, match=r"request 'u' is taken$"):
            writing.add_places([Place("u", 0, 0, 1), Place("u", 0, 2, 1)])
        with pytest.raises(Conflict, match=r"is taken, and 1 more$"):
            writing.add_places([Place("r", 0, 0, 1), Place("s", 0, 2, 1)])
        # Refused whole; the transaction goes on.
        assert writing.places(["t", "u"]) == {}
        writing.add_places([Place("v", 0, 0, 1)])
        writing.add_places([])
    assert set(store.places("prices", ["r", "s", "t", "u", "v"])) == {"r", "s", "v"}


def test_a_slot_is_taken_once(store: Store) -> None:
    with store.writing("prices") as writing:
        writing.append([draft()])
        writing.add_touches([Touch("r", 0, "outcome", 0, 0), Touch("r", 1, "outcome", 0, 1)])
    with store.writing("prices") as writing:
        with pytest.raises(Conflict, match=r"'outcome' of row 1 of request 'r' is taken$"):
            writing.add_touches([Touch("r", 2, "outcome", 0, 0), Touch("r", 1, "outcome", 9, 9)])
        with pytest.raises(Conflict, match=r"'executed' of row 0 of request 'r' is taken$"):
            writing.add_touches([Touch("r", 0, "executed", 0, 0), Touch("r", 0, "executed", 0, 1)])
        writing.add_touches([Touch("r", 0, "review:0", 0, 5), Touch("r", 0, "review:1", 0, 6)])
        writing.add_touches([])
    assert [touch.slot for touch in store.touches("prices", ["r"])] == [
        "outcome",
        "outcome",
        "review:0",
        "review:1",
    ]


def test_touches_come_in_the_order_of_the_entries(store: Store) -> None:
    with store.writing("prices") as writing:
        writing.append([draft(i) for i in range(9)])
        for seq in (7, 2, 5):
            writing.add_touches(
                [Touch("r", seq, "outcome", seq, 0), Touch("s", 0, str(seq), seq, 1)]
            )
    found = store.touches("prices", ["s", "r", "none"])
    assert [(touch.seq, touch.request) for touch in found] == [
        (seq, request) for seq in (2, 5, 7) for request in ("r", "s")
    ]
    assert {touch.request for touch in store.touches("prices", ["s"])} == {"s"}


def test_many_touches_at_once(store: Store) -> None:
    touches = [Touch(f"r{i // 10}", i % 10, "outcome", 0, i) for i in range(3_000)]
    with store.writing("prices") as writing:
        writing.append([draft()])
        writing.add_touches(touches)
    assert store.touches("prices", [f"r{i}" for i in range(300)]) == touches


def test_the_first_entry_after_a_time(store: Store) -> None:
    # The clock went back after the third entry.
    times = [10, 20, 50, 30, 40, 60]
    with store.writing("prices") as writing:
        writing.append([Draft("Paused", b"", b"", at, "ann") for at in times[:4]])
    with store.writing("prices") as writing:
        writing.append([Draft("Paused", b"", b"", at, "ann") for at in times[4:]])
    for at in range(0, 70, 5):
        later = [seq for seq, time in enumerate(times) if time >= at]
        assert store.near("prices", at) == (later[0] if later else len(times))


def test_negative_times(store: Store) -> None:
    with store.writing("prices") as writing:
        writing.append([Draft("Paused", b"", b"", at, "ann") for at in (-(2**63), -5, 2**63 - 1)])
    assert [store.near("prices", at) for at in (-(2**63), -6, -4, 2**63 - 1)] == [0, 1, 2, 2]


def test_snapshots(store: Store) -> None:
    fill(store, 1)
    sizes = [10, 20, 30, 100_000, 100_500, 250_000, 260_000, 270_000, 280_000]
    for size in sizes:
        store.put_snapshot(Snapshot("prices", size, b"h" * 32, b"state %d" % size))
    assert store.snapshot("prices") == Snapshot("prices", 280_000, b"h" * 32, b"state 280000")
    # The last three stay, and of each 100,000 entries the first.
    found = [store.snapshot("prices", size) for size in sizes]
    kept = {snapshot.size for snapshot in found if snapshot}
    assert kept == {10, 100_000, 250_000, 260_000, 270_000, 280_000}
    assert store.snapshot("prices", 9) is None
    assert store.snapshot("doses") is None


def test_a_snapshot_of_the_same_size_replaces(store: Store) -> None:
    fill(store, 1)
    for body in (b"one", b"other"):
        store.put_snapshot(Snapshot("prices", 1, b"h" * 32, body))
    assert store.snapshot("prices", 1) == Snapshot("prices", 1, b"h" * 32, b"other")


def test_no_snapshot_without_entries(store: Store) -> None:
    with pytest.raises(InvalidInput, match="a snapshot of chain 'prices', which has no entry"):
        store.put_snapshot(Snapshot("prices", 1, b"h" * 32, b""))


def test_a_huge_body(store: Store) -> None:
    body = bytes(range(256)) * (20 * 2**20 // 256)
    with store.writing("prices") as writing:
        writing.append([draft(0), draft(1, body), draft(2, body), draft(3)])
    assert [len(entry.body) for entry in store.read("prices")] == [6, len(body), len(body), 6]
    assert store.get("prices", [1])[0].body == body
    assert check_store(store, "prices").ok


def test_reading_goes_page_by_page(store: Store) -> None:
    entries = fill(store, 2_500)
    assert list(store.read("prices")) == entries
    reading = store.read("prices", 990, 1_010)
    assert next(reading) == entries[990]
    fill(store, 1)
    assert [entry.seq for entry in reading] == list(range(991, 1_010))


def test_texts_of_all_languages(store: Store) -> None:
    names = ["цена", "価格", "a'b\"c", "null", "%s ? :x", "naïve\n\t", "🦜", "é", "e\u0301"]
    for name in names:
        with store.writing(name) as writing:
            writing.append([Draft(name, b"", b"", 0, name)])
            writing.add_places([Place(other, 0, 0, 1) for other in names])
            writing.add_touches([Touch(name, 0, other, 0, 0) for other in names])
    assert store.chains() == sorted(names)
    for name in names:
        [entry] = store.read(name)
        assert (entry.chain, entry.kind, entry.by) == (name, name, name)
        assert set(store.places(name, names)) == set(names)
        assert {touch.slot for touch in store.touches(name, [name])} == set(names)
        assert check_store(store, name).ok


BAD_PLACES = {
    "request: expected a text of 1 to 200 characters, got ''": Place("", 0, 0, 1),
    "request: expected a text without NUL": Place("a\0", 0, 0, 1),
    "expected whole numbers from 0 on, got Place.*seq=-1": Place("r", -1, 0, 1),
    "expected whole numbers from 0 on, got Place.*n=922": Place("r", 0, 0, 2**63),
}
BAD_TOUCHES = {
    "request: expected a text of 1 to 200 characters": Touch("", 0, "outcome", 0, 0),
    "slot: expected a text of 1 to 200 characters": Touch("r", 0, "s" * 201, 0, 0),
    "expected whole numbers from 0 on, got Touch.*row=-1": Touch("r", -1, "outcome", 0, 0),
}


def test_bad_records_are_refused_whole(store: Store) -> None:
    fill(store, 1)
    with store.writing("prices") as writing:
        for says, place in BAD_PLACES.items():
            with pytest.raises(InvalidInput, match=says):
                writing.add_places([Place("fine", 0, 0, 1), place])
        for says, touch in BAD_TOUCHES.items():
            with pytest.raises(InvalidInput, match=says):
                writing.add_touches([Touch("fine", 0, "outcome", 0, 0), touch])
    assert store.places("prices", ["fine"]) == {}
    assert store.touches("prices", ["fine"]) == []


def test_bad_questions_are_refused(store: Store) -> None:
    fill(store, 2)
    with pytest.raises(InvalidInput, match="chain 'prices' has no entry 2, and 1 more"):
        store.get("prices", [0, 2, -1])
    with pytest.raises(InvalidInput, match="expected numbers of entries from 0 on, got -1 to"):
        store.read("prices", -1)
    with pytest.raises(InvalidInput, match="chain: expected a text"), store.writing(""):
        pass
    with store.writing("prices") as writing, pytest.raises(InvalidInput, match="from 0 on"):
        writing.read(0, -1)


def test_many_threads_append_to_one_chain(store: Store) -> None:
    def work(who: int) -> None:
        for i in range(5):
            with store.writing("prices") as writing:
                seq = writing.head.size
                [entry] = writing.append([draft(seq)])
                writing.add_places([Place(f"{who}.{i}", entry.seq, 0, 1)])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert store.head("prices").size == 40
    assert check_store(store, "prices").ok
    found = store.places("prices", [f"{who}.{i}" for who in range(8) for i in range(5)])
    assert sorted(place.seq for place in found.values()) == list(range(40))


def test_a_check_while_others_append(store: Store) -> None:
    fill(store, 50)
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            fill(store, 3)

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(work)
        reports = [check_store(store, "prices") for _ in range(10)]
        stop.set()
        done.result()
    assert [report.findings for report in reports] == [[]] * 10


def test_two_stores_on_one_database(opener: Opener) -> None:
    one, other = opener(), opener()
    entries = fill(one, 2)
    assert list(other.read("prices")) == entries
    with other.writing("prices") as writing:
        assert writing.read(1) == entries[1:]
        assert writing.append([draft(2)]) == made(3)[2:]
        writing.add_places([Place("r", 2, 0, 1)])
    assert one.head("prices").size == 3
    with one.writing("prices") as writing:
        assert writing.read(2) == made(3)[2:]
        with pytest.raises(Conflict, match="request 'r' is taken"):
            writing.add_places([Place("r", 0, 0, 1)])


def test_a_second_store_waits_for_the_first(opener: Opener) -> None:
    one, other = opener(), opener()
    order: list[str] = []

    def second() -> None:
        with other.writing("prices") as writing:
            order.append("second")
            assert writing.head.size == 1
            assert writing.append([draft(1)]) == made(2)[1:]

    # The chain is not there yet: both create it.
    with ThreadPoolExecutor(1) as pool:
        with one.writing("prices") as writing:
            done = pool.submit(second)
            time.sleep(0.2)
            writing.append([draft()])
            order.append("first")
        done.result()
    assert order == ["first", "second"]
    assert check_store(one, "prices").ok


def test_many_stores_append_to_one_chain(opener: Opener) -> None:
    stores = [opener() for _ in range(4)]

    def work(store: Store) -> None:
        for _ in range(5):
            with store.writing("prices") as writing:
                writing.append([draft(writing.head.size)])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, stores))
    assert list(stores[0].read("prices")) == made(20)
