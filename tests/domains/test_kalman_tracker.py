"""The tracker's bank and labels: a hidden Markov model, fixed-lag smoothing, responses by hand."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.instances.kalman import labels
from gdcb.instances.kalman.labels import LAG, SIGNAL_KNOTS, STRAIN_KNOTS, Step
from gdcb.instances.kalman.plants import DEMAND, PLANTS, SETTLE, TARGET, acceleration, plant_named
from gdcb.instances.kalman.tracker import CHANGE, Track, Tracker, choose
from gdcb.kalman.filter import Model, kalman_filter
from gdcb.scalers.covariance import hats
from tests.domains.kalman_worlds import assert_same_bits, taken

BOTH = pytest.mark.parametrize("plant", [TARGET, DEMAND], ids=lambda one: one.name)
N = 6


def given(plant: Any, steps: int, seed: int, units: int = N) -> tuple[Array, ...]:
    """Return cues, and of every step: gains, measurements, strain and signal."""
    rng, axes = np.random.default_rng(seed), len(plant.axes)
    return (
        rng.normal(size=(units, axes, 2)),
        rng.uniform((0.1, 0.0), (0.9, 0.5), (steps, units, 2)),
        rng.normal(size=(steps, units, axes)).cumsum(axis=0),
        rng.random((steps, units)),
        rng.random((steps, units)),
    )


def tracked(plant: Any, parts: tuple[Array, ...]) -> list[Track]:
    """Return where the filters stand before the first step and after every one."""
    tracker, (cue, *steps) = Tracker(plant), parts
    found = [tracker.begin(cue)]
    for one in zip(*steps, strict=True):
        found.append(tracker.update(found[-1], *one))
    return found


@BOTH
def test_the_first_prediction_is_the_cue(plant: Any) -> None:
    cue = given(plant, 1, 1)[0]
    track = Tracker(plant).begin(cue)
    np.testing.assert_allclose(plant.predict(track.estimate), cue, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(plant.predict(track.bank), np.repeat(cue[:, None], 3, 1), atol=1e-12)


@BOTH
def test_estimates_are_those_of_a_filter_with_these_gains(plant: Any) -> None:
    """40 steps: the filter whose gain is decided, and the bank's at nominal gains; to 1e-9."""
    parts = given(plant, 40, 2)
    cue, gains, seen, _, _ = parts
    found, axes = tracked(plant, parts), len(plant.axes)
    z, mean = seen.reshape(40, -1, 1), cue.reshape(-1, 2)
    model = Model(plant.transition, plant.measurement, np.eye(2), np.eye(1))

    def filtered(gain: Array) -> Array:
        out = kalman_filter(z, model, mean, np.eye(2), gains=gain)
        return np.asarray(out.mean.reshape(40, N, axes, 2))

    mine = np.stack([track.estimate for track in found[1:]])
    theirs = filtered(np.repeat(gains, axes, axis=1)[..., None])
    np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9)
    for mode in range(plant.n_modes):
        own = plant.gains[mode, np.minimum(np.arange(40), SETTLE)]
        bank = np.stack([track.bank[:, mode] for track in found[1:]])
        theirs = filtered(np.tile(own[:, None, :, None], (1, N * axes, 1, 1)))
        np.testing.assert_allclose(bank, theirs, rtol=1e-9, atol=1e-9)
    assert (found[-1].age == 40.0).all()
    assert (found[-1].gain == gains[-1]).all()


@BOTH
def test_nominal_gains_are_those_of_the_filter(plant: Any) -> None:
    """By age and in the steady state; and what innovations vary by under them."""
    for mode in range(plant.n_modes):
        model = Model(
            plant.transition, plant.measurement, plant.process[mode], np.full((1, 1), plant.noise)
        )
        out = kalman_filter(np.zeros((2000, 1, 1)), model, np.zeros(2), np.array(plant.initial))
        at = [*range(SETTLE), 1999]
        np.testing.assert_allclose(plant.gains[mode], out.gain[at, 0, :, 0], rtol=1e-9, atol=1e-12)
        spread = out.innovation_covariance[at, 0, 0, 0]
        np.testing.assert_allclose(plant.missed[mode], spread, rtol=1e-9)


