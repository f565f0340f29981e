"""Watch an agent: feed its events to the monitors, and do what an alarm calls for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from gdcb import events as ev
from gdcb.analysis.drift.betting import Alarm
from gdcb.analysis.drift.expected import CLIP
from gdcb.analysis.drift.seen import Seen, Story, seen_in_events
from gdcb.analysis.drift.watchlist import KINDS, Reference, WatchList
from gdcb.parts import check_number

Certify = Callable[[Any, int], Any]


class Reactive(Story, Protocol):
    """A story that can be told of an alarm, and discount what it learned: `gdcb.Agent` is one."""

    def report_drift(self, found: ev.DriftFound) -> None:
        """Write an alarm down."""

    def discount(
        self, factor: float, reason: str, *, since: int | None = None, gate: str | None = None
    ) -> None:
        """Let evidence from before an event count for less."""


@dataclass(frozen=True, slots=True)
class Reaction:
    """An alarm, and what was done about it.

    Parameters
    ----------
    found : the alarm as it was written down
    kind, gate : 'gate', 'reward' or 'context', and the gate that is meant
    certificate : what certifying the rows since the onset gave, None: nobody certifies
    factor : what old evidence counts for now, None: it was left alone
    says : the alarm and the reaction, in sentences
    """

    found: ev.DriftFound
    kind: str
    gate: str | None
    certificate: Any
    factor: float | None
    says: str


class Watch:
    """Watch one agent after launch, in the order of its events.

    On an alarm it says so (`DriftFound` in the agent's events), has the rows since the onset
    certified, and lets old evidence count for less (`EvidenceDiscounted`):

    - *reward*: outcomes from before the onset count for n_eff/n = 1/(1 + n·b²), n the old rows an
      arm, b the change in standard deviations of a residual. An old row is off by b, so n of them
      are worth as many new ones as give a mean the same squared error: 1/n_eff = 1/n + b².
    - *gate*: what was learned of this gate's verdicts before the onset is forgotten. Outcomes stay:
      what an action is worth in a context does not depend on who let it through.
    - *context*: a learner that reads the context keeps all. For others an arm's value is an average
      over contexts that are no longer the same: old outcomes count for `keep`.

    A monitor that gave the alarm is done. Once `rows` outcomes have come in after the first alarm,
    a new reference is made of what happened since, and all monitors start afresh; the level holds
    for each reference by itself.

    All that it finds follows from the events. After a restart, a new watch over the same
    agent with the same first reference finds the same alarms, sees that they are written down,
    and does nothing twice.

    Parameters
    ----------
    agent : whose events are watched
    watched, reference : the settings, and how things were
    certify : called with the agent and the number of the event of the onset
    rows : outcomes that a new reference is made of
    keep : share of old outcomes where contexts have changed
    start : number of the first event to watch; earlier ones may be the reference
    history_rows : rows of a history that the arms learned before the first event

    Notes
    -----
    Assumes: `look` is called often enough for its answer to matter; how often changes nothing in
    what is found.

    Stops applying: b is the mean change over all rows. If the reward of one arm rose and of
    another fell, it may be near 0; the certificate is the place to see that.
    """

    def __init__(
        self,
        agent: Reactive,
        watched: WatchList,
        reference: Reference,
        *,
        certify: Certify | None = None,
        rows: int = 2000,
        keep: float = 0.5,
        start: int = 0,
        history_rows: int = 0,
    ) -> None:
        check_number("watch.rows", rows, 4 * watched.least * watched.bands)
        check_number("watch.keep", keep, 0.0, 1.0)
        check_number("watch.start", start, 0, len(agent.events))
        check_number("watch.history_rows", history_rows, 0)
        self.agent, self.watched, self.reference = agent, watched, reference
        self.certify, self.n_renew, self.keep = certify, int(rows), float(keep)
        self.history_rows, self.n_seen = int(history_rows), int(start)
        self.monitors = watched.monitors(reference)
        self.state = self.monitors.init()
        self._held: dict[str, int] | None = None
        self._told: set[int] = set()
        self._first_alarm: int | None = None
        self._n_outcomes = 0

    def look(self) -> list[Reaction]:
        """Feed the monitors what has happened since the last look; react to new alarms."""
        reactions: list[Reaction] = []
        # An alarm may only be followed by a new reference after so many events. So in steps
        # of this size it makes no difference how much has happened since the last look.
        while self.n_seen < (stop := min(len(self.agent.events), self.n_seen + self.n_renew)):
            if self._held is None:
                self._held = {}
                seen_in_events(self.agent, 0, self.n_seen, self._held)
            stop = self._renewal(stop)
            self._feed(seen_in_events(self.agent, self.n_seen, stop, self._held))
            self.n_seen = stop
            for alarm in self.monitors.alarms(self.state):
                if alarm.monitor not in self._told:
                    self._told.add(alarm.monitor)
                    reactions += self._react(alarm)
            if self._first_alarm is not None and self._n_outcomes >= self.n_renew:
                self._renew()
        return reactions

    def _feed(self, seen: Seen) -> None:
        rows = self.watched.rows(self.reference, seen)
        self.monitors.update(self.state, *rows, at=seen.at)

    def _renewal(self, stop: int) -> int:
        """Return where to stop: at the outcome that completes a new reference, if it comes."""
        if self._first_alarm is None:
            return stop
        for i in range(self.n_seen, stop):
            n = _outcomes(self.agent.events[i])
            if n:
                self._n_outcomes += n
                if self._n_outcomes >= self.n_renew:
                    return i + 1
        return stop

    def _renew(self) -> None:
        first = self._first_alarm or 0
        self.reference = self.watched.fit(seen_in_events(self.agent, first + 1, self.n_seen))
        self.monitors = self.watched.monitors(self.reference)
        self.state = self.monitors.init()
        self._told, self._first_alarm, self._n_outcomes = set(), None, 0

    def _react(self, alarm: Alarm) -> list[Reaction]:
        agent, watched = self.agent, self.watched
        if self._first_alarm is None:
            self._first_alarm = alarm.at
            later = agent.events[alarm.at + 1 : self.n_seen]
            self._n_outcomes = sum(map(_outcomes, later))
        rows = seen_in_events(agent, alarm.since, alarm.at + 1)
        before, after = watched.means(self.reference, rows, alarm.monitor)
        says = (
            f"{alarm.name}: since event {alarm.since} it is {after:.3g} on average, where "
            f"{before:.3g} was expected. The evidence is e = {_e(alarm.log_e)}, the limit "
            f"{_e(alarm.limit)}; any false alarm has a chance of at most {100 * watched.level:g} %."
        )
        fields = (alarm.since, before, after, alarm.log_e, alarm.limit, watched.level)
        found = ev.DriftFound(alarm.name, *fields, says)
        if found in agent.events:
            return []
        agent.report_drift(found)
        kind = KINDS[int(watched.kinds[alarm.monitor])]
        gate = watched.gates[alarm.monitor % len(watched.gates)] if kind == "gate" else None
        certificate = None
        if self.certify is not None:
            certificate = self.certify(agent, alarm.since)
            verdict = getattr(certificate, "verdict", certificate)
            says += f" The rows since then were certified again: {verdict}."
        factor = self._factor(kind, alarm)
        if factor is not None:
            agent.discount(factor, says, since=alarm.since, gate=gate)
        says += f" {_done(kind, gate, factor)}"
        return [Reaction(found, kind, gate, certificate, factor, says)]

    def _factor(self, kind: str, alarm: Alarm) -> float | None:
        """Return what old evidence should count for; None: as before."""
        if kind == "gate":
            return 0.0
        if kind == "context":
            reads = self.agent.bandit.reads
            return None if reads or self.keep == 1.0 else self.keep
        shift = 2.0 * CLIP * (alarm.after - alarm.before)
        old = self.agent.events[: alarm.since]
        n = self.history_rows + sum(map(_outcomes, old))
        return 1.0 / (1.0 + n / self.agent.instance.space.n * shift**2)


def _outcomes(event: ev.Event) -> int:
    """Return how many outcomes an event brought."""
    return len(event.id) if isinstance(event, ev.OutcomeObserved) else 0


def _e(log_e: float) -> str:
    """Return an e-value in short, however large it is."""
    return f"10^{log_e / 2.302585092994046:.1f}"


def _done(kind: str, gate: str | None, factor: float | None) -> str:
    if kind == "gate":
        return f"What was learned of gate {gate} before that is forgotten; outcomes stay."
    if factor is None:
        return "The learner reads the context; what it learned stays."
    return f"Outcomes from before that count for {factor:.2g} of their weight."
