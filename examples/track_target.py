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

STEPS, SWITCH = 120, 60
rng, plant = np.random.default_rng(3), TARGET
tracker, columns = Tracker(plant), Columns(plant)
path = files("gdcb.instances.kalman") / "kalman.toml"
declared = parse(path.read_text(encoding="utf-8"))
agent = gdcb.Agent(declared.instance, declared.bandit, seed=7)

# A cue starts the track; from then on every step is predict, decide, approve, measure, update.
state = np.array([[[0.0, 1.0], [0.0, -0.5]]])
track = tracker.begin(state + rng.normal(size=state.shape) * (3.0, 1.0))
strain, signal = np.array([0.3]), np.array([0.8])
waiting, errors, arms, rows = None, [], [], []
for step in range(STEPS):
    mode = 0 if step < SWITCH else 2  # it cruises, then it manoeuvres
    root = np.linalg.cholesky(np.array(plant.process[mode]))
    state = plant.predict(state) + rng.normal(size=state.shape) @ root.T
    seen = state[..., 0] + rng.normal(size=(1, 2)) * 0.6
    if waiting is not None:  # what the last gain was worth is known now: minus ν²
        nu = seen - plant.predict(track.estimate)[..., 0]
        label = [None if np.isnan(v) else float(v) for v in track.waiting.label[0]]
        east, north = waiting[1]
        outcome = {"reward": -float((nu**2).sum()), "seen_east": east, "seen_north": north}
        agent.observe(waiting[0], outcome, label=label)
    x = columns.reported(track, strain, signal)[0]
    context = dict(zip(columns.schema.names, x.tolist(), strict=True))
    case = agent.decide(context, unit="radar 1", id=f"step-{step}")
    case = agent.resolve(case.id, "approve", by="Ola")
    assert case.executed is not None
    gain = np.array([[case.executed["gain_00"], case.executed["gain_10"]]])
    rows.append((seen, track.age, gain, track.estimate))
    track = tracker.update(track, gain, seen, strain, signal)
    waiting = (case.id, seen[0].tolist())
    errors.append(float(((track.estimate - state) ** 2).sum()))
    arms.append(case.arm)

for name, part in (("cruise", slice(20, SWITCH)), ("manoeuvre", slice(SWITCH + 20, None))):
    ran, rmse = arms[part], np.sqrt(np.mean(errors[part]))
    most = max(set(ran), key=ran.count)
    print(f"{name:9}: RMSE {rmse:.2f}, mostly {most}")

# The same steps as a record: a history for the next tracker, refused if covariances had varied.
seen, _, gain, _ = (np.array(part) for part in zip(*rows, strict=True))
cue = np.full((STEPS, 1, 2, 2), np.nan)
cue[0] = plant.predict(rows[0][3])
flat = np.ones((STEPS, 1))
record = Record(seen, cue, gain, flat * 0.3, flat * 0.8, flat, flat)
print(f"replayed: {np.isfinite(replay(plant, record).label[..., 0]).sum()} labels")
try:
    varied = np.linspace(1.0, 2.0, STEPS)[:, None]
    replay(plant, Record(seen, cue, gain, flat * 0.3, flat * 0.8, flat, varied))
except InvalidInput as error:
    print(error)
