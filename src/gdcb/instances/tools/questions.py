"""Questions with answers, 'which call is right': from bfcl-eval, or from agentdojo's user tasks.

bfcl-eval forces old versions of other packages, so it lives in an environment of its own; only the
data files inside its wheel are read. They are looked for where the variable GDCB_BFCL points (an
environment, or the folder of data), in the checkout's `.bfcl`, and in a package that can be
imported.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.parts import check_choice

SOURCES = ("bfcl", "agentdojo")
VARIABLE = "GDCB_BFCL"
FILES = ("multiple", "live_multiple")
SUITES = "v1.2.1"  # of agentdojo's tasks
_NAME = "BFCL_v4_{}.json"
# Words in a tool's name that say that it changes, sends or pays.
WRITES = frozenset(
    re.findall(
        "[a-z]+",
        "add append block book buy cancel change connect control create delete edit execute insert "
        "install invite make modify order pay place play post purchase register remove request "
        "reschedule reserve run schedule send set share start submit transfer turn update upload "
        "write",
    )
)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

MISSING = (
    "the questions of bfcl-eval are not here. In a clone: make bfcl. Elsewhere: "
    "python -m venv .bfcl && .bfcl/bin/pip install --no-deps bfcl-eval, and set GDCB_BFCL=.bfcl; "
    "or take the option questions=agentdojo, or the variant well, which needs none"
)


@dataclass(frozen=True, eq=False)
class Bank:
    """Q requests and F tools, and which call is right.

    Parameters
    ----------
    source : where they come from
    tools, descriptions : F names, and what each says of itself, names of arguments included, where
        it is first offered
    reworded : (request, tool, text) wherever a request comes with other words of a tool
    requests : Q texts
    right : (Q,) the tool whose call is right
    is_candidate : (Q, F) the tools that the data offer with a request
    arguments : (Q,) arguments that the right call gives
    required : (F,) arguments that a tool requires
    is_write : (F,) whether a tool changes, sends or pays, by the words of its name
    """

    source: str
    tools: tuple[str, ...]
    descriptions: tuple[str, ...]
    reworded: tuple[tuple[int, int, str], ...]
    requests: tuple[str, ...]
    right: Array
    is_candidate: Array
    arguments: Array
    required: Array
    is_write: Array


@dataclass(frozen=True)
class _Question:
    """One request as a source has it: its tools by name, the right one and its arguments."""

    request: str
    tools: Mapping[str, tuple[str, int]]  # name: (description, required arguments)
    right: str
    arguments: int


def words_of(name: str) -> list[str]:
    """Return the words of a tool's name, in lower case.

    >>> words_of("Hotels_4_ReserveHotel"), words_of("math.triangle_area")
    (['hotels', 'reserve', 'hotel'], ['math', 'triangle', 'area'])
    """
    return [word.lower() for word in _WORDS.findall(name)]


def data_folder() -> Path:
    """Return the folder of bfcl-eval's data, or say how to get it."""
    named = os.environ.get(VARIABLE)
    places = [Path(named)] if named else []
    if not named:
        places += [parent / ".bfcl" for parent in Path(__file__).resolve().parents[3:5]]
        places.append(Path.cwd() / ".bfcl")
        found = find_spec("bfcl_eval")
        places += (
            [Path(place) / "data" for place in (found.submodule_search_locations or ())]
            if (found)
            else []
        )
    for place in places:
        for folder in (place, *sorted(place.glob("lib/python*/site-packages/bfcl_eval/data"))):
            if (folder / _NAME.format(FILES[0])).is_file():
                return folder
    where = f"{VARIABLE}={named} has none: " if named else ""
    raise InvalidInput(f"tools: {where}{MISSING}")


@cache
def bank(source: str = SOURCES[0]) -> Bank:
    """Return the questions of a source, read once a process."""
    check_choice("questions", source, SOURCES)
    read = _bfcl(data_folder()) if source == "bfcl" else _agentdojo()
    return _banked(source, list(read))


def _banked(source: str, questions: list[_Question]) -> Bank:
    """Put questions together; tools of one name are one tool, in each question's own words."""
    known: dict[str, tuple[str, int]] = {}
    for question in questions:
        for name, about in question.tools.items():
            known.setdefault(name, about)
    place = {name: at for at, name in enumerate(known)}
    reworded = tuple(
        (at, place[name], _says(name, about))
        for at, question in enumerate(questions)
        for name, (about, _) in question.tools.items()
        if about != known[name][0]
    )
    is_candidate = np.zeros((len(questions), len(known)), dtype=bool)
    for at, question in enumerate(questions):
        is_candidate[at, [place[name] for name in question.tools]] = True
    return Bank(
        source,
        tuple(known),
        tuple(_says(name, about) for name, (about, _) in known.items()),
        reworded,
        tuple(question.request for question in questions),
        np.array([place[question.right] for question in questions]),
        is_candidate,
        np.array([question.arguments for question in questions], dtype=float),
        np.array([required for _, required in known.values()], dtype=float),
        np.array([not WRITES.isdisjoint(words_of(name)) for name in known]),
    )


def _says(name: str, about: str) -> str:
    """Return what a tool says of itself, its name's words first."""
    return " ".join((*words_of(name), about))


def _bfcl(folder: Path) -> Iterator[_Question]:
    for kind in FILES:
        name = _NAME.format(kind)
        answers = {
            one["id"]: one["ground_truth"] for one in _lines(folder / "possible_answer" / name)
        }
        for one in _lines(folder / name):
            ((right, given),) = answers[one["id"]][0].items()
            said = [part["content"] for part in one["question"][0] if part["role"] == "user"]
            tools = {tool["name"]: _described(tool) for tool in one["function"]}
            yield _Question(" ".join(said), tools, right, len(given))


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        raise InvalidInput(f"tools: expected the file {path.name} of bfcl-eval; {MISSING}")
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _described(tool: Mapping[str, Any]) -> tuple[str, int]:
    """Return what a tool of bfcl-eval says of itself, and how many arguments it requires."""
    parameters = tool.get("parameters", {})
    names = " ".join(" ".join(words_of(name)) for name in parameters.get("properties", {}))
    return f"{tool['description']} {names}", len(parameters.get("required", ()))


def _agentdojo() -> Iterator[_Question]:
    try:
        suites: Any = import_module("agentdojo.task_suite.load_suites")
    except ModuleNotFoundError as error:
        raise InvalidInput(
            'tools: questions=agentdojo needs agentdojo; pip install "gdcb[domains]"'
        ) from error
    for suite in suites.get_suites(SUITES).values():
        environment = suite.load_and_inject_default_environment({})
        tools = {}
        for tool in suite.tools:
            schema = tool.parameters.model_json_schema()
            names = " ".join(" ".join(words_of(name)) for name in schema.get("properties", {}))
            tools[tool.name] = (f"{tool.description} {names}", len(schema.get("required", ())))
        for task in suite.user_tasks.values():
            calls = task.ground_truth(environment)
            if calls:  # one task asks for nothing that a tool can do
                yield _Question(task.PROMPT, tools, calls[0].function, len(calls[0].args))
