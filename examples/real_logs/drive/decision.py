"""The decision: what variance a pseudorange gets, or whether it is used at all.

A row is one satellite at one epoch. Arms are noise models, the scaler multiplies their variance,
the gate rejects satellites, and the reward is how well the measurement had been predicted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import gdcb
from gdcb.arms import Arms
from gdcb.arrays import Array
from gdcb.composition import ActionColumn
from gdcb.gates.base import HardGate
from gdcb.parts import Column, check_number, column, take
from gdcb.records import Located, Rows

MODELS = ("equal", "receiver", "C/N0", "C/N0 + elevation", "C/N0, heavy tails")
FREEDOM = 3.0  # degrees of freedom of the heavy tails
LOG_CHI2 = 1.2704  # −E[log χ²₁]: what the logarithm of a squared innovation is too low by
OUTLIER = 600.0  # m: a rejected pseudorange is taken to lie anywhere within ±300 m
ARMS_READ = ("cn0", "elevation")
# What no arm reads: a δ that reads what arms read undoes them, and they are all the same again.
FEATURES = ("speed", "satellites", "unrest", "spread")


def variances(cn0: Array, elevation: Array, receiver: Array) -> Array:
    """Return what every noise model takes the variance for, in m²: (N, K).

    equal: 15². receiver: its own. C/N0: 5²·10^(−(C/N0 − 45)/10), 5 m at 45 dB-Hz and 50 m at 25;
    these are the weights of the least-squares fix. With elevation: 4² of it and 3²/sin² of the
    elevation. Heavy tails: as C/N0.

    >>> variances(np.array([45.0]), np.array([90.0]), np.array([36.0])).tolist()
    [[225.0, 36.0, 25.0, 25.0, 25.0]]
    """
    fading = 10.0 ** (-(cn0 - 45.0) / 10.0)
    low = np.sin(np.radians(np.maximum(elevation, 3.0))) ** 2
    models = (np.full(cn0.shape, 225.0), receiver, 25.0 * fading, 16.0 * fading + 9.0 / low)
    return np.stack((*models, 25.0 * fading), axis=1)


def score(innovation: Array, variance: Array, tail: Array) -> Array:
    """Return the log density of innovations under what was predicted: normal, or Student t.

    `variance` is HPHᵀ + R; `tail` is 1 / degrees of freedom, 0 for the normal.

    At 0, with variance 1, the normal's is −½·log 2π.

    >>> score(np.zeros(1), np.ones(1), np.zeros(1)).round(4).tolist()
    [-0.9189]
    """
    normal = -0.5 * (np.log(2 * np.pi * variance) + innovation**2 / variance)
    half = FREEDOM / 2
    constant = math.lgamma(half + 0.5) - math.lgamma(half) - 0.5 * math.log(FREEDOM * np.pi)
    ratio = innovation**2 / (FREEDOM * variance)
    student = constant - 0.5 * np.log(variance) - (half + 0.5) * np.log1p(ratio)
    return np.where(tail > 0, student, normal)


def labels(innovation: Array, variance: Array) -> Array:
    """Return labels of log δ, one a model: log(ν² / variance) less its mean where δ is 1.

    `variance` is (N, K). The logarithm of a squared normal has mean −1.27; a centimetre keeps it
    finite.

    >>> labels(np.array([10.0]), np.array([[100.0]])).round(2).tolist()
    [[1.27]]
    """
    return np.asarray(np.log((innovation[:, None] ** 2 + 1e-4) / variance) + LOG_CHI2)


def reweighed(variance: Array, tail: Array, innovation: Array, total: Array) -> Array:
    """Return the variances to filter with: those of heavy tails grow with the innovation.

    A Student t measurement acts as a normal one of variance R·(d + ν²/S)/(d + 1): one step of
    its iteratively reweighted fit.

    >>> reweighed(np.ones(2), np.array([0.0, 1 / 3]), np.array([5.0, 5.0]), np.ones(2)).tolist()
    [1.0, 7.0]
    """
    heavy = (FREEDOM + innovation**2 / total) / (FREEDOM + 1.0)
    return np.where(tail > 0, variance * heavy, variance)


@dataclass(frozen=True)
class NoiseModel:
    """Φ(m, δ) = (δ·V_m(x), tail of m): the variance of a measurement, and how heavy its tails are.

    An executed variance belongs to the model whose own is nearest, the ratio of the two counted in
    steps, among those with the same tails.

    Parameters
    ----------
    cn0, elevation, receiver : context columns that the models read
    step : ratio of two variances that counts as one step
    """

    cn0: Column = column("cn0")
    elevation: Column = column("elevation")
    receiver: Column = column("receiver")
    step: float = 1.1
    needs_positive: ClassVar[bool] = True
    arm_kind: ClassVar[str] = "categories"
    joins: ClassVar[str] = "product"

    def __post_init__(self) -> None:
        check_number("composition.step", self.step, 1.0, open_low=True)

    def columns(self, arms: Arms) -> tuple[ActionColumn, ...]:
        """Return the variance in m² and one over the degrees of freedom."""
        return (ActionColumn("variance"), ActionColumn("tail"))

    def compose(self, arms: Arms, delta: Array, x: Array) -> Array:
        """Return every model's variance and tail: (N, K, 2)."""
        known = variances(take(x, self.cn0), take(x, self.elevation), take(x, self.receiver))
        tail = np.zeros_like(known)
        tail[:, -1] = 1.0 / FREEDOM
        return np.stack((known * delta[..., 0], tail), axis=-1)

    def locate(self, arms: Arms, e: Array, delta: Array, x: Array) -> Located:
        """Find the model with the nearest variance and the same tails."""
        composed = self.compose(arms, delta, x)
        with np.errstate(all="ignore"):
            ratio = np.log(e[:, :, None, 0] / composed[:, None, :, 0])
        gap = np.abs(ratio) / math.log(self.step)
        is_other = e[:, :, None, 1] != composed[:, None, :, 1]
        gap = np.where(is_other | ~np.isfinite(gap), np.inf, gap)
        arm = gap.argmin(axis=-1)
        steps = np.take_along_axis(gap, arm[..., None], axis=-1)[..., 0]
        arm = np.where(np.isfinite(steps), arm, -1)
        return Located(arm, arm[..., None].astype(float), lambda: steps)

    def relative(self, e: Array, x: Array) -> Array:
        """Return e itself."""
        return e

    def lipschitz(self, arms: Arms, delta: Array, x: Array) -> float:
        """Return the largest variance of a model: Φ is linear in δ."""
        return float(self.compose(arms, np.ones((x.shape[0], 1, 1)), x)[..., 0].max())


