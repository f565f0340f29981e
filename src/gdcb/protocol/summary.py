"""The document of a run: `summary.json`, and what `gdcb run --json` prints.

Every estimate is `{mean, low, high}`; curves are lists of these, one an episode; what was not
reached or does not apply is null. Records are asked for one at a time, and only what is compared
between methods is kept.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.history.certificate import FATES
from gdcb.history.sentences import REFUSALS
from gdcb.protocol.bands import Bands
from gdcb.protocol.metrics import (
    Estimate,
    Waits,
    compression,
    curve,
    episodes_to_threshold,
    estimate,
    first_below,
    overrides,
    paired,
    saving,
    threshold,
)
from gdcb.protocol.record import Ground, Record
from gdcb.protocol.record_checks import check_ground, check_record

OURS, COLD, WEIGHTED = "B4", "A3", "B4ope"
# Which of ours a rival is held against: the one that starts as it does.
FACES = {"warm": OURS, "cold": COLD}
SAVING_AT = 50

SETTINGS = (
    "instance",
    "variant",
    "episodes",
    "replicates",
    "seed",
    "version",
    "command",
    "options",
)
EXTRAS = (
    "variance_ratio",
    "specification",
    "theorems",
    "about",
    "response",
    "measures",
    "left_out",
)

# Where each part stands on the last axis of a record's two splits.
_PARTS = {"bandit": 2, "calibration": 1, "gate": 3}
_INHERITED = {"inherited": 4}
_PARTS_PAPER = {"bandit": 0, "calibration": 1, "gate": 2}

Curve = list[Estimate | None]


@dataclass(frozen=True)
class Entry:
    """One method of the document.

    Parameters
    ----------
    label : a short title
    record : returns its record; asked once, so that one record at a time is in memory
    tuned : its tuned settings by name
    is_gated : whether it runs behind the gate; without it there is no floor to exceed
    rival : how a rival behind the gate starts, 'warm' or 'cold'; None: it is no rival
    """

    label: str
    record: Callable[[], Record]
    tuned: Mapping[str, Any] = field(default_factory=dict)
    is_gated: bool = True
    rival: str | None = None


@dataclass(slots=True)
class _Kept:
    """What is compared between methods: regret (T, R), its curve, and waits for the threshold."""

    regret: Array
    curve: Curve | None
    waits: Waits | None


def document(
    settings: Mapping[str, Any],
    methods: Mapping[str, Entry],
    ground: Ground,
    extras: Mapping[str, Any] | None = None,
    bands: Bands | None = None,
    arms: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the document of a run, safe for JSON without NaN.

    Parameters
    ----------
    settings : `SETTINGS` by name; `seed` also seeds the bootstraps
    methods : entries by key; B4 is what the others are compared with
    ground : the gate floor and the edges of the actions
    extras : what was measured beside the records, any of `EXTRAS`
    bands : of context, by which overrides were counted; None: they were not
    arms : their names, for what certificates decided of them

    Returns
    -------
    `settings`, `response` ('simulator': a made world, whose truth is known; 'model': fitted on a
    log), `variance_ratio`, `specification`, `theorems`, `floor` and `floor_curve`,
    `methods` by key, `against_best` (the excess of B4 over that of the best warm rival, of A3 over
    that of the best cold one) and `cold_start` (GDCB with its history, B4, against the same
    without, A3).
    `vs_B4` is corrected by Holm over all other methods of the run, and so is `vs_A3`, in which
    the recommended learner has no history either.

    Examples
    --------
    One episode of one replicate loses 2 + 3 − 1 = 4 behind a gate whose floor is 1.

    >>> one = np.ones((1, 1))
    >>> record = Record(
    ...     parts=np.array([[[4.0, 2.0, 3.0, -1.0]]]),
    ...     parts_paper=np.full((1, 1, 3), np.nan),
    ...     reward=one,
    ...     advantage=one,
    ...     overridden=one,
    ...     success=one,
    ...     error=np.full((1, 1), np.nan),
    ...     recommended=np.array([[1, 0]]),
    ...     executed=np.array([[0, 1]]),
    ... )
    >>> settings = {name: None for name in SETTINGS} | {"episodes": 1, "replicates": 1, "seed": 0}
    >>> ground = Ground(floor=one, edges=np.array([0.0, 1.0, 2.0]))
    >>> found = document(settings, {"B4": Entry("GDCB", lambda: record)}, ground)["methods"]["B4"]
    >>> found["regret"]["mean"], found["excess"]["mean"], found["parts_paper"]
    (4.0, 3.0, None)
    """
    extras = {} if extras is None else extras
    _check_settings(settings, extras, ground)
    seed = settings["seed"]
    entries: dict[str, dict[str, Any]] = {}
    totals: dict[str, Array] = {}
    kept: dict[str, _Kept] = {}
    for key, entry in methods.items():
        record = entry.record()
        check_record(key, record, ground)
        waits = _waits(record)
        entries[key] = _method(entry, record, ground, waits, bands, seed)
        if record.measures is not None:
            entries[key]["measures"] = _measures(record.measures, extras.get("measures") or ())
        if record.certificates is not None:
            entries[key]["certificates"] = certificates(record.certificates, arms)
        regret = record.parts[..., 0]
        totals[key] = regret.sum(axis=0)
        if key in (OURS, COLD, WEIGHTED):
            kept[key] = _Kept(regret.copy(), entries[key]["regret_curve"], waits)
        del record, regret
    for ours in (OURS, COLD):
        for key, value in _against(totals, ours).items():
            entries[key][f"vs_{ours}"] = value
    found = {
        **{name: settings[name] for name in SETTINGS},
        **{name: extras.get(name) for name in EXTRAS},
        "response": extras.get("response") or "simulator",
        "floor": estimate(ground.floor.sum(axis=0)),
        "floor_curve": _curve(ground.floor),
        "methods": entries,
        "against_best": _against_best(methods, totals, ground),
        "cold_start": _cold_start(kept, ground, seed),
    }
    return {name: plain(value) for name, value in found.items()}


