"""What every domain promises: an instance, and a world whose truth is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb import round as turn
from gdcb.analysis import Ledger
from gdcb.analysis.regret import gate_floor, regret_parts
from gdcb.arrays import Array
from gdcb.checks.base import (
    bytes_of,
    require,
    require_close,
    require_finite,
    require_same_bytes,
    require_shape,
)
from gdcb.context import Category, Flag, Schema
from gdcb.errors import InvalidInput
from gdcb.instances.catalogue import Domain
from gdcb.records import Rows, to_bytes
from gdcb.simulate import Turn, simulate
from gdcb.streams import CONTEXT, OUTCOME, WORLD, Stream, Streams

_ROUNDS = 12


@dataclass(frozen=True, eq=False)
class DomainCase:
    """A domain, and a few units of its world in their first round."""

    domain: Domain

    def stream(self, stage: int, t: int = 0) -> Stream:
        """Return random numbers of a stage, as a simulation has them."""
        return Streams(5, rows_per_replicate=self.domain.units).at(stage, t)

    def first_round(self, replicates: int = 3) -> tuple[Any, Rows]:
        """Return the world's state and the rows of round 0."""
        group = np.repeat(np.arange(replicates), self.domain.units)
        state = self.domain.world.start(self.stream(WORLD), group)
        return state, self.domain.world.context(self.stream(CONTEXT), state, 0, group)

    def proposals(self, rows: Rows) -> Array:
        """Return what every arm proposes before anything was learned: (N, K, D), read-only."""
        instance = self.domain.instance
        bandit = instance.bind(self.domain.bandit)
        delta, _ = turn.scale(instance, turn.init(instance, bandit, rows.group), rows)
        e = instance.composition.compose(instance.space, delta, rows.x)
        e.flags.writeable = False
        return e

    def run(self, replicates: int, watch: Callable[[Turn], None] | None = None) -> Any:
        """Simulate a few rounds."""
        domain = self.domain
        return simulate(
            domain.instance,
            domain.bandit,
            domain.world,
            rounds=_ROUNDS,
            replicates=replicates,
            units=domain.units,
            seed=3,
            watch=watch,
            keep_log=True,
        )


def case_of(domain: Domain) -> DomainCase:
    """Return the domain on trial."""
    return DomainCase(domain)


def it_says_what_it_is(case: DomainCase) -> None:
    """Names of the instance and its unit are text, and `about` says what is real and what made."""
    domain = case.domain
    for name, value in (("instance.name", domain.instance.name), ("unit", domain.unit)):
        require(value, f"{name}: expected text, got {value!r}")
    require(domain.units >= 1, f"units: expected 1 or more, got {domain.units!r}")
    require(len(str(domain.about).split()) >= 10, "about: say what is real in it and what is made")


def contexts_lie_in_the_schema(case: DomainCase) -> None:
    """Contexts that the world shows could have been sent by a client, to the last bit."""
    instance, (state, rows) = case.domain.instance, case.first_round()
    for t in range(4):
        if t:
            context = case.domain.world.context
            rows = context(case.stream(CONTEXT, t), state, t, rows.group)
        try:
            instance.check_rows(rows, rows.n)
            again = instance.context.encode([decoded(instance.context, x) for x in rows.x])
        except InvalidInput as error:
            require(False, f"round {t}: {error}")
        require_same_bytes(again, np.ascontiguousarray(rows.x), f"contexts of round {t}, encoded")


def decoded(schema: Schema, x: Array) -> dict[str, Any]:
    """Return encoded columns as named fields."""
    context: dict[str, Any] = {}
    for name, kind in schema.columns.items():
        values = x[schema.positions[name]]
        if isinstance(kind, Flag):
            context[name] = bool(values[0])
        elif isinstance(kind, Category):
            context[name] = kind.levels[int(values.argmax())]
        else:
            context[name] = float(values[0])
    return context


def answers_have_their_shape(case: DomainCase) -> None:
    """Means, optima, candidates, outcomes and labels have their shapes; outcomes can be."""
    instance, world = case.domain.instance, case.domain.world
    state, rows = case.first_round()
    n, d = rows.n, len(instance.actions)
    e = case.proposals(rows)
    mean = world.mean(state, e, rows)
    require_shape(mean, (n, instance.space.n), "mean")
    require_finite(mean, "mean")
    best = world.best(state, rows)
    require_shape(best, (n, d), "best")
    candidates = world.candidates(state, rows)
    require_shape(candidates, (n, candidates.shape[1], d), "candidates")
    outcome = world.sample(case.stream(OUTCOME), state, e[:, 0], rows)
    require_shape(outcome, (n, len(instance.reward.outcome)), "outcomes")
    instance.reward.check(outcome)
    label = world.label(case.stream(OUTCOME), state, e[:, 0], rows)
    if label is not None and instance.scaler.n_labels:
        require_shape(label, (n, instance.scaler.n_labels), "labels")
    elif instance.scaler.n_labels:
        require(False, "the scaler learns from labels, and the world never gives any")


