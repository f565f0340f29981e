"""Tasks in this process, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Local:
    """Run tasks in this process, in order.

    Examples
    --------
    >>> dict(Local().run(abs, [-1, 2, -3]))
    {0: 1, 1: 2, 2: 3}
    """

    name = "local"

    def run(
        self, function: Callable[[Any], Any], tasks: Iterable[Any]
    ) -> Generator[tuple[int, Any], None, None]:
        """Yield (position, result) in the order of the tasks."""
        for index, task in enumerate(tasks):
            yield index, function(task)
