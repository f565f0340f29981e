"""The report: well formed, self-contained, true to the document, and whole where it is not."""

from __future__ import annotations

import copy
import itertools
import json
import re
import xml.etree.ElementTree as ET
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb.errors import InvalidInput
from gdcb.pages.marks import spread, ticks
from gdcb.pages.numbers import Estimate, fixed, plain, plus_minus, probability, share
from gdcb.protocol import summary
from gdcb.protocol.report import report
from gdcb.protocol.report.bars import segments
from gdcb.protocol.report.document import ABLATIONS
from gdcb.protocol.report.drawing import Series
from gdcb.protocol.report.places import ANCHOR, TITLE
from gdcb.protocol.report.read import read
from gdcb.protocol.report.results import _near
from gdcb.protocol.report.standing import against, losses, ratio
from gdcb.protocol.report.style import COLD, CSS, FLOOR, OURS, PART_PENS, RIVALS, THIRD
from gdcb.protocol.report.words import (
    ADVICE,
    booked,
    compression,
    dominant,
    history,
    made_of,
    opening,
)
from gdcb.protocol.summary import Entry
from tests.browser import chromium_path
from tests.page_checks import (
    Page,
    fits,
    is_whole,
    luminance,
    measured,
    n_of_sheets,
    n_printed,
    papers,
    printed,
)
from tests.properties import examples
from tests.protocol_builders import ground, record
from tests.protocol_builders import settings as settings_of
from tests.report_document import build

DOCUMENT = build(60, 12)


def document() -> dict[str, Any]:
    return copy.deepcopy(DOCUMENT)


def estimate(mean: float, half: float = 1.0) -> dict[str, float]:
    return {"mean": mean, "low": mean - half, "high": mean + half}


def split(calibration: float, bandit: float, gate: float) -> dict[str, Any]:
    parts = {"calibration": calibration, "bandit": bandit, "gate": gate}
    return {name: estimate(value) for name, value in parts.items()}


PAGE = report(DOCUMENT)


def test_the_page_is_well_formed_and_stands_alone() -> None:
    """Tags balance, ids are unique, no script, nothing fetched from elsewhere."""
    is_whole(PAGE)
    parsed = Page(PAGE)
    tags = {tag for tag, _ in parsed.attributes}
    assert not tags & {"script", "link", "img", "iframe", "object", "form"}
    for _, found in parsed.attributes:
        for name in ("href", "src", "xlink:href", "action", "data"):
            assert (found.get(name) or "#").startswith("#")
        assert not [name for name in found if name.startswith("on")]
    assert not re.search(r"https?:|@import|url\((?!#)", PAGE)


def test_the_check_of_balance_can_fail() -> None:
    """A lost closing tag is found."""
    parsed = Page(PAGE.replace("</figure>", "", 1))
    assert parsed.wrong or parsed.open


def test_every_figure_is_described() -> None:
    """Every drawing that says something has title and description; the others are hidden."""
    drawings = re.findall(r"<svg.*?</svg>", PAGE, flags=re.S)
    shown = [svg for svg in drawings if 'aria-hidden="true"' not in svg.split(">")[0]]
    assert len(shown) > 20
    for svg in shown:
        root = ET.fromstring(svg)
        title, description = root.find("title"), root.find("desc")
        assert root.get("role") == "img"
        assert title is not None
        assert description is not None
        assert (root.get("aria-labelledby") or "").split() == [
            title.get("id"),
            description.get("id"),
        ]
        assert len(title.text or "") > 5
        assert len(description.text or "") > 5


def test_all_three_parts_stand_in_order() -> None:
    """Summary, specification, theorems, results, reproduction."""
    heads = re.findall(r"<h2>(.*?)</h2>", PAGE)
    assert heads == ["1. Specification", "2. Theorem specialisation", "3. Results", "Reproduction"]
    text = Page(PAGE).text
    for words in ("Tuned settings", "gdcb 0.1.0", DOCUMENT["command"], "Every world", "Holm"):
        assert words in text
    n_sentences = PAGE.split("</section>")[0].count("<li>")
    assert 3 <= n_sentences <= 5


def test_the_page_repeats_to_the_byte() -> None:
    """The same document gives the same page, also by way of JSON."""
    assert report(json.loads(json.dumps(DOCUMENT))) == PAGE


