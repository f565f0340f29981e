"""Loop one: posteriors over nominal arms."""

from gdcb.bandits.base import Bandit
from gdcb.bandits.beta import BetaState, BetaThompson
from gdcb.bandits.bradley_terry import BradleyTerryThompson
from gdcb.bandits.curve import CurveState, CurveThompson
from gdcb.bandits.factored import FactoredState, FactoredThompson
from gdcb.bandits.gaussian import GaussianState, GaussianThompson
from gdcb.bandits.gp_curve import GPCurveState, GPCurveThompson
from gdcb.bandits.hierarchical import HierarchicalState, HierarchicalThompson
from gdcb.bandits.hierarchical_beta import HierarchicalBetaState, HierarchicalBetaThompson
from gdcb.bandits.hierarchical_curve import HierarchicalCurveThompson
from gdcb.bandits.linear import LinearState, LinearThompson, LinearUCB
from gdcb.bandits.logistic_arms import BradleyTerryArmsThompson, LogisticArmsThompson
from gdcb.bandits.marginals import Marginals
from gdcb.bandits.normal_curve import NormalCurveThompson
from gdcb.bandits.relevance import RelevanceThompson
from gdcb.bandits.shared import (
    LogisticState,
    LogisticThompson,
    SharedLinearThompson,
    SharedLinearUCB,
    SharedState,
)
from gdcb.bandits.stacked import StackedState, StackedThompson
from gdcb.bandits.ucb import KLUCB, UCB1, BayesUCB, IndexState

__all__ = [
    "KLUCB",
    "UCB1",
    "Bandit",
    "BayesUCB",
    "BetaState",
    "BetaThompson",
    "BradleyTerryArmsThompson",
    "BradleyTerryThompson",
    "CurveState",
    "CurveThompson",
    "FactoredState",
    "FactoredThompson",
    "GPCurveState",
    "GPCurveThompson",
    "GaussianState",
    "GaussianThompson",
    "HierarchicalBetaState",
    "HierarchicalBetaThompson",
    "HierarchicalCurveThompson",
    "HierarchicalState",
    "HierarchicalThompson",
    "IndexState",
    "LinearState",
    "LinearThompson",
    "LinearUCB",
    "LogisticArmsThompson",
    "LogisticState",
    "LogisticThompson",
    "Marginals",
    "NormalCurveThompson",
    "RelevanceThompson",
    "SharedLinearThompson",
    "SharedLinearUCB",
    "SharedState",
    "StackedState",
    "StackedThompson",
]
