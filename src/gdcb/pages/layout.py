"""Words of a page: escaped, with numbers kept together where a line breaks."""

from __future__ import annotations

import html
import re


def prose(words: str) -> str:
    r"""Return words escaped, with numbers kept together where a line breaks.

    Examples
    --------
    >>> prose("a < 5 %")
    'a &lt; 5\xa0%'
    """
    whole = re.sub(r"(?<=\d), (?=[\d−>…])|(?<=[>≥±×]) (?=\d)| (?=[±%])", _tied, words)
    return html.escape(whole)


def _tied(space: re.Match[str]) -> str:
    return space[0].replace(" ", "\u00a0")
