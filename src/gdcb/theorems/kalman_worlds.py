"""Four small systems whose noise depends on the state: what a filter's context is worth there.

In each the true process noise has two regimes, told by where the state is, and the measurement
noise grows with the state. Modes (arms) are levels of process noise; the scaler gives R(x).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array


@dataclass(frozen=True)
class Loop:
    """A system with noise by state.

    Parameters
    ----------
    name : what it stands for
    f, h : (n, n), (m, n) F and H
    shape : (n, n) shape of Q; mode i has Q = levels[i]·shape
    levels : process noise of the modes
    regime : (N, n) states → (N,) level of the true process noise
    blur : (N, n) states → (N,) ρ, for the truth and for the scaler
    quiet, blurred : (m,) diagonal of R = quiet + ρ·blurred
    bin : (N, n) states → (N,) in 0 … n_bins − 1: what of the context the mode choice reads
    n_bins : bins of the context
    poor : level of Q₀ in the filter that runs beside, with ρ = 1
    season : step → what the season adds to the level that noise depends on, or nothing
    scored : component of the state whose squared error counts
    """

    name: str
    f: Array
    h: Array
    shape: Array
    levels: tuple[float, ...]
    regime: Callable[[Array], Array]
    blur: Callable[[Array], Array]
    quiet: tuple[float, ...]
    blurred: tuple[float, ...]
    bin: Callable[[Array], Array]
    n_bins: int
    poor: float
    season: Callable[[int], float] | None = None
    scored: int = 0


def _bins(low: float, high: float, n: int) -> Callable[[Array], Array]:
    edges = np.linspace(low, high, n - 1)
    return lambda x: np.searchsorted(edges, x[:, 0])


def _turning(x: Array) -> Array:
    """Return the process noise of a target that turns in half of its course."""
    return np.where(np.sin(2 * np.pi * x[:, 0] / 120.0) > 0.0, 1.0, 0.01)


def _along(x: Array) -> Array:
    return np.floor(6.0 * np.mod(x[:, 0] / 120.0, 1.0)).astype(np.int64) % 6


def _week(t: int) -> float:
    return float(np.cos(2 * np.pi * t / 7.0))


_ONE = np.ones((1, 1))
LOOPS = (
    Loop(
        name="manoeuvring target",
        f=np.array([[1.0, 1.0], [0.0, 0.9]]),
        h=np.array([[1.0, 0.0]]),
        shape=np.array([[0.25, 0.5], [0.5, 1.0]]) + 1e-3 * np.eye(2),
        levels=(0.01, 0.1, 1.0),
        regime=_turning,
        blur=lambda x: 1.0 + (x[:, 1] / 2.0) ** 2,
        quiet=(0.0,),
        blurred=(9.0,),
        bin=_along,
        n_bins=6,
        poor=0.005,
    ),
    Loop(
        name="demand with season",
        f=0.98 * _ONE,
        h=_ONE,
        shape=_ONE,
        levels=(0.01, 0.05, 0.25),
        regime=lambda x: np.where(x[:, 0] > 0.5, 0.25, 0.01),
        blur=lambda x: np.exp(np.clip(0.8 * x[:, 0], -3.0, 3.0)),
        quiet=(0.0,),
        blurred=(0.5,),
        bin=_bins(-1.0, 2.0, 6),
        n_bins=6,
        poor=0.002,
        season=_week,
    ),
    Loop(
        name="drifting sensor",
        f=np.diag([0.95, 0.995]),
        h=np.array([[1.0, 1.0], [1.0, 0.0]]),
        shape=np.diag([0.3, 1.0]),
        levels=(0.02, 0.1, 0.5),
        regime=lambda x: np.where(x[:, 0] > 0.3, 0.5, 0.02),
        blur=lambda x: 1.0 + x[:, 0] ** 2,
        quiet=(0.0, 4.0),
        blurred=(0.2, 0.0),
        bin=_bins(-1.0, 1.5, 6),
        n_bins=6,
        poor=0.005,
    ),
    Loop(
        name="noise by range",
        f=0.99 * _ONE,
        h=_ONE,
        shape=_ONE,
        levels=(0.02, 0.15, 1.0),
        regime=lambda x: np.where(np.abs(x[:, 0]) > 1.5, 1.0, 0.02),
        blur=lambda x: 1.0 + (x[:, 0] / 2.0) ** 2,
        quiet=(0.0,),
        blurred=(0.5,),
        bin=_bins(-3.0, 3.0, 7),
        n_bins=7,
        poor=0.01,
    ),
)
