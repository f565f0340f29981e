"""A tree of hashes over the rows of an entry: one row is provable without the others.

The tree is that of RFC 6962: a leaf is SHA-256 of 0x00 and its data, a node SHA-256 of 0x01 and
its two children, and n leaves split at the largest power of two below n. Level by level that is
the same as pairing neighbours and carrying an odd last one up as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from hmac import compare_digest

from gdcb.errors import InvalidInput

EMPTY = sha256(b"").digest()


def root(leaves: Sequence[bytes]) -> bytes:
    r"""Return the root over leaves' data, 32 bytes; SHA-256 of nothing where there are none.

    Examples
    --------
    Three leaves: the first two are paired, the third is carried up.

    >>> def hashed(data):
    ...     return sha256(data).digest()
    >>> a, b, c = hashed(b"\0a"), hashed(b"\0b"), hashed(b"\0c")
    >>> root([b"a", b"b", b"c"]) == hashed(b"\1" + hashed(b"\1" + a + b) + c)
    True
    """
    if not leaves:
        return EMPTY
    level = _hashed(leaves)
    while len(level) > 1:
        level = _above(level)
    return level[0]


def path(leaves: Sequence[bytes], i: int) -> list[bytes]:
    """Return what proves leaf `i`: the hashes beside its way up, from the bottom.

    Examples
    --------
    The way of `c` meets only the node over `a` and `b`; that of `a` meets `b` and then `c`.

    >>> [len(path([b"a", b"b", b"c"], i)) for i in range(3)]
    [2, 2, 1]
    """
    if not 0 <= i < len(leaves):
        raise InvalidInput(f"i: expected a leaf from 0 to {len(leaves) - 1}, got {i}")
    found, level = [], _hashed(leaves)
    while len(level) > 1:
        beside = i ^ 1
        if beside < len(level):
            found.append(level[beside])
        level, i = _above(level), i >> 1
    return found


def verify(leaf: bytes, i: int, n: int, path: Sequence[bytes], root: bytes) -> bool:
    """Return whether `leaf` is number `i` of the `n` leaves under `root`, as `path` claims.

    Examples
    --------
    >>> from gdcb.ledger import merkle
    >>> rows = [b"a", b"b", b"c"]
    >>> proof, top = merkle.path(rows, 1), merkle.root(rows)
    >>> verify(b"b", 1, 3, proof, top), verify(b"b", 0, 3, proof, top)
    (True, False)
    """
    if not 0 <= i < n:
        return False
    node, last, used = sha256(b"\0" + leaf).digest(), n - 1, 0
    while last:
        # A node that is even and last of its level has nothing beside it.
        if i & 1 or i < last:
            if used == len(path):
                return False
            beside = path[used]
            node = sha256(b"\1" + (beside + node if i & 1 else node + beside)).digest()
            used += 1
        i, last = i >> 1, last >> 1
    return used == len(path) and compare_digest(node, root)


def _hashed(leaves: Sequence[bytes]) -> list[bytes]:
    return [sha256(b"\0" + leaf).digest() for leaf in leaves]


def _above(level: list[bytes]) -> list[bytes]:
    """Return the level above: neighbours paired, an odd last one carried up."""
    pairs = zip(level[::2], level[1::2], strict=False)
    above = [sha256(b"\1" + left + right).digest() for left, right in pairs]
    if len(level) & 1:
        above.append(level[-1])
    return above
