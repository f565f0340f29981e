"""What another policy, or another gate, would have been worth, from the log of this one."""

from gdcb.analysis.off_policy.behaviour_models import behaviour_model

__all__ = ["behaviour_model"]
