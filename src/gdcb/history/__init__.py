"""Logs in: read, validate, certify, start warm."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gdcb.history.batch import Batch
    from gdcb.history.reading import Part, Source, open_log, read
    from gdcb.history.report import ReadReport

__all__ = ["Batch", "Part", "ReadReport", "Source", "open_log", "read"]

_HOMES = {
    "Batch": "gdcb.history.batch",
    "Part": "gdcb.history.reading",
    "ReadReport": "gdcb.history.report",
    "Source": "gdcb.history.reading",
    "open_log": "gdcb.history.reading",
    "read": "gdcb.history.reading",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
