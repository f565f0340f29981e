"""A made history of an instance as a log file, such as `gdcb check` reads: one replicate's past."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gdcb.arrays import Array
from gdcb.composition import ActionColumn
from gdcb.context import Category, Flag, Schema
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.instances.catalogue import Study
from gdcb.instances.past import Moment, generate
from gdcb.records import STATUS
from gdcb.streams import WORLD, Streams

if TYPE_CHECKING:
    import polars as pl


def made_log(study: Study, rows: int, seed: int = 0) -> pl.DataFrame:
    """Return the past of one replicate under the instance's own names.

    Columns: time (the number of the round), unit, every context column, recommended_… and the
    executed action (empty: nothing ran), status_GATE of every gate, the outcome, and the scaler's
    labels where it learns from labels.
    """
    import polars as pl

    domain = study.domain
    group = np.zeros(domain.units, dtype=np.int64)
    streams = Streams(seed, domain.units)
    state = domain.world.start(streams.at(WORLD, 0), group)
    frames: list[pl.DataFrame] = []

    def see(moment: Moment) -> None:
        columns = _columns(domain.instance, moment)
        taken = {name: _taken(values, moment.keep) for name, values in columns.items()}
        frames.append(pl.DataFrame({"time": [len(frames)] * moment.keep.size, **taken}))

    generate(
        domain.instance,
        domain.world,
        state,
        group,
        streams,
        rows=rows,
        incumbent=study.incumbent,
        watch=see,
    )
    return pl.concat(frames, how="vertical_relaxed")


def write_log(study: Study, path: Path, rows: int, seed: int = 0) -> int:
    """Write it as Parquet or CSV, by the file's ending; return how many rows it has."""
    frame = made_log(study, rows, seed)
    if path.suffix == ".parquet":
        frame.write_parquet(path)
    elif path.suffix == ".csv":
        frame.write_csv(path)
    else:
        raise InvalidInput(f"{path}: expected a name that ends in .parquet or .csv")
    return frame.height


def _taken(values: Any, keep: Array) -> Any:
    return [values[i] for i in keep.tolist()] if isinstance(values, list) else values[keep]


def _columns(instance: Instance, moment: Moment) -> dict[str, Any]:
    """Return all columns of one round, a value a unit."""
    rows, ran = moment.rows, ~moment.executed.is_null
    found: dict[str, Any] = {"unit": [str(unit) for unit in rows.unit.tolist()]}
    found |= decoded(instance.context, rows.x)
    every = np.ones(rows.n, dtype=bool)
    for i, column in enumerate(instance.actions):
        found[f"recommended_{column.name}"] = _action(column, moment.proposed[:, i], every)
        found[column.name] = _action(column, moment.executed.action[:, i], ran)
    for i, gate in enumerate(instance.chain.gates):
        codes = moment.verdict.statuses[:, i].tolist()
        found[f"status_{gate.name}"] = [STATUS[code] for code in codes]
    for i, name in enumerate(instance.reward.outcome):
        found[name] = moment.outcome[:, i]
    if moment.label is not None:
        n = moment.label.shape[1]
        names = ["label"] if n == 1 else [f"label_{i}" for i in range(n)]
        for i, name in enumerate(names):
            found[name] = [None if np.isnan(v) else v for v in moment.label[:, i].tolist()]
    return found


def decoded(schema: Schema, x: Array) -> dict[str, Any]:
    """Return context columns as people write them: numbers, true or false, names of levels."""
    found: dict[str, Any] = {}
    for name, kind in schema.columns.items():
        places = list(schema.positions[name])
        if isinstance(kind, Category):
            found[name] = [kind.levels[i] for i in x[:, places].argmax(axis=1).tolist()]
        elif isinstance(kind, Flag):
            found[name] = (x[:, places[0]] > 0.5).tolist()
        else:
            found[name] = x[:, places[0]]
    return found


def _action(column: ActionColumn, values: Array, ran: Array) -> list[Any]:
    """Return one column of an action, empty where nothing ran."""
    known = ran & np.isfinite(values)
    out: list[Any] = []
    for value, is_known in zip(values.tolist(), known.tolist(), strict=True):
        if not is_known:
            out.append(None)
        else:
            out.append(column.levels[int(value)] if column.levels else value)
    return out
