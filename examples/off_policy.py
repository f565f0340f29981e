"""What would other prices have earned? Value a policy that never ran, from the log of one that did.

Behind both stands the same manager, who approves most prices and sets the others by feeling.
"""

import numpy as np

from gdcb import (
    Approval,
    ArmList,
    Bounds,
    Chain,
    Instance,
    Multiply,
    Number,
    NumberKernel,
    Schema,
    SimulatedPerson,
    analysis,
)
from gdcb.records import Rows
from gdcb.streams import GATE, Streams

NIGHTS, PRICES = 4000, np.array([80.0, 100.0, 120.0, 140.0])
rng = np.random.default_rng(7)
busy = rng.uniform(-1, 1, NIGHTS)
x, zero, delta = busy[:, None], np.zeros(NIGHTS, dtype=int), np.ones((NIGHTS, 1, 1))
rows = Rows(zero, zero, x)


def approve(e, rows):
    """Approve cheap prices more often than dear ones."""
    return np.clip(1.25 - e[..., 0] / 200.0, 0.0, 1.0)


def own_price(rows):
    """Return what the manager feels a night is worth: 90 to 130."""
    return 110.0 + 20.0 * rows.x


def leaning(slope):
    """Propose dearer prices on busy nights, by so much, and try every price now and then."""
    share = np.exp(-((PRICES - 110.0 - slope * x) ** 2) / (2 * 20.0**2))
    return 0.8 * share / share.sum(axis=1, keepdims=True) + 0.2 / PRICES.size


manager = Approval(SimulatedPerson(approve, own_price, spread=5.0), NumberKernel(("busy",)))
instance = Instance(
    context=Schema({"busy": Number(-1, 1)}),
    arms=ArmList(values=tuple(PRICES)),
    composition=Multiply(names=("price",)),
    gate=Chain((manager, Bounds(low=50.0, high=200.0))),
)

# The log: the incumbent hardly looks at the night.
incumbent, other = leaning(0.0), leaning(40.0)
arm = (incumbent.cumsum(axis=1) < rng.random((NIGHTS, 1))).sum(axis=1)
chain = instance.chain
verdict = chain.apply(chain.draw(Streams(8).at(GATE, 0), NIGHTS), PRICES[arm, None], rows)
price = verdict.action[:, 0]
booked = rng.random(NIGHTS) < 1 / (1 + np.exp((price - 115.0 - 45.0 * busy) / 8.0))
reward = price * booked

# What ran, and how likely it was: the proposal and the manager together, on arm cells.
cell = analysis.arm_cells(instance, price[:, None, None], delta, x)[:, 0]
kernel = analysis.cell_kernel(instance, rows, delta)
behaviour, target = ((policy[:, None] @ kernel)[:, 0] for policy in (incumbent, other))
model = analysis.outcome_model(x, cell, reward, behaviour.shape[1], degree=2)
feedback = analysis.Feedback(cell, reward, behaviour, target, model)

print(f"the log earned {reward.mean():.1f} a night; {(price != PRICES[arm]).mean():.0%} overridden")
for estimator in ("snips", "dr"):
    print(analysis.evaluate(feedback, estimator).says)
sure = analysis.evaluate(feedback, "dr", "betting", reward_range=(0.0, 200.0))
print(sure.says)

# The gain over the log itself, on the same rows: much better known than either value.
log = analysis.Feedback(cell, reward, behaviour, behaviour, model)
gain, low, high = analysis.difference(feedback, log)
print(f"gain {gain:.1f} a night ({low:.1f} to {high:.1f})")

# Had nobody logged propensities, a regression of what ran on the context would stand in.
fitted = analysis.behaviour_model(x, cell, behaviour.shape[1], degree=2)
guessed = analysis.evaluate(analysis.Feedback(cell, reward, fitted, target, model))
print(f"propensities estimated: {guessed.mean:.1f} ({guessed.low:.1f} to {guessed.high:.1f})")
