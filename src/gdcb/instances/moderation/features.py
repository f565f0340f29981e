"""Twelve numbers of a text: the probability of alt-profanity-check, and eleven counts.

Live use computes them from the text (`of`, `context_of`), asking the original model. All lie in
[0, 1]. Counts are of words as they stand and, for insults, also of words from which tricks of
spelling were taken off (1d10t, i d i o t, idiooot, id*ot).
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.parts import check_text

NAMES = (
    "profanity",
    "length",
    "capitals",
    "exclamation",
    "second_person",
    "first_person",
    "negation",
    "quotation",
    "insults",
    "disguised",
    "hostility",
    "kindness",
)
ABOUT = (
    "probability of alt-profanity-check that the text is offensive",
    "logarithm of the number of characters, 1 at a thousand",
    "share of capitals among letters",
    "exclamation marks, 1 at five",
    "you, your, yours: 1 at three",
    "I, me, we, us, my, our: 1 at three",
    "not, never, no, nobody: 1 at three",
    "quotation marks or words of reporting: 1 if there are",
    "insulting and vulgar words as they stand, 1 at three",
    "insulting words behind tricks of spelling, 1 at three",
    "phrases of threat, contempt or sarcasm, 1 at three",
    "words of kindness, 1 at three",
)
LONGEST = 20_000  # characters; a post that is longer is a file

_WORD = re.compile(r"[a-z0-9*@$']+")
_SPACED = re.compile(r"\b(?:[a-z0-9] ){2,}[a-z0-9]\b")
_STRETCHED = re.compile(r"(.)\1{2,}")
_QUOTES = re.compile(r"(?:^|\s)['\"‘“].+['\"’”]|\b(?:wrote|writes|reads|quote|quoted|term)\b")
_PLAIN = str.maketrans({"1": "i", "0": "o", "3": "e", "4": "a", "@": "a", "$": "s", "5": "s"})
_SECOND = frozenset(("you", "your", "yours", "yourself", "you're"))
_FIRST = frozenset(("i", "me", "we", "us", "my", "our", "mine", "i'm", "we're"))
_NEGATION = frozenset(("not", "never", "no", "nobody", "cannot", "don't", "nothing"))
_KIND = frozenset(("thanks", "please", "love", "great", "well", "treat", "glad", "laughed"))
# No list is complete: some of the generator's words and turns of phrase are in none of these.
INSULTS = frozenset(
    (
        *("silly", "fool", "idiot", "moron", "loser", "stupid", "dumb", "coward", "creep"),
        *("rubbish", "garbage", "trash", "pathetic", "dull", "useless", "ugly"),
        *("damn", "bloody", "crap", "hell"),
    )
)
_HOSTILE = tuple(
    re.compile(pattern)
    for pattern in (
        r"\bregret\b",
        r"\bwait and see\b|\bsee what happens\b",
        r"\bknow where\b",
        r"\bnobody (?:asked|would|wants|likes)\b",
        r"\bgenius\b|\bnever change\b",
        r"\bclearly cannot\b|\bcannot even\b",
        r"\bgo away\b|\bshut up\b|\bget lost\b",
    )
)


def check_post(where: str, text: Any) -> str:
    """Refuse what is no text, empty text, and text that is longer than any post."""
    known = check_text(where, text, may_be_empty=True)
    if not known.strip():
        raise InvalidInput(f"{where}: expected some words, got empty text")
    if len(known) > LONGEST:
        raise InvalidInput(f"{where}: expected at most {LONGEST:,} characters, got {len(known):,}")
    return known


def of(text: str) -> Array:
    """Return the twelve features of one text (12,), the original model asked."""
    return np.asarray(of_all([check_post("text", text)])[0])


def of_all(texts: Sequence[str]) -> Array:
    """Return the features of several texts: (N, 12)."""
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        raise InvalidInput(f"texts: expected a list of texts, got {texts!r}")
    checked = [check_post(f"texts[{i}]", text) for i, text in enumerate(texts)]
    if not checked:
        raise InvalidInput("texts: expected at least one text, got none")
    out = np.empty((len(checked), len(NAMES)))
    out[:, 0] = profanity(checked)
    for i, text in enumerate(checked):
        out[i, 1:] = counts(text)
    return out


def profanity(texts: Sequence[str]) -> Array:
    """Return the probability of alt-profanity-check for each text: (N,)."""
    try:
        model = importlib.import_module("profanity_check")
    except ModuleNotFoundError as error:
        raise InvalidInput(
            "features: alt-profanity-check is not installed; pip install alt-profanity-check"
        ) from error
    found = np.asarray(model.predict_prob(list(texts)), dtype=float)
    if not np.isfinite(found).all():
        raise InvalidInput("features: the profanity model gave no finite number")
    return np.asarray(np.clip(found, 0.0, 1.0))


def counts(text: str) -> tuple[float, ...]:
    """Return the eleven features that need no model.

    Examples
    --------
    'You 1d10t!' has ten characters, so log 10 / log 1000 = 1/3; one of its five letters is a
    capital (digits are none); one exclamation mark of five; 'you' once of three; no insult as it
    stands and one behind digits.

    >>> [round(value, 3) for value in counts("You 1d10t!")]
    [0.333, 0.2, 0.2, 0.333, 0.0, 0.0, 0.0, 0.0, 0.333, 0.0, 0.0]
    """
    letters = [letter for letter in text if letter.isalpha()]
    lower = text.lower()
    words = _WORD.findall(lower)
    plain = sum(_stem(word) in INSULTS for word in words)
    found = max(plain, sum(_stem(word) in INSULTS for word in uncovered(lower)))
    masked = sum("*" in word and len(word) > 2 and _unmasked(word) for word in words)
    return (
        min(1.0, math.log(max(len(text), 1)) / math.log(1000.0)),
        sum(letter.isupper() for letter in letters) / max(len(letters), 1),
        min(text.count("!"), 5) / 5.0,
        _share(word in _SECOND for word in words),
        _share(word in _FIRST for word in words),
        _share(word in _NEGATION for word in words),
        float(_QUOTES.search(lower) is not None),
        min(plain, 3) / 3.0,
        min(found - plain + masked, 3) / 3.0,
        _share(pattern.search(lower) is not None for pattern in _HOSTILE),
        _share(word in _KIND for word in words),
    )


def uncovered(lower: str) -> list[str]:
    """Return the words of a text in small letters, tricks of spelling taken off.

    >>> uncovered("an 1d10t, a f o o l and a mooooron")
    ['an', 'idiot', 'a', 'fool', 'and', 'a', 'moron']
    """
    together = _SPACED.sub(_joined, lower)
    short = _STRETCHED.sub(r"\1", together)
    return [word.translate(_PLAIN) for word in _WORD.findall(short)]


def _joined(found: re.Match[str]) -> str:
    letters = found.group().split(" ")
    # 'a f o o l': the article before a word that was spaced is no part of it.
    head = "a " if len(letters) > 3 and letters[0] == "a" else ""
    return head + "".join(letters[1 if head else 0 :])


def _stem(word: str) -> str:
    return word[:-1] if word.endswith("s") and word[:-1] in INSULTS else word


def _unmasked(word: str) -> bool:
    """Return whether some insult looks like a word in which letters were starred out."""
    pattern = re.compile(re.escape(word).replace(r"\*", "[a-z]"))
    return any(pattern.fullmatch(known) is not None for known in INSULTS)


def _share(found: Iterable[bool]) -> float:
    return min(sum(found), 3) / 3.0


def context_of(
    text: str,
    *,
    reach: float,
    reports: float,
    violation_cost: float = 1.0,
    appeal_cost: float = 0.5,
) -> dict[str, float]:
    """Return the context of one post by name, as `Agent.decide` wants it."""
    named = dict(zip(NAMES, of(text).tolist(), strict=True))
    return named | {
        "reach": reach,
        "reports": reports,
        "violation_cost": violation_cost,
        "appeal_cost": appeal_cost,
    }
