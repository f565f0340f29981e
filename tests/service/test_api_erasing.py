"""Subjects over HTTP: who may erase, what is answered, and what is left on either database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gdcb.ledger.audit import verify_chain
from gdcb.ledger.replaying import replay_chain
from gdcb.ledger.sql import SqlStore
from gdcb.service import erasing
from tests.postgres import Cluster
from tests.service.desks import held, learning, night, office
from tests.service.http import ROOMS, Site, site

PATH = f"/v1/instances/{ROOMS}"
ERASE = f"{PATH}/subjects/erase"
ASKED = {"subject": "guest 1", "reason": "they asked"}


@pytest.fixture(scope="module")
def shown(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("erasing")
    with site(sqlite_template, folder, held('personal = ["busy"]\n')) as made:
        yield made


def refused(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["message"]


def test_a_subject_is_erased(shown: Site) -> None:
    assert shown.decide("one", 0.1, subject="guest 1")["status"] == "passed"
    assert shown.decide("two", 0.9, subject="guest 1")["status"] == "held"
    answer = shown.post(ERASE, shown.ann, ASKED)
    assert answer.status_code == 200
    assert answer.json() == {
        "keys": 1,
        "rows": 0,
        "ended": ["two"],
        "replayed": True,
        "scrubbed": True,
    }
    again = shown.post(ERASE, shown.ann, ASKED).json()
    assert (again["keys"], again["ended"], again["replayed"]) == (0, [], False)
    said = {"id": "one", "context": night(0.1), "subject": "guest 1"}
    status, why = refused(shown.post(f"{PATH}/decisions", shown.shop, said))
    assert (status, "erased since" in why) == (409, True)
    assert shown.get(f"{PATH}/decisions/one", shown.shop).json()["reason"] == "erased"
    assert verify_chain(shown.house.store, ROOMS).ok


def test_a_batch_names_one_subject_or_one_a_row(shown: Site) -> None:
    columns = {"base": [100, 110], "busy": [0.1, 0.2]}
    for id, more in (("b1", {"subject": "guest 2"}), ("b2", {"subjects": ["guest 2", "guest 3"]})):
        said = {"id": id, "columns": columns} | more
        answer = shown.post(f"{PATH}/decisions/batch", shown.shop, said)
        assert answer.status_code == 201, answer.text
    assert shown.post(ERASE, shown.ann, ASKED | {"subject": "guest 2"}).json()["keys"] == 1
    assert shown.get(f"{PATH}/decisions/b2.1", shown.shop).json()["reason"] != "erased"


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, "subject: expected whom the row is about, since busy is personal here"),
        ({"subject": ""}, "subject: String should have at least 1 character"),
        ({"subject": "a", "subjects": ["b"]}, "give subject or subjects, not both"),
        ({"subjects": ["a", "b"]}, "subject: expected one, or one a row (1), got 2"),
    ],
)
def test_requests_about_nobody_are_refused(shown: Site, more: dict[str, Any], why: str) -> None:
    said = {"contexts": [night(0.1)]} | more
    status, message = refused(shown.post(f"{PATH}/decisions/batch", shown.shop, said))
    assert (status, message) == (422, why)


def test_only_who_administers_may_erase(shown: Site) -> None:
    assert shown.post(ERASE, None, ASKED).status_code == 401
    assert shown.post(ERASE, shown.shop, ASKED).status_code == 403
    operator = shown.person("olga", ("operate", ROOMS), ("approve", ROOMS))
    assert shown.post(ERASE, operator, ASKED).status_code == 403
    elsewhere = shown.person("carl", ("administer", "cabins"))
    assert shown.post(ERASE, elsewhere, ASKED).status_code == 403


@pytest.mark.parametrize("gone", ["subject", "reason"])
def test_both_are_needed(shown: Site, gone: str) -> None:
    said = {name: value for name, value in ASKED.items() if name != gone}
    assert refused(shown.post(ERASE, shown.ann, said)) == (
        422,
        f"{gone}: expected a value, got none",
    )


def test_it_is_the_same_on_postgresql(postgres: Cluster, postgres_template: str) -> None:
    name = postgres.create(f"TEMPLATE {postgres_template}")
    store = SqlStore(postgres.url(name))
    with office(learning('personal = ["busy"]\n'), store) as made:
        for i in range(4):
            made.decide(f"d{i}", [night(0.4), night(0.9)], subject=["guest 1", "guest 2"])
            made.observe({f"d{i}.0": 1.0}, label=[0.1])
        done = erasing.run(made.desk, "guest 1", "they asked", "root")
        assert (done.keys, done.rows, done.replayed, done.scrubbed) == (1, 4, True, True)
        made.answer("d0.1", "approve")
        made.restart()
        made.check()
        assert verify_chain(store, ROOMS).ok
        report = replay_chain(store, ROOMS)
        assert (report.ok, report.erased, report.unknown) == (True, 4, 3)
    store.close()
    postgres.drop(name)
