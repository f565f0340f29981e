"""Loop two: supervised scalers δ_θ(x), trained apart from the bandit."""

from gdcb.scalers.base import Scaler
from gdcb.scalers.constant import ConstantScaler, ConstantState
from gdcb.scalers.ridge import RidgeScaler, RidgeState

__all__ = ["ConstantScaler", "ConstantState", "RidgeScaler", "RidgeState", "Scaler"]
