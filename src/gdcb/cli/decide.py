"""`gdcb decide FILE --db URL`: decide a file of contexts on a ledger, without a server."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from gdcb.cli.batch import Columns, decided
from gdcb.cli.rows import READ, read_frame
from gdcb.cli.say import as_json, fail, notice, out, wrong_usage
from gdcb.cli.stores import open_ledger

if TYPE_CHECKING:
    import polars as pl

    from gdcb.ledger.store import Store

_WRITTEN = (".csv", ".parquet", ".json")


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
    incumbent_column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[ACTION=]COLUMN",
            help="Column with what runs where the proposal does not: shadow, holdback, ramp. "
            "Where an action has several parts, once for each, with ACTION=. By default "
            "incumbent_ACTION, such as incumbent_price.",
        ),
    ] = None,
    id: Annotated[
        str | None,
        typer.Option(
            "--id",
            help="Id of the request, and of its parts ID~1, ID~2, …; by default it follows from "
            "the file.",
        ),
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Where the answer goes: .csv, .parquet, .json."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Decide a file of contexts in one go: a nightly batch that needs no server.

    All rows are checked before any is decided: where one is wrong, none is. More rows than the
    instance takes at once (`service.batch`) go in parts, each whole or not at all; what stops the
    command between two leaves the first ones decided. The same file again is never decided twice:
    what was decided stays so, and the rest is decided now. The answer says how each row stands by
    now, so that the same command again shows what people have answered since. A server may run on
    the same ledger meanwhile.
    """
    if file.suffix.lower() not in READ:
        wrong_usage(f"expected a file that ends in {' or '.join(READ)}, got {file}")
    if target is not None and (target.suffix.lower() not in _WRITTEN or target.is_dir()):
        wrong_usage(f"--out: expected a file that ends in {', '.join(_WRITTEN)}, got {target}")
    if target is not None and not target.parent.is_dir():
        fail(f"--out: there is no folder {target.parent}")
    try:
        content = file.read_bytes()
    except OSError as error:
        fail(f"{file}: cannot be read ({error.strerror or error})")
    with open_ledger(db, to_read=False) as store:
        name = _instance(store, instance)
        frame = read_frame(file, content)
        digest = hashlib.sha256(name.encode() + b"\0" + content).hexdigest()[:24]
        columns = Columns(unit_column, subject_column, tuple(incumbent_column or ()))
        answer = decided(store, name, frame, id or f"file-{digest}", columns)
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


def _table(answer: Mapping[str, Any]) -> pl.DataFrame:
    """Return the decisions as a table, actions a column each."""
    import polars as pl

    decisions: Sequence[Mapping[str, Any]] = answer["decisions"]
    names = ("id", "unit", "status", "arm", "live")
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
    """Say how many were decided and how many wait now; beside the answer where that is printed."""
    n, n_held = len(answer["decisions"]), answer["held"]
    said = [f"{n:,} {'was' if n == 1 else 'were'} decided{'' if answer['is_new'] else ' before'}"]
    for key, became in (("let_through_since", "let through"), ("stopped_since", "stopped")):
        if since := answer[key]:
            was = "was" if since == 1 else "were"
            said.append(f"{since:,} waited for a person and {was} {became} since")
    if n_held:
        still = "" if answer["is_new"] else " still"
        said.append(f"{n_held:,}{still} {'waits' if n_held == 1 else 'wait'} for a person")
    words = f"{'; '.join(said)}."
    if answer["not_read"]:
        notice(f"not read: {', '.join(answer['not_read'])}")
    if target is None:
        notice(words)
    else:
        out.print(f"{words} The answer: [bold]{escape(str(target))}[/bold]", soft_wrap=True)
