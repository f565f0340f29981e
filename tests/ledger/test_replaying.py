"""Replay: what was written comes out again, and what was changed is named."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gdcb import events as ev
from gdcb.codec import unpack
from gdcb.errors import BrokenChain, InvalidInput, UnknownInstance
from gdcb.ledger import Snapshot, open_store
from gdcb.ledger.audit import verify_chain
from gdcb.ledger.differing import compare
from gdcb.ledger.live import FORMAT
from gdcb.ledger.recalled import Recalled, recall
from gdcb.ledger.replay_report import ReplayReport
from gdcb.ledger.replaying import chosen, replay_chain
from gdcb.records import Decision, flatten
from tests.ledger.written_ledgers import first_of, rewrite, run_sql, write_small

CHOICES = """
import json, sys
from gdcb.ledger import open_store
from gdcb.ledger.replaying import replay_chain
store = open_store("sqlite:///" + sys.argv[1] + "?mode=ro")
report = replay_chain(store, sys.argv[2])
print(json.dumps(report.as_json()))
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a ledger of each instance; nobody changes these."""
    folder = tmp_path_factory.mktemp("written")
    for which in ("str", "list"):
        write_small(folder / f"{which}.db", which)
    return {which: folder / f"{which}.db" for which in ("str", "list")}


@pytest.fixture
def ledger(written: dict[str, Path], tmp_path: Path) -> Path:
    """Return a copy of the STR ledger, to be changed."""
    return Path(shutil.copy(written["str"], tmp_path / "str.db"))


def _replayed(path: Path, chain: str = "str", start: int = 0) -> ReplayReport:
    store = open_store(path)
    try:
        return replay_chain(store, chain, start)
    finally:
        store.close()


def _verified(path: Path) -> list[str]:
    store = open_store(path)
    try:
        return [one.what for one in verify_chain(store, "str").findings]
    finally:
        store.close()


@pytest.mark.parametrize("which", ["str", "list"])
def test_what_was_written_comes_out_to_the_bit(written: dict[str, Path], which: str) -> None:
    report = _replayed(written[which], which)
    told = report.as_json()
    assert report.verdict == "equal"
    assert told["decisions"] == {
        "rows": 50,
        "equal": 50,
        "to_rounding": 0,
        "differ": 0,
        "worded_otherwise": 0,
    }
    assert told["differing"] == []
    assert [one.verdict for one in report.states] == ["equal"]
    rows = {kind: one.rows for kind, one in report.kinds.items()}
    assert rows["OutcomeObserved"] == rows["ActionExecuted"] == 50
    assert rows["GateApplied"] == 50 + rows.get("Reviewed", 0)
    assert (which == "str") == ("Reviewed" in rows)
    json.dumps(told, allow_nan=False)


@pytest.mark.parametrize(("after", "decisions"), [(0, 6), (1, 0)])
def test_a_replay_may_start_from_a_snapshot(
    written: dict[str, Path], after: int, decisions: int
) -> None:
    """Also between a decision and its verdict."""
    whole = _replayed(written["str"])
    size = whole.states[0].size
    late = _replayed(written["str"], start=size + after)
    assert late.verdict == "equal"
    assert late.decisions.rows == decisions
    assert late.kinds["GateApplied"].rows >= 6
    expected = {"from": size + after, "to": whole.stop, "based_on": size}
    assert late.as_json()["entries"] == expected


@pytest.mark.parametrize("start", [-1, 10_000])
def test_a_start_that_is_none_is_refused(written: dict[str, Path], start: int) -> None:
    with pytest.raises(InvalidInput, match="from: expected an entry from 0 to"):
        _replayed(written["str"], start=start)


def test_an_unknown_chain_is_refused(written: dict[str, Path]) -> None:
    with pytest.raises(UnknownInstance, match="no instance 'nobody'"):
        _replayed(written["str"], "nobody")


def test_decisions_let_go_are_fetched(
    written: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With room for three decisions, all others are put together from the store."""
    monkeypatch.setattr("gdcb.ledger.recalled.Recalled.__init__", _narrow)
    assert _replayed(written["str"]).verdict == "equal"


def _narrow(self: Recalled, story: Any, fold: Any) -> None:
    super(Recalled, self).__init__(story, fold)
    from collections import deque

    self._finished, self._most, self._done = 2, 3, deque()


# Somebody changed the ledger and made all hashes fit: verify passes, replay does not


def _other_arm(event: Any) -> Any:
    arm = event.arm.copy()
    arm[0] = (arm[0] + 1) % event.worth.shape[1]
    return replace(event, arm=arm)


def _other_price(event: Any) -> Any:
    action = event.action.copy()
    action[0] *= 1.01
    return replace(event, action=action)


def _other_status(event: Any) -> Any:
    status = event.status.copy()
    status[0] = 1
    return replace(event, status=status)


def _reworded(event: Any) -> Any:
    return replace(event, reason=["because", *event.reason[1:]])


def _asleep(event: Any) -> Any:
    return replace(event, verdict="sleep")


