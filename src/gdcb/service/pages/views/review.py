"""The review screen: one proposal, why it waits, what else there was, and the three answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from gdcb.pages.numbers import Estimate
from gdcb.service.pages.views.decision import Action, Answer, GateStep, Quantity, Waiting
from gdcb.service.pages.views.frame import Choice, View


@dataclass(frozen=True, slots=True)
class Arm:
    """An arm that could have been proposed.

    Parameters
    ----------
    name : of the arm
    action : what it composes to here
    worth : expected value with its interval, behind the gates
    probability : with which it was drawn
    is_proposed : whether it was
    note : why it could not be proposed, if so
    """

    name: str
    action: Action = ()
    worth: Estimate | None = None
    probability: float | None = None
    is_proposed: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Factor:
    """What the scaler learned of one field: its factor δ, and what that does to the action."""

    name: str
    value: float | str | None
    delta: float | None = None
    effect: str = ""


@dataclass(frozen=True, slots=True)
class PastCase:
    """A similar decision of the past, and the reward that came of it."""

    id: str
    at: int
    unit: str
    action: Action
    status: str
    reward: float | None = None
    by: str = ""
    likeness: float | None = None


@dataclass(frozen=True, slots=True)
class EditField:
    """One column of the action as a form asks for it.

    Parameters
    ----------
    name : of the column, as the form sends it; `label` is what people read
    value : what stands in it
    low, high, step : of a number
    options : of a category; none: it is a number
    """

    name: str
    label: str
    value: float | str | None
    unit: str = ""
    low: float | None = None
    high: float | None = None
    step: float | None = None
    options: tuple[Choice, ...] = ()


@dataclass(frozen=True, slots=True)
class Preview:
    """What an edited action would do.

    Parameters
    ----------
    action : as it was entered
    arm : the nearest arm, and `distance` how far that is in steps
    worth : expected value with its interval, behind those gates
    approved : the same of what an approval lets through, to hold it against
    gates : those behind the person, and what they would make of it
    problem : why it cannot run, in a sentence
    """

    action: Action = ()
    arm: str = ""
    distance: float | None = None
    worth: Estimate | None = None
    gates: tuple[GateStep, ...] = ()
    problem: str = ""
    approved: Estimate | None = None


@dataclass(frozen=True, slots=True)
class Reasons:
    """Coded reasons to choose from, for each of the three answers; approval takes the first."""

    approve: tuple[Choice, ...] = ()
    edit: tuple[Choice, ...] = ()
    veto: tuple[Choice, ...] = ()


@dataclass(frozen=True, slots=True)
class Draft:
    """An answer that was not taken: what was entered, and what is wrong with it."""

    verdict: str
    problem: str = ""
    code: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewView(View):
    """One decision, held or not any more.

    Parameters
    ----------
    case : the decision; its version and content bind the answer to what was seen
    worth : what the expected values are, with the unit
    context : fields that the decision knew
    factors : what the scaler made of them, δ and its factors
    effects : what each field does to δ, against its typical value
    arms : in order of their value
    past : similar cases
    edit : columns of the action
    reasons : to choose from
    preview : of an edit, where one was asked for
    draft : an answer that must be mended
    conflict : what somebody else decided while this page was read
    answer : what was decided; then there are no forms
    is_own : whether the viewer asked for the decision, and so may veto it only; `own_key` is the
        name of the key of theirs that did
    executed : what really ran, empty where nothing did; None: it is not known yet
    earlier, later : ids of the decisions before and after this one in the queue
    position, waiting : 'third of 12'
    """

    template: ClassVar[str] = "review.html"

    case: Waiting
    worth: Quantity = field(default_factory=lambda: Quantity("expected value", None))
    context: tuple[Quantity, ...] = ()
    factors: tuple[Factor, ...] = ()
    effects: tuple[Factor, ...] = ()
    arms: tuple[Arm, ...] = ()
    past: tuple[PastCase, ...] = ()
    edit: tuple[EditField, ...] = ()
    reasons: Reasons = field(default_factory=Reasons)
    preview: Preview | None = None
    draft: Draft | None = None
    conflict: Answer | None = None
    answer: Answer | None = None
    is_own: bool = False
    own_key: str = ""
    executed: Action | None = None
    earlier: str = ""
    later: str = ""
    position: int | None = None
    waiting: int | None = None

    @property
    def is_settled(self) -> bool:
        """Whether nothing is to be answered: it was, or nobody was ever asked."""
        is_answered = self.answer is not None or self.conflict is not None
        return is_answered or not self.case.is_held

    @property
    def is_open(self) -> bool:
        """Whether it can still be answered, and by this viewer: nobody else has claimed it."""
        is_taken = self.case.claim is not None and not self.case.claim.is_mine
        return not self.is_settled and not is_taken and self.frame.may("approve")
