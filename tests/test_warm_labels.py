"""A history with labels: scalers that learn from labels start warm, as those of outcomes do."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from gdcb import round as turn
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.instances import Domain, load
from gdcb.instances.past import BEFORE, generate
from gdcb.records import History, Rows
from gdcb.refold import learns_before, warm_up
from gdcb.simulate import Turn, simulate
from gdcb.streams import CONTEXT, WORLD, Stream, Streams

UNITS, GROUPS = 4, 3


def incumbent(rng: Stream, state: Any, rows: Rows) -> Array:
    return np.full((rows.n, 1), 5.0) + 0.05 * (rows.x[:, 2:3] - 60.0)


def past(rows: int = 50, seed: int = 5) -> tuple[Domain, History, Array]:
    domain = load("dosing")
    group, streams = np.repeat(np.arange(GROUPS), UNITS), Streams(seed, UNITS)
    state = domain.world.start(streams.at(WORLD, 0), group)
    history = generate(
        domain.instance, domain.world, state, group, streams, rows=rows, incumbent=incumbent
    )
    return domain, history, group


def labels_of(history: History) -> Array:
    assert history.label is not None
    return history.label


def test_a_history_has_so_many_rows_of_every_replicate_and_a_label_each() -> None:
    _, history, _ = past(rows=50)
    assert np.bincount(history.log.group).tolist() == [50] * GROUPS
    assert np.bincount(history.log.unit).tolist() == [13, 13, 12, 12] * GROUPS
    assert history.label is not None
    assert history.label.shape == (150, 1)
    assert np.isfinite(history.label).all()


def test_rounds_of_the_past_come_from_streams_of_their_own() -> None:
    domain, history, group = past(rows=4)
    streams = Streams(5, UNITS)
    state = domain.world.start(streams.at(WORLD, 0), group)
    rows = domain.world.context(streams.at(CONTEXT, BEFORE), state, -1, group)
    assert np.array_equal(history.rows.x, rows.x)


def test_the_scaler_starts_from_what_ridge_regression_makes_of_the_labels() -> None:
    domain, history, group = past(rows=60)
    instance, bandit = domain.instance, domain.instance.bind(domain.bandit)
    state = turn.init(instance, bandit, group)
    warm_up(instance, bandit, state, history, group)
    x = history.rows.x[:7]
    for g in range(GROUPS):
        of = history.log.group == g
        scaler: Any = instance.scaler
        alone = scaler.fit(history.log.x[of], labels_of(history)[of])
        owner = np.zeros(7, dtype=np.int64)
        expected = instance.scaler.predict(alone, owner, x)
        found = instance.scaler.predict(state.scaler, owner + g, x)
        assert np.allclose(found, expected, rtol=0, atol=1e-9)
        assert np.abs(found).max() > 0.1


def test_rows_without_a_label_teach_the_scaler_nothing() -> None:
    domain, history, group = past(rows=40)
    instance, bandit = domain.instance, domain.instance.bind(domain.bandit)
    holes = np.arange(history.log.unit.size) % 2 == 0
    gappy = replace(history, label=np.where(holes[:, None], np.nan, labels_of(history)))
    some, fewer = turn.init(instance, bandit, group), turn.init(instance, bandit, group)
    warm_up(instance, bandit, some, gappy, group)
    warm_up(instance, bandit, fewer, history.take(np.flatnonzero(~holes)), group)
    assert np.array_equal(some.scaler.theta, fewer.scaler.theta)


def test_only_the_loop_that_is_asked_for_learns() -> None:
    domain, history, group = past(rows=40)
    instance, bandit = domain.instance, domain.instance.bind(domain.bandit)
    cold = turn.init(instance, bandit, group)
    arms = turn.init(instance, bandit, group)
    warm_up(instance, bandit, arms, history, group, teaches=("arms",))
    assert np.array_equal(arms.scaler.theta, cold.scaler.theta)
    scaler = turn.init(instance, bandit, group)
    warm_up(instance, bandit, scaler, history, group, teaches=("scaler",))
    assert not np.array_equal(scaler.scaler.theta, cold.scaler.theta)


def test_whether_a_scaler_learns_from_a_history_hangs_on_its_labels() -> None:
    domain, history, _ = past(rows=8)
    assert learns_before(domain.instance, history)
    assert not learns_before(domain.instance, replace(history, label=None))


@pytest.mark.parametrize("label", [np.zeros((3, 1)), np.zeros((150, 2)), np.full((150, 1), 1e300)])
def test_labels_that_cannot_be_are_refused_and_nothing_is_learned(label: Array) -> None:
    domain, history, group = past(rows=50)
    instance, bandit = domain.instance, domain.instance.bind(domain.bandit)
    state = turn.init(instance, bandit, group)
    before = state.scaler.theta.copy(), state.scaler.sums.count.copy()
    with pytest.raises(InvalidInput, match="label"):
        warm_up(instance, bandit, state, replace(history, label=label), group)
    assert np.array_equal(state.scaler.theta, before[0])
    assert np.array_equal(state.scaler.sums.count, before[1])


def _keep(deltas: list[Array], turned: Turn) -> None:
    deltas.append(turned.decision.delta)


def test_a_run_that_starts_warm_knows_the_offset_in_its_first_round() -> None:
    domain, history, _ = past(rows=60)
    seen = []
    for start in (None, history):
        deltas: list[Array] = []
        simulate(
            domain.instance,
            domain.bandit,
            domain.world,
            rounds=1,
            replicates=GROUPS,
            units=UNITS,
            seed=5,
            watch=partial(_keep, deltas),
            history=start,
        )
        seen.append(deltas[0])
    assert (seen[0] == 0).all()
    assert np.abs(seen[1]).max() > 0.1
