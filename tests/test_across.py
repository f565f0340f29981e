"""The table over all instances: what it says follows from the runs' documents."""

from __future__ import annotations

import copy
import io
import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from gdcb.cli.tables import show_all
from gdcb.protocol.across import MARKDOWN, PAGE, TABLE, whole, write
from gdcb.protocol.across.cells import FAILS, HOLDS, OPEN, PARTLY
from gdcb.protocol.across.drawing import ratios
from gdcb.protocol.across.predictions import TABLE as PAPER
from gdcb.protocol.across.tables import in_short, methods, overview, predictions, reasons
from gdcb.protocol.across.tables import verdicts as verdict_table
from tests.report_document import build


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return build()


def of(made: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return copy.deepcopy(made) | changes


def estimate(mean: float, half: float = 0.1) -> dict[str, float]:
    return {"mean": mean, "low": mean - half, "high": mean + half}


def verdicts(run: dict[str, Any]) -> dict[str, str]:
    cells = whole([run])["runs"][0]["cells"]
    return {cell["theorem"]: cell["verdict"] for cell in cells}


def test_the_paper_has_a_row_for_every_industrial_instance() -> None:
    assert set(PAPER) == {"str", "dosing", "credit", "grid", "moderation", "tools"}
    assert all(row.dominant in ("bandit", "calibration", "gate") for row in PAPER.values())


def test_a_run_of_another_instance_has_no_cells(made: dict[str, Any]) -> None:
    assert whole([of(made, instance="mine")])["runs"][0]["cells"] == []


def test_a_scaler_that_saves_regret_bears_theorem_1_out(made: dict[str, Any]) -> None:
    run = of(made, instance="dosing")
    run["methods"]["A1"]["vs_B4"] = estimate(3.0)
    assert verdicts(run)["t1"] == HOLDS
    run["methods"]["A1"]["vs_B4"] = estimate(0.05)
    assert verdicts(run)["t1"] == FAILS
    del run["methods"]["A1"]
    assert verdicts(run)["t1"] == OPEN


def test_a_start_that_saves_regret_bears_theorem_2_out(made: dict[str, Any]) -> None:
    run = of(made, instance="grid")
    run["cold_start"]["saving_at_50"]["total"] = estimate(0.3)
    assert verdicts(run)["t2"] == HOLDS
    run["cold_start"]["saving_at_50"]["total"] = estimate(-0.3)
    assert verdicts(run)["t2"] == FAILS


@pytest.mark.parametrize(
    ("main", "order", "verdict"),
    [("bandit", "gate", HOLDS), ("gate", "bandit", PARTLY), ("gate", "gate", FAILS)],
)
def test_the_dominant_part_is_the_largest_in_either_order(
    made: dict[str, Any], main: str, order: str, verdict: str
) -> None:
    run = of(made, instance="dosing")  # for which the paper names the bandit
    ours = run["methods"]["B4"]
    for name, largest in (("parts", main), ("parts_paper", order)):
        ours[name] = {
            part: estimate(9.0 if part == largest else 1.0)
            for part in ("bandit", "calibration", "gate")
        }
    assert verdicts(run)["t3"] == verdict


def test_history_for_both_loops_must_beat_every_half_of_it(made: dict[str, Any]) -> None:
    run = of(made, instance="tools")
    for key in ("A3", "A3s", "A3a"):
        run["methods"][key]["vs_B4"] = estimate(1.0)
    assert verdicts(run)["t4"] == HOLDS
    run["methods"]["A3a"]["vs_B4"] = estimate(0.0)
    assert verdicts(run)["t4"] == PARTLY
    for key in ("A3", "A3s"):
        run["methods"][key]["vs_B4"] = estimate(-1.0)
    assert verdicts(run)["t4"] == FAILS


def test_a_rival_that_starts_cold_is_held_against_ours_that_does(made: dict[str, Any]) -> None:
    rows = {m["key"]: m for m in whole([made])["runs"][0]["methods"]}
    assert rows["B2g"]["against"] == "A3"
    assert rows["B2gw"]["against"] == "B4"
    assert rows["B2g"]["difference"]["mean"] == made["methods"]["B2g"]["vs_A3"]["mean"]
    assert not any(key.endswith("u") for key in rows)


def test_where_gdcb_loses_the_part_and_the_ratio_are_named(made: dict[str, Any]) -> None:
    run = of(made)
    assert reasons(whole([run])) == []
    run["against_best"]["warm"] = {"rival": "B2gw", "ratio": estimate(1.4)}
    parts = {"bandit": 5.0, "calibration": 2.0, "gate": 1.0}
    run["methods"]["B4"]["parts"] = {n: estimate(v) for n, v in parts.items()}
    parts = {"bandit": 5.0, "calibration": 0.5, "gate": 1.0}
    run["methods"]["B2gw"]["parts"] = {n: estimate(v) for n, v in parts.items()}
    run["variance_ratio"] = {"mean": 0.02, "low": 0.0, "high": 0.05}
    (said,) = reasons(whole([run]))
    assert "B4 loses 1.5 more than B2gw in the calibration part" in said
    assert "advised against" in said
    run["variance_ratio"] = {"mean": 2.0, "low": 1.5, "high": 2.5}
    assert "would not have warned" in reasons(whole([run]))[0]


def test_tables_have_a_cell_for_every_column(made: dict[str, Any]) -> None:
    found = whole([of(made, instance="str"), of(made, instance="grid", variant="mis")])
    short = overview(found).without("regret")
    assert "regret" not in short.head
    tables = (overview(found), short, predictions(found), verdict_table(found))
    for words in (*tables, methods(found["runs"][0])):
        assert words.rows
        assert all(len(row) == len(words.head) for row in words.rows)
    for words in (overview(found), verdict_table(found)):
        assert [row[0] for row in words.rows] == ["str well", "grid mis"]
    told = [cell["verdict"] for cell in found["runs"][1]["cells"]]
    assert verdict_table(found).rows[1][1:] == told


@pytest.fixture(scope="module")
def published() -> dict[str, Any]:
    """All instances, as the documentation has them."""
    path = Path(__file__).parents[1] / "docs" / "domains" / "table.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def test_the_terminal_shows_every_cell_whole_in_80_columns(
    tmp_path: Path, published: dict[str, Any]
) -> None:
    text = io.StringIO()
    show_all(published, tmp_path, Console(width=80, file=text))
    shown = text.getvalue()
    assert "…" not in shown
    lines = shown.splitlines()
    for row in in_short(published).rows:
        (line,) = [line for line in lines if line.startswith(row[0])][:1]
        assert line.split() == " ".join(row).split()