def test_hostile_labels_are_words() -> None:
    """Whatever the document says is shown as text, never as markup."""
    bad = "</style><script>alert(1)</script>\"'&<img src=x onerror=1>"
    hostile = document()
    hostile["methods"]["B4"]["label"] = hostile["methods"]["B1"]["label"] = bad
    hostile["methods"][f"B9{bad}"] = hostile["methods"]["B2gw"]
    hostile["methods"]["B1"]["tuned"] = {bad: bad}
    about = ("title", "unit", "action", "real", "made", "oracle_knows")
    hostile["about"] = dict.fromkeys(about, bad)
    hostile["options"] = {bad: [bad, {bad: bad}]}
    hostile["specification"] = [[bad, bad, bad]]
    hostile["theorems"]["t1"] = {
        "statement": bad,
        "figures": [{"name": bad, "value": bad, "note": bad}],
        "verdict": bad,
    }
    hostile["theorems"][bad] = None
    hostile["cold_start"]["compression"]["sentence"] = bad
    for key in ("variant", "seed", "version", "command"):
        hostile[key] = bad
    page = report(hostile)
    is_whole(page)
    assert "script" not in {tag for tag, _ in Page(page).attributes}
    assert "img" not in {tag for tag, _ in Page(page).attributes}
    assert not [n for _, found in Page(page).attributes for n in found if n.startswith("on")]
    assert bad.replace("  ", " ") in Page(page).text


# What dominates, and what to do


@pytest.mark.parametrize("part", ["calibration", "bandit", "gate"])
def test_advice_where_both_splits_agree(part: str) -> None:
    """The same part dominates in both: its advice, and no other, is on the page."""
    run = document()
    values = {name: 50.0 if name == part else 5.0 for name in ("calibration", "bandit", "gate")}
    run["methods"]["B4"]["parts"] = run["methods"]["B4"]["parts_paper"] = split(**values)
    sentence, advice = made_of(read(run))
    assert advice == ADVICE[part]
    source = part if part == "calibration" else f"the {part}"
    assert sentence.startswith(f"The largest part of GDCB's regret comes from {source} (")
    text = Page(report(run)).text
    assert [name for name in ADVICE if ADVICE[name] in text] == [part]


@pytest.mark.parametrize(
    ("main", "paper", "words"),
    [
        (split(50, 5, 5), split(5, 50, 5), "the largest part of it comes from the bandit"),
        (split(50, 49.5, 5), split(50, 5, 5), "The two disagree"),
        (split(50, 49.5, 5), split(49, 50, 5), "cannot be told apart"),
        (split(50, 5, 5), None, "not defined here"),
        (split(-1, -2, -3), split(-1, -2, -3), "No part of GDCB's regret is above zero"),
    ],
)
def test_no_advice_where_the_splits_do_not_agree(main: Any, paper: Any, words: str) -> None:
    """Parts that disagree, overlap or are unknown: the page says so and advises nothing."""
    run = document()
    run["methods"]["B4"]["parts"], run["methods"]["B4"]["parts_paper"] = main, paper
    sentence, advice = made_of(read(run))
    assert advice is None
    assert words in sentence
    text = Page(report(run)).text
    assert not [name for name in ADVICE if ADVICE[name] in text]
    assert "no advice follows" in text


def test_one_replicate_has_no_dominant_part() -> None:
    """Without intervals nothing dominates, however large."""
    parts = {"calibration": Estimate(90.0), "bandit": Estimate(1.0), "gate": Estimate(1.0)}
    assert dominant(parts)[0] is None


def test_a_dominant_gate_is_held_against_its_floor() -> None:
    """If most of the gate's part is the floor, better proposals are not the answer."""
    run = document()
    run["methods"]["B4"]["parts"] = run["methods"]["B4"]["parts_paper"] = split(5, 5, 240)
    run["floor"] = estimate(200.0)
    assert "only another gate can" in made_of(read(run))[0]
    run["floor"] = estimate(10.0)
    assert "only another gate can" not in made_of(read(run))[0]


def test_a_negative_gate_part_lies_left_of_zero() -> None:
    """3 + 1 − 2: losses stack to 4 right of zero, the gate's gain 2 lies left, the total is 2."""
    stack = segments({"calibration": Estimate(3), "bandit": Estimate(1), "gate": Estimate(-2)})
    assert stack == [("calibration", 0, 3), ("bandit", 3, 4), ("gate", -2, 0)]
    run = document()
    run["methods"] = {"B4": run["methods"]["B4"] | {"parts": split(3, 1, -2)}}
    page = report(run)
    assert "gate −2.0 ± 1.0" in Page(page).text
    bars = re.findall(r'<rect class="f-(\w+)" x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', page)[:3]
    ends = {name: (float(x), float(x) + float(width)) for name, x, width in bars}
    assert ends["gate"][1] == pytest.approx(ends["calibration"][0], abs=0.2)
    assert ends["bandit"][0] == pytest.approx(ends["calibration"][1], abs=0.2)


@given(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3))
@examples(50)
def test_stacks_keep_every_part(values: list[float]) -> None:
    """Each part has its own length; positive ones start at zero and touch, negative ones too."""
    names = ("calibration", "bandit", "gate")
    stack = segments({name: Estimate(v) for name, v in zip(names, values, strict=True)})
    for (name, start, end), value in zip(stack, values, strict=True):
        assert name in names
        assert end - start == pytest.approx(abs(value), abs=1e-6)
        assert (start >= 0) if value >= 0 else (end <= 0)
    assert max(end for _, _, end in stack) == pytest.approx(
        max(0.0, sum(v for v in values if v > 0)), abs=1e-6
    )


