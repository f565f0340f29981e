"""The domains: each an instance, a learner and a world whose truth is known."""

from gdcb.instances.catalogue import (
    DECLARED,
    NAMES,
    STUDIES,
    Domain,
    Figure,
    Measure,
    Study,
    Tuning,
    load,
    study,
)

__all__ = [
    "DECLARED",
    "NAMES",
    "STUDIES",
    "Domain",
    "Figure",
    "Measure",
    "Study",
    "Tuning",
    "load",
    "study",
]
