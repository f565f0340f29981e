"""Size: the whole flow fits on a screen, and no module has two reasons to change."""

from __future__ import annotations

from pathlib import Path

import pytest

import gdcb

SOURCE = Path(gdcb.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def test_round_fits_on_a_few_screens() -> None:
    """One round, from context to learning, has at most 200 lines."""
    assert lines(SOURCE / "round.py") <= 200


def test_credit_is_small() -> None:
    """Who learns from what has at most 300 lines."""
    assert lines(SOURCE / "credit.py") <= 300


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_module_is_large(path: Path) -> None:
    """No module has more than 600 lines."""
    assert lines(path) <= 600
