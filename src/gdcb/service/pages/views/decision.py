"""What pages say of one decision: its action, why it was held, who has it, what was answered."""

from __future__ import annotations

from dataclasses import dataclass

# What happens when nobody answers in time; never approval.
EXPIRY = {
    "veto": "it is vetoed, and does not run",
    "fallback": "the fallback runs",
    "wait": "it goes on waiting",
}


@dataclass(frozen=True, slots=True)
class Quantity:
    """A named number or category, with its unit.

    Parameters
    ----------
    name : what it is
    value : a number, a category, or None where it is not known
    unit : after the number
    digits : decimals; None: as many as the number has, up to ten significant
    """

    name: str
    value: float | str | None
    unit: str = ""
    digits: int | None = None


Action = tuple[Quantity, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """A number that a rule found: of what, and what it would let pass, both in `unit`."""

    name: str
    value: float | str | None
    limit: float | str | None
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Held:
    """Why a decision waits for a person.

    Parameters
    ----------
    rule : name of the rule
    words : what the rule says of this proposal
    found : the numbers that it hangs on; none where it hangs on none
    """

    rule: str
    words: str = ""
    found: tuple[Found, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim:
    """Who said 'I take this one', and until when that holds."""

    by: str
    until: int
    is_mine: bool = False


@dataclass(frozen=True, slots=True)
class Waiting:
    """A decision that waits for a person, or one that is looked at when it does no more.

    Parameters
    ----------
    id : of the decision
    unit : whose learner decided
    proposed : the action that an approval lets through; `current` is what runs now, empty where
        nothing does
    held : why it waits
    asked : since when
    deadline : until when, or None: no limit
    expiry : 'veto', 'fallback' or 'wait'
    fallback : the action that runs at expiry, where that is the policy
    risk : what decides the order among equal deadlines, 0 to 1, or None
    claim : who has it
    version : number of the entry that was seen, and `content` its hash: the answer is bound to both
    original : what the learner proposed, where `proposed` is something else: gates or people who
        came before have changed it, or the incumbent's action stands in its place
    is_live : whether the proposal entered the gates, and not the incumbent's action
    status : of the decision; 'held' while it waits
    then : what becomes of it behind the viewer once they approve: 'passed', 'modified', 'vetoed',
        'held' (another person is asked); empty: it does not wait
    runs, then_by : the action that would then run or reach the next person, and the gates that act
    """

    id: str
    unit: str
    proposed: Action
    held: Held
    asked: int
    current: Action = ()
    deadline: int | None = None
    expiry: str = "wait"
    fallback: Action = ()
    risk: float | None = None
    claim: Claim | None = None
    version: int = 0
    content: str = ""
    original: Action = ()
    is_live: bool = True
    status: str = "held"
    then: str = ""
    runs: Action = ()
    then_by: tuple[str, ...] = ()

    @property
    def is_held(self) -> bool:
        """Whether it still waits; what does not can be looked at, and not answered."""
        return self.status == "held"

    @property
    def at_expiry(self) -> str:
        """What happens when nobody answers in time, as the end of a sentence."""
        return EXPIRY.get(self.expiry, self.expiry)


@dataclass(frozen=True, slots=True)
class Answer:
    """What somebody, or the clock, decided about a held decision.

    Parameters
    ----------
    verdict : 'approved', 'edited', 'vetoed' or 'expired'
    by, at : who, and when
    code : the coded reason, in the policy's words; `reason` is what they wrote
    action : what was released, empty where nothing runs
    entry : number of the entry that says so
    """

    verdict: str
    by: str
    at: int
    code: str = ""
    reason: str = ""
    action: Action = ()
    entry: int | None = None


@dataclass(frozen=True, slots=True)
class GateStep:
    """One gate's verdict: what entered, what left (empty: nothing), and why."""

    gate: str
    status: str
    entered: Action = ()
    left: Action = ()
    reason: str = ""
    version: str = ""
