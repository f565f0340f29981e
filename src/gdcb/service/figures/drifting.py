"""Drift of gates, rewards and contexts since the first part of the log: alarms to be shown."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gdcb import events as ev
from gdcb.analysis.drift import Monitors, MonitorState, Reference, Seen, WatchList
from gdcb.analysis.drift.watchlist import KINDS
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.records import HELD, NOT_REACHED
from gdcb.service.figures.window import Window

OUTCOMES = 400  # that the reference is made of
MOST_ROWS = 20_000  # of the reference, where outcomes do not come
AT_ONCE = 2_000


@dataclass(frozen=True, slots=True)
class Drifted:
    """An alarm: what has changed, since when as estimated, and when it was found (µs).

    `gate` is the gate that is meant, empty where it is the reward or a context.
    """

    monitor: str
    gate: str
    since: int
    at: int
    words: str


@dataclass(slots=True)
class Drift:
    """Monitors over one chain; the first rows are the reference, the rest is held against it.

    The chance that any of them ever gives a false alarm is at most the level of the `WatchList`.
    A monitor that gave the alarm is done.

    Parameters
    ----------
    instance : whose gates, rewards and contexts are watched
    first : number of the first entry that is read; the reference is made of what follows
    alarms : what was found, also by others who wrote it down
    """

    instance: Instance
    first: int = 0
    alarms: list[Drifted] = field(default_factory=list)
    _failed: str = ""
    _held: dict[str, int] = field(default_factory=dict)
    _parts: list[Seen] = field(default_factory=list)
    _n_outcomes: int = 0
    _n_rows: int = 0
    _watched: WatchList | None = None
    _reference: Reference | None = None
    _monitors: Monitors | None = None
    _state: MonitorState | None = None
    _told: set[int] = field(default_factory=set)

    @property
    def reference(self) -> str:
        """What the rest is held against, in words."""
        if not self.first:
            return "the first part of the log"
        return f"the part of the log from entry {self.first:,} on, where reading began,"

    @property
    def why(self) -> str:
        """Why nothing is watched, in a sentence; empty where something is."""
        if self._failed:
            return f"Nothing is watched: {self._failed}."
        if self._watched is not None:
            return ""
        return (
            f"Nothing is watched yet: {self.reference} is still being taken as the reference, "
            f"{self._n_outcomes:,} of {OUTCOMES:,} outcomes."
        )

    def give_up(self) -> None:
        """Watch nothing any more: the log has what cannot be."""
        self._failed, self._parts = "the log cannot be read", []

    def take(self, event: ev.Event, window: Window, at: int) -> None:
        """Look at what is news in an event; the window has it already."""
        if isinstance(event, ev.DriftFound):
            watched = self._watched or WatchList.of(self.instance)
            gate = _gate_of(watched, event.monitor)
            self.alarms.append(Drifted(event.monitor, gate, at, at, event.says))
        elif self._failed:
            return
        elif isinstance(event, ev.DecisionMade | ev.GateApplied | ev.OutcomeObserved):
            of, rows = window.find(event.id)
            fine = np.isfinite(window.x[rows]).all(axis=1)  # what was erased tells nothing
            of, rows = of[fine], rows[fine]
            if rows.size:
                self._add(event, window, of, rows, at)

    def _add(self, event: ev.Event, window: Window, of: Array, rows: Array, at: int) -> None:
        n, n_gates, d = rows.size, window.statuses.shape[1], window.entered.shape[1]
        part = Seen(
            window.x[rows],
            np.full(n, isinstance(event, ev.DecisionMade)),
            np.full((n, n_gates + 1, d), np.nan),
            np.full((n, n_gates), NOT_REACHED, dtype=np.int8),
            np.full((n, d), np.nan),
            np.full(n, np.nan),
            np.full(n, at, dtype=np.int64),
        )
        if isinstance(event, ev.GateApplied):
            part.trail, part.statuses = event.trail[of], event.statuses[of].copy()
            for i, row in enumerate(of.tolist()):  # told when the decision was held
                part.statuses[i, : self._held.pop(event.id[row], 0)] = NOT_REACHED
            for row in of[event.status[of] == HELD].tolist():
                self._held[event.id[row]] = int(np.flatnonzero(event.statuses[row] == HELD)[0])
        elif isinstance(event, ev.OutcomeObserved):
            ran = np.flatnonzero(~window.is_null[rows] & window.has_run[rows])
            y, _ = self.instance.reward.learn(event.outcome[of], part.x)
            part.action[ran], part.y[ran] = window.executed[rows[ran]], y[ran]
            self._n_outcomes += n
        self._n_rows += n
        self._parts.append(part)
        if self._watched is None and (self._n_outcomes >= OUTCOMES or self._n_rows >= MOST_ROWS):
            self._begin()

    def _begin(self) -> None:
        """Freeze the reference."""
        self._watched = WatchList.of(self.instance)
        try:
            self._reference = self._watched.fit(_joined(self._parts))
        except InvalidInput as error:
            self._failed = str(error).rstrip(".")
        else:
            self._monitors = self._watched.monitors(self._reference)
            self._state = self._monitors.init()
        self._parts = []

    def look(self) -> bool:
        """Feed the monitors some of what has come since the last look; return whether more waits.

        A row costs a fraction of a millisecond, so what waits is taken in small parts.
        """
        if self._watched is None or not self._parts:
            return False
        sizes = np.cumsum([part.n for part in self._parts])
        stop = int(np.searchsorted(sizes, AT_ONCE)) + 1
        seen, self._parts = _joined(self._parts[:stop]), self._parts[stop:]
        if self._monitors is None or self._state is None or self._reference is None:
            return bool(self._parts)
        rows = self._watched.rows(self._reference, seen)
        self._monitors.update(self._state, *rows, at=seen.at)
        for alarm in self._monitors.alarms(self._state):
            if alarm.monitor not in self._told:
                self._told.add(alarm.monitor)
                gate = _gate_of(self._watched, alarm.name)
                words = (
                    f"{alarm.name} is no longer as in {self.reference.rstrip(',')} "
                    f"(e = 10^{alarm.log_e / np.log(10):.1f})"
                )
                self.alarms.append(Drifted(alarm.name, gate, alarm.since, alarm.at, words))
        return bool(self._parts)


def _gate_of(watched: WatchList, monitor: str) -> str:
    """Return the gate that a monitor watches; empty: none."""
    if monitor not in watched.names:
        return ""
    place = watched.names.index(monitor)
    is_gate = KINDS[int(watched.kinds[place])] == "gate"
    return watched.gates[place % len(watched.gates)] if is_gate else ""


def _joined(parts: list[Seen]) -> Seen:
    return Seen(
        np.concatenate([part.x for part in parts]),
        np.concatenate([part.is_new for part in parts]),
        np.concatenate([part.trail for part in parts]),
        np.concatenate([part.statuses for part in parts]),
        np.concatenate([part.action for part in parts]),
        np.concatenate([part.y for part in parts]),
        np.concatenate([part.at for part in parts]),
    )
