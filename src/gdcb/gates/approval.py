"""Approval: a person stands between the proposal and the world."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gdcb.arrays import Array, zeros
from gdcb.gates.base import Value
from gdcb.gates.hold import Hold
from gdcb.gates.learned import CategoryKernel, NumberKernel
from gdcb.gates.simulated import SimulatedPerson
from gdcb.parts import check_choice, check_settings
from gdcb.records import Rows


@dataclass(frozen=True)
class Approval:
    """A person approves, edits or vetoes.

    (K̂v)(e) = p̂·v(e) + q̂·E v(e_own) + (1 − p̂ − q̂)·v(null), with p̂ and q̂ the learned rates of
    approval and of edits at (e, x). Who answers is `person`; what the bandit believes about
    them is `kernel`, learned from their verdicts. The bandit never reads a simulated person's own
    parameters.

    Parameters
    ----------
    person : `Hold()` live (the proposal waits), `SimulatedPerson` in a simulation
    kernel : what is learned of the person: `NumberKernel` or `CategoryKernel`
    per : who shares what is learned: every 'unit' has its own person, or all of a 'group' do

    Notes
    -----
    Assumes: the person judges by the proposal and the context, today as yesterday; what else they
    know and act on is found by the contrast of overrides, not here.

    Stops applying: a person who changes (another reviewer, a new rule) is an average of both until
    the verdicts of the first are outweighed. One who anchors on the proposal has no own action
    that could be learned apart from it.

    Examples
    --------
    Live, nothing runs before a verdict: the proposal 120 is held.

    >>> from gdcb.records import HELD
    >>> rows = Rows(np.zeros(1, int), np.zeros(1, int), np.zeros((1, 1)))
    >>> left, status = Approval().apply(None, np.array([[120.0]]), rows)
    >>> left.tolist(), status.tolist() == [HELD]
    ([[nan]], True)
    """

    person: Hold | SimulatedPerson = field(default_factory=Hold)
    kernel: NumberKernel | CategoryKernel = field(default_factory=NumberKernel)
    per: str = "group"
    name: str = "approval"
    version: str = "1"
    is_hard: bool = field(default=False, init=False)
    is_person: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        check_settings(self, "gate")
        check_choice("gate.per", self.per, ("unit", "group"))

    @property
    def holds(self) -> bool:
        """Whether proposals wait for a real person."""
        return isinstance(self.person, Hold)

    @property
    def on_device(self) -> bool:
        """Whether the person can be asked on a device; what is learned of them stays on NumPy."""
        return isinstance(self.person, SimulatedPerson)

    def check(self, columns: Sequence[Any]) -> None:
        """Refuse a kernel that cannot know these actions."""
        self.kernel.check(columns)

    def draw(self, rng: Any, n: int) -> Array | None:
        """Draw what the person needs."""
        return self.person.draw(rng, n)

    def apply(self, draws: Array | None, e: Array, rows: Rows) -> tuple[Array, Array]:
        """Ask the person."""
        return self.person.apply(draws, e, rows)

    def expect(self, value: Value, e: Array, rows: Rows, kernel: Any = None) -> Array:
        """Use the learned kernel where one is given, else the person's own law."""
        if kernel is None:
            return self.person.expect(value, e, rows)
        owner = rows.unit if self.per == "unit" else rows.group
        return self.kernel.expect(kernel, owner, value, e, rows)

    def reach(self, e: Array, rows: Rows) -> Array | None:
        """Return what the person may let run where e (N, M, D) enters; None: anything."""
        return self.person.reach(e, rows)

    def contraction(self, e: Array, rows: Rows) -> Array:
        """Return η(x) of the person's own law: (N,)."""
        return self.person.contraction(e, rows)

    def moved(self, e: Array, rows: Rows) -> Array:
        """Return 0: what a person will do is not sure."""
        return zeros(e.shape[:2], e)

    def init_kernel(self, n_owners: int, n_columns: int) -> Any:
        """Return what is believed before the first verdict."""
        return self.kernel.init(n_owners, n_columns)

    def learn(
        self, kernel: Any, owner: Array, rows: Rows, entered: Array, left: Array, status: Array
    ) -> None:
        """Learn from the person's verdicts."""
        self.kernel.learn(kernel, owner, rows, entered, left, status)

    def reason(self, entered: Array, left: Array, row: Rows) -> str:
        """Say what the person did."""
        if not np.isfinite(left).all():
            return "the person did not let it run"
        if (entered == left).all():
            return "the person approved it"
        return "the person put another action in its place"
