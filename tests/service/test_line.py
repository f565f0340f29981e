"""A line: what comes together is done together, and nobody waits for ever."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from gdcb.errors import StoreUnavailable
from gdcb.service.line import ROUNDS, STANDS_ASIDE, Job, Line, Overloaded, answer


def doubled(jobs: list[Job]) -> None:
    """Answer every job with twice what it was asked."""
    for job in jobs:
        job.answer = 2 * job.what
    answer(jobs)


@contextmanager
def line(work: Callable[[list[Job]], None] = doubled, limit: int = 1_000) -> Iterator[Line]:
    """Have a line for a while."""
    made = Line(work, "a line", limit)
    try:
        yield made
    finally:
        made.close()


def test_what_comes_in_the_same_rounds_is_done_together() -> None:
    sizes: list[int] = []

    def work(jobs: list[Job]) -> None:
        sizes.append(len(jobs))
        doubled(jobs)

    async def ask() -> list[int]:
        return list(await asyncio.gather(*(made.done(Job(what=i)) for i in range(40))))

    with line(work) as made:
        assert asyncio.run(ask()) == [2 * i for i in range(40)]
        assert asyncio.run(ask()) == [2 * i for i in range(40)]  # on another loop
    assert sizes == [40, 40]


def test_a_thread_that_asks_alone_is_served_at_once() -> None:
    with line() as made:
        (future,) = made.put([Job(what=4)])
        assert future.result(timeout=60) == 8


def test_a_loop_stands_aside_for_a_moment_only() -> None:
    """While the thread waits for a slow disk, the loop goes on with everything else."""
    may_go = threading.Event()

    def slow(jobs: list[Job]) -> None:
        assert may_go.wait(timeout=60)
        doubled(jobs)

    async def ask() -> tuple[list[float], list[int]]:
        first = asyncio.create_task(made.done(Job(what=1)))
        await asyncio.sleep(0.05)
        waits = []
        more = []
        for i in range(20):  # it is busy: who asks meanwhile holds nobody up
            begun = time.perf_counter()
            more.append(asyncio.create_task(made.done(Job(what=i))))
            for _ in range(10):
                await asyncio.sleep(0)
            waits.append(time.perf_counter() - begun)
        assert not first.done()
        may_go.set()
        return waits, [await first, *[await one for one in more]]

    with line(slow) as made:
        waits, answers = asyncio.run(ask())
    assert answers == [2, *(2 * i for i in range(20))]
    assert sorted(waits)[10] < STANDS_ASIDE  # the usual one; a busy machine may stop us any time


def test_a_loop_stands_aside_for_all_lines_at_once() -> None:
    """Twenty lines that each wait for a disk are not waited for one after the other."""
    delay, n = 0.004, 20

    def slow(jobs: list[Job]) -> None:
        time.sleep(delay)
        doubled(jobs)

    async def ask() -> float:
        begun = time.perf_counter()
        await asyncio.gather(*(one.done(Job(what=1)) for one in made))
        return time.perf_counter() - begun

    with ExitStack() as stack:
        made = [stack.enter_context(line(slow)) for _ in range(n)]
        assert min(asyncio.run(ask()) for _ in range(5)) < 0.5 * n * delay


def test_a_slow_thread_is_waited_for_ever_more_rarely() -> None:
    def slow(jobs: list[Job]) -> None:
        time.sleep(3 * STANDS_ASIDE)
        doubled(jobs)

    async def ask() -> list[float]:
        waits = []
        for i in range(24):
            task = asyncio.create_task(made.done(Job(what=i)))
            begun = time.perf_counter()
            for _ in range(2 * ROUNDS):
                await asyncio.sleep(0)
            waits.append(time.perf_counter() - begun)
            assert await task == 2 * i
        return waits

    with line(slow) as made:
        waits = asyncio.run(ask())
    assert sum(one > STANDS_ASIDE for one in waits) < 12  # 1, 2, 4, 8 and 16 apart
    assert waits[0] > 0.9 * STANDS_ASIDE


def test_who_went_away_stops_nobody() -> None:
    async def ask() -> int:
        tasks = [asyncio.create_task(made.done(Job(what=i))) for i in range(3)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        return int(await tasks[0] + await tasks[2])

    with line() as made:
        assert asyncio.run(ask()) == 4


def test_an_answer_to_a_loop_that_is_gone_is_dropped() -> None:
    is_busy, may_go = threading.Event(), threading.Event()

    def slow(jobs: list[Job]) -> None:
        is_busy.set()
        assert may_go.wait(timeout=60)
        doubled(jobs)

    async def leave() -> None:
        task = asyncio.create_task(made.done(Job(what=1)))
        while not is_busy.is_set():
            await asyncio.sleep(0)
        task.cancel()

    with line(slow) as made:
        asyncio.run(leave())
        may_go.set()
        (future,) = made.put([Job(what=2)])
        assert future.result(timeout=60) == 4


def test_a_mistake_is_the_answer_of_all_and_the_line_goes_on() -> None:
    def clumsy(jobs: list[Job]) -> None:
        if any(job.what == 0 for job in jobs):
            raise ZeroDivisionError("ours")
        doubled(jobs)

    async def ask(what: int) -> int:
        found: int = await made.done(Job(what=what))
        return found

    with line(clumsy) as made:
        futures = made.put([Job(what=0), Job(what=1)])
        assert all(isinstance(one.exception(timeout=60), ZeroDivisionError) for one in futures)
        with pytest.raises(ZeroDivisionError):
            asyncio.run(ask(0))
        assert asyncio.run(ask(3)) == 6


@pytest.mark.parametrize("error", [StopIteration(3), SystemExit(1), KeyboardInterrupt()])
def test_what_nobody_may_raise_is_an_answer_like_others(error: BaseException) -> None:
    """Neither do those behind it wait for ever, nor does the thread end."""

    def clumsy(jobs: list[Job]) -> None:
        for job in jobs:
            if job.what == 1 and isinstance(error, Exception):
                job.error = error
            elif job.what == 1:
                raise error
        doubled([job for job in jobs if job.error is None])
        answer(jobs)

    async def ask() -> list[Any]:
        tasks = (made.done(Job(what=i)) for i in range(3))
        return list(await asyncio.gather(*tasks, return_exceptions=True))

    with line(clumsy) as made:
        found = asyncio.run(ask())
        assert isinstance(found[1], RuntimeError)
        assert found[1].__cause__ is error
        assert all(one in (0, 4) or isinstance(one, RuntimeError) for one in found)
        (future,) = made.put([Job(what=5)])
        assert future.result(timeout=60) == 10


def test_what_was_answered_stays_so() -> None:
    """A mistake after the answer must not tell anybody that what is committed has failed."""

    def late(jobs: list[Job]) -> None:
        doubled(jobs)
        raise ValueError("after the answer")

    async def ask() -> Any:
        return await made.done(Job(what=2))

    with line(late) as made:
        assert asyncio.run(ask()) == 4
        (future,) = made.put([Job(what=3)])
        assert future.result(timeout=60) == 6


def test_all_are_refused_where_one_would_be_and_looks_never_are() -> None:
    is_busy, may_go = threading.Event(), threading.Event()

    def slow(jobs: list[Job]) -> None:
        is_busy.set()
        assert may_go.wait(timeout=60)
        doubled(jobs)

    with line(slow, limit=2) as made:
        first = made.put([Job(what=0)])
        assert is_busy.wait(timeout=60)
        one = made.put([Job(what=1)])
        with pytest.raises(Overloaded, match="1 requests wait already"):
            made.put([Job(what=2), Job(what=3)])
        assert len(made) == 1
        look = made.put([Job(what=4, is_look=True)])
        two = made.put([Job(what=5)])
        may_go.set()
        assert [f.result(timeout=60) for f in (*first, *one, *look, *two)] == [0, 2, 8, 10]


def test_a_closed_line_takes_no_more() -> None:
    with line() as made:
        pass
    with pytest.raises(StoreUnavailable, match="shutting down"):
        made.put([Job(what=1)])
