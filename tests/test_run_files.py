"""The files of a run: whole or not at all, the same bytes, one record at a time."""

from __future__ import annotations

import gc
import hashlib
import json
import math
import os
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from gdcb.errors import InvalidInput
from gdcb.protocol.files import prepare_folder, write_episodes, write_summary, write_text_whole
from gdcb.protocol.record import Record
from tests.protocol_builders import ground, record

T, R = 7, 3


def providers(episodes: int = T, replicates: int = R) -> dict[str, Callable[[], Record]]:
    return {
        "B4": lambda: record(episodes, replicates, 1),
        "B1": lambda: record(episodes, replicates, 2, has_scaler=False),
    }


def test_a_row_for_every_method_replicate_and_episode(tmp_path: Path) -> None:
    write_episodes(tmp_path / "episodes.parquet", providers(), ground(T, R))
    frame = pl.read_parquet(tmp_path / "episodes.parquet")
    assert frame.columns == [
        *("method", "replicate", "episode", "regret", "calibration", "bandit", "gate"),
        *("inherited", "paper_bandit", "paper_calibration", "paper_gate", "reward", "advantage"),
        *("overridden", "success", "calibration_error", "floor"),
    ]
    assert frame.height == 2 * R * T
    assert frame["method"].dtype == pl.Enum(["B4", "B1"])
    assert frame["method"].to_list() == ["B4"] * (R * T) + ["B1"] * (R * T)
    assert frame["replicate"].to_list() == [r for _ in "ab" for r in range(R) for _ in range(T)]
    assert frame["episode"].to_list() == [t for _ in range(2 * R) for t in range(1, T + 1)]


def test_the_numbers_are_those_of_the_records(tmp_path: Path) -> None:
    write_episodes(tmp_path / "episodes.parquet", providers(), ground(T, R))
    frame = pl.read_parquet(tmp_path / "episodes.parquet")
    ours = providers()["B4"]()
    row = frame.row(1 * T + 4, named=True)  # replicate 1, episode 5
    expected = {
        **dict(zip(("regret", "calibration", "bandit", "gate"), ours.parts[4, 1], strict=True)),
        **dict(
            zip(
                ("paper_bandit", "paper_calibration", "paper_gate"),
                ours.parts_paper[4, 1],
                strict=True,
            )
        ),
        "inherited": None,  # what ran before changes nothing here
        "reward": ours.reward[4, 1],
        "advantage": ours.advantage[4, 1],
        "overridden": ours.overridden[4, 1],
        "success": ours.success[4, 1],
        "calibration_error": ours.error[4, 1],
        "floor": ground(T, R).floor[4, 1],
    }
    assert row == {"method": "B4", "replicate": 1, "episode": 5} | expected
    other = frame.filter(pl.col("method") == "B1")
    for name in ("paper_bandit", "paper_calibration", "paper_gate", "calibration_error"):
        assert other[name].null_count() == R * T
    assert frame["regret"].null_count() == 0
    assert frame.select(pl.col(pl.Float64).is_nan().any()).row(0) == (False,) * 14


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


WRITE = """
import sys
from tests.protocol_builders import ground, record
from gdcb.protocol.files import write_episodes
made = {key: lambda seed=seed: record(600, 250, seed) for seed, key in enumerate(("B4", "B1"))}
write_episodes(sys.argv[1], made, ground(600, 250))
"""


def test_the_same_records_give_the_same_bytes_on_any_number_of_threads(tmp_path: Path) -> None:
    """300,000 rows: several row groups, and groups that end in the middle of a method."""
    digests = set()
    for run, threads in enumerate((1, 2, 4, 4)):
        path = tmp_path / f"{run}.parquet"
        subprocess.run(
            [sys.executable, "-c", WRITE, str(path)],
            check=True,
            env={**os.environ, "POLARS_MAX_THREADS": str(threads)},
            cwd=Path(__file__).parents[1],
        )
        digests.add(digest(path))
    assert len(digests) == 1
    assert pl.scan_parquet(tmp_path / "0.parquet").select(pl.len()).collect().item() == 300_000


