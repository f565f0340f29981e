"""The parts to copy work as they stand: they keep every promise, and their examples are right."""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner

from examples.skeletons import bandit, gate, instance, scaler
from gdcb import UCB1, Bounds, Chain, checks, declaration
from gdcb.bandits import Bandit
from gdcb.cli import app
from gdcb.errors import InvalidInput
from gdcb.gates import Gate
from gdcb.scalers import Scaler
from gdcb.simulate import World

SKELETONS = Path(bandit.__file__).parent
MODULES = [bandit, gate, instance, scaler]

# mypy holds these against the protocols.
BANDIT: Bandit = bandit.EpsilonGreedy()
SCALER: Scaler = scaler.BandScaler()
GATE: Gate = gate.StepLimit()
WORLD: World = instance.Garden()


@pytest.mark.parametrize("promise", checks.of(BANDIT), ids=str)
def test_the_bandit(promise: checks.Check) -> None:
    """The skeleton of a bandit keeps this promise."""
    promise()


@pytest.mark.parametrize("promise", checks.of(SCALER), ids=str)
def test_the_scaler(promise: checks.Check) -> None:
    """The skeleton of a scaler keeps this promise."""
    promise()


@pytest.mark.parametrize("promise", checks.of(GATE), ids=str)
def test_the_gate(promise: checks.Check) -> None:
    """The skeleton of a gate keeps this promise."""
    promise()


def test_the_instance() -> None:
    """The skeleton of an instance and all its parts keep theirs."""
    checks.check(instance.build())


def test_they_work_together() -> None:
    """The four parts make one instance: ε-greedy with bands, behind the step limit, in its own
    garden, keeps the promises of a domain."""
    domain = instance.build()
    whole = replace(
        domain.instance,
        scaler=scaler.BandScaler(feature="dryness", edges=(0.3, 0.7)),
        gate=Chain((gate.StepLimit(last="dryness", share=9.0), Bounds(low=0.0, high=6.0))),
    )
    checks.check(replace(domain, instance=whole, bandit=BANDIT))


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_the_examples(module: ModuleType) -> None:
    """The arithmetic in the docstrings is right."""
    result = doctest.testmod(module)
    assert result.failed == 0


@pytest.mark.parametrize("part", [BANDIT, SCALER, GATE], ids=lambda part: type(part).__name__)
def test_the_pages(part: object) -> None:
    """Docstrings have what a part's page is made of, in its order."""
    text = type(part).__doc__ or ""
    pieces = ["Parameters\n", "Notes\n", "Assumes: ", "Stops applying: ", "Examples\n", ">>> "]
    places = [text.find(piece) for piece in pieces]
    assert min(places) > 0
    assert places == sorted(places)


def test_every_skeleton_is_tested() -> None:
    """No file in the folder is left out."""
    assert {Path(str(module.__file__)).name for module in MODULES} == {
        path.name for path in SKELETONS.glob("*.py")
    }


# What CONTRIBUTING.md says

ROOT = SKELETONS.parents[1]


def test_every_path_in_contributing_is_there() -> None:
    """Files and folders that it names exist, under the root or under the package."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w./]+(?:\.py|\.md|\.toml|/))`", text)) - {"pyproject.toml"}
    assert len(named) > 8
    own = ("__init__.py", "round.py", "ridge.py")  # named within their folder
    for path in named - set(own):
        assert (ROOT / path).exists() or (ROOT / "src" / "gdcb" / path).exists(), path


def test_what_it_says_of_simulating_an_instance_runs() -> None:
    """The lines in 'Add an instance', as they stand, on the skeleton."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (lines,) = [textwrap.dedent(block) for block in blocks if "simulate(" in block]
    names: dict[str, Any] = {"build": instance.build}
    exec(lines, names)
    assert names["run"].log.unit.size == 100 * 20 * names["d"].units


def register(folder: Path, package: str, **parts: str) -> None:
    """Write down that a package registers bandits, as an installer would."""
    info = folder / f"{package}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
    lines = [f"{name} = {value}" for name, value in parts.items()]
    (info / "entry_points.txt").write_text("\n".join(["[gdcb.bandits]", *lines]) + "\n")


def test_a_name_that_two_packages_register_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither shadows the other: the error names both. The same part twice is no conflict."""
    register(tmp_path, "one", greedy="one:Greedy", both="gdcb.bandits:UCB1")
    register(tmp_path, "two", greedy="two:Greedy", both="gdcb.bandits:UCB1")
    monkeypatch.syspath_prepend(tmp_path)
    declaration._entry_points.cache_clear()
    try:
        assert {"greedy", "both", "ucb1"} <= set(declaration.registered("bandit"))
        assert declaration.part_named("bandit", "both") is UCB1
        with pytest.raises(InvalidInput, match=r"one \(one:Greedy\)") as caught:
            declaration.part_named("bandit", "greedy")
        assert "'greedy' is registered twice" in str(caught.value)
        assert "two (two:Greedy)" in str(caught.value)
        listing = (ROOT / "examples" / "listing.toml").read_text(encoding="utf-8")
        table = re.compile(r"^\[bandit\].*?(?=^\[|\Z)", flags=re.DOTALL | re.MULTILINE)
        with pytest.raises(InvalidInput, match="registered twice"):
            declaration.parse(table.sub('[bandit]\npart = "greedy"\n\n', listing))
        for arguments, code in ((["parts", "bandit"], 0), (["parts", "--check", "greedy"], 1)):
            result = CliRunner().invoke(app, arguments)
            assert result.exit_code == code
            assert "registered twice" in " ".join(result.stdout.split())
    finally:
        declaration._entry_points.cache_clear()


def test_a_part_of_another_package_is_listed_checked_and_named(tmp_path: Path) -> None:
    """An entry point is all it takes: `gdcb parts` lists it, `--check` runs its promises, and a
    TOML file names it."""
    package = tmp_path / "yourpackage"
    package.mkdir()
    (package / "__init__.py").touch()
    shutil.copy(SKELETONS / "bandit.py", package / "bandits.py")
    register(tmp_path, "yourpackage", **{"epsilon-greedy": "yourpackage.bandits:EpsilonGreedy"})
    listing = (ROOT / "examples" / "listing.toml").read_text(encoding="utf-8")
    table = re.compile(r"^\[bandit\].*?(?=^\[|\Z)", flags=re.DOTALL | re.MULTILINE)
    assert table.search(listing)
    own = '[bandit]\npart = "epsilon-greedy"\nepsilon = 0.05\n\n'
    (tmp_path / "own.toml").write_text(table.sub(own, listing), encoding="utf-8")
    for arguments, said in (
        (["parts", "bandit"], "epsilon-greedy"),
        (["parts", "--check", "epsilon-greedy"], "37 of 37 kept"),
        (["validate", str(tmp_path / "own.toml")], ""),
    ):
        done = subprocess.run(
            [sys.executable, "-c", "from gdcb.cli import app; app()", *arguments],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
        )
        assert done.returncode == 0, done.stderr
        assert said in done.stdout
