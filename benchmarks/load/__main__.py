"""Load on loopback: single decisions and batches, at a rate and at twice that, beside floors.

    python -m benchmarks.load                       (about two minutes, SQLite)
    python -m benchmarks.load --seconds 600 --over 120
    python -m benchmarks.load --postgres 1 2 4      (a temporary PostgreSQL, so many processes)

Server and load are processes of their own. Single decisions: the rate of the floor (an endpoint
with the same group commit that decides nothing) and of the service, each as fast as it answers;
then an open loop at a share of what the service can do, and at twice that, where it sheds. Every
acknowledged decision is looked for in the ledger afterwards.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.load import floor
from benchmarks.load.client import Make, Seen, drive, post
from benchmarks.load.server import prepare
from gdcb.ledger.chain_check import check_chain
from gdcb.service.running import sql_store
from tests.postgres import new_cluster

PATH = "/v1/instances/listing/decisions"
CONNECTIONS = 64
ROWS = 1000
TIMES = 10  # that memory is looked at on the way


@dataclass
class Server:
    """A process that answers on a port."""

    port: int
    process: subprocess.Popen[bytes]

    def memory(self) -> float:
        """Return its resident memory in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024


@contextmanager
def running(module: str, **environment: str) -> Iterator[Server]:
    """Start a server and stop it at the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    known = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"} | environment
    process = subprocess.Popen([sys.executable, "-m", module, str(port)], env=known)
    try:
        _await(port, process)
        yield Server(port, process)
    finally:
        process.terminate()
        process.wait(timeout=60)


@contextmanager
def weighing(server: Server, every: float) -> Iterator[list[int]]:
    """Note a server's memory in MB: at the beginning, every so many seconds, and at the end."""
    found, is_over = [round(server.memory())], threading.Event()

    def weigh() -> None:
        while not is_over.wait(every):
            found.append(round(server.memory()))

    thread = threading.Thread(target=weigh)
    thread.start()
    try:
        yield found
    finally:
        is_over.set()
        thread.join()
    found.append(round(server.memory()))