def test_words_at_the_right_are_level_with_their_dots(published: dict[str, Any]) -> None:
    drawn = ratios(published)
    rows = re.findall(r'<circle[^>]* cy="([\d.]+)"[^>]*/></g><text x="[\d.]+" y="([\d.]+)"', drawn)
    n = sum(value is not None for run in published["runs"] for value in run["standing"].values())
    assert len(rows) == n
    assert {round(float(words) - float(dot), 1) for dot, words in rows} == {4.0}
    places = sorted(float(words) for _, words in rows)
    apart = min(b - a for a, b in itertools.pairwise(places))
    assert apart >= 15  # a line of 12.5 px letters
    for run in published["runs"]:
        for value in run["standing"].values():
            assert f"{value['ratio']['mean']:.2f} of {value['rival']}" in drawn  # for who listens


def test_files_are_written_and_link_to_the_reports(tmp_path: Path, made: dict[str, Any]) -> None:
    write(whole([made]), tmp_path, "gdcb run --all")
    assert json.loads((tmp_path / TABLE).read_text())["command"] == "gdcb run --all"
    assert "| str well |" in (tmp_path / MARKDOWN).read_text()
    page = (tmp_path / PAGE).read_text()
    assert 'href="str-well/report.html"' in page
    assert "<script" not in page


def test_no_run_at_all_is_said() -> None:
    assert whole([])["runs"] == []


def test_first_but_not_for_certain_is_said(made: dict[str, Any]) -> None:
    found = whole([of(made, instance="dosing")])
    standing = found["runs"][0]["standing"]["warm"]
    assert standing is not None
    standing |= {"is_first": True, "rival": "B2w", "ratio": estimate(0.95)}
    assert any(
        "not for certain; the interval of its ratio to B2w, 0.95, reaches 1.05." in one
        for one in reasons(found)
    )
    standing["ratio"] = estimate(0.8)
    assert not any("with history: first" in one for one in reasons(found))
