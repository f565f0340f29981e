"""Batches column by column: checked and encoded without a loop over rows where that can be."""

from __future__ import annotations

from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.context import Category, Flag, Number
from gdcb.errors import InvalidInput, UnknownField
from gdcb.instance import Instance
from gdcb.records import STATUS
from gdcb.service.deciding import Answer
from gdcb.service.policy import Policy


def encode_columns(instance: Instance, columns: dict[str, list[Any]], n: int) -> Array:
    """Return contexts x (n, p) from named columns; the same as encoding the rows one by one."""
    schema = instance.context
    unknown = [name for name in columns if name not in schema.columns]
    missing = [name for name in schema.columns if name not in columns]
    if unknown:
        raise UnknownField(
            f"context: no column {unknown[0][:80]}; it has {', '.join(schema.columns)}"
        )
    if missing:
        raise InvalidInput(f"context: missing {', '.join(missing)}")
    x = np.empty((n, schema.width))
    for name, kind in schema.columns.items():
        at = schema.positions[name]
        x[:, at[0] : at[-1] + 1] = _column(name, kind, columns[name])
    return x


def _column(name: str, kind: Number | Flag | Category, values: list[Any]) -> Array:
    """Encode one column; where something is wrong, the row's own check says what."""
    kinds = set(map(type, values))
    if isinstance(kind, Number) and kinds <= {int, float}:
        try:
            column = np.array(values, dtype=float)
        except OverflowError:
            column = np.array([np.inf])
        if bool(((column >= kind.low) & (column <= kind.high) & np.isfinite(column)).all()):
            return column[:, None]
    elif isinstance(kind, Flag) and kinds == {bool}:
        return np.array(values, dtype=float)[:, None]
    elif isinstance(kind, Category) and kinds == {str}:
        place = {level: i for i, level in enumerate(kind.levels)}
        found = [place.get(value, -1) for value in values]
        if min(found) >= 0:
            return np.eye(len(kind.levels))[found]
    return np.array([kind.encode(name, value) for value in values])


def shown_columns(answer: Answer, policy: Policy) -> dict[str, list[Any]]:
    """Return an answer column by column."""
    instance, made, judged = answer.request.instance, answer.made, answer.judged
    rows = slice(answer.first, answer.first + len(answer.request.units))
    names = instance.space.names
    status = judged.status[rows]
    has_run = (status != STATUS.index("held")) & (
        True if policy.execution == "release" else status > STATUS.index("modified")
    )
    live: Any = np.ones(status.size, dtype=bool)
    if made.instead is not None:
        live = np.isnan(made.instead[rows]).any(axis=1)
    columns: dict[str, list[Any]] = {
        "id": made.id[rows],
        "status": [STATUS[code] for code in status.tolist()],
        "arm": [names[arm] for arm in made.arm[rows].tolist()],
        "live": live.tolist(),
        "has_run": has_run.tolist(),
        "reason": judged.reason[rows],
    }
    for i, action in enumerate(instance.actions):
        for word, values in (("proposed", made.action), ("action", judged.action)):
            columns[f"{word}.{action.name}"] = _values(action.levels, values[rows, i])
    return columns


def _values(levels: tuple[str, ...], values: Array) -> list[Any]:
    known = np.isfinite(values)
    if levels:
        return [levels[int(v)] if ok else None for v, ok in zip(values, known, strict=True)]
    if known.all():
        listed: list[Any] = values.tolist()
        return listed
    return [value if ok else None for value, ok in zip(values.tolist(), known, strict=True)]
