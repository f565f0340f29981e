"""Split the same regret twice: a scaler that is 20 % too low, and arms that have made up for it."""

from typing import Any

import numpy as np

import gdcb
from gdcb import analysis
from gdcb.records import Rows
from gdcb.simulate import simulate

ROUNDS, REPLICATES = 300, 40


class Shop:
    """Guests are alike in every context, so δ* = 1; the best price is about 1."""

    def start(self, rng, group):
        """Nothing differs between shops."""
        return None

    def context(self, rng, state, t, group):
        """Say nothing."""
        return Rows(np.arange(group.size), group, np.zeros((group.size, 1)))

    def mean(self, state, e, rows):
        """Return E[price if sold] of prices (N, M, 1): (N, M)."""
        return e[..., 0] / (1 + np.exp(8 * (e[..., 0] - 1.2)))

    def candidates(self, state, rows):
        """Return a fine grid of prices."""
        return np.tile(np.linspace(0.5, 1.5, 201)[:, None], (rows.n, 1, 1))

    def best(self, state, rows):
        """Return the best price on the grid."""
        grid = self.candidates(state, rows)
        return grid[np.arange(rows.n), self.mean(state, grid, rows).argmax(axis=1)]

    def sample(self, rng, state, e, rows):
        """Draw sales (N, 1)."""
        chance = self.mean(state, e[:, None], rows)[:, 0] / e[:, 0]
        return (rng.uniform(rows.n) < chance)[:, None].astype(float)

    def label(self, rng, state, e, rows):
        """Teach no scaler."""

    def advance(self, rng, state, e, outcome, rows):
        """Keep no memory."""
        return state

    def true_delta(self, state, rows):
        """Return δ*: without it there is no split in the paper's order."""
        return np.ones((rows.n, 1, 1))


instance = gdcb.Instance(
    context=gdcb.Schema({"none": gdcb.Number(0, 1)}),
    arms=gdcb.ArmList(values=(0.8, 1.0, 1.25)),
    scaler=gdcb.ConstantScaler(0.8),
    composition=gdcb.Multiply(names=("price",)),
    gate=[],
    reward=gdcb.Payoff(outcome=("sold",), action=0),
)
world = Shop()
ledger = analysis.Ledger(instance, world, ROUNDS, REPLICATES, with_paper=True)
last: list[Any] = []


def watch(turn):
    """Write one round down, and keep both splits of the last."""
    ledger(turn)
    if turn.t == ROUNDS - 1:
        last.extend(analysis.regret_splits(instance, world, turn))


simulate(
    instance, gdcb.BetaThompson(), world, rounds=ROUNDS, replicates=REPLICATES, seed=1, watch=watch
)
total, calibration, bandit, gate = ledger.parts.sum(axis=0).mean(axis=0)
print(f"regret {total:.1f} = calibration {calibration:.1f} + bandit {bandit:.1f} + gate {gate:.1f}")
parts_paper = np.asarray(ledger.parts_paper)
bandit, calibration, gate = parts_paper.sum(axis=0).mean(axis=0)
print(f"the paper's: bandit {bandit:.1f} + calibration {calibration:.1f} + gate {gate:.1f}")
main, paper = last
print(f"last round: {main.total.mean():.3f}, told as {main.bandit.mean():.3f} for the bandit")
print(f"in the paper's order as {paper.bandit.mean():.3f} for it")
