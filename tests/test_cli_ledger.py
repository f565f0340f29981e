"""`gdcb ledger`: what it prints, what it writes, and with which exit code."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from typer.testing import CliRunner

from gdcb import events as ev
from gdcb.cli.ledger import ledger_app
from gdcb.ledger import open_store
from gdcb.ledger.sql import SqlStore
from tests.ledger.children import in_child
from tests.ledger.written_ledgers import first_of, rewrite, run_sql, write_small
from tests.page_checks import is_whole
from tests.service import desks

runner = CliRunner()
EXAMPLE = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "verify_ledger.py"))


def _run(*arguments: object) -> tuple[int, str, str]:
    result = runner.invoke(ledger_app, [str(one) for one in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def _json(*arguments: object) -> tuple[int, Any]:
    code, out, _ = _run(*arguments, "--json")
    return code, json.loads(out)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a database with two chains; nobody changes it."""
    path = tmp_path_factory.mktemp("cli") / "ledger.db"
    for which in ("str", "list"):
        write_small(path, which)
    return path


@pytest.fixture
def ledger(written: Path, tmp_path: Path) -> Path:
    """Return a copy, to be changed."""
    return Path(shutil.copy(written, tmp_path / "ledger.db"))


def test_a_ledger_is_verified(written: Path) -> None:
    code, out, _ = _run("verify", "--db", written)
    assert code == 0
    assert "str: as it was written" in out
    assert "list: as it was written" in out
    code, told = _json("verify", "--db", f"sqlite:///{written}", "--instance", "str")
    assert code == 0
    [chain] = told["chains"]
    assert chain["verified"] == chain["head"]["hash"]
    assert chain["entries"] == chain["head"]["entries"] > 20


def test_a_ledger_is_not_written_to_by_its_auditor(written: Path) -> None:
    before = written.read_bytes()
    for command in ("verify", "replay"):
        assert _run(command, "--db", written)[0] == 0
    assert written.read_bytes() == before


