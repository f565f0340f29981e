"""Refolding: after a publication the arms know what they would have learned under the new δ."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gdcb import (
    Agent,
    BetaThompson,
    CurveThompson,
    HierarchicalCurveThompson,
    HierarchicalThompson,
    Instance,
    StackedThompson,
)
from gdcb import round as turn
from gdcb.arrays import Array
from gdcb.bandits import Bandit
from gdcb.contrast import ContrastState, look, weigh
from gdcb.contrast import learn as learn_contrast
from gdcb.credit import evidence, teach
from gdcb.instance import Cells
from gdcb.instances import load
from gdcb.records import Setting, copy, flatten, to_bytes
from gdcb.refold import publish, refold
from gdcb.simulate import Simulation, simulate
from tests.builders import letting, night, with_rules

ROUNDS, REPLICATES = 45, 5  # `str` publishes after every 40 labels of a group of 4 units

LEARNERS = {
    "beta": BetaThompson(),
    "curve": load("str").bandit,
    "hierarchical": HierarchicalThompson(),
}
# Their refold is the exact fit of all rows, not a fold of one after the other.
FITTED: dict[str, Any] = {
    "additive curve": CurveThompson(form="additive"),
    "shared curves": HierarchicalCurveThompson(CurveThompson(form="additive"), own_sd=0.4),
    "stack": StackedThompson((CurveThompson(), CurveThompson(form="additive"))),
}


def played(name: str, overrides: str) -> tuple[Instance, Bandit, Simulation]:
    """Return `str` after 45 rounds: four publications a group, rows since the last one too."""
    domain = load("str")
    instance = with_rules(domain.instance, overrides=overrides)
    bandit = (LEARNERS | FITTED)[name]
    run = simulate(
        instance,
        bandit,
        domain.world,
        rounds=ROUNDS,
        replicates=REPLICATES,
        units=domain.units,
        seed=2,
        keep_log=True,
    )
    return instance, bandit, run


def folded(instance: Instance, bandit: Bandit, run: Simulation) -> turn.RoundState:
    """Return arms that learned the whole log row by row under the δ in force now."""
    assert run.log is not None
    fresh = turn.init(instance, bandit, run.group)
    fresh.scaler = run.state.scaler
    for i in range(run.log.unit.size):
        one = run.log.take(np.array([i]))
        delta, in_force = turn.scale(instance, fresh, one)
        seen, _ = evidence(instance, one, delta, in_force)
        bandit.update(fresh.bandit, weigh(instance, fresh.contrast, one, seen))
    return fresh


def assert_same(left: object, right: object) -> None:
    """Compare to 1e-10; a logistic curve's root to 1e-8, the tolerance of its last Newton step."""
    for name, array in flatten(left).items():
        other = flatten(right)[name]
        close = 1e-8 if name == "root" else 1e-10
        assert array == pytest.approx(other, rel=close, abs=close), name


def everyone(state: turn.RoundState) -> Array:
    return np.arange(REPLICATES)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_refold_is_a_fold_from_scratch_under_the_new_scaler(name: str) -> None:
    """After a publication the arms equal those that learn the whole log, row by row, from the
    prior under the δ in force, to 1e-10; and this is not what they were before."""
    instance, bandit, run = played(name, "all")
    assert run.log is not None
    before = copy(run.state.bandit)
    groups = publish(instance, run.state, everyone(run.state), run.group)
    assert groups.tolist() == list(range(REPLICATES))
    refold(instance, bandit, run.state, run.log, run.group, groups)
    assert_same(run.state.bandit, folded(instance, bandit, run).bandit)
    changed = [
        not np.allclose(array, flatten(run.state.bandit)[part], rtol=1e-6, atol=1e-6)
        for part, array in flatten(before).items()
    ]
    assert any(changed)


@pytest.mark.parametrize("name", LEARNERS)
def test_without_a_new_scaler_a_refold_changes_nothing(name: str) -> None:
    """Under the same δ the refolded arms equal the arms that learned as the rows came."""
    instance, bandit, run = played(name, "all")
    assert run.log is not None
    assert run.state.scaler.versions.min() >= 4
    before = copy(run.state.bandit)
    refold(instance, bandit, run.state, run.log, run.group, everyone(run.state))
    assert_same(run.state.bandit, before)


