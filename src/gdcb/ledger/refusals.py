"""What no store takes, in the same words whichever it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from gdcb.errors import Conflict, InvalidInput, StoreUnavailable
from gdcb.ledger.entry import check_names
from gdcb.ledger.store import Place, Touch

T = TypeVar("T", bound=Hashable)
Slot = tuple[str, int, str]


def check_places(places: Sequence[Place]) -> None:
    """Refuse places that no store can keep."""
    check_names("request", (place.request for place in places))
    for place in places:
        _check_counts(place, (place.seq, place.first, place.n))


def check_touches(touches: Sequence[Touch]) -> None:
    """Refuse touches that no store can keep."""
    check_names("request", {touch.request for touch in touches})
    check_names("slot", {touch.slot for touch in touches})
    for touch in touches:
        _check_counts(touch, (touch.row, touch.seq, touch.at_row))


def slot_of(touch: Touch) -> Slot:
    """Return what of a touch may be there only once."""
    return touch.request, touch.row, touch.slot


def repeated(items: Sequence[T]) -> list[T]:
    """Return the items that come more than once."""
    return [item for item, n in Counter(items).items() if n > 1]


def refuse_taken_places(taken: Sequence[str]) -> None:
    """Raise `Conflict` where requests are taken."""
    if taken:
        raise Conflict(f"request '{taken[0]}' is taken{_others(taken)}")


def refuse_taken_slots(taken: Sequence[Slot]) -> None:
    """Raise `Conflict` where slots are taken."""
    if taken:
        request, row, slot = taken[0]
        raise Conflict(f"'{slot}' of row {row} of request '{request}' is taken{_others(taken)}")


def refuse_missing(chain: str, missing: Iterable[int]) -> None:
    """Raise where entries that were asked for are not there."""
    seqs = list(missing)
    if seqs:
        raise InvalidInput(f"chain '{chain}' has no entry {seqs[0]}{_others(seqs)}")


def check_range(start: int, stop: int | None) -> None:
    """Refuse numbers below 0, which would count from the end."""
    if start < 0 or (stop is not None and stop < 0):
        raise InvalidInput(f"expected numbers of entries from 0 on, got {start} to {stop}")


def busy(chain: str, patience: float) -> StoreUnavailable:
    """Say that another writer did not finish in time."""
    return StoreUnavailable(
        f"chain '{chain}': another writer has not finished within {patience:g} s; nothing was "
        "written, try again"
    )


def _others(taken: Sequence[object]) -> str:
    return f", and {len(taken) - 1} more" if len(taken) > 1 else ""


def _check_counts(record: Place | Touch, counts: Sequence[int]) -> None:
    for count in counts:
        if not 0 <= count < 2**63:
            raise InvalidInput(f"expected whole numbers from 0 on, got {record}")
