"""A run: its unfinished tasks on an engine, every result kept as soon as it is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing

from gdcb.engine import Engine
from gdcb.protocol.record import Ground, Record
from gdcb.protocol.store import Store
from gdcb.protocol.task import Task


class Results(Mapping[str, Record]):
    """Records by method, in the order of the settings, read from the store at each look.

    So only those in use are in memory. After the store has published its result they are gone.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getitem__(self, method: str) -> Record:
        if method not in self._store.settings.methods:
            raise KeyError(method)
        return self._store.record(method)

    def __iter__(self) -> Iterator[str]:
        return iter(self._store.settings.methods)

    def __len__(self) -> int:
        return len(self._store.settings.methods)

    @property
    def ground(self) -> Ground:
        """What all methods share."""
        return self._store.ground()


def run(
    store: Store,
    engine: Engine,
    function: Callable[[Task], Record | Ground],
    progress: Callable[[int, int], None],
) -> Results:
    """Run what is unfinished in `store`, and return the results of all methods.

    However it ends, by an error or by Ctrl-C, the tasks finished so far are in the store.

    Parameters
    ----------
    store : an open store; it holds the settings
    engine : where tasks run; the result does not depend on it
    function : returns a task's `Record`, or the `Ground` of its block where the method is ''
    progress : hears (tasks done, all tasks) at the start and after each
    """
    total = len(store.settings.tasks)
    tasks = store.missing()
    done = total - len(tasks)
    progress(done, total)
    with closing(engine.run(function, tasks)) as finished:
        for index, result in finished:
            store.write(tasks[index], result)
            done += 1
            progress(done, total)
    return Results(store)
