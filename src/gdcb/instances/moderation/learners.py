"""The scaler and the learner that the instance recommends, and what their priors are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.bandits import Bandit, HierarchicalThompson
from gdcb.instances.moderation import house
from gdcb.instances.moderation.banded import BandedThompson
from gdcb.instances.moderation.columns import FEATURES
from gdcb.instances.moderation.severity import SeverityScaler

# Bands of severity of the learner's cells.
EDGES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
EVERY, GROWTH = 24, 0.25  # rated posts between two publications; then a quarter more each time
PENALTY = 25.0  # (noise of a rating / spread of a head's weight)², 0.15² / 0.03²
# For whoever has not tuned a prior: what the tuning worlds of `mis` are like, to two digits.
UNTUNED: dict[str, Any] = {
    "form": "",
    "scale": 1.0,
    "signal": 1.0,
    "width": 1.0,
    "scaler": {},
    "table": [
        [0.86, 0.29, -0.28],
        [0.82, 0.46, -0.14],
        [0.74, 0.59, 0.0],
        [0.59, 0.65, 0.17],
        [0.35, 0.66, 0.4],
        [0.12, 0.62, 0.57],
        [-0.15, 0.52, 0.71],
        [-0.39, 0.29, 0.81],
    ],
    "group": 0.09,
    "own": 0.13,
    "noise": 0.49,
}


def scaler(tuned: Mapping[str, Any]) -> SeverityScaler:
    """Return the severity score: the pilot's trunk and head, and a platform's own correction."""
    model = house.stored()
    return SeverityScaler(
        features=tuple(FEATURES),
        link="identity",
        penalty=PENALTY / float(tuned["signal"]) ** 2,
        every=EVERY,
        growth=GROWTH,
        trunk=model.trunk,
        start=tuple(model.theta.tolist()),
    )


def learner(tuned: Mapping[str, Any]) -> Bandit:
    """Return normal arms in bands of severity; communities of a platform share."""
    scale = float(tuned["scale"])
    return BandedThompson(
        table=tuple(tuple(row) for row in tuned["table"]),
        sd=scale * tuned["group"],
        between=scale * tuned["own"],
        noise=tuned["noise"] * tuned["width"],
    )


def unscaled(tuned: Mapping[str, Any]) -> Bandit:
    """Return the same learner without bands, for A1: there is no severity."""
    scale = float(tuned["scale"])
    return HierarchicalThompson(
        prior_mean=tuple(tuned["mean"]),
        sd=scale * tuned["group"],
        between=scale * tuned["own"],
        noise=tuned["noise"] * tuned["width"],
    )


def fitted(found: Any, _moments_of: Any, form: str) -> dict[str, Any]:
    """Fit the bands' priors to a sample of tuning worlds (`gdcb.protocol.sampling.Sample`)."""
    delta = found.delta(scaler(UNTUNED))
    band = np.searchsorted(EDGES, delta[:, 0, 0])
    return {"form": form, "scaler": {}} | _moments(found, band, len(EDGES) + 1)


def without(found: Any, _moments_of: Any) -> dict[str, Any]:
    """Fit the prior of A1: one band."""
    moments = _moments(found, np.zeros(found.rows.n, dtype=np.int64), 1)
    return {"mean": moments.pop("table")[0]} | moments


def _moments(found: Any, band: Array, n_bands: int) -> dict[str, Any]:
    """Return means by band and arm, how far groups and units lie apart, and the noise."""
    k = found.instance.space.n
    arms = np.zeros((found.rows.n, k, 2))
    arms[..., 0] = np.arange(k)
    target = found.ask(arms, found.rows)  # (n, K), exact
    unit, n_units = found.rows.unit, int(found.rows.unit.max()) + 1
    place = unit * n_bands + band
    count = np.bincount(place, minlength=n_units * n_bands).astype(float)
    total = np.stack([np.bincount(place, one, n_units * n_bands) for one in target.T], axis=1)
    means = total / np.maximum(count, 1.0)[:, None]
    shape = (-1, found.units, n_bands)
    weight, means = count.reshape(*shape, 1), means.reshape(*shape, k)
    table = (weight * means).sum(axis=(0, 1)) / weight.sum(axis=(0, 1))
    group = (weight * means).sum(axis=1) / np.maximum(weight.sum(axis=1), 1.0)
    heavy = weight.sum(axis=1)
    between = ((means - group[:, None]) ** 2 * weight).sum() / (k * weight.sum())
    across = (heavy * (group - table) ** 2).sum() / (k * heavy.sum())
    left = target - means.reshape(-1, k)[place]
    noise = np.sqrt(found.noise**2 + (left**2).mean())

    def plain(value: Any) -> float:
        return round(float(value), 4)

    return {
        "table": [[plain(value) for value in row] for row in table],
        "group": plain(np.sqrt(max(across, 4e-4))),
        "own": plain(np.sqrt(max(between, 4e-4))),
        "noise": plain(noise),
    }
