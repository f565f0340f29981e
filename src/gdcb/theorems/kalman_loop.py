"""The remark that the closed loop brings no compounding gain (§5.4): a factorial in simulation.

Better modes sharpen the state estimate, and the estimate is the context by which modes and
covariances are chosen. Two factors, each with a poor and a good level: the mode (the best fixed
one, or learned by context) and the context (of a poor filter beside, or the loop's own). The gain
compounds if both together save more than the sum of each alone. It may for two reasons: a context
is worth more to who reads it, or better modes sharpen what they are chosen by. The second is the
remark's feedback; a third context, of the fixed mode's own filter running beside, tells them apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.kalman.riccati import gain, riccati
from gdcb.theorems.kalman_worlds import LOOPS, Loop
from gdcb.theorems.verdict import PAPER, REPAIRED, Check, Progress, quiet

ROUND = 5  # steps for which mode and covariances are held
POOR, BESIDE, OWN, TRUE = "poor", "beside", "own", "true"
_LOG_RANGE, _GRID = (-4.0, 8.0), 97  # of log ρ
_Z = 1.96
_FEEDBACK = 0.05  # of the mean squared error
_SURE = 3.9  # standard errors, for the verdict: 10⁻⁴ a domain
_COLUMNS = ["domain", "neither", "better modes", "own context", "both", "true context"]
_COLUMNS += ["more than the sum, %", "low", "high", "of which feedback, %", "low", "high"]


@dataclass(frozen=True)
class Sizes:
    """Size of the experiment.

    Parameters
    ----------
    steps : of a replicate
    replicates : on which cells are compared
    training : replicates on which modes are learned
    sweeps : over the bins of the context, when modes are learned
    """

    steps: int = 300
    replicates: int = 500
    training: int = 100
    sweeps: int = 4


def closed_loop(
    rng: np.random.Generator, sizes: Sizes | None = None, say: Progress = quiet
) -> dict[str, Any]:
    """Run the factorial in every domain; return figures and a table."""
    size = sizes or Sizes()
    found = []
    for loop in LOOPS:
        say(f"closed loop: {loop.name}")
        found.append(_factorial(rng, loop, size))
    rows = [
        [one["domain"], *(one["error"][cell] for cell in _CELLS), one["error"][f"learned, {TRUE}"]]
        + [100 * one[part][end] for part in ("saved", "feedback") for end in _ENDS]
        for one in found
    ]
    return {"domains": found, "table": {"columns": _COLUMNS, "rows": rows}}


_ENDS = ("mean", "low", "high")
_CELLS = (f"fixed, {POOR}", f"learned, {POOR}", f"fixed, {OWN}", f"learned, {OWN}")


def _factorial(rng: np.random.Generator, loop: Loop, size: Sizes) -> dict[str, Any]:
    gains = Gains.of(loop)
    training = simulated(rng, loop, size.steps, size.training)
    n_modes = len(loop.levels)
    every = np.repeat(np.arange(n_modes), loop.n_bins).reshape(n_modes, -1)
    best = int(np.argmin(_error(gains, *training, POOR, every).mean(axis=1)))
    policies = {
        source: _improved(gains, *training, source, every[best], size.sweeps)
        for source in (POOR, BESIDE, OWN, TRUE)
    }
    fresh = simulated(rng, loop, size.steps, size.replicates)
    error = {}
    for source, learned in policies.items():
        # The first policy is the fixed mode: its own filter is the one beside.
        pair = _error(gains, *fresh, source, np.stack([every[best], learned]))
        error[f"fixed, {source}"], error[f"learned, {source}"] = pair
    neither, modes_only, context_only, both = (error[cell] for cell in _CELLS)
    scale = neither.mean()
    saved = (modes_only + context_only - neither - both) / scale
    return {
        "domain": loop.name,
        "error": {cell: float(part.mean()) for cell, part in error.items()},
        "modes_alone": _estimate((neither - modes_only) / scale),
        "context_alone": _estimate((neither - context_only) / scale),
        "together": _estimate((neither - both) / scale),
        "saved": _estimate(saved),
        "feedback": _estimate((error[f"learned, {BESIDE}"] - both) / scale),
        "log": _jackknifed(neither, modes_only, context_only, both),
        "fixed_mode": best,
        "policies": policies,
    }


def _improved(
    gains: Gains, states: Array, z: Array, source: str, start: Array, sweeps: int
) -> Array:
    """Return a mode a bin (bins,) with a low long-run error, from a fixed one by local changes.

    In each sweep every change of one bin is tried on the same records. All that help are made at
    once if that helps most, else the best one. One-step rewards would not do: a low gain leaves its
    error to the round after.
    """
    policy, n_modes = start, len(gains.loop.levels)
    for _ in range(sweeps):
        tried = np.repeat(policy[None], n_modes * policy.size, axis=0)
        place = np.repeat(np.arange(policy.size), n_modes)
        tried[np.arange(place.size), place] = np.tile(np.arange(n_modes), policy.size)
        tried = np.concatenate([start[None], tried])
        mean = _error(gains, states, z, source, tried).mean(axis=1)[1:]
        helpful = mean.reshape(policy.size, n_modes).argmin(axis=1)
        joint = np.stack([start, policy, helpful, tried[1 + int(mean.argmin())]])
        now, *pair = _error(gains, states, z, source, joint).mean(axis=1)[1:]
        if min(pair) >= now:
            break
        policy = joint[2 + int(np.argmin(pair))]
    return policy


def simulated(
    rng: np.random.Generator, loop: Loop, steps: int, replicates: int
) -> tuple[Array, Array]:
    """Return states (T, N, n) and measurements (T, N, m) without their known season."""
    n, m = loop.f.shape[0], loop.h.shape[0]
    root = np.linalg.cholesky(loop.shape)
    s = np.zeros((replicates, n))
    states, z = np.empty((steps, replicates, n)), np.empty((steps, replicates, m))
    for t in range(-50, steps):
        moved = rng.normal(size=(replicates, n)) @ root.T
        noise = rng.normal(size=(replicates, m))
        s = s @ loop.f.T + np.sqrt(loop.regime(s))[:, None] * moved
        if t >= 0:
            season = 0.0 if loop.season is None else loop.season(t)
            size = np.array(loop.quiet) + loop.blur(s + season)[:, None] * np.array(loop.blurred)
            states[t] = s
            z[t] = s @ loop.h.T + np.sqrt(size) * noise
    return states, z


@dataclass(frozen=True)
class Gains:
    """Steady gains K(mode, R(ρ)) of a system, by mode and log ρ.

    Parameters
    ----------
    loop : the system
    table : (modes, grid, n, m) gains
    fixed : (n, m) of the poor filter
    """

    loop: Loop
    table: Array
    fixed: Array

    @classmethod
    def of(cls, loop: Loop) -> Gains:
        """Solve the Riccati equation for every mode on a grid of ρ, and for the poor filter."""
        rho = np.exp(np.linspace(*_LOG_RANGE, _GRID))
        table = np.stack([_steady(loop, level, rho) for level in loop.levels])
        return cls(loop, table, _steady(loop, loop.poor, np.ones(1))[0])

    def at(self, mode: Array, rho: Array) -> Array:
        """Return the gain of each row, at the nearest ρ of the grid: (N, n, m)."""
        low, high = _LOG_RANGE
        place = np.rint((np.log(rho) - low) / (high - low) * (_GRID - 1))
        return np.asarray(self.table[mode, np.clip(place, 0, _GRID - 1).astype(np.int64)])


def _steady(loop: Loop, level: float, rho: Array) -> Array:
    diagonal = np.array(loop.quiet) + rho[:, None] * np.array(loop.blurred)
    r = diagonal[:, :, None] * np.eye(diagonal.shape[1])
    return np.asarray(gain(loop.h, riccati(loop.f, loop.h, level * loop.shape, r), r))


def _error(gains: Gains, states: Array, z: Array, source: str, policies: Array) -> Array:
    """Return the mean squared error of the scored component under each policy: (P, N).

    Parameters
    ----------
    states, z : (T, N, n), (T, N, m), the same for all policies
    source : whose estimate is the context: that of a poor filter ('poor'), of the first policy's
        filter under its own context ('beside'), the policy's own ('own'), or the state ('true')
    policies : (P, bins) mode a bin of the context
    """
    loop, n_policies = gains.loop, policies.shape[0]
    steps, n_tracks, n = states.shape
    own, beside = np.zeros((n_policies, n_tracks, n)), np.zeros((n_tracks, n))
    total, n_rounds = np.zeros((n_policies, n_tracks)), steps // ROUND
    each = np.arange(n_policies)[:, None]
    for start in range(0, n_rounds * ROUND, ROUND):
        one = {POOR: beside, BESIDE: own[0], OWN: own, TRUE: states[start]}[source]
        context = np.broadcast_to(one, own.shape)
        flat = context.reshape(-1, n)
        mode = policies[each, loop.bin(flat).reshape(n_policies, n_tracks)]
        season = 0.0 if loop.season is None else loop.season(start)
        k = gains.at(mode, loop.blur(flat + season).reshape(mode.shape))
        for t in range(start, start + ROUND):
            own = _updated(loop, own, z[t], k)
            beside = _updated(loop, beside, z[t], gains.fixed)
            total += (own[..., loop.scored] - states[t, :, loop.scored]) ** 2
    return np.asarray(total / (n_rounds * ROUND))


def _updated(loop: Loop, mean: Array, z: Array, k: Array) -> Array:
    predicted = mean @ loop.f.T
    return np.asarray(predicted + (k @ (z - predicted @ loop.h.T)[..., None])[..., 0])


def _estimate(values: Array) -> dict[str, float]:
    mean, error = float(values.mean()), float(values.std(ddof=1)) / values.size**0.5
    return {"mean": mean, "low": mean - _Z * error, "high": mean + _Z * error, "error": error}


def _jackknifed(*cells: Array) -> dict[str, float]:
    """Return log(modes only) + log(context only) − log(neither) − log(both), of mean errors."""
    n = cells[0].size
    totals = np.stack([cell.sum() for cell in cells])
    signs = np.array([-1.0, 1.0, 1.0, -1.0])
    whole = float(signs @ np.log(totals / n))
    without = signs @ np.log((totals[:, None] - np.stack(cells)) / (n - 1))
    error = float(np.sqrt((n - 1) * np.mean((without - without.mean()) ** 2)))
    return {"mean": whole, "low": whole - _Z * error, "high": whole + _Z * error, "error": error}


def kind(saved: dict[str, float]) -> str:
    """Return 'compounding', 'additive' or 'less than additive', by the 95 % interval.

    >>> kind({"low": -0.01, "high": 0.02})
    'additive'
    """
    if saved["low"] > 0.0:
        return "compounding"
    return "less than additive" if saved["high"] < 0.0 else "additive"


def checks(figures: dict[str, Any]) -> list[Check]:
    """Judge the remark, and what takes its place."""
    found = figures["domains"]
    sums = [one["saved"] for one in found]
    back = [one["feedback"] for one in found]
    return [
        Check(
            PAPER,
            "better modes and the loop's own context combine at best additively, in every domain",
            all(one["mean"] - _SURE * one["error"] <= 0.0 for one in sums),
            "beyond the sum of each alone, in % of the mean squared error: " + _listed(found, sums),
        ),
        Check(
            REPAIRED,
            f"the feedback as such, better modes that sharpen what they are chosen by, is worth at "
            f"most {_FEEDBACK:.0%} either way",
            all(abs(one["mean"]) <= _FEEDBACK + _SURE * one["error"] for one in back),
            "in % of the mean squared error: " + _listed(found, back),
        ),
    ]


def _listed(found: list[dict[str, Any]], parts: list[dict[str, float]]) -> str:
    return ", ".join(
        f"{one['domain']} {100 * part['mean']:+.1f} ({100 * part['low']:+.1f} to "
        f"{100 * part['high']:+.1f})"
        for one, part in zip(found, parts, strict=True)
    )
