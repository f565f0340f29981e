"""What the pages say is true: terms, errata, README and examples."""

from __future__ import annotations

import importlib
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_examples_run(example: Path) -> None:
    """Every example runs to its end."""
    done = subprocess.run([sys.executable, example], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


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


def test_readme_names_the_two_commands() -> None:
    """A newcomer finds both."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make run" in readme
    assert "make test" in readme


def test_no_page_has_a_hole() -> None:
    """No placeholder is left where a table or a result belongs."""
    for page in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]:
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"\b[A-Z]+_(TABLE|RESULT)\b", text), page
