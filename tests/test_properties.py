"""All property tests run from one profile: fixed examples, nothing remembered between runs."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import settings

from tests import properties

HERE = Path(__file__).parent


def test_the_profile_has_fixed_examples_and_no_database() -> None:
    """A search draws at random, and more of them; neither remembers what failed on one machine."""
    profile = settings.default
    assert profile is not None
    assert profile.derandomize == (properties.SEARCH == 0)
    assert profile.database is None
    assert profile.deadline is None
    assert properties.examples(7).max_examples == 7 * max(properties.SEARCH, 1)
    assert properties.examples(7).derandomize == profile.derandomize


def test_no_test_makes_settings_of_its_own() -> None:
    """`examples(n)` is the one way to say how many, so that a search reaches every property."""
    found = {
        str(path.relative_to(HERE))
        for path in HERE.rglob("*.py")
        if re.search(r"from hypothesis import [^\n]*\bsettings\b", path.read_text(encoding="utf-8"))
    }
    assert found == {"properties.py", "test_properties.py"}
