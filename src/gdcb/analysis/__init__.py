"""What happened, and why: regret and its parts, and how much the gates let through."""

from gdcb.analysis.contraction import arm_cells, cell_kernel, dobrushin
from gdcb.analysis.gate_log import (
    Contraction,
    RealisedRatio,
    estimate_contraction,
    realised_ratio,
)
from gdcb.analysis.regret import (
    Ledger,
    PaperParts,
    RegretParts,
    TrueMean,
    Truth,
    gate_floor,
    regret_parts,
    regret_parts_paper,
    regret_splits,
    truth_of,
)

__all__ = [
    "Contraction",
    "Ledger",
    "PaperParts",
    "RealisedRatio",
    "RegretParts",
    "TrueMean",
    "Truth",
    "arm_cells",
    "cell_kernel",
    "dobrushin",
    "estimate_contraction",
    "gate_floor",
    "realised_ratio",
    "regret_parts",
    "regret_parts_paper",
    "regret_splits",
    "truth_of",
]
