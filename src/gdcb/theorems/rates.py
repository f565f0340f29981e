"""How fast each part of regret grows: R_bandit with T, R_cal with N_sup, R_gate with overrides."""

from __future__ import annotations

from typing import Any

import numpy as np

from gdcb.analysis.regret import TrueMean
from gdcb.arrays import Array
from gdcb.bandits import BetaThompson
from gdcb.instance import Instance
from gdcb.scalers import Scaler
from gdcb.simulate import Turn, World, simulate
from gdcb.theorems.shops import FittedScaler, KinkedShop, Shop, gates
from gdcb.theorems.splits import Settings, estimate, growth, learners, play
from gdcb.theorems.verdict import Progress
from gdcb.theorems.worlds import instance_of

# The bandit's part


def lower_bound(world: Shop, arms: tuple[float, ...]) -> float:
    """Return the Lai–Robbins constant: liminf R(T)/log T of every consistent policy.

    With payoffs a·δ* known and p(a) the bookings, an arm could be best if its bookings were
    v*/a. So Σ_a Δ_a/KL(p(a), v*/a)·E[δ*]; an arm with v*/a > 1 could never be, and costs nothing.
    """
    from scipy.special import rel_entr

    price = np.array(arms)
    alpha = world.steepness + np.log(world.steepness - 1.0)
    p = 1.0 / (1.0 + np.exp(-(alpha - world.steepness * price)))
    value = p * price
    best = value.max()
    other = np.minimum(best / price, 1.0)
    divergence = rel_entr(p, other) + rel_entr(1.0 - p, 1.0 - other)
    open_arms = (value < best) & (best / price < 1.0)
    constant = ((best - value)[open_arms] / divergence[open_arms]).sum()
    # E[exp(θᵀx)] for x uniform on ±√3: Π sinh(√3 θⱼ)/(√3 θⱼ).
    width = np.sqrt(3.0) * world.theta
    return float(constant * np.prod(np.sinh(width) / width))


def bandit_rates(size: Settings, seed: int, say: Progress) -> list[dict[str, Any]]:
    """Measure R_bandit of flat, cold, ungated Beta-Thompson under δ*, for few and many arms."""
    few = (0.4, 0.7, 1.0, 1.4, 1.8)
    grid = np.outer((0.55, 0.75, 1.0, 1.3, 1.7), (0.9, 0.95, 1.0, 1.05, 1.1)).ravel()
    many = tuple(float(price) for price in grid)
    world, found = Shop(), []
    for arms, rounds in ((few, size.long), (many, size.horizon)):
        say(f"R_bandit, {len(arms)} arms")
        instance = instance_of(world, "known", arms=arms)
        run = play(instance, BetaThompson(), world, rounds, size.runs, seed)
        regret = run.paper[..., 0].cumsum(axis=0)
        t = np.arange(1, rounds + 1)
        ratio = regret.mean(axis=1) / np.sqrt(len(arms) * t * np.log(np.maximum(t, 2)))
        early = rounds // 4
        slope = (regret[-1] - regret[early - 1]) / np.log(rounds / early)
        constant = lower_bound(world, arms)
        found.append(
            {
                "arms": len(arms),
                "rounds": rounds,
                "regret": estimate(regret[-1]),
                "same_by_both": float(np.abs(run.paper[..., 0] - run.main[..., 2]).max()),
                "over_bound": {str(n): float(ratio[n - 1]) for n in _marks(rounds)},
                "largest_over_bound": float(ratio[_marks(rounds)[0] - 1 :].max()),
                "growth": growth(run.paper[..., 0]),
                "lai_robbins": constant,
                "slope_over_lai_robbins": estimate(slope / constant),
            }
        )
    return found


def _marks(horizon: int) -> list[int]:
    """Return sizes at which a curve is read, the last round among them."""
    return [*(n for n in (100, 300, 1000, 3000) if n < horizon), horizon]


# The scaler's part


def calibration_rates(size: Settings, seed: int, say: Progress) -> list[dict[str, Any]]:
    """Measure R_cal of a single arm against N_sup, at three places."""
    smooth, kinked = Shop(), KinkedShop()
    places: tuple[tuple[str, Shop, float, bool, float], ...] = (
        ("interior optimum", smooth, 1.0, False, -1.0),
        ("optimum at a kink", kinked, 1.0, False, -0.5),
        ("arm off the optimum, absolute value", smooth, 0.7, True, -0.5),
    )
    found = []
    for label, world, arm, is_absolute, expected in places:
        say(f"R_cal, {label}")
        theta = tuple(float(value) for value in world.theta)
        means = np.array(
            [
                _calibration(
                    world,
                    arm,
                    FittedScaler(theta=theta, n_sup=n, seed=seed),
                    size,
                    seed,
                    is_absolute,
                )
                for n in size.n_sup
            ]
        )
        fit = exponent(np.array(size.n_sup), means, seed)
        found.append(
            {
                "where": label,
                "expected": expected,
                "exponent": fit,
                "by_n_sup": {
                    str(n): float(m) for n, m in zip(size.n_sup, means.mean(axis=1), strict=True)
                },
            }
        )
    return found


