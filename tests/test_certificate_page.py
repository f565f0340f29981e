"""The page of a certificate: well formed, self-contained, true to the document, one sheet."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb.errors import InvalidInput
from gdcb.history import sentences as say
from gdcb.history.page import certificate_page
from gdcb.history.page.drawing import SIGNS, bias_bar, place
from gdcb.history.page.glossary import GLOSSARY
from gdcb.history.page.read import read
from gdcb.history.page.style import CSS
from gdcb.pages.numbers import Estimate
from tests.browser import chromium_path
from tests.certificate_document import VERDICTS, build
from tests.page_checks import (
    Page,
    fits,
    is_whole,
    luminance,
    measured,
    n_printed,
    papers,
    printed,
)
from tests.properties import examples

DOCUMENT = build()
PAGE = certificate_page(DOCUMENT)
HOSTILE = '<script>alert("x")</script> & “q” </td>'


def words(document: dict[str, Any]) -> str:
    return Page(certificate_page(document)).text


def changed(path: list[str | int], value: Any) -> dict[str, Any]:
    """Return the document with one value replaced."""
    document = copy.deepcopy(DOCUMENT)
    inner: Any = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return document


def paths(value: Any, start: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return where every value of a document stands."""
    if isinstance(value, dict):
        items: Any = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        return [start]
    return [start, *(one for key, inner in items for one in paths(inner, (*start, key)))]


# The second arm is as the first, but the last was refused: figures of its are null.
PATHS = [path for path in paths(DOCUMENT) if path and path[1:2] not in ((2,), (3,), (4,), (5,))]


def takes_words(path: tuple[str | int, ...]) -> bool:
    """Return whether words may stand there: in lists of remarks, and for text but a verdict."""
    if path[-1] in ("verdict", "verdict_without"):
        return False
    if path[-1] == "is_selective" or "examples" in path[:-1]:
        return True
    if (path[-1] == "reasons" and path[0] != "rows") or path[:-1] in (
        ("rows", "reasons"),
        ("leaks",),
    ):
        return True
    value: Any = DOCUMENT
    for key in path:
        value = value[key]
    return isinstance(value, str)


def test_the_page_is_well_formed_and_stands_alone() -> None:
    """Tags balance, ids are unique, no script, nothing fetched from elsewhere."""
    is_whole(PAGE)
    parsed = Page(PAGE)
    tags = {tag for tag, _ in parsed.attributes}
    assert not tags & {"script", "link", "img", "iframe", "object", "form"}
    assert not [name for _, found in parsed.attributes for name in found if name.startswith("on")]
    assert not re.search(r"https?:|@import|url\(", PAGE)


def test_landmarks_headings_and_table_headers() -> None:
    """Header, main and footer; one h1; every section is named; every table says what is what."""
    parsed = Page(PAGE)
    tags = [tag for tag, _ in parsed.attributes]
    assert [tags.count(tag) for tag in ("header", "main", "footer", "h1")] == [1, 1, 1, 1]
    ids = {found["id"] for _, found in parsed.attributes if "id" in found}
    for tag, found in parsed.attributes:
        if tag == "section":
            assert found.get("aria-label") or found.get("aria-labelledby") in ids
        if tag == "th":
            assert found["scope"] in ("row", "col")
        if tag == "svg":
            assert found.get("aria-hidden") == "true" or found["role"] == "img"
    assert ("html", {"lang": "en-GB"}) in parsed.attributes


@pytest.mark.parametrize(
    "figure",
    [
        "98,765",  # rows read
        "231",
        "57,211",
        "4,211",  # rows of an arm, effective, counted, weight
        "2,990",
        "3,495",
        "83 %",
        "0.137 [0.109, 0.165]",  # its bias
        "0.0071",
        "±0.094",  # the margin in the unit of the biases
        "19 July 2024",
        "pass rate 75 % → 55 %",
        "0.64 (at most 0.67)",  # η
        "2 November 2023: the level of the reward fell (p < 0.001)",
        "−0.014 [−0.045, 0.017]",  # the contrast
        "38,211 approved",
        "19,127 overridden",
        "7 %, p = 0.314",  # missing outcomes
        "Λ* = 1.83, at least 1.52",
        "12 %",  # robustness value
        "η 0.643 × 0.447 = 0.287",
        "0.412 × 0.291 = 0.12",
        "0.47 [0.36, 0.58]",
        "0.00714",  # a threshold
        "family-wise error rate 5 %",
        "0.377",  # a p-value
        "Column “refund”: it determines the outcome",
        "198 rows, column “lead_days”: not a number (for example row 17: n/a; row 803: ?)",
        "bookings-2022-2025.parquet",
        str(DOCUMENT["fingerprint"]),
        "gdcb 0.1.0",
        "gdcb check bookings-2022-2025.parquet --instance str",
        "Prepared by",
        "Reviewed by",
    ],
)
def test_every_figure_is_on_the_page(figure: str) -> None:
    """Rounded as a reader wants it."""
    assert figure in Page(PAGE).text


