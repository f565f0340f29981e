"""The dashboard of an instance: what flows, what waits, what it is worth, what is in force."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gdcb.pages.numbers import Estimate
from gdcb.service.pages.views.frame import View


@dataclass(frozen=True, slots=True)
class Series:
    """Numbers at the times of their figure; None where there is none, alarms by position."""

    name: str
    values: tuple[float | None, ...]
    alarms: tuple[int, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Several series over the same times."""

    times: tuple[int, ...] = ()
    series: tuple[Series, ...] = ()


@dataclass(frozen=True, slots=True)
class QueueAge:
    """How long decisions wait now, in seconds."""

    waiting: int = 0
    oldest: float | None = None
    median: float | None = None
    p95: float | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """A named estimate: a part of the regret, or the reward of one side of the holdback."""

    name: str
    value: Estimate | None
    n: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Bin:
    """Predictions of about one size: their mean, and what was observed."""

    predicted: float
    observed: Estimate | None
    n: int = 0


@dataclass(frozen=True, slots=True)
class Alarm:
    """A drift alarm: what has changed, when that was found, and since when, as estimated (µs)."""

    name: str
    at: int
    since: int
    words: str = ""


@dataclass(frozen=True, slots=True)
class Coverage:
    """Decisions of one age: how many, and of what share the outcome is known."""

    age: str
    n: int
    known: float | None


@dataclass(frozen=True, slots=True)
class Certificate:
    """The certificate in force."""

    verdict: str
    at: int
    words: str = ""


@dataclass(frozen=True, slots=True)
class ChainState:
    """How far the chain was verified."""

    last: int
    verified: int | None = None
    at: int | None = None
    is_whole: bool | None = None
    words: str = ""


@dataclass(frozen=True, slots=True)
class Launch:
    """The launch mode, and what share of decisions it lets run."""

    mode: str
    share: float | None = None
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardView(View):
    """Everything an operator looks at.

    Parameters
    ----------
    flow : decisions an hour, a series for each status
    ages : of the queue
    overrides : share of overrides, a series for each rule, with its drift alarms
    alarms : all drift alarms, newest first
    unwatched : why no drift is looked for, in a sentence; empty: it is
    rewards : of the launched side and of the holdback; `difference` between them
    reward_unit : of both
    regret : three parts, bandit, calibration and gate, and their total
    bins : predicted against observed
    coverage : of outcomes by age
    certificate, chain, launch : what is in force; None: there is none
    learner : version of the learner
    fitted : when the scaler was last fitted
    updated : when these figures were made
    """

    template: ClassVar[str] = "dashboard.html"

    flow: Timeline = Timeline()
    ages: QueueAge = QueueAge()
    overrides: Timeline = Timeline()
    alarms: tuple[Alarm, ...] = ()
    unwatched: str = ""
    rewards: tuple[Part, ...] = ()
    difference: Estimate | None = None
    reward_unit: str = ""
    regret: tuple[Part, ...] = ()
    bins: tuple[Bin, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    known: float | None = None
    certificate: Certificate | None = None
    chain: ChainState | None = None
    launch: Launch | None = None
    learner: str = ""
    fitted: int | None = None
    updated: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmView(View):
    """Ask once more before something weighty is done.

    Parameters
    ----------
    title : the question
    words : what will happen
    action : the address that the form posts to; a path of ours
    button : what the button says
    fields : hidden fields that are sent on
    back : the path of 'no'
    is_grave : whether the button warns
    """

    template: ClassVar[str] = "confirm.html"

    title: str
    words: str
    action: str
    button: str
    fields: tuple[tuple[str, str], ...] = ()
    back: str = "/"
    is_grave: bool = True
