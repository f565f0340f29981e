"""The command line: what it prints, where, and with which exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gdcb.cli import app, stylised
from gdcb.instances import NAMES, STUDIES, load
from gdcb.protocol.summary import EXTRAS, SETTINGS

runner = CliRunner()
FILES = ("episodes.parquet", "report.html", "summary.json")
SMALL = ["--episodes", "12", "--replicates", "3"]


def _run(*arguments: str) -> tuple[int, str, str]:
    result = runner.invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def only_str_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the full forms away, so that stylised worlds other than kalman's can be run."""
    monkeypatch.setattr("gdcb.cli.run.STUDIES", {"str": STUDIES["str"]})


def test_help_is_a_table_of_contents() -> None:
    """Every command is listed with what it is for."""
    code, out, _ = _run("--help")
    assert code == 0
    for command in ("run", "instances", "validate", "parts", "verify"):
        assert command in out


@pytest.mark.usefixtures("only_str_in_full")
def test_a_stylised_run_writes_a_report_and_says_that_the_world_is_made(tmp_path: Path) -> None:
    """The table names the methods, and the report is one self-contained page."""
    code, out, _ = _run("run", "credit", *SMALL, "--out", str(tmp_path))
    assert code == 0
    for word in ("GDCB", "no scaler", "above floor", "made, not real", "variant stylised"):
        assert word in out
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Variant stylised: small and made" in page
    assert "gdcb run credit --episodes 12 --replicates 3 --seed 0" in page
    for word in ("usury cap", "CurveThompson", "4 a replicate, each a lender", "What is real"):
        assert word in page
    assert "http" not in page.replace("http-equiv", "")
    assert sorted(p.name for p in tmp_path.iterdir()) == list(FILES)


def test_where_what_runs_changes_later_contexts_only_totals_are_compared(tmp_path: Path) -> None:
    """No floor, no column of it in the table, and the page says why."""
    code, out, _ = _run("run", "kalman", *SMALL, "--out", str(tmp_path))
    assert code == 0
    assert "floor" not in out
    document = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert document["floor"] is document["methods"]["B4"]["excess"] is None
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "a gate floor would hang on the trajectory" in page


@pytest.mark.parametrize("name", [name for name in NAMES if name not in STUDIES])
def test_every_stylised_instance_says_what_is_real_and_what_is_made(name: str) -> None:
    """The page shows both apart, so each text must have both."""
    about = stylised.extras_of(load(name))["about"]
    assert all(text.strip() for text in (*about["real"], *about["made"]))


def test_json_is_one_document_and_nothing_else(tmp_path: Path) -> None:
    """Stdout parses as a whole; parts sum to the regret; estimates carry their interval."""
    code, out, _ = _run("run", "kalman", *SMALL, "--json", "--out", str(tmp_path))
    assert code == 0
    document = json.loads(out)
    assert document == json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    computed = {"floor", "floor_curve", "methods", "cold_start", "against_best"}
    assert set(document) == {*SETTINGS, *EXTRAS} | computed
    assert document["cold_start"] is document["variance_ratio"] is None
    for method in document["methods"].values():
        total = sum(part["mean"] for part in method["parts"].values())
        assert abs(total - method["regret"]["mean"]) < 1e-9
        assert method["regret"]["low"] <= method["regret"]["mean"] <= method["regret"]["high"]
        assert len(method["regret_curve"]) == 12
    assert document["methods"]["A1"]["vs_B4"].keys() == {"mean", "low", "high", "p"}


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    """Two runs agree in every file, another seed does not."""
    found = []
    for i, seed in enumerate(("5", "5", "6")):
        folder = tmp_path / str(i)
        assert _run("run", "kalman", *SMALL, "--seed", seed, "--out", str(folder))[0] == 0
        found.append([(folder / name).read_bytes() for name in FILES])
    assert found[0] == found[1]
    assert json.loads(found[0][2])["methods"] != json.loads(found[2][2])["methods"]


def test_a_stylised_run_that_is_interrupted_leaves_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its own nor an older one; the next run goes through."""
    arguments = ("run", "kalman", *SMALL, "--out", str(tmp_path))
    assert _run(*arguments)[0] == 0
    before = {name: (tmp_path / name).read_bytes() for name in FILES}

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(stylised, "simulate", stop)
        code, out, err = _run(*arguments)
    assert (code, out) == (1, "")
    assert "interrupted" in err
    assert not any((tmp_path / name).exists() for name in FILES)
    assert _run(*arguments, "--resume")[0] == 0
    assert {name: (tmp_path / name).read_bytes() for name in FILES} == before


@pytest.mark.usefixtures("only_str_in_full")
def test_several_instances_have_a_folder_each(tmp_path: Path) -> None:
    """Under --out; as JSON they are a list."""
    arguments = ("run", "credit", "grid", "--episodes", "3", "--replicates", "2")
    code, out, _ = _run(*arguments, "--json", "--out", str(tmp_path))
    assert code == 0
    assert [one["instance"] for one in json.loads(out)] == ["credit", "grid"]
    for name in ("credit", "grid"):
        assert sorted(path.name for path in (tmp_path / name).iterdir()) == list(FILES)


def test_one_replicate_has_no_interval(tmp_path: Path) -> None:
    """What cannot be estimated is null, and the page still draws."""
    arguments = ("run", "kalman", "--episodes", "3", "--replicates", "1", "--json")
    code, out, _ = _run(*arguments, "--out", str(tmp_path))
    assert code == 0
    assert json.loads(out)["methods"]["B4"]["regret"]["low"] is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "nowhere"), "no instance nowhere"),
        (("run", "str", "--episodes", "0"), "--episodes"),
        (("run", "str", "--replicates", "-3"), "--replicates"),
        (("run", "str", "--seed", "-1"), "--seed"),
        (("run", "mine.toml"), "needs a world"),
        (("run", "kalman", "--variant", "mis"), "--variant is for str"),
        (("run", "kalman", "--methods", "B4"), "--methods is for str"),
        (("run", "kalman", "--option", "nights=3"), "--option is for str"),
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
    assert "is whole" in out
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
