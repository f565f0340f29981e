"""What requests and answers look like: strict, with nothing unknown let through."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator


def _pause(value: Any) -> Any:
    """Do nothing, in Python: between its calls other threads may run, and within pydantic none."""
    return value


_PAUSE = BeforeValidator(_pause)

Id = Annotated[
    str,
    Field(
        min_length=1, max_length=120, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:@+~-]*$",
        description="Chosen by the client; it is the idempotency key. Without one the service "
        "makes one, and the same request sent again is another decision",
    ),
]  # fmt: skip
Unit = Annotated[
    str,
    Field(
        min_length=1, max_length=200,
        description="Whose learner decides. Any name is taken: one that is new begins a learner",
    ),
]  # fmt: skip
Words = Annotated[str, Field(max_length=2_000)]
Reason = Annotated[str, Field(min_length=1, max_length=2_000)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Value = bool | Number | Annotated[str, Field(max_length=2_000)]
Context = Annotated[dict[str, Value], Field(max_length=2_000), _PAUSE]
ActionValue = Number | Annotated[str, Field(max_length=200)]
Action = Annotated[dict[str, ActionValue], Field(max_length=200), _PAUSE]
# The first wrong value of a list is named, and the rest is not looked at: thousands of wrong values
# would make millions of errors.
_FIRST = Field(fail_fast=True)
Mask = Annotated[
    list[Annotated[str, Field(max_length=200)]], _FIRST, Field(min_length=1, max_length=10_000)
]


class Body(BaseModel):
    """What strangers send: every field is known and of its type."""

    model_config = ConfigDict(extra="forbid", strict=True)


Subject = Annotated[
    str,
    Field(
        min_length=1, max_length=200,
        description="Whom it is about, where fields of the instance are personal: they are written "
        "under a key of this subject, and gone when it is erased",
    ),
]  # fmt: skip


class DecideOne(Body):
    """A request for one decision."""

    id: Id | None = None
    context: Context
    unit: Unit = "default"
    mask: Mask | None = Field(
        None, description="Arms that may be proposed; all where it is left out"
    )
    incumbent: Action | None = Field(
        None, description="What runs where the proposal does not: shadow, holdback, ramp"
    )
    subject: Subject | None = None


class DecideMany(Body):
    """A request for a batch of decisions: contexts row by row, or column by column."""

    id: Id | None = None
    contexts: Annotated[list[Context], _FIRST, Field(min_length=1, max_length=10_000)] | None = None
    columns: (
        Annotated[
            dict[str, Annotated[list[Value], _FIRST, Field(max_length=10_000), _PAUSE]],
            Field(max_length=2_000),
        ]
        | None
    ) = None
    unit: Unit | None = None
    units: Annotated[list[Unit], _FIRST, Field(max_length=10_000)] | None = None
    mask: Mask | None = None
    incumbent: Action | None = Field(
        None, description="What runs where the proposal does not, the same for all rows"
    )
    incumbents: Annotated[list[Action], _FIRST, Field(max_length=10_000)] | None = Field(
        None, description="… or one a row"
    )
    incumbent_columns: (
        Annotated[
            dict[str, Annotated[list[ActionValue], _FIRST, Field(max_length=10_000), _PAUSE]],
            Field(max_length=200),
        ]
        | None
    ) = Field(None, description="… or one a row, as lists by name")
    subject: Subject | None = None
    subjects: Annotated[list[Subject], _FIRST, Field(max_length=10_000)] | None = None

    @model_validator(mode="after")
    def _check(self) -> DecideMany:
        if (self.contexts is None) == (self.columns is None):
            raise ValueError("give contexts or columns, one of the two")
        if self.unit is not None and self.units is not None:
            raise ValueError("give unit or units, not both")
        if self.subject is not None and self.subjects is not None:
            raise ValueError("give subject or subjects, not both")
        given = (self.incumbent, self.incumbents, self.incumbent_columns)
        if sum(one is not None for one in given) > 1:
            raise ValueError("give incumbent, incumbents or incumbent_columns, one of them")
        return self

    @property
    def instead(self) -> Any:
        """What runs where the proposal does not, in the form in which it was given."""
        if self.incumbents is not None:
            return self.incumbents
        return self.incumbent if self.incumbent_columns is None else self.incumbent_columns


class Decision(BaseModel):
    """One decision as it was made."""

    id: str
    unit: str
    status: Literal["open", "passed", "modified", "vetoed", "held", "expired"]
    arm: str
    proposed: dict[str, Any] | None
    live: bool = Field(
        description="Whether the proposal entered the gates, not the incumbent's action"
    )
    action: dict[str, Any] | None = Field(
        description="What the gates let through; null: nothing, or nothing yet where it is held"
    )
    has_run: bool = Field(
        description="Whether it is settled what ran, so that an outcome may come: also true where "
        "nothing ran (vetoed, expired). `executed` says what ran"
    )
    reason: str
    version: int = Field(description="Number of the entry of the verdict")


Offered = Annotated[
    dict[str, Any] | None,
    Field(description="What an approval lets through: what entered the gate that holds it"),
]


class IfApproved(BaseModel):
    """What an approval would lead to, behind the gates that are in force now."""

    status: Literal["passed", "modified", "vetoed", "held"] = Field(
        description="held: another person is asked next"
    )
    action: dict[str, Any] | None = Field(
        description="What would run, or what the next person is asked about; null: nothing would"
    )
    gates: list[str] = Field(description="Gates that would change, stop or hold it")


class DecisionNow(Decision):
    """One decision, and what became of it."""

    executed: dict[str, Any] | None = Field(
        description="What really ran; null: nothing did, or not yet where `has_run` is false"
    )
    outcome: dict[str, float] | None
    content: str = Field(
        description="Hash of what a reviewer decides on; while it is held, also of what an "
        "approval would run and of the settings of the gates behind"
    )
    offered: Offered = None
    if_approved: IfApproved | None = None
    waiting_since: str | None = None
    deadline: str | None = None
    at_expiry: str | None = None
    decided: dict[str, Any] | None = Field(
        None,
        description="The last answer to it while it was held: what (approved, edited, vetoed, "
        "expired), by whom, why and when",
    )


class Batch(BaseModel):
    """Decisions that were asked for together."""

    id: str
    decisions: list[Decision] | None = None
    columns: dict[str, list[Any]] | None = None


class ReviewBody(Body):
    """A person's answer, bound to what they saw."""

    verdict: Literal["approve", "edit", "veto"]
    action: Action | None = None
    code: Annotated[str, Field(max_length=40)]
    reason: Words = ""
    version: int
    content: Annotated[str, Field(max_length=64)]


