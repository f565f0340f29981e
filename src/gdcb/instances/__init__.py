"""The domains: each an instance, a learner and a world whose truth is known."""

from gdcb.instances.catalogue import NAMES, STUDIES, Domain, Study, load, study

__all__ = ["NAMES", "STUDIES", "Domain", "Study", "load", "study"]
