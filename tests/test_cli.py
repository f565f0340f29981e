"""The command line: what it prints, where, and with which exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gdcb.cli import app
from gdcb.instances import NAMES

runner = CliRunner()
FILES = ("episodes.parquet", "report.html", "summary.json")
LEAST = ["--episodes", "3", "--replicates", "2", "--methods", "B1,B4", "--engine", "local"]


def _run(*arguments: str) -> tuple[int, str, str]:
    result = runner.invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def test_help_is_a_table_of_contents() -> None:
    """Every command is listed with what it is for."""
    code, out, _ = _run("--help")
    assert code == 0
    for command in ("run", "instances", "validate", "parts", "verify"):
        assert command in out


def test_several_instances_have_a_folder_each(tmp_path: Path) -> None:
    """Under --out; as JSON they are a list."""
    code, out, _ = _run("run", "credit", "grid", *LEAST, "--json", "--out", str(tmp_path))
    assert code == 0
    assert [one["instance"] for one in json.loads(out)] == ["credit", "grid"]
    for name in ("credit", "grid"):
        assert sorted(path.name for path in (tmp_path / name).iterdir()) == list(FILES)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "nowhere"), "no instance nowhere"),
        (("run", "str", "--episodes", "0"), "--episodes"),
        (("run", "str", "--replicates", "-3"), "--replicates"),
        (("run", "str", "--seed", "-1"), "--seed"),
        (("run", "mine.toml"), "needs a world"),
        (("run", "kalman", "--option", "plant=boat"), "expected target or demand"),
        (("run", "kalman", "--option", "nights=3"), "kalman has the options"),
        (("run", "credit", "--methods", "K1"), "method K1 does not apply here"),
        (("run", "--all", "str"), "--all runs every instance"),
        (("run", "--all", "--option", "nights=3"), "--option is for one instance"),
        (("run", "credit", "--engine", "gpu"), "--engine: expected local, pool, ray, got gpu"),
        (("run", "credit", "credit"), "an instance twice"),
        (("instances", "nowhere"), "no instance 'nowhere'"),
    ],
)
def test_wrong_usage_says_what_to_do(arguments: tuple[str, ...], said: str) -> None:
    """Exit code 2 and a sentence on stderr, nothing on stdout."""
    code, out, err = _run(*arguments)
    assert code == 2
    assert said in err
    assert out == ""


def test_a_folder_that_cannot_be_written_costs_no_work(tmp_path: Path) -> None:
    """It fails before the run, with code 1."""
    blocked = tmp_path / "file"
    blocked.write_text("in the way", encoding="utf-8")
    code, _, err = _run("run", "str", "--out", str(blocked / "folder"))
    assert code == 1
    assert "cannot write" in err


def test_instances_lists_all_seven_and_shows_one() -> None:
    """As a table, as JSON, and one with the JSON schema of its context."""
    code, out, _ = _run("instances")
    assert code == 0
    assert all(name in out for name in NAMES)
    listed = json.loads(_run("instances", "--json")[1])
    assert [one["name"] for one in listed] == list(NAMES)
    assert all(one["title"] for one in listed)
    one = json.loads(_run("instances", "kalman", "--json")[1])
    assert one["context"]["type"] == "object"
    assert "Kalman" in _run("instances", "kalman")[1]


def test_validate_accepts_the_example_and_names_what_is_wrong(tmp_path: Path) -> None:
    """A whole file passes; an unknown part fails with the registered names."""
    example = Path(__file__).parents[1] / "examples" / "listing.toml"
    code, out, _ = _run("validate", str(example))
    assert code == 0
    assert "is valid" in out
    schema = json.loads(_run("validate", str(example), "--json")[1])
    assert schema["required"] == ["occupancy", "lead", "gap", "base"]
    broken = tmp_path / "broken.toml"
    text = example.read_text(encoding="utf-8").replace('part = "ridge"', 'part = "rigde"')
    broken.write_text(text, encoding="utf-8")
    code, _, err = _run("validate", str(broken))
    assert code == 1
    assert "rigde" in err
    assert "ridge" in err


def test_parts_lists_what_a_file_may_name() -> None:
    """Every registered part with its settings, as a table and as JSON; one kind on demand."""
    code, out, _ = _run("parts")
    assert code == 0
    assert "hierarchical-thompson" in out
    listed = json.loads(_run("parts", "gate", "--json")[1])
    settings = {one["name"]: one["settings"] for one in listed}
    assert list(settings) == sorted(settings)
    assert {"approval", "bounds", "cap", "power-flow"} <= set(settings)
    assert settings["cap"]["limit"] == "inf"
    assert _run("parts", "nothing")[0] == 2


def test_parts_tells_all_of_one_part() -> None:
    """Its settings, what it declares and where its theory ends; a name that is near is offered."""
    code, out, _ = _run("parts", "curve-thompson")
    assert code == 0
    assert out.startswith("bandit curve-thompson: Thompson sampling on a polynomial")
    assert "  degree = " in out
    assert "  is_curve = True" in out
    assert "Assumes: the predictor is a polynomial" in out
    assert "until the next refit." in out
    assert "Examples" not in out
    (told,) = json.loads(_run("parts", "cap", "--json")[1])
    assert (told["settings"]["limit"], told["declares"]["is_hard"]) == ("inf", "True")
    for extra in ([], ["--check"]):
        code, out, said = _run("parts", *extra, "curve-tompson")
        assert (code, out) == (2, "")
        assert "did you mean curve-thompson" in said
    assert "expected one kind or one part, got gate, cap" in _run("parts", "gate", "cap")[2]


def test_a_file_name_with_brackets_is_shown_as_it_is() -> None:
    """What looks like markup in a name is no markup."""
    code, _, err = _run("validate", "[/x].toml")
    assert code == 1
    assert "[/x].toml" in err


def test_import_is_light() -> None:
    """`import gdcb` loads neither SciPy, nor pydantic, nor the command line."""
    heavy = ("scipy", "pydantic", "typer", "rich", "sklearn", "torch")
    code = f"import gdcb, sys; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_program_is_installed() -> None:
    """`python -m` of the entry point prints the version."""
    done = subprocess.run(
        [Path(sys.executable).with_name("gdcb"), "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("gdcb 0.")


def test_the_package_runs_as_a_module() -> None:
    """`python -m gdcb` is the same program, also by its name."""
    command = [sys.executable, "-m", "gdcb", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Usage: gdcb " in done.stdout
