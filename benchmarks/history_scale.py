"""A history larger than memory, certified and started from in streaming: rows a second, memory.

    python -m benchmarks.history_scale --rows 100000000 --folder FOLDER
    python -m benchmarks.history_scale --rows 2000000 --engines local,pool

It writes a folder of Parquet files (made: eight features, 25 arms of which contexts choose, a
reward), unless the folder holds one of that size already; scans the same columns with Polars
alone; certifies it and starts 25 independent arms warm, on each engine; and says whether all
engines gave the same numbers. `ray` is a cluster of two nodes on this machine. A hundred million
rows take 9 GB of disk and some minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.protocol_time import cost_of
from gdcb import Bounds, GaussianThompson, Instance, Multiply, Number, Scaled, Schema
from gdcb.arms import ArmList
from gdcb.engine.base import cores

ROWS = 100_000_000
FILE_ROWS = 1_000_000
FEATURES = tuple(f"x{j + 1}" for j in range(8))
ARMS = tuple(float(value) for value in np.linspace(0.5, 1.7, 25).round(3))
NODE = {"num_cpus": 1, "object_store_memory": 300 * 2**20, "include_dashboard": False}


def instance() -> Instance:
    """Return what is to be started warm: 25 levels, rewards, bounds."""
    return Instance(
        name="large",
        context=Schema({name: Number(-10, 10) for name in FEATURES}),
        arms=ArmList(values=ARMS),
        composition=Multiply(names=("level",)),
        gate=Bounds(low=0.1, high=3.0),
        reward=Scaled(outcome=("reward",)),
    )


def bandit() -> GaussianThompson:
    """Return independent arms."""
    return GaussianThompson()


def write(folder: Path, rows: int) -> None:
    """Write made rows: levels follow a context, rewards follow level and context."""
    import polars as pl

    weights = np.array([0.3, -0.2, 0.15, 0.1, -0.1, 0.05, 0.0, 0.0])
    for at in range(0, rows, FILE_ROWS):
        path = folder / f"part-{at // FILE_ROWS:05}.parquet"
        if path.exists():
            continue
        n = min(FILE_ROWS, rows - at)
        rng = np.random.default_rng((7, at))
        x = rng.standard_normal((n, 8)).clip(-9, 9)
        place = 12.0 + 4.0 * x[:, 0] + 6.0 * rng.standard_normal(n)
        level = np.array(ARMS)[np.clip(np.round(place), 0, 24).astype(np.int64)]
        reward = 1.0 - (level - 1.1) ** 2 + x @ weights + rng.standard_normal(n)
        columns: dict[str, Any] = {name: x[:, j] for j, name in enumerate(FEATURES)}
        columns |= {"level": level, "reward": reward, "time": 1_500_000_000 + at + np.arange(n)}
        frame = pl.DataFrame(columns).with_columns(pl.from_epoch("time", time_unit="s"))
        frame.write_parquet(path.with_suffix(".tmp"), compression="lz4", row_group_size=2**18)
        path.with_suffix(".tmp").rename(path)
        sys.stderr.write(f"\r{at + n:,} of {rows:,} rows written")
    sys.stderr.write("\n")


def scan(folder: Path) -> dict[str, Any]:
    """Read the same columns with Polars alone, in streaming: the sum of each."""
    import polars as pl

    numbers = [*FEATURES, "level", "reward"]
    start = time.perf_counter()
    lazy = pl.scan_parquet(folder / "*.parquet").select(
        *(pl.col(name).sum() for name in numbers), pl.col("time").max(), n=pl.len()
    )
    found = lazy.collect(engine="streaming")
    return {"seconds": time.perf_counter() - start, "rows": int(found["n"][0])}


def certify_and_start(folder: Path, engine: str) -> dict[str, Any]:
    """Certify the folder and start the arms warm."""
    from gdcb.engine import named
    from gdcb.history import certify, open_log
    from gdcb.history.warm import start

    with_cluster = _cluster() if engine == "ray" else None
    begun = time.perf_counter()
    source = open_log(folder, instance())
    found = certify(source, instance(), bandit(), engine=named(engine))
    group = np.zeros(1, dtype=np.int64)
    state, _ = start(found, source, instance(), bandit(), group)
    seconds = time.perf_counter() - begun
    if with_cluster is not None:
        with_cluster.shutdown()
    document = found.as_json()
    return {
        "seconds": seconds,
        "rows": document["rows"]["read"],
        "verdict": found.verdict,
        "arms": [arm.verdict for arm in found.arms],
        "bias": [arm.bias for arm in found.arms],
        "n_eff": [arm.n_eff for arm in found.arms],
        "estimate": state.bandit.estimate[0].tolist(),
        "weight": state.bandit.weight[0].tolist(),
        "fingerprint": document["fingerprint"],
    }


def _cluster() -> Any:
    """Start two nodes on this machine, and let the engine find them as users' are found."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    nodes = import_module("ray.cluster_utils").Cluster(initialize_head=True, head_node_args=NODE)
    nodes.add_node(**NODE)
    os.environ["RAY_ADDRESS"] = nodes.address
    return nodes


