"""The theorems by key, each a module whose `check` answers in the shape of `verdict.document`."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from gdcb.errors import InvalidInput
from gdcb.theorems.verdict import Progress, quiet

# Key and module; those that take longest first, so that a pool ends evenly.
THEOREMS = {
    "t1": "gdcb.theorems.variance",
    "kalman": "gdcb.theorems.kalman",
    "t3": "gdcb.theorems.regret",
    "t2": "gdcb.theorems.equivalence",
    "t4": "gdcb.theorems.lifting",
}
KEYS = ("t1", "t2", "t3", "t4", "kalman")  # in the order in which they are shown


@dataclass(frozen=True)
class Asked:
    """One theorem to be checked.

    Parameters
    ----------
    key : 't1' to 't4', or 'kalman'
    seed : of all random numbers
    instance : whose methods and history are looked at, where the theorem looks at any
    told : file in which the check says what it is at, for whoever waits in another process
    """

    key: str
    seed: int = 0
    instance: str = "str"
    told: Path | None = None


def run(asked: Asked) -> dict[str, Any]:
    """Check one theorem."""
    if asked.key not in THEOREMS:
        raise InvalidInput(f"no theorem '{asked.key}'; there are {', '.join(KEYS)}")
    check = import_module(THEOREMS[asked.key]).check
    takes = inspect.signature(check).parameters
    more = {"instance": asked.instance} if "instance" in takes else {}
    answer: dict[str, Any] = check(asked.seed, _teller(asked.told), **more)
    return answer


def tables(key: str, answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the tables of a theorem's answer by title: columns and rows; none: no such module."""
    made = getattr(import_module(THEOREMS[key]), "tables", None)
    return {} if made is None else dict(made(answer))


def _teller(told: Path | None) -> Progress:
    if told is None:
        return quiet

    def say(text: str) -> None:
        told.write_text(text, encoding="utf-8")

    return say
