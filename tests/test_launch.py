"""After launch: how far what is executed has moved from the history."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gdcb.errors import InvalidInput
from gdcb.history import certify
from gdcb.history.launch import after_launch, variation_limit
from gdcb.theorems.made_logs import KINDS, made_log
from tests.properties import examples

QUIET = examples(40)
COUNTS = hnp.arrays(np.float64, (3, 4), elements=st.integers(0, 50).map(float))


@QUIET
@given(COUNTS, COUNTS)
def test_limits_are_limits(before: np.ndarray, after: np.ndarray) -> None:
    variation, high, unmet = variation_limit(before, after, 0.95)
    assert 0.0 <= variation <= high <= 1.0 + 1e-12
    assert 0.0 <= unmet <= variation + 1e-12


def test_the_limit_holds_in_19_of_20() -> None:
    """300 pairs of tables with a known distance: fewer than 270 held would have chance 1e-4."""
    rng = np.random.default_rng(4)
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.3, 0.3, 0.4])
    held = 0
    for _ in range(300):
        before, after = rng.multinomial(200, p), rng.multinomial(150, q)
        _, high, _ = variation_limit(1.0 * before[None], 1.0 * after[None], 0.95)
        held += high >= 0.2
    assert held >= 270


def test_the_same_policy_stays_within_and_another_does_not() -> None:
    log, later = made_log(KINDS["a"], 4000), made_log(KINDS["a"], 4000, replicate=1)
    certificate = certify(log.batch, log.instance, log.bandit, full=False)
    same = after_launch(certificate, later.batch, margin=0.2)
    assert same.is_within
    assert same.variation < 0.06
    dear = later.batch.take(np.flatnonzero(later.batch.action[:, 0] > 1.2))
    moved = after_launch(certificate, dear, margin=0.2)
    assert not moved.is_within
    assert "beyond the margin of 20%" in moved.says


def test_bad_input_is_refused() -> None:
    log = made_log(KINDS["a"], 500)
    certificate = certify(log.batch, log.instance, log.bandit, full=False)
    with pytest.raises(InvalidInput, match="at least one row"):
        after_launch(certificate, log.batch.take(slice(0, 0)))
    with pytest.raises(InvalidInput, match="margin"):
        after_launch(certificate, log.batch, margin=0.0)
    nothing = replace(log.batch, action=np.full_like(log.batch.action, np.nan))
    with pytest.raises(InvalidInput, match="nothing ran"):
        after_launch(certificate, nothing)