# Where the gate changes proposals


def gated() -> dict[str, Any]:
    """Return a run in which the gate's part is the largest in both splits."""
    run = document()
    run["methods"]["B4"]["parts"] = run["methods"]["B4"]["parts_paper"] = split(5, 5, 240)
    return run


def test_advice_on_the_gate_points_at_the_band_where_most_is_changed() -> None:
    """In words, with an interval, and as a link to the figure, which is there."""
    page = report(gated())
    top = DOCUMENT["methods"]["B4"]["overrides"]["highest"]
    assert (top["feature"], top["band"], top["direction"]) == ("occupancy", 0, "raised")
    words = " ".join(Page(page).text.split())
    said = made_of(read(gated()))[0]
    assert re.search(
        r"most often where occupancy is below 0\.\d+ \(45\.0 % \[45\.0, 45\.0\] of the "
        r"proposals there, mostly raised\): see “Where the gate changes proposals”\.",
        said,
    )
    assert said in words
    assert page.count(f'“<a href="#{ANCHOR}">{TITLE}</a>”') == 2
    assert page.count(f'<h3 id="{ANCHOR}">{TITLE}</h3>') == 1
    assert TITLE not in made_of(read(document()))[0]  # other parts, other advice


def test_the_figure_of_overrides_shows_every_band_of_gdcb() -> None:
    """Bars are as long as their shares, lowered left of zero; the words have all numbers."""
    run = document()
    band = run["methods"]["B4"]["overrides"]["features"][1]["bands"][1]
    band["raised"], band["lowered"] = estimate(0.4, 0.02), estimate(0.1, 0.02)
    band["changed"], band["vetoed"] = estimate(0.7, 0.02), estimate(0.2, 0.02)
    page = report(run)
    drawing = re.search(r'<svg class="chart wide"[^>]*><title[^>]*>Where.*?</svg>', page, re.S)
    assert drawing is not None
    bars = re.findall(
        r'<rect class="f-(raised|lowered|stopped)" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)"',
        drawing[0],
    )
    assert len(bars) == 2 * (5 + 2 + 2 + 2) + 1
    (row,) = [y for name, _, y, _ in bars if name == "stopped"]
    ends = {name: (float(x), float(x) + float(w)) for name, x, y, w in bars if y == row}
    sizes = {name: high - low for name, (low, high) in ends.items()}
    assert ends["lowered"][1] == pytest.approx(ends["raised"][0], abs=0.2)
    assert ends["raised"][1] == pytest.approx(ends["stopped"][0], abs=0.2)
    assert sizes["raised"] == pytest.approx(4 * sizes["lowered"], abs=0.4)
    assert sizes["stopped"] == pytest.approx(2 * sizes["lowered"], abs=0.4)
    text = Page(page).text
    for words in ("or more", "day = sat", "stopped or changed otherwise", "70 %"):
        assert words in text, words
    assert "gap: no 2" in drawing[0]
    assert "yes 40 % raised and 10 % lowered" in drawing[0]
    assert "stopped or changed otherwise" not in Page(PAGE).text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"changed": estimate(0.31, 0.05)}, "No band clearly stands out; the largest share is"),
        ({"changed": estimate(0.5, 0.05)}, "It did so most often where occupancy is below"),
        ({"changed": {"mean": 0.5}}, "one replicate has no interval"),
        ({"feature": "gap", "band": 0}, "It did so most often where gap is no: 45.0 %"),
        ({"feature": "gap", "band": 1}, "It did so most often where gap is yes: 45.0 %"),
        ({"feature": "day=sat", "band": 0}, "where day is not sat: 45.0 %"),
        ({"feature": "day=sat", "band": 1, "direction": "lowered"}, "day is sat: 45.0 % [45.0, 45"),
        ({"direction": "lowered"}, "mostly lowered (the interval allows for the choice among 11"),
        ({"band": 4}, "or more: 45.0 %"),
        ({"band": 1}, "where occupancy is from 0."),
    ],
)
def test_the_band_with_most_changes_is_named(change: dict[str, Any], words: str) -> None:
    run = document()
    run["methods"]["B4"]["overrides"]["highest"] |= change
    page = report(run)
    is_whole(page)
    assert words in Page(page).text


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (estimate(0.0953, 0.01), "ran on average 10.0 % [8.9, 11.1] above the proposal"),
        (estimate(-0.1054, 0.01), "ran on average 10.0 % [9.1, 10.9] below the proposal"),
        (estimate(0.001, 0.01), None),
        (None, None),
    ],
)
def test_by_how_much_is_said_where_it_can_be_told(log: Any, words: str | None) -> None:
    run = document()
    run["methods"]["B4"]["overrides"]["features"][0]["bands"][0]["log_ratio"] = log
    text = Page(report(run)).text
    assert words in text if words else "ran on average" not in text


