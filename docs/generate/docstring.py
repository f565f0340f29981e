"""Read a numpydoc docstring, and write its pieces as Markdown."""

from __future__ import annotations

import html
import inspect
import re
from dataclasses import dataclass

_SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}$", re.MULTILINE)
_ENTRY = re.compile(r"^(\w+(?:, \w+)*) : (.*)$")
_NOTE = re.compile(r"^(Assumes|Stops applying): +")
_CODE = re.compile(r"(``.+?``|`[^`]+`)", re.DOTALL)
_EMPHASIS = re.compile(r"(?<![\w*])\*(\w(?:[^*]*\w)?)\*(?![\w*])")
# A symbol of one letter (hats and bars may follow it) with an index of one or two. ᵀ counts as a
# letter to Unicode, but in a formula it ends an index, and a symbol may follow it.
_INDEX = re.compile(r"(?<![^\Wᵀ])([^\W\d_ᵀ][\u0300-\u036f]*)\\_([^\W_ᵀ]{1,2})(?![^\Wᵀ]|\\_)")
# An index or a power in brackets, or a power of one letter.
_LONG_INDEX = re.compile(r"\\_\\{(.+?)\\}")
_POWER = re.compile(r"\^(?:\(([^()]+)\)|([^\W_])(?!\w))")


@dataclass(frozen=True)
class Docstring:
    """The pieces of a part's docstring, each as it is written there.

    Parameters
    ----------
    summary : the first line
    formula : paragraphs between the summary and the first section
    parameters : meaning of each setting by name
    assumes, stops : the paragraphs of `Notes` that begin so, without these words
    notes : the other paragraphs of `Notes`
    examples : prose and doctests, in their order
    """

    summary: str
    formula: tuple[str, ...]
    parameters: dict[str, str]
    assumes: str
    stops: str
    notes: tuple[str, ...]
    examples: tuple[str, ...]

    @property
    def doctests(self) -> tuple[str, ...]:
        """The examples that are code."""
        return tuple(block for block in self.examples if is_doctest(block))


def parse(text: str) -> Docstring:
    """Split a docstring into its pieces; what is missing is empty.

    Examples
    --------
    >>> found = parse('''Add one.
    ...
    ... e = a + 1.
    ...
    ... Parameters
    ... ----------
    ... low, high : limits
    ...     of a
    ...
    ... Notes
    ... -----
    ... Assumes: a is finite.
    ... ''')
    >>> found.summary, found.formula, found.assumes
    ('Add one.', ('e = a + 1.',), 'a is finite.')
    >>> found.parameters
    {'low': 'limits of a', 'high': 'limits of a'}
    """
    head, *rest = _SECTION.split(inspect.cleandoc(text))
    sections = dict(zip(rest[::2], rest[1::2], strict=True))
    first, *formula = paragraphs(head) or ("",)
    notes = {"Assumes": "", "Stops applying": ""}
    others = []
    for block in paragraphs(sections.get("Notes", "")):
        start = _NOTE.match(block)
        if start:
            notes[start[1]] = block[start.end() :]
        else:
            others.append(block)
    return Docstring(
        summary=joined(first),
        formula=tuple(formula),
        parameters=_entries(sections.get("Parameters", "")),
        assumes=notes["Assumes"],
        stops=notes["Stops applying"],
        notes=tuple(others),
        examples=paragraphs(sections.get("Examples", "")),
    )


def paragraphs(text: str) -> tuple[str, ...]:
    """Split at blank lines; doctests that follow each other stay one block."""
    blocks: list[str] = []
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        if blocks and is_doctest(block) and is_doctest(blocks[-1]):
            blocks[-1] += "\n" + block
        elif block.strip():
            blocks.append(block.rstrip())
    return tuple(blocks)


def is_doctest(block: str) -> bool:
    """Whether a block begins with a prompt."""
    return block.lstrip().startswith(">>>")


def joined(block: str) -> str:
    """Return a block on one line."""
    return " ".join(block.split())


def _entries(text: str) -> dict[str, str]:
    """Read 'name, name : meaning', whose further lines are indented."""
    found: dict[str, str] = {}
    names: list[str] = []
    for line in text.splitlines():
        entry = _ENTRY.match(line)
        if entry:
            names = entry[1].split(", ")
            found |= dict.fromkeys(names, entry[2])
        elif line.startswith(" ") and names:
            found |= {name: f"{found[name]} {line.strip()}" for name in names}
    return found


def markdown(block: str) -> str:
    r"""Write a paragraph, a list or an indented formula as Markdown.

    >>> print(markdown("δ_θ(x) | `a_b` in [low, high], *not* a*b"))
    δ<sub>θ</sub>(x) \| `a_b` in \[low, high\], *not* a\*b
    >>> print(markdown("Π_{h≠f} g_h · a^A / m^(F−1), n_arms"))
    Π<sub>h≠f</sub> g<sub>h</sub> · a<sup>A</sup> / m<sup>F−1</sup>, n\_arms
    >>> print(markdown("θ_fᵀφ_f + φ(x)ᵀw_a"))
    θ<sub>f</sub>ᵀφ<sub>f</sub> + φ(x)ᵀw<sub>a</sub>
    """
    if is_doctest(block):
        return f"```pycon\n{inspect.cleandoc(block)}\n```"
    if block.startswith(" "):
        return f"```text\n{inspect.cleandoc(block)}\n```"
    if block.startswith("- "):
        items = re.split(r"\n?^- ", block, flags=re.MULTILINE)[1:]
        return "\n".join(f"- {inline(item)}" for item in items)
    return inline(block)


def inline(text: str) -> str:
    """Write running text as Markdown on one line: code and emphasis stay, the rest is literal."""
    pieces = _CODE.split(joined(text))
    return "".join(piece if i % 2 else _literal(piece) for i, piece in enumerate(pieces))


def _literal(text: str) -> str:
    marked = _EMPHASIS.sub("\0\\1\0", text)
    escaped = re.sub(r"([\\`*_{}\[\]|#])", r"\\\1", html.escape(marked, quote=False))
    escaped = re.sub(r"^(\d+)([.)])(?= )", r"\1\\\2", escaped)
    escaped = re.sub(r"^([-+])(?= )", r"\\\1", escaped)
    indexed = _LONG_INDEX.sub(r"<sub>\1</sub>", _INDEX.sub(r"\1<sub>\2</sub>", escaped))
    return _POWER.sub(r"<sup>\1\2</sup>", indexed).replace("\0", "*")
