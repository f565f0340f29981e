"""Curves of rewards that share a group's: against the dense normal model that they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gdcb import records
from gdcb.arms import ArmList
from gdcb.arrays import Array
from gdcb.bandits import CurveThompson
from gdcb.bandits.normal_curve import NormalCurveState, NormalCurveThompson
from gdcb.checks.lists import report
from gdcb.errors import InvalidInput
from gdcb.records import Evidence, Setting
from tests.parts.builders import evidence, fixed, rng_of, stream, take

ARMS = ArmList(values=(0.1, 0.3, 0.5, 0.7, 0.9)).build()
GROUP = np.array([0, 0, 0, 1, 1, 2])  # three units, two, one
CURVE = CurveThompson(
    link="identity", degree=2, prior_mean=(0.5, -1.0, 0.2), prior_sd=(2.0, 1.0, 0.5), noise=0.7
)
BANDITS = {
    "plain": NormalCurveThompson(CURVE, own_sd=(0.3, 0.2, 0.4)),
    "level": NormalCurveThompson(
        CURVE,
        own_sd=(0.3, 0.2, 0.4, 0.1, 0.2),
        level=2,
        level_mean=(-1.0, 0.3),
        level_sd=(0.5, 0.6),
    ),
}
EVERY = pytest.mark.parametrize("name", BANDITS)


def some_rows(n: int, seed: int) -> Evidence:
    """Return n rows between the arms, with weights, scales and a δ each."""
    rng = rng_of(seed)
    cell, coord = rng.integers(0, GROUP.size, n), rng.uniform(-0.2, 1.2, (n, 1))
    y = 1.0 - 3.0 * (coord[:, 0] - 0.6) ** 2 + 0.2 * cell + 0.5 * rng.normal(size=n)
    weight, scale = rng.choice([0.25, 1.0, 2.0], n), rng.uniform(0.5, 2.0, n)
    made = evidence(cell, np.full(n, -1), y, coord, scale, weight)
    return replace(made, delta=0.3 * rng.normal(size=(n, 1, 1)))


def pick(some: Evidence, index: Any) -> Evidence:
    """Return the evidence rows at `index`, with their δ."""
    return replace(take(some, index), delta=None if some.delta is None else some.delta[index])


def learned(bandit: NormalCurveThompson, *batches: Evidence) -> NormalCurveState:
    """Return six units in three groups after some batches."""
    state = bandit.init(GROUP, ARMS)
    for batch in batches:
        bandit.update(state, batch)
    return state


def features(bandit: NormalCurveThompson, some: Evidence) -> Array:
    """Work out φ by hand: (1, u, u²) and powers of δ/half; the arms' middle is 0.5, half 0.4."""
    assert some.delta is not None
    u, d = (some.coord[:, 0] - 0.5) / 0.4, some.delta[:, 0, 0] / 0.4
    columns = [np.ones_like(u), u, u * u, d, d * d]
    return np.stack(columns[: 3 + bandit.level], axis=1)


def dense(bandit: NormalCurveThompson, some: Evidence) -> tuple[Array, Array]:
    """Condition the joint normal of all units' coefficients on all rows: (6, m), (6, m, m)."""
    mean = np.array((*CURVE.prior_mean, *bandit.level_mean))
    group_sd = np.array((2.0, 1.0, 0.5, *bandit.level_sd))
    assert isinstance(bandit.own_sd, tuple)
    m, units = mean.size, GROUP.size
    joint = np.zeros((units * m, units * m))
    for a in range(units):
        for b in range(units):
            block = (GROUP[a] == GROUP[b]) * np.diag(group_sd**2)
            block = block + (a == b) * np.diag(np.array(bandit.own_sd) ** 2)
            joint[a * m : (a + 1) * m, b * m : (b + 1) * m] = block
    phi, assigned = features(bandit, some), np.zeros((some.y.size, units * m))
    assert some.scale is not None
    for i, unit in enumerate(some.cell):
        assigned[i, unit * m : (unit + 1) * m] = some.scale[i] * phi[i]
    noise = np.diag(CURVE.noise**2 / some.weight)
    gain = joint @ assigned.T @ np.linalg.inv(assigned @ joint @ assigned.T + noise)
    start = np.tile(mean, units)
    found = start + gain @ (some.y - assigned @ start)
    left = joint - gain @ assigned @ joint
    blocks = [left[a * m : (a + 1) * m, a * m : (a + 1) * m] for a in range(units)]
    return found.reshape(units, m), np.stack(blocks)


