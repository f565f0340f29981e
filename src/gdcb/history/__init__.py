"""Logs in: read, validate, certify, start warm."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gdcb.history.asking import to_ask
    from gdcb.history.batch import Batch
    from gdcb.history.certificate import Certificate
    from gdcb.history.certification import certify
    from gdcb.history.launch import after_launch
    from gdcb.history.reading import open_log, read
    from gdcb.history.recent import certify_recent, recent_rows
    from gdcb.history.report import ReadReport
    from gdcb.history.warm import warm_start

# A log is read with Polars and certified with SciPy; neither is imported before it is needed.
_HOMES = {
    "Batch": "gdcb.history.batch",
    "Certificate": "gdcb.history.certificate",
    "ReadReport": "gdcb.history.report",
    "after_launch": "gdcb.history.launch",
    "certify": "gdcb.history.certification",
    "certify_recent": "gdcb.history.recent",
    "open_log": "gdcb.history.reading",
    "read": "gdcb.history.reading",
    "recent_rows": "gdcb.history.recent",
    "to_ask": "gdcb.history.asking",
    "warm_start": "gdcb.history.warm",
}

__all__ = [
    "Batch",
    "Certificate",
    "ReadReport",
    "after_launch",
    "certify",
    "certify_recent",
    "open_log",
    "read",
    "recent_rows",
    "to_ask",
    "warm_start",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'gdcb.history' has no attribute {name!r}")