def _calibration(
    world: Shop, arm: float, scaler: Scaler, size: Settings, seed: int, is_absolute: bool
) -> Array:
    """Return what δ̂ in place of δ* costs one arm, mean over contexts, for each fit: (R,)."""
    rounds = 30
    instance, out = instance_of(world, scaler, arms=(arm,)), np.zeros(size.fits)

    def watch(turn: Turn) -> None:
        mean = TrueMean(instance, world, turn.world, turn.rows)
        right = mean(arm * world.true_delta(turn.world, turn.rows))[:, 0]
        lost = right - mean(turn.decision.actions)[:, 0]
        out[:] += (np.abs(lost) if is_absolute else lost) / rounds

    bandit = BetaThompson()
    simulate(instance, bandit, world, rounds=rounds, replicates=size.fits, seed=seed, watch=watch)
    return out


def exponent(sizes: Array, values: Array, seed: int) -> dict[str, float]:
    """Fit log mean = a + b·log n by least squares; b with a 95 % bootstrap interval over (n, R).

    >>> round(exponent(np.array([1, 4, 16]), np.array([[4.0], [2.0], [1.0]]), 0)["mean"], 12)
    -0.5
    """
    x = np.log(sizes) - np.log(sizes).mean()

    def slope(means: Array) -> Array:
        return np.asarray((x * np.log(means)).sum(axis=-1) / (x * x).sum())

    rng = np.random.default_rng((seed, 3))
    again = rng.integers(values.shape[1], size=(400, *values.shape))
    drawn = slope(np.take_along_axis(values[None], again, axis=2).mean(axis=2))
    low, high = np.quantile(drawn, (0.025, 0.975))
    return {"mean": float(slope(values.mean(axis=1))), "low": float(low), "high": float(high)}


# The gate's part


def gate_rates(size: Settings, seed: int, say: Progress) -> list[dict[str, Any]]:
    """Measure R_gate in both splits against Σ p·Δ = Σ μ(e_rec) − (Kμ)(e_rec)."""
    world, found = Shop(), []
    for label, chain in gates(world).items():
        if not chain.has_person:
            continue
        say(f"R_gate, {label}")
        instance = instance_of(world, "labels", gate=chain, every=10)
        watch = _GateTerms(instance, world, size)
        run = play(
            instance, learners()["response curve"], world, size.nights, size.runs, seed, also=watch
        )
        rest = (run.paper[..., 2] - watch.expected).sum(axis=0)
        found.append(
            {
                "gate": label,
                "override": float(watch.override.mean()),
                "paper": estimate(run.paper[..., 2].sum(axis=0)),
                "p_delta": float(watch.expected.sum(axis=0).mean()),
                "rest_in_errors": float(rest.mean() / (rest.std(ddof=1) / np.sqrt(rest.size))),
                "main": estimate(run.main[..., 3].sum(axis=0)),
                "main_without_luck": float(watch.part.sum(axis=0).mean()),
                "main_low": float(watch.low.sum(axis=0).mean()),
                "main_high": float(watch.high.sum(axis=0).mean()),
                "outside_bracket": watch.outside,
            }
        )
    return found


class _GateTerms:
    """Writes down p·Δ of the proposal, of the best arm without the gate, and of the best behind it.

    The main split's gate part is max_a μ − max_a Kμ, and luck, (Kμ)(e_rec) − μ(e_exec), whose mean
    is 0. It lies between p·Δ of the arm that is best behind the gate and p·Δ of the arm that is
    best without it.
    """

    def __init__(self, instance: Instance, world: World, size: Settings) -> None:
        self._instance, self._world = instance, world
        shape = (size.nights, size.runs)
        self.expected, self.override = np.zeros(shape), np.zeros(shape)
        self.low, self.high, self.part = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self.outside = 0.0

    def __call__(self, turn: Turn) -> None:
        """Write one round down."""
        mean = TrueMean(self._instance, self._world, turn.world, turn.rows)
        free = mean(turn.decision.actions)
        gated = self._instance.chain.expect(mean, turn.decision.actions, turn.rows)
        row, lost = np.arange(turn.rows.n), free - gated
        low, high = lost[row, gated.argmax(axis=1)], lost[row, free.argmax(axis=1)]
        self.expected[turn.t] = lost[row, turn.decision.arm]
        self.override[turn.t] = ~turn.executed.is_own
        part = free.max(axis=1) - gated.max(axis=1)
        self.low[turn.t], self.high[turn.t], self.part[turn.t] = low, high, part
        self.outside = max(self.outside, float(np.maximum(part - high, low - part).max()))