def test_overrides_of_an_open_gate_and_of_bands_without_a_decision() -> None:
    run = document()
    run["methods"]["B4"]["overrides"] = copy.deepcopy(run["methods"]["B4u"]["overrides"])
    text = Page(report(run)).text
    assert "The gate changed nothing of what GDCB proposed." in text
    assert "most often" not in text
    for name in ("changed", "raised", "lowered", "vetoed", "log_ratio"):
        run["methods"]["B4"]["overrides"]["features"][0]["bands"][2][name] = None
    page = report(run)
    is_whole(page)
    assert "no decision" in Page(page).text


# Wins and losses


def test_losses_are_said_in_words() -> None:
    """A rival whose corrected interval lies below zero beats GDCB, and the page says so."""
    run = document()
    run["methods"]["B2gw"]["vs_B4"] = {"mean": -12.0, "low": -15.0, "high": -9.0, "p": 0.001}
    run["methods"]["B2sw"]["vs_B4"] = {"mean": 1.0, "low": -3.0, "high": 5.0, "p": 0.7}
    text = Page(report(run)).text
    assert "With the history, GDCB (B4) loses to B2gw by 12.0 ± 3.0 € a listing." in text
    assert "loses to B2gw (logistic TS, warm)" in text
    assert "It cannot be told apart from B2sw (LinTS shared, warm)." in text
    assert "With the history, GDCB (B4) has less regret than 3 of the 5 rivals" in text
    assert "GDCB worse" in text


def test_wins_are_not_losses() -> None:
    """Where every interval lies above zero, the page says that too."""
    run = read(DOCUMENT)
    for key, start, n in (("B4", "With the history", 5), ("A3", "Without history", 6)):
        assert f"{start}, GDCB ({key}) loses to no rival behind the same gate." in losses(run)
        assert f"{start}, GDCB ({key}) has less regret than all {n} rivals" in against(run)


def test_rivals_without_history_are_held_against_ours_without() -> None:
    """A cold rival that B4 beats and A3 loses to is a loss; a warm one is B4's matter alone."""
    run = document()
    loss = {"mean": -12.0, "low": -15.0, "high": -9.0, "p": 0.001}
    run["methods"]["B2g"]["vs_A3"] = run["methods"]["B2gw"]["vs_A3"] = loss
    found = read(run)
    assert "Without history, GDCB (A3) has less regret than 5 of the 6 rivals" in against(found)
    assert "and loses to B2g (logistic TS)." in against(found)
    assert "With the history, GDCB (B4) has less regret than all 5 rivals" in against(found)
    text = Page(report(run)).text
    assert "Without history, GDCB (A3) loses to B2g by 12.0 ± 3.0 € a listing." in text
    [row] = re.findall(r"B2g logistic TSnoA3.*?GDCB (?:better|worse)", text)
    assert row.endswith("0.001GDCB worse")
    assert "B2gw logistic TS, warmyesB4" in text
    assert "Rivals without history, less A3" in text


def test_without_a_cold_start_of_ours_nothing_is_said_of_cold_rivals() -> None:
    """B4 knows more than they do: the figure shows the difference, and says so."""
    run = document()
    run["methods"] = {key: run["methods"][key] for key in ("B1", "B2gw", "B4")}
    for method in run["methods"].values():
        method["vs_A3"] = None
    found = read(run)
    said = against(found)
    assert "B2gw (logistic TS, warm), the only rival with the same start. B1 (Beta-" in said
    assert "of the only rival with the history" in said
    assert "chosen" not in said
    text = Page(report(run)).text
    assert "(A3) was not run, so that nothing is said of them" in text
    assert "Rivals without history, less B4, which has it" in text
    assert "loses to no rival" in text


def test_the_ratio_to_the_best_rival_has_an_interval() -> None:
    """Ours above the floor over the best rival's that starts alike; and that it was chosen here."""
    run = document()
    third = {"mean": 0.333, "low": 0.3, "high": 0.37}
    run["against_best"] = {
        "warm": {"rival": "B2gw", "ratio": third},
        "cold": {"rival": "B2g", "ratio": None},
    }
    said = ratio(read(run))
    assert (
        "B4 has 0.333 [0.300, 0.370] times the regret of the best rival with the history, "
        "B2gw (logistic TS, warm): "
    ) in said
    assert "A3 and the best rival without history, B2g (logistic TS), have " in said
    assert "Both best rivals were chosen on these same runs" in said
    assert said in against(read(run))
    run["against_best"] = {"warm": None, "cold": {"rival": "B99", "ratio": third}}
    assert ratio(read(run)) == ""


