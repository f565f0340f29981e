"""Three-part regret of the latest live decisions, as far as their log supports it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.analysis.interval import Interval
from gdcb.analysis.live_regret import live_regret
from gdcb.analysis.what_if.log import gated_log
from gdcb.arrays import Array
from gdcb.errors import GdcbError
from gdcb.instance import Instance
from gdcb.pages.numbers import Estimate
from gdcb.service.figures.window import Window
from gdcb.service.pages.views.dashboard import Part

MOST_ROWS = 2_000
LEAST_ROWS = 60
EVERY = 600_000_000  # µs; it takes seconds
_PARTS = (
    ("bandit", "another arm was better"),
    ("calibration", "no arm could reach it"),
    ("gate", "what the gates changed"),
    ("total", ""),
)


@dataclass(slots=True)
class Regretted:
    """The latest estimate, which is made again now and then.

    Parameters
    ----------
    parts : as the dashboard shows them; one without a number says why there is none
    """

    parts: tuple[Part, ...] = ()
    _at: int | None = None
    _n_known: int = 0
    _is_off: bool = False

    def give_up(self) -> None:
        """Estimate nothing any more: the log has what cannot be."""
        self.parts, self._is_off = (), True

    def advance(self, instance: Instance, window: Window, now: int) -> bool:
        """Estimate anew where that is due; return whether it was.

        It is due where there are new outcomes, and the last estimate is old.
        """
        rows = finished(window)
        n_known = int(window.is_known.sum())
        is_news = n_known != self._n_known
        if self._is_off or (self._at is not None and not (is_news and now - self._at >= EVERY)):
            return False
        self._at, self._n_known = now, n_known
        self.parts = estimated(instance, window, rows[-MOST_ROWS:])
        return True


def finished(window: Window) -> Array:
    """Return the live rows whose outcome is known, the oldest first."""
    rows = window.order()
    fine = window.is_live[rows] & window.is_known[rows] & window.has_run[rows]
    return np.asarray(rows[fine & np.isfinite(window.x[rows]).all(axis=1)])


def estimated(instance: Instance, window: Window, rows: Array) -> tuple[Part, ...]:
    """Return the parts of the regret of some rows, or why they cannot be had."""
    if rows.size < LEAST_ROWS or window.delta is None:
        why = f"it takes {LEAST_ROWS} live decisions with an outcome; there are {rows.size}"
        return (Part("total", None, int(rows.size), why),)
    x, ran = window.x[rows], window.executed[rows]
    _, unit = np.unique(window.unit[rows], return_inverse=True)
    try:
        log = gated_log(
            instance,
            x,
            window.entered[rows],
            ran,
            instance.realised(window.outcome[rows], ran, x),
            delta=window.delta[rows],
            unit=unit,
            statuses=window.statuses[rows],
            trail=window.trail[rows],
        )
        found = live_regret(instance, log)
    except (GdcbError, np.linalg.LinAlgError) as error:
        return (Part("total", None, int(rows.size), f"it cannot be estimated: {error}"),)
    return tuple(
        Part(name, _estimate(getattr(found, name)), found.rows if name == "total" else None, note)
        for name, note in _PARTS
    )


def _estimate(one: Interval) -> Estimate | None:
    return None if one.mean is None else Estimate(one.mean, one.low, one.high)
