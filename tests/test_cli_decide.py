"""`gdcb decide`: what it decides, what it prints and writes, and with which exit code."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import typer
from typer.testing import CliRunner

from gdcb import ArmList, Instance, Number, Schema
from gdcb.cli import batch, rows
from gdcb.cli.decide import decide
from gdcb.composition import Identity
from gdcb.errors import InvalidInput, StoreUnavailable
from gdcb.ledger.audit import verify_chain
from gdcb.ledger.replaying import replay_chain
from gdcb.ledger.store import Store, open_store
from gdcb.service import erasing, operating
from gdcb.service.desk import Desk
from tests.service.desks import Clock, Office, held, night

app = typer.Typer(pretty_exceptions_enable=False)
app.command("decide")(decide)
runner = CliRunner()
ARMS = ArmList(names=("allow", "warn", "remove"))
FIELDS = ["id", "unit", "status", "arm", "live", "proposed_price", "action_price", "reason"]


def run(*given: object) -> tuple[int, str, str]:
    result = runner.invoke(app, [str(one) for one in given])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, " ".join(result.stderr.split())


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("empty") / "ledger.db"
    open_store(path).close()
    return path


@pytest.fixture
def db(empty: Path, tmp_path: Path) -> Path:
    """Return a ledger with one instance: prices that wait for a manager on busy nights."""
    path = Path(shutil.copy(empty, tmp_path / "ledger.db"))
    declare(path, held())
    return path


def declare(path: Path, text: str) -> None:
    store = open_store(path)
    operating.create(store, text, "ann", "first", seed=7)
    store.close()


def change(path: Path, text: str) -> None:
    """Put another declaration in force."""
    store = open_store(path)
    made = Office(store, "rooms", Clock())
    made.change(text)
    made.desk.close()
    store.close()


@pytest.fixture
def store(db: Path) -> Iterator[Store]:
    found = open_store(db)
    yield found
    found.close()


def csv(folder: Path, text: str, name: str = "nights.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


NIGHTS = "base,busy,unit\n100,0.1,sea\n120,0.9,farm\n80,0.2,sea\n"


def test_a_file_is_decided_once(db: Path, store: Store, tmp_path: Path) -> None:
    file = csv(tmp_path, NIGHTS)
    code, printed, said = run(file, "--db", db)
    assert code == 0
    assert said == "3 were decided; 1 waits for a person."
    table = pl.read_csv(printed.encode())
    assert table.columns == FIELDS
    assert table["status"].to_list() == ["passed", "held", "passed"]
    assert table["unit"].to_list() == ["sea", "farm", "sea"]
    assert table["action_price"].is_null().to_list() == [False, True, False]
    size = store.head("rooms").size
    again = run(file, "--db", db)
    assert again[:2] == (0, printed)
    assert again[2] == "3 were decided before; 1 still waits for a person."
    assert store.head("rooms").size == size
    assert next(iter(store.read("rooms", 1))).by == "command line [console]"
    assert verify_chain(store, "rooms").ok
    assert replay_chain(store, "rooms").verdict == "equal"


@pytest.mark.parametrize(
    ("verdict", "status", "words"),
    [
        ("approve", "passed", "let through"),
        ("edit", "modified", "let through"),
        ("veto", "vetoed", "stopped"),
    ],
)
def test_the_same_file_again_says_what_people_answered(
    db: Path, tmp_path: Path, verdict: str, status: str, words: str
) -> None:
    """Row 1 waited; the command again has its status and action of now, and counts it."""
    file = csv(tmp_path, NIGHTS + "90,0.9,farm\n")
    first = json.loads(run(file, "--db", db, "--json")[1])
    assert (first["held"], first["let_through_since"], first["stopped_since"]) == (2, 0, 0)
    row = first["decisions"][1]
    store = open_store(db)
    made = Office(store, "rooms", Clock())
    edited = {"price": 99.0} if verdict == "edit" else None
    made.answer(row["id"], verdict, edited)
    made.desk.close()
    store.close()
    code, printed, said = run(file, "--db", db)
    assert code == 0
    assert said == (
        f"4 were decided before; 1 waited for a person and was {words} since; "
        "1 still waits for a person."
    )
    table = pl.read_csv(printed.encode())
    assert table["status"].to_list() == ["passed", status, "passed", "held"]
    runs = {"approve": row["proposed"]["price"], "edit": 99.0, "veto": None}
    assert table["action_price"].to_list()[1] == runs[verdict]
    again = json.loads(run(file, "--db", db, "--json")[1])
    counts = (again["held"], again["let_through_since"], again["stopped_since"])
    assert counts == (1, int(verdict != "veto"), int(verdict == "veto"))
    assert [set(one) for one in again["decisions"]] == [set(one) for one in first["decisions"]]


def test_another_file_is_another_request(db: Path, tmp_path: Path) -> None:
    one = json.loads(run(csv(tmp_path, NIGHTS), "--db", db, "--json")[1])
    other = json.loads(run(csv(tmp_path, NIGHTS + "90,0.3,sea\n"), "--db", db, "--json")[1])
    assert one["requests"] != other["requests"]
    assert one["requests"][0].startswith("file-")
    assert (one["held"], one["is_new"], other["is_new"]) == (1, True, True)
    assert [row["id"] for row in other["decisions"]] == [
        f"{other['requests'][0]}.{i}" for i in range(4)
    ]


def test_an_id_of_ones_own(db: Path, tmp_path: Path) -> None:
    code, printed, _ = run(csv(tmp_path, NIGHTS), "--db", db, "--id", "monday", "--json")
    assert code == 0
    assert [row["id"] for row in json.loads(printed)["decisions"]] == [
        "monday.0", "monday.1", "monday.2",
    ]  # fmt: skip
    code, _, said = run(csv(tmp_path, NIGHTS.replace("80", "81")), "--db", db, "--id", "monday")
    assert code == 1
    assert "'monday' was used before with another context" in said


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".json"])
def test_the_answer_as_a_file(db: Path, tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"answer{suffix}"
    code, printed, _ = run(csv(tmp_path, NIGHTS), "--db", db, "--out", target)
    assert code == 0
    assert printed.startswith("3 were decided; 1 waits for a person. The answer:")
    if suffix == ".json":
        document = json.loads(target.read_text(encoding="utf-8"))
        found = [row["proposed"]["price"] for row in document["decisions"]]
    else:
        table = pl.read_csv(target) if suffix == ".csv" else pl.read_parquet(target)
        assert table.columns == FIELDS
        found = table["proposed_price"].to_list()
    assert len(found) == 3
    assert all(price > 0 for price in found)
    assert not list(tmp_path.glob("*.part"))


def test_parquet_and_csv_are_decided_alike(
    empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same seed and nonce, which else is another one each time."""
    monkeypatch.setattr("gdcb.service.turn.token_hex", lambda size: "ab" * size)
    found = []
    for name in ("one", "other"):
        path = Path(shutil.copy(empty, tmp_path / f"{name}.db"))
        declare(path, held())
        file = csv(tmp_path, NIGHTS)
        if name == "other":
            file = tmp_path / "nights.parquet"
            pl.read_csv(NIGHTS.encode()).write_parquet(file)
        code, printed, said = run(file, "--db", f"sqlite:///{path}", "--id", "x", "--json")
        assert (code, said) == (0, "")
        found.append(json.loads(printed))
    assert found[0] == found[1]


