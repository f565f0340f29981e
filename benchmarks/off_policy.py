"""How often off-policy intervals hold the truth, on gated logs with overrides: Markdown tables.

    python -m benchmarks.off_policy
    python -m benchmarks.off_policy --logs 100 --engine local --json found.json

Every log has a demand of its own, and its contexts are drawn from 4,000 fixed ones, so that the
value of a target is a finite sum and known exactly. A thousand logs take some ten minutes of one
core. Where the peers are installed (`make bench`), the estimates are also laid beside obp's on the
same rows: they agree to 1e-8.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.off_policy_logs import (
    REWARDS,
    TARGETS,
    Contexts,
    cell_gap,
    made_log,
    weight_bound,
)
from benchmarks.peers_driver import PYTHON, ROOT
from gdcb.analysis import Feedback, behaviour_model, estimate, evaluate, outcome_model
from gdcb.analysis.off_policy.bootstrap import FORMS, draw_again
from gdcb.analysis.off_policy.estimators import ESTIMATORS, terms_of, weights_of
from gdcb.arrays import Array
from gdcb.engine import NAMES, named

LOGS, ROWS, SEED, LEVEL, DRAWS = 1000, 2000, 20261115, 0.95, 1000
EVERY = 5  # one log of so many is also valued with estimated propensities
A_TASK = 25  # logs
CONTEXTS = 4000
LEAST_ESS = 500.0
DRAWN = ("snips", "dr", "ips")
SURE = ("ips", "snips", "dr")
SWITCH = 4.0  # where the estimates are laid beside obp's
TOLERANCE = 1e-8


class Task(NamedTuple):
    """Some logs: their numbers, and their rows each."""

    logs: tuple[int, ...]
    rows: int
    seed: int


@cache
def contexts() -> Contexts:
    """Return the contexts of all logs; the gates' kernel there is worked out once a process."""
    return Contexts.drawn(CONTEXTS, SEED)


def some_logs(task: Task) -> dict[str, Array]:
    """Return truth, effective rows, estimates and limits of some logs, by what they are of."""
    found: dict[str, list[Any]] = {}
    for number in task.logs:
        for name, value in one_log(number, task.rows, task.seed).items():
            found.setdefault(name, []).append(value)
    return {name: np.array(values, dtype=float) for name, values in found.items()}


def one_log(number: int, rows: int, seed: int) -> dict[str, Any]:
    """Value both targets from one log: 'target/estimator/interval' → estimate, low, high."""
    log = made_log(rows, seed + number, contexts())
    x, cell, reward = log.x, log.cell, log.reward
    n_cells = log.kernel.shape[2]
    model = np.clip(outcome_model(x, cell, reward, n_cells, degree=2), *REWARDS)
    law = behaviour_model(x, cell, n_cells, degree=2) if number % EVERY == 0 else None
    found: dict[str, Any] = {"overridden": log.is_overridden.mean()}
    for target in TARGETS:
        feedback = log.feedback(target, model)
        w = feedback.weight
        found[f"{target}/truth"] = contexts().true_value(target, log.demand)
        found[f"{target}/ess"] = w.sum() ** 2 / (w**2).sum()
        found |= _estimated(target, feedback, number)
        if law is not None:
            fitted = log.feedback(target, model, law)
            for estimator in ("snips", "dr"):
                key = f"{target}/{estimator}, propensities estimated/studentised"
                found[key] = _drawn(fitted, estimator, number)["studentised"]
    return found


def _estimated(target: str, feedback: Feedback, number: int) -> dict[str, Any]:
    found: dict[str, Any] = {f"{target}/{name}": estimate(feedback, name) for name in ESTIMATORS}
    for name in DRAWN:
        for form, limits in _drawn(feedback, name, number).items():
            found[f"{target}/{name}/{form}"] = limits
    bound = weight_bound(target)
    for name in SURE:
        for kind in ("bernstein", "betting"):
            value = evaluate(
                feedback, name, kind, None, LEVEL, reward_range=REWARDS, weight_bound=bound
            )
            found[f"{target}/{name}/{kind}"] = (value.mean, value.low, value.high)
    return found


