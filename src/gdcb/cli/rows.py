"""Rows of a file as an instance reads them: contexts, names, and what the incumbent would do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gdcb.cli.say import fail
from gdcb.errors import InvalidInput

if TYPE_CHECKING:
    import polars as pl

    from gdcb.context import Kind
    from gdcb.instance import Instance

SHOWN = 5  # bad rows that are named
READ = (".csv", ".parquet")
_YES = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def read_frame(file: Path, content: bytes) -> pl.DataFrame:
    """Read a file; a CSV as text, since only the instance knows what its columns are."""
    import polars as pl

    try:
        if file.suffix.lower() == ".csv":
            frame = pl.read_csv(content, infer_schema=False)
        else:
            frame = pl.read_parquet(content)
    except (pl.exceptions.PolarsError, OSError, UnicodeDecodeError) as error:
        fail(f"{file}: cannot be read ({str(error).splitlines()[0]})")
    if not frame.height:
        fail(f"{file}: expected at least one row, got none")
    return frame


def contexts_of(instance: Instance, frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Return a frame's rows as contexts; refuse all where one is wrong, and name the first.

    Examples
    --------
    >>> import polars as pl
    >>> from gdcb import ArmList, Instance, Multiply, Number, Schema
    >>> context, arms = Schema({"base": Number(1, 9)}), ArmList(values=(1.0,))
    >>> one = Instance(context, arms, Multiply(("base",)), gate=[])
    >>> contexts_of(one, pl.DataFrame({"base": ["3", "12"]}))
    Traceback (most recent call last):
    gdcb.errors.InvalidInput: 1 of 2 rows is wrong, and nothing was decided: row 2:
    context.base: expected 1 to 9, got 12.0
    """
    columns = instance.context.columns
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise InvalidInput(f"expected columns {', '.join(columns)}; missing {', '.join(missing)}")
    read = {
        name: [_cell(kind, value) for value in frame[name].to_list()]
        for name, kind in columns.items()
    }
    rows = [dict(zip(read, values, strict=True)) for values in zip(*read.values(), strict=True)]

    def check(row: Mapping[str, Any]) -> None:
        for name, kind in columns.items():
            kind.encode(name, row[name])

    _check_all(rows, check)
    return rows


def _check_all(rows: Sequence[Any], check: Callable[[Any], object]) -> None:
    """Refuse rows of which some are wrong, and name the first of them."""
    wrong: dict[int, str] = {}
    for number, row in enumerate(rows, 1):
        try:
            check(row)
        except InvalidInput as error:
            wrong[number] = str(error)
    if wrong:
        said = "; ".join(f"row {number}: {what}" for number, what in list(wrong.items())[:SHOWN])
        more = f"; and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
        are = "is" if len(wrong) == 1 else "are"
        raise InvalidInput(
            f"{len(wrong)} of {len(rows)} rows {are} wrong, and nothing was decided: {said}{more}"
        )


def _cell(kind: Kind, value: Any) -> Any:
    """Read a cell as its column's kind; what cannot be is left for the schema to refuse."""
    from gdcb.context import Flag, Number

    if isinstance(kind, Number):
        return _number(value)
    if isinstance(kind, Flag) and not isinstance(value, bool):
        return _YES.get(str(value).strip().lower(), value)
    return value


def _number(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def texts_of(frame: pl.DataFrame, column: str) -> list[str] | None:
    """Return a column of names; None where there is no such column."""
    if column not in frame.columns:
        return None
    values = frame[column].to_list()
    empty = next((i for i, value in enumerate(values, 1) if value in (None, "")), None)
    if empty is not None:
        raise InvalidInput(f"row {empty}: {column} is empty; nothing was decided")
    return [str(value) for value in values]


# What the incumbent would do


def incumbent_columns(
    instance: Instance, frame: pl.DataFrame, named: Sequence[str]
) -> dict[str, str] | None:
    """Return which column holds which part of the incumbent's action; None: the file has none.

    Parameters
    ----------
    named : COLUMN where the action has one part, else ACTION=COLUMN for each; without any, the
        columns incumbent_ACTION, unless they are the context's
    """
    parts = [part.name for part in instance.actions]
    if named:
        found = dict(_named(parts, one) for one in named)
        if len(found) < len(named) or len(found) < len(parts):
            raise InvalidInput(
                f"--incumbent-column: expected a column for {', '.join(parts)} each, got "
                f"{', '.join(named)}"
            )
    else:
        usual = {part: f"incumbent_{part}" for part in parts}
        if not any(_is_free(instance, frame, column) for column in usual.values()):
            return None
        found = usual
    missing = [column for column in found.values() if column not in frame.columns]
    if missing:
        raise InvalidInput(f"--incumbent-column: there is no column {', '.join(missing)}")
    return found


def _is_free(instance: Instance, frame: pl.DataFrame, column: str) -> bool:
    """Whether a column is there, and not a field of the context that happens to have its name."""
    return column in frame.columns and column not in instance.context.columns


def _named(parts: Sequence[str], one: str) -> tuple[str, str]:
    part, sign, column = one.partition("=")
    if sign and part in parts:
        return part, column
    if len(parts) > 1:
        raise InvalidInput(
            f"--incumbent-column: expected ACTION=COLUMN, where ACTION is {' or '.join(parts)}; "
            f"got {one}"
        )
    return parts[0], one  # the column's own name may have an equals sign


def incumbents_of(
    instance: Instance, frame: pl.DataFrame, columns: Mapping[str, str]
) -> dict[str, list[Any]]:
    """Return the incumbent's actions, a column for each part; refuse all where one is wrong."""
    from gdcb.service.incumbents import encode_incumbent

    read = {
        part.name: [
            value if part.levels else _number(value)
            for value in frame[columns[part.name]].to_list()
        ]
        for part in instance.actions
    }
    rows = [dict(zip(read, values, strict=True)) for values in zip(*read.values(), strict=True)]
    _check_all(rows, lambda row: encode_incumbent(instance, row))
    return read
