"""Content moderation, instance 5 of the paper: see README.md beside this file."""

from gdcb.instances.moderation.domain import study

__all__ = ["study"]
