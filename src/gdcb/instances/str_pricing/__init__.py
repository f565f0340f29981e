"""Short-term rental pricing, instance 1 of the paper: see README.md beside this file."""

from gdcb.instances.str_pricing.domain import study

__all__ = ["study"]
