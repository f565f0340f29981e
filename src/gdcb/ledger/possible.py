"""What can have been done: by whom, and when, as far as the chain itself can tell.

A desk refuses what is not allowed before it writes anything. Whoever rewrites a chain can put it
there all the same, so a replay asks again. Of the table `[service]` it reads what was declared: the
service, which is built on the ledger, checks the table as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from gdcb import events as ev
from gdcb.arrays import Array
from gdcb.errors import Conflict
from gdcb.ledger.authors import is_same
from gdcb.ledger.live import Live

POLICY = "policy"
SEVERAL = "several"
_SECOND = 1_000_000
_LAST_SECOND = 2e10  # a larger number is taken for milliseconds, as the service does


@dataclass(frozen=True, slots=True)
class Rules:
    """What a declaration says of expiry and launch; see `gdcb.service.policy`.

    Parameters
    ----------
    after, then : µs until a held decision expires, and what then becomes of it
    fallback : the declared action (D,), or None
    mode, share, steps : of the launch; steps are pairs of a time, µs, and the share from then on
    drawn_by : what the launch draws for
    incumbent : the incumbent's action (D,), None: it comes with the request, or is an arm's
    """

    after: int
    then: str
    fallback: list[float] | None
    mode: str
    share: float
    steps: tuple[tuple[float, float], ...]
    drawn_by: str
    incumbent: Array | None

    @staticmethod
    def of(live: Live) -> Rules:
        """Read the declaration in force."""
        table, encode = live.declared.service, live.instance.encode_action
        expiry, launch = table.get("expiry", {}), table.get("launch", {})
        fallback, incumbent = expiry.get("fallback"), launch.get("incumbent")
        steps = [(_time(step["since"]), float(step["share"])) for step in launch.get("steps", ())]
        return Rules(
            round(float(expiry.get("after", 4 * 3600.0)) * _SECOND),
            expiry.get("then", "veto"),
            None if fallback is None else encode(fallback).tolist(),
            launch.get("mode", "live"),
            float(launch.get("share", 0.1)),
            tuple(steps),
            launch.get("drawn_by", "decision"),
            encode(incumbent) if isinstance(incumbent, dict) else None,
        )

    def live_share(self, at: int) -> float | None:
        """Return the share of proposals that was live at a time, µs; None: all of them."""
        if self.mode == "ramp":
            return next((share for since, share in reversed(self.steps) if since <= at), 0.0)
        return {"live": None, "shadow": 0.0, "holdback": 1.0 - self.share}[self.mode]


def _time(since: datetime | str | float) -> float:
    """Return a time in µs: one with its zone, or as text, or as seconds or milliseconds."""
    if isinstance(since, datetime):
        return since.timestamp() * 1e6
    try:
        number = float(since)
    except ValueError:
        return datetime.fromisoformat(str(since)).timestamp() * 1e6
    return number * 1e6 if abs(number) <= _LAST_SECOND else number * 1e3


# What is written while nobody has acknowledged that an earlier state was put back.
_WHILE_SET_BACK = (ev.LedgerSetBack, ev.SetBackAcknowledged)


class Possible:
    """Asks of each event, before it is folded, whether it can have happened then."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self._rules: tuple[str, Rules] | None = None
        self._checks: dict[type[ev.Told], Callable[[Any, int, str], None]] = {
            ev.DecisionMade: self._decided,
            ev.Reviewed: self._reviewed,
            ev.Expired: self._expired,
            ev.OutcomeCorrected: self._told,
            ev.AppealDecided: self._told,
            ev.ChangeProposed: self._proposed,
            ev.ChangeRefused: self._refused,
            ev.InstanceChanged: self._changed,
            ev.Paused: self._paused,
            ev.Resumed: self._resumed,
            ev.Retired: self._alive,
            ev.SetBackAcknowledged: self._acknowledged,
        }

    def check(self, event: ev.Event, at: int, by: str) -> None:
        """Refuse what nobody could do at this point; `at` and `by` are the entry's."""
        if self.live.set_back is not None and not isinstance(event, _WHILE_SET_BACK):
            raise Conflict("an earlier state had been put back, and nobody had acknowledged it")
        check = self._checks.get(type(event))
        if check is not None:
            check(event, at, by)

    @property
    def rules(self) -> Rules:
        """What the declaration in force says."""
        text = self.live.text
        if self._rules is None or self._rules[0] is not text:
            self._rules = (text, Rules.of(self.live))
        return self._rules[1]

    # Decisions, and what people say of them

    def _decided(self, made: ev.DecisionMade, at: int, by: str) -> None:
        self._open("decided")
        if made.by is not None:
            who = made.by[0] if len(set(made.by)) == 1 else SEVERAL
            _same_hand(who, by)
        rules = self.rules
        share = rules.live_share(at)
        if (made.share is None) != (share is None):
            raise Conflict(f"the launch was in mode '{rules.mode}', and the draw says otherwise")
        if share is None or made.share is None:
            return
        if made.drawn_by != rules.drawn_by or not (made.share == share).all():
            raise Conflict(
                f"a share of {share:g} was live, drawn by {rules.drawn_by}; got "
                f"{made.share[0]:g} by {made.drawn_by}"
            )
        if rules.incumbent is not None and made.instead is not None:
            is_declared = np.isnan(made.instead) | (made.instead == rules.incumbent)
            if not is_declared.all():
                raise Conflict("another action than the declared incumbent's ran in its place")

    def _reviewed(self, event: ev.Reviewed, at: int, by: str) -> None:
        _same_hand(event.by, by)
        if event.verdict == "veto":
            return
        self._open(f"decision {event.id} was let through")
        rules, waiting = self.rules, self.live.waiting.get(event.id)
        if rules.then != "wait" and waiting is not None and at >= waiting.since + rules.after:
            raise Conflict(f"decision {event.id} was let through after its deadline")
        record = self.live.records[event.id]
        asked_by = record.made.by[record.at] if record.made.by is not None else ""
        if is_same(asked_by, event.by):
            raise Conflict(f"decision {event.id} was let through by whoever had asked for it")

    def _expired(self, event: ev.Expired, at: int, by: str) -> None:
        """Refuse an expiry before its time, or with another action than the declared one.

        An erasure ends holds too, and whoever erases is named; nothing then runs.
        """
        rules, waiting = self.rules, self.live.waiting.get(event.id)
        if by != POLICY:
            if event.action is not None:
                raise Conflict(f"decision {event.id} expired by {by}, and ran an action")
            return
        if rules.then == "wait" or waiting is None or at < waiting.since + rules.after:
            raise Conflict(f"decision {event.id} expired before its time")
        if event.action != (rules.fallback if rules.then == "fallback" else None):
            raise Conflict(
                f"decision {event.id} expired to {event.action}; declared was '{rules.then}', "
                f"{rules.fallback}"
            )
        if event.action is not None:
            self._open(f"decision {event.id} expired to its fallback")

    def _told(self, event: ev.OutcomeCorrected | ev.AppealDecided, at: int, by: str) -> None:
        _same_hand(event.by, by)

    # Acts

    def _proposed(self, event: ev.ChangeProposed, at: int, by: str) -> None:
        self._alive(event, at, by)
        if event.declaration == self.live.text:
            raise Conflict("a change to what was in force was proposed")

    def _refused(self, event: ev.ChangeRefused, at: int, by: str) -> None:
        self._waiting_change(event.proposal)

    def _changed(self, event: ev.InstanceChanged, at: int, by: str) -> None:
        if not len(self.live.events):
            if event.proposal is not None:
                raise Conflict("the first declaration says that somebody had proposed it")
            return
        self._alive(event, at, by)
        proposed, _, proposed_by = self._waiting_change(event.proposal)
        if proposed.declaration != event.declaration:
            raise Conflict(f"another declaration than change {event.proposal} was put in force")
        if is_same(proposed_by, by):
            raise Conflict(f"change {event.proposal} was agreed to by whoever had proposed it")

    def _waiting_change(self, number: int | None) -> tuple[ev.ChangeProposed, int, str]:
        found = None if number is None else self.live.proposals.get(number)
        if found is None:
            raise Conflict(f"change {number} did not wait for an answer")
        return found

    def _paused(self, event: ev.Paused, at: int, by: str) -> None:
        self._alive(event, at, by)
        if self.live.paused is not None:
            raise Conflict("it was paused, and was so already")

    def _resumed(self, event: ev.Resumed, at: int, by: str) -> None:
        self._alive(event, at, by)
        if self.live.paused is None:
            raise Conflict("it was resumed, and was not paused")

    def _acknowledged(self, event: ev.SetBackAcknowledged, at: int, by: str) -> None:
        if self.live.set_back is None:
            raise Conflict(
                "it was acknowledged that an earlier state had been put back, and none was"
            )

    def _alive(self, event: ev.Event, at: int, by: str) -> None:
        if self.live.retired is not None:
            raise Conflict("the instance was retired before")

    def _open(self, what: str) -> None:
        for word, stopped in (("retired", self.live.retired), ("paused", self.live.paused)):
            if stopped is not None:
                raise Conflict(f"{what} while the instance was {word}")


def _same_hand(said: str, by: str) -> None:
    if said != by:
        raise Conflict(f"it says that it is of {said!r}, and its entry is of {by!r}")
