"""Words of a page: counted things, capitals, and escaped prose."""

from __future__ import annotations

import html
import re

# Spaces within lists of numbers, between a sign and its number, before ± and %, and in 'p < …'.
_TIES = re.compile(r"(?<=\d), (?=[\d−>…])|(?<=[<>≥±×=]) (?=\d)| (?=[±%])|(?<=\bp) (?=[<=])")


def prose(words: str) -> str:
    r"""Return words escaped, with numbers kept together where a line breaks, and names as code.

    Examples
    --------
    >>> prose("a < 5 %, in `mis`")
    'a &lt;\xa05\xa0%, in <code>mis</code>'
    """
    whole = re.sub(
        r"(?<=\d), (?=[\d−>…])|(?<=[<>≥±×=]) (?=\d)| (?=[±%])|(?<=\bp) (?=[<=])", _tied, words
    )
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(whole))


def _tied(space: re.Match[str]) -> str:
    return space[0].replace(" ", "\u00a0")


def capital(sentence: str) -> str:
    """Return the sentence with a capital first letter."""
    return sentence[:1].upper() + sentence[1:]


def some(n: float, noun: str, nouns: str = "") -> str:
    """Count things.

    >>> some(1, "history", "histories"), some(1461, "row")
    ('1 history', '1,461 rows')
    """
    count = f"{n:,.0f}"
    return f"{count} {noun if count == '1' else nouns or noun + 's'}"
