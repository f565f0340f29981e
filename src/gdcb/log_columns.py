"""Which column of a decision log is what: the table `[history]` of an instance's file."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from gdcb.errors import InvalidInput, UnknownField
from gdcb.parts import check_settings

_SECONDS = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86_400.0, "week": 604_800.0}


@dataclass(frozen=True)
class LogColumns:
    """Names of a log's columns, where they are not the instance's own.

    What is left empty is looked for under the instance's name for it; what an instance has no name
    for (`recommended_…`, `status`, `reviewer`, `propensity`, `unit`, `time`) is optional, and found
    under these names where the log has such a column.

    Parameters
    ----------
    context : log column of a context column, by the context column's name
    action : executed action, one log column an action column; empty cells: nothing ran
    outcome : outcome, one log column an outcome column; empty cells: not seen
    reward : realised reward, where the log has one beside the outcome; '-' looks for none
    recommended : what was proposed before the gates, one log column an action column
    status : what became of the proposal: one column for the whole chain, or one a gate
    reviewer, propensity, unit, time : who answered; how likely the executed action was; whose
        decision it was; when it was made
    label : the scaler's labels, where it learns from labels
    decided : log column with the time at which other columns were known, by column: a column that
        was known only after the decision cannot be context
    outcome_time : log column with the time at which the outcome was known; empty cells: not yet
    matures_after : how long outcomes take to come in, as "30 days", or in seconds. Rows younger
        than that at the end of the log are set aside; without it the certificate estimates it
    """

    context: Mapping[str, str] = field(default_factory=dict)
    action: tuple[str, ...] = ()
    outcome: tuple[str, ...] = ()
    reward: str = ""
    recommended: tuple[str, ...] = ()
    status: tuple[str, ...] = ()
    reviewer: str = ""
    propensity: str = ""
    unit: str = ""
    time: str = ""
    label: tuple[str, ...] = ()
    decided: Mapping[str, str] = field(default_factory=dict)
    outcome_time: str = ""
    matures_after: str | float = field(
        default="", metadata={"expected": 'a time such as "30 days", or seconds'}
    )

    def __post_init__(self) -> None:
        check_settings(self, "history")
        seconds_of(self.matures_after)

    @classmethod
    def of(cls, given: Any) -> LogColumns:
        """Take log columns as they are, from a dictionary of their fields, or none.

        >>> LogColumns.of({"action": "price"}).action
        ('price',)
        """
        if given is None or isinstance(given, LogColumns):
            return given or cls()
        if not isinstance(given, Mapping):
            raise InvalidInput(
                f'columns: expected LogColumns, or a dictionary such as {{"action": "price"}}, '
                f"got {given!r}"
            )
        several = {one.name: one.default == () for one in fields(cls)}
        unknown = [str(name) for name in given if name not in several]
        if unknown:
            raise UnknownField(
                f"columns: no part {', '.join(unknown)}; there are {', '.join(several)}"
            )
        settings: dict[str, Any] = dict(given)
        for name, value in settings.items():
            if several[name] and isinstance(value, str):
                settings[name] = (value,)
        return cls(**settings)

    @property
    def maturity(self) -> float | None:
        """How long outcomes take, in seconds; None: not declared."""
        return seconds_of(self.matures_after)


def seconds_of(span: str | float) -> float | None:
    """Read a span of time; '' is None.

    >>> seconds_of("30 days"), seconds_of(90), seconds_of("")
    (2592000.0, 90.0, None)
    """
    if span == "":
        return None
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(second|minute|hour|day|week)s?\s*", str(span))
    seconds = float(found[1]) * _SECONDS[found[2]] if found else math.nan
    if isinstance(span, int | float) and not isinstance(span, bool):
        seconds = float(span)
    if not 0 < seconds < math.inf:
        raise InvalidInput(
            'history.matures_after: expected a time such as "30 days" (seconds, minutes, hours, '
            f"days, weeks), or seconds above 0, got {span!r}"
        )
    return seconds
