"""`gdcb verify`: what it prints, where, with which exit code, and who is asked."""

from __future__ import annotations

import inspect
import json
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from gdcb import engine
from gdcb.cli import app, verify
from gdcb.errors import InvalidInput
from gdcb.protocol.methods import DEFAULT
from gdcb.protocol.record import Record
from gdcb.protocol.task import Task
from gdcb.theorems import catalogue, lifting, of_instance, regret
from gdcb.theorems.catalogue import KEYS, THEOREMS, Asked
from gdcb.theorems.verdict import Check, Progress, document

runner = CliRunner()


def stub(key: str, repaired: bool, heard: list[Any]) -> ModuleType:
    """Return a module that answers at once: the paper's form fails."""

    def check(seed: int = 0, progress: Progress | None = None, instance: str = "") -> Any:
        heard.append((key, seed, instance))
        if progress is not None:
            progress("a [b] step")
        return document(
            f"Theorem of {key}",
            [
                Check("paper", "it is so", False, "no [x] at 0.12"),
                Check("repaired", "it is otherwise", repaired, "yes at 0.98"),
            ],
            notes=["A note [with brackets]."],
        )

    def tables(answer: dict[str, Any]) -> dict[str, Any]:
        return {"some_rows": {"columns": ["n", "share"], "rows": [[12345.6, 0.25], [None, True]]}}

    module = ModuleType(f"stub_{key}")
    vars(module).update(check=check, tables=tables)
    return module


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Put stubs in place of the theorems, all in this process; return what they were asked."""
    asked: list[Any] = []
    for key in KEYS:
        module = stub(key, key != "t3", asked)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(THEOREMS, key, module.__name__)
    monkeypatch.setattr(verify, "named", lambda _: engine.Local())
    return asked


def called(*arguments: str) -> tuple[int, str, str]:
    result = runner.invoke(app, ["verify", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_the_help_names_the_theorems_once() -> None:
    """A metavar with brackets of its own would be put into more of them."""
    result = runner.invoke(app, ["verify", "--help"])
    assert result.exit_code == 0
    assert "verify [OPTIONS] [THEOREM]..." in result.stdout
    assert "t1, t2, t3, t4 or kalman" in result.stdout


def test_a_theorem_that_holds_when_repaired(heard: list[Any]) -> None:
    code, out, _ = called("t1", "--seed", "7")
    assert code == 0
    assert heard == [("t1", 7, "str")]
    for text in ("Theorem of t1", "it is so", "no [x] at 0.12", "some rows", "12,346", "0.25"):
        assert text in out
    assert "A note [with brackets]." in out
    assert "t1: the paper's form does not hold; the repaired form holds." in out


def test_every_instance_can_be_looked_at(heard: list[Any]) -> None:
    assert called("t4", "--instance", "kalman")[0] == 0
    assert heard == [("t4", 0, "kalman")]


def test_one_that_does_not_hold_exits_with_three(heard: list[Any]) -> None:
    code, out, _ = called("t4", "t3")
    assert code == 3
    assert "t3: the paper's form does not hold; the repaired form does not hold." in out
    assert out.index("Theorem of t3") < out.index("Theorem of t4")


def test_all_are_the_default_and_a_name_twice_is_once(heard: list[Any]) -> None:
    assert called()[0] == 3
    assert sorted(key for key, _, _ in heard) == sorted(KEYS)
    heard.clear()
    assert called("t2", "t2")[0] == 0
    assert len(heard) == 1


def test_json_is_one_document_by_key(heard: list[Any]) -> None:
    code, out, _ = called("kalman", "t2", "t1", "--json")
    assert code == 0
    found = json.loads(out)
    assert list(found) == ["t1", "t2", "kalman"]
    assert found["t1"]["paper_holds"] is False
    assert found["t1"]["repaired_holds"] is True


def test_json_too_exits_with_three(heard: list[Any]) -> None:
    code, out, _ = called("t3", "--json")
    assert code == 3
    assert json.loads(out)["t3"]["repaired_holds"] is False


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("t5",), "no theorem t5; there are t1, t2, t3, t4, kalman"),
        (("t1", "nine"), "no theorem nine"),
        (("--instance", "nowhere"), "no instance nowhere; there are str"),
        (("--seed", "-1"), "--seed: expected 0 to 2**64 - 1, got -1"),
    ],
)
def test_bad_arguments_run_nothing(arguments: tuple[str, ...], said: str, heard: list[Any]) -> None:
    code, out, complained = called(*arguments)
    assert (code, out) == (2, "")
    assert said in " ".join(complained.split())
    assert heard == []


def test_an_error_of_a_check_is_a_sentence(
    heard: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(seed: int = 0, progress: Any = None) -> Any:
        raise InvalidInput("no rows")

    monkeypatch.setattr(sys.modules["stub_t1"], "check", broken)
    code, out, complained = called("t1")
    assert (code, out) == (1, "")
    assert "no rows" in complained


def test_an_interrupt_is_no_answer(heard: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(seed: int = 0, progress: Any = None) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["stub_t1"], "check", stopped)
    code, out, complained = called("t1", "--json")
    assert (code, out) == (1, "")
    assert "interrupted" in complained


def test_a_check_says_what_it_is_at(heard: list[Any], tmp_path: Path) -> None:
    told = tmp_path / "t1"
    catalogue.run(Asked("t1", 3, "str", told))
    assert told.read_text(encoding="utf-8") == "a [b] step"
    with pytest.raises(InvalidInput, match="no theorem 't9'"):
        catalogue.run(Asked("t9"))


@pytest.mark.parametrize("key", KEYS)
def test_every_theorem_has_a_check_of_seed_and_progress(key: str) -> None:
    """Its first two arguments are those that the command gives."""
    module = import_module(THEOREMS[key])
    names = list(inspect.signature(module.check).parameters)
    assert names[:2] == ["seed", "progress"]


# What is measured on an instance


def test_a_history_tells_its_cross_information() -> None:
    """The incumbent prices by context: ρ² is well above what shuffled rows read, and below 1."""
    said: list[str] = []
    found = of_instance.history_information("str", 1, said.append, replicates=3)
    assert list(found) == list(of_instance.VARIANTS)
    assert len(said) == len(found)
    for one in found.values():
        assert one["noise"] < 0.1 < one["rho2"] < 1.0
        assert one["low"] < one["rho2"] < one["high"]
        assert one["inflation"] >= 1.0 / (1.0 - one["rho2"])  # a mean of a convex function
        assert one["rows"] == 1461


def test_outcomes_that_are_numbers_weigh_alike() -> None:
    """A reward below 0 is no share of successes: the history of dosing has its ρ² too."""
    found = of_instance.history_information("dosing", 1, lambda _: None, replicates=2)
    for one in found.values():
        assert 0.0 < one["noise"] < one["rho2"] < 1.0


def test_a_history_that_cannot_tell_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence in place of the figures, and the note carries it."""

    def refuse(*_: object, **__: object) -> None:
        raise InvalidInput("scaler parameters are not identified")

    monkeypatch.setattr(of_instance, "design_of", refuse)
    found = of_instance.history_information("str", 1, lambda _: None, replicates=2)
    assert found["well"] == {"why": "scaler parameters are not identified"}
    note = lifting._of_history("str", found)
    assert "in 'well' ρ² cannot be told (scaler parameters are not identified)" in note


