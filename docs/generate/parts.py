"""A page for every registered part, from its docstring and its fields, and a table for every kind.

The docstring is the only source: what a page says is what `help()` says. `tests/test_docs.py`
checks that every part has all the pieces and runs every page's example by itself.
"""

from __future__ import annotations

import ast
import builtins
import collections.abc
import dataclasses
import doctest
import inspect
import math
import sys
import types
import typing
from pathlib import Path
from typing import Any

import gdcb
from docs.generate.docstring import Docstring, inline, markdown, parse
from gdcb.declaration import GROUPS, part_named, registered
from gdcb.parts import Column

ROOT = Path(__file__).parents[2]

# Kind: its title, what one of it is, and the lines above `part = ...` in a TOML file.
KINDS = {
    "arms": ("Arms", "An arm space", "[arms]"),
    "bandit": ("Bandits", "A bandit", "[bandit]"),
    "scaler": ("Scalers", "A scaler", "[scaler]"),
    "composition": ("Compositions", "A composition", "[composition]"),
    "gate": ("Gates", "A gate", "[[gates]]"),
    "kernel": ("Kernels", "A kernel", '[[gates]]\npart = "approval"\n\n[gates.kernel]'),
    "reward": ("Rewards", "A reward", "[reward]"),
}

# What parts of a kind declare: attribute, heading of its column, and what to call it on a page.
DECLARES = {
    "bandit": (
        ("target", "learns", "Learns (`class`, `reward` or `any`)"),
        ("is_curve", "between arms", "Learns and predicts between the arms"),
        ("reads", "reads", "Reads beside the arm (`x`, `delta`)"),
        ("supports", "also does", "Optional methods"),
    ),
    "scaler": (
        ("learns_from", "learns from", "Learns from"),
        ("is_positive", "δ above 0", "δ is always above 0"),
        ("supports", "also does", "Optional methods"),
    ),
    "composition": (
        ("arm_kind", "takes arms", "Arms it takes (`numbers`, `categories` or `any`)"),
        ("needs_positive", "needs δ above 0", "Needs δ above 0"),
    ),
    "gate": (
        ("is_hard", "known function", "A known function"),
        ("is_person", "a person", "A person answers"),
    ),
    "reward": (("target", "is learned", "What a bandit learns of it"),),
}

# Settings that mean the same in every part of a kind.
_COMMON = {
    ("gate", "name"): "name of the rule, in every verdict",
    ("gate", "version"): "version of the rule, in every verdict",
}
# Settings that have no default, as a file may give them; `busy` is a context column of the file.
EXAMPLES = {
    ("arms", "grid"): ("factors = { A = [0.8, 1.0, 1.25], B = [0.9, 1.1] }",),
    ("bandit", "stacked-thompson"): (
        'members = [{ part = "curve-thompson" }, { part = "curve-thompson", form = "additive" }]',
    ),
    ("composition", "kalman-gain"): (
        "transition = [[[1.0]], [[1.0]]]  # two modes of one state and one sensor",
        "measurement = [[[1.0]], [[1.0]]]",
        "process = [[[0.1]], [[1.0]]]",
        "noise = [[[1.0]], [[1.0]]]",
    ),
    ("scaler", "gaussian-process"): (
        'features = ["busy"]',
        "lengths = [0.3]",
        "inducing = [[0.0], [0.5], [1.0]]",
    ),
    ("scaler", "log-linear"): ('factors = { day = ["busy"] }',),
    ("scaler", "neural"): (
        'features = ["busy"]',
        "trunk = { mean = [0.5], scale = [0.3], weights = [[[1.0, -1.0]]], biases = [[0.0, 0.0]] }",
    ),
}
_PYTHON = "from Python only"
_TYPES = {float: "number", int: "whole number", str: "text", bool: "true or false"}


@dataclasses.dataclass(frozen=True)
class Part:
    """A registered part, and what its docstring says.

    Parameters
    ----------
    kind, name : table of a TOML file, and the name it is registered under there
    cls : the class
    doc : its docstring in pieces
    """

    kind: str
    name: str
    cls: Any
    doc: Docstring

    @property
    def uri(self) -> str:
        """Where its page lies in the documentation's source."""
        return f"parts/{self.kind}/{self.name}.md"

    @property
    def source(self) -> str:
        """Its file, relative to the repository, or its module if it comes from elsewhere."""
        path = Path(inspect.getsourcefile(self.cls) or "")
        return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else self.cls.__module__

    @property
    def settings(self) -> tuple[dataclasses.Field[Any], ...]:
        """The fields that a file may set."""
        return tuple(field for field in dataclasses.fields(self.cls) if field.init)

    def meaning(self, setting: str) -> str:
        """Return what a setting means, or nothing where nobody says."""
        for cls in self.cls.__mro__:  # an inherited setting is explained where it is declared
            meaning = parse(cls.__doc__ or "").parameters.get(setting)
            if meaning:
                return meaning
        return _COMMON.get((self.kind, setting), "")


