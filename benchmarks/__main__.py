"""Print one table, made in one run."""

from __future__ import annotations

import platform

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.speed import decisions, import_time, throughput


def main() -> None:
    """Measure and print."""
    table = Table("what", "measured", "goal", title="gdcb: speed in one run, one core")
    for row in [*decisions(), *throughput(), *import_time()]:
        table.add_row(*row)
    console = Console(width=110)
    console.print(table)
    console.print(f"Python {platform.python_version()}, NumPy {np.__version__}")


main()
