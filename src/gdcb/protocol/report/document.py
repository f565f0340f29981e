"""The document of a run as typed records: what the run did not say is None."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gdcb.gates import UNGATED
from gdcb.pages.numbers import Estimate
from gdcb.pages.words import some

PARTS = ("calibration", "bandit", "gate")
INHERITED = "inherited"  # a fourth, where what ran before changes what can be reached
ABLATIONS = ("A1", "A2", "A3", "A3s", "A3a", "A4", "A5m", "A5c", "A5p")
KNOWING = ("K2", "K3")  # references that are given the truth, or the true models
# Two ablations are methods under another name; a document may hold either.
ALIASES = {"A2": "B4u", "A4": "B4flat"}


Curve = list[Estimate | None]
Split = dict[str, Estimate]


def names_in(split: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the parts that a split has, in order.

    >>> names_in({"gate": 1, "inherited": 2, "bandit": 0, "calibration": 0})
    ('inherited', 'calibration', 'bandit', 'gate')
    """
    return (INHERITED, *PARTS) if INHERITED in split else PARTS


@dataclass(frozen=True, slots=True)
class Threshold:
    """Episodes to threshold: median with interval (None: beyond the horizon), share censored."""

    median: float | None
    low: float | None
    high: float | None
    censored: float | None
    booked: Estimate | None


@dataclass(frozen=True, slots=True)
class Actions:
    """Shares of recommended and of executed actions between the edges (bins + 1)."""

    edges: list[float]
    recommended: list[float]
    executed: list[float]


@dataclass(frozen=True, slots=True)
class Changes:
    """What the gate did: shares of the decisions, and the mean log(executed / recommended)."""

    changed: Estimate | None
    raised: Estimate | None
    lowered: Estimate | None
    vetoed: Estimate | None
    log_ratio: Estimate | None


@dataclass(frozen=True, slots=True)
class Band:
    """A band of a feature, from `low` on and below `high` (None: open), and what happened there."""

    low: float | None
    high: float | None
    did: Changes


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature of the context and its bands; a flag has two, no and yes."""

    name: str
    is_flag: bool
    bands: list[Band]


@dataclass(frozen=True, slots=True)
class Highest:
    """The band in which most was changed; the interval allows for the choice among all bands."""

    feature: Feature
    band: Band
    changed: Estimate
    direction: str


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the gate did with a method's proposals, as a whole and by band of context."""

    whole: Changes
    features: list[Feature]
    highest: Highest | None


@dataclass(frozen=True, slots=True)
class Certificates:
    """What the certificates of the replicates' histories decided.

    Parameters
    ----------
    histories, refused : certified, and refused as a whole
    arms : (name, histories in which it was used as is, adjusted, weighted, refused)
    reasons : (what an arm was refused for, how often), most often first
    """

    histories: int
    refused: int
    arms: list[tuple[str, int, int, int, int]]
    reasons: list[tuple[str, int]]

    @property
    def sentence(self) -> str:
        """Say how many histories and arms were used, and what others were refused for."""
        if not self.histories:
            return "No replicate had a history to certify."
        counts = [counts for _, *counts in self.arms]
        totals = [sum(column) for column in zip(*counts, strict=True)]
        words = ("used as is", "adjusted", "weighted", "refused")
        shown = [f"{n:,} {word}" for n, word in zip(totals, words, strict=False) if n]
        whole = f"{self.refused:,} of {some(self.histories, 'history', 'histories')}"
        said = (
            f"Certificates: {whole} refused as a whole; arms over all histories: "
            f"{', '.join(shown)}."
        )
        if self.reasons:
            why = ", ".join(f"{reason} ({n:,})" for reason, n in self.reasons)
            said += f" Refused for {why}."
        return said


@dataclass(frozen=True, slots=True)
class Method:
    """One method's results; None where the run did not say."""

    key: str
    label: str
    regret: Estimate | None
    excess: Estimate | None
    reward: Estimate | None
    versus: Estimate | None
    versus_cold: Estimate | None
    regret_curve: Curve
    excess_curve: Curve
    error_curve: Curve
    override_curve: Curve
    parts: Split | None
    parts_paper: Split | None
    parts_curve: dict[str, Curve] | None
    threshold: Threshold | None
    overrides: Overrides | None
    actions: Actions | None
    measures: dict[str, Estimate]
    certificates: Certificates | None
    tuned: dict[str, Any]

    @property
    def is_ungated(self) -> bool:
        """Whether it runs without the gate, as in the paper: simulation only."""
        return self.key == "A2" or (self.key[0] in "BK" and self.key.endswith("u"))

    @property
    def is_warm(self) -> bool:
        """Whether a baseline was given the history."""
        return self.key.endswith("w")

    @property
    def is_rival(self) -> bool:
        """Whether it is somebody else's method, behind the same gate."""
        return not self.key.startswith(("A", "B4", *KNOWING)) and not self.is_ungated


