"""Categories: identity with a severity beside it, and prompts composed from a tool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gdcb.arms import CATEGORIES, Arms
from gdcb.arrays import Array, like, repeated, zeros
from gdcb.composition.base import ActionColumn
from gdcb.parts import check_number, check_settings
from gdcb.records import Located


def _of_category(arms: Arms, e: Array) -> Located:
    return arms.locate(e[..., :1])


@dataclass(frozen=True)
class Identity:
    """Run the category as it is; its severity score travels with it.

    Φ(a, δ) = (a, δ): gates, rewards and cells read the severity δ, and the arm of an action is its
    category. Without severity Φ(a, δ) = a, the plain bandit. The bound of Assumption 1 is 1
    with severity and 0 without.

    Parameters
    ----------
    name : name of the category among the action's columns
    severity : whether δ travels along as a second column

    Notes
    -----
    Assumes: the arms are categories, given as names without values.

    Stops applying: δ changes no action here. A better scaler helps only through what reads the
    severity (a gate, cells of δ); without such a reader the second loop is idle, and Theorem 1
    promises nothing.

    Examples
    --------
    δ = 0.7 stands beside each of three categories; the action (1, 0.7) is the arm 'warn'.

    >>> import numpy as np
    >>> from gdcb.arms import ArmList
    >>> arms = ArmList(names=("allow", "warn", "remove")).build()
    >>> phi, delta, x = Identity(), np.array([[[0.7]]]), np.zeros((1, 1))
    >>> phi.compose(arms, delta, x).tolist()
    [[[0.0, 0.7], [1.0, 0.7], [2.0, 0.7]]]
    >>> phi.locate(arms, np.array([[[1.0, 0.7]]]), delta, x).arm.tolist()
    [[1]]
    """

    name: str = "action"
    severity: bool = True
    needs_positive: ClassVar[bool] = False
    arm_kind: ClassVar[str] = CATEGORIES
    joins: ClassVar[str] = "other"
    on_device: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_settings(self, "composition")

    def columns(self, arms: Arms) -> tuple[ActionColumn, ...]:
        """Return the category and, with severity, its score."""
        choice = ActionColumn(self.name, arms.names)
        return (choice, ActionColumn("severity")) if self.severity else (choice,)

    def compose(self, arms: Arms, delta: Array, x: Array) -> Array:
        """Return (arm, severity) for every arm."""
        if not self.severity:
            return repeated(like(arms.coords, x)[None], x.shape[0])
        out = zeros((x.shape[0], arms.n, 2), x)
        out[..., 0] = like(arms.coords, x)[:, 0]
        out[..., 1] = delta[..., 0]
        return out

    def locate(self, arms: Arms, e: Array, delta: Array, x: Array) -> Located:
        """Find the arm of the category."""
        return _of_category(arms, e)

    def relative(self, e: Array, x: Array) -> Array:
        """Return e itself."""
        return e

    def lipschitz(self, arms: Arms, delta: Array, x: Array) -> float:
        """Return 1 with severity, 0 without."""
        return float(self.severity)


@dataclass(frozen=True)
class Prompt:
    """Compose a prompt from a tool and as many retrieved examples as are relevant to it.

    Φ(tool, δ) = (tool, ⌊δ · examples + ½⌋, template), δ being the relevance of the retrieved
    examples to each tool, clipped to [0, 1]: it has an arm axis. The arm of a prompt is its tool.
    Text is rendered at the edge (`render`).

    Parameters
    ----------
    examples : examples that a prompt carries at most
    template : version of the template, which travels with the action
    name : name of the tool among the action's columns
    neutral : δ of methods that have no scaler: the share of the examples that they always carry

    Notes
    -----
    Assumes: the arms are categories (tools), and examples come sorted, the best first.

    Stops applying: the number of examples jumps, so Φ has no Lipschitz constant in δ and
    Assumption 1 fails: Theorem 1 bounds nothing. Prompts of one tool that differ in their
    examples teach the same arm.

    Examples
    --------
    Relevance 0.9 to the first tool and 0.3 to the second: ⌊3.6 + ½⌋ = 4 and ⌊1.2 + ½⌋ = 1
    examples.

    >>> import numpy as np
    >>> from gdcb.arms import ArmList
    >>> tools = ArmList(names=("search", "calculator")).build()
    >>> delta, x = np.array([[[0.9], [0.3]]]), np.zeros((1, 1))
    >>> Prompt(examples=4).compose(tools, delta, x).tolist()
    [[[0.0, 4.0, 1.0], [1.0, 1.0, 1.0]]]
    """

    examples: int = 4
    template: int = 1
    name: str = "tool"
    neutral: float = 1.0
    needs_positive: ClassVar[bool] = False
    arm_kind: ClassVar[str] = CATEGORIES
    joins: ClassVar[str] = "other"

    def __post_init__(self) -> None:
        check_settings(self, "composition")
        check_number("composition.examples", self.examples, 0)
        check_number("composition.neutral", self.neutral, 0.0, 1.0)
        check_number("composition.template", self.template, 0)

    def columns(self, arms: Arms) -> tuple[ActionColumn, ...]:
        """Return tool, examples and template."""
        return (
            ActionColumn(self.name, arms.names),
            ActionColumn("examples"),
            ActionColumn("template"),
        )

    def compose(self, arms: Arms, delta: Array, x: Array) -> Array:
        """Return the prompt of every tool: (N, K, 3)."""
        out = np.empty((x.shape[0], arms.n, 3))
        out[..., 0] = arms.coords[:, 0]
        out[..., 1] = np.floor(delta[..., 0].clip(0.0, 1.0) * self.examples + 0.5)
        out[..., 2] = self.template
        return out

    def locate(self, arms: Arms, e: Array, delta: Array, x: Array) -> Located:
        """Find the arm of the tool."""
        return _of_category(arms, e)

    def relative(self, e: Array, x: Array) -> Array:
        """Return e itself."""
        return e

    def lipschitz(self, arms: Arms, delta: Array, x: Array) -> float:
        """Return infinity: the number of examples jumps."""
        return float("inf")

    def render(self, arms: Arms, e: Array, query: str, examples: tuple[str, ...] = ()) -> str:
        """Write one prompt (D,) as text, with the first `examples` it asks for.

        >>> from gdcb.arms import ArmList
        >>> tools = ArmList(names=("search", "calculator")).build()
        >>> print(Prompt().render(tools, np.array([1.0, 1.0, 1.0]), "2+2?", ("1+1? 2",)))
        [template 1] Use the tool 'calculator'.
        Example: 1+1? 2
        Query: 2+2?
        """
        lines = [f"[template {int(e[2])}] Use the tool '{arms.names[int(e[0])]}'."]
        lines += [f"Example: {text}" for text in examples[: int(e[1])]]
        return "\n".join([*lines, f"Query: {query}"])
