"""Loop two: supervised scalers δ_θ(x), trained apart from the bandit."""

from gdcb.scalers.base import Scaler
from gdcb.scalers.constant import ConstantScaler, ConstantState
from gdcb.scalers.covariance import CovarianceScaler, CovarianceState
from gdcb.scalers.estimator import EstimatorScaler, FittedEstimator
from gdcb.scalers.gaussian_process import GaussianProcessScaler
from gdcb.scalers.head import LinearHead, RidgeState
from gdcb.scalers.loglinear import Factor, LogLinearScaler, LogLinearState
from gdcb.scalers.neural import NeuralScaler, Trunk
from gdcb.scalers.ridge import RidgeScaler
from gdcb.scalers.selection import Selection, selection_weights

__all__ = [
    "ConstantScaler",
    "ConstantState",
    "CovarianceScaler",
    "CovarianceState",
    "EstimatorScaler",
    "Factor",
    "FittedEstimator",
    "GaussianProcessScaler",
    "LinearHead",
    "LogLinearScaler",
    "LogLinearState",
    "NeuralScaler",
    "RidgeScaler",
    "RidgeState",
    "Scaler",
    "Selection",
    "Trunk",
    "selection_weights",
]
