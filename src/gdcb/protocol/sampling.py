"""Tuning worlds: many rows of every unit, with what learners learn known exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.instances import Study, Tuning
from gdcb.protocol.ground import neutral_of
from gdcb.records import Rows
from gdcb.scalers import Scaler
from gdcb.simulate import World
from gdcb.streams import (
    ADVANCE,
    CONTEXT,
    DRAW,
    INCUMBENT,
    LABEL,
    OUTCOME,
    WORLD,
    Streams,
)

GROUPS, CONTEXTS = 40, 400  # tuning worlds, and rows of each of their units
NOISE = 0.5  # the largest standard deviation of an outcome that is 0 or 1
_CHUNK = 8192  # rows whose actions are in memory at once
_LEAST_SIZE = 1e-9  # of the difference between two classes, from which a mean tells them apart


@dataclass(slots=True)
class Sample:
    """Many rows of every unit, under actions drawn evenly over the arms that are allowed.

    Parameters
    ----------
    instance : without a scaler
    world, state, units : the worlds, and units a group
    contexts : rows of a unit
    seed : of the streams from which labels come
    rows : n = units · contexts rows, those of a unit together
    arm, coord : (n,), (n, C) the arm and its coordinates
    action, target : (n, D), (n,) the action, and what learners learn of it, exactly: the
        probability of the class that pays, or E[r]/s(x)
    scale : (n,) declared scale s(x) of the reward, or None for 1
    noise : standard deviation of what comes around s(x)·target; ½ where it is a class
    ask : (e (n, M, D), rows) → (n, M) the target of any actions
    """

    instance: Instance
    world: World
    state: Any
    units: int
    contexts: int
    seed: int
    rows: Rows
    arm: Array
    coord: Array
    action: Array
    target: Array
    scale: Array | None
    noise: float
    ask: Callable[[Array, Rows], Array]

    def by_unit(self, values: Array) -> Array:
        """Return values of rows as (units, contexts, …)."""
        return values.reshape(-1, self.contexts, *values.shape[1:])

    @property
    def is_class(self) -> bool:
        """Whether a class is learned."""
        return self.instance.reward.target == "class"

    @property
    def size(self) -> float:
        """How large the target is: 1 for a class, else its standard deviation over all rows."""
        return 1.0 if self.is_class else float(self.target.std())

    def delta(self, scaler: Scaler) -> Array:
        """Return δ (n, 1 or K, q) as a scaler finds it from what all rows of its owner show."""
        taught = replace(self.instance, scaler=scaler, gate=self.instance.chain)
        part: Any = taught.scaler
        rows = self.rows
        owner = rows.unit if part.per == "unit" else rows.group
        owners = np.arange(int(owner.max()) + 1)
        known, weight = part.init(owners.size), np.ones(rows.n)
        relative = taught.composition.relative(self.action, rows.x)
        if part.learns_from == "outcome":
            part.refit(known, owners, owner, rows.x, relative, self.target, weight)
            part.publish(known, owners)
        elif part.n_labels:
            part.observe(known, owner, rows.x, relative, self._labels(part.n_labels), weight)
            part.publish(known, owners)
        found = [
            part.predict(known, owner[some], rows.x[some])
            for some in np.split(np.arange(rows.n), range(_CHUNK, rows.n, _CHUNK))
        ]
        return np.concatenate(found)

    def located(self, delta: Array) -> Array:
        """Return the coordinates (n, C) that the actions have under δ."""
        phi, space = self.instance.composition, self.instance.space
        return phi.locate(space, self.action[:, None], delta, self.rows.x).coord[:, 0]

    def _labels(self, n_labels: int) -> Array:
        """Draw the labels of all rows, round by round: (n, n_labels)."""
        streams, out = Streams(self.seed, self.units), np.empty((self.rows.n, n_labels))
        for t in range(self.contexts):
            at = np.arange(t, self.rows.n, self.contexts)
            label = self.world.label(
                streams.at(LABEL, t), self.state, self.action[at], self.rows.take(at)
            )
            if label is None:
                raise InvalidInput(
                    f"instance '{self.instance.name}': its scaler learns from labels, and its "
                    "world has none"
                )
            out[at] = label
        return out


def tuning_of(study: Study) -> Tuning:
    """Return what a study is tuned with."""
    if study.tuning is None:
        raise InvalidInput(f"instance '{study.domain.instance.name}': it is not tuned")
    return study.tuning


def allowed(u: Array, n_arms: int, mask: Array | None) -> Array:
    """Return the arm that a uniform number (n,) picks among those that are allowed: (n,).

    >>> u = np.array([0.1, 0.6])
    >>> allowed(u, 3, None).tolist(), allowed(u, 3, np.array([[False, True, True]] * 2)).tolist()
    ([0, 1], [1, 2])
    """
    if mask is None:
        return np.minimum((u * n_arms).astype(np.int64), n_arms - 1)
    count = mask.sum(axis=1)
    rank = np.minimum((u * count).astype(np.int64), count - 1)
    return np.asarray((np.cumsum(mask, axis=1) == rank[:, None] + 1).argmax(axis=1))


def sample(
    study: Study,
    instance: Instance,
    seed: int,
    groups: int = GROUPS,
    contexts: int = CONTEXTS,
) -> Sample:
    """Draw the tuning worlds; `instance` is the study's without a scaler."""
    units, world = study.domain.units, study.domain.world
    learned = tuning_of(study).learned or _from_mean(instance, world)
    group = np.repeat(np.arange(groups), units)
    streams = Streams(seed, units)
    state = world.start(streams.at(WORLD, 0), group)
    seen, drawn = [], []
    now = state
    for t in range(contexts):
        rows = world.context(streams.at(CONTEXT, t), now, t, group)
        seen.append(rows)
        drawn.append(streams.at(DRAW, t).uniform(group.size))
        if study.domain.is_endogenous:  # whoever was there before goes on
            ran = study.incumbent(streams.at(INCUMBENT, t), now, rows)
            outcome = world.sample(streams.at(OUTCOME, t), now, ran, rows)
            now = world.advance(streams.at(ADVANCE, t), now, ran, outcome, rows)
    order = np.arange(contexts * group.size).reshape(contexts, -1).T.ravel()
    rows = Rows.concatenate(seen).take(order)
    arm = allowed(np.concatenate(drawn)[order], instance.space.n, rows.mask)
    neutral = np.full((rows.n, 1, 1), neutral_of(instance).value)
    actions = instance.composition.compose(instance.space, neutral, rows.x)
    action = actions[np.arange(rows.n), arm]

    def ask(e: Array, rows: Rows) -> Array:
        return learned(state, e, rows)

    found = Sample(
        instance=instance,
        world=world,
        state=state,
        units=units,
        contexts=contexts,
        seed=seed,
        rows=rows,
        arm=arm,
        coord=instance.space.coords[arm],
        action=action,
        target=ask(action[:, None], rows)[:, 0],
        scale=instance.reward.learn(np.zeros((rows.n, len(instance.reward.outcome))), rows.x)[1],
        noise=NOISE,
        ask=ask,
    )
    return found if found.is_class else replace(found, noise=_noise(found, streams))


