"""One Hypothesis profile for all property tests: fixed examples in the tests, a search in the soak.

`make test` tries the same examples on every machine and every day, so that a green run stays green.
`make soak` sets GDCB_SEARCH=50: every property then gets 50 times as many examples, which are
random, and stops after GDCB_SEARCH_SECONDS (600); the summary says which ones did.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import settings

DEFAULT_EXAMPLES = 100
SEARCH = int(os.environ.get("GDCB_SEARCH", "0"))
SECONDS = float(os.environ.get("GDCB_SEARCH_SECONDS", "600"))

settings.register_profile(
    "gdcb",
    max_examples=DEFAULT_EXAMPLES * max(SEARCH, 1),
    derandomize=SEARCH == 0,
    database=None,
    deadline=None,
    print_blob=True,
)
settings.load_profile("gdcb")


def examples(n: int = DEFAULT_EXAMPLES, **changes: Any) -> settings:
    """Return the profile with `n` examples, 50 times as many in a search with GDCB_SEARCH=50."""
    return settings(max_examples=n * max(SEARCH, 1), **changes)


class Search:
    """A pytest plugin for searches: stop a property at its time, and count its examples."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Let a property pass its remaining examples untried once its time is over."""
        handle = getattr(getattr(item, "obj", None), "hypothesis", None)
        if handle is None:
            return (yield)
        inner, limit, tried, left_out = handle.inner_test, time.monotonic() + SECONDS, 0, 0

        @functools.wraps(inner)
        def bounded(*args: Any, **kwargs: Any) -> Any:
            nonlocal tried, left_out
            if time.monotonic() > limit:
                left_out += 1
                return None
            tried += 1
            return inner(*args, **kwargs)

        handle.inner_test = bounded
        try:
            return (yield)
        finally:
            handle.inner_test = inner
            item.user_properties.append(("examples", [tried, left_out]))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say how many examples were tried, and which properties ran out of time."""
        counts = {
            report.nodeid: dict(report.user_properties)["examples"]
            for kind in ("passed", "failed")
            for report in terminalreporter.getreports(kind)
            if report.when == "call" and "examples" in dict(report.user_properties)
        }
        total = sum(tried for tried, _ in counts.values())
        terminalreporter.section(f"search: {total:,} examples of {len(counts):,} properties")
        for name, (tried, left_out) in counts.items():
            if left_out:
                terminalreporter.line(f"stopped after {SECONDS:g} s and {tried:,} examples: {name}")
