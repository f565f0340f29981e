"""What happened, and why: regret and its parts."""

from gdcb.analysis.regret import Ledger, RegretParts, gate_floor, regret_parts

__all__ = ["Ledger", "RegretParts", "gate_floor", "regret_parts"]
