"""What a gate is to a round: two faces, `apply` samples and `expect` is the operator.

NaN columns mean 'nothing runs': a veto leaves NaN, and whatever values actions gives NaN the
worth of the null action.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

from gdcb.arrays import Array, all_finite, full, namespace, put_where, surely_all, zeros
from gdcb.errors import InvalidInput
from gdcb.gates.contraction import is_mixed
from gdcb.records import MODIFIED, VETOED, Rows


class Value(Protocol):
    """A value function on actions of the rows it was made for."""

    def __call__(self, e: Array) -> Array:
        """Value actions (N, M, D): (N, M); NaN actions are worth the null action."""

    def take(self, index: Array) -> Value:
        """Return the same function for some of the rows."""


class Gate(Protocol):
    """g: E × X → E, its kernel, and what can be learned of it.

    `name` and `version` go into every verdict. Hard gates are known functions; a person's
    kernel is learned, per unit or per group as `per` says.

    A gate may also have `reach` and `contraction` (see `gdcb.gates.contraction`; without them its
    η is taken to be 1), `holds` (whether proposals may wait for a real person) and `why` (what a
    proposal waits for). `on_device` says that it also takes torch's arrays, never asks a device
    for an answer and does not raise: a simulation on a device demands it.
    """

    @property
    def name(self) -> str:
        """Name of the rule."""

    @property
    def version(self) -> str:
        """Version of the rule."""

    @property
    def per(self) -> str:
        """Who owns what is learned of it: 'unit' or 'group'."""

    @property
    def is_hard(self) -> bool:
        """Whether it is a known function."""

    @property
    def is_person(self) -> bool:
        """Whether a person answers."""

    def draw(self, rng: Any, n: int) -> Array | None:
        """Draw the random numbers that `apply` needs for n rows, used or not; None for none."""

    def apply(self, draws: Array | None, e: Array, rows: Rows) -> tuple[Array, Array]:
        """Gate proposals e (N, D): what may run (N, D; NaN: nothing) and its status (N,)."""

    def expect(self, value: Value, e: Array, rows: Rows, kernel: Any = None) -> Array:
        """Return (Kv)(e) = ∫ v(e′) K(de′ | e, x) for e (N, M, D): (N, M).

        With `kernel` the estimate is used, without it the truth where it is known.
        """

    def moved(self, e: Array, rows: Rows) -> Array:
        """Return how far the gate would surely move e (N, M, D): (N, M)."""

    def init_kernel(self, n_owners: int, n_columns: int) -> Any:
        """Return the state of what can be learned of this gate, or None."""

    def learn(
        self, kernel: Any, owner: Array, rows: Rows, entered: Array, left: Array, status: Array
    ) -> None:
        """Learn from what entered and left: (N, D), (N, D), (N,)."""

    def check(self, columns: Sequence[Any]) -> None:
        """Refuse an instance whose action has other columns than this gate can judge."""

    def reason(self, entered: Array, left: Array, row: Rows) -> str:
        """Say in a sentence why `entered` (D,) became `left` (D,)."""


class HardGate:
    """A known function: give it `project` and `reason`, and both faces follow.

    What it lets through it leaves alone when it comes again, g(g(e, x), x) = g(e, x). One that does
    not (a step towards a setting, say) declares ``is_idempotent: ClassVar[bool] = False``: nothing
    else depends on it, but the checks of parts then do not ask for it.
    """

    per = "group"
    is_hard = True
    is_person = False
    name: str = "hard gate"
    version: str = "1"
    is_idempotent: ClassVar[bool] = True
    # True where `project` surely leaves NaN alone: a shorter way is taken.
    keeps_nan: ClassVar[bool] = False

    def project(self, e: Array, rows: Rows) -> Array:
        """Return what may run instead of e (N, M, D); NaN vetoes. NaN in, NaN out.

        `e` is read-only: return another array.
        """
        raise NotImplementedError(f"give {type(self).__name__} a method 'project'")

    def reason(self, entered: Array, left: Array, row: Rows) -> str:
        """Say in a sentence why `entered` (D,) became `left` (D,)."""
        return "it does not let this pass"

    def check(self, columns: Sequence[Any]) -> None:
        """Refuse where the action lacks the column that this gate limits."""
        action = getattr(self, "action", 0)
        if not 0 <= action < len(columns):
            raise InvalidInput(f"gate '{getattr(self, 'name', '')}': no action column {action}")

    def draw(self, rng: Any, n: int) -> None:
        """Draw nothing: a hard gate is deterministic."""
        return None

    def apply(self, draws: Array | None, e: Array, rows: Rows) -> tuple[Array, Array]:
        """Project and say what happened."""
        left = self.project(e[:, None, :], rows)[:, 0]
        return left, status_of(e, left)

    def expect(self, value: Value, e: Array, rows: Rows, kernel: Any = None) -> Array:
        """Value the projection."""
        return value(self.project(e, rows))

    def reach(self, e: Array, rows: Rows) -> Array:
        """Return what may leave the gate where e (N, M, D) enters: its images, (N, M, D)."""
        n, m, d = e.shape
        some = rows.take(np.repeat(np.arange(n), m))
        left, status = self.apply(None, e.reshape(n * m, d), some)
        return np.where((status <= MODIFIED)[:, None], left, np.nan).reshape(n, m, d)

    def contraction(self, e: Array, rows: Rows) -> Array:
        """Return η(x) on the actions e (N, M, D): 1 where two images differ, else 0; (N,).

        An idempotent gate with two feasible actions leaves both alone: its η is 1.
        """
        return is_mixed(self.reach(e, rows)).astype(float)

    def moved(self, e: Array, rows: Rows) -> Array:
        """Return the largest change of a column; infinite for a veto."""
        xp, apart = namespace(e), abs(self.project(e, rows) - e)
        gap = apart[..., 0]
        for at in range(1, e.shape[-1]):  # columns are few
            gap = xp.maximum(gap, apart[..., at])
        return put_where(gap, gap != gap, np.inf)  # NaN: a veto

    def init_kernel(self, n_owners: int, n_columns: int) -> None:
        """Learn nothing: the function is known."""
        return None

    def learn(
        self, kernel: Any, owner: Array, rows: Rows, entered: Array, left: Array, status: Array
    ) -> None:
        """Learn nothing."""


def require_number(columns: Sequence[Any], action: int, gate: str) -> None:
    """Refuse a limit on a category: between two levels there is nothing."""
    if columns[action].levels:
        raise InvalidInput(f"gate '{gate}': '{columns[action].name}' is a category, not a number")


def status_of(entered: Array, left: Array) -> Array:
    """Compare what entered with what left, row by row: PASSED, MODIFIED or VETOED."""
    xp = namespace(left)
    same = entered == left
    if surely_all(same):
        return zeros(entered.shape[:1], left, xp.int8)
    moved = xp.astype(~same.all(axis=-1), xp.int8)  # PASSED is 0, MODIFIED 1
    return put_where(moved, ~all_finite(left), VETOED)


def nothing(e: Array) -> Array:
    """Return one NaN action a row: (N, 1, D)."""
    return full((e.shape[0], 1, e.shape[-1]), np.nan, e)
