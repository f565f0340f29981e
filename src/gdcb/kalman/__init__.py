"""Linear filters: the batched Kalman filter, its gains, and what its innovations teach."""
