"""`gdcb decide FILE --db URL`: decide a file of contexts on a ledger, without a server."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from gdcb.cli.say import as_json, fail, notice, out, wrong_usage
from gdcb.errors import GdcbError, InvalidInput

if TYPE_CHECKING:
    import polars as pl

    from gdcb.context import Kind
    from gdcb.instance import Instance
    from gdcb.ledger.store import Store
    from gdcb.service.desk import Desk

BY = "command line [console]"
SHOWN = 5  # bad rows that are named
_READ = (".csv", ".parquet")
_WRITTEN = (".csv", ".parquet", ".json")
_YES = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def decide(
    file: Annotated[Path, typer.Argument(help="Contexts, a row each: CSV or Parquet.")],
    db: Annotated[
        str, typer.Option("--db", metavar="URL", help="The ledger: a path, or postgresql://….")
    ],
    instance: Annotated[
        str | None, typer.Option("--instance", help="Needed where the ledger has several.")
    ] = None,
    unit_column: Annotated[
        str, typer.Option(help="Column that says whose learner decides; 'default' without it.")
    ] = "unit",
    subject_column: Annotated[
        str, typer.Option(help="Column that says whom a row is about, for personal fields.")
    ] = "subject",
    id: Annotated[
        str | None,
        typer.Option("--id", help="Id of the request; by default it follows from the file."),
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Where the answer goes: .csv, .parquet, .json."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Decide a file of contexts in one go: a nightly batch that needs no server.

    All rows are decided or, where one is wrong, none. The same file again is answered with what
    was decided the first time. A server may run on the same ledger meanwhile.
    """
    if file.suffix.lower() not in _READ:
        wrong_usage(f"expected a file that ends in {' or '.join(_READ)}, got {file}")
    if target is not None and (target.suffix.lower() not in _WRITTEN or target.is_dir()):
        wrong_usage(f"--out: expected a file that ends in {', '.join(_WRITTEN)}, got {target}")
    if target is not None and not target.parent.is_dir():
        fail(f"--out: there is no folder {target.parent}")
    try:
        content = file.read_bytes()
    except OSError as error:
        fail(f"{file}: cannot be read ({error.strerror or error})")
    with _store(db) as store:
        name = _instance(store, instance)
        frame = _frame(file, content)
        digest = hashlib.sha256(name.encode() + b"\0" + content).hexdigest()[:24]
        answer = _decided(store, name, frame, id or f"file-{digest}", unit_column, subject_column)
    if target is not None:
        try:
            _write(target, answer)
        except OSError as error:
            fail(
                f"--out: {target} cannot be written ({error.strerror or error}); ask again with it"
            )
    if json:
        as_json(answer)
        return
    if target is None:
        typer.echo(_table(answer).write_csv(), nl=False)
    _say(answer, target)


def _instance(store: Store, wanted: str | None) -> str:
    chains = store.chains()
    if not chains:
        fail("this ledger is empty: it has no instance; `gdcb serve FILE.toml` declares one")
    if wanted is None and len(chains) > 1:
        wrong_usage(f"--instance: say which one, of {', '.join(chains)}")
    if wanted is not None and wanted not in chains:
        fail(f"no instance '{wanted}' in this ledger; there are {', '.join(chains)}")
    return wanted or chains[0]


@contextmanager
def _store(url: str) -> Iterator[Store]:
    """Open a ledger that is there; what it refuses is said in a sentence."""
    from gdcb.ledger import open_store

    path = url.removeprefix("sqlite:///") if url.startswith("sqlite:///") else url
    if url == "memory:":
        wrong_usage("--db: expected a SQLite file or a postgresql:// URL, got 'memory:'")
    if "://" not in path and not Path(path.partition("?")[0]).is_file():
        fail(f"no ledger at {path}")
    try:
        store = open_store(url)
    except InvalidInput as error:
        wrong_usage(f"--db: {error}")
    except GdcbError as error:
        fail(str(error))
    try:
        yield store
    except GdcbError as error:
        fail(str(error))
    finally:
        store.close()


# Contexts in


def _frame(file: Path, content: bytes) -> pl.DataFrame:
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
    >>> one = Instance(Schema({"base": Number(1, 9)}), ArmList(values=(1.0,)), Multiply(("base",)))
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
    wrong: dict[int, str] = {}
    for number, row in enumerate(rows, 1):
        try:
            for name, kind in columns.items():
                kind.encode(name, row[name])
        except InvalidInput as error:
            wrong[number] = str(error)
    if wrong:
        said = "; ".join(f"row {number}: {what}" for number, what in list(wrong.items())[:SHOWN])
        more = f"; and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
        are = "is" if len(wrong) == 1 else "are"
        raise InvalidInput(
            f"{len(wrong)} of {len(rows)} rows {are} wrong, and nothing was decided: {said}{more}"
        )
    return rows


