"""Logs in the forms of other bandit libraries: obp's feedback dictionary, VW's dsjson lines.

Both name the action by its number among the arms. What ran is then what that arm composes under a
neutral δ: the scaler's before it has learned anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gdcb.arrays import Array
from gdcb.context import Category
from gdcb.errors import InvalidInput
from gdcb.history.cells import as_text
from gdcb.history.files import reading
from gdcb.history.frames import Frame, series_of
from gdcb.history.layout import FAULT, layout_of
from gdcb.history.rows import context_of
from gdcb.instance import Instance
from gdcb.log_columns import LogColumns

if TYPE_CHECKING:
    import polars as pl

LINES = (".dsjson", ".jsonl", ".ndjson", ".json")
_KEYS = ("n_rounds", "n_actions", "context", "action", "reward")


def is_feedback(given: Any) -> bool:
    """Return whether something is obp's dictionary of logged feedback."""
    return isinstance(given, Mapping) and "n_rounds" in given and "action" in given


def feedback_of(given: Mapping[str, Any], instance: Instance) -> Frame:
    """Return obp's feedback as a frame in the instance's own columns.

    Context columns stand in the order of the schema, one a column or one a level of a category.
    """
    import polars as pl

    missing = [key for key in _KEYS if given.get(key) is None]
    if missing:
        raise InvalidInput(f"feedback: missing {', '.join(missing)}")
    n, k = int(given["n_rounds"]), int(given["n_actions"])
    if k != instance.space.n:
        raise InvalidInput(
            f"feedback: it has {k} actions, the instance has {instance.space.n} arms"
        )
    arrays = {key: np.asarray(given[key]) for key in ("context", "action", "reward")}
    if given.get("pscore") is not None:
        arrays["pscore"] = np.asarray(given["pscore"])
    for key, array in arrays.items():
        if len(array) != n:
            raise InvalidInput(f"feedback.{key}: expected {n} rows, got {len(array)}")
    data = _context(np.atleast_2d(arrays["context"].astype(np.float64)), instance)
    arm, columns = arrays["action"], LogColumns()
    if arm.dtype.kind not in "iu" or arm.ndim != 1:
        raise InvalidInput("feedback.action: expected one whole number a round")
    known = (arm >= 0) & (arm < k)
    data[FAULT] = [None if ok else "no such arm" for ok in known]
    data[instance.reward.outcome[0]] = arrays["reward"].astype(np.float64)
    if "pscore" in arrays:
        data["propensity"] = arrays["pscore"].astype(np.float64)
    frame = _with_actions(pl.DataFrame(data), np.where(known, arm, 0), instance, columns)
    warnings = []
    position = given.get("position")
    if position is not None and len(np.unique(np.asarray(position))) > 1:
        warnings.append("The feedback has several positions; their rows are read as one log.")
    return Frame("obp feedback", frame, warnings)


def _context(values: Array, instance: Instance) -> dict[str, Any]:
    """Return context columns by name from columns in the order of the schema, or of x."""
    kinds = instance.context.columns
    data: dict[str, Any] = {}
    if values.shape[1] == len(kinds):
        for j, (name, kind) in enumerate(kinds.items()):
            column = values[:, j]
            if isinstance(kind, Category):
                whole = (column >= 0) & (column < len(kind.levels)) & (column == np.floor(column))
                data[name] = [
                    kind.levels[int(c)] if ok else f"{c:g}"
                    for c, ok in zip(column, whole, strict=True)
                ]
            else:
                data[name] = column
        return data
    if values.shape[1] != instance.context.width:
        raise InvalidInput(
            f"feedback.context: expected {len(kinds)} columns ({', '.join(kinds)}), got "
            f"{values.shape[1]}"
        )
    for name, kind in kinds.items():
        places = instance.context.positions[name]
        if isinstance(kind, Category):
            some = values[:, places]
            one = ((some == 1.0).sum(axis=1) == 1) & ((some == 0.0).sum(axis=1) == len(places) - 1)
            data[name] = [
                kind.levels[int(at)] if ok else "not one level"
                for at, ok in zip(some.argmax(axis=1), one, strict=True)
            ]
        else:
            data[name] = values[:, places[0]]
    return data


