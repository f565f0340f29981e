"""People, keys, grants and the log of access: who may change what, on every database."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from gdcb.errors import Conflict, GdcbError, InvalidInput
from gdcb.service.access import (
    CONSOLE,
    ROLES,
    Books,
    Grant,
    NotAllowed,
    Principal,
    add_key,
    add_person,
    end_person,
    grant,
    list_keys,
    list_people,
    make_link,
    open_books,
    person_by_login,
    read_log,
    revoke,
    revoke_key,
)
from gdcb.service.access.keys import DAY
from gdcb.service.access.roles import grants
from tests.properties import examples
from tests.service.access_builders import (
    BASE,
    bearer,
    cookie,
    door,
    forward,
    memory_books,
    person,
    session,
    token_of,
)

ALL = [("administer", "*"), ("approve", "*")]


def held(books: Books, who: Principal) -> frozenset[Grant]:
    return next(one.grants for one in list_people(books, CONSOLE) if one.id == who.id)


def test_a_person_is_listed_with_what_they_may(books: Books) -> None:
    made = add_person(books, CONSOLE, " Ann@Example.org", " Ann Lee ", [("approve", "str")])
    (ann,) = list_people(books, CONSOLE)
    assert (ann.id, ann.login, ann.name) == (made, "ann@example.org", "Ann Lee")
    assert ann.grants == {Grant("approve", "str")}
    assert (ann.signed_in_at, ann.ended_at, ann.has_password) == (None, None, False)
    assert person_by_login(books, "ANN@example.org") == made


def test_a_login_is_one_persons_for_ever(books: Books) -> None:
    ann = person(books, "ann")
    with pytest.raises(Conflict, match="login: 'ann' is taken; choose another"):
        add_person(books, CONSOLE, "ANN", "Another")
    end_person(books, CONSOLE, ann.id)
    with pytest.raises(Conflict, match="is taken"):
        add_person(books, CONSOLE, "ann", "Another")
    with pytest.raises(InvalidInput, match="login: expected that of a person, got 'ann'"):
        person_by_login(books, "ann")


def test_a_refused_person_leaves_nothing_behind(books: Books) -> None:
    with pytest.raises(InvalidInput, match="role: expected one of"):
        add_person(books, CONSOLE, "ann", "Ann", [("audit", "str"), ("boss", "str")])
    assert list_people(books, CONSOLE) == []
    assert read_log(books) == []


def test_grant_and_revoke_are_seen_and_logged(books: Books) -> None:
    admin, ann = person(books, "admin", *ALL), person(books, "ann")
    grant(books, admin, ann.id, "approve", "str")
    grant(books, admin, ann.id, "approve", "str")  # Has it: no second line in the log.
    assert held(books, ann) == {Grant("approve", "str")}
    revoke(books, admin, ann.id, "approve", "str")
    assert held(books, ann) == frozenset()
    with pytest.raises(Conflict, match="has no role 'approve' on 'str': nothing to revoke"):
        revoke(books, admin, ann.id, "approve", "str")
    lines = [line for line in read_log(books) if line.by == admin.id]
    assert [(line.what, line.detail.get("role")) for line in lines] == [
        ("granted", "approve"),
        ("password, sessions and links ended", None),
        ("revoked", "approve"),
    ]
    assert lines[0].at == books.clock()


def test_nobody_grants_a_role_to_themselves(books: Books) -> None:
    admin = person(books, "admin", ("administer", "*"))
    with pytest.raises(NotAllowed, match="nobody grants a role to themselves"):
        grant(books, admin, admin.id, "approve", "str")
    assert held(books, admin) == {Grant("administer", "*")}


def test_who_administers_one_instance_changes_nothing_elsewhere(books: Books) -> None:
    local = person(books, "local", ("administer", "str"))
    ann = person(books, "ann", ("audit", "dosing"))
    key = add_key(books, CONSOLE, "nightly", [("decide", "dosing"), ("decide", "str")])
    refused = "this needs the role 'administer' on"
    with pytest.raises(NotAllowed, match=f"{refused} 'dosing'"):
        grant(books, local, ann.id, "approve", "dosing")
    with pytest.raises(NotAllowed, match=re.escape(f"{refused} every instance ('*')")):
        grant(books, local, ann.id, "approve", "*")
    with pytest.raises(NotAllowed, match=f"{refused} 'dosing'"):
        revoke(books, local, ann.id, "audit", "dosing")
    with pytest.raises(NotAllowed, match=f"{refused} 'dosing'"):
        add_key(books, local, "mine", [("decide", "str"), ("decide", "dosing")])
    refusals: list[Callable[[], object]] = [
        lambda: make_link(books, local, ann.id, BASE),
        lambda: end_person(books, local, ann.id),
        lambda: revoke_key(books, local, key.id),
    ]
    for refuse in refusals:
        with pytest.raises(NotAllowed, match=f"{refused} 'dosing'"):
            refuse()
    with pytest.raises(
        NotAllowed, match=f"{refused} 'dosing': they have a role there, and the first"
    ):
        grant(books, local, ann.id, "approve", "str")  # it would sign them out there
    grant(books, local, ann.id, "operate", "str")
    revoke(books, local, key.id, "decide", "str")
    assert held(books, ann) == {Grant("audit", "dosing"), Grant("operate", "str")}


def test_lists_show_what_one_administers(books: Books) -> None:
    local = person(books, "local", ("administer", "str"))
    person(books, "ann", ("audit", "dosing"), ("audit", "str"))
    near = add_key(books, CONSOLE, "near", [("decide", "dosing"), ("decide", "str")])
    far = add_key(books, CONSOLE, "far", [("decide", "dosing")])
    assert [(one.login, sorted(one.grants)) for one in list_people(books, local)] == [
        ("ann", [Grant("audit", "str")]),
        ("local", [Grant("administer", "str")]),
    ]
    assert [(one.id, set(one.grants)) for one in list_keys(books, local)] == [
        (near.id, {Grant("decide", "str")})
    ]
    assert {one.id for one in list_keys(books, CONSOLE)} == {near.id, far.id}


def test_other_roles_change_nothing(books: Books) -> None:
    others = [(role, "*") for role in ROLES if role != "administer"]
    ann, bob = person(books, "ann", *others), person(books, "bob")
    refusals: list[Callable[[], object]] = [
        lambda: add_person(books, ann, "eve", "Eve"),
        lambda: add_key(books, ann, "mine", [("decide", "str")]),
        lambda: grant(books, ann, bob.id, "decide", "str"),
        lambda: revoke(books, ann, bob.id, "decide", "str"),
        lambda: make_link(books, ann, bob.id, BASE),
        lambda: end_person(books, ann, bob.id),
        lambda: list_people(books, ann),
        lambda: list_keys(books, ann),
    ]
    for refuse in refusals:
        with pytest.raises(NotAllowed, match="this needs the role 'administer'"):
            refuse()


def test_the_last_administrator_stays_except_for_the_command_line(books: Books) -> None:
    one, two = person(books, "one", *ALL), person(books, "two", *ALL)
    revoke(books, one, two.id, "administer", "*")
    refusals: list[Callable[[], object]] = [
        lambda: revoke(books, one, one.id, "administer", "*"),
        lambda: end_person(books, one, one.id),
    ]
    for refuse in refusals:
        with pytest.raises(Conflict, match="then nobody could administer"):
            refuse()
    assert held(books, one) == {Grant("administer", "*"), Grant("approve", "*")}
    end_person(books, CONSOLE, one.id)
    assert held(books, one) == frozenset()


def test_ended_people_are_out_at_once(books: Books) -> None:
    ann, entrance = person(books, "ann", ("audit", "*")), door(books)
    token = session(books, ann)
    link = make_link(books, CONSOLE, ann.id, BASE)
    assert entrance.authenticate(cookie(token)) == ann
    end_person(books, CONSOLE, ann.id)
    assert entrance.authenticate(cookie(token)) is None
    with pytest.raises(GdcbError, match="this link does not open anything"):
        entrance.sign_in_by_link(token_of(link), {})
    with pytest.raises(InvalidInput, match="expected the id of a person"):
        make_link(books, CONSOLE, ann.id, BASE)


def test_a_grant_by_another_ends_links_that_its_maker_could_open(books: Books) -> None:
    """Else who administers 'str' would keep a link and gain what 'dosing' gives later."""
    local = person(books, "local", ("administer", "str"))
    admin, ann = person(books, "admin", *ALL), person(books, "ann")
    link = token_of(make_link(books, local, ann.id, BASE))
    grant(books, local, ann.id, "audit", "str")  # By its maker: it stays.
    assert door(books).sign_in_by_link(link, {})
    link = token_of(make_link(books, local, ann.id, BASE))
    grant(books, admin, ann.id, "approve", "dosing")
    with pytest.raises(GdcbError, match="this link does not open anything"):
        door(books).sign_in_by_link(link, {})


# Keys


def test_a_key_is_shown_once_and_only_its_hash_is_kept(books: Books) -> None:
    key = add_key(books, CONSOLE, "nightly", [("decide", "str")])
    assert re.fullmatch(rf"gdcb_{key.id}_[0-9a-f]{{64}}", key.text)
    secret = key.text.rpartition("_")[2]
    with books.reading() as connection:
        for table in ("access_principals", "access_keys", "access_grants", "access_log"):
            rows = connection.execute(text(f"SELECT * FROM {table}")).all()
            assert rows
            assert secret not in repr(rows)
            assert bytes.fromhex(secret) not in [cell for row in rows for cell in row]
    found = door(books).authenticate(bearer(key.text))
    assert found == Principal(key.id, "nightly", "key", grants(("decide", "str")), "console")


def test_a_key_ends_when_it_expires(books: Books) -> None:
    key, entrance = add_key(books, CONSOLE, "k", [("decide", "*")], lasts_s=60), door(books)
    forward(books, 59.999)
    assert entrance.authenticate(bearer(key.text))  # And is kept in memory.
    forward(books, 0.001)
    assert entrance.authenticate(bearer(key.text)) is None
    for_ever = add_key(books, CONSOLE, "k", [("decide", "*")], lasts_s=None)
    forward(books, 3650 * DAY)
    assert entrance.authenticate(bearer(for_ever.text))


def test_last_use_is_written_at_most_once_a_minute(books: Books) -> None:
    key, entrance = add_key(books, CONSOLE, "k", [("decide", "*")]), door(books)
    assert list_keys(books, CONSOLE)[0].used_at is None
    seen = []
    for _ in range(13):
        entrance.authenticate(bearer(key.text))
        seen.append(list_keys(books, CONSOLE)[0].used_at)
        forward(books, 10)
    start = seen[0]
    assert start is not None
    assert [(at or 0) - start for at in seen] == [0] * 6 + [60_000_000] * 6 + [120_000_000]


@pytest.mark.parametrize(
    ("name", "given", "lasts", "says"),
    [
        ("k", [], 60, "a key: expected at least one role on an instance, got none"),
        ("k", [("approve", "str")], 60, "for a key, got 'approve': that needs a person"),
        ("k", [("administer", "*")], 60, "for a key, got 'administer': that needs a person"),
        ("k", [("decide", "s\0r")], 60, "instance: expected characters that can be shown"),
        ("k", [("decide", 7)], 60, "instance: expected a text, got 7"),
        ("k\0", [("decide", "*")], 60, "name: expected characters that can be shown"),
        ("k" * 300, [("decide", "*")], 60, "name: expected at most 200 characters, got 300"),
        ("k", [("decide", "*")], 0, "lasts_s: expected seconds above 0"),
        ("k", [("decide", "*")], -5, "lasts_s: expected seconds above 0"),
        ("k", [("decide", "*")], float("nan"), "lasts_s: expected seconds above 0"),
        ("k", [("decide", "*")], float("inf"), "lasts_s: expected seconds above 0"),
        ("k", [("decide", "*")], True, "lasts_s: expected seconds above 0"),
        ("k", [("decide", "*")], "60", "lasts_s: expected seconds above 0"),
    ],
)
def test_bad_keys_are_refused(
    sqlite_books: Books, name: str, given: list[tuple[str, str]], lasts: float, says: str
) -> None:
    with pytest.raises(InvalidInput, match=re.escape(says)):
        add_key(sqlite_books, CONSOLE, name, given, lasts)
    assert list_keys(sqlite_books, CONSOLE) == []


def test_a_key_gets_no_role_of_a_person_later(books: Books) -> None:
    key = add_key(books, CONSOLE, "k", [("decide", "str")])
    with pytest.raises(InvalidInput, match="for a key, got 'approve': that needs a person"):
        grant(books, CONSOLE, key.id, "approve", "str")
    grant(books, CONSOLE, key.id, "outcome", "str")
    assert list_keys(books, CONSOLE)[0].grants == grants(("decide", "str"), ("outcome", "str"))


@pytest.mark.parametrize("who", [None, 3, "", "nobody", "a\0b", "é", "\ud800", "x" * 100_000])
def test_ids_of_nobody_are_refused(sqlite_books: Books, who: str) -> None:
    refuse_nobody(sqlite_books, who)


def test_an_id_with_nul_never_reaches_the_database(books: Books) -> None:
    refuse_nobody(books, "a\0b")


def refuse_nobody(books: Books, who: str) -> None:
    refusals: list[Callable[[], object]] = [
        lambda: grant(books, CONSOLE, who, "audit", "str"),
        lambda: revoke(books, CONSOLE, who, "audit", "str"),
        lambda: end_person(books, CONSOLE, who),
        lambda: revoke_key(books, CONSOLE, who),
        lambda: make_link(books, CONSOLE, who, BASE),
    ]
    for refuse in refusals:
        with pytest.raises(InvalidInput, match="expected the id of a"):
            refuse()


# The log


def test_the_log_refuses_to_be_changed(books: Books) -> None:
    person(books, "ann")
    for statement in ("UPDATE access_log SET what = 'x'", "DELETE FROM access_log"):
        with (
            pytest.raises(DBAPIError, match="access_log is append only"),
            books.engine.begin() as connection,
        ):
            connection.execute(text(statement))
    assert [line.what for line in read_log(books)] == ["person added"]


def test_the_log_is_read_in_pages(books: Books) -> None:
    for n in range(5):
        person(books, f"person{n}")
    first = read_log(books, most=3)
    rest = read_log(books, after=first[-1].n)
    assert [line.detail["login"] for line in first + rest] == [f"person{n}" for n in range(5)]


def test_the_secret_is_the_databases_own(books: Books) -> None:
    assert open_books(books.engine).secret == books.secret
    assert len(books.secret) == 32


changes = st.lists(
    st.tuples(
        st.sampled_from(["grant", "revoke"]),
        st.sampled_from(["decide", "audit", "administer"]),
        st.sampled_from(["str", "dosing", "*"]),
    ),
    max_size=12,
)


@examples(50)
@given(changes)
def test_the_door_knows_each_change_at_once(done: list[tuple[str, str, str]]) -> None:
    """Grants after any changes are those of a plain set, on the page and at the door."""
    with memory_books() as books:
        ann, entrance = person(books, "ann"), door(books)
        here = cookie(session(books, ann))
        expected: set[tuple[str, str]] = set()
        for what, role, instance in done:
            if what == "grant":
                if grant(books, CONSOLE, ann.id, role, instance):
                    assert entrance.authenticate(here) is None
                    here = cookie(session(books, ann))
                expected.add((role, instance))
            elif (role, instance) in expected:
                revoke(books, CONSOLE, ann.id, role, instance)
                expected.remove((role, instance))
            found = entrance.authenticate(here)
            assert found is not None
            assert found.grants == expected
        assert held(books, ann) == expected
