"""What every engine promises: the same results, wherever the tasks run."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from gdcb.errors import GdcbError


class WorkerLost(GdcbError):
    """Workers died under the same tasks again and again; what had finished was handed out."""


class Engine(Protocol):
    """Where tasks run.

    Results depend on the task alone: not on the engine, on the number of workers or on the order
    in which tasks finish. What a function keeps between tasks may save time, never change a bit.
    """

    @property
    def name(self) -> str:
        """The name by which `named` finds this engine."""

    def run(
        self, function: Callable[[Any], Any], tasks: Iterable[Any]
    ) -> Generator[tuple[int, Any], None, None]:
        """Yield (position in `tasks`, result) as results come.

        Whoever may stop before the end closes the iterator (`contextlib.closing`): that ends the
        workers. Arrays of a result may be read-only.

        Parameters
        ----------
        function : takes a task, returns its result; defined at the top of a module, so that other
            processes find it by name
        tasks : small records; taken from the iterable as workers become free

        Raises
        ------
        WorkerLost
            If workers die under the same tasks again. What `function` raises comes through as it
            is.
        """


@contextmanager
def one_thread() -> Iterator[None]:
    """Let this process do linear algebra in one thread: split over several it may round otherwise.

    >>> with one_thread():
    ...     pass
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        yield


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