@BOTH
def test_probabilities_are_the_forward_recursion_s(plant: Any) -> None:
    """By hand for every unit: weigh by normal densities at the size missed so far, then mix."""
    parts = given(plant, 30, 3)
    found, seen = tracked(plant, parts), parts[2]
    mixing = np.full((3, 3), CHANGE / 2) + np.eye(3) * (1.0 - 1.5 * CHANGE)
    for t in range(30):
        before, after = found[t], found[t + 1]
        np.testing.assert_allclose(after.likely.sum(axis=1), 1.0, rtol=1e-12)
        for i in range(N):
            weight = np.empty(3)
            for mode in range(3):
                miss = seen[t, i] - plant.predict(before.bank[i, mode])[:, 0]
                v = plant.missed[mode, min(t, SETTLE)] * before.missed[i]
                weight[mode] = np.prod(np.exp(-0.5 * miss**2 / v) / np.sqrt(v))
            weight = weight * before.likely[i]
            np.testing.assert_allclose(
                after.likely[i], (weight / weight.sum()) @ mixing, rtol=1e-9, atol=1e-12
            )


@BOTH
def test_the_bank_finds_a_mode_that_stays_on(plant: Any) -> None:
    """40 units a mode, nominal noise, 120 steps: the mean probability of the right one.

    Above one half in each mode, and above that of any other; a constant of these seeds.
    """
    rng, units, axes = np.random.default_rng(4), 120, len(plant.axes)
    mode = np.repeat(np.arange(3), 40)
    root = np.linalg.cholesky(np.array(plant.process))[mode][:, None]
    state = rng.normal(size=(units, axes, 2))
    tracker = Tracker(plant)
    track, total = tracker.begin(state), np.zeros((units, 3))
    half = np.full(units, 0.5)
    for t in range(120):
        seen = state[..., 0] + rng.normal(size=(units, axes))
        track = tracker.update(track, plant.gains[mode, min(t, SETTLE)], seen, half, half)
        shock = (root @ rng.normal(size=(units, axes, 2, 1)))[..., 0]
        state = plant.predict(state) + shock
        total += track.likely if t >= 20 else 0.0
    share = (total / 100).reshape(3, 40, 3).mean(axis=1)
    assert (share.argmax(axis=1) == np.arange(3)).all()
    assert np.diag(share).min() > 0.5


@BOTH
def test_smoothing_is_the_hidden_markov_model_s(plant: Any) -> None:
    """Over all 3⁹ chains of modes: the probability of the first, given likelihoods since."""
    rng = np.random.default_rng(5)
    likely = rng.dirichlet(np.ones(3), (2, LAG + 1))
    likelihood = rng.random((2, LAG + 1, 3))
    zero = np.zeros((2, LAG + 1))
    steps = Step(zero[..., None], np.zeros((2, LAG + 1, 2)), zero, zero, likely, likelihood)
    change = 0.07
    mixing = (1.0 - change) * np.eye(3) + change / 3
    chains = np.array(list(product(range(3), repeat=LAG + 1)))
    found = labels.smoothed(steps, change)
    for i in range(2):
        weight = likely[i, 0][chains[:, 0]]
        for j in range(1, LAG + 1):
            weight = weight * mixing[chains[:, j - 1], chains[:, j]]
            weight = weight * likelihood[i, j][chains[:, j]]
        expected = np.bincount(chains[:, 0], weight) / weight.sum()
        np.testing.assert_allclose(found[i], expected, rtol=1e-9)


@BOTH
def test_labels_come_late(plant: Any) -> None:
    """The first after LAG + 1 measurements, and products are those of the step that waited."""
    parts = given(plant, 20, 6)
    found = tracked(plant, parts)
    nu = [parts[2][t] - plant.predict(found[t].estimate)[..., 0] for t in range(20)]
    for t in range(20):
        label = found[t + 1].waiting.label
        if t < LAG:
            assert np.isnan(label).all()
            continue
        late = t - LAG
        np.testing.assert_allclose(label[:, 0], (nu[late] ** 2).mean(axis=1), rtol=1e-12)
        if late:
            lagged = (nu[late] * nu[late - 1]).mean(axis=1)
            np.testing.assert_allclose(label[:, 1], lagged, rtol=1e-12)
        else:
            assert np.isnan(label[:, 1]).all()


def by_hand(plant: Any, parts: tuple[Array, ...], found: list[Track], ahead: int) -> list[Array]:
    """Return responses (N, 2·B) by step; Q is shared as modes and strain are `ahead` steps on."""
    _, gains, seen, strain, signal = parts
    steps, tracker = len(found) - 1, Tracker(plant)
    basis, change = tracker.basis, 1.5 * CHANGE
    m, lagged, out = basis.start(N), np.zeros((N, basis.size)), []
    likelihood, likely = [], []
    for t in range(steps):
        miss = seen[t][:, None] - plant.predict(found[t].bank)[..., 0]
        v = plant.missed[:, min(t, SETTLE)] * found[t].missed[:, None]
        weight = np.prod(np.exp(-0.5 * miss**2 / v[..., None]) / np.sqrt(v)[..., None], axis=-1)
        likelihood.append(weight)
        weight = weight * found[t].likely
        likely.append(weight / weight.sum(axis=1, keepdims=True))
    for t in range(steps - LAG):
        c_r = hats(signal[t], SIGNAL_KNOTS)
        out.append(np.concatenate((basis.squares(m, c_r)[..., 0, 0], lagged), axis=1))
        after, at = np.ones((N, 3)), t + ahead
        for j in range(t + LAG, at, -1):
            told = likelihood[j] * after
            after = (1.0 - change) * told + change * told.mean(axis=1, keepdims=True)
        chance = likely[at] * after
        chance /= chance.sum(axis=1, keepdims=True)
        c_q = chance[:, :, None] * hats(strain[at], STRAIN_KNOTS)[:, None]
        m, product_of = basis.step(m, gains[t][..., None], c_q.reshape(N, -1), c_r)
        lagged = product_of[..., 0, 0]
    return out


