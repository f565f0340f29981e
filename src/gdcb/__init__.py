"""Gated decoupled compositional bandits.

A bandit picks a nominal arm, a separately trained scaler adapts it to the context, a composition
makes the executable action, a gate may change, hold or veto it, and the outcome teaches both
loops.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gdcb.adjustment import Adjustment
    from gdcb.agent import Agent
    from gdcb.analysis.propensity import Propensity, propensity
    from gdcb.arms import ArmList, Arms, Grid
    from gdcb.bandits import (
        KLUCB,
        UCB1,
        BayesUCB,
        BetaThompson,
        BradleyTerryThompson,
        CurveThompson,
        FactoredThompson,
        GaussianThompson,
        GPCurveThompson,
        HierarchicalBetaThompson,
        HierarchicalCurveThompson,
        HierarchicalThompson,
        LinearThompson,
        LinearUCB,
        LogisticArmsThompson,
        LogisticThompson,
        NormalCurveThompson,
        RelevanceThompson,
        SharedLinearThompson,
        SharedLinearUCB,
        StackedThompson,
    )
    from gdcb.cases import Case
    from gdcb.composition import Add, Identity, KalmanGain, Multiply, Prompt
    from gdcb.context import Category, Flag, Number, Schema
    from gdcb.errors import GdcbError
    from gdcb.gates import (
        Approval,
        Bounds,
        Cap,
        CategoryKernel,
        Chain,
        Hold,
        NumberKernel,
        Open,
        Physics,
        PolicyFilter,
        Review,
        Shield,
        SimulatedPerson,
    )
    from gdcb.instance import Cells, Instance, NullAction, Rules
    from gdcb.rewards import Payoff, Scaled
    from gdcb.scalers import (
        ConstantScaler,
        CovarianceScaler,
        EstimatorScaler,
        GaussianProcessScaler,
        LogLinearScaler,
        NeuralScaler,
        RidgeScaler,
    )

__all__ = [
    "KLUCB",
    "UCB1",
    "Add",
    "Adjustment",
    "Agent",
    "Approval",
    "ArmList",
    "Arms",
    "BayesUCB",
    "BetaThompson",
    "Bounds",
    "BradleyTerryThompson",
    "Cap",
    "Case",
    "Category",
    "CategoryKernel",
    "Cells",
    "Chain",
    "ConstantScaler",
    "CovarianceScaler",
    "CurveThompson",
    "EstimatorScaler",
    "FactoredThompson",
    "Flag",
    "GPCurveThompson",
    "GaussianProcessScaler",
    "GaussianThompson",
    "GdcbError",
    "Grid",
    "HierarchicalBetaThompson",
    "HierarchicalCurveThompson",
    "HierarchicalThompson",
    "Hold",
    "Identity",
    "Instance",
    "KalmanGain",
    "LinearThompson",
    "LinearUCB",
    "LogLinearScaler",
    "LogisticArmsThompson",
    "LogisticThompson",
    "Multiply",
    "NeuralScaler",
    "NormalCurveThompson",
    "NullAction",
    "Number",
    "NumberKernel",
    "Open",
    "Payoff",
    "Physics",
    "PolicyFilter",
    "Prompt",
    "Propensity",
    "RelevanceThompson",
    "Review",
    "RidgeScaler",
    "Rules",
    "Scaled",
    "Schema",
    "SharedLinearThompson",
    "SharedLinearUCB",
    "Shield",
    "SimulatedPerson",
    "StackedThompson",
    "propensity",
]

# Names are fetched when they are first used, so that `import gdcb` costs next to nothing.
_HOMES = {
    "Add": "gdcb.composition",
    "Adjustment": "gdcb.adjustment",
    "Agent": "gdcb.agent",
    "Approval": "gdcb.gates",
    "ArmList": "gdcb.arms",
    "Arms": "gdcb.arms",
    "BayesUCB": "gdcb.bandits",
    "BetaThompson": "gdcb.bandits",
    "Bounds": "gdcb.gates",
    "BradleyTerryThompson": "gdcb.bandits",
    "Cap": "gdcb.gates",
    "Case": "gdcb.cases",
    "Category": "gdcb.context",
    "CategoryKernel": "gdcb.gates",
    "Cells": "gdcb.instance",
    "Chain": "gdcb.gates",
    "ConstantScaler": "gdcb.scalers",
    "CovarianceScaler": "gdcb.scalers",
    "CurveThompson": "gdcb.bandits",
    "EstimatorScaler": "gdcb.scalers",
    "FactoredThompson": "gdcb.bandits",
    "Flag": "gdcb.context",
    "GPCurveThompson": "gdcb.bandits",
    "GaussianProcessScaler": "gdcb.scalers",
    "GaussianThompson": "gdcb.bandits",
    "GdcbError": "gdcb.errors",
    "Grid": "gdcb.arms",
    "HierarchicalBetaThompson": "gdcb.bandits",
    "HierarchicalCurveThompson": "gdcb.bandits",
    "HierarchicalThompson": "gdcb.bandits",
    "Hold": "gdcb.gates",
    "Identity": "gdcb.composition",
    "Instance": "gdcb.instance",
    "KLUCB": "gdcb.bandits",
    "KalmanGain": "gdcb.composition",
    "LinearThompson": "gdcb.bandits",
    "LinearUCB": "gdcb.bandits",
    "LogLinearScaler": "gdcb.scalers",
    "LogisticArmsThompson": "gdcb.bandits",
    "LogisticThompson": "gdcb.bandits",
    "Multiply": "gdcb.composition",
    "NeuralScaler": "gdcb.scalers",
    "NormalCurveThompson": "gdcb.bandits",
    "NullAction": "gdcb.instance",
    "Number": "gdcb.context",
    "NumberKernel": "gdcb.gates",
    "Open": "gdcb.gates",
    "Payoff": "gdcb.rewards",
    "Physics": "gdcb.gates",
    "PolicyFilter": "gdcb.gates",
    "Prompt": "gdcb.composition",
    "Propensity": "gdcb.analysis.propensity",
    "RelevanceThompson": "gdcb.bandits",
    "Review": "gdcb.gates",
    "RidgeScaler": "gdcb.scalers",
    "Rules": "gdcb.instance",
    "Scaled": "gdcb.rewards",
    "Schema": "gdcb.context",
    "SharedLinearThompson": "gdcb.bandits",
    "SharedLinearUCB": "gdcb.bandits",
    "Shield": "gdcb.gates",
    "SimulatedPerson": "gdcb.gates",
    "StackedThompson": "gdcb.bandits",
    "UCB1": "gdcb.bandits",
    "propensity": "gdcb.analysis.propensity",
}
_MODULES = frozenset(
    {
        "streams",
        "checks",
        "arms",
        "adjustment",
        "agent",
        "analysis",
        "bandits",
        "composition",
        "context",
        "declaration",
        "errors",
        "events",
        "gates",
        "instance",
        "instances",
        "parts",
        "records",
        "rewards",
        "round",
        "scalers",
        "simulate",
    }
)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return import_module(f"gdcb.{name}")
    raise AttributeError(f"module 'gdcb' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