def part(kind: str, name: str) -> Part:
    """Return a registered part with its docstring read."""
    cls = part_named(kind, name)
    return Part(kind, name, cls, parse(cls.__doc__ or ""))


def parts(kind: str) -> list[Part]:
    """Return the registered parts of a kind."""
    return [part(kind, name) for name in registered(kind)]


def page(one: Part) -> str:
    """Return the page of a part, as Markdown."""
    doc = one.doc
    pieces = [
        f"# {one.name}",
        f"{KINDS[one.kind][1]}: `{_public(one.cls)}`. See [which one to take](index.md).",
        inline(doc.summary),
        *_section("Formula", doc.formula),
        "## In a file",
        in_file(one),
        _settings(one),
        *_section("Assumes", (_sentence(doc.assumes),)),
        *_section("Where it stops applying", (_sentence(doc.stops),)),
        *_section("Notes", doc.notes),
        *_declares(one),
        "## Example",
        *(markdown(block) for block in example(one)),
        "The example is a test: it runs as it stands here.",
        "## Source",
        f"`{one.source}`",
    ]
    return "\n\n".join(piece for piece in pieces if piece) + "\n"


def table(kind: str) -> str:
    """Return the parts of a kind beside each other, as a Markdown table."""
    found = parts(kind)
    # A column with the same answer everywhere helps nobody to choose.
    declared = [
        line
        for line in DECLARES.get(kind, ())
        if len({declaration(one, line[0]) for one in found}) > 1
    ]
    lines = [
        ["part", "what it does", *(heading for _, heading, _ in declared), "stops applying"],
        ["---"] * (3 + len(declared)),
    ]
    for one in found:
        answers = (declaration(one, attribute) or "–" for attribute, _, _ in declared)
        link = f"[{one.name}]({one.name}.md)"
        lines.append(
            [link, inline(one.doc.summary), *answers, inline(_sentence(_first(one.doc.stops)))]
        )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def overview() -> str:
    """Return the kinds and their parts, as a Markdown list."""
    return "\n".join(
        f"- [{title}]({kind}/index.md): "
        + ", ".join(f"[{name}]({kind}/{name}.md)" for name in registered(kind))
        for kind, (title, _, _) in KINDS.items()
    )


def navigation(kind: str) -> list[Any]:
    """Return the pages of a kind for the site's navigation: the table, then each part."""
    return [f"parts/{kind}/index.md", *({one.name: one.uri} for one in parts(kind))]


def in_file(one: Part) -> str:
    """Return the least that a file says to have this part, or why no file can."""
    hints = typing.get_type_hints(one.cls)
    required = [field for field in one.settings if _default(field) is dataclasses.MISSING]
    foreign = [field.name for field in required if _type(hints[field.name], field) == _PYTHON]
    if foreign:
        return f"No file can name it: `{'`, `'.join(foreign)}` comes from Python."
    lines = [KINDS[one.kind][2], f'part = "{one.name}"']
    known = EXAMPLES.get((one.kind, one.name), ())
    given = {line.split(" = ")[0] for line in known}
    lines += [*known, *(f"# {f.name} = … is required" for f in required if f.name not in given)]
    return "\n".join(("```toml", *lines, "```"))


def declaration(one: Part, attribute: str) -> str:
    """Return what a part declares, in a word; nothing where it does not declare this."""
    value = getattr(one.cls, attribute, None)
    if isinstance(value, property):
        # A property may hang on the settings, unless no part of this kind lets it.
        value = getattr(one.cls(), attribute) if one.kind == "reward" else "by its settings"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, collections.abc.Set):
        return ", ".join(sorted(value)) or "nothing"
    return "" if value is None else str(value)


def example(one: Part) -> tuple[str, ...]:
    """Return the example with the imports that its module has at hand, so that it runs alone."""
    blocks = list(one.doc.examples)
    first = next((i for i, block in enumerate(blocks) if block.lstrip().startswith(">>>")), None)
    if first is not None:
        lines = blocks[first].splitlines()
        own = [line for line in lines if line.startswith((">>> import ", ">>> from "))]
        taken = _imports("\n".join(one.doc.doctests), sys.modules[one.cls.__module__])
        imports = sorted({*own, *taken}, key=lambda line: (line.startswith(">>> from"), line))
        blocks[first] = "\n".join([*imports, *(line for line in lines if line not in own)])
    return tuple(blocks)