class ManyReviews(Body):
    """One answer to several decisions that the same rule holds."""

    verdict: Literal["approve", "veto"]
    code: Annotated[str, Field(max_length=40)]
    reason: Words = ""
    decisions: Annotated[list[Seen], _FIRST, Field(min_length=1, max_length=200)]


class Seen(Body):
    """A decision as the reviewer saw it."""

    id: Annotated[str, Field(max_length=140)]
    version: int
    content: Annotated[str, Field(max_length=64)]


class ExecutedBody(Body):
    """What really ran; null: nothing did."""

    action: Action | None


class OutcomeBody(Body):
    """What came of a decision."""

    outcome: Annotated[dict[str, bool | Number], _PAUSE]
    label: Annotated[list[Number | None], _FIRST, Field(max_length=1_000)] | None = None
    weight: Annotated[Number, Field(ge=0)] = 1.0
    reason: Words = Field("", description="Why, where this corrects an outcome")


class OutcomeOf(OutcomeBody):
    """What came of one of several decisions."""

    id: Annotated[str, Field(min_length=1, max_length=140)]


class ManyOutcomes(Body):
    """Outcomes of several decisions: all are taken, or none."""

    outcomes: Annotated[list[OutcomeOf], _FIRST, Field(min_length=1, max_length=10_000)]


class News(BaseModel):
    """Whether something was news, or known already."""

    news: bool = Field(description="False: the same was known already, and nothing was written")