def plain(value: Any) -> Any:
    """Return a value as JSON has it: lists, objects, numbers; NaN and ∞ become null.

    >>> plain({"a": np.array([1.0, np.nan]), 2: (np.int64(3), True)})
    {'a': [1.0, None], '2': [3, True]}
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, PurePath):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    raise InvalidInput(f"document: expected plain data, got {type(value).__name__}")


def _check_settings(settings: Mapping[str, Any], extras: Mapping[str, Any], ground: Ground) -> None:
    if lacking := [name for name in SETTINGS if name not in settings]:
        raise InvalidInput(f"document: expected settings {', '.join(SETTINGS)}; lacks {lacking}")
    if unknown := [name for name in extras if name not in EXTRAS]:
        raise InvalidInput(f"document: expected extras among {', '.join(EXTRAS)}; got {unknown}")
    shape = check_ground(ground)
    if shape != (settings["episodes"], settings["replicates"]):
        raise InvalidInput(
            f"document: expected {settings['episodes']} episodes of {settings['replicates']} "
            f"replicates, got a ground of {shape[0]} of {shape[1]}"
        )


def _method(
    entry: Entry,
    record: Record,
    ground: Ground,
    waits: Waits | None,
    bands: Bands | None,
    seed: int,
) -> dict[str, Any]:
    """Return a method's entry; what compares it with B4 is filled in when all are known."""
    regret = record.parts[..., 0]
    excess = regret - ground.floor if entry.is_gated else None
    paper = {
        name: estimate(record.parts_paper[..., i].sum(axis=0)) for name, i in _PARTS_PAPER.items()
    }
    parts = _PARTS | (_INHERITED if record.parts.shape[2] > len(_PARTS) + 1 else {})
    return {
        "label": entry.label,
        "regret": estimate(regret.sum(axis=0)),
        "excess": None if excess is None else estimate(excess.sum(axis=0)),
        "vs_B4": None,
        "vs_A3": None,
        "regret_curve": _curve(regret),
        "excess_curve": None if excess is None else _curve(excess),
        "parts": {n: estimate(record.parts[..., i].sum(axis=0)) for n, i in parts.items()},
        "parts_curve": {n: _curve(record.parts[..., i]) for n, i in parts.items()},
        "parts_paper": None if None in paper.values() else paper,
        "reward": estimate(record.reward.sum(axis=0)),
        "episodes_to_threshold": None if waits is None else threshold(waits, record.success, seed),
        "calibration_error_curve": _curve(record.error, cumulative=False),
        "override_rate_curve": _curve(record.overridden, cumulative=False),
        "overrides": None
        if bands is None or record.overrides is None
        else overrides(record.overrides, bands),
        "actions": _actions(record, ground),
        "measures": None,
        "certificates": None,
        "tuned": dict(entry.tuned),
    }


