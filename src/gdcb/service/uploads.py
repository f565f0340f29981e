"""Logs that are uploaded: read in a process of their own, with limits on memory and time.

A few kilobytes of Parquet can stand for gigabytes, and a reader that asks for too much memory ends
its whole process. So the file is read by a child (this module, run with `-m`), which names the
columns, is told which of them are needed, and writes those to a file that is safe to read here.
"""

from __future__ import annotations

import asyncio
import codecs
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gdcb.errors import InvalidInput
from gdcb.history.files import LogFile, kind_of, plain_names

if TYPE_CHECKING:
    import polars as pl

COLUMNS = 1_000
ROWS = 1_000_000
NUMBERS = 20_000_000  # rows × numbers of the context, once categories are spread out
PRODUCTS = 2_000_000_000  # rows × those numbers squared: what a certificate multiplies
HEADER = 256 * 1024  # bytes of a CSV's first line
UNITS = 20_000  # different units, and different reviewers
LETTERS = 1_000  # bytes of one text
SIZE = 256 * 2**20  # bytes of all that is read: 16 a cell, and what its text takes
MEMORY = 2 * 2**30  # bytes of addresses of the child; a third of it is taken before it begins
SECONDS = 60.0
AT_ONCE = 2  # files that are read at the same time by one process of the service
_BATCH = 2**16
_FOLDER = "gdcb-upload-"
_LEFT = 3600.0  # seconds after which a folder belongs to a process that was killed
_START = 256  # bytes that tell text from what is packed
# What compressed files begin with: Polars would unpack them, whatever they are called.
_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"x\x01", b"x\x5e", b"x\x9c", b"x\xda")


@dataclass(frozen=True)
class Wanted:
    """What is to be read of a file.

    Parameters
    ----------
    needed : the columns that are read
    rows : how many there may be
    named : those of the columns that may have few different values: units and reviewers
    """

    needed: Sequence[str]
    rows: int = ROWS
    named: Sequence[str] = ()


Choose = Callable[[list[str]], Wanted]


@dataclass(frozen=True)
class Upload:
    """A log that was uploaded: all its names, and the columns that are needed.

    Parameters
    ----------
    name : what to call it in sentences
    names : of all columns that the file has
    data : the columns that are needed
    """

    name: str
    names: list[str]
    data: pl.DataFrame
    warnings: list[str] = field(default_factory=list)

    def columns(self) -> list[str]:
        """Names of the columns."""
        return self.names

    def agree(self, needed: Sequence[str]) -> None:
        """Refuse a name that two columns have."""
        for name in needed:
            if f"{name}_duplicated_0" in self.names:
                raise InvalidInput(f"{self.name}: two columns are named {name!r}")

    def count(self) -> int:
        """Return the number of rows."""
        return self.data.height

    def frames(self, columns: Sequence[str], batch_rows: int) -> Iterator[pl.DataFrame]:
        """Give some columns, so many rows at a time."""
        yield from self.data.select(plain_names(columns)).iter_slices(min(batch_rows, _BATCH))

    def head(self, n: int) -> pl.DataFrame:
        """Return the first rows of what was read."""
        return self.data.head(n)

    def distinct(self, column: str) -> pl.Series:
        """Return the different values of a column, as text."""
        from gdcb.history.cells import as_text

        return as_text(self.data[column].unique())

    def split(self) -> list[Upload]:
        """Return the whole: it is small."""
        return [self]


