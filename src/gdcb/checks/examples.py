"""Registered parts, built so that they can be checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from gdcb.declaration import GROUPS, part_named, registered
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.instances import NAMES, load


def example(kind: str, name: str) -> tuple[Any, Instance | None]:
    """Return a registered part that can be checked, and the instance it needs, if any.

    A class with required settings says how by a classmethod `example()`; the table below does for
    the parts of this library.
    """
    cls = part_named(kind, name)
    if callable(getattr(cls, "example", None)):
        return cls.example(), None
    make = _EXAMPLES.get(f"{cls.__module__.split('.')[0]}:{cls.__name__}")
    if make is not None:
        return make(cls)
    required = [
        field.name
        for field in dataclasses.fields(cls)
        if field.init and field.default is field.default_factory is dataclasses.MISSING
    ]
    if required:
        raise InvalidInput(
            f"{kind} '{name}': {', '.join(required)} must be given; to have it checked, give it a "
            "classmethod example() that returns one"
        )
    return cls(), None


def names() -> list[tuple[str, str]]:
    """Return kind and name of everything that can be checked: parts, and the domains."""
    parts = [(kind, name) for kind in GROUPS for name in registered(kind)]
    return [*parts, *(("domain", name) for name in NAMES)]


def build(kind: str, name: str) -> tuple[Any, Instance | None]:
    """Return what one of `names` stands for, and the instance it needs."""
    return (load(name), None) if kind == "domain" else example(kind, name)


def _columns(cls: Any) -> Any:
    return cls(features=("first", "second"))


def _forms(cls: Any) -> Any:
    from gdcb.bandits import BetaThompson, CurveThompson

    return cls((BetaThompson(), CurveThompson()))


def _points(cls: Any) -> Any:
    grid = tuple((a, b) for a in (0.6, 1.0, 1.4) for b in (0.6, 1.0, 1.4))
    return cls(features=("first", "second"), lengths=(0.5, 0.5), inducing=grid)


def _layers(cls: Any) -> Any:
    from gdcb.scalers import Trunk

    rng = np.random.default_rng(0)
    weights, biases = (rng.normal(size=(2, 6)),), (rng.normal(size=6),)
    trunk = Trunk(np.ones(2), np.ones(2), weights, biases, "tanh")
    return cls(features=("first", "second"), trunk=trunk)


def _modes(cls: Any) -> Any:
    knots = (0.5, 1.0, 1.5)
    return cls(
        n_modes=2,
        mixes=True,
        process="first",
        process_knots=knots,
        noise="second",
        noise_knots=knots,
    )


class _Line:
    """A regressor that was fitted long ago: the first column."""

    def predict(self, x: Any) -> Any:
        """Return the first column."""
        return np.asarray(x)[:, 0]


def _regressor(cls: Any) -> Any:
    from gdcb.scalers import FittedEstimator

    fitted = FittedEstimator.of(_Line(), np.ones((1, 2)))
    return cls(fitted, features=("first", "second"))


def _alone(make: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, Instance | None]]:
    return lambda cls: (make(cls), None)


def _of_kalman(cls: Any) -> tuple[Any, Instance | None]:
    instance = load("kalman").instance
    fields = {f.name: getattr(instance.composition, f.name) for f in dataclasses.fields(cls)}
    return cls(**fields), instance


# By package and class: a part of yours with the same name is not taken for one of these.
_EXAMPLES: dict[str, Callable[[Any], tuple[Any, Instance | None]]] = {
    "gdcb:ArmList": _alone(lambda cls: cls(values=(0.8, 0.9, 1.0, 1.1, 1.25))),
    "gdcb:Grid": _alone(lambda cls: cls({"first": (0.8, 1.0, 1.25), "second": (1.0, 2.0)})),
    "gdcb:Bounds": _alone(lambda cls: cls(low=1.0, high=100.0)),
    "gdcb:Cap": _alone(lambda cls: cls(limit=10.0)),
    "gdcb:PolicyFilter": _alone(lambda cls: cls(denied=(1,))),
    "gdcb:Shield": _alone(lambda cls: cls(high=10.0, fallback=(1.0,))),
    "gdcb:Review": _alone(lambda cls: cls(low=0.0, high=100.0)),
    "gdcb:Physics": _alone(lambda cls: cls(_is_small, towards=(0.0,))),
    "gdcb:KalmanGain": _of_kalman,
    "gdcb:StackedThompson": _alone(_forms),
    "gdcb:Multiply": _alone(lambda cls: cls(base=("base",))),
    "gdcb:RidgeScaler": _alone(_columns),
    "gdcb:CovarianceScaler": _alone(_modes),
    "gdcb:GaussianProcessScaler": _alone(_points),
    "gdcb:NeuralScaler": _alone(_layers),
    "gdcb:EstimatorScaler": _alone(_regressor),
    "gdcb:LogLinearScaler": _alone(lambda cls: cls({"first": ("first",), "rest": ("second",)})),
    "gdcb:Payoff": _alone(lambda cls: cls(action=0, cost="cost", lose=-1.0)),
    "gdcb:Scaled": _alone(lambda cls: cls(scale="scale")),
}


def _is_small(e: Any, rows: Any) -> Any:
    return e[..., 0] <= 10.0 * rows.x[:, :1]
