"""Our integrator against simglucose itself, over 24 hours; all thirty patients in the soak."""

from __future__ import annotations

import csv
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.instances.dosing import patients as of_patients
from gdcb.instances.dosing.integrate import Body, live, resting
from gdcb.instances.dosing.patients import FILE, cohort, folder

NEAR = 0.05  # mg/dL
DAY = 1440
SOME = (1, 23)  # adolescent#002, child#004


def day(seed: int = 3) -> tuple[Array, Array]:
    """Return meals and insulin (1440, 30) of a day: four meals, boluses that are right or not."""
    rng, who = np.random.default_rng(seed), cohort().patients
    size = np.clip(who.BW / 70.0, 0.4, 1.2)
    meals, insulin = np.zeros((DAY, 30)), np.tile(who.basal, (DAY, 1))
    for minute, grams in ((420, 45.0), (720, 70.0), (900, 15.0), (1110, 80.0)):
        meals[minute] = grams * rng.uniform(0.5, 1.2, 30) * size
        insulin[minute] += meals[minute] / 12.0 * size
    return meals, insulin


def theirs(index: int, meals: Array, insulin: Array) -> Array:
    """Step simglucose's own patient minute by minute: glucose (minutes + 1,).

    Its code is as it is. Its parameters come as a plain record in place of a pandas row, whose
    attributes take most of its time.
    """
    from simglucose.patient.t1dpatient import Action, T1DPatient

    with (folder() / FILE).open(encoding="utf-8", newline="") as file:
        row = list(csv.DictReader(file))[index]
    plain = {name: float(value) for name, value in row.items() if name != "Name"}
    known: Any = SimpleNamespace(Name=row["Name"], **plain)
    patient = T1DPatient(known, init_state=cohort().start[:, index].copy())
    read = [patient.observation.Gsub]
    for eaten, infused in zip(meals.tolist(), insulin.tolist(), strict=True):
        patient.step(Action(CHO=eaten, insulin=infused))
        read.append(patient.observation.Gsub)
    return np.array(read)


def test_patients_agree_with_simglucose_over_a_day() -> None:
    """Who runs lowest and who runs highest that day, an adolescent and a child besides."""
    meals, insulin = day()
    ours = live(cohort().patients, resting(cohort(), np.arange(30)), meals, insulin)
    assert ours.shape == (DAY + 1, 30)
    some = (int(ours.min(axis=0).argmin()), int(ours.max(axis=0).argmax()), *SOME)
    assert ours[:, some].min() < 70.0
    assert ours[:, some].max() > 250.0  # a day that would show a difference
    for i in some:
        gap = np.abs(ours[:, i] - theirs(i, meals[:, i], insulin[:, i])).max()
        assert gap < NEAR, f"{cohort().names[i]}: {gap:.4f} mg/dL"


@pytest.mark.soak
@pytest.mark.parametrize(("seed", "larger"), [(3, 1.0), (4, 1.5), (5, 1.5), (6, 1.5)])
def test_every_patient_agrees_with_simglucose_on_several_days(seed: int, larger: float) -> None:
    meals, insulin = day(seed)
    meals *= larger
    ours = live(cohort().patients, resting(cohort(), np.arange(30)), meals, insulin)
    for i in range(30):
        assert np.abs(ours[:, i] - theirs(i, meals[:, i], insulin[:, i])).max() < NEAR


def test_a_patient_as_simglucose_makes_it() -> None:
    """Without our record of parameters: `withName`, two hours with a meal."""
    from simglucose.patient.t1dpatient import Action, T1DPatient

    patient, who = T1DPatient.withName("child#003"), np.array([22])
    assert cohort().names[22] == "child#003"
    meals, insulin = np.zeros((120, 1)), np.tile(cohort().patients.basal[who], (120, 1))
    meals[5], insulin[5] = 32.0, insulin[5] + 1.5
    read = []
    for minute in range(120):
        patient.step(Action(CHO=meals[minute, 0], insulin=insulin[minute, 0]))
        read.append(patient.observation.Gsub)
    ours = live(cohort().patients.take(who), resting(cohort(), who), meals, insulin)
    assert np.abs(ours[1:, 0] - read).max() < NEAR


