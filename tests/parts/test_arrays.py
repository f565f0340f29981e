"""The few array operations, each against the plainest loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from gdcb.arrays import is_all, is_any, logistic, namespace, scatter_add, stable_order
from tests.parts.builders import fixed, rng_of


@given(
    index=st.lists(st.integers(0, 4), max_size=12),
    inner=st.sampled_from([(), (3,), (2, 2)]),
    seed=st.integers(0, 1000),
)
@fixed
def test_scatter_add_is_a_loop(index: list[int], inner: tuple[int, ...], seed: int) -> None:
    """Repeated, ordered, unordered and no indices all add up as a loop does."""
    rng = rng_of(seed)
    target, values = rng.normal(size=(5, *inner)), rng.normal(size=(len(index), *inner))
    expected = target.copy()
    for i, value in zip(index, values, strict=True):
        expected[i] += value
    scatter_add(target, np.array(index, dtype=np.int64), values)
    np.testing.assert_allclose(target, expected, rtol=0, atol=1e-13)


def test_scatter_add_in_order_is_plain_addition() -> None:
    """One row a unit, in order: the simulation's short cut gives the same."""
    target, values = np.ones((4, 2)), np.arange(8.0).reshape(4, 2)
    scatter_add(target, np.arange(4), values)
    assert (target == 1.0 + values).all()


def test_scatter_add_touches_no_other_row() -> None:
    """Rows that no index names keep their bytes, NaN and −0 included."""
    target = np.array([np.nan, -0.0, 1.0, 2.0])
    before = target[[0, 1, 3]].tobytes()
    scatter_add(target, np.array([2, 2]), np.array([1.0, 1.0]))
    assert target[[0, 1, 3]].tobytes() == before
    assert target[2] == 3.0


def test_scatter_add_counts_whole_numbers() -> None:
    """Integer targets stay integers."""
    target = np.zeros(3, dtype=np.int64)
    scatter_add(target, np.array([1, 1, 2]), np.array([1, 1, 1]))
    assert target.tolist() == [0, 2, 1]


@given(st.lists(st.booleans(), max_size=8))
@fixed
def test_is_all_and_is_any_are_python_s(mask: list[bool]) -> None:
    """They agree with the built-in functions, on empty masks too."""
    assert is_all(np.array(mask, dtype=bool)) is all(mask)
    assert is_any(np.array(mask, dtype=bool)) is any(mask)


@pytest.mark.filterwarnings("error")
def test_logistic_is_scipy_s_without_warnings() -> None:
    """σ(z) agrees with SciPy to 1e-15 and neither overflows nor leaves [0, 1]."""
    z = np.concatenate((np.linspace(-40, 40, 4001), [-1e308, -800.0, 800.0, 1e308]))
    out = logistic(z)
    np.testing.assert_allclose(out, special.expit(z), rtol=0, atol=1e-15)
    assert ((out >= 0) & (out <= 1)).all()


def test_namespace_of_numpy_is_numpy() -> None:
    """NumPy arrays are worked on by NumPy itself."""
    assert namespace(np.zeros(1)) is np


def test_torch_arrays_are_known_too() -> None:
    """Where torch is installed, its arrays take the same operations to the same numbers."""
    torch = pytest.importorskip("torch")
    index, values = [0, 2, 2], [1.0, 2.0, 3.0]
    total = torch.zeros(3, dtype=torch.float64)
    scatter_add(total, torch.tensor(index), torch.tensor(values, dtype=torch.float64))
    assert total.tolist() == [1.0, 0.0, 5.0]
    z = torch.tensor([-1000.0, 0.0, 1000.0], dtype=torch.float64)
    assert logistic(z).tolist() == [0.0, 0.5, 1.0]
    assert is_all(torch.tensor([True, True]))
    assert not is_all(torch.tensor([True, False]))
    assert is_any(torch.tensor([True, False]))
    assert namespace(z).__name__.endswith("torch")


@pytest.mark.parametrize("n", [0, 5, 1000])
@pytest.mark.parametrize("most", [3, 2**15 - 1, 2**15, 2**40])
def test_stable_order_is_that_of_a_stable_sort(n: int, most: int) -> None:
    """Few and many numbers, at both ends of those that are sorted by their digits."""
    index = rng_of(n).integers(-most - 1, most + 1, size=n)
    if n:
        index[-1], index[0] = most, -most - 1
    expected = sorted(range(n), key=lambda i: int(index[i]))
    assert stable_order(index).tolist() == expected
