"""The certificate: what a history may be used for, arm by arm, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gdcb.arrays import Array
from gdcb.history.dependence import Dependence
from gdcb.history.maturity import Maturity
from gdcb.history.plan import Plan
from gdcb.history.sentences import columns_by_name
from gdcb.history.statistics import Statistics

VERDICTS = ("direct", "adjust", "reweight", "refuse")
# What may become of an arm, by number: used in one of three ways, or refused for a reason
# (`sentences.REFUSALS`); 'outcomes': too many of the whole history are missing.
FATES = ("direct", "adjust", "reweight", "rows", "overlap", "weights", "contexts", "outcomes")


@dataclass(frozen=True, slots=True)
class ArmFinding:
    """What the history is worth to one arm.

    Parameters
    ----------
    arm : its name
    verdict, reasons : what is done with its rows, and why
    rows, ess : its rows, and their effective number once weighted by 1/propensity
    bias, low, high : b̂ with its limits, in units of the outcome; NaN where it does not apply
    standard_error : of a posterior from its rows, σ/√n, to hold the bias against
    n_eff, weight : rows that its evidence counts as, and their share of all its rows
    refused_for : which check refuses it, a key of `sentences.REFUSALS`; empty: none
    """

    arm: str
    verdict: str
    reasons: tuple[str, ...]
    rows: float
    ess: float
    bias: float
    low: float
    high: float
    standard_error: float
    n_eff: float
    weight: float
    refused_for: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return plain data; null where a figure does not apply."""
        return {
            "arm": self.arm,
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "rows": number(self.rows),
            "ess": number(self.ess),
            "bias": estimate(self.bias, self.low, self.high),
            "standard_error": number(self.standard_error),
            "n_eff": number(self.n_eff),
            "weight": number(self.weight),
        }


@dataclass(frozen=True, slots=True)
class Test:
    """One test of the family: p against its threshold; no p where it could not be made."""

    name: str
    p: float | None
    threshold: float
    says: str

    @property
    def is_significant(self) -> bool:
        """Whether it found something."""
        return self.p is not None and self.p <= self.threshold

    def as_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "name": self.name,
            "p": self.p,
            "threshold": self.threshold,
            "is_significant": None if self.p is None else self.is_significant,
            "says": self.says,
        }


@dataclass(frozen=True, slots=True)
class Treatment:
    """What the verdicts do to the rows of a history; the warm start does this and no more.

    Parameters
    ----------
    first : first time segment whose rows are used
    since : its time, None where all rows are used
    verdicts : (K,) by arm
    weight : (K,) share of its rows that an arm's evidence counts as
    shared : the same where arms share a curve: one number for all rows
    slopes : (F, K, p) what context is worth an arm, by the fold that it is taken off; or None
    overrides : how far overridden rows count
    clip : largest weight 1/P of `reweight`
    clipped, bias_bound : share of rows clipped, and what that may move a mean by, at most
    is_logged : whether propensities come from the log; else they are estimated
    """

    first: int
    since: float | None
    verdicts: tuple[str, ...]
    weight: Array
    shared: float
    slopes: Array | None
    overrides: float
    clip: float = 20.0
    clipped: float = 0.0
    bias_bound: float = 0.0
    is_logged: bool = False


@dataclass(slots=True)
class Certificate:
    """Whether a warm start from this history may be believed.

    Parameters
    ----------
    verdict, reasons : for the history as a whole, in sentences
    arms : the same arm by arm
    tests : all tests that share the family-wise error rate `level`
    margin : bias that is let pass, in standard deviations of an arm's outcome
    treatment : what a warm start does with the rows
    plan : how the log was summed up
    dependence : whether independence of rows was tested, and what was found
    maturity : which rows were set aside because they are too young for their outcomes
    gate_first : first time segment after the last change of a gate that can be told from swings
    statistics : the sums
    taught : the scaler's state after the rows that it may use; None until somebody asks (`warm`)
    figures : everything else that is reported, as plain data
    override : the reason why a person overrode the verdict, and the verdict without it; or None
    """

    verdict: str
    reasons: tuple[str, ...]
    arms: tuple[ArmFinding, ...]
    tests: tuple[Test, ...]
    level: float
    margin: float
    treatment: Treatment
    plan: Plan = field(repr=False)
    dependence: Dependence
    maturity: Maturity
    gate_first: int = 0
    figures: dict[str, Any] = field(default_factory=dict)
    override: tuple[str, str] | None = None
    statistics: Statistics | None = field(default=None, repr=False)
    taught: Any = field(default=None, repr=False)

    @property
    def is_refused(self) -> bool:
        """Whether nothing of the history is used."""
        return self.verdict == "refuse"

    @property
    def refusals(self) -> dict[str, list[str]]:
        """The refused arms by the check that refuses them, a key of `sentences.REFUSALS`."""
        return refusals_of(self.arms)

    @property
    def fates(self) -> list[int]:
        """What becomes of each arm's rows, as its place in `FATES`."""
        used = FATES[:3]
        return [
            FATES.index(arm.verdict)
            if arm.verdict in used and not self.is_refused
            else FATES.index(arm.refused_for or "outcomes")
            for arm in self.arms
        ]

    def __str__(self) -> str:
        """Return verdict, reasons, what the scaler learned and what columns were, a line each."""
        scaler, columns = self.figures.get("scaler"), self.figures.get("columns")
        said = [*self.reasons, *([scaler["says"]] if scaler and scaler["says"] else [])]
        if columns and columns["by_name"]:
            guessed = {role: columns["roles"][role] for role in columns["by_name"]}
            said.append(columns_by_name(guessed))
        return "\n".join((f"{self.verdict}:", *(f"- {one}" for one in said)))

    def as_json(self) -> dict[str, Any]:
        """Return the whole certificate as plain data."""
        override = None
        if self.override is not None:
            override = {"reason": self.override[0], "verdict_without": self.override[1]}
        treatment, is_weighted = self.treatment, "reweight" in self.treatment.verdicts
        return {
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            **self.figures,
            "arms": [arm.as_json() for arm in self.arms],
            "refusals": self.refusals,
            "tests": [test.as_json() for test in self.tests],
            "dependence": self.dependence.as_json(),
            "maturity": self.maturity.as_json(),
            "level": self.level,
            "margin": self.margin,
            "override": override,
            "treatment": {
                "rows_from": self.figures.get("rows_from"),
                "adjust": "cross-fitted regression" if treatment.slopes is not None else None,
                "reweight": {
                    "clip": treatment.clip,
                    "clipped_share": treatment.clipped,
                    "bias_bound": treatment.bias_bound,
                    "propensities": "logged" if treatment.is_logged else "estimated",
                }
                if is_weighted
                else None,
                "overrides_weight": treatment.overrides,
            },
        }


def refusals_of(arms: tuple[ArmFinding, ...]) -> dict[str, list[str]]:
    """Return the names of the refused arms by the check that refuses them."""
    found: dict[str, list[str]] = {}
    for arm in arms:
        if arm.verdict == "refuse" and arm.refused_for:
            found.setdefault(arm.refused_for, []).append(arm.arm)
    return found


def number(value: float) -> float | None:
    """Return a finite number, or None."""
    found = float(value)
    return found if abs(found) < float("inf") else None


def estimate(mean: float, low: float, high: float) -> dict[str, float | None] | None:
    """Return an estimate as plain data, None where there is none."""
    if number(mean) is None:
        return None
    return {"mean": number(mean), "low": number(low), "high": number(high)}
