"""Measurements, beside the tests and not among them: `make bench`."""
