"""Small versions of `make bench ARGS=claims`: each rule of learning pays, in direction.

Every pair meets the same worlds and random numbers; the 95 % interval of the paired difference
over replicates excludes 0. Seeds are fixed; a false alarm would need a one-sided chance of 2.5 %
on each, and the measured differences are four standard errors and more.
"""

from __future__ import annotations

import pytest

from benchmarks import claims


def test_selecting_through_a_cap_beats_ignoring_it() -> None:
    """Ignored, capped arms get no data and are proposed for ever: at least twice the regret."""
    pair = claims.selection(rounds=800, replicates=60)
    assert pair.difference[1] > 0
    assert pair.without.mean() > 2 * pair.with_rule.mean()


def test_crediting_what_was_executed_beats_crediting_the_proposal() -> None:
    """Crediting the proposed arm with another action's outcome costs regret in the long run."""
    pair = claims.crediting(rounds=1500, replicates=80)
    assert pair.difference[1] > 0


def test_a_curve_beats_independent_arms() -> None:
    """Above the gate's floor, 25 independent arms lose at least twice what a curve does."""
    pair = claims.curve(rounds=400, replicates=80)
    assert pair.floor is not None
    assert pair.difference[1] > 0
    floor = pair.floor.mean()
    assert pair.without.mean() - floor > 2 * (pair.with_rule.mean() - floor)


def test_pooling_overrides_beats_believing_a_manager_who_knows_more() -> None:
    """Overrides on private information mislead; weighed by the contrast they do not."""
    pair = claims.private_information(rounds=400, replicates=60)
    assert pair.difference[1] > 0


@pytest.mark.soak
def test_the_claims_at_full_size() -> None:
    """The four pairs as `make bench ARGS=claims` prints them."""
    for run in (claims.selection, claims.crediting, claims.curve, claims.private_information):
        assert run().difference[1] > 0