def test_what_only_the_oracle_knows_is_said_instead_of_what_would_be_false() -> None:
    """Where optimum and floor know what no method sees, nobody could have saved the rest."""
    false = ("no proposal avoids", "even the best proposal", "could still have saved")
    plain_text = Page(report(DOCUMENT)).text
    assert [words for words in false if words in plain_text] == list(false)
    run = document()
    run["about"]["oracle_knows"] = "The optimum knows the signal."
    text = Page(report(run)).text
    assert [words for words in false if words in text] == []
    assert text.count("The optimum knows the signal.") == 3
    assert opening(read(run)).endswith("is the gate floor. The optimum knows the signal.")


def test_own_variants_and_ungated_forms_are_not_rivals() -> None:
    """A better variant of GDCB is named, apart from the rivals."""
    run = document()
    run["methods"]["B4fac"]["vs_B4"] = {"mean": -2.0, "low": -3.0, "high": -1.0, "p": 0.01}
    words = " ".join(losses(read(run)))
    assert "B4fac (GDCB, factored arms) did better than B4" in words
    assert "Without the gate B4u (GDCB, ungated) had less regret" in words
    assert {method.key for method in read(run).rivals} == {
        *("B1", "B2", "B2w", "B2s", "B2sw", "B2g", "B2gw", "B3", "B3w", "B5", "B5w")
    }


def test_ablations_are_found_under_either_name() -> None:
    """A2 and A4 may have run as B4u and B4flat; the table has them all, none twice elsewhere."""
    run = document()
    del run["methods"]["A2"], run["methods"]["A4"]
    found = read(run)
    missing = [key for key in ABLATIONS if found.ablation(key) is None]
    assert missing == ["A5m", "A5c", "A5p"]  # of a domain whose history seeds three things
    assert "no gate (= B4u)" in Page(report(run)).text
    both = [method.key for method in read(DOCUMENT).distinct]
    assert "A2" not in both
    assert "A4" not in both
    assert "B4u" in both


# Cold start


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, "≥ 3.1× [2.6, 3.9]"),
        ({"is_at_least": False}, "3.1× [2.6, 3.9]"),
        ({"high": None}, "≥ 3.1× [2.6, …]"),
        ({"low": None, "high": None}, "≥ 3.1×"),
        ({"applies": False}, "not applicable"),
        ({"value": None}, "not applicable"),
        ({"applies": False, "sentence": "Not known: neither start got there."}, "not known"),
    ],
)
def test_compression(change: dict[str, Any], expected: str) -> None:
    """A number, a lower limit, or not applicable; the paper's 5× stands beside it."""
    run = document()
    run["cold_start"]["compression"] |= change
    assert compression(read(run)) == expected
    text = Page(report(run)).text
    assert expected in text
    assert "5×" in text
    assert "11.7 %" in text


def test_episodes_to_threshold() -> None:
    """Twenty episodes must follow, so that in 60 the last one seen is 41."""
    run = document()
    table = {"median": 12.0, "low": 9.0, "high": None, "censored": 0.3, "booked": estimate(40.0)}
    never = {"median": None, "low": None, "high": None, "censored": 1.0, "booked": None}
    run["methods"] = {key: run["methods"][key] for key in ("B4", "A3")}
    run["methods"]["B4"]["episodes_to_threshold"] = table
    run["methods"]["A3"]["episodes_to_threshold"] = never
    text = Page(report(run)).text
    assert "B4 GDCB12[9, > 41]30 %≥ 40.0 ± 1.0" in text
    assert "A3 no history> 41not reached100 %–" in text
    assert "– → ≥ 40" in text


@pytest.mark.parametrize("key", ["B4", "A3"])
def test_nothing_is_said_of_a_history_that_was_not_compared(key: str) -> None:
    """A run without one of the two starts has a cold start of nulls."""
    run = document()
    del run["methods"][key]
    run["cold_start"] |= dict.fromkeys(("warm_minus_cold", "warm_below_cold_from", "compression"))
    run["cold_start"]["saving_at_50"] = {"total": None, "excess": None}
    text = Page(report(run)).text
    assert "Starting with the history" in Page(report(DOCUMENT)).text
    assert "Starting with the history" not in text
    assert "What the history saved" not in text


def test_one_replicate_says_nothing_of_the_history() -> None:
    run = document() | {"replicates": 1}
    assert history(read(run)).startswith("With one replicate nothing can be said")


@pytest.mark.parametrize(("episodes", "expected"), [(19, "–"), (60, "50 → ≥ 40")])
def test_booked_is_a_lower_limit_where_some_are_censored(episodes: int, expected: str) -> None:
    run = document() | {"episodes": episodes}
    for key, mean, censored in (("A3", 50.0, 0.0), ("B4", 40.0, 0.3)):
        run["methods"][key]["episodes_to_threshold"] |= {
            "censored": censored,
            "booked": estimate(mean),
        }
    assert booked(read(run)) == expected


