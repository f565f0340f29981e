"""What a gate is, and what it promises of what it lets through."""

from __future__ import annotations

import numpy as np

from gdcb.arrays import Array
from gdcb.checks.base import (
    bytes_of,
    require,
    require_described,
    require_finite,
    require_frozen,
    require_same_bytes,
    require_shape,
)
from gdcb.checks.gates.case import ACTIONS, GateCase
from gdcb.checks.ground import stream
from gdcb.errors import InvalidInput
from gdcb.records import HELD, MODIFIED, PASSED, VETOED, Rows

# Beyond 1e4, the largest of the numbers that gates are tried with otherwise.
_FAR = (1e4, 1e6, 1e12)


def settings_are_frozen(case: GateCase) -> None:
    """Its settings cannot be set, and are plain data."""
    require_frozen(case.gate)
    require_described(case.gate)


def declares_what_it_is(case: GateCase) -> None:
    """Name and version are text, `per` names owners, and it says if it is hard, or a person."""
    for name in ("name", "version"):
        value = getattr(case.gate, name, None)
        require(isinstance(value, str) and value, f"{name}: expected text, got {value!r}")
    require(case.gate.per in ("unit", "group"), f"per: got {case.gate.per!r}")
    for name in ("is_hard", "is_person"):
        value = getattr(case.gate, name, None)
        require(isinstance(value, bool), f"{name}: expected true or false, got {value!r}")
    both = case.gate.is_hard and case.gate.is_person
    require(not both, "it is a person, and a known function")


def it_says_what_it_cannot_judge(case: GateCase) -> None:
    """Whatever columns an action has, `check` takes it or refuses it with InvalidInput."""
    for columns in (case.columns, *ACTIONS):
        try:
            case.gate.check(columns)
        except InvalidInput:
            continue
        except Exception as error:
            names = ", ".join(column.name for column in columns)
            text = f"expected InvalidInput, it raised {type(error).__name__}: {error}"
            require(False, f"`check` of an action ({names}): {text}")


# What it lets through


def a_status_says_what_left(case: GateCase) -> None:
    """Proposals that passed left as they entered, modified ones otherwise, and no others left."""
    _require_told(case, case.actions(60, 1)[:, 0], case.rows(60))


def _require_told(case: GateCase, e: Array, rows: Rows) -> None:
    left, status = case.apply(e, rows)
    require_shape(left, e.shape, "what left")
    require_shape(status, (rows.n,), "status")
    require(status.dtype.kind in "iu", f"status: expected whole numbers, got {status.dtype}")
    known = np.isin(status, (PASSED, MODIFIED, VETOED, HELD))
    require(known.all(), f"status: expected passed, modified, vetoed or held, got {status}")
    finite: Array = np.asarray(np.isfinite(left).all(axis=1))
    same: Array = np.asarray((left == e).all(axis=1))
    require(same[status == PASSED].all(), "passed, and another action left than entered")
    changed = (finite & ~same)[status == MODIFIED]
    require(changed.all(), "modified, and what left is the same or no action at all")
    require((~finite)[status > MODIFIED].all(), "vetoed or held, and something left")


def proposals_are_left_alone(case: GateCase) -> None:
    """Proposals are read-only, and neither they nor the rows are written to."""
    rows, e = case.rows(12), case.actions(12, 4)
    before = bytes_of(rows), e.tobytes()
    case.apply(e[:, 0], rows)
    case.gate.expect(case.worth(rows), e, rows)
    case.gate.moved(e, rows)
    require(bytes_of(rows) == before[0], "the rows were changed")
    require(e.tobytes() == before[1], "the proposals were changed")


def nothing_in_is_nothing_out(case: GateCase) -> None:
    """Where nothing enters (NaN) a hard gate lets nothing out, and no other row notices."""
    rows, e = case.rows(12), case.actions(12, 1)[:, 0]
    expected = case.apply(e, rows)
    holed = e.copy()
    holed[[2, 7]] = np.nan
    left, status = case.apply(holed, rows)
    others = np.setdiff1d(np.arange(12), [2, 7])
    require_same_bytes(left[others], expected[0][others], "what left beside NaN")
    require_same_bytes(status[others], expected[1][others], "status beside NaN")
    if case.gate.is_hard:
        require(np.isnan(left[[2, 7]]).any(axis=1).all(), "NaN entered, and an action left")
        require((status[[2, 7]] == VETOED).all(), "NaN entered, and the status is not 'vetoed'")


def draws_are_made_for_every_row(case: GateCase) -> None:
    """Random numbers have the rows first, a row has its own, and a key gives the same again."""
    draws = case.gate.draw(stream(), 12)
    if draws is None:
        require(
            case.gate.is_hard or case.gate.draw(stream(), 3) is None, "draws for some rows only"
        )
        return
    require(isinstance(draws, np.ndarray), f"expected an array, got {type(draws).__name__}")
    require(draws.shape[:1] == (12,), f"expected 12 rows, got {draws.shape}")
    require_same_bytes(case.gate.draw(stream(), 12), draws, "two draws of one key")
    require_same_bytes(case.gate.draw(stream(), 5), draws[:5], "draws of fewer rows")


