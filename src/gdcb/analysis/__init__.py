"""What happened, and why: regret and its parts, and how much the gates let through."""

from gdcb.analysis.contraction import arm_cells, cell_kernel, dobrushin
from gdcb.analysis.gate_log import (
    Contraction,
    RealisedRatio,
    estimate_contraction,
    realised_ratio,
)
from gdcb.analysis.regret import Ledger, RegretParts, TrueMean, gate_floor, regret_parts

__all__ = [
    "Contraction",
    "Ledger",
    "RealisedRatio",
    "RegretParts",
    "TrueMean",
    "arm_cells",
    "cell_kernel",
    "dobrushin",
    "estimate_contraction",
    "gate_floor",
    "realised_ratio",
    "regret_parts",
]