def test_methods_that_do_not_apply_are_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dosing has no logistic rival: its outcomes are no classes."""
    monkeypatch.setattr(of_instance, "run_task", record_of)
    found = of_instance.method_splits("dosing", 0, lambda _: None, episodes=2, replicates=2)
    keys = {name.split()[1] for name in found["by_method"]}
    assert "B2g" in DEFAULT
    assert {"B2g", "B2gw"}.isdisjoint(keys)
    assert {"B1", "B4", "A3"} <= keys


def record_of(task: Task) -> Record:
    """Return a record whose parts miss the total by 1e-7 in one round of one method."""
    shape = (task.episodes, task.replicates)
    parts = np.tile([6.0, 1.0, 2.0, 3.0], (*shape, 1))
    paper = np.tile([4.0, 1.0, 1.0], (*shape, 1))
    if task.variant == "mis":
        paper[:] = np.nan
    if task.method == "B1":
        paper[1, 0, 2] += 1e-7
    empty = np.zeros(shape)
    return Record(parts, paper, empty, empty, empty, empty, empty, empty, empty)


def test_every_method_is_summed_in_every_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    """One round of one method that misses shows in the largest rest; and 3 > 2 is the gate."""
    monkeypatch.setattr(of_instance, "run_task", record_of)
    found = of_instance.method_splits("str", 0, lambda _: None, episodes=3, replicates=2)
    assert found["cases"] == 2 * len(DEFAULT)
    assert found["rest"] == pytest.approx(1e-7)
    assert found["by_method"]["well B2"]["rest"] == 0.0
    assert found["by_method"]["mis B1"]["rest"] == 0.0
    assert found["by_method"]["mis B1"]["paper"] is None
    assert found["compared"] == len(DEFAULT)
    assert found["by_method"]["mis B2"]["main"] == {"calibration": 3.0, "bandit": 6.0, "gate": 9.0}
    assert found["agree"] == 0


def test_a_round_without_the_papers_parts_is_no_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    def gap(task: Task) -> Record:
        record = record_of(task)
        record.parts_paper[0, 0] = np.nan
        return record

    monkeypatch.setattr(of_instance, "run_task", gap)
    monkeypatch.setattr(of_instance, "VARIANTS", ("well",))
    found = of_instance.method_splits("str", 0, lambda _: None, episodes=2, replicates=2)
    assert found["rest"] == np.inf


def test_methods_of_the_protocol_sum_in_both_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three of them for three episodes; `gdcb verify t3` runs all."""
    monkeypatch.setattr(of_instance, "methods_of", lambda _: ("B1", "B4", "A1"))
    found = of_instance.method_splits("str", 2, lambda _: None, episodes=3, replicates=2)
    assert 0.0 <= found["rest"] <= 1e-9
    assert found["cases"] == 6


def test_what_is_inherited_is_summed_too_and_there_may_be_no_order_of_the_paper(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A world whose context is endogenous, without δ*: 7 = 1 + 2 + 3 + 1 in 2 rounds."""

    def four(task: Task) -> Record:
        record = record_of(task)
        record.parts = np.tile([7.0, 1.0, 2.0, 3.0, 1.0], (task.episodes, task.replicates, 1))
        record.parts_paper[:] = np.nan
        return record

    monkeypatch.setattr(of_instance, "run_task", four)
    monkeypatch.setattr(of_instance, "methods_of", lambda _: ("B4", "K2"))
    found = of_instance.method_splits("kalman", 0, lambda _: None, episodes=2, replicates=2)
    main = {"calibration": 2.0, "bandit": 4.0, "gate": 6.0, "inherited": 2.0}
    assert found["by_method"]["well K2"]["main"] == main
    assert (found["rest"], found["compared"]) == (0.0, 0)
    assert "On kalman there is no δ*" in regret._of_methods("kalman", found)
