"""Adaptive Kalman filtering: operating modes as arms, gains as actions, covariances as scaler."""

from gdcb.instances.kalman.domain import study

__all__ = ["study"]
