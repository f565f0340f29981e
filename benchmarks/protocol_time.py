"""Time and memory of the whole protocol by its size: a Markdown table.

    python -m benchmarks.protocol_time
    python -m benchmarks.protocol_time --size 100x100 --size 500x200 --methods B1,B4

It runs `gdcb run str --engine pool`, each size once and into a folder that goes afterwards. All
sizes take some twenty minutes on two cores, so `make bench` leaves them out. Nothing else should
run beside it.
"""

from __future__ import annotations

import argparse
import mmap
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

from gdcb.engine.base import cores
from gdcb.errors import InvalidInput
from gdcb.protocol.methods import DEFAULT, SAME, parse

EVERY = 0.5  # seconds between two looks at the memory
PROC = Path("/proc")
UNKNOWN = "not known"


@dataclass(frozen=True)
class Size:
    """How much is asked of a run."""

    replicates: int
    episodes: int

    def __str__(self) -> str:
        return f"{self.replicates:,} × {self.episodes:,}"

    @property
    def pairs(self) -> int:
        """Replicates × episodes."""
        return self.replicates * self.episodes


SIZES = tuple(
    Size(*pair) for pair in ((100, 100), (100, 200), (200, 200), (500, 100), (500, 200), (500, 400))
)


@dataclass(frozen=True)
class Cost:
    """What a command took, its descendants included.

    Parameters
    ----------
    wall, cpu : seconds; CPU time is None where the system does not tell it
    memory : bytes at most; None where they cannot be seen
    """

    wall: float
    cpu: float | None
    memory: int | None


def tree_memory(root: int, proc: Path = PROC) -> int | None:
    """Return the resident bytes of a process and its descendants; None without Linux's /proc.

    Pages that processes share count in each, as in the sum of what `ps` says.
    """
    if not (proc / "self" / "statm").exists():
        return None
    children: dict[int, list[int]] = {}
    for path in proc.glob("[0-9]*/stat"):
        try:
            # The name before the last bracket may hold blanks and brackets of its own.
            parent = int(path.read_text(errors="replace").rpartition(")")[2].split()[1])
        except OSError:  # it ended meanwhile
            continue
        children.setdefault(parent, []).append(int(path.parent.name))
    pages, tree = 0, [root]
    while tree:
        pid = tree.pop()
        tree += children.get(pid, [])
        try:
            pages += int((proc / str(pid) / "statm").read_text().split()[1])
        except OSError:
            continue
    return pages * mmap.PAGESIZE


def cost_of(command: Sequence[str]) -> Cost:
    """Run a command to its end, its answer thrown away, and return what it took."""
    peak: int | None = None
    before, start = os.times(), time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            is_running = True
            while is_running:
                seen = tree_memory(process.pid)
                peak = seen if peak is None or seen is None else max(peak, seen)
                try:
                    process.wait(EVERY)
                    is_running = False
                except subprocess.TimeoutExpired:
                    continue
        except BaseException:
            process.kill()
            raise
    wall, after = time.perf_counter() - start, os.times()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, list(command))
    cpu = after.children_user - before.children_user
    cpu += after.children_system - before.children_system
    return Cost(wall, cpu if os.name == "posix" else None, peak)


def protocol(size: Size, methods: Sequence[str]) -> Cost:
    """Run the protocol with this very Python."""
    with tempfile.TemporaryDirectory(prefix="gdcb-time-", ignore_cleanup_errors=True) as folder:
        words = [sys.executable, "-m", "gdcb", "run", "str", "--engine", "pool", "--out", folder]
        words += ["--replicates", str(size.replicates), "--episodes", str(size.episodes)]
        return cost_of([*words, "--methods", ",".join(methods)])


def n_runs(methods: Sequence[str]) -> int:
    """Count the methods that run: two ablations are other methods by another name.

    >>> n_runs(["B1", "B4u", "A2"])
    2
    """
    return len({SAME.get(key, key) for key in methods})


def table(costs: Sequence[tuple[Size, Cost]], n_methods: int) -> str:
    """Return the rows as Markdown."""
    heads = (
        "replicates × episodes",
        "time",
        "CPU time",
        "CPU time a replicate, episode and method",
        "memory",
    )
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for size, cost in costs:
        cpu = each = memory = UNKNOWN
        if cost.cpu is not None:
            cpu = _seconds(cost.cpu)
            each = f"{cost.cpu / (size.pairs * n_methods) * 1e6:,.0f} µs"
        if cost.memory is not None:
            memory = f"{cost.memory / 1e9:.2f} GB"
        lines.append(f"| {size} | {_seconds(cost.wall)} | {cpu} | {each} | {memory} |")
    return "\n".join(lines)