@dataclass(frozen=True)
class DecisionLines:
    """VW's dsjson: one decision a line, with `_label_cost`, `_label_probability` and `c`.

    reward = −cost. The shared features of `c` are the context: by their name, or by their path
    `namespace.name`. An action is the arm that its `_tag` names, or else the arm of its number.
    """

    path: str
    instance: Instance
    declared: LogColumns
    warnings: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The file."""
        return self.path

    def columns(self) -> list[str]:
        """Names of the columns that such a log has; a time only where its first lines say one."""
        with reading(self.path, "dsjson"), Path(self.path).open(encoding="utf-8") as file:
            some = [line for line in islice(file, 100) if line.strip()]
        frame = self._frame(some)
        return [c for c in frame.columns if c != "time" or frame[c].null_count() < len(some)]

    def agree(self, needed: Sequence[str]) -> None:
        """Do nothing: every line is read by itself."""

    def count(self) -> int:
        """Return the number of lines that are not empty."""
        return sum(frame.height for frame in self.frames([FAULT], 2**14))

    def frames(self, columns: Sequence[str], batch_rows: int) -> Iterator[pl.DataFrame]:
        """Read so many lines at a time."""
        with reading(self.path, "dsjson"):
            try:
                with Path(self.path).open(encoding="utf-8") as file:
                    lines = (line for line in file if line.strip())
                    while some := list(islice(lines, batch_rows)):
                        yield self._frame(some).select(columns)
            except UnicodeDecodeError as error:
                raise InvalidInput(f"{self.path}: not UTF-8 text ({error})") from error

    def head(self, n: int) -> pl.DataFrame:
        """Return the first rows."""
        return next(self.frames(self.columns(), n), self._frame([]))

    def distinct(self, column: str) -> pl.Series:
        """Return the different values of a column, as text."""
        import polars as pl

        found = [as_text(frame[column].unique()) for frame in self.frames([column], 2**14)]
        return pl.concat(found).unique() if found else pl.Series(column, [], dtype=pl.String)

    def split(self) -> list[DecisionLines]:
        """Return the whole."""
        return [self]

    def _frame(self, lines: Sequence[str]) -> pl.DataFrame:
        import polars as pl

        wanted = {
            name: self.declared.context.get(name, name) for name in self.instance.context.columns
        }
        outcome = self.declared.outcome or self.instance.reward.outcome
        rows = [self._row(line, wanted) for line in lines]
        data = [
            series_of(column, [row[0].get(column) for row in rows]) for column in wanted.values()
        ]
        data.append(series_of(outcome[0], [row[1] for row in rows]))
        data.append(series_of("propensity", [row[2] for row in rows]))
        data.append(series_of("time", [row[3] for row in rows]))
        data.append(pl.Series(FAULT, [row[5] for row in rows], dtype=pl.String))
        arm = np.array([row[4] for row in rows], dtype=np.int64)
        return _with_actions(pl.DataFrame(data), arm, self.instance, self.declared)

    def _row(self, line: str, wanted: Mapping[str, str]) -> tuple[Any, ...]:
        """Return context, reward, propensity, time, arm and fault of one line."""
        try:
            event = json.loads(line)
        except ValueError:
            return {}, None, None, None, 0, "not JSON"
        if not isinstance(event, dict) or not isinstance(event.get("c"), dict):
            return {}, None, None, None, 0, "no context 'c' in the line"
        keys = {key.lower(): value for key, value in event.items()}
        if keys.get("_skiplearn"):
            return {}, None, None, None, 0, "marked _skipLearn: the action was never activated"
        if keys.get("pdrop") and not self.warnings:
            self.warnings.append(
                "Rows were dropped before logging (pdrop); those that are left count once each."
            )
        arm, fault = self._arm(keys, event["c"])
        cost, chance = keys.get("_label_cost"), keys.get("_label_probability")
        if chance is None and isinstance(keys.get("p"), list) and keys["p"]:
            chance = keys["p"][0]  # the action that was taken stands first
        reward = -cost if isinstance(cost, int | float) else cost
        shared = _features(event["c"])
        context = {column: shared.get(column) for column in wanted.values()}
        return context, reward, chance, keys.get("timestamp"), arm, fault

    def _arm(self, keys: Mapping[str, Any], context: Mapping[str, Any]) -> tuple[int, str | None]:
        index = keys.get("_labelindex")
        if index is None:
            number = keys.get("_label_action")
            if number is None and isinstance(keys.get("a"), list) and keys["a"]:
                number = keys["a"][0]
            index = number - 1 if isinstance(number, int) else None
        actions = context.get("_multi")
        if not isinstance(index, int) or not isinstance(actions, list):
            return 0, "no action in the line (_labelIndex, _label_Action and c._multi)"
        if not 0 <= index < len(actions):
            return 0, "an action that is not among c._multi"
        arms = self.instance.space.names
        tag = actions[index].get("_tag") if isinstance(actions[index], dict) else None
        if tag in arms:
            return arms.index(tag), None
        if len(actions) != len(arms):
            return 0, f"as many actions as arms expected, {len(arms)}, or tags that name arms"
        return index, None


def _features(shared: Mapping[str, Any]) -> dict[str, Any]:
    """Return features by name and by path; a name that two namespaces share only by path.

    >>> _features({"User": {"age": 3}, "Geo": [{"age": 1}, {"land": "x"}], "_multi": []})
    {'User.age': 3, 'Geo.age': 1, 'Geo.land': 'x', 'land': 'x'}
    """
    found: dict[str, Any] = {}
    plain: dict[str, list[Any]] = {}

    def walk(value: Any, path: str, name: str) -> None:
        if isinstance(value, Mapping):
            for key, below in value.items():
                if not key.startswith("_"):
                    walk(below, f"{path}.{key}" if path else key, key)
        elif isinstance(value, list):
            for below in value:
                walk(below, path, name)
        elif path:
            found[path] = value
            plain.setdefault(name, []).append(value)

    walk(shared, "", "")
    once = {name: values[0] for name, values in plain.items() if len(values) == 1}
    return found | {name: value for name, value in once.items() if name not in found}


def _with_actions(
    frame: pl.DataFrame, arm: Array, instance: Instance, columns: LogColumns
) -> pl.DataFrame:
    """Add what these arms compose under a neutral δ, where the context can be read."""
    names = columns.action or tuple(part.name for part in instance.actions)
    action = np.full((frame.height, len(names)), np.nan)
    if frame.height:
        empty = {name: [None] * frame.height for name in names}
        layout = layout_of(instance, columns, [*frame.columns, *empty], "log")
        x = context_of(frame, layout)
        fine = np.isfinite(x).all(axis=1)
        some, scaler = x[fine], instance.scaler
        if len(some):
            zero = np.zeros(len(some), dtype=np.int64)
            delta = scaler.predict(scaler.init(1), zero, some)
            composed = instance.composition.compose(instance.space, delta, some)
            action[fine] = composed[np.arange(len(some)), arm[fine]]
    import polars as pl

    said = []
    for values, name, part in zip(action.T, names, instance.actions, strict=True):
        if part.levels:
            words = [None if np.isnan(at) else part.levels[int(at)] for at in values]
            said.append(pl.Series(name, words, dtype=pl.String))
        else:
            said.append(pl.Series(name, values).fill_nan(None))
    return frame.with_columns(said)
