"""Ray: two nodes, one of them killed in mid-run, and the bytes of this process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from gdcb import BetaThompson
from gdcb.engine import Engine, Local, Ray
from gdcb.errors import InvalidInput
from gdcb.history import open_log
from gdcb.history.certification import pilot_of, sums_of_parts
from gdcb.history.plan import plan_of
from gdcb.protocol.block import run_task
from gdcb.protocol.runner import run
from gdcb.protocol.store import Store
from gdcb.protocol.task import Settings
from gdcb.records import to_bytes
from tests import toy_tasks
from tests.builders import letting, letting_log
from tests.toy_tasks import SMALL, Draws, Traced, is_alive, wait_until, workers_of

ray: Any = import_module("ray")
cluster_utils: Any = import_module("ray.cluster_utils")
scheduling: Any = import_module("ray.util.scheduling_strategies")

NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
# A dead node is noticed within ten seconds, not half a minute; a busy one is not taken for dead.
QUICK = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 14,
}
LARGE = 50_000  # numbers; from 100 kB on Ray keeps a result on the node that made it
# Methods of the protocol, the records of which are that large too.
REAL = Settings(
    *("str", "well", (("nights", 40),), 30, 40, 3),
    ("B1", "B2s", "B2g", "B3", "B4", "A1", "A3"),
    "0.1.0",
)


@pytest.fixture(scope="module", autouse=True)
def environment() -> Iterator[pytest.MonkeyPatch]:
    """Give Ray what it needs to start quickly and to tell nobody about it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        # Ray starts many processes: where bytecode is not kept, each compiles all of Ray.
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        patch.delenv("RAY_ADDRESS", raising=False)
        yield patch


@pytest.fixture(scope="module")
def cluster(environment: pytest.MonkeyPatch) -> Iterator[Any]:
    """Give a cluster of a head and a second node, found as users find theirs: by RAY_ADDRESS."""
    head = NODE | {"_system_config": QUICK}
    nodes = cluster_utils.Cluster(initialize_head=True, head_node_args=head)
    try:
        nodes.add_node(**NODE)
        with environment.context() as patch:
            patch.setenv("RAY_ADDRESS", nodes.address)
            yield nodes
    finally:
        nodes.shutdown()


@pytest.fixture(autouse=True)
def connection() -> Iterator[None]:
    """Leave no connection to the test that follows."""
    yield
    ray.shutdown()


def expected(tasks: list[Draws]) -> dict[int, bytes]:
    return {index: to_bytes(toy_tasks.draw(task)) for index, task in enumerate(tasks)}


def nodes_of(folder: Path, seed: int) -> set[str]:
    """Return the nodes on which a task began."""
    return {path.stem.partition("-")[2] for path in folder.glob(f"{seed}-*.began")}


def test_what_a_task_raises_comes_through(cluster: Any) -> None:
    """The same error with the same words; the run leaves the cluster as it was."""
    with pytest.raises(InvalidInput, match=r"^seed: expected any but 3, got 3$"):
        list(Ray().run(toy_tasks.refuse_the_third, [Draws(seed) for seed in range(5)]))
    assert not ray.is_initialized()


@pytest.mark.parametrize("is_connected", [False, True])
def test_closing_early_ends_the_tasks_at_work(
    cluster: Any, tmp_path: Path, is_connected: bool
) -> None:
    """Whoever has seen enough closes the iterator; a connection that was there before stays."""
    if is_connected:
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    results = Ray().run(
        toy_tasks.first_then_sleep, [Draws(seed, folder=str(tmp_path)) for seed in range(4)]
    )
    assert next(results)[0] == 0
    assert wait_until(lambda: workers_of(tmp_path))
    results.close()
    assert ray.is_initialized() == is_connected
    if is_connected:
        # Its workers live on for other tasks; they are free once the sleepers were interrupted.
        [(_, found)] = Ray().run(toy_tasks.draw, [Draws(5)])
        assert to_bytes(found) == to_bytes(toy_tasks.draw(Draws(5)))
    else:
        assert wait_until(lambda: not any(is_alive(pid) for pid in workers_of(tmp_path)))


def test_a_worker_has_one_thread(cluster: Any) -> None:
    """The libraries themselves say so."""
    [(_, found)] = Ray().run(toy_tasks.threads, [Draws(0)])
    assert found
    assert set(found) == {1}