class ManyNews(BaseModel):
    """Which of several were news."""

    news: list[bool]


class AppealBody(Body):
    """How an appeal ended."""

    upheld: bool
    reason: Reason


class ReasonBody(Body):
    """Why."""

    reason: Reason


class EraseBody(Body):
    """Whose personal fields are to go, and why; the reason stays and must name nobody."""

    subject: Subject
    reason: Reason


class Erased(BaseModel):
    """What an erasure did."""

    keys: int = Field(description="Keys that were destroyed; 0: the subject was not known")
    rows: int = Field(description="Finished decisions that refits no longer see")
    ended: list[str] = Field(description="Held decisions of the subject that were ended")
    replayed: bool = Field(description="Whether what is known had been worked out again before")
    scrubbed: bool = Field(description="Whether the database has overwritten the keys already")


class RollbackBody(Body):
    """To which event the learners go back, and why."""

    to: Annotated[int, Field(ge=1)]
    reason: Reason


class DiscountBody(Body):
    """Which evidence counts for less from now on, and why."""

    factor: Annotated[Number, Field(ge=0, le=1)]
    since: Annotated[int, Field(ge=0)]
    gate: Annotated[str, Field(max_length=200)] | None = None
    reason: Reason


class CreateBody(Body):
    """A new instance, as TOML."""

    declaration: Annotated[str, Field(min_length=1, max_length=1_000_000)]
    reason: Reason
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None


class ChangeBody(Body):
    """Another declaration for an instance, and why."""

    declaration: Annotated[str, Field(min_length=1, max_length=1_000_000)]
    reason: Reason


class AgreeBody(Body):
    """Words to an agreement."""

    reason: Words = ""


class HookBody(Body):
    """Where events are to be sent."""

    url: Annotated[str, Field(min_length=1, max_length=2_000)]
    kinds: Annotated[list[Annotated[str, Field(max_length=40)]], Field(min_length=1, max_length=20)]


class HookShown(BaseModel):
    """A webhook, and how it fares."""

    id: str
    url: str
    kinds: list[str]
    made_by: str
    made_at: str
    is_on: bool = Field(description="False after days of failure; resume it then")
    waiting: int = Field(description="Entries of the ledger behind which it is")
    failures: int
    failing_since: str | None
    last_error: str | None
    next_at: str | None


class NewHook(HookShown):
    """A new webhook with its secret, which is shown this once."""

    secret: str


class HookSecret(BaseModel):
    """The new secret of a webhook, which is shown this once."""

    id: str
    secret: str


class Waiting(BaseModel):
    """A held decision in the queue."""

    id: str
    unit: str
    gate: str
    reason: str
    proposed: dict[str, Any] | None
    offered: Offered
    if_approved: IfApproved | None
    since: str
    deadline: str | None
    version: int
    content: str
    claimed_by: str | None = None


class Queue(BaseModel):
    """What waits for a person, the next deadline first."""

    total: int
    waiting: list[Waiting]


class About(BaseModel):
    """An instance in short."""

    name: str
    title: str
    entries: int
    waiting: int
    units: int
    paused: dict[str, str] | None
    retired: dict[str, str] | None
    set_back: dict[str, str | int] | None
    launch: str
    arms: list[str]
    context: dict[str, Any]
    action: list[str]
    is_ungated: bool
    outcome: list[str]
    roles: list[str]


class Proposal(BaseModel):
    """A change that waits for a second pair of eyes."""

    number: int
    by: str
    at: str
    reason: str
    declaration: str


class Change(Proposal):
    """A change, and what became of it; `status` is one of those of `gdcb.service.changes`."""

    status: str
    decided_by: str | None
    decided_at: str | None
    decided_reason: str | None


class Problem(BaseModel):
    """The one error body."""

    error: ProblemSaid


class ProblemSaid(BaseModel):
    """What is wrong: for programs, for people, and for whoever reads the log."""

    code: str
    message: str
    request: str
    details: dict[str, Any] | None = None


ManyReviews.model_rebuild()
Problem.model_rebuild()
