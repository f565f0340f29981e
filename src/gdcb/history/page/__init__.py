"""The page of a certificate: one self-contained sheet to file, from the document scripts read."""

from gdcb.history.page.sheet import certificate_page

__all__ = ["certificate_page"]
