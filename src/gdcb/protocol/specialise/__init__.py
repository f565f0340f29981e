"""What holds of the theorems for an instance, with what was measured: the report's second part."""

from gdcb.protocol.specialise.whole import specialised

__all__ = ["specialised"]
