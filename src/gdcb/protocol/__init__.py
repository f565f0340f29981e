"""The experimental protocol: methods, metrics, runs, report."""
