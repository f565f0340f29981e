"""What another policy, or another gate, would have been worth, from the log of this one."""

from gdcb.analysis.off_policy.behaviour_models import behaviour_model
from gdcb.analysis.off_policy.estimators import ESTIMATORS, estimate
from gdcb.analysis.off_policy.feedback import Feedback, logged_behaviour
from gdcb.analysis.off_policy.outcome_models import outcome_model
from gdcb.analysis.off_policy.values import INTERVALS, Value, difference, evaluate

__all__ = [
    "ESTIMATORS",
    "INTERVALS",
    "Feedback",
    "Value",
    "behaviour_model",
    "difference",
    "estimate",
    "evaluate",
    "logged_behaviour",
    "outcome_model",
]
