"""The filter, interacting models and Riccati solver beside their peers, as ratios of one run.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.kalman

Peers are looped over tracks or systems, as they have to be; ours takes all at once. Both run in
turns on one core and the least time of each counts; of the peers' tracks and systems a few are run
and the time scaled up. The largest difference between results is printed beside. Also: in how
many random systems the lemma's Lipschitz bound is violated. Takes half
a minute.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from filterpy.kalman import IMMEstimator, KalmanFilter
from rich.console import Console
from rich.table import Table
from scipy.linalg import solve_discrete_are

from gdcb.arrays import Array
from gdcb.kalman.filter import Model, kalman_filter
from gdcb.kalman.imm import imm
from gdcb.kalman.riccati import riccati
from gdcb.kalman.sensitivity import lemma_bound

TRACKS, STEPS, TURNS = 1000, 500, 3
SIZES = ((1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (4, 1), (4, 2))
Row = tuple[str, str, str, str]


def in_turns(ours: Callable[[], Any], peer: Callable[[], Any]) -> tuple[float, Any, Any]:
    """Return the peer's least processor time over ours, and both results."""
    best, results = [np.inf, np.inf], [None, None]
    for _ in range(TURNS):
        for i, go in enumerate((ours, peer)):
            start = time.process_time()
            results[i] = go()
            best[i] = min(best[i], time.process_time() - start)
    return best[1] / best[0], results[0], results[1]