def test_columns_that_are_not_read_are_named(db: Path, tmp_path: Path) -> None:
    code, _, said = run(csv(tmp_path, "base,guest,busy\n100,Ann,0.1\n"), "--db", db)
    assert code == 0
    assert said == "not read: guest 1 was decided."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("base,busy\n100,0.1\n0,0.1\n100,2\n100,\n", ("3 of 4 rows are wrong, and nothing was "
         "decided: row 2: context.base: expected 1 to 1000, got 0.0; row 3: context.busy: expected "
         "0 to 1, got 2.0; row 4: context.busy: expected a number, got None")),
        ("base,busy\n" + "0,0.1\n" * 8, "row 5: context.base: expected 1 to 1000, got 0.0; and 3"),
        ("base,busy\nmany,0.1\n", "row 1: context.base: expected a number, got 'many'"),
        ("base,busy\nnan,0.1\n", "row 1: context.base: expected a finite number, got nan"),
        ("base\n100\n", "expected columns base, busy; missing busy"),
        ("base,busy\n", "expected at least one row, got none"),
        ("", "cannot be read"),
        ("base,busy,unit\n100,0.1,\n", "row 1: unit is empty; nothing was decided"),
    ],
)  # fmt: skip
def test_a_wrong_row_refuses_the_file(
    db: Path, store: Store, tmp_path: Path, text: str, message: str
) -> None:
    code, printed, said = run(csv(tmp_path, text), "--db", db)
    assert (code, printed) == (1, "")
    assert message in said
    assert store.head("rooms").size == 1


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (["--out", "answer.txt"], 2, "--out: expected a file that ends in .csv, .parquet, .json"),
        (["--out", "nowhere/answer.csv"], 1, "--out: there is no folder nowhere"),
        (["--instance", "flats"], 1, "no instance 'flats' in this ledger; there are rooms"),
        (["--unit-column", "flat"], 1, "--unit-column: there is no column flat"),
        (["--id", "no/id"], 1, "id: expected at most 120 of letters, digits"),
    ],
)
def test_wrong_calls(db: Path, tmp_path: Path, more: list[str], code: int, message: str) -> None:
    found, printed, said = run(csv(tmp_path, NIGHTS), "--db", db, *more)
    assert (found, printed) == (code, "")
    assert message in said


