"""Meal-time insulin, instance 2 of the paper: see README.md beside this file."""

from gdcb.instances.dosing.domain import study

__all__ = ["study"]
