"""The lemma's conditions: each failure by its name, with the number and the place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gdcb.errors import InvalidInput
from gdcb.kalman.conditions import Condition, check_conditions, require
from gdcb.kalman.filter import Model
from gdcb.kalman.riccati import riccati
from tests.kalman.systems import systems

GOOD: dict[str, Any] = {
    "transition": np.array([[1.0, 1.0], [0.0, 1.0]]),
    "measurement": np.array([[1.0, 0.0]]),
    "process": np.eye(2),
    "noise": np.eye(1),
}
BOUNDS: dict[str, Any] = {"q_bounds": (0.1, 10.0), "r_bounds": (0.1, 10.0), "penalty": 1.0}


def failed(model: dict[str, Any], **bounds: Any) -> list[Condition]:
    """Return the conditions that a changed model or other bounds do not meet."""
    found = check_conditions(Model(**(GOOD | model)), **(BOUNDS | bounds))
    return [condition for condition in found if not condition.is_met]


def test_a_sound_model_meets_them_all() -> None:
    """Seven conditions, eight with a design; nothing is raised."""
    found = check_conditions(Model(**GOOD), **BOUNDS, design=np.eye(3))
    assert [c.subject for c in found] == ["F", "H", "Q", "R", "(F, H)", "(F, Q^½)", "lambda", "X"]
    assert all(c.is_met for c in found)
    require(found)


@pytest.mark.parametrize(
    ("model", "bounds", "failure", "subject", "value"),
    [
        ({"process": np.diag([1.0, 0.01])}, {}, "unbounded", "Q", 0.01),
        ({"process": np.diag([1.0, 20.0])}, {}, "unbounded", "Q", 20.0),
        ({"noise": np.full((1, 1), 50.0)}, {}, "unbounded", "R", 50.0),
        ({}, {"q_bounds": (0.0, 10.0)}, "unbounded", "Q", 0.0),
        ({}, {"r_bounds": (-1.0, 10.0)}, "unbounded", "R", -1.0),
        ({}, {"r_bounds": (2.0, 1.0)}, "unbounded", "R", 2.0),
        ({"measurement": np.array([[3.0, 4.0]])}, {"h_bound": 4.9}, "unbounded", "H", 5.0),
        ({"transition": 7.0 * np.eye(2)}, {"f_bound": 6.0}, "unbounded", "F", 7.0),
        ({}, {"penalty": 0.0}, "lambda = 0", "lambda", 0.0),
        ({}, {"penalty": -1.0}, "lambda = 0", "lambda", -1.0),
        ({}, {"design": np.ones((5, 2))}, "not identified", "X", 0.0),
    ],
)
def test_failures_have_names_and_numbers(
    model: dict[str, Any], bounds: dict[str, Any], failure: str, subject: str, value: float
) -> None:
    """The number that decided it is the one in the sentence's place."""
    first = failed(model, **bounds)[0]
    assert (first.failure, first.subject) == (failure, subject)
    assert first.value == pytest.approx(value, abs=1e-12)


def test_an_unmeasured_unstable_mode_is_named() -> None:
    """Eigenvalue 1.25 along the second state, which H does not see; the first may be unseen."""
    (found,) = failed({"transition": np.diag([0.5, 1.25])})
    assert found.failure == "not detectable"
    assert "eigenvalue 1.25, along [0. 1.]" in found.sentence
    assert not failed({"transition": np.diag([0.5, 1.25]), "measurement": np.array([[0.0, 1.0]])})


def test_a_turning_mode_is_named() -> None:
    """Eigenvalues ±i of a rotation that nothing measures."""
    f = np.zeros((3, 3))
    f[0, 0], f[1, 2], f[2, 1] = 0.5, 1.0, -1.0
    model = {"transition": f, "measurement": np.array([[1.0, 0.0, 0.0]]), "process": np.eye(3)}
    (found,) = failed(model)
    assert "1j" in found.sentence


def test_a_mode_that_no_noise_moves_is_named() -> None:
    """F = I and Q on the first state only: the second is marginal and never moved."""
    model = {
        "transition": np.eye(2),
        "measurement": np.eye(2),
        "noise": np.eye(2),
        "process": np.diag([1.0, 0.0]),
    }
    found = failed(model)
    assert [c.failure for c in found] == ["unbounded", "not stabilisable"]
    assert "along [0. 1.]" in found[1].sentence
    assert not any(
        c.failure == "not stabilisable" for c in failed(model | {"transition": 0.9 * np.eye(2)})
    )


def test_small_covariances_are_not_taken_for_none() -> None:
    """Q = 10⁻¹²·I moves every mode; H = 10⁻⁹·I measures every one."""
    model = {
        "transition": np.diag([1.0, 2.0]),
        "process": 1e-12 * np.eye(2),
        "measurement": 1e-9 * np.eye(2),
        "noise": np.eye(2),
    }
    names = {c.failure for c in failed(model)}
    assert names == {"unbounded"}


def test_the_worst_track_and_step_are_named() -> None:
    """Of 4 steps and 3 tracks the one at fault."""
    q = np.tile(np.eye(2), (4, 3, 1, 1))
    q[2, 1] *= 100.0
    (found,) = failed({"process": q})
    assert "(track 1, step 2)" in found.sentence
    f = np.tile(0.5 * np.eye(2), (3, 1, 1))
    f[2, 1, 1] = 2.0
    (found,) = failed({"transition": f})
    assert "not detectable (track 2)" in found.sentence


def test_all_failures_are_raised_at_once() -> None:
    """One error, every sentence."""
    found = check_conditions(Model(**GOOD), q_bounds=(2.0, 10.0), r_bounds=(0.1, 0.5), penalty=0.0)
    with pytest.raises(InvalidInput, match=r"eigenvalue of Q is 1.*; .*of R is 1.*; lambda is 0"):
        require(found)


@pytest.mark.parametrize("design", [np.ones(3), np.ones((0, 2)), np.full((3, 2), np.nan)])
def test_a_design_that_is_none_is_refused(design: Any) -> None:
    """Numbers of shape (rows, d) are expected."""
    with pytest.raises(InvalidInput, match="design: expected finite numbers of shape"):
        check_conditions(Model(**GOOD), **BOUNDS, design=design)


def test_riccati_has_no_solution_exactly_where_detectability_fails() -> None:
    """On 200 systems, every second of which hides an unstable mode from H in a turned basis."""
    f, h, q, r = systems(7, (200,), 3, 1)
    rng = np.random.default_rng(7)
    for i in range(0, 200, 2):
        values, turn = np.array([1.5, 0.4, -0.3]), np.linalg.qr(rng.normal(size=(3, 3)))[0]
        f[i], h[i] = (turn * values) @ turn.T, rng.normal(size=2) @ turn[:, 1:].T
    p = riccati(f, h, q, r)
    for i in range(200):
        found = check_conditions(
            Model(f[i], h[i], q[i], r[i]), q_bounds=(1e-9, 1e9), r_bounds=(1e-9, 1e9), penalty=1.0
        )
        names = {c.failure for c in found if not c.is_met}
        assert names == ({"not detectable"} if i % 2 == 0 else set())
        assert np.isnan(p[i]).any() == (i % 2 == 0)