def test_wrong_ledgers_and_files(empty: Path, db: Path, tmp_path: Path) -> None:
    file = csv(tmp_path, NIGHTS)
    assert run(file)[0] == 2
    assert run(file, "--db", "memory:")[0] == 2
    assert run(file, "--db", "mysql://host/x")[0] == 2
    code, _, said = run(file, "--db", tmp_path / "none.db")
    assert (code, said) == (1, f"gdcb: no ledger at {tmp_path / 'none.db'}")
    assert not (tmp_path / "none.db").exists()
    assert "this ledger is empty" in run(file, "--db", empty)[2]
    code, _, said = run(tmp_path / "none.csv", "--db", db)
    assert (code, "cannot be read" in said) == (1, True)
    assert run(csv(tmp_path, NIGHTS, "nights.txt"), "--db", db)[0] == 2
    broken = tmp_path / "nights.parquet"
    broken.write_bytes(b"no parquet")
    assert run(broken, "--db", db)[0] == 1


def test_of_several_instances_one_is_named(db: Path, tmp_path: Path) -> None:
    declare(db, held().replace('name = "rooms"', 'name = "cabins"'))
    file = csv(tmp_path, NIGHTS)
    code, _, said = run(file, "--db", db)
    assert (code, "say which one, of cabins, rooms" in said) == (2, True)
    assert run(file, "--db", db, "--instance", "cabins")[0] == 0


def test_a_large_file_goes_in_parts(empty: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(empty, tmp_path / "ledger.db"))
    declare(path, held("batch = 2"))
    file = csv(tmp_path, NIGHTS)
    document = json.loads(run(file, "--db", path, "--id", "x", "--json")[1])
    assert document["requests"] == ["x~1", "x~2"]
    assert [row["id"] for row in document["decisions"]] == ["x~1.0", "x~1.1", "x~2.0"]
    assert json.loads(run(file, "--db", path, "--id", "x", "--json")[1])["is_new"] is False


