"""An agent is watched after launch: first the owner changes their mind, then guests stop booking.

Every price is shown to an owner, who approves four of five. The first 600 nights are the reference.
On night 900 the owner starts to veto half of them; that is found, and what was learned of the owner
is forgotten, while outcomes stay. On night 1,500 fewer guests book; that is found as well, and
outcomes from before it count for less.
"""

import numpy as np

import gdcb
from gdcb.analysis import Watch, WatchList, seen_in_events
from gdcb.history import certify_recent

instance = gdcb.Instance(
    context=gdcb.Schema({"base": gdcb.Number(1, 1000), "busy": gdcb.Number(-9, 9)}),
    arms=gdcb.ArmList(values=(0.9, 1.0, 1.1)),
    composition=gdcb.Multiply(base=("base",), names=("price",)),
    gate=gdcb.Chain(
        (
            gdcb.Approval(gdcb.Hold(), name="owner"),
            gdcb.Bounds(low=1.0, high=900.0, name="limits"),
        )
    ),
    reward=gdcb.Payoff(outcome=("booked",), action=0),
)
agent = gdcb.Agent(instance, gdcb.BetaThompson(), seed=3)
rng = np.random.default_rng(3)


def nights(n: int, approved: float, booked: float) -> None:
    """Decide, ask the owner, observe: n times."""
    for _ in range(n):
        context = {"base": float(rng.uniform(80, 120)), "busy": float(rng.normal())}
        case = agent.decide(context)
        agent.resolve(case.id, "approve" if rng.random() < approved else "veto", by="owner")
        agent.observe(case.id, {"booked": int(rng.random() < booked)})


nights(600, approved=0.8, booked=0.6)
watched = WatchList.of(instance, bands=1)
reference = watched.fit(seen_in_events(agent))
judged = [name for name, yes in zip(watched.names, reference.is_judged, strict=True) if yes]
print(f"{len(judged)} monitors, any false alarm ever in at most {100 * watched.level:g} %:")
print("  " + "\n  ".join(judged))

start = len(agent.events)
watch = Watch(agent, watched, reference, certify=certify_recent, start=start, rows=300)
said = []
for night, (approved, booked) in enumerate([(0.8, 0.6)] * 3 + [(0.5, 0.6)] * 6 + [(0.5, 0.2)] * 5):
    nights(100, approved, booked)
    for reaction in watch.look():
        said.append(reaction)
        print(f"\nnight {600 + 100 * (night + 1)}: {reaction.says}")

# Whoever audits it finds alarms and what came of them among the events, and can work all of it
# out again.
again = gdcb.Agent.replay(agent.events, instance, gdcb.BetaThompson(), seed=3)
kinds = [type(event).__name__ for event in again.events]
n_alarms, n_discounts = kinds.count("DriftFound"), kinds.count("EvidenceDiscounted")
print(f"\n{len(kinds):,} events, {n_alarms} alarms, {n_discounts} discounts: replayed")
