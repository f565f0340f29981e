"""Fit the feature map of the neural scaler to a pilot history of tuning worlds, and store it.

    python -m gdcb.instances.grid.fit

makes `map.json` beside this file. The worlds are drawn with a seed that no result uses.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.instances.grid.columns import FEATURES, N_ZONES, SCHEMA
from gdcb.records import Rows
from gdcb.scalers import NeuralScaler
from gdcb.streams import CONTEXT, LABEL, WORLD, Streams

PLACE = Path(__file__).parent / "map.json"
SEED = 9_000_002
NETWORKS, HOURS = 40, 30
HIDDEN, DECAY, STEPS = (6,), 3.0, 200
PENALTY = 1.0  # of the heads, as the scaler's


def pilot(networks: int = NETWORKS, hours: int = HOURS) -> tuple[Rows, Array]:
    """Draw hours of the real network and the offsets that planning found: rows and (N, 1)."""
    from gdcb.instances.grid.world import Feeder

    world, streams = Feeder("mis"), Streams(SEED, N_ZONES)
    group = np.repeat(np.arange(networks), N_ZONES)
    state = world.start(streams.at(WORLD, 0), group)
    seen, labels = [], []
    for t in range(hours):
        rows = world.context(streams.at(CONTEXT, t), state, t, group)
        nothing = np.zeros((rows.n, 1))
        labels.append(world.label(streams.at(LABEL, t), state, nothing, rows))
        seen.append(rows)
    return Rows.concatenate(seen), np.concatenate(labels)


def fit(networks: int = NETWORKS, hours: int = HOURS) -> dict[str, Any]:
    """Return the map: one trunk for all networks, the centre, and moments of the networks' heads.

    A network's level is its own (the head's intercept), so that the trunk is fitted to labels less
    their network's mean.
    """
    rows, label = pilot(networks, hours)
    positions = [SCHEMA.names.index(name) for name in FEATURES]
    x = rows.x[:, positions]
    level = np.array([label[rows.group == g].mean() for g in range(networks)])
    scaler = NeuralScaler.from_history(
        tuple(range(len(FEATURES))),
        x,
        label - level[rows.group][:, None],
        hidden=HIDDEN,
        decay=DECAY,
        n_steps=STEPS,
        seed=0,
        reference=x,
        link="identity",
        penalty=PENALTY,
    )
    state = scaler.init(networks)
    scaler.observe(state, rows.group, x, label, label, np.ones(rows.n))
    heads = scaler.solve(state.sums, np.arange(networks))[:, 0, 1:]
    head = {"mean": heads.mean(axis=0), "sd": heads.std(axis=0, ddof=1)}
    return {
        "trunk": _short(scaler.trunk.table()),
        "centre": _short(list(scaler.centre or ())),
        "head": {name: _short(values.tolist()) for name, values in head.items()},
    }


def _short(found: Any) -> Any:
    """Return numbers with six digits behind the point, as they are stored."""
    if isinstance(found, dict):
        return {name: _short(value) for name, value in found.items()}
    if isinstance(found, list):
        return [_short(value) for value in found]
    return round(found, 6) if isinstance(found, float) else found


def main() -> None:
    """Fit the map and write it."""
    text = json.dumps(fit(), indent=1)
    PLACE.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
