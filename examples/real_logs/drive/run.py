"""Drive through a log: filter, decide, learn; the ground truth is not read here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import gdcb
from examples.real_logs.drive import decision
from examples.real_logs.drive.filter import Motion, expected, predict, start, update
from examples.real_logs.drive.fix import Plane
from examples.real_logs.drive.log import Drive
from gdcb import round as rounds
from gdcb.arrays import Array
from gdcb.records import Rows, Setting
from gdcb.streams import Stream

_MEMORY = 2.0  # s: how far back a satellite's innovations of late reach
_FIRST = 1.4  # log(10²/25): unrest and spread before any innovation


Context = dict[str, Array]  # columns of the schema, a satellite a row


@dataclass(frozen=True, slots=True)
class Choice:
    """What an epoch's satellites get: variance (m,) in m², tail (m,), whether used (m,)."""

    variance: Array
    tail: Array
    is_used: Array


@dataclass(slots=True)
class Track:
    """What a filter left behind.

    Parameters
    ----------
    position : (T, 3) in the plane, after the epoch's measurements
    nis, n_used : (T,) normalised innovation squared νᵀS⁻¹ν of what was used, and how many that is
    log_density : (T,) sum of the log densities of what was used, each as the filter that has not
        heard it predicted it
    deviation : (T,) what the filter takes its own error for: the root of its position's variance
    """

    position: Array
    nis: Array
    n_used: Array
    log_density: Array
    deviation: Array


@dataclass(slots=True)
class Fixed:
    """One noise model throughout, with the δ of a state that is not taught.

    Parameters
    ----------
    instance, model : the decision, and the name of its arm
    state : what was learned before; None: nothing
    """

    instance: gdcb.Instance
    model: str
    state: Any = None

    def __post_init__(self) -> None:
        if self.state is None:
            self.state = rounds.init(self.instance, decision.bandit(), np.zeros(1, dtype=int))

    def choose(self, context: Context) -> Choice:
        """Propose the model for every satellite, and ask the gate."""
        x = self.instance.context.encode(_each(context))
        zero, is_model = np.zeros(x.shape[0], dtype=int), np.array(decision.MODELS) == self.model
        rows = Rows(zero, zero, x, np.broadcast_to(is_model, (x.shape[0], is_model.size)))
        # One arm is allowed, so chance has nothing to say.
        rng = Stream((0, 0), 0, 1)
        made = rounds.decide(rng, self.instance, decision.bandit(), self.state, rows)
        ran = rounds.execute(self.instance, rounds.gate(rng, self.instance, made, rows), rows)
        return Choice(ran.action[:, 0], ran.action[:, 1], ~ran.is_null)

    def learn(self, context: Context) -> None:
        """Learn nothing."""


@dataclass(slots=True)
class Learning:
    """An agent that is told innovations, and nothing else.

    Parameters
    ----------
    agent : whose loops learn
    model : the one noise model that it may propose; None: any, as its bandit draws
    """

    agent: gdcb.Agent
    model: str | None = None
    cases: list[gdcb.Case] = field(default_factory=list)

    def choose(self, context: Context) -> Choice:
        """Let the agent decide for every satellite."""
        mask = None if self.model is None else (self.model,)
        self.cases = self.agent.decide(_each(context), mask=mask)
        ran = [case.executed or {} for case in self.cases]
        variance = np.array([one.get("variance", np.nan) for one in ran])
        tail = np.array([one.get("tail", np.nan) for one in ran])
        return Choice(variance, tail, np.isfinite(variance))

    def learn(self, context: Context) -> None:
        """Tell the score of what ran, and the label of the δ of the model that ran.

        Other models would have steered the filter elsewhere, and found other innovations there.
        """
        known = decision.variances(context["cn0"], context["elevation"], context["receiver"])
        innovation, doubt = context["innovation"], context["doubt"]
        label = decision.labels(innovation, known + doubt[:, None] ** 2).tolist()
        is_labelled = self.agent.instance.scaler.n_labels > 0
        for i, case in enumerate(self.cases):
            if case.executed is None:
                continue
            ran = np.array([[case.executed["variance"], case.executed["tail"]]])
            density = decision.score(innovation[i : i + 1], ran[:, 0] + doubt[i] ** 2, ran[:, 1])
            own = [
                at if name == case.arm else None
                for name, at in zip(decision.MODELS, label[i], strict=True)
            ]
            score = {"score": float(density[0])}
            self.agent.observe(case.id, score, label=own if is_labelled else None)


Policy = Fixed | Learning


