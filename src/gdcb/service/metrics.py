"""Figures for Prometheus: what flows, what waits, how long it takes, what is refused."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from gdcb import events as ev
from gdcb.ledger.live import Live
from gdcb.records import STATUS

if TYPE_CHECKING:
    from gdcb.service.desk import Desk

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Counters of one process; with several, each answers for itself."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ours = self.registry
        self._decisions = Counter(
            "gdcb_decisions",
            "Decisions made, by what the gates said",
            ("instance", "status"),
            registry=ours,
        )
        self._reviews = Counter(
            "gdcb_reviews",
            "Held decisions that ended, by how",
            ("instance", "verdict"),
            registry=ours,
        )
        self._outcomes = Counter(
            "gdcb_outcomes", "Outcomes that came in", ("instance",), registry=ours
        )
        self._events = Counter(
            "gdcb_events", "Entries of the ledger", ("instance", "kind"), registry=ours
        )
        self._waiting = Gauge(
            "gdcb_held_decisions", "Decisions that wait for a person", ("instance",), registry=ours
        )
        self._oldest = Gauge(
            "gdcb_held_oldest_seconds",
            "Age of the oldest held decision",
            ("instance",),
            registry=ours,
        )
        self._queue = Gauge(
            "gdcb_queue_length", "Commands that wait at a desk", ("instance",), registry=ours
        )
        self._version = Gauge(
            "gdcb_ledger_entries", "Entries of the ledger that this process has folded",
            ("instance",), registry=ours,
        )  # fmt: skip
        self._paused = Gauge(
            "gdcb_paused", "1 while an instance is paused", ("instance",), registry=ours
        )
        self._put_back = Gauge(
            "gdcb_ledger_put_back",
            "1 while nobody has acknowledged that an earlier ledger was put back",
            ("instance",),
            registry=ours,
        )
        self.unreadable = Gauge(
            "gdcb_unreadable_instances", "Instances whose ledger cannot be read", registry=ours
        )
        self.seconds = Histogram(
            "gdcb_request_seconds", "Time of requests", ("route", "status"),
            buckets=_BUCKETS, registry=ours,
        )  # fmt: skip

    def watch(self, desk: Desk) -> None:
        """Show how long the queue of a desk is, and what waits for a person there."""
        name = desk.chain
        self._queue.labels(name).set_function(desk.length)
        for gauge, figure in (
            (self._waiting, _waiting),
            (self._oldest, _age),
            (self._version, _entries),
            (self._paused, _is_paused),
            (self._put_back, lambda desk: float(desk.set_back is not None)),
        ):
            gauge.labels(name).set_function(partial(figure, desk))

    def heard(self, live: Live, first: int, stop: int) -> None:
        """Count what was committed."""
        name = live.chain
        for event in live.events[first:stop]:
            self._events.labels(name, type(event).__name__).inc()
            if isinstance(event, ev.GateApplied):
                for code, n in zip(*np.unique(event.status, return_counts=True), strict=True):
                    self._decisions.labels(name, STATUS[int(code)]).inc(int(n))
            elif isinstance(event, ev.Reviewed):
                self._reviews.labels(name, event.verdict).inc()
            elif isinstance(event, ev.Expired):
                self._reviews.labels(name, "expired").inc()
            elif isinstance(event, ev.OutcomeObserved):
                self._outcomes.labels(name).inc(len(event.id))

    def text(self) -> bytes:
        """Return all figures in Prometheus's text format."""
        return generate_latest(self.registry)


def _waiting(desk: Desk) -> float:
    live = desk.glance()
    return 0.0 if live is None else float(len(live.waiting))


def _age(desk: Desk) -> float:
    """Return for how many seconds the oldest of what waits has waited; 0: nothing waits."""
    live, now = desk.glance(), desk.clock()
    waiting = [] if live is None else list(live.waiting.values())
    return max((now - one.since for one in waiting), default=0) / 1e6


def _entries(desk: Desk) -> float:
    live = desk.glance()
    return 0.0 if live is None else float(len(live.events))


def _is_paused(desk: Desk) -> float:
    live = desk.glance()
    return float(live is not None and live.paused is not None)
