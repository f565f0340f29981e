"""`gdcb run str`: the whole protocol as people call it, from its arguments to its files."""

from __future__ import annotations

import html
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from gdcb.cli import app
from gdcb.errors import GdcbError
from gdcb.protocol import experiment, fitting, methods, tuning
from gdcb.protocol.experiment import settings_of
from gdcb.protocol.methods import tuned_settings
from gdcb.protocol.store import FINAL, Store
from tests.toy_tasks import wait_until

KEYS = ("B1", "B2g", "B2gw", "B4", "A3", "B4ope", "A2")
METHODS = ("--methods", ",".join(KEYS))
TINY = (*METHODS, "--replicates", "4", "--episodes", "25")
LEAST = ("--methods", "B1,B4", "--replicates", "2", "--episodes", "3", "--option", "nights=40")
# What scripts read, and which of it is an estimate, a curve, or neither.
DOCUMENT = {
    *("instance", "variant", "episodes", "replicates", "seed", "variance_ratio", "floor"),
    *(
        "methods",
        "against_best",
        "cold_start",
        "version",
        "command",
        "options",
        "floor_curve",
        "theorems",
    ),
}
ESTIMATES = {"regret", "excess", "vs_B4", "reward"}
CURVES = {"regret_curve", "calibration_error_curve", "override_rate_curve"}
METHOD = ESTIMATES | CURVES | {"label", "parts", "parts_paper", "episodes_to_threshold"}
STARTS = {"warm_curve", "cold_curve", "ope_curve", "warm_minus_cold"}
PARTS = {"bandit", "calibration", "gate"}


@dataclass(frozen=True)
class Called:
    """What came of a command."""

    code: int
    out: str
    err: str


