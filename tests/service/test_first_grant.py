"""Who set an account up does not keep it when somebody else trusts its owner with approvals.

Mallory administers the cabins. She registers 'ann', opens the link herself and keeps the account;
later Eve, who knows nothing of it, grants Ann to approve the rooms.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gdcb.service import access
from gdcb.service.access import CONSOLE, passwords
from gdcb.service.access.links import redeem
from tests.service.access_builders import token_of
from tests.service.http import BASE, CABINS, ROOMS, Site, Visitor, site, visitor
from tests.service.test_web_queue import text_of

WORD = "correct horse battery"
QUEUE = f"/i/{ROOMS}/queue"


@pytest.fixture
def here(sqlite_template: Path, tmp_path: Path) -> Iterator[Site]:
    with site(sqlite_template, tmp_path) as made:
        yield made


@pytest.fixture
def eve(here: Site) -> Visitor:
    """Who administers everything."""
    return visitor(here, "eve", ("administer", "*"))


@pytest.fixture
def mallory(here: Site) -> Visitor:
    """Who administers the cabins."""
    return visitor(here, "mallory", ("administer", CABINS))


def link_in(page: Any) -> str:
    """Return the one-time link that a page shows."""
    found = re.search(rf"{re.escape(BASE)}/sign-in\?link=([0-9a-f]+)", page.text)
    assert found is not None, text_of(page)
    return found[1]


def registered(here: Site, mallory: Visitor, **role: str) -> tuple[str, Visitor]:
    """Have Mallory register Ann and take the account over; return its id and her window."""
    page = mallory.post("/people", {"name": "Ann", "login": "ann", **role})
    taken = Visitor(here)
    assert taken.post("/sign-in", {"link": link_in(page)}).status_code == 303
    form = {"password": WORD, "again": WORD}
    assert taken.post("/account/password", form).status_code == 303
    assert sign_in(taken).status_code == 303
    return access.person_by_login(here.house.books, "ann"), taken


def sign_in(who: Visitor) -> Any:
    return who.post("/sign-in", {"login": "ann", "password": WORD}, token="")


@pytest.mark.parametrize("role", ["approve", "administer"])
@pytest.mark.parametrize("before", [{}, {"role": "approve", "instance": CABINS}], ids=["", "other"])
def test_the_first_such_grant_ends_all_that_opened_the_account(
    here: Site, eve: Visitor, mallory: Visitor, role: str, before: dict[str, str]
) -> None:
    """Session, password and an unused link; also where Mallory let Ann approve the cabins."""
    id, taken = registered(here, mallory, **before)
    unused = link_in(mallory.post(f"/people/{id}/link"))
    assert taken.get("/account").status_code == 200
    page = eve.post(f"/people/{id}/grant", {"role": role, "instance": ROOMS})
    assert taken.get(QUEUE).status_code == 303  # to the door
    api = here.get(f"/v1/instances/{ROOMS}/queue", {"cookie": f"gdcb={taken.cookies['gdcb']}"})
    assert api.status_code == 401
    assert sign_in(Visitor(here)).status_code == 401
    assert Visitor(here).post("/sign-in", {"link": unused}).status_code == 401
    assert mallory.post(f"/people/{id}/link").status_code == 422  # she makes no other one
    assert "Their password, sessions and links have ended" in text_of(page)
    ann = Visitor(here)
    assert ann.post("/sign-in", {"link": link_in(page)}).status_code == 303
    path = QUEUE if role == "approve" else "/people"
    assert ann.get(path).status_code == 200
    log = [one.what for one in access.read_log(here.house.books)]
    assert log.count("password, sessions and links ended") == 1


def test_who_approves_and_is_to_administer_signs_in_anew(here: Site, eve: Visitor) -> None:
    """Somebody who administered the rooms made Ann an approver of them and kept the account."""
    mallory = visitor(here, "mo", ("administer", ROOMS))
    id, taken = registered(here, mallory, role="approve", instance=ROOMS)
    assert taken.get(QUEUE).status_code == 200
    page = eve.post(f"/people/{id}/grant", {"role": "administer", "instance": ROOMS})
    assert taken.get("/people").status_code == 303  # to the door
    assert sign_in(Visitor(here)).status_code == 401
    ann = Visitor(here)
    assert ann.post("/sign-in", {"link": link_in(page)}).status_code == 303
    assert ann.get("/people").status_code == 200


def test_what_comes_after_signs_nobody_out(here: Site, eve: Visitor) -> None:
    """Other roles, the same again, and 'approve' for who administers leave the account as it is."""
    id = access.add_person(here.house.books, CONSOLE, "ann", "Ann")
    page = eve.post(f"/people/{id}/grant", {"role": "audit", "instance": ROOMS})
    assert page.status_code == 303
    page = eve.post(f"/people/{id}/grant", {"role": "administer", "instance": ROOMS})
    ann = Visitor(here)
    assert ann.post("/sign-in", {"link": link_in(page)}).status_code == 303
    for role in ("approve", "administer", "operate"):
        answer = eve.post(f"/people/{id}/grant", {"role": role, "instance": ROOMS})
        assert answer.status_code == 303
    assert ann.get(QUEUE).status_code == 200


def test_who_administers_one_instance_locks_nobody_out_of_another(
    here: Site, eve: Visitor, mallory: Visitor
) -> None:
    """Mallory could else sign everybody out by a grant on the cabins, the administrators too."""
    dora, books = visitor(here, "dora", ("approve", ROOMS)), here.house.books
    id = access.person_by_login(books, "dora")
    answer = mallory.post(f"/people/{id}/grant", {"role": "approve", "instance": CABINS})
    assert answer.status_code == 422
    assert "the first grant of 'approve' ends their password" in text_of(answer)
    assert dora.get(QUEUE).status_code == 200
    id = access.person_by_login(books, "eve")  # who administers the cabins already
    answer = mallory.post(f"/people/{id}/grant", {"role": "approve", "instance": CABINS})
    assert answer.status_code == 303
    assert eve.get("/people").status_code == 200


def test_a_password_that_is_set_meanwhile_is_not_kept(
    here: Site, eve: Visitor, mallory: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The grant comes while the hash of Mallory's new password is still being computed."""
    books, id = here.house.books, access.add_person(here.house.books, CONSOLE, "ann", "Ann")
    taken = Visitor(
        here, {"gdcb": redeem(books, token_of(access.make_link(books, CONSOLE, id, BASE)))}
    )
    made = passwords._made

    def slowly(*given: Any) -> Any:
        if given[0]:
            eve.post(f"/people/{id}/grant", {"role": "approve", "instance": ROOMS})
        return made(*given)

    monkeypatch.setattr(passwords, "_made", slowly)
    answer = taken.post("/account/password", {"password": WORD, "again": WORD})
    monkeypatch.undo()
    assert answer.status_code in (303, 401, 403)
    assert sign_in(Visitor(here)).status_code == 401
    held = {one.login: one for one in access.list_people(books, CONSOLE)}
    assert not held["ann"].has_password
    assert {one.role for one in held["ann"].grants} == {"approve"}
