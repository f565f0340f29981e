"""Runs: repeatable to the byte on any engine, resumable, and never half a result."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb.engine import Engine, Local, Pool
from gdcb.errors import GdcbError, InvalidInput
from gdcb.protocol.record import Ground, Record
from gdcb.protocol.runner import Results, run
from gdcb.protocol.store import FINAL, Store
from gdcb.protocol.task import Settings, Task
from gdcb.records import flatten
from tests.properties import examples
from tests.toy_tasks import SMALL, episodes, ignore, wait_until

N_TASKS = 9  # three blocks, each with its ground and two methods


def stop_after(n: int) -> Callable[[int, int], None]:
    """Return a person who presses Ctrl-C once `n` tasks are done."""

    def progress(done: int, total: int) -> None:
        if done == n:
            raise KeyboardInterrupt

    return progress


def interrupted(folder: Path, n: int, what: Settings = SMALL) -> None:
    """Leave a run of which `n` tasks are finished."""
    with pytest.raises(KeyboardInterrupt), Store(folder, what) as store:
        run(store, Local(), episodes, stop_after(n))


def parts(folder: Path) -> dict[str, str]:
    """Return the digest of every part in a folder."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (folder / ".parts").glob("*.npz")
    }


def ran(folder: Path, engine: Engine, resume: bool = False) -> dict[str, str]:
    """Run to the end, publish nothing, and return the digests of the parts."""
    with Store(folder, SMALL, resume) as store:
        run(store, engine, episodes, ignore)
    return parts(folder)


def counted(task: Task, calls: list[str]) -> Record | Ground:
    calls.append(task.key)
    return episodes(task)


