"""Made records of a run, for what is computed and written of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from gdcb.protocol.record import Ground, Record
from gdcb.protocol.summary import SETTINGS


def settings(episodes: int, replicates: int, **changes: Any) -> dict[str, Any]:
    """Return the settings of a document."""
    known: dict[str, Any] = dict.fromkeys(SETTINGS, "x")
    return (
        known
        | {
            "episodes": episodes,
            "replicates": replicates,
            "seed": 3,
            "options": {"engine": "local"},
        }
        | changes
    )


def ground(episodes: int, replicates: int) -> Ground:
    """Return a floor of about a half, and four bins."""
    floor = np.random.default_rng(99).uniform(0.4, 0.6, (episodes, replicates))
    return Ground(floor, np.array([0.0, 0.5, 1.0, 1.5, 2.0]))


def record(
    episodes: int, replicates: int, seed: int = 0, level: float = 1.0, has_scaler: bool = True
) -> Record:
    """Return a record whose regret is about three times `level` an episode."""
    rng = np.random.default_rng(seed)
    shape = (episodes, replicates)
    parts = rng.normal(level, 1, (*shape, 3))
    paper = parts[..., [1, 0, 2]] + np.array([1.0, -1.0, 0.0])
    progress = np.linspace(-1, 2 - level, episodes)[:, None]
    return Record(
        parts=np.concatenate((parts.sum(axis=-1, keepdims=True), parts), axis=-1),
        parts_paper=paper if has_scaler else np.full_like(paper, np.nan),
        reward=rng.normal(50, 5, shape),
        advantage=rng.normal(0, 1, shape) + progress,
        overridden=rng.uniform(0, 1, shape),
        success=rng.uniform(0, 1, shape),
        error=rng.uniform(0, 1, shape) if has_scaler else np.full(shape, np.nan),
        recommended=rng.integers(0, 9, (replicates, 4)),
        executed=rng.integers(0, 9, (replicates, 4)),
    )
