"""Loop one: posteriors over nominal arms."""

from gdcb.bandits.base import Bandit
from gdcb.bandits.beta import BetaState, BetaThompson
from gdcb.bandits.curve import CurveState, CurveThompson
from gdcb.bandits.hierarchical import HierarchicalState, HierarchicalThompson

__all__ = [
    "Bandit",
    "BetaState",
    "BetaThompson",
    "CurveState",
    "CurveThompson",
    "HierarchicalState",
    "HierarchicalThompson",
]
