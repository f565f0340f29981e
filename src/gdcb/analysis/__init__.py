"""What happened, and why: regret, what the gates let through, what a history can tell."""

from gdcb.analysis.bias import ContextBias, context_bias
from gdcb.analysis.contraction import arm_cells, cell_kernel, dobrushin
from gdcb.analysis.cross_information import (
    CrossInformation,
    Design,
    canonical,
    score_information,
)
from gdcb.analysis.gate_log import (
    Contraction,
    RealisedRatio,
    estimate_contraction,
    realised_ratio,
)
from gdcb.analysis.ratio import VarianceRatio, variance_ratio
from gdcb.analysis.regret import (
    Ledger,
    PaperParts,
    RegretParts,
    TrueMean,
    Truth,
    floor_of,
    gate_floor,
    regret_parts,
    regret_parts_paper,
    regret_splits,
    truth_of,
)
from gdcb.analysis.surface import Surface

__all__ = [
    "ContextBias",
    "Contraction",
    "CrossInformation",
    "Design",
    "Ledger",
    "PaperParts",
    "RealisedRatio",
    "RegretParts",
    "Surface",
    "TrueMean",
    "Truth",
    "VarianceRatio",
    "arm_cells",
    "canonical",
    "cell_kernel",
    "context_bias",
    "dobrushin",
    "estimate_contraction",
    "floor_of",
    "gate_floor",
    "realised_ratio",
    "regret_parts",
    "regret_parts_paper",
    "regret_splits",
    "score_information",
    "truth_of",
    "variance_ratio",
]