@dataclass(frozen=True, slots=True)
class Best:
    """The rival of least excess, and GDCB's excess as a multiple of its."""

    rival: Method
    ratio: Estimate | None


@dataclass(frozen=True, slots=True)
class Compression:
    """Cold-start compression, and whether it is a lower limit, or applies at all."""

    value: Estimate | None
    is_at_least: bool
    applies: bool
    sentence: str


@dataclass(frozen=True, slots=True)
class ColdStart:
    """What the history was worth."""

    warm: Curve
    cold: Curve
    ope: Curve
    difference: Curve
    below_from: int | None
    saving_total: Estimate | None
    saving_excess: Estimate | None
    compression: Compression | None

    @property
    def is_compared(self) -> bool:
        """Whether both starts were run, with history and without."""
        return any(point is not None for point in self.difference)


@dataclass(frozen=True, slots=True)
class Theorem:
    """What one theorem says of this instance: figures are (name, value, note)."""

    statement: str
    figures: list[tuple[str, Any, str]]
    verdict: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What people of the field read beside regret; methods have it by its name."""

    name: str
    label: str
    is_share: bool


@dataclass(frozen=True, slots=True)
class Document:
    """The whole run."""

    instance: str
    title: str
    variant: str
    episodes: int
    replicates: int
    seed: str
    version: str
    command: str
    unit: str
    action: str
    real: list[str]
    made: list[str]
    oracle_knows: str
    response: str
    options: dict[str, Any]
    specification: list[tuple[str, str, str]]
    variance_ratio: Estimate | None
    floor: Estimate | None
    floor_curve: Curve
    methods: dict[str, Method]
    against_best: dict[str, Best]
    cold_start: ColdStart | None
    theorems: dict[str, Theorem | None]
    readings: list[Reading]

    @property
    def is_model(self) -> bool:
        """Whether the response is a model that was fitted on a log."""
        return self.response == "model"

    @property
    def is_ungated(self) -> bool:
        """Whether the instance has no gate, by its specification."""
        return any(symbol == "g" and value == UNGATED for symbol, _, value in self.specification)

    @property
    def ours(self) -> Method | None:
        """GDCB, if it was run."""
        return self.methods.get("B4")

    @property
    def certificates(self) -> tuple[Method, Certificates] | None:
        """What was decided for GDCB, or for the first method whose history was certified."""
        first = [] if self.ours is None else [self.ours]
        for method in (*first, *self.methods.values()):
            if method.certificates is not None:
                return method, method.certificates
        return None

    @property
    def rivals(self) -> list[Method]:
        """Every rival behind the same gate."""
        return [method for method in self.methods.values() if method.is_rival]

    def faced(self, *, is_warm: bool) -> list[tuple[Method, Estimate]]:
        """Return rivals by how they start, with regret less that of GDCB which starts alike.

        With the history that is B4, without it A3.
        """
        alike = [m for m in self.rivals if m.is_warm == is_warm]
        pairs = [(m, m.versus if is_warm else m.versus_cold) for m in alike]
        return [(m, value) for m, value in pairs if value is not None]

    @property
    def distinct(self) -> list[Method]:
        """Every method once: an ablation that is another method's second name is left out."""
        return [m for k, m in self.methods.items() if ALIASES.get(k) not in self.methods]

    def ablation(self, key: str) -> Method | None:
        """Return the ablation, under whichever of its names it was run."""
        return self.methods.get(key) or self.methods.get(ALIASES.get(key, ""))

    def best(self, prefix: str = "") -> Method | None:
        """Return the rival of least regret among those whose key starts with `prefix`."""
        found = [(m.regret.mean, m.key) for m in self.rivals if m.regret]
        named = [pair for pair in found if pair[1].startswith(prefix)]
        return self.methods[min(named)[1]] if named else None