def the_optimum_is_best(case: DomainCase) -> None:
    """No candidate and no arm is worth more than e*."""
    world, (state, rows) = case.domain.world, case.first_round(6)
    best = world.mean(state, world.best(state, rows)[:, None], rows)
    within = 1e-9 * max(1.0, float(np.abs(best).max()))
    for name, e in (
        ("a candidate", world.candidates(state, rows)),
        ("an arm", case.proposals(rows)),
    ):
        gap = float((world.mean(state, e, rows) - best).max())
        require(gap <= within, f"{name} is worth {gap:.3g} more than the optimum")


def the_mean_is_the_mean_of_samples(case: DomainCase) -> None:
    """E[r | e, x] is what 8,000 samples of an arm, and of nothing running, have on average.

    |z| < 6 in every unit's cells, a false alarm below 1e-7 by the central limit theorem; the
    seed is fixed.
    """
    instance, world = case.domain.instance, case.domain.world
    (state, rows), n = case.first_round(), 8_000
    e = case.proposals(rows)[np.arange(rows.n), np.arange(rows.n) % instance.space.n]
    null = instance.null.of(rows.x, e.shape[1])
    many = rows.take(np.repeat(np.arange(rows.n), n))
    for place, (name, action) in enumerate((("an arm", e), ("the null action", null))):
        expected = world.mean(state, action[:, None], rows)[:, 0]
        ran = np.repeat(action, n, axis=0)
        outcome = world.sample(Streams(6).at(OUTCOME, place), state, ran, many)
        reward = instance.realised(outcome, ran, many.x).reshape(rows.n, n)
        error = reward.std(axis=1, ddof=1) / n**0.5
        gap = np.abs(reward.mean(axis=1) - expected)
        worst = int((gap - 6.0 * error).argmax())
        text = f"{name}, unit {worst}: the samples' mean is {gap[worst]:.3g} off"
        require((gap <= 6.0 * error + 1e-9).all(), f"{text}, standard error {error[worst]:.3g}")


def rows_stand_alone(case: DomainCase) -> None:
    """Rows alone have the means and optima that they had among all rows, to the bit."""
    world, (state, rows) = case.domain.world, case.first_round()
    e, some = case.proposals(rows), np.array([rows.n - 1, 0])
    whole = world.mean(state, e, rows)[some]
    alone = world.mean(state, e[some], rows.take(some))
    require_same_bytes(np.ascontiguousarray(alone), np.ascontiguousarray(whole), "means")
    best = world.best(state, rows)[some]
    again = world.best(state, rows.take(some))
    require_same_bytes(np.ascontiguousarray(again), np.ascontiguousarray(best), "optima")


def asking_changes_nothing(case: DomainCase) -> None:
    """Asking the world for means, optima, outcomes or labels changes neither state nor rows."""
    world, (state, rows) = case.domain.world, case.first_round()
    e = case.proposals(rows)
    before = bytes_of(state), bytes_of(rows)
    world.mean(state, e, rows)
    world.best(state, rows)
    world.candidates(state, rows)
    world.sample(case.stream(OUTCOME), state, e[:, 0], rows)
    world.label(case.stream(OUTCOME), state, e[:, 0], rows)
    require(bytes_of(state) == before[0], "the world's state was changed")
    require(bytes_of(rows) == before[1], "the rows were changed")


def regret_splits(case: DomainCase) -> None:
    """Regret is calibration, bandit and gate, to 1e-9; the first two and the floor are not below 0.

    A short simulation is watched in every row of every round.
    """
    domain = case.domain

    def watch(played: Turn) -> None:
        parts = regret_parts(domain.instance, domain.world, played)
        total = parts.calibration + parts.bandit + parts.gate
        if parts.inherited is not None:
            total = total + parts.inherited
        require_close(total, parts.total, f"round {played.t}: the parts' sum and the total")
        floor = gate_floor(domain.instance, domain.world, played)
        for name, found in (
            ("calibration", parts.calibration),
            ("bandit", parts.bandit),
            ("floor", floor),
        ):
            require_finite(found, name)
            size = max(1.0, float(np.abs(parts.total).max()))
            text = f"round {played.t}: {name} is {found.min():.3g}, below 0"
            require(found.min() >= -1e-9 * size, text)

    case.run(2, watch)


def replicates_stand_alone(case: DomainCase) -> None:
    """Replicates have the same bits in a run of 2 and in a run of 5: outcomes, regret, log."""
    domain = case.domain
    logs, ledgers = [], []
    for replicates in (2, 5):
        ledger = Ledger(domain.instance, domain.world, _ROUNDS, replicates)
        log = case.run(replicates, ledger).log
        logs.append(log.take(np.flatnonzero(log.group < 2)))
        ledgers.append(ledger)
    require(to_bytes(logs[0]) == to_bytes(logs[1]), "the log of a replicate differs")
    for name in ("parts", "reward"):
        one, two = (np.ascontiguousarray(getattr(one, name)[:, :2]) for one in ledgers)
        require_same_bytes(one, two, f"the {name} of a replicate")


CHECKS = (
    it_says_what_it_is,
    contexts_lie_in_the_schema,
    answers_have_their_shape,
    the_optimum_is_best,
    the_mean_is_the_mean_of_samples,
    rows_stand_alone,
    asking_changes_nothing,
    regret_splits,
    replicates_stand_alone,
)
