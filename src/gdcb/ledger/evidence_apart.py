"""Tell two accounts of a decision apart: what a document says, and what its entries do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gdcb.ledger.differing import TOLERANCE

# Worked out of a declaration, so that another processor may round the last digit otherwise.
_ROUNDED = ("nominal", "composed")


def apart(at: str, told: Any, proven: Any, is_rounded: bool = False) -> Iterator[str]:
    """Yield where what is told is not what is proven.

    Parameters
    ----------
    at : the way to it, such as 'reviews[0].by'; empty: the whole
    told, proven : what a document says, and what its entries do
    is_rounded : whether numbers may differ by rounding

    Examples
    --------
    >>> list(apart("", {"by": "ann", "n": [1, 2]}, {"by": "bob", "n": [1, 2]}))
    ["The document says by 'ann', and its entries 'bob'."]
    """
    if isinstance(proven, dict) and isinstance(told, Mapping):
        for name in [*proven, *(name for name in told if name not in proven)]:
            where = f"{at}.{name}" if at else str(name)
            if name not in told:
                yield f"The document does not say {where}, and its entries do."
            elif name not in proven:
                yield f"The document says {where}, of which its entries know nothing."
            else:
                yield from apart(where, told[name], proven[name], is_rounded or name in _ROUNDED)
    elif isinstance(proven, list) and isinstance(told, list) and len(told) == len(proven):
        for i, (one, other) in enumerate(zip(told, proven, strict=True)):
            yield from apart(f"{at}[{i}]", one, other, is_rounded)
    elif not _is_same(told, proven, is_rounded):
        yield f"The document says {at} {_short(told)}, and its entries {_short(proven)}."


def _is_same(told: Any, proven: Any, is_rounded: bool) -> bool:
    if isinstance(told, bool) != isinstance(proven, bool):
        return False
    if is_rounded and isinstance(told, int | float) and isinstance(proven, int | float):
        return abs(told - proven) <= TOLERANCE * max(abs(proven), 1.0)
    return bool(told == proven)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:100]}…"