def test_every_reason_is_on_the_page_once() -> None:
    """Those of the verdict at the top; those of an arm under the table, without its name twice."""
    text = words(DOCUMENT)
    for reason in DOCUMENT["reasons"][1:]:
        assert text.count(reason) == 1
    assert text.count("Contexts move the mean of 0.80 by 0.146 (0.116 to 0.176), of 0.85 by") == 1
    assert text.count("nearly quadratic in x: the plain mean would overstate the arm.") == 1
    one = words(build(3))
    assert "0.80: Its contexts move its mean by 0.146 (0.116 to 0.176) standard deviations" in one
    assert "1.15 and 1.20: Was never executed in this history" in text


def test_the_box_lists_what_the_certificate_rests_on() -> None:
    """In order, each with whether it was tested and what was found; a page without them says so."""
    text = words(DOCUMENT)
    start = text.index("What this rests on")
    box = text[start : text.index("What was done with the history")]
    places = [box.index(one["name"]) for one in DOCUMENT["assumptions"]]
    assert places == sorted(places)
    for one in DOCUMENT["assumptions"]:
        tested = "Tested." if one["tested"] else "Not tested."
        assert f"{one['name']}. {tested} {one['result']}" in box
    assert text.index("Verdict: adjust") < start
    assert "The certificate does not say." in words(changed(["assumptions"], None))


@pytest.mark.parametrize("verdict", VERDICTS)
def test_the_verdict_is_said_in_words_and_by_a_sign_of_its_own(verdict: str) -> None:
    """Not by colour alone."""
    page = certificate_page(build(9, verdict))
    is_whole(page)
    assert f"<b>{verdict}</b>" in page
    assert say.VERDICTS[verdict] in Page(page).text
    assert SIGNS[verdict] in page
    assert len(set(SIGNS.values())) == len(VERDICTS)


def test_how_rows_are_weighted_is_said() -> None:
    assert "Weights above 20 were cut to 20" in words(build(9, "reweight"))
    assert "estimated from the log" in words(build(9, "reweight"))
    document = build(9, "reweight")
    document["treatment"]["reweight"]["propensities"] = "logged"
    assert "as the log states it" in words(document)


def test_an_override_cannot_be_missed() -> None:
    """A box before the verdict, the verdict itself, and the lines to sign on say so."""
    page = certificate_page(build(9, "direct", override=True))
    is_whole(page)
    text = Page(page).text
    for sentence in (
        "A person overrode this certificate",
        "Without the override its verdict is “refuse”: the history must not be used.",
        "Pilot on 5 % of traffic, ends 31 May.",
        "By override: The history may be used as it is, if what this rests on holds.",
        "Prepared by (with the override above)",
    ):
        assert sentence in text
    assert page.index('class="override"') < page.index('class="verdict')
    assert (
        "override" not in re.sub(r"<style>.*?</style>", "", PAGE, flags=re.S).split("<footer>")[0]
    )


def test_the_reasons_do_not_repeat_the_override() -> None:
    document = build(9, "direct", override=True)
    own = document["override"]
    document["reasons"].insert(0, say.override_of_verdict(own["reason"], own["verdict_without"]))
    document["reasons"].append(say.verdict("refuse"))
    text = words(document)
    assert text.count("Pilot on 5 % of traffic") == 1
    assert say.verdict("refuse") not in text


@pytest.mark.parametrize("n_arms", [0, 1, 25])
def test_any_number_of_arms(n_arms: int) -> None:
    page = certificate_page(build(n_arms))
    is_whole(page)
    assert page.count('class="stay name"') >= n_arms
    if not n_arms:
        assert "names no arm" in page


