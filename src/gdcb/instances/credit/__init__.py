"""Consumer credit, instance 3 of the paper: see README.md beside this file."""

from gdcb.instances.credit.domain import study

__all__ = ["study"]
