"""What a run has finished so far, on disk: whole parts or none, and no report before the end.

While a run is under way its folder holds `.parts`: a manifest of the settings, and a file for
every finished task. The report appears when all is done, and `.parts` goes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.protocol.record import Ground, Record
from gdcb.protocol.task import BLOCK, GROUND, Settings, Task
from gdcb.records import flatten, to_bytes

# The result, in the order in which it appears: what people open comes last.
FINAL = ("episodes.parquet", "summary.json", "report.html")
PARTS = ".parts"
FORMAT = 3
_OURS = re.compile(r"b\d+-\w+\.npz(\.tmp)?|manifest\.json(\.tmp)?|lock")
# The axis of replicates; None: the same in every block.
_AXIS = {
    "recommended": 0,
    "executed": 0,
    "overrides": 0,
    "measures": 0,
    "certificates": 0,
    "edges": None,
}


class Store:
    """The folder of a run; use it in a `with` block, which keeps other runs out of the folder.

    Without `resume` a run starts afresh: what an unfinished one left is discarded. Either way an
    older result goes when the run begins, so that nobody takes it for this run's.

    Parameters
    ----------
    folder : where `FINAL` will be; made if it is not there
    settings : what the result depends on
    resume : whether to go on with the unfinished run in the folder
    about : digests of what else the result hangs on, by a noun in the plural

    Attributes
    ----------
    notices : sentences about what was found there, for people
    """

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        resume: bool = False,
        about: Mapping[str, str] | None = None,
    ) -> None:
        self.folder, self.settings, self.resume = folder, settings, resume
        self.notices: list[str] = []
        self._parts = folder / PARTS
        self._manifest = self._parts / "manifest.json"
        self._digests = dict(about or {})
        self._about = _about(settings) | self._digests
        self._digest = hashlib.sha256(json.dumps(self._about).encode()).digest()
        self._lock: int | None = None

    def __enter__(self) -> Store:
        """Take the folder; refuse to resume what is not the same run."""
        with self._writing():
            if self.resume and not self._manifest.exists() and self._finals():
                raise InvalidInput(
                    f"{self.folder} holds a finished run and nothing to resume; to run it again, "
                    "leave --resume out or name another --out"
                )
            self._parts.mkdir(parents=True, exist_ok=True)
            odd = sorted(path.name for path in self._parts.iterdir() if not _is_ours(path))
            if odd:
                raise InvalidInput(
                    f"{self._parts} holds what no run of gdcb wrote ({', '.join(odd[:3])}); "
                    "move it away or name another --out"
                )
            self._lock = _locked(self._parts / "lock", self.folder)
        try:
            with self._writing():
                self._begin()
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let the folder go; finished tasks stay for `resume` until the result is published."""
        self._release()

    def _begin(self) -> None:
        there = list(self._parts.iterdir())
        is_resumed = self.resume and self._manifest.exists()
        if is_resumed:
            self._compare()
        elif self.resume:
            self.notices.append(f"nothing to resume in {self.folder}: starting afresh")
        else:
            n_finished = sum(path.suffix == ".npz" for path in there)
            if n_finished:
                self.notices.append(
                    f"discarded {n_finished} finished tasks of an unfinished run in "
                    f"{self.folder}; --resume goes on with such a run"
                )
        for path in self._finals():
            path.unlink()
        if not is_resumed:
            # The manifest goes first and comes last: parts without one are never resumed.
            self._manifest.unlink(missing_ok=True)
            for path in there:
                if path.suffix in (".npz", ".tmp"):
                    path.unlink()
            _replace(self._manifest, json.dumps(self._about, indent=1).encode())

    def _compare(self) -> None:
        """Refuse to go on unless the run there is this one."""
        try:
            there = json.loads(self._manifest.read_bytes())
            if not isinstance(there, dict):
                raise ValueError("no settings in it")
        except (OSError, ValueError) as error:
            raise InvalidInput(
                f"{self._manifest} cannot be read ({error}); leave --resume out to start afresh"
            ) from error
        here = self._about
        names = [name for name in here | there if here.get(name) != there.get(name)]
        # A digest often changes with the settings, and then says nothing more than they do.
        names = [name for name in names if name not in self._digests] or names
        if names:
            differ = "; ".join(
                f"the {name} have changed"
                if name in self._digests
                else f"{name} {_shown(there.get(name))} there, {_shown(here.get(name))} here"
                for name in names
            )
            raise InvalidInput(
                f"the unfinished run in {self.folder} is another one: {differ}. Give the same "
                "settings, leave --resume out to start afresh, or name another --out"
            )

    def missing(self) -> list[Task]:
        """Return the tasks that are not finished; damaged parts are deleted and count as such."""
        missing, n_damaged = [], 0
        for task in self.settings.tasks:
            path = self._path(task)
            if not path.exists():
                missing.append(task)
            elif self._verified(task) is None:
                with self._writing():
                    path.unlink()
                missing.append(task)
                n_damaged += 1
        if n_damaged:
            self.notices.append(f"damaged parts in {self._parts}, computed again: {n_damaged}")
        return missing

    def write(self, task: Task, result: Record | Ground) -> None:
        """Keep the result of a finished task, whole or not at all."""
        expected = _kind(task)
        if type(result) is not expected:
            raise InvalidInput(
                f"{task.key}: expected a {expected.__name__}, got {type(result).__name__}"
            )
        _check_shapes(task, result)
        # In C order, so that the bytes hang on the numbers alone.
        fields = {name: np.ascontiguousarray(array) for name, array in flatten(result).items()}
        payload = to_bytes(expected(**fields))
        with self._writing():
            _replace(self._path(task), self._seal(task, payload) + b"\n" + payload)

    def read(self, task: Task) -> Record | Ground:
        """Return the result of a finished task."""
        payload = self._verified(task)
        if payload is None:
            raise InvalidInput(
                f"{self._path(task)} is missing or damaged; run again with --resume to make it anew"
            )
        expected = _kind(task)
        with np.load(io.BytesIO(payload), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files if name != "header"}
        return expected(**arrays)

    def record(self, method: str) -> Record:
        """Return a method's record over all replicates; only this one is held in memory."""
        return Record(**self._joined(method))

    def ground(self) -> Ground:
        """Return what all methods share, over all replicates."""
        return Ground(**self._joined(GROUND))

    def _joined(self, method: str) -> dict[str, Array]:
        whole: dict[str, Array] = {}
        for block in self.settings.blocks:
            task = self.settings.task(block, method)
            arrays = flatten(self.read(task))
            if block and arrays.keys() != whole.keys():
                odd = ", ".join(sorted(arrays.keys() ^ whole.keys()))
                raise InvalidInput(f"{task.key}: {odd} is not in every block")
            for name, array in arrays.items():
                axis = _AXIS.get(name, 1)
                if axis is None:
                    if not np.array_equal(whole.setdefault(name, array), array):
                        raise InvalidInput(f"{task.key}: {name} differs from the first block's")
                    continue
                shape = (*array.shape[:axis], self.settings.replicates, *array.shape[axis + 1 :])
                if name not in whole:
                    whole[name] = np.empty(shape, array.dtype)
                target = whole[name]
                if target.shape != shape or target.dtype != array.dtype:
                    raise InvalidInput(
                        f"{task.key}: {name} has shape {array.shape} and type {array.dtype}, "
                        f"which does not continue {target.shape} and {target.dtype}"
                    )
                rows = slice(block * BLOCK, block * BLOCK + task.replicates)
                target[(slice(None),) * axis + (rows,)] = array
        return whole

    @contextmanager
    def publishing(self) -> Iterator[Path]:
        """Give an empty folder for the result; once the block is done, it appears, and parts go.

        If the block raises, nothing appears, and the finished tasks stay.
        """
        staging = self._parts / "final"
        try:
            with self._writing():
                shutil.rmtree(staging, ignore_errors=True)
                staging.mkdir()
                yield staging
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise
        with self._writing():
            order = {name: at for at, name in enumerate(FINAL)}
            for path in sorted(staging.iterdir(), key=lambda p: (order.get(p.name, -1), p.name)):
                path.replace(self.folder / path.name)
            self._manifest.unlink()
            shutil.rmtree(self._parts)

    def _finals(self) -> list[Path]:
        return [self.folder / name for name in FINAL if (self.folder / name).exists()]

    def _path(self, task: Task) -> Path:
        return self._parts / f"{task.key}.npz"

    def _seal(self, task: Task, payload: bytes) -> bytes:
        """Return the digest of a part: it holds for these bytes of this task in this run only."""
        digest = hashlib.sha256(self._digest + task.key.encode() + b"\n")
        digest.update(payload)
        return digest.hexdigest().encode()

    def _verified(self, task: Task) -> bytes | None:
        """Return the npz of a part, or None unless it is there as it was written."""
        try:
            seal, _, payload = self._path(task).read_bytes().partition(b"\n")
        except OSError:
            return None
        return payload if seal == self._seal(task, payload) else None

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InvalidInput(
                f"cannot write to {self.folder} ({error.strerror or error})"
            ) from error

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _about(settings: Settings) -> dict[str, Any]:
    """Return all that two runs must share to be one, as JSON has it."""
    # NumPy's version is among it: another one may round differently.
    about = dataclasses.asdict(settings) | {
        "options": dict(settings.options),
        "numpy": np.__version__,
        "format": FORMAT,
    }
    plain: dict[str, Any] = json.loads(json.dumps(about))
    return plain


