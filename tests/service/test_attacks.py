"""Attacks on a service over HTTP, and on the database behind it: each is refused, and said."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.service import desks
from tests.service.http import ROOMS, Site, site, visitor

AT = f"/v1/instances/{ROOMS}"


@pytest.fixture
def fresh(sqlite_template: Path, tmp_path: Path) -> Iterator[Site]:
    with site(sqlite_template, tmp_path) as made:
        yield made


# One request that would take all time, or all memory

LONG_KEY = ".".join(["a"] * 8_000) + " = 1\n"
HOSTILE = {
    "a key of 8,000 parts": LONG_KEY,
    "a header of as many": f"[{'.'.join(['a'] * 8_000)}]\n",
    "behind a text": 'a = {b = """x"""", ' + LONG_KEY.strip() + ', d = """x""""}\n',
    "nested lists": f"a = {'[' * 5_000}{']' * 5_000}\n",
    "nested tables": f"a = {'{a = ' * 5_000}1{'}' * 5_000}\n",
    "a long number": f"a = {'9' * 5_000}\n",
    "a long number in hexadecimal": f"name = 0x{'f' * 5_000}\n",
    "too long": "#" * 300_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_toml_is_refused_at_once(fresh: Site, text: str) -> None:
    """A key of 8,000 parts alone took a second, and one of 300,000 took 21 GB."""
    before = fresh.heads()
    operator = visitor(fresh, "eve", ("operate", "*"))
    start = time.process_time()
    said = {"declaration": text, "reason": "better"}
    answers = [
        fresh.post(f"{AT}/changes", fresh.shop, said),
        fresh.post("/v1/instances", fresh.ann, said),
        operator.post(f"/i/{ROOMS}/changes", said),
    ]
    assert [answer.status_code for answer in answers] == [422, 422, 422]
    assert all("expected" in answer.text or "not TOML" in answer.text for answer in answers)
    assert time.process_time() - start < 1.5
    assert fresh.heads() == before


def test_declarations_are_read_before_the_transaction(
    fresh: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads a declaration, proposed or agreed to, keeps nobody at the desk waiting."""
    from gdcb import declaration
    from gdcb.ledger.sql import SqlStore

    is_writing: list[str] = []
    parse, writing = declaration.parse, SqlStore.writing

    def slow(*given: Any, **named: Any) -> Any:
        assert not is_writing, "read while the chain is locked"
        return parse(*given, **named)

    def held(self: SqlStore, chain: str) -> Any:
        from contextlib import contextmanager

        @contextmanager
        def opened() -> Iterator[Any]:
            with writing(self, chain) as found:
                is_writing.append(chain)
                try:
                    yield found
                finally:
                    is_writing.pop()

        return opened()

    monkeypatch.setattr(declaration, "parse", slow)
    monkeypatch.setattr(SqlStore, "writing", held)
    said = {"declaration": desks.held("bulk = 3"), "reason": "fewer"}
    made = fresh.post(f"{AT}/changes", fresh.bob, said)
    assert made.status_code == 201, made.text
    agreed = fresh.post(f"{AT}/changes/{made.json()['number']}/agree", fresh.ann, {"reason": ""})
    assert agreed.status_code == 200, agreed.text
    assert fresh.get(f"{AT}/declaration", fresh.ann).json()["declaration"] == said["declaration"]
