"""Track a target live: an operator approves gains, and both loops learn from innovations alone.

The target is simulated here, so that the error can be shown at the end; nothing learns from it.
"""

from importlib.resources import files

import numpy as np

import gdcb
from gdcb.declaration import parse
from gdcb.errors import InvalidInput
from gdcb.instances.kalman.columns import Columns
from gdcb.instances.kalman.plants import TARGET
from gdcb.instances.kalman.tracker import Tracker
from gdcb.instances.kalman.triple import Record, replay

STEPS, SWITCH, NOISE = 240, 120, 0.6  # R is 0.36 of the nominal here, which nobody is told
rng, plant = np.random.default_rng(3), TARGET
tracker, columns = Tracker(plant), Columns(plant)
path = files("gdcb.instances.kalman") / "kalman.toml"
declared = parse(path.read_text(encoding="utf-8"))
agent = gdcb.Agent(declared.instance, declared.bandit, seed=7)

# A cue starts the track; from then on every step is predict, decide, approve, measure, update.
state = np.array([[[0.0, 1.0], [0.0, -0.5]]])
track = tracker.begin(state + rng.normal(size=state.shape) * (3.0, 1.0))
beside = track  # the same with one gain for ever
strain, signal, fixed = np.array([0.3]), np.array([0.8]), np.array([[0.65, 0.3]])
waiting, errors, arms, rows = None, [], [], []
for step in range(STEPS):
    mode = 0 if step < SWITCH else 2  # it cruises, then it manoeuvres
    root = np.linalg.cholesky(np.array(plant.process[mode]))
    state = plant.predict(state) + rng.normal(size=state.shape) @ root.T
    seen = state[..., 0] + rng.normal(size=(1, 2)) * NOISE
    if waiting is not None:  # what the last gain was worth is known now: minus ν²
        nu = seen - plant.predict(track.estimate)[..., 0]
        label = [None if np.isnan(v) else float(v) for v in track.waiting.label[0]]
        agent.observe(waiting, {"reward": -float((nu**2).sum())}, label=label)
    x = columns.reported(track, strain, signal)[0]
    context = dict(zip(columns.schema.names, x.tolist(), strict=True))
    case = agent.decide(context, unit="radar 1", id=f"step-{step}")
    if step % 12 == 11:  # now and then the operator prefers a gain of their own
        own = {"gain_00": 0.55, "gain_10": 0.2}
        case = agent.resolve(case.id, "edit", own, by="Ola", reason="steadier")
    else:
        case = agent.resolve(case.id, "approve", by="Ola")
    assert case.executed is not None
    gain = np.array([[case.executed["gain_00"], case.executed["gain_10"]]])
    rows.append((seen, gain, track.estimate))
    track = tracker.update(track, gain, seen, strain, signal)
    beside = tracker.update(beside, fixed, seen, strain, signal)
    waiting = case.id
    errors.append([((one.estimate - state) ** 2).sum() for one in (track, beside)])
    arms.append(case.arm)

for name, part in (("cruise", slice(20, SWITCH)), ("manoeuvre", slice(SWITCH + 20, None))):
    ours, other = np.sqrt(np.mean(errors[part], axis=0))
    most = max(set(arms[part]), key=arms[part].count)
    print(f"{name:9}: RMSE {ours:.2f}, mostly {most}; with one fixed gain {other:.2f}")
fit = agent.state.scaler
print(f"published {fit.versions[0]} times; R at full signal {fit.beta[0, -2]:.2f} of the nominal")

# The same steps as a record: a history for the next tracker, refused if covariances had varied.
seen, gain, first = (np.array(part) for part in zip(*rows, strict=True))
cue = np.full((STEPS, 1, 2, 2), np.nan)
cue[0] = plant.predict(first[0])
flat = np.ones((STEPS, 1))
record = Record(seen, cue, gain, flat * 0.3, flat * 0.8, flat, flat)
print(f"replayed: {np.isfinite(replay(plant, record).label[..., 0]).sum()} labels")
try:
    varied = np.linspace(1.0, 2.0, STEPS)[:, None]
    replay(plant, Record(seen, cue, gain, flat * 0.3, flat * 0.8, flat, varied))
except InvalidInput as error:
    print(error)