@pytest.mark.parametrize(("before", "after"), [(9, 2), (2, 9), (2, 1), (1, 3)])
def test_a_file_is_decided_once_whatever_a_request_may_have(
    empty: Path, tmp_path: Path, before: int, after: int
) -> None:
    path = Path(shutil.copy(empty, tmp_path / "ledger.db"))
    declare(path, held(f"batch = {before}"))
    file = csv(tmp_path, NIGHTS + "90,0.3,sea\n")
    first = json.loads(run(file, "--db", path, "--json")[1])
    change(path, held(f"batch = {after}"))
    store = open_store(path)
    size = store.head("rooms").size
    again = json.loads(run(file, "--db", path, "--json")[1])
    assert again == first | {"is_new": False}
    assert store.head("rooms").size == size
    store.close()


def test_a_run_that_was_stopped_goes_on(
    empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(shutil.copy(empty, tmp_path / "ledger.db"))
    declare(path, held("batch = 2"))
    file = csv(tmp_path, "base,busy\n" + "".join(f"{100 + i},0.1\n" for i in range(7)))
    asked, put = [], Desk.put

    def stopped(desk: Desk, job: Any) -> Any:
        asked.append(job)
        if len(asked) > 1:
            raise StoreUnavailable("the disk went away")
        return put(desk, job)

    with monkeypatch.context() as patched:
        patched.setattr(Desk, "put", stopped)
        code, printed, said = run(file, "--db", path, "--id", "x")
    assert (code, printed) == (1, "")
    assert "the disk went away. The first 2 rows were decided, and stay so; the same file" in said
    change(path, held("batch = 3"))
    document = json.loads(run(file, "--db", path, "--id", "x", "--json")[1])
    assert document["requests"] == ["x~1", "x~2", "x~3"]
    assert [row["id"] for row in document["decisions"]] == [
        "x~1.0", "x~1.1", "x~2.0", "x~2.1", "x~2.2", "x~3.0", "x~3.1",
    ]  # fmt: skip
    assert [row["proposed"]["price"] for row in document["decisions"]] == pytest.approx(
        [(100 + i) * float(row["arm"]) for i, row in enumerate(document["decisions"])]
    )


@pytest.mark.parametrize(("mine", "theirs"), [(9, 2), (2, 9)])
def test_two_who_divide_a_file_differently_do_not_both_decide_it(
    empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mine: int, theirs: int
) -> None:
    """Somebody else decides the same file after we looked, with another limit in force."""
    path = Path(shutil.copy(empty, tmp_path / "ledger.db"))
    declare(path, held(f"batch = {mine}"))
    file, planned = csv(tmp_path, NIGHTS), batch._parts
    sizes: list[int] = []

    def looked(*given: Any) -> Any:
        parts = planned(*given)
        if not sizes:
            sizes.append(0)
            change(path, held(f"batch = {theirs}"))
            assert run(file, "--db", path, "--id", "x")[0] == 0
            store = open_store(path)
            sizes.append(store.head("rooms").size)
            store.close()
        return parts

    monkeypatch.setattr(batch, "_parts", looked)
    code, _, said = run(file, "--db", path, "--id", "x")
    assert (code, "'x' is being decided by somebody else; ask once more" in said) == (1, True)
    store = open_store(path)
    assert store.head("rooms").size == sizes[1]
    store.close()
    assert json.loads(run(file, "--db", path, "--id", "x", "--json")[1])["is_new"] is False


def test_an_id_with_a_number_is_no_part_of_another(db: Path, tmp_path: Path) -> None:
    assert run(csv(tmp_path, NIGHTS), "--db", db, "--id", "week-1")[0] == 0
    other = csv(tmp_path, NIGHTS.replace("80", "81"))
    assert json.loads(run(other, "--db", db, "--id", "week", "--json")[1])["requests"] == ["week"]


def test_fewer_rows_under_the_same_id_are_refused(empty: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(empty, tmp_path / "ledger.db"))
    declare(path, held("batch = 2"))
    for id, text in (("x", NIGHTS), ("y", NIGHTS + "90,0.3,sea\n")):
        assert run(csv(tmp_path, text), "--db", path, "--id", id)[0] == 0
        code, _, said = run(
            csv(tmp_path, NIGHTS.removesuffix("80,0.2,sea\n")), "--db", path, "--id", id
        )
        assert (code, f"'{id}' was used before, for another number of rows" in said) == (1, True)


def test_nothing_is_decided_in_a_pause(db: Path, store: Store, tmp_path: Path) -> None:
    made = Office(store, "rooms", Clock())
    made.do(operating.pause, "a storm", "ann")
    code, _, said = run(csv(tmp_path, NIGHTS), "--db", db)
    assert (code, "the instance is paused by ann: a storm" in said) == (1, True)
    # A desk that is at work on the same ledger sees what the command decided.
    made.do(operating.resume, "over", "ann")
    assert run(csv(tmp_path, NIGHTS), "--db", db, "--id", "x")[0] == 0
    made.decide("beside", night())
    assert made.document("x.0")["status"] == "passed"
    made.check()
    made.desk.close()


def test_personal_fields_need_subjects(empty: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(empty, tmp_path / "ledger.db"))
    declare(path, held('personal = ["busy"]'))
    code, _, said = run(csv(tmp_path, NIGHTS), "--db", path)
    assert code == 1
    assert "--subject-column: there is no column subject, and busy is personal" in said
    file = csv(tmp_path, "base,busy,guest\n100,0.1,g1\n120,0.2,g2\n")
    asked: list[Any] = [file, "--db", path, "--id", "x", "--subject-column", "guest"]
    assert run(*asked)[0] == 0
    store = open_store(path)
    made = Office(store, "rooms", Clock())
    assert erasing.run(made.desk, "g1", "they asked", "root").keys == 1
    made.desk.close()
    store.close()
    code, _, said = run(*asked)
    assert (code, "personal fields of it were erased since" in said) == (1, True)


def test_flags_and_categories_come_as_text(empty: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(empty, tmp_path / "ledger.db"))
    more = (
        'context.wet = { type = "flag" }\n'
        'context.day = { type = "category", levels = ["mon", "tue"] }\n'
    )
    declare(path, held(rest=more))
    text = "base,busy,wet,day\n100,0,true,mon\n100,0,0,tue\n100,0,Yes,mon\n"
    code, _, said = run(csv(tmp_path, text), "--db", path)
    assert (code, said) == (0, "3 were decided.")
    code, _, said = run(csv(tmp_path, "base,busy,wet,day\n100,0,maybe,sun\n"), "--db", path)
    assert (code, "context.wet: expected true or false, got 'maybe'" in said) == (1, True)


# Launch modes

PRICES = "base,busy,incumbent_price\n100,0.1,91\n120,0.2,92.5\n80,0.3,93\n"
SHADOW = 'launch.mode = "shadow"'


@pytest.fixture
def shadow(empty: Path, tmp_path: Path) -> Path:
    path = Path(shutil.copy(empty, tmp_path / "ledger.db"))
    declare(path, held(SHADOW))
    return path


def prices(printed: str) -> list[float]:
    return [row["action"]["price"] for row in json.loads(printed)["decisions"]]


def test_in_the_shadow_every_row_has_an_incumbent_of_its_own(shadow: Path, tmp_path: Path) -> None:
    file = csv(tmp_path, PRICES)
    code, printed, said = run(file, "--db", shadow, "--json")
    assert (code, said) == (0, "")
    assert prices(printed) == [91.0, 92.5, 93.0]
    assert [row["live"] for row in json.loads(printed)["decisions"]] == [False] * 3
    assert json.loads(printed)["not_read"] == []
    table = pl.read_csv(run(file, "--db", shadow)[1].encode())
    assert table["live"].to_list() == [False] * 3
    store = open_store(shadow)
    assert replay_chain(store, "rooms").verdict == "equal"
    store.close()


@pytest.mark.parametrize("named", ["now=", "price=now="])
def test_the_column_of_the_incumbent_is_named(shadow: Path, tmp_path: Path, named: str) -> None:
    """Its name may have an equals sign."""
    file = csv(tmp_path, PRICES.replace("incumbent_price", "now="))
    code, printed, _ = run(file, "--db", shadow, "--incumbent-column", named, "--json")
    assert (code, prices(printed)) == (0, [91.0, 92.5, 93.0])


@pytest.mark.parametrize("launch", [SHADOW, 'launch.mode = "live"'])
@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ("91|dear|93", ("1 of 3 rows is wrong, and nothing was decided: row 2: incumbent.price: "
         "expected a finite number, got 'dear'")),
        ("91||inf", ("row 2: incumbent.price: expected a finite number, got None; row 3: "
         "incumbent.price: expected a finite number, got inf")),
    ],
)  # fmt: skip
def test_a_wrong_incumbent_refuses_the_file(
    empty: Path, tmp_path: Path, launch: str, cells: str, message: str
) -> None:
    """In live mode too, where it does not run: the slip shows before the launch changes."""
    path = Path(shutil.copy(empty, tmp_path / "ledger.db"))
    declare(path, held(launch))
    text = "".join(f"100,0.1,{cell}\n" for cell in cells.split("|"))
    code, _, said = run(csv(tmp_path, f"base,busy,incumbent_price\n{text}"), "--db", path)
    assert (code, message in said) == (1, True), said
    store = open_store(path)
    assert store.head("rooms").size == 1
    store.close()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], ("--incumbent-column: there is no column incumbent_price, and this instance runs in "
         "mode 'shadow': say what runs where the proposal does not")),
        (["--incumbent-column", "now"], "--incumbent-column: there is no column now"),
        (["--incumbent-column", "base", "--incumbent-column", "price=base"],
         "--incumbent-column: expected a column for price each, got base, price=base"),
    ],
)  # fmt: skip
def test_an_incumbent_that_is_not_there(
    shadow: Path, tmp_path: Path, more: list[str], message: str
) -> None:
    code, _, said = run(csv(tmp_path, NIGHTS), "--db", shadow, *more)
    assert (code, message in said) == (1, True), said


