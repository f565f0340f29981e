"""A chain as tables that others read: decisions, events and reviews, each a Parquet file.

Files are written in pieces as the chain is read, so that memory does not grow with it. What is
exported ends at the head as it was at the start.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gdcb import declaration
from gdcb import events as ev
from gdcb.codec import from_body
from gdcb.declaration import Declaration
from gdcb.errors import InvalidInput, UnknownInstance
from gdcb.ledger import export_tables as tables
from gdcb.ledger.store import Store

if TYPE_CHECKING:
    import polars as pl

Progress = Callable[[str, int, int], None]
ROWS = 20_000
# How a statement about the columns of a log begins.
_HISTORY = re.compile(r"""\s*\[?\s*(history|"history"|'history')\s*[].=]""")
FILES = ("decisions.parquet", "events.parquet", "reviews.parquet", "instance.toml")


def export_chain(
    store: Store,
    chain: str,
    folder: Path,
    *,
    force: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write one chain into a folder; return how many rows each table has.

    Parameters
    ----------
    folder : made by this call. One that is there is refused, unless `force`: then the files of an
        export in it are replaced, and nothing else is touched
    progress : hears which table is written, and how many entries of how many are read

    Notes
    -----
    `instance.toml` is the declaration in force, with a table `[history]` that says which column is
    what: `gdcb check FOLDER/decisions.parquet --instance FOLDER/instance.toml` reads it back.
    """
    head = store.head(chain)
    if not head.size:
        raise UnknownInstance(f"no instance '{chain}' in this ledger")
    declared, text = declared_at(store, chain, head.size)
    if folder.exists() and not force:
        raise InvalidInput(f"out: {folder} exists already; name another folder, or give --force")
    unfinished = folder.parent / f".{folder.name}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        unfinished.mkdir(parents=True)
        counts = _tables(store, chain, head.size, declared, unfinished, progress)
        (unfinished / FILES[3]).write_text(_with_history(text, declared), encoding="utf-8")
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            (unfinished / name).replace(folder / name)
    except OSError as error:
        raise InvalidInput(f"out: cannot write to {folder} ({error.strerror})") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return {"chain": chain, "entries": head.size, "head": head.hash.hex(), "rows": counts}


def declared_at(store: Store, chain: str, size: int) -> tuple[Declaration, str]:
    """Return the declaration in force after so many entries, and its text."""
    text = ""
    for entry in store.read(chain, 0, size):
        if entry.kind == "InstanceChanged":
            event = from_body(entry.kind, entry.body)
            text = event.declaration if isinstance(event, ev.InstanceChanged) else text
    if not text:
        raise UnknownInstance(f"no instance '{chain}' in this ledger")
    return declaration.parse(text, is_recorded=True), text


def _tables(
    store: Store,
    chain: str,
    size: int,
    declared: Declaration,
    folder: Path,
    progress: Progress | None,
) -> dict[str, int]:
    from polars.io.plugins import register_io_source

    asked = (store, chain, size)
    makers: dict[str, tuple[dict[str, Any], Callable[[], tables.Rows]]] = {
        FILES[0]: (tables.decision_schema(declared), lambda: tables.decisions(*asked, declared)),
        FILES[1]: (tables.event_schema(), lambda: tables.events(*asked)),
        FILES[2]: (tables.review_schema(declared), lambda: tables.reviews(*asked, declared)),
    }
    counts: dict[str, int] = {}
    for name, (schema, rows) in makers.items():
        counts[name] = 0

        def batches(
            _columns: Any,
            _predicate: Any,
            _rows: Any,
            _batch: Any,
            name: str = name,
            schema: dict[str, Any] = schema,
            rows: Callable[[], tables.Rows] = rows,
        ) -> Iterator[pl.DataFrame]:
            for frame in _frames(rows(), schema, lambda at: _told(progress, name, at, size)):
                counts[name] += frame.height
                yield frame

        register_io_source(batches, schema=schema).sink_parquet(
            folder / name, compression="zstd", compression_level=1, maintain_order=True
        )
    return counts


def _told(progress: Progress | None, name: str, at: int, size: int) -> None:
    if progress is not None:
        progress(name, at, size)


def _frames(
    rows: tables.Rows,
    schema: dict[str, Any],
    heard: Callable[[int], None],
) -> Iterator[pl.DataFrame]:
    """Yield rows in frames of some thousands; an empty table is one empty frame."""
    import polars as pl

    waiting: list[dict[str, Any]] = []
    for at, row in rows:
        waiting.append(row)
        if len(waiting) >= ROWS:
            heard(at)
            yield pl.DataFrame(waiting, schema=schema)
            waiting = []
    yield pl.DataFrame(waiting, schema=schema)


def _with_history(text: str, declared: Declaration) -> str:
    """Return a declaration with the table that names the columns of `decisions.parquet`.

    One that it had names the columns of the log that the instance came from.
    """
    text = _without_history(text)
    instance = declared.instance
    names = [one.name for one in instance.actions]
    columns = {
        "action": [f"executed_{name}" for name in names],
        "recommended": [f"entered_{name}" for name in names],
        "outcome": [f"outcome_{name}" for name in instance.reward.outcome],
        "status": [f"status_{gate.name}" for gate in instance.chain.gates],
    }
    lines = [f"{name} = {_listed(found)}" for name, found in columns.items() if found]
    renamed = {k: v for k, v in tables.context_columns(declared).items() if k != v}
    if renamed:
        pairs = ", ".join(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in renamed.items())
        lines.append(f"context = {{ {pairs} }}")
    lines += ['reviewer = "reviewer"', 'unit = "unit"', 'time = "at"']
    note = "# The columns of decisions.parquet, for `gdcb check`."
    return "\n".join([text.rstrip(), "", note, "[history]", *lines, ""])


def _without_history(text: str) -> str:
    """Take the table of a log's columns out of a declaration, and leave the rest as it stands."""
    data = declaration.read_toml(text, is_recorded=True)
    rest = {name: value for name, value in data.items() if name != "history"}
    lines, first = text.replace("\r\n", "\n").rstrip("\n").split("\n"), 0
    while first < len(lines):
        after = _after_history(lines, first, rest) if _HISTORY.match(lines[first]) else None
        if after is None:
            first += 1
        else:
            lines[first:] = after
    if "history" in declaration.read_toml("\n".join(lines), is_recorded=True):
        raise InvalidInput("history: expected a table [history], got one that cannot be told apart")
    return "\n".join(lines)


def _after_history(lines: list[str], first: int, rest: dict[str, Any]) -> list[str] | None:
    """Return what follows the statement that begins at a line; None where none does.

    It ends where all else in the file says the same without it: a value may have many lines.
    """
    for last in range(first + 1, len(lines) + 1):
        try:
            found = declaration.read_toml("\n".join(lines[:first] + lines[last:]), is_recorded=True)
        except InvalidInput:
            continue
        if {name: value for name, value in found.items() if name != "history"} == rest:
            # Comments up to the next gap are about the same.
            after = last
            while after < len(lines) and lines[after].lstrip().startswith("#"):
                after += 1
            is_gap = after == len(lines) or not lines[after].strip()
            return lines[after if is_gap else last :]
    return None


def _listed(names: list[str]) -> str:
    return "[" + ", ".join(json.dumps(name, ensure_ascii=False) for name in names) + "]"
