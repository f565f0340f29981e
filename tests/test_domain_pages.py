"""Pages of the domains: their figures, the site's colours of them, mathematics that survives."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from docs.generate import domains, suites
from docs.generate.chart import WIDTH, Axis, Line, Panel, drawing
from gdcb.pages.style import CSS

ROOT = Path(__file__).parents[1]
STYLE = (ROOT / "docs" / "assets" / "extra.css").read_text(encoding="utf-8")


@pytest.mark.parametrize("instance", domains.PICTURES)
def test_a_figure_says_what_it_shows(instance: str) -> None:
    """Two panels, each with title, words for who listens, and axes; ids are unique."""
    made = domains.PICTURES[instance]()
    figure = ElementTree.fromstring(made.replace("&nbsp;", " "))  # well formed
    panels = list(figure.iter("svg"))
    charts = [one for one in panels if "chart" in one.get("class", "")]
    assert len(charts) == 2
    for chart in charts:
        named = {one.get("id"): one.text or "" for one in chart.iter() if one.get("id")}
        title, description = (named[name] for name in chart.get("aria-labelledby", "").split())
        assert title
        assert len(description) > 40
    ids = re.findall(r' id="([^"]*)"', made)
    assert len(ids) == len(set(ids))
    assert not re.search(r"\bnan\b", made)
    caption = figure.findtext("figcaption") or ""
    assert any(word in caption for word in ("made", "virtual", "scripted"))


@pytest.mark.parametrize("instance", domains.PICTURES)
def test_the_figure_stands_before_the_first_section(instance: str) -> None:
    text = domains.described(instance)
    assert text.index("# ") < text.index('<figure class="drawn">') < text.index("\n## ")
    readme = ROOT / "src" / "gdcb" / "instances" / instance / "README.md"
    rest = text[: text.index("<figure")] + text[text.index("</figure>") + len("</figure>") :]
    assert rest.split() == readme.read_text(encoding="utf-8").split()


def test_words_and_marks_lie_on_the_paper() -> None:
    """A line that leaves the axes is cut there; what it says stays within the drawing."""
    line = Line("steep", (0, 1, 2), (-5.0, 1.0, 1.5), "c-ours", at=(1.0, 1.0))
    made = drawing("one", Panel("t", "d", Axis("x", (0, 1, 2)), Axis("y", (0, 1, 2)), [line]))
    (points,) = re.findall(r'<polyline[^>]* points="([^"]*)"', made)
    assert len(points.split()) == 2
    assert all(0 <= float(y) <= 250 for y in re.findall(r'y[12]?="(-?[\d.]+)"', made))


def test_the_site_has_the_colours_of_reports() -> None:
    """One palette, in light and in dark; the dark paper is the site's own."""
    light, dark = re.findall(r":root \{([^}]*)\}", CSS)
    for scheme, theirs in ((r":root \{", light), (r'\[data-md-color-scheme="slate"\] \{', dark)):
        (ours,) = re.findall(scheme + r"([^}]*)\}", STYLE)
        named = dict(re.findall(r"--([a-z]+): ([^;]+);", theirs))
        found = dict(re.findall(r"--([a-z]+): ([^;]+);", ours))
        assert set(found) == set(named)
        assert {k: v for k, v in found.items() if v != named[k]}.keys() <= {"paper"}


def test_every_colour_of_a_figure_is_known_to_the_site() -> None:
    made = "".join(make() for make in domains.PICTURES.values()) + domains.figure()
    used = set(re.findall(r"\bc-[a-z]+", made))
    assert used
    assert all(f".drawn .{name} " in STYLE for name in used)


def test_the_figure_of_tools_follows_its_table() -> None:
    names, cells = suites.measured(suites.PAGE.read_text(encoding="utf-8"))
    assert names == ["workspace", "travel", "banking", "slack"]
    made = suites.tools()
    for share, _, _ in cells["attack success, no gate"]:
        assert f" {share:g} %" in made


@pytest.mark.parametrize("instance", domains.PICTURES)
def test_stars_of_symbols_are_not_taken_for_emphasis(instance: str) -> None:
    """δ* twice in a paragraph would set what lies between them in italics, and lose the stars."""
    render = pytest.importorskip("markdown").markdown
    shown = render(domains.described(instance))
    for found in re.findall(r"<em>(.*?)</em>", shown, flags=re.DOTALL):
        assert not set("δθ()=·") & set(found), found


def test_a_long_title_of_an_axis_is_set_narrower() -> None:
    """It stays on the paper, whatever a domain's unit is called."""
    short, long = "regret", "difference in regret, reward a patient, in shares of five hours"
    for words, is_fitted in ((short, False), (long, True)):
        axis = Axis(words, (0, 1))
        made = drawing("one", Panel("t", "d", axis, axis))
        assert made.count("textLength") == 2 * is_fitted
        room = [float(n) for n in re.findall(r'textLength="(\d+)"', made)]
        assert all(length <= WIDTH for length in room)