def read_upload(raw: bytes, suffix: str, choose: Choose) -> Upload:
    """Read a file in a child process; refuse what is beyond the limits.

    Parameters
    ----------
    raw, suffix : the file, and '.csv' or '.parquet'
    choose : names of all columns → what is to be read of them
    """
    import polars as pl

    from gdcb.history.layout import FAULT

    name = f"history{suffix}"
    with tempfile.TemporaryDirectory(prefix=_FOLDER) as folder:
        path, out = Path(folder) / name, Path(folder) / "read.arrow"
        try:
            if suffix == ".csv":
                _check_text(name, raw)
                if raw.startswith(_PACKED):  # with a mark of text Polars takes it for text, too
                    raw = codecs.BOM_UTF8 + raw
            path.write_bytes(raw)
            with _Child(path, out) as child:
                names = child.answer()["columns"]
                if FAULT in names:  # readers of logs say in it what is wrong with a row
                    said = f"expected no column called '{FAULT}'; rename or remove it"
                    raise InvalidInput(f"{name}: {said}")
                child.tell(asdict(choose(names)))
                child.answer()
            return Upload(name, names, pl.read_ipc(out.read_bytes()))
        except InvalidInput as error:  # where the file is for a moment is nobody's business
            raise type(error)(str(error).replace(str(path), name)) from error


