"""What every part has in common: context columns by name, and plain checks of its settings."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import operator
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from types import FunctionType, UnionType
from typing import Any, TypeVar

import numpy as np

from gdcb.arrays import Array, like, take_at
from gdcb.errors import InvalidInput, UnknownField

P = TypeVar("P")

Column = str | int


class Position(int):
    """Where a context column stands in x: a plain number that remembers the column's name.

    >>> at = Position(2, "occupancy")
    >>> at == 2, at.name, repr(at)
    (True, 'occupancy', '2')
    """

    name: str

    def __new__(cls, at: int, name: str = "") -> Position:
        """Return a position under a name."""
        self = super().__new__(cls, at)
        self.name = name
        return self


_is_recorded: ContextVar[bool] = ContextVar("is_recorded", default=False)


@contextmanager
def as_recorded() -> Iterator[None]:
    """Build parts as a ledger recorded them, also where a new one of the kind would be refused."""
    token = _is_recorded.set(True)
    try:
        yield
    finally:
        _is_recorded.reset(token)


def require_of_new(holds: bool, broken: str) -> None:
    """Refuse a new part; one that a ledger recorded before this was asked for is built as it was.

    For what has a meaning, and is only unwise: bounds that limit nothing, or categories that are
    multiplied by their positions.
    """
    if not holds and not _is_recorded.get():
        raise InvalidInput(broken)


def name_of(column: Column | None) -> str:
    """Return the name of a context column, bound or not; empty where only its place is known.

    >>> name_of("occupancy"), name_of(Position(2, "occupancy")), name_of(2)
    ('occupancy', 'occupancy', '')
    """
    return column if isinstance(column, str) else getattr(column, "name", "")


def column(default: Any = dataclasses.MISSING, numeric: bool = False) -> Any:
    """Declare a dataclass field that names a context column, or several in a tuple.

    An instance replaces the names by positions when it is built (`bind`). A category in a tuple
    stands for its levels, unless the field is `numeric`: then it is refused. In a tuple, '*'
    stands for every column.
    """
    return dataclasses.field(default=default, metadata={"column": True, "numeric": numeric})


def bind(part: P, columns: Mapping[str, Sequence[int]]) -> P:
    """Return `part` with its column names replaced by positions in x, nested parts included."""
    if not dataclasses.is_dataclass(part) or isinstance(part, type):
        return part
    changed: dict[str, Any] = {}
    for field in dataclasses.fields(part):
        if not field.init:
            continue
        value = getattr(part, field.name)
        if field.metadata.get("column"):
            where = f"{type(part).__name__}.{field.name}"
            new = _positions(value, columns, where, bool(field.metadata["numeric"]))
        elif isinstance(value, tuple):
            new = tuple(bind(item, columns) for item in value)
        else:
            new = bind(value, columns)
        if new is not value and new != value:
            changed[field.name] = new
    return dataclasses.replace(part, **changed) if changed else part


def _positions(value: Any, columns: Mapping[str, Sequence[int]], where: str, numeric: bool) -> Any:
    if isinstance(value, str):
        found = _look_up(value, columns, where)
        if len(found) != 1:
            raise InvalidInput(f"{where}: '{value}' is a category; name a number or a flag")
        return Position(found[0], value)
    if isinstance(value, tuple):
        positions: list[Any] = []
        for item in value:
            if not isinstance(item, str):
                positions.append(item)
            elif item == "*":
                positions += sorted({at for found in columns.values() for at in found})
            elif numeric:
                positions.append(_positions(item, columns, where, numeric))
            else:
                positions += _look_up(item, columns, where)
        return tuple(positions)
    return value


def _look_up(name: str, columns: Mapping[str, Sequence[int]], where: str) -> list[int]:
    if name not in columns:
        known = ", ".join(columns) or "none"
        raise UnknownField(f"{where}: no context column '{name}'; the context has {known}")
    return list(columns[name])


def describe(part: Any) -> Any:
    """Return a part as plain data: settings by name, functions by where they are defined.

    A part that is no plain data, such as a fitted model, says itself what it is: a method
    `describe` without arguments.
    """
    if not isinstance(part, type) and hasattr(type(part), "describe"):
        return part.describe()
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        fields = {
            f.name: describe(getattr(part, f.name)) for f in dataclasses.fields(part) if f.init
        }
        return {"part": _home(type(part))} | fields
    if isinstance(part, np.ndarray):
        return part.tolist()
    if isinstance(part, Mapping):
        return {str(name): describe(value) for name, value in part.items()}
    if isinstance(part, (tuple, list)):
        return [describe(item) for item in part]
    if isinstance(part, FunctionType):
        cells = [cell.cell_contents for cell in part.__closure__ or ()]
        plain = [value for value in (*cells, *(part.__defaults__ or ())) if _is_simple(value)]
        return {"function": _home(part), "holds": plain}
    if isinstance(part, type) or callable(part):
        return _home(part if hasattr(part, "__qualname__") else type(part))
    if isinstance(part, float) and not math.isfinite(part):
        return str(part)
    if _is_simple(part):
        return part
    return {"part": _home(type(part))} | {k: describe(v) for k, v in sorted(vars(part).items())}


def fingerprint_of(instance: Any, bandit: Any) -> str:
    """Return a hash of the settings of an instance and of the bandit that is bound to it."""
    parts = {"instance": describe(instance), "bandit": describe(bandit)}
    text = json.dumps(parts, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _home(part: Any) -> str:
    return f"{part.__module__}.{part.__qualname__}"


def _is_simple(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def take(x: Array, name: Column) -> Array:
    """Return one bound context column of x (N, p): (N,)."""
    if isinstance(name, str):
        raise InvalidInput(f"column '{name}' is not bound; build an Instance with this part")
    values: Array = x[:, name]
    return values


def take_all(x: Array, names: Sequence[Column]) -> Array:
    """Return some bound context columns of x (N, p): (N, len(names))."""
    index = _index(tuple(names))
    if isinstance(index, slice):
        beside: Array = x[:, index]
        return beside
    # Not x[:, index]: that lies column by column, and products would then round a row
    # differently in batches of different size.
    return take_at(x, like(index, x), axis=1)


def product_of(x: Array, names: Sequence[Column]) -> Array:
    """Return the product of some bound context columns of x (N, p), at least one: (N,).

    >>> product_of(np.array([[2.0, 3.0, 5.0]]), (0, 2)).tolist()
    [10.0]
    """
    total = take(x, names[0])
    for name in names[1:]:
        total = total * take(x, name)
    return total


@cache
def _index(names: tuple[Column, ...]) -> slice | Array:
    """Return a slice where the columns lie side by side: it copies nothing."""
    positions = [name for name in names if isinstance(name, int)]
    if len(positions) != len(names):
        raise InvalidInput(f"columns {names} are not bound; build an Instance with this part")
    if positions and positions == list(range(positions[0], positions[0] + len(positions))):
        return slice(positions[0], positions[-1] + 1)
    return np.array(positions, dtype=np.int64)


def check_number(
    where: str, value: Any, low: float = -math.inf, high: float = math.inf, open_low: bool = False
) -> None:
    """Refuse what is not a finite number within [low, high], or (low, high] if `open_low`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
        raise InvalidInput(f"{where}: expected a finite number, got {_shown(value)}")
    if value < low or value > high or (open_low and value == low):
        sign = ">" if open_low else ">="
        upper = "" if high == math.inf else f" and <= {high:g}"
        raise InvalidInput(f"{where}: expected a number {sign} {low:g}{upper}, got {value:g}")


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floating-point ones
        return False


