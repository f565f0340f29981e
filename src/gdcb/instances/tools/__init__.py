"""LLM tool use, instance 6 of the paper: see README.md beside this file."""

from gdcb.instances.tools.domain import study

__all__ = ["study"]
