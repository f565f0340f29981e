"""What a bandit is to a round."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Protocol

import numpy as np

from gdcb.arms import Arms
from gdcb.arrays import (
    Array,
    along,
    at_least,
    is_all,
    is_any,
    namespace,
    on_host,
    put_where,
)
from gdcb.errors import InvalidInput
from gdcb.parts import check_number
from gdcb.records import Evidence, Located, Setting
from gdcb.streams import Stream


class Bandit(Protocol):
    """A learner over nominal arms: a frozen record of settings and functions of a state.

    A *cell* is one posterior: a unit, or a unit's band of δ. A draw is a function on located
    actions and not just one number an arm, because gates move actions off the arms. Once a row's
    setting is known, context and δ are constants: a draw holds what is left, as an array or a
    tuple of arrays (and of such tuples) with the rows first.

    Attributes
    ----------
    target : 'class' if it learns the probability of an outcome class in [0, 1], 'reward' if it
        learns the reward itself, 'any' if it can do either
    is_curve : whether it predicts and learns between the arms
    reads : what it reads beside the arm: 'x' (the context itself), 'delta' (δ of the row), both, or
        neither. A warm start takes the worth of the context off the outcomes only for learners
        that read neither, so a wrong declaration makes it erase what the learner is to learn, or
        leave in what misleads it. `gdcb.checks` holds a learner to its declaration
    supports : which of the optional methods it has: 'decay' (`decay(state, factor, cell)`
        discounts evidence towards the prior), 'merge' (`merge(state, other)` adds another state's
        evidence), 'marginals' (`marginals(state, at)` gives each arm's own law, from which
        propensities follow by quadrature), 'predictive' (`predictive(state, evidence)` gives the
        log density (N,) of each outcome before it is learned, NaN where it has none, and
        `likelihood` says of what: 'bernoulli' or 'normal'), 'refit' (`refit(state, evidence)` puts
        the exact posterior of these rows in place of what their cells learned row by row; a
        refold calls it)

    A learner that rebuilds the action from coordinate and δ says by `rebuilds` how: 'product' or
    'sum'. One that can score many rows of a cell at once has `prequential`, which a stack uses.

    A bandit whose `on_device` is true also runs on torch's arrays, with one row a cell in
    `update`. What it keeps by small steps it may put right in `refresh(state)`, which a simulation
    on a device calls now and then.
    """

    @property
    def target(self) -> str:
        """What it learns."""

    @property
    def is_curve(self) -> bool:
        """Whether it learns between the arms."""

    @property
    def reads(self) -> frozenset[str]:
        """Which of 'x' and 'delta' it reads."""

    @property
    def supports(self) -> frozenset[str]:
        """Which optional methods it has."""

    def init(self, group: Array, arms: Arms) -> Any:
        """Return the prior state of `len(group)` cells; cells of a group may share."""

    def draw(self, rng: Stream, state: Any, at: Setting) -> Any:
        """Sample a value function for each row; the leading axis is the rows'."""

    def value(self, draw: Any, located: Located) -> Array:
        """Evaluate drawn value functions (N, ...) at located actions: (N, M)."""

    def mean(self, state: Any, at: Setting, located: Located) -> Array:
        """Posterior mean at located actions: (N, M)."""

    def update(self, state: Any, evidence: Evidence) -> None:
        """Fold evidence in, in place; refuse before the first write, or not at all."""


def take_arm(values: Array, located: Located, otherwise: Array | float) -> Array:
    """Read (N, K) values of independent arms at located actions.

    An action between arms has the value of the nearest one; one comparable to no arm has the
    value `otherwise`: independent arms know nothing in between.
    """
    if located.is_nominal:
        return values
    arm, (n, k) = located.arm, values.shape
    if not on_host(values):
        known = along(values, at_least(arm, 0), axis=1)
        if isinstance(otherwise, float):
            return put_where(known, arm < 0, otherwise)
        elsewhere: Array = namespace(values).where(arm < 0, otherwise, known)
        return elsewhere
    first = np.arange(0, n * k, k)[:, None]
    unknown = arm < 0
    if not is_any(unknown):
        taken: Array = np.take(values.reshape(-1), (first + arm).reshape(-1)).reshape(arm.shape)
        return taken
    known = np.take(values.reshape(-1), (first + np.maximum(arm, 0)).reshape(-1))
    taken = np.where(unknown, otherwise, known.reshape(arm.shape))
    return taken


def credited(evidence: Evidence) -> Evidence:
    """Return the rows that teach an arm; on a device all rows, where the others weigh nothing."""
    is_known = (evidence.arm >= 0) & (evidence.weight > 0)
    if not on_host(evidence.arm):
        arm, weight = at_least(evidence.arm, 0), put_where(evidence.weight, evidence.arm < 0, 0.0)
        return replace(evidence, arm=arm, weight=weight)
    if is_all(is_known):
        return evidence
    known = np.flatnonzero(is_known)
    columns: dict[str, Any] = {
        field.name: getattr(evidence, field.name) for field in fields(evidence)
    }
    for name, column in columns.items():
        columns[name] = None if column is None else column[known]
    return Evidence(**columns)


def require_unscaled(evidence: Evidence, learner: str) -> None:
    """Refuse a reward scale and targets outside [0, 1]."""
    if evidence.scale is not None:
        raise InvalidInput(f"{learner}: learns classes and takes no reward scale s(x)")
    if on_host(evidence.y) and not is_all((evidence.y >= 0.0) & (evidence.y <= 1.0)):
        raise InvalidInput(f"{learner}: expected outcomes in [0, 1], got {evidence.y}")


def check_factor(factor: float) -> float:
    """Refuse a share of evidence to keep that is not within [0, 1]."""
    check_number("decay", factor, 0.0, 1.0)
    return factor


def require_same_shape(mine: Array, other: Array) -> None:
    """Refuse to merge states of other cells or arms."""
    if mine.shape != other.shape:
        raise InvalidInput(f"merge: expected a state of shape {mine.shape}, got {other.shape}")


def require_context(x: Array | None, learner: str) -> Array:
    """Return the context, or refuse where a contextual learner was given none."""
    if x is None:
        raise InvalidInput(f"{learner}: reads the context; give x in the setting or evidence")
    return x