def _other_outcome(event: Any) -> Any:
    return replace(event, outcome=1.0 - event.outcome)


@pytest.mark.parametrize(
    ("kind", "change", "field"),
    [
        ("DecisionMade", _other_arm, "arm"),
        ("DecisionMade", lambda e: replace(e, worth=e.worth + 1e-6), "worth"),
        ("DecisionMade", lambda e: replace(e, version=e.version + 1), "order"),
        ("GateApplied", _other_status, "status"),
        ("ActionExecuted", _other_price, "action"),
        ("ReviewRequested", lambda e: replace(e, gate=["price bounds"] * len(e.gate)), "gate"),
        ("InstanceChanged", lambda e: replace(e, fingerprint="0" * 32), "fingerprint"),
    ],
    ids=["arm", "worth", "version", "status", "price", "gate", "fingerprint"],
)
def test_a_rewritten_chain_is_verified_and_does_not_come_out(
    ledger: Path, kind: str, change: Any, field: str
) -> None:
    number = first_of(ledger, kind)
    rewrite(ledger, "str", number, change)
    assert _verified(ledger) == []
    report = _replayed(ledger)
    told = report.as_json()
    assert not report.ok
    assert {"entry": number, "field": field}.items() <= told["differing"][0].items()
    assert told["differing"][0]["recorded"] != told["differing"][0]["recomputed"]
    assert report.stop == open_store(ledger).head("str").size, "it went on to the end"


def test_a_rewritten_outcome_shows_in_later_decisions(ledger: Path) -> None:
    """What was learned from it is no longer what later decisions were drawn from."""
    number = first_of(ledger, "OutcomeObserved")
    rewrite(ledger, "str", number, _other_outcome)
    assert _verified(ledger) == []
    report = _replayed(ledger)
    assert report.decisions.differ > 20
    assert {one.field for one in report.decisions.found} >= {"worth"}
    assert min(one.seq for one in report.decisions.found) > number


def test_a_reworded_reason_is_named_and_is_no_other_decision(ledger: Path) -> None:
    number = first_of(ledger, "GateApplied")
    rewrite(ledger, "str", number, _reworded)
    report = _replayed(ledger)
    assert report.ok
    assert report.kinds["GateApplied"].worded == 1
    [found] = report.as_json()["differing"]
    assert (found["entry"], found["field"], found["recorded"]) == (number, "reason", "because")


def test_an_answer_that_nobody_could_give_is_named(ledger: Path) -> None:
    number = first_of(ledger, "Reviewed")
    rewrite(ledger, "str", number, _asleep)
    report = _replayed(ledger)
    assert not report.ok
    assert report.kinds["Reviewed"].found[0].field == "order"


def test_an_entry_of_a_newer_version_is_named_and_passed_over(ledger: Path) -> None:
    number = first_of(ledger, "Paused")
    run_sql(ledger, f"UPDATE entries SET kind = 'Dreamt' WHERE seq = {number}")
    report = _replayed(ledger)
    [found] = report.kinds["Dreamt"].found
    assert "no kind 'Dreamt'" in found.recomputed
    assert report.decisions.differ == 0


def test_a_gap_stops_a_replay(ledger: Path) -> None:
    run_sql(ledger, "DELETE FROM entries WHERE seq = 5")
    with pytest.raises(BrokenChain, match="entry 6 came where 5 was expected"):
        _replayed(ledger)


@pytest.mark.parametrize("far", [1e-12, 1e-3])
def test_a_snapshot_that_is_not_what_was_learned_is_named(ledger: Path, far: float) -> None:
    store = open_store(ledger)
    snapshot = store.snapshot("str")
    assert snapshot is not None
    live = recall(store, "str", snapshot.size)
    assert len(live.events) == snapshot.size
    (last,) = store.get("str", [snapshot.size - 1])
    arrays = flatten(live.state)
    name = next(name for name, array in arrays.items() if array.dtype.kind == "f" and array.size)
    arrays[name] += far
    store.put_snapshot(live.to_snapshot(last.hash))
    store.close()
    report = _replayed(ledger)
    [state] = report.states
    assert state.verdict == ("to rounding" if far < 1e-9 else "differs")
    assert state.odd == ([] if far < 1e-9 else [f"state.{name}"])
    assert report.verdict == state.verdict


def test_a_snapshot_of_another_version_is_not_held_against_the_ledger(ledger: Path) -> None:
    store = open_store(ledger)
    snapshot = store.snapshot("str")
    assert snapshot is not None
    body = snapshot.body.replace(b'"format":%d,' % FORMAT, b'"format":%d,' % (FORMAT - 1), 1)
    assert unpack(body)["format"] == FORMAT - 1
    # Earlier formats had other digests, too.
    store.put_snapshot(Snapshot("str", snapshot.size, snapshot.hash, body))
    assert verify_chain(store, "str").ok
    store.close()
    report = _replayed(ledger)
    assert report.ok
    assert [one.verdict for one in report.states] == ["of another version"]


# Rounding


