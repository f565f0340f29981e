"""The scaler: which rows taught it, how far its δ̂ goes, and how far what ran goes."""

from __future__ import annotations

from collections.abc import Sequence

from gdcb.history.sentences.phrases import short
from gdcb.pages.numbers import share
from gdcb.pages.words import some

Span = tuple[str, float | None, float | None, float | None, float | None]


def scaler_at_prior(
    rows: int,
    spans: Sequence[Span] = (),
    outside: float = 0.0,
    is_clipped: bool = True,
    is_silent: bool = False,
) -> str:
    """Say that the scaler starts from its prior, why, and whether that leaves what ran.

    Parameters
    ----------
    rows : rows that it may use
    spans : as in `scaler_taught`, of the prior δ
    outside : share of contexts in which the prior δ lies outside what ran
    is_clipped : whether it is clipped there; not where the log was refused and so not imported
    is_silent : whether no row of the log has what the scaler learns from

    >>> scaler_at_prior(0, is_silent=True)
    'The scaler stays at its prior: no row of the log has what it learns from.'
    >>> scaler_at_prior(0)
    'The scaler stays at its prior: the certificate lets it use no row.'
    >>> scaler_at_prior(0, [("price", 0.95, 1.05, 0.9, 1.1)])
    'The scaler stays at its prior: the certificate lets it use no row. Over the contexts of this
     log its δ runs from 0.95 to 1.05; what ran allows 0.9 to 1.1, and elsewhere it is clipped
     there.'
    >>> scaler_at_prior(0, [("price", 0.2, 6.1, 0.9, 1.1)], 0.7, is_clipped=False)
    'The scaler stays at its prior: the certificate lets it use no row. Over the contexts of this
     log its δ runs from 0.2 to 6.1; what ran allows 0.9 to 1.1. It lies outside in 70 % of the
     contexts and is not clipped there, because a refused log is not imported: those proposals have
     never run.'
    """
    why = "the certificate lets it use no row"
    if is_silent:
        why = "no row of the log has what it learns from"
    elif rows:
        why = f"the {some(rows, 'row')} that it may use {_say(rows)} too little of δ"
    said = f"The scaler stays at its prior: {why}."
    if outside == 0:
        if not (spans and is_clipped):
            return said
        compared = _compared(spans, "δ", "runs")
        return (
            f"{said} Over the contexts of this log {compared}, and elsewhere it is clipped there."
        )
    would = "would run" if is_clipped else "runs"
    said = f"{said} Over the contexts of this log {_compared(spans, 'δ', would)}."
    found = f"{said} It lies outside in {share(outside)} of the contexts and is"
    if is_clipped:
        return f"{found} clipped there."
    return (
        f"{found} not clipped there, because a refused log is not imported: those proposals have "
        "never run."
    )


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
    said = f"{start} Over the contexts of this log {_compared(spans, 'δ̂', would)}."
    if outside == 0:
        return said
    return f"{said} It lies outside in {share(outside)} of the contexts and is clipped there."


def _compared(spans: Sequence[Span], symbol: str, runs: str) -> str:
    parts = []
    for name, low, high, ran_low, ran_high in spans:
        of = f" for {name}" if len(spans) > 1 else ""
        parts.append(
            f"its {symbol}{of} {runs} from {short(low or 0.0)} to {short(high or 0.0)}; what ran "
            f"allows {short(ran_low or 0.0)} to {short(ran_high or 0.0)}"
        )
    return ", and ".join(parts)
