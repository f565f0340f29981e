"""The document of a certificate as typed records: what it does not say is None or empty."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from gdcb.history.sentences import (
    VERDICTS,
    arms_judged,
    assumptions,
    override_of_verdict,
    ungated,
    verdict,
)
from gdcb.pages.numbers import Estimate

Time = str | float


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm: what is done with its rows, and the figures that decide it."""

    name: str
    verdict: str
    reasons: list[str]
    rows: float | None
    ess: float | None
    bias: Estimate | None
    standard_error: float | None
    n_eff: float | None
    weight: float | None


@dataclass(frozen=True, slots=True)
class Change:
    """A change point: of a gate from `before` to `after`, or of the reward law in `what`."""

    time: Time
    what: str
    before: float | None
    after: float | None
    p: float | None


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate of the chain: its change points, η and η's upper limit."""

    name: str
    changes: list[Change]
    eta: float | None
    eta_high: float | None


@dataclass(frozen=True, slots=True)
class Test:
    """One test of the family; `is_significant` is None where it could not be made."""

    __test__ = False

    name: str
    p: float | None
    threshold: float | None
    is_significant: bool | None
    says: str


@dataclass(frozen=True, slots=True)
class Assumption:
    """What the certificate rests on: one assumption, whether it was tested, and what was found."""

    name: str
    tested: bool
    result: str
    state: str

    @property
    def is_doubted(self) -> bool:
        """Whether what was found speaks against it."""
        return self.state in (assumptions.FAILS, assumptions.DOUBTED)


@dataclass(frozen=True, slots=True)
class Rejected:
    """Rows that break the schema for one reason, and where the first of them are."""

    reason: str
    column: str
    rows: float | None
    examples: list[str]


@dataclass(frozen=True, slots=True)
class Contrast:
    """Approved against overridden rows; `posterior`: that overrides carry nothing private."""

    posterior: float | None
    difference: Estimate | None
    approved: float | None
    overridden: float | None


@dataclass(frozen=True, slots=True)
class Reweight:
    """How rows were weighted."""

    clip: float | None
    clipped_share: float | None
    bias_bound: float | None
    is_logged: bool


@dataclass(frozen=True, slots=True)
class Override:
    """Why a person overrode the verdict, and what it was."""

    reason: str
    without: str


@dataclass(frozen=True, slots=True)
class Document:
    """Everything that the page shows.

    `margin` is in standard deviations of the outcome where `spread` says how large one is, in
    `unit`; else in the unit of the biases.
    """

    verdict: str
    reasons: list[str]
    instance: str
    log: str
    fingerprint: str
    version: str
    command: str
    level: float | None
    margin: float | None
    spread: float | None
    unit: str
    read: float | None
    rejected: float | None
    used: float | None
    set_aside: float | None
    rejections: list[Rejected]
    period: tuple[Time, Time] | None
    arms: list[Arm]
    gates: list[Gate]
    is_ungated: bool
    law_is_stable: bool | None
    law_changes: list[Change]
    law_p: float | None
    law_is_certain: bool
    is_dependent: bool
    contrast: Contrast | None
    missing: float | None
    missing_p: float | None
    missing_is_selective: bool
    assumptions: list[Assumption]
    logged_bias: tuple[float | None, float | None, float | None]
    logged_bias_says: str
    odds_ratio: float | None
    odds_ratio_low: float | None
    odds_ratio_is_beyond: bool
    arms_say: str
    robustness_value: float | None
    slopes_say: str
    transport: tuple[float | None, float | None, float | None]
    variance_ratio: Estimate | None
    advice: str
    tests: list[Test]
    leaks: list[str]
    override: Override | None
    rows_from: Time | None
    adjust: str
    reweight: Reweight | None
    overrides_weight: float | None
    scaler_says: str
    scaler_spans: list[tuple[str, float | None, float | None, float | None, float | None]]

    @property
    def limit(self) -> float | None:
        """The margin in the unit of the biases."""
        if self.margin is None:
            return None
        return self.margin * (1.0 if self.spread is None else self.spread)

    @property
    def why(self) -> list[str]:
        """How the arms were judged, the reasons, and whether there is a gate."""
        told = [verdict(answer) for answer in VERDICTS]
        if self.override is not None:
            told.append(override_of_verdict(self.override.reason, self.override.without))
        judged = arms_judged(Counter(arm.verdict for arm in self.arms))
        told.append(judged)
        rest = [reason for reason in self.reasons if reason not in told]
        rest += [ungated()] if self.is_ungated else []
        return [judged, *rest] if judged else rest
