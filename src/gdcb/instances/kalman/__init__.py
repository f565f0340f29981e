"""Adaptive Kalman filtering: operating modes as arms, gains as actions, covariances as scaler."""
