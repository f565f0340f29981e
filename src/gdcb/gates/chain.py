"""g = g_G ∘ … ∘ g₁: gates in order, each failing closed, with the trail of what they did."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gdcb.arrays import (
    Array,
    all_finite,
    freeze,
    is_any,
    maybe_any,
    namespace,
    on_host,
    put_where,
    surely_all,
    zeros,
)
from gdcb.errors import InvalidInput
from gdcb.gates.base import Gate, HardGate, Value
from gdcb.gates.behind import Behind, Passage, projected
from gdcb.gates.contraction import contractions
from gdcb.gates.guarded import (
    as_plain,
    guarded_apply,
    guarded_draw,
    guarded_moved,
    leaves_alone,
    seal,
)
from gdcb.gates.levels import Levels, inside_or_nan, is_outside, levels_of, surely_inside, told
from gdcb.parts import check_settings
from gdcb.records import (
    EXPIRED,
    HELD,
    MODIFIED,
    NOT_REACHED,
    PASSED,
    STATUS,
    VETOED,
    Rows,
    Verdict,
)

UNGATED = "ungated"  # what an instance without gates is called wherever it is shown


@dataclass(frozen=True)
class Open:
    """No gate: every proposal runs as it was composed.

    What an instance says instead of gates, so that it does not run ungated by omission; `gate=[]`
    says the same. It stands alone: a chain that holds it beside gates is refused.

    Examples
    --------
    >>> from gdcb import ArmList, Identity, Instance, Number, Open, Schema
    >>> Instance(Schema({"x": Number()}), ArmList(names=("a", "b")), Identity(), gate=Open())
    Instance('instance': 2 arms, Identity, ConstantScaler, ungated)
    """


@dataclass(frozen=True)
class Chain:
    """Gates in the order in which a proposal meets them; none at all runs ungated.

    A veto or a hold stops the proposal there. A gate limits what reaches it, not what later gates
    make of it: a limit that must hold in the end stands at the end. Where a person may put in a
    number of their own, a hard gate must close the chain, so that nothing runs that no limit has
    seen; `closed=False` waives it (the paper's bare approval).

    Both faces fail closed. A gate that raises, answers with the wrong shape, an infinite action or
    a category that is none of the levels, or writes to the context vetoes the rows it fails on,
    with the reason in `Verdict.faults`; in `expect` the actions it fails on are worth the null
    action. Of categories a chain knows through `for_actions`, which an instance calls. On a device
    gates must not raise, and no faults are written down.
    """

    gates: tuple[Gate, ...] = ()
    closed: bool = True
    has_person: bool = field(init=False, repr=False, compare=False)
    _plain: tuple[HardGate | None, ...] = field(init=False, repr=False, compare=False)
    _is_plain: bool = field(init=False, repr=False, compare=False)
    _levels: Levels = field(default=(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        given: Any = self.gates
        for gate in given if isinstance(given, tuple | list) else ():
            if isinstance(gate, Open):
                raise InvalidInput("gates: Open() says that there is no gate; give it alone")
            _check_gate("gates: expected gates,", gate)
        check_settings(self, "chain")
        plain = tuple(as_plain(gate) for gate in self.gates)
        object.__setattr__(self, "has_person", any(gate.is_person for gate in self.gates))
        object.__setattr__(self, "_plain", plain)
        object.__setattr__(self, "_is_plain", all(p is not None and p.keeps_nan for p in plain))
        names = [gate.name for gate in self.gates]
        if len(set(names)) != len(names):
            raise InvalidInput(f"gates: names must differ, got {', '.join(names)}")
        if self.closed and self.gates and not self.gates[-1].is_hard:
            raise InvalidInput(
                f"gates: '{names[-1]}' is a person and must be followed by a hard gate that "
                "closes the chain; add bounds, a cap or a policy, or waive it: "
                "Chain([…], closed=False), in a file closed = false"
            )

    def for_actions(self, columns: Sequence[Any]) -> Chain:
        """Return the chain for actions of these columns; refuse those that a gate cannot judge."""
        for gate in self.gates:
            gate.check(columns)
        fitted = copy.copy(self)
        object.__setattr__(fitted, "_levels", levels_of(columns))
        return fitted

    def require_levels(self, e: Array) -> None:
        """Refuse composed actions (N, M, D) with a category that is none of its levels."""
        outside = is_outside(e, self._levels)
        if is_any(outside):
            raise InvalidInput(f"the composed action has {told(e[outside][0], self._levels)}")

    def draw(self, rng: Any, n: int) -> tuple[Any, ...]:
        """Draw for every gate and row, whether or not the row gets there.

        A gate that cannot draw gets its own exception, and vetoes in `apply`.
        """
        if self._is_plain:
            return (None,) * len(self.gates)
        return tuple([guarded_draw(gate, rng, n) for gate in self.gates])

    def init_kernels(self, n_units: int, n_groups: int, n_columns: int) -> tuple[Any, ...]:
        """Return what is believed of each gate before the first verdict."""
        return tuple(
            gate.init_kernel(n_units if gate.per == "unit" else n_groups, n_columns)
            for gate in self.gates
        )

    def apply(self, draws: tuple[Any, ...], e: Array, rows: Rows) -> Verdict:
        """Send proposals e (N, D) through all gates."""
        verdict = _untouched(e, len(self.gates))
        is_whole = on_host(e) and surely_all(np.isfinite(e)) and surely_inside(e, self._levels)
        if not is_whole:
            known = all_finite(e)
            lost = ~known | is_outside(e, self._levels)
            verdict.status = put_where(verdict.status, lost, VETOED)
            for row in np.flatnonzero(lost) if on_host(lost) else ():
                what = f"has {told(e[row], self._levels)}" if known[row] else "is not finite"
                verdict.faults[int(row), -1] = f"the composed action {what}"
        return self._run(draws, verdict, rows, 0, is_whole)

    def resume(
        self, draws: tuple[Any, ...], verdict: Verdict, rows: Rows, action: Array, status: int
    ) -> Verdict:
        """Continue one held row (N = 1) behind the gate that held it, with its answer (D,).

        With EXPIRED and an action, a declared one takes the proposal's place: the row goes on as
        modified, even where the two are equal, for nobody has approved it.
        """
        if verdict.status[0] != HELD:
            raise InvalidInput("resume: the decision is not held")
        runs = status <= MODIFIED or (status == EXPIRED and bool(np.isfinite(action).all()))
        if runs and is_outside(action, self._levels):
            raise InvalidInput(f"resume: the action has {told(action, self._levels)}")
        at = int(verdict.gate[0])
        trail, statuses = verdict.trail.copy(), verdict.statuses.copy()
        trail[:, at + 1 :], statuses[:, at], statuses[:, at + 1 :] = action, status, PASSED
        is_own = bool((statuses[0, : at + 1] == PASSED).all())
        so_far = status if not runs else PASSED if is_own else MODIFIED
        whole = np.array([so_far], dtype=np.int8)
        resumed = Verdict(action[None], whole, trail, statuses, dict(verdict.faults))
        return self._run(draws, resumed, rows, at + 1, runs)

    def _run(
        self, draws: tuple[Any, ...], verdict: Verdict, rows: Rows, start: int, is_whole: bool
    ) -> Verdict:
        """Go through the gates from `start` on; `is_whole`: no row has stopped so far."""
        seal(rows)
        e, xp = verdict.action, namespace(verdict.action)
        for i in range(start, len(self.gates)):
            gate, plain = self.gates[i], self._plain[i]
            if is_whole and plain is not None and leaves_alone(plain, e, rows):
                if e is not verdict.action:  # else they read so already
                    verdict.statuses[:, i], verdict.trail[:, i + 1] = PASSED, e
                continue
            runs = verdict.status <= MODIFIED
            if not maybe_any(runs):
                verdict.trail[:, i + 1 :] = np.nan
                verdict.statuses[:, i:] = NOT_REACHED
                break
            left, status, faults = guarded_apply(gate, draws[i], e, rows, runs, self._levels)
            verdict.faults.update({(row, i): text for row, text in faults.items()})
            e = put_where(left, ~runs[:, None], np.nan)
            freeze(e)
            verdict.statuses[:, i] = put_where(status, ~runs, NOT_REACHED)
            acted = (status != PASSED) & runs
            verdict.status = xp.where(acted, status, verdict.status)
            verdict.trail[:, i + 1] = e
            is_whole = surely_all(verdict.status <= MODIFIED)
        if not is_whole:
            e = put_where(e, (verdict.status > MODIFIED)[:, None], np.nan)
        verdict.action = e
        return verdict

    def expect(
        self, value: Value, e: Array, rows: Rows, kernels: tuple[Any, ...] | None = None
    ) -> Array:
        """Return the value of e (N, M, D) behind all gates: nested operators, first gate outside.

        `kernels` None asks for the truth (simulation); otherwise the learned estimates are used.
        """
        # Of composed actions a device is not asked again: a simulation has looked at them once.
        if self._levels and (on_host(e) or e is not getattr(value, "actions", None)):
            e = inside_or_nan(e, self._levels)
        seal(rows)
        if self._is_plain:
            left = projected(self._plain, e, rows, self._levels)
            if left is not None:
                return value(left)
        return Behind(self._passage(e, kernels), 0, value, rows)(e)

    def _passage(self, e: Array, kernels: tuple[Any, ...] | None) -> Passage:
        known = kernels or (None,) * len(self.gates)
        return Passage(self.gates, self._plain, known, self._levels, e.shape[-1])

    def attribute(
        self, value: Value, e: Array, rows: Rows, kernels: tuple[Any, ...] | None = None
    ) -> Array:
        """Return what each gate adds to the worth of actions e (N, M, D): (N, M, G).

        With W_i(e) the worth of e where only gates i, …, G are in force, gate i adds
        W_i(e) − W_{i+1}(e), and W_{G+1} = v. So the parts sum to (Kv)(e) − v(e), what the chain
        adds in all. A gate that fails is worth the null action, as in `expect`.

        The split goes by the order of the gates, as the proposal meets them: what two gates
        would both do is counted for the one behind, since it is there without the other.

        Examples
        --------
        v(e) = −|e − 2| at e = 9, a cap of 5 before bounds of 3: the bounds alone would add 6 of
        the 6, so the cap in front of them adds nothing.

        >>> from gdcb.gates import Bounds, Cap
        >>> class Near:
        ...     def __call__(self, e):
        ...         return -np.abs(e[..., 0] - 2.0)
        ...
        ...     def take(self, index):
        ...         return self
        >>> rows = Rows(np.zeros(1, int), np.zeros(1, int), np.zeros((1, 1)))
        >>> chain = Chain((Cap(limit=5.0), Bounds(high=3.0)))
        >>> chain.attribute(Near(), np.array([[[9.0]]]), rows).tolist()
        [[[0.0, 6.0]]]
        """
        passage = self._passage(e, kernels)
        parts = np.empty((*e.shape[:2], len(self.gates)))
        worth = value(e)
        for i in reversed(range(len(self.gates))):
            before = Behind(passage, i, value, seal(rows))(e)
            parts[..., i], worth = before - worth, before
        return parts

    def contraction(self, e: Array, rows: Rows) -> Array:
        """Return an upper bound of each gate's η(x) on what may reach it from e (N, M, D): (N, G).

        Their product over gates bounds the chain's η(x): two policies' executed actions differ
        in total variation by at most η(x) times what their proposals differ. See
        `gdcb.analysis.cell_kernel` for the exact value on arm cells.
        """
        return contractions(self.gates, e, seal(rows))

    def counts(self, verdict: Verdict) -> dict[str, dict[str, int]]:
        """Count what each gate did to the rows of a verdict, by its name and by status.

        >>> from gdcb.gates import Bounds, Cap
        >>> rows = Rows(np.zeros(2, int), np.zeros(2, int), np.zeros((2, 1)))
        >>> chain = Chain((Bounds(high=9.0, outside="veto"), Cap(limit=5.0)))
        >>> found = chain.counts(chain.apply((None, None), np.array([[7.0], [11.0]]), rows))
        >>> {name: {k: n for k, n in by.items() if n} for name, by in found.items()}
        {'bounds': {'passed': 1, 'vetoed': 1}, 'cap': {'modified': 1, 'not reached': 1}}
        """
        words = dict(enumerate(STATUS)) | {NOT_REACHED: "not reached"}
        return {
            gate.name: {
                word: int((verdict.statuses[:, i] == code).sum()) for code, word in words.items()
            }
            for i, gate in enumerate(self.gates)
        }

    def moved(self, e: Array, rows: Rows) -> Array:
        """Return how far the hard gates would move each action, summed over them: (N, M)."""
        total = zeros(e.shape[:2], e)
        seal(rows)
        for gate in self.gates:
            if gate.is_hard:
                total += guarded_moved(gate, e, rows)
        is_known = total >= 0
        return total if surely_all(is_known) else put_where(total, ~is_known, np.inf)

    def learn(self, kernels: tuple[Any, ...], rows: Rows, verdict: Verdict, start: int = 0) -> None:
        """Teach every learned gate from `start` on what it did.

        Held and unreached rows say nothing, nor does a fault: it is no verdict of the person's.
        An expired hold is a veto where nothing ran; where a declared action did, it says nothing.
        Without kernels, as on a device, nothing is learned.
        """
        if not kernels:
            return
        for i, (gate, kernel) in enumerate(zip(self.gates, kernels, strict=True)):
            if kernel is None or i < start:
                continue
            status = verdict.statuses[:, i]
            seen = (status != NOT_REACHED) & (status != HELD)
            if not surely_all(status != EXPIRED):
                seen &= (status != EXPIRED) | ~all_finite(verdict.trail[:, i + 1])
            for row, at in verdict.faults:
                seen[row] &= at != i
            if not seen.any():
                continue
            some, entered, left = rows, verdict.trail[:, i], verdict.trail[:, i + 1]
            if not seen.all():
                some, entered, left, status = (
                    rows.take(seen),
                    entered[seen],
                    left[seen],
                    status[seen],
                )
            owner = some.unit if gate.per == "unit" else some.group
            try:
                gate.learn(kernel, owner, some, entered, left, status)
            except MemoryError:  # whoever folds the same again must learn the same
                raise
            except Exception as error:  # what it cannot learn must not undo a decision
                text = f"gate '{gate.name}' could not learn: {type(error).__name__}: {error}"
                warnings.warn(text, RuntimeWarning, stacklevel=2)

    def overridden(self, verdict: Verdict) -> Array:
        """Return the rows that run another action than proposed because a person said so."""
        changed = zeros(verdict.status.shape, verdict.status, bool)
        for i, gate in enumerate(self.gates):
            if gate.is_person:
                changed |= (verdict.statuses[:, i] == MODIFIED) & (verdict.status == MODIFIED)
        return changed

    def reasons(self, verdict: Verdict, rows: Rows) -> list[str]:
        """Say why every row ended as it did."""
        found, last = [self._unmoved] * rows.n, verdict.gate
        for row in {*np.flatnonzero(last >= 0).tolist(), *(i for i, _ in verdict.faults)}:
            found[row] = self._reason(verdict, rows, row, int(last[row]))
        return found

    @property
    def _unmoved(self) -> str:
        return "every gate let it pass" if self.gates else f"{UNGATED}: there is no gate"

    @property
    def path(self) -> str:
        """The names of the gates in order, or 'ungated'."""
        return " → ".join(gate.name for gate in self.gates) or UNGATED

    def reason(self, verdict: Verdict, rows: Rows, row: int) -> str:
        """Say why this row ended as it did, in a sentence with the rule and its version."""
        return self._reason(verdict, rows, row, int(verdict.gate[row]))

    def _reason(self, verdict: Verdict, rows: Rows, row: int, at: int) -> str:
        """Say so of a row where gate `at` had the last word; −1: none acted."""
        said = verdict.faults.get((row, at))
        if at < 0 and said is None:
            return self._unmoved
        if at < 0:
            return f"{said}; vetoed"
        gate = self.gates[at]
        if said is None:
            entered, left = verdict.trail[row, at], verdict.trail[row, at + 1]
            one = rows.take(np.array([row]))
            try:
                if verdict.statuses[row, at] == HELD:
                    why = getattr(gate, "why", None)  # of those who ask only sometimes
                    said = f"it waits for a person{': ' + why(entered, one) if why else ''}"
                else:
                    said = gate.reason(entered, left, one)
            except Exception as error:
                said = f"it gave no reason ({type(error).__name__}: {error})"
        return f"{gate.name} (version {gate.version}): {said}"


def chain_of(gate: Any) -> Chain:
    """Return what an instance was given as its gate as a chain.

    >>> chain_of(Open()) == chain_of([]) == Chain()
    True
    """
    if isinstance(gate, Chain | Open):
        return gate if isinstance(gate, Chain) else Chain()
    if isinstance(gate, list | tuple):
        return Chain(tuple(gate))
    _check_gate("gate: expected a gate, a list of gates, or [] to run ungated;", gate)
    return Chain((gate,))


def _check_gate(expected: str, gate: Any) -> None:
    """Refuse what is no gate; say where a person, a kernel or a class belongs."""
    if isinstance(gate, type):
        hint = f"; that is a class: write {gate.__name__}(…)"
    elif all(hasattr(gate, name) for name in ("name", "is_person", "is_hard", "apply", "expect")):
        return
    elif hasattr(gate, "apply") and hasattr(gate, "expect"):
        hint = f"; a person answers inside a gate: Approval(person={type(gate).__name__}(…))"
    elif hasattr(gate, "learn") and hasattr(gate, "expect"):
        hint = f"; it is what an approval learns: Approval(kernel={type(gate).__name__}(…))"
    else:
        hint = ""
    raise InvalidInput(f"{expected} got {gate!r}{hint}")


def _untouched(e: Array, n_gates: int) -> Verdict:
    """Return the verdict on proposals that no gate has seen yet."""
    n, d = e.shape
    if on_host(e):
        trail, statuses = np.empty((n, n_gates + 1, d)), np.zeros((n, n_gates), dtype=np.int8)
        status = np.zeros(n, dtype=np.int8)
        if e.flags.writeable:
            e = e.view()
            e.setflags(write=False)
    else:
        int8 = namespace(e).int8
        trail, statuses = zeros((n, n_gates + 1, d), e), zeros((n, n_gates), e, int8)
        status = zeros((n,), e, int8)
    trail[...] = e[:, None]
    return Verdict(e, status, trail, statuses, {})