def _imports(text: str, module: types.ModuleType) -> list[str]:
    """Return prompts that import what a doctest takes from its module's names."""
    code = "".join(found.source for found in doctest.DocTestParser().get_examples(text))
    tree = ast.parse(code)
    loaded: set[str] = set()
    bound = set(dir(builtins))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (loaded if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.alias):
            bound.add(node.asname or node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound.add(node.name)
    lines = []
    for name in sorted(loaded - bound):
        value = getattr(module, name)
        if isinstance(value, types.ModuleType):
            lines.append(f">>> import {value.__name__} as {name}")
        else:
            home = _public(value).rpartition(".")[0] if isinstance(value, type) else ""
            lines.append(f">>> from {home or module.__name__} import {name}")
    return lines


def _public(cls: Any) -> str:
    """Return where a class is imported from: the package itself if it exports it."""
    is_exported = cls.__name__ in gdcb.__all__ and getattr(gdcb, cls.__name__) is cls
    return f"{'gdcb' if is_exported else cls.__module__}.{cls.__name__}"


def _section(title: str, blocks: tuple[str, ...]) -> list[str]:
    return [f"## {title}", *(markdown(block) for block in blocks)] if any(blocks) else []


def _declares(one: Part) -> list[str]:
    lines = [
        f"- {called}: **{declaration(one, attribute)}**"
        for attribute, _, called in DECLARES.get(one.kind, ())
        if declaration(one, attribute)
    ]
    return ["## What it declares", "\n".join(lines)] if lines else []


def _settings(one: Part) -> str:
    if not one.settings:
        return "It has no settings."
    hints = typing.get_type_hints(one.cls)
    lines = ["| setting | type | default | meaning |", "|---|---|---|---|"]
    for field in one.settings:
        default = _default(field)
        shown = "required" if default is dataclasses.MISSING else f"`{_shown(default)}`"
        is_none = default is None or (isinstance(default, tuple | dict) and not default)
        kind = _type(hints[field.name], field)
        meaning = inline(one.meaning(field.name))
        lines.append(f"| `{field.name}` | {kind} | {'–' if is_none else shown} | {meaning} |")
    return "\n".join(lines)


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _shown(value: Any) -> str:
    """Write a default as TOML does, nested parts by the name they are registered under."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_shown, value))}]"
    for kind in GROUPS:
        for name in registered(kind):
            if part_named(kind, name) is type(value):
                return f'{{ part = "{name}" }}'
    return repr(value)


def _type(hint: Any, field: dataclasses.Field[Any] | None = None) -> str:
    """Say in a file's words what a setting may be."""
    if field is not None and field.metadata.get("column"):
        is_many = any(typing.get_origin(one) is tuple for one in (hint, *typing.get_args(hint)))
        return "list of context columns" if is_many else "context column"
    if field is not None and "reads" in field.metadata:
        return "table"
    if field is not None and "parts" in field.metadata:
        kind = field.metadata["parts"]
        return f"list of tables of a [{kind}](../{kind}/index.md)"
    if hint in _TYPES:
        return _TYPES[hint]
    if field is not None and field.name in GROUPS:
        return f"table of a [{field.name}](../{field.name}/index.md)"
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return "one of " + ", ".join(f"`{choice}`" for choice in inner)
    if origin in (typing.Union, types.UnionType):
        known = dict.fromkeys(_type(one) for one in inner if one is not type(None))
        is_foreign = known.pop(_PYTHON, "") is None
        if not known:
            return _PYTHON
        return " or ".join(known) + (", or an object from Python" if is_foreign else "")
    if origin is tuple:
        kind = _type(inner[0])
        return kind if kind == _PYTHON else f"list of {_plural(kind)}"
    if origin is collections.abc.Mapping and inner[1] == tuple[Column, ...]:
        return "table: name → list of context columns"
    if origin in (dict, collections.abc.Mapping):
        return f"table of {_plural(_type(inner[1]))}"
    return _PYTHON


def _plural(kind: str) -> str:
    if kind == "text":
        return kind
    return kind.replace("list of", "lists of") if kind.startswith("list") else f"{kind}s"


def _sentence(text: str) -> str:
    """Begin with a capital, unless the text begins with a symbol or a name in code."""
    word = text.split(" ", 1)[0]
    is_word = word.isascii() and word.isalpha() and (len(word) > 1 or word == "a")
    return text[:1].upper() + text[1:] if is_word else text


def _first(text: str) -> str:
    """Return the first sentence."""
    whole = " ".join(text.split())
    head, stop, _ = whole.partition(". ")
    return head + (stop.strip() or "")
