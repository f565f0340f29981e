"""What a check is, and how a list of them is run on a part."""

from __future__ import annotations

import builtins
import dataclasses
import inspect
import os
import random
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import GdcbError
from gdcb.parts import describe
from gdcb.records import to_bytes


class NonConforming(GdcbError, AssertionError):
    """A part that does not keep what its kind promises; the sentences say which promises."""


@dataclass(frozen=True)
class Check:
    """One promise of a kind of part, ready to be run on one part.

    Parameters
    ----------
    name : the promise in a few words, the same for every part of its kind
    sentence : the promise in full
    run : raises `NonConforming`, or whatever the part raises, where the promise is broken
    """

    name: str
    sentence: str
    run: Callable[[], None]

    def __call__(self) -> None:
        """Run it."""
        self.run()

    def __str__(self) -> str:
        """Return its name: pytest shows it."""
        return self.name


@dataclass(frozen=True)
class Result:
    """What became of one check: `broken` says how the promise was broken, empty: it was kept."""

    name: str
    sentence: str
    broken: str = ""

    @property
    def is_kept(self) -> bool:
        """Whether the promise was kept."""
        return not self.broken


@dataclass(frozen=True)
class Report:
    """What became of a whole list on one part."""

    part: str
    kind: str
    results: tuple[Result, ...]

    @property
    def broken(self) -> tuple[Result, ...]:
        """The promises that were broken."""
        return tuple(result for result in self.results if not result.is_kept)

    @property
    def is_conforming(self) -> bool:
        """Whether every promise was kept."""
        return not self.broken

    def __str__(self) -> str:
        """Return one line, and two more for every broken promise; what repeats is counted."""
        kept = len(self.results) - len(self.broken)
        lines = [f"{self.part} ({self.kind}): keeps {kept} of {len(self.results)} promises"]
        for result, more in counted(self.broken):
            lines += [f"✗ {result.name}: {result.sentence}", f"  {result.broken}{more}"]
        return "\n".join(lines)


def counted(results: Iterable[Result]) -> list[tuple[Result, str]]:
    """Return the first result of every sentence, and in words how many more say the same.

    >>> [one.name + more for one, more in counted(Result(n, "", "it raised") for n in "abc")]
    ['a … and 2 checks more']
    """
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.broken, []).append(result)
    more = ("", " … and 1 check more")
    return [
        (same[0], more[len(same) - 1] if len(same) < 3 else f" … and {len(same) - 1} checks more")
        for same in groups.values()
    ]