def _shown(value: Any) -> str:
    text = repr(value) if not isinstance(value, int) or abs(value) < 10**30 else "a huge number"
    return text if len(text) <= 80 else f"{text[:77]}..."


def numbers(n: int) -> str:
    """Say how many numbers.

    >>> numbers(1), numbers(2)
    ('1 number', '2 numbers')
    """
    return "1 number" if n == 1 else f"{n} numbers"


def check_size(where: str, what: str, *sizes: int, most: int = 10_000_000) -> None:
    """Refuse arrays of more numbers than `most`, before they are there.

    Parameters
    ----------
    where : what an error calls the part
    what : what the sizes count
    sizes : the lengths of the array's axes, those of the cells left out
    most : 80 MB where nothing else is said

    Examples
    --------
    >>> check_size("bandit", "arms × nodes", 3, 10**9)
    Traceback (most recent call last):
        ...
    gdcb.errors.InvalidInput: bandit: expected at most 10,000,000 arms × nodes, got 3,000,000,000
    """
    n = math.prod(sizes)
    if n > most:
        got = f"{n:,}" if n < 10**30 else "many more"
        raise InvalidInput(f"{where}: expected at most {most:,} {what}, got {got}")


def check_tuple(where: str, value: Any) -> None:
    """Refuse a bare name where a tuple of names belongs."""
    if not isinstance(value, tuple | list):
        raise InvalidInput(f"{where}: expected a tuple of names, got {value!r}{_in_tuple(value)}")


