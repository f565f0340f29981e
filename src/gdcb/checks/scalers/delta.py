"""What a scaler is, and what its δ promises."""

from __future__ import annotations

import numpy as np

from gdcb.checks.base import (
    bytes_of,
    require,
    require_close,
    require_described,
    require_finite,
    require_frozen,
    require_same_bytes,
    require_shape,
)
from gdcb.checks.scalers.case import ScalerCase


def settings_are_frozen(case: ScalerCase) -> None:
    """Its settings cannot be set, and are plain data."""
    require_frozen(case.scaler)
    require_described(case.scaler)


def declares_what_it_is(case: ScalerCase) -> None:
    """Its owners, the axes of δ, its sign, what it learns from and what it supports are declared.

    Labels are one an arm and column of δ, or as many as `made_labels` makes; none where it learns
    from outcomes or nothing.
    """
    scaler = case.scaler
    require(scaler.per in ("unit", "group"), f"per: got {scaler.per!r}")
    for name in ("n_arms", "n_columns"):
        value = getattr(scaler, name)
        require(isinstance(value, int) and value >= 1, f"{name}: got {value!r}")
    require(isinstance(scaler.is_positive, bool), f"is_positive: got {scaler.is_positive!r}")
    from_what = case.learns_from
    require(from_what in ("label", "outcome", "nothing"), f"learns_from: got {from_what!r}")
    expected = scaler.n_arms * scaler.n_columns if from_what == "label" else 0
    if hasattr(scaler, "made_labels"):
        expected = case.lesson(1).label.shape[1]
    require(scaler.n_labels == expected, f"n_labels: expected {expected}, got {scaler.n_labels}")
    supports = getattr(scaler, "supports", None)
    require(isinstance(supports, frozenset), f"supports: expected a frozenset, got {supports!r}")
    for name in supports or ():
        require(callable(getattr(scaler, name, None)), f"supports '{name}', and lacks it")


def delta_has_its_shape(case: ScalerCase) -> None:
    """Before and after data δ is finite, (N, n_arms, n_columns), above 0 where it says so."""
    scaler = case.scaler
    x, owner = case.ground.contexts(5, seed=5), np.array([0, 3, 1, 2, 0])
    for name, state in (("before data", case.state()), ("after", case.published())):
        delta = scaler.predict(state, owner, x)
        require_shape(delta, (5, scaler.n_arms, scaler.n_columns), f"δ {name}")
        require_finite(delta, f"δ {name}")
        require(not scaler.is_positive or (delta > 0).all(), f"δ {name} is not above 0")


def delta_is_neutral_before_data(case: ScalerCase) -> None:
    """Before data δ is the same for every context and owner, and where it learns, 1 or 0.

    One that declares what it knows beforehand (`is_informed`) has that in force instead.
    """
    delta = case.delta(case.state())
    if getattr(case.scaler, "is_informed", False):
        is_told = bool((delta != delta.flat[0]).any())
        require(is_told, "it is informed beforehand, and δ is the same for every context")
        return
    require_close(delta, np.full(delta.shape, delta.flat[0]), "δ of all contexts before data")
    is_neutral = delta.flat[0] in (0.0, 1.0) or case.learns_from == "nothing"
    require(is_neutral, f"δ before data: expected 1 or 0, got {delta.flat[0]}")


def rows_of_delta_stand_alone(case: ScalerCase) -> None:
    """Rows alone have the δ that they had among all rows, to the bit; asking changes nothing."""
    state, owner = case.published(), np.array([0, 3, 1, 2, 0])
    before = bytes_of(state)
    x = case.ground.contexts(5, seed=5)
    whole = case.scaler.predict(state, owner, x)
    for some in (np.array([3]), np.array([4, 1])):
        alone = case.scaler.predict(state, owner[some], x[some])
        require_same_bytes(alone, whole[some], "δ of some rows alone")
    case.scaler.uncertainty(state, owner, x)
    case.scaler.version(state, owner)
    case.scaler.due(state)
    require(bytes_of(state) == before, "asking changed the state")


def uncertainty_is_not_negative(case: ScalerCase) -> None:
    """Its standard error has the shape of δ and is no less than 0, before data and after."""
    scaler, x, owner = case.scaler, case.ground.contexts(5, seed=5), np.array([0, 3, 1, 2, 0])
    for name, state in (("before data", case.state()), ("after", case.published())):
        error = scaler.uncertainty(state, owner, x)
        require_shape(error, (5, scaler.n_arms, scaler.n_columns), f"uncertainty {name}")
        require((error >= 0).all(), f"uncertainty {name}: expected numbers >= 0, got {error.min()}")


def delta_is_centred_where_declared(case: ScalerCase) -> None:
    """Where a `centre` is declared, δ there is neutral whatever was learned."""
    centre = getattr(case.scaler, "centre", None)
    features = getattr(case.scaler, "features", ())
    if centre is None or len(centre) != len(features):
        return
    x = case.ground.contexts(1, seed=5)
    x[0, list(features)] = centre
    found = case.scaler.predict(case.published(), np.zeros(1, dtype=np.int64), x)
    neutral = case.scaler.predict(case.state(), np.zeros(1, dtype=np.int64), x)
    require_close(found, neutral, "δ at the centre")