def _from_mean(instance: Instance, world: World) -> Callable[[Any, Array, Rows], Array]:
    """Return what is learned from what it is worth: a reward is affine in it."""
    reward = instance.reward

    def learned(state: Any, e: Array, rows: Rows) -> Array:
        none = np.zeros(e.shape[:2])
        low, high = reward.worth(none, e, rows.x), reward.worth(none + 1.0, e, rows.x)
        if (np.abs(high - low) < _LEAST_SIZE).any():
            raise InvalidInput(
                f"instance '{instance.name}': both classes pay the same for an action, so that its "
                "mean does not say how likely they are; give Tuning.learned"
            )
        value = (world.mean(state, e, rows) - low) / (high - low)
        return np.asarray(value.clip(0.0, 1.0) if reward.target == "class" else value)

    return learned


def _noise(found: Sample, streams: Streams) -> float:
    """Return how far outcomes lie from what is expected of them, as a standard deviation."""
    total = 0.0
    for t in range(found.contexts):
        at = np.arange(t, found.rows.n, found.contexts)
        some = found.rows.take(at)
        outcome = found.world.sample(streams.at(OUTCOME, t), found.state, found.action[at], some)
        y = found.instance.reward.learn(outcome, some.x)[0]
        expected = found.target[at] if found.scale is None else (found.scale * found.target)[at]
        total += float(((y - expected) ** 2).sum())
    return float(np.sqrt(total / found.rows.n))
