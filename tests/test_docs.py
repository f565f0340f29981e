"""What the pages say is true: terms, errata, README and examples."""

from __future__ import annotations

import importlib
import re
import runpy
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from gdcb.engine import NAMES as ENGINES
from gdcb.instances.str_pricing.manager import KINDS
from gdcb.protocol.files import _COLUMNS
from gdcb.protocol.methods import DEFAULT
from gdcb.protocol.summary import EXTRAS, SETTINGS
from gdcb.records import STATUS
from gdcb.service import models, uploads
from gdcb.service.pages import render
from gdcb.service.policy import Policy

ROOT = Path(__file__).parents[1]


def _table(page: str) -> list[list[str]]:
    lines = (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines()
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines if line[:1] == "|"
    ]
    return rows[2:]


@pytest.mark.parametrize("row", _table("terms.md"), ids=lambda row: row[0])
def test_every_term_is_where_it_says(row: list[str]) -> None:
    """The file exists and defines the type."""
    path = re.findall(r"`([^`]+)`", row[3])[0]
    assert (ROOT / path).is_file()
    name = path.removeprefix("src/").removesuffix(".py").replace("/", ".")
    module = importlib.import_module(name)
    for kind in re.findall(r"`([^`]+)`", row[2]):
        assert getattr(module, kind).__module__ == name


def test_every_erratum_names_a_test_that_exists() -> None:
    """Each row's last cell is a test, a test file, or says that it is about text only."""
    for row in _table("errata.md"):
        if row[3] == "text only":
            continue
        path, _, name = row[3].strip("`").partition("::")
        text = (ROOT / path).read_text(encoding="utf-8")
        assert f"def {name}(" in text if name else "def test_" in text


def test_the_example_of_the_readme_runs(tmp_path: Path) -> None:
    """The README's Python runs as it stands and learns an outcome."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", readme, flags=re.DOTALL)
    assert len(code) == 1
    script = tmp_path / "readme.py"
    script.write_text(code[0], encoding="utf-8")
    ran = runpy.run_path(str(script))
    assert ran["agent"][ran["case"].id].outcome == {"booked": 1.0}


def _run(example: Path, *given: str) -> dict[str, Any]:
    """Run an example as `python example …` would; return the names that it leaves.

    It runs in this process: to start another one takes longer than most examples do.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", [str(example), *given])
        patch.setattr("sys.path", [str(example.parent), *sys.path])
        return runpy.run_path(str(example), run_name="__main__")


