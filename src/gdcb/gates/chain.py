"""g = g_G ∘ … ∘ g₁: gates in order, each failing closed, with the trail of what they did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.arrays import Array, is_all, is_any
from gdcb.errors import InvalidInput, ValuationError
from gdcb.gates.base import Gate, HardGate, Value, nothing
from gdcb.records import HELD, MODIFIED, NOT_REACHED, PASSED, VETOED, Rows, Verdict


@dataclass(frozen=True)
class Chain:
    """Gates in the order in which a proposal meets them; none at all is the open gate.

    A veto or a hold stops the proposal there. Where a person may put in a number of their own, a
    hard gate must close the chain, so that nothing runs that no limit has seen; `closed=False`
    waives it (the paper's bare approval).

    Both faces fail closed. A gate that raises, or answers with the wrong shape or an infinite
    action, vetoes the rows it fails on, with the reason in `Verdict.faults`; in `expect` those
    rows are worth the null action.
    """

    gates: tuple[Gate, ...] = ()
    closed: bool = True

    def __post_init__(self) -> None:
        names = [gate.name for gate in self.gates]
        if len(set(names)) != len(names):
            raise InvalidInput(f"gates: names must differ, got {', '.join(names)}")
        if self.closed and self.gates and not self.gates[-1].is_hard:
            raise InvalidInput(
                f"gates: '{names[-1]}' is a person and must be followed by a hard gate that "
                "closes the chain; add bounds, a cap or a policy, or say closed=False"
            )

    @property
    def has_person(self) -> bool:
        """Whether a person stands anywhere in the chain."""
        return any(gate.is_person for gate in self.gates)

    def draw(self, rng: Any, n: int) -> tuple[Array | None, ...]:
        """Draw for every gate and row, whether or not the row gets there."""
        return tuple(gate.draw(rng, n) for gate in self.gates)

    def init_kernels(self, n_units: int, n_groups: int, n_columns: int) -> tuple[Any, ...]:
        """Return what is believed of each gate before the first verdict."""
        return tuple(
            gate.init_kernel(n_units if gate.per == "unit" else n_groups, n_columns)
            for gate in self.gates
        )

    def apply(self, draws: tuple[Array | None, ...], e: Array, rows: Rows) -> Verdict:
        """Send proposals e (N, D) through all gates."""
        n, g = rows.n, len(self.gates)
        trail = np.empty((n, g + 1, e.shape[1]))
        trail[:, 0] = e
        gate, statuses = np.empty(n, dtype=np.int64), np.empty((n, g), dtype=np.int8)
        gate.fill(-1)
        statuses.fill(NOT_REACHED)
        verdict = Verdict(e, np.zeros(n, dtype=np.int8), gate, trail, statuses, {})
        if not is_all(np.isfinite(e)):
            lost = ~np.isfinite(e).all(axis=1)
            verdict.status[lost] = VETOED
            verdict.faults.update(
                {(int(i), -1): "the composed action is not finite" for i in np.flatnonzero(lost)}
            )
        return self._run(draws, verdict, rows, 0)

    def resume(
        self,
        draws: tuple[Array | None, ...],
        verdict: Verdict,
        rows: Rows,
        action: Array,
        status: int,
    ) -> Verdict:
        """Continue one held row (N = 1) behind the gate that held it, with its answer (D,)."""
        at = int(verdict.gate[0])
        if verdict.status[0] != HELD:
            raise InvalidInput("resume: the decision is not held")
        resumed = Verdict(
            action[None],
            np.array([status], dtype=np.int8),
            verdict.gate.copy() if status != PASSED else _last_gate(verdict.statuses, at),
            verdict.trail.copy(),
            verdict.statuses.copy(),
            dict(verdict.faults),
        )
        resumed.trail[:, at + 1] = action
        resumed.statuses[:, at] = status
        return self._run(draws, resumed, rows, at + 1)

    def _run(
        self, draws: tuple[Array | None, ...], verdict: Verdict, rows: Rows, start: int
    ) -> Verdict:
        e = verdict.action
        runs = verdict.status <= MODIFIED
        is_whole = is_all(runs)
        for i in range(start, len(self.gates)):
            left, status, faults = _guarded_apply(self.gates[i], draws[i], e, rows, runs)
            has_acted = is_any(status)
            if faults:
                verdict.faults.update({(row, i): text for row, text in faults.items()})
            if is_whole:
                e = left
                verdict.statuses[:, i] = status
            else:
                e = np.where(runs[:, None], left, np.nan)
                verdict.statuses[runs, i] = status[runs]
            if has_acted:
                acted = (status != PASSED) & runs
                verdict.status[acted] = status[acted]
                verdict.gate[acted] = i
                runs = verdict.status <= MODIFIED
                is_whole = is_all(runs)
            verdict.trail[:, i + 1] = e
            if not is_whole and not is_any(runs):
                verdict.trail[:, i + 2 :] = np.nan
                break
        verdict.action = e if is_whole else np.where(runs[:, None], e, np.nan)
        return verdict

    def expect(
        self, value: Value, e: Array, rows: Rows, kernels: tuple[Any, ...] | None = None
    ) -> Array:
        """Return the value of e (N, M, D) behind all gates: nested operators, first gate outside.

        `kernels` None asks for the truth (simulation); otherwise the learned estimates are used.
        """
        if not self.gates:
            return value(e)
        return _Behind(self.gates, kernels or (None,) * len(self.gates), 0, value, rows)(e)

    def moved(self, e: Array, rows: Rows) -> Array:
        """Return how far the hard gates would move each action, summed over them: (N, M)."""
        total = np.zeros(e.shape[:2])
        for gate in self.gates:
            if gate.is_hard:
                total += gate.moved(e, rows)
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
            gate.learn(
                kernel,
                owner,
                some,
                verdict.trail[seen, i],
                verdict.trail[seen, i + 1],
                status[seen],
            )

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
        fault = verdict.faults.get((row, at))
        if at < 0:
            return f"{fault}; vetoed" if fault else "every gate let it pass"
        gate = self.gates[at]
        if fault is None:
            one = rows.take(np.array([row]))
            if verdict.statuses[row, at] == HELD:
                fault = "it waits for a person"
            else:
                entered, left = verdict.trail[row, at], verdict.trail[row, at + 1]
                fault = gate.reason(entered, left, one)
        return f"{gate.name} (version {gate.version}): {fault}"


def _last_gate(statuses: Array, before: int) -> Array:
    """Return the last gate before `before` that changed the row, −1: none."""
    changed = np.flatnonzero(statuses[0, :before] == 1)
    return np.array([changed[-1] if changed.size else -1])


@dataclass(slots=True)
class _Behind:
    """The value of an action in front of gate `at`: what `expect` nests."""

    gates: tuple[Gate, ...]
    kernels: tuple[Any, ...]
    at: int
    value: Value
    rows: Rows

    def take(self, index: Array) -> _Behind:
        value, rows = self.value.take(index), self.rows.take(index)
        return _Behind(self.gates, self.kernels, self.at, value, rows)

    def __call__(self, e: Array) -> Array:
        gate = self.gates[self.at]
        if isinstance(gate, HardGate):
            try:
                left = gate.project(e, self.rows)
            except Exception:
                left = e[:0]
            if left.shape == e.shape:
                return self._behind()(left)
        if is_all(np.isfinite(e)):
            return self._open(e)
        # What was vetoed before this gate never reaches it: it is worth the null action.
        runs: Array = np.asarray(np.isfinite(e).all(axis=-1))
        some = np.take_along_axis(e, runs.argmax(axis=1)[:, None, None], axis=1)
        filled = np.where(runs[..., None], e, np.nan_to_num(some))
        return np.where(runs, self._open(filled), self.value(nothing(e)))

    def _behind(self) -> Value:
        if self.at + 1 == len(self.gates):
            return self.value
        return _Behind(self.gates, self.kernels, self.at + 1, self.value, self.rows)

    def _open(self, e: Array) -> Array:
        """Ask the gate for its operator, on actions that all may run."""
        behind = self._behind()
        gate, kernel = self.gates[self.at], self.kernels[self.at]
        try:
            return _checked(gate.expect(behind, e, self.rows, kernel), e)
        except ValuationError:
            raise
        except Exception:
            return np.concatenate([self._one(behind, e, i) for i in range(e.shape[0])])

    def _one(self, behind: Value, e: Array, i: int) -> Array:
        """Value one row by itself; where the gate raises even so, at the null action."""
        one = np.array([i])
        gate, kernel, here = self.gates[self.at], self.kernels[self.at], e[i : i + 1]
        try:
            return _checked(gate.expect(behind.take(one), here, self.rows.take(one), kernel), here)
        except ValuationError:
            raise
        except Exception:
            return np.repeat(self.value.take(one)(nothing(here)), e.shape[1], axis=1)


def _checked(worth: Array, e: Array) -> Array:
    if worth.shape != e.shape[:2] or is_any(np.isnan(worth)):
        raise InvalidInput(f"expect: expected {e.shape[:2]} numbers, got {worth!r}")
    return worth


def _guarded_apply(
    gate: Gate, draws: Array | None, e: Array, rows: Rows, runs: Array
) -> tuple[Array, Array, dict[int, str]]:
    """Apply one gate; where it raises or answers nonsense, veto those rows and say why."""
    faults: dict[int, str] = {}
    try:
        left, status = _answer(gate.apply(draws, e, rows), e)
    except Exception:
        left, status = np.full(e.shape, np.nan), np.full(e.shape[0], VETOED, dtype=np.int8)
        for i in np.flatnonzero(runs):
            one = slice(i, i + 1)
            some = None if draws is None else draws[one]
            try:
                row, said = _answer(gate.apply(some, e[one], rows.take(one)), e[one])
                left[i], status[i] = row[0], said[0]
            except Exception as error:
                faults[int(i)] = f"the gate raised {type(error).__name__}: {error}; vetoed"
    if not is_all(np.isfinite(left)):
        finite: Array = np.asarray(np.isfinite(left).all(axis=1))
        odd = ~finite & runs & (status <= MODIFIED)
        for i in np.flatnonzero(odd):
            faults[int(i)] = "the gate answered with an action that is not finite; vetoed"
        status = np.where(odd, VETOED, status).astype(np.int8)
        left = np.where(finite[:, None], left, np.nan)
    return left, status, faults


def _answer(answer: tuple[Array, Array], e: Array) -> tuple[Array, Array]:
    left, status = answer
    if left.shape != e.shape or status.shape != e.shape[:1]:
        raise InvalidInput(f"expected shapes {e.shape} and {e.shape[:1]}, got {left.shape}")
    if status.dtype != np.int8 or (is_any(status) and is_any(status.view(np.uint8) > HELD)):
        raise InvalidInput("a gate answers passed, modified, vetoed or held")
    return left, status
