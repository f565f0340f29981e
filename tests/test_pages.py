"""Pages made from the registered parts, and the taxonomy: whole, true and in the navigation."""

from __future__ import annotations

import doctest
import re
import tomllib
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mkdocs.config import load_config

from docs import hooks
from docs.generate import docstring, drawing, parts, reductions, taxonomy
from gdcb import declaration
from gdcb.declaration import GROUPS, part_named, registered

ROOT = Path(__file__).parents[1]
PARTS = [parts.part(kind, name) for kind in GROUPS for name in registered(kind)]
SVG = "{http://www.w3.org/2000/svg}"
each_part = pytest.mark.parametrize("part", PARTS, ids=lambda part: f"{part.kind}-{part.name}")


def missing(part: parts.Part) -> list[str]:
    """Return the pieces that a part's docstring lacks."""
    doc, text = part.doc, " ".join((part.doc.summary, *part.doc.formula))
    lacks = {
        "a summary, one sentence on the first line": not re.fullmatch(r"\S.*\.", doc.summary),
        "a formula before the sections (=, ~, ≤, ∈, →, ∫ or Σ)": not re.search("[=~≤≥∈→∫Σ]", text),
        "in Notes, a paragraph 'Assumes: ...'": not doc.assumes,
        "in Notes, a paragraph 'Stops applying: ...'": not doc.stops,
        "in Examples, a doctest": not doc.doctests,
    }
    unsaid = [field.name for field in part.settings if not part.meaning(field.name)]
    settings = [f"in Parameters, the meaning of {', '.join(unsaid)}"] if unsaid else []
    return [piece for piece, is_missing in lacks.items() if is_missing] + settings


@each_part
def test_every_docstring_has_all_pieces(part: parts.Part) -> None:
    """Formula, settings, assumptions, where the theory stops and an example, all in one place."""
    lacks = missing(part)
    assert not lacks, f"{part.cls.__name__} in {part.source} lacks {'; '.join(lacks)}"


def test_a_bare_docstring_lacks_everything() -> None:
    """The check can fail: a class with one line and one setting lacks every other piece."""

    @dataclass(frozen=True)
    class Bare:
        """Something."""

        limit: float = 1.0

    lacks = missing(parts.Part("gate", "bare", Bare, docstring.parse(Bare.__doc__ or "")))
    assert [piece.split()[-1] for piece in lacks] == ["Σ)", "...'", "...'", "doctest", "limit"]


@each_part
def test_every_page_has_its_sections_in_order(part: parts.Part) -> None:
    """A reader finds the same headings on every page; the source is a file of the repository."""
    page = parts.page(part)
    found = [line[3:] for line in page.splitlines() if line.startswith("## ")]
    expected = ["Formula"] * bool(part.doc.formula)
    expected += ["In a file", "Assumes", "Where it stops applying"]
    expected += ["Notes"] * bool(part.doc.notes)
    expected += ["What it declares"] * (part.kind in parts.DECLARES)
    assert found == [*expected, "Example", "Source"]
    assert (ROOT / part.source).is_file()
    for field in part.settings:
        assert page.count(f"\n| `{field.name}` |") == 1


@each_part
def test_every_page_shows_how_a_file_names_it(part: parts.Part) -> None:
    """The TOML of the page parses and names the part; without TOML the page says why."""
    page = parts.page(part)
    code = re.findall(r"```toml\n(.*?)```", page, flags=re.DOTALL)
    if not code:
        assert re.search(r"No file can name it: `\w+` comes from Python", page)
        return
    data: Any = tomllib.loads(code[0])
    table = data["gates"][0] if "gates" in data else next(iter(data.values()))
    assert (table["kernel"] if part.kind == "kernel" else table)["part"] == part.name


@pytest.mark.parametrize(("kind", "name"), parts.EXAMPLES)
def test_what_a_page_gives_for_required_settings_is_a_file_that_works(kind: str, name: str) -> None:
    """Put into a whole file, the lines of the page build the part."""
    code = re.findall(r"```toml\n(.*?)```", parts.in_file(parts.part(kind, name)), flags=re.DOTALL)
    assert "is required" not in code[0]
    rest = {
        "arms": '{ part = "list", values = [0.8, 1.25] }',
        "composition": '{ part = "multiply" }',
        "gates": "[]",
        "reward": '{ part = "payoff", outcome = ["won"] }',
        "bandit": '{ part = "beta-thompson" }',
    }
    if name == "kalman-gain":
        rest["arms"] = '{ part = "list", names = ["calm", "rough"] }'
        rest["scaler"] = '{ part = "constant", n_arms = 2, n_columns = 2 }'
    lines = ['name = "page"', 'context.busy = { type = "number", low = 0.0, high = 1.0 }']
    lines += [f"{table} = {value}" for table, value in rest.items() if table != kind]
    built = declaration.parse("\n".join((*lines, code[0])))
    made = {"arms": built.instance.arms, "bandit": built.bandit} | {
        one: getattr(built.instance, one) for one in ("scaler", "composition")
    }
    assert isinstance(made[kind], part_named(kind, name))


@each_part
def test_types_are_said_in_words_of_a_file(part: parts.Part) -> None:
    """A type that only Python has is not put into the plural, nor into a list."""
    assert not re.search(r"of from Python|onlys|or from Python", parts.page(part))


