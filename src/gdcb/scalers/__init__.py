"""Loop two: supervised scalers δ_θ(x), trained apart from the bandit."""

from gdcb.scalers.base import Scaler
from gdcb.scalers.constant import ConstantScaler, ConstantState
from gdcb.scalers.head import LinearHead, RidgeState
from gdcb.scalers.ridge import RidgeScaler

__all__ = [
    "ConstantScaler",
    "ConstantState",
    "LinearHead",
    "RidgeScaler",
    "RidgeState",
    "Scaler",
]
