"""How a service runs an instance: what expiry does, which outcomes count, who is live.

It stands in the table `[service]` of the instance's TOML, so that it is declared, changed under
four eyes, and part of the ledger. Times are seconds.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.instance import Instance

Seconds = Annotated[float, Field(gt=0, le=10 * 365 * 86400, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Words = Annotated[str, Field(min_length=1, max_length=200)]
Code = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
CODES = {
    "fits": "It fits",
    "too-high": "Too high",
    "too-low": "Too low",
    "known-better": "I know something the system does not",
    "not-now": "Not now",
    "other": "Another reason",
}


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Expiry(_Table):
    """What becomes of a held decision that nobody answers; it is never approved.

    Parameters
    ----------
    after : seconds until then
    then : 'veto': nothing but the null action runs; 'fallback': the declared action runs, behind
        the gates that are left; 'wait': it stays held, and only its deadline has passed
    fallback : the declared safe action by name
    """

    after: Seconds = 4 * 3600.0
    then: Literal["veto", "fallback", "wait"] = "veto"
    fallback: dict[str, float | str] | None = None

    @model_validator(mode="after")
    def _check(self) -> Expiry:
        if (self.then == "fallback") != (self.fallback is not None):
            raise ValueError("give a fallback action with then = 'fallback', and only there")
        return self


class Outcomes(_Table):
    """Which outcomes count.

    Parameters
    ----------
    window : seconds after execution in which an outcome counts; None: whenever it comes
    default : the outcome that is taken for those that did not come in time; None: none is
    late : what becomes of an outcome that comes after the window: 'refuse' or 'take'
    correction : what becomes of another outcome for a decision that has one: 'refuse' or 'replace'
    """

    window: Seconds | None = None
    default: dict[str, float] | None = None
    late: Literal["refuse", "take"] = "refuse"
    correction: Literal["refuse", "replace"] = "refuse"

    @model_validator(mode="after")
    def _check(self) -> Outcomes:
        if self.default is not None and self.window is None:
            raise ValueError("a default outcome needs a window after which it is taken")
        return self


class Step(_Table):
    """From when on a share of decisions is live."""

    since: datetime
    share: Share

    @model_validator(mode="after")
    def _check(self) -> Step:
        if self.since.tzinfo is None:
            raise ValueError("since needs a time zone, such as 2026-01-31T09:00:00Z")
        return self


class Launch(_Table):
    """Which proposals enter the gates; for the others the incumbent's action does.

    Parameters
    ----------
    mode : 'live': all; 'shadow': none; 'holdback': all but a share; 'ramp': a share by steps
    share : the share held back
    steps : the shares that are live, in order of time; before the first, none
    drawn_by : what is drawn: every 'decision', or every 'unit' once and for all
    incumbent : the action that enters in place of the proposal: 'given' with every request, 'arm',
        or an action by name
    arm : the incumbent as a nominal arm, composed with the scaler as it was before it learned
    """

    mode: Literal["live", "shadow", "holdback", "ramp"] = "live"
    share: Share = 0.1
    steps: tuple[Step, ...] = ()
    drawn_by: Literal["decision", "unit"] = "decision"
    incumbent: Literal["given", "arm"] | dict[str, float | str] = "given"
    arm: str = ""

    @model_validator(mode="after")
    def _check(self) -> Launch:
        if (self.incumbent == "arm") != bool(self.arm):
            raise ValueError("give an arm with incumbent = 'arm', and only there")
        if (self.mode == "ramp") != bool(self.steps):
            raise ValueError("give steps with mode = 'ramp', and only there")
        if list(self.steps) != sorted(self.steps, key=lambda step: step.since):
            raise ValueError("steps must be in order of time")
        return self

    def live_share(self, at: int) -> float | None:
        """Return the share of proposals that is live at a time (µs); None: all, nothing is drawn.

        >>> Launch(mode="holdback", share=0.2).live_share(0)
        0.8
        """
        if self.mode == "live":
            return None
        if self.mode == "shadow":
            return 0.0
        if self.mode == "holdback":
            return 1.0 - self.share
        begun = [step.share for step in self.steps if step.since.timestamp() * 1e6 <= at]
        return begun[-1] if begun else 0.0


class Policy(_Table):
    """How a service runs one instance.

    Parameters
    ----------
    execution : 'release': what the gates let through has run; 'report': it has when somebody says
        so, and what ran may differ
    codes : the reasons that a reviewer may choose from, by code
    lease : seconds for which a reviewer who claims a decision has it to themselves
    bulk : decisions that may be answered together at most
    refit_every : seconds between scheduled refits of the scaler; None: only when it is due
    personal : context fields that are written under the key of the request's subject
    batch : rows of a request at most
    memory : MiB that may be taken by what is learned of all units together; new units that do not
        fit are refused
    """

    expiry: Expiry = Expiry()
    outcomes: Outcomes = Outcomes()
    launch: Launch = Launch()
    execution: Literal["release", "report"] = "release"
    codes: dict[Code, Words] = Field(default_factory=lambda: dict(CODES), min_length=1)
    lease: Seconds = 300.0
    bulk: Annotated[int, Field(ge=1, le=200)] = 20
    refit_every: Seconds | None = None
    personal: tuple[str, ...] = ()
    batch: Annotated[int, Field(ge=1, le=10_000)] = 5_000
    memory: Annotated[int, Field(ge=1, le=1_000_000)] = 512


def policy_of(table: dict[str, Any], instance: Instance) -> Policy:
    """Read the table `[service]`, and hold it against the instance."""
    try:
        policy = Policy.model_validate(table, strict=False)
    except ValidationError as error:
        what = error.errors()[0]
        at = ".".join(str(part) for part in what["loc"])
        says = str(what["msg"]).removeprefix("Value error, ")
        raise InvalidInput(f"service{'.' if at else ''}{at}: {says}") from error
    fallback = policy.expiry.fallback
    if fallback is not None:
        instance.encode_action(fallback)
    if isinstance(policy.launch.incumbent, dict):
        instance.encode_action(policy.launch.incumbent)
    if policy.launch.arm and policy.launch.arm not in instance.space.names:
        raise InvalidInput(f"service.launch.arm: no arm {policy.launch.arm!r}")
    if policy.outcomes.default is not None:
        names = instance.reward.outcome
        if set(policy.outcomes.default) != set(names):
            raise InvalidInput(f"service.outcomes.default: expected {', '.join(names)}")
        values = [policy.outcomes.default[name] for name in names]
        instance.reward.check(np.array([values]))
    unknown = [name for name in policy.personal if name not in instance.context.columns]
    if unknown:
        raise InvalidInput(f"service.personal: no context field {unknown[0]!r}")
    return policy


def incumbent_of(policy: Policy, instance: Instance, given: Any, x: Array) -> Array:
    """Return the incumbent's actions (n, D) for contexts x (n, p): declared, or given."""
    declared, n = policy.launch.incumbent, x.shape[0]
    if isinstance(declared, dict):
        return np.tile(instance.encode_action(declared), (n, 1))
    if declared == "arm":
        scaler, owner = instance.scaler, np.zeros(n, dtype=np.int64)
        delta = scaler.predict(scaler.init(1), owner, x)
        actions = instance.composition.compose(instance.space, delta, x)
        return np.asarray(actions[:, instance.space.names.index(policy.launch.arm)])
    if given is None:
        raise InvalidInput(
            f"incumbent: this instance runs in mode '{policy.launch.mode}'; give the action that "
            "runs where the proposal does not"
        )
    return np.tile(instance.encode_action(given), (n, 1))
