"""Sealed numbers: the way there and back, what tampering does, keys that are gone."""

from __future__ import annotations

import base64
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb import events as ev
from gdcb.codec import from_body, leaves, to_body
from gdcb.errors import BrokenChain, StoreUnavailable
from gdcb.ledger import Draft, Store, merkle, open_store
from gdcb.ledger.sealing import CHAIN, ERASED, Sealer, unsealed, vault_of
from gdcb.ledger.store import Key, Snapshot
from tests.properties import examples

_FINITE = st.floats(allow_nan=False, allow_infinity=False)


def decided(x: np.ndarray) -> ev.DecisionMade:
    """Return decisions on contexts x."""
    n = x.shape[0]
    ids = [f"d.{i}" for i in range(n)]
    zeros, whole = np.zeros((n, 1)), np.zeros(n, dtype=np.int64)
    return ev.DecisionMade(
        ids, ["d"] * n, np.arange(n), 1, ["u"] * n, x, None, whole, zeros, zeros[:, :, None],
        whole, zeros,
    )  # fmt: skip


def keyed(store: Store, subjects: list[str], chain: str = "prices") -> tuple[Sealer, list[str]]:
    """Return a sealer, and the names of the keys of subjects."""
    sealer = Sealer(store, chain)
    with store.writing(chain) as writing:
        return sealer, sealer.keys_for(writing, subjects, 0, 17)


@given(
    st.lists(st.tuples(_FINITE, _FINITE, _FINITE), min_size=1, max_size=5),
    st.sets(st.integers(0, 2), min_size=1),
    st.lists(st.sampled_from(["ann", "bob"]), min_size=5, max_size=5),
)
@examples(50)
def test_there_and_back(
    rows: list[tuple[float, float, float]], columns: set[int], subjects: list[str]
) -> None:
    store, x = open_store("memory:"), np.array(rows)
    sealer, keys = keyed(store, subjects[: len(rows)])
    written, read = sealer.sealed(decided(x), sorted(columns), keys)
    assert np.isnan(written.x[:, sorted(columns)]).all()
    again = from_body("DecisionMade", to_body(written))
    assert again == written
    assert sealer.opened(again) == read
    # Somebody else opens it with the keys in the store, to the last bit.
    found = Sealer(store, "prices").opened(again)
    assert isinstance(found, ev.DecisionMade)
    assert found.x.tobytes() == x.tobytes()


def test_hashes_and_roots_are_over_what_is_written() -> None:
    sealer, keys = keyed(open_store("memory:"), ["ann", "ann"])
    made = decided(np.array([[1.5, 2.5], [3.5, 4.5]]))
    written, read = sealer.sealed(made, [1], keys)
    assert merkle.root(leaves(written)) != merkle.root(leaves(read))
    assert written.sealed is not None
    for leaf, text in zip(leaves(written), written.sealed, strict=True):
        assert text.encode() in leaf


def test_the_same_number_is_never_written_the_same() -> None:
    sealer, keys = keyed(open_store("memory:"), ["ann", "ann"])
    written, _ = sealer.sealed(decided(np.array([[1.0], [1.0]])), [0], keys)
    assert written.sealed is not None
    assert written.sealed[0] != written.sealed[1]


def _flipped(text: str) -> str:
    data = bytearray(base64.b64decode(text))
    data[-1] ^= 1
    return base64.b64encode(bytes(data)).decode()


def test_what_was_changed_or_moved_is_found() -> None:
    store = open_store("memory:")
    sealer, keys = keyed(store, ["ann", "bob"])
    written, _ = sealer.sealed(decided(np.array([[1.0, 2.0], [3.0, 4.0]])), [1], keys)
    assert written.sealed is not None
    one, other = written.sealed
    bad = [
        replace(written, sealed=[_flipped(one), other]),
        replace(written, sealed=["AA==", other]),
        replace(written, sealed=["no base64!", other]),
        replace(written, sealed=[other, one]),  # under another's key
        replace(written, sealed=[other, one], key=keys[::-1]),  # of another decision
        replace(written, key=keys[::-1]),
        replace(written, id=["e.0", "e.1"]),
    ]
    for event in bad:
        with pytest.raises(BrokenChain, match="what was sealed of its x was changed"):
            sealer.opened(event)
    wide = replace(written, x=np.full((2, 2), np.nan))
    with pytest.raises(BrokenChain, match="does not fit its context"):
        sealer.opened(wide)
    # The same keys under the name of another chain.
    elsewhere = Sealer(store, "rents")
    with store.writing("prices") as writing:
        elsewhere.learn(writing.keys_of(["ann", "bob"]))
    with pytest.raises(BrokenChain, match="was changed, or is another's"):
        elsewhere.opened(written)


def test_reasons_there_and_back() -> None:
    sealer, keys = keyed(open_store("memory:"), ["ann", "bob"])
    asked = ev.ReviewRequested(["d.0", "d.1"], ["manager"] * 2, ["busy 0.9", "busy 0.8 — sehr"])
    written = sealer.worded(asked, [keys[0], ""])
    assert written.reason[1] == asked.reason[1]
    assert "0.9" not in written.reason[0]
    assert sealer.opened(written) == asked
    moved = replace(written, id=["d.1", "d.0"])
    with pytest.raises(BrokenChain, match="sealed of its reason"):
        sealer.opened(moved)
    sealer.forget(keys)
    gone = sealer.opened(written)
    assert isinstance(gone, ev.ReviewRequested)
    assert gone.reason == [ERASED, asked.reason[1]]