def measured(folder: Path, what: str) -> dict[str, Any]:
    """Do one thing in a process of its own, and say what it took, its children included."""
    with tempfile.TemporaryDirectory(prefix="gdcb-scale-") as place:
        answer = Path(place) / "answer.json"
        words = [sys.executable, "-m", "benchmarks.history_scale", "--child", what]
        cost = cost_of([*words, "--folder", str(folder), "--answer", str(answer)])
        found: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    return found | {"cpu": cost.cpu, "memory": cost.memory}


def report(rows: int, plain: dict[str, Any], by_engine: dict[str, dict[str, Any]]) -> str:
    """Return the table as Markdown, and whether all engines agree."""
    machine = f"Python {platform.python_version()}, NumPy {np.__version__}"
    lines = [
        f"{rows:,} rows, 8 features, 25 arms; {cores()} cores, gdcb {version('gdcb')}, {machine}.",
        "",
        "| what | time | rows a second | share of the scan's | memory at most |",
        "|---|---|---|---|---|",
    ]
    base = plain["rows"] / plain["seconds"]
    for name, found in [("Polars scan of the same columns", plain), *by_engine.items()]:
        speed = found["rows"] / found["seconds"]
        memory = "not known" if found["memory"] is None else f"{found['memory'] / 1e9:.2f} GB"
        title = name if found is plain else f"certificate and warm start, `{name}`"
        cells = (
            title,
            f"{found['seconds']:,.1f} s",
            f"{speed:,.0f}",
            f"{speed / base:.2f}",
            memory,
        )
        lines.append(f"| {' | '.join(cells)} |")
    first = next(iter(by_engine.values()))
    lines += ["", f"Verdict: {first['verdict']}. {_agreement(by_engine)}"]
    return "\n".join(lines)


def _agreement(by_engine: dict[str, dict[str, Any]]) -> str:
    keys = ("verdict", "arms", "bias", "n_eff", "estimate", "weight", "fingerprint", "rows")
    told = {json.dumps([found[key] for key in keys]) for found in by_engine.values()}
    names = " and ".join(by_engine)
    if len(told) > 1:
        return f"{names} DIFFER."
    return f"{names} gave the same numbers to the last bit." if len(by_engine) > 1 else ""


def main(arguments: Sequence[str] | None = None) -> None:
    """Write, measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.history_scale")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument(
        "--folder", type=Path, help="where the files are, and stay; default: a folder that goes"
    )
    parser.add_argument("--engines", default="pool,ray", help="of local, pool and ray")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--answer", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.child:
        found = (
            scan(asked.folder)
            if asked.child == "scan"
            else certify_and_start(asked.folder, asked.child)
        )
        asked.answer.write_text(json.dumps(found), encoding="utf-8")
        return
    with tempfile.TemporaryDirectory(prefix="gdcb-scale-") as place:
        folder = asked.folder or Path(place)
        folder.mkdir(parents=True, exist_ok=True)
        write(folder, asked.rows)
        plain = measured(folder, "scan")
        by_engine = {name: measured(folder, name) for name in asked.engines.split(",")}
    sys.stdout.write(report(asked.rows, plain, by_engine) + "\n")


if __name__ == "__main__":
    main()
