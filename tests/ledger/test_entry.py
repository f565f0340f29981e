"""Entries: the hash covers every field and nothing is written like anything else."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb.errors import InvalidInput
from gdcb.ledger import GENESIS, Draft, link
from tests.ledger.drafts import draft

NAMES = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), min_size=1)
DRAFTS = st.builds(
    Draft,
    NAMES.map(lambda name: name[:200]),
    st.binary(),
    st.one_of(st.just(b""), st.binary(min_size=32, max_size=32)),
    st.integers(-(2**63), 2**63 - 1),
    NAMES.map(lambda name: name[:200]),
)
PLACES = st.tuples(NAMES, st.integers(0, 2**63 - 1), st.binary(min_size=32, max_size=32), DRAFTS)


def by_hand(chain: str, seq: int, prev: bytes, draft: Draft) -> bytes:
    """Compute the hash as the docstring tells a stranger to."""
    texts = ["1", chain, str(seq), str(draft.at), draft.by, draft.kind]
    parts = [text.encode("utf-8") for text in texts]
    parts += [hashlib.sha256(draft.body).digest(), draft.root, prev]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(str(len(part)).encode() + b":" + part + b",")
    return digest.digest()


@given(PLACES)
def test_a_stranger_recomputes_the_hash(place: tuple[str, int, bytes, Draft]) -> None:
    assert link(*place).hash == by_hand(*place)


@given(PLACES, PLACES)
def test_what_differs_has_another_hash(one: Any, other: Any) -> None:
    assert (link(*one).hash == link(*other).hash) == (one == other)


def test_borders_between_fields_count() -> None:
    one = Draft("ab", b"", b"", 1, "c")
    other = Draft("b", b"", b"", 1, "ca")
    assert link("x", 0, GENESIS, one).hash != link("x", 0, GENESIS, other).hash


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kind": ""}, "kind: expected a text of 1 to 200 characters, got ''"),
        ({"kind": "x" * 201}, "kind: expected a text of 1 to 200 characters"),
        ({"by": "a\0b"}, "by: expected a text without NUL"),
        ({"by": "a\ud800"}, "by: expected Unicode text, got half a character"),
        ({"by": None}, "by: expected a text of 1 to 200 characters, got None"),
        ({"body": "text"}, "body: expected bytes, got str"),
        ({"root": b"short"}, "root: expected 32 bytes or none, got b'short'"),
        ({"root": None}, "root: expected bytes, got NoneType"),
        ({"at": 1.5}, "at: expected whole microseconds since 1970, got 1.5"),
        ({"at": 2**63}, "at: expected whole microseconds since 1970"),
        ({"at": True}, "at: expected whole microseconds since 1970, got True"),
    ],
)
def test_bad_drafts_are_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says.replace("(", r"\(")):
        replace(draft(), **change)
