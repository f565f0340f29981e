"""Events as bytes: a head in JSON, then the columns as they lie in memory, little-endian.

A body is the length of the head (4 bytes), the head, zeros up to a multiple of 8, and every array
in turn, each followed by zeros up to a multiple of 8. The head is
``{"fields": {name: value}, "arrays": [[name, type, shape]]}``. Nothing in it is executable, floats
come back to the last bit, and a stranger reads it with `json` and `numpy.frombuffer`.
"""

from __future__ import annotations

import dataclasses
import json
import math
import struct
from collections.abc import Iterator
from json.encoder import encode_basestring_ascii
from typing import Any

import numpy as np

from gdcb import events as ev
from gdcb.arrays import Array
from gdcb.errors import InvalidInput

_TYPES = ("<f8", "<i8", "|i1", "|b1", "|u1")
_LENGTH = struct.Struct("<I")


def to_body(event: ev.Told) -> bytes:
    r"""Write an event's fields as bytes; its kind is written beside them.

    >>> to_body(ev.Expired("7", "late"))[4:]
    b'{"fields":{"id":"7","reason":"late","action":null},"arrays":[]}\x00\x00\x00\x00\x00'
    """
    fields: dict[str, Any] = {}
    arrays: dict[str, Array] = {}
    for name in _names(type(event)):
        value = getattr(event, name)
        if isinstance(value, np.ndarray):
            arrays[name] = value
        else:
            fields[name] = value
    return pack(fields, arrays)


def pack(fields: dict[str, Any], arrays: dict[str, Array]) -> bytes:
    """Write named values, and named arrays behind them."""
    little = [(name, _little(name, array)) for name, array in arrays.items()]
    shapes = [[name, array.dtype.str, list(array.shape)] for name, array in little]
    text = json.dumps(
        {"fields": fields, "arrays": shapes}, allow_nan=False, separators=(",", ":")
    ).encode()
    parts = [_LENGTH.pack(len(text)), text, bytes(-(4 + len(text)) % 8)]
    for _, array in little:
        parts += [array.tobytes(), bytes(-array.nbytes % 8)]
    return b"".join(parts)


def from_body(kind: str, body: bytes) -> ev.Event:
    """Read what `to_body` wrote; refuse an event that is unknown, or not as it was written."""
    known = ev.KINDS.get(kind)
    if known is None:
        raise InvalidInput(f"event: no kind {kind!r}; there are {', '.join(ev.KINDS)}")
    try:
        return known(**unpack(body))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(f"event: cannot read this {kind} ({error})") from error


def unpack(body: bytes) -> dict[str, Any]:
    """Read what `pack` wrote, by name; ValueError, TypeError or AttributeError where it is not."""
    try:
        return _unpack(body)
    except (LookupError, OverflowError, RecursionError, struct.error) as error:
        raise ValueError(f"not as it was packed ({error})") from error


def _unpack(body: bytes) -> dict[str, Any]:
    (length,) = _LENGTH.unpack_from(body)
    head = _HEADS.decode(body[4 : 4 + length].decode())
    values: dict[str, Any] = dict(head["fields"])
    at = 4 + length + -(4 + length) % 8
    for name, kind, shape in head["arrays"]:
        if kind not in _TYPES or name in values:
            raise ValueError(f"an array {name!r} of type {kind!r}")
        count = math.prod(shape)
        values[name] = np.frombuffer(body, np.dtype(kind), count, at).reshape(shape)
        at += values[name].nbytes + -values[name].nbytes % 8
    if at != len(body):
        raise ValueError(f"{len(body)} bytes where {at} were expected")
    return values


def leaves(event: ev.Told) -> list[bytes]:
    r"""Return what a row says, for every row: the names in it as a JSON list, and its numbers.

    An event without columns is one row: its whole body. The names come in the order of the
    fields, preceded by their length (4 bytes); the numbers lie behind them, each column's in
    turn.

    >>> run = ev.ActionExecuted(["a", "b"], np.array([[1.0], [2.0]]), np.array([False, True]))
    >>> leaves(run)[1]
    b'\x05\x00\x00\x00["b"]\x00\x00\x00\x00\x00\x00\x00@\x01'
    """
    if not event.columns:
        return [to_body(event)]
    texts: list[list[str]] = []
    numbers: list[Array] = []
    for name in event.columns:
        value = getattr(event, name)
        if isinstance(value, np.ndarray):
            n = value.shape[0]
            numbers.append(_little(name, value).reshape(n, -1).view(np.uint8))
        elif value is not None:
            texts.append(value)
    width = sum(part.shape[1] for part in numbers)
    packed = np.concatenate(numbers, axis=1).tobytes() if numbers else b""
    return [
        b"".join((_LENGTH.pack(len(text)), text, packed[i * width : (i + 1) * width]))
        for i, text in enumerate(_lists(texts))
    ]


def _lists(texts: list[list[str]]) -> Iterator[bytes]:
    """Yield the names of each row as a JSON list."""
    quote = encode_basestring_ascii
    for row in zip(*texts, strict=True):
        yield ("[" + ",".join([quote(text) for text in row]) + "]").encode()


def _names(kind: type[ev.Told]) -> list[str]:
    found = _FIELDS.get(kind)
    if found is None:
        found = _FIELDS[kind] = [field.name for field in dataclasses.fields(kind)]
    return found


_FIELDS: dict[type[ev.Told], list[str]] = {}


def _little(name: str, array: Array) -> Array:
    """Return the array little-endian and in one piece; refuse a type that events do not have."""
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    if little.dtype.str not in _TYPES:
        raise InvalidInput(f"{name}: expected {', '.join(_TYPES)}, got {array.dtype}")
    return little


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no number of an event")


_HEADS = json.JSONDecoder(parse_constant=_refuse)