def remove_left() -> None:
    """Remove uploads that a process left behind when it was killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):
        with suppress(OSError):
            if folder.stat().st_mtime < time.time() - _LEFT:
                shutil.rmtree(folder)


class Slots:
    """Who may upload now: one file at a time for each instance, and few of all of them are read.

    Attributes
    ----------
    free : held while a file is read, once it has come: a slow one keeps nobody else waiting
    """

    def __init__(self) -> None:
        self._names: set[str] = set()
        self.free = asyncio.Semaphore(AT_ONCE)

    @contextmanager
    def one(self, name: str) -> Iterator[None]:
        """Refuse a second file for an instance, from before the first has come until it is read."""
        from gdcb.service.line import Overloaded

        if name in self._names:
            raise Overloaded("history: another file is being read for this instance; wait for it")
        self._names.add(name)
        try:
            yield
        finally:
            self._names.discard(name)


def rows_for(width: int) -> int:
    """Return how many rows a log may have whose context has so many numbers.

    >>> rows_for(3), rows_for(1_000)
    (1000000, 2000)
    """
    width = max(width, 1)
    return min(ROWS, NUMBERS // width, PRODUCTS // width**2)


def _check_text(name: str, raw: bytes) -> None:
    """Refuse a CSV whose header is too long, before anything else reads it."""
    if raw.startswith(_PACKED) and not _is_text(raw):
        raise InvalidInput(f"{name}: expected plain text, got a compressed file; unpack it first")
    end = raw.find(b"\n", 0, HEADER)
    if end < 0 and len(raw) > HEADER:
        raise InvalidInput(f"{name}: expected a first line of at most {HEADER // 1024} KiB")
    header = raw[: end if end >= 0 else len(raw)]
    _check_columns(name, 1 + max(header.count(one) for one in (b",", b";", b"\t")))


def _is_text(raw: bytes) -> bool:
    r"""Return whether a file begins with text, as that of a column called 'x^2' does.

    >>> _is_text(b"x^2,price\n"), _is_text(b"x^\x8b\xd0")
    (True, False)
    """
    try:
        start = codecs.getincrementaldecoder("utf-8")().decode(raw[:_START])
    except UnicodeDecodeError:
        return False
    return all(sign.isprintable() or sign in "\t\r\n" for sign in start)


def _check_columns(name: str, n: int) -> None:
    if n > COLUMNS:
        raise InvalidInput(f"{name}: expected at most {COLUMNS:,} columns, got {n:,}")


class _Child:
    """The process that reads a file; it is gone when the block ends, or when its time is up."""

    def __init__(self, path: Path, out: Path) -> None:
        self._name = path.name
        alone = {"POLARS_MAX_THREADS": "1", "POLARS_ASYNC_THREAD_COUNT": "1"}
        alone |= {"MALLOC_ARENA_MAX": "1", "OPENBLAS_NUM_THREADS": "1", "RUST_BACKTRACE": "0"}
        alone["PYTHONPATH"] = os.pathsep.join(one for one in sys.path if one)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(path), str(out), f"{MEMORY}", f"{SECONDS}"],
            env=os.environ | alone,
            cwd=path.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        # A reader without memory may also wait for ever, so that time is limited here too.
        self._timer = threading.Timer(SECONDS, self._process.kill)
        self._timer.daemon = True

    def __enter__(self) -> _Child:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(OSError):  # what was not sent is lost with the process
                pipe.close()

    def tell(self, what: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):  # it is gone; its answer says so
            self._process.stdin.write(json.dumps(what).encode() + b"\n")
            self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise InvalidInput(_too_much(self._name))
        said: dict[str, Any] = json.loads(line)
        if "refused" in said:
            raise InvalidInput(said["refused"])
        return said


def _too_much(name: str) -> str:
    return (
        f"{name}: cannot be read with {MEMORY // 2**20:,} MiB of memory in {SECONDS:g} seconds; "
        "give fewer rows, or only the columns that are needed"
    )


def _read(path: str, out: str) -> None:
    """Name the columns, hear which are needed, and write those; what the child does."""
    import polars as pl

    name, file = Path(path).name, LogFile(path, kind_of(path))
    schema = file.schema
    _check_columns(name, len(schema))
    for column in schema:
        if len(column.encode()) > LETTERS:
            raise InvalidInput(f"{name}: expected names of columns of at most {LETTERS:,} bytes")
    _say({"columns": list(schema)})
    asked = json.loads(sys.stdin.readline())
    needed, most = plain_names(asked["needed"]), asked["rows"]
    texts = [one for one in needed if schema[one] in (pl.String, pl.Categorical, pl.Enum)]
    for column in needed:
        kind = schema[column]
        if kind.is_nested() or kind in (pl.Binary, pl.Object):
            raise InvalidInput(f"{name}: {column!r} holds {kind}; expected numbers, texts or times")
    if file.kind == "Parquet":
        _check_rows(name, file.count(), most)
    kept, rows, size = [pl.DataFrame(schema={one: schema[one] for one in needed})], 0, 0
    for frame in file.frames(needed, _BATCH):
        rows += frame.height
        size += 16 * frame.height * frame.width
        for column in texts:
            lengths = frame[column].cast(pl.String).str.len_bytes()
            if int(lengths.max() or 0) > LETTERS:  # type: ignore[arg-type]
                said = f"expected texts of at most {LETTERS:,} bytes, got a longer one"
                raise InvalidInput(f"{name}: {column!r}: {said}")
            size += int(lengths.sum())
        _check_rows(name, rows, most)
        if size > SIZE:
            said = f"expected at most {SIZE // 2**20} MiB in the columns that are read"
            raise InvalidInput(f"{name}: {said}")
        kept.append(frame)
    whole = pl.concat(kept)
    for column in asked["named"]:
        if whole[column].n_unique() > UNITS:
            said = f"expected at most {UNITS:,} different values, got more"
            raise InvalidInput(f"{name}: {column!r}: {said}")
    whole.write_ipc(out, compression="uncompressed")
    _say({"rows": rows})


def _check_rows(name: str, n: int, most: int) -> None:
    if n > most:
        why = "" if most == ROWS else " with so many numbers of the context"
        raise InvalidInput(f"{name}: expected at most {most:,} rows{why}, got more")


def _say(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def _confine(memory: int, seconds: float) -> None:
    """Limit what this process may take, and let others go first."""
    if sys.platform == "win32":  # it has no such limits; what is too large still ends only us
        return
    import resource

    os.nice(10)
    with suppress(OSError):  # Linux: where memory runs out, this process ends and no other
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    limits = {
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_CPU: math.ceil(seconds),
        resource.RLIMIT_FSIZE: 2 * SIZE,
        resource.RLIMIT_CORE: 0,
    }
    for what, most in limits.items():
        hard = resource.getrlimit(what)[1]
        if hard != resource.RLIM_INFINITY:
            most = min(most, hard)
        with suppress(ValueError, OSError):  # a system that does not know this limit
            resource.setrlimit(what, (most, most))


def main() -> None:
    """Read the file of the first argument into that of the second, within memory and seconds."""
    path, out, memory, seconds = sys.argv[1:]
    _confine(int(memory), float(seconds))
    try:
        _read(path, out)
    except InvalidInput as error:
        _say({"refused": str(error)})
    except MemoryError:
        _say({"refused": _too_much(Path(path).name)})


if __name__ == "__main__":
    main()
