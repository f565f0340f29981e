"""Several runs at once: the same bytes however they are spread, and what is finished stays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gdcb.engine import Local, Pool, WorkerLost
from gdcb.errors import InvalidInput
from gdcb.instances import NAMES
from gdcb.protocol import block, experiment
from gdcb.protocol.across import PAGE, TABLE
from gdcb.protocol.experiment import begin, is_of, settings_of
from gdcb.protocol.several import MANY, Planned, run_alone, several
from gdcb.protocol.store import FINAL
from gdcb.protocol.task import Task
from tests.test_cli_run import call, stored

KEYS = ("B1", "B4", "A4")  # A4 is B4flat by another name


def _planned(folder: Path, count: int, resume: bool = False) -> list[Planned]:
    return [
        Planned(settings_of("str", "well", 3, 2, seed, KEYS), folder / str(seed), resume)
        for seed in range(count)
    ]


def _run(runs: list[Planned], engine: Any) -> tuple[list[Any], list[Any], list[str]]:
    heard: list[Any] = []
    said: list[str] = []
    found = list(several(runs, engine, lambda *step: heard.append(step), said.append))
    return found, heard, said


def _bytes(runs: list[Planned]) -> list[bytes]:
    return [(planned.folder / name).read_bytes() for planned in runs for name in FINAL]


def test_side_by_side_they_have_the_bytes_of_one_after_the_other(tmp_path: Path) -> None:
    apart, together = _planned(tmp_path / "a", MANY), _planned(tmp_path / "b", MANY)
    first, heard, _ = _run(apart, Local())
    # Every task of every run is heard of, the two methods' twin counted once.
    assert [step for step in heard if step[1] == 0] == [("str (well)", 0, 4)] * MANY
    second, heard, said = _run(together, Pool(workers=1))
    assert first == second
    assert _bytes(apart) == _bytes(together)
    assert heard[0] == (f"0 of {MANY} runs", 0, 4 * MANY)
    assert all(done <= total for _, done, total in heard)
    assert said == []


def test_few_runs_are_spread_over_the_cores_each(tmp_path: Path) -> None:
    found, heard, _ = _run(_planned(tmp_path, MANY - 1), Pool(workers=1))
    assert [one["seed"] for one in found] == list(range(MANY - 1))
    assert heard[-1] == ("str (well)", 4, 4)


@pytest.mark.parametrize("count", [2, MANY])
def test_what_is_finished_is_taken_as_it_is(count: int, tmp_path: Path) -> None:
    runs = _planned(tmp_path, count)
    before, _, _ = _run(runs[:1], Local())
    stamp = (runs[0].folder / FINAL[-1]).stat().st_mtime_ns
    again, _, said = _run(_planned(tmp_path, count, resume=True), Pool(workers=1))
    assert again[0] == before[0]
    assert [one["seed"] for one in again] == list(range(count))
    assert (runs[0].folder / FINAL[-1]).stat().st_mtime_ns == stamp
    assert f"str (well) was finished before: {runs[0].folder}" in said


def test_a_run_whose_worker_dies_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a worker had finished is there for the next; nobody is told to resume."""
    (planned,) = _planned(tmp_path, 1)
    begin(planned.settings, planned.folder, pytest.fail)
    again, tasks = replace(planned, resume=True), []

    def run_task(task: Task) -> Any:
        tasks.append(task.key)
        if len(tasks) == 3:
            raise MemoryError("as if the worker died")
        return block.run_task(task)

    monkeypatch.setattr(experiment, "run_task", run_task)
    with pytest.raises(MemoryError):
        run_alone(again)
    document, said = run_alone(again)
    assert said == []
    assert len(tasks) == len(set(tasks)) + 1 == planned.n_tasks + 1  # one of them twice
    assert is_of(document, planned.settings)


def test_dead_workers_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*_: Any) -> Any:
        raise WorkerLost("pool: a worker process died")

    monkeypatch.setattr(Pool, "run", dies)
    monkeypatch.setattr("gdcb.protocol.several.MANY", 1)
    size = ("--methods", "B1,B4", "--replicates", "1", "--episodes", "2")
    called = call("str", *size, "--variant", "both", "--out", str(tmp_path))
    assert (called.code, called.err) == (1, "gdcb: pool: a worker process died\n")


def test_another_run_is_not_taken_for_it(tmp_path: Path) -> None:
    settings = settings_of("str", "well", 3, 2, 0, KEYS)
    (found,), _, _ = _run([Planned(settings, tmp_path)], Local())
    assert is_of(found, settings)
    assert not is_of(found, settings_of("str", "well", 3, 2, 1, KEYS))
    assert not is_of(found, settings_of("str", "well", 3, 2, 0, KEYS[:2]))
    assert not is_of([], settings)
    tuned = found["methods"]["B4"]
    assert not is_of(found | {"methods": {"B4": tuned | {"tuned": {"scale": -1}}}}, settings)
    other = Planned(settings_of("str", "well", 3, 2, 1, KEYS), tmp_path, resume=True)
    with pytest.raises(InvalidInput, match=r"str \(well\): .* holds a finished run"):
        _run([other, other], Local())


def test_all_runs_every_instance_with_one_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gdcb.protocol.specialise.measured._DRAWS", 20)  # 200 are half of the work
    size = ("--episodes", "2", "--replicates", "1", "--methods", "B1,B4,A3", "--variant", "well")
    asked = ("--all", *size, "--engine", "local", "--out", str(tmp_path))
    called = call(*asked)
    assert called.code == 0, called.err
    names = tuple(NAMES)
    assert {stored(tmp_path / f"{name}-well")["instance"] for name in names} == set(names)
    assert (tmp_path / PAGE).is_file()
    assert (tmp_path / TABLE).is_file()
    assert all(f"{name} well" in called.out for name in names)
    again = call(*asked, "--resume")
    assert again.code == 0, again.err
    assert again.err.count("was finished before") == len(names)
    assert again.out == called.out