@EVERY
def test_the_posterior_is_the_dense_one(name: str) -> None:
    """Mean and covariance of every unit agree with the joint normal of all units to 1e-9."""
    some = some_rows(40, 1)
    state = learned(BANDITS[name], some)
    mean, covariance = dense(BANDITS[name], some)
    assert np.allclose(state.mean, mean, atol=1e-9)
    assert np.allclose(state.root @ state.root.swapaxes(-1, -2), covariance, atol=1e-9)


@EVERY
def test_a_batch_is_the_rows_one_by_one(name: str) -> None:
    """Sums add up in any order."""
    bandit, some = BANDITS[name], some_rows(25, 2)
    whole = learned(bandit, some)
    order = rng_of(0).permutation(25)
    singly = learned(bandit, *(pick(some, order[i : i + 1]) for i in range(25)))
    assert np.allclose(whole.mean, singly.mean, atol=1e-10)
    assert np.allclose(whole.root, singly.root, atol=1e-10)


@EVERY
def test_groups_know_nothing_of_each_other(name: str) -> None:
    """Rows of one group leave the others' bytes alone."""
    bandit, some = BANDITS[name], some_rows(30, 3)
    both = learned(bandit, some)
    first = learned(bandit, pick(some, np.flatnonzero(some.cell < 3)))
    assert both.mean[:3].tobytes() == first.mean[:3].tobytes()
    assert both.root[:3].tobytes() == first.root[:3].tobytes()
    untouched = bandit.init(GROUP, ARMS)
    assert first.mean[3:].tobytes() == untouched.mean[3:].tobytes()


@EVERY
def test_what_is_expected_is_the_curve_at_the_mean(name: str) -> None:
    """At located actions under a δ, and draws scatter around it with the posterior's width."""
    bandit, some = BANDITS[name], some_rows(40, 4)
    state = learned(bandit, some)
    at = Setting(some.cell, None, some.delta)
    located = ARMS.locate(some.coord[:, None])
    expected = (features(bandit, some) * state.mean[some.cell]).sum(axis=1)
    assert np.allclose(bandit.mean(state, at, located)[:, 0], expected, atol=1e-10)
    still = replace(bandit, width=0.0)
    drawn = still.value(still.draw(stream(5), state, at), located)[:, 0]
    assert np.allclose(drawn, expected, atol=1e-10)


def test_draws_have_the_posterior_s_spread() -> None:
    """4,000 draws of one unit: their variance within 4 standard errors (false alarm 1e-4)."""
    bandit, some = BANDITS["level"], some_rows(40, 5)
    state, n = learned(bandit, some), 4000
    delta = np.full((n, 1, 1), 0.2)
    at = Setting(np.full(n, 2), None, delta)
    values = bandit.value(bandit.draw(stream(6, 4000), state, at), ARMS.nominal)[:, 3]
    phi = np.array([1.0, 0.5, 0.25, 0.5, 0.25])
    variance = float(phi @ state.root[2] @ state.root[2].T @ phi)
    assert abs(values.var() / variance - 1.0) < 4 * np.sqrt(2 / n)
    assert abs(values.mean() - phi @ state.mean[2]) < 4 * np.sqrt(variance / n)


@EVERY
def test_predictive_densities_are_scipy_s(name: str) -> None:
    """The density before a row is learned; left out, that of the state that lacks it."""
    bandit, some = BANDITS[name], some_rows(12, 6)
    state = learned(bandit, some)
    phi = features(bandit, some)
    assert some.scale is not None
    eta = (phi * state.mean[some.cell]).sum(axis=1)
    roots = state.root[some.cell]
    spread = np.array([p @ r @ r.T @ p for p, r in zip(phi, roots, strict=True)])
    sd = np.sqrt(some.scale**2 * spread + CURVE.noise**2)
    assert np.allclose(
        bandit.predictive(state, some), stats.norm.logpdf(some.y, some.scale * eta, sd), atol=1e-9
    )
    others = np.arange(12) != 4
    without = learned(bandit, pick(some, np.flatnonzero(others)))
    one = pick(some, np.array([4]))
    assert np.allclose(
        bandit.leave_one_out(state, some)[4], bandit.predictive(without, one)[0], atol=1e-8
    )