def test_what_a_gate_stumbled_over_is_sealed_too() -> None:
    sealer, keys = keyed(open_store("memory:"), ["ann", "bob"])
    zeros = np.zeros((2, 1))
    judged = ev.GateApplied(
        ["d.0", "d.1"],
        np.array([2, 2], dtype=np.int8),
        zeros,
        np.zeros((2, 2, 1)),
        np.array([[2], [2]], dtype=np.int8),
        {"1 0": "no rule for age 83"},
        ["vetoed", "vetoed"],
    )
    written = sealer.worded(judged, keys)
    assert isinstance(written, ev.GateApplied)
    assert "no rule" not in written.faults["1 0"]
    assert sealer.opened(written) == judged
    sealer.forget([keys[1]])
    found = sealer.opened(written)
    assert isinstance(found, ev.GateApplied)
    assert (found.reason, found.faults) == (["vetoed", ERASED], {"1 0": ERASED})


def test_words_that_only_look_sealed_stay() -> None:
    sealer, _ = keyed(open_store("memory:"), ["ann"])
    asked = ev.ReviewRequested(["a"], ["manager"], ["sealed: by the manager"])
    assert sealer.opened(asked) is asked


# Keys in stores


def test_a_subject_has_one_key_in_a_chain(store: Store) -> None:
    _, first = keyed(store, ["ann", "bob", "ann"])
    assert first[0] == first[2] != first[1]
    _, again = keyed(store, ["bob", "ann"])
    assert again == [first[1], first[0]]
    _, elsewhere = keyed(store, ["ann"], "rents")
    assert elsewhere != [first[0]]
    with store.writing("prices") as writing:
        subjects = [key.subject for key in writing.keys_of(["ann", "bob", CHAIN, "cy"])]
    assert sorted(subjects) == ["", "ann", "bob"]
    assert store.keys("rents", first) == []


def test_destroyed_keys_open_nothing(store: Store) -> None:
    sealer, keys = keyed(store, ["ann", "bob"])
    written, _ = sealer.sealed(decided(np.array([[1.0, 2.0], [3.0, 4.0]])), [1], keys)
    with store.writing("prices") as writing:
        writing.append([Draft("Paused", b"{}", b"", 17, "ann")])
    store.put_snapshot(Snapshot("prices", 1, b"x" * 32, sealer.boxed(b"state", 0)))
    with store.writing("prices") as writing:
        writing.destroy([keys[0]])
    assert store.scrub()
    assert [key.name for key in store.keys("prices", keys)] == [keys[1]]
    assert store.snapshot("prices") is None
    found = Sealer(store, "prices").opened(written)
    assert isinstance(found, ev.DecisionMade)
    assert np.array_equal(found.x, [[1.0, np.nan], [3.0, 4.0]], equal_nan=True)


def test_keys_that_were_let_go_of_are_fetched_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gdcb.ledger.sealing._MOST", 4)
    sealer, keys = keyed(store, ["ann"])
    for i in range(20):
        with store.writing("prices") as writing:
            sealer.keys_for(writing, [f"subject {i}"], 0, 17)
    assert keys[0] not in sealer._ciphers
    assert len(sealer._ciphers) <= 6
    asked = ev.ReviewRequested(["d.0", "d.1"], ["manager"] * 2, ["busy 0.9", "fine"])
    written = sealer.worded(asked, [keys[0], ""])
    assert "busy" not in written.reason[0]
    assert sealer.opened(written) == asked


def test_keys_that_nobody_else_sees_yet_stay(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gdcb.ledger.sealing._MOST", 4)
    sealer, old = keyed(store, [f"subject {i}" for i in range(9)])
    asked = ev.ReviewRequested(["d.0", "d.1"], ["manager"] * 2, ["busy 0.9", "busy 0.8"])
    with store.writing("prices") as writing:
        [fresh] = sealer.keys_for(writing, ["ann"], 0, 17)
        # The old one must be fetched, and the store has the other only after the transaction.
        assert old[0] not in sealer._ciphers
        written = sealer.worded(asked, [fresh, old[0]])
        assert sealer.opened(written) == asked
        vault = sealer.new_key(CHAIN, 1)
        sealer.learn([vault])
        assert sealer.unboxed(sealer.boxed(b"state", 1)) == b"state"


def test_a_transaction_that_is_undone_destroys_nothing(store: Store) -> None:
    _, keys = keyed(store, ["ann"])

    def fail() -> None:
        with store.writing("prices") as writing:
            writing.destroy(keys)
            writing.add_keys([Key("k", "cy", b"s" * 32)], 17)
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert [key.name for key in store.keys("prices", [*keys, "k"])] == keys


# Snapshots


def test_a_box_opens_with_its_key_and_with_no_other(store: Store) -> None:
    sealer, _ = keyed(store, ["ann"])
    body = b"all that is known " * 99
    boxed = sealer.boxed(body, 0)
    assert len(boxed) < len(body)
    assert b"known" not in boxed
    snapshot = Snapshot("prices", 7, b"x" * 32, boxed)
    assert unsealed(store, snapshot) == replace(snapshot, body=body)
    plain = replace(snapshot, body=body)
    assert unsealed(store, plain) is plain
    with pytest.raises(BrokenChain, match="a sealed state was changed"):
        sealer.unboxed(boxed[:-1] + bytes([boxed[-1] ^ 1]))
    with pytest.raises(StoreUnavailable, match="the key of its snapshots is gone"):
        sealer.boxed(body, 1)
    with store.writing("prices") as writing:
        writing.destroy([vault_of("prices", 0)])
    assert unsealed(store, snapshot) is None
