"""The tree over rows: its root by the definition, and proofs that hold only for what is there."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gdcb.errors import InvalidInput
from gdcb.ledger import merkle

LEAVES = st.lists(st.binary(min_size=1, max_size=8), min_size=1, max_size=40)


def defined(leaves: list[bytes]) -> bytes:
    """Compute the root as RFC 6962 defines it, by recursion."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return sha256(b"\0" + leaves[0]).digest()
    k = 1
    while 2 * k < len(leaves):
        k *= 2
    return sha256(b"\1" + defined(leaves[:k]) + defined(leaves[k:])).digest()


def flip(data: bytes, at: int) -> bytes:
    at %= len(data)
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize("n", range(34))
def test_root_is_as_defined(n: int) -> None:
    leaves = [bytes([i]) for i in range(n)]
    assert merkle.root(leaves) == defined(leaves)


def test_known_root_of_the_rfc() -> None:
    # The test vectors of the reference implementation of certificate transparency.
    leaves = [bytes.fromhex(text) for text in ("", "00", "10")]
    assert merkle.root(leaves[:1]).hex().startswith("6e340b9cffb37a98")
    assert merkle.root(leaves[:2]).hex().startswith("fac54203e7cc696c")
    assert merkle.root(leaves).hex().startswith("aeb6bcfe274b70a1")


@given(LEAVES, st.data())
def test_every_path_verifies(leaves: list[bytes], data: st.DataObject) -> None:
    i = data.draw(st.integers(0, len(leaves) - 1))
    assert merkle.verify(leaves[i], i, len(leaves), merkle.path(leaves, i), merkle.root(leaves))


@given(LEAVES, st.data(), st.integers(0, 10_000))
def test_nothing_else_verifies(leaves: list[bytes], data: st.DataObject, at: int) -> None:
    n = len(leaves)
    i = data.draw(st.integers(0, n - 1))
    path, root = merkle.path(leaves, i), merkle.root(leaves)
    assert not merkle.verify(flip(leaves[i], at), i, n, path, root)
    assert not merkle.verify(leaves[i], i, n, path, flip(root, at))
    assert not merkle.verify(leaves[i], i, n, [*path, root], root)
    if path:
        step = at % len(path)
        changed = [*path[:step], flip(path[step], at), *path[step + 1 :]]
        assert not merkle.verify(leaves[i], i, n, changed, root)
        assert not merkle.verify(leaves[i], i, n, path[:-1], root)


@given(st.sets(st.binary(min_size=1, max_size=8), min_size=1, max_size=40), st.data())
def test_no_other_index_verifies(rows: set[bytes], data: st.DataObject) -> None:
    leaves = sorted(rows)
    i = data.draw(st.integers(0, len(leaves) - 1))
    other = data.draw(st.integers(-2, len(leaves) + 2))
    assume(other != i)
    path, root = merkle.path(leaves, i), merkle.root(leaves)
    assert not merkle.verify(leaves[i], other, len(leaves), path, root)


@pytest.mark.parametrize("i", [-1, 3])
def test_no_path_without_a_leaf(i: int) -> None:
    with pytest.raises(InvalidInput, match="i: expected a leaf from 0 to 2"):
        merkle.path([b"a", b"b", b"c"], i)
