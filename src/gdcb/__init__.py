"""Gated decoupled compositional bandits.

A bandit picks a nominal arm, a separately trained scaler adapts it to the context, a composition
makes the executable action, a gate may change, hold or veto it, and the outcome teaches both
loops.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gdcb.agent import Agent
    from gdcb.arms import ArmList, Arms, Grid
    from gdcb.bandits import BetaThompson, CurveThompson, HierarchicalThompson
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
        PolicyFilter,
        SimulatedPerson,
    )
    from gdcb.instance import Cells, Instance, NullAction, Rules
    from gdcb.rewards import Payoff, Scaled
    from gdcb.scalers import ConstantScaler, RidgeScaler

__all__ = [
    "Add",
    "Agent",
    "Approval",
    "ArmList",
    "Arms",
    "BetaThompson",
    "Bounds",
    "Cap",
    "Case",
    "Category",
    "CategoryKernel",
    "Cells",
    "Chain",
    "ConstantScaler",
    "CurveThompson",
    "Flag",
    "GdcbError",
    "Grid",
    "HierarchicalThompson",
    "Hold",
    "Identity",
    "Instance",
    "KalmanGain",
    "Multiply",
    "NullAction",
    "Number",
    "NumberKernel",
    "Payoff",
    "PolicyFilter",
    "Prompt",
    "RidgeScaler",
    "Rules",
    "Scaled",
    "Schema",
    "SimulatedPerson",
]

# Names are fetched when they are first used, so that `import gdcb` costs next to nothing.
_HOMES = {
    "Add": "gdcb.composition",
    "Agent": "gdcb.agent",
    "Approval": "gdcb.gates",
    "ArmList": "gdcb.arms",
    "Arms": "gdcb.arms",
    "BetaThompson": "gdcb.bandits",
    "Bounds": "gdcb.gates",
    "Cap": "gdcb.gates",
    "Case": "gdcb.cases",
    "Category": "gdcb.context",
    "CategoryKernel": "gdcb.gates",
    "Cells": "gdcb.instance",
    "Chain": "gdcb.gates",
    "ConstantScaler": "gdcb.scalers",
    "CurveThompson": "gdcb.bandits",
    "Flag": "gdcb.context",
    "GdcbError": "gdcb.errors",
    "Grid": "gdcb.arms",
    "HierarchicalThompson": "gdcb.bandits",
    "Hold": "gdcb.gates",
    "Identity": "gdcb.composition",
    "Instance": "gdcb.instance",
    "KalmanGain": "gdcb.composition",
    "Multiply": "gdcb.composition",
    "NullAction": "gdcb.instance",
    "Number": "gdcb.context",
    "NumberKernel": "gdcb.gates",
    "Payoff": "gdcb.rewards",
    "PolicyFilter": "gdcb.gates",
    "Prompt": "gdcb.composition",
    "RidgeScaler": "gdcb.scalers",
    "Rules": "gdcb.instance",
    "Scaled": "gdcb.rewards",
    "Schema": "gdcb.context",
    "SimulatedPerson": "gdcb.gates",
}
_MODULES = frozenset(
    {
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
