"""Print tables, each made in one run: `python -m benchmarks [speed] [claims]`."""

from __future__ import annotations

import platform
import sys

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import claims, speed


def main(wanted: list[str]) -> None:
    """Measure and print."""
    console = Console(width=110)
    unknown = set(wanted) - {"speed", "claims"}
    if unknown:
        sys.exit(f"no benchmark {', '.join(sorted(unknown))}; there are speed and claims")
    if not wanted or "speed" in wanted:
        table = Table("what", "measured", "goal", title="Speed, one core, in turns")
        for row in [*speed.decisions(), *speed.throughput(), *speed.import_time()]:
            table.add_row(*row)
        console.print(table)
    if not wanted or "claims" in wanted:
        table = Table(
            "rule", "regret", "without − with [95 %]", title="Rules of learning, on and off, paired"
        )
        for row in claims.table():
            table.add_row(*row)
        console.print(table)
    console.print(f"Python {platform.python_version()}, NumPy {np.__version__}")


main(sys.argv[1:])