def resumed(folder: Path, what: Settings = SMALL) -> tuple[list[str], list[str]]:
    """Resume in this process; return the tasks that were run, and what the store noticed."""
    calls: list[str] = []
    with Store(folder, what, resume=True) as store:
        run(store, Local(), lambda task: counted(task, calls), ignore)
        return calls, store.notices


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Give the digests of a run that nothing disturbed."""
    return ran(tmp_path_factory.mktemp("whole"), Local())


# Settings and tasks


def test_tasks_go_block_by_block() -> None:
    """230 replicates are blocks of 100, 100 and 30; each begins with what its methods share."""
    keys = [task.key for task in SMALL.tasks]
    assert keys == [f"b000{b}-{method}" for b in range(3) for method in ("ground", "B1", "B4")]
    assert [task.replicates for task in SMALL.tasks[::3]] == [100, 100, 30]
    assert len({hash(task) for task in SMALL.tasks}) == N_TASKS


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"episodes": 0}, "Settings.episodes: expected a number >= 1, got 0"),
        ({"replicates": -1}, "Settings.replicates: expected a number >= 1, got -1"),
        ({"replicates": 1.5}, "Settings.replicates: expected a whole number, got 1.5"),
        ({"seed": 2**64}, "Settings.seed: expected at most 2**64 - 1"),
        ({"methods": ()}, "Settings.methods: expected one key at least, got none"),
        ({"methods": ("B1", "../B4")}, "Settings.methods: expected keys such as B4, got '../B4'"),
        ({"methods": ("B4", "B4")}, "Settings.methods: a key twice in B4, B4"),
        ({"name": ""}, "Settings.name: expected a name, got ''"),
        ({"options": (("a", 1), ("a", 2))}, "Settings.options: a name twice"),
        ({"options": (("a", float("nan")),)}, "Settings.options: expected a finite a, got nan"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, Any], text: str) -> None:
    """Each gets a sentence that says what was expected and what came."""
    with pytest.raises(InvalidInput, match=re.escape(text)):
        dataclasses.replace(SMALL, **change)


# The same bytes


@pytest.mark.parametrize("workers", [1, 2])
def test_a_pool_leaves_the_bytes_of_this_process(
    tmp_path: Path, whole: dict[str, str], workers: int
) -> None:
    """Every part, to the byte."""
    assert len(whole) == N_TASKS
    assert ran(tmp_path, Pool(workers)) == whole


def test_two_blocks_go_together_where_there_are_many() -> None:
    """430 replicates are tasks of 200, 200 and 30; of many episodes one block each."""
    many = dataclasses.replace(SMALL, replicates=430, episodes=250)
    assert [(task.block, task.replicates) for task in many.tasks if task.method == "B4"] == [
        (0, 200),
        (2, 200),
        (4, 30),
    ]
    long = dataclasses.replace(many, episodes=251)
    assert [task.replicates for task in long.tasks if task.method == "B4"] == [100] * 4 + [30]


def test_two_blocks_alone_go_together_and_three_do_not() -> None:
    """130 replicates are one task a method; of 230 one would be left over."""
    for replicates, sizes in ((100, [100]), (130, [130]), (200, [200]), (230, [100, 100, 30])):
        some = dataclasses.replace(SMALL, replicates=replicates, episodes=250)
        assert [task.replicates for task in some.tasks if task.method == "B4"] == sizes


def test_blocks_are_joined_in_the_order_of_replicates(tmp_path: Path) -> None:
    """A joined record is the blocks side by side; what blocks share stays as it is."""
    with Store(tmp_path, SMALL) as store:
        results = run(store, Local(), episodes, ignore)
        assert isinstance(results, Results)
        assert list(results) == ["B1", "B4"]
        assert len(results) == 2
        blocks: list[Any] = [episodes(SMALL.task(block, "B4")) for block in range(3)]
        for name, array in flatten(results["B4"]).items():
            axis = 0 if name in ("recommended", "executed", "overrides") else 1
            expected = np.concatenate([getattr(block, name) for block in blocks], axis=axis)
            np.testing.assert_array_equal(array, expected, err_msg=name, strict=True)
        np.testing.assert_array_equal(results.ground.floor[0], np.arange(230) / 1000)
        np.testing.assert_array_equal(results.ground.edges, np.linspace(0.5, 2.0, 4))
        with pytest.raises(KeyError):
            results["B2"]


def test_one_method_at_a_time_is_in_memory(tmp_path: Path) -> None:
    """Looking at all methods in turn takes little more room than the largest of them."""
    long = Settings("str", "well", (), 251, 400, 7, ("B1", "B2", "B3", "B4", "B5"), "0.1.0")
    with Store(tmp_path, long) as store:
        results = run(store, Local(), episodes, ignore)
        size = sum(array.nbytes for array in flatten(results["B1"]).values())
        tracemalloc.start()
        try:
            for method in results:
                total = results[method].parts.sum()
                assert np.isfinite(total)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    # The record itself, and of one block the file, the npz in it and the arrays of that.
    assert peak < 2.2 * size


def test_progress_is_told_from_the_start_to_the_end(tmp_path: Path) -> None:
    """A resumed run begins at what it found."""
    interrupted(tmp_path, 4)
    heard: list[tuple[int, int]] = []
    with Store(tmp_path, SMALL, resume=True) as store:
        run(store, Local(), episodes, lambda done, total: heard.append((done, total)))
    assert heard == [(done, N_TASKS) for done in range(4, N_TASKS + 1)]


# Resuming


@pytest.mark.parametrize("n", [0, 1, 5, N_TASKS])
def test_an_interrupted_run_goes_on_where_it_was(
    tmp_path: Path, whole: dict[str, str], n: int
) -> None:
    """Finished tasks are not run again, and the bytes are those of an undisturbed run."""
    interrupted(tmp_path, n)
    calls, notices = resumed(tmp_path)
    assert calls == [task.key for task in SMALL.tasks[n:]]
    assert notices == []
    assert parts(tmp_path) == whole


def test_a_task_that_fails_leaves_the_finished_ones(tmp_path: Path, whole: dict[str, str]) -> None:
    """The error comes through; the next run goes on."""

    def failing(task: Task) -> Record | Ground:
        if task.key == "b0001-B1":
            raise GdcbError("no luck")
        return episodes(task)

    with pytest.raises(GdcbError, match=r"^no luck$"), Store(tmp_path, SMALL) as store:
        run(store, Local(), failing, ignore)
    assert len(parts(tmp_path)) == 4
    assert len(resumed(tmp_path)[0]) == 5
    assert parts(tmp_path) == whole


SCRIPT = """
import sys
from pathlib import Path
from gdcb.engine import Pool
from gdcb.protocol.runner import run
from gdcb.protocol.store import Store
from tests.toy_tasks import SMALL, episodes_slowly, ignore

if __name__ == "__main__":
    with Store(Path(sys.argv[1]), SMALL) as store:
        run(store, Pool(2), episodes_slowly, ignore)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
def test_a_run_that_was_killed_goes_on_where_it_was(tmp_path: Path, whole: dict[str, str]) -> None:
    """Nothing could be tidied up: neither the folder's lock nor the workers are in the way."""
    script, folder = tmp_path / "script.py", tmp_path / "out"
    script.write_text(SCRIPT, encoding="utf-8")
    root = {"PYTHONPATH": str(Path(__file__).parents[1])}
    with subprocess.Popen([sys.executable, script, folder], env=os.environ | root) as process:
        try:
            assert wait_until(lambda: len(parts(folder)) >= 2, 30)
        finally:
            process.kill()
    n_done = len(parts(folder))
    assert 2 <= n_done < N_TASKS
    assert len(resumed(folder)[0]) == N_TASKS - n_done
    assert parts(folder) == whole


