"""What the theorems measure on an instance that the protocol runs: its methods, its history."""

from __future__ import annotations

from typing import Any

import numpy as np

from gdcb.analysis.cross_information import Design
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.instances import study
from gdcb.protocol.block import run_task
from gdcb.protocol.ground import Shared, shared_by
from gdcb.protocol.methods import methods_of
from gdcb.protocol.record import Record
from gdcb.protocol.task import GROUND, Task
from gdcb.theorems.verdict import Progress

VARIANTS = ("well", "mis")
_NEAR = 0.5  # steps within which what ran counts as an arm
# Of a record; the last is there where context is endogenous.
_MAIN, _ORDER = ("calibration", "bandit", "gate", "inherited"), ("bandit", "calibration", "gate")


def method_splits(
    name: str, seed: int, say: Progress, episodes: int = 30, replicates: int = 4
) -> dict[str, Any]:
    """Run every method that applies for some episodes and sum both splits.

    Returns the largest rest, and by variant and method the parts of both splits and whether they
    agree on the largest. Where a variant has no δ* only the main split is summed.
    """
    found: dict[str, Any] = {}
    for variant in VARIANTS:
        for key in methods_of(study(name, variant, {}, episodes)):
            say(f"both splits, {name} {variant}: {key}")
            record = run_task(Task(name, variant, (), seed, episodes, 0, replicates, key))
            if not isinstance(record, Record):
                raise TypeError(f"expected the record of {key}, got {type(record).__name__}")
            found[f"{variant} {key}"] = _of_record(record)
    both = [one["agree"] for one in found.values() if one["agree"] is not None]
    return {
        "rest": max(one["rest"] for one in found.values()),
        "cases": len(found),
        "rounds": len(found) * episodes * replicates,
        "compared": len(both),
        "agree": sum(both),
        "by_method": found,
    }


def _of_record(record: Record) -> dict[str, Any]:
    """Return rest and parts; the paper's order is None where there is no δ*."""
    total, main, paper = record.parts[..., 0], record.parts[..., 1:], record.parts_paper
    rest = float(np.abs(total - main.sum(axis=-1)).max())
    ours = _sums(main, _MAIN)
    if np.isnan(paper).all():
        return {"rest": rest, "agree": None, "main": ours, "paper": None}
    theirs = _sums(paper, _ORDER)
    # A round without the paper's parts is a rest without bounds, not one that is passed over.
    rests = np.nan_to_num(np.abs(total - paper.sum(axis=-1)), nan=np.inf)
    is_same = _largest(ours) == _largest(theirs)
    return {"rest": max(rest, float(rests.max())), "agree": is_same, "main": ours, "paper": theirs}


def _largest(parts: dict[str, float]) -> str:
    return max(parts, key=lambda part: abs(parts[part]))


def _sums(parts: Array, names: tuple[str, ...]) -> dict[str, float]:
    means = parts.mean(axis=1).sum(axis=0)
    return {name: float(value) for name, value in zip(names[: means.size], means, strict=True)}


def history_information(
    name: str, seed: int, say: Progress, replicates: int = 8
) -> dict[str, dict[str, Any]]:
    """Measure the cross-information of an instance's history, by variant.

    Where a history cannot tell, there is a sentence that says `why`, and no figure.
    """
    found: dict[str, dict[str, Any]] = {}
    for variant in VARIANTS:
        say(f"cross-information of {name}'s history, {variant}")
        shared = shared_by(Task(name, variant, (), seed, 1, 0, replicates, GROUND))
        try:
            found[variant] = _information(shared, replicates, seed)
        except InvalidInput as error:
            found[variant] = {"why": str(error)}
    return found


def _information(shared: Shared, replicates: int, seed: int) -> dict[str, Any]:
    """Return means over replicates, with an interval of ρ²."""
    log, found_rho2, noise = shared.history.log, [], []
    for group in range(replicates):
        design = design_of(shared, np.flatnonzero(log.group == group))
        cross = design.cross(n_bootstrap=1, seed=seed)
        found_rho2.append(cross.rho2)
        noise.append(0.0 if cross.noise is None else cross.noise)
    rho2 = np.array(found_rho2)
    half = 1.96 * rho2.std(ddof=1) / np.sqrt(replicates)
    return {
        "rho2": float(rho2.mean()),
        "low": float(rho2.mean() - half),
        "high": float(rho2.mean() + half),
        "noise": float(np.mean(noise)),
        "inflation": float((1.0 / (1.0 - rho2)).mean()),
        "rows": int((log.group == 0).sum()),
    }


def design_of(shared: Shared, rows: Array) -> Design:
    """Return some rows of the history as a design: arms under the best δ, the scaler's features.

    Where outcomes answer to the coordinate c = e/δ, their slope in log δ is proportional to c;
    where they answer to e − δ, or δ is no part of a coordinate, it is the same in all rows. The
    Fisher weight of a class is p(1 − p), p the arm's own share, with one row of each outcome added;
    that of a number is the same in all rows.
    """
    log, instance, subject = shared.history.log, shared.instance, shared.study
    some = shared.history.rows.take(rows)
    best = subject.delta(shared.world.state, some)[log.group[rows], np.arange(rows.size)]
    # Arms with a δ each are found without it, unless δ has several columns, as a gain needs them.
    delta = best if best.ndim > 2 else best.reshape(rows.size, -1, 1)[:, :1]
    located = instance.composition.locate(instance.space, log.action[rows][:, None], delta, some.x)
    near = located.steps[:, 0] <= _NEAR
    arm = np.where(near, located.arm[:, 0], -1)
    places = instance.context.positions
    columns = [place for feature in subject.features for place in places[feature]]
    n = instance.space.n
    slope, weight = None, None
    if instance.composition.joins == "product":
        slope = located.coord[:, 0, 0]
    if instance.reward.target == "class":
        paid = np.bincount(arm[near], log.y[rows][near], n) + 1.0
        p = paid / (np.bincount(arm[near], minlength=n) + 2.0)
        weight = (p * (1.0 - p))[np.maximum(arm, 0)]
    centre = shared.reference[:, columns].mean(axis=0)
    return Design(arm, some.x[:, columns], n, centre=centre, slope=slope, weight=weight)
