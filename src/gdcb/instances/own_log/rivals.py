"""Which methods apply to one's own log, and the untuned priors that they start from."""

from __future__ import annotations

from typing import Any

import numpy as np

from gdcb import bandits
from gdcb.bandits import Bandit
from gdcb.history.model_world import ModelWorld
from gdcb.instance import Instance
from gdcb.instances.applicable import inapplicable
from gdcb.scalers import ConstantScaler


def left_out(instance: Instance, units: int) -> dict[str, str]:
    """Say which methods do not apply, and why."""
    found: dict[str, str] = {}

    def leave(why: str, *keys: str) -> None:
        found.update({key: why for key in keys if key not in found})

    leave("nobody was asked for preferences in a log", "B5", "B5w", "B5u")
    leave(
        "the paper's ungated forms are for made worlds; A2 shows what the gate costs",
        *("B1u", "B2u", "B2su", "B2gu", "B3u"),
    )
    leave("the prior of factored arms must be tuned, and nothing is tuned here", "B4fac")
    leave("a history is weighed by its certificate: gdcb check", "B4ope")
    is_line = instance.space.n_coords == 1 and not instance.space.is_exact.any()
    if not is_line:
        leave(
            "arms with one coordinate share weights; these are categories or have several",
            *("B2s", "B2sw", "B2g", "B2gw"),
        )
    if isinstance(instance.scaler, ConstantScaler):
        leave("the file declares no scaler", "A1", "A3s", "A3a")
    return inapplicable(instance, units) | found


def rivals(instance: Instance, bandit: Bandit, world: ModelWorld) -> dict[str, Bandit]:
    """Return learners that need no settings: flat arms; and the file's own, without a scaler."""
    flat: Bandit = bandits.BetaThompson()
    if instance.reward.target != "class":
        mean, size = _moments(world)
        flat = bandits.GaussianThompson(prior_mean=mean, rate=size**2)
    return {"B1": flat, "B4flat": flat, "A1": bandit}


def _moments(world: ModelWorld) -> tuple[float, float]:
    """Return mean and standard deviation of what is learned, in the log."""
    rows = world.batch.take(world.taught)
    y, scale = world.instance.reward.learn(rows.outcome, rows.x)
    if world.response.is_class:
        return 0.5, 0.5
    if scale is None:
        return float(y.mean()), float(y.std())
    return float((scale * y).sum() / (scale * scale).sum()), float(y.std() / scale.mean())


def settings(world: ModelWorld, features: tuple[str, ...]) -> dict[str, Any]:
    """Return untuned settings of the rivals, in the form in which tuned ones are.

    Wide priors: coefficients of context are worth half the outcome's spread for one standard
    deviation of their column. Mean and spread of the outcomes are the log's, for all rivals alike.
    """
    instance, units = world.instance, world.units
    positions = [instance.context.positions[name][0] for name in features]
    x = world.batch.x[:, positions]
    centre, spread = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-9)
    mean, size = _moments(world)
    p, k, dummies = len(features), instance.space.n, units - 1
    knobs = {"scale": 1.0, "signal": 1.0, "width": 1.0}

    def sds(level: float, signal: float) -> tuple[float, list[float]]:
        """Return the sd of a level and of every column's slope; columns are not centred."""
        slopes = signal / spread
        return float(np.hypot(level, np.linalg.norm(slopes * centre))), slopes.tolist()

    level, slopes = sds(size, 0.5 * size)
    noise = {"noise": size}
    found: dict[str, Any] = {
        "B2": {"mean": [[mean, *[0.0] * p]] * k, "sd": [[level, *slopes]] * k, **noise, **knobs},
        "B3": {"mean": [mean] * k, "group": [size], "own": [0.5 * size], **noise, **knobs},
    }
    for family, degree, (one, other) in (
        ("B2s", 2, (size, 0.5 * size)),
        ("B2g", 1, (2.0, 1.0)),
    ):
        level, slopes = sds(one, other)
        own = [0.5 * one] * dummies
        sd = [level, *slopes, *own, level, *[one] * (degree - 1), *slopes, *own]
        first = mean if family == "B2s" else 0.0
        found[family] = {
            "is_pooled": units > 1,
            "degree": degree,
            "interactions": True,
            "n_features": p,
            "mean": [first, *[0.0] * (len(sd) - 1)],
            "sd": sd,
            **knobs,
        }
    found["B2s"] |= noise
    return found
