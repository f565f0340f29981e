"""The queue: what it says is so, its order costs little, and several are answered at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdcb.service.access import ROLES
from tests.service.http import ROOMS, site, visitor

AT = f"/i/{ROOMS}"
EVERYTHING = tuple((role, "*") for role in ROLES)


@pytest.mark.parametrize("asked", ["queue.json?since=0", "queue?reload=60"])
def test_a_page_that_renews_itself_keeps_nobody_signed_in(
    sqlite_template: Path, tmp_path: Path, asked: str
) -> None:
    with site(sqlite_template, tmp_path) as made:
        eve = visitor(made, "eve", *EVERYTHING)
        for _ in range(2):
            made.clock.pass_by(1200)
            assert eve.get(f"{AT}/queue").status_code == 200
        for _ in range(59):
            made.clock.pass_by(60)
            assert eve.get(f"{AT}/{asked}").status_code == 200
        made.clock.pass_by(60)
        assert eve.get(f"{AT}/{asked}", accept="application/json").status_code == 401