def test_actions_of_several_parts() -> None:
    instance = Instance(Schema({"incumbent_severity": Number(0, 9)}), ARMS, Identity("choice"), [])
    frame = pl.DataFrame(
        {"incumbent_choice": ["warn", "allow"], "severe": ["1", "2"], "incumbent_severity": [3, 4]}
    )
    both = ["choice=incumbent_choice", "severity=severe"]
    named = rows.incumbent_columns(instance, frame, both)
    assert named == {"choice": "incumbent_choice", "severity": "severe"}
    found = rows.incumbents_of(instance, frame, named)
    assert found == {"choice": ["warn", "allow"], "severity": [1.0, 2.0]}
    # What the context calls so is the context's, unless a part is there that is not.
    assert rows.incumbent_columns(instance, frame.drop("incumbent_choice"), []) is None
    for wrong, says in (
        (["severe"], "expected ACTION=COLUMN, where ACTION is choice or severity; got severe"),
        (["choice=incumbent_choice"], "expected a column for choice, severity each, got choice="),
    ):
        with pytest.raises(InvalidInput, match=says):
            rows.incumbent_columns(instance, frame, wrong)
    with pytest.raises(InvalidInput, match="there is no column incumbent_severity"):
        rows.incumbent_columns(instance, frame.drop("incumbent_severity"), [])


@pytest.mark.parametrize("service", [SHADOW, 'personal = ["busy"]'])
def test_what_was_decided_is_answered_though_more_is_asked_for_now(
    db: Path, tmp_path: Path, service: str
) -> None:
    """Before, nothing needed an incumbent or a subject."""
    file = csv(tmp_path, NIGHTS)
    first = run(file, "--db", db)
    change(db, held(service))
    assert run(file, "--db", db)[:2] == first[:2]
    assert run(csv(tmp_path, NIGHTS + "90,0.3,sea\n"), "--db", db)[0] == 1