def _seconds(value: float) -> str:
    return f"{value:,.0f} s" if value >= 10 else f"{value:.1f} s"


def linearity(costs: Sequence[tuple[Size, Cost]]) -> str:
    """Say how time grows with replicates × episodes.

    The line a + b · replicates · episodes has the least squared relative errors: noise of a time
    grows with it. Two sizes always lie on a line, so that it is drawn through three and more.
    """
    pairs = np.array([size.pairs for size, _ in costs], dtype=float)
    n_sizes = len(np.unique(pairs))
    if n_sizes < 2:
        return "Linearity: one size says nothing about it."
    said = []
    if n_sizes > 2:
        wall = np.array([cost.wall for _, cost in costs])
        slope, fixed = np.polyfit(pairs, wall, 1, w=1.0 / wall)
        off = np.abs((fixed + slope * pairs) / wall - 1.0).max()
        said.append(
            f"time is {fixed:.1f} s + {slope * 1e3:.3g} ms × replicates × episodes, "
            f"every size within {off:.0%}"
        )
    small, large = costs[int(pairs.argmin())], costs[int(pairs.argmax())]
    each = [
        (cost.wall if cost.cpu is None else cost.cpu) / size.pairs for size, cost in (small, large)
    ]
    kind = "time" if small[1].cpu is None else "CPU time"
    said.append(
        f"{kind} a replicate and episode at {large[0]} is {each[1] / each[0]:.2f} of that at "
        f"{small[0]}"
    )
    return f"Linearity: {'; '.join(said)}."


def conditions(n_methods: int, is_memory_known: bool) -> str:
    """Say what was measured, where and how."""
    memory = (
        "memory is the largest sum of resident memory over all processes, looked at twice a second"
        if is_memory_known
        else "memory is not known: it is read from /proc, which Linux has"
    )
    return (
        f"{n_methods} methods, `--engine pool` on {cores()} cores, gdcb {version('gdcb')}, "
        f"Python {platform.python_version()}, NumPy {np.__version__}; {memory}."
    )


def _size(text: str) -> Size:
    left, _, right = text.partition("x")
    if not (left.isdecimal() and right.isdecimal() and int(left) and int(right)):
        raise argparse.ArgumentTypeError(f"expected REPLICATESxEPISODES, got {text!r}")
    return Size(int(left), int(right))


def _methods(text: str) -> tuple[str, ...]:
    keys = tuple(dict.fromkeys(key.strip() for key in text.split(",")))
    try:
        for key in keys:
            parse(key)
    except InvalidInput as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return keys


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.protocol_time",
        description="Time and memory of `gdcb run str` by its size.",
    )
    parser.add_argument(
        "--size",
        type=_size,
        action="append",
        metavar="RxT",
        help="replicates x episodes, again for more; default: "
        + ", ".join(f"{size.replicates}x{size.episodes}" for size in SIZES),
    )
    parser.add_argument(
        "--methods", type=_methods, default=DEFAULT, help="keys such as B1,B4; default: all"
    )
    asked = parser.parse_args(arguments)
    sizes: Sequence[Size] = asked.size or SIZES
    costs: list[tuple[Size, Cost]] = []
    for i, size in enumerate(sizes, start=1):
        sys.stderr.write(f"{i} of {len(sizes)}: {size} ...\n")
        try:
            cost = protocol(size, asked.methods)
        except subprocess.CalledProcessError as error:
            sys.exit(f"gdcb run ended with code {error.returncode}: {' '.join(error.cmd)}")
        sys.stderr.write(f"{i} of {len(sizes)}: {size} took {_seconds(cost.wall)}\n")
        costs.append((size, cost))
    n_methods = n_runs(asked.methods)
    is_memory_known = all(cost.memory is not None for _, cost in costs)
    said = (conditions(n_methods, is_memory_known), table(costs, n_methods), linearity(costs))
    sys.stdout.write("\n\n".join(said) + "\n")


if __name__ == "__main__":
    main()