def moving(n: int) -> tuple[Array, Array, Array, Array]:
    """Return a target in n/2 dimensions at nearly constant velocity, its position measured."""
    axes = np.eye(n // 2)
    return (
        np.kron(axes, [[1.0, 0.1], [0.0, 1.0]]),
        np.kron(axes, [[1.0, 0.0]]),
        0.1 * np.kron(axes, [[0.1**3 / 3, 0.1**2 / 2], [0.1**2 / 2, 0.1]]) + 1e-6 * np.eye(n),
        0.5 * axes,
    )


def _peer(f: Array, h: Array, q: Array, r: Array) -> Any:
    peer = KalmanFilter(f.shape[0], h.shape[0])
    peer.x, peer.P = np.zeros((f.shape[0], 1)), np.eye(f.shape[0])
    peer.F, peer.H, peer.Q, peer.R = f, h, q, r
    return peer


def _looped(z: Array, parts: tuple[Array, ...]) -> tuple[Array, Array]:
    """Return filterpy's means (T, N, n) and covariances, a track at a time."""
    means, covariances = [], []
    for i in range(z.shape[1]):
        zs = [None if np.isnan(row).any() else row[:, None] for row in z[:, i]]
        mean, covariance, _, _ = _peer(*parts).batch_filter(zs, update_first=True)
        means.append(mean[..., 0])
        covariances.append(covariance)
    return np.stack(means, axis=1), np.stack(covariances, axis=1)


def filters() -> list[Row]:
    """Filter 1,000 tracks of 500 steps: one model for all, holes of their own, own models."""
    rng, rows, few = np.random.default_rng(1), [], 10
    for n in (2, 4):
        f, h, q, r = moving(n)
        z = rng.normal(size=(STEPS, TRACKS, n // 2)).cumsum(axis=0)
        holed = np.where(rng.random((STEPS, TRACKS, 1)) < 0.1, np.nan, z)
        tiled = Model(*(np.tile(x, (TRACKS, 1, 1)) for x in (f, h, q, r)))
        cases = (
            ("one model", z, Model(f, h, q, r), "100"),
            ("one model, a tenth unseen", holed, Model(f, h, q, r), "-"),
            ("a model a track", z, tiled, "-"),
        )
        for name, data, model, goal in cases:
            ratio, out, theirs = in_turns(
                partial(kalman_filter, data, model, np.zeros(n), np.eye(n)),
                partial(_looped, data[:, :few], (f, h, q, r)),
            )
            gap = max(
                np.abs(out.mean[:, :few] - theirs[0]).max(),
                np.abs(out.covariance[:, :few] - theirs[1]).max(),
            )
            what = f"filter, {n} states: {name}"
            rows.append((what, f"{ratio * TRACKS / few:,.0f}", goal, f"{gap:.1e}"))
    return rows


def interacting() -> list[Row]:
    """Filter 1,000 tracks of 50 steps by three models of four states."""
    f, h, q, r = moving(4)
    models = tuple(Model(f, h, scale * q, r) for scale in (1.0, 10.0, 100.0))
    chain = np.full((3, 3), 0.05) + 0.85 * np.eye(3)
    odds, few, steps = np.full(3, 1 / 3), 5, 50
    z = np.random.default_rng(2).normal(size=(steps, TRACKS, 2)).cumsum(axis=0)

    def looped() -> Array:
        means = np.empty((steps, few, 4))
        for i in range(few):
            peers = [_peer(f, h, m.process, r) for m in models]
            peer = IMMEstimator(peers, odds, chain)
            for t in range(steps):
                if t:
                    peer.predict()
                else:
                    peer.cbar = odds
                peer.update(z[t, i][:, None])
                means[t, i] = peer.x[:, 0]
        return means

    start = (np.zeros(4), np.eye(4), odds, chain)
    ratio, out, theirs = in_turns(partial(imm, z, models, *start), looped)
    gap = float(np.abs(out.mean[:, :few] - theirs).max())
    times = f"{ratio * TRACKS / few:,.0f}"
    return [("interacting models, 4 states, 3 modes", times, "-", f"{gap:.1e}")]


def systems(seed: int, count: int, n: int, m: int) -> tuple[Array, Array, Array, Array]:
    """Return random systems: F's largest eigenvalue in [0.3, 1.5], Q and R over two decades."""
    rng = np.random.default_rng(seed)
    f = rng.normal(size=(count, n, n))
    radius = np.abs(np.linalg.eigvals(f)).max(axis=1)
    f *= (rng.uniform(0.3, 1.5, count) / radius)[:, None, None]

    def covariance(k: int) -> Array:
        turn = np.linalg.qr(rng.normal(size=(count, k, k)))[0]
        out = (turn * 10.0 ** rng.uniform(-1, 1, (count, 1, k))) @ turn.swapaxes(1, 2)
        return np.asarray(out + out.swapaxes(1, 2)) / 2

    return f, rng.normal(size=(count, m, n)), covariance(n), covariance(m)


def steady_states() -> list[Row]:
    """Solve 7,000 Riccati equations of seven sizes, a batch a size."""
    every = [systems(3, 1000, n, m) for n, m in SIZES]
    few = 50

    def looped() -> list[Array]:
        return [
            np.stack([solve_discrete_are(f[i].T, h[i].T, q[i], r[i]) for i in range(few)])
            for f, h, q, r in every
        ]

    ratio, found, theirs = in_turns(lambda: [riccati(*parts) for parts in every], looped)
    gap = max(
        float((np.abs(a[:few] - b).max(axis=(1, 2)) / np.abs(b).max(axis=(1, 2))).max())
        for a, b in zip(found, theirs, strict=True)
    )
    times = f"{ratio * 1000 / few:,.0f}"
    return [("Riccati, 1 to 4 states, to SciPy", times, "30", f"{gap:.1e}")]


def violations(seed: int = 4, count: int = 3000) -> tuple[int, int, float]:
    """Return in how many systems of 2 to 4 states P moves more than the lemma allows.

    Returns
    -------
    n_violated, count, ratio : how many, of how many, and the largest ratio of truth to bound
    """
    sizes = tuple(size for size in SIZES if size[0] > 1)
    found = [lemma_bound(*systems(seed, count // len(sizes), n, m)) for n, m in sizes]
    most = max(float((one.covariance / one.covariance_bound).max()) for one in found)
    return sum(int(one.is_violated.sum()) for one in found), count, most


def main() -> None:
    """Measure and print."""
    console = Console(width=110)
    table = Table("what", "times as fast", "goal", "largest difference", title="One core, one run")
    for row in [*filters(), *interacting(), *steady_states()]:
        table.add_row(*row)
    console.print(table)
    n_violated, count, most = violations()
    console.print(
        f"The lemma's bound on dP: violated in {n_violated} of {count} random systems, "
        f"by a factor of up to {most:.1f}"
    )
    console.print(f"Python {platform.python_version()}, NumPy {np.__version__}")


if __name__ == "__main__":
    main()