def raised(error: Exception, home: str) -> str:
    """Say what was raised and where: the last line outside of libraries, or of the part's package.

    `home` is the module that the part is from.
    """
    folders = [Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")]
    outside, own = "", ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        module, path = str(frame.f_globals.get("__name__", "")), Path(frame.f_code.co_filename)
        if module.startswith("gdcb.checks."):
            continue
        if module.split(".")[0] == home.split(".")[0]:
            own = f" ({_short(path)}:{line})"
        is_library = any(path.is_relative_to(folder) for folder in folders)
        if module.split(".")[0] != "gdcb" and not is_library and path.is_file():
            outside = f" ({_short(path)}:{line})"
    return f"it raised {type(error).__name__}: {error}{outside or own}"


def _short(path: Path) -> Path:
    """Return a path as it is seen from here, where it lies below."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def listed(functions: Iterable[Callable[[Any], None]], case: Any) -> list[Check]:
    """Turn functions of a case into checks; the first paragraph of a docstring is its sentence.

    Each runs under `keyed_numbers_only`.
    """
    return [
        Check(
            function.__name__.replace("_", " "),
            " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split()),
            partial(_run_keyed, function, case),
        )
        for function in functions
    ]


_GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)
_CONTAINERS = (list, tuple, set, frozenset, dict)


def _run_keyed(function: Callable[[Any], None], case: Any) -> None:
    """Run one promise, and refuse random numbers that replay could not draw again."""
    with keyed_numbers_only(case):
        function(case)


@contextmanager
def keyed_numbers_only(case: Any = None) -> Iterator[None]:
    """Require that nothing in the block draws random numbers but from generators with a seed.

    Two draws of a hidden source may agree by chance, so comparing them proves little. This looks
    at the sources themselves. The global states of `random` and `numpy.random`, and generators
    that the parts of a case or their modules keep, must stay as they are; generators without a
    seed, `os.urandom` and `secrets` are refused. A seed that is taken from the clock is not seen.
    """

    def refuse(*_: Any) -> Any:
        raise NonConforming("it takes chance from the machine, without a seed: draw from `rng`")

    def seeded(self: random.Random, a: Any = None, version: int = 2) -> None:
        if a is None:
            refuse()
        reseed(self, a, version)

    reseed, machine = random.Random.seed, random.SystemRandom
    kept = {"numpy.random": np.random.mtrand._rand, "random": random._inst} | _generators(case)
    before = {name: _state_of(one) for name, one in kept.items()}
    with (
        patch.object(np.random.bit_generator, "randbits", refuse),
        patch.object(random, "_urandom", refuse),
        patch.object(os, "urandom", refuse),
        patch.object(random.Random, "seed", seeded),
        patch.object(machine, "seed", lambda *_: None),
    ):
        yield
    for name, one in kept.items():
        if not _same(_state_of(one), before[name]):
            _put_back(one, before[name])
            raise NonConforming(f"it draws from the state of {name}: draw from `rng` instead")


def _generators(case: Any) -> dict[str, Any]:
    """Return the generators that a case's parts keep, or the modules that the parts are from."""
    found: dict[str, Any] = {}
    seen = {id(object), id(builtins)}  # which keep none, and are behind every part
    parts = [getattr(case, name, None) for name in getattr(type(case), "__dataclass_fields__", ())]
    for part in parts:
        kinds = type(part).__mro__
        modules = [sys.modules.get(kind.__module__) for kind in kinds]
        kept = [(name, getattr(part, name, None)) for kind in kinds for name in _slots(kind)]
        homes = [(home, list(getattr(home, "__dict__", {}).items())) for home in (*modules, *kinds)]
        homes = [(home, names) for home, names in homes if id(home) not in seen]
        seen |= {id(home) for home, _ in homes}
        homes.append((type(part), [*getattr(part, "__dict__", {}).items(), *kept]))
        for home, names in homes:
            for name, value in names:
                for at, one in enumerate(_within(value)):
                    nth = f" ({at + 1})" if at else ""
                    found[f"'{name}'{nth} of {getattr(home, '__name__', '')}"] = one
    return found


def _slots(kind: type) -> tuple[str, ...]:
    """Return the names of a class's slots, as its instances have them."""
    slots = kind.__dict__.get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    private = f"_{kind.__name__.lstrip('_')}"
    return tuple(f"{private}{name}" if name[:2] == "__" != name[-2:] else name for name in names)


def _within(value: Any, depth: int = 3) -> list[Any]:
    """Return a generator, or those in a list, tuple, set or dictionary, in one another too."""
    if isinstance(value, _GENERATORS):
        return [value]
    if not depth or not isinstance(value, _CONTAINERS):
        return []
    inside = list(value.values() if isinstance(value, dict) else value)
    held = [each for each in inside if isinstance(each, _GENERATORS + _CONTAINERS)]
    return [one for each in held for one in _within(each, depth - 1)]


def _state_of(generator: Any) -> Any:
    """Return the state of a generator of NumPy's or Python's; None: it has none."""
    if isinstance(generator, random.SystemRandom):
        return None
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, np.random.Generator):
        return deepcopy(generator.bit_generator.state)
    return generator.get_state(legacy=False)


