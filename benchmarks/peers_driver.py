"""Run the peers from our side: each task in a fresh process of the peers' interpreter."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from gdcb.arrays import Array

ROOT = Path(__file__).resolve().parents[1]
PYTHON = ROOT / ".peers/bin/python"
PEERS = ("mabwiser", "contextualbandits", "bayesianbandits", "river", "obp", "vowpalwabbit")
# What a task is judged by, and which way is better.
MEASURES: dict[str, tuple[str, Callable[..., Any]]] = {
    "lints-decision": ("us", min),
    "beta-sim": ("per_second", max),
    "lints-sim": ("per_second", max),
    "lints-batch": ("seconds", min),
    "history": ("seconds", min),
}


def command(name: str, *words: str) -> list[str]:
    """Return the command that runs a peer; start it in `ROOT`."""
    return [str(PYTHON), "-W", "ignore", "-m", f"benchmarks.peers.{name}", *words]


@cache
def run_peer(name: str, task: str, *words: str) -> dict[str, Any]:
    """Run one task of one peer, once in this process, and return what it answered.

    A task that the library lacks, or a library that is not installed, is a dictionary of one
    `reason`.
    """
    done = subprocess.run(
        command(name, task, *words), cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        return {"reason": (done.stderr.strip().splitlines() or ["it said nothing"])[-1]}
    answer = json.loads(done.stdout)
    if answer[task] is None:
        return {"reason": answer[f"{task}-reason"]}
    return {"version": answer["version"], **answer[task]}


def posterior(name: str, model: str, arm: Array, x: Array, y: Array, **prior: float) -> Any:
    """Return a peer's posterior of these rows, lists made arrays.

    Parameters
    ----------
    model
        "linear" (precision, noise), "beta" (a, b), "nig" (precision, a, b) or "logistic"
        (precision); every prior also says how many `arms` there are. What they mean is in the
        docstring of the peer's file.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npz"
        np.savez(path, arm=arm, x=x, y=y)
        answer = run_peer(name, "posterior", str(path), json.dumps({"model": model, **prior}))
    return {
        key: np.asarray(value) if isinstance(value, list) else value
        for key, value in answer.items()
    }


def all_peers(task: str) -> dict[str, dict[str, Any]]:
    """Run a task on every peer, one after the other."""
    return {name: run_peer(name, task) for name in PEERS}


def fastest(task: str, like_for_like: bool = True) -> tuple[str, dict[str, Any]]:
    """Return the fastest peer that learns, and what it answered.

    Like for like, it must also draw from a linear posterior where the task says LinTS, and give
    every row of a batch a draw of its own.
    """
    measure, better = MEASURES[task]
    able = {
        name: answer
        for name, answer in all_peers(task).items()
        if answer.get("learns")
        and not (like_for_like and not answer.get("is_lints", True) and task.startswith("lints"))
        and not (like_for_like and not answer.get("own_draws", True))
    }
    if not able:
        raise LookupError(f"no peer runs {task}")
    name = better(able, key=lambda peer: able[peer][measure])
    return name, able[name]
