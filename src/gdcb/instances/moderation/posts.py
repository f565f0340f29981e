"""Labelled posts of one's own: a CSV with text and severity, read into a bank."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.instances.moderation import features
from gdcb.instances.moderation.bank import Bank
from gdcb.instances.moderation.columns import CATEGORIES

# The severity that a label stands for: the middle of what an average community wants so treated.
LABELS = dict(zip(CATEGORIES, (0.1, 0.45, 0.85), strict=True))
COLUMNS = ("text", "severity", "label", "reach", "reports")
LEAST = 20  # posts; a bank of fewer is no sample of anything


def read(path: str | Path) -> Bank:
    """Read a labelled CSV and compute the features of its texts, the original model asked.

    Columns: `text`; `severity` in [0, 1], or `label` (allow, warn, remove); if known, `reach` and
    `reports` in [0, 1]. Others are left alone. Whatever is empty, out of range, no number, or
    there twice is refused with its line.
    """
    rows = _rows(path)
    texts: list[str] = []
    severity: list[float] = []
    reach: list[float] = []
    reports: list[float] = []
    seen: dict[str, int] = {}
    for line, row in rows:
        where = f"{path}, line {line}"
        text = features.check_post(f"{where}: text", row["text"])
        if text in seen:
            raise InvalidInput(f"{where}: the same text as in line {seen[text]}")
        seen[text] = line
        texts.append(text)
        severity.append(_severity(where, row))
        for name, values in (("reach", reach), ("reports", reports)):
            if name in row:
                values.append(_share(f"{where}: {name}", row[name]))
    if len(texts) < LEAST:
        raise InvalidInput(f"{path}: expected at least {LEAST} posts, got {len(texts)}")
    parts = np.zeros((len(texts), 3))
    parts[:, 0] = severity
    return Bank(features.of_all(texts), parts, _known(reach), _known(reports))


def _rows(path: str | Path) -> list[tuple[int, dict[str, str]]]:
    """Return the rows of a file with the line where each ends, and refuse wrong columns."""
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            names = reader.fieldnames or []
            _check_columns(path, list(names))
            return [(reader.line_num, _whole(path, reader.line_num, row)) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput(f"{path}: cannot be read ({error})") from error


def _whole(path: str | Path, line: int, row: dict[str, str]) -> dict[str, str]:
    """Refuse a row with more or fewer fields than there are columns."""
    if None in row or None in row.values():
        raise InvalidInput(f"{path}, line {line}: expected as many fields as columns")
    return row


def _check_columns(path: str | Path, names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidInput(f"{path}: two columns are named {', '.join(twice)}")
    if "text" not in names:
        raise InvalidInput(f"{path}: expected a column 'text', got {', '.join(names) or 'none'}")
    if ("severity" in names) == ("label" in names):
        raise InvalidInput(f"{path}: expected one of the columns 'severity' and 'label'")


def _severity(where: str, row: dict[str, str]) -> float:
    if "severity" in row:
        return _share(f"{where}: severity", row["severity"])
    label = row["label"].strip()
    if label not in LABELS:
        raise InvalidInput(f"{where}: label: expected {', '.join(LABELS)}; got {row['label']!r}")
    return LABELS[label]


def _share(where: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 <= value <= 1.0:
        raise InvalidInput(f"{where}: expected a number from 0 to 1, got {text!r}")
    return value


def _known(values: list[float]) -> Array | None:
    return np.array(values) if values else None