def test_the_papers_figures_are_of_one_instance() -> None:
    """Beside another instance the paper's figures for STR pricing would mislead."""
    text = Page(report(document() | {"instance": "dosing"})).text
    assert "11.7" not in text
    assert "the paper:" not in text


# Missing pieces


@pytest.mark.parametrize(("episodes", "replicates"), [(1, 1), (1, 5), (2, 2), (10, 1), (49, 3)])
def test_short_and_single_runs(episodes: int, replicates: int) -> None:
    """No interval, no episode 50, a single point: the page is whole and claims nothing."""
    page = report(build(episodes, replicates))
    is_whole(page)
    if replicates == 1:
        text = Page(page).text
        assert "nothing can be said" in text
        assert not [name for name in ADVICE if ADVICE[name] in text]


def test_an_empty_run() -> None:
    """The least document: the page says what was not run."""
    page = report({"episodes": 5, "replicates": 2})
    is_whole(page)
    assert "was not run" in page
    assert page.count("Not measured in this run.") >= 8


@pytest.mark.parametrize("key", sorted(DOCUMENT))
@pytest.mark.parametrize("is_absent", [False, True])
def test_each_top_key_may_be_missing(key: str, is_absent: bool) -> None:
    """Null or absent, the page copes; episodes and replicates alone are needed."""
    run = {k: v for k, v in DOCUMENT.items() if k != key} | ({} if is_absent else {key: None})
    if key in ("episodes", "replicates"):
        with pytest.raises(InvalidInput, match=f"{key}: expected a whole number from 1"):
            report(run)
    else:
        is_whole(report(run))


@pytest.mark.parametrize("key", sorted(DOCUMENT["methods"]["B4"]))
def test_each_key_of_a_method_may_be_null(key: str) -> None:
    """In every method at once."""
    run = document()
    for method in run["methods"].values():
        method[key] = None
    is_whole(report(run))


@pytest.mark.parametrize("key", sorted(DOCUMENT["cold_start"]))
def test_each_key_of_the_cold_start_may_be_null(key: str) -> None:
    run = document()
    run["cold_start"][key] = None
    is_whole(report(run))


@pytest.mark.parametrize("keys", [["B1"], ["B4"], ["A3", "B4"], ["B2gw", "B4u"], ["A1"]])
def test_few_methods(keys: list[str]) -> None:
    run = document()
    run["methods"] = {key: run["methods"][key] for key in keys}
    is_whole(report(run))


def test_holes_in_curves_are_left_open() -> None:
    """A curve with nulls is drawn in pieces; one of NaN alone is not drawn."""
    run = document()
    ours = run["methods"]["B4"]
    ours["regret_curve"][30:40] = [None] * 10
    ours["calibration_error_curve"] = [{"mean": float("nan"), "low": None, "high": None}] * 60
    assert read(run).methods["B4"].regret_curve[35] is None
    page = report(run)
    is_whole(page)
    figure = page[page.index('id="f1-wide-t"') :]
    line = figure.index('class="c-ours"')
    assert figure[line : figure.index("</g>", line)].count("<polyline") == 2


def test_equal_and_zero_values_are_drawn() -> None:
    """All regrets zero: scales do not divide by nothing."""
    run = document()
    zero = {"mean": 0.0, "low": 0.0, "high": 0.0}
    for method in run["methods"].values():
        method["regret"] = method["excess"] = zero
        method["vs_B4"] = zero | {"p": 1.0}
        method["parts"] = dict.fromkeys(("calibration", "bandit", "gate"), zero)
        for name in ("regret_curve", "excess_curve", "override_rate_curve"):
            method[name] = [zero] * 60
    run["floor"], run["floor_curve"] = zero, [zero] * 60
    is_whole(report(run))


def test_the_document_that_a_run_writes() -> None:
    """Records in, page out, by way of the document of the protocol itself."""
    sizes = (25, 6)
    keys = ("B1", "B2gw", "B4", "B4u", "B4ope", "A1", "A2", "A3")
    entries = {}
    for i, key in enumerate(keys):
        made = record(*sizes, seed=i, level=0.5 + 0.1 * i, has_scaler=key.startswith(("B4", "A")))
        rival = {"B1": "cold", "B2gw": "warm"}.get(key)
        scale = {"scale": [0.1] * 25}
        entries[key] = Entry(f"label {key}", partial(copy.copy, made), scale, rival=rival)
    written = summary.document(settings_of(*sizes), entries, ground(*sizes))
    page = report(json.loads(json.dumps(written)))
    is_whole(page)
    text = Page(page).text
    assert "25 numbers from 0.100 to 0.100" in text
    assert "GDCB's regret" in text
    run = read(written)
    assert {start: best.rival.key for start, best in run.against_best.items()} == {
        "warm": "B2gw",
        "cold": "B1",
    }
    assert run.ours is not None
    for name in ("regret", "excess", "reward", "threshold", "actions", "parts", "parts_paper"):
        assert getattr(run.ours, name) is not None
    assert len(run.ours.regret_curve) == len(run.ours.error_curve) == sizes[0]


