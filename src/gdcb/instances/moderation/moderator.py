"""The moderator, and the incumbent whose proposals the moderator saw in the past."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array
from gdcb.gates import SimulatedPerson
from gdcb.instances.moderation.columns import READING, ROUND
from gdcb.instances.moderation.world import REMOVE_AT, WARN_AT, Communities
from gdcb.parts import check_choice, check_number
from gdcb.records import Rows
from gdcb.streams import Stream

KINDS = ("plain", "private", "turnover")
LAXER = 0.04  # severity by which the moderator's thresholds lie above an average community's
AGREES, LEVEL = 0.94, 0.35  # approval of what they read themselves, and less for a level off
VETO = 0.1  # share of the rest that is left undone
STRICTER, SHIFT = 0.25, 0.2  # the second moderator approves less, and reads all as more severe
PROFANE, FOUL = 0.5, 0.85  # profanity from which the incumbent warns, and removes
NO_SCORE = 1.0  # the severity of a proposal that nobody scored


@dataclass(frozen=True)
class Moderator:
    """A moderator who approves what they read themselves, and else mostly puts that in its place.

    Parameters
    ----------
    kind : 'plain': reads by the house's severity model, so that x says all they know; 'private':
        reads the post and its thread, and so the true severity with a cue that is not in x;
        'turnover': plain until round `change`, then another person, stricter and less trusting
    change : the round in which another person takes over
    """

    kind: str = "plain"
    change: int = 100

    def __post_init__(self) -> None:
        check_choice("moderator", self.kind, KINDS)
        check_number("change", self.change, 0.0)

    @property
    def person(self) -> SimulatedPerson:
        """Return the person who stands in the gate."""
        return SimulatedPerson(self.approve, self.own, veto=VETO)

    def approve(self, e: Array, rows: Rows) -> Array:
        """Approve with 0.94 what they read themselves, with 0.35 less a level off."""
        p = AGREES - LEVEL * np.abs(e[..., 0] - self.reads(rows)[:, None])
        if self.kind == "turnover":
            p = p - STRICTER * self._is_new(rows)[:, None]
        return np.asarray(np.clip(p, 0.0, 1.0))

    def own(self, rows: Rows) -> Array:
        """Return the category that they read; the severity stays as proposed."""
        return np.stack((self.reads(rows), np.full(rows.n, np.nan)), axis=1)

    def reads(self, rows: Rows) -> Array:
        """Return the category that they read off the post: (N,)."""
        score = _hidden(rows, READING) - LAXER
        if self.kind == "turnover":
            score = score + SHIFT * self._is_new(rows)
        return np.asarray((score > WARN_AT) * 1.0 + (score > REMOVE_AT))

    def _is_new(self, rows: Rows) -> Array:
        return np.asarray(_hidden(rows, ROUND) >= self.change)


def incumbent(_rng: Stream, _state: Communities, rows: Rows) -> Array:
    """Return what was proposed before there was a bandit: two thresholds on profanity (N, 2)."""
    score = rows.x[:, 0]
    kind = (score > PROFANE) * 1.0 + (score > FOUL)
    return np.stack((kind, np.full(rows.n, NO_SCORE)), axis=1)


def _hidden(rows: Rows, column: int) -> Array:
    if rows.hidden is None:
        return np.zeros(rows.n)
    return np.asarray(rows.hidden[:, column])
