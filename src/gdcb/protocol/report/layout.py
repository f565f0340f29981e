"""Pieces that every part of the page is made of."""

from __future__ import annotations

import html

from gdcb.pages import words as page_words
from gdcb.protocol.report.document import Curve, Document, Method
from gdcb.protocol.report.places import ANCHOR, TITLE
from gdcb.protocol.report.style import COLD, OURS, RIVALS, Pen

MISSING = '<p class="facts">Not measured in this run.</p>'


def prose(words: str) -> str:
    """Return words as every page has them; the figure that advice points at is a link to it."""
    return page_words.prose(words).replace(f"“{TITLE}”", f'“<a href="#{ANCHOR}">{TITLE}</a>”')


def paragraph(*sentences: str) -> str:
    """Return the sentences as one paragraph, or nothing."""
    whole = " ".join(sentence for sentence in sentences if sentence)
    return f"<p>{prose(whole)}</p>" if whole else ""


def folded(title: str, body: str) -> str:
    """Return what is folded away on a screen and open on paper, in any browser."""
    head = f"<details><summary>{html.escape(title)}</summary></details>"
    return f'{head}<div class="folded">{body}</div>'


def has_points(curve: Curve) -> bool:
    """Say whether anything was measured."""
    return any(point is not None for point in curve)


def key_methods(run: Document) -> list[tuple[Method, Pen]]:
    """Return the few methods of the main figures: B1, the best B2 and B3, GDCB, GDCB cold."""
    found = [
        (run.methods.get("B1"), RIVALS[0]),
        (run.best("B2"), RIVALS[1]),
        (run.best("B3"), RIVALS[2]),
        (run.methods.get("A3"), COLD),
        (run.ours, OURS),
    ]
    return [(method, pen) for method, pen in found if method is not None]
