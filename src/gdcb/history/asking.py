"""A log that was read, ready to be asked what another gate or policy would have earned."""

from __future__ import annotations

import numpy as np

from gdcb.analysis.what_if.log import GatedLog, log_of
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.history.batch import Batch
from gdcb.history.passage import passed_through
from gdcb.instance import Instance


def to_ask(instance: Instance, batch: Batch, delta: Array | None = None) -> GatedLog:
    """Return the rows of a log for `gdcb.analysis.ask` and `live_regret`.

    The log must say what was proposed. Rewards are φ(y) of the outcomes that were seen.

    Parameters
    ----------
    delta : (N, 1 or K, q) δ in force when each row was proposed; None: neutral
    """
    if batch.recommended is None:
        raise InvalidInput(
            "history: the log does not say what was proposed before the gates (columns "
            "recommended_…), so that another gate cannot be asked about"
        )
    history = passed_through(instance, batch, batch.unit, np.zeros_like(batch.unit))
    reward = instance.realised(batch.outcome, history.log.action, batch.x)
    is_unseen = ~history.log.is_null & ~np.isfinite(batch.outcome).all(axis=1)
    return log_of(instance, history, np.where(is_unseen, np.nan, reward), delta)
