"""Demand response on a medium-voltage network: see README.md beside this file."""

from gdcb.instances.grid.domain import study

__all__ = ["study"]
