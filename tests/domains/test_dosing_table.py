"""The table of meals against fresh integrations and simglucose, and how it is read."""

from __future__ import annotations

import csv
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.instances.dosing import bank, response, tabulate
from gdcb.instances.dosing.patients import FILE, cohort, folder
from gdcb.instances.dosing.tabulate import HORIZON, N_DOSES, count, follow, limit
from tests.parts.builders import rng_of

TABLE, KNOWN = tabulate.read(), response.known()
SLIP = 2  # minutes that a crossing of a limit may fall to the other side of


def points(n: int, seed: int) -> tuple[Array, ...]:
    """Return patient, meal, node and dose of n points of the table."""
    rng = rng_of(seed)
    sizes = (30, TABLE.meal.shape[1], 3, N_DOSES)
    return tuple(rng.integers(0, size, n) for size in sizes)


def test_its_shape_and_size() -> None:
    assert TABLE.minutes.shape == (30, bank.STATES, 3, N_DOSES, 3)
    assert tabulate.FILE.stat().st_size < 3_000_000
    assert TABLE.minutes.max() <= HORIZON
    assert tuple(TABLE.name) == cohort().names
    np.testing.assert_array_equal(TABLE.weight, cohort().patients.BW)
    np.testing.assert_allclose(TABLE.dose[:, -1], limit(TABLE.weight))
    assert (np.diff(TABLE.dose, axis=1) > 0).all()


def test_below_54_is_below_70_and_no_minute_counts_twice() -> None:
    inside, below, far_below = np.moveaxis(TABLE.minutes.astype(int), -1, 0)
    assert (far_below <= below).all()
    assert (inside + below <= HORIZON).all()


def test_random_points_are_what_fresh_integrations_count() -> None:
    patient, state, node, j = points(200, 1)
    share, dose = np.array(bank.CARBOHYDRATE)[node], TABLE.dose[patient, j]
    fresh = count(follow(cohort(), TABLE, patient, state, dose, share)).astype(int)
    stored = TABLE.minutes[patient, state, node, j].astype(int)
    # Another processor may round a reading to the other side of a limit, once in a while.
    assert np.abs(fresh - stored).max() <= 1
    assert (fresh == stored).all(axis=1).mean() > 0.98


def test_random_points_are_what_simglucose_counts() -> None:
    for patient, state, node, j in zip(*(part.tolist() for part in points(12, 2)), strict=True):
        share = bank.CARBOHYDRATE[node]
        counted = count(_theirs(patient, state, TABLE.dose[patient, j], share)[:, None])[0]
        gap = np.abs(counted.astype(int) - TABLE.minutes[patient, state, node, j].astype(int))
        assert gap.max() <= SLIP, (TABLE.name[patient], state, node, j)


def _theirs(patient: int, state: int, dose: float, share: float) -> Array:
    """Let simglucose go on from a stored body: glucose (301,)."""
    from simglucose.patient.t1dpatient import Action, T1DPatient

    with (folder() / FILE).open(encoding="utf-8", newline="") as file:
        row = list(csv.DictReader(file))[patient]
    plain = {name: float(value) for name, value in row.items() if name != "Name"}
    known: Any = SimpleNamespace(Name=row["Name"], **plain)
    body = TABLE.body(np.array([patient]), np.array([state]))
    they = T1DPatient(known, init_state=body.x[:, 0].copy())
    they.planned_meal = float(body.waiting[0])
    they._last_Qsto, they._last_foodtaken = float(body.before[0]), float(body.eaten[0])
    they.is_eating = bool(body.is_eating[0])
    they._last_action = Action(CHO=5.0 if they.is_eating else 0.0, insulin=0.0)
    basal = plain["u2ss"] * plain["BW"] / 6000.0
    read = [they.observation.Gsub]
    for minute in range(HORIZON):
        first = minute == 0
        eaten = share * float(TABLE.meal[patient, state]) if first else 0.0
        they.step(Action(CHO=eaten, insulin=basal + (dose if first else 0.0)))
        read.append(they.observation.Gsub)
    return np.array(read)


