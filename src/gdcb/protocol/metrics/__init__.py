"""What is measured of a run: pure functions of arrays, with replicates as the independent unit."""

from gdcb.protocol.metrics.cold_start import (
    Compression,
    compression,
    first_below,
    saving,
)
from gdcb.protocol.metrics.estimates import Estimate, curve, estimate, holm, in_words, paired
from gdcb.protocol.metrics.overrides import overrides
from gdcb.protocol.metrics.waiting import (
    WINDOW,
    Threshold,
    Waits,
    episodes_to_threshold,
    kaplan_meier,
    median,
    threshold,
)

__all__ = [
    "WINDOW",
    "Compression",
    "Estimate",
    "Threshold",
    "Waits",
    "compression",
    "curve",
    "episodes_to_threshold",
    "estimate",
    "first_below",
    "holm",
    "in_words",
    "kaplan_meier",
    "median",
    "overrides",
    "paired",
    "saving",
    "threshold",
]