@BOTH
def test_responses_are_a_direct_recursion_s(plant: Any) -> None:
    """Q that led to a step is that of the mode and the strain of the step that it led to."""
    parts = given(plant, 20, 7)
    found = tracked(plant, parts)
    for t, expected in enumerate(by_hand(plant, parts, found, ahead=1)):
        label = found[t + LAG + 1].waiting.label
        np.testing.assert_allclose(label[:, 2:], expected, rtol=1e-9, atol=1e-12)


@BOTH
def test_a_unit_does_not_know_who_is_beside_it(plant: Any) -> None:
    """Turned around or alone, every number of a unit has the same bits."""
    parts = given(plant, 25, 8)
    whole = tracked(plant, parts)[-1]
    turned = np.random.default_rng(9).permutation(N)
    for some in (turned, np.array([2]), np.array([4, 1])):
        cue, *steps = parts
        mine = tracked(plant, (cue[some], *(part[:, some] for part in steps)))[-1]
        assert_same_bits(mine, taken(whole, some))


@BOTH
def test_what_is_not_seen_is_predicted(plant: Any) -> None:
    """A unit without a measurement: filters move by F, age, gain and likelihoods stay."""
    parts = given(plant, 12, 10)
    parts[2][10, 1, 0] = np.nan
    found = tracked(plant, parts)
    before, after = found[10], found[11]
    assert (after.estimate[1] == plant.predict(before.estimate[1])).all()
    assert (after.bank[1] == plant.predict(before.bank[1])).all()
    assert after.age.tolist() == [11.0, 10.0, 11.0, 11.0, 11.0, 11.0]
    assert (after.gain[1] == before.gain[1]).all()
    assert after.missed[1] == before.missed[1]
    change = 1.5 * CHANGE
    mixed = (1.0 - change) * before.likely[1] + change / 3
    np.testing.assert_allclose(after.likely[1], mixed, rtol=1e-12)
    assert all(np.isfinite(part).all() for part in (found[12].estimate, found[12].likely))


def test_far_measurements_leave_numbers() -> None:
    """Innovations of 10⁷ and of 10⁻⁷: probabilities sum to 1, sizes stay within their limits."""
    for size in (1e-7, 1e7):
        cue, gains, seen, strain, signal = given(TARGET, 60, 11)
        track = tracked(TARGET, (cue * size, gains, seen * size, strain, signal))[-1]
        np.testing.assert_allclose(track.likely.sum(axis=1), 1.0, rtol=1e-12)
        assert ((track.missed >= 1e-9) & (track.missed <= 1e9)).all()
        assert np.isfinite(track.waiting.label).all()


def test_choosing_takes_whole_units() -> None:
    one, other = (tracked(TARGET, given(TARGET, 12, seed))[-1] for seed in (12, 13))
    is_new = np.array([True, False, False, True, False, True])
    found = choose(is_new, one, other)
    assert_same_bits(taken(found, np.flatnonzero(is_new)), taken(one, np.flatnonzero(is_new)))
    assert_same_bits(taken(found, np.flatnonzero(~is_new)), taken(other, np.flatnonzero(~is_new)))


def test_plants_by_hand() -> None:
    """White acceleration of size 3, switching, F and H; and names."""
    assert acceleration(3.0, floor=0.5) == ((1.5, 1.5), (1.5, 3.5))
    for plant in PLANTS.values():
        np.testing.assert_allclose(plant.switching.sum(axis=1), 1.0, rtol=1e-15)
        s = np.array([2.0, 3.0])
        np.testing.assert_allclose(plant.predict(s), np.array(plant.transition) @ s, rtol=1e-15)
        assert all(np.linalg.eigvalsh(np.array(q)).min() > 0.0 for q in plant.process)
        assert plant_named(plant.name) is plant
    with pytest.raises(InvalidInput, match="plant: expected target or demand, got 'boat'"):
        plant_named("boat")
