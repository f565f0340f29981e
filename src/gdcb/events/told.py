"""What events have in common: equality, and JSON for people."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gdcb.arrays import Array


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """What events have in common: they are equal where all that they say is equal."""

    # Fields with one entry a row: lists of names, and arrays with the rows first.
    columns: ClassVar[tuple[str, ...]] = ()

    def __eq__(self, other: object) -> bool:
        if other is self:
            return True
        if not isinstance(other, Told) or type(other) is not type(self):
            return False
        names = [field.name for field in dataclasses.fields(self)]
        return all(is_same(getattr(self, name), getattr(other, name)) for name in names)

    def __hash__(self) -> int:
        return hash(type(self))


def is_same(one: Any, other: Any) -> bool:
    """Whether two fields say the same; a number that is not there is equal to itself."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        is_array = isinstance(one, np.ndarray) and isinstance(other, np.ndarray)
        if not is_array or one.shape != other.shape or one.dtype != other.dtype:
            return False
        return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    return bool(one == other)


def to_json(event: Told) -> str:
    """Write an event as one line of JSON, for people; null where a number is not finite.

    >>> from gdcb.events import Expired
    >>> to_json(Expired("7", "no answer in 4 hours"))
    '{"event": "Expired", "id": "7", "reason": "no answer in 4 hours", "action": null}'
    """
    fields = {f.name: plain(getattr(event, f.name)) for f in dataclasses.fields(event)}
    return json.dumps({"event": type(event).__name__} | fields, allow_nan=False)


def plain(value: Any) -> Any:
    """Return a field as JSON has it: arrays as lists, null where a number is not finite.

    >>> plain(np.array([[1.0, np.nan]]))
    [[1.0, None]]
    """
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind != "f" or np.isfinite(value).all():
        return value.tolist()
    out = value.astype(object)
    out[~np.isfinite(value)] = None
    return out.tolist()


def numbers(values: list[float | None]) -> Array:
    """Return a list as numbers, NaN where it is null."""
    return np.array([np.nan if value is None else value for value in values], dtype=float)
