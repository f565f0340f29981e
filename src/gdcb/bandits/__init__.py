"""Loop one: posteriors over nominal arms."""

from gdcb.bandits.base import Bandit
from gdcb.bandits.beta import BetaState, BetaThompson
from gdcb.bandits.curve import CurveState, CurveThompson
from gdcb.bandits.hierarchical import HierarchicalState, HierarchicalThompson
from gdcb.bandits.linear import LinearState, LinearThompson, LinearUCB
from gdcb.bandits.marginals import Marginals
from gdcb.bandits.shared import (
    LogisticState,
    LogisticThompson,
    SharedLinearThompson,
    SharedLinearUCB,
    SharedState,
)

__all__ = [
    "Bandit",
    "BetaState",
    "BetaThompson",
    "CurveState",
    "CurveThompson",
    "HierarchicalState",
    "HierarchicalThompson",
    "LinearState",
    "LinearThompson",
    "LinearUCB",
    "LogisticState",
    "LogisticThompson",
    "Marginals",
    "SharedLinearThompson",
    "SharedLinearUCB",
    "SharedState",
]