def call(*arguments: str) -> Called:
    """Run in this process."""
    result = CliRunner().invoke(app, ["run", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Called(result.exit_code, result.stdout, result.stderr)


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the bytes of everything in a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def stored(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Called, Path]:
    """Run once in this process, and print JSON."""
    folder = tmp_path_factory.mktemp("whole")
    return call("str", *TINY, "--engine", "local", "--json", "--out", str(folder)), folder


@pytest.fixture(scope="module")
def document(whole: tuple[Called, Path]) -> dict[str, Any]:
    return stored(whole[1])


# What it prints and writes


def test_json_is_the_stored_document_and_nothing_else(whole: tuple[Called, Path]) -> None:
    called, folder = whole
    assert (called.code, called.err) == (0, "")
    assert json.loads(called.out) == stored(folder)
    assert sorted(files_of(folder)) == sorted(FINAL)


def test_the_keys_are_those_that_scripts_read(document: dict[str, Any]) -> None:
    assert document.keys() >= DOCUMENT
    about = {"instance": "str", "variant": "well", "episodes": 25, "replicates": 4, "seed": 0}
    assert {name: document[name] for name in about} == about
    assert list(document["methods"]) == list(KEYS)  # A2, and not B4u, which it is
    for method in document["methods"].values():
        assert method.keys() >= METHOD
        assert method["parts"].keys() == PARTS
        assert method["parts_paper"].keys() == PARTS
    start = document["cold_start"]
    assert start.keys() >= STARTS | {"saving_at_50", "compression"}
    assert start["saving_at_50"] == {"total": None, "excess": None}  # 25 episodes only
    assert set(document["theorems"]) == {"t1", "t2", "t3", "t4"}


def estimates(document: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield everything that must be an estimate, with where it stands."""
    yield from (("variance_ratio", document["variance_ratio"]), ("floor", document["floor"]))
    for key, method in document["methods"].items():
        for name in ESTIMATES:
            yield f"{key}.{name}", method[name]
        for split in ("parts", "parts_paper"):
            yield from ((f"{key}.{split}.{name}", method[split][name]) for name in PARTS)
        for name in CURVES:
            yield from ((f"{key}.{name}", point) for point in method[name] or ())
    for name in STARTS:
        yield from ((f"cold_start.{name}", point) for point in document["cold_start"][name])


def test_every_estimate_has_a_mean_within_its_interval(document: dict[str, Any]) -> None:
    missing = set()
    for where, value in estimates(document):
        if value is None:
            missing.add(where)
            continue
        assert value.keys() >= {"mean", "low", "high"}, where
        assert value["low"] <= value["mean"] <= value["high"], where
    # B4 is not compared with itself, and without a gate there is no floor to be above.
    assert missing == {"B4.vs_B4", "A2.excess"}


def test_curves_end_where_the_sums_are(document: dict[str, Any]) -> None:
    for method in document["methods"].values():
        assert len(method["regret_curve"]) == len(method["override_rate_curve"]) == 25
        assert method["regret_curve"][-1] == method["regret"]
    assert document["methods"]["B1"]["calibration_error_curve"] is None
    assert len(document["methods"]["B4"]["calibration_error_curve"]) == 25
    start, methods = document["cold_start"], document["methods"]
    for name, key in (("warm_curve", "B4"), ("cold_curve", "A3"), ("ope_curve", "B4ope")):
        assert start[name] == methods[key]["regret_curve"]
    difference = methods["B4"]["regret"]["mean"] - methods["A3"]["regret"]["mean"]
    assert start["warm_minus_cold"][-1]["mean"] == pytest.approx(difference)


def test_both_splits_sum_to_the_total(document: dict[str, Any]) -> None:
    for method in document["methods"].values():
        for split in ("parts", "parts_paper"):
            total = sum(part["mean"] for part in method[split].values())
            assert total == pytest.approx(method["regret"]["mean"], abs=1e-9)


def test_every_episode_is_in_the_table_of_episodes(whole: tuple[Called, Path]) -> None:
    """One row a method, replicate and episode; its sums are the document's."""
    import polars as pl

    folder = whole[1]
    rows = pl.read_parquet(folder / "episodes.parquet")
    methods = ["B4u" if key == "A2" else key for key in stored(folder)["methods"]]
    assert rows.height == len(methods) * 4 * 25
    assert rows["method"].unique(maintain_order=True).to_list() == methods
    gap = rows["calibration"] + rows["bandit"] + rows["gate"] - rows["regret"]
    assert gap.abs().to_numpy().max() < 1e-9
    regret = rows.filter(pl.col("method") == "B4")["regret"].sum() / 4
    assert regret == pytest.approx(stored(folder)["methods"]["B4"]["regret"]["mean"])


def test_a_pool_leaves_the_same_bytes_and_prints_a_table(
    whole: tuple[Called, Path], tmp_path: Path
) -> None:
    """Twice; nothing on stderr where nobody looks at it; no line is wider than 80."""
    for name in ("there", "here"):
        called = call("str", *TINY, "--engine", "pool", "--out", str(tmp_path / name))
        assert (called.code, called.err) == (0, "")
        assert files_of(tmp_path / name) == files_of(whole[1])
    lines = called.out.splitlines()
    assert lines[0] == "Short-term rental pricing, variant well: 4 replicates of 25 episodes"
    for key in KEYS:
        [row] = [line for line in lines if line.split()[:1] == [key]]
        assert " ± " in row
    *table, last = lines
    assert max(len(line) for line in table) <= 80
    assert last.startswith(f"Report: {tmp_path / 'here' / 'report.html'};")
    for word in (
        "vs B4",
        "vs A3",
        "the best rival with the history in these runs",
        "above floor",
        "Gate floor",
        "Cold-start compression",
        "made, not real",
    ):
        assert word in " ".join(called.out.split())


def test_the_recorded_command_gives_the_same_bytes_again(
    whole: tuple[Called, Path], tmp_path: Path
) -> None:
    """Into a folder that holds another result, whose files go."""
    program, *arguments = shlex.split(stored(whole[1])["command"])
    assert (program, arguments[0]) == ("gdcb", "run")
    assert call("str", *LEAST, "--engine", "local", "--out", str(tmp_path)).code == 0
    assert call(*arguments[1:], "--engine", "local", "--out", str(tmp_path)).code == 0
    assert files_of(tmp_path) == files_of(whole[1])


def test_another_seed_is_another_result(tmp_path: Path) -> None:
    found = []
    for seed in ("0", "18446744073709551615"):
        called = call("str", *LEAST, "--seed", seed, "--engine", "local", "--out", str(tmp_path))
        assert called.code == 0
        found.append(stored(tmp_path)["methods"]["B1"]["reward"])
    assert found[0] != found[1]


def test_outside_the_family_there_is_no_order_of_the_paper(tmp_path: Path) -> None:
    called = call("str", *LEAST, "--variant", "mis", "--engine", "local", "--out", str(tmp_path))
    assert called.code == 0
    assert "variant mis" in called.out
    found = stored(tmp_path)
    assert found["variant"] == "mis"
    assert all(method["parts_paper"] is None for method in found["methods"].values())


@pytest.mark.parametrize("kind", ["private", "anchored", "changing"])
def test_options_reach_the_world_and_the_document(kind: str, tmp_path: Path) -> None:
    rewards = {}
    for manager in ("plain", kind):
        arguments = (*LEAST, "--option", f"manager={manager}", "--episodes", "8")
        assert call("str", *arguments, "--engine", "local", "--out", str(tmp_path)).code == 0
        found = stored(tmp_path)
        assert found["options"] == {"nights": 40, "manager": manager}
        assert f"--option nights=40 --option manager={manager}" in found["command"]
        rewards[manager] = found["methods"]["B1"]["reward"]
        page = (tmp_path / "report.html").read_text(encoding="utf-8")
        assert ("know the manager's signal" in html.unescape(page)) == (manager == "private")
        assert ("no proposal avoids" in page) == (manager != "private")
    assert rewards["plain"] != rewards[kind]


def test_one_replicate_of_one_episode(tmp_path: Path) -> None:
    """What cannot be estimated is null; table and page are there all the same."""
    size = ("--replicates", "1", "--episodes", "1")
    called = call("str", *LEAST, *size, "--engine", "local", "--out", str(tmp_path))
    assert called.code == 0
    assert "vs B4" in called.out
    regret = stored(tmp_path)["methods"]["B4"]["regret"]
    assert regret["low"] is regret["high"] is None


# Bad arguments


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nowhere",), "no instance nowhere; there are str, dosing"),
        (("str", "nowhere", "there"), "no instance nowhere, there;"),
        (("str", "--variant", "good"), "--variant: expected well or mis, got good"),
        (("str", "--methods", "B4,B9"), "no method 'B9'; there are B1, B2"),
        (("str", "--methods", "b4"), "no method 'b4'"),
        (("str", "--methods", " , "), "--methods: expected keys such as B1,B4,A3, got ' , '"),
        (("str", "--engine", "gpu"), "--engine: expected local, pool, ray, got gpu"),
        (("str", "--option", "weather=1"), "str has the options manager and nights, not weather"),
        (("str", "--option", "manager"), "--option: expected NAME=VALUE, got 'manager'"),
        (("str", "--option", "manager=nobody"), "manager: expected one of plain, private"),
        (("str", "--option", "nights=0"), "nights: expected a whole number >= 1, got 0"),
        (("str", "--option", "nights=--5"), "nights: expected a whole number >= 1, got '--5'"),
        (("str", "--option", "nights=3", "--option", "nights=4"), "a name twice"),
        (("str", "--episodes", "0"), "--episodes: expected a whole number >= 1, got 0"),
        (("str", "--replicates", "-3"), "--replicates: expected a whole number >= 1, got -3"),
        (("str", "--episodes", "ten"), "Invalid value for '--episodes'"),
        (("str", "--seed", "-1"), "--seed: expected 0 to 2**64 - 1, got -1"),
        (("str", "--seed", str(2**64)), "--seed: expected 0 to 2**64 - 1"),
        (("str", "--seed", str(tuning.SEED)), "every method was tuned on seed 9000001"),
        (("str", "--seed", str(fitting.PRIOR_SEED)), "was tuned on seed 9000002; take another"),
        (("str", "str"), "an instance twice"),
        (("mine.toml",), "mine.toml declares an instance, and running needs a world too"),
        (("str", "--nothing"), "No such option: --nothing"),
    ],
)
def test_wrong_usage_says_what_to_do_and_writes_nothing(
    arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    called = call(*arguments)
    assert (called.code, called.out) == (2, "")
    assert said in " ".join(called.err.split())
    assert files_of(tmp_path) == {}


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    """It fails before the work, and the file stays."""
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    for out, why in (("file", "it is a file"), ("file/folder", "Not a directory")):
        called = call("str", "--out", str(tmp_path / out))
        assert (called.code, called.out) == (1, "")
        assert f"gdcb: --out: cannot write to {tmp_path / out} ({why})" in called.err
    assert files_of(tmp_path) == {"file": b"mine"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        called = call("str", "--out", str(tmp_path))
    finally:
        tmp_path.chmod(0o700)
    assert (called.code, called.out) == (1, "")
    assert "cannot write" in called.err


def test_a_folder_in_which_another_run_writes(tmp_path: Path) -> None:
    settings = settings_of("str", "well", 3, 2, 0, ("B1",))
    with Store(tmp_path, settings):
        called = call("str", *LEAST, "--engine", "local", "--out", str(tmp_path))
    assert (called.code, called.out) == (1, "")
    assert "another run is writing to" in called.err


def test_a_finished_run_is_not_resumed(whole: tuple[Called, Path]) -> None:
    before = files_of(whole[1])
    called = call("str", *TINY, "--engine", "local", "--resume", "--out", str(whole[1]))
    assert (called.code, called.out) == (1, "")
    assert "holds a finished run and nothing to resume" in called.err
    assert files_of(whole[1]) == before


def test_nothing_to_resume_is_a_fresh_start(tmp_path: Path) -> None:
    called = call("str", *LEAST, "--engine", "local", "--resume", "--out", str(tmp_path))
    assert called.code == 0
    assert "nothing to resume" in called.err
    assert sorted(files_of(tmp_path)) == sorted(FINAL)


def test_a_run_is_not_resumed_with_other_tuned_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: Any) -> None:
        raise GdcbError("stopped")

    arguments = ("str", *LEAST, "--engine", "local", "--out", str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(experiment, "run", stopped)
        assert call(*arguments).code == 1
        tuned = tuned_settings("str", "well")
        tuned["B1"] = tuned["B1"] | {"scale": 0.123}
        patch.setattr(methods, "tuned_settings", lambda *_: tuned)
        called = call(*arguments, "--resume")
        assert called.code == 1
        assert "is another one: the tuned settings have changed" in called.err
    assert call(*arguments, "--resume").code == 0


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (np.linalg.LinAlgError("Singular matrix"), "gdcb: str (well): Singular matrix\n"),
        (
            OSError(28, "No space left on device"),
            "gdcb: str (well): [Errno 28] No space left on device\n",
        ),
    ],
)
def test_what_goes_wrong_under_way_is_one_sentence(
    error: Exception, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> None:
        raise error

    monkeypatch.setattr(experiment, "run", failing)
    called = call("str", *LEAST, "--engine", "local", "--out", str(tmp_path))
    assert (called.code, called.out, called.err) == (1, "", said)


# Ctrl-C in mid-run

LONG = (*METHODS, "--replicates", "20", "--episodes", "70")


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Called, Path]:
    """Start the program, and send what a terminal sends for Ctrl-C after its first method."""
    folder = tmp_path_factory.mktemp("stopped")
    program = str(Path(sys.executable).with_name("gdcb"))
    process = subprocess.Popen(
        [program, "run", "str", *LONG, "--engine", "pool", "--out", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        first = [folder / ".parts" / f"b0000-{name}.npz" for name in ("ground", "B1")]
        assert wait_until(lambda: all(part.exists() for part in first), 60.0)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert wait_until(lambda: not is_group(process.pid))
    finally:
        if is_group(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
    return Called(process.returncode, out, err), folder


def is_group(number: int) -> bool:
    """Say whether a process of the group is left."""
    try:
        os.killpg(number, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def again(stopped: tuple[Called, Path], tmp_path: Path) -> Path:
    """Return a copy of what the interrupted run left."""
    return Path(shutil.copytree(stopped[1], tmp_path / "again"))


def test_an_interrupted_run_says_so_and_leaves_no_result(stopped: tuple[Called, Path]) -> None:
    """Workers have ended, finished tasks are kept, and nothing could be taken for a result."""
    called, folder = stopped
    assert (called.code, called.out) == (1, "")
    assert called.err == (
        "gdcb: interrupted: no report yet; the same command with --resume goes on where it "
        "stopped\n"
    )
    assert [path.name for path in folder.iterdir()] == [".parts"]
    parts = files_of(folder / ".parts")
    assert {"manifest.json", "b0000-ground.npz", "b0000-B1.npz"} <= set(parts)
    assert len([name for name in parts if name.endswith(".npz")]) < 1 + len(KEYS)


def test_resumed_it_has_the_bytes_of_an_uninterrupted_run(again: Path, tmp_path: Path) -> None:
    """On another engine; a part that was damaged meanwhile is noticed and computed again."""
    part = again / ".parts" / "b0000-B1.npz"
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    called = call("str", *LONG, "--engine", "local", "--resume", "--out", str(again))
    assert called.code == 0
    assert called.err == f"damaged parts in {again / '.parts'}, computed again: 1\n"
    assert call("str", *LONG, "--engine", "local", "--out", str(tmp_path / "whole")).code == 0
    assert files_of(again) == files_of(tmp_path / "whole")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("--seed", "1"), "seed 0 there, 1 here"),
        (("--episodes", "99"), "episodes 70 there, 99 here"),
        (("--methods", "B1"), "methods B1,B2g,B2gw,B4,A3,B4ope,B4u there, B1 here"),
        (("--variant", "mis"), "variant well there, mis here"),
        (("--option", "nights=40"), "options {} there, {'nights': 40} here"),
    ],
)
def test_other_settings_are_not_resumed(change: tuple[str, ...], said: str, again: Path) -> None:
    before = files_of(again / ".parts")
    called = call("str", *LONG, *change, "--engine", "local", "--resume", "--out", str(again))
    assert (called.code, called.out) == (1, "")
    assert f"the unfinished run in {again} is another one: {said}." in called.err
    assert files_of(again / ".parts") == before


def test_without_resume_it_starts_afresh_and_says_so(again: Path) -> None:
    called = call("str", *LEAST, "--engine", "local", "--out", str(again))
    assert called.code == 0
    assert "finished tasks of an unfinished run" in called.err
    assert sorted(files_of(again)) == sorted(FINAL)
