"""The scaler and the learner that the instance recommends, and what their priors are made of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.bandits import Bandit
from gdcb.bandits.relevance import RelevanceThompson
from gdcb.instances.tools.columns import DESCRIPTION, FEATURES, PAST, K
from gdcb.instances.tools.relevance import RelevanceScaler
from gdcb.logistic import LogisticPosterior
from gdcb.scalers import Trunk

# A cautious prior for whoever has not tuned one: relevance matters, tools are much alike.
UNTUNED: dict[str, Any] = {
    "scale": 1.0,
    "signal": 1.0,
    "width": 1.0,
    "scaler": {"sd": 0.3, "own": 0.15, "apart": 0.15, "noise": 0.35},
    "mean": [-1.5, 4.0],
    "group": [0.8, 1.0],
    "own": [0.6, 0.5],
}
EVERY = 160  # requests between publications: twenty of each of eight tenants
LEAST = 0.02  # smallest standard deviation of a prior
WEAK = 1e-2  # precision that keeps a fit finite where a tool was never offered


@cache
def stored() -> tuple[Trunk, tuple[float, ...]]:
    """Return the trunk that the pilot left, and the head behind it."""
    text = (files("gdcb.instances.tools") / "map.json").read_text(encoding="utf-8")
    found = json.loads(text)
    return Trunk.read(found["trunk"], "map.json"), tuple(found["theta"])


def scaler(tuned: Mapping[str, Any]) -> RelevanceScaler:
    """Return the relevance of tools: the pilot's trunk, a ridge around its head."""
    prior, (trunk, theta) = tuned["scaler"], stored()
    noise, sd = float(prior["noise"]), float(tuned["signal"]) * float(prior["sd"])
    return RelevanceScaler(
        near=DESCRIPTION,
        past=PAST,
        penalty=(noise / sd) ** 2,
        own=(noise / (float(tuned["signal"]) * float(prior["own"]))) ** 2,
        request=FEATURES,
        apart=(noise / (float(tuned["signal"]) * float(prior["apart"]))) ** 2,
        every=EVERY,
        theta=tuple(prior.get("theta", theta)),
        noise=noise,
        trunk=trunk,
    )


def learner(tuned: Mapping[str, Any]) -> Bandit:
    """Return log odds that rise with a tool's relevance; tenants of a catalogue share."""
    scale = float(tuned["scale"])
    (level, slope), (level_sd, slope_sd), (level_own, slope_own) = (
        tuned[name] for name in ("mean", "group", "own")
    )
    return RelevanceThompson(
        level=level,
        level_sd=scale * level_sd,
        level_own=scale * level_own,
        slope=slope,
        slope_sd=scale * slope_sd,
        slope_own=scale * slope_own,
        width=float(tuned["width"]),
    )


def unscaled(tuned: Mapping[str, Any]) -> Bandit:
    """Return the same without relevance: δ is the same for all tools, and levels are learned."""
    scale = float(tuned["scale"])
    return RelevanceThompson(
        level=tuned["mean"][0],
        level_sd=scale * tuned["group"][0],
        level_own=scale * tuned["own"][0],
        slope=0.0,
        slope_sd=1e-3,
        slope_own=1e-3,
        width=float(tuned["width"]),
    )


def fitted(found: Any, spread: Any, form: str) -> dict[str, Any]:
    """Fit scaler and learner to a sample of tuning worlds (`gdcb.protocol.sampling.Sample`).

    `spread` turns coefficients (units, d) into their moments. Slots are exchangeable: their levels
    have one prior.
    """
    head, rest = _heads(found)
    n = head.shape[2] - len(FEATURES)  # what tools share; then each one's weights of the request
    shared = head[..., :n].mean(axis=1)
    theta = shared.mean(axis=0)
    prior = {
        "theta": [round(float(value), 4) for value in theta],
        "sd": round(max(_size(shared - theta), LEAST), 4),
        "own": round(max(_size(head[..., :n] - shared[:, None]), LEAST), 4),
        "apart": round(max(_size(head[..., n:]), LEAST), 4),
        "noise": round(float(rest), 4),
    }
    delta = found.delta(scaler(UNTUNED | {"scaler": prior}))
    own = delta[np.arange(found.rows.n), found.arm, 0]
    return {"form": form, "scaler": prior} | _moments(_levels(found, own), spread, found.units)


def without_relevance(found: Any, spread: Any) -> dict[str, Any]:
    """Fit the learner that has no scaler."""
    nothing = np.zeros(found.rows.n)
    return _moments(_levels(found, nothing), spread, found.units)


def _heads(found: Any) -> tuple[Array, float]:
    """Return θ̂ (groups, K, d) of the judge's ratings in every group, and their noise."""
    part = found.instance.context
    trunk, _ = stored()
    plain = RelevanceScaler(
        near=tuple(part.names.index(name) for name in DESCRIPTION),
        past=tuple(part.names.index(name) for name in PAST),
        request=tuple(part.names.index(name) for name in FEATURES),
        penalty=1.0,
        own=1.0,
        apart=1.0,
        trunk=trunk,
    )
    label, group = found._labels(K), found.rows.group
    state = plain.init(int(group.max()) + 1)
    plain.observe(state, group, found.rows.x, found.action, label, np.ones(found.rows.n))
    owners = np.arange(int(group.max()) + 1)
    theta = plain.solve(state.sums, owners)
    noise = np.sqrt(state.sums.variance(owners, theta).mean())
    return theta, float(noise)


def _size(values: Array) -> float:
    return float(np.sqrt((values * values).mean()))


def _levels(found: Any, relevance: Array) -> Array:
    """Return (b_1, …, b_K, w) of every unit, from all its rows: (units, K + 1)."""
    phi = np.concatenate((found.arm[:, None] == np.arange(K), relevance[:, None]), axis=1)
    design, target = found.by_unit(phi.astype(float)), found.by_unit(found.target)
    return LogisticPosterior.fit(design, target, None, 0.0, WEAK).mean


def _moments(weights: Array, spread: Any, units: int) -> dict[str, Any]:
    """Return the moments of a level, over all slots, and of the slope."""
    moments = spread(weights, units)
    out = {}
    for name in ("mean", "group", "own"):
        values = moments[name]
        out[name] = [round(float(np.mean(values[:K])), 4), values[K]]
    across = float(np.std(moments["mean"][:K]))  # slots differ beforehand too
    out["group"][0] = round(float(np.hypot(out["group"][0], across)), 4)
    return out
