"""Parts that break one promise each: whatever checks parts must find them out.

Each entry is a part and the promises it breaks beside the one it is meant to break, where one
cannot be broken without the other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import numpy as np

from examples.skeletons import instance as garden
from gdcb import (
    Approval,
    ArmList,
    BetaThompson,
    Bounds,
    CategoryKernel,
    CurveThompson,
    GaussianThompson,
    LogisticThompson,
    Multiply,
    NumberKernel,
    Payoff,
    RidgeScaler,
    SimulatedPerson,
)
from gdcb.arms import Arms
from gdcb.arrays import Array
from gdcb.bandits.base import require_same_shape, require_unscaled
from gdcb.bandits.beta import BetaState
from gdcb.bandits.marginals import Marginals
from gdcb.composition import ActionColumn
from gdcb.errors import InvalidInput
from gdcb.gates.base import status_of
from gdcb.records import EXPIRED, HELD, MODIFIED, PASSED, VETOED, Evidence, Located

Broken = tuple[Any, set[str]]


def but(part: Any, *extras: str, **changes: Any) -> Broken:
    """Return the part with some attributes of its class replaced, and what else that breaks."""
    kind = type(f"Broken{type(part).__name__}", (type(part),), changes)
    settings = {f.name: getattr(part, f.name) for f in dataclasses.fields(part) if f.init}
    return kind(**settings), set(extras)


def loose(part: Any) -> Broken:
    """Return the part with settings that can be set."""
    return but(part, __setattr__=object.__setattr__)


def factor(n: int, at: int) -> float:
    """Return a factor that shows in the last bits where a batch has `at` rows."""
    return 1.0 + 1e-13 * (n == at)


class Shared(np.ndarray):
    """An array whose copy is itself, once it holds anything."""

    def copy(self, order: Any = "C") -> Any:
        return self if bool((np.asarray(self) != 0).any()) else super().copy(order)


# Bandits

BETA = BetaThompson()
GAUSS = GaussianThompson()
CURVE = CurveThompson()
LOGISTIC = LogisticThompson()


@dataclass(slots=True)
class Counted:
    """Pseudo-counts, and a number beside them."""

    counts: Array
    number: Array = field(metadata={"axis": "constant"})


@dataclass(slots=True)
class Kept:
    """Pseudo-counts that a refold is told to leave alone."""

    counts: Array = field(metadata={"axis": "constant"})


def with_number(self: Any, group: Array, arms: Arms) -> Counted:
    return Counted(BetaThompson.init(self, group, arms).counts, np.zeros(1, dtype=np.int64))


def draw_and_count(self: Any, rng: Any, state: Any, at: Any) -> Array:
    state.number[0] += 1
    return BetaThompson.draw(self, rng, state, at)


def update_and_retype(self: Any, state: Any, evidence: Any) -> None:
    BetaThompson.update(self, state, evidence)
    if ((evidence.weight > 0) & (evidence.arm >= 0)).any():
        state.number = np.ones(1)


def draw_in_turn(self: Any, rng: Any, state: Any, at: Any) -> Array:
    """Let what the rows in front know show in the last bits of a row, as a shared sampler does."""
    known = state.counts[at.cell].sum(axis=(1, 2))
    in_front = np.cumsum(known) - known
    return np.asarray(BetaThompson.draw(self, rng, state, at) * (1.0 + 1e-12 * in_front[:, None]))


def spread_nan(self: Any, draw: Array, located: Located) -> Array:
    seen = 0.0 * located.coord[..., 0].sum(axis=1, keepdims=True)
    return np.asarray(BetaThompson.value(self, draw, located) + seen)


def with_weight(change: Callable[[Any], Array]) -> Callable[[Any, Any, Any], None]:
    def update(self: Any, state: Any, evidence: Any) -> None:
        BetaThompson.update(self, state, replace(evidence, weight=change(evidence)))

    return update


def update_in_turn(self: Any, state: Any, evidence: Any) -> None:
    """Give a row a weight that hangs on what was learned before it: the order shows."""
    require_unscaled(evidence, "broken")
    for i in np.flatnonzero((evidence.weight > 0) & (evidence.arm >= 0)):
        cell, arm, y = evidence.cell[i], evidence.arm[i], evidence.y[i]
        weight = evidence.weight[i] * (1.0 + 1e-3 * np.sin(state.counts[cell, 0, arm]))
        state.counts[cell, :, arm] += weight * y, weight * (1.0 - y)


def write_then_refuse(self: Any, state: Any, evidence: Any) -> None:
    good = (evidence.y >= 0) & (evidence.y <= 1)
    weight = np.where(good, evidence.weight, 0.0)
    y = np.where(good, evidence.y, 0.0)
    BetaThompson.update(self, state, replace(evidence, y=y, weight=weight, scale=None))
    if not good.all() or evidence.scale is not None:
        raise InvalidInput("too late")


def credit_backwards(self: Any, state: Any, evidence: Any) -> None:
    last = state.counts.shape[2] - 1
    arm = np.where(evidence.arm >= 0, last - evidence.arm, -1)
    BetaThompson.update(self, state, replace(evidence, arm=arm))


def credit_the_first(self: Any, state: Any, evidence: Any) -> None:
    BetaThompson.update(self, state, replace(evidence, arm=np.maximum(evidence.arm, 0)))


def update_and_move(self: Any, state: Any, evidence: Any) -> None:
    BetaThompson.update(self, state, evidence)
    evidence.coord += 1.0


def merge_with_prior(self: Any, state: Any, other: Any) -> None:
    BetaThompson.merge(self, state, other)
    state.counts += 1e-3


def merge_the_larger(self: Any, state: Any, other: Any) -> None:
    """Keep the larger count: that has a neutral element and any grouping, but adds nothing up."""
    require_same_shape(state.counts, other.counts)
    np.maximum(state.counts, other.counts, out=state.counts)


def merge_unlooked(self: Any, state: Any, other: Any) -> None:
    state.counts += other.counts - np.array([[self.wins], [self.losses]])


def decay_with(change: Callable[[float], float]) -> Callable[[Any, Any, float, Array], None]:
    def decay(self: Any, state: Any, factor: float, cell: Array) -> None:
        BetaThompson.decay(self, state, change(factor) if 0 <= factor <= 1 else factor, cell)

    return decay


def decay_all(self: Any, state: Any, factor: float, cell: Array) -> None:
    BetaThompson.decay(self, state, factor, np.arange(state.counts.shape[0]))


class Repeated:
    """Random numbers whose rows come in blocks of the same ones."""

    def __init__(self, rng: Any, each: int) -> None:
        self.rng, self.each = rng, each

    def normal(self, n: int, *shape: int) -> Array:
        return np.asarray(self.rng.normal(n, *shape)[np.arange(n) // self.each * self.each])


def draw_in_blocks(each: int) -> Callable[..., Any]:
    def draw(self: Any, rng: Any, state: Any, at: Any) -> Any:
        return CurveThompson.draw(self, Repeated(rng, each), state, at)  # type: ignore[arg-type]

    return draw


def learn_as(part: Any, **changes: Callable[[Any], Any]) -> Callable[[Any, Any, Any], None]:
    """Learn evidence some of whose columns were changed."""

    def update(self: Any, state: Any, evidence: Any) -> None:
        new = {name: change(evidence) for name, change in changes.items()}
        type(part).update(self, state, replace(evidence, **new))

    return update


def unscaled(evidence: Any) -> Array:
    return np.asarray(evidence.y if evidence.scale is None else evidence.y / evidence.scale)


@dataclass(slots=True)
class Grouped:
    """Pseudo-counts, and the group of each cell."""

    counts: Array
    group: Array


def with_group(self: BetaThompson, group: Array, arms: Arms) -> Grouped:
    """Start from the prior, and remember the groups."""
    return Grouped(BetaThompson.init(self, group, arms).counts, group.copy())


def forget_and_refit(self: LogisticThompson, state: Any, evidence: Evidence) -> None:
    """Write before anything is checked."""
    state.weights.mean[evidence.cell] = 0.0
    LogisticThompson.refit(self, state, evidence)


BANDITS: dict[str, Broken] = {
    "settings are frozen": loose(BETA),
    "declares what it is": but(BETA, is_curve=0),
    "learns the target it declares": but(
        BETA, "a scale is taken off the reward", "it ranks rewards below zero", target="any"
    ),
    "a prior has its axes": but(
        BETA, init=lambda self, group, arms: BetaThompson.init(self, np.append(group, 0), arms)
    ),
    "a state survives its bytes": but(BETA, init=with_number, update=update_and_retype),
    "a copy is apart": but(
        BETA,
        init=lambda self, group, arms: BetaState(
            BetaThompson.init(self, group, arms).counts.view(Shared)
        ),
    ),
    "a state grows": but(
        BETA,
        draw=lambda self, rng, state, at: (
            BetaThompson.draw(self, rng, state, at) * (1.0 + 1e-13 * len(state.counts))
        ),
    ),
    "a refold starts afresh": but(
        BETA, init=lambda self, group, arms: Kept(BetaThompson.init(self, group, arms).counts)
    ),
    "a draw has the rows first": but(
        BETA,
        draw=lambda self, rng, state, at: (
            BetaThompson.draw(self, rng, state, at),
            np.zeros(at.cell.size + 1),
        ),
        value=lambda self, draw, located: BetaThompson.value(
            self, draw[0] if isinstance(draw, tuple) else draw, located
        ),
    ),
    "values and means have their shape": but(
        BETA,
        "draws average to the mean",
        mean=lambda self, *where: 2.0 * BetaThompson.mean(self, *where),
    ),
    "an arm located is the arm": but(
        BETA,
        value=lambda self, draw, located: (
            BetaThompson.value(self, draw, located) + 1e-3 * (not located.is_nominal)
        ),
    ),
    "some rows of a draw stand alone": but(
        BETA,
        value=lambda self, draw, located: (
            BetaThompson.value(self, draw, located) * factor(len(draw), 2)
        ),
    ),
    "what does not run disturbs nothing": but(BETA, value=spread_nan),
    "the same key draws the same": but(BETA, init=with_number, draw=draw_and_count),
    "a draw does not see its neighbours": but(
        BETA,
        "a state grows",
        "a refold starts afresh",
        "decay touches its cells only",
        draw=draw_in_turn,
    ),
    "what it does not read changes nothing": but(
        BETA,
        mean=lambda self, state, at, located: (
            BetaThompson.mean(self, state, at, located) * (1.0 + 1e-9 * at.x[:, :1])
        ),
    ),
    "what it reads matters": but(
        LOGISTIC, "what it does not read changes nothing", reads=frozenset({"delta"})
    ),
    "rows of a cell draw apart": but(CURVE, draw=draw_in_blocks(10_000)),
    "draws average to the mean": but(
        BETA, mean=lambda self, *at: 0.8 * BetaThompson.mean(self, *at) + 0.1
    ),
    "inputs are left alone": but(BETA, update=update_and_move),
    "a row without weight teaches nothing": but(
        BETA, update=with_weight(lambda evidence: np.maximum(evidence.weight, 1e-3))
    ),
    "a row without an arm teaches no arm": but(BETA, update=credit_the_first),
    "a row of weight 2 is two rows": but(
        LOGISTIC, update=learn_as(LOGISTIC, weight=lambda one: (one.weight > 0).astype(float))
    ),
    "a scale is taken off the reward": but(
        GAUSS, update=learn_as(GAUSS, y=unscaled, scale=lambda one: None)
    ),
    "it ranks rewards below zero": but(GAUSS, update=learn_as(GAUSS, y=lambda one: np.abs(one.y))),
    "a batch is a loop": but(
        BETA,
        "a row of weight 2 is two rows",
        "an update does not see its neighbours",
        "merging halves is the whole",
        update=with_weight(lambda evidence: evidence.weight * (1 + 1e-6 * len(evidence.weight))),
    ),
    "cells may change places": but(
        BETA,
        draw=lambda self, rng, state, at: (
            BetaThompson.draw(self, rng, state, at) * (1.0 + 1e-6 * at.cell[:, None])
        ),
    ),
    "an update does not see its neighbours": but(
        BETA,
        update=with_weight(
            lambda evidence: evidence.weight * (1 + 1e-13 * len(np.unique(evidence.cell)))
        ),
    ),
    "a refusal changes nothing": but(BETA, update=write_then_refuse),
    "it learns which arm is best": but(BETA, update=credit_backwards),
    "the order of rows does not matter": but(
        BETA,
        "a row of weight 2 is two rows",
        "merging halves is the whole",
        "decay halves the evidence",
        update=update_in_turn,
    ),
    "merging halves is the whole": but(BETA, merge=merge_the_larger),
    "merging the prior changes nothing": but(
        BETA, "merging halves is the whole", merge=merge_with_prior
    ),
    "a wrong merge is refused": but(BETA, merge=merge_unlooked),
    "decay goes from all to nothing": but(BETA, decay=decay_with(lambda f: max(f, 0.01))),
    "decay touches its cells only": but(BETA, decay=decay_all),
    "decay halves the evidence": but(BETA, decay=decay_with(lambda f: f**0.5)),
    "marginals are the law of the draws": but(
        BETA,
        marginals=lambda self, state, at: Marginals(
            "beta", (state.counts[at.cell][:, 0] * 1.5, state.counts[at.cell][:, 1])
        ),
    ),
    "predictive is a density": but(
        BETA,
        predictive=lambda self, state, evidence: (
            BetaThompson.predictive(self, state, evidence) - 0.01
        ),
    ),
    "a refit is of its rows alone": but(LOGISTIC, refit=LogisticThompson.update),
    "a refused refit changes nothing": but(LOGISTIC, refit=forget_and_refit),
}

# Scalers

RIDGE = RidgeScaler(features=("first", "second"))


def observe_with(**changes: Callable[[Array], Array]) -> Callable[..., None]:
    """Observe rows some of whose columns were changed."""

    def observe(self: Any, state: Any, *rows: Array) -> None:
        names = ("owner", "x", "action", "label", "weight")
        given = dict(zip(names, rows, strict=True))
        for name, change in changes.items():
            given[name] = change(given[name])
        RidgeScaler.observe(self, state, *given.values())

    return observe


def observe_and_erase(self: Any, state: Any, owner: Any, x: Any, action: Any, *rest: Any) -> None:
    RidgeScaler.observe(self, state, owner, x, action, *rest)
    action[:] = 0.0


def observe_among(self: Any, state: Any, owner: Any, x: Any, action: Any, *rest: Any) -> None:
    label, weight = rest
    weight = weight * (1 + 1e-13 * len(np.unique(owner)))
    RidgeScaler.observe(self, state, owner, x, action, label, weight)


def observe_then_refuse(self: Any, state: Any, owner: Any, *rest: Any) -> None:
    state.since[owner] += 1
    RidgeScaler.observe(self, state, owner, *rest)


def observe_and_retype(self: Any, state: Any, *rows: Any) -> None:
    RidgeScaler.observe(self, state, *rows)
    state.since = state.since.astype(float)


def predict_at_once(self: Any, state: Any, owner: Any, x: Any) -> Array:
    everyone = np.arange(state.versions.size)
    now = replace(state, theta=state.sums.solve(everyone, self.penalty))
    return RidgeScaler.predict(self, now, owner, x)


def publish_twice(self: Any, state: Any, owners: Any) -> Array:
    changed = RidgeScaler.publish(self, state, owners)
    state.versions[changed] += 1
    return changed


def publish_and_name_the_first(self: Any, state: Any, owners: Any) -> Array:
    """Name, and count, only the first publication of an owner."""
    is_known = state.versions > 0
    changed = RidgeScaler.publish(self, state, owners)
    state.versions[changed[is_known[changed]]] -= 1
    return np.asarray(changed[~is_known[changed]])


def publish_everyone(self: Any, state: Any, owners: Any) -> Array:
    """Count a publication whether or not the fit is new."""
    state.versions[np.setdiff1d(owners, RidgeScaler.publish(self, state, owners))] += 1
    return np.asarray(owners)


def share_theta(self: Any, n_owners: int) -> Any:
    state = RidgeScaler.init(self, n_owners)
    return replace(state, theta=state.theta.view(Shared))


def merge_nothing(self: Any, state: Any, other: Any) -> None:
    if state.theta.shape != other.theta.shape:
        raise InvalidInput("other owners")


def merge_badly(self: Any, state: Any, other: Any) -> None:
    if state.theta.shape != other.theta.shape:
        raise ValueError("other owners")
    RidgeScaler.merge(self, state, other)


def decay_a_little(self: Any, state: Any, factor: float, owner: Any) -> None:
    RidgeScaler.decay(self, state, max(factor, 0.01) if 0 <= factor <= 1 else factor, owner)


def decay_anything(self: Any, state: Any, factor: float, owner: Any) -> None:
    RidgeScaler.decay(self, state, factor if 0 <= factor <= 1 else 1.0, owner)


SLOPE = "delta is as large as the signal"

SCALERS: dict[str, Broken] = {
    "settings are frozen": loose(RIDGE),
    "declares what it is": but(RIDGE, supports={"merge", "decay"}),
    "delta has its shape": but(replace(RIDGE, link="identity"), SLOPE, is_positive=True),
    "delta is neutral before data": but(
        RIDGE, predict=lambda self, *at: 2.0 * RidgeScaler.predict(self, *at)
    ),
    "rows of delta stand alone": but(
        RIDGE,
        predict=lambda self, state, owner, x: (
            RidgeScaler.predict(self, state, owner, x) * factor(len(x), 1)
        ),
    ),
    "uncertainty is not negative": but(
        RIDGE, uncertainty=lambda self, *at: -1.0 - RidgeScaler.uncertainty(self, *at)
    ),
    "delta is centred where declared": but(
        replace(RIDGE, centre=(1.0, 1.0)),
        supports=frozenset({"merge"}),
        predict=lambda self, state, owner, x: (
            RidgeScaler.predict(self, state, owner, x)
            * (1.0 + 0.01 * state.versions[owner])[:, None, None]
        ),
    ),
    "delta waits for a publication": but(
        RIDGE, "publishing names whose delta changed", predict=predict_at_once
    ),
    "a version counts publications": but(RIDGE, publish=publish_twice),
    "publishing names whose delta changed": but(RIDGE, publish=publish_and_name_the_first),
    "what is due becomes due by rows": but(RIDGE, due=lambda self, state: state.versions[:0]),
    "inputs are left alone": but(RIDGE, observe=observe_and_erase),
    "a missing label teaches nothing": but(RIDGE, observe=observe_with(label=np.nan_to_num)),
    "a row without weight teaches nothing": but(
        RIDGE, observe=observe_with(weight=lambda weight: np.maximum(weight, 1e-3))
    ),
    "a batch is a loop": but(
        RIDGE,
        "a row of weight 2 is two rows",
        "owners do not see each other",
        "merging halves is the whole",
        observe=observe_with(weight=lambda weight: weight * (1 + 1e-4 * len(weight))),
    ),
    "a row of weight 2 is two rows": but(
        RIDGE, observe=observe_with(weight=lambda weight: (weight > 0).astype(float))
    ),
    "owners do not see each other": but(RIDGE, observe=observe_among),
    SLOPE: but(RIDGE, predict=lambda self, *at: RidgeScaler.predict(self, *at) ** 2),
    "it learns the signal": but(RIDGE, SLOPE, observe=observe_with(label=lambda label: -label)),
    "a refusal changes nothing": but(RIDGE, observe=observe_then_refuse),
    "a state survives its bytes": but(RIDGE, observe=observe_and_retype),
    "a copy is apart": but(RIDGE, init=share_theta),
    "a state grows": but(
        RIDGE,
        predict=lambda self, state, owner, x: (
            RidgeScaler.predict(self, state, owner, x)
            * (1.0 + 1e-12 * len(state.versions) * (state.versions[owner] > 0))[:, None, None]
        ),
    ),
    "merging halves is the whole": but(RIDGE, merge=merge_nothing),
    "a wrong merge is refused": but(RIDGE, merge=merge_badly),
    "decay goes from all to nothing": but(RIDGE, decay=decay_a_little),
    "a wrong decay is refused": but(RIDGE, decay=decay_anything),
}

# Compositions

TIMES = Multiply(base=("base",))


def steps_below_zero(self: Any, *at: Any) -> Located:
    found = Multiply.locate(self, *at)
    return replace(found, measure=lambda: -found.steps)


def locate_together(self: Any, arms: Any, e: Array, delta: Any, x: Any) -> Located:
    return Multiply.locate(self, arms, e + 0.0 * e.sum(axis=1, keepdims=True), delta, x)


def erase(self: Any, e: Array, x: Array) -> Array:
    e[:] = 0.0
    return e


COMPOSITIONS: dict[str, Broken] = {
    "settings are frozen": loose(TIMES),
    "it says which arms it takes": but(TIMES, arm_kind="any"),
    "columns have names": but(TIMES, needs_positive=1),
    "actions have their shape": but(
        TIMES, columns=lambda self, arms: (ActionColumn("action", ("a", "b")),)
    ),
    "a shared delta is every arms": but(
        TIMES,
        _unit=lambda self, delta, x: (
            Multiply._unit(self, delta, x) * (1.0 + 0.0005 * (delta.shape[1] > 1))
        ),
    ),
    "locating inverts composing": but(
        TIMES,
        locate=lambda self, arms, e, delta, x: Multiply.locate(self, arms, 1.01 * e, delta, x),
    ),
    "located actions have their shape": but(TIMES, locate=steps_below_zero),
    "rows stand alone": but(
        TIMES,
        compose=lambda self, arms, delta, x: (
            Multiply.compose(self, arms, delta, x) * factor(len(x), 2)
        ),
    ),
    "inputs are left alone": but(TIMES, "relative takes the context off", relative=erase),
    "what does not run disturbs nothing": but(TIMES, locate=locate_together),
    "relative takes the context off": but(TIMES, relative=lambda self, e, x: e),
    "the lipschitz bound holds": but(
        TIMES, lipschitz=lambda self, *at: 0.5 * Multiply.lipschitz(self, *at)
    ),
}

# Gates

BOUNDS = Bounds(low=1.0, high=100.0)
PERSON = Approval(
    SimulatedPerson(
        lambda e, rows: np.full(e.shape[:2], 0.6), lambda rows: 50.0 * rows.x[:, :1], veto=0.3
    )
)


def always_modified(self: Any, draws: Any, e: Any, rows: Any) -> tuple[Array, Array]:
    left, status = Approval.apply(self, draws, e, rows)
    return left, np.where(status == PASSED, MODIFIED, status).astype(np.int8)


def moved_and_touched(self: Any, e: Any, rows: Any) -> Array:
    rows.x[:, -1] += 1.0
    return np.asarray(Bounds.moved(self, e, rows))


def filled(self: Any, e: Array, rows: Any) -> Array:
    return np.asarray(np.nan_to_num(Bounds.project(self, e, rows), nan=1.0))


def fill_in(self: Any, draws: Any, e: Array, rows: Any) -> tuple[Array, Array]:
    left = self.project(e[:, None], rows)[:, 0]
    return left, status_of(e, left)


def check_without_categories(self: Any, columns: Any) -> None:
    if columns[0].levels:
        raise KeyError(columns[0].name)


def open_beyond(limit: float) -> Callable[..., Array]:
    def project(self: Any, e: Array, rows: Any) -> Array:
        return np.where(np.abs(e) > limit, e, Bounds.project(self, e, rows))

    return project


def claim(eta: float) -> Callable[..., Array]:
    return lambda self, e, rows: np.full(len(e), eta)


FAR = "far numbers are judged too"

GATES: dict[str, Broken] = {
    "settings are frozen": loose(BOUNDS),
    "declares what it is": but(BOUNDS, per="nobody"),
    "it says what it cannot judge": but(BOUNDS, check=check_without_categories),
    FAR: but(BOUNDS, project=open_beyond(1e5)),
    "a status says what left": but(PERSON, FAR, apply=always_modified),
    "proposals are left alone": but(BOUNDS, moved=moved_and_touched),
    "nothing in is nothing out": but(BOUNDS, project=filled, apply=fill_in),
    "draws are made for every row": but(
        PERSON, draw=lambda self, rng, n: np.ascontiguousarray(rng.uniform(3, n).T)
    ),
    "rows stand alone": but(
        BOUNDS,
        project=lambda self, e, rows: Bounds.project(self, e, rows) * factor(len(e), 3),
    ),
    "the operator is the average": but(
        PERSON,
        FAR,
        expect=lambda self, value, e, rows, kernel=None: (
            Approval.expect(self, value, e, rows, kernel) + 0.1 * (kernel is None)
        ),
    ),
    "what passed passes again": but(
        BOUNDS, FAR, project=lambda self, e, rows: (e + Bounds.project(self, e, rows)) / 2
    ),
    "moved says how far": but(BOUNDS, moved=lambda self, e, rows: np.zeros(e.shape[:2])),
    "a reason is a sentence": but(BOUNDS, reason=lambda self, *at: ""),
    "what leaves was within reach": but(PERSON, reach=lambda self, e, rows: e),
    "contraction bounds what proposals change": but(PERSON, contraction=claim(0.55)),
}


def approval_with(*extras: str, **changes: Any) -> Broken:
    """Return the gate of a person of whom a broken kernel is learned."""
    return Approval(kernel=but(NumberKernel(), **changes)[0]), set(extras)


def learn_and_touch(self: Any, state: Any, owner: Any, rows: Any, *seen: Any) -> None:
    NumberKernel.learn(self, state, owner, rows, *seen)
    rows.x[:, -1] += 1.0


def learn_together(self: Any, state: Any, owner: Any, rows: Any, *seen: Any) -> None:
    NumberKernel.learn(self, state, owner, rows, *seen)
    state.rates *= 1.0 + 1e-13 * len(np.unique(owner))


def learn_and_retype(self: Any, state: Any, owner: Any, rows: Any, *seen: Any) -> None:
    NumberKernel.learn(self, state, owner, rows, *seen)
    state.counts = state.counts.astype(np.float32)


def learn_as_if(seen: int, taken: int) -> Callable[..., None]:
    """Learn verdicts of one kind as if they were of another."""

    def learn(self: Any, state: Any, owner: Any, rows: Any, *told: Any) -> None:
        entered, left, status = told
        status = np.where(status == seen, taken, status)
        NumberKernel.learn(self, state, owner, rows, entered, left, status)

    return learn


def learn_what_entered(self: Any, state: Any, owner: Any, rows: Any, *told: Any) -> None:
    """Take an edit for an approval, in a table."""
    entered, left, status = told
    left = np.where((status == MODIFIED)[:, None], entered, left)
    CategoryKernel.learn(self, state, owner, rows, entered, left, status)


KERNELS: dict[str, Broken] = {
    "it says what it cannot judge": approval_with(check=check_without_categories),
    "a belief has the owners first": approval_with(
        init=lambda self, n_owners, n: NumberKernel.init(self, n_owners + 1, n)
    ),
    "learning leaves inputs alone": approval_with(learn=learn_and_touch),
    "owners do not see each other": approval_with(learn=learn_together),
    "a belief survives its bytes": approval_with(learn=learn_and_retype),
    "it learns what a person does": approval_with(
        "an expired hold is a veto", learn=learn_as_if(VETOED, PASSED)
    ),
    "it learns what a person puts in": approval_with(learn=learn_as_if(MODIFIED, PASSED)),
    "it learns what a person approves": approval_with(learn=learn_as_if(PASSED, VETOED)),
    "an expired hold is a veto": approval_with(learn=learn_as_if(EXPIRED, HELD)),
}

# Rewards

PAYS = Payoff(action=0, cost="cost", lose=-1.0)


def mark(self: Any, y: Array) -> None:
    y[:] = 0.0


REWARDS: dict[str, Broken] = {
    "settings are frozen": loose(PAYS),
    "declares what it is": but(
        PAYS, __post_init__=lambda self: object.__setattr__(self, "outcome", ["won"])
    ),
    "answers have their shape": but(PAYS, learn=lambda self, y, x: (y[:, 0], np.ones(y.shape[0]))),
    "worth is linear in value": but(
        PAYS, worth=lambda self, value, e, x: Payoff.worth(self, value**2, e, x)
    ),
    "worth agrees with reward": but(PAYS, reward=lambda self, *at: Payoff.reward(self, *at) + 1.0),
    "impossible outcomes are refused": but(PAYS, check=lambda self, y: None),
    "rows stand alone": but(
        PAYS, worth=lambda self, value, e, x: Payoff.worth(self, value, e, x) * factor(len(x), 2)
    ),
    "inputs are left alone": but(PAYS, "impossible outcomes are refused", check=mark),
    "what does not run disturbs nothing": but(
        PAYS,
        worth=lambda self, value, e, x: (
            Payoff.worth(self, value, e, x) + 0.0 * e[..., 0].sum(axis=1, keepdims=True)
        ),
    ),
}

# Arms

LIST = ArmList(values=(1.0, 2.0, 4.0))
_ordinal = count()


class Turned(Arms):
    """Arms that are located at each other."""

    def locate(self, coord: Array) -> Located:
        found = super().locate(coord)
        return replace(found, arm=self.n - 1 - found.arm)


class Stretched(Arms):
    """Arms that are three times as far as they are."""

    def locate(self, coord: Array) -> Located:
        found = super().locate(coord)
        return replace(found, measure=lambda: 3.0 * found.steps)


def built_as(kind: type[Arms]) -> Callable[[Any], Arms]:
    def build(self: Any) -> Arms:
        arms = ArmList.build(self)
        return kind(arms.names, arms.coords, arms.steps, arms.is_exact)

    return build


ARMS: dict[str, Broken] = {
    "settings are frozen": loose(LIST),
    "it builds the same arms again": but(
        LIST,
        build=lambda self: replace(
            ArmList.build(self), names=tuple(f"{next(_ordinal)}" for _ in self.values)
        ),
    ),
    "every arm is where it is": but(LIST, build=built_as(Turned)),
    "nothing far is near": but(LIST, build=built_as(Stretched)),
}

# Domains

GARDEN = garden.build()


class Later(garden.Beds):
    """Beds after their first day."""


def world_with(*extras: str, **changes: Any) -> Broken:
    """Return the garden in a world with some methods replaced."""
    return replace(GARDEN, world=but(garden.Garden(), **changes)[0]), set(extras)


def context_with(change: Callable[[Array], Array]) -> Callable[..., Any]:
    def context(self: Any, *at: Any) -> Any:
        rows = garden.Garden.context(self, *at)
        rows.x = change(rows.x)
        return rows

    return context


def sample_and_grow(self: Any, rng: Any, state: Any, e: Any, rows: Any) -> Array:
    outcome = garden.Garden.sample(self, rng, state, e, rows)
    state.need += 1e-9
    return outcome


DOMAINS: dict[str, Broken] = {
    "it says what it is": (replace(GARDEN, about=""), set()),
    "contexts lie in the schema": world_with(context=context_with(lambda x: 1.5 * x)),
    "answers have their shape": world_with(label=lambda self, *at: None),
    "the optimum is best": world_with(
        mean=lambda self, state, e, rows: (
            garden.Garden.mean(self, state, e, rows) + 1e3 * (e[..., 0] == 8.0)
        )
    ),
    "the mean is the mean of samples": world_with(
        sample=lambda self, *at: garden.Garden.sample(self, *at) + 0.1
    ),
    "rows stand alone": world_with(
        mean=lambda self, state, e, rows: (
            garden.Garden.mean(self, state, e, rows) * factor(rows.n, 2)
        )
    ),
    "asking changes nothing": world_with(sample=sample_and_grow),
    "regret splits": world_with(
        best=lambda self, state, rows: (
            garden.Garden.best(self, state, rows) + 9.0 * isinstance(state, Later)
        ),
        advance=lambda self, rng, state, *rest: Later(state.need),
    ),
    "replicates stand alone": world_with(context=context_with(lambda x: x * (1 - 1e-12 * len(x)))),
}

# Other ways to break a promise

MORE: list[tuple[str, Broken]] = [
    (
        "it learns what a person puts in",
        (Approval(kernel=but(CategoryKernel(), learn=learn_what_entered)[0]), set()),
    ),
    ("rows of a cell draw apart", but(CURVE, draw=draw_in_blocks(2))),
    (
        "draws average to the mean",
        but(CURVE, mean=lambda self, *at: CurveThompson.mean(self, *at) ** 9),
    ),
    (
        "a row of weight 2 is two rows",
        but(LOGISTIC, update=learn_as(LOGISTIC, weight=lambda one: one.weight**0.5)),
    ),
    (
        "a scale is taken off the reward",
        but(GAUSS, update=learn_as(GAUSS, scale=lambda one: None)),
    ),
    (
        "it ranks rewards below zero",
        but(GAUSS, update=learn_as(GAUSS, y=lambda one: np.maximum(one.y, 0.0))),
    ),
    (FAR, but(BOUNDS, project=open_beyond(1e11))),
    ("contraction bounds what proposals change", but(BOUNDS, contraction=claim(0.0))),
    ("contraction bounds what proposals change", but(Approval(), contraction=claim(0.9))),
    ("publishing names whose delta changed", but(RIDGE, publish=publish_everyone)),
    ("delta is neutral before data", but(RIDGE, is_informed=True)),
    (
        "a state grows",  # where newcomers join a group
        but(
            BETA,
            draw=lambda self, rng, state, at: (
                BetaThompson.draw(self, rng, state, at)
                * (1.0 + 1e-13 * (state.group.tolist() == [0] * 6))
            ),
            init=with_group,
        ),
    ),
    (
        SLOPE,
        but(RIDGE, predict=lambda self, *at: RidgeScaler.predict(self, *at) ** 0.5),
    ),
]
