"""All instances side by side: one table of results, and the paper's predictions beside them."""

from gdcb.protocol.across.files import MARKDOWN, PAGE, TABLE, write
from gdcb.protocol.across.whole import whole

__all__ = ["MARKDOWN", "PAGE", "TABLE", "whole", "write"]
