"""How pages write times, spans and amounts: filters of the templates."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import numpy as np
from markupsafe import Markup, escape

from gdcb.pages.numbers import NONE, Estimate, bracketed, fixed
from gdcb.service.pages.views.decision import Action, Quantity

SECOND = 1_000_000
_SIX, _ALL = 6, 12  # digits
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _moment(at: int) -> datetime | None:
    """Return the time of so many microseconds; None outside the calendar."""
    try:
        return _EPOCH + timedelta(microseconds=at)
    except OverflowError:
        return None


def stamp(at: int | None) -> str:
    """Write a time for machines, to the second.

    >>> stamp(1_700_000_000_000_000)
    '2023-11-14T22:13:20Z'
    """
    found = None if at is None else _moment(at)
    return "" if found is None else f"{found:%Y-%m-%dT%H:%M:%S}Z"


def clock(at: int | None) -> str:
    """Write a time for people.

    >>> clock(1_700_000_000_000_000)
    '14 Nov 2023, 22:13 UTC'
    """
    found = None if at is None else _moment(at)
    if found is None:
        return NONE
    return f"{found.day} {_MONTHS[found.month - 1]} {found.year}, {found:%H:%M} UTC"


def when(at: int | None) -> Markup:
    """Return a time as an element that people and machines read."""
    if at is None or not stamp(at):
        return Markup(NONE)
    return Markup('<time datetime="{}">{}</time>').format(stamp(at), clock(at))


def soon(at: int | None, now: int) -> Markup:
    """Return a time near now: without its day where that is today."""
    if at is None or not stamp(at) or stamp(at)[:10] != stamp(now)[:10]:
        return when(at)
    return Markup('<time datetime="{}">{} UTC</time>').format(stamp(at), stamp(at)[11:16])


def span(seconds: float | None) -> str:
    """Write how long something takes, in its two largest units.

    >>> span(42), span(3_900), span(200_000)
    ('42 s', '1 h 5 min', '2 d 7 h')
    """
    if seconds is None or not math.isfinite(seconds):
        return NONE
    whole = int(abs(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if minutes < 60:
        return f"{minutes} min"
    if hours < 48:
        return f"{hours} h {minutes % 60} min" if minutes % 60 else f"{hours} h"
    return f"{days} d {hours % 24} h" if hours % 24 else f"{days} d"


def since(at: int | None, now: int) -> str:
    """Write how long ago a time was."""
    return NONE if at is None else span((now - at) / SECOND)


def left(deadline: int, now: int) -> str:
    """Write how long a deadline is away, or that it has passed; the last minutes with seconds.

    The script writes the same words, so that nothing moves when it starts to count.
    """
    if deadline <= now:
        return "deadline passed"
    seconds = (deadline - now) // SECOND
    if 60 <= seconds < 900:
        return f"{seconds // 60} min {seconds % 60:02d} s left"
    return f"{span(seconds)} left"


def amount(value: float | str | None, unit: str = "", digits: int | None = None) -> str:
    """Write a number or a category, with its unit, which no line break parts from it.

    >>> amount(1284.5), amount(-0.25, digits=1), amount("lispro"), amount(None)
    ('1,284.5', '−0.2', 'lispro', '–')
    """
    if value is None or value == "":
        return NONE
    if isinstance(value, str):
        return f"{value}\u00a0{unit}" if unit else value
    if not math.isfinite(value):
        return NONE
    written = f"{value:,.10g}".replace("-", "−") if digits is None else fixed(value, digits)
    return f"{written}\u00a0{unit}" if unit else written


def limits(low: float | None, high: float | None) -> str:
    """Write between which numbers an edit must lie, as they may be typed; '' without limits.

    >>> limits(50.0, 300.0), limits(None, 1250.5), limits(0.0, None), limits(None, None)
    ('50 to 300', 'at most 1250.5', 'at least 0', '')
    """
    least, most = attribute(low), attribute(high)
    if least and most:
        return f"{least} to {most}"
    return f"at least {least}" if least else f"at most {most}" if most else ""


def quantity(one: Quantity) -> str:
    """Write the value of a quantity."""
    return amount(one.value, one.unit, one.digits)


def action(columns: Action) -> Markup:
    """Return an action in one line: its values, named where there are several."""
    if not columns:
        return Markup("nothing")
    if len(columns) == 1:
        return Markup("<bdi>{}</bdi>").format(quantity(columns[0]))
    named = (
        Markup('<span class="soft">{}</span> <bdi>{}</bdi>').format(one.name, quantity(one))
        for one in columns
    )
    return Markup(", ").join(named)


def near(columns: Action) -> str:
    """Write an action to six digits, and to the cent where there are more, for a button.

    >>> near((Quantity("price", 1159.6944295, "€", 0),)), near((Quantity("rate", 0.0004),))
    ('1,159.69 €', '0.0004')
    """
    return _plain(columns, _SIX)


def exact(columns: Action) -> str:
    """Write an action with all its digits, as it runs.

    >>> exact((Quantity("price", 1159.6944295, "€", 0),))
    '1,159.6944295 €'
    """
    return _plain(columns, _ALL)


def _plain(columns: Action, digits: int) -> str:
    if not columns:
        return "nothing"
    written = [_whole(one, digits) for one in columns]
    if len(written) == 1:
        return written[0]
    return ", ".join(f"{one.name} {words}" for one, words in zip(columns, written, strict=True))


def _whole(one: Quantity, digits: int) -> str:
    words = amount(one.value)
    if isinstance(one.value, float | int) and math.isfinite(one.value):
        before = len(f"{abs(one.value):.0f}")
        words = f"{one.value:,.{max(digits, before + 2)}g}".replace("-", "−")
    return f"{words} {one.unit}" if one.unit and words != NONE else words


def change(before: Action, after: Action) -> str:
    """Write by how much the one number of an action changes, in per cent; else nothing."""
    if len(before) != 1 or len(after) != 1:
        return ""
    old, new = before[0].value, after[0].value
    if isinstance(old, str) or isinstance(new, str) or not old or new is None:
        return ""
    share = 100 * (new - old) / abs(old)
    if not math.isfinite(share) or abs(share) < 0.05:
        return ""
    sign = "+" if share > 0 else ""
    return f"{sign}{fixed(share, 0 if abs(share) >= 10 else 1)} %"


def worth(value: Estimate | None, unit: str = "", digits: int | None = None) -> str:
    """Write an estimate with its interval and unit."""
    written = bracketed(value, digits)
    return f"{written} {unit}" if unit and value is not None else written


def cell(value: Estimate | None, digits: int | None = None) -> Markup:
    """Return an estimate for a narrow column: its interval may stand under it."""
    mean, _, bounds = bracketed(value, digits).partition(" [")
    if not bounds:
        return Markup("{}").format(mean)
    return Markup('{} <span class="bounds">[{}</span>').format(mean, bounds)


def attribute(value: float | str | None) -> str:
    """Write a value as the attribute of an input has it: no thousands, no unit, no exponent.

    >>> attribute(1250.0), attribute(3e-12), attribute(1e12)
    ('1250', '0.000000000003', '1000000000000')
    """
    if value is None or isinstance(value, str):
        return value or ""
    if not math.isfinite(value):
        return ""
    return np.format_float_positional(float(f"{value:.12g}"), trim="-")


def short(digest: str) -> Markup:
    """Return the beginning of a hash, with the whole of it as its title."""
    return (
        Markup('<code title="{}">{}</code>').format(digest, digest[:12]) if digest else escape("")
    )