def _drawn(feedback: Feedback, estimator: str, number: int) -> dict[str, tuple[float, ...]]:
    """Return estimate and limits by form: all forms of one log share their draws."""
    terms = terms_of(feedback, estimator, weights_of(feedback, estimator, None))
    drawn = draw_again(terms, None, DRAWS, np.random.default_rng((SEED, number)))
    return {form: (terms.value, *drawn.interval(LEVEL, form)) for form in FORMS}


def study(logs: int, rows: int, seed: int, engine: str, workers: int | None) -> dict[str, Array]:
    """Return what all logs say, in their order."""
    numbers = np.array_split(np.arange(logs), max(1, logs // A_TASK))
    tasks = [Task(tuple(int(i) for i in part), rows, seed) for part in numbers]
    with closing(named(engine, workers).run(some_logs, tasks)) as results:
        parts = dict(results)
    ordered = [parts[i] for i in sorted(parts)]
    names = dict.fromkeys(name for part in ordered for name in part)
    return {name: np.concatenate([p[name] for p in ordered if name in p]) for name in names}


def coverage(found: dict[str, Array], least: float) -> list[dict[str, Any]]:
    """Return how often each interval held the truth, and how wide it was.

    Only logs with an effective sample size of `least` or more count.
    """
    rows = []
    for name, limits in found.items():
        if limits.ndim != 2:
            continue
        target, estimator, interval = name.split("/")
        truth, ess = found[f"{target}/truth"], found[f"{target}/ess"]
        if limits.shape[0] != truth.size:
            truth, ess = truth[::EVERY], ess[::EVERY]
        counts = ess >= least
        if not counts.any():
            continue
        inside = (limits[:, 1] <= truth) & (truth <= limits[:, 2])
        rows.append(
            {
                "target": target,
                "estimator": estimator,
                "interval": interval,
                "logs": int(counts.sum()),
                "covers": float(inside[counts].mean()),
                "below": float((truth < limits[:, 1])[counts].mean()),
                "above": float((truth > limits[:, 2])[counts].mean()),
                "width": float((limits[:, 2] - limits[:, 1])[counts].mean()),
            }
        )
    return rows


def errors(found: dict[str, Array]) -> list[dict[str, Any]]:
    """Return bias and root mean squared error of every estimator."""
    rows = []
    for target in TARGETS:
        truth = found[f"{target}/truth"]
        for estimator in ESTIMATORS:
            gap = found[f"{target}/{estimator}"] - truth
            rows.append(
                {
                    "target": target,
                    "estimator": estimator,
                    "bias": float(gap.mean()),
                    "rmse": float(np.sqrt((gap**2).mean())),
                }
            )
    return rows


def dr_ratio(rows: Sequence[dict[str, Any]], target: str) -> float:
    """Return the error of DR over that of the better of IPS and SNIPS."""
    rmse = {row["estimator"]: row["rmse"] for row in rows if row["target"] == target}
    return float(rmse["dr"] / min(rmse["ips"], rmse["snips"]))


def beside_obp(rows: int = ROWS, seed: int = SEED) -> dict[str, Any]:
    """Return the difference of every estimate from obp's on one log, or why there is none."""
    log = made_log(rows, seed, contexts())
    model = outcome_model(log.x, log.cell, log.reward, log.kernel.shape[2])
    feedback = log.feedback("far", model)
    # obp brings a law to the sum 1 in its direct method; the kernel's sums are off by rounding.
    law = feedback.target / feedback.target.sum(axis=1, keepdims=True)
    feedback = Feedback(log.cell, log.reward, feedback.behaviour, law, model)
    ours = {name: estimate(feedback, name) for name in ESTIMATORS if name != "switch-dr"}
    ours["switch-dr"] = estimate(feedback, "switch-dr", SWITCH)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npz"
        pscore = feedback.behaviour[np.arange(rows), log.cell]
        np.savez(
            path,
            action=log.cell,
            reward=log.reward,
            pscore=pscore,
            action_dist=law,
            q=model,
            switch=SWITCH,
        )
        words = [str(PYTHON), "-W", "ignore", "-m", "benchmarks.peers.obp_values", str(path)]
        if not PYTHON.exists():
            return {"reason": "the peers are not installed: make bench does it"}
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return {"reason": (done.stderr.strip().splitlines() or ["it said nothing"])[-1]}
    answer = json.loads(done.stdout)
    theirs = answer["values"]
    return {
        "version": answer["version"],
        "rows": rows,
        "ours": ours,
        "difference": {name: abs(ours[name] - theirs[name]) for name in theirs},
    }


def report(found: dict[str, Array], rows: int, least: float, obp: dict[str, Any]) -> str:
    """Put all of it into words and tables."""
    logs = found["near/truth"].size
    told, wrong = coverage(found, least), errors(found)
    ess = {target: found[f"{target}/ess"] for target in TARGETS}
    said = [
        f"{logs:,} logs of {rows:,} rows, {found['overridden'].mean():.0%} of them overridden. "
        + " ".join(
            f"Target '{target}': value {found[f'{target}/truth'].mean():.3f}, effective sample "
            f"size {np.median(ess[target]):,.0f} (least {ess[target].min():,.0f})."
            for target in TARGETS
        )
        + f" The standard error of a coverage of 95 % is {(0.95 * 0.05 / logs) ** 0.5:.1%}."
    ]
    heads = ("target", "estimator", "interval", "covers", "truth below, above", "width")
    cells = [
        (
            row["target"],
            row["estimator"],
            row["interval"],
            f"{row['covers']:.1%}",
            f"{row['below']:.1%}, {row['above']:.1%}",
            f"{row['width']:.3f}",
        )
        for row in told
    ]
    said.append(_markdown(heads, cells))
    said.append(
        _markdown(
            ("target", "estimator", "bias", "root mean squared error"),
            [
                (row["target"], row["estimator"], f"{row['bias']:+.4f}", f"{row['rmse']:.4f}")
                for row in wrong
            ],
        )
    )
    said += [
        f"DR over the better of IPS and SNIPS, target '{target}': {dr_ratio(wrong, target):.2f}."
        for target in TARGETS
    ]
    if "reason" in obp:
        said.append(f"Not laid beside obp: {obp['reason']}.")
    else:
        worst = max(obp["difference"].values())
        said.append(
            f"Beside obp {obp['version']} on {obp['rows']:,} rows, {len(obp['difference'])} "
            f"estimates: largest difference {worst:.0e}."
        )
    return "\n\n".join(said)


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study, and print its tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.off_policy",
        description="Coverage of off-policy intervals on simulated gated logs.",
    )
    parser.add_argument("--logs", type=int, default=LOGS)
    parser.add_argument("--rows", type=int, default=ROWS, help="of each log")
    parser.add_argument(
        "--least", type=float, default=LEAST_ESS, help="effective rows from which a log counts"
    )
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--engine", choices=NAMES, default="pool")
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--json", type=Path, default=None, help="write the figures there too")
    asked = parser.parse_args(arguments)
    found = study(asked.logs, asked.rows, asked.seed, asked.engine, asked.workers)
    obp = beside_obp(asked.rows, asked.seed)
    sys.stdout.write(report(found, asked.rows, asked.least, obp) + "\n")
    log = made_log(asked.rows, asked.seed, contexts())
    gaps = {target: float(cell_gap(log, target).mean()) for target in TARGETS}
    sys.stdout.write(
        "\nWhat cells hide (an arm's price and the manager's near it are one cell), on one log: "
        + ", ".join(f"{target} {gap:+.1e}" for target, gap in gaps.items())
        + ".\n"
    )
    if asked.json is not None:
        figures = {
            "logs": asked.logs,
            "rows": asked.rows,
            "seed": asked.seed,
            "least": asked.least,
            "coverage": coverage(found, asked.least),
            "errors": errors(found),
            "obp": obp,
            "cell_gap": gaps,
        }
        asked.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    worst = max(obp.get("difference", {"": 0.0}).values())
    if worst > TOLERANCE:
        sys.exit(f"an estimate differs from obp's by {worst:.1e}")


if __name__ == "__main__":
    main()