def test_without_resume_a_run_starts_afresh_and_says_so(tmp_path: Path) -> None:
    """What the earlier one had finished is discarded."""
    interrupted(tmp_path, 3)
    with Store(tmp_path, SMALL) as store:
        [notice] = store.notices
        assert notice.startswith(f"discarded 3 finished tasks of an unfinished run in {tmp_path}")
        assert len(store.missing()) == N_TASKS
    assert parts(tmp_path) == {}


def test_nothing_to_resume_is_a_fresh_start(tmp_path: Path) -> None:
    """So that a script may always say --resume."""
    calls, notices = resumed(tmp_path)
    assert len(calls) == N_TASKS
    assert notices == [f"nothing to resume in {tmp_path}: starting afresh"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"seed": 8}, "seed 7 there, 8 here"),
        ({"version": "0.2.0"}, "version 0.1.0 there, 0.2.0 here"),
        ({"methods": ("B1",)}, "methods B1,B4 there, B1 here"),
        ({"options": ()}, "options {'private': True} there, {} here"),
        (
            {"variant": "mis", "episodes": 5},
            "variant well there, mis here; episodes 4 there, 5 here",
        ),
    ],
)
def test_another_run_is_not_resumed(tmp_path: Path, change: dict[str, Any], text: str) -> None:
    """The sentence says what differs and the three ways out; nothing is touched."""
    interrupted(tmp_path, 3)
    before = parts(tmp_path)
    other = dataclasses.replace(SMALL, **change)
    with pytest.raises(InvalidInput, match=re.escape(text)) as caught, Store(tmp_path, other, True):
        pass
    assert "leave --resume out to start afresh, or name another --out" in str(caught.value)
    assert parts(tmp_path) == before
    assert len(resumed(tmp_path)[0]) == N_TASKS - 3


def test_what_else_the_result_hangs_on_is_compared(tmp_path: Path) -> None:
    """By a digest, which says that it has changed and not how; the same one goes on."""
    with Store(tmp_path, SMALL, about={"tuned settings": "ab"}) as store:
        store.write(SMALL.tasks[0], episodes(SMALL.tasks[0]))
    for about in ({"tuned settings": "cd"}, {}):
        text = "the tuned settings have changed" if about else "tuned settings ab there, None here"
        refused = pytest.raises(InvalidInput, match=f"is another one: {text}. Give the same")
        with refused, Store(tmp_path, SMALL, True, about):
            pass
    other = dataclasses.replace(SMALL, variant="mis")
    with (
        pytest.raises(InvalidInput, match=r"one: variant well there, mis here\. Give"),
        Store(tmp_path, other, True, {"tuned settings": "cd"}),
    ):
        pass
    with Store(tmp_path, SMALL, True, {"tuned settings": "ab"}) as store:
        assert len(store.missing()) == N_TASKS - 1


def test_another_numpy_is_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may round differently, and half a run would then be neither's."""
    interrupted(tmp_path, 3)
    monkeypatch.setattr(np, "__version__", "9.9.9")
    with pytest.raises(InvalidInput, match=r"numpy .* there, 9\.9\.9 here"):
        resumed(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "\x00"])
def test_a_manifest_that_cannot_be_read_is_not_resumed(tmp_path: Path, text: str) -> None:
    """Nobody knows then whose parts these are."""
    interrupted(tmp_path, 3)
    (tmp_path / ".parts" / "manifest.json").write_text(text)
    with pytest.raises(InvalidInput, match=r"cannot be read .* leave --resume out to start afresh"):
        resumed(tmp_path)


def test_parts_without_a_manifest_are_not_believed(tmp_path: Path, whole: dict[str, str]) -> None:
    """A run that died while it was discarding older parts leaves such."""
    interrupted(tmp_path, 3)
    (tmp_path / ".parts" / "manifest.json").unlink()
    assert len(resumed(tmp_path)[0]) == N_TASKS
    assert parts(tmp_path) == whole


# Damage


def damage(path: Path, how: str, other: Path) -> None:
    data = path.read_bytes()
    if how == "empty":
        path.write_bytes(b"")
    elif how == "truncated":
        path.write_bytes(data[:-1])
    elif how == "longer":
        path.write_bytes(data + b"\0")
    elif how == "another task's":
        path.write_bytes(other.read_bytes())
    elif how == "without its seal":
        path.write_bytes(data.partition(b"\n")[2])


