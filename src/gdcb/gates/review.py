"""Review in two stages: a rule says which proposals need a person, the others pass at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gdcb.arrays import Array, is_any
from gdcb.errors import InvalidInput
from gdcb.gates import rules
from gdcb.gates.approval import Approval
from gdcb.gates.base import Value, require_number
from gdcb.gates.contraction import is_mixed
from gdcb.gates.hold import Hold
from gdcb.gates.learned import CategoryKernel, NumberKernel
from gdcb.gates.rules import Question
from gdcb.gates.simulated import SimulatedPerson
from gdcb.parts import Column, check_choice, check_number, check_settings, column, name_of, take
from gdcb.records import PASSED, Rows


@dataclass(frozen=True)
class Review:
    """Send what a rule flags to a person, and let the rest pass at once.

    K(· | e, x) = the person's kernel where flag(e, x), else δ_e. The rule is made of tests; with
    `match` 'any' one of them flags, with 'all' they must agree. Only flagged proposals teach the
    kernel: what passes unseen says nothing of the person. A later appeal is no gate but an event
    (`Agent.appeal`).

    Parameters
    ----------
    rule : a test from Python, (e (N, M, D), rows) → (N, M) booleans: whether a person must look
    when, at_least, at_most : test of a context column: flags within [at_least, at_most]
    categories : test of the column `action`: flags these categories
    low, high : test of the column `action`: flags numbers outside [low, high]
    around, within, relative : test of the column `action`: flags numbers further than `within`
        from the context column `around`; as a share of that column if `relative`
    match : 'any' or 'all' of the tests that are given
    action : the action column that is tested
    person, kernel, per : who answers, and what is learned of them, as in `Approval`

    Notes
    -----
    Assumes: the rule reads the proposal and the context of its own row. It is a known function, so
    a proposal's worth is its own value where nothing is flagged.

    Stops applying: arms on the two sides of the rule meet different gates. The contraction of the
    whole is then 1, however strict the person is.

    Examples
    --------
    Prices more than 20 % from the last one wait for a person.

    >>> gate = Review(around=0, within=0.2, relative=True)
    >>> rows = Rows(np.zeros(2, int), np.zeros(2, int), np.array([[100.0], [100.0]]))
    >>> gate.apply(None, np.array([[110.0], [130.0]]), rows)[1].tolist()  # 0: passed, 3: held
    [0, 3]
    """

    rule: Question | None = None
    when: Column | None = column(None)
    at_least: float = -np.inf
    at_most: float = np.inf
    categories: tuple[int, ...] = ()
    low: float = -np.inf
    high: float = np.inf
    around: Column | None = column(None)
    within: float = 0.0
    relative: bool = False
    match: str = "any"
    action: int = 0
    person: Hold | SimulatedPerson = field(default_factory=Hold)
    kernel: NumberKernel | CategoryKernel = field(default_factory=NumberKernel)
    per: str = "group"
    name: str = "review"
    version: str = "1"
    is_hard: bool = field(default=False, init=False)
    is_person: bool = field(default=True, init=False)
    _approval: Approval = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_settings(self, "gate")
        where = f"gate '{self.name}'"
        check_choice(f"{where}: match", self.match, ("any", "all"))
        rules.check_force(self.name, self.when, self.at_least, self.at_most)
        rules.check_limits(self.name, self.low, self.high)
        check_number(f"{where}: within", self.within, 0.0)
        if self.around is None and (self.within > 0 or self.relative):
            raise InvalidInput(f"{where}: within and relative need 'around', a context column")
        if not (self.rule or self.categories or self._has_limits) and (
            self.when is None and self.around is None
        ):
            raise InvalidInput(
                f"{where}: nothing says what needs a person; give a rule, when, categories, low, "
                "high or around, or take an approval"
            )
        approval = Approval(self.person, self.kernel, self.per, self.name, self.version)
        object.__setattr__(self, "_approval", approval)

    @property
    def _has_limits(self) -> bool:
        return bool(self.low > -np.inf or self.high < np.inf)

    @property
    def holds(self) -> bool:
        """Whether proposals may wait for a real person."""
        return self._approval.holds

    def check(self, columns: Sequence[Any]) -> None:
        """Refuse a test of an action column that is not there, and a kernel that does not fit."""
        if not 0 <= self.action < len(columns):
            raise InvalidInput(f"gate '{self.name}': no action column {self.action}")
        where = f"gate '{self.name}': categories"
        rules.check_categories(where, self.categories, columns[self.action])
        if self._has_limits or self.around is not None:
            require_number(columns, self.action, self.name)
        self._approval.check(columns)

    def flags(self, e: Array, rows: Rows) -> Array:
        """Return whether actions (N, M, D), all of which may run, need a person: (N, M)."""
        found = self._matched(self._tests(e, rows))
        return found if found.shape == e.shape[:2] else np.broadcast_to(found, e.shape[:2])

    def _matched(self, tests: dict[str, Array]) -> Array:
        """Return what tests (N, M or 1) say together."""
        found, *others = tests.values()
        for flagged in others:
            found = found | flagged if self.match == "any" else found & flagged
        return found

    def _tests(self, e: Array, rows: Rows) -> dict[str, Array]:
        """Return every test that is given, by its name: (N, M or 1)."""
        tests: dict[str, Array] = {}
        kind = e[..., self.action]
        if self.rule is not None:
            tests["rule"] = rules.ask(self.rule, e, rows, f"gate '{self.name}': rule")
        if self.when is not None:
            tests["when"] = rules.is_in_force(rows, self.when, self.at_least, self.at_most)
        if self.categories:
            tests["categories"] = np.isin(kind, self.categories)
        if self._has_limits:
            tests["limits"] = ~((kind >= self.low) & (kind <= self.high))
        if self.around is not None:
            centre = take(rows.x, self.around)[:, None]
            width = self.within * np.abs(centre) if self.relative else self.within
            tests["around"] = ~(np.abs(kind - centre) <= width)
        return tests

    def _said(self, test: str, entered: Array, row: Rows) -> str:
        """Return what a test says of the proposal (D,) that it flagged."""
        if test == "limits":
            return self._limits()
        if test == "around":
            return f"{entered[self.action]:g} is further than {self._near(row)}"
        if test == "when" and self.when is not None:
            name = name_of(self.when) or "the context asks for one:"
            return f"{name} {take(row.x, self.when)[0]:g} is {_within(self.at_least, self.at_most)}"
        return f"{'the rule' if test == 'rule' else 'this category'} asks for one"

    def _near(self, row: Rows, of: str = "from") -> str:
        """Return what is near enough to the column `around`, in words."""
        if self.around is None:
            return ""
        width = f"{100 * self.within:g} %" if self.relative else f"{self.within:g}"
        name, centre = name_of(self.around), take(row.x, self.around)[0]
        return f"{width} {of} {name} {centre:g}" if name else f"{width} {of} {centre:g}"

    def _outside(self) -> str:
        """Return what of the column `when` asks for nobody."""
        if self.at_most == np.inf:
            return f"below {self.at_least:g}"
        if self.at_least == -np.inf:
            return f"above {self.at_most:g}"
        return f"below {self.at_least:g} or above {self.at_most:g}"

    def found(self, entered: Array, row: Rows) -> list[tuple[str, float, str]]:
        """Return the numbers that made tests flag a proposal (D,), and what each lets pass.

        (name of the context column, number, what passes) of every test that has a number; without
        a name it is the proposal's own.

        >>> row = Rows(np.zeros(1, int), np.zeros(1, int), np.zeros((1, 1)))
        >>> Review(high=200.0).found(np.array([250.0]), row)
        [('', 250.0, 'at most 200')]
        """
        number, found = float(entered[self.action]), []
        for test, flagged in self._tests(entered[None, None], row).items():
            if not flagged[0, 0]:
                continue
            if test == "when" and self.when is not None:
                value = float(take(row.x, self.when)[0])
                found.append((name_of(self.when), value, self._outside()))
            elif test == "limits":
                found.append(("", number, _within(self.low, self.high)))
            elif test == "around":
                found.append(("", number, f"within {self._near(row, 'of')}"))
        return found

    def _limits(self) -> str:
        if self.low == -np.inf:
            return f"it is above {self.high:g}"
        if self.high == np.inf:
            return f"it is below {self.low:g}"
        return f"it lies outside {self.low:g} and {self.high:g}"

    def why(self, entered: Array, row: Rows) -> str:
        """Say which tests sent a proposal (D,) to the person; nothing where none did."""
        tests = self._tests(entered[None, None], row)
        if not self._matched(tests)[0, 0]:
            return ""
        found = [test for test, flagged in tests.items() if flagged[0, 0]]
        return " and ".join(self._said(test, entered, row) for test in found)

    def draw(self, rng: Any, n: int) -> Array | None:
        """Draw what the person needs, for every row, flagged or not."""
        return self._approval.draw(rng, n)

    def apply(self, draws: Array | None, e: Array, rows: Rows) -> tuple[Array, Array]:
        """Ask the person about flagged proposals; the others pass."""
        asked, runs = rules.filled(e[:, None])
        index = np.flatnonzero(self.flags(asked, rows)[:, 0] & runs[:, 0])
        left, status = e.copy(), np.full(e.shape[0], PASSED, dtype=np.int8)
        if index.size:
            some = None if draws is None else draws[index]
            left[index], status[index] = self._approval.apply(some, e[index], rows.take(index))
        return left, status

    def expect(self, value: Value, e: Array, rows: Rows, kernel: Any = None) -> Array:
        """Use the person's operator where the rule flags, and v(e) elsewhere."""
        flagged = self.flags(e, rows)
        if not is_any(flagged):
            return value(e)
        return np.where(flagged, self._approval.expect(value, e, rows, kernel), value(e))

    def reach(self, e: Array, rows: Rows) -> Array | None:
        """Return what may run where e (N, M, D) enters, asked about or not; None: anything."""
        left = self._approval.reach(e, rows)
        return None if left is None else np.concatenate((e, left), axis=1)

    def contraction(self, e: Array, rows: Rows) -> Array:
        """Return η(x): the person's where all are flagged; 1 where any other passes; (N,)."""
        is_free = ~self.flags(e, rows).all(axis=1)
        return np.where(is_free, is_mixed(e), self._approval.contraction(e, rows))

    def moved(self, e: Array, rows: Rows) -> Array:
        """Return 0: what a person will do is not sure."""
        return np.zeros(e.shape[:2])

    def init_kernel(self, n_owners: int, n_columns: int) -> Any:
        """Return what is believed before the first verdict."""
        return self._approval.init_kernel(n_owners, n_columns)

    def learn(
        self, kernel: Any, owner: Array, rows: Rows, entered: Array, left: Array, status: Array
    ) -> None:
        """Learn from the verdicts on flagged proposals."""
        some = self.flags(entered[:, None], rows)[:, 0]
        if is_any(some):
            parts = (owner[some], rows.take(some), entered[some], left[some], status[some])
            self._approval.learn(kernel, *parts)

    def reason(self, entered: Array, left: Array, row: Rows) -> str:
        """Say what the person did, and why they were asked."""
        why = self.why(entered, row)
        said = self._approval.reason(entered, left, row)
        return f"{said} ({why})" if why else "the rule asks for no person"


def _within(low: float, high: float) -> str:
    """Say a range, one side of which may be open."""
    if high == np.inf:
        return f"at least {low:g}"
    if low == -np.inf:
        return f"at most {high:g}"
    return f"within {low:g} and {high:g}"
