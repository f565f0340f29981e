"""What must hold of a record before anything is computed of it or written."""

from __future__ import annotations

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.protocol.bands import FATES, PASSED
from gdcb.protocol.record import Ground, Record

# Regret parts sum to the total in every episode to this, relative to 1 and their sizes.
TOLERANCE = 1e-9

_AXES = {"parts_paper": (3,)}
_SPLITS = (4, 5)  # total and parts, without and with what is inherited
_PLAIN = ("parts", "parts_paper", "reward", "advantage", "overridden", "success", "error")
_FINITE = ("parts", "reward", "overridden")


def check_ground(ground: Ground) -> tuple[int, int]:
    """Return (T, R); refuse a ground without an episode, a replicate or rising edges."""
    shape = np.shape(ground.floor)
    if len(shape) != 2 or 0 in shape:
        raise InvalidInput(f"ground.floor: expected shape (T, R), none of them 0, got {shape}")
    edges = np.asarray(ground.edges)
    if edges.ndim != 1 or not (np.diff(edges) > 0).all():
        raise InvalidInput("ground.edges: expected rising numbers (bins + 1,)")
    return shape[0], shape[1]


def check_record(key: str, record: Record, ground: Ground) -> None:
    """Refuse a record of another shape than the ground, with holes, or whose parts do not sum up.

    Overrides by band count the same decisions for every feature, and of those as many changed as
    `overridden` says. `advantage`, `success`, `error` and `parts_paper` may be NaN where they do
    not apply; the rest is finite. Both splits sum to the total regret in every episode and
    replicate.
    """
    shape = check_ground(ground)
    for name in _PLAIN:
        values: Array = getattr(record, name)
        expected = (*shape, *_AXES.get(name, ()))
        if name == "parts":
            found = np.shape(values)[2:]
            expected = (*shape, *(found if found in ((n,) for n in _SPLITS) else _SPLITS[:1]))
        if np.shape(values) != expected:
            raise InvalidInput(
                f"record of {key}: expected {name} of shape {expected}, got {np.shape(values)}"
            )
        if name in _FINITE and not np.isfinite(values).all():
            where = np.argwhere(~np.isfinite(values))[0]
            raise InvalidInput(
                f"record of {key}: expected finite {name}, got {values[tuple(where)]} in episode "
                f"{where[0] + 1} of replicate {where[1]}"
            )
    bins = (shape[1], max(np.size(ground.edges) - 1, 0))
    for name in ("recommended", "executed"):
        if np.shape(getattr(record, name)) != bins:
            raise InvalidInput(
                f"record of {key}: expected {name} of shape {bins}, got "
                f"{np.shape(getattr(record, name))}"
            )
    if record.overrides is not None:
        _check_overrides(key, record, shape[1])
    _check_sum(key, "parts", record.parts[..., 0], record.parts[..., 1:])
    _check_sum(key, "parts_paper", record.parts[..., 0], record.parts_paper)


def _check_overrides(key: str, record: Record, replicates: int) -> None:
    counts = record.overrides
    assert counts is not None
    where = f"record of {key}: expected overrides"
    n = len(FATES)
    if counts.ndim != 4 or counts.shape[::3] != (replicates, n + 1):
        expected = f"({replicates}, features, bands, {n + 1})"
        raise InvalidInput(f"{where} of shape {expected}, got {counts.shape}")
    fates = counts[..., :n]
    if not (fates >= 0).all() or (fates != np.floor(fates)).any():
        raise InvalidInput(f"{where} that count decisions, got {fates.min():g} to {fates.max():g}")
    totals = fates.sum(axis=2)
    if (totals != totals[:, :1]).any():
        raise InvalidInput(f"{where} of the same decisions for every feature")
    if counts.shape[1]:
        decisions = totals[:, 0].sum(axis=-1)
        changed = decisions - totals[:, 0, PASSED]
        gap = np.abs(changed - record.overridden.mean(axis=0) * decisions)
        if (gap > TOLERANCE * (1.0 + decisions)).any():
            raise InvalidInput(
                f"{where} that add up to the share overridden, got a gap of {gap.max():g} decisions"
            )


def _check_sum(key: str, name: str, total: Array, parts: Array) -> None:
    each = [parts[..., i] for i in range(parts.shape[-1])]
    gap = np.abs(sum(each[1:], start=each[0]) - total)
    scale = sum((np.abs(part) for part in each), start=np.ones_like(total))
    # Written so that NaN, a split that does not exist, passes.
    if (gap > TOLERANCE * scale).any():
        worst = float(np.nanmax(gap))
        raise InvalidInput(
            f"record of {key}: expected {name} that sum to the total regret, got a gap of {worst:g}"
        )
