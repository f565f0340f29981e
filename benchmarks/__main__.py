"""Print tables, each made in one run: `python -m benchmarks [references] [parts] ...`."""

from __future__ import annotations

import platform
import sys

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import claims, parts, peers_driver, references, speed

KNOWN = ("references", "parts", "speed", "claims")


def main(wanted: list[str]) -> None:
    """Measure and print."""
    console = Console(width=120)
    unknown = set(wanted) - set(KNOWN)
    if unknown:
        sys.exit(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(KNOWN)}")
    asked = wanted or list(KNOWN)
    if "references" in asked:
        table = Table("posterior", "peer", "largest difference", title="The same rows: to 1e-8")
        for row in references.table():
            table.add_row(*row)
        console.print(table)
    if "parts" in asked:
        table = Table("what", "measured", "goal", title="Learners, 25 arms, 10 features, one core")
        for row in parts.table():
            table.add_row(*row)
        console.print(table)
        units = ("µs", "/s", "/s", "s", "s")
        heads = [f"{task}, {u}" for task, u in zip(peers_driver.MEASURES, units, strict=True)]
        table = Table("peer", *heads, title="Every peer, in the same run")
        for cells in parts.every_peer():
            table.add_row(*cells)
        console.print(table)
        console.print("* not LinTS   † rows of a batch share a draw   ‡ arms share their draws")
    if "speed" in asked:
        table = Table("what", "measured", "goal", title="Speed, one core, in turns")
        for row in [*speed.decisions(), *speed.throughput(), *speed.import_time()]:
            table.add_row(*row)
        console.print(table)
    if "claims" in asked:
        table = Table(
            "rule", "regret", "without − with [95 %]", title="Rules of learning, on and off, paired"
        )
        for row in claims.table():
            table.add_row(*row)
        console.print(table)
    console.print(f"Python {platform.python_version()}, NumPy {np.__version__}")


main(sys.argv[1:])