def rows_stand_alone(case: GateCase) -> None:
    """Rows alone meet the gate as they did among all rows, to the bit, in both its faces."""
    rows, e, some = case.rows(12), case.actions(12, 4), np.array([9, 2, 3])
    draws = case.gate.draw(stream(), 12)
    few = None if draws is None else draws[some]
    left, status = case.gate.apply(draws, e[:, 0], rows)
    alone = case.gate.apply(few, e[some, 0], rows.take(some))
    require_same_bytes(alone[0], left[some], "what left of some rows alone")
    require_same_bytes(alone[1], status[some], "status of some rows alone")
    value = case.worth(rows)
    whole = case.gate.expect(value, e, rows)
    part = case.gate.expect(value.take(some), e[some], rows.take(some))
    require_same_bytes(part, whole[some], "the operator on some rows alone")


def the_operator_is_the_average(case: GateCase) -> None:
    """On average 4,000 goes through `apply` are worth what `expect` says.

    |z| < 6 in each of 16 cells, a false alarm below 1e-7; the seed is fixed. A row in which a
    proposal was held says nothing yet.
    """
    _require_average(case, case.actions(16, 1), case.rows(16))


def _require_average(case: GateCase, e: Array, rows: Rows) -> None:
    n, times = rows.n, 4_000
    expected = case.gate.expect(case.worth(rows), e, rows)
    require_shape(expected, (n, 1), "the operator")
    require_finite(expected, "the operator")
    many = np.repeat(np.arange(n), times if case.gate.draw(stream(), 1) is not None else 1)
    left, status = case.apply(e[many, 0], rows.take(many))
    worth = case.worth(rows).take(many)(left[:, None])[:, 0].reshape(n, -1)
    known = ~(status == HELD).reshape(n, -1).any(axis=1)
    error = worth.std(axis=1) / worth.shape[1] ** 0.5
    gap = np.abs(worth.mean(axis=1) - expected[:, 0])[known]
    bad = gap > 6.0 * error[known] + 1e-9
    require(not bad.any(), f"`apply` and `expect` differ by {gap.max(initial=0.0):.3g}")


def what_passed_passes_again(case: GateCase) -> None:
    """Hard gates leave alone what they let through, unless they say `is_idempotent = False`."""
    _require_idempotent(case, case.actions(60, 1)[:, 0], case.rows(60))


def _require_idempotent(case: GateCase, e: Array, rows: Rows) -> None:
    if not getattr(case.gate, "is_idempotent", case.gate.is_hard):
        return
    left, status = case.apply(e, rows)
    runs = status <= MODIFIED
    if not runs.any():
        return
    left.flags.writeable = False
    again, after = case.apply(left[runs], rows.take(runs))
    require((after == PASSED).all(), "what it had let through it changed again")
    require_same_bytes(again, left[runs], "what left the second time")


def far_numbers_are_judged_too(case: GateCase) -> None:
    """Numbers of ±1e6 and ±1e12 meet the same gate, and a hard one does not open again out there.

    Status, operator and idempotence hold as they do for other numbers. Where a hard gate vetoes
    a number or moves it by more than a hundredth, it does not let one of the same sign pass that
    is larger still, all other columns being the same.
    """
    numbers = [j for j, column in enumerate(case.columns) if not column.levels]
    rows = case.rows(8)
    for j in numbers:
        for sign in (-1.0, 1.0):
            is_closed = np.zeros(rows.n, dtype=bool)
            for size in _FAR:
                e = case.actions(rows.n, 1).copy()
                e[..., j] = sign * size
                e.flags.writeable = False
                _require_told(case, e[:, 0], rows)
                _require_average(case, e, rows)
                _require_idempotent(case, e[:, 0], rows)
                if not case.gate.is_hard:
                    continue
                left, status = case.apply(e[:, 0], rows)
                reopened = is_closed & (status == PASSED)
                require(not reopened.any(), f"{sign * size:g} passes, and a smaller number did not")
                with np.errstate(invalid="ignore"):
                    is_near = np.abs(left[:, j] - e[:, 0, j]) <= 0.01 * size
                is_closed |= ~is_near  # NaN is not near: a veto


def moved_says_how_far(case: GateCase) -> None:
    """How far it moves actions is no less than 0; for hard gates 0 exactly where they pass."""
    rows, e = case.rows(12), case.actions(12, 4)
    moved = case.gate.moved(e, rows)
    require_shape(moved, (12, 4), "moved")
    require((moved >= 0).all(), f"moved: expected numbers >= 0, got {moved.min()}")
    if case.gate.is_hard:
        for j in range(4):
            _, status = case.apply(e[:, j], rows)
            agrees = (moved[:, j] == 0) == (status == PASSED)
            require(agrees.all(), "moved is 0 where it acts, or more where it lets pass")


def a_reason_is_a_sentence(case: GateCase) -> None:
    """Reasons are one line of text, whatever became of a proposal."""
    rows, e = case.rows(30), case.actions(30, 1)[:, 0]
    left, status = case.apply(e, rows)
    for i in range(30):
        if status[i] != HELD:
            said = case.gate.reason(e[i], left[i], rows.take(np.array([i])))
            is_line = isinstance(said, str) and said.strip() and "\n" not in said
            require(is_line, f"expected a sentence, got {said!r}")
