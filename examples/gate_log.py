"""Simulate a price under a manager's approval, and read from the log how much the gate let through.

The instance is a file; the manager, who would be waited for live, is put in as a simulated one.
"""

from dataclasses import replace

import numpy as np

import gdcb
from gdcb import analysis, declaration
from gdcb.analysis.regret import TrueMean
from gdcb.records import Rows
from gdcb.simulate import simulate

DECLARED = """
name = "room"
context.busy = { type = "flag", about = "a busy night" }
arms = { part = "list", values = [80.0, 100.0, 120.0] }
composition = { part = "multiply", names = ["price"] }
reward = { part = "payoff", outcome = ["booked"], action = 0 }
bandit = { part = "beta-thompson" }
[[gates]]
part = "approval"
name = "manager"
kernel = { part = "number", features = ["busy"] }
[[gates]]
part = "bounds"
high = 115.0
"""
ROUNDS, REPLICATES = 200, 50


def approve(e, rows):
    """Approve half of the prices on quiet nights and eight of ten on busy ones, whatever they are.

    `e` is (rows, prices, action columns); the answer is (rows, prices).
    """
    p = np.where(rows.x[:, 0] > 0, 0.8, 0.5)
    return np.broadcast_to(p[:, None], e.shape[:2])


def own_price(rows):
    """Return the manager's own price: always 105."""
    return np.full((rows.n, 1), 105.0)


class Nights:
    """Guests book with a chance that falls with the price, and is higher on busy nights."""

    def start(self, rng, group):
        """Nothing differs between rooms."""
        return None

    def context(self, rng, state, t, group):
        """Half of the nights are busy."""
        busy = (rng.uniform(group.size) < 0.5).astype(float)
        return Rows(np.arange(group.size), group, busy[:, None])

    def _chance(self, e, rows):
        return 1 / (1 + np.exp((e[..., 0] - 95 - 20 * rows.x[:, :1]) / 15))

    def mean(self, state, e, rows):
        """Return E[price if booked] of prices (N, M, 1): (N, M)."""
        return self._chance(e, rows) * e[..., 0]

    def candidates(self, state, rows):
        """Return a fine grid of prices."""
        return np.tile(np.linspace(60, 140, 161)[:, None], (rows.n, 1, 1))

    def best(self, state, rows):
        """Return the best price on the grid."""
        grid = self.candidates(state, rows)
        return grid[np.arange(rows.n), self.mean(state, grid, rows).argmax(axis=1)]

    def sample(self, rng, state, e, rows):
        """Draw bookings (N, 1)."""
        chance = self._chance(e[:, None], rows)[:, 0]
        return (rng.uniform(rows.n) < chance)[:, None].astype(float)

    def label(self, rng, state, e, rows):
        """Teach no scaler."""

    def advance(self, rng, state, e, outcome, rows):
        """Keep no memory."""
        return state


# Put a simulated manager in the place of the real one.
declared = declaration.parse(DECLARED)
manager, bounds = declared.instance.chain.gates
assert isinstance(manager, gdcb.Approval)
manager = replace(manager, person=gdcb.SimulatedPerson(approve, own_price))
instance = replace(declared.instance, gate=gdcb.Chain((manager, bounds)))
bandit, world = declared.bandit, Nights()

# Watch every round: the ledger splits the regret, the list keeps the cells of what was proposed
# and of what left the gates.
ledger = analysis.Ledger(instance, world, ROUNDS, REPLICATES, with_floor=True)
seen: list[np.ndarray] = []


def watch(turn):
    """Write one round down."""
    ledger(turn)
    both = np.stack((turn.decision.action, turn.verdict.action), axis=1)
    cells = analysis.arm_cells(instance, both, turn.decision.delta, turn.rows.x)
    seen.append(np.column_stack((cells, turn.rows.x[:, 0])).astype(int))


run = simulate(instance, bandit, world, rounds=ROUNDS, replicates=REPLICATES, seed=1, watch=watch)
total, calibration, learner, gate = ledger.parts.sum(axis=0).mean(axis=0)
print(
    f"regret {total:.0f} = calibration {calibration:.0f} + bandit {learner:.0f} + gate {gate:.0f}"
)
print(f"gate floor {np.asarray(ledger.floor).sum(axis=0).mean():.0f}")

# How likely each price is proposed and executed next, on a quiet and on a busy night.
rows = Rows(np.zeros(2, int), np.zeros(2, int), np.array([[0.0], [1.0]]))
chances = gdcb.propensity(instance, bandit, run.state, rows)
print(f"proposed {chances.proposed.round(2).tolist()} ± {chances.error.max():.2f}", chances.method)
print(f"executed, as far as the manager is known {chances.executed.round(2).tolist()}")

# η of the gate: from its formula, and on arm cells.
delta = np.ones((2, 1, 1))
actions = instance.composition.compose(instance.space, delta, rows.x)
print("η by formula", instance.chain.contraction(actions, rows).prod(axis=1).tolist())
kernel = analysis.cell_kernel(instance, rows, delta)
print("executed in truth", (chances.proposed[:, None] @ kernel)[:, 0].round(2).tolist())
print("η on cells", analysis.dobrushin(kernel).round(3).tolist())

# η from the log alone, night by kind of night. The bandit learned from the gate: 'adaptive'.
proposed, left, busy = np.concatenate(seen).T
n_cells = instance.space.n + 2
for label, stratum in (("pooled", None), ("strata", busy)):
    found = analysis.estimate_contraction(
        proposed, left, n_cells, stratum=stratum, design="adaptive"
    )
    print(f"η from the log, {label}: {found.estimates.round(3)}, at most {found.uppers.round(3)}")

# How much of the change from the first to the last quarter of the rounds came through.
first, last = np.concatenate(seen[: ROUNDS // 4]).T, np.concatenate(seen[-ROUNDS // 4 :]).T
ratio = analysis.realised_ratio(
    first[0], last[0], first[1], last[1], n_cells, stratum0=first[2], stratum1=last[2]
)
print(f"realised ratio {ratio.ratio:.2f} ({ratio.low:.2f} to {ratio.high:.2f})")

# What each gate adds to the worth of each price, on a quiet and on a busy night.
truth = TrueMean(instance, world, None, rows)
added = instance.chain.attribute(truth, actions, rows)
for i, one in enumerate(instance.chain.gates):
    print(f"{one.name} adds {added[..., i].round(1).tolist()}")