@EVERY
def test_states_merge_and_decay(name: str) -> None:
    """Merged halves are the whole; half the evidence is each row with half its weight."""
    bandit, some = BANDITS[name], some_rows(30, 7)
    first = learned(bandit, pick(some, np.arange(15)))
    bandit.merge(first, learned(bandit, pick(some, np.arange(15, 30))))
    assert np.allclose(first.mean, learned(bandit, some).mean, atol=1e-10)
    state = learned(bandit, some)
    bandit.decay(state, 0.5, np.arange(6))
    halved = learned(bandit, replace(some, weight=0.5 * some.weight))
    assert np.allclose(state.mean, halved.mean, atol=1e-10)
    with pytest.raises(InvalidInput, match="same groups"):
        bandit.merge(state, bandit.init(GROUP[::-1].copy(), ARMS))


@given(st.lists(st.sampled_from([np.nan, np.inf, -np.inf]), min_size=1, max_size=3), st.data())
@fixed
def test_bad_outcomes_change_nothing(bad: list[float], data: st.DataObject) -> None:
    """They are refused by name, and the state keeps its bytes."""
    bandit, some = BANDITS["level"], some_rows(8, 8)
    state = learned(bandit, some_rows(10, 9))
    before = records.to_bytes(state)
    y = some.y.copy()
    y[data.draw(st.integers(0, 7))] = bad[0]
    with pytest.raises(InvalidInput):
        bandit.update(state, replace(some, y=y))
    weight = some.weight.copy()
    weight[0] = np.inf
    with pytest.raises(InvalidInput, match="weight"):
        bandit.update(state, replace(some, weight=weight))
    with pytest.raises(InvalidInput, match="its level needs one δ a row"):
        bandit.update(state, replace(some, delta=None))
    assert records.to_bytes(state) == before


def test_states_travel_as_bytes() -> None:
    """Written and read back they are the same."""
    state = learned(BANDITS["level"], some_rows(10, 10))
    like = BANDITS["level"].init(GROUP, ARMS)
    written = records.to_bytes(state)
    assert records.to_bytes(records.from_bytes(written, like)) == written


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"curve": CurveThompson()}, "bandit.curve: expected a CurveThompson with link 'identity'"),
        ({"curve": None}, "bandit.curve: expected a CurveThompson"),
        ({"own_sd": 0.0}, "bandit.own_sd: expected a number >= 1e-05"),
        ({"level": 3}, "bandit.level: expected 0, 1 or 2, got 3"),
        ({"level": True}, "bandit.level: expected 0, 1 or 2, got True"),
        ({"level": 1}, "bandit.level_mean: expected 1 number, got"),
        ({"level": 1, "level_mean": (0.0,), "level_sd": (0.0,)}, "level_sd: expected numbers > 0"),
        ({"level": 1, "level_mean": (np.nan,)}, "bandit.level_mean: expected a finite number"),
        ({"width": -1.0}, "bandit.width: expected a number >= 0"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    """Settings that cannot work are refused by name."""
    with pytest.raises(InvalidInput, match=message):
        NormalCurveThompson(**settings)


def test_spreads_must_fit_the_curve() -> None:
    """One a coefficient; categories have no curve."""
    bandit = NormalCurveThompson(CURVE, own_sd=(0.1, 0.1))
    with pytest.raises(InvalidInput, match=r"bandit.own_sd: expected 3 numbers, got 2"):
        bandit.init(GROUP, ARMS)
    with pytest.raises(InvalidInput, match="NormalCurveThompson needs arms with a metric"):
        NormalCurveThompson(CURVE).init(GROUP, ArmList(names=("a", "b")).build())


@EVERY
def test_it_keeps_the_promises_of_a_bandit(name: str) -> None:
    """The conformance list finds nothing."""
    found = report(BANDITS[name])
    assert found.is_conforming, str(found)