def _await(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if process.poll() is not None:
            raise SystemExit("the server did not start")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit("the server does not answer")


def singles(key: str, run: str) -> Make:
    """Return requests for one decision each."""
    text = '{"id":"%s","context":{"base":%d,"occupancy":0.5},"unit":"unit %d"}'

    def make(i: int) -> tuple[str, bytes]:
        name = f"{run}-{i}"
        return name, post(PATH, "127.0.0.1", key, (text % (name, 100 + i % 50, i % 20)).encode())

    return make


def batches(key: str, run: str) -> Make:
    """Return requests for a batch of 1,000 decisions each, column by column."""
    columns = {"base": [100 + i % 50 for i in range(ROWS)], "occupancy": [0.5] * ROWS}
    rest = json.dumps({"columns": columns, "unit": "fleet"})[1:]

    def make(i: int) -> tuple[str, bytes]:
        name = f"{run}-{i}"
        body = f'{{"id":"{name}",{rest}'.encode()
        return name, post(f"{PATH}/batch", "127.0.0.1", key, body)

    return make


def load(server: Server, make: Make, seconds: float, rate: float | None, connections: int) -> Seen:
    """Drive one server; what stalls the load itself would be counted as its latency."""
    gc.collect()
    gc.disable()
    try:
        return asyncio.run(drive("127.0.0.1", [server.port], make, seconds, connections, rate))
    finally:
        gc.enable()


def on_postgres(args: argparse.Namespace) -> dict[str, Any]:
    """Measure single decisions and batches on PostgreSQL, with several numbers of processes."""
    found: dict[str, Any] = {}
    with ExitStack() as stack:
        cluster = new_cluster(fsync=True)
        stack.callback(cluster.remove)
        for n in args.postgres:
            db = cluster.url(cluster.create())
            key = prepare(db)
            said = json.dumps({"db": db, "waiting": args.waiting, "tick": 1.0})
            with ExitStack() as servers:
                all = [
                    servers.enter_context(running("benchmarks.load.server", GDCB_LOAD=said))
                    for _ in range(n)
                ]
                ports = [server.port for server in all]

                def go(make: Make, connections: int, ports: list[int] = ports) -> Seen:
                    return asyncio.run(
                        drive("127.0.0.1", ports, make, args.burst, connections, None)
                    )

                go(singles(key, "warm"), CONNECTIONS)
                one, many = go(singles(key, "s"), CONNECTIONS), go(batches(key, "b"), 4)
            found[f"processes_{n}"] = {
                "single": round(len(one.acknowledged) / one.wall),
                "batch_rows": round(ROWS * len(many.acknowledged) / many.wall),
                "p50_ms": round(one.quantile(0.5), 1),
                "p99_ms": round(one.quantile(0.99), 1),
                "status": dict(one.status + many.status),
                "lost": lost(db, [one, many]),
            }
    return found


def lost(db: str, seen: list[Seen]) -> int:
    """Return how many acknowledged requests are not in the ledger, whose chain must be whole."""
    store = sql_store(db)
    report = check_chain(store.read("listing"), store.head("listing"), "listing")
    if not report.ok:
        raise SystemExit(f"the chain is broken: {report.findings[:3]}")
    names = [name for one in seen for name in one.acknowledged]
    missing = 0
    for i in range(0, len(names), 500):
        some = names[i : i + 500]
        missing += len(some) - len(store.places("listing", some))
    store.close()
    return missing


def measure(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Measure everything on SQLite; return the figures."""
    found: dict[str, Any] = {}
    synced = sorted(floor.synced(str(folder / "synced"), min(2.0, args.burst)))
    found["fsync_p99_ms"] = synced[int(0.99 * len(synced))]
    found["fsync_median_ms"] = synced[len(synced) // 2]
    found["bare_inserts"] = floor.bare_inserts(str(folder / "bare.db"), min(3.0, args.burst))
    with running("benchmarks.load.floor", GDCB_FLOOR=str(folder / "floor.db")) as server:
        load(server, singles("none", "warm"), 1.0, None, CONNECTIONS)
        best = [
            load(server, singles("none", f"f{i}"), args.burst, None, CONNECTIONS) for i in range(2)
        ]
        found["floor"] = max(len(one.acknowledged) / one.wall for one in best)
        slow = load(server, singles("none", "slow"), args.burst, 0.5 * found["floor"], CONNECTIONS)
        found["floor_p99_ms"] = slow.quantile(0.99)
    db = str(folder / "service.db")
    found |= service(args, db, found["floor"])
    return found


def service(args: argparse.Namespace, db: str, base: float) -> dict[str, Any]:
    """Measure the service on one database."""
    key = prepare(db)
    found: dict[str, Any] = {}
    seen: list[Seen] = []
    said = json.dumps({"db": db, "waiting": args.waiting, "tick": 1.0})
    with running("benchmarks.load.server", GDCB_LOAD=said) as server:
        seen.append(load(server, singles(key, "warm"), 1.0, None, CONNECTIONS))
        best = [
            load(server, singles(key, f"s{i}"), args.burst, None, CONNECTIONS) for i in range(2)
        ]
        seen += best
        found["single"] = max(len(one.acknowledged) / one.wall for one in best)
        found["share_of_floor"] = found["single"] / base
        many = [load(server, batches(key, f"b{i}"), args.burst, None, 4) for i in range(2)]
        seen += many
        found["batch_rows"] = max(ROWS * len(one.acknowledged) / one.wall for one in many)
        target = args.target * base
        with weighing(server, args.seconds / TIMES) as weighed:
            at = load(server, singles(key, "at"), args.seconds, target, 4 * CONNECTIONS)
        found["target"] = target
        found["at_target"] = dict(at.status)
        found["p50_ms"], found["p99_ms"] = at.quantile(0.5), at.quantile(0.99)
        found["memory_mb"] = weighed
        over = load(server, singles(key, "over"), args.over, 2 * target, 16 * CONNECTIONS)
        found["over"] = dict(over.status)
        found["over_p99_ms"] = over.quantile(0.99)
        found["memory_over_mb"] = round(server.memory())
        seen += [at, over]
    found["acknowledged"] = sum(len(one.acknowledged) for one in seen)
    found["lost"] = lost(db, seen)
    return found


def shown(found: dict[str, Any]) -> Table:
    """Return the figures as a table."""
    table = Table(title=f"Load on loopback, {platform.machine()}, {os.cpu_count()} cores")
    table.add_column("what")
    table.add_column("figure", justify="right")
    for name, value in _flat(found):
        text = f"{value:,.2f}" if isinstance(value, float) else str(value)
        table.add_row(name, text)
    return table


def _flat(found: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield figures with their names, those of several numbers of processes one by one."""
    for name, value in found.items():
        if name.startswith("processes_"):
            yield from ((f"{name} {part}", figure) for part, figure in value.items())
        else:
            yield name, value


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="at the target rate")
    parser.add_argument("--over", type=float, default=10.0, help="seconds at twice the target")
    parser.add_argument("--burst", type=float, default=4.0, help="seconds of each closed loop")
    parser.add_argument("--target", type=float, default=0.6, help="share of the floor's rate")
    parser.add_argument("--waiting", type=int, default=512, help="commands that may wait")
    parser.add_argument("--postgres", type=int, nargs="+", default=[], help="processes")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.postgres:
        Console().print(shown(on_postgres(args)))
        return
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        found = measure(args, Path(folder))
    if args.json:
        print(json.dumps(found))
    else:
        Console().print(shown(found))


if __name__ == "__main__":
    main()
