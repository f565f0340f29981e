"""Links, passwords and sessions: each works once or for its time, on every database."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest
from sqlalchemy import select, text, update

from gdcb.errors import Conflict, InvalidInput, StoreReadOnly
from gdcb.ledger.engines import connect, parse
from gdcb.service.access import (
    CONSOLE,
    ROLES,
    Books,
    Grant,
    LockOut,
    NotAllowed,
    Principal,
    SessionLimits,
    SignInRefused,
    TooMany,
    add_key,
    end_person,
    end_sessions,
    first_link,
    link_opens,
    list_people,
    make_link,
    open_books,
    person_by_login,
    read_log,
    revoke,
    set_password,
    tables,
    tidy,
)
from gdcb.service.access.links import base_of, redeem
from gdcb.service.access.passwords import Cost, sign_in
from gdcb.service.access.sessions import find_session
from gdcb.service.access.tokens import digest
from tests.service.access_builders import (
    BASE,
    CHEAP,
    bearer,
    cookie,
    door,
    forward,
    person,
    session,
    token_of,
)

GOOD = "correct horse battery"


def with_password(books: Books, login: str = "ann", password: str = GOOD) -> Principal:
    ann = person(books, login, ("audit", "str"))
    set_password(books, ann, password, cost=CHEAP)
    return ann


def enter(books: Books, login: str = "ann", password: str = GOOD) -> str:
    return sign_in(books, login, password, cost=CHEAP)


# Links


def test_the_first_link_signs_in_an_administrator_with_every_role(books: Books) -> None:
    link = first_link(books, BASE)
    assert link is not None
    assert re.fullmatch(re.escape(BASE) + r"/sign-in\?link=[0-9a-f]{64}", link)
    entrance = door(books)
    assert entrance.sign_in_by_link(token_of(link), {}).startswith("__Host-gdcb=")
    (admin,) = list_people(books, CONSOLE)
    assert admin.login == "admin"
    assert admin.grants == {Grant(role, "*") for role in ROLES}
    assert first_link(books, BASE) is None


def test_a_lost_first_link_locks_nobody_out(books: Books) -> None:
    lost, again = first_link(books, BASE), first_link(books, BASE)
    assert lost is not None
    assert again is not None
    forward(books, 86_400)
    late = first_link(books, BASE)
    assert late is not None
    assert [link_opens(books, token_of(link)) for link in (lost, again, late)] == [
        False,
        False,
        True,
    ]
    assert len(list_people(books, CONSOLE)) == 1


def test_of_several_first_links_one_ends_the_others(books: Books) -> None:
    one, two = first_link(books, BASE), first_link(books, BASE)
    assert one is not None
    assert two is not None
    redeem(books, token_of(two))
    with pytest.raises(SignInRefused):
        redeem(books, token_of(one))


def test_the_first_link_goes_to_who_was_made_administrator_before(books: Books) -> None:
    boss = person(books, "boss", ("administer", "*"))
    link = first_link(books, BASE)
    assert link is not None
    found = door(books).authenticate(cookie(redeem(books, token_of(link))))
    assert found == boss
    assert [one.login for one in list_people(books, CONSOLE)] == ["boss"]


def test_when_the_last_administrator_was_put_out_there_is_a_first_link_again(books: Books) -> None:
    link = first_link(books, BASE)
    assert link is not None
    redeem(books, token_of(link))
    end_person(books, CONSOLE, person_by_login(books, "admin"))
    assert first_link(books, BASE) is not None
    assert [one.login for one in list_people(books, CONSOLE)] == ["admin", "admin-2"]


def test_a_link_works_once(books: Books) -> None:
    ann = person(books, "ann", ("audit", "str"))
    token = token_of(make_link(books, CONSOLE, ann.id, BASE))
    assert link_opens(books, token)
    assert link_opens(books, token)  # Looking does not use it up.
    assert door(books).authenticate(cookie(redeem(books, token))) == ann
    assert not link_opens(books, token)
    with pytest.raises(SignInRefused, match="this link does not open anything: it was used") as no:
        redeem(books, token)
    assert no.value.status == 401
    assert [line.what for line in read_log(books) if line.by == ann.id] == ["signed in"]


def test_a_link_used_by_many_at_once_opens_one_session(books: Books) -> None:
    ann = person(books, "ann")
    token = token_of(make_link(books, CONSOLE, ann.id, BASE))

    def attempt(_: int) -> bool:
        try:
            redeem(books, token)
        except SignInRefused:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(16))) == 1


def test_a_link_expires_and_a_new_one_replaces_it(books: Books) -> None:
    ann = person(books, "ann")
    one = token_of(make_link(books, CONSOLE, ann.id, BASE, lasts_s=60))
    two = token_of(make_link(books, CONSOLE, ann.id, BASE, lasts_s=60))
    assert (link_opens(books, one), link_opens(books, two)) == (False, True)
    forward(books, 60)
    with pytest.raises(SignInRefused, match="it expired"):
        redeem(books, two)


def test_nobody_makes_a_link_for_themselves(books: Books) -> None:
    admin = person(books, "admin", ("administer", "*"))
    with pytest.raises(NotAllowed, match="nobody makes a link for themselves"):
        make_link(books, admin, admin.id, BASE)


def test_a_key_has_no_link(sqlite_books: Books) -> None:
    key = add_key(sqlite_books, CONSOLE, "k", [("decide", "*")])
    with pytest.raises(InvalidInput, match="expected the id of a person"):
        make_link(sqlite_books, CONSOLE, key.id, BASE)


@pytest.mark.parametrize("token", ["", "x", "0" * 63, "0" * 64, "0" * 64 + "\n", "é" * 64, None, 7])
def test_what_is_no_link_is_refused(sqlite_books: Books, token: str) -> None:
    assert not link_opens(sqlite_books, token)
    with pytest.raises(SignInRefused, match="this link does not open anything"):
        redeem(sqlite_books, token)


@pytest.mark.parametrize(
    "url",
    [
        "gdcb.example.org",
        "ftp://gdcb.example.org",
        "javascript:alert(1)",
        "https://",
        "https://user:pass@gdcb.example.org",
        "https://gdcb.example.org/path",
        "https://gdcb.example.org?x=1",
        "https://gdcb.example.org:99999",
        "https://gdcb example.org",
        "https://gdcb.example.org\n",
        None,
        7,
    ],
)
def test_a_base_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="base_url: expected like"):
        base_of(url)


def test_base_urls() -> None:
    assert base_of("http://127.0.0.1:8000/") == "http://127.0.0.1:8000"
    assert base_of("https://GDCB.example.org") == "https://gdcb.example.org"
    assert base_of("http://[::1]:80") == "http://[::1]:80"
    assert urlsplit(base_of("http://localhost")).hostname == "localhost"


# Passwords


def test_a_password_signs_in(books: Books) -> None:
    ann = with_password(books)
    assert list_people(books, CONSOLE)[0].has_password
    assert door(books).authenticate(cookie(enter(books, " ANN "))) == ann
    with books.reading() as connection:
        row = connection.execute(select(tables.passwords)).one()
    assert (row.n, row.r, row.p, len(row.salt), len(row.hash)) == (2**10, 8, 1, 16, 32)
    assert GOOD not in repr(row) + repr(read_log(books))


def test_every_failure_has_the_same_words(books: Books) -> None:
    with_password(books)
    person(books, "bob")
    said = set()
    for login, password in [
        ("ann", "wrong"),
        ("ann", ""),
        ("bob", GOOD),
        ("nobody", GOOD),
        ("a\0b", GOOD),
        ("ånn", GOOD),
        ("\ud800", "\ud800"),
    ]:
        with pytest.raises(SignInRefused) as caught:
            enter(books, login, password)
        said.add(str(caught.value))
    assert said == {"login and password do not fit: try again, or ask an administrator for a link"}


def test_unknown_logins_cost_as_much_work(
    sqlite_books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_password(sqlite_books)
    hashed: list[str] = []
    whole = Cost.hash

    def counted(self: Cost, password: str, salt: bytes) -> bytes:
        hashed.append(password)
        return whole(self, password, salt)

    monkeypatch.setattr(Cost, "hash", counted)
    for login in ("ann", "nobody"):
        with pytest.raises(SignInRefused):
            enter(sqlite_books, login, "wrong")
    assert hashed == ["wrong", "wrong"]


def test_tries_lock_a_login_for_longer_and_longer(books: Books) -> None:
    with_password(books)
    for login in ("ann", "nobody"):
        for _ in range(5):
            with pytest.raises(SignInRefused):
                enter(books, login, "wrong")
        with pytest.raises(TooMany, match="too many tries for this login") as caught:
            enter(books, login)  # The right password, too.
        assert caught.value.retry_after == 30
    forward(books, 30)
    with pytest.raises(SignInRefused):
        enter(books, "ann", "wrong")
    forward(books, 59)
    with pytest.raises(TooMany, match="try again in 1 second"):
        enter(books)
    forward(books, 1)
    enter(books)
    for _ in range(4):  # Forgiven: counted from the start again.
        with pytest.raises(SignInRefused):
            enter(books, "ann", "wrong")
    enter(books)
    locked = [line for line in read_log(books) if line.what == "locked"]
    assert [line.detail["seconds"] for line in locked] == [30.0, 60.0]


def test_a_link_opens_a_locked_login(books: Books) -> None:
    ann = with_password(books)
    for _ in range(5):
        with pytest.raises(SignInRefused):
            enter(books, "ann", "wrong")
    assert door(books).authenticate(cookie(session(books, ann))) == ann


def test_a_day_without_tries_forgives(books: Books) -> None:
    with_password(books)
    for _ in range(4):
        with pytest.raises(SignInRefused):
            enter(books, "ann", "wrong")
    forward(books, 86_401)
    for _ in range(4):
        with pytest.raises(SignInRefused):
            enter(books, "ann", "wrong")
    enter(books)


def test_tries_at_once_are_all_counted(books: Books) -> None:
    """Sixteen guesses that start together are judged as one after another: five get through."""

    def attempt(_: int) -> str:
        try:
            enter(books, "ann", "wrong")
        except (SignInRefused, TooMany) as error:
            return type(error).__name__
        return "in"

    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(attempt, range(16)))
    assert (said.count("SignInRefused"), said.count("TooMany")) == (5, 11)


def test_a_stronger_cost_is_taken_over_at_the_next_sign_in(books: Books) -> None:
    with_password(books)
    stronger = Cost(n=2**11, r=8, p=1)
    sign_in(books, "ann", GOOD, cost=stronger)
    with books.reading() as connection:
        assert connection.scalar(select(tables.passwords.c.n)) == 2**11
    sign_in(books, "ann", GOOD, cost=stronger)


def test_a_new_password_needs_the_old_one_and_ends_all_sessions(books: Books) -> None:
    ann = with_password(books)
    here = cookie(enter(books))
    entrance = door(books)
    for old in ("", "wrong"):
        with pytest.raises(NotAllowed, match="this needs the present password"):
            set_password(books, ann, "another good one", old, cost=CHEAP)
    assert entrance.authenticate(here) == ann
    set_password(books, ann, "another good one", GOOD, cost=CHEAP)
    assert entrance.authenticate(here) is None
    with pytest.raises(SignInRefused):
        enter(books)
    enter(books, password="another good one")


def test_guesses_of_the_present_password_lock_too(sqlite_books: Books) -> None:
    ann = with_password(sqlite_books)
    for _ in range(5):
        with pytest.raises(NotAllowed):
            set_password(sqlite_books, ann, "another good one", "wrong", cost=CHEAP)
    with pytest.raises(TooMany):
        set_password(sqlite_books, ann, "another good one", GOOD, cost=CHEAP)


def test_letters_typed_in_another_form_are_the_same_password(sqlite_books: Books) -> None:
    with_password(sqlite_books, password="Zoë und ihr Hund")
    enter(sqlite_books, password="Zoe\u0308 und ihr Hund")


@pytest.mark.parametrize(
    ("password", "says"),
    [
        ("short", "password: expected at least 12 characters, got 5; several words"),
        ("x" * 257, "password: expected at most 256 characters, got 257"),
        ("x" * 40, "password: expected one that is harder to guess"),
        ("ann.lee@example.org", "password: expected one that is harder to guess"),
        (7, "password: expected a text, got 'int'"),
        (b"correct horse battery", "password: expected a text, got 'bytes'"),
    ],
)
def test_bad_passwords_are_refused_and_not_repeated(
    sqlite_books: Books, password: str, says: str
) -> None:
    ann = person(sqlite_books, "ann.lee@example.org")
    with pytest.raises(InvalidInput, match=re.escape(says)) as caught:
        set_password(sqlite_books, ann, password, cost=CHEAP)
    assert repr(password) not in str(caught.value)
    assert not list_people(sqlite_books, CONSOLE)[0].has_password


def test_huge_passwords_are_refused_before_any_work(sqlite_books: Books) -> None:
    with pytest.raises(InvalidInput, match="password: expected at most 256 characters"):
        enter(sqlite_books, "ann", "x" * 10_000_000)


def test_only_people_have_passwords(sqlite_books: Books) -> None:
    with pytest.raises(NotAllowed, match="only a person has a password"):
        set_password(sqlite_books, CONSOLE, GOOD, cost=CHEAP)


@pytest.mark.parametrize(("n", "wait"), [(1, 0), (2, 0), (3, 10), (4, 20), (5, 40), (6, 50)])
def test_lock_outs_double_up_to_their_most(n: int, wait: float) -> None:
    assert LockOut(free=3, first_s=10, most_s=50).wait_s(n) == wait


# Sessions


def test_a_session_idles_out(books: Books) -> None:
    ann, entrance = person(books, "ann"), door(books)
    here = cookie(session(books, ann))
    for _ in range(3):
        forward(books, 3540)
        assert entrance.authenticate(here) == ann
    forward(books, 3600)
    assert entrance.authenticate(here) is None


def test_what_a_page_asks_by_itself_keeps_no_session(books: Books) -> None:
    ann, entrance = person(books, "ann"), door(books)
    here = cookie(session(books, ann))
    for _ in range(3):
        forward(books, 1200 - 0.001)
        assert entrance.authenticate(here, is_use=False) == ann
    assert entrance.known(here) is None  # so that a click right after it is marked
    assert entrance.authenticate(here) == ann
    forward(books, 3599)
    assert entrance.authenticate(here, is_use=False) == ann
    forward(books, 1)
    assert entrance.authenticate(here, is_use=False) is None


def test_a_session_ends_however_busy(books: Books) -> None:
    ann, entrance = person(books, "ann"), door(books)
    here = cookie(session(books, ann))
    for _ in range(23):
        forward(books, 1800)
        assert entrance.authenticate(here) == ann
    forward(books, 1799.999)
    assert entrance.authenticate(here) == ann  # Kept in memory, but not beyond its end.
    forward(books, 0.001)
    assert entrance.authenticate(here) is None


def test_a_session_of_the_future_is_none(books: Books) -> None:
    """A clock that was set back must not keep sessions alive for as long again."""
    ann, entrance = person(books, "ann"), door(books)
    here = cookie(session(books, ann))
    assert entrance.authenticate(here) == ann
    forward(books, -10)
    assert entrance.authenticate(here) is None


def test_signing_in_ends_the_session_before(books: Books) -> None:
    ann, entrance = person(books, "ann"), door(books)
    planted = session(books, ann)
    link = token_of(make_link(books, CONSOLE, ann.id, BASE))
    fresh = entrance.sign_in_by_link(link, cookie(planted)).partition("=")[2].partition(";")[0]
    assert fresh != planted
    assert entrance.authenticate(cookie(planted)) is None
    assert entrance.authenticate(cookie(fresh)) == ann


def test_signing_out(books: Books) -> None:
    ann, entrance = person(books, "ann"), door(books)
    one, two = session(books, ann), session(books, ann)
    cleared = entrance.sign_out(cookie(one))
    assert cleared.startswith("__Host-gdcb=; ")
    assert "Max-Age=0" in cleared
    assert entrance.authenticate(cookie(one)) is None
    assert entrance.authenticate(cookie(two)) == ann
    assert end_sessions(books, ann, ann.id) == 1
    assert entrance.authenticate(cookie(two)) is None
    assert entrance.sign_out({}) == cleared
    assert entrance.sign_out(cookie(two)) == cleared


def test_an_administrator_signs_others_out_everywhere(books: Books) -> None:
    ann, entrance = person(books, "ann", ("audit", "str")), door(books)
    here = cookie(session(books, ann))
    other = person(books, "other", ("administer", "dosing"))
    with pytest.raises(NotAllowed, match="this needs the role 'administer' on 'str'"):
        end_sessions(books, other, ann.id)
    admin = person(books, "admin", ("administer", "*"))
    assert end_sessions(books, admin, ann.id) == 1
    assert entrance.authenticate(here) is None


def test_only_hashes_of_sessions_and_links_are_kept(books: Books) -> None:
    ann = person(books, "ann")
    token = session(books, ann)
    link = token_of(make_link(books, CONSOLE, ann.id, BASE))
    with books.reading() as connection:
        for table in (tables.sessions, tables.links, tables.log):
            rows = connection.execute(select(table)).all()
            assert rows
            for secret in (token, link):
                assert secret not in repr(rows)
                assert bytes.fromhex(secret) not in [cell for row in rows for cell in row]


def test_what_ended_long_ago_is_tidied_away(books: Books) -> None:
    ann, limits = person(books, "ann"), SessionLimits()
    session(books, ann)
    make_link(books, CONSOLE, person(books, "bob").id, BASE, lasts_s=60)
    with pytest.raises(SignInRefused):
        enter(books, "nobody", "wrong")
    assert tidy(books, limits) == 0
    forward(books, 3 * 86_400)
    late = session(books, ann)
    assert tidy(books, limits) == 3  # The first session, Bob's link, and the tries.
    assert find_session(books, digest(late), limits) is not None


def test_a_database_that_cannot_write_still_lets_people_read(sqlite_books: Books) -> None:
    """The mark of last use is lost; a change of rights says what is wrong."""
    ann = person(sqlite_books, "ann", ("audit", "str"))
    key = add_key(sqlite_books, CONSOLE, "k", [("audit", "str")])
    token = session(sqlite_books, ann)
    forward(sqlite_books, 120)
    path = str(sqlite_books.engine.url.database).removeprefix("file:")
    engine = connect(parse(f"sqlite:///{path}?mode=ro"), patience=1.0)
    frozen = open_books(engine, sqlite_books.clock)
    assert door(frozen).authenticate(cookie(token)) == ann
    assert door(frozen).authenticate(bearer(key.text)) is not None
    with pytest.raises(StoreReadOnly, match="the database of access: it may be read but not"):
        revoke(frozen, CONSOLE, ann.id, "audit", "str")
    engine.dispose()


def test_two_administrators_cannot_put_each_other_out_at_once(books: Books) -> None:
    one = person(books, "one", ("administer", "*"))
    two = person(books, "two", ("administer", "*"))

    def attempt(pair: tuple[Principal, Principal]) -> str:
        try:
            revoke(books, pair[0], pair[1].id, "administer", "*")
        except Conflict:
            return "refused"
        return "done"

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(attempt, [(one, two), (two, one)])) == ["done", "refused"]


def test_the_log_tells_no_secret_and_is_json(books: Books) -> None:
    with_password(books)
    enter(books)
    with books.reading() as connection:
        rows = connection.execute(text("SELECT what, detail FROM access_log ORDER BY n")).all()
    assert [row.what for row in rows] == ["person added", "granted", "password set", "signed in"]
    assert json.loads(rows[-1].detail) == {"how": "password"}


def test_a_changed_hash_opens_nothing(books: Books) -> None:
    with_password(books)
    with books.changing() as connection:
        connection.execute(update(tables.passwords).values(hash=b"\0" * 32))
    with pytest.raises(SignInRefused):
        enter(books)
