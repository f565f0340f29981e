"""Secrets in text: keys and tokens by their form, cards by their check digit, noise by entropy."""

from __future__ import annotations

import math
import re
from collections import Counter

# Forms that issuers document for their own keys, and marks that a secret follows.
FORMS: dict[str, re.Pattern[str]] = {
    "private key": re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"),
    "cloud key": re.compile(r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[0-9A-Z]{16}(?![A-Za-z0-9])"),
    "API key": re.compile(
        r"(?<![A-Za-z0-9])(?:sk-[A-Za-z0-9_-]{20,}|AIza[0-9A-Za-z_-]{35}|[sr]k_live_[0-9A-Za-z]{16,}"
        r"|hf_[A-Za-z0-9]{30,})"
    ),
    "access token": re.compile(
        r"(?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,}"
        r"|glpat-[A-Za-z0-9_-]{20,}|xox[abeoprs]-[A-Za-z0-9-]{10,})"
    ),
    "signed token": re.compile(
        r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"
    ),
    "bearer token": re.compile(r"(?i)\bbearer\s+[A-Za-z0-9._~+/-]{16,}=*"),
    "password in an address": re.compile(r"(?i)\b[a-z][a-z0-9+.-]*://[^\s/:@]+:[^\s/@]+@"),
    "password": re.compile(
        r"(?i)\b(?:pass(?:word|wd|phrase|code)|pwd|secret|token|api[_ -]?key)\b\s*(?:is\b|[:=])"
        r"\s*[\"']?[^\s\"',;]{6,}"
    ),
}
# Names of arguments whose value is a secret by what it is for.
NAMED = re.compile(
    r"(?i)(?:^|[_-])(?:pass(?:word|wd|phrase|code)|pwd|secret|token|api_?key|private_?key"
    r"|credentials?)(?:$|[_-])"
)
_CARD = re.compile(r"(?<![\w.-])\d(?:[ -]?\d){12,18}(?![\w-])")
_ISSUERS = re.compile(  # Visa; Mastercard; American Express; Discover and UnionPay
    r"4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2[2-7]\d{14}|3[47]\d{13}|6(?:011|5\d\d|2\d\d)\d{12,15}"
)
_WEB = re.compile(r"(?i)\b(?:[a-z][a-z0-9+.-]*://|www\.)\S+")
_NOISE = re.compile(r"[A-Za-z0-9+/_=-]{20,}")
LEAST_ENTROPY = 4.0  # bits a character: English prose has some 4.1 over words, one word below 3.5


def has_check_digit(digits: str) -> bool:
    """Whether the last digit is the check digit of the others (Luhn).

    From the right, every second digit is doubled, less 9 above 9; the sum is a multiple of 10.

    >>> has_check_digit("79927398713"), has_check_digit("79927398714")
    (True, False)
    """
    total = 0
    for i, digit in enumerate(reversed(digits)):
        number = int(digit) * (1 + i % 2)
        total += number - 9 * (number > 9)
    return total % 10 == 0


def entropy(text: str) -> float:
    """Return the entropy of a text's characters, in bits a character.

    >>> entropy("aabb"), entropy("abcd"), entropy("")
    (1.0, 2.0, 0.0)
    """
    n = len(text)
    return -sum(k / n * math.log2(k / n) for k in Counter(text).values()) + 0.0 if n else 0.0


def _is_noise(word: str) -> bool:
    """Whether a word looks drawn at random: three kinds of characters and much entropy."""
    kinds = (str.islower, str.isupper, str.isdigit)
    return all(any(map(kind, word)) for kind in kinds) and entropy(word) >= LEAST_ENTROPY


def find_secrets(text: str) -> list[tuple[str, str]]:
    """Return what looks like a secret in a text: pairs of kind and the text itself.

    A card number has the length and first digits of an issuer and a right check digit. A word of 20
    characters or more with lower case, upper case and digits is a secret at `LEAST_ENTROPY`.

    >>> find_secrets("card 4111 1111 1111 1111, not 4111 1111 1111 1112")
    [('card number', '4111 1111 1111 1111')]
    """
    found = [(kind, m.group()) for kind, form in FORMS.items() for m in form.finditer(text)]
    for match in _CARD.finditer(text):
        digits = re.sub(r"\D", "", match.group())
        if _ISSUERS.fullmatch(digits) and has_check_digit(digits):
            found.append(("card number", match.group()))
    # The parts of a web address are judged one by one: together they are long and mixed as well.
    apart = _WEB.sub(lambda match: " ".join(re.split(r"[/?&=#.]", match.group())), text)
    for match in _NOISE.finditer(apart):
        word = match.group()
        is_new = all(word not in other and other not in word for _, other in found)
        if is_new and _is_noise(word):
            found.append(("random text", word))
    return found


def masked(secret: str) -> str:
    """Return a secret as a reason may show it: its first characters, never the whole.

    >>> masked("sk-abcdefghijklmnop")
    'sk-a… (19 characters)'
    """
    return f"{secret[: min(4, len(secret) // 4)]}… ({len(secret)} characters)"