@pytest.mark.parametrize("path", PATHS, ids=lambda path: ".".join(map(str, path)))
def test_what_is_null_is_left_out(path: tuple[str | int, ...]) -> None:
    """Any one value may be null but the verdicts: the page is whole without it."""
    document = changed(list(path), None)
    if path[-1] in ("verdict", "verdict_without"):
        with pytest.raises(InvalidInput, match="expected direct, adjust, reweight, refuse"):
            certificate_page(document)
    else:
        is_whole(certificate_page(document))


def test_nulls_everywhere() -> None:
    """Nothing but the verdict."""
    document = dict.fromkeys(DOCUMENT) | {"verdict": "refuse"}
    for one in (document, {"verdict": "direct"}):
        page = certificate_page(one)
        is_whole(page)
        assert "not recorded" in page
        assert "No test was made" in page


@pytest.mark.parametrize("path", PATHS, ids=lambda path: ".".join(map(str, path)))
def test_names_from_elsewhere_are_escaped(path: tuple[str | int, ...]) -> None:
    """Whatever a log, a gate or a person is called, it stays words; figures must be figures."""
    document = changed(list(path), HOSTILE)
    if takes_words(path):
        page = certificate_page(document)
        is_whole(page)
        assert "<script" not in page
    else:
        with pytest.raises(InvalidInput, match="expected"):
            certificate_page(document)


def test_hostile_names_are_shown_as_they_are() -> None:
    """The escape is seen to be one: the name is on the page."""
    for path in (["arms", 0, "arm"], ["gates", 0, "name"], ["log"], ["tests", 0, "name"]):
        assert "alert(" in certificate_page(changed(path, HOSTILE))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["verdict"], "yes", "certificate: verdict: expected direct, adjust"),
        (["arms"], "abc", "arms: expected a list or null"),
        (["arms", 0], 3, r"arms\[0\]: expected an object or null"),
        (["arms", 0, "rows"], "12", r"arms\[0\].rows: expected a number or null"),
        (["arms", 0, "bias"], {"mean": "<b>"}, r"arms\[0\].bias.mean: expected a number"),
        (["gates", 0, "change_points"], 1, "change_points: expected a list or null"),
        (["gates", 0, "change_points", 0, "time"], [], "time: expected a number or null"),
        (["reward_law", "stable"], "no", "reward_law.stable: expected true, false or null"),
        (["override"], "x", "override: expected an object or null"),
        (["rows"], [], "rows: expected an object or null"),
    ],
)
def test_what_is_wrong_is_refused(path: list[str | int], value: Any, message: str) -> None:
    """The message says where, what was expected and what came."""
    with pytest.raises(InvalidInput, match=message):
        certificate_page(changed(path, value))


def test_a_document_is_an_object() -> None:
    with pytest.raises(InvalidInput, match="expected the document of a certificate, got list"):
        certificate_page([])  # type: ignore[arg-type]


# Figures


def test_a_bar_shows_the_bias_against_the_margin() -> None:
    """Round within, square beyond, an arrow off the scale; nothing lies outside the frame."""
    assert "<circle" in bias_bar(Estimate(0.05, 0.0, 0.1), 0.1, 0.5)
    beyond = bias_bar(Estimate(0.2, 0.1, 0.3), 0.1, 0.5)
    assert "c-red" in beyond
    assert "<circle" not in beyond
    assert "l9,5" in bias_bar(Estimate(3.0, 2.0, 4.0), 0.1, 0.5)
    assert "l-9,5" in bias_bar(Estimate(-3.0, -4.0, -2.0), 0.1, 0.5)


@given(st.floats(-10, 10), st.floats(0, 10), st.floats(0.01, 1))
@examples(50)
def test_a_bar_stays_in_its_frame(mean: float, half: float, margin: float) -> None:
    drawn = bias_bar(Estimate(mean, mean - half, mean + half), margin, 5 * margin)
    ends = [float(x) for x in re.findall(r'\bx[12]?="([-\d.]+)"', drawn)]
    assert ends
    assert all(0 <= x <= 110 for x in ends)


def test_times_are_placed_in_the_period() -> None:
    period = ("2025-01-01T00:00:00+00:00", "2025-01-11")
    assert place("2025-01-06", period) == pytest.approx(0.5)
    assert place("2024-01-01", period) == 0.0
    assert place("someday", period) is None
    assert place(500, (1, 999)) == pytest.approx(0.5)
    assert place(5, (5, 5)) is None


