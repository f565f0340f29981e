"""The tool gate measured on agentdojo: what it lets attacks do, and what it costs useful work.

    python -m benchmarks.tool_gate
    python -m benchmarks.tool_gate --suites banking --attacks direct

Every user task of a suite is run with every injection task that has a ground truth, by a scripted
agent that executes the ground truth of its task and of whatever attack it reads. It is judged by
agentdojo's own checks.
The rules were chosen on banking and slack; workspace and travel were run once they stood. The
attack 'bare' is the goal of the injection without any wording around it. Utility has intervals over
user tasks, attack success over injection tasks: goals are what an attacker chooses. Takes some five
minutes of one core.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.table import Table

from gdcb.instances.tools import dojo
from gdcb.instances.tools.dojo import Ran
from gdcb.instances.tools.guard import Guard
from gdcb.instances.tools.screening import Screening

GATES: dict[str, Screening | None] = {
    "no gate": None,
    "gate": Screening(),
    "addresses alone": Screening(orders="none"),
    "wording alone": Screening(values="none"),
    "all values": Screening(values="all"),
}
ATTACKS = ("important_instructions", "bare")
_RESAMPLES = 2000


def interval(hits: Sequence[bool], cluster: Sequence[str]) -> tuple[float, float]:
    """Return a 95 % interval of a share whose rows are alike within a cluster (a task).

    Clusters are resampled (2,000 times, seed 0). Where all rows agree that says nothing, and the
    limits are those of Clopper and Pearson with one row a cluster.

    >>> interval([True, True, False, False], ["a", "a", "b", "b"])
    (0.0, 1.0)
    >>> [round(limit, 3) for limit in interval([False] * 10, list("abcdefghij"))]
    [0.0, 0.308]
    """
    names = sorted(set(cluster))
    n = len(names)
    if len(set(hits)) == 1:
        tail = 0.025 ** (1.0 / n)
        return (tail, 1.0) if hits[0] else (0.0, 1.0 - tail)
    sums = {name: [0, 0] for name in names}
    for hit, name in zip(hits, cluster, strict=True):
        sums[name][0] += hit
        sums[name][1] += 1
    each = np.array([sums[name] for name in names], dtype=float)
    drawn = np.random.default_rng(0).integers(n, size=(_RESAMPLES, n))
    totals = each[drawn].sum(axis=1)
    low, high = np.quantile(totals[:, 0] / totals[:, 1], (0.025, 0.975))
    return float(low), float(high)


def share(runs: Sequence[Ran], field: str) -> str:
    """Return a share of runs in per cent with its interval."""
    hits = [bool(getattr(run, field)) for run in runs]
    by = "injection_task" if field == "is_harmed" else "user_task"
    low, high = interval(hits, [str(getattr(run, by)) for run in runs])
    return f"{100 * np.mean(hits):.1f} [{100 * low:.0f}, {100 * high:.0f}]"


def guards(suite: str) -> dict[str, Guard | None]:
    """Return every gate that is compared, for one suite."""
    made = dojo.suite_named(suite)
    return {
        name: None if screening is None else dojo.guard_for(made, screening)
        for name, screening in GATES.items()
    }


def benign(suite: str) -> dict[str, list[Ran]]:
    """Run every user task without an attack behind every gate."""
    made = dojo.suite_named(suite)
    return {
        name: [dojo.run_benign(made, user, guard) for user in made.user_tasks]
        for name, guard in guards(suite).items()
    }


def attacked(suite: str, attack: str) -> dict[str, list[Ran]]:
    """Run every user task with every injection behind every gate."""
    made, all_guards = dojo.suite_named(suite), guards(suite)
    wording = dojo.attack_named(attack, made)
    found: dict[str, list[Ran]] = defaultdict(list)
    injections = dojo.scripted(made)
    for user in made.user_tasks:
        for injection in injections:
            runs = dojo.run_attacked(made, user, injection, all_guards, wording)
            for name, run in runs.items():
                found[name].append(run)
    return dict(found)


def half_of(suite: str) -> str:
    """Return which half a suite belongs to."""
    return "developed on" if suite in dojo.DEVELOPED else "reported"


def rules_of(run: Ran, is_users: bool) -> set[str]:
    """Return the rules by which calls were blocked in a run: the user's own, or the attack's."""
    rules = ("secret", "injected", "invalid")
    said = [blocked.reason for blocked in run.blocked if blocked.is_users == is_users]
    return {rule for rule in rules if any(f": {rule}: '" in reason for reason in said)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suites", nargs="+", default=dojo.SUITES, choices=dojo.SUITES)
    parser.add_argument("--attacks", nargs="+", default=ATTACKS)
    asked = parser.parse_args()
    console = Console(width=150)
    console.print(
        f"agentdojo, benchmark {dojo.VERSION}; shares in % with 95 % intervals over tasks"
    )
    table = Table("suite", "half", "tasks", *GATES, title="Utility without an attack")
    lost: Counter[str] = Counter()
    for suite in asked.suites:
        runs = benign(suite)
        cells = [share(some, "is_useful") for some in runs.values()]
        table.add_row(suite, half_of(suite), str(len(runs["gate"])), *cells)
        for run in runs["gate"]:
            lost.update(f"{suite}: {b.tool} ({'/'.join(rules_of(run, True))})" for b in run.blocked)
    console.print(table)
    console.print("Useful calls that the gate blocked:", dict(lost))
    for attack in asked.attacks:
        harm = Table("suite", "half", "pairs", *GATES, title=f"Attack success: {attack}")
        useful = Table("suite", "half", "pairs", *GATES, title=f"Utility under attack: {attack}")
        passed: Counter[str] = Counter()
        for suite in asked.suites:
            runs = attacked(suite, attack)
            head = (suite, half_of(suite), str(len(runs["gate"])))
            harm.add_row(*head, *(share(some, "is_harmed") for some in runs.values()))
            useful.add_row(*head, *(share(some, "is_useful") for some in runs.values()))
            harmed = [run for run in runs["gate"] if run.is_harmed]
            passed.update(f"{suite} {run.injection_task}" for run in harmed)
        console.print(harm)
        console.print("Attacks that the gate let through:", dict(passed))
        console.print(useful)


if __name__ == "__main__":
    main()
