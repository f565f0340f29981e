"""What callers hand to an agent, checked and put into order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from gdcb import events as ev
from gdcb.arrays import Array
from gdcb.credit import LARGEST_LABEL, LARGEST_WEIGHT
from gdcb.errors import InvalidInput, UnknownField
from gdcb.instance import LARGEST_ACTION, Instance
from gdcb.parts import check_choice, check_number, check_text, numbers

LOG_OF = "a price p is log(p / base)"  # what a label is that was meant as an action
_SHOWN = 12  # names in a sentence


class _Polars(Protocol):
    def to_dicts(self) -> list[dict[str, Any]]: ...


class _Pandas(Protocol):
    def to_dict(self, orient: Any) -> Any: ...


Frame = _Polars | _Pandas


def in_text(what: str, value: Any) -> str:
    """Say that names or ids are text, and how a number is written as one; nothing of text.

    >>> in_text("ids", 7), in_text("ids", "7")
    ("; ids are text: '7'", '')
    """
    return "" if isinstance(value, str) else f"; {what} are text: {str(value)!r}"


def mask_of(instance: Instance, mask: Any, n: int) -> Array | None:
    """Return the arms that a list of names allows: (n, K), or None for all."""
    if mask is None:
        return None
    names = instance.space.names
    if isinstance(mask, str) or not isinstance(mask, Sequence):
        raise InvalidInput(f"mask: expected a list of arm names, got {mask!r}")
    known = set(names)
    left = set(known)
    for name in mask:
        if not isinstance(name, str) or name not in known:
            there = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
            hint = in_text("names", name)
            raise UnknownField(f"mask: no arm {name!r}; there are {there}{hint}")
        if name not in left:
            raise InvalidInput(f"mask: expected each arm once, got {name!r} twice")
        left.discard(name)
    return np.tile([name not in left for name in names], (n, 1))


def outcome_of(instance: Instance, outcome: Any) -> list[float]:
    """Return a named outcome in the declared order."""
    names = instance.reward.outcome
    if not isinstance(outcome, Mapping) or set(outcome) != set(names):
        raise UnknownField(f"outcome: expected {', '.join(names)}; got {outcome!r}")
    values = []
    for name in names:
        value = outcome[name]
        plain = float(value) if isinstance(value, bool | np.bool_ | np.number) else value
        check_number(f"outcome.{name}", plain)
        values.append(float(plain))
    instance.reward.check(np.array([values]))
    return values


def label_of(
    instance: Instance, label: Any, is_recorded: bool = False
) -> list[float | None] | None:
    """Return the scaler's labels, None where one was not seen; None: no label at all.

    `is_recorded`: an old record may hold labels beyond today's limit of log δ, and must replay.
    """
    if label is None:
        return None
    n = instance.scaler.n_labels
    if isinstance(label, str) or not isinstance(label, Sequence) or len(label) != n:
        raise InvalidInput(f"label: expected {numbers(n)} in a list, got {label!r}")
    plain = [float(value) if isinstance(value, np.number) else value for value in label]
    most = None if is_recorded else instance.most_log
    for value in plain:
        if value is not None:
            check_number("label", value, -LARGEST_LABEL, LARGEST_LABEL)
            if most is not None and not least_log(most) <= value <= most:
                raise InvalidInput(f"label: {far_label(most)}, got {value:g}; {LOG_OF}")
    if all(value is None for value in plain):
        return None  # nothing was seen, which is no label
    return [None if value is None else float(value) for value in plain]


def far_label(most: float) -> str:
    """Say which labels are expected where they are log δ.

    >>> far_label(6.9078)
    'expected log δ between -20.7 and 6.9'
    """
    return f"expected log δ between {least_log(most):.1f} and {most:.1f}"


def least_log(most: float) -> float:
    """Return the smallest label where they are log δ.

    It may be far below 0: of a variance it is the logarithm of a square that may be nearly 0.
    """
    return -3.0 * most


def check_weight(weight: Any) -> None:
    """Refuse what no outcome can count; a huge one would leave the learners without numbers."""
    check_number("weight", weight, 0.0, LARGEST_WEIGHT)


def check_outcome(instance: Instance, event: ev.OutcomeObserved) -> None:
    """Refuse outcomes, labels or weights that nobody could have handed in."""
    names, n = instance.reward.outcome, len(event.id)
    shapes: list[tuple[str, Any, tuple[int, ...]]] = [
        ("outcome", event.outcome, (n, len(names))),
        ("weight", event.weight, (n,)),
    ]
    if event.label is not None:
        shapes.append(("label", event.label, (n, instance.scaler.n_labels)))
    for name, array, shape in shapes:
        if not isinstance(array, np.ndarray) or array.shape != shape:
            what = numbers(shape[1]) if len(shape) > 1 else "one number"
            raise InvalidInput(f"{name}: expected {what} for each of {n}, got {array!r}")
    for i in range(n):
        outcome_of(instance, dict(zip(names, event.outcome[i].tolist(), strict=True)))
        check_weight(float(event.weight[i]))
        if event.label is not None:
            values = event.label[i].tolist()
            label_of(instance, [None if np.isnan(value) else value for value in values], True)


def check_correction(instance: Instance, event: ev.OutcomeCorrected) -> None:
    """Refuse a correction without a reason, or to what cannot have come out."""
    names = instance.reward.outcome
    given: Any = event.outcome
    if not isinstance(given, list) or len(given) != len(names):
        raise InvalidInput(f"outcome: expected {numbers(len(names))}, got {given!r}")
    outcome_of(instance, dict(zip(names, given, strict=True)))
    check_text("by", event.by, may_be_empty=True)
    check_said("reason", event.reason, "say why the outcome was wrong")


def check_rollback(event: ev.RolledBack, n_events: int) -> None:
    """Refuse a way back to what never was, or one without a reason."""
    check_event_number("to", event.to, n_events)
    check_said("reason", event.reason, "say why the learners are put back")


def check_said(where: str, text: Any, what: str) -> None:
    """Refuse silence where words are asked for."""
    if not check_text(where, text, may_be_empty=True).strip():
        raise InvalidInput(f"{where}: {what}")


def check_verdict(verdict: Any, has_action: bool) -> None:
    """Refuse an answer that is none, and an action where it does not belong."""
    check_choice("verdict", verdict, ev.ANSWERS)
    if has_action != (verdict == "edit"):
        raise InvalidInput("action: give one with 'edit', and only there")


def check_review(instance: Instance, event: ev.Reviewed) -> None:
    """Refuse an answer to a held decision that no person could have given."""
    check_verdict(event.verdict, event.action is not None)
    if event.action is not None:
        _check_action(instance, event.action)
    check_text("by", event.by, may_be_empty=True)
    check_text("reason", event.reason, may_be_empty=True)


def _check_action(instance: Instance, action: Any) -> None:
    columns = instance.actions
    if not isinstance(action, list) or len(action) != len(columns):
        raise InvalidInput(f"action: expected {len(columns)} columns, got {action!r}")
    for column, value in zip(columns, action, strict=True):
        check_number(f"action.{column.name}", value, -LARGEST_ACTION, LARGEST_ACTION)
        if column.levels and value not in range(len(column.levels)):
            raise InvalidInput(
                f"action.{column.name}: expected 0 to {len(column.levels) - 1}, got {value!r}"
            )


def check_appeal(event: ev.AppealDecided) -> None:
    """Refuse an appeal without an end or without a reason."""
    if not isinstance(event.upheld, bool):
        raise InvalidInput(f"upheld: expected True or False, got {event.upheld!r}")
    check_text("by", event.by, may_be_empty=True)
    check_said("reason", event.reason, "say why the appeal ended so")


def check_drift(event: ev.DriftFound, n_events: int) -> None:
    """Refuse an alarm that no monitor could have given after so many events."""
    check_text("monitor", event.monitor)
    check_event_number("since", event.since, n_events)
    for name in ("before", "after", "log_e", "limit"):
        check_number(name, getattr(event, name))
    check_number("level", event.level, 0.0, 1.0, open_low=True)
    check_text("says", event.says)


def check_discount(instance: Instance, event: ev.EvidenceDiscounted, n_events: int) -> None:
    """Refuse a discount without a reason, of what cannot be discounted, or of the future."""
    check_number("factor", event.factor, 0.0, 1.0)
    check_event_number("since", event.since, n_events)
    check_said("reason", event.reason, "say why evidence is discounted")
    if event.gate is None:
        return
    gates = [gate.name for gate in instance.chain.gates]
    if event.gate not in gates:
        known = ", ".join(gates) or "none"
        raise UnknownField(f"gate: no gate {event.gate!r}; there are {known}")
    if event.factor != 0.0:
        raise InvalidInput(f"factor: a gate forgets all or nothing, give 0; got {event.factor!r}")


def check_event_number(where: str, value: Any, n_events: int) -> None:
    """Refuse what is not the number of an event so far, or of the next."""
    if type(value) is not int or not 0 <= value <= n_events:
        raise InvalidInput(f"{where}: expected an event 0 to {n_events}, got {value!r}")


def units_of(unit: Any, n: int) -> list[str]:
    """Return one unit a row."""
    if not isinstance(unit, str | Sequence):
        raise InvalidInput(f"unit: expected a name, or one a row, got {unit!r}")
    units = [unit] * n if isinstance(unit, str) else list(unit)
    if len(units) != n:
        raise InvalidInput(f"unit: expected {n} names, got {len(units)}")
    return [check_text("unit", one) for one in units]


def row_of(context: Any) -> Any:
    """Return one row by name: a mapping, a row of pandas, what has keys; anything else as it is."""
    if isinstance(context, Mapping) or hasattr(context, "to_dicts"):
        return context
    if hasattr(context, "to_dict"):  # of pandas: a row has one dimension, a frame two
        return context.to_dict() if getattr(context, "ndim", 0) == 1 else context
    if hasattr(context, "keys") and hasattr(context, "__getitem__"):
        names = context.keys()  # a database's row, say: no mapping, and not gone over by name
        return {name: context[name] for name in names}
    return context


def contexts_of(context: Any) -> list[Mapping[str, Any]]:
    """Return the rows of a list, a Polars frame or a pandas frame."""
    if hasattr(context, "to_dicts"):
        return list(context.to_dicts())
    if hasattr(context, "to_dict"):
        return list(context.to_dict("records"))
    if isinstance(context, Sequence) and not isinstance(context, str | bytes):
        return [row_of(one) for one in context]
    raise InvalidInput(
        f"context: expected named fields or rows of them, got {context!r}; for one row, give "
        "dict(row)"
    )


def allowed_arms(mask: Array | None, row: int) -> list[bool] | None:
    """Return the arms that a row allows; None: all of them, said or not."""
    if mask is None or mask[row].all():
        return None
    allowed: list[bool] = mask[row].tolist()
    return allowed
