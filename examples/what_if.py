"""Ask a gated log what another gate, a second reviewer or another policy would have been worth.

A shop's prices met a manager, who approved or put in a price of their own, and then a limit.
"""

import numpy as np

import gdcb
from gdcb import analysis

ROWS, ARMS = 3000, np.array([0.8, 0.9, 1.0, 1.1, 1.2, 1.3])
rng = np.random.default_rng(5)

instance = gdcb.Instance(
    context=gdcb.Schema({"busy": gdcb.Number(-1, 1)}),
    arms=gdcb.ArmList(values=tuple(ARMS)),
    composition=gdcb.Multiply(names=("price",)),
    gate=gdcb.Chain((gdcb.Approval(name="manager"), gdcb.Bounds(high=1.25, name="limit"))),
    reward=gdcb.Payoff(outcome=("sold",), action=0),
)

# The log: what was proposed, what ran, what it earned. The manager's price follows the day.
busy = rng.uniform(-1, 1, ROWS)
law = np.exp(-20 * (ARMS - 1.05 - 0.1 * busy[:, None]) ** 2)
law /= law.sum(axis=1, keepdims=True)
proposed = ARMS[(law.cumsum(axis=1) < rng.random((ROWS, 1))).sum(axis=1).clip(0, ARMS.size - 1)]
approved = rng.random(ROWS) < 1 / (1 + np.exp(10 * (proposed - 1.15 - 0.1 * busy)))
price = np.where(approved, proposed, 1 + 0.1 * busy + 0.03 * rng.normal(size=ROWS))
price = np.minimum(price, 1.25)


def chance(price):
    """Return the chance of a sale."""
    return 1 / (1 + np.exp(8 * (price - 1.1 - 0.15 * busy)))


reward = price * (rng.random(ROWS) < chance(price))
log = analysis.gated_log(instance, busy[:, None], proposed[:, None], price[:, None], reward)

# A limit of 1.05: rows below it keep their own outcome. A manager who lets everything pass. Two
# managers, of whom nothing is assumed, or that they answer independently. A bolder policy.
bolder = np.exp(-20 * (ARMS - 1.1 - 0.2 * busy[:, None]) ** 2)
questions = (
    analysis.ReplaceGate("limit", gdcb.Bounds(high=1.05)),
    analysis.WithoutGate("manager"),
    analysis.SecondReviewer("manager"),
    analysis.SecondReviewer("manager", assume="independent"),
    analysis.Propose(bolder / bolder.sum(axis=1, keepdims=True), "a bolder policy"),
)
answers = analysis.ask_all(instance, log, questions)
for answer in answers:
    print(answer.question, answer.says, sep="\n  ")
print("They assume:", *answers[0].assumes, sep="\n  ")

# If the manager may have known more of the day than the log does, a range is all that is left.
careful = analysis.ask(instance, log, analysis.WithoutGate("manager"), private=True)
print(careful.question, careful.says, sep="\n  ")

# Without the limit: what it cut may have been the proposal or the manager's own price, and the log
# does not tell which. Outcomes with known payoffs bound what that is worth.
beyond = analysis.ask(instance, log, analysis.WithoutGate("limit"))
print(beyond.question, beyond.says, sep="\n  ")

# What a round lost, and to whom: no oracle, only the log.
regret = analysis.live_regret(instance, log)
print(regret.says)

# The truth, which only a simulation has.
lower, free = np.minimum(price, 1.05), np.minimum(proposed, 1.25)
truth = [float((p * chance(p)).mean()) for p in (lower, free)]
print(f"in truth: limit {truth[0]:.3f}, manager lets all pass {truth[1]:.3f}")
