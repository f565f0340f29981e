"""Φ: nominal arm and scaler make the executable action; `locate` is its inverse."""

from gdcb.composition.base import ActionColumn, Composition, check_arms
from gdcb.composition.choice import Identity, Prompt
from gdcb.composition.gain import KalmanGain
from gdcb.composition.scale import Add, Multiply

__all__ = [
    "ActionColumn",
    "Add",
    "Composition",
    "Identity",
    "KalmanGain",
    "Multiply",
    "Prompt",
    "check_arms",
]
