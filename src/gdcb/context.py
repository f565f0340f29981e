"""X: the declared schema of a context, its encoding as numbers, and its JSON schema."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput, UnknownField
from gdcb.parts import check_settings


@dataclass(frozen=True)
class Number:
    """A finite number within [low, high]."""

    low: float = -math.inf
    high: float = math.inf
    about: str = ""

    def __post_init__(self) -> None:
        check_settings(self, "context")
        if math.isnan(self.low) or math.isnan(self.high):
            raise InvalidInput(f"context: expected numbers, got low {self.low}, high {self.high}")
        if self.low > self.high:
            raise InvalidInput(f"context: low {self.low} is above high {self.high}")

    def encode(self, name: str, value: Any) -> list[float]:
        """Return the number, or refuse it."""
        if isinstance(value, (bool, np.bool_)) or not isinstance(
            value, (int, float, np.integer, np.floating)
        ):
            raise InvalidInput(f"context.{name}: expected a number, got {value!r}")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise InvalidInput(f"context.{name}: expected a finite number, got {number}")
        if not self.low <= number <= self.high:
            raise InvalidInput(
                f"context.{name}: expected {self.low:g} to {self.high:g}, got {number!r}"
            )
        return [number]

    def some(self) -> list[list[float]]:
        """Return its ends and its middle, encoded; without ends, numbers near 0 or the one end."""
        low, high = self.low, self.high
        if not math.isfinite(low):
            low = high - 1.0 if math.isfinite(high) else 0.0
        if not math.isfinite(high):
            high = low + 1.0
        return [[float(low)], [float(high)], [low / 2.0 + high / 2.0]]

    def json_schema(self) -> dict[str, Any]:
        """Return its JSON schema."""
        schema: dict[str, Any] = {"type": "number"}
        if math.isfinite(self.low):
            schema["minimum"] = self.low
        if math.isfinite(self.high):
            schema["maximum"] = self.high
        return schema


@dataclass(frozen=True)
class Flag:
    """True or false."""

    about: str = ""

    def __post_init__(self) -> None:
        check_settings(self, "context")

    def encode(self, name: str, value: Any) -> list[float]:
        """Return 0 or 1."""
        if not isinstance(value, (bool, np.bool_)):
            raise InvalidInput(f"context.{name}: expected true or false, got {value!r}")
        return [float(value)]

    def some(self) -> list[list[float]]:
        """Return both values, encoded."""
        return [[0.0], [1.0]]

    def json_schema(self) -> dict[str, Any]:
        """Return its JSON schema."""
        return {"type": "boolean"}


@dataclass(frozen=True)
class Category:
    """One of some levels; encoded as one column a level."""

    levels: tuple[str, ...]
    about: str = ""

    def __post_init__(self) -> None:
        check_settings(self, "context")
        if len(self.levels) < 2 or len(set(self.levels)) != len(self.levels):
            raise InvalidInput("context: a category needs at least two different levels")

    def encode(self, name: str, value: Any) -> list[float]:
        """Return a one among zeros."""
        if not isinstance(value, str) or value not in self.levels:
            raise InvalidInput(
                f"context.{name}: expected one of {', '.join(self.levels)}; got {value!r}"
            )
        return [float(value == level) for level in self.levels]

    def some(self) -> list[list[float]]:
        """Return all levels, encoded."""
        return [self.encode("", level) for level in self.levels]

    def json_schema(self) -> dict[str, Any]:
        """Return its JSON schema."""
        return {"enum": list(self.levels)}


Kind = Number | Flag | Category


@dataclass(frozen=True)
class Schema:
    """Named context columns, in order.

    >>> schema = Schema({"occupancy": Number(0, 1), "season": Category(("low", "high"))})
    >>> schema.encode([{"occupancy": 0.4, "season": "high"}]).tolist()
    [[0.4, 0.0, 1.0]]
    >>> schema.names
    ('occupancy', 'season=low', 'season=high')
    """

    columns: Mapping[str, Kind]
    positions: dict[str, list[int]] = field(init=False, repr=False)
    names: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        given: Any = self.columns
        for key in given if isinstance(given, Mapping) else ():
            if not isinstance(key, str):
                raise InvalidInput(f"context: expected columns by names that are text, got {key!r}")
        check_settings(self, "context")
        if not self.columns:
            raise InvalidInput("context: expected at least one column")
        positions: dict[str, list[int]] = {}
        names: list[str] = []
        for name, kind in self.columns.items():
            wide = (
                [f"{name}={level}" for level in kind.levels]
                if isinstance(kind, Category)
                else [name]
            )
            positions[name] = list(range(len(names), len(names) + len(wide)))
            for at, level in zip(positions[name], wide, strict=True):
                positions[level] = [at]  # one level of a category can be named by itself
            names += wide
        if len(set(names)) < len(names):
            seen = Counter(names)
            twice = sorted({name for name in names if seen[name] > 1})
            raise InvalidInput(f"context: two columns are named {', '.join(twice)}")
        object.__setattr__(self, "positions", positions)
        object.__setattr__(self, "names", tuple(names))

    @property
    def width(self) -> int:
        """Columns p of x."""
        return len(self.names)

    def encode(self, contexts: Sequence[Mapping[str, Any]]) -> Array:
        """Validate contexts and return x (N, p); refuse unknown, missing and bad fields."""
        out = np.empty((len(contexts), self.width))
        for i, context in enumerate(contexts):
            if not isinstance(context, Mapping):
                raise InvalidInput(f"context: expected named fields, got {context!r}")
            if context.keys() != self.columns.keys():
                self._refuse(context)
            row: list[float] = []
            for name, kind in self.columns.items():
                row += kind.encode(name, context[name])
            out[i] = row
        return out

    def corners(self, at: Iterable[Any], most: int = 256) -> Array:
        """Return contexts at the ends and in the middle of declared ranges: (R, p), R ≤ most.

        Parameters
        ----------
        at : positions in x that vary; other columns stay at their first value
        most : of all combinations so many are drawn, with a fixed seed, where there are more

        Examples
        --------
        >>> Schema({"rate": Number(0, 1), "late": Flag()}).corners((0,)).tolist()
        [[0.0, 0.0], [1.0, 0.0], [0.5, 0.0]]
        """
        wanted = set(at)
        options = [
            kind.some() if wanted & set(self.positions[name]) else kind.some()[:1]
            for name, kind in self.columns.items()
        ]
        if math.prod(len(one) for one in options) <= most:
            chosen = list(itertools.product(*options))
        else:
            rng = np.random.default_rng(0)
            picks = rng.integers(0, [len(one) for one in options], (most, len(options)))
            chosen = [
                tuple(one[i] for one, i in zip(options, row, strict=True)) for row in picks.tolist()
            ]
        return np.array([[value for part in row for value in part] for row in chosen])

    def without_range(self, at: Iterable[Any]) -> list[str]:
        """Return the columns among these positions that may be any number, on one side or both."""
        wanted = set(at)
        return [
            name
            for name, kind in self.columns.items()
            if wanted & set(self.positions[name])
            and isinstance(kind, Number)
            and not (math.isfinite(kind.low) and math.isfinite(kind.high))
        ]

    def _refuse(self, context: Mapping[str, Any]) -> None:
        unknown = [str(name) for name in context if name not in self.columns]
        if unknown:
            known = ", ".join(self.columns)
            raise UnknownField(f"context: no column {', '.join(unknown)}; it has {known}")
        missing = [name for name in self.columns if name not in context]
        raise InvalidInput(f"context: missing {', '.join(missing)}")

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON schema (2020-12) of one context."""
        properties = {
            name: kind.json_schema() | ({"description": kind.about} if kind.about else {})
            for name, kind in self.columns.items()
        }
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": properties,
            "required": list(self.columns),
            "additionalProperties": False,
        }