def test_a_refold_weighs_overrides_by_all_that_is_known() -> None:
    """Pooled: the contrast is taken anew from the whole log, and weighs every override in it."""
    instance, bandit, run = played("hierarchical", "pooled")
    assert run.log is not None
    publish(instance, run.state, everyone(run.state), run.group)
    refold(instance, bandit, run.state, run.log, run.group, everyone(run.state))
    fresh = turn.init(instance, bandit, run.group)
    fresh.scaler = run.state.scaler
    delta, in_force = turn.scale(instance, fresh, run.log)
    seen, located = evidence(instance, run.log, delta, in_force)
    contrast = ContrastState.zeros(run.group, instance.space.n)
    learn_contrast(contrast, look(instance, bandit, fresh.bandit, run.log, seen, located))
    bandit.update(fresh.bandit, weigh(instance, contrast, run.log, seen))
    assert_same(run.state.contrast, contrast)
    assert_same(run.state.bandit, fresh.bandit)
    assert seen.weight[run.log.is_override].sum() > 0


@pytest.mark.parametrize("overrides", ["all", "pooled"])
@pytest.mark.parametrize("name", FITTED)
def test_a_learner_that_can_be_fitted_anew_is(name: str, overrides: str) -> None:
    """The exact fit of the whole log under the δ in force, to 1e-7; overrides are weighed by what
    all rows say once the learner has been fitted to all of them."""
    instance, bandit, run = played(name, overrides)
    assert run.log is not None
    publish(instance, run.state, everyone(run.state), run.group)
    before = copy(run.state.bandit)
    refold(instance, bandit, run.state, run.log, run.group, everyone(run.state))
    fresh = turn.init(instance, bandit, run.group)
    fresh.scaler = run.state.scaler
    delta, in_force = turn.scale(instance, fresh, run.log)
    seen, located = evidence(instance, run.log, delta, in_force)
    fit: Any = bandit
    teach(bandit, fresh.bandit, seen, roughly=True)
    learn_contrast(fresh.contrast, look(instance, bandit, fresh.bandit, run.log, seen, located))
    weighed = weigh(instance, fresh.contrast, run.log, seen)
    fit.refit(fresh.bandit, weighed)
    for part, array in flatten(fresh.bandit).items():
        np.testing.assert_allclose(
            flatten(run.state.bandit)[part], array, rtol=1e-7, atol=1e-7, err_msg=part
        )
    assert (weighed.weight < seen.weight).any() == (overrides == "pooled")
    at = Setting(np.arange(run.group.size), None, np.ones((run.group.size, 1, 1)))
    means = [bandit.mean(one, at, instance.space.nominal) for one in (before, run.state.bandit)]
    assert np.abs(means[1] - means[0]).max() > 1e-4


@pytest.mark.parametrize("name", [*LEARNERS, *FITTED])
def test_only_the_groups_that_changed_are_touched(name: str) -> None:
    """A publication of group 2 leaves every byte of the other groups' arms and contrasts."""
    instance, bandit, run = played(name, "pooled")
    assert run.log is not None
    state = run.state
    before = copy(state)
    groups = publish(instance, state, np.array([2]), run.group)
    assert groups.tolist() == [2]
    refold(instance, bandit, state, run.log, run.group, groups)
    other_units = run.group != 2
    other_groups = np.arange(REPLICATES) != 2
    kept = {run.group.size: other_units, REPLICATES: other_groups}
    found = flatten(state)
    moved = False
    for part, array in flatten(before).items():
        if array.ndim and array.shape[0] in kept:
            rows = kept[array.shape[0]]
            assert found[part][rows].tobytes() == array[rows].tobytes(), part
            moved |= found[part][~rows].tobytes() != array[~rows].tobytes()
        else:
            assert found[part].tobytes() == array.tobytes(), part
    assert moved


