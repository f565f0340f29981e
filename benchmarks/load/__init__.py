"""Load on the decision service, on loopback, beside floors of the same run."""