def test_numbers_of_near_changes_do_not_lie_on_each_other() -> None:
    """Two changes of one week, and one of the last day: the first was hidden under the second."""
    near = [{"time": f"2023-11-0{day}", "what": "the level", "p": 1e-5} for day in (2, 5)]
    near.append({"time": "2025-12-31", "what": "the level", "p": 1e-5})
    page = certificate_page(changed(["reward_law", "change_points"], near))
    rows = re.findall(r'class="number" cx="([\d.]+)" cy="([\d.]+)"', page)
    first = [float(x) for x, y in rows if y == rows[0][1]]
    assert len(first) == 3
    assert first[1] - first[0] >= 16
    assert max(first) + 8 <= 420


def test_without_a_period_dates_are_told_and_not_drawn() -> None:
    """Rows have a first and a last; dates need to know where the log begins and ends."""
    assert 'id="timeline-t"' in PAGE
    without = certificate_page(changed(["period"], None))
    assert 'id="timeline-t"' not in without
    assert "19 July 2024: pass rate" in Page(without).text
    rows = build(dated=False)
    rows["period"] = None
    assert "row 98,765" in certificate_page(rows)


def test_the_margin_is_in_the_unit_of_the_biases() -> None:
    """Without a spread it is so already."""
    assert read(DOCUMENT).limit == pytest.approx(0.094)
    assert read(changed(["spread"], None)).limit == 0.1
    assert "0.1 standard deviations of the outcome" in words(DOCUMENT)
    assert "±0.1." in words(changed(["spread"], None))


def test_words_of_the_page_are_explained() -> None:
    """What is no everyday word stands in the glossary, and the glossary is on the page."""
    text = words(DOCUMENT)
    for word, meaning in GLOSSARY.items():
        assert f"{word} {meaning}." in text or f"{word}: {meaning}." in text
    for word in ("arm", "gate", "bias", "margin", "p", "threshold", "contraction η", "prior"):
        assert word in GLOSSARY


# In a browser


@pytest.fixture(scope="module")
def chromium() -> str:
    return chromium_path()


@pytest.mark.parametrize("verdict", VERDICTS)
def test_nine_arms_fit_on_one_sheet(chromium: str, tmp_path: Path, verdict: str) -> None:
    """Both sides of it."""
    assert n_printed(chromium, tmp_path, certificate_page(build(9, verdict))) == 2


def test_an_overridden_certificate_fits_on_one_sheet_and_many_arms_flow_on(
    chromium: str, tmp_path: Path
) -> None:
    page = certificate_page(build(9, "direct", override=True))
    assert n_printed(chromium, tmp_path, page) == 2
    assert n_printed(chromium, tmp_path, certificate_page(build(60))) > 2
    assert b"/Subtype /Image" not in printed(chromium, tmp_path, page)


@pytest.fixture(scope="module")
def measures(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    pages = {
        "usual": PAGE,
        "many": certificate_page(build(25, "reweight", override=True, dated=False)),
        "long": certificate_page(changed(["arms", 0, "arm"], "W" * 60)),
    }
    return measured(chromium, tmp_path_factory.mktemp("browser"), pages, (390, 1280))


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["usual", "many", "long"])
def test_on_a_phone_and_on_a_desk(measures: dict[str, Any], name: str, width: int) -> None:
    """Nothing overflows, no label of the timeline lies on another, none is tiny."""
    found = measures[f"{name} {width}"]
    fits(found, width, 10.5)


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["usual", "many", "long"])
def test_prose_wraps_inside_the_screen(measures: dict[str, Any], name: str, width: int) -> None:
    """What the further figures mean was cut on every line; tables of numbers may scroll."""
    assert "Further figures" not in measures[f"{name} {width}"]["scrolled"]


def test_dark_where_the_reader_wants_it(chromium: str, tmp_path: Path) -> None:
    dark, light = papers(chromium, tmp_path, PAGE)
    assert (dark, light) == ("rgb(21, 23, 26)", "rgb(255, 255, 255)")


@pytest.mark.parametrize("scheme", [0, 1])
@pytest.mark.parametrize("ground", ["paper", "tint"])
def test_colours_stand_out(scheme: int, ground: str) -> None:
    """Words have a contrast of 4.5 with paper and tint, light and dark."""
    tables = [dict(re.findall(r"--(\w+): (#\w+)", found)) for found in CSS.split("@media")[:2]]
    behind = luminance(tables[scheme][ground])
    for name in ("ink", "soft", "red", "green", "purple", "ours"):
        ends = sorted((behind, luminance(tables[scheme][name])))
        assert (ends[1] + 0.05) / (ends[0] + 0.05) >= 4.5, name