@pytest.mark.parametrize(
    ("settings", "function"),
    [(SMALL, toy_tasks.episodes), (replace(REAL, episodes=5, replicates=4), run_task)],
    ids=["toy", "protocol"],
)
def test_a_run_on_two_nodes_leaves_the_bytes_of_this_process(
    cluster: Any, tmp_path: Path, settings: Settings, function: Any
) -> None:
    """Every part of a run, to the byte: of a toy, and of the protocol."""
    engines: dict[str, Engine] = {"here": Local(), "there": Ray()}
    for folder, engine in engines.items():
        with Store(tmp_path / folder, settings) as store:
            run(store, engine, function, toy_tasks.ignore)
    here, there = (
        {path.name: path.read_bytes() for path in (tmp_path / folder / ".parts").glob("*.npz")}
        for folder in engines
    )
    assert len(here) == len(settings.tasks)
    assert there == here


def test_a_history_on_two_nodes_has_the_sums_of_this_process(cluster: Any, tmp_path: Path) -> None:
    """A folder of Parquet files, summed up part by part on whichever node is free."""
    for i, part in enumerate(letting_log(1000).iter_slices(250)):
        part.write_parquet(tmp_path / f"part-{i}.parquet")
    instance, found = letting(), []
    for engine in (Local(), Ray()):
        parts = open_log(tmp_path, instance).parts()
        plan = plan_of(instance, BetaThompson(), pilot_of(parts, 200)[0], units=2, is_whole=False)
        found.append([to_bytes(sums) for sums, _ in sums_of_parts(plan, parts, engine)])
    assert len(found[0]) == 4
    assert found[0] == found[1]


def test_a_node_killed_in_mid_run_changes_no_byte(cluster: Any, tmp_path: Path) -> None:
    """Numbers that hang on the task alone."""
    tasks = [Draws(seed, LARGE, str(tmp_path)) for seed in range(8)]
    lose_a_node(cluster, tmp_path, toy_tasks.draw_on_a_node, tasks, expected(tasks))


def test_a_node_killed_under_the_protocol_changes_no_byte(cluster: Any, tmp_path: Path) -> None:
    """Its real methods, on a world of its own."""
    tasks = [Traced(i, task, str(tmp_path)) for i, task in enumerate(REAL.tasks)]
    whole = {i: to_bytes(run_task(task)) for i, task in enumerate(REAL.tasks)}
    lose_a_node(cluster, tmp_path, toy_tasks.method_on_a_node, tasks, whole)


def lose_a_node(
    cluster: Any, folder: Path, function: Any, tasks: list[Any], whole: dict[int, bytes]
) -> None:
    """Its task at work runs again on the node that is left, and so does its unfetched result.

    The head is kept busy until the second node has handed over one result, has another that
    nobody fetched, and is at work on a third task. Then it is killed.
    """
    second = next(iter(cluster.worker_nodes), None) or cluster.add_node(**NODE)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    head = ray.get_runtime_context().get_node_id()
    here = scheduling.NodeAffinitySchedulingStrategy(head, soft=False)
    busy = ray.remote(scheduling_strategy=here)(toy_tasks.keep_busy).remote(folder)
    toy_tasks.wait_for(folder / "busy")  # else the head may take a task before it
    found: dict[int, bytes] = {}
    for index, result in Ray().run(function, tasks):
        assert index not in found
        found[index] = to_bytes(result)
        if len(found) == 1:
            toy_tasks.wait_for(folder / f"1-{second.node_id}.ended")
            toy_tasks.wait_for(folder / f"2-{second.node_id}.began")
            cluster.remove_node(second, allow_graceful=False)
            (folder / "go").touch()
    ray.get(busy)
    assert found == whole
    began = [nodes_of(folder, seed) for seed in range(8)]
    assert began == [{second.node_id}, *[{second.node_id, head}] * 2, *[{head}] * 5]


def test_an_address_where_no_cluster_is_gets_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence names the address, at once."""
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(InvalidInput, match="ray: could not reach the cluster at RAY_ADDRESS=127"):
        list(Ray(1).run(toy_tasks.draw, [Draws(0)]))


def test_without_an_address_ray_starts_here_and_ends_with_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The bytes of this process again."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    tasks = [Draws(seed) for seed in range(6)]
    found = {index: to_bytes(result) for index, result in Ray(2).run(toy_tasks.draw, tasks)}
    assert found == expected(tasks)
    assert not ray.is_initialized()
