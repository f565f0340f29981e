"""Fit the scaler's trunk once, on a pilot of catalogues that no result is computed on.

`python -m gdcb.instances.tools.fit` remakes map.json beside this file. The pilot's requests are of
`mis`, under tools drawn evenly among those offered, each rated by the judge.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.instances.tools.columns import P, S
from gdcb.instances.tools.relevance import N_INPUTS, RelevanceScaler, inputs
from gdcb.instances.tools.world import JUDGE_ERROR, Routing, corrected
from gdcb.scalers.neural import trunk_of
from gdcb.streams import CONTEXT, DRAW, WORLD, Streams

SEED = 9_000_002  # no result is computed on it
CATALOGUES, REQUESTS = 60, 60
HIDDEN, DECAY, STEPS = 6, 1.0, 300
PENALTY = 4.0  # of the head beforehand, in rows
MAP = Path(__file__).parent / "map.json"


def pilot(world: Routing, groups: int = CATALOGUES, requests: int = REQUESTS) -> tuple[Array, ...]:
    """Return what is seen of tools that ran (n, 4) and how the judge rated them (n,)."""
    streams, group = Streams(SEED), np.arange(groups)
    state = world.start(streams.at(WORLD, 0), group)
    seen, rated = [], []
    for t in range(requests):
        rows = world.context(streams.at(CONTEXT, t), state, t, group)
        assert rows.mask is not None
        u = streams.at(DRAW, t).uniform(rows.n, rows.mask.shape[1] + 1)
        arm = np.where(rows.mask, u[:, :-1], -1.0).argmax(axis=1)
        relevance = world.relevance(rows)[group, arm]
        wrong = u[:, -1] < JUDGE_ERROR
        rated.append(corrected(np.where(wrong, 1.0 - relevance, relevance)))
        said = inputs(rows.x[:, S], rows.x[:, P])
        seen.append(np.stack([one[group, arm] for one in said], axis=1))
    return np.concatenate(seen), np.concatenate(rated)


def fitted(groups: int = CATALOGUES, requests: int = REQUESTS) -> dict[str, Any]:
    """Return the trunk and the head θ₀ behind it, as map.json has them."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPRegressor

    x, label = pilot(Routing("mis"), groups, requests)
    mean, scale = x.mean(axis=0), x.std(axis=0)
    network = MLPRegressor(
        hidden_layer_sizes=(HIDDEN,),
        activation="relu",
        solver="lbfgs",
        alpha=DECAY,
        max_iter=STEPS,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        network.fit((x - mean) / scale, label)
    trunk = trunk_of(network, mean, scale)
    places = tuple(range(N_INPUTS))
    plain = RelevanceScaler(near=places[:1], past=places[1:2], trunk=trunk)
    phi = np.concatenate((np.ones((x.shape[0], 1)), x, trunk.forward(x)), axis=1)
    gram = phi.T @ phi + PENALTY * np.eye(plain.width)
    theta = np.linalg.solve(gram, phi.T @ label)
    return {"trunk": trunk.table(), "theta": theta.tolist()}


def main() -> None:
    """Write map.json."""
    MAP.write_text(json.dumps(fitted(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