def _cell(kind: Kind, value: Any) -> Any:
    """Read a cell as its column's kind; what cannot be is left for the schema to refuse."""
    from gdcb.context import Flag, Number

    if isinstance(kind, Number) and isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    if isinstance(kind, Flag) and not isinstance(value, bool):
        return _YES.get(str(value).strip().lower(), value)
    return value


def _texts(frame: pl.DataFrame, column: str) -> list[str] | None:
    """Return a column of names; None where there is no such column."""
    if column not in frame.columns:
        return None
    values = frame[column].to_list()
    empty = next((i for i, value in enumerate(values, 1) if value in (None, "")), None)
    if empty is not None:
        raise InvalidInput(f"row {empty}: {column} is empty; nothing was decided")
    return [str(value) for value in values]


# Decisions out


def _decided(
    store: Store, name: str, frame: pl.DataFrame, id: str, unit_column: str, subject_column: str
) -> dict[str, Any]:
    """Decide all rows, as many at once as the instance takes; return the answer's document."""
    from gdcb.service import deciding
    from gdcb.service.desk import Desk

    units = _texts(frame, unit_column)
    if units is None and unit_column != "unit":
        raise InvalidInput(f"--unit-column: there is no column {unit_column}")
    desk: Desk = Desk(store, name)
    try:
        instance, policy = desk.instance, desk.policy
        subjects = _texts(frame, subject_column) if policy.personal else None
        if policy.personal and subjects is None:
            personal = ", ".join(policy.personal)
            raise InvalidInput(
                f"--subject-column: there is no column {subject_column}, and {personal} is personal"
            )
        rows, size = contexts_of(instance, frame), policy.batch
        starts = range(0, len(rows), size)
        # All parts are checked before any is decided.
        wanted = [
            deciding.request_of(
                instance,
                policy,
                id if len(starts) == 1 else f"{id}-{part}",
                rows[start : start + size],
                False,
                BY,
                "default" if units is None else units[start : start + size],
                subject=None if subjects is None else subjects[start : start + size],
            )
            for part, start in enumerate(starts, 1)
        ]
        answers = [desk.put(deciding.job(request)).result() for request in wanted]
        decisions = [row for answer in answers for row in deciding.answer_rows(answer, policy)]
    finally:
        desk.close()
    known = {*instance.context.columns, unit_column, subject_column}
    return {
        "instance": name,
        "requests": [request.id for request in wanted],
        "is_new": any(answer.is_new for answer in answers),
        "held": sum(row["status"] == "held" for row in decisions),
        "not_read": [column for column in frame.columns if column not in known],
        "decisions": decisions,
    }


def _table(answer: Mapping[str, Any]) -> pl.DataFrame:
    """Return the decisions as a table, actions a column each."""
    import polars as pl

    decisions: Sequence[Mapping[str, Any]] = answer["decisions"]
    names = ("id", "unit", "status", "arm")
    table: dict[str, list[Any]] = {name: [row[name] for row in decisions] for name in names}
    for word in ("proposed", "action"):
        columns = dict.fromkeys(key for row in decisions for key in row["proposed"] or ())
        for column in columns:
            table[f"{word}_{column}"] = [(row[word] or {}).get(column) for row in decisions]
    table["reason"] = [row["reason"] for row in decisions]
    return pl.DataFrame(table, infer_schema_length=None)


def _write(target: Path, answer: Mapping[str, Any]) -> None:
    """Write the answer whole or not at all."""
    import json

    part = target.with_name(f"{target.name}.part")
    suffix = target.suffix.lower()
    if suffix == ".json":
        part.write_text(json.dumps(answer, indent=2, allow_nan=False), encoding="utf-8")
    elif suffix == ".csv":
        _table(answer).write_csv(part)
    else:
        _table(answer).write_parquet(part)
    part.replace(target)


def _say(answer: Mapping[str, Any], target: Path | None) -> None:
    """Say how many were decided and how many wait; beside the answer where that is printed."""
    n, n_held = len(answer["decisions"]), answer["held"]
    decided = "was decided" if n == 1 else "were decided"
    before = "" if answer["is_new"] else " before, and the answer is the same"
    waits = "1 waits for a person" if n_held == 1 else f"{n_held:,} wait for a person"
    said = f"{n:,} {decided}{before}; {waits}." if n_held else f"{n:,} {decided}{before}."
    if answer["not_read"]:
        notice(f"not read: {', '.join(answer['not_read'])}")
    if target is None:
        notice(said)
    else:
        out.print(f"{said} The answer: [bold]{escape(str(target))}[/bold]", soft_wrap=True)
