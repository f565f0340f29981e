"""g: what may change, hold or veto a proposal before it runs."""

from gdcb.gates.approval import Approval
from gdcb.gates.base import Gate, HardGate, Value
from gdcb.gates.chain import UNGATED, Chain, Open, chain_of
from gdcb.gates.hold import Hold
from gdcb.gates.learned import CategoryKernel, NumberKernel
from gdcb.gates.limits import Bounds, Cap
from gdcb.gates.physics import Physics
from gdcb.gates.policy import PolicyFilter
from gdcb.gates.review import Review
from gdcb.gates.shield import Shield
from gdcb.gates.simulated import SimulatedPerson

__all__ = [
    "UNGATED",
    "Approval",
    "Bounds",
    "Cap",
    "CategoryKernel",
    "Chain",
    "Gate",
    "HardGate",
    "Hold",
    "NumberKernel",
    "Open",
    "Physics",
    "PolicyFilter",
    "Review",
    "Shield",
    "SimulatedPerson",
    "Value",
    "chain_of",
]