@dataclass(frozen=True)
class SatelliteTest(HardGate):
    """Reject a satellite that is too weak, or too far from what was predicted.

    A pseudorange is used where C/N0 ≥ weakest and |ν| ≤ reject + 3·√(HPHᵀ). The test does not
    read the variance that is proposed: else a model that takes its noise for small would reject
    whatever speaks against it, and be paid for the rest.

    Parameters
    ----------
    cn0, innovation, doubt : context columns: dB-Hz, ν in m, √(HPHᵀ) in m
    weakest : dB-Hz
    reject : m beyond three standard deviations of the prediction
    """

    cn0: Column = column("cn0")
    innovation: Column = column("innovation")
    doubt: Column = column("doubt")
    weakest: float = 20.0
    reject: float = 30.0
    name: str = "satellite test"
    version: str = "1"

    def check(self, columns: Sequence[Any]) -> None:
        """Judge the context only; any action will do."""

    def project(self, e: Array, rows: Rows) -> Array:
        """Return e, NaN where the satellite is rejected."""
        far = np.abs(take(rows.x, self.innovation)) - 3.0 * take(rows.x, self.doubt)
        is_good = (take(rows.x, self.cn0) >= self.weakest) & (far <= self.reject)
        return np.where(is_good[:, None, None], e, np.nan)

    def reason(self, entered: Array, left: Array, row: Rows) -> str:
        """Name the test that failed, with its number."""
        cn0, innovation, doubt = (
            float(take(row.x, one)[0]) for one in (self.cn0, self.innovation, self.doubt)
        )
        if not cn0 >= self.weakest:
            return f"C/N0 of {cn0:g} dB-Hz is below {self.weakest:g}"
        limit = self.reject + 3.0 * doubt
        if not abs(innovation) <= limit:
            return f"{abs(innovation):.0f} m from what was predicted, more than {limit:.0f} m"
        return f"{abs(innovation):.0f} m from what was predicted, within {limit:.0f} m"


def instance(
    gated: bool = True, features: tuple[str, ...] = FEATURES, every: int = 10**9
) -> gdcb.Instance:
    """Return the decision as one GDCB instance; without gate, or without features, for ablations.

    The scaler is published when it is asked to be, or `every` so many rows.
    """
    number = gdcb.Number
    scaler: Any = gdcb.ConstantScaler()
    if features:
        scaler = gdcb.RidgeScaler(features=features, n_arms=len(MODELS), every=every, growth=2.0)
    return gdcb.Instance(
        name="drive",
        title="Variance of a pseudorange",
        context=gdcb.Schema(
            {
                "cn0": number(0, 100, "carrier-to-noise density, dB-Hz"),
                "elevation": number(-90, 90, "degrees"),
                "receiver": number(0, 1e6, "the receiver's own variance, m²"),
                "speed": number(-100, 100, "wheels, m/s"),
                "satellites": number(0, 200, "seen at this epoch"),
                "unrest": number(-50, 50, "this satellite's innovations of late, log"),
                "spread": number(-50, 50, "all satellites' innovations one epoch ago, log"),
                "innovation": number(-1e9, 1e9, "ν, m; for the gate"),
                "doubt": number(0, 1e9, "√(HPHᵀ), m; for the gate"),
            }
        ),
        arms=gdcb.ArmList(names=MODELS),
        composition=NoiseModel(),
        scaler=scaler,
        gate=SatelliteTest() if gated else gdcb.Chain(),
        reward=gdcb.Scaled(outcome=("score",)),
        null=gdcb.NullAction(mean=-math.log(OUTLIER)),
    )


def bandit() -> gdcb.GaussianThompson:
    """Return the learner: log densities of about −4 ± 2 are expected."""
    return gdcb.GaussianThompson(prior_mean=-4.0, strength=1.0, shape=1.0, rate=4.0)
