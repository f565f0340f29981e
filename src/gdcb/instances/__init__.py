"""The domains: each an instance, a learner and a world whose truth is known."""

from gdcb.instances.catalogue import NAMES, Domain, load

__all__ = ["NAMES", "Domain", "load"]