def certificates(judged: Array, names: Sequence[str]) -> dict[str, Any]:
    """Return what the certificates of the replicates' histories decided, from `Record`'s (R, K).

    `histories` were certified and `refused` of them whole. `arms` count the histories in which an
    arm was used in each way, or refused; `reasons` count the refusals by what decided them, over
    all arms and histories.

    >>> found = certificates(np.array([[0, 3], [3, 3]]), ["a", "b"])
    >>> found["refused"], found["arms"][0]["direct"], found["arms"][1]["refuse"], found["reasons"]
    (1, 1, 2, [{'reason': 'too few rows', 'count': 3}])
    """
    judged = judged[(judged >= 0).all(axis=1)]
    n_arms, n_used = judged.shape[1], FATES.index("rows")
    labels = list(names) if len(names) == n_arms else [str(a) for a in range(n_arms)]
    arms = []
    for name, column in zip(labels, judged.T, strict=True):
        count = np.bincount(column, minlength=len(FATES))
        used = dict(zip(FATES[:n_used], count[:n_used].tolist(), strict=True))
        arms.append({"arm": name, **used, "refuse": int(count[n_used:].sum())})
    refused = np.bincount(judged[judged >= n_used], minlength=len(FATES))
    reasons = [
        {"reason": REFUSALS.get(FATES[at], "too many outcomes missing"), "count": int(refused[at])}
        for at in np.argsort(-refused, kind="stable").tolist()
        if refused[at]
    ]
    return {
        "histories": int(judged.shape[0]),
        "refused": int((judged >= n_used).all(axis=1).sum()),
        "arms": arms,
        "reasons": reasons,
    }


def _measures(values: Array, measures: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the estimate of every measure by its name, from values (R, M).

    A replicate to which it never applied is left out.
    """
    if values.shape[1] != len(measures):
        raise InvalidInput(f"measures: expected {values.shape[1]} names, got {len(measures)}")
    columns = (column[np.isfinite(column)] for column in values.T)
    return {
        one["name"]: estimate(column) if column.size else None
        for one, column in zip(measures, columns, strict=True)
    }


def _curve(values: Array, cumulative: bool = True) -> Curve | None:
    """Return a curve, or None where no episode has an estimate."""
    points = curve(values, cumulative)
    return None if all(point is None for point in points) else points


def _waits(record: Record) -> Waits | None:
    has_incumbent = np.isfinite(record.advantage).all()
    return episodes_to_threshold(record.advantage) if has_incumbent else None


def _actions(record: Record, ground: Ground) -> dict[str, Any] | None:
    """Return the shares of recommended and executed actions between the edges."""
    counts = [side.sum(axis=0) for side in (record.recommended, record.executed)]
    if not all(side.sum() > 0 for side in counts):
        return None
    recommended, executed = (side / side.sum() for side in counts)
    return {"edges": ground.edges, "recommended": recommended, "executed": executed}


def _against(totals: dict[str, Array], ours: str) -> dict[str, Any]:
    """Return the paired regret(key) − regret(ours) of all other methods, by Holm."""
    if ours not in totals:
        return {}
    mine = totals[ours]
    return dict(paired({key: total - mine for key, total in totals.items() if key != ours}))


def _against_best(
    methods: Mapping[str, Entry], totals: dict[str, Array], ground: Ground
) -> dict[str, Any]:
    """Return, by start, the rival of least excess, and our excess over its, paired by Fieller.

    The rival is chosen on the same replicates; the interval takes it as given.
    """
    floor = ground.floor.sum(axis=0)
    found: dict[str, Any] = dict.fromkeys(FACES)
    for start, ours in FACES.items():
        rivals = [key for key, entry in methods.items() if entry.rival == start and entry.is_gated]
        if ours not in totals or not rivals or not np.isfinite(floor).all():
            continue
        best = min(rivals, key=lambda key: (float(totals[key].mean()), key))
        saved = saving(totals[ours] - floor, totals[best] - floor)
        found[start] = {"rival": best, "ratio": None if saved is None else _rest(saved)}
    return found


def _rest(saved: Estimate) -> Estimate:
    """Return the share that is left of a share saved."""
    low, high = saved["low"], saved["high"]
    return Estimate(
        mean=1 - saved["mean"],
        low=None if high is None else 1 - high,
        high=None if low is None else 1 - low,
    )


def _cold_start(kept: dict[str, _Kept], ground: Ground, seed: int) -> dict[str, Any]:
    """Return what the history was worth; null where a method it needs was not run."""
    curves = {key: kept[key].curve if key in kept else None for key in (OURS, COLD, WEIGHTED)}
    found: dict[str, Any] = {
        "warm_curve": curves[OURS],
        "cold_curve": curves[COLD],
        "ope_curve": curves[WEIGHTED],
        "warm_minus_cold": None,
        "warm_below_cold_from": None,
        "saving_at_50": {"total": None, "excess": None},
        "compression": None,
    }
    if OURS not in kept or COLD not in kept:
        return found
    warm, cold = kept[OURS], kept[COLD]
    difference = warm.regret - cold.regret
    found["warm_minus_cold"] = _curve(difference)
    found["warm_below_cold_from"] = first_below(difference)
    if ground.floor.shape[0] >= SAVING_AT:
        w, c, f = (x[:SAVING_AT].sum(axis=0) for x in (warm.regret, cold.regret, ground.floor))
        found["saving_at_50"] = {"total": saving(w, c), "excess": saving(w - f, c - f)}
    if warm.waits is not None and cold.waits is not None:
        found["compression"] = compression(cold.waits, warm.waits, seed)
    return found
