"""`gdcb access`: a way in for whoever holds the database, a way out, and who changed what."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gdcb.cli import app
from gdcb.ledger.sql import SqlStore
from gdcb.service import operating
from gdcb.service.access import CONSOLE, Door, add_person, first_link, list_people, open_books
from gdcb.service.running import Plan, furnished
from tests.service.desks import plain

BASE = "http://127.0.0.1:8000"


def run(*arguments: str) -> Result:
    """Run the command as from a shell."""
    return CliRunner().invoke(app, ["access", *arguments])


@pytest.fixture
def db(sqlite_template: Path, tmp_path: Path) -> Path:
    """The database of a service whose sole administrator signed in, and has no password."""
    path = tmp_path / "gdcb.db"
    path.write_bytes(sqlite_template.read_bytes())
    store = SqlStore(path)
    door = Door(open_books(store.engine))
    link = first_link(door.books, BASE)
    assert link is not None
    door.sign_in_by_link(link.partition("link=")[2], {})
    store.close()
    return path


def whose(db: Path, link: str) -> str:
    """Use a printed link, and return the name of who is signed in."""
    store = SqlStore(db)
    door = Door(open_books(store.engine))
    assert link.startswith(f"{BASE}/sign-in?link=")
    cookie = door.sign_in_by_link(link.strip().partition("link=")[2], {})
    found = door.authenticate({"cookie": cookie.partition(";")[0]})
    store.close()
    assert found is not None
    return found.name


def added(db: Path, login: str, *given: tuple[str, str]) -> None:
    """Add somebody."""
    store = SqlStore(db)
    add_person(open_books(store.engine), CONSOLE, login, login.title(), given)
    store.close()


def declared(db: Path) -> None:
    """Declare the instance `rooms`."""
    store = SqlStore(db)
    operating.create(store, plain(), "ann", "first")
    store.close()


def test_a_sole_administrator_gets_in_again(db: Path) -> None:
    """No session, no password, no first link: the database is enough."""
    store = SqlStore(db)
    assert first_link(open_books(store.engine), BASE) is None
    store.close()
    result = run("link", "--db", str(db))
    assert result.exit_code == 0, result.stderr
    assert whose(db, result.stdout) == "First administrator"
    assert whose(db, run("link", "admin", "--db", f"sqlite:///{db}").stdout) == (
        "First administrator"
    )


def test_a_link_leads_to_where_the_service_is(db: Path) -> None:
    """Where it was when it last started; another address is an option."""
    elsewhere = "https://decisions.example.com:8443"
    for base in ("http://127.0.0.1:8765", elsewhere):
        furnished(Plan(str(db), base))
        link = run("link", "--db", str(db)).stdout
        assert link.startswith(f"{base}/sign-in?link=")
    link = run("link", "--db", str(db), "--base-url", "http://127.0.0.1:1234").stdout
    assert link.startswith("http://127.0.0.1:1234/sign-in?link=")
    assert run("link", "--db", str(db)).stdout.startswith(elsewhere)


def test_of_several_one_is_named(db: Path) -> None:
    added(db, "ann", ("administer", "*"))
    added(db, "bob", ("approve", "*"))
    result = run("link", "--db", str(db))
    assert result.exit_code == 1
    assert "expected that of one of several administrators: admin, ann" in result.stderr
    assert whose(db, run("link", "ann", "--db", str(db)).stdout) == "Ann"
    assert whose(db, run("link", "bob", "--db", str(db)).stdout) == "Bob"


def test_the_last_administrator_is_put_out_and_another_comes(db: Path) -> None:
    result = run("end", "admin", "--db", str(db))
    assert (result.exit_code, result.stdout.split()[0]) == (0, "admin")
    assert run("link", "admin", "--db", str(db)).exit_code == 1
    assert whose(db, run("link", "--db", str(db)).stdout) == "First administrator"
    store = SqlStore(db)
    people = {one.login: one for one in list_people(open_books(store.engine), CONSOLE)}
    store.close()
    assert people["admin"].ended_at is not None
    assert people["admin-2"].ended_at is None


def test_a_key_from_the_console_belongs_to_nobody_who_signs_in(db: Path) -> None:
    declared(db)
    may = ("--may", "decide", "--may", "outcome", "--instance", "rooms")
    made = run("key", "till", *may, "--days", "1", "--db", str(db)).stdout.strip()
    store = SqlStore(db)
    door = Door(open_books(store.engine))
    found = door.authenticate({"authorization": f"Bearer {made}"})
    everybody = {one.id for one in list_people(door.books, CONSOLE)}
    store.close()
    assert found is not None
    assert found.name == "till"
    assert found.roles("rooms") == ["decide", "outcome"]
    assert found.roles("cabins") == []
    assert found.made_by not in everybody


def test_a_key_for_an_instance_that_is_not_there_is_refused(db: Path) -> None:
    """A typing error would make a key that opens nothing, and say nothing."""
    asked = ("key", "till", "--may", "decide", "--instance", "room", "--db", str(db))
    refused = run(*asked)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "no instance 'room' in this ledger; there is none yet" in _said(refused)
    declared(db)
    refused = run(*asked, "--instance", "rooms")
    assert "no instance 'room' in this ledger; there are rooms" in _said(refused)
    assert "key added" not in run("log", "--db", str(db)).stdout
    assert run("key", "till", "--may", "decide", "--instance", "*", "--db", str(db)).stdout


def _said(result: Result) -> str:
    return " ".join(result.stderr.split())


def test_the_log_has_dates_and_roles_in_words(db: Path) -> None:
    may = ("--may", "decide", "--may", "outcome")
    assert run("key", "till", *may, "--days", "1", "--db", str(db)).exit_code == 0
    line = json.loads(run("log", "--db", str(db), "--json").stdout)[-1]
    made, ends = (datetime.fromisoformat(at) for at in (line["at"], line["detail"]["expires_at"]))
    assert (ends - made).total_seconds() == pytest.approx(86_400, abs=1)
    words = run("log", "--db", str(db)).stdout.splitlines()[-1]
    assert (
        f"expires_at {line['detail']['expires_at']}, grants decide on * and outcome on *" in words
    )


def test_the_log_says_who_changed_what(db: Path) -> None:
    link = run("link", "--db", str(db)).stdout
    whose(db, link)
    lines = json.loads(run("log", "--db", str(db), "--json").stdout)
    assert [line["n"] for line in lines] == list(range(1, len(lines) + 1))
    assert (lines[0]["by"], lines[0]["what"]) == ("console", "person added")
    assert (lines[-2]["by"], lines[-2]["what"]) == ("console", "link made")
    assert (lines[-1]["name"], lines[-1]["what"]) == ("First administrator", "signed in")
    words = run("log", "--db", str(db), "--after", str(len(lines) - 1)).stdout
    assert "First administrator: signed in  how link" in words
    assert len(words.splitlines()) == 1
    assert link.strip().partition("link=")[2] not in run("log", "--db", str(db)).stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["link", "--db", "missing.db"], 1, "no ledger at missing.db"),
        (["log", "--db", "sqlite:///missing.db"], 1, "no ledger at missing.db"),
        (["link", "nobody"], 1, "login: expected that of a person, got 'nobody'"),
        (["end", "nobody"], 1, "login: expected that of a person, got 'nobody'"),
        (["link", "--base-url", "here"], 1, "base_url: expected like"),
        (["link", "--hours", "0"], 2, "--hours"),
        (["key", "till"], 2, "--may"),
        (["key", "till", "--may", "approve"], 1, "'approve': that needs a person"),
        (["key", "till", "--may", "fly"], 1, "'fly'"),
        (["link", "--db", "memory:"], 1, "no ledger at memory:"),
        (["link", "--db", "mysql://x"], 1, "mysql"),
    ],
)
def test_what_is_refused(
    db: Path, arguments: list[str], code: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each with a sentence; no database is made where there was none."""
    monkeypatch.chdir(db.parent)
    result = run(*arguments)
    assert result.exit_code == code
    assert words in " ".join(result.stderr.split())
    assert not (db.parent / "missing.db").exists()
