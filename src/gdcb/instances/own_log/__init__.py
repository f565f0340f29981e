"""The protocol on one's own log."""

from gdcb.instances.own_log.domain import VARIANT, fingerprints, study

__all__ = ["VARIANT", "fingerprints", "study"]