def test_basal_insulin_holds_everyone_where_they_start() -> None:
    """Fasting on u2ss the model is at rest: no glucose moves by more than 1 mg/dL in 6 hours."""
    people = cohort()
    nothing = np.zeros((360, 30))
    read = live(
        people.patients, resting(people, np.arange(30)), nothing, nothing + people.patients.basal
    )
    assert np.abs(read - read[0]).max() < 1.0


def test_halved_steps_change_little() -> None:
    """A rule of fourth order: half the step, a smaller error, and both far below the claim."""
    meals, insulin = day()
    meals, insulin = meals[400:560], insulin[400:560]
    who, people = np.arange(30), cohort()
    fine, middle, coarse = (
        live(people.patients, resting(people, who), meals, insulin, steps) for steps in (16, 4, 1)
    )
    assert np.abs(middle - fine).max() < 0.25 * np.abs(coarse - fine).max()
    assert np.abs(middle - fine).max() < 0.02


def test_a_patient_knows_nothing_of_the_others() -> None:
    """The same bytes alone and among thirty; and in two parts of a day as in one."""
    meals, insulin = (part[300:500] for part in day())
    people, all_of_them = cohort(), np.arange(30)
    together = live(people.patients, resting(people, all_of_them), meals, insulin)
    one = np.array([17])
    alone = live(people.patients.take(one), resting(people, one), meals[:, one], insulin[:, one])
    assert alone[:, 0].tobytes() == together[:, 17].tobytes()
    body = resting(people, all_of_them)
    first = live(people.patients, body, meals[:123], insulin[:123])  # cut within a meal
    second = live(people.patients, body, meals[123:], insulin[123:])
    assert np.concatenate((first, second[1:])).tobytes() == together.tobytes()


def test_a_meal_is_eaten_at_five_grams_a_minute() -> None:
    """12 g announced: 5, 5 and 2; what lies in the stomach by then is 12 g less what left it."""
    one, people = np.array([10]), cohort()
    body, basal = resting(people, one), people.patients.basal[one]
    meals = np.zeros((3, 1))
    meals[0] = 12.0
    waiting = []
    for minute in range(3):
        live(people.patients.take(one), body, meals[minute : minute + 1], basal[None])
        waiting.append(float(body.waiting[0]))
    assert waiting == [7.0, 2.0, 0.0]
    assert body.eaten.tolist() == [12.0]
    assert 11_000.0 < body.x[:2].sum() < 12_000.0


@pytest.mark.parametrize(
    ("meals", "insulin", "said"),
    [
        (np.full((2, 3), -5.0), np.ones((2, 3)), "carbohydrate"),
        (np.zeros((2, 3)), np.full((2, 3), np.nan), "insulin"),
        (np.zeros((2, 3)), np.full((2, 3), np.inf), "insulin"),
        (np.zeros((2, 3)), np.zeros((3, 3)), "minutes"),
        (np.zeros((2, 4)), np.zeros((2, 4)), "3 patients"),
        (np.zeros(3), np.zeros(3), "minutes"),
    ],
)
def test_inputs_that_make_no_sense(meals: Array, insulin: Array, said: str) -> None:
    body = resting(cohort(), np.arange(3))
    before = body.x.tobytes()
    with pytest.raises(InvalidInput, match=said):
        live(cohort().patients.take(np.arange(3)), body, meals, insulin)
    assert body.x.tobytes() == before


def test_without_simglucose_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_patients, "find_spec", lambda name: None)
    with pytest.raises(InvalidInput, match=r"pip install \"gdcb\[domains\]\""):
        folder()


def test_reading_the_patients_does_not_import_simglucose() -> None:
    """Its import takes seconds and drags in what we do not need."""
    code = (
        "import sys; from gdcb.instances.dosing.patients import cohort; "
        "assert len(cohort().names) == 30; sys.exit('simglucose' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_body_can_be_taken_apart() -> None:
    body = resting(cohort(), np.arange(5))
    some = body.take(np.array([3, 1]))
    assert isinstance(some, Body)
    np.testing.assert_array_equal(some.x, body.x[:, [3, 1]])
    some.x[:] = 0.0
    assert body.x[:, 3].any()
