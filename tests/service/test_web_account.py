"""One's own account: the password that one sets, changes and forgets; out of every browser."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gdcb.service import access
from gdcb.service.house import Settings
from tests.service.access_builders import token_of
from tests.service.http import BASE, Site, Visitor, site, visitor
from tests.service.test_web_routes import EVERYTHING, link_for, told

WORDS, OTHER_WORDS = "correct horse battery", "another horse altogether"


@pytest.fixture(scope="module")
def here(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(sqlite_template, tmp_path_factory.mktemp("account")) as made:
        yield made


@pytest.fixture(scope="module")
def eve(here: Site) -> Visitor:
    return visitor(here, "eve", *EVERYTHING)


def words(page: Any) -> str:
    """Return what a page says, without its tags."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", "", page.text)))


def test_a_sole_administrator_comes_back_after_an_hour(
    sqlite_template: Path, tmp_path: Path
) -> None:
    """The first link, a password of one's own on the page, an idle hour, and in again with it."""
    with site(sqlite_template, tmp_path) as made:
        link = access.first_link(made.house.books, BASE)
        assert link is not None
        guest = Visitor(made)
        told_then = told(guest, guest.post("/sign-in", {"link": token_of(link)}), "/")
        assert "Set one under Account" in told_then
        page = guest.get("/account")
        assert "You sign in as admin" in words(page)
        assert 'name="present"' not in page.text
        answer = guest.post("/account/password", {"password": WORDS, "again": WORDS})
        assert "Your password is set. Sign in with it." in told(guest, answer, "/sign-in")
        assert "gdcb" not in guest.cookies
        made.clock.pass_by(61 * 60)
        assert access.first_link(made.house.books, BASE) is None
        answer = guest.post("/sign-in", {"login": "admin", "password": WORDS, "then": "/people"})
        assert answer.headers["location"] == "/people"
        assert guest.get("/people").status_code == 200


def test_a_password_is_changed_with_the_present_one(here: Site) -> None:
    guest, elsewhere = Visitor(here), Visitor(here)
    guest.post("/sign-in", {"link": link_for(here, "changer")})
    guest.post("/account/password", {"password": WORDS, "again": WORDS})
    for one in (guest, elsewhere):
        one.post("/sign-in", {"login": "changer", "password": WORDS})
    assert 'name="present"' in guest.get("/account").text
    new = {"password": OTHER_WORDS, "again": OTHER_WORDS}
    for form, status, says in (
        (new, 403, "this needs the present password"),
        (new | {"present": "wrong horse battery"}, 403, "this needs the present password"),
        (new | {"present": WORDS, "again": WORDS}, 422, "the two new passwords are not the same"),
        (
            {"present": WORDS, "password": "x<b>", "again": "x<b>"},
            422,
            "expected at least 12 characters",
        ),
    ):
        answer = guest.post("/account/password", form)
        assert answer.status_code == status
        assert says in words(answer)
        assert all(word not in answer.text for word in (WORDS, OTHER_WORDS, "x&lt;b"))
    assert elsewhere.get("/account").status_code == 200
    guest.post("/account/password", new | {"present": WORDS})
    assert elsewhere.get("/account").status_code == 303  # all sessions ended
    assert guest.post("/sign-in", {"login": "changer", "password": WORDS}).status_code == 401
    assert guest.post("/sign-in", {"login": "changer", "password": OTHER_WORDS}).status_code == 303


def test_a_forgotten_password_is_set_anew_after_a_link(here: Site, eve: Visitor) -> None:
    guest = Visitor(here)
    guest.post("/sign-in", {"link": link_for(here, "forgetful")})
    guest.post("/account/password", {"password": WORDS, "again": WORDS})
    id = access.person_by_login(here.house.books, "forgetful")
    found = re.search(r"sign-in\?link=([0-9a-f]+)", eve.post(f"/people/{id}/link").text)
    assert found is not None
    guest.post("/sign-in", {"link": found[1]})
    assert Visitor(here).post(
        "/sign-in", {"login": "forgetful", "password": WORDS}
    ).status_code == (401)
    answer = guest.post("/account/password", {"password": OTHER_WORDS, "again": OTHER_WORDS})
    assert answer.headers["location"] == "/sign-in"
    words = {"login": "forgetful", "password": OTHER_WORDS}
    assert guest.post("/sign-in", words).status_code == 303


def test_setting_passwords_is_limited(sqlite_template: Path, tmp_path: Path) -> None:
    with site(sqlite_template, tmp_path, settings=Settings(BASE, tick=0)) as made:
        guest = visitor(made, "busy")
        form = {"password": "short", "again": "short"}
        found = [guest.post("/account/password", form).status_code for _ in range(11)]
        assert found == [422] * 10 + [429]


def test_signing_out_everywhere(here: Site) -> None:
    guest, elsewhere = Visitor(here), Visitor(here)
    guest.post("/sign-in", {"link": link_for(here, "everywhere")})
    guest.post("/account/password", {"password": WORDS, "again": WORDS})
    for one in (guest, elsewhere):
        one.post("/sign-in", {"login": "everywhere", "password": WORDS})
    answer = guest.post("/account/sign-out")
    assert "You are signed out in every browser." in told(guest, answer, "/sign-in")
    assert "gdcb" not in guest.cookies
    assert elsewhere.get("/account").status_code == 303
