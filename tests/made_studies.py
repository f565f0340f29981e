"""Small studies on the stylised worlds: one for each way in which a study can differ from str."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.bandits import Bandit, CurveThompson
from gdcb.bandits.nodes import frame_of
from gdcb.instance import Instance
from gdcb.instances import Domain, Study, Tuning, load
from gdcb.instances.applicable import inapplicable, labels
from gdcb.instances.past import generate
from gdcb.protocol import families, fitting, priors
from gdcb.protocol.ground import neutral_of
from gdcb.protocol.sampling import Sample
from gdcb.records import History, Rows
from gdcb.scalers import Scaler
from gdcb.streams import Stream

# Sums and rewards; two coordinates; categories in cells; masks, and a δ of each arm's own.
NAMES = ("dosing", "credit", "moderation", "tools")
FEATURES = {
    "dosing": ("glucose", "trend", "meal", "iob", "weight"),
    "credit": ("debt", "utilisation", "score"),
    "moderation": ("toxicity", "reports", "reach"),
    "tools": ("facts", "numbers", "code", "records"),
}
HISTORY = 40  # rows of a replicate
CURVES = {
    "dosing": CurveThompson(link="identity", degree=2),
    "credit": CurveThompson(),
}


def arm_of(instance: Instance, rows: Rows, arm: Array) -> Array:
    """Return what some arms (N,) are without a scaler: (N, D)."""
    neutral = np.full((rows.n, 1, 1), neutral_of(instance).value)
    actions = instance.composition.compose(instance.space, neutral, rows.x)
    return np.asarray(actions[np.arange(rows.n), arm])


def first_allowed(rows: Rows) -> Array:
    """Return the first arm that every row allows: (N,)."""
    none = np.zeros(rows.n, dtype=np.int64)
    return none if rows.mask is None else np.asarray(rows.mask.argmax(axis=1))


def made_study(name: str, variant: str = "well", episodes: int = 8) -> Study:
    """Return a stylised domain as the protocol runs it."""
    domain: Domain = load(name)
    instance = domain.instance
    gates = instance.chain.gates
    person: Any = next((gate for gate in gates if gate.is_person), None)

    def own(rows: Rows) -> Array:
        if person is not None:
            price: Array = person.person.own(rows)
            return price
        return arm_of(instance, rows, first_allowed(rows))

    def incumbent(rng: Stream, state: Any, rows: Rows) -> Array:
        u = rng.uniform(rows.n)
        any_of = (u * instance.space.n).astype(np.int64)
        if rows.mask is not None:
            any_of = np.where(rows.mask[np.arange(rows.n), any_of], any_of, first_allowed(rows))
        return arm_of(instance, rows, any_of)

    def scaler(settings: Mapping[str, Any]) -> Scaler:
        return instance.scaler

    def learner(settings: Mapping[str, Any]) -> Bandit:
        if name not in CURVES:
            return families.independent(instance, settings)
        curve, scale = settings["curve"], settings["scale"]
        return CurveThompson(
            link=CURVES[name].link,
            degree=CURVES[name].degree,
            prior_mean=tuple(curve["mean"]),
            prior_sd=tuple(scale * sd for sd in curve["sd"]),
            noise=settings.get("noise", 1.0) * settings["width"],
        )

    def fitted(found: Sample, spread: Any, form: str) -> dict[str, Any]:
        delta = found.delta(scaler({}))
        if name not in CURVES:
            targets = priors.arm_targets(found, delta)
            return {"form": form} | priors.arm_moments(found, targets, delta)
        inputs = CURVES[name].inputs(frame_of(found.instance.space), found.located(delta), None)
        design, target = found.by_unit(inputs), found.by_unit(found.target)
        if found.is_class:
            weights = priors.logistic_weights(design, target)
            return {"form": form, "curve": spread(weights, found.units)}
        weights = priors.linear_weights(design, target)
        left = target - (design @ weights[..., None])[..., 0]
        noise = priors.noise_around(found, left)
        return {"form": form, "curve": spread(weights, found.units), "noise": noise}

    def past(instance: Instance, world: Any, state: Any, group: Array, streams: Any) -> History:
        return generate(instance, world, state, group, streams, rows=HISTORY, incumbent=incumbent)

    def delta(state: Any, rows: Rows) -> Array:
        n_groups = len(np.asarray(next(iter(_arrays(state))))) // domain.units
        return np.zeros((n_groups, rows.n, instance.scaler.n_arms))

    return Study(
        domain=domain,
        variant=variant,
        features=FEATURES[name],
        past=past,
        incumbent=incumbent,
        own=own,
        scaler=scaler,
        learner=learner,
        delta=delta,
        specification=(),
        about={"title": name},
        tuning=Tuning(fitted=fitted, knobs=("scale",), replicates=2, episodes=4),
        left_out=inapplicable(instance, domain.units),
        labels=labels(instance),
        edges=np.linspace(-1.0, 40.0, 20),
    )


def _arrays(state: Any) -> list[Array]:
    return [getattr(state, name) for name in state.__slots__]


@cache
def made_priors(name: str) -> dict[str, Any]:
    """Return the prior of every family and form, from few contexts."""
    return fitting.fitted_priors(made_study(name), groups=5, contexts=60)


def made_settings(name: str) -> dict[str, dict[str, Any]]:
    """Return settings of every family, each in its first form."""
    out: dict[str, dict[str, Any]] = {}
    for key, prior in made_priors(name).items():
        out.setdefault(key.split()[0], prior | fitting.START)
    return out


def study_of(name: str) -> Any:
    """Return the function that makes a study, as a module of an instance has it."""
    return partial(_study, name)


def _study(name: str, variant: str, options: Mapping[str, Any], episodes: int) -> Study:
    return made_study(name, variant, episodes)