def _made(worth: list[float], arm: int) -> ev.DecisionMade:
    k = len(worth)
    return ev.DecisionMade(
        ["a"],
        ["a"],
        np.zeros(1, dtype=np.int64),
        1,
        ["u"],
        np.zeros((1, 1)),
        None,
        np.array([arm]),
        np.array([[1.0 + arm]]),
        np.ones((1, 1, 1)),
        np.zeros(1, dtype=np.int64),
        np.array([worth]).reshape(1, k),
    )


@pytest.mark.parametrize(
    ("far", "rounded", "differ"), [(0.0, 0, 0), (1e-10, 1, 0), (1e-8, 0, 1), (np.nan, 0, 1)]
)
def test_numbers_are_equal_equal_to_rounding_or_not(far: float, rounded: int, differ: int) -> None:
    found = compare(3, _made([1.0, 2.0], 1), _made([1.0, 2.0 + far], 1), 1e-9)
    assert (found.rows, found.rounded, found.differ) == (1, rounded, differ)


def test_rounding_is_relative_above_one() -> None:
    found = compare(3, _made([1e6, 2.0], 0), _made([1e6 + 1e-4, 2.0], 0), 1e-9)
    assert found.rounded == 1
    assert found.worst == pytest.approx(1e-10)


@pytest.mark.parametrize(
    ("recorded", "drawn", "expected"),
    [
        ([2.0, 2.0 + 1e-12], [2.0 + 1e-12, 2.0], 1),  # a tie that tipped: what was recorded holds
        ([2.0 + 1e-12, 2.0], [2.0 + 1e-12, 2.0], 0),  # the same worth: the arm is not its best
        ([2.0 + 1e-12, 2.0], [2.0 + 2e-12, 2.0], 0),  # nor is it here
        ([2.0, 3.0], [3.0, 2.0], 0),  # another worth
    ],
)
def test_a_choice_follows_from_the_recorded_worth(
    recorded: list[float], drawn: list[float], expected: int
) -> None:
    made = _made(recorded, 1)
    actions = np.array([[[1.0], [2.0]]])
    decision = Decision(
        np.array([0]), actions[:, 0], made.delta, made.scaler_version, np.array([drawn]), actions
    )
    found = chosen(made, decision, 1e-9)
    assert found.arm.tolist() == [expected]
    assert found.action.tolist() == [[1.0 + expected]]


# The same ledger on another kind of machine

MACHINES = {
    "one thread": {"OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"},
    "two threads": {"OPENBLAS_NUM_THREADS": "2", "PYTHONHASHSEED": "1"},
    "no AVX-512": {"NPY_DISABLE_CPU_FEATURES": "AVX512", "PYTHONHASHSEED": "random"},
    "no AVX2": {"NPY_DISABLE_CPU_FEATURES": "AVX512 AVX2", "OPENBLAS_CORETYPE": "Nehalem"},
}


def _elsewhere(path: Path, chain: str, machine: str) -> dict[str, Any]:
    """Replay in a process with other instructions, threads or hash seed."""
    wanted = dict(MACHINES[machine])
    if "NPY_DISABLE_CPU_FEATURES" in wanted:
        wanted["NPY_DISABLE_CPU_FEATURES"] = _features(wanted["NPY_DISABLE_CPU_FEATURES"].split())
    command = [sys.executable, "-W", "ignore", "-c", CHOICES, str(path), chain]
    done = subprocess.run(
        command, env={**os.environ, **wanted}, capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _features(beginnings: list[str]) -> str:
    """Return the instruction sets that NumPy chooses by itself here and that begin so."""
    umath: Any = import_module("numpy._core._multiarray_umath")
    here = [name for name in umath.__cpu_dispatch__ if umath.__cpu_features__.get(name)]
    wide = [name for name in here if name == "X86_V4"] if "AVX512" in beginnings else []
    narrow = [name for name in here if name == "X86_V3"] if "AVX2" in beginnings else []
    named = [name for name in here if name.startswith(tuple(beginnings))]
    return " ".join(dict.fromkeys([*named, *wide, *narrow]))


@pytest.mark.parametrize("machine", ["two threads", "no AVX2"])
def test_every_choice_comes_out_on_another_machine(written: dict[str, Path], machine: str) -> None:
    told = _elsewhere(written["str"], "str", machine)
    assert told["verdict"] in ("equal", "to rounding"), told["differing"][:3]
    assert told["decisions"]["rows"] == 50
    assert told["decisions"]["differ"] == 0
    assert told["worst"] <= 1e-9


@pytest.mark.soak
@pytest.mark.parametrize("machine", MACHINES)
def test_a_hundred_thousand_choices_come_out_on_another_machine(large: Path, machine: str) -> None:
    told = _elsewhere(large, "str", machine)
    assert told["decisions"]["rows"] == 100_000
    assert told["decisions"]["differ"] == 0
    assert told["verdict"] in ("equal", "to rounding"), told["differing"][:3]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a ledger of 100,000 decisions, written under load."""
    from benchmarks.replay import write

    path = tmp_path_factory.mktemp("large") / "str.db"
    store = open_store(path)
    write(store, "str", 100_000)
    store.close()
    return path