# What is wrong is refused


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["episodes"], 0, "episodes: expected a whole number from 1"),
        (["methods"], [1], "methods: expected an object or null"),
        (["methods", "B4"], "x", "methods.B4: expected an object or null"),
        (["methods", "B4", "regret"], "12", "methods.B4.regret: expected a number or null"),
        (["methods", "B4", "regret"], {"mean": "<b>"}, "methods.B4.regret.mean: expected a number"),
        (["methods", "B4", "regret_curve"], "abc", "expected a list or null"),
        (["methods", "B4", "actions", "edges"], [1.0, 1.0], "expected rising numbers"),
        (["methods", "B4", "actions", "executed"], [1.0], "expected 24 shares"),
        (["methods", "B4", "overrides"], [1], "methods.B4.overrides: expected an object or null"),
        (["methods", "B4", "overrides", "highest", "band"], 5, "band: expected 0 to 4, got"),
        (["methods", "B4", "overrides", "features"], [3], "features[0]: expected an object"),
        (["methods", "B4", "overrides", "whole"], {"raised": "x"}, "whole.raised: expected a num"),
        (["specification"], [["X", "context"]], "rows of symbol, word and value"),
        (["against_best", "warm"], 3, "against_best.warm: expected an object or null"),
        (["cold_start"], 3, "cold_start: expected an object or null"),
        (["theorems", "t1"], True, "theorems.t1: expected an object or null"),
    ],
)
def test_what_is_wrong_is_refused(path: list[str], value: Any, message: str) -> None:
    """The message says where, what was expected and what came; the document is not changed."""
    run = document()
    inner = run
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    before = copy.deepcopy(run)
    with pytest.raises(InvalidInput, match=re.escape(message)):
        report(run)
    assert run == before


def test_a_document_is_an_object() -> None:
    with pytest.raises(InvalidInput, match="expected the document of a run, got list"):
        report([])  # type: ignore[arg-type]


# Numbers and marks


def test_numbers_bear_as_many_digits_as_their_interval() -> None:
    """Two significant digits of the half width; thousands apart; no negative zero."""
    assert plus_minus(Estimate(1234.5678, 1222.2, 1246.9)) == "1,235 ± 12"
    assert plus_minus(Estimate(0.01234, 0.01189, 0.01279)) == "0.01234 ± 0.00045"
    assert plus_minus(Estimate(5.0)) == "5"
    assert plus_minus(None) == "–"
    assert fixed(-0.0001, 2) == "0.00"
    assert plain(3e-13) == "3.0 × 10⁻¹³"
    assert (share(0.004), share(0.0), share(0.999), share(1.0)) == (
        "< 1 %",
        "0 %",
        "> 99 %",
        "100 %",
    )
    assert (probability(0.0004), probability(0.04)) == ("< 0.001", "0.040")


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9))
@examples(50)
def test_ticks_span_what_they_should(low: float, size: float) -> None:
    """From low or below to high or above, evenly, not too many."""
    high = low + size
    found = ticks(low, high)
    step = found[1] - found[0]
    assert found[0] <= low + 1e-6 * step + 1e-9 * abs(low)
    assert found[-1] >= high - 1e-6 * step - 1e-9 * abs(high)
    assert 2 <= len(found) <= 8


@given(st.lists(st.floats(0, 200), min_size=1, max_size=8))
@examples(50)
def test_labels_do_not_overlap(places: list[float]) -> None:
    """Eight labels of 14 in 200 fit: neighbours are 14 apart, in order, within the frame."""
    moved = spread(places, 14, 0, 200)
    order = sorted(range(len(places)), key=lambda i: (places[i], i))
    for first, second in itertools.pairwise(order):
        assert moved[second] - moved[first] >= 14 - 1e-9
    assert min(moved) >= -1e-9
    assert max(moved) <= 200 + 1e-9


# In a browser


@pytest.fixture(scope="module")
def chromium() -> str:
    return chromium_path()


def crowded() -> dict[str, Any]:
    """Return a run in which all methods end together and GDCB loses to half of them."""
    run = document()
    for i, method in enumerate(run["methods"].values()):
        method["regret_curve"] = DOCUMENT["methods"]["B4"]["regret_curve"]
        for versus in ("vs_B4", "vs_A3"):
            middle = (-1) ** i * 10.0 ** (i % 5)
            value = {"mean": middle, "low": middle - 2, "high": middle + 2, "p": 0.5}
            method[versus] = value if method[versus] else None
    return run


PAGES = ("usual", "crowded", "single", "long")


