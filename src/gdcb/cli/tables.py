"""What a run prints: methods side by side, and what the history was worth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from gdcb.protocol.metrics import in_words

HEADINGS = ("", "method", "regret", "above floor", "less B4")


def show(document: dict[str, Any], folder: Path, out: Console) -> None:
    """Print the table of a run and where its files are."""
    title = (document.get("about") or {}).get("title") or document["instance"]
    table = Table(
        *(
            Column(name, no_wrap=True, justify="left" if i < 2 else "right")
            for i, name in enumerate(HEADINGS)
        ),
        box=None,
        pad_edge=False,
        title=f"{title}, variant {document['variant']}: {document['replicates']} replicates of "
        f"{document['episodes']} episodes",
        caption="Regret a unit over all episodes, mean ± half a 95 % interval. less B4: paired\n"
        "difference from B4, * where Holm's interval excludes 0. w: warm, u: ungated.",
    )
    for key, method in document["methods"].items():
        against = method["vs_B4"]
        table.add_row(
            key,
            method["label"],
            _short(method["regret"]),
            _short(method["excess"]),
            "" if against is None else f"{against['mean']:+,.0f}{_star(against)}",
            style="bold" if key == "B4" else None,
        )
    out.print(table)
    if document["floor"] is not None:
        out.print(f"Gate floor (what even the best proposal loses): {_short(document['floor'])}")
    for sentence in _cold_start(document["cold_start"]):
        out.print(sentence)
    out.print(
        f"Report: [bold]{folder / 'report.html'}[/bold]  (simulated worlds: made, not real)",
        soft_wrap=True,
    )


def _short(estimate: dict[str, Any] | None) -> str:
    return "" if estimate is None else in_words(estimate)


def _star(against: dict[str, Any]) -> str:
    low, high = against["low"], against["high"]
    return "*" if low is not None and (low > 0 or high < 0) else " "


def _cold_start(found: dict[str, Any]) -> list[str]:
    """Say what the history was worth."""
    said = []
    total = (found.get("saving_at_50") or {}).get("total")
    if total is not None:
        said.append(f"Warm start: {100 * total['mean']:.1f} % less regret than cold at episode 50.")
    if found.get("warm_below_cold_from") is not None:
        said.append(f"Warm lies below cold from episode {found['warm_below_cold_from']} on.")
    if found.get("compression"):
        said.append(f"Cold-start compression: {found['compression']['sentence']}")
    return said
