"""A world and a gate of your own: discounts of a shop, simulated with exact regret."""

from dataclasses import dataclass

import numpy as np

import gdcb
from gdcb.analysis import Ledger
from gdcb.gates import HardGate
from gdcb.records import Rows
from gdcb.simulate import simulate


@dataclass(frozen=True)
class NoDiscountOnThinMargins(HardGate):
    """Veto any discount where the margin is below a limit.

    `e` is (rows, actions, action columns) and read-only; NaN vetoes. `margin` names a context
    column: the instance puts its position in.
    """

    margin: str | int = gdcb.parts.column("margin")
    at_least: float = 0.1
    name: str = "thin margins"

    def project(self, e, rows):
        """Put NaN where there is a discount and too little margin."""
        is_thin = gdcb.parts.take(rows.x, self.margin)[:, None, None] < self.at_least
        return np.where(is_thin & (e > 0), np.nan, e)

    def reason(self, entered, left, row):
        """Say why."""
        return f"a discount of {entered[0]:.0%} on a margin below {self.at_least:.0%}"


class Shop:
    """Customers buy with a chance that grows with the discount; profit is margin less discount."""

    def start(self, rng, group):
        """Draw how keen each shop's customers are."""
        return 2.0 + rng.normal(group.size)

    def context(self, rng, state, t, group):
        """Reveal the margin of what is on offer: one row a unit."""
        margin = 0.05 + 0.4 * rng.uniform(group.size)
        return Rows(np.arange(group.size), group, margin[:, None])

    def _chance(self, state, e, rows):
        return 1 / (1 + np.exp(1.0 - state[rows.unit, None] * 4 * np.nan_to_num(e[..., 0])))

    def mean(self, state, e, rows):
        """Return the exact E[reward] of actions (N, M, 1): (N, M). NaN: nothing runs."""
        profit = rows.x[:, :1] - e[..., 0]
        return np.nan_to_num(self._chance(state, e, rows) * profit)

    def candidates(self, state, rows):
        """Return a fine grid of actions, for the gate floor."""
        return np.tile(np.linspace(0, 0.3, 61)[:, None], (rows.n, 1, 1))

    def best(self, state, rows):
        """Return the best action of each row (here: on the grid)."""
        grid = self.candidates(state, rows)
        return grid[np.arange(rows.n), self.mean(state, grid, rows).argmax(axis=1)]

    def sample(self, rng, state, e, rows):
        """Draw outcomes (N, 1)."""
        chance = self._chance(state, e[:, None], rows)[:, 0]
        return (rng.uniform(rows.n) < chance)[:, None].astype(float)

    def label(self, rng, state, e, rows):
        """Teach no scaler."""

    def advance(self, rng, state, e, outcome, rows):
        """Keep no memory."""
        return state


instance = gdcb.Instance(
    name="shop",
    context=gdcb.Schema({"margin": gdcb.Number(0, 1)}),
    arms=gdcb.ArmList(values=(0.0, 0.05, 0.1, 0.2)),
    scaler=gdcb.ConstantScaler(0.0),
    composition=gdcb.Add(names=("discount",)),
    gate=NoDiscountOnThinMargins(),
    reward=gdcb.Payoff(outcome=("bought",), win=lambda e, x: x[:, :1] - e[..., 0]),
)
ledger = Ledger(instance, Shop(), rounds=200, replicates=50)
simulate(instance, gdcb.BetaThompson(), Shop(), rounds=200, replicates=50, seed=1, watch=ledger)
total, calibration, bandit, gate = ledger.parts.sum(axis=0).mean(axis=0)
print(f"regret {total:.2f} = calibration {calibration:.2f} + bandit {bandit:.2f} + gate {gate:.2f}")
# Arms are valued behind the gate: a discount that it would veto is worth nothing there, so it is
# never proposed and the gate never has to veto.
print(f"vetoed {ledger.vetoed.mean():.1%}, reward {ledger.reward.sum(axis=0).mean():.1f}")
