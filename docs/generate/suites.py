"""What a gate of tool calls stops and what it costs, drawn from the table of the page itself."""

from __future__ import annotations

import re
from pathlib import Path

from docs.generate.chart import Axis, Line, Panel, figure

PAGE = Path(__file__).parents[1] / "domains" / "tools.md"


def tools() -> str:
    """Draw what the gate stops and what it costs, from the table of the page itself."""
    suites, cells = measured(PAGE.read_text(encoding="utf-8"))
    harm = (
        ("no gate", "attack success, no gate", "c-red", "square"),
        ("gate", "… gate, `important_instructions`", "c-ours", "dot"),
        ("gate, no wording", "… gate, the goal without any wording", "c-green", "triangle"),
    )
    use = (
        ("no gate", "utility, no attack, no gate", "c-red", "square"),
        ("gate", "utility, no attack, gate", "c-ours", "dot"),
        ("strict setting", "utility, no attack, strict setting", "c-purple", "diamond"),
    )
    says = "Without the gate nearly every attack succeeds; with it few do, most of them in travel."
    panels = (
        _suites("Attacks that succeed", says, suites, cells, harm),
        _suites(
            "Useful work that gets done, no attack",
            "Without a gate all of it, with the gate most of it, in the strict setting less.",
            suites,
            cells,
            use,
        ),
    )
    caption = (
        "Shares with 95 % intervals, from the table under 'Behind the gate'. Tasks, attacks and "
        "checks are agentdojo's; the agent is scripted and obeys every order that it reads, so the "
        "shares without a gate are an upper bound and no model's."
    )
    return figure("tools", panels, caption)


def measured(page: str) -> tuple[list[str], dict[str, list[tuple[float, float, float]]]]:
    r"""Read the table of a page: suites, and (share, low, high) of each by the name of its row.

    >>> measured("| | a (b) | c |\n|---|---|---|\n| no gate | 96 [89, 100] | 100 |")
    (['a', 'c'], {'no gate': [(96.0, 89.0, 100.0), (100.0, 100.0, 100.0)]})
    """
    lines = [line for line in page.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    suites = [cell.split(" (")[0] for cell in rows[0][1:]]
    found = {}
    for name, *cells in rows[2:]:
        read = [[float(number) for number in re.findall(r"[\d.]+", cell)] for cell in cells]
        if all(len(one) in (1, 3) for one in read):
            found[name] = [(one[0], one[-2] if one[1:] else one[0], one[-1]) for one in read]
    return suites, found


def _suites(
    title: str,
    says: str,
    suites: list[str],
    cells: dict[str, list[tuple[float, float, float]]],
    shown: tuple[tuple[str, str, str, str], ...],
) -> Panel:
    """Return a panel with suites along x, a marker and an interval for each of what is shown."""
    lines, points, words = [], [], [says]
    for j, (name, row, colour, shape) in enumerate(shown):
        places = [(i + 1 + 0.22 * (j - 1), cells[row][i][0]) for i in range(len(suites))]
        points.append((colour, shape, 4.0, places))
        for (x, _), (_, low, high) in zip(places, cells[row], strict=True):
            lines.append(Line("", (x, x), (low, high), colour))
        shares = ", ".join(f"{s} {v:g} %" for s, (_, v) in zip(suites, places, strict=True))
        words.append(f"{name}: {shares}.")
    return Panel(
        title,
        " ".join(words),
        Axis("suite of agentdojo", (0.5, len(suites) + 0.5), names=suites),
        Axis("share", (0, 20, 40, 60, 80, 100), " %"),
        lines,
        points=points,
        legend=[(name, colour, shape) for name, _, colour, shape in shown],
    )
