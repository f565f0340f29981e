"""Gated decoupled compositional bandits.

A bandit picks a nominal arm, a separately trained scaler adapts it to the context, a composition
makes the executable action, a gate may change, hold or veto it, and the outcome teaches both
loops.
"""

from gdcb.agent import Agent, Case
from gdcb.arms import ArmList, Arms, Grid
from gdcb.bandits import BetaThompson, CurveThompson, HierarchicalThompson
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
from gdcb.simulate import simulate

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
    "simulate",
]
