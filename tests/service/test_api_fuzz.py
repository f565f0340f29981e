"""Chance against the whole API: whatever comes, no answer is our failure or undocumented."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from fastapi.routing import iter_route_contexts
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks

from gdcb.ledger.chain_check import check_store
from gdcb.ledger.sql import SqlStore
from tests.postgres import Cluster
from tests.properties import examples
from tests.service import desks
from tests.service.desks import night
from tests.service.http import BASE, CABINS, ROOMS, Headers, Site, problem, served, site

load_all_checks()
# What must hold of every answer. That bad data is refused is tested by hand: much of what an
# instance refuses, such as a column that it does not have, is no part of the document.
CHECKED = [
    CHECKS.get_one(name)
    for name in (
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_schema_conformance",
    )
]
# What an instance would take, put where chance alone would never find it.
GOOD: dict[str, Any] = {
    "context": night(),
    "contexts": [night(), night(0.9)],
    "columns": {"base": [100, 200], "busy": [0.1, 0.9]},
    "mask": ["0.8", "1"],
    "incumbent": {"price": 90.0},
    "incumbents": [{"price": 90.0}, {"price": 95.0}],
    "incumbent_columns": {"price": [90.0, 95.0]},
    "action": {"price": 90.0},
    "outcome": {"booked": 1},
    "outcomes": [{"id": "a1", "outcome": {"booked": 1}}],
    "decisions": [{"id": "h1", "version": 2, "content": "x"}],
    "label": [0.5],
    "code": "fits",
    "since": 3,
    "to": 2,
    "declaration": desks.learning("bulk = 3"),
    "url": "http://127.0.0.1:9/",
    "kinds": ["held"],
}
PLACED = {"name": ROOMS, "id": "a1", "number": 3}
IDS = ("a1", "h1", "b.0", "1", "no such")
_QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


@pytest.fixture(scope="module")
def here(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(sqlite_template, tmp_path_factory.mktemp("fuzz"), desks.learning()) as made:
        made.decide("a1")
        made.decide("h1", 0.9)
        batch = {"id": "b", "contexts": [night(0.2)] * 2}
        made.post(f"/v1/instances/{ROOMS}/decisions/batch", made.shop, batch)
        yield made


def operations_of(document: Any) -> list[Any]:
    """Return the operations of the API's document."""
    found = [one.ok() for one in document.get_all_operations()]
    assert found
    return found


def fuzz(made: Site, who: Headers, mode: GenerationMode, n: int) -> dict[int, int]:
    """Ask every operation n times by chance; return how many answers had which status."""
    document = schemathesis.openapi.from_dict(made.app.openapi())
    found: dict[int, int] = {}
    operations = operations_of(document)
    if mode is GenerationMode.NEGATIVE:  # of what says nothing, nothing can be wrong
        operations = [one for one in operations if one.body or one.query]
    for operation in operations:
        desk = made.house.desk(ROOMS)
        if "resume" not in operation.path:
            made.post(f"/v1/instances/{ROOMS}/resume", made.shop, {"reason": "go on"})

        known = None
        if mode is GenerationMode.NEGATIVE:
            known = {one.name: PLACED[one.name] for one in operation.path_parameters}

        @examples(n, suppress_health_check=_QUIET)
        @given(case=operation.as_strategy(mode, path_parameters=known), data=st.data())
        def ask(case: Any, data: st.DataObject) -> None:
            _aim(case, data)
            asked = requests.Request(**_request(case)).prepare()
            answer = made.ask(
                str(asked.method),
                str(asked.url),
                {**{k: v for k, v in asked.headers.items() if k.lower() != "cookie"}, **who},
                content=asked.body,
            )
            found[answer.status_code] = found.get(answer.status_code, 0) + 1
            if answer.status_code != 405:  # a path of chance may be that of another operation
                case.validate_response(answer, checks=CHECKED)
            if answer.status_code >= 400:
                problem(answer)

        ask()
        assert desk.length() == 0
    return found


def _request(case: Any) -> dict[str, Any]:
    asked: dict[str, Any] = case.as_transport_kwargs(base_url=BASE)
    asked.pop("timeout", None)
    return asked


def _aim(case: Any, data: st.DataObject) -> None:
    """Put an instance, a decision and parts of a body there that are known, more often than not."""
    path = case.path_parameters or {}
    if "name" in path and data.draw(st.integers(0, 9)):
        is_end = "retire" in case.operation.path  # one of the two goes on
        path["name"] = CABINS if is_end else data.draw(st.sampled_from((ROOMS, CABINS)))
    if "id" in path and data.draw(st.booleans()):
        path["id"] = data.draw(st.sampled_from(IDS))
    if isinstance(case.body, dict):
        for name in case.body.keys() & GOOD.keys():
            if data.draw(st.integers(0, 3)):
                case.body[name] = GOOD[name]


BOTH = pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
WHO = pytest.mark.parametrize("who", ["shop", "ann"])


def _hold(made: Site, who: str, mode: GenerationMode, n: int) -> None:
    """Ask by chance; no answer is our failure, and both chains are whole afterwards."""
    found = fuzz(made, getattr(made, who), mode, n)
    assert max(found) < 500, found
    assert found.keys() & {200, 201}, found
    assert found.keys() & {400, 422}, found
    for chain in (ROOMS, CABINS):
        report = check_store(made.house.store, chain)
        assert report.ok, report.findings


@WHO
@BOTH
def test_no_request_breaks_the_service(here: Site, who: str, mode: GenerationMode) -> None:
    _hold(here, who, mode, 6)


@pytest.mark.soak
@WHO
@BOTH
def test_no_request_breaks_the_service_in_the_long_run(
    here: Site, who: str, mode: GenerationMode
) -> None:
    _hold(here, who, mode, 300)


@pytest.mark.soak
@WHO
@BOTH
def test_no_request_breaks_the_service_on_postgresql(
    postgres: Cluster, postgres_template: str, who: str, mode: GenerationMode
) -> None:
    name = postgres.create(f"TEMPLATE {postgres_template}")
    with served(SqlStore(postgres.url(name)), desks.learning()) as made:
        made.decide("a1")
        made.decide("h1", 0.9)
        _hold(made, who, mode, 60)
    postgres.drop(name)


def test_the_document_is_valid_and_whole(here: Site) -> None:
    """Every route under /v1 is in it, and what it says is OpenAPI."""
    document = schemathesis.openapi.from_dict(here.app.openapi())
    document.validate()
    said = {(one.method.upper(), one.path) for one in operations_of(document)}
    known = {
        (method, str(one.path))
        for one in iter_route_contexts(here.app.routes)
        for method in (one.methods or ())
        if str(one.path).startswith("/v1/instances")
    }
    assert known <= said
    assert len(known) > 25
