"""What a certificate rests on is listed, and no hidden cause is cried where none can be seen."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from gdcb.cli import app
from gdcb.declaration import Declaration, parse
from gdcb.history import certify, open_log
from gdcb.history import sentences as say
from gdcb.history.columns import look
from gdcb.history.infer import propose
from gdcb.history.instance_file import toml
from gdcb.history.page import certificate_page
from gdcb.history.roles import roles_of
from tests.certificate_document import build

ROWS = 700


def bookings(seed: int, hidden: float) -> pl.DataFrame:
    """Return bookings at five ratios of price to base; a hidden cause moves both, or nothing does.

    u moves the ratio by `hidden` steps and the log odds of a booking by 1.5·`hidden`, per standard
    deviation. With 0 the ratio is drawn at random.
    """
    rng = np.random.default_rng(seed)
    u, demand = rng.standard_normal(ROWS), rng.random(ROWS)
    step = rng.integers(0, 5, ROWS) + np.round(hidden * u).astype(int)
    ratio = np.array([0.8, 0.9, 1.0, 1.1, 1.2])[np.clip(step, 0, 4)]
    base = np.round(80 + 120 * rng.random(ROWS), 2)
    log_odds = 3.0 - 3.0 * ratio + (demand - 0.5) + 1.5 * hidden * u
    booked = (rng.random(ROWS) < 1.0 / (1.0 + np.exp(-log_odds))).astype(int)
    data = {"demand": demand.round(3), "base_price": base, "price": np.round(base * ratio, 2)}
    return pl.DataFrame({**data, "booked": booked})


@cache
def proposed() -> str:
    log = look(bookings(0, 0.0))
    return toml("bookings", propose(log, roles_of(log, {})))


@cache
def declared() -> Declaration:
    return parse(proposed())


@cache
def certified(seed: int, hidden: float) -> dict[str, Any]:
    one = declared()
    source = open_log(bookings(seed, hidden), one.instance, columns=one.columns)
    return dict(certify(source, one.instance, one.bandit).as_json())


@pytest.mark.parametrize("hidden", [0.0, 1.0])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_hidden_cause_is_cried_and_its_strength_is_shown_with_its_limit(
    seed: int, hidden: float
) -> None:
    """Clean and confounded logs alike: the figure cannot tell them apart, and says so."""
    document = certified(seed, hidden)
    assert not [one for one in document["reasons"] if "hidden cause" in one or "Beware" in one]
    found = document["sensitivity"]["arms"]
    assert found["value"] >= found["low"] >= 1.0
    says = document["assumptions"][0]["result"]
    assert found["says"] in says
    assert "Λ* is" in says
    assert ("at least" in says) == (found["low"] > 1.0)
    assert "It cannot say whether there is such a cause" in says


def test_outcomes_that_hardly_vary_bound_no_hidden_cause() -> None:
    """Nine bookings in 700: residuals of nearly 0 would make any hidden cause look too weak."""
    one = declared()
    rare = bookings(4, 0.0).with_columns(booked=(pl.int_range(pl.len()) % 80 == 5).cast(pl.Int64))
    source = open_log(rare, one.instance, columns=one.columns)
    found = certify(source, one.instance, one.bandit).as_json()["sensitivity"]["arms"]
    assert (found["value"], found["low"]) == (None, None)
    assert "is not known" in found["says"]


def test_every_assumption_has_a_name_whether_it_was_tested_and_a_result() -> None:
    document = certified(1, 0.0)
    json.dumps(document, allow_nan=False)
    found = {one["name"]: one["tested"] for one in document["assumptions"]}
    assert all(set(one) == {"name", "tested", "state", "result"} for one in document["assumptions"])
    assert all(one["result"] for one in document["assumptions"])
    first = list(found)[:4]
    assert first == [
        "Nothing outside the log was used",
        "Rows are independent",
        "Nothing carries over from one decision to later outcomes",
        "Worth is nearly quadratic in the context x",
    ]
    assert not found["Nothing outside the log was used"]
    assert found["Rows are independent"]
    assert not found["Nothing carries over from one decision to later outcomes"]
    assert found["What an action earns in a given context did not change"]


def test_an_assumption_that_fails_is_said_to_fail() -> None:
    """The level of the log odds rises by 3 in the middle of the log."""
    one = declared()
    early, late = bookings(5, 0.0), bookings(6, 0.0)
    late = late.with_columns(booked=(pl.col("booked") + (pl.col("demand") > 0.2)).clip(0, 1))
    source = open_log(pl.concat([early, late]), one.instance, columns=one.columns)
    document = certify(source, one.instance, one.bandit, full=False).as_json()
    name = "What an action earns in a given context did not change"
    law = next(a for a in document["assumptions"] if a["name"] == name)
    assert law["tested"]
    assert law["state"] == "Tested: does not hold"
    assert law["result"].startswith("1 change found")
    rests = "if rows are independent, worth is nearly quadratic in x"
    said = [one for one in document["reasons"] if rests in one and "later outcomes are as" in one]
    assert [one.split(" ")[0] for one in said] == ["At", "Only"]
    assert f'{name}.</b> <span class="doubted">Tested: does not hold.' in certificate_page(document)


def test_rows_that_depend_on_each_other_look_like_a_fault(tmp_path: Path) -> None:
    """Days differ by far more than chance allows: 'Tested', and green, read as if they did not."""
    log, file, page = tmp_path / "log.csv", tmp_path / "b.toml", tmp_path / "c.html"
    day = np.arange(ROWS) // 10
    good = np.random.default_rng(3).random(day.max() + 1)[day] < 0.5
    rows = bookings(5, 0.0).with_columns(
        booked=(pl.col("booked") * pl.Series(good)).cast(pl.Int64),
        time=1.7e9 + 8640.0 * pl.int_range(pl.len()),
    )
    rows.write_csv(log)
    file.write_text(proposed(), encoding="utf-8")
    call = ["check", str(log), "--instance", str(file), "--out", str(page)]
    said = CliRunner().invoke(app, call, env={"COLUMNS": "400"}).stdout
    assert "2. Rows are independent (tested: does not hold). Rows depend on each other" in said
    html = page.read_text(encoding="utf-8")
    assert 'Rows are independent.</b> <span class="doubted">Tested: does not hold.</span>' in html


def test_what_may_not_hold_is_said_so() -> None:
    """A possible change, and verdicts that swing, are doubts; what was not tested stays so."""
    told = say.assumptions
    document = build()
    document["assumptions"][1] |= {"state": told.FAILS}
    document["assumptions"][5] |= {"state": told.DOUBTED}
    page = certificate_page(document)
    assert page.count('<span class="doubted">Tested: does not hold.</span>') == 1
    assert page.count('<span class="doubted">Tested: may not hold.</span>') == 1
    assert '<span class="untested">Not tested.</span>' in page
    assert '<span class="tested">Tested.</span>' in page


def test_without_a_time_column_the_order_of_rows_is_an_assumption() -> None:
    one, log = declared(), bookings(5, 0.0)
    said = "There is no time column: rows are taken to be in the order of time"
    for has_time in (False, True):
        rows = log.with_columns(time=1.7e9 + 600.0 * pl.int_range(pl.len())) if has_time else log
        source = open_log(rows, one.instance, columns=one.columns)
        certificate = certify(source, one.instance, one.bandit, full=False)
        document = certificate.as_json()
        found = {each["name"]: each for each in document["assumptions"]}
        law = found["What an action earns in a given context did not change"]
        assert ("Rows are in the order of time" in found) is not has_time
        assert any(said in each for each in certificate.reasons) is not has_time
        if not has_time:
            assert not found["Rows are in the order of time"]["tested"]
            assert law["state"] != "Tested"
            assert f"{law['state']}." in certificate_page(document)


def test_too_few_rows_to_tell_are_not_said_to_be_tested() -> None:
    one = declared()
    states = []
    for n in (300, 6000):
        log = bookings(5, 0.0)
        log = pl.concat([log] * (n // log.height + 1)).head(n)
        log = log.sample(n, shuffle=True, seed=1).with_columns(
            time=1.7e9 + 600.0 * pl.int_range(pl.len())
        )
        source = open_log(log, one.instance, columns=one.columns)
        document = certify(source, one.instance, one.bandit, full=False).as_json()
        name = "What an action earns in a given context did not change"
        (law,) = [each for each in document["assumptions"] if each["name"] == name]
        states.append(law["state"])
        is_small = "A departure as small as the margin would not be seen" in law["result"]
        assert is_small is (n == 300)
    assert states == ["Tested, but too few rows to tell", "Tested"]


def test_the_terminal_and_the_page_list_them_too(tmp_path: Path) -> None:
    log, file, page = tmp_path / "log.csv", tmp_path / "b.toml", tmp_path / "c.html"
    bookings(1, 0.0).write_csv(log)
    file.write_text(proposed(), encoding="utf-8")
    call = ["check", str(log), "--instance", str(file), "--out", str(page)]
    result = CliRunner().invoke(app, call, env={"COLUMNS": "400"})
    assert result.exit_code in (0, 3)
    assert "What this rests on" in result.stdout
    assert "1. Nothing outside the log was used (not tested). No log can test this. Λ* is" in (
        result.stdout
    )
    assert "What this rests on" in page.read_text(encoding="utf-8")
    assert "At the very worst" not in result.stdout + page.read_text(encoding="utf-8")