LAST = "(SELECT max(seq) FROM entries WHERE chain = 'str')"
TAMPERED = {
    "a byte of a body": (
        ["UPDATE entries SET body = CAST(body || x'00' AS BLOB) WHERE chain = 'str' AND seq = 3"],
        {"changed", "body"},
    ),
    "who": (["UPDATE entries SET \"by\" = 'bob' WHERE chain = 'str' AND seq = 3"], {"changed"}),
    "a root": (
        ["UPDATE entries SET root = zeroblob(32) WHERE chain = 'str' AND seq = 3"],
        {"changed", "root"},
    ),
    "a deletion": (
        ["DELETE FROM entries WHERE chain = 'str' AND seq = 9"],
        {"deleted", "missing", "superfluous"},
    ),
    "the end": (
        [f"DELETE FROM entries WHERE chain = 'str' AND seq = {LAST}"],
        {"truncated", "superfluous"},
    ),
    "the order": (
        [
            "UPDATE entries SET seq = -1 WHERE chain = 'str' AND seq = 7",
            "UPDATE entries SET seq = 7 WHERE chain = 'str' AND seq = 8",
            "UPDATE entries SET seq = 8 WHERE chain = 'str' AND seq = -1",
        ],
        {"renumbered", "reordered"},
    ),
    "the head": (["UPDATE chains SET hash = zeroblob(32) WHERE name = 'str'"], {"head"}),
    "a lost place": (["DELETE FROM places WHERE request = 'd2' AND chain = 'str'"], {"missing"}),
    "a wrong place": (
        ["UPDATE places SET first = 3 WHERE request = 'd2' AND chain = 'str'"],
        {"misplaced"},
    ),
    "a made-up place": (
        ["INSERT INTO places VALUES ('str', 'ghost', 1, 0, 1)"],
        {"superfluous"},
    ),
    "a made-up place past the end": (
        ["INSERT INTO places VALUES ('str', 'ghost', 999999, 0, 1)"],
        {"superfluous"},
    ),
    "a lost touch": (
        ["DELETE FROM touches WHERE request = 'd2' AND slot = 'outcome' AND chain = 'str'"],
        {"missing"},
    ),
    "a wrong touch": (
        ["UPDATE touches SET at_row = 5 WHERE request = 'd2' AND slot = 'outcome'"],
        {"misplaced"},
    ),
    "a made-up touch": (
        ["INSERT INTO touches VALUES ('str', 'd2', 0, 'review:0', 5, 0)"],
        {"superfluous"},
    ),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_whatever_is_done_to_a_ledger_is_named(ledger: Path, what: str) -> None:
    statements, expected = TAMPERED[what]
    run_sql(ledger, *statements)
    code, told = _json("verify", "--db", ledger, "--instance", "str")
    assert code == 3
    found = {one["what"] for one in told["chains"][0]["findings"]}
    assert found & expected, told["chains"][0]["findings"]
    assert _run("verify", "--db", ledger)[0] == 3


@pytest.mark.parametrize(
    "statement",
    ["UPDATE chains SET size = 0 WHERE name = 'str'", "DELETE FROM chains WHERE name = 'str'"],
)
def test_a_chain_is_not_hidden_from_its_auditor(ledger: Path, statement: str) -> None:
    run_sql(ledger, statement)
    code, told = _json("verify", "--db", ledger)
    assert code == 3
    assert [(one["chain"], one["ok"]) for one in told["chains"]] == [("list", True), ("str", False)]
    assert _run("verify", "--db", ledger, "--instance", "str")[0] == 3
    assert any(one.startswith("str: it ends after") for one in EXAMPLE["verify"](ledger))


def _damage(ledger: Path) -> None:
    """Spoil the last page with entries, as a failing disk does."""
    with sqlite3.connect(ledger) as connection:
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        found = connection.execute(
            "SELECT max(pageno) FROM dbstat WHERE name = 'entries' AND pagetype = 'leaf'"
        )
        (page,) = found.fetchone()
    connection.close()
    data = bytearray(ledger.read_bytes())
    data[(page - 1) * size : (page - 1) * size + 64] = b"\xff" * 64
    ledger.write_bytes(data)


def test_a_damaged_page_is_named_by_its_entries(ledger: Path) -> None:
    _damage(ledger)
    code, told = _json("verify", "--db", ledger)
    assert code == 3
    one, other = told["chains"]
    assert other["ok"]
    assert one["head"]["entries"] == one["entries"]
    assert {found["what"] for found in one["findings"]} == {"damaged"}
    assert one["findings"][-1]["entry"] == one["entries"] - 1
    assert "it is damaged" in one["findings"][0]["says"]
    for command, more in (("replay", ()), ("export", ("--out", ledger.parent / "out"))):
        code, _, err = _run(command, "--db", ledger, *more)
        assert code == 1
        assert "it is damaged" in " ".join(err.split())
    assert any("cannot be read on from here" in one for one in EXAMPLE["verify"](ledger))


def test_one_chain_does_not_spoil_another(ledger: Path) -> None:
    run_sql(ledger, *TAMPERED["who"][0])
    assert _run("verify", "--db", ledger, "--instance", "list")[0] == 0
    code, out, _ = _run("verify", "--db", ledger)
    assert code == 3
    assert "Entry 3" in out


def test_a_ledger_is_replayed(written: Path) -> None:
    code, out, _ = _run("replay", "--db", written)
    assert code == 0
    assert "str: comes out the same to the last bit" in out
    assert "50 decisions: 50 equal, 0 to rounding, 0 differ" in out
    code, told = _json("replay", "--db", written, "--instance", "list", "--from", "10")
    assert code == 0
    assert told["chains"][0]["entries"]["from"] == 10


def test_a_shorter_chain_does_not_stop_a_replay(written: Path) -> None:
    sizes = {one["chain"]: one["entries"] for one in _json("verify", "--db", written)[1]["chains"]}
    assert sizes["list"] < sizes["str"]
    start = sizes["list"] + 1
    code, told = _json("replay", "--db", written, "--from", start)
    assert code == 0
    assert [one["chain"] for one in told["chains"]] == ["str"]
    assert told["shorter"] == ["list"]
    code, out, _ = _run("replay", "--db", written, "--from", start)
    assert code == 0
    assert f"list: it has only {sizes['list']} entries" in out
    code, _, err = _run("replay", "--db", written, "--from", sizes["str"] + 1)
    assert code == 1
    assert f"from: expected an entry from 0 to {sizes['str']}" in err


def test_a_rewritten_decision_passes_verify_and_not_replay(ledger: Path) -> None:
    from dataclasses import replace

    def other(event: Any) -> Any:
        return replace(event, arm=(event.arm + 1) % event.worth.shape[1])

    number = first_of(ledger, "DecisionMade", after=0)
    rewrite(ledger, "str", number, other)
    assert _run("verify", "--db", ledger, "--instance", "str")[0] == 0
    code, out, _ = _run("replay", "--db", ledger, "--instance", "str")
    assert code == 3
    assert f"Entry {number} (DecisionMade of d0): arm is" in out
    assert _run("evidence", "d0", "--db", ledger, "--instance", "str")[0] == 3


def test_a_chain_with_a_gap_cannot_be_replayed(ledger: Path) -> None:
    run_sql(ledger, *TAMPERED["a deletion"][0])
    code, _, err = _run("replay", "--db", ledger, "--instance", "str")
    assert code == 1
    assert "gdcb ledger verify" in err


def test_evidence_is_printed_and_filed(written: Path, tmp_path: Path) -> None:
    page = tmp_path / "new" / "d2.html"
    code, out, _ = _run("evidence", "d2", "--db", written, "--instance", "str", "--html", page)
    assert code == 0
    assert "worked out again: equal" in out
    assert "proof: holds" in out
    is_whole(page.read_text(encoding="utf-8"))
    code, told = _json("evidence", "b38.7", "--db", written, "--instance", "list")
    assert code == 0
    nonce = told["request"].pop("nonce")
    assert re.fullmatch("[0-9a-f]{32}", nonce)
    assert told["request"] == {"id": "b38", "row": 7, "rows": 20}


def test_evidence_says_what_was_answered_ran_and_came_of_it(tmp_path: Path) -> None:
    """Codes as they were declared then, the answer in words, and outcomes as they are known now."""
    path = tmp_path / "a.db"
    text = desks.held("codes = { off-sale = 'The room is not for sale', fits = 'It fits' }")
    with closing(SqlStore(path)) as store, desks.office(text, store) as made:
        for id in ("yes", "no", "waits"):
            made.decide(id, desks.night(0.9), mask=["1"])
        made.answer("yes", "edit", {"price": 120.0}, "Ann [1f]", "fits", "a fair nearby")
        made.answer("no", "veto", None, "Bob [2f]", "off-sale", "")
        made.observe({"yes": 1.0})
        made.change(desks.held("codes = { other = 'Something else' }"))

    def told(id: str, *more: object) -> str:
        code, out, _ = _run("evidence", id, "--db", path, *more)
        assert code == 0
        return out

    yes = told("yes")
    assert "edited to price 120 by Ann [1f]: It fits: a fair nearby\n" in yes
    assert "  ran: price 120\n  outcome: booked 1\n" in yes
    no = told("no", "--html", tmp_path / "no.html")
    assert "vetoed by Bob [2f]: The room is not for sale\n" in no
    assert "  ran: nothing\n  outcome: not known yet\n" in no
    assert "The room is not for sale" in (tmp_path / "no.html").read_text(encoding="utf-8")
    assert "  ran: not known yet\n" in told("waits")


def test_a_ledger_is_exported_a_folder_an_instance(written: Path, tmp_path: Path) -> None:
    code, told = _json("export", "--db", written, "--out", tmp_path / "out")
    assert code == 0
    folders = [Path(one["folder"]) for one in told["chains"]]
    assert [folder.name for folder in folders] == ["list", "str"]
    assert all((folder / "decisions.parquet").is_file() for folder in folders)
    code, _, err = _run("export", "--db", written, "--out", tmp_path / "out")
    assert code == 1
    assert "--force" in err
    assert _run("export", "--db", written, "--out", tmp_path / "out", "--force")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["verify", "--db", "DB", "--instance", "nobody"], 1, "no instance 'nobody'"),
        (["replay", "--db", "DB", "--instance", "str", "--from", "99999"], 1, "from: expected"),
        (["replay", "--db", "DB", "--tolerance", "2"], 2, "--tolerance: expected"),
        (["evidence", "nobody", "--db", "DB"], 1, "no decision 'nobody' was made here"),
        (["evidence", "d2", "--db", "DB"], 1, "name one with --instance"),
        (["verify", "--db", "no/where.db"], 1, "no ledger at no/where.db"),
        (["verify", "--db", "sqlite:///no/where.db"], 1, "no ledger at no/where.db"),
        (["verify", "--db", "mysql://host/x"], 2, "--db: store: expected"),
        (["verify", "--db", "memory:"], 2, "--db: expected a SQLite file"),
        (["verify", "--db", "postgresql://localhost:1/x"], 1, "it cannot be reached"),
    ],
)
def test_wrong_calls_are_refused_in_a_sentence(
    written: Path, arguments: list[str], code: int, says: str
) -> None:
    given = [str(written) if one == "DB" else one for one in arguments]
    found, out, err = _run(*given)
    assert found == code
    assert out == ""
    assert says in " ".join(err.split())


