"""A saved agent: one zip of JSON, events and npz; nothing in it is executable."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gdcb import events as ev
from gdcb.codec import from_body, to_body
from gdcb.errors import InvalidInput

FORMAT = 2
_SIZE = struct.Struct("<II")


@dataclass(frozen=True)
class Archive:
    """What a file holds.

    Parameters
    ----------
    seed, fingerprint : of the agent, and of its instance and bandit
    units : units that its state has room for
    events, state : its story, and its learned state as bytes
    """

    seed: int
    fingerprint: str
    units: int
    events: list[ev.Event]
    state: bytes


def write(path: str | Path, archive: Archive) -> None:
    """Write the file whole, or leave the old one."""
    import zipfile

    header = {
        "format": FORMAT,
        "seed": archive.seed,
        "fingerprint": archive.fingerprint,
        "units": archive.units,
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as parts:
        for name, data in (
            ("agent.json", json.dumps(header).encode()),
            ("events.bin", b"".join(map(_written, archive.events))),
            ("state.npz", archive.state),
        ):
            parts.writestr(zipfile.ZipInfo(name), data)
    target = Path(path)
    unfinished = target.with_name(target.name + ".part")
    unfinished.write_bytes(buffer.getvalue())
    unfinished.replace(target)


def read(path: str | Path) -> Archive:
    """Read a file; refuse whatever is not one of ours, whole."""
    import zipfile

    try:
        with zipfile.ZipFile(path) as parts:
            header = json.loads(parts.read("agent.json"))
            story = parts.read("events.bin")
            state = parts.read("state.npz")
    except FileNotFoundError:
        raise
    except Exception as error:  # zip files break in many ways, and each has its own exception
        raise InvalidInput(f"{path}: not a saved agent ({error})") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InvalidInput(f"{path}: expected a saved agent of format {FORMAT}, got {header!r}")
    values = {name: _field(path, header, name, kind) for name, kind in _FIELDS.items()}
    return Archive(**values, events=list(_events(path, story)), state=state)


def _written(event: ev.Event) -> bytes:
    """Return an event with its kind, the lengths of both before them."""
    kind, body = type(event).__name__.encode(), to_body(event)
    return _SIZE.pack(len(kind), len(body)) + kind + body


def _events(path: str | Path, story: bytes) -> Iterator[ev.Event]:
    at = 0
    while at < len(story):
        try:
            n_kind, n_body = _SIZE.unpack_from(story, at)
            at += _SIZE.size
            kind, body = story[at : at + n_kind].decode(), story[at + n_kind : at + n_kind + n_body]
            at += n_kind + n_body
        except (struct.error, UnicodeDecodeError) as error:
            raise InvalidInput(f"{path}: its events are broken off ({error})") from error
        yield from_body(kind, body)


_FIELDS: dict[str, type] = {"seed": int, "fingerprint": str, "units": int}


def _field(path: str | Path, header: dict[str, Any], name: str, kind: type) -> Any:
    value = header.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InvalidInput(f"{path}: its header lacks '{name}'")
    return value
