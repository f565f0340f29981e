"""What runs where the proposal does not: one action for all rows, one a row, or by columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.service.policy import Policy, incumbent_of


def incumbents_of(policy: Policy, instance: Instance, given: Any, x: Array) -> Array | None:
    """Return the incumbent's actions (n, D) for contexts x (n, p); None: everything is live.

    What is given is checked also where the policy has no use for it: else a slip would show only
    on the day when the launch changes.

    Parameters
    ----------
    policy, instance : what is in force
    given : an action by name for all rows; a sequence of such, one a row; lists of n values by
        name; or None
    x : the contexts, encoded
    """
    checked = None if given is None else actions_of(instance, given, x.shape[0])
    if policy.launch.mode == "live":
        return None
    if checked is not None and policy.launch.incumbent == "given":
        return checked
    return incumbent_of(policy, instance, given, x)


def actions_of(instance: Instance, given: Any, n: int) -> Array:
    """Return n given actions (n, D); refuse them whole where one is wrong, and say which.

    Examples
    --------
    >>> from gdcb import ArmList, Instance, Multiply, Number, Schema
    >>> context, arms = Schema({"base": Number(1, 9)}), ArmList(values=(1.0,))
    >>> one = Instance(context, arms, Multiply(("base",)), gate=[])
    >>> name = one.actions[0].name
    >>> actions_of(one, {name: 7}, 2).tolist()
    [[7.0], [7.0]]
    >>> actions_of(one, [{name: 7}, {name: 8}], 2).tolist()
    [[7.0], [8.0]]
    >>> actions_of(one, {name: [7, 8]}, 2).tolist()
    [[7.0], [8.0]]
    """
    if isinstance(given, Mapping):
        if any(isinstance(values, list) for values in given.values()):
            return _by_columns(instance, given, n)
        return np.tile(encode_incumbent(instance, given), (n, 1))
    if isinstance(given, Sequence) and not isinstance(given, str):
        if len(given) != n:
            raise InvalidInput(f"incumbents: expected one a row ({n}), got {len(given)}")
        rows = [encode_incumbent(instance, one, f"incumbents.{i}") for i, one in enumerate(given)]
        return np.array(rows)
    return encode_incumbent(instance, given)


def encode_incumbent(instance: Instance, action: Any, where: str = "incumbent") -> Array:
    """Turn a named action into its columns (D,); what is refused is called by its place."""
    try:
        return instance.encode_action(action)
    except InvalidInput as error:
        raise type(error)(f"{where}{str(error).removeprefix('action')}") from error


def _by_columns(instance: Instance, given: Mapping[str, Any], n: int) -> Array:
    """Encode lists by name; the same as encoding the rows one by one."""
    where = "incumbent_columns"
    for name, values in given.items():
        if not isinstance(values, list) or len(values) != n:
            got = len(values) if isinstance(values, list) else "one value"
            raise InvalidInput(f"{where}.{name}: expected one value a row ({n}), got {got}")

    def check(i: int) -> Array:
        row = {name: values[i] for name, values in given.items()}
        return encode_incumbent(instance, row, where)

    check(0)  # the names
    columns = [_column(part.levels, given[part.name]) for part in instance.actions]
    known = [column for column in columns if column is not None]
    if len(known) < len(columns):
        return np.array([check(i) for i in range(n)])
    found = np.stack(known, axis=1)
    # What holds of the least and the largest holds of all between; NaN counts as the least.
    for i in {*found.argmin(axis=0).tolist(), *found.argmax(axis=0).tolist()}:
        check(i)
    return found


def _column(levels: tuple[str, ...], values: list[Any]) -> Array | None:
    """Encode one part of the actions; NaN: no such level; None: values that are of no use here."""
    kinds = set(map(type, values))
    if levels and kinds == {str}:
        place = {level: float(i) for i, level in enumerate(levels)}
        return np.array([place.get(value, np.nan) for value in values])
    if levels or not kinds <= {int, float}:
        return None
    try:
        return np.array(values, dtype=float)
    except OverflowError:
        return None
