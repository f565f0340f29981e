"""The table over all instances as plain data: what `gdcb run --all --json` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from gdcb.pages.numbers import Estimate
from gdcb.protocol.across.cells import cells
from gdcb.protocol.report.document import Best, Document, Method, names_in
from gdcb.protocol.report.read import read

GOAL = 0.5  # of the best rival's regret above the floor, where the truth is in the family
LOW = 0.1  # variance ratio below which a scaler is advised against


def whole(documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return all instances and variants, each with its methods, its standing and its cells.

    Parameters
    ----------
    documents : of runs, one an instance and variant

    Returns
    -------
    `runs`: of each, `instance`, `variant`, `title`, `unit`, `floor`, `variance_ratio`,
    `compression`, `methods` (key, label, regret, excess, against, difference, parts, override),
    `standing` (ratio to the best rival by start, whether GDCB is first, why not) and `cells`
    """
    return {"runs": [_run(document) for document in documents]}


def _run(document: Mapping[str, Any]) -> dict[str, Any]:
    run = read(document)
    start = run.cold_start
    compression = start.compression.sentence if start and start.compression else None
    return {
        "instance": run.instance,
        "variant": run.variant,
        "title": run.title,
        "unit": run.unit,
        "episodes": run.episodes,
        "replicates": run.replicates,
        "seed": document.get("seed"),
        "command": run.command,
        "floor": _plain(run.floor),
        "variance_ratio": _plain(run.variance_ratio),
        "compression": compression,
        "saving_at_50": _plain(start.saving_total if start else None),
        "methods": [_method(m, run) for m in run.distinct if not m.is_ungated],
        "standing": _standing(run),
        "cells": [asdict(cell) for cell in cells(run)],
        "readings": [asdict(one) for one in run.readings],
        "left_out": dict(document.get("left_out") or {}),
    }


def _plain(value: Estimate | None) -> dict[str, Any] | None:
    if value is None:
        return None
    return {"mean": value.mean, "low": value.low, "high": value.high}


def _method(method: Method, run: Document) -> dict[str, Any]:
    """Return one row; a rival without history is held against A3, all others against B4."""
    is_cold = method.is_rival and not method.is_warm and "A3" in run.methods
    return {
        "key": method.key,
        "label": method.label,
        "regret": _plain(method.regret),
        "excess": _plain(method.excess),
        "against": "A3" if is_cold else "B4",
        "difference": _plain(method.versus_cold if is_cold else method.versus),
        "parts": {name: _plain(part) for name, part in (method.parts or {}).items()},
        "override_rate": _override(method),
        "measures": {name: _plain(value) for name, value in method.measures.items()},
    }


def _override(method: Method) -> dict[str, Any] | None:
    if method.overrides is not None:
        return _plain(method.overrides.whole.changed)
    points = [point.mean for point in method.override_curve if point is not None]
    return {"mean": sum(points) / len(points), "low": None, "high": None} if points else None


def _standing(run: Document) -> dict[str, Any]:
    """Return how GDCB stands against the best rival that starts alike, and why where it loses."""
    found: dict[str, Any] = {}
    for start, key in (("warm", "B4"), ("cold", "A3")):
        best, ours = run.against_best.get(start), run.methods.get(key)
        if best is None or ours is None or best.ratio is None:
            found[start] = None
            continue
        is_first = best.ratio.mean < 1
        found[start] = {
            "rival": best.rival.key,
            "ratio": _plain(best.ratio),
            "is_first": is_first,
            "is_goal": best.ratio.mean <= GOAL,
            "why": "" if is_first else _why(run, ours, best),
        }
    return found


def _why(run: Document, ours: Method, best: Best) -> str:
    """Say in which part GDCB loses to a rival, and whether the variance ratio would have warned."""
    said = "The parts are not known."
    if ours.parts is not None and best.rival.parts is not None:
        theirs = best.rival.parts
        gaps = {name: ours.parts[name].mean - theirs[name].mean for name in names_in(ours.parts)}
        worst = max(gaps, key=lambda name: gaps[name])
        said = f"{ours.key} loses {gaps[worst]:.3g} more than {best.rival.key} in the {worst} part."
    ratio = run.variance_ratio
    if ratio is None:
        return f"{said} The history could not tell the variance ratio."
    if ratio.high is not None and ratio.high < LOW:
        return f"{said} The variance ratio, {ratio.mean:.2g}, advised against a scaler."
    return f"{said} The variance ratio, {ratio.mean:.2g}, would not have warned."