@pytest.mark.parametrize("name", ["curve", *FITTED])
def test_the_order_of_the_log_does_not_matter(name: str) -> None:
    """Sums and exact fits know no order: a shuffled log refolds to the same arms."""
    instance, bandit, run = played(name, "all")
    assert run.log is not None
    order = np.random.default_rng(1).permutation(run.log.unit.size)
    one, two = copy(run.state), copy(run.state)
    refold(instance, bandit, one, run.log, run.group, everyone(one))
    refold(instance, bandit, two, run.log.take(order), run.group, everyone(two))
    if name == "curve":
        assert_same(one.bandit, two.bandit)
    for part, array in flatten(one.bandit).items():
        np.testing.assert_allclose(array, flatten(two.bandit)[part], rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", FITTED)
def test_a_band_that_lost_its_rows_is_back_at_the_prior(name: str) -> None:
    """Cells are bands of δ: when δ goes back to 1, so do all rows, and what the other bands had
    learned is gone."""
    domain = load("str")
    instance = replace(with_rules(domain.instance, overrides="all"), cells=Cells(edges=(0.9, 1.1)))
    run = simulate(
        instance,
        FITTED[name],
        domain.world,
        rounds=30,
        replicates=2,
        units=domain.units,
        seed=2,
        keep_log=True,
    )
    assert run.log is not None
    bandit, fresh = FITTED[name], turn.init(instance, FITTED[name], run.group)
    # Every unit has three cells, and the middle one is that of δ = 1.
    cells = np.arange(3 * run.group.size)
    at = Setting(cells, None, np.ones((cells.size, 1, 1)))
    prior = bandit.mean(fresh.bandit, at, instance.space.nominal)
    others = cells % 3 != 1
    before = bandit.mean(run.state.bandit, at, instance.space.nominal)
    assert np.abs(before - prior)[others].max() > 0.01
    run.state.scaler = fresh.scaler
    refold(instance, bandit, run.state, run.log, run.group, np.arange(2))
    found = bandit.mean(run.state.bandit, at, instance.space.nominal)
    np.testing.assert_allclose(found[others], prior[others], atol=1e-9)
    assert np.abs(found - prior)[~others].max() > 0.01


@pytest.mark.parametrize("name", ["curve", *FITTED])
def test_a_refold_of_no_rows_is_the_prior(name: str) -> None:
    """A group without finished rows goes back to the prior, byte for byte."""
    instance, bandit, run = played(name, "all")
    assert run.log is not None
    empty = run.log.take(np.zeros(0, dtype=np.int64))
    refold(instance, bandit, run.state, empty, run.group, everyone(run.state))
    assert to_bytes(run.state.bandit) == to_bytes(turn.init(instance, bandit, run.group).bandit)


# Live


def test_a_delayed_outcome_is_credited_under_the_scaler_in_force() -> None:
    """Decided under δ = 1, observed after a fit: the arm is e / (base · δ) under the new δ.

    Base 100. Three labels log 1.25 at busy = 0 and λ = 1 on the intercept: θ₀ = 3·0.2231/4, so
    δ = 1.25^¾ = 1.1822. The action a·100 is then the coordinate a / 1.1822: 0.677, 0.846 or
    1.057, which lies nearest to the arms 0.8, 0.8 and 1.
    """
    curve = CurveThompson(link="logistic")
    instance = letting(scaler=replace(letting().scaler, every=99))  # type: ignore[type-var]
    for bandit in (BetaThompson(), curve):
        agent = Agent(instance, bandit, seed=1)
        late = agent.decide(night(100.0), id="late")
        for i in range(3):
            case = agent.decide(night(100.0), id=f"early {i}")
            agent.observe(case.id, {"booked": 0}, label=[float(np.log(1.25))])
        agent.refit()
        before = copy(agent.state.bandit)
        agent.observe("late", {"booked": 1})
        delta = 1.25**0.75
        assert late.proposed is not None
        coordinate = late.proposed["price"] / 100.0 / delta
        if bandit is curve:
            gained = (agent.state.bandit.wins - before.wins)[0]
            middle, half = agent.state.bandit.frame[:, 0]
            assert gained[0] == 1.0
            assert middle + half * gained[1] == pytest.approx(coordinate)
        else:
            nearest = int(np.abs(np.array([0.8, 1.0, 1.25]) - coordinate).argmin())
            gained = (agent.state.bandit.counts - before.counts)[0, 0]
            assert gained.tolist() == [float(i == nearest) for i in range(3)]


def test_an_agent_refolds_what_it_observed() -> None:
    """After a fit the live arms equal a fold of all finished decisions under the new δ."""
    agent = Agent(letting(), BetaThompson(), seed=5)
    for i in range(12):
        case = agent.decide(night(80.0 + 20.0 * i, 0.1 * (i % 4)))
        agent.observe(case.id, {"booked": i % 2}, label=[0.3 * (i % 4)])
    whole = agent.kept.log
    assert whole is not None
    assert agent.state.scaler.versions.tolist() == [3]
    fresh = turn.init(agent.instance, agent.bandit, np.zeros(1, dtype=np.int64))
    delta, in_force = turn.scale(agent.instance, agent.state, whole)
    seen, _ = evidence(agent.instance, whole, delta, in_force)
    agent.bandit.update(fresh.bandit, seen)
    assert_same(agent.state.bandit, fresh.bandit)
