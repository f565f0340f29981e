"""Times, amounts, addresses and figures, by hand and by property."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from itertools import pairwise
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb.pages.numbers import Estimate
from gdcb.service.pages import charts, links, wording
from gdcb.service.pages.views.dashboard import Bin, Series
from gdcb.service.pages.views.decision import Quantity
from tests.properties import examples

DAY = 86_400 * wording.SECOND
# Half a character is no name: nothing stores it.
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
numbers = st.one_of(st.none(), st.floats(), st.integers(-(2**60), 2**60).map(float))


@pytest.mark.parametrize(("seconds", "words"), [
    (0, "0 s"), (59.9, "59 s"), (60, "1 min"), (3_599, "59 min"), (3_600, "1 h"),
    (47 * 3_600 + 60, "47 h 1 min"), (48 * 3_600, "2 d"), (50 * 3_600, "2 d 2 h"),
    (None, "–"), (math.nan, "–"), (-120, "2 min"),
])  # fmt: skip
def test_span(seconds: float | None, words: str) -> None:
    assert wording.span(seconds) == words


def test_times_near_now_leave_out_the_day() -> None:
    now = 1_781_622_000_000_000
    assert wording.soon(now + 12 * 60 * wording.SECOND, now) == (
        '<time datetime="2026-06-16T15:12:00Z">15:12 UTC</time>'
    )
    assert "17 Jun 2026" in wording.soon(now + DAY, now)
    assert wording.left(now, now) == "deadline passed"
    assert wording.left(now + 90 * wording.SECOND, now) == "1 min 30 s left"
    assert wording.since(None, now) == "–"


@given(st.integers(-(2**80), 2**80))
def test_every_time_is_a_time_or_a_dash(at: int) -> None:
    """Also before the calendar and after it."""
    found = wording.when(at)
    assert found == "–" or re.fullmatch(r'<time datetime="[^"]+Z">[^<]+ UTC</time>', found)


@pytest.mark.parametrize(("value", "unit", "digits", "words"), [
    (142.5, "€", None, "142.5\u00a0€"), (142.5, "", 0, "142"), (0.1 + 0.2, "", None, "0.3"),
    (-3, "", None, "−3"), (1e6, "", None, "1,000,000"), (math.inf, "€", None, "–"),
    ("", "€", None, "–"), ("lispro", "", None, "lispro"), (-0.001, "", 1, "0.0"),
])  # fmt: skip
def test_amount(value: float | str, unit: str, digits: int | None, words: str) -> None:
    assert wording.amount(value, unit, digits) == words


@given(numbers, numbers)
def test_a_change_is_in_per_cent_or_not_said(old: float | None, new: float | None) -> None:
    """Never a division by zero, never NaN."""
    said = wording.change((Quantity("a", old),), (Quantity("a", new),))
    assert said == "" or re.fullmatch(r"[+−][\d,]+(\.\d)? %", said)


def test_a_change_needs_two_numbers() -> None:
    one = (Quantity("a", 100.0),)
    assert wording.change(one, (Quantity("a", 125.0),)) == "+25 %"
    assert wording.change(one, (Quantity("a", 98.0),)) == "−2.0 %"
    assert wording.change((Quantity("a", -100.0),), (Quantity("a", -50.0),)) == "+50 %"
    assert wording.change(one, one * 2) == ""
    assert wording.change((), one) == ""
    assert wording.change(one, (Quantity("a", "lispro"),)) == ""


def test_an_estimate_in_a_narrow_column() -> None:
    assert wording.cell(Estimate(5.0, 4.0, 6.0), 1) == '5.0 <span class="bounds">[4.0, 6.0]</span>'
    assert wording.cell(Estimate(5.0)) == "5"
    assert wording.cell(None) == "–"
    assert wording.worth(Estimate(5.0, 4.0, 6.0), "€") == "5.0 [4.0, 6.0] €"


@given(names, names)
def test_names_survive_an_address(instance: str, name: str) -> None:
    """What goes into a path comes out of it, whatever it is."""
    found = links.instance(instance, "d", name)
    parts = found.split("/")
    assert parts[:2] == ["", "i"]
    assert [unquote(parts[2]), unquote(parts[4])] == [instance, name]
    assert re.fullmatch(r"[A-Za-z0-9/%._~-]+", found)


@given(st.text())
def test_where_to_go_back_to_is_ours(path: str) -> None:
    """No other host, no scheme, no line break: those are the home page."""
    found = links.own(path)
    assert found in (path, "/")
    try:
        parts = urlsplit(found)
    except ValueError:
        pytest.fail(f"{found!r} is no address")
    assert (parts.scheme, parts.netloc) == ("", "")
    assert found.startswith("/")


@pytest.mark.parametrize("path", ["", "i/rent", "//x.example", "/\\x.example", "https://x.example",
                                  "/a\\b", "/a\nb", "/\tx", "javascript:alert(1)"])  # fmt: skip
def test_foreign_addresses_are_home(path: str) -> None:
    assert links.own(path) == "/"


def test_a_scale_by_hand() -> None:
    """From 0 to 100 between the edges of 4 %: 50 is in the middle, 25 at 4 + 92/4."""
    scale = charts.Scale(0.0, 100.0)
    assert [scale.at(value) for value in (0, 25, 50, 100)] == [4.0, 27.0, 50.0, 96.0]
    assert (scale.at(-1e9), scale.at(1e9)) == (4.0, 96.0)


def test_a_scale_holds_intervals_and_its_ticks_lie_inside() -> None:
    scale = charts.scale_of([Estimate(5, -3, 11), None, Estimate(2)])
    assert (scale.low, scale.high) == (-3, 11)
    assert scale.ticks == (0.0, 5.0, 10.0)
    assert charts.scale_of([], None).ticks[0] == 0.0
    alone = charts.scale_of([Estimate(7)])
    assert alone.low <= 7 < alone.high


def test_an_interval_by_hand() -> None:
    """Dot at the mean, line from low to high; what is marked is no dot."""
    scale = charts.Scale(0.0, 100.0)
    drawn = charts.interval(Estimate(50, 25, 75), scale)
    assert '<line x1="27.00%" y1="13.0" x2="73.00%" y2="13.0" class="whisker"/>' in drawn
    assert 'cx="50.00%"' in drawn
    assert "circle" not in charts.interval(Estimate(50, 25, 75), scale, mark=True)
    assert "whisker" not in charts.interval(None, scale)


series = st.lists(numbers, max_size=12)


@examples()
@given(series, st.lists(st.integers(-3, 20), max_size=3), st.text(max_size=20))
def test_figures_are_xml_whatever_they_show(
    values: list[float | None], alarms: list[int], name: str
) -> None:
    """Finite coordinates, escaped names; also for NaN, infinity, nothing at all."""
    one = Series(name, tuple(values), tuple(alarms))
    times = tuple(i * DAY for i in range(len(values)))
    bins = [Bin(float(i), None if v is None else Estimate(v)) for i, v in enumerate(values)]
    top = charts.top_of([one])
    drawn = [charts.columns(one, times), charts.rates(one, times, top), charts.calibration(bins)]
    drawn += [charts.bar(value) for value in values]
    estimates = [Estimate(a or 0.0, a, b) for a, b in pairwise(values)]
    scale = charts.scale_of(estimates)
    drawn += [charts.axis(scale), *(charts.interval(one, scale) for one in estimates)]
    for figure in drawn:
        assert not re.search(r"\b(nan|inf)\b", re.sub(r'aria-label="[^"]*"', "", figure))
        if not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]", name):
            ET.fromstring(figure)


def test_alarms_are_told_and_ringed() -> None:
    one = Series("cap", (0.1, 0.2, 0.5), (2,))
    drawn = charts.rates(one, (0, DAY, 2 * DAY), 0.5)
    assert drawn.count('class="ring"') == 1
    assert "drift alarms: 3 Jan 1970, 00:00 UTC" in drawn
    assert "50 % at the end" in drawn
