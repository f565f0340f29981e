"""The scaler: which rows taught it, how far its δ̂ goes, and how far what ran goes."""

from __future__ import annotations

from collections.abc import Sequence

from gdcb.history.sentences.phrases import short
from gdcb.pages.numbers import share
from gdcb.pages.words import some

Span = tuple[str, float | None, float | None, float | None, float | None]


def scaler_at_prior(rows: int) -> str:
    """Say that the scaler starts from its prior, and why.

    >>> scaler_at_prior(0)
    'The scaler stays at its prior: the certificate lets it use no row.'
    """
    why = "the certificate lets it use no row"
    if rows:
        why = f"the {some(rows, 'row')} that it may use {_say(rows)} too little of δ"
    return f"The scaler stays at its prior: {why}."


def _say(rows: int) -> str:
    return "says" if rows == 1 else "say"


def scaler_taught(rows: int, total: int, spans: Sequence[Span], outside: float | None) -> str:
    """Say which rows taught the scaler, and where its δ̂ lies against what ran.

    Parameters
    ----------
    rows, total : rows that taught it, of those that say what it learns from
    spans : (column, lowest and highest δ̂, lowest and highest δ of what ran), a column each
    outside : share of contexts in which δ̂ lies outside what ran; None: nothing limits it

    >>> scaler_taught(900, 4500, [("price", 0.07, 4e9, 0.7, 1.3)], 0.48)
    'The scaler learned from 900 of 4,500 rows. Over the contexts of this log its δ̂ would run from
     0.07 to 4,000,000,000; what ran allows 0.7 to 1.3. It lies outside in 48 % of the contexts and
     is clipped there.'
    """
    start = f"The scaler learned from {rows:,} of {some(total, 'row')}."
    if outside is None:
        found = ", ".join(
            f"{short(low or 0.0)} to {short(high or 0.0)}" for _, low, high, *_ in spans
        )
        return (
            f"{start} Over the contexts of this log its δ̂ runs from {found}; here δ is no factor "
            "and no shift of the action, so what ran does not limit it."
        )
    would = "would run" if outside > 0 else "runs"
    parts = []
    for name, low, high, ran_low, ran_high in spans:
        of = f" for {name}" if len(spans) > 1 else ""
        parts.append(
            f"its δ̂{of} {would} from {short(low or 0.0)} to {short(high or 0.0)}; what ran allows "
            f"{short(ran_low or 0.0)} to {short(ran_high or 0.0)}"
        )
    said = f"{start} Over the contexts of this log {', and '.join(parts)}."
    if outside == 0:
        return said
    return f"{said} It lies outside in {share(outside)} of the contexts and is clipped there."
