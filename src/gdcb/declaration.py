"""An instance from a TOML file of registered parts.

A file names parts that were registered as entry points (`gdcb.bandits`, `gdcb.gates`, …), never
code; a package of yours registers its own in the same way. Everything is validated before
anything is built, and an error names the table and key it is about.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import tomllib
import typing
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import numpy as np

from gdcb import round as turn
from gdcb.adjustment import Adjustment
from gdcb.bandits import Bandit
from gdcb.context import Category, Flag, Number, Schema
from gdcb.contrast import ContrastState
from gdcb.errors import GdcbError, InvalidInput, UnknownField, UnknownPart
from gdcb.gates import Chain
from gdcb.instance import Cells, Instance, NullAction, Rules
from gdcb.log_columns import LogColumns
from gdcb.parts import as_recorded, check_size
from gdcb.records import flatten

# The tables of a file, and the group of entry points whose parts each may name.
GROUPS = {
    "arms": "gdcb.arms",
    "bandit": "gdcb.bandits",
    "scaler": "gdcb.scalers",
    "composition": "gdcb.compositions",
    "gate": "gdcb.gates",
    "kernel": "gdcb.kernels",
    "reward": "gdcb.rewards",
}
_COLUMNS = {"number": Number, "flag": Flag, "category": Category}
_SETTINGS = {"null": NullAction, "cells": Cells, "rules": Rules, "adjustment": Adjustment}
_REQUIRED = ("context", "arms", "composition", "gates", "bandit")
_OPTIONAL = ("name", "title", "closed", "scaler", "reward", "history", "service")
_KNOWN = {*_REQUIRED, *_SETTINGS, *_OPTIONAL}

# What a text may be before it is parsed: the parser takes time and memory that grow with the square
# of a key's parts, and one call of Python for each level of nesting.
LARGEST = 1_000_000
LONGEST = 10_000  # lines: whoever agrees to a change is shown them
DEEPEST_KEY = 16
DEEPEST = 32
# What a text may ask for before it is built; a part limits its own settings.
MOST_ARMS = 5_000
MOST_COLUMNS = 1_000  # of x: a category has one for each level
MOST_GATES = 100
MOST_COEFFICIENTS = 5_000_000  # arms × columns²: what a learner with coefficients of each arm has
LONGEST_NAME = 1_000  # letters: names stand in every row's answer and reason
MOST_NAMED = 10_000  # columns that the parts of one table name together
MOST_HELD = 64_000_000  # bytes of what is learned of one unit, gates and bands of δ included
# Signs that end a line for people and not for TOML, or show what follows in another order.
MISLEADING = re.compile("[\x85\u2028-\u202e\u2066-\u2069]")
# Signs in a name that nobody sees, or that turn the order of what follows; an escape writes them.
# Joiners (U+200C, U+200D) are letters of some scripts.
HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_WHOLE = 2**63  # TOML's whole numbers have 64 bits; longer ones cannot even be printed
_TOKEN = re.compile(  # groups 2 to 5 are the ends of texts
    r'''
    (?P<text> """(?:[^"\\]++|\\.|"{1,2}(?!"))*+("{3,5})?
            | \'{3}(?:[^']++|'{1,2}(?!'))*+('{3,5})?
            | "(?:[^"\\\n]++|\\[^\n])*+(")?
            | '[^'\n]*+(')? )
    | (?P<bare>[A-Za-z0-9_-]++) | (?P<gap>[ \t]++) | (?P<dot>\.)
    | (?P<open>[\[{]) | (?P<close>[\]}]) | \#[^\n]*+ | .
    ''',
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Declaration:
    """What a file declares.

    Parameters
    ----------
    instance, bandit : the instance, and the bandit that works on it
    columns : names of its log's columns
    service : how a decision service runs it, as written; the service checks it
    """

    instance: Instance
    bandit: Bandit
    columns: LogColumns = dataclasses.field(default_factory=LogColumns)
    service: dict[str, Any] = dataclasses.field(default_factory=dict)


def registered(kind: str) -> list[str]:
    """Return the names that a table of this kind may use.

    >>> registered("composition")
    ['add', 'credit-offer', 'identity', 'kalman-gain', 'multiply', 'prompt']
    """
    return sorted(_entry_points(GROUPS[kind]))


def part_named(kind: str, name: str) -> Any:
    """Return the registered part of this name."""
    return _entry_point(GROUPS[kind], name).load()


@cache
def _entry_points(group: str) -> dict[str, list[EntryPoint]]:
    """Return what is registered under each name: one entry point, or several that differ."""
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=group):
        same = found.setdefault(point.name, [])
        if all(point.value != other.value for other in same):
            same.append(point)
    return found


def _entry_point(group: str, name: str) -> EntryPoint:
    """Return the entry point of a name; none of two is taken for the other."""
    points = _entry_points(group)[name]
    if len(points) > 1:
        said = " and ".join(
            f"{point.dist.name if point.dist else 'a package'} ({point.value})" for point in points
        )
        raise InvalidInput(f"{group}: '{name}' is registered twice, by {said}; uninstall one")
    return points[0]


def read_toml(text: str, where: str = "toml", is_recorded: bool = False) -> dict[str, Any]:
    """Read any TOML text; refuse one that is too long or too deep before it is parsed.

    All TOML is read here, whoever wrote it. A number that is too large for a float is refused,
    but for texts that a ledger has recorded (`is_recorded`): those were read as infinite.

    >>> read_toml("a.b = 1")
    {'a': {'b': 1}}
    >>> read_toml(".".join("a" * 17) + " = 1")
    Traceback (most recent call last):
        ...
    gdcb.errors.InvalidInput: toml: expected keys of at most 16 parts, got a longer one in line 1
    """
    if len(text) > LARGEST:
        raise InvalidInput(f"{where}: expected at most {LARGEST:,} letters, got {len(text):,}")
    _check_depth(text, where)
    try:
        data = tomllib.loads(text, parse_float=float if is_recorded else _number)
        _check_whole_numbers(data, where)
    except InvalidInput:
        raise
    except (ValueError, RecursionError) as error:  # a number of 4,301 digits is a ValueError
        raise InvalidInput(f"{where}: not TOML ({error})") from error
    return data


def _number(text: str) -> float:
    """Read a number; refuse one that only its size makes infinite: infinity is written 'inf'."""
    number = float(text)
    if math.isinf(number) and "inf" not in text:
        raise ValueError(f"expected a number of at most 1.8e308, got {text[:20]}")
    return number


def _check_depth(text: str, where: str) -> None:
    """Refuse keys of many parts and deep nesting; what is no TOML is left to the parser."""
    dots = depth = 0
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "dot":
            dots += 1
        elif kind == "open":
            depth, dots = depth + 1, 0
        elif kind == "close":
            depth, dots = max(depth - 1, 0), 0
        elif kind == "text" and not any(token.groups()[1:5]):
            return  # a text without its end: the parser stops here
        elif kind not in ("bare", "gap", "text"):
            dots = 0
        if dots >= DEEPEST_KEY or depth > DEEPEST:
            line = text.count("\n", 0, token.start()) + 1
            what = (
                f"keys of at most {DEEPEST_KEY} parts, got a longer one"
                if dots >= DEEPEST_KEY
                else f"at most {DEEPEST} levels of lists and tables, got more"
            )
            raise InvalidInput(f"{where}: expected {what} in line {line}")


def _check_whole_numbers(data: dict[str, Any], where: str) -> None:
    """Refuse whole numbers of more than 64 bits, and depths that headers and keys add up to."""
    waiting: list[tuple[Any, int]] = [(data, 0)]
    while waiting:
        value, depth = waiting.pop()
        if isinstance(value, int) and not -_WHOLE <= value < _WHOLE:
            raise InvalidInput(f"{where}: expected whole numbers of at most 64 bits, got a longer")
        if isinstance(value, dict | list):
            if depth > 2 * DEEPEST:
                raise InvalidInput(f"{where}: expected at most {2 * DEEPEST} levels, got more")
            within = value.values() if isinstance(value, dict) else value
            waiting += [(one, depth + 1) for one in within]


def read(path: str | Path) -> Declaration:
    """Read an instance from a TOML file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path}: cannot be read ({error})") from error
    return parse(text, where=str(path))


def parse(text: str, where: str = "toml", is_recorded: bool = False) -> Declaration:
    """Read an instance from TOML text.

    A text without `gates` is refused; `gates = []` says that the instance runs ungated. Only
    where a ledger recorded the text (`is_recorded`), perhaps before this was asked for, does the
    absence of gates still mean that there were none. What only a new declaration needs
    (`gdcb.parts.require_of_new`, and sizes) is not asked for there either.

    Examples
    --------
    >>> declared = parse('''
    ... name = "listing"
    ... context.base = { type = "number", low = 1, high = 1000 }
    ... arms = { part = "list", values = [0.9, 1.0, 1.1] }
    ... composition = { part = "multiply", base = ["base"], names = ["price"] }
    ... gates = [{ part = "cap", limit = 100.0 }]
    ... reward = { part = "payoff", outcome = ["booked"], action = 0 }
    ... bandit = { part = "beta-thompson" }
    ... ''')
    >>> declared.instance.space.names, type(declared.bandit).__name__
    (('0.9', '1', '1.1'), 'BetaThompson')
    """
    if not is_recorded:
        _check_lines(text, where)
    data = read_toml(text, where, is_recorded)
    if is_recorded:
        data.setdefault("gates", [])
    try:
        with as_recorded() if is_recorded else nullcontext():
            return _declared(data, where, is_recorded)
    except GdcbError:
        raise
    except MemoryError as error:
        raise InvalidInput(f"{where}: expected what fits into memory, got more") from error
    except (ValueError, ArithmeticError, RecursionError) as error:  # a part that cannot say why
        raise InvalidInput(f"{where}: no instance can be built from it ({error})") from error


def _check_lines(text: str, where: str) -> None:
    """Refuse what nobody could agree to by looking at it."""
    n = text.count("\n") + (not text.endswith("\n"))
    if n > LONGEST:
        raise InvalidInput(f"{where}: expected at most {LONGEST:,} lines, got {n:,}")
    found = MISLEADING.search(text)
    if found is not None:
        line = text.count("\n", 0, found.start()) + 1
        raise InvalidInput(
            f"{where}: expected text that reads as it is shown, got the invisible sign "
            f"U+{ord(found[0]):04X} in line {line}"
        )


def _declared(data: dict[str, Any], where: str, is_recorded: bool = False) -> Declaration:
    """Build what a file's tables declare; what a ledger recorded may be of any size."""
    _check_keys(where, data, _KNOWN)
    missing = [name for name in _REQUIRED if name not in data]
    if missing:
        said = "; name a gate in [[gates]], or write gates = [] to run ungated"
        hint = said if "gates" in missing else ""
        raise InvalidInput(f"{where}: missing {', '.join(missing)}{hint}")
    settings: dict[str, Any] = {"context": _context(data["context"], is_recorded)}
    for name in ("name", "title"):
        if name in data:
            settings[name] = _value(name, str, data[name])
    for kind in ("arms", "scaler", "composition", "reward"):
        if kind in data:
            settings[kind] = _part(kind, kind, data[kind])
    if not is_recorded:
        _check_arms(settings["arms"], settings["context"])
    for name, cls in _SETTINGS.items():
        if name in data:
            settings[name] = _build(name, cls, _table(name, data[name]))
    gates = _value("gates", list[Any], data["gates"])
    if not is_recorded:
        check_size("gates", "gates", len(gates), most=MOST_GATES)
    chain = tuple(_part(f"gates[{i}]", "gate", gate) for i, gate in enumerate(gates))
    settings["gate"] = Chain(chain, closed=_value("closed", bool, data.get("closed", True)))
    learner = _part("bandit", "bandit", data["bandit"])
    if not is_recorded:
        parts = {f"gates[{i}]": gate for i, gate in enumerate(chain)} | {"bandit": learner}
        for name in ("scaler", "composition", "reward", "adjustment"):
            parts[name] = settings.get(name)
        for name, part in parts.items():
            _check_columns(name, part, settings["context"])
    instance = Instance(**settings)
    bandit = instance.bind(learner)
    if not is_recorded:
        _check_names(instance)
        _check_held(instance, bandit)
    turn.init(instance, bandit, np.zeros(1, dtype=np.int64))  # what does not fit shows here
    columns = _build("history", LogColumns, _table("history", data.get("history", {})))
    return Declaration(instance, bandit, columns, _table("service", data.get("service", {})))


def _check_arms(arms: Any, context: Schema) -> None:
    """Refuse more arms than a file may have, before one of them is made."""
    n = getattr(arms, "n", 0)  # parts of others need not say it
    check_size("arms", "arms", n, most=MOST_ARMS)
    what = "arms × columns of the context, squared"
    check_size("arms", what, n, context.width, context.width, most=MOST_COEFFICIENTS)


def _check_names(instance: Instance) -> None:
    """Refuse long names of what a decision names: arms, gates, columns and categories.

    Those that a declaration makes up must also read as they are shown. Columns and levels of the
    context are those of a log, whatever it calls them.
    """
    named = {"arms": [*instance.space.names], "context": [*instance.context.columns]}
    for kind in instance.context.columns.values():
        named["context"] += getattr(kind, "levels", ())
    named["composition"] = [n for one in instance.actions for n in (one.name, *one.levels)]
    named["gates"] = [n for gate in instance.chain.gates for n in (gate.name, gate.version)]
    for where, names in named.items():
        check_size(where, "letters in a name", max(map(len, names), default=0), most=LONGEST_NAME)
    named["reward"] = [*instance.reward.outcome]
    for where in ("arms", "composition", "gates", "reward"):
        for name in named[where]:
            found = HIDDEN.search(name)
            if found is not None:
                raise InvalidInput(
                    f"{where}: expected names that read as they are shown, got the invisible sign "
                    f"U+{ord(found[0]):04X} in {name!a}"
                )


def _check_columns(where: str, part: Any, context: Schema) -> None:
    """Refuse columns that a part names twice, before names become positions in x.

    `numeric` names may come twice: a base of two action columns, or a square.
    """
    named, waiting, positions = 0, [(where, part)], context.positions
    while waiting:
        at, one = waiting.pop()
        if isinstance(one, tuple | list):
            waiting += [(f"{at}[{i}]", each) for i, each in enumerate(one)]
        if not dataclasses.is_dataclass(one) or isinstance(one, type):
            continue
        for field in dataclasses.fields(one):
            value, is_column = getattr(one, field.name, None), field.metadata.get("column")
            if is_column and isinstance(value, tuple) and not field.metadata["numeric"]:
                _check_once(f"{at}.{field.name}", value)
                found = [(*positions,) if name == "*" else (name,) for name in value]
                named += sum(len(positions.get(name, "1")) for some in found for name in some)
            elif field.init and not is_column:
                waiting.append((f"{at}.{field.name}", value))
    check_size(where, "columns named by its parts together", named, most=MOST_NAMED)


def _check_once(where: str, names: tuple[Any, ...]) -> None:
    """Refuse a column that is named twice, also by '*' and by its name."""
    twice = [str(name) for name, times in Counter(names).items() if times > 1]
    if twice:
        raise InvalidInput(f"{where}: expected every column once, got '{twice[0]}' several times")
    if "*" in names and len(names) > 1:
        raise InvalidInput(f"{where}: expected '*' alone, since it is every column; got more names")


def _check_held(instance: Instance, bandit: Bandit) -> None:
    """Refuse what takes too much memory for every unit, before all of it is there.

    The learner is tried with one band of δ, and with two: each further one takes what the second
    has added. Parts limit their own arrays, so that none is too large to be tried.
    """
    instance.check_bandit(bandit)
    one, arms, n_bands = np.zeros(1, dtype=np.int64), instance.space, instance.cells.n
    held = _bytes_of(instance.scaler.init(1))
    for gate in instance.chain.gates:
        held += _bytes_of(gate.init_kernel(1, len(instance.actions)))
        _check_bytes(held)
    if instance.adjustment is not None:
        held += _bytes_of(instance.adjustment.init(1, arms.n))
    held += n_bands * _bytes_of(ContrastState.zeros(one, arms.n))
    _check_bytes(held)
    if hasattr(bandit, "check_nodes"):  # quick; each member alone may be allowed, and take long
        bandit.check_nodes(arms)
    learners, known = _learners(bandit), held
    for learner in learners if len(learners) > 1 else ():
        known += _bytes_of(learner.init(one, arms))
        _check_bytes(known)
    try:
        first = _bytes_of(bandit.init(one, arms))
    except InvalidInput:  # it learns all bands together
        first, n_bands = _bytes_of(bandit.init(np.arange(n_bands), arms)), 1
    _check_bytes(held + first)
    if held + n_bands * first > MOST_HELD:
        more = _bytes_of(bandit.init(np.arange(2), arms)) - first
        _check_bytes(held + first + (n_bands - 1) * more)


def _learners(bandit: Any) -> list[Any]:
    """Return the learners that a stack is made of, stacks within it included; else itself."""
    found: list[Any] = []
    for field in dataclasses.fields(bandit):
        if field.metadata.get("parts") == "bandit":
            found += [each for one in getattr(bandit, field.name) for each in _learners(one)]
    return found or [bandit]


def _bytes_of(state: Any) -> int:
    return sum(array.nbytes for array in flatten(state).values())


def _check_bytes(held: int) -> None:
    check_size("instance", "bytes for what is learned of one unit", held, most=MOST_HELD)


def _context(table: Any, is_recorded: bool = False) -> Schema:
    columns: dict[str, Any] = {}
    what = "columns and levels"
    if not is_recorded:
        check_size("context", what, len(_table("context", table)), most=MOST_COLUMNS)
    for name, fields in _table("context", table).items():
        where = f"context.{name}"
        fields = dict(_table(where, fields))
        kind = fields.pop("type", None)
        if not isinstance(kind, str) or kind not in _COLUMNS:
            raise InvalidInput(f"{where}.type: expected {', '.join(_COLUMNS)}; got {kind!r}")
        columns[name] = _build(where, _COLUMNS[kind], fields)
    if not is_recorded:
        width = sum(len(getattr(kind, "levels", "1")) for kind in columns.values())
        check_size("context", what, width, most=MOST_COLUMNS)
    return Schema(columns)


def _part(where: str, kind: str, table: Any) -> Any:
    """Build the part that a table names."""
    points = _entry_points(GROUPS[kind])
    if not isinstance(table, dict):
        name = table if isinstance(table, str) else min(points, default="…")
        such = f'{{ part = "{name}" }}'
        raise InvalidInput(f"{where}: expected a table such as {such}, got {table!r}")
    fields = dict(table)
    name = fields.pop("part", None)
    if not isinstance(name, str) or name not in points:
        known = ", ".join(sorted(points)) or "none"
        raise UnknownPart(f"{where}.part: no {kind} {name!r} is registered; there are {known}")
    cls = part_named(kind, name)
    made = getattr(cls, "python_only", "")
    if made:
        raise InvalidInput(f"{where}.part: {kind} '{name}' is from Python only: {made}")
    return _build(where, cls, fields)


def _build(where: str, cls: type, fields: dict[str, Any]) -> Any:
    """Validate a table against a part's own fields and build it."""
    hints = _hints(cls)
    declared = {f.name: f for f in dataclasses.fields(cls) if f.init}
    _check_keys(where, fields, set(declared))
    for name, field in declared.items():
        is_required = field.default is field.default_factory is dataclasses.MISSING
        if is_required and name not in fields:
            raise InvalidInput(f"{where}: missing {name}")
    values = {
        name: _setting(f"{where}.{name}", name, declared[name], hints[name], value)
        for name, value in fields.items()
    }
    try:
        return cls(**values)
    except InvalidInput as error:
        raise type(error)(_placed(where, str(error))) from error


def _placed(where: str, text: str) -> str:
    """Say where in the file a part's own message belongs, and name the part only once.

    >>> _placed("scaler", "scaler.every: expected"), _placed("gates[0]", "gate.low: expected")
    ('scaler.every: expected', 'gates[0].low: expected')
    >>> _placed("context.base", "number: low is above high")
    'context.base: number: low is above high'
    """
    for name in (*GROUPS, *_SETTINGS):
        rest = text.removeprefix(name)
        if rest != text and rest[:1] in (".", ":") and name in where:
            return f"{where}{rest}"
    return f"{where}: {text}"


def _setting(where: str, name: str, field: Any, hint: Any, value: Any) -> Any:
    """Build one setting: a part where it is named like one, or as its field says.

    A field may say `part`, `parts` (kinds of registered parts) or `reads` (what reads a table).
    """
    if name in GROUPS and hint is not str:
        return _part(where, name, value)
    if "reads" in field.metadata:  # numbers that belong together, such as a trunk's
        return field.metadata["reads"](_table(where, value), where)
    if "part" in field.metadata:
        return _part(where, field.metadata["part"], value)
    if "parts" in field.metadata:
        tables = _value(where, list[Any], value)
        kind = field.metadata["parts"]
        return tuple(_part(f"{where}[{i}]", kind, table) for i, table in enumerate(tables))
    return _value(where, hint, value, field.metadata.get("expected"))


def _value(where: str, hint: Any, value: Any, expected: str | None = None) -> Any:
    """Check a value against a type, strictly; lists become tuples where those are declared.

    `expected` says in words what a type says poorly.
    """
    from pydantic import PydanticUserError, ValidationError

    try:
        return _adapter(hint).validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        if expected is not None:
            raise InvalidInput(f"{where}: expected {expected}; got {value!r}") from error
        what = error.errors()[0]
        at = "".join(f"[{part!r}]" for part in what["loc"])
        raise InvalidInput(f"{where}{at}: {what['msg']}; got {what['input']!r}") from error
    except (PydanticUserError, TypeError) as error:
        raise InvalidInput(f"{where}: cannot be set from TOML ({error})") from error


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


@cache
def _adapter(hint: Any) -> Any:
    """Return what checks values of a type; making one takes far longer than a check."""
    from pydantic import TypeAdapter

    return TypeAdapter(hint)


def _table(where: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(f"{where}: expected a table, got {value!r}")
    return value


def _check_keys(where: str, found: dict[str, Any], known: set[str]) -> None:
    unknown = sorted(set(found) - known)
    if unknown:
        raise UnknownField(
            f"{where}: unknown {', '.join(unknown)}; it may have {', '.join(sorted(known))}"
        )
