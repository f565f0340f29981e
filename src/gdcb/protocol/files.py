"""The files of a run: written whole or not at all, and the same bytes from the same records."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.protocol.record import Ground, Record
from gdcb.protocol.record_checks import check_record

EPISODES, SUMMARY, REPORT = "episodes.parquet", "summary.json", "report.html"

_ROWS = 100_000  # rows of a group: small enough to write in pieces, large enough to read fast


def prepare_folder(path: str | Path) -> Path:
    """Make a folder and try to write there, before the work, so that a bad one costs nothing."""
    folder = Path(path)
    probe = folder / f".probe-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except FileExistsError as error:
        raise InvalidInput(f"cannot write to {folder} (it is a file)") from error
    except OSError as error:
        raise InvalidInput(f"cannot write to {folder} ({error.strerror})") from error
    return folder


def write_text_whole(path: str | Path, text: str) -> None:
    """Write a text file whole, or leave the old one."""
    with _whole(Path(path)) as unfinished, unfinished.open("wb") as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())


def write_summary(path: str | Path, document: Mapping[str, Any]) -> None:
    """Write the document of a run as JSON, whole; NaN is refused."""
    write_text_whole(path, json.dumps(document, allow_nan=False, ensure_ascii=False) + "\n")


def write_episodes(
    path: str | Path, records: Mapping[str, Callable[[], Record]], ground: Ground
) -> None:
    """Write one row for every method, replicate (from 0) and episode (from 1), in this order.

    Columns: method, replicate, episode; regret and its parts calibration, bandit, gate and
    inherited; the same in the paper's order (paper_bandit, paper_calibration, paper_gate); reward,
    advantage, overridden, success, calibration_error, floor. What does not apply is null. Records
    are asked for one at a time, and each is written before the next: what is in memory does not
    grow with the number of methods.

    Parameters
    ----------
    path : the Parquet file; an old one stays until the new one is whole
    records : by key, in the order of the file, what returns the record
    ground : the gate floor
    """
    import polars as pl
    from polars.io.plugins import register_io_source

    if not records:
        raise InvalidInput("episodes: expected at least one method, got none")
    schema: dict[str, Any] = {
        "method": pl.Enum(list(records)),
        "replicate": pl.Int32,
        "episode": pl.Int32,
        **dict.fromkeys(_COLUMNS, pl.Float64),
    }

    def frames(*_: Any) -> Iterator[pl.DataFrame]:
        """Yield one frame a method; the questions of Polars' protocol are those of a filter."""
        n_episodes, n_replicates = ground.floor.shape
        n = n_episodes * n_replicates
        for key, ask in records.items():
            record = ask()
            check_record(key, record, ground)
            values = {name: _column(take(record, ground)) for name, take in _COLUMNS.items()}
            del record
            yield pl.DataFrame(
                {
                    "method": pl.repeat(key, n, dtype=schema["method"], eager=True),
                    "replicate": np.repeat(np.arange(n_replicates, dtype=np.int32), n_episodes),
                    "episode": np.tile(np.arange(1, n_episodes + 1, dtype=np.int32), n_replicates),
                    **values,
                },
                schema=schema,
                nan_to_null=True,
            )

    # An open file, not a name: where a record is refused, Polars may yet make the file of a name.
    with _whole(Path(path)) as unfinished, unfinished.open("wb") as file:
        register_io_source(frames, schema=schema).sink_parquet(
            file,
            compression="zstd",
            compression_level=1,
            row_group_size=_ROWS,
            maintain_order=True,
        )


# What each number of a row is, (T, R), taken from the record and the ground.
_COLUMNS: dict[str, Callable[[Record, Ground], Array]] = {
    "regret": lambda record, _: record.parts[..., 0],
    "calibration": lambda record, _: record.parts[..., 1],
    "bandit": lambda record, _: record.parts[..., 2],
    "gate": lambda record, _: record.parts[..., 3],
    "inherited": lambda record, _: _inherited(record),
    "paper_bandit": lambda record, _: record.parts_paper[..., 0],
    "paper_calibration": lambda record, _: record.parts_paper[..., 1],
    "paper_gate": lambda record, _: record.parts_paper[..., 2],
    "reward": lambda record, _: record.reward,
    "advantage": lambda record, _: record.advantage,
    "overridden": lambda record, _: record.overridden,
    "success": lambda record, _: record.success,
    "calibration_error": lambda record, _: record.error,
    "floor": lambda _, ground: ground.floor,
}


def _inherited(record: Record) -> Array:
    """Return the fifth column of the parts, or NaN where there is none."""
    has_it = record.parts.shape[2] > 4
    return record.parts[..., 4] if has_it else np.full(record.parts.shape[:2], np.nan)


def _column(values: Array) -> Array:
    """Return (T, R) as (R·T,), replicate by replicate."""
    return np.asarray(values, dtype=np.float64).T.ravel()


@contextlib.contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """Give a name to write under; it becomes `path` at the end, or goes if the writing failed."""
    unfinished = path.with_name(f".{path.name}.part")
    try:
        yield unfinished
        unfinished.replace(path)
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error}") from error
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