def _each(context: Context) -> list[dict[str, float]]:
    """Return a column each as a row each."""
    rows = zip(*(values.tolist() for values in context.values()), strict=True)
    return [dict(zip(context, row, strict=True)) for row in rows]


def learned(
    drive: Drive,
    plane: Plane,
    epochs: int,
    made: gdcb.Instance,
    say: Callable[[str], None] = lambda said: None,
) -> gdcb.Agent:
    """Teach both loops the first epochs: each noise model runs its own filter through them, twice.

    The first time as it is; then the scaler is put in force, and the scores of the second time are
    those of the models as they will run. A model is judged in the filter that it steers.
    """
    agent = gdcb.Agent(made, decision.bandit(), seed=0)
    for go in ("as they are", "scaled") if made.scaler.n_labels else ("as they are",):
        if go == "scaled":
            agent.refit()
        for model in decision.MODELS:
            say(f"first half, noise models {go}: {model}")
            follow(drive, plane, Learning(agent, model), epochs)
    return agent


def best_model(agent: gdcb.Agent) -> str:
    """Return the noise model with the highest posterior mean."""
    return decision.MODELS[int(means(agent).argmax())]


def means(agent: gdcb.Agent) -> Array:
    """Return the posterior mean score of every noise model: (K,)."""
    at, arms = Setting(np.zeros(1, dtype=int)), agent.instance.space
    return np.asarray(agent.bandit.mean(agent.state.bandit, at, arms.nominal)[0])


def follow(
    drive: Drive,
    plane: Plane,
    policy: Policy,
    epochs: int | None = None,
    motion: Motion | None = None,
) -> Track:
    """Filter a drive from its first epoch on, all of it or so many epochs.

    Beside the filter runs one for every satellite that never hears this satellite: it says what
    the satellite should measure. A filter that has followed a delayed signal for seconds would
    find it well predicted.
    """
    n, motion = drive.n if epochs is None else epochs, motion or Motion()
    numbers, place = np.unique(drive.number, return_inverse=True)
    mean, covariance = (
        np.repeat(part[None], numbers.size + 1, axis=0) for part in start(drive, plane)
    )
    track = Track(np.zeros((n, 3)), *(np.zeros(n) for _ in range(4)))
    unrest = np.full(numbers.size, _FIRST)
    spread, before = _FIRST, drive.time[0]
    for i in range(n):
        dt, rows = float(drive.time[i] - before), drive.rows(i)
        before, at = drive.time[i], place[rows]
        speed, turn = float(drive.speed[i]), float(drive.turn[i])
        mean, covariance = predict(mean, covariance, speed, turn, dt, motion)
        if at.size:
            ranges, design = expected(mean, plane.satellite[rows], drive.system[rows])
            innovation = drive.ranges[rows] - ranges
            # Each satellite as the filter that has not heard it sees it.
            left_out = (at + 1, np.arange(at.size))
            unheard, toward = innovation[left_out], design[left_out]
            doubt = np.sqrt(np.einsum("mi,mij,mj->m", toward, covariance[at + 1], toward))
            context = {
                "cn0": drive.cn0[rows],
                "elevation": drive.elevation[rows],
                "receiver": drive.variance[rows],
                "speed": np.full(at.size, speed),
                "satellites": np.full(at.size, at.size),
                "unrest": unrest[at],
                "spread": np.full(at.size, spread),
                "innovation": unheard,
                "doubt": doubt,
            }
            choice = policy.choose(context)
            policy.learn(context)
            total = np.where(choice.is_used, choice.variance + doubt**2, 1.0)
            density = decision.score(unheard, total, choice.tail)
            track.log_density[i] = density[choice.is_used].sum()
            track.n_used[i] = choice.is_used.sum()
            variance = decision.reweighed(choice.variance, choice.tail, unheard, total)
            own = np.arange(numbers.size + 1)[:, None] == at + 1
            track.nis[i] = _nis(innovation[0], design[0], covariance[0], variance, choice.is_used)
            mean, covariance = update(
                mean, covariance, design, innovation, variance, choice.is_used & ~own
            )
            size = np.log((unheard**2 + 1.0) / 25.0)
            spread = float(np.median(size))
            unrest[at] += (size - unrest[at]) * min(dt / _MEMORY, 1.0)
        track.position[i] = mean[0, :3]
        track.deviation[i] = np.sqrt(np.trace(covariance[0, :3, :3]))
    return track


def _nis(
    innovation: Array, design: Array, covariance: Array, variance: Array, used: Array
) -> float:
    """Return νᵀS⁻¹ν of what is used."""
    v, h = innovation[used], design[used]
    return float(v @ np.linalg.solve(h @ covariance @ h.T + np.diag(variance[used]), v))
