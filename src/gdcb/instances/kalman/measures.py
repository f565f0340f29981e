"""What filtering people read: the error, and whether it is as large as the filter says.

Normalised innovation squared (NIS) and normalised estimation error squared (NEES), each over its
degrees of freedom: 1 where the filter's covariances are right, above 1 where it is too sure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.instance import Instance
from gdcb.instances.catalogue import Figure
from gdcb.instances.kalman.plants import SETTLE
from gdcb.instances.kalman.world import Tracking, joseph
from gdcb.simulate import Turn

LEVEL = 0.95


@dataclass(slots=True)
class Reader:
    """Reads all figures of a turn at once, and keeps them until the next."""

    world: Tracking
    _turn: Turn | None = None
    _found: dict[str, Array] = field(default_factory=dict)

    def read(self, name: str, instance: Instance, turn: Turn) -> Array:
        """Return one figure of a turn: (N,)."""
        if turn is not self._turn:
            self._found, self._turn = self._figures(instance, turn), turn
        return self._found[name]

    def _figures(self, instance: Instance, turn: Turn) -> dict[str, Array]:
        world, hidden = self.world, turn.rows.hidden
        assert hidden is not None
        x, columns = turn.rows.x, world.columns
        n, axes = turn.rows.n, len(world.plant.axes)
        seen, target = hidden[:, columns.seen], hidden[:, columns.target].reshape(n, axes, 2)
        before = world.plant.predict(x[:, columns.estimate].reshape(n, axes, 2))
        nu, ran = seen - before[..., 0], world.ran(turn.executed.action, turn.rows)
        estimate = before + ran[:, None] * nu[..., None]
        if hasattr(turn.world, "filter"):  # whose estimate may be no gain's
            estimate = turn.world.estimated
        error = estimate - target
        found = {"rmse": (error * error).sum(axis=(1, 2))}
        claimed = self._claimed(instance, turn)
        if claimed is None:
            return found | dict.fromkeys(("nis", "nees", "inside"), np.full(n, np.nan))
        p, r = claimed
        nis = (nu * nu).sum(axis=1) / (p[:, 0, 0] + r) / axes
        kept = joseph(p, ran, r)
        whitened = np.linalg.solve(kept[:, None], error[..., None])[..., 0]
        nees = (error * whitened).sum(axis=(1, 2)) / (2 * axes)
        return found | {"nis": nis, "nees": nees, "inside": (nis <= upper(axes)) * 1.0}

    def _claimed(self, instance: Instance, turn: Turn) -> tuple[Array, Array] | None:
        """Return the covariance before z (N, 2, 2) and R (N,) that the proposal went by."""
        if hasattr(turn.world, "filter"):
            claimed: tuple[Array, Array] | None = turn.world.claimed
            return claimed
        phi: Any = instance.composition
        _, r, p = phi.covariances(instance.space, turn.decision.delta, turn.rows.x)
        at, arm = np.arange(turn.rows.n), turn.decision.arm
        return p[at, arm], r[at, arm, 0, 0]


def upper(axes: int) -> float:
    """Return the point below which NIS over its degrees of freedom lies 95 % of the time.

    >>> round(upper(1), 4)  # the square of 1.96
    3.8415
    """
    from scipy.stats import chi2

    return float(chi2.ppf(LEVEL, axes)) / axes


def band(steps: int) -> tuple[float, float]:
    """Return the 95 % band of a mean of so many squares of normal numbers.

    >>> [round(end, 3) for end in band(1000)]
    [0.914, 1.09]
    """
    from scipy.stats import chi2

    return float(chi2.ppf(0.025, steps)) / steps, float(chi2.ppf(0.975, steps)) / steps


def figures(world: Tracking, steps: int) -> tuple[Figure, ...]:
    """Return the four figures; `steps` are those of a replicate, over units."""
    reader, axes = Reader(world), len(world.plant.axes)
    low, high = band(steps * axes)
    # Errors go on for a while: one step in as many as a gain takes to settle counts as new.
    least, most = band(max(steps // SETTLE, 1) * 2 * axes)

    def one(name: str, label: str, is_share: bool = False, is_root: bool = False) -> Figure:
        def of(instance: Instance, turn: Turn) -> Array:
            return reader.read(name, instance, turn)

        return Figure(name, label, of, is_share, is_root)

    consistent = f"a consistent filter's lies in {low:.2f} to {high:.2f} in 95 % of replicates"
    return (
        one("rmse", "RMSE of the estimate, places and speeds together", is_root=True),
        one("nis", f"NIS over its degrees of freedom; {consistent}"),
        one("nees", f"NEES over its degrees of freedom; consistent: {least:.2f} to {most:.2f}"),
        one("inside", "steps whose NIS is below its 95 % point", is_share=True),
    )
