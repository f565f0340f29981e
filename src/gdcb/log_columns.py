"""Which column of a decision log is what: the table `[history]` of an instance's file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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
