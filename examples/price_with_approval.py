"""Price one listing under a manager's approval, live, in this process."""

import gdcb

instance = gdcb.Instance(
    name="listing",
    context=gdcb.Schema(
        {
            "base": gdcb.Number(1, 1000, "base price"),
            "occupancy": gdcb.Number(0, 1, "share of nights booked nearby"),
            "weekend": gdcb.Flag("Friday or Saturday night"),
        }
    ),
    arms=gdcb.ArmList(values=(0.8, 0.9, 1.0, 1.1, 1.25)),
    scaler=gdcb.RidgeScaler(features=("occupancy", "weekend"), centre=(0.5, 0.29)),
    composition=gdcb.Multiply(base=("base",), names=("price",)),
    gate=[gdcb.Approval(name="manager"), gdcb.Bounds(low=50, high=300, name="price bounds")],
    reward=gdcb.Payoff(outcome=("booked",), action=0),
)
agent = gdcb.Agent(instance, gdcb.CurveThompson(), seed=7)

# Nothing runs before the manager has answered.
case = agent.decide({"base": 120, "occupancy": 0.7, "weekend": True})
print(f"{case.id}: proposed {case.proposed}, {case.status}: {case.reason}")

# The manager edits; the bounds behind them still hold.
case = agent.resolve(case.id, "edit", {"price": 320}, by="Ana", reason="trade fair in town")
print(f"{case.id}: executed {case.executed}, {case.status}: {case.reason}")

# The outcome arrives whenever it arrives, with the scaler's label (log of the market's δ).
agent.observe(case.id, {"booked": 1}, label=[0.15])

# A batch: one row a night. Another unit would be another listing.
nights = [{"base": 120, "occupancy": o, "weekend": False} for o in (0.3, 0.5, 0.9)]
for case in agent.decide(nights, unit="harbour view", id="week-47"):
    agent.resolve(case.id, "approve", by="Ana")
    print(agent[case.id])

# Everything so far can be recomputed from its events, bit for bit.
gdcb.Agent.replay(agent.events, instance, gdcb.CurveThompson(), seed=7)
print(f"{len(agent.events)} events replayed")
