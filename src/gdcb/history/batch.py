"""Rows of a log in the instance's own columns: what reading makes and everything else takes."""

from __future__ import annotations

import base64
import dataclasses
import io
from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput


@dataclass(slots=True)
class Batch:
    """N valid rows of a log, in the order of the log.

    Parameters
    ----------
    x : (N, p) context as encoded by the instance's schema, finite
    action : (N, D) what was executed; a row of NaN: nothing ran
    outcome : (N, outcomes) what came of it; NaN: not seen
    unit : (N,) whole numbers, place in the source's list of unit names; 0 where it has no units
    time : (N,) seconds since 1970 (UTC), or the row's number in the log where it has no time
    recommended : (N, D) what was proposed before any gate, or None: the log does not say
    status : (N,) what became of the proposal in the whole chain (`gdcb.records.STATUS` by number,
        −1: not said in this row), or None
    statuses : (N, G) the same a gate, or None
    reviewer : (N,) whole numbers, place in the source's list of reviewers, −1: nobody; or None
    propensity : (N,) logged probability of what was executed, NaN: not said; or None
    label : (N, labels) of the scaler, NaN: not seen; or None
    reward : (N,) realised reward as logged, NaN: not said; or None
    observed : (N,) when the outcome was known, NaN: not yet; or None
    """

    x: Array
    action: Array
    outcome: Array
    unit: Array
    time: Array
    recommended: Array | None = None
    status: Array | None = None
    statuses: Array | None = None
    reviewer: Array | None = None
    propensity: Array | None = None
    label: Array | None = None
    reward: Array | None = None
    observed: Array | None = None

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.x.shape[0])

    def take(self, index: Any) -> Batch:
        """Return the rows at `index`.

        >>> zero = np.zeros(2, dtype=int)
        >>> batch = Batch(np.array([[1.0], [2.0]]), np.ones((2, 1)), np.ones((2, 1)), zero, zero)
        >>> batch.take([1]).x.tolist()
        [[2.0]]
        """
        columns: dict[str, Any] = {}
        for field in dataclasses.fields(Batch):
            part = getattr(self, field.name)
            columns[field.name] = None if part is None else part[index]
        return Batch(**columns)

    def to_text(self) -> str:
        """Write the rows as text: compressed arrays in base 64, the same rows as the same text.

        >>> zero = np.zeros(2, dtype=int)
        >>> batch = Batch(np.array([[1.0], [2.0]]), np.ones((2, 1)), np.ones((2, 1)), zero, zero)
        >>> Batch.from_text(batch.to_text()).x.tolist()
        [[1.0], [2.0]]
        """
        arrays = {f.name: getattr(self, f.name) for f in dataclasses.fields(Batch)}
        buffer = io.BytesIO()
        known: dict[str, Any] = {name: part for name, part in arrays.items() if part is not None}
        np.savez_compressed(buffer, **known)
        return base64.b64encode(buffer.getvalue()).decode()

    @staticmethod
    def from_text(text: str) -> Batch:
        """Read what `to_text` wrote."""
        try:
            with np.load(io.BytesIO(base64.b64decode(text)), allow_pickle=False) as found:
                return Batch(**{name: found[name] for name in found.files})
        except Exception as error:  # broken zip files have many exceptions
            raise InvalidInput(f"history: these are not the rows of a log ({error})") from error

    @staticmethod
    def concatenate(some: list[Batch]) -> Batch:
        """Join batches in order; what the first lacks all lack."""
        columns: dict[str, Any] = {}
        for field in dataclasses.fields(Batch):
            parts = [getattr(batch, field.name) for batch in some]
            columns[field.name] = None if parts[0] is None else np.concatenate(parts)
        return Batch(**columns)
