"""Every route, asked by everybody: who may, who may not, and that both are told the same words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import iter_route_contexts

from gdcb.errors import InvalidInput
from gdcb.service.access import CONSOLE, FOR_KEYS, ROLES, Rate, RateLimits, add_key
from gdcb.service.access import grant as give
from gdcb.service.house import Settings
from tests.service.desks import night
from tests.service.http import BASE, CABINS, ROOMS, Headers, Site, problem, site

# Places of a role: on the instance that is asked for, on another, on every one.
PLACES = (ROOMS, CABINS, "*")
ANYBODY, SIGNED_IN, ADMINISTRATORS = "anybody", "whoever is signed in", "administer, anywhere"


@dataclass(frozen=True)
class Row:
    """Who may, and what they get: a request that the roles let through and that changes nothing.

    `may` has roles, or one of the words above; `form` says that a page of ours sends it.
    """

    may: str
    status: int
    said: Any = None
    form: dict[str, str] | None = None
    paths: tuple[str, ...] = ()


_READS = "approve operate audit"
_NO_REASON = {"reason": " "}
API = "/v1/instances/{name}"
D = f"{API}/decisions"
TABLE: dict[str, Row] = {
    # Health
    "GET /healthz": Row(ANYBODY, 200),
    "GET /readyz": Row(ANYBODY, 200),
    "GET /v1/openapi.json": Row(ANYBODY, 200),
    "GET /metrics": Row("audit, everywhere", 200),
    # Decisions
    f"POST {D}": Row("decide", 201, {"context": night()}),
    f"POST {D}/batch": Row("decide", 201, {"contexts": [night()]}),
    f"GET {D}/{{id}}": Row("decide outcome approve operate audit", 404),
    f"GET {API}/queue": Row(_READS, 200),
    # Answers
    f"POST {D}/{{id}}/review": Row(
        "approve", 404, {"verdict": "veto", "code": "fits", "version": 1, "content": ""}
    ),
    f"POST {API}/reviews": Row(
        "approve",
        404,
        {
            "verdict": "veto",
            "code": "fits",
            "decisions": [{"id": "none", "version": 1, "content": ""}],
        },
    ),
    f"POST {D}/{{id}}/claim": Row("approve", 404),
    f"POST {D}/{{id}}/release": Row("approve", 200),
    f"POST {D}/{{id}}/appeal": Row("approve", 404, {"upheld": True, "reason": "so"}),
    f"POST {D}/{{id}}/executed": Row("outcome", 404, {"action": None}),
    f"POST {D}/{{id}}/outcome": Row("outcome", 404, {"outcome": {"booked": 1}}),
    f"POST {API}/outcomes": Row(
        "outcome", 404, {"outcomes": [{"id": "none", "outcome": {"booked": 1}}]}
    ),
    # Instances
    "GET /v1/instances": Row(SIGNED_IN, 200),
    "POST /v1/instances": Row(
        "administer, everywhere", 422, {"declaration": "no", "reason": "first"}
    ),
    f"GET {API}": Row(" ".join(ROLES), 200),
    f"GET {API}/declaration": Row("operate audit administer", 200),
    f"GET {API}/changes": Row("operate audit administer", 200),
    f"GET {API}/changes/{{number}}": Row("operate audit administer", 404),
    f"POST {API}/changes": Row("operate", 422, {"declaration": "no", "reason": "so"}),
    f"POST {API}/changes/{{number}}/agree": Row("administer", 409, {}),
    f"POST {API}/changes/{{number}}/refuse": Row("administer operate", 409, {"reason": "so"}),
    f"POST {API}/pause": Row("operate", 422, _NO_REASON),
    f"POST {API}/resume": Row("operate", 422, _NO_REASON),
    f"POST {API}/retire": Row("administer", 422, _NO_REASON),
    f"POST {API}/acknowledge": Row("administer", 422, _NO_REASON),
    f"POST {API}/refit": Row("operate", 409),
    f"POST {API}/rollback": Row("operate", 422, {"to": 10**6, "reason": "so"}),
    f"POST {API}/discount": Row("operate", 422, {"factor": 1, "since": 10**6, "reason": "so"}),
    f"POST {API}/history": Row("operate", 415, b""),
    f"POST {API}/subjects/erase": Row("administer", 422, {"subject": "a", "reason": " "}),
    # Webhooks
    f"GET {API}/webhooks": Row("operate", 200),
    f"POST {API}/webhooks": Row("operate", 422, {"url": "ftp://x", "kinds": ["held"]}),
    f"DELETE {API}/webhooks/{{id}}": Row("operate", 404),
    f"POST {API}/webhooks/{{id}}/rotate": Row("operate", 404),
    f"POST {API}/webhooks/{{id}}/resume": Row("operate", 404),
    # Evidence
    f"GET {D}/{{id}}/evidence": Row("audit operate approve", 404),
    # Pages: the entrance
    "GET /sign-in": Row(ANYBODY, 200),
    "POST /sign-in": Row(ANYBODY, 401, form={"link": "no"}),
    "GET /settings": Row(ANYBODY, 200),
    "POST /settings": Row(ANYBODY, 303, form={"theme": "dark"}),
    "GET /static/{name}": Row(ANYBODY, 404),
    "GET /favicon.ico": Row(ANYBODY, 204),
    "GET /account": Row(SIGNED_IN, 200),
    "POST /account/password": Row(SIGNED_IN, 422, form={"password": "short", "again": "short"}),
    # Pages: people and keys
    "GET /people": Row(ADMINISTRATORS, 200),
    "POST /people": Row(ADMINISTRATORS, 422, form={"login": "!", "name": "x"}),
    "POST /people/{id}/{verb}": Row(
        ADMINISTRATORS,
        422,
        form={"role": "decide", "instance": ROOMS, "grant": f"decide@{ROOMS}"},
        paths=tuple(f"/people/none/{verb}" for verb in ("grant", "revoke", "link", "disable")),
    ),
    "POST /keys": Row(
        ADMINISTRATORS, 422, form={"name": "k", "role": "approve", "instance": ROOMS}
    ),
    "POST /keys/{id}/revoke": Row(ADMINISTRATORS, 422, form={}),
    # Pages: an instance
    "GET /i/{name}/queue": Row(_READS, 200),
    "GET /i/{name}/queue.json": Row(_READS, 200),
    "GET /i/{name}/d/{id}": Row(_READS, 404),
    "POST /i/{name}/d/{id}/{verb}": Row(
        "approve",
        404,
        form={"version": "1", "code": "fits", "action.price": "90"},
        paths=tuple(f"/i/{{name}}/d/none/{verb}" for verb in ("approve", "edit", "veto")),
    ),
    "POST /i/{name}/queue/bulk": Row("approve", 422, form={}),
    "POST /i/{name}/queue/bulk/confirm": Row("approve", 422, form={}),
    "GET /i/{name}/changes": Row("operate administer audit", 200),
    "POST /i/{name}/changes": Row("operate", 422, form={"declaration": "no", "reason": "so"}),
    "GET /i/{name}/changes/{number}": Row("operate administer audit", 404),
    "POST /i/{name}/changes/{number}/{verb}": Row(
        "administer", 409, form={"reason": "so"}, paths=("/i/{name}/changes/999/agree",)
    ),
    "GET /i/{name}": Row("operate audit", 200),
    "POST /i/{name}/pause": Row("operate", 200, form={}),
    "POST /i/{name}/resume": Row("operate", 200, form={}),
    "POST /i/{name}/acknowledge": Row("administer", 303, form={}),
    "POST /i/{name}/refit": Row("operate", 200, form={}),
    "GET /i/{name}/certificate": Row("operate audit approve administer", 404),
    "GET /i/{name}/audit": Row("audit", 200),
    "GET /i/{name}/d/{id}/evidence": Row("audit operate approve", 404),
    "GET /i/{name}/d/{id}/evidence.html": Row("audit operate approve", 404),
    "GET /i/{name}/d/{id}/evidence.json": Row("audit operate approve", 404),
    "POST /i/{name}/d/{id}/replay": Row("audit operate approve", 404, form={}),
}
# Verbs of one route that other roles may, or that answer otherwise.
MORE: list[tuple[str, str, Row]] = [
    ("POST", "/i/{name}/d/none/claim", Row("approve", 404, form={})),
    ("POST", "/i/{name}/d/none/release", Row("approve", 303, form={})),
    ("POST", "/i/{name}/d/none/preview", Row("approve", 404, form={})),
    ("POST", "/i/{name}/changes/999/refuse", Row("administer operate", 409, form={"reason": "s"})),
]
# They send on whoever comes, or end the session: tested with the pages.
ELSEWHERE = ("GET /", "POST /sign-out", "POST /account/sign-out")


def routes(made: Site) -> set[str]:
    """Return all routes of the application."""
    return {
        f"{method} {one.path}"
        for one in iter_route_contexts(made.app.routes)
        for method in (one.methods or ())
        if method != "HEAD"
    }


def asked(made: Site) -> list[tuple[str, str, Row]]:
    """Return what is asked of every route: method, path with {name}, and who may."""
    found = []
    for name in sorted(routes(made)):
        if name in ELSEWHERE:
            continue
        method, path = name.split(" ")
        row = TABLE[name]
        found += [(method, one, row) for one in row.paths or (path,)]
    return found + MORE


def send(made: Site, method: str, path: str, row: Row, who: Headers | None, name: str) -> Any:
    """Ask for something about an instance."""
    where = path.replace("{name}", name).replace("{id}", "none").replace("{number}", "999")
    if row.form is not None:
        return made.ask(method, where, who, data=row.form or {"x": "x"})
    if isinstance(row.said, bytes):
        return made.ask(method, where, who, content=row.said)
    return made.ask(method, where, who, json=row.said)


def is_allowed(row: Row, given: tuple[tuple[str, str], ...] | None) -> bool:
    """Whether the table lets somebody with these roles pass; None: nobody is signed in."""
    if row.may == ANYBODY or (row.may == SIGNED_IN and given is not None):
        return True
    roles, _, where = row.may.partition(", ")
    places = {"everywhere": ("*",), "anywhere": PLACES}.get(where, (ROOMS, "*"))
    return any(role in roles.split() and place in places for role, place in given or ())


@pytest.fixture(scope="module")
def here(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(sqlite_template, tmp_path_factory.mktemp("roles")) as made:
        yield made


def test_every_route_has_a_row(here: Site) -> None:
    """A new route fails here until somebody has written down who may."""
    assert not sorted(routes(here) - TABLE.keys() - set(ELSEWHERE))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("role", ROLES)
def test_a_person_may_what_the_table_says(here: Site, role: str, place: str) -> None:
    login = f"{role}-{place}".replace("*", "every")
    _hold(here, here.person(login, (role, place)), ((role, place),), is_key=False)


@pytest.mark.parametrize("role", sorted(FOR_KEYS))
def test_a_key_may_what_the_table_says(here: Site, role: str) -> None:
    _hold(here, here.key((role, ROOMS)), ((role, ROOMS),), is_key=True)


def test_nobody_may_what_is_not_for_anybody(here: Site) -> None:
    _hold(here, None, None, is_key=False)
    _hold(here, {"authorization": "Bearer gdcb_0123456789abcdef_" + "0" * 64}, None, is_key=True)
    ended = {"cookie": "gdcb=" + "0" * 64}
    token = here.house.door.form_token(ended)
    _hold(here, ended | {"x-csrf-token": token}, None, is_key=False)


def test_somebody_without_a_role_may_nothing(here: Site) -> None:
    _hold(here, here.person("idle"), (), is_key=False)


def _hold(
    made: Site, who: Headers | None, given: tuple[tuple[str, str], ...] | None, is_key: bool
) -> None:
    """Ask everything, and hold the answers to the table."""
    before, n_decided = made.heads(), 0
    for method, path, row in asked(made):
        answer = send(made, method, path, row, who, ROOMS)
        says = (method, path, answer.status_code, answer.text[:300])
        is_page = not path.startswith(("/v1", "/metrics"))
        if is_allowed(row, given) and not (is_key and is_page and row.may != ANYBODY):
            assert answer.status_code == row.status, says
            n_decided += answer.status_code == 201
            continue
        if path == "/i/{name}" and answer.status_code == 303:  # the tab that is theirs
            assert any(role in ("approve", "administer") for role, _ in given or ()), says
            continue
        is_known = given is not None and not (is_key and is_page)
        assert answer.status_code == (403 if is_known else 401), says
        said = problem(answer)
        assert said["code"] == ("not_allowed" if is_known else "not_signed_in"), says
        if not is_known:
            assert answer.headers["www-authenticate"] == 'Bearer realm="gdcb"'
    if not n_decided:
        assert made.heads() == before
    assert made.heads()[CABINS] == before[CABINS]


def test_what_is_not_theirs_and_what_is_not_there_sound_alike(here: Site) -> None:
    """Somebody of another tenant cannot find out which instances there are."""
    who = here.person("abroad", *((role, CABINS) for role in ROLES))
    n = 0
    for method, path, row in asked(here):
        if "{name}" not in path or row.may == ANYBODY:
            continue
        theirs = send(here, method, path, row, who, ROOMS)
        nowhere = send(here, method, path, row, who, "attics")
        assert theirs.status_code == nowhere.status_code == 403, (method, path)
        words = problem(nowhere)["message"].replace("attics", ROOMS)
        assert problem(theirs)["message"] == words
        assert words == (
            "there is no instance 'rooms', or you have no role on it: an administrator can grant "
            "one"
        )
        assert set(theirs.headers) == set(nowhere.headers)
        n += 1
    assert n > 40


def test_lists_have_what_is_theirs(here: Site) -> None:
    for login, places, seen in (
        ("one", (ROOMS,), [ROOMS]),
        ("other", (CABINS,), [CABINS]),
        ("all", ("*",), [CABINS, ROOMS]),
        ("no", (), []),
    ):
        who = here.person(f"list-{login}", *(("audit", place) for place in places))
        found = here.get("/v1/instances", who).json()
        assert sorted(one["name"] for one in found) == seen
        page = here.get("/", who).text
        assert [name for name in (CABINS, ROOMS) if f"/i/{name}" in page] == seen


def test_people_of_one_instance_name_no_other(here: Site) -> None:
    who = here.person("warden", ("administer", CABINS))
    page = here.get("/people", who).text
    assert f'value="{CABINS}"' in page
    assert f'value="{ROOMS}"' not in page


def test_a_missing_role_is_named(here: Site) -> None:
    who = here.person("clerk", ("decide", ROOMS), ("audit", ROOMS))
    said = problem(here.post(f"/v1/instances/{ROOMS}/pause", who, {"reason": "so"}))
    assert said["message"] == "this needs the role 'operate' on 'rooms'; yours there: decide, audit"


def test_where_one_of_several_roles_is_enough_all_are_named(here: Site) -> None:
    who = here.person("till", ("decide", ROOMS))
    said = problem(here.get(f"/v1/instances/{ROOMS}/decisions/x/evidence", who))
    assert said["message"] == (
        "this needs the role 'audit', 'operate' or 'approve' on 'rooms'; yours there: decide"
    )


# Keys and people


@pytest.mark.parametrize("role", sorted(set(ROLES) - FOR_KEYS))
def test_no_key_approves_or_administers(here: Site, role: str) -> None:
    """Neither at its making nor later; and a key that claims to be a browser is none."""
    with pytest.raises(InvalidInput, match="that needs a person"):
        add_key(here.house.books, CONSOLE, "k", [(role, ROOMS)])
    key = add_key(here.house.books, CONSOLE, "k", [("decide", ROOMS)])
    with pytest.raises(InvalidInput, match="that needs a person"):
        give(here.house.books, CONSOLE, key.id, role, ROOMS)


def test_a_key_opens_no_page(here: Site) -> None:
    key = here.key(("operate", "*"))
    assert here.get(f"/i/{ROOMS}/queue", key).status_code == 401
    cookie = {"cookie": "gdcb=" + "0" * 64}
    assert here.get(f"/i/{ROOMS}/queue", key | cookie).status_code == 401
    # A header wins over the cookie: whoever sends both is judged by the key, in the API alone.
    both = here.ann | key
    assert here.get(f"/i/{ROOMS}/queue", both).status_code == 401
    assert here.get(f"/v1/instances/{ROOMS}", both).json()["roles"] == ["operate"]


def test_nobody_approves_what_they_asked_for(here: Site) -> None:
    """Somebody with both roles may veto their own, and another may approve it."""
    who = here.person("both", ("decide", ROOMS), ("approve", ROOMS))
    at = f"/v1/instances/{ROOMS}"
    for id in ("own-1", "own-2"):
        made = here.post(f"{at}/decisions", who, {"id": id, "context": night(0.9)})
        assert made.json()["status"] == "held"
    before = here.heads()
    for verdict, action in (("approve", None), ("edit", {"price": 90})):
        answer = here.review("own-1", verdict, who, action=action)
        assert answer.status_code == 403
        assert problem(answer)["code"] == "own_proposal"
    many = {
        "verdict": "approve",
        "code": "fits",
        "decisions": [{"id": id, **here.seen(id)} for id in ("own-1", "own-2")],
    }
    answer = here.post(f"{at}/reviews", who, many)
    assert (answer.status_code, problem(answer)["code"]) == (403, "own_proposal")
    assert here.heads() == before
    assert here.review("own-1", "veto", who).json()["status"] == "vetoed"
    assert here.review("own-2", "approve").json()["status"] == "passed"


def test_nobody_agrees_to_what_they_proposed(here: Site) -> None:
    at = f"/v1/instances/{ROOMS}"
    text = here.get(f"{at}/declaration", here.ann).json()["declaration"]
    said = {"declaration": text + "\nbulk = 3", "reason": "fewer"}
    number = here.post(f"{at}/changes", here.ann, said).json()["number"]
    before = here.heads()
    answer = here.post(f"{at}/changes/{number}/agree", here.ann, {})
    assert (answer.status_code, problem(answer)["code"]) == (403, "own_proposal")
    assert here.heads() == before
    assert here.post(f"{at}/changes/{number}/refuse", here.ann, {"reason": "no"}).json() == {
        "news": True
    }


def test_who_may_only_decide_reads_what_they_asked_for(here: Site) -> None:
    """What another asked for sounds like what is not there, also to another key of its maker."""
    given = ("decide", ROOMS)
    mine, other = (own_key(here, here.ann, given) for _ in range(2))
    clerk = here.person("asker", given)
    at = f"/v1/instances/{ROOMS}/decisions"
    for id, who in (("mine", mine), ("theirs", clerk)):
        assert here.post(at, who, {"id": id, "context": night(0.9)}).status_code == 201
    said = {"id": "rows", "contexts": [night(), night()]}
    assert here.post(f"{at}/batch", mine, said).status_code == 201
    for id, who in (("mine", mine), ("rows.1", mine), ("theirs", clerk)):
        assert here.get(f"{at}/{id}", who).json()["id"] == id
    for id, who in (("mine", other), ("mine", clerk), ("rows.0", other), ("theirs", mine)):
        answer = here.get(f"{at}/{id}", who)
        nothing = here.get(f"{at}/nothing", who)
        assert (answer.status_code, nothing.status_code) == (404, 404)
        words = problem(nothing)["message"].replace("nothing", id)
        assert (
            problem(answer)["message"] == words == f"no decision '{id}' was asked for by you here"
        )
    for role in ("outcome", "operate", "audit"):
        assert here.get(f"{at}/theirs", here.key((role, ROOMS), given)).status_code == 200


def own_key(made: Site, who: Headers, *given: tuple[str, str]) -> Headers:
    """Return the headers of a key that somebody made themselves."""
    maker = made.house.door.authenticate(who)
    assert maker is not None
    return {"authorization": f"Bearer {add_key(made.house.books, maker, 'till', given).text}"}


def test_nobody_approves_what_a_key_of_theirs_asked_for(here: Site) -> None:
    """Else whoever may make a key would be both pairs of eyes."""
    at = f"/v1/instances/{ROOMS}"
    key = own_key(here, here.ann, ("decide", ROOMS), ("operate", ROOMS))
    for id in ("key-1", "key-2"):
        made = here.post(f"{at}/decisions", key, {"id": id, "context": night(0.9)})
        assert made.json()["status"] == "held"
    before = here.heads()
    for verdict, action in (("approve", None), ("edit", {"price": 90})):
        answer = here.review("key-1", verdict, here.ann, action=action)
        assert (answer.status_code, problem(answer)["code"]) == (403, "own_proposal")
        assert problem(answer)["message"] == (
            "decision key-1 was asked for by till, a key that Ann made; somebody else answers"
        )
    many = {
        "verdict": "approve",
        "code": "fits",
        "decisions": [{"id": id, **here.seen(id)} for id in ("key-1", "key-2")],
    }
    answer = here.post(f"{at}/reviews", here.ann, many)
    assert (answer.status_code, problem(answer)["code"]) == (403, "own_proposal")
    assert here.heads() == before
    assert here.review("key-1", "veto", here.ann).json()["status"] == "vetoed"
    assert here.review("key-2", "approve", here.bob).json()["status"] == "passed"


def test_nobody_agrees_to_what_a_key_of_theirs_proposed(here: Site) -> None:
    at = f"/v1/instances/{ROOMS}"
    key = own_key(here, here.ann, ("operate", ROOMS))
    text = here.get(f"{at}/declaration", here.ann).json()["declaration"]
    said = {"declaration": text + "\nbulk = 4", "reason": "fewer"}
    number = here.post(f"{at}/changes", key, said).json()["number"]
    before = here.heads()
    answer = here.post(f"{at}/changes/{number}/agree", here.ann, {})
    assert (answer.status_code, problem(answer)["code"]) == (403, "own_proposal")
    assert "was proposed by till, a key that Ann made" in problem(answer)["message"]
    assert here.heads() == before
    done = here.post(f"{at}/changes/{number}/refuse", here.bob, {"reason": "no"})
    assert done.json() == {"news": True}


def limited(empty: Path, folder: Path) -> AbstractContextManager[Site]:
    """Run the application with room for ten requests of a person, and for forty of an address."""
    much = Rate(1e6, 1e6)
    rates = RateLimits(much, much, much, much, Rate(0.001, 10), Rate(0.001, 40))
    return site(empty, folder, settings=Settings(BASE, tick=0, rates=rates))


@pytest.mark.parametrize("path", [f"/v1/instances/{ROOMS}", f"/i/{ROOMS}/queue", "/", "/people"])
def test_strangers_are_limited(sqlite_template: Path, tmp_path: Path, path: str) -> None:
    """Whoever tries keys or sessions out is held back before the database is asked."""
    with limited(sqlite_template, tmp_path) as made:
        known, found = made.person("ann", ("approve", ROOMS)), []
        assert made.get(f"/i/{ROOMS}/queue", known).status_code == 200
        for i in range(60):
            bogus = {"authorization": f"Bearer gdcb_{i:016x}_{i:064x}"}
            if not path.startswith("/v1"):
                bogus = {"cookie": f"gdcb={i:064x}"}
            found.append(made.get(path, bogus).status_code)
        assert set(found[:30]) <= {303, 401}
        assert set(found[-10:]) == {429}
        made.clock.pass_by(30)  # who was let in before is looked up again, and not counted for it
        assert made.house.door.known(known) is None
        assert made.get("/v1/instances", known).status_code == 200


def test_refusals_are_limited(sqlite_template: Path, tmp_path: Path) -> None:
    with limited(sqlite_template, tmp_path) as made:
        key, poor = made.key(("audit", CABINS)), made.person("poor", ("decide", CABINS))
        for who, path in (
            (key, f"/v1/instances/{ROOMS}"),
            (poor, f"/i/{ROOMS}/queue"),
            (made.person("poor-2"), "/people"),
        ):
            found = [made.get(path, who).status_code for _ in range(12)]
            assert found == [403] * 10 + [429] * 2, path


def test_a_revoked_key_is_a_stranger(sqlite_template: Path, tmp_path: Path) -> None:
    with limited(sqlite_template, tmp_path) as made:
        key = add_key(made.house.books, CONSOLE, "k", [("audit", ROOMS)], lasts_s=60)
        who = {"authorization": f"Bearer {key.text}"}
        assert made.get("/v1/instances", who).status_code == 200
        made.clock.pass_by(61)
        found = [made.get("/v1/instances", who).status_code for _ in range(60)]
        assert found[0] == 401
        assert found[-1] == 429


def test_a_script_needs_the_pages_token(here: Site) -> None:
    """A session alone changes nothing: the page's token, and our own origin, must come with it."""
    who = here.person("script", ("operate", ROOMS))
    at, said = f"/v1/instances/{ROOMS}/pause", {"reason": "so"}
    cookie = {"cookie": who["cookie"]}
    before = here.heads()
    for headers in (
        cookie,
        cookie | {"x-csrf-token": here.ann["x-csrf-token"]},
        who | {"origin": "https://elsewhere.example"},
        who | {"sec-fetch-site": "cross-site"},
        who | {"origin": "null"},
    ):
        answer = here.post(at, headers, said)
        assert (answer.status_code, problem(answer)["code"]) == (403, "not_allowed")
    assert here.heads() == before
    assert here.get(f"/v1/instances/{ROOMS}", cookie).status_code == 200
