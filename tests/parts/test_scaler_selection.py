"""Selection weights: by hand, against scikit-learn, and the bias that they remove."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.scalers import RidgeScaler
from gdcb.scalers.selection import selection_weights
from tests.parts.builders import rng_of


def test_two_groups_by_hand() -> None:
    """Seen 3 of 4 at x = 1 and 1 of 4 at x = −1, hardly any penalty: chances ¾ and ¼.

    Overall share ½, so the weights are ⅔ and 2, and each group weighs 2: (4)²/(3·4/9 + 4) = 3.
    """
    x = np.repeat([[1.0], [-1.0]], 4, axis=0)
    seen = np.array([True, True, True, False, True, False, False, False])
    found = selection_weights(x, seen, penalty=1e-9)
    np.testing.assert_allclose(found.chance, np.repeat([0.75, 0.25], 4), atol=1e-6)
    np.testing.assert_allclose(found.weight[seen], [2 / 3, 2 / 3, 2 / 3, 2.0], atol=1e-5)
    assert found.weight[~seen].tolist() == [0.0] * 4
    assert found.n_effective == pytest.approx(3.0, abs=1e-4)
    cut = selection_weights(x, seen, clip=1.5, penalty=1e-9)
    assert cut.weight.max() == 1.5
    assert cut.share_clipped == 0.25


def test_the_chance_is_scikit_learn_s_logistic_ridge() -> None:
    """On standardised columns with a free intercept, to 1e-5 (ours has a precision of 10⁻⁶)."""
    rng = rng_of(1)
    x = rng.normal(size=(300, 3)) * [1.0, 5.0, 0.1] + 2.0
    seen = rng.random(300) < 1 / (1 + np.exp(-(x[:, 0] - 2.0)))
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    peer = LogisticRegression(C=0.5, tol=1e-12, solver="newton-cholesky").fit(z, seen)
    found = selection_weights(x, seen, penalty=2.0)
    np.testing.assert_allclose(found.chance, peer.predict_proba(z)[:, 1], atol=1e-5)


def slopes(n: int, seed: int) -> tuple[Array, Array, Array]:
    """Return the slope of a line fitted to all rows, to seen rows, and to seen rows weighted.

    The truth is x², a line is the wrong model, and labels are seen more often at large x: the
    line through the seen rows leans to the right.
    """
    rng = rng_of(seed)
    x = rng.uniform(-1, 1, size=(n, 1))
    label = x**2 + 0.1 * rng.normal(size=(n, 1))
    seen = rng.random(n) < 1 / (1 + np.exp(-2.0 * x[:, 0]))
    weight = selection_weights(x, seen).weight
    scaler = RidgeScaler(features=(0,), link="identity", penalty=1e-6)
    partial = np.where(seen[:, None], label, np.nan)
    fits = (
        scaler.fit(x, label),
        scaler.fit(x, partial),
        scaler.fit(x, partial, weight),
    )
    return tuple(fit.theta[0, 0] for fit in fits)


def test_weights_remove_the_bias_of_selective_labels() -> None:
    """20,000 rows: unweighted the slope is off by more than 0.1, weighted by less than 0.03.

    Slopes have a standard error of about 0.006 (0.3 residual sd, half the rows): the thresholds
    are five of them and more away.
    """
    whole, partial, weighted = slopes(20_000, 2)
    assert abs(whole[1]) < 0.03
    assert partial[1] - whole[1] > 0.1
    assert abs(weighted[1] - whole[1]) < 0.03
    assert abs(weighted[0] - whole[0]) < 0.03


def test_weights_average_to_about_one() -> None:
    """Over the seen rows, within 5 %: five standard errors at 5,000 rows."""
    rng = rng_of(3)
    x = rng.normal(size=(5_000, 2))
    seen = rng.random(5_000) < 1 / (1 + np.exp(-x[:, 0]))
    found = selection_weights(x, seen)
    assert found.weight[seen].mean() == pytest.approx(1.0, abs=0.05)
    assert found.share_clipped < 0.01
    assert found.n_effective < seen.sum()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": np.ones(3)}, "x: expected rows of finite numbers"),
        ({"x": np.full((3, 1), np.nan)}, "x: expected rows of finite numbers"),
        ({"is_seen": np.ones(2, dtype=bool)}, "is_seen: expected 3 booleans"),
        ({"is_seen": np.ones(3)}, "is_seen: expected 3 booleans, got float64"),
        ({"is_seen": np.zeros(3, dtype=bool)}, "is_seen: expected at least one label"),
        ({"clip": 0.5}, "clip: expected a number >= 1"),
        ({"penalty": 0.0}, "penalty: expected a number > 0"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], message: str) -> None:
    """What cannot be is refused by name."""
    good: dict[str, Any] = {"x": np.ones((3, 1)), "is_seen": np.array([True, False, True])}
    with pytest.raises(InvalidInput, match=message):
        selection_weights(**good | change)
