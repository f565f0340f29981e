"""Theorem 2's check: executed laws, contraction, bias of a warm-up, private information."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gdcb import round as turn
from gdcb.analysis import cell_kernel, dobrushin
from gdcb.arrays import Array, logistic
from gdcb.bandits import BetaThompson
from gdcb.errors import InvalidInput
from gdcb.records import Rows
from gdcb.streams import WORLD, Streams
from gdcb.theorems import context_free, equivalence, executed_law, warm_start
from gdcb.theorems.equivalence import Settings, check
from gdcb.theorems.executed_law import ARMS, CHEAP, DEAR, contexts, gates, pricing, variation

SMALL = Settings(
    contexts=20, pairs=40, nights=500, repeats=12, histories=12, replicates=12, rounds=30
)


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """Return a small version of the whole check."""
    return check(seed=3, settings=SMALL)


def test_the_answer_is_plain_data(found: dict[str, Any]) -> None:
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["title"] == "Theorem 2, gate-induced equivalence"
    assert len(found["verdict"]) == len(found["claims"]) == 12
    assert not found["paper_holds"]


def test_the_exact_claims_hold_at_any_size(found: dict[str, Any]) -> None:
    """What is computed and not sampled does not hang on the size of the experiment."""
    exact = [claim["holds"] for claim in found["claims"] if claim["form"] == "repaired"][:3]
    assert exact == [True, True, True]
    assert all(one["violations"] == 0 for one in found["contraction"].values())
    equality = found["claims"][0]
    assert (equality["form"], equality["holds"]) == ("paper", False)


def test_the_whole_check_repeats_itself(found: dict[str, Any]) -> None:
    """The same seed gives the same figures, another seed others."""
    rows, gate = contexts(5, 3), gates()["human, p(x)"]
    again = executed_law.difference(gate, executed_law.contexts(20, 3), 500, 3)
    assert again == found["executed_laws"]["human, p(x)"]
    assert executed_law.difference(gate, rows, 500, 4) != again


def test_progress_is_told() -> None:
    said: list[str] = []
    tiny = Settings(contexts=3, pairs=4, nights=60, repeats=2, histories=2, replicates=2, rounds=3)
    check(progress=said.append, settings=tiny)
    assert said[0] == "executed laws of two policies"
    assert len(said) == 11


def test_settings_are_checked() -> None:
    with pytest.raises(InvalidInput, match=r"settings.nights: expected a number >= 2"):
        Settings(nights=0)


# Executed laws


def test_two_policies_by_hand() -> None:
    """½·(0.35 + 0.2 + 0 + 0.2 + 0.35) = 0.55; a cap of 1.1 joins the last two arms, 0.7 on them."""
    assert variation(CHEAP, DEAR) == pytest.approx(0.55)
    rows = contexts(3, 0)
    kernel = cell_kernel(pricing(gates()["cap"]), rows, np.ones((3, 1, 1)))
    # Prices 1.15 and 1.3 run as 1.1, within half a step of the arm 1.15.
    np.testing.assert_array_equal(kernel[0].argmax(axis=1), [0, 1, 2, 3, 3])
    executed = CHEAP @ kernel[0]
    np.testing.assert_allclose(executed[:4], [0.4, 0.3, 0.15, 0.15])


def test_a_person_contracts_by_p() -> None:
    """TV of what runs is p(x)·TV of what was proposed, in every context."""
    rows = contexts(30, 1)
    kernel = cell_kernel(pricing(gates()["human, p(x)"]), rows, np.ones((30, 1, 1)))
    between = variation(CHEAP @ kernel, DEAR @ kernel)
    np.testing.assert_allclose(between, executed_law.chance(rows) * 0.55, atol=1e-12)
    np.testing.assert_allclose(dobrushin(kernel), executed_law.chance(rows), atol=1e-12)


@pytest.mark.parametrize("name", list(gates()))
def test_sampled_shares_follow_the_exact_law(name: str) -> None:
    """What the chain draws is what the kernel says: within 4.5 errors, false alarm 7e-6 a cell."""
    instance = pricing(gates()[name])
    one = contexts(1, 5)
    n = 4000
    zero = np.zeros(n, dtype=np.int64)
    rows = Rows(zero, zero, np.repeat(one.x, n, axis=0))
    kernel = cell_kernel(instance, one, np.ones((1, 1, 1)))[0]
    for a in (0, 4):
        draws = instance.chain.draw(Streams(a).at(3, 0), n)
        left = instance.chain.apply(draws, np.full((n, 1), ARMS[a]), rows).action
        located = instance.composition.locate(
            instance.space, left[:, None], np.ones((n, 1, 1)), rows.x
        )
        cell = np.where(located.steps[:, 0] <= 0.5 + 1e-9, located.arm[:, 0], 5)
        share = np.bincount(cell, minlength=7) / n
        error = np.sqrt(kernel[a] * (1.0 - kernel[a]) / n)
        assert (np.abs(share - kernel[a]) <= 4.5 * error + 1e-9).all()


def test_a_broken_bound_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """With half of η the check counts violations, and the claim fails."""
    half = lambda kernel: 0.5 * dobrushin(kernel)  # noqa: E731
    monkeypatch.setattr(executed_law, "dobrushin", half)
    rows = contexts(4, 0)
    bounds = {name: executed_law.contraction(gate, rows, 20, 0) for name, gate in gates().items()}
    laws = {name: {"executed_tv_largest": 0.0} for name in equivalence._DECIDES}
    assert bounds["human, p(x)"]["violations"] > 0
    assert not equivalence._of_bounds(bounds, laws)[0].holds


# Warm starts


def test_the_signal_moves_bookings_by_hand() -> None:
    """σ(α − β·1 ± 1) at x = 0, the signal ±1."""
    world = warm_start.Reviewed(own_sd=0.0, signal=1.0)
    state = world.start(Streams(0).at(WORLD, 0), np.zeros(1, dtype=int))
    zero = np.zeros(2, dtype=int)
    rows = Rows(zero, zero, np.zeros((2, 2)), hidden=np.array([[1.0], [-1.0]]))
    base = float(state.alpha[0] - state.beta[0])
    expected = logistic(np.array([base + 1.0, base - 1.0]))
    np.testing.assert_allclose(world.booked(state, np.ones((2, 1, 1)), rows)[:, 0], expected)


def test_a_replicate_has_the_same_past_in_any_run() -> None:
    world = context_free.world_of(0.15)
    instance = warm_start.behind(world, "none", False)
    few, many = (warm_start.past(instance, world, r, 50, 7) for r in (2, 5))
    for name in ("x", "action", "y", "is_override"):
        np.testing.assert_array_equal(getattr(few.log, name), getattr(many.log, name)[:100])
    assert 0.15 < many.log.is_override.mean() < 0.45  # 30 % are not approved, 250 rows


def test_regret_above_the_floor_is_none_for_the_best_price() -> None:
    """It is never below 0, and 0 for a proposal that the floor itself would choose."""
    world = context_free.world_of(0.15)
    instance = warm_start.behind(world, "known", False)
    floors: dict[int, Array] = {}
    run = warm_start.regret(
        instance, BetaThompson(), world, None, floors, rounds=5, replicates=4, seed=1
    )
    assert run.shape == (5, 4)
    assert (np.diff(run, axis=0) >= -1e-3).all()  # the best of 61 prices may miss the optimum
    assert run[-1].mean() > 0


def test_the_truth_of_the_bias_without_confounding_is_none() -> None:
    """An incumbent who knows no day signal, an exact δ: the arms' contexts are all alike."""
    world = replace(context_free.world_of(0.0), spread=0.0)
    instance = warm_start.behind(world, "known", False)
    history = warm_start.past(instance, world, 2, 200, 1)
    state = warm_start.warmed(instance, BetaThompson(), history)
    truth = context_free.true_bias(instance, world, state, context_free.reference(world, 0), 2)
    assert np.abs(truth).max() < 0.03  # what is left: prices off the middle of their cell


def test_warming_up_counts_the_credited_rows() -> None:
    """Beta counts beyond the prior are the rows within half a step of an arm."""
    world = context_free.world_of(0.0)
    instance = warm_start.behind(world, "none", False)
    history = warm_start.past(instance, world, 3, 100, 1)
    state = warm_start.warmed(instance, BetaThompson(), history)
    found_bias, arm = context_free.estimated(
        instance, state, history, context_free.reference(world, 0)
    )
    counts = state.bandit.counts.sum(axis=1) - 2.0
    np.testing.assert_allclose(counts, found_bias.n)
    assert turn.scale(instance, state, history.log)[0].max() == 1.0
    assert (arm == -1).sum() == 300 - found_bias.n.sum()


def test_paired_by_hand() -> None:
    """Differences 1, 2, 3: mean 2, error 1/√3, t of two degrees 4.3027."""
    one = warm_start.paired(np.array([2.0, 4.0, 6.0]), np.array([1.0, 2.0, 3.0]))
    assert one["mean"] == pytest.approx(2.0)
    assert one["high"] == pytest.approx(2.0 + 4.302653 / 3**0.5, rel=1e-6)