# They serve until their process ends.
SERVERS = ("ask_service.py", "mcp_server.py")


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_examples_run(example: Path) -> None:
    """Every example runs to its end."""
    if example.name in SERVERS:
        asked = [sys.executable, str(example)]
        done = subprocess.run(
            asked, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    else:
        assert not _exit_code(example)


def _exit_code(example: Path) -> Any:
    try:
        _run(example)
    except SystemExit as done:
        return done.code
    return 0


@pytest.mark.parametrize(
    ("example", "given", "code", "words"),
    [
        ("ask_service.py", ["--help"], 0, "usage: ask_service.py"),
        ("ask_service.py", ["http://127.0.0.1"], 2, "unrecognized arguments"),
        ("verify_ledger.py", [], 0, "python examples/verify_ledger.py LEDGER.db"),
        ("verify_ledger.py", ["--help"], 0, "python examples/verify_ledger.py LEDGER.db"),
        ("verify_ledger.py", ["missing.db"], 2, "expected one file of a ledger, got missing.db"),
        ("verify_ledger.py", ["."], 2, "usage: python examples/verify_ledger.py LEDGER.db"),
        ("verify_ledger.py", [__file__], 3, "the file cannot be read on from here"),
    ],
)
def test_examples_that_are_asked_say_how_they_are_used(
    example: str, given: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody is answered with a traceback, or with a run that they did not want."""
    with pytest.raises(SystemExit) as done:
        _run(ROOT / "examples" / example, *given)
    assert (done.value.code or 0) == code
    assert words in "".join(capsys.readouterr())


def test_the_page_of_the_service_has_every_status_in_both_words() -> None:
    """What the API calls a status, and what the pages do."""
    rows = {row[0].strip("`"): row[1] for row in _table("service/index.md")}
    assert {status: rows.get(status) for status in STATUS} == {
        status: render.STATUS[status] for status in STATUS
    }


def test_requests_and_answers_on_the_page_of_the_service_are_such() -> None:
    """Every body that is sent there, and every answer, is one of the route that it is shown for."""
    kinds: dict[str, tuple[type[BaseModel] | None, type[BaseModel]]] = {
        "decisions": (models.DecideOne, models.Decision),
        "outcome": (models.OutcomeBody, models.News),
        "executed": (models.ExecutedBody, models.News),
        "": (None, models.DecisionNow),
    }
    page = (ROOT / "docs" / "service" / "index.md").read_text(encoding="utf-8")
    shown = re.findall(
        r"curl -s http://127.0.0.1:8000/v1/instances/\w+/(\S+) (.*?)```\n\n```json\n(.*?)```",
        page,
        flags=re.DOTALL,
    )
    seen = set()
    for path, sent, answered in shown:
        last = path.rpartition("/")[2]
        kind = last if last in kinds else ""
        body, answer = kinds[kind]
        if body is not None:
            body.model_validate_json(sent.partition("-d '")[2].rpartition("'")[0])
        answer.model_validate_json(answered, extra="forbid")
        seen.add(kind)
    assert seen == set(kinds)
    assert len(shown) == page.count("curl -s")


def test_the_example_of_analysis_finds_what_its_page_says() -> None:
    """η is the rate of approval in all three ways; pooled, its limit misses busy nights."""
    ran = runpy.run_path(str(ROOT / "examples" / "gate_log.py"))
    truth = [0.5, 0.8]
    assert ran["instance"].chain.contraction(ran["actions"], ran["rows"]).prod(
        axis=1
    ) == pytest.approx(truth)
    assert ran["analysis"].dobrushin(ran["kernel"]) == pytest.approx(truth)
    cells = (ran["proposed"], ran["left"], ran["n_cells"])
    estimate = ran["analysis"].estimate_contraction
    apart = estimate(*cells, stratum=ran["busy"], design="adaptive")
    assert apart.estimates == pytest.approx(truth, abs=0.03)
    assert (apart.uppers > truth).all()
    assert estimate(*cells, design="adaptive").upper < 0.8
    assert 0.5 < ran["ratio"].ratio < 0.8


def test_the_unit_for_systemd_has_room_for_what_the_defaults_allow() -> None:
    """Three times `memory` while room is made, an upload at its limit, and 512 MiB for the rest."""
    unit = ConfigParser(interpolation=None)
    unit.read(ROOT / "deploy" / "gdcb.service", encoding="utf-8")
    most = int(unit["Service"]["MemoryMax"].removesuffix("G")) * 1024
    assert 3 * Policy().memory + uploads.MEMORY // 2**20 + 512 <= most
    assert unit["Service"]["OOMPolicy"] == "continue"
    page = (ROOT / "docs" / "service" / "index.md").read_text(encoding="utf-8")
    assert f"| `memory` | {Policy().memory} |" in page


def test_readme_names_the_two_commands() -> None:
    """A newcomer finds both."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make run" in readme
    assert "make test" in readme


def test_every_piece_of_an_example_is_taken_in() -> None:
    """A directive that is spelt another way, by a formatter say, is printed as it stands."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    said = [line for page in pages for line in page.read_text(encoding="utf-8").splitlines()]
    asked = [line for line in said if re.match(r"\W*8\W.*examples/", line)]
    assert len(asked) > 5
    assert all(re.match(r'\s*--8<-- "examples/', line) for line in asked)


def test_no_page_has_a_hole() -> None:
    """No placeholder is left where a table or a result belongs."""
    for page in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]:
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"\b[A-Z]+_(TABLE|RESULT)\b|@@", text), page


def test_the_example_of_histories_finds_what_its_page_says() -> None:
    """The dearest price looks best without context; the log tells by how much, and its ρ²."""
    ran = runpy.run_path(str(ROOT / "examples" / "history_checks.py"))
    ratio, bias, cross = ran["ratio"], ran["bias"], ran["cross"]
    assert [round(x, 2) for x in (ratio.ratio, ratio.low, ratio.high)] == [0.35, 0.13, 0.5]
    booked = [ran["booked"][ran["arm"] == k].mean() for k in range(5)]
    assert max(booked) == booked[-1]
    assert bias.bias[0, -1] == pytest.approx(0.38, abs=0.005)
    assert bias.n_eff[0, -1] < 2.5 < 100 < bias.n[0, -1]
    assert cross.rho2 == pytest.approx(0.33, abs=0.005)
    assert cross.noise < 0.02


def test_the_example_of_splits_finds_what_its_page_says() -> None:
    """Both orders have the total 5.1; only the paper's blames the bandit for 81.6 of it."""
    ran = runpy.run_path(str(ROOT / "examples" / "regret_splits.py"))
    main = ran["ledger"].parts.sum(axis=0).mean(axis=0)
    paper = ran["ledger"].parts_paper.sum(axis=0).mean(axis=0)
    assert main.round(1).tolist() == [5.1, 1.6, 3.5, 0.0]
    assert paper.round(1).tolist() == [81.6, -76.5, 0.0]
    assert paper.sum() == pytest.approx(main[0])


def test_the_page_of_the_protocol_leaves_nothing_out() -> None:
    """Every method, every column of the episodes and every key of the summary is on the page."""
    page = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    named = set(re.findall(r"[\w.]+", page))
    keys = {"floor", "floor_curve", "methods.KEY", "against_best", "cold_start"}
    expected = {*DEFAULT, *_COLUMNS, *SETTINGS, *EXTRAS, *keys, "method", "replicate", "episode"}
    assert expected <= named, sorted(expected - named)
    for engine in ENGINES:
        assert f"`{engine}`" in page or f"--engine {engine}" in page
    for kind in KINDS:
        assert f"manager={kind}" in page
