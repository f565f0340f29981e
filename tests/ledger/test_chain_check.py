"""The check of a chain: whatever is done to it is one finding, at its place, by its name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gdcb.ledger import Entry, Finding, Head, check_chain, link
from tests.ledger.drafts import draft, made

N = 12
CHAIN = made(N)
HEAD = Head(N, CHAIN[-1].hash)
INSIDE = st.integers(0, N - 1)


def found(entries: list[Entry], head: Head | None = HEAD) -> list[tuple[int, str]]:
    report = check_chain(iter(entries), head, "prices")
    assert report.size == len(entries)
    assert report.ok == (not report.findings)
    assert all(finding.says.endswith(".") for finding in report.findings)
    return [(finding.seq, finding.what) for finding in report.findings]


def flip(data: bytes, at: int) -> bytes:
    at %= len(data)
    return data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]


def test_a_chain_as_it_was_written() -> None:
    report = check_chain(CHAIN, HEAD, "prices")
    assert report.ok
    assert report.hash == HEAD.hash
    assert found(CHAIN, None) == []
    assert found([], Head(0, bytes(32))) == []


def test_the_report_says_how_far_all_fits() -> None:
    broken = [*CHAIN[:5], replace(CHAIN[5], body=b"other"), *CHAIN[6:]]
    report = check_chain(broken, HEAD, "prices")
    assert report.hash == CHAIN[4].hash
    assert report.findings == [
        Finding(
            5,
            "changed",
            "Entry 5 is not as written: its kind, time, author, body or root was changed.",
        )
    ]


@given(INSIDE, st.integers(0, 100), st.sampled_from(["body", "root", "kind", "by", "at"]))
def test_a_flipped_byte(i: int, at: int, name: str) -> None:
    value = getattr(CHAIN[i], name)
    if isinstance(value, int):
        changed: Any = value ^ (1 << at % 60)
    else:
        is_text = isinstance(value, str)
        data = flip(value.encode() if is_text else value, at)
        changed = data.decode() if is_text else data
    broken = list(CHAIN)
    broken[i] = replace(CHAIN[i], **{name: changed})
    assert found(broken) == [(i, "changed")]
    assert found(broken, None) == [(i, "changed")]


@given(INSIDE, st.integers(0, 31), st.sampled_from(["prev", "hash"]))
def test_a_flipped_byte_of_a_link(i: int, at: int, name: str) -> None:
    broken = list(CHAIN)
    changed: Any = flip(getattr(CHAIN[i], name), at)
    broken[i] = replace(CHAIN[i], **{name: changed})
    assert found(broken) == [(i, name)]


@given(INSIDE, st.integers(1, N - 1))
def test_deleted_entries(i: int, n: int) -> None:
    last = min(i + n, N)
    what = "truncated" if last == N else "deleted"
    assert found(CHAIN[:i] + CHAIN[last:]) == [(i, what)]


@given(st.integers(1, N - 1), st.integers(1, N - 1))
def test_two_deletions_are_two_findings(i: int, j: int) -> None:
    i, j = sorted((i, j))
    assume(i + 1 < j < N - 1)
    broken = [entry for entry in CHAIN if entry.seq not in (i, j)]
    assert found(broken) == [(i, "deleted"), (j, "deleted")]


@given(st.integers(1, N - 2), st.integers(1, 3))
def test_deleted_and_renumbered(i: int, n: int) -> None:
    gone = min(n, N - 1 - i)
    moved = [replace(entry, seq=entry.seq - gone) for entry in CHAIN[i + gone :]]
    head = replace(HEAD, size=N - gone)
    assert found(CHAIN[:i] + moved, head) == [(i, "deleted")]
    assert found(CHAIN[:i] + moved) == [(i, "deleted")]


def forged(i: int, kind: str) -> Entry:
    """Return an entry to put in at `i`, more or less well made."""
    prev = CHAIN[i - 1].hash if i else bytes(32)
    entry = link("prices", i, prev, draft(99))
    if kind == "rough":
        return replace(entry, hash=b"?" * 32)
    if kind == "stray":
        return link("prices", i, b"?" * 32, draft(99))
    return entry


@given(INSIDE, st.sampled_from(["good", "rough", "stray"]), st.booleans())
def test_an_inserted_entry(i: int, kind: str, is_renumbered: bool) -> None:
    after = CHAIN[i:]
    if is_renumbered:
        after = [replace(entry, seq=entry.seq + 1) for entry in after]
    broken = [*CHAIN[:i], forged(i, kind), *after]
    assert found(broken) == [(i, "inserted")]
    if is_renumbered:
        assert found(broken, replace(HEAD, size=N + 1)) == [(i, "inserted")]


@given(INSIDE, INSIDE)
def test_a_duplicated_entry(i: int, j: int) -> None:
    assume(j >= i)
    assert found([*CHAIN[: j + 1], CHAIN[i], *CHAIN[j + 1 :]]) == [(i, "duplicated")]


@given(st.integers(0, N - 2), st.booleans())
def test_neighbours_that_changed_places(i: int, is_renumbered: bool) -> None:
    one, other = CHAIN[i + 1], CHAIN[i]
    if is_renumbered:
        one, other = replace(one, seq=i), replace(other, seq=i + 1)
    assert found([*CHAIN[:i], one, other, *CHAIN[i + 2 :]]) == [(i + 1, "reordered")]


@given(INSIDE, INSIDE)
def test_entries_that_changed_places(i: int, j: int) -> None:
    # Of three in reverse order it may be any two that moved.
    assume(i + 2 < j)
    broken = list(CHAIN)
    broken[i], broken[j] = CHAIN[j], CHAIN[i]
    assert sorted(found(broken)) == [(i, "reordered"), (j, "reordered")]


@given(st.permutations(range(N)))
def test_no_shuffle_passes(order: list[int]) -> None:
    assume(order != sorted(order))
    kinds = {what for _, what in found([CHAIN[i] for i in order])}
    assert "reordered" in kinds


@given(INSIDE)
def test_an_entry_that_was_rewritten_with_its_hash(i: int) -> None:
    entry = link("prices", i, CHAIN[i].prev, draft(99))
    what = "head" if i == N - 1 else "rewritten"
    assert found([*CHAIN[:i], entry, *CHAIN[i + 1 :]]) == [(i, what)]


@pytest.mark.parametrize(
    ("head", "finding"),
    [
        (Head(N + 3, b"?" * 32), (N, "truncated")),
        (Head(N - 2, CHAIN[N - 3].hash), (N - 2, "surplus")),
        (Head(N, b"?" * 32), (N - 1, "head")),
        (Head(N + 1, CHAIN[-1].hash), (N - 1, "head")),
        (Head(N - 1, CHAIN[-1].hash), (N - 1, "head")),
    ],
)
def test_a_head_that_says_otherwise(head: Head, finding: tuple[int, str]) -> None:
    assert found(CHAIN, head) == [finding]


def test_a_changed_number() -> None:
    assert found([*CHAIN[:-1], replace(CHAIN[-1], seq=N + 5)]) == [(N + 5, "renumbered")]
    far = [*CHAIN[:4], *CHAIN[5:], replace(CHAIN[4], seq=5_000)]
    assert found(far) == [(4, "reordered")]


def test_entries_of_another_chain() -> None:
    other = made(3, "doses")
    assert found([*CHAIN[:5], other[2], *CHAIN[5:]]) == [(2, "foreign")]
    labelled = replace(CHAIN[5], chain="doses")
    assert found([*CHAIN[:5], labelled, *CHAIN[6:]]) == [(5, "foreign")]


def test_much_tampering_is_found_in_every_place() -> None:
    broken = [replace(entry, body=b"x") if entry.seq % 3 == 0 else entry for entry in CHAIN]
    assert found(broken) == [(i, "changed") for i in range(0, N, 3)]
    everywhere = [replace(entry, body=b"x") for entry in CHAIN]
    assert found(everywhere) == [(i, "changed") for i in range(N)]