def _in_tuple(value: Any) -> str:
    """Say how a bare name is written as a tuple; nothing of other values."""
    return f'; write ("{value}",)' if isinstance(value, str) and value else ""


def check_columns(where: str, value: Any) -> None:
    """Refuse what is no tuple of context columns, each by name or position."""
    check_tuple(where, value)
    if any(isinstance(one, bool) or not isinstance(one, str | int) for one in value):
        raise InvalidInput(f"{where}: expected a tuple of names, got {value!r}")


def check_text(where: str, value: Any, may_be_empty: bool = False) -> str:
    """Refuse what is not text that can be stored, and empty text unless it may be."""
    if not isinstance(value, str) or not (value or may_be_empty):
        what = "text" if may_be_empty else "a name"
        raise InvalidInput(f"{where}: expected {what}, got {_shown(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{where}: expected text in Unicode, got {value!r}") from error
    return value


def check_choice(where: str, value: Any, choices: Sequence[str]) -> None:
    """Refuse what is not one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidInput(f"{where}: expected one of {', '.join(choices)}; got {value!r}")


def check_settings(part: Any, where: str) -> None:
    """Refuse settings of another type than the fields of a part declare; call it first.

    Python takes a name for a tuple of letters, 'no' for true and True for 1. Here a number is no
    text and no truth value, a whole number has no fraction, names come in a tuple or list, and
    where a part belongs there is no name of one. Lists and arrays of numbers become tuples.

    Parameters
    ----------
    part : a dataclass, in its `__post_init__`
    where : what an error calls it: 'gate', 'scaler', etc.

    Examples
    --------
    >>> from gdcb import RidgeScaler
    >>> RidgeScaler(features="gap")
    Traceback (most recent call last):
        ...
    gdcb.errors.InvalidInput: scaler.features: expected a tuple of names, got 'gap'; write ("gap",)
    """
    cls: type = type(part)
    for name, hint, is_column in _declared(cls):
        value = getattr(part, name)
        taken = _taken(hint, value, is_column)
        if taken is _WRONG:
            expected = _expected(hint, is_column)
            written = _in_tuple(value) if expected == "a tuple of names" else ""
            raise InvalidInput(f"{where}.{name}: expected {expected}, got {_shown(value)}{written}")
        if taken is not value:
            object.__setattr__(part, name, taken)


def take_lists(part: Any) -> None:
    """Put tuples in the place of lists and arrays among a part's settings; call it first.

    A frozen part is compared and hashed, and `bind` looks for names in tuples only.

    Parameters
    ----------
    part : a dataclass, in its `__post_init__`

    Examples
    --------
    >>> from gdcb import LinearThompson
    >>> LinearThompson(["gap"]) == LinearThompson(("gap",))
    True
    """
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if field.init and (taken := _in_tuples(value)) is not value:
            object.__setattr__(part, field.name, taken)


def _in_tuples(value: Any) -> Any:
    """Return a value with tuples in the place of lists and arrays, however deep."""
    value = _listed(value)
    if not isinstance(value, tuple | list):
        return value
    found = tuple(_in_tuples(one) for one in value)
    is_same = isinstance(value, tuple) and all(map(operator.is_, found, value))
    return value if is_same else found


def _listed(value: Any) -> Any:
    """Return an array, a column of a data frame or a range as a list; anything else as it is.

    >>> _listed(np.ones(2)), _listed(range(1, 3)), _listed("ab"), _listed({2.0})
    ([1.0, 1.0], [1, 2], 'ab', {2.0})
    """
    if isinstance(value, range):
        return list(value)
    if hasattr(value, "__array__") and getattr(value, "shape", None):
        return np.asarray(value).tolist()
    return value


_WRONG = object()
_WORDS = {
    float: "a number",
    int: "a whole number",
    bool: "true or false",
    str: "text",
    type(None): "None",
}
_SEVERAL = {float: "numbers", int: "whole numbers", str: "names", Any: "parts"}


@cache
def _declared(cls: type) -> tuple[tuple[str, Any, bool], ...]:
    """Return name, type and whether it names context columns of every setting of a class."""
    hints = typing.get_type_hints(cls)
    return tuple(
        (field.name, hints[field.name], bool(field.metadata.get("column")))
        for field in dataclasses.fields(cls)
        if field.init
    )


def _options(hint: Any) -> tuple[Any, ...]:
    """Return what a union is made of."""
    return (
        typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, UnionType) else (hint,)
    )


def _taken(hint: Any, value: Any, is_column: bool) -> Any:
    """Return a value as its type has it, or `_WRONG`."""
    if isinstance(value, np.generic):
        value = value.item()
    for one in _options(hint):
        taken = _taken_as(one, value, is_column)
        if taken is not _WRONG:
            return taken
    return _WRONG


def _taken_as(hint: Any, value: Any, is_column: bool) -> Any:
    origin = typing.get_origin(hint)
    if hint is Any or hint is np.ndarray or origin is np.ndarray:
        return value
    if hint in (bool, str, type(None)):
        return value if isinstance(value, hint) else _WRONG
    if hint in (int, float):
        is_number = isinstance(value, int | hint) and not isinstance(value, bool)
        return value if is_number else _WRONG
    if origin is tuple:
        return _taken_several(typing.get_args(hint), value, is_column)
    if origin in (dict, Mapping):
        if not isinstance(value, Mapping):
            return _WRONG
        kind = typing.get_args(hint)[1]
        found = {name: _taken(kind, one, is_column) for name, one in value.items()}
        wrong = _WRONG in found.values() or not all(isinstance(name, str) for name in found)
        return _WRONG if wrong else value if found == value else found
    if origin is Callable:
        return value if callable(value) and not isinstance(value, type) else _WRONG
    is_plain = value is None or isinstance(value, str | int | float | tuple | list | Mapping | type)
    return _WRONG if is_plain else value  # of a part, what has its methods will do


def _taken_several(hints: tuple[Any, ...], value: Any, is_column: bool) -> Any:
    value = _listed(value)
    if not isinstance(value, tuple | list):
        return _WRONG
    kinds = hints[:1] * len(value) if hints[1:] == (...,) else hints
    if len(kinds) != len(value):
        return _WRONG
    found = tuple(_taken(kind, one, is_column) for kind, one in zip(kinds, value, strict=True))
    if any(one is _WRONG for one in found):
        return _WRONG
    is_same = isinstance(value, tuple) and all(
        one is other for one, other in zip(found, value, strict=True)
    )
    return value if is_same else found


def _expected(hint: Any, is_column: bool) -> str:
    """Say in words what a type expects.

    >>> _expected(float | tuple[float, ...], False), _expected(tuple[str | int, ...], True)
    ('a number or a tuple of numbers', 'a tuple of names')
    """
    if is_column:
        kinds = {typing.get_origin(one) is tuple for one in _options(hint)}
        said = {True: "a tuple of names", False: "the name of a context column"}
        return " or ".join(said[kind] for kind in sorted(kinds))
    words = []
    for one in _options(hint):
        origin, args = typing.get_origin(one), typing.get_args(one)
        if origin is tuple:
            words.append(f"a tuple of {_several(args[0])}")
        elif origin in (dict, Mapping):
            words.append(f"a dictionary whose values are each {_expected(args[1], False)}")
        elif origin is Callable:
            words.append("a function")
        else:
            words.append(_WORDS.get(one, f"a {getattr(one, '__name__', one)}"))
    return " or ".join(words)


def _several(hint: Any) -> str:
    if typing.get_origin(hint) is tuple:
        return f"tuples of {_several(typing.get_args(hint)[0])}"
    return _SEVERAL.get(hint, f"{getattr(hint, '__name__', hint)}s".lower())
