"""Fit the severity model's trunk and the prediction of appeals to a pilot, once, for everyone.

The pilot is of 40 platforms that no result is computed on. Its posts are drawn with a seed of their
own, but from the same few templates: 63 % of the bank's posts have a text that is in it as well.
`python -m gdcb.instances.moderation.fit` writes `map.json`.
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from gdcb.arrays import Array
from gdcb.instances.moderation import features, house
from gdcb.instances.moderation.bank import Bank
from gdcb.instances.moderation.columns import FEATURES, REPORTS
from gdcb.instances.moderation.generator import posts
from gdcb.instances.moderation.world import RATING_SD, Forum, severity
from gdcb.logistic import LogisticPosterior
from gdcb.records import Rows
from gdcb.scalers.neural import NeuralScaler, Trunk
from gdcb.streams import CONTEXT, DRAW, LABEL, WORLD, Streams

SEED, POSTS_SEED = 9_000_002, 9_000_002
PLATFORMS, COMMUNITIES, ROUNDS, POSTS = 40, 8, 25, 3_000
HIDDEN, DECAY, STEPS = (12,), 3.0, 300
PENALTY = 1.0  # of the house's head, and of the prediction of appeals


def pilot(n_rounds: int = ROUNDS, n_posts: int = POSTS) -> tuple[Array, Array, Array, Array]:
    """Draw the pilot: features (N, 14), ratings (N, 1), category (N,) and whether one appealed."""
    some = posts(n_posts, POSTS_SEED)
    bank = Bank(
        features.of_all([post.text for post in some]), np.array([post.parts for post in some])
    )
    world = Forum("mis", posts=bank, model=_blank())
    group = np.repeat(np.arange(PLATFORMS), COMMUNITIES)
    streams = Streams(SEED, COMMUNITIES)
    state = world.start(streams.at(WORLD, 0), group)
    seen, ratings, kinds, appeals = [], [], [], []
    for t in range(n_rounds):
        rows = world.context(streams.at(CONTEXT, t), state, t, group)
        kind = (3 * streams.at(DRAW, t).uniform(rows.n)).astype(np.int64)
        seen.append(rows)
        ratings.append(severity(rows) + RATING_SD * streams.at(LABEL, t).normal(rows.n))
        kinds.append(kind)
        appeals.append(world.chances(state, rows)[2][np.arange(rows.n), kind])
    x = Rows.concatenate(seen).x[:, : REPORTS + 1]
    return x, np.concatenate(ratings)[:, None], np.concatenate(kinds), np.concatenate(appeals)


def fit(n_rounds: int = ROUNDS, n_posts: int = POSTS, n_steps: int = STEPS) -> house.House:
    """Return what the pilot teaches: trunk, head, and appeals."""
    x, rating, kind, appeal = pilot(n_rounds, n_posts)
    scaler = NeuralScaler.from_history(
        tuple(FEATURES),
        x,
        rating,
        hidden=HIDDEN,
        decay=DECAY,
        n_steps=n_steps,
        link="identity",
        penalty=PENALTY,
    )
    bound = replace(scaler, features=tuple(range(x.shape[1])))
    theta = bound.fit(x, rating).theta[0, 0]
    design = np.concatenate((kind[:, None] == np.arange(3), x), axis=1).astype(float)
    # The chance of an appeal stands for many appeals and non-appeals of the same post.
    odds = LogisticPosterior.fit(design[None], appeal[None], None, 0.0, PENALTY).mean[0]
    rounded = [round(float(value), 3) for value in odds]
    return house.House(
        _rounded(scaler.trunk), np.round(theta, 6), tuple(rounded[:3]), tuple(rounded[3:])
    )


def _rounded(trunk: Trunk) -> Trunk:
    """Return a trunk whose numbers have six digits behind the point: a file stays readable."""
    return Trunk(
        trunk.mean.round(6),
        trunk.scale.round(6),
        tuple(weight.round(6) for weight in trunk.weights),
        tuple(bias.round(6) for bias in trunk.biases),
        trunk.activation,
    )


def _blank() -> house.House:
    """Return a model that reads nothing, for a world in which nobody reads by it."""
    width = len(FEATURES)
    trunk = Trunk(np.zeros(width), np.ones(width), (np.zeros((width, 1)),), (np.zeros(1),))
    return house.House(trunk, np.zeros(2), (), ())


def main() -> None:
    """Write what was fitted beside this file."""
    text = json.dumps(house.as_json(fit()), separators=(",", ":"))
    house.PATH.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
