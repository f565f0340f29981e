"""From running figures to what the dashboard shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gdcb.arrays import Array
from gdcb.instance import Instance
from gdcb.pages.words import some
from gdcb.records import MODIFIED, PASSED, STATUS
from gdcb.service.figures.calibration import bins_of, coverage_of
from gdcb.service.figures.drifting import Drifted
from gdcb.service.figures.holdback import Contrast, contrast
from gdcb.service.figures.hours import DAY, HOUR
from gdcb.service.figures.reading import Reader
from gdcb.service.figures.running import Certified, Running
from gdcb.service.figures.window import Window
from gdcb.service.pages.views.dashboard import (
    Alarm,
    Bin,
    ChainState,
    Coverage,
    Part,
    Series,
    Timeline,
)

FLOW = 7 * DAY
OVERRIDES = 30 * DAY
_SHORT = 3 * DAY  # what is shorter is shown by the hour


@dataclass(frozen=True, slots=True)
class Shown:
    """All figures of one moment; nothing in it changes any more.

    Parameters
    ----------
    alarms, unwatched : drift alarms, newest first, and why nothing is watched; empty: it is
    contrast : the launched side against the holdback
    reach : how far back the figures go, in a sentence; empty: to the beginning
    at : when they were made, µs
    size : entries of the chain that are in them
    """

    flow: Timeline
    overrides: Timeline
    alarms: tuple[Alarm, ...]
    unwatched: str
    contrast: Contrast
    regret: tuple[Part, ...]
    bins: tuple[Bin, ...]
    coverage: tuple[Coverage, ...]
    known: float | None
    certified: Certified | None
    chain: ChainState
    reach: str
    at: int
    size: int

    @property
    def rewards(self) -> tuple[Part, ...]:
        """Both sides of the holdback, as the dashboard shows them."""
        one = self.contrast
        if not one.n_live and not one.n_held_back:
            return ()
        live = Part("live", one.live, one.n_live)
        held = Part("holdback", one.held_back, one.n_held_back, one.why)
        return live, held


def shown(reader: Reader, now: int) -> Shown:
    """Return the figures as they are now."""
    running, instance = reader.running, reader.instance
    window = running.window
    rows = window.order()
    reward, known = rewards_of(instance, window, rows)
    ran = rows[window.has_run[rows] & ~window.is_null[rows]]
    is_known = window.is_known[ran]
    cluster = np.where(window.by_unit[known], window.unit[known], np.arange(known.size))
    return Shown(
        flow=flow_of(running, now),
        overrides=overrides_of(running, instance, now),
        alarms=alarms_of(running),
        unwatched=running.drift.why,
        contrast=contrast(reward, window.is_live[known], window.share[known], cluster),
        regret=reader.regretted.parts,
        bins=bins_of(*forecasts_of(instance, window, rows), instance.reward.target == "class"),
        coverage=coverage_of(now - window.ran_at[ran], is_known),
        known=float(is_known.mean()) if ran.size else None,
        certified=running.certified,
        chain=chain_of(reader),
        reach=_reach(running),
        at=now,
        size=running.next,
    )


def chain_of(reader: Reader) -> ChainState:
    """Return how far the chain was checked; one that cannot be read is not whole."""
    state, unread = reader.verified.state(reader.size), reader.running.unread
    if unread is None or state.is_whole is False:
        return state
    return replace(state, is_whole=False, words=f"Entry {unread[0]} cannot be read.")


def rewards_of(instance: Instance, window: Window, rows: Array) -> tuple[Array, Array]:
    """Return rewards, and the rows that have one.

    Where nothing ran, the reward is the null action's, which is declared: it counts, since what
    gates stop is a part of what a side earns. It is known at once and others are not, so it counts
    only as far as outcomes have come in.
    """
    has_run = window.has_run[rows]
    is_known = window.is_known[rows] & has_run
    latest = window.at[rows[is_known]].max(initial=-1)
    idle = has_run & window.is_null[rows] & ~is_known & (window.at[rows] <= latest)
    found = rows[(is_known | idle) & np.isfinite(window.x[rows]).all(axis=1)]
    x, ran = window.x[found], window.executed[found]
    reward = np.asarray(instance.realised(window.outcome[found], ran, x))
    is_idle = ~window.is_known[found]
    reward = np.where(is_idle, instance.null.declared(x), reward)
    fine = np.isfinite(reward)
    return reward[fine], found[fine]


def forecasts_of(instance: Instance, window: Window, rows: Array) -> tuple[Array, Array]:
    """Return what was expected and what was observed, where what entered the gates ran as it was.

    Of what the gates or people changed the learner had expected something else.
    """
    fine = window.is_known[rows] & window.has_run[rows] & ~window.is_null[rows]
    fine &= np.isfinite(window.predicted[rows])
    fine &= (window.executed[rows] == window.entered[rows]).all(axis=1)
    found = rows[fine]
    x, ran = window.x[found], window.executed[found]
    if instance.reward.target == "class":
        observed, _ = instance.reward.learn(window.outcome[found], x)
    else:
        observed = instance.realised(window.outcome[found], ran, x)
    return window.predicted[found], np.asarray(observed)


def flow_of(running: Running, now: int) -> Timeline:
    """Return the decisions of the last week by the hour, a series for each status there is."""
    hours = running.hours
    if not hours.flow:
        return Timeline()
    first = max(now - FLOW + HOUR, min(hours.flow))
    times, counts = hours.flow_of(first, max(now, max(hours.flow)))
    series = [
        Series(name, tuple(float(value) for value in counts[:, i]))
        for i, name in enumerate(STATUS)
        if counts[:, i].any() or i in (PASSED, MODIFIED)
    ]
    return Timeline(tuple(times), tuple(series))


def overrides_of(running: Running, instance: Instance, now: int) -> Timeline:
    """Return how often each gate changed or vetoed, by the day, with its alarms.

    A young log is shown by the hour. Gates that have said nothing yet are left out.
    """
    hours = running.hours
    if not hours.verdicts:
        return Timeline()
    last = max(now, max(hours.verdicts))
    first = max(last - OVERRIDES, min(hours.verdicts))
    step = HOUR if last - first < _SHORT else DAY
    times, counts = hours.verdicts_of(first, last, step)
    alarms = running.drift.alarms
    series = []
    for g, gate in enumerate(instance.chain.gates):
        n, changed = counts[:, g, 0], counts[:, g, 1]
        mine = [alarm for alarm in alarms if alarm.gate == gate.name]
        if not n.any() and not mine:
            continue
        values = tuple(float(c / m) if m else None for m, c in zip(n, changed, strict=True))
        series.append(
            Series(gate.name, values, _places(times, step, mine), _note(gate.is_person, n, mine))
        )
    return Timeline(tuple(times), tuple(series)) if series else Timeline()


def alarms_of(running: Running) -> tuple[Alarm, ...]:
    """Return all drift alarms that are known, of gates, rewards and contexts, newest first."""
    found = sorted(running.drift.alarms, key=lambda alarm: alarm.at, reverse=True)
    return tuple(Alarm(one.monitor, one.at, one.since, one.words) for one in found)


def _places(times: Sequence[int], step: int, alarms: Sequence[Drifted]) -> tuple[int, ...]:
    """Return in which spans the alarms were given."""
    found = {(alarm.at - times[0]) // step for alarm in alarms}
    return tuple(sorted(i for i in found if 0 <= i < len(times)))


def _note(is_person: bool, n: Array, alarms: Sequence[Drifted]) -> str:
    what = "answer" if is_person else "verdict"
    said = f"{some(int(n.sum()), what)}."
    if not is_person:
        said = f"A rule, no person: of all that reached it; {said}"
    return " ".join([said, *(f"{alarm.words}." for alarm in alarms)])


def _reach(running: Running) -> str:
    said = []
    if not running.is_whole:
        since = f", from entry {running.first:,} on" if running.first else ""
        said.append(f"Figures are of the latest {some(running.window.n, 'decision')}{since}.")
    if running.unread is not None:
        first, n = running.unread
        which = f"Entry {first:,}" if n == 1 else f"{n:,} entries, from entry {first:,} on,"
        said.append(f"{which} cannot be read: the figures are without.")
    return " ".join(said)