@pytest.mark.parametrize(
    "how", ["empty", "truncated", "longer", "another task's", "without its seal"]
)
def test_a_damaged_part_is_computed_again(tmp_path: Path, whole: dict[str, str], how: str) -> None:
    """It is never believed, and the run says that there was one."""
    interrupted(tmp_path, 6)
    folder = tmp_path / ".parts"
    damage(folder / "b0001-B4.npz", how, folder / "b0000-B4.npz")
    calls, notices = resumed(tmp_path)
    assert calls == ["b0001-B4", "b0002-ground", "b0002-B1", "b0002-B4"]
    assert notices == [f"damaged parts in {folder}, computed again: 1"]
    assert parts(tmp_path) == whole


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Give the store of a run whose tasks are all done."""
    folder = tmp_path_factory.mktemp("finished")
    store = Store(folder, SMALL)
    with store:
        run(store, Local(), episodes, ignore)
    return store


@examples(40)
@given(at=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_part_with_any_bit_flipped_is_not_believed(finished: Store, at: float, bit: int) -> None:
    """Wherever the bit is: in the seal, in the header, in a number."""
    task = SMALL.task(2, "B1")
    path = finished.folder / ".parts" / f"{task.key}.npz"
    sound = path.read_bytes()
    broken = bytearray(sound)
    broken[int(at * len(sound))] ^= 1 << bit
    try:
        path.write_bytes(broken)
        with pytest.raises(InvalidInput, match="is missing or damaged; run again with --resume"):
            finished.read(task)
    finally:
        path.write_bytes(sound)
    finished.read(task)


def test_a_part_of_another_run_is_not_believed(tmp_path: Path) -> None:
    """Even under the right name: its seal holds for its own settings only."""
    other = dataclasses.replace(SMALL, seed=8)
    interrupted(tmp_path / "other", 2, other)
    interrupted(tmp_path / "this", 2)
    stranger = tmp_path / "other" / ".parts" / "b0000-B1.npz"
    (tmp_path / "this" / ".parts" / "b0000-B1.npz").write_bytes(stranger.read_bytes())
    assert resumed(tmp_path / "this")[0][0] == "b0000-B1"


# Results that are no results


def wrong_kind(task: Task) -> Record | Ground:
    return Ground(np.zeros((4, task.replicates)), np.zeros(2))


def too_few(task: Task) -> Record | Ground:
    return episodes(dataclasses.replace(task, replicates=task.replicates - 1))


def no_array(task: Task) -> Record | Ground:
    result = episodes(task)
    if isinstance(result, Record):
        nothing: Any = None
        result.error = nothing
    return result


def objects(task: Task) -> Record | Ground:
    result = episodes(task)
    if isinstance(result, Record):
        result.error = np.full(result.error.shape, None)
    return result


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (wrong_kind, "b0000-B1: expected a Record, got Ground"),
        (too_few, "b0000-ground: expected 100 replicates on axis 1 of floor, got shape (4, 99)"),
        (no_array, "b0000-B1: expected an array of numbers for error"),
        (objects, "b0000-B1: expected an array of numbers for error"),
    ],
)
def test_what_is_no_result_is_not_kept(
    tmp_path: Path, function: Callable[[Task], Record | Ground], text: str
) -> None:
    """A function that answers another question fails the run; no part is written for it."""
    with pytest.raises(InvalidInput, match=re.escape(text)), Store(tmp_path, SMALL) as store:
        run(store, Local(), function, ignore)
    assert text.partition(":")[0] + ".npz" not in parts(tmp_path)


def test_blocks_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    """Edges that differ between blocks would mix counts of different bins."""

    def function(task: Task) -> Record | Ground:
        result = episodes(task)
        if isinstance(result, Ground):
            result.edges = result.edges + task.block
        elif task.block == 1:
            result.reward = result.reward.astype(np.float32)
        return result

    with Store(tmp_path, SMALL) as store:
        results = run(store, Local(), function, ignore)
        with pytest.raises(InvalidInput, match="b0001-ground: edges differs from the first"):
            _ = results.ground
        with pytest.raises(
            InvalidInput, match=r"b0001-B1: reward has shape .* float32, which does"
        ):
            _ = results["B1"]


# The result appears whole or not at all


def published(folder: Path, text: str = "new") -> None:
    """Run to the end and publish three files."""
    with Store(folder, SMALL) as store:
        run(store, Local(), episodes, ignore)
        with store.publishing() as staging:
            for name in FINAL:
                (staging / name).write_text(text)


def test_a_finished_run_leaves_its_result_and_nothing_else(tmp_path: Path) -> None:
    """Parts go when the result is there; a folder that was not there is made."""
    folder = tmp_path / "new" / "folder"
    published(folder)
    assert sorted(path.name for path in folder.iterdir()) == sorted(FINAL)


def publish_and_fail(folder: Path, error: Exception) -> None:
    """Run to the end, and fail while the second file of the result is written."""
    with Store(folder, SMALL) as store:
        run(store, Local(), episodes, ignore)
        with store.publishing() as staging:
            (staging / "summary.json").write_text("half")
            raise error


def test_a_result_that_cannot_be_written_leaves_the_parts(tmp_path: Path) -> None:
    """None of its files appears; the next run has only to write."""
    with pytest.raises(ZeroDivisionError):
        publish_and_fail(tmp_path, ZeroDivisionError())
    assert [path.name for path in tmp_path.iterdir()] == [".parts"]
    assert resumed(tmp_path)[0] == []


def test_a_full_disk_gets_a_sentence(tmp_path: Path) -> None:
    """While the result is written, as while parts are."""
    text = f"cannot write to {tmp_path} (No space left on device)"
    with pytest.raises(InvalidInput, match=re.escape(text)):
        publish_and_fail(tmp_path, OSError(28, "No space left on device"))


@pytest.mark.parametrize("n", [0, 3])
def test_an_older_result_goes_when_a_run_begins(tmp_path: Path, n: int) -> None:
    """An interrupted run never leaves a report that could be taken for its own."""
    published(tmp_path, "old")
    (tmp_path / "notes.txt").write_text("mine")
    interrupted(tmp_path, n)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".parts", "notes.txt"]


def test_a_finished_run_is_not_resumed(tmp_path: Path) -> None:
    """It would be run again from the start, and its result would be gone meanwhile."""
    published(tmp_path)
    with pytest.raises(InvalidInput, match="holds a finished run and nothing to resume"):
        resumed(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FINAL)


def test_results_are_gone_once_published(tmp_path: Path) -> None:
    """Whoever looks later gets a sentence."""
    with Store(tmp_path, SMALL) as store:
        results = run(store, Local(), episodes, ignore)
        with store.publishing() as staging:
            (staging / "summary.json").write_text("{}")
        with pytest.raises(InvalidInput, match="is missing or damaged"):
            _ = results["B4"]


# The folder


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    """The second is refused and touches nothing; once the first is over, it may begin."""
    with Store(tmp_path, SMALL) as store:
        run(store, Local(), episodes, ignore)
        before = parts(tmp_path)
        for resume in (False, True):
            with (
                pytest.raises(InvalidInput, match=r"another run is writing to .* another --out"),
                Store(tmp_path, SMALL, resume),
            ):
                pass
        assert parts(tmp_path) == before
    assert resumed(tmp_path)[0] == []


@pytest.mark.parametrize("where", ["folder", "folder/deeper", "folder/.parts/x"])
def test_a_folder_that_cannot_be_written_gets_a_sentence(tmp_path: Path, where: str) -> None:
    """A file stands where the folder should be."""
    (tmp_path / "folder").write_text("a file")
    folder = tmp_path / where
    text = f"cannot write to {folder} ("
    with pytest.raises(InvalidInput, match=re.escape(text)), Store(folder, SMALL):
        pass
    assert (tmp_path / "folder").read_text() == "a file"


@pytest.mark.parametrize("resume", [False, True])
def test_files_of_others_are_never_deleted(tmp_path: Path, resume: bool) -> None:
    """A folder `.parts` that is somebody else's is left alone."""
    stranger = tmp_path / ".parts" / "thesis.tex"
    stranger.parent.mkdir()
    stranger.write_text("mine")
    text = "holds what no run of gdcb wrote (thesis.tex)"
    with pytest.raises(InvalidInput, match=re.escape(text)), Store(tmp_path, SMALL, resume):
        pass
    assert stranger.read_text() == "mine"
    assert list(stranger.parent.iterdir()) == [stranger]


def test_the_manifest_says_what_runs(tmp_path: Path) -> None:
    """Plain JSON that a person can read."""
    interrupted(tmp_path, 0)
    found = json.loads((tmp_path / ".parts" / "manifest.json").read_text())
    assert found["name"] == "str"
    assert found["options"] == {"private": True}
    assert found["methods"] == ["B1", "B4"]
