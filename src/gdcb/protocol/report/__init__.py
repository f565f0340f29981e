"""The report of a run: one self-contained page from the document that scripts read."""

from gdcb.protocol.report.page import report

__all__ = ["report"]
