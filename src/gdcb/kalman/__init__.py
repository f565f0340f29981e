"""Linear filters: the batched Kalman filter, its gains, and what its innovations teach.

Interacting multiple models are in `gdcb.kalman.imm`, gains in `gdcb.kalman.riccati`.
"""

from gdcb.kalman.autocovariance import NoiseFit, autocovariance_fit
from gdcb.kalman.filter import Filtered, kalman_filter
from gdcb.kalman.model import Model
from gdcb.kalman.seeding import Outlier, Seeds, seed

__all__ = [
    "Filtered",
    "Model",
    "NoiseFit",
    "Outlier",
    "Seeds",
    "autocovariance_fit",
    "kalman_filter",
    "seed",
]
