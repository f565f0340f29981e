"""Long proofs, and a small version of each for every day."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from gdcb import Agent, CurveThompson, declaration
from gdcb.analysis import Ledger
from gdcb.instances import NAMES, load
from gdcb.records import Setting, to_bytes
from gdcb.simulate import simulate
from gdcb.streams import DRAW, Streams
from tests.test_declaration import EXAMPLE

SHAPES = ((0.05, 7), (0.3, 0.4), (0.7, 5), (1, 1), (1, 30), (2, 3), (40, 20), (1e6, 1e6))


def _beta_p_values(n: int, seed: int) -> list[float]:
    draws = Streams(seed).at(DRAW, 0).beta(np.tile(np.array(SHAPES).T, (n, 1, 1)))
    laws = [stats.beta(*shapes).cdf for shapes in SHAPES]
    return [float(stats.kstest(draws[:, i], law).pvalue) for i, law in enumerate(laws)]


def test_beta_draws_follow_their_law() -> None:
    """Kolmogorov–Smirnov over eight pairs of counts, family-wise false-alarm rate 10⁻⁴."""
    assert min(_beta_p_values(20_000, 31)) > 1e-4 / len(SHAPES)


@pytest.mark.soak
def test_beta_draws_follow_their_law_in_millions() -> None:
    """The same with two million draws a pair."""
    assert min(_beta_p_values(2_000_000, 32)) > 1e-4 / len(SHAPES)


def _live_and_replayed(decisions: int, seed: int) -> tuple[bytes, bytes]:
    """Run an agent with holds, delays, edits, vetoes and refits; fold its events again."""
    declared = declaration.parse(EXAMPLE)
    agent, rng = Agent(declared.instance, declared.bandit, seed), np.random.default_rng(seed)
    waiting: list[str] = []
    for i in range(decisions):
        context: dict[str, Any] = {
            "occupancy": float(rng.random()),
            "lead": float(rng.random()),
            "gap": bool(rng.random() < 0.2),
            "base": float(rng.uniform(80, 200)),
        }
        case = agent.decide(context, unit=f"listing {rng.integers(5)}")
        turn = rng.random()
        if turn < 0.1:
            agent.expire(case.id)
        elif turn < 0.2:
            agent.resolve(case.id, "veto", by="Ana", reason="no")
        elif turn < 0.4:
            agent.resolve(case.id, "edit", {"price": float(rng.uniform(60, 300))}, by="Ana")
            waiting.append(case.id)
        else:
            agent.resolve(case.id, "approve")
            waiting.append(case.id)
        while len(waiting) > 10 or (waiting and i == decisions - 1):
            late = waiting.pop(int(rng.integers(len(waiting))))
            label = None if rng.random() < 0.2 else [float(rng.normal(0, 0.3))]
            agent.observe(late, {"booked": int(rng.random() < 0.4)}, label=label)
    again = Agent.replay(agent.events, declared.instance, declared.bandit, seed)
    return to_bytes(agent.state), to_bytes(again.state)


def test_a_busy_agent_replays_bit_for_bit() -> None:
    """150 decisions of five units, with refits in between."""
    live, replayed = _live_and_replayed(150, 41)
    assert live == replayed


@pytest.mark.soak
def test_a_busy_agent_replays_bit_for_bit_for_long() -> None:
    """5,000 decisions: every one recomputed, and the state in the same bytes."""
    live, replayed = _live_and_replayed(5_000, 42)
    assert live == replayed


def _worst_gap(name: str, rounds: int, replicates: int, seed: int) -> float:
    domain = load(name)
    ledger = Ledger(domain.instance, domain.world, rounds, replicates)
    simulate(
        domain.instance,
        domain.bandit,
        domain.world,
        rounds=rounds,
        replicates=replicates,
        units=domain.units,
        seed=seed,
        watch=ledger,
    )
    assert ledger.parts[..., 1:3].min() > -1e-9
    return float(np.abs(ledger.parts[..., 0] - ledger.parts[..., 1:].sum(axis=-1)).max())


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_regret_parts_sum_to_the_total_for_long(name: str) -> None:
    """2,000 rounds × 50 replicates (300 × 50 in `test_instances`), every round to 1e-9."""
    rounds = 600 if name == "kalman" else 2_000  # a refold recomposes every logged gain
    assert _worst_gap(name, rounds, 50, 51) < 1e-9


@pytest.mark.soak
def test_a_curve_stays_sound_over_a_million_outcomes() -> None:
    """The posterior of one listing after 10⁶ outcomes is positive definite and at the truth."""
    declared = declaration.parse(EXAMPLE)
    arms = declared.instance.space
    bandit = CurveThompson(prior_mean=(0.0, -1.0), prior_sd=(1.5, 1.0))
    zero = np.zeros(1, dtype=np.int64)
    state, rng = bandit.init(zero, arms), np.random.default_rng(61)
    from gdcb.records import Evidence

    for _ in range(1_000):
        arm = rng.integers(arms.n, size=1_000)
        coord = arms.coords[arm]
        y = (rng.random(1_000) < 1 / (1 + np.exp(4 * coord[:, 0] - 4.5))).astype(float)
        cell = np.zeros(1_000, dtype=np.int64)
        bandit.update(state, Evidence(cell, arm, coord, y, None, np.ones(1_000)))
    found = bandit.mean(state, Setting(zero), arms.nominal)[0]
    truth = 1 / (1 + np.exp(4 * arms.coords[:, 0] - 4.5))
    covariance = state.root[0] @ state.root[0].T
    assert (np.linalg.eigvalsh(covariance) > 0).all()
    assert np.abs(found - truth).max() < 0.005
