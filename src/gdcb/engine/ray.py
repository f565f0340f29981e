"""Tasks on the machines of a Ray cluster."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from gdcb.engine.base import WorkerLost, cores
from gdcb.errors import InvalidInput
from gdcb.parts import check_number

_RETRIES = 5  # times that a task may lose its machine
_ENOUGH = 2  # tasks a core, one at work and one waiting: results do not pile up
_PATIENCE = 10.0  # seconds to reach a cluster
_STORE = 256 * 2**20  # bytes of shared memory of a local start; Ray's own choice is a third of all


@dataclass(frozen=True)
class Ray:
    """Run tasks on a Ray cluster: that of RAY_ADDRESS, else one started here for the run.

    A task whose machine or process dies is run again on another, and so is a finished one whose
    result died with its machine before it was fetched. Every machine needs this version of gdcb.
    Where /dev/shm is too small, as in many containers, Ray keeps results in /tmp.

    Parameters
    ----------
    workers : cores of a cluster that is started here; default: all. A cluster that is already
        there has its own number.
    """

    workers: int = field(default_factory=cores)
    name = "ray"

    def __post_init__(self) -> None:
        check_number("Ray.workers", self.workers, low=1)

    def run(
        self, function: Callable[[Any], Any], tasks: Iterable[Any]
    ) -> Generator[tuple[int, Any], None, None]:
        """Yield (position, result) as tasks finish."""
        ray = _imported()
        with _cluster(ray, self.workers) as is_ours:
            # One core a task; Ray then gives linear algebra one thread, too.
            remote = ray.remote(num_cpus=1, max_retries=_RETRIES)(_run)
            source = iter(enumerate(tasks))
            pending: dict[Any, int] = {}
            try:
                while True:
                    limit = _ENOUGH * max(1, int(ray.cluster_resources().get("CPU", 1)))
                    while len(pending) < limit and (following := next(source, None)) is not None:
                        index, task = following
                        pending[remote.remote(function, task, version("gdcb"))] = index
                    if not pending:
                        return
                    for reference in ray.wait(list(pending), num_returns=1)[0]:
                        result = _fetched(ray, reference)
                        yield pending.pop(reference), result
            finally:
                # Tasks end with the connection. Never by force: Ray 2.60 kills this process if a
                # task is done just then.
                for reference in () if is_ours else pending:
                    ray.cancel(reference)


def _run(function: Callable[[Any], Any], task: Any, expected: str) -> Any:
    """Run a task where it landed, unless that place would give another version's results."""
    if version("gdcb") != expected:
        raise InvalidInput(
            f"ray: expected gdcb {expected} on every machine, got {version('gdcb')} on one"
        )
    return function(task)


def _fetched(ray: Any, reference: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        if isinstance(cause, Exception):
            raise cause from error
        raise
    except ray.exceptions.RayError as error:
        raise WorkerLost(
            f"ray: a task was lost and could not be run again ({type(error).__name__}); "
            f"it was tried up to {_RETRIES + 1} times"
        ) from error


def _imported() -> Any:
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise InvalidInput(
            'engine: ray is not installed; pip install "gdcb[ray]", or take pool or local'
        ) from error
    return ray


@contextmanager
def _cluster(ray: Any, workers: int) -> Iterator[bool]:
    """Join a cluster or start one, for this block; say whether the connection is its own."""
    if ray.is_initialized():
        yield False
        return
    # Ray would otherwise report to its makers that it was started.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    address = os.environ.get("RAY_ADDRESS")
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        if address:
            _knock(address)
            ray.init(address=address, **quiet)
        else:
            ray.init(
                address="local",
                num_cpus=workers,
                object_store_memory=_STORE,
                include_dashboard=False,
                **quiet,
            )
    except (OSError, RuntimeError, ValueError) as error:
        where = f"reach the cluster at RAY_ADDRESS={address}" if address else "start here"
        raise InvalidInput(f"ray: could not {where} ({error})") from error
    try:
        yield True
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Raise OSError where nobody listens at host:port; Ray would ask again for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()