def test_what_is_no_ledger_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("not a database at all, but long enough", encoding="utf-8")
    (tmp_path / "nothing.db").touch()
    open_store(tmp_path / "empty.db").close()
    for name, says in {
        "text.db": "it is not a SQLite database",
        "nothing.db": "no ledger of this version in it",
        "empty.db": "this ledger is empty",
    }.items():
        code, _, err = _run("verify", "--db", tmp_path / name)
        assert code == 1
        assert says in " ".join(err.split())
    assert (tmp_path / "nothing.db").stat().st_size == 0


def test_a_ledger_of_a_newer_version_is_refused(ledger: Path) -> None:
    run_sql(ledger, "UPDATE gdcb_version SET version_num = '9999'")
    code, _, err = _run("verify", "--db", ledger)
    assert code == 1
    assert "its tables are those of a newer gdcb" in " ".join(err.split())


def test_a_ledger_may_have_any_name(ledger: Path) -> None:
    odd = ledger.rename(ledger.with_name("100% sure?.db"))
    assert _run("verify", "--db", odd)[0] == 0
    assert _run("verify", "--db", f"sqlite:///{quote(str(odd))}")[0] == 0
    assert list(EXAMPLE["verify"](odd)) == []


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("beside", [[], ["-wal"]])
def test_a_copy_that_may_only_be_read_is_verified(ledger: Path, beside: list[str]) -> None:
    """As nobody, whom permissions bind: they do not bind root."""
    _run("verify", "--db", ledger)  # loads what nobody may not find
    with tempfile.TemporaryDirectory() as name:
        folder, copy = Path(name), Path(name) / "ledger.db"
        shutil.copy(ledger, copy)
        for end in beside:
            copy.with_name(copy.name + end).touch()
        copy.chmod(0o444)
        folder.chmod(0o555)
        there = set(folder.iterdir())
        assert in_child(lambda: str(_run("verify", "--db", copy)), is_nobody=True).startswith("(0,")
        assert set(folder.iterdir()) == there
        folder.chmod(0o755)


def test_a_ledger_is_verified_without_gdcb(ledger: Path) -> None:
    """The example knows the format by itself; what it knows must be what is written."""
    known = {kind: tuple(columns.split()) for kind, columns in EXAMPLE["COLUMNS"].items()}
    assert known == {name: kind.columns for name, kind in ev.KINDS.items() if kind.columns}
    assert list(EXAMPLE["verify"](ledger)) == []
    for statements, says in (
        (TAMPERED["who"][0], "str: entry 3 is not as it was written"),
        (TAMPERED["a root"][0], "str: entry 3 has another root than its rows"),
        (TAMPERED["the end"][0], "str: it ends after"),
        (
            ["UPDATE entries SET body = replace(body, 'fields', 'Fields') WHERE seq = 1"],
            "list: entry 1 cannot be read (KeyError('fields'))",
        ),
        (
            ["UPDATE entries SET \"by\" = CAST(x'ff6d' AS TEXT) WHERE chain = 'list' AND seq = 2"],
            "list: entry 2 is not as it was written",
        ),
    ):
        run_sql(ledger, *statements)
        assert any(one.startswith(says) for one in EXAMPLE["verify"](ledger))