@pytest.fixture(scope="module")
def measures(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the measures of four pages at two widths, and of one with a label written twice."""
    runs = dict(zip(PAGES, (build(), crowded(), build(10, 1), build(1500, 5)), strict=True))
    pages = {name: report(run) for name, run in runs.items()}
    label = re.search(r"<text[^>]*>B4</text>", PAGE)
    assert label is not None
    pages["twice"] = PAGE.replace(label[0], label[0] * 2)
    return measured(chromium, tmp_path_factory.mktemp("browser"), pages, (360, 740))


@pytest.mark.parametrize("width", [360, 740])
@pytest.mark.parametrize("name", PAGES)
def test_in_a_browser(measures: dict[str, Any], name: str, width: int) -> None:
    """On a phone and on a desk: nothing overflows, no label lies on another, none is tiny."""
    found = measures[f"{name} {width}"]
    fits(found, width, 11.5)
    hidden = "wide" if width < 640 else "narrow"
    assert len(found["charts"]) > 10
    assert not [kind for kind in found["charts"] if hidden in kind.split()]


def test_the_browser_finds_an_overlap(measures: dict[str, Any]) -> None:
    """The measure can fail: a label written twice lies on itself."""
    assert "Cumulative regret: B4 | B4" in measures["twice 740"]["overlaps"]


def test_dark_where_the_reader_wants_it(chromium: str, tmp_path: Path) -> None:
    """The paper is dark on a dark screen and light on a light one."""
    dark, light = papers(chromium, tmp_path, PAGE)
    assert (dark, light) == ("rgb(21, 23, 26)", "rgb(255, 255, 255)")


@pytest.fixture(scope="module")
def sheets(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the page as it prints."""
    return printed(chromium, tmp_path_factory.mktemp("sheets"), PAGE)


def test_the_print_is_drawn_and_not_painted(chromium: str, sheets: bytes, tmp_path: Path) -> None:
    """Textures are lines: a pattern of SVG would be an image of the whole sheet for each bar."""
    assert b"/Subtype /Image" not in sheets
    assert len(sheets) < 2_000_000
    patterned = PAGE.replace(
        "<main>",
        '<main><svg width="90" height="20"><defs><pattern id="p" width="6" height="6" '
        'patternUnits="userSpaceOnUse"><circle cx="3" cy="3" r="2"/></pattern></defs>'
        '<rect width="90" height="20" fill="url(#p)"/></svg>',
    )
    assert b"/Subtype /Image" in printed(chromium, tmp_path, patterned)  # the look can fail


def test_what_is_folded_is_printed(chromium: str, sheets: bytes, tmp_path: Path) -> None:
    """On paper the folded tables are open: as many sheets as without folding, more than without."""
    n_sheets = n_of_sheets(sheets)
    without = re.sub(r'<div class="folded">.*?</table></div></div>', "", PAGE, flags=re.S)
    assert n_sheets == n_printed(chromium, tmp_path, PAGE.replace("<details>", "<details open>"))
    assert n_sheets > n_printed(chromium, tmp_path, without)
    assert n_sheets <= 18


# Colours and pens


@pytest.mark.parametrize("scheme", [0, 1])
def test_colours_stand_out(scheme: int) -> None:
    """Words have a contrast of 4.5 with the paper, lines of 3, on light and on dark paper."""
    tables = [dict(re.findall(r"--(\w+): (#\w+)", found)) for found in CSS.split("@media")[:2]]
    colours = tables[scheme]
    paper = luminance(colours["paper"])
    for name in ("ink", "soft", "ours", "cold", "red", "green", "purple", "gold", "floor"):
        ends = sorted((paper, luminance(colours[name])))
        contrast = (ends[1] + 0.05) / (ends[0] + 0.05)
        assert contrast >= (3.0 if name == "cold" else 4.5), (name, contrast)


def test_lines_are_told_apart_without_colour() -> None:
    """Pens that meet in one figure differ in dash and in marker."""
    meetings = [
        [OURS, COLD, FLOOR, *RIVALS],
        [OURS, COLD, RIVALS[0], THIRD],
        list(PART_PENS.values()),
    ]
    for pens in meetings:
        assert len({pen.dash for pen in pens}) == len(pens)
        marked = [pen.marker for pen in pens if pen.marker]
        assert len(set(marked)) == len(marked)


def test_a_line_far_above_the_others_is_told_and_not_drawn() -> None:
    """From four times the second lowest on; two lines are always drawn."""
    lines = [
        Series(name, name, OURS, [Estimate(0.0, 0.0, 0.0), Estimate(mean, mean - 1, mean + 1)])
        for name, mean in (("a", 10.0), ("b", 20.0), ("c", 80.0), ("d", 81.0))
    ]
    near, far = _near(lines)
    assert [line.name for line in near] == ["a", "b", "c"]
    assert [(line.name, at) for line, at in far] == [("d", "81.0 ± 1.0")]
    assert _near([lines[0], lines[3]]) == ([lines[0], lines[3]], [])