def _same(a: Any, b: Any) -> bool:
    """Whether two states are equal: dictionaries and tuples of numbers and arrays."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    return bool(np.array_equal(a, b)) if isinstance(a, np.ndarray) else bool(a == b)


def _put_back(generator: Any, state: Any) -> None:
    """Put a generator back to a state, so that what is tried leaves no trace."""
    if isinstance(generator, random.Random):
        generator.setstate(state)
    elif isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    else:
        generator.set_state(state)


def run_all(part: Any, kind: str, checks: Iterable[Check]) -> Report:
    """Run the list of a part to its end, whatever fails on the way."""
    results = []
    for one in checks:
        try:
            one.run()
            broken = ""
        except NonConforming as error:
            broken = str(error)
        except Exception as error:  # a part that raises has broken the promise, however it did
            broken = raised(error, type(part).__module__)
        results.append(Result(one.name, one.sentence, broken))
    return Report(type(part).__name__, kind, tuple(results))


def require(holds: Any, broken: str) -> None:
    """Raise `NonConforming` with a sentence unless something holds."""
    if not bool(holds):
        raise NonConforming(broken)


def require_close(found: Array, expected: Array, what: str, within: float = 1e-9) -> None:
    """Require equal shapes, and numbers that agree relative to the largest of them."""
    require_shape(found, expected.shape, what)
    if expected.size == 0:
        return
    size = max(1.0, float(np.abs(expected).max()))
    gap = float(np.abs(found - expected).max())
    require(gap <= within * size, f"{what}: they differ by {gap:.3g} where {size:.3g} is largest")


def require_twice(found: Sequence[Array], is_exact: bool) -> None:
    """Require that rows of weight 2 (last) did what the same rows did that came twice (second)."""
    once, repeated, heavy = found
    moved = float(np.linalg.norm(heavy - once))
    require(moved > 1e-9, "twice the weight taught nothing more")
    if is_exact:
        require_close(heavy, repeated, "rows of weight 2 and rows that came twice")
        return
    gap, second = (float(np.linalg.norm(one - repeated)) for one in (heavy, once))
    text = f"rows of weight 2 and rows that came twice differ by {gap:.3g}"
    require(gap <= 0.3 * second, f"{text}, the second coming changes {second:.3g}")


def require_shape(found: Any, expected: tuple[int, ...], what: str) -> None:
    """Require an array of a shape."""
    require(isinstance(found, np.ndarray), f"{what}: expected an array, got {type(found).__name__}")
    require(found.shape == expected, f"{what}: expected shape {expected}, got {found.shape}")


def require_finite(found: Array, what: str) -> None:
    """Require numbers, no NaN and no infinity."""
    bad = int((~np.isfinite(found)).sum())
    require(bad == 0, f"{what}: {bad} of {found.size} are not finite")


def require_same_bytes(found: Any, expected: Any, what: str) -> None:
    """Require that two records of arrays, or two arrays, agree to the last bit."""
    require(bytes_of(found) == bytes_of(expected), f"{what}: the bytes differ")


def bytes_of(record: Any) -> bytes:
    """Return the bytes of a record of arrays, of an array or of a tuple of them."""
    if isinstance(record, np.ndarray):
        return record.tobytes()
    if isinstance(record, tuple):
        return b"".join(bytes_of(part) for part in record)
    return b"" if record is None else to_bytes(record)


def require_refusal(act: Callable[[], Any], kind: type[Exception], what: str) -> None:
    """Require that something is refused, with an error of a kind."""
    try:
        act()
    except kind:
        return
    except Exception as error:
        raise NonConforming(
            f"{what}: expected {kind.__name__}, it raised {type(error).__name__}: {error}"
        ) from error
    raise NonConforming(f"{what}: expected {kind.__name__}, it was taken")


def require_frozen(part: Any) -> None:
    """Require that nothing can be set on a part."""
    require(not isinstance(part, type), f"expected a part, got the class {part!r}")
    names = [field.name for field in dataclasses.fields(part)] if is_record(part) else []
    for name in names[:1] or ["_probe"]:
        before = getattr(part, name, None)
        try:
            setattr(part, name, before)
        except (AttributeError, TypeError):
            continue
        if not names:
            delattr(part, name)
        raise NonConforming(f"'{name}' can be set; write @dataclass(frozen=True)")


def require_described(part: Any) -> None:
    """Require that a part's settings are plain data: agents compare them by it."""
    import json

    said = describe(part)
    try:
        json.dumps(said, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise NonConforming(f"describe: not plain data ({error})") from error
    require(said == describe(part), "describe: twice, and it said another thing")


def is_record(part: Any) -> bool:
    """Whether something is an instance of a dataclass."""
    return dataclasses.is_dataclass(part) and not isinstance(part, type)
