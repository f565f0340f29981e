"""How often each verdict is given on made logs, and what it is worth: Markdown tables.

    python -m benchmarks.verdicts
    python -m benchmarks.verdicts --logs 20 --rows 1000 --kinds a,c,f2:0.5
    python -m benchmarks.verdicts --warm --rows 10000

Logs of known truth (`gdcb.theorems.made_logs` says how they are made, and with which effects) are
certified one by one. With `--warm` each log also starts a learner of its own, which then plays on
in the same market beside one that starts cold and one that believes every row. 'f2:0.5' is a log
in which half of the overrides follow the signal. It needs NumPy and SciPy only.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from gdcb import round as turn
from gdcb.arrays import Array
from gdcb.engine import NAMES, named
from gdcb.history.certificate import VERDICTS, Certificate
from gdcb.history.certification import certify
from gdcb.history.passage import passed_through
from gdcb.history.plan import teach_scaler
from gdcb.history.warm import warm_start
from gdcb.instance import Instance, Rules
from gdcb.records import Log
from gdcb.refold import refold
from gdcb.theorems.made_logs import (
    APPROVES,
    KINDS,
    Kind,
    MadeLog,
    instance_of,
    made_log,
    with_heed,
)
from gdcb.theorems.made_play import Start, as_share, cold, play, put
from gdcb.theorems.made_truth import truth_of

ROWS = (1_000, 10_000, 100_000)
LOGS = 400
ROUNDS = 200
HEEDS = (0.0, 0.05, 0.1, 0.25, 0.5, 1.0)  # of f2 in the table of starts
FOUND = 0.05  # posterior of 'no private information' below which the contrast has found some
NEAR = 0.05  # of the log's length: a change that is dated so near is dated right
STARTS = ("warm", "blind")
_AT_ONCE = 20  # logs a task


@dataclass(frozen=True)
class Task:
    """Logs `first` to `first + count − 1` of a kind and size."""

    kind: str
    rows: int
    first: int
    count: int
    seed: int
    scaler: str = ""

    def made(self) -> Kind:
        """Return the kind; one with a scaler may be given another."""
        kind = kind_of(self.kind)
        return replace(kind, scaler=self.scaler) if self.scaler and kind.scaler != "none" else kind


def kind_of(name: str) -> Kind:
    """Return a kind by name; 'f1:0.5' and 'f2:0.5' heed the signal half of the time."""
    key, _, heed = name.partition(":")
    if heed:
        return with_heed(float(heed), is_logged=key == "f1")
    return KINDS[key]


def certificate_of(log: MadeLog, full: bool) -> Certificate:
    """Return the certificate of one log; `full`: with what decides nothing, Λ* among it."""
    return certify(log.batch, log.instance, log.bandit, full=full)


def judge(task: Task) -> list[dict[str, Any]]:
    """Certify the logs of a task; return what was found of each."""
    kind = task.made()
    full = not kind.is_logged
    return [_judged(made_log(kind, task.rows, i, task.seed), full) for i in _numbers(task)]


def _numbers(task: Task) -> range:
    return range(task.first, task.first + task.count)


def _judged(log: MadeLog, full: bool) -> dict[str, Any]:
    started = time.perf_counter()
    document = certificate_of(log, full).as_json()
    spent = time.perf_counter() - started
    contrast = document.get("override_contrast")
    gates = [row_of(point["time"]) for gate in document["gates"] for point in gate["change_points"]]
    law = [row_of(point["time"]) for point in document["reward_law"]["change_points"]]
    return {
        "verdict": document["verdict"],
        "arms": [arm["verdict"] for arm in document["arms"]],
        "bias": [None if arm["bias"] is None else arm["bias"]["mean"] for arm in document["arms"]],
        "gate": _dated(gates, log.gate_changed, log.batch.n),
        "law": _dated(law, log.law_changed, log.batch.n),
        "posterior": None if contrast is None else contrast["posterior"],
        "lambda": odds_ratio_of(document),
        "tests": [test["name"] for test in document["tests"] if test["is_significant"]],
        "seconds": spent,
    }


def odds_ratio_of(document: dict[str, Any]) -> float | None:
    """Return Λ*, the hidden confounding from which on the best arm may be another."""
    found = (document.get("sensitivity") or {}).get("arms") or {}
    value = found.get("value")
    return None if value is None else float(value)


def row_of(moment: Any) -> float:
    """Return the row of a date: a made log's time is the row's number, read as seconds.

    >>> row_of("1970-01-01T00:10:00+00:00"), row_of(600)
    (600.0, 600.0)
    """
    if isinstance(moment, int | float):
        return float(moment)
    when = datetime.fromisoformat(moment)
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def _dated(found: list[float], truth: int | None, n: int) -> dict[str, Any]:
    """Return how many changes were found, and the error of the nearest as a share of the log."""
    off = None
    if truth is not None and found:
        off = min(abs(at - truth) for at in found) / n
    return {"found": len(found), "off": off}


def start(task: Task) -> dict[str, Any]:
    """Play on from the logs of a task: regret over all rounds, (count,) a start."""
    kind, zero = task.made(), np.zeros(1, dtype=np.int64)
    instance = instance_of(kind)
    logs = (made_log(kind, task.rows, i, task.seed) for i in _numbers(task))
    starts: dict[str, Start] = {}
    figures: list[dict[str, Any]] = []
    for place, log in enumerate(logs):
        if not starts:
            starts = {name: cold(instance, log.bandit, task.count) for name in ("cold", *STARTS)}
        certificate = certificate_of(log, full=not kind.is_logged)
        warm = turn.init(log.instance, log.instance.bind(log.bandit), zero)
        history = warm_start(certificate, log.batch, log.instance, log.bandit, warm, zero)
        for name, (state, rows) in {"warm": (warm, history.log), "blind": believed(log)}.items():
            put(starts[name], place, state)
            if instance.scaler.learns_from != "nothing":  # a refit reads them again
                mine = np.full(rows.unit.size, place)
                starts[name].past.append(replace(rows, unit=mine, group=mine))
        document = certificate.as_json()
        figures.append({"verdict": document["verdict"], "lambda": odds_ratio_of(document)})
    regret = {
        name: play(
            kind,
            instance,
            log.bandit,
            one,
            rounds=ROUNDS,
            first=task.first,
            seed=task.seed + 1 + task.first // _AT_ONCE,
        )
        .sum(axis=0)
        .tolist()
        for name, one in starts.items()
    }
    return {"regret": regret, "figures": figures}


def believed(log: MadeLog) -> tuple[turn.RoundState, Log]:
    """Return what a learner knows that believes every row, and the rows: no verdicts asked."""
    instance: Instance = replace(log.instance, rules=Rules(select="nominal", overrides="all"))
    bandit, zero = instance.bind(log.bandit), np.zeros(1, dtype=np.int64)
    state = turn.init(instance, bandit, zero)
    unit = np.zeros(log.batch.n, dtype=np.int64)
    history = passed_through(instance, log.batch, unit, unit)
    teach_scaler(instance, state, history.log, log.batch.label, zero)
    refold(instance, bandit, state, history.log, zero, zero)
    return state, history.log


def wilson(hits: int, n: int) -> tuple[float, float, float]:
    """Return a share and its 95 % interval (Wilson).

    Of 4 hits in 8, z² = 3.84: the middle is ½, the half-width 1.96·√(¼/8 + 3.84/256)/(1 + 0.48).

    >>> [round(part, 3) for part in wilson(4, 8)]
    [0.5, 0.215, 0.785]
    """
    z2 = 1.959963984540054**2
    share = hits / n
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = (z2 * (share * (1 - share) / n + z2 / (4 * n * n))) ** 0.5 / (1 + z2 / n)
    return share, max(0.0, middle - half), min(1.0, middle + half)


def collected(
    function: Callable[[Task], Any], tasks: Sequence[Task], engine: str, workers: int | None
) -> dict[tuple[str, int], list[Any]]:
    """Run tasks and put their results together by kind and size, in order."""
    results: dict[int, Any] = {}
    with closing(named(engine, workers).run(function, tasks)) as running:
        for at, result in running:
            results[at] = result
            print(f"\r{len(results)}/{len(tasks)} tasks", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    together: dict[tuple[str, int], list[Any]] = {}
    for at, task in enumerate(tasks):
        together.setdefault((task.kind, task.rows), []).append(results[at])
    return together


def verdict_rows(found: dict[tuple[str, int], list[Any]]) -> Iterator[dict[str, Any]]:
    """Yield the summary of every kind and size."""
    for (name, rows), parts in found.items():
        logs = [log for part in parts for log in part]
        kind, n = kind_of(name), len(logs)
        given = Counter(log["verdict"] for log in logs)
        untried = set(kind.untried)
        arms = [(i in untried, one) for log in logs for i, one in enumerate(log["arms"])]
        yield {
            "kind": name,
            "rows": rows,
            "logs": n,
            "verdicts": {one: wilson(given[one], n) for one in VERDICTS},
            "refused_untried": _share([one == "refuse" for is_out, one in arms if is_out]),
            "refused_tried": _share([one == "refuse" for is_out, one in arms if not is_out]),
            "gate_found": _share([log["gate"]["found"] > 0 for log in logs]),
            "gate_near": _near(logs, "gate", kind.approves_later != APPROVES),
            "law_found": _share([log["law"]["found"] > 0 for log in logs]),
            "law_near": _near(logs, "law", kind.law_changes),
            "contrast_found": _share(
                [log["posterior"] < FOUND for log in logs if log["posterior"] is not None]
            ),
            "lambda": _middle([log["lambda"] for log in logs if log["lambda"] is not None]),
            "true_lambda": float(truth_of(kind).odds_ratio.max()),
            "tests": dict(Counter(test for log in logs for test in log["tests"])),
            "seconds": float(np.mean([log["seconds"] for log in logs])),
        }


def _share(hits: Sequence[bool]) -> tuple[float, float, float] | None:
    return wilson(sum(hits), len(hits)) if hits else None


def _near(
    logs: list[dict[str, Any]], what: str, has_changed: bool
) -> tuple[float, float, float] | None:
    """Return the share of changes that were dated right, of all that there were."""
    if not has_changed:
        return None
    return _share([log[what]["off"] is not None and log[what]["off"] <= NEAR for log in logs])


def _middle(values: list[float]) -> list[float] | None:
    return [float(q) for q in np.quantile(values, (0.05, 0.5, 0.95))] if values else None


def start_rows(found: dict[tuple[str, int], list[Any]]) -> Iterator[dict[str, Any]]:
    """Yield warm − cold as a share of cold for every kind, size and start."""
    for (name, rows), parts in found.items():
        regret = {
            start: np.concatenate([part["regret"][start] for part in parts])[None]
            for start in ("cold", *STARTS)
        }
        figures = [one for part in parts for one in part["figures"]]
        given = Counter(one["verdict"] for one in figures)
        true_lambda = float(truth_of(kind_of(name)).odds_ratio.max())
        below = np.array(
            [one["lambda"] is not None and true_lambda < one["lambda"] for one in figures]
        )
        by_verdict = {
            verdict: _compared(regret, np.array([one["verdict"] == verdict for one in figures]))
            for verdict in VERDICTS
        }
        yield {
            "kind": name,
            "rows": rows,
            "verdicts": dict(given),
            "lambda": _middle([one["lambda"] for one in figures if one["lambda"] is not None]),
            "true_lambda": true_lambda,
            "below": float(below.mean()),
            "warm": as_share(regret["warm"], regret["cold"]),
            "blind": as_share(regret["blind"], regret["cold"]),
            "warm_below": _compared(regret, below),
            "by_verdict": by_verdict,
        }


def _compared(regret: dict[str, Array], which: Array) -> dict[str, Any] | None:
    """Return warm − cold over some logs; None: there are too few."""
    if which.sum() < 2:
        return None
    return as_share(regret["warm"][:, which], regret["cold"][:, which])


def percent(share: Sequence[float] | None) -> str:
    """Write a share with its interval."""
    if share is None:
        return "–"
    middle, low, high = (100.0 * part for part in share)
    return f"{middle:.1f} % [{low:.1f}, {high:.1f}]"


def difference(found: dict[str, Any] | None) -> str:
    """Write warm − cold as a share of cold."""
    return "–" if found is None else percent((found["mean"], found["low"], found["high"]))


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def verdict_table(rows: Sequence[dict[str, Any]]) -> str:
    """Write how often each verdict was given, and what was found."""
    given = [[*_place(row), *(percent(row["verdicts"][one]) for one in VERDICTS)] for row in rows]
    shares = ["gate_found", "gate_near", "law_found", "law_near", "contrast_found"]
    shares += ["refused_untried", "refused_tried"]
    found = [
        [
            *_place(row),
            *(percent(row[name]) for name in shares),
            _ratios(row["lambda"]),
            f"{row['true_lambda']:.2f}",
            f"{row['seconds']:.2f}",
        ]
        for row in rows
    ]
    head = ["log", "rows", "gate change found", f"dated within {NEAR:.0%}", "law change found"]
    head += [f"dated within {NEAR:.0%}", "contrast found", "untried arms refused"]
    head += ["tried arms refused", "Λ*: 5, 50, 95 %", "true Λ", "seconds a log"]
    return "\n\n".join((markdown(["log", "rows", *VERDICTS], given), markdown(head, found)))


def _place(row: dict[str, Any]) -> list[str]:
    return [row["kind"], f"{row['rows']:,}"]


def start_table(rows: Sequence[dict[str, Any]]) -> str:
    """Write what the starts are worth."""
    head = ["log", "rows", "verdicts", "cold", "warm", "warm − cold, of cold", "blind − cold"]
    head += ["true Λ", "Λ* (5, 50, 95 %)", "true Λ below Λ*", "warm − cold there"]
    body = [
        [
            *_place(row),
            ", ".join(f"{name} {count}" for name, count in sorted(row["verdicts"].items())),
            f"{row['warm']['cold']:.1f}",
            f"{row['warm']['warm']:.1f}",
            difference(row["warm"]),
            difference(row["blind"]),
            f"{row['true_lambda']:.2f}",
            _ratios(row["lambda"]),
            f"{row['below']:.0%}",
            difference(row["warm_below"]),
        ]
        for row in rows
    ]
    return markdown(head, body)


def _ratios(values: Sequence[float] | None) -> str:
    return "–" if values is None else ", ".join(f"{value:.2f}" for value in values)


def tasks_of(
    kinds: Sequence[str], sizes: Sequence[int], logs: int, seed: int, scaler: str = ""
) -> list[Task]:
    """Split the logs of every kind and size into tasks, the longest first."""
    return [
        Task(kind, rows, first, min(_AT_ONCE, logs - first), seed, scaler)
        for rows in sorted(sizes, reverse=True)
        for kind in kinds
        for first in range(0, logs, _AT_ONCE)
    ]


def main(wanted: Sequence[str] | None = None) -> None:
    """Make the logs, certify them, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verdicts", description=__doc__)
    parser.add_argument("--logs", type=int, default=LOGS, help="logs of each kind and size")
    parser.add_argument("--rows", default=",".join(map(str, ROWS)), help="sizes of the logs")
    parser.add_argument("--kinds", default="", help=f"some of {', '.join(KINDS)}, f2:0.5, …")
    parser.add_argument("--engine", choices=NAMES, default="pool")
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scaler", choices=("known", "labels"), default="", help="default: labels")
    parser.add_argument("--warm", action="store_true", help="compare warm, blind and cold starts")
    parser.add_argument("--json", type=Path, default=None, help="write the figures here, too")
    asked = parser.parse_args(wanted)
    sizes = [int(part) for part in asked.rows.split(",")]
    default = [*KINDS] if not asked.warm else _kinds_of_starts()
    kinds = asked.kinds.split(",") if asked.kinds else default
    for name in kinds:
        if name.partition(":")[0] not in KINDS:
            parser.error(f"no kind of log '{name}'; there are {', '.join(KINDS)}")
    began = time.perf_counter()
    # With δ* given to all, the cold start has only the arms to learn: the harder comparison.
    scaler = asked.scaler or ("known" if asked.warm else "labels")
    tasks = tasks_of(kinds, sizes, asked.logs, asked.seed, scaler)
    function: Callable[[Task], Any] = start if asked.warm else judge
    found = collected(function, tasks, asked.engine, asked.workers)
    rows = list((start_rows if asked.warm else verdict_rows)(found))
    rows.sort(key=lambda row: (kinds.index(row["kind"]), row["rows"]))
    print((start_table if asked.warm else verdict_table)(rows))
    print(f"\n{asked.logs} logs each, seed {asked.seed}, {time.perf_counter() - began:.0f} s")
    if asked.json is not None:
        asked.json.write_text(json.dumps(rows, indent=1))


def _kinds_of_starts() -> list[str]:
    return [*(name for name in KINDS if name != "f2"), *(f"f2:{heed:g}" for heed in HEEDS)]


if __name__ == "__main__":
    main()