@each_part
def test_the_example_of_every_page_runs_by_itself(part: parts.Part) -> None:
    """What a reader copies from the page gives what the page says, in a fresh interpreter."""
    code = re.findall(r"```pycon\n(.*?)```", parts.page(part), flags=re.DOTALL)
    test = doctest.DocTestParser().get_doctest("\n".join(code), {}, part.name, part.source, 0)
    said: list[str] = []
    ran = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    result = ran.run(test, out=said.append)
    assert result.attempted > 0
    assert result.failed == 0, "".join(said)


def test_the_readers_own_examples_hold() -> None:
    """Docstrings are read and escaped as the reader's own docstring says."""
    assert doctest.testmod(docstring) == (0, 6)


def test_every_part_is_in_the_navigation() -> None:
    """Each kind's section has its table first and then a page for every part."""
    nav = hooks.on_config(load_config(str(ROOT / "mkdocs.yml"))).nav
    assert isinstance(nav, list)
    sections = next(item["Parts"] for item in nav if "Parts" in item)
    pages = [page for section in sections[1:] for page in next(iter(section.values()))]
    kinds = [page for page in pages if isinstance(page, str)]
    named = [path for page in pages if isinstance(page, dict) for path in page.values()]
    assert sorted(kinds) == sorted(f"parts/{kind}/index.md" for kind in GROUPS)
    assert sorted(named) == sorted(part.uri for part in PARTS)


def test_the_site_is_readable_from_disk_and_asks_no_other_host() -> None:
    """Links name files, and every script that a page loads lies in the documentation."""
    config = load_config(str(ROOT / "mkdocs.yml"))
    config = config.plugins.on_config(config)
    assert not config.use_directory_urls
    for script in config.extra["polyfills"]:
        assert (ROOT / "docs" / script).is_file()


@pytest.mark.parametrize("uri", hooks.PIECES)
def test_every_made_piece_has_its_place(uri: str) -> None:
    """The page asks for each of its pieces, and gets them."""
    text = (ROOT / "docs" / uri).read_text(encoding="utf-8")
    made = hooks.filled(text, uri)
    assert len(made) > len(text)
    assert "<!--" not in made


def test_a_page_without_the_place_is_refused() -> None:
    """A table that nobody sees must not go unnoticed."""
    with pytest.raises(ValueError, match=r"parts/gate/index\.md: expected one <!-- parts -->"):
        hooks.filled("# Gates", "parts/gate/index.md")


# The taxonomy


@pytest.mark.parametrize(
    ("kind", "order"),
    [("composition", taxonomy.COMPOSITIONS), ("scaler", taxonomy.SCALERS)],
    ids=["composition", "scaler"],
)
def test_every_registered_part_has_a_step_on_its_axis(kind: str, order: dict[str, str]) -> None:
    """A newly registered composition or scaler must be placed in `docs/generate/taxonomy.py`."""
    assert set(registered(kind)) <= set(order)


def test_the_drawing_names_every_composition_scaler_and_gate() -> None:
    """Each is a link to its page; there is nothing else to follow, and words stand beside it."""
    root = ET.fromstring(drawing.svg())
    links = {link.get("href") for link in root.iter(f"{SVG}a")}
    kinds = ("composition", "scaler", "gate")
    assert links == {f"parts/{kind}/{name}.html" for kind in kinds for name in registered(kind)}
    title, desc = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None
    assert desc is not None
    for one in taxonomy.placements():
        assert f"{one.label}: {one.cell[0]}, {one.cell[1]}, {one.gate}." in (desc.text or "")


def test_every_placement_is_drawn_in_the_cell_of_its_parts() -> None:
    """A label lies right of its composition's heading and below its scaler's, before the next."""
    root = ET.fromstring(drawing.svg())
    at: dict[str, tuple[float, float]] = {}
    for text in root.iter(f"{SVG}text"):
        at.setdefault(text.text or "", (float(text.get("x", 0)), float(text.get("y", 0))))
    columns = sorted((at[step][0], step) for step in set(taxonomy.COMPOSITIONS.values()))
    rows = sorted((at[step][1], step) for step in set(taxonomy.SCALERS.values()) if step in at)
    for one in taxonomy.placements():
        x, y = at[one.label]
        assert [step for left, step in columns if left <= x][-1] == one.cell[0], one.label
        assert [step for top, step in rows if top <= y][-1] == one.cell[1], one.label


def test_the_seven_domains_stand_where_their_parts_do() -> None:
    """The composition of each is the one that its page of instances tells."""
    domains = {one.label: one for one in taxonomy.placements() if one.source is None}
    assert {name: one.composition for name, one in domains.items()} == {
        "str": "multiply",
        "dosing": "add",
        "credit": "multiply",
        "grid": "add",
        "moderation": "identity",
        "tools": "prompt",
        "kalman": "kalman-gain",
    }
    assert {name for name, one in domains.items() if one.gate == "person"} == {
        "str",
        "dosing",
        "moderation",
        "kalman",
    }


@pytest.mark.parametrize("one", reductions.REDUCTIONS, ids=lambda one: one.label)
def test_every_classical_algorithm_is_a_file_of_registered_parts(one: Any) -> None:
    """It was built from its file; the test that shows the reduction exists."""
    placed = next(found for found in taxonomy.placements() if found.source is one)
    assert placed.bandit in registered("bandit")
    assert placed.scaler == "constant"  # none of them has a second loop
    if one.shown_by:
        path, _, name = one.shown_by.partition("::")
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")
