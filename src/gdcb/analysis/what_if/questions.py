"""What can be asked of a gated log: another gate, one gate fewer, a second reviewer, a policy."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb import round as turn
from gdcb.analysis.propensity import propensity
from gdcb.arrays import Array
from gdcb.bandits import Bandit
from gdcb.errors import InvalidInput
from gdcb.gates import Gate
from gdcb.instance import Instance
from gdcb.parts import check_choice, check_number, check_text
from gdcb.records import Rows

Law = Callable[[Rows], Array]


@dataclass(frozen=True)
class ReplaceGate:
    """Ask what would be if the gate `name` were this known rule: e′ is what the new chain lets run.

    Parameters
    ----------
    name : of a gate in the instance's chain
    gate : a hard gate, such as a lower `Cap`
    """

    name: str
    gate: Gate

    def __post_init__(self) -> None:
        check_text("question.name", self.name)
        if not getattr(self.gate, "is_hard", False):
            raise InvalidInput(
                "question.gate: expected a hard gate, whose answer is known; what another person "
                f"would say no log tells. Got {self.gate!r}"
            )

    def __str__(self) -> str:
        """Say what is asked."""
        return f"what if '{self.name}' were {_brief(self.gate)}?"


@dataclass(frozen=True)
class WithoutGate:
    """Ask what would be without the gate `name`: if a person, what if they approved everything."""

    name: str

    def __post_init__(self) -> None:
        check_text("question.name", self.name)

    def __str__(self) -> str:
        """Say what is asked."""
        return f"what if '{self.name}' let everything pass?"


@dataclass(frozen=True)
class SecondReviewer:
    """Ask what would be if a second person like `name` had to approve too.

    The log has one answer to each proposal. With p the chance of it, P(both approve | e, x) lies
    in [max(0, 2p − 1), p] (Fréchet), and the log says no more. A declared correlation ρ of the two
    answers gives p² + ρ·p(1 − p), as far as that lies within these limits.

    Parameters
    ----------
    name : the person in the chain
    assume : 'independent' (ρ = 0), a correlation from −1 to 1, or None: nothing is assumed
    otherwise : what runs where not both approve: the reviewer's 'own' action, or the 'null' action
    """

    name: str
    assume: str | float | None = None
    otherwise: str = "own"

    def __post_init__(self) -> None:
        check_text("question.name", self.name)
        check_choice("question.otherwise", self.otherwise, ("own", "null"))
        if isinstance(self.assume, str):
            check_choice("question.assume", self.assume, ("independent",))
        elif self.assume is not None:
            check_number("question.assume", self.assume, -1.0, 1.0)

    @property
    def correlation(self) -> float | None:
        """The declared correlation ρ; None: nothing is assumed."""
        return 0.0 if isinstance(self.assume, str) else self.assume

    def __str__(self) -> str:
        """Say what is asked."""
        held = "nothing" if self.correlation is None else f"a correlation of {self.correlation:g}"
        return (
            f"what if a second '{self.name}' had to approve too, else the {self.otherwise} action "
            f"runs, assuming {held} of the two?"
        )


@dataclass(frozen=True, eq=False)
class Propose:
    """Ask what another policy's proposals would be worth behind the same gates.

    Parameters
    ----------
    law : (N, K) π₁(a | x) of the log's rows (those with a reward), or a function Rows → (N, K)
    name : for people
    """

    law: Array | Law
    name: str = "another policy"

    def __post_init__(self) -> None:
        check_text("question.name", self.name)

    @staticmethod
    def of(
        instance: Instance,
        bandit: Bandit,
        state: turn.RoundState,
        name: str = "the learned bandit",
        **settings: Any,
    ) -> Propose:
        """Ask about a bandit in this state; `settings` go to `gdcb.propensity`."""
        return Propose(
            lambda rows: propensity(instance, bandit, state, rows, **settings).proposed, name
        )

    def on(self, rows: Rows, n_arms: int) -> Array:
        """Return π₁ of the rows: (N, K); refuse what is no law."""
        law = np.asarray(self.law(rows) if callable(self.law) else self.law, dtype=float)
        if law.shape != (rows.n, n_arms):
            raise InvalidInput(
                f"question.law: expected {(rows.n, n_arms)} probabilities, got shape {law.shape}"
            )
        if not np.isfinite(law).all() or (law < 0).any():
            raise InvalidInput("question.law: expected probabilities, got NaN or negative numbers")
        if (np.abs(law.sum(axis=1) - 1.0) > 1e-6).any():
            raise InvalidInput("question.law: expected rows that sum to 1")
        return law

    def __str__(self) -> str:
        """Say what is asked."""
        return f"what if {self.name} had proposed?"


def _brief(gate: Any) -> str:
    """Return a gate with the settings that are not its defaults.

    >>> from gdcb.gates import Cap
    >>> _brief(Cap(limit=0.2, name="apr cap"))
    "Cap(limit=0.2, name='apr cap')"
    """
    if not dataclasses.is_dataclass(gate):
        return repr(gate)
    said = []
    for field in dataclasses.fields(gate):
        value = getattr(gate, field.name)
        if field.init and field.repr and not (value is field.default or value == field.default):
            said.append(f"{field.name}={value!r}")
    return f"{type(gate).__name__}({', '.join(said)})"


Question = ReplaceGate | WithoutGate | SecondReviewer | Propose
