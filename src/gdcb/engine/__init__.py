"""Where tasks run: this process, a process pool, Ray."""

from __future__ import annotations

from gdcb.engine.base import Engine, WorkerLost, one_thread
from gdcb.engine.local import Local
from gdcb.engine.pool import Pool
from gdcb.engine.ray import Ray
from gdcb.parts import check_choice

NAMES = ("local", "pool", "ray")


def named(name: str, workers: int | None = None) -> Engine:
    """Return the engine of that name.

    Parameters
    ----------
    name : 'local', 'pool' or 'ray'
    workers : processes of the pool, or cores of a Ray that is started here; default: all cores

    Examples
    --------
    >>> named("local").name, named("pool", workers=2).name
    ('local', 'pool')
    """
    check_choice("engine", name, NAMES)
    if name == "local":
        return Local()
    if name == "pool":
        return Pool() if workers is None else Pool(workers)
    return Ray() if workers is None else Ray(workers)


__all__ = ["NAMES", "Engine", "Local", "Pool", "Ray", "WorkerLost", "named", "one_thread"]
