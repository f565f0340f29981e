"""What is true of a replicate: sizes of the noise, how modes follow each other, and the path.

Sizes multiply the plant's nominal covariances. With u the signal and w the strain, both in [0, 1]:

- `well`: log sizes are drawn at the knots of the scaler's family and interpolated between them;
- `mis`: R jumps where the signal is lost, Q where the strain is high; modes stay on for a while
  before they may end; speed jumps in the last mode, where the filter believes in acceleration.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array, logistic
from gdcb.instances.kalman.labels import SIGNAL_KNOTS, STRAIN_KNOTS
from gdcb.instances.kalman.plants import Plant
from gdcb.scalers.covariance import hats
from gdcb.streams import Stream

# The prior over replicates: means and standard deviations of log sizes.
LEVEL_SD = 0.5  # of Q in each mode
STRAIN, STRAIN_SD = 0.7, 0.3  # half of what Q grows by from no strain to full
NOISE_SD = 0.4  # of R
SIGNAL, SIGNAL_SD = 1.1, 0.3  # half of what R falls by from no signal to full
INITIAL, INITIAL_SD = -0.7, 0.7  # of P₀: cues are mostly better than they are taken for
CYCLE, CYCLE_SD = 0.5, 0.3  # log amplitude of the calendar cycle
# The path.
PLACE_SD, SPEED_SD = 100.0, 2.0  # of a track that begins
PERSISTENCE, WIDTH = 0.97, 1.3  # of signal and strain: an AR(1), and what a logistic makes of it
LOST, LOST_WIDTH = 0.4, 0.04  # signal below which R jumps in `mis`
HIGH, HIGH_WIDTH = 0.65, 0.04  # strain above which Q does
_LEAST_DWELL = 0.5  # share of a mode's mean stay before it may end, in `mis`


@dataclass(slots=True)
class Sizes:
    """Of every unit: what its group shares.

    Parameters
    ----------
    level, strain : (units, K), (units,) log size of Q, and how strain moves it
    noise, signal : (units,) log size of R, and how signal moves it
    initial : (units,) size of P₀
    cycle : (units, period) what the calendar adds to measurements
    """

    level: Array
    strain: Array
    noise: Array
    signal: Array
    initial: Array
    cycle: Array


@dataclass(slots=True)
class Path:
    """One step of the truth of every unit.

    Parameters
    ----------
    state : (units, axes, 2)
    mode, dwell : (units,) which is on, and for how many steps
    strain, signal : (units,) in [0, 1]
    raw : (units, 2) what they are the logistic of
    process : (units, 2, 2) covariance of the noise that led here
    noise : (units,) variance of the measurement
    seen : (units, axes) the measurement
    """

    state: Array
    mode: Array
    dwell: Array
    strain: Array
    signal: Array
    raw: Array
    process: Array
    noise: Array
    seen: Array


@dataclass(frozen=True)
class Truth:
    """The law of paths of a plant in a variant."""

    plant: Plant
    variant: str

    def sizes(self, rng: Stream, group: Array) -> Sizes:
        """Draw what is true of every group; its first unit draws for all."""
        n, k, plant = group.size, self.plant.n_modes, self.plant
        first = np.searchsorted(group, group)
        z = rng.normal(n, k + 4)[first]
        wave = rng.normal(n, max(plant.period, 1) + 1)[first]
        cycle = np.zeros((n, 1))
        if plant.period:
            shape = wave[:, 1:] - wave[:, 1:].mean(axis=1, keepdims=True)
            cycle = np.exp(CYCLE + CYCLE_SD * wave[:, :1]) * shape
        return Sizes(
            level=LEVEL_SD * z[:, :k],
            strain=STRAIN + STRAIN_SD * z[:, k],
            noise=NOISE_SD * z[:, k + 1],
            signal=SIGNAL + SIGNAL_SD * z[:, k + 2],
            initial=np.exp(INITIAL + INITIAL_SD * z[:, k + 3]),
            cycle=cycle,
        )

    def process_size(self, sizes: Sizes, strain: Array, mode: Array) -> Array:
        """Return the size of Q of every unit in a mode (units,)."""
        level = sizes.level[np.arange(mode.size), mode]
        if self.variant == "well":
            knots = np.exp(level[:, None] + sizes.strain[:, None] * _centred(STRAIN_KNOTS))
            return np.asarray((hats(strain, STRAIN_KNOTS) * knots).sum(axis=1))
        high = logistic((strain - HIGH) / HIGH_WIDTH)
        return np.asarray(np.exp(level + sizes.strain * (2.0 * high - 0.7)))

    def noise_size(self, sizes: Sizes, signal: Array) -> Array:
        """Return the size of R of every unit (units,)."""
        if self.variant == "well":
            knots = np.exp(sizes.noise[:, None] - sizes.signal[:, None] * _centred(SIGNAL_KNOTS))
            return np.asarray((hats(signal, SIGNAL_KNOTS) * knots).sum(axis=1))
        lost = logistic((LOST - signal) / LOST_WIDTH)
        return np.asarray(np.exp(sizes.noise + sizes.signal * (1.8 * lost - 0.6)))

    @property
    def shapes(self) -> Array:
        """Q of every mode at size 1, as it is: (K, 2, 2)."""
        out = np.array(self.plant.process)
        if self.variant == "mis":
            out[-1] = np.diag((1e-4, out[-1, 1, 1]))
        return out

    def draw(self, rng: Stream, n: int) -> tuple[Array, Array]:
        """Draw what one step of every unit needs: normal (n, ·), uniform (n, 2)."""
        axes = len(self.plant.axes)
        return rng.normal(n, 3 * axes + 2), rng.uniform(n, 2)

    def fresh(self, sizes: Sizes, raw: Array, z: Array, u: Array) -> Path:
        """Return where tracks begin: a place, a speed and a mode of their own."""
        axes, k = len(self.plant.axes), self.plant.n_modes
        state = z[:, : 2 * axes].reshape(-1, axes, 2) * (PLACE_SD, SPEED_SD)
        mode = (u[:, 0] * k).astype(np.int64)
        return self._measured(sizes, state, mode, np.zeros(mode.size), raw, z)

    def follow(self, sizes: Sizes, path: Path, z: Array, u: Array) -> Path:
        """Return the next step of paths that go on."""
        axes, k, n = len(self.plant.axes), self.plant.n_modes, path.mode.size
        leave = np.full(n, 1.0 - self.plant.stay)
        if self.variant == "mis":
            least = _LEAST_DWELL / (1.0 - self.plant.stay)
            leave = np.where(path.dwell < least, 0.0, leave / (1.0 - _LEAST_DWELL))
        jump = (u[:, 1] * (k - 1)).astype(np.int64) + 1
        is_left = u[:, 0] < leave
        mode = np.where(is_left, (path.mode + jump) % k, path.mode)
        dwell = np.where(is_left, 0.0, path.dwell + 1.0)
        raw = PERSISTENCE * path.raw + np.sqrt(1.0 - PERSISTENCE**2) * z[:, 3 * axes :]
        after = self._measured(sizes, path.state, mode, dwell, raw, z)
        root = np.linalg.cholesky(after.process)
        shock = (root[:, None] @ z[:, : 2 * axes].reshape(n, axes, 2, 1))[..., 0]
        state = self.plant.predict(path.state) + shock
        after.seen = after.seen - path.state[..., 0] + state[..., 0]
        after.state = state
        return after

    def _measured(
        self, sizes: Sizes, state: Array, mode: Array, dwell: Array, raw: Array, z: Array
    ) -> Path:
        """Return the step with its covariances and its measurement."""
        axes = len(self.plant.axes)
        strain, signal = np.moveaxis(logistic(WIDTH * raw), 1, 0)
        size = self.process_size(sizes, strain, mode)
        noise = self.plant.noise * self.noise_size(sizes, signal)
        seen = state[..., 0] + np.sqrt(noise)[:, None] * z[:, 2 * axes : 3 * axes]
        process = size[:, None, None] * self.shapes[mode]
        return Path(state, mode, dwell, strain, signal, raw, process, noise, seen)


def _centred(knots: tuple[float, ...]) -> Array:
    """Return knots in [0, 1] as they lie between −1 and 1."""
    return np.array(knots) * 2.0 - 1.0
