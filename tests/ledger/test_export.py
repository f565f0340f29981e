"""Export: tidy tables of all that happened, which the tools for histories read back."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from benchmarks import replay
from gdcb import declaration
from gdcb.cases import about
from gdcb.codec import from_body
from gdcb.errors import InvalidInput, UnknownInstance
from gdcb.history import open_log
from gdcb.ledger import decided, export, export_tables, open_store
from gdcb.ledger.export import FILES, export_chain
from tests.ledger.written_ledgers import write_small


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a ledger of the rental instance."""
    found = tmp_path_factory.mktemp("export") / "str.db"
    write_small(found, "str")
    return found


@pytest.fixture(scope="module")
def out(path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an export of it."""
    folder = tmp_path_factory.mktemp("exported") / "str"
    _export(path, folder)
    return folder


def _export(path: Path, folder: Path, **more: Any) -> dict[str, Any]:
    store = open_store(path)
    try:
        return export_chain(store, "str", folder, **more)
    finally:
        store.close()


def test_every_decision_is_a_row_with_what_became_of_it(path: Path, out: Path) -> None:
    table = pl.read_parquet(out / "decisions.parquet")
    assert table.height == 50
    assert table["id"].n_unique() == 50
    assert table["outcome_booked"].null_count() == 0
    assert set(table["outcome_booked"]) <= {0.0, 1.0}
    assert table["has_run"].all()
    own, kept = table.filter("live"), table.filter(~pl.col("live"))
    assert own["proposed_price"].equals(own["entered_price"], check_names=False)
    assert 0 < kept.height < 20, "a tenth keeps the price list"
    assert (kept["proposed_price"] != kept["entered_price"]).any()
    asked = table.filter(pl.col("reviewer").is_not_null())
    assert 0 < asked.height < 50
    assert asked["code"].null_count() == 0
    one = table.filter(id="d2").to_dicts()[0]
    assert one["appeal"] is True
    assert one["entry"] == one["version"]
    vetoed = table.filter(status="vetoed")
    assert vetoed["executed_price"].null_count() == vetoed.height


def test_every_entry_is_a_row(path: Path, out: Path) -> None:
    table = pl.read_parquet(out / "events.parquet")
    store = open_store(path)
    entries = list(store.read("str"))
    store.close()
    assert table["seq"].to_list() == list(range(len(entries)))
    assert table["hash"].to_list() == [entry.hash.hex() for entry in entries]
    assert table["prev"].to_list()[1:] == table["hash"].to_list()[:-1]
    body = json.loads(table["body"][1])
    assert body["event"] == "DecisionMade"
    assert body["id"] == about(from_body(entries[1].kind, entries[1].body))


def test_every_answer_is_a_row(out: Path) -> None:
    table = pl.read_parquet(out / "reviews.parquet")
    decisions = pl.read_parquet(out / "decisions.parquet")
    asked = decisions.filter(pl.col("reviewer").is_not_null())
    assert sorted(table["id"]) == sorted(asked["id"])
    assert set(table["answer"]) <= {"approve", "edit", "veto"}
    edits = table.filter(answer="edit").join(decisions, on="id")
    assert edits["edited_price"].equals(edits["executed_price"], check_names=False)


def test_the_decisions_are_a_history(out: Path) -> None:
    declared = declaration.read(out / "instance.toml")
    source = open_log(out / "decisions.parquet", declared.instance, declared.columns, strict=True)
    rows = sum(batch.n for batch in source.batches())
    assert rows == 50
    assert source.report.rejected == 0
    assert source.reviewers == ("manager",)
    assert source.layout.recommended == ("entered_price",)


def test_small_pieces_give_the_same_tables(
    path: Path, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decided, "AT_ONCE", 3)
    monkeypatch.setattr(decided, "FETCHED", 2)
    monkeypatch.setattr("gdcb.ledger.export.ROWS", 7)
    _export(path, tmp_path / "pieces")
    for name in FILES[:3]:
        whole, pieces = (pl.read_parquet(folder / name) for folder in (out, tmp_path / "pieces"))
        assert whole.equals(pieces), name


def test_a_folder_that_is_there_is_refused(path: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep", encoding="utf-8")
    with pytest.raises(InvalidInput, match="exists already; name another folder, or give --force"):
        _export(path, tmp_path)
    found = _export(path, tmp_path, force=True)
    assert found["rows"]["decisions.parquet"] == 50
    assert found["rows"]["events.parquet"] == found["entries"]
    assert (tmp_path / "mine.txt").read_text(encoding="utf-8") == "keep"
    assert {one.name for one in tmp_path.iterdir()} == {*FILES, "mine.txt"}


def test_an_unknown_chain_is_refused_and_leaves_nothing(path: Path, tmp_path: Path) -> None:
    store = open_store(path)
    with pytest.raises(UnknownInstance, match="no instance 'other'"):
        export_chain(store, "other", tmp_path / "out")
    store.close()
    assert list(tmp_path.iterdir()) == []


def test_a_context_column_with_a_name_that_is_taken_gets_another() -> None:
    text = """
name = "odd"
context.status = { type = "number", low = 0, high = 1 }
context.base = { type = "number", low = 1, high = 9 }
arms = { part = "list", values = [0.9, 1.0] }
composition = { part = "multiply", base = ["base"], names = ["price"] }
gates = []
bandit = { part = "beta-thompson" }
reward = { part = "payoff", outcome = ["booked"] }
"""
    found = export_tables.context_columns(declaration.parse(text))
    assert found == {"status": "context_status", "base": "base"}


LISTED = """name = "odd"
context.base = { type = "number", low = 1, high = 9 }
arms = { part = "list", values = [0.9, 1.0] }
composition = { part = "multiply", base = ["base"], names = ["price"] }
gates = []
bandit = { part = "beta-thompson" }
reward = { part = "payoff", outcome = ["booked"] }
"""
SERVED = """
# Who is asked.
[service]
# A day.
words = "the history"
note = '''
[history]
'''
"""


@pytest.mark.parametrize(
    "history",
    [
        "",
        '[history]\naction = ["tariff"]\noutcome = ["sold"]\n',
        '[history]\n# action = ["price"]\n# time = "at"\n\n',
        'history = { action = ["tariff"] }\n',
        'history.action = ["tariff"]\nhistory.outcome = [\n  "sold",\n]\n',
        '[ "history" ]\naction = [\n\n"tariff",\n]  # of old\n[history.context]\nbase = "b"\n',
    ],
)
def test_the_columns_of_an_older_log_are_replaced(history: str) -> None:
    text = LISTED + history + SERVED
    cut = export._without_history(text)
    assert tomllib.loads(cut) == tomllib.loads(LISTED + SERVED)
    assert "tariff" not in cut
    assert cut.endswith(SERVED.rstrip("\n")), "the rest stands as it was written"
    assert cut.startswith(LISTED)
    found = export._with_history(LISTED + history, declaration.parse(LISTED + history))
    assert declaration.parse(found).columns.action == ("executed_price",)
    assert declaration.parse(found).columns.outcome == ("outcome_booked",)


@pytest.mark.parametrize("history", ["", '[history]\naction = ["tariff"]\noutcome = ["sold"]\n'])
def test_a_declaration_with_line_ends_of_windows_is_exported(
    history: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was taken, decided by, and could not be written out."""
    text = replay.LISTED + history
    monkeypatch.setattr(replay, "LISTED", text.replace("\n", "\r\n"))
    store = open_store("memory:")
    writer = replay.Writer(store, "list", together=6)
    writer.singles(6)
    writer.desk.close()
    assert "\r\n" in export.declared_at(store, writer.chain, 1)[1]
    export_chain(store, writer.chain, tmp_path / "out")
    store.close()
    declared = declaration.read(tmp_path / "out" / "instance.toml")
    assert declared.columns.action == ("executed_price",)
    assert b"\r" not in (tmp_path / "out" / "instance.toml").read_bytes()


def test_an_export_names_its_own_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = '[history]\naction = ["tariff"]\noutcome = ["sold"]\n'
    monkeypatch.setattr(replay, "LISTED", replay.LISTED + history)
    store = open_store("memory:")
    writer = replay.Writer(store, "list", together=6)
    writer.singles(6)
    writer.desk.close()
    export_chain(store, writer.chain, tmp_path / "out")
    declared = declaration.read(tmp_path / "out" / "instance.toml")
    log = tmp_path / "out" / "decisions.parquet"
    source = open_log(log, declared.instance, declared.columns, strict=True)
    assert sum(batch.n for batch in source.batches()) == 6
    assert source.report.rejected == 0
