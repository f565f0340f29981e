"""Roles and names: the matrix against a reference, sentences of refusals, texts from outside."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb.errors import GdcbError, InvalidInput
from gdcb.service.access import (
    CONSOLE,
    EVERY,
    FOR_KEYS,
    ROLES,
    NotAllowed,
    NotSignedIn,
    Principal,
    TooMany,
    require,
)
from gdcb.service.access.names import clean, instance_name, login_name, shown
from gdcb.service.access.roles import grants

roles = st.sampled_from(sorted(ROLES))
instances = st.sampled_from(["str", "dosing", "grid", "*"])
pairs = st.lists(st.tuples(roles, instances), max_size=8)


def reference_may(held: list[tuple[str, str]], role: str, instance: str) -> bool:
    """Say it again in the plainest way: some grant has the role, on this or on every one."""
    for granted, on in held:
        if granted == role and on == instance:
            return True
        if granted == role and on == "*":
            return True
    return False


def somebody(*given: tuple[str, str]) -> Principal:
    return Principal("1f", "Ann", "person", grants(*given))


@given(pairs, roles, instances)
def test_may_is_what_the_reference_says(
    held: list[tuple[str, str]], role: str, instance: str
) -> None:
    ann = somebody(*held)
    may = reference_may(held, role, instance)
    assert ann.may(role, instance) == may
    assert ann.sees(instance) == any(reference_may(held, one, instance) for one in ROLES)
    assert ann.roles(instance) == [one for one in ROLES if reference_may(held, one, instance)]
    if may:
        assert require(ann, role, instance) is ann
    else:
        with pytest.raises(NotAllowed):
            require(ann, role, instance)


@given(pairs, st.tuples(roles, instances), roles, instances)
def test_a_further_grant_never_takes_anything_away(
    held: list[tuple[str, str]], more: tuple[str, str], role: str, instance: str
) -> None:
    assert somebody(*held, more).may(role, instance) >= somebody(*held).may(role, instance)


@pytest.mark.parametrize("role", sorted(set(ROLES) - {"administer"}))
def test_administer_implies_no_other_role(role: str) -> None:
    assert not somebody(("administer", EVERY)).may(role, "str")
    assert not CONSOLE.may(role, "str")


def test_keys_neither_approve_nor_administer() -> None:
    assert set(ROLES) - {"approve", "administer"} == FOR_KEYS


def test_the_table_in_the_docstring_has_every_role() -> None:
    told = Principal.__doc__
    assert told is not None
    assert [role for role in ROLES if f"\n    {role} " in told] == list(ROLES)


def test_nobody_is_asked_to_sign_in() -> None:
    with pytest.raises(NotSignedIn, match="sign in, or send an API key") as caught:
        require(None, "audit", "str")
    assert caught.value.status == 401


def test_who_sees_the_instance_is_told_which_role_is_missing() -> None:
    with pytest.raises(NotAllowed) as caught:
        require(somebody(("decide", "str"), ("audit", EVERY)), "approve", "str")
    assert str(caught.value) == (
        "this needs the role 'approve' on 'str'; yours there: decide, audit"
    )
    assert caught.value.status == 403


def test_an_instance_of_others_looks_like_one_that_is_not_there() -> None:
    ann = somebody(("decide", "str"))
    said = []
    for name in ("dosing", "nowhere"):  # The first one exists, for others.
        with pytest.raises(NotAllowed) as caught:
            require(ann, "decide", name)
        said.append(str(caught.value).replace(name, "…"))
    assert (
        said[0]
        == said[1]
        == ("there is no instance '…', or you have no role on it: an administrator can grant one")
    )
    assert ann.seen(["dosing", "str"]) == ["str"]


def test_an_instance_named_in_a_request_is_not_repeated_at_length() -> None:
    with pytest.raises(NotAllowed) as caught:
        require(somebody(), "decide", "x\n" * 100_000)
    assert len(str(caught.value)) < 300
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("role", ["aprove", "", "Approve", None, 3, "*"])
def test_a_role_that_is_none_is_refused(role: str) -> None:
    expected = "role: expected one of decide, outcome, approve, operate, audit, administer, got"
    with pytest.raises(InvalidInput, match=expected):
        grants((role, "str"))
    with pytest.raises(InvalidInput, match=expected):
        somebody().may(role, "str")


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "name: expected a text, got None"),
        (b"ann", "name: expected a text, got b'ann'"),
        ("", "name: expected a text, got an empty one"),
        (" \t ", "name: expected a text, got an empty one"),
        ("\u200d", "name: expected a text, got an empty one"),
        ("x" * 201, "name: expected at most 200 characters, got 201"),
        ("x" * 10_000_000, "name: expected at most 200 characters, got 10000000"),
        ("a\0b", r"name: expected characters that can be shown, got 'a\x00b'"),
        ("a\nb", r"name: expected characters that can be shown, got 'a\nb'"),
        ("a\u202eb", r"name: expected characters that can be shown, got 'a\u202eb'"),
        ("a\ud800b", r"name: expected characters that can be shown, got 'a\ud800b'"),
    ],
)
def test_names_that_cannot_be_shown_are_refused(value: object, says: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        clean("name", value)
    assert str(caught.value) == says


def test_names_are_trimmed_and_composed() -> None:
    assert clean("name", "  Zoe\u0308 ") == "Zoë"
    assert clean("name", "علی\u200cرضا") == "علی\u200cرضا"
    assert instance_name(" * ") == EVERY


@pytest.mark.parametrize(
    "value", ["ann lee", "ånn", "аnn", "-ann", "@ann", "a" * 101, "ann/../bob", "ann%00", "ann'--"]
)
def test_logins_are_plain(value: str) -> None:
    with pytest.raises(InvalidInput, match="login: expected 1 to 100 of a-z, 0-9"):
        login_name(value)


@given(st.text(max_size=300))
def test_a_name_is_taken_as_it_will_be_read_back_or_refused(text: str) -> None:
    name, said = "", ""
    try:
        name = clean("name", text)
    except InvalidInput as error:
        said = str(error)
    assert bool(name) != said.startswith("name: expected ")
    if name:
        assert clean("name", name) == name
        assert name.encode()
        assert "\0" not in name


@given(st.one_of(st.text(), st.text(min_size=61), st.binary(), st.integers(), st.none()))
def test_what_came_is_shown_short_and_printable(value: object) -> None:
    said = shown(value)
    assert len(said) <= 800
    assert said.replace("…", "").isascii()
    assert said.isprintable()


def test_too_many_says_when_to_come_again() -> None:
    assert str(TooMany("requests", 0.2)) == "too many requests: try again in 1 second"
    assert TooMany("requests", 61.2).retry_after == 62
    assert isinstance(TooMany("requests", 1), GdcbError)
    assert TooMany.status == 429