def test_one_record_at_a_time_is_in_memory(tmp_path: Path) -> None:
    alive: list[weakref.ref[Any]] = []

    def ask() -> Record:
        gc.collect()
        assert all(ref() is None for ref in alive)
        fresh = record(T, R)
        alive.extend(weakref.ref(array) for array in (fresh.parts, fresh.reward))
        return fresh

    write_episodes(tmp_path / "episodes.parquet", {"B1": ask, "B2": ask, "B4": ask}, ground(T, R))
    assert len(alive) == 6


@pytest.mark.parametrize("error", [InvalidInput("lost"), KeyboardInterrupt()])
def test_a_run_that_breaks_off_leaves_the_old_file(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "episodes.parquet"
    write_episodes(path, providers(), ground(T, R))
    before = digest(path)

    def fail() -> Record:
        raise error

    with pytest.raises(type(error)):
        write_episodes(path, {**providers(), "B2": fail}, ground(T, R))
    assert digest(path) == before
    assert [file.name for file in tmp_path.iterdir()] == ["episodes.parquet"]


def test_bad_records_are_not_written(tmp_path: Path) -> None:
    one = record(T, R)
    one.reward[2, 1] = math.nan
    with pytest.raises(InvalidInput, match="record of B4: expected finite reward"):
        write_episodes(tmp_path / "episodes.parquet", {"B4": lambda: one}, ground(T, R))
    with pytest.raises(InvalidInput, match="at least one method"):
        write_episodes(tmp_path / "episodes.parquet", {}, ground(T, R))
    assert list(tmp_path.iterdir()) == []


def test_a_summary_is_json_without_nan(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    write_summary(path, {"instance": "str", "σ": [1.5, None]})
    assert json.loads(path.read_text(encoding="utf-8")) == {"instance": "str", "σ": [1.5, None]}
    before = path.read_bytes()
    with pytest.raises(ValueError, match="Out of range"):
        write_summary(path, {"a": math.nan})
    assert path.read_bytes() == before


def test_a_text_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_text_whole(path, "old\r\n")
    write_text_whole(path, "<p>δ</p>\n")
    assert path.read_bytes() == "<p>δ</p>\n".encode()
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_what_cannot_be_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"cannot write .*report\.html"):
        write_text_whole(tmp_path / "nowhere" / "report.html", "x")
    with pytest.raises(InvalidInput, match=r"cannot write .*episodes\.parquet"):
        write_episodes(tmp_path / "nowhere" / "episodes.parquet", providers(), ground(T, R))
    (tmp_path / "folder").mkdir()
    with pytest.raises(InvalidInput, match="cannot write"):
        write_text_whole(tmp_path / "folder", "x")
    assert [file.name for file in tmp_path.iterdir()] == ["folder"]


def test_a_folder_is_tried_before_the_work(tmp_path: Path) -> None:
    folder = prepare_folder(tmp_path / "a" / "b")
    assert folder.is_dir()
    assert list(folder.iterdir()) == []
    assert prepare_folder(folder) == folder
    (tmp_path / "file").touch()
    for bad in (tmp_path / "file", tmp_path / "file" / "b"):
        with pytest.raises(InvalidInput, match=r"cannot write to .*file"):
            prepare_folder(bad)


def test_wide_values_survive(tmp_path: Path) -> None:
    """Nothing is rounded: doubles come back bit for bit."""
    one = record(T, R)
    one.reward[:] = (
        np.random.default_rng(0).normal(size=(T, R)) * 10.0 ** np.arange(-9, 12, 3)[:, None]
    )
    write_episodes(tmp_path / "e.parquet", {"B4": lambda: one}, ground(T, R))
    back = pl.read_parquet(tmp_path / "e.parquet")["reward"].to_numpy()
    assert (back == one.reward.T.ravel()).all()
