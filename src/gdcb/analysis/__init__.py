"""What happened, and why: regret, what the gates let through, what a history can tell."""

from gdcb.analysis.bias import ContextBias, context_bias
from gdcb.analysis.change_points import ChangePoint, SegmentSums, Stability, stability
from gdcb.analysis.contraction import arm_cells, cell_kernel, dobrushin
from gdcb.analysis.cross_information import (
    CrossInformation,
    Design,
    canonical,
    score_information,
)
from gdcb.analysis.drift import (
    Monitors,
    Watch,
    WatchList,
    mean_limits,
    seen_in_events,
    seen_in_history,
)
from gdcb.analysis.excitation import ActionVariation, action_variation
from gdcb.analysis.gate_log import (
    Contraction,
    RealisedRatio,
    estimate_contraction,
    realised_ratio,
)
from gdcb.analysis.interval import Interval
from gdcb.analysis.live_regret import LiveRegret, live_regret
from gdcb.analysis.off_policy import (
    Feedback,
    Value,
    behaviour_model,
    difference,
    estimate,
    evaluate,
    logged_behaviour,
    outcome_model,
)
from gdcb.analysis.overlap import Overlap, overlap
from gdcb.analysis.propensity import KernelMisfit, kernel_misfit
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
from gdcb.analysis.robustness import RobustnessValue, robustness_value
from gdcb.analysis.sensitivity import ArmBounds, Tipping, arm_bounds, tipping
from gdcb.analysis.surface import Surface
from gdcb.analysis.what_if import (
    Answer,
    Conditions,
    GatedLog,
    Propose,
    ReplaceGate,
    SecondReviewer,
    WithoutGate,
    ask,
    ask_all,
    gated_log,
)

__all__ = [
    "ActionVariation",
    "Answer",
    "ArmBounds",
    "ChangePoint",
    "Conditions",
    "ContextBias",
    "Contraction",
    "CrossInformation",
    "Design",
    "Feedback",
    "GatedLog",
    "Interval",
    "KernelMisfit",
    "Ledger",
    "LiveRegret",
    "Monitors",
    "Overlap",
    "PaperParts",
    "Propose",
    "RealisedRatio",
    "RegretParts",
    "ReplaceGate",
    "RobustnessValue",
    "SecondReviewer",
    "SegmentSums",
    "Stability",
    "Surface",
    "Tipping",
    "TrueMean",
    "Truth",
    "Value",
    "VarianceRatio",
    "Watch",
    "WatchList",
    "WithoutGate",
    "action_variation",
    "arm_bounds",
    "arm_cells",
    "ask",
    "ask_all",
    "behaviour_model",
    "canonical",
    "cell_kernel",
    "context_bias",
    "difference",
    "dobrushin",
    "estimate",
    "estimate_contraction",
    "evaluate",
    "floor_of",
    "gate_floor",
    "gated_log",
    "kernel_misfit",
    "live_regret",
    "logged_behaviour",
    "mean_limits",
    "outcome_model",
    "overlap",
    "realised_ratio",
    "regret_parts",
    "regret_parts_paper",
    "regret_splits",
    "robustness_value",
    "score_information",
    "seen_in_events",
    "seen_in_history",
    "stability",
    "tipping",
    "truth_of",
    "variance_ratio",
]
