"""The learner of every family, from its settings and from what the instance declares.

What decides is the target (a class or a reward), whether arms are categories, and how many
coordinates they have; never which instance it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gdcb import bandits
from gdcb.bandits import Bandit
from gdcb.bandits.logistic_arms import BradleyTerryArmsThompson, LogisticArmsThompson
from gdcb.instance import Instance
from gdcb.protocol.preferences import rival_names

SHAPE = 2.0  # half the rows that a reward's noise, as tuning worlds have it, is worth


def has_categories(instance: Instance) -> bool:
    """Whether arms are categories, and not places along coordinates."""
    return bool(instance.space.is_exact.any())


def learns_class(instance: Instance) -> bool:
    """Whether learners learn the probability of a class."""
    return instance.reward.target == "class"


def rival(
    family: str, instance: Instance, settings: Mapping[str, Any], features: tuple[str, ...]
) -> Bandit:
    """Return the learner of a family without a scaler; `features` end with the units, if pooled."""
    if family in ("B2s", "B2g"):
        if has_categories(instance):
            return _by_arm(family == "B2g", settings, features)
        return _shared(family, settings, features)
    if family == "B2":
        return _by_arm(False, settings, features)
    if family == "B3":
        scale = float(settings["scale"])
        return bandits.HierarchicalThompson(
            prior_mean=tuple(settings["mean"]),
            sd=scale * settings["group"][0],
            between=scale * settings["own"][0],
            noise=settings["noise"] * settings["width"],
        )
    if family == "A1" and not has_categories(instance):
        return _curve(instance, settings)
    return independent(instance, settings)


def asker(instance: Instance, settings: Mapping[str, Any], features: tuple[str, ...]) -> Bandit:
    """Return the learner of the operator's preferences (B5)."""
    names, scale = rival_names(instance), settings["scale"]
    sds = settings.get("sd")  # where columns are not of size 1
    common: dict[str, Any] = {
        "features": features,
        "prior_sd": scale if sds is None else tuple(scale * sd for sd in sds),
        "width": settings["width"],
        "centre": tuple(settings.get("centre", ())),
    }
    if has_categories(instance):
        return BradleyTerryArmsThompson(rival=names[0], **common)
    return bandits.BradleyTerryThompson(rival=names if len(names) > 1 else names[0], **common)


def independent(instance: Instance, settings: Mapping[str, Any]) -> Bandit:
    """Return a learner of independent arms, with the prior that their moments say."""
    scale = float(settings["scale"])
    if learns_class(instance):
        wins, losses = _pseudo_counts(settings)
        return bandits.BetaThompson(wins=wins, losses=losses)
    noise = float(settings["noise"])
    return bandits.GaussianThompson(
        prior_mean=tuple(settings["mean"]),
        strength=tuple((noise / (scale * sd)) ** 2 for sd in settings["sd"]),
        shape=SHAPE,
        rate=SHAPE * noise**2,
    )


def factored(settings: Mapping[str, Any]) -> Bandit:
    """Return a learner of the levels of factors."""
    wins, losses = _pseudo_counts(settings)
    return bandits.FactoredThompson(wins=wins, losses=losses)


def _pseudo_counts(settings: Mapping[str, Any]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    scale = float(settings["scale"])
    pairs = list(zip(settings["mean"], settings["total"], strict=True))
    wins = tuple(max(0.05, mean * total / scale**2) for mean, total in pairs)
    return wins, tuple(max(0.05, (1.0 - mean) * total / scale**2) for mean, total in pairs)


def _curve(instance: Instance, settings: Mapping[str, Any]) -> Bandit:
    """Return a response curve over the arms' coordinates: units of a group share it, of a class."""
    scale, mean = float(settings["scale"]), tuple(settings["mean"])
    if learns_class(instance):
        return bandits.HierarchicalCurveThompson(
            bandits.CurveThompson(
                prior_mean=mean,
                prior_sd=tuple(scale * sd for sd in settings["group"]),
            ),
            own_sd=tuple(scale * sd for sd in settings["own"]),
            width=settings["width"],
        )
    return bandits.CurveThompson(
        link="identity",
        degree=2,
        prior_mean=mean,
        prior_sd=tuple(scale * sd for sd in settings["sd"]),
        noise=settings["noise"] * settings["width"],
    )


def _by_arm(is_logistic: bool, settings: Mapping[str, Any], features: tuple[str, ...]) -> Bandit:
    """Return LinTS or logistic Thompson with weights of each arm's own on (1, x, unit)."""
    scale, signal = float(settings["scale"]), float(settings["signal"])
    p = settings.get("n_features", len(settings["sd"][0]) - 1)
    common: dict[str, Any] = {
        "features": features,
        "prior_mean": tuple(tuple(row) for row in settings["mean"]),
        "prior_sd": tuple(
            (
                scale * row[0],
                *(signal * sd for sd in row[1 : 1 + p]),
                *(scale * sd for sd in row[1 + p :]),
            )
            for row in settings["sd"]
        ),
        "width": settings["width"],
        "centre": _centre(settings, len(settings["sd"][0]) - 1 - p),
    }
    if is_logistic:
        return LogisticArmsThompson(**common)
    return bandits.LinearThompson(noise=settings["noise"], **common)


def _shared(family: str, settings: Mapping[str, Any], features: tuple[str, ...]) -> Bandit:
    """Return LinTS or logistic Thompson on features of context and action."""
    scale, signal = float(settings["scale"]), float(settings["signal"])
    degree, coords = settings["degree"], settings.get("n_coords", 1)
    # ψ = (1, x, c, c², x⊗c): `signal` is for what context says, `scale` for the rest.
    p, powers = settings["n_features"], degree * coords
    each = coords if settings["interactions"] else 0
    n_units = (len(settings["sd"]) - 1 - p - powers - each * p) // (1 + each)
    is_signal = [False, *[True] * p, *[False] * (n_units + powers)]
    is_signal += ([True] * p + [False] * n_units) * each
    common: dict[str, Any] = {
        "features": features,
        "degree": degree,
        "interactions": settings["interactions"],
        "prior_mean": tuple(settings["mean"]),
        "prior_sd": tuple(
            sd * (signal if said else scale)
            for sd, said in zip(settings["sd"], is_signal, strict=True)
        ),
        "width": settings["width"],
        "centre": _centre(settings, n_units),
    }
    if family == "B2g":
        return bandits.LogisticThompson(**common)
    return bandits.SharedLinearThompson(noise=settings["noise"], **common)


def _centre(settings: Mapping[str, Any], n_units: int) -> tuple[float, ...]:
    """Return what is taken off context columns; nothing of those that say which unit it is."""
    centre = tuple(settings.get("centre", ()))
    return (*centre, *[0.0] * n_units) if centre else ()