@pytest.mark.soak
def test_the_bank_is_made_again_as_it_is() -> None:
    """Three days of 240 lives: the same moments to 1e-6."""
    kept = bank.moments(cohort(), steps=tabulate.STEPS)
    for name in ("glucose", "trend", "meal", "iob"):
        stored = getattr(TABLE, name).ravel()
        np.testing.assert_allclose(getattr(kept, name), stored, rtol=1e-6, atol=1e-6)


def test_meals_are_ones_that_people_have() -> None:
    """Contexts lie within what the instance allows, and few begin in a low."""
    from gdcb.instances.dosing.columns import SCHEMA
    from gdcb.instances.dosing.world import Meals

    for row in Meals("mis").x[::97]:
        SCHEMA.encode([dict(zip(SCHEMA.columns, row.tolist(), strict=True))])
    assert 0.01 < (TABLE.glucose < 70.0).mean() < 0.1
    assert TABLE.meal.min() >= bank.LEAST
    assert TABLE.iob.min() >= 0.0


def test_the_reward_by_hand() -> None:
    """TIR − 2·TBR₇₀ − 0.75·TBR₅₄ at the table's first dose, and the mean over the three meals."""
    minutes = TABLE.minutes[4, 7, :, 0].astype(float)  # (nodes, 3)
    each = (minutes[:, 0] - 2.0 * minutes[:, 1] - 0.75 * minutes[:, 2]) / 300.0
    at = 4 * bank.STATES + 7
    expected = 0.25 * each[0] + 0.5 * each[1] + 0.25 * each[2]
    assert KNOWN.reward[at, 0] == pytest.approx(expected)
    m = KNOWN.x.shape[0]
    np.testing.assert_allclose(KNOWN.by_node[[at, m + at, 2 * m + at], 0], each)


def test_between_doses_it_is_linear_and_beyond_the_last_the_same() -> None:
    at, j = np.array([700, 1500]), 33
    dose = KNOWN.dose[at // KNOWN.states]
    low, high = dose[:, j], dose[:, j + 1]
    asked = np.stack((low, 0.75 * low + 0.25 * high, high, dose[:, -1], dose[:, -1] + 9.0), axis=1)
    read, row = KNOWN.read(KNOWN.reward, asked, at), KNOWN.reward[at]
    expected = (
        *(row[:, j], 0.75 * row[:, j] + 0.25 * row[:, j + 1], row[:, j + 1]),
        *(row[:, -1], row[:, -1]),
    )
    np.testing.assert_allclose(read, np.stack(expected, axis=1), atol=1e-12)
    grid = KNOWN.read(KNOWN.reward, dose, at)
    np.testing.assert_allclose(grid, row, atol=1e-9)


def test_best_and_right_doses() -> None:
    """No dose is better than the best; the right one is as good as it to 0.02, or nearly."""
    at = np.arange(KNOWN.x.shape[0])
    best = KNOWN.read(KNOWN.reward, KNOWN.best[:, None], at)[:, 0]
    np.testing.assert_allclose(best, KNOWN.reward.max(axis=1), atol=1e-9)
    right = KNOWN.read(KNOWN.reward, KNOWN.right[:, None], at)[:, 0]
    assert (best - right).max() < response.NEARLY + 1e-9


def test_children_need_a_unit_or_two_and_adults_ten() -> None:
    kind = np.repeat([name.split("#")[0] for name in TABLE.name], bank.STATES)
    assert KNOWN.right[kind == "child"].mean() < 3.0
    assert KNOWN.right[kind == "adult"].mean() > 7.0


@pytest.mark.parametrize("text", [b"", b"not a table"])
def test_a_broken_file_says_how_to_make_it(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "table.npz"
    path.write_bytes(text)
    with pytest.raises(InvalidInput, match=r"gdcb\.instances\.dosing\.tabulate makes it"):
        tabulate.read(path)