def _kind(task: Task) -> Callable[..., Record | Ground]:
    return Ground if task.method == GROUND else Record


def _check_shapes(task: Task, result: Record | Ground) -> None:
    """Refuse a result whose arrays are not those of the task's replicates."""
    for field in dataclasses.fields(result):
        array = getattr(result, field.name)
        if array is None and field.default is None:
            continue  # it was not counted
        if not isinstance(array, np.ndarray) or array.dtype.hasobject:
            raise InvalidInput(f"{task.key}: expected an array of numbers for {field.name}")
        axis, size = _AXIS.get(field.name, 1), task.replicates
        if axis is not None and (array.ndim <= axis or array.shape[axis] != size):
            raise InvalidInput(
                f"{task.key}: expected {size} replicates on axis {axis} of {field.name}, "
                f"got shape {array.shape}"
            )


def _is_ours(path: Path) -> bool:
    return path.name == "final" or (path.is_file() and bool(_OURS.fullmatch(path.name)))


def _shown(value: Any) -> str:
    return ",".join(value) if isinstance(value, list) else str(value)


def _replace(path: Path, data: bytes) -> None:
    """Write a file whole, or leave the old one."""
    unfinished = path.with_name(f"{path.name}.tmp")
    try:
        unfinished.write_bytes(data)
        unfinished.replace(path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise


def _locked(path: Path, folder: Path) -> int | None:
    """Lock the folder until the file is closed or this process ends; None: no locks here."""
    try:
        import fcntl
    except ImportError:
        return None
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_taken = os.fstat(descriptor).st_nlink == 0  # it was finished and removed meanwhile
    except BlockingIOError:
        is_taken = True
    except OSError:
        is_taken = False  # a file system without locks
    if is_taken:
        os.close(descriptor)
        raise InvalidInput(f"another run is writing to {folder}; wait for it or name another --out")
    return descriptor
