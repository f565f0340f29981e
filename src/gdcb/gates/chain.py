"""g = g_G ∘ … ∘ g₁: gates in order, each failing closed, with the trail of what they did."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gdcb.arrays import Array, is_all, is_any
from gdcb.errors import InvalidInput, ValuationError
from gdcb.gates.base import Gate, HardGate, Value, nothing
from gdcb.records import HELD, MODIFIED, NOT_REACHED, PASSED, VETOED, Rows, Verdict


@dataclass(frozen=True)
class Chain:
    """Gates in the order in which a proposal meets them; none at all is the open gate.

    A veto or a hold stops the proposal there. A gate limits what reaches it, not what later gates
    make of it: a limit that must hold in the end stands at the end. Where a person may put in a
    number of their own, a hard gate must close the chain, so that nothing runs that no limit has
    seen; `closed=False` waives it (the paper's bare approval).

    Both faces fail closed. A gate that raises, or answers with the wrong shape or an infinite
    action, vetoes the rows it fails on, with the reason in `Verdict.faults`; in `expect` those
    rows are worth the null action.
    """

    gates: tuple[Gate, ...] = ()
    closed: bool = True
    has_person: bool = field(init=False, repr=False, compare=False)
    _plain: tuple[HardGate | None, ...] = field(init=False, repr=False, compare=False)
    _is_plain: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for gate in self.gates:
            if isinstance(gate, type) or not hasattr(gate, "expect"):
                raise InvalidInput(f"gates: expected gates, got {gate!r}")
        plain = tuple(_as_plain(gate) for gate in self.gates)
        object.__setattr__(self, "has_person", any(gate.is_person for gate in self.gates))
        object.__setattr__(self, "_plain", plain)
        object.__setattr__(self, "_is_plain", all(p is not None and p.keeps_nan for p in plain))
        names = [gate.name for gate in self.gates]
        if len(set(names)) != len(names):
            raise InvalidInput(f"gates: names must differ, got {', '.join(names)}")
        if self.closed and self.gates and not self.gates[-1].is_hard:
            raise InvalidInput(
                f"gates: '{names[-1]}' is a person and must be followed by a hard gate that "
                "closes the chain; add bounds, a cap or a policy, or say closed=False"
            )

    def draw(self, rng: Any, n: int) -> tuple[Any, ...]:
        """Draw for every gate and row, whether or not the row gets there.

        A gate that cannot draw gets its own exception, and vetoes in `apply`.
        """
        if self._is_plain:
            return (None,) * len(self.gates)
        return tuple([_guarded_draw(gate, rng, n) for gate in self.gates])

    def init_kernels(self, n_units: int, n_groups: int, n_columns: int) -> tuple[Any, ...]:
        """Return what is believed of each gate before the first verdict."""
        return tuple(
            gate.init_kernel(n_units if gate.per == "unit" else n_groups, n_columns)
            for gate in self.gates
        )

    def apply(self, draws: tuple[Any, ...], e: Array, rows: Rows) -> Verdict:
        """Send proposals e (N, D) through all gates."""
        n, g = rows.n, len(self.gates)
        trail, statuses = np.empty((n, g + 1, e.shape[1])), np.zeros((n, g), dtype=np.int8)
        if e.flags.writeable:
            e = e.view()
            e.flags.writeable = False
        trail[...] = e[:, None]
        verdict = Verdict(e, np.zeros(n, dtype=np.int8), trail, statuses, {})
        is_whole = is_all(np.isfinite(e))
        if not is_whole:
            lost = ~np.isfinite(e).all(axis=1)
            verdict.status[lost] = VETOED
            for row in np.flatnonzero(lost):
                verdict.faults[int(row), -1] = "the composed action is not finite"
        return self._run(draws, verdict, rows, 0, is_whole)

    def resume(
        self, draws: tuple[Any, ...], verdict: Verdict, rows: Rows, action: Array, status: int
    ) -> Verdict:
        """Continue one held row (N = 1) behind the gate that held it, with its answer (D,)."""
        if verdict.status[0] != HELD:
            raise InvalidInput("resume: the decision is not held")
        at = int(verdict.gate[0])
        trail, statuses = verdict.trail.copy(), verdict.statuses.copy()
        trail[:, at + 1 :], statuses[:, at], statuses[:, at + 1 :] = action, status, PASSED
        so_far = status if status > MODIFIED else int(max(statuses[0, : at + 1]))
        whole = np.array([so_far], dtype=np.int8)
        resumed = Verdict(action[None], whole, trail, statuses, dict(verdict.faults))
        return self._run(draws, resumed, rows, at + 1, so_far <= MODIFIED)

    def _run(
        self, draws: tuple[Any, ...], verdict: Verdict, rows: Rows, start: int, is_whole: bool
    ) -> Verdict:
        """Go through the gates from `start` on; `is_whole`: no row has stopped so far."""
        e = verdict.action
        for i in range(start, len(self.gates)):
            gate, plain = self.gates[i], self._plain[i]
            if is_whole and plain is not None and _leaves_alone(plain, e, rows):
                if e is not verdict.action:  # else they read so already
                    verdict.statuses[:, i], verdict.trail[:, i + 1] = PASSED, e
                continue
            runs = verdict.status <= MODIFIED
            if not is_any(runs):
                verdict.trail[:, i + 1 :] = np.nan
                verdict.statuses[:, i:] = NOT_REACHED
                break
            left, status, faults = _guarded_apply(gate, draws[i], e, rows, runs)
            verdict.faults.update({(row, i): text for row, text in faults.items()})
            e = np.where(runs[:, None], left, np.nan)
            e.flags.writeable = False
            verdict.statuses[:, i] = np.where(runs, status, NOT_REACHED)
            acted = (status != PASSED) & runs
            verdict.status[acted] = status[acted]
            verdict.trail[:, i + 1] = e
            is_whole = is_all(verdict.status <= MODIFIED)
        if not is_whole:
            e = np.where((verdict.status <= MODIFIED)[:, None], e, np.nan)
        verdict.action = e
        return verdict

    def expect(
        self, value: Value, e: Array, rows: Rows, kernels: tuple[Any, ...] | None = None
    ) -> Array:
        """Return the value of e (N, M, D) behind all gates: nested operators, first gate outside.

        `kernels` None asks for the truth (simulation); otherwise the learned estimates are used.
        """
        if self._is_plain:
            left = _projected(self._plain, e, rows)
            if left is not None:
                return value(left)
        known = kernels or (None,) * len(self.gates)
        return _behind(self, known, 0, value, rows)(e)

    def moved(self, e: Array, rows: Rows) -> Array:
        """Return how far the hard gates would move each action, summed over them: (N, M)."""
        total = np.zeros(e.shape[:2])
        for gate in self.gates:
            if gate.is_hard:
                total += _guarded_moved(gate, e, rows)
        return total

    def learn(self, kernels: tuple[Any, ...], rows: Rows, verdict: Verdict, start: int = 0) -> None:
        """Teach every learned gate from `start` on what it did.

        Held and unreached rows say nothing, nor does a fault: it is no verdict of the person's.
        """
        for i, (gate, kernel) in enumerate(zip(self.gates, kernels, strict=True)):
            if kernel is None or i < start:
                continue
            status = verdict.statuses[:, i]
            seen = (status != NOT_REACHED) & (status != HELD)
            for row, at in verdict.faults:
                seen[row] &= at != i
            if not seen.any():
                continue
            some = rows.take(seen)
            owner = some.unit if gate.per == "unit" else some.group
            entered, left = verdict.trail[seen, i], verdict.trail[seen, i + 1]
            try:
                gate.learn(kernel, owner, some, entered, left, status[seen])
            except Exception as error:  # what it cannot learn must not undo a decision
                text = f"gate '{gate.name}' could not learn: {type(error).__name__}: {error}"
                warnings.warn(text, RuntimeWarning, stacklevel=2)

    def overridden(self, verdict: Verdict) -> Array:
        """Return the rows that run another action than proposed because a person said so."""
        changed = np.zeros(verdict.status.shape, dtype=bool)
        for i, gate in enumerate(self.gates):
            if gate.is_person:
                changed |= (verdict.statuses[:, i] == MODIFIED) & (verdict.status == MODIFIED)
        return changed

    def reason(self, verdict: Verdict, rows: Rows, row: int) -> str:
        """Say why this row ended as it did, in a sentence with the rule and its version."""
        at = int(verdict.gate[row])
        said = verdict.faults.get((row, at))
        if at < 0 and said is None:
            return "every gate let it pass" if self.gates else "there is no gate"
        if at < 0:
            return f"{said}; vetoed"
        gate = self.gates[at]
        if said is None and verdict.statuses[row, at] == HELD:
            said = "it waits for a person"
        elif said is None:
            entered, left = verdict.trail[row, at], verdict.trail[row, at + 1]
            try:
                said = gate.reason(entered, left, rows.take(np.array([row])))
            except Exception as error:
                said = f"it gave no reason ({type(error).__name__}: {error})"
        return f"{gate.name} (version {gate.version}): {said}"


def _behind(chain: Chain, kernels: tuple[Any, ...], at: int, value: Value, rows: Rows) -> Value:
    """Return the value of actions in front of gate `at`."""
    return value if at == len(chain.gates) else _Behind(chain, kernels, at, value, rows)


@dataclass(slots=True)
class _Behind:
    """The value of an action in front of gate `at`: what `expect` nests."""

    chain: Chain
    kernels: tuple[Any, ...]
    at: int
    value: Value
    rows: Rows

    def take(self, index: Array) -> _Behind:
        value, rows = self.value.take(index), self.rows.take(index)
        return _Behind(self.chain, self.kernels, self.at, value, rows)

    def __call__(self, e: Array) -> Array:
        if self.at > 0 and not is_all(np.isfinite(e)):  # as in `apply`: infinite is nothing
            e = np.where(np.isfinite(e), e, np.nan)
        plain = self.chain._plain[self.at]
        if plain is not None and plain.keeps_nan:
            left = _projected((plain,), e, self.rows)
            if left is not None:
                rest = (self.kernels, self.at + 1, self.value, self.rows)
                return _behind(self.chain, *rest)(left)
        if is_all(np.isfinite(e)):
            return self._open(e)
        # What was vetoed before this gate never reaches it: it is worth the null action.
        runs: Array = np.asarray(np.isfinite(e).all(axis=-1))
        some = np.take_along_axis(e, runs.argmax(axis=1)[:, None, None], axis=1)
        filled = np.where(runs[..., None], e, np.nan_to_num(some))
        return np.where(runs, self._open(filled), self.value(nothing(e)))

    def _open(self, e: Array) -> Array:
        """Ask the gate for its operator, on actions that all may run."""
        behind = _behind(self.chain, self.kernels, self.at + 1, self.value, self.rows)
        gate, kernel = self.chain.gates[self.at], self.kernels[self.at]
        try:
            return _checked(gate.expect(behind, e, self.rows, kernel), e)
        except ValuationError:
            raise
        except Exception:
            return np.concatenate([self._one(behind, e, i) for i in range(e.shape[0])])

    def _one(self, behind: Value, e: Array, i: int) -> Array:
        """Value one row by itself; where the gate raises even so, at the null action."""
        one = np.array([i])
        gate, kernel, here = self.chain.gates[self.at], self.kernels[self.at], e[i : i + 1]
        try:
            return _checked(gate.expect(behind.take(one), here, self.rows.take(one), kernel), here)
        except ValuationError:
            raise
        except Exception:
            return np.repeat(self.value.take(one)(nothing(here)), e.shape[1], axis=1)


def _checked(worth: Array, e: Array) -> Array:
    if worth.shape != e.shape[:2] or not is_all(np.isfinite(worth)):
        raise InvalidInput(f"expect: expected {e.shape[:2]} numbers, got {worth!r}")
    return worth


def _as_plain(gate: Gate) -> HardGate | None:
    """Return a gate that is its projection and nothing else: only there `project` speaks for it."""
    names = ("apply", "expect", "draw")
    if not isinstance(gate, HardGate):
        return None
    kind: Any = type(gate)
    return gate if all(getattr(kind, n) is getattr(HardGate, n) for n in names) else None


def _projected(gates: tuple[HardGate | None, ...], e: Array, rows: Rows) -> Array | None:
    """Return e behind some plain gates, or None where one raises or answers nonsense."""
    left = e
    try:
        for i, gate in enumerate(gates):
            if gate is not None:
                if i > 0 and not is_all(np.isfinite(left)):  # as in `apply`: infinite is nothing
                    left = np.where(np.isfinite(left), left, np.nan)
                left = gate.project(left, rows)
    except Exception:
        return None
    return left if left.shape == e.shape else None


def _leaves_alone(gate: HardGate, e: Array, rows: Rows) -> bool:
    """Whether a hard gate surely lets every row pass as it is; anything else is looked into."""
    try:
        left = gate.project(e[:, None, :], rows)[:, 0]
        return left.shape == e.shape and is_all(left == e)
    except Exception:
        return False


def _guarded_draw(gate: Gate, rng: Any, n: int) -> Any:
    try:
        return gate.draw(rng, n)
    except Exception as error:
        return error


def _guarded_moved(gate: Gate, e: Array, rows: Rows) -> Array:
    """Ask a gate how far it moves; where it raises, infinitely far."""
    try:
        return gate.moved(e, rows)
    except Exception:
        if e.shape[0] == 1:
            return np.full(e.shape[:2], np.inf)
        index = [np.array([i]) for i in range(e.shape[0])]
        return np.concatenate([_guarded_moved(gate, e[i], rows.take(i)) for i in index])


def _guarded_apply(
    gate: Gate, draws: Any, e: Array, rows: Rows, runs: Array
) -> tuple[Array, Array, dict[int, str]]:
    """Apply one gate; where it raises or answers nonsense, veto those rows and say why."""
    faults: dict[int, str] = {}
    try:
        left, status = _answer(gate, draws, e, rows)
    except Exception:
        left, status = np.full(e.shape, np.nan), np.full(e.shape[0], VETOED, dtype=np.int8)
        for i in np.flatnonzero(runs):
            one = slice(i, i + 1)
            some = draws[one] if isinstance(draws, np.ndarray) else draws
            try:
                row, said = _answer(gate, some, e[one], rows.take(one))
                left[i], status[i] = row[0], said[0]
            except Exception as error:
                faults[int(i)] = f"the gate raised {type(error).__name__}: {error}; vetoed"
    odd = ~np.isfinite(left).all(axis=1) & runs & (status <= MODIFIED)
    if is_any(odd):
        for i in np.flatnonzero(odd):
            faults[int(i)] = "the gate answered with an action that is not finite; vetoed"
        status = np.where(odd, VETOED, status).astype(np.int8)
    return np.where((status <= MODIFIED)[:, None], left, np.nan), status, faults


def _answer(gate: Gate, draws: Any, e: Array, rows: Rows) -> tuple[Array, Array]:
    if isinstance(draws, Exception):
        raise draws
    left, status = gate.apply(draws, e, rows)
    if left.shape != e.shape or status.shape != e.shape[:1]:
        raise InvalidInput(f"expected shapes {e.shape} and {e.shape[:1]}, got {left.shape}")
    if status.dtype.kind not in "iu" or is_any((status < PASSED) | (status > HELD)):
        raise InvalidInput("a gate answers with whole numbers: passed, modified, vetoed or held")
    status = status.astype(np.int8)
    passed = status == PASSED
    if is_any(passed):
        changed = passed & (left != e).any(axis=1)
        status = np.where(changed, MODIFIED, status).astype(np.int8)
    return left, status
