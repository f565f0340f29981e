"""The small figures of a certificate: a bias against the margin, and the log over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from gdcb.history.page.document import Change, Document, Time
from gdcb.history.sentences import day
from gdcb.pages.marks import Frame, marker, rule, spread, svg, text
from gdcb.pages.numbers import Estimate, share

WIDTH = 420.0
BAR, TALL = 110.0, 16.0
ROW = 26.0
NUMBER = 8.0  # radius of the mark that bears a change's number

SIGNS = {
    "direct": "M24,4a20,20 0 1 0 .01,0zM14,25l7,7l13,-15",
    "adjust": "M24,4a20,20 0 1 0 .01,0zM24,13v14M17,20h14M17,34h14",
    "reweight": "M24,4a20,20 0 1 0 .01,0zM13,31v-4M20,31v-8M27,31v-13M34,31v-18",
    "refuse": "M16,4h16l12,12v16l-12,12h-16l-12,-12v-16zM16,16l16,16M32,16l-16,16",
}


def sign(verdict: str) -> str:
    """Return the sign of a verdict: each has a shape of its own, so that colour is not needed."""
    path = f'<path class="sign" d="{SIGNS[verdict]}"/>'
    return f'<svg viewBox="0 0 48 48" aria-hidden="true" focusable="false">{path}</svg>'


def reach_of(biases: Sequence[Estimate | None], margin: float | None) -> float:
    """Return the end of the scale that all bars share: at most five margins, what is beyond is cut.

    Examples
    --------
    >>> reach_of([Estimate(0.1, 0.05, 0.15), Estimate(9.0, 8.0, 10.0)], 0.1)
    0.5
    """
    ends = [
        abs(end)
        for b in biases
        if b is not None
        for end in (b.mean, b.low, b.high)
        if end is not None
    ]
    if margin is None or margin <= 0:
        return max([*ends, 1e-9])
    return min(max([1.5 * margin, *ends]), 5 * margin)


def bias_bar(bias: Estimate, margin: float | None, reach: float) -> str:
    """Return the bias and its interval over a grey band, the margin; a square is beyond it."""
    frame = Frame(BAR, TALL, 4.0, 4.0, 0.0, 0.0, -reach, reach, 0.0, 1.0)
    middle = TALL / 2
    marks = []
    if margin is not None:
        low, high = frame.x(-min(margin, reach)), frame.x(min(margin, reach))
        box = f'x="{low:.1f}" y="1" width="{high - low:.1f}" height="{TALL - 2:.0f}"'
        marks.append(f'<rect class="within" {box}/>')
    marks.append(rule(frame.x(0.0), 0, frame.x(0.0), TALL, "axis"))
    if bias.low is not None and bias.high is not None:
        ends = [frame.x(min(max(end, -reach), reach)) for end in (bias.low, bias.high)]
        marks.append(rule(ends[0], middle, ends[1], middle, "whisker"))
    is_beyond = margin is not None and abs(bias.mean) > margin
    if abs(bias.mean) > reach:
        way = 1 if bias.mean > 0 else -1
        at = f"M{frame.x(way * reach):.1f},{middle:.1f}"
        marks.append(f'<path class="mark" d="{at}m{-9 * way},-5l{9 * way},5l{-9 * way},5z"/>')
    else:
        shape = "square" if is_beyond else "dot"
        marks.append(marker(shape, frame.x(bias.mean), middle, 3.4))
    colour = "c-red" if is_beyond else "c-ours"
    return (
        f'<svg class="{colour}" width="{BAR:g}" height="{TALL:g}" viewBox="0 0 {BAR:g} {TALL:g}" '
        f'aria-hidden="true" focusable="false">{"".join(marks)}</svg>'
    )


def place(time: Time, period: tuple[Time, Time]) -> float | None:
    """Return where a time lies in the period, 0 to 1; None where the two cannot be compared.

    Examples
    --------
    >>> place("2025-07-02", ("2025-01-01", "2025-12-31"))
    0.5
    >>> place(60, ("2025-01-01", "2025-12-31")) is None
    True
    """
    low, at, high = (_number(one) for one in (period[0], time, period[1]))
    kinds = {isinstance(one, str) for one in (time, *period)}
    if low is None or at is None or high is None or len(kinds) > 1 or not high > low:
        return None
    return min(max((at - low) / (high - low), 0.0), 1.0)


def _number(time: Time) -> float | None:
    """Return seconds of a date, the number of a row; None where it is no date."""
    if not isinstance(time, str):
        return float(time)
    try:
        found = datetime.fromisoformat(time)
    except ValueError:
        return None
    return found.replace(tzinfo=found.tzinfo or UTC).timestamp()


def timeline(run: Document, numbers: Mapping[int, int]) -> str:
    """Return reward law and gates over time; nothing where the period is not known."""
    period = run.period
    if period is None and run.read is not None and run.read > 1:
        # A log without times counts its rows; dates need to know where the log begins and ends.
        period = (1.0, run.read)
    lines = [("reward law", run.law_changes), *((gate.name, gate.changes) for gate in run.gates)]
    changes = [change for _, some in lines for change in some]
    times = [change.time for change in changes]
    if period is None or any(place(time, period) is None for time in (*period, *times)):
        return ""
    title = "Reward law and gates over time"
    told = "; ".join(f"{numbers[id(change)]}: {day(change.time)}" for change in changes)
    description = f"From {day(period[0])} to {day(period[1])}. Changes: {told or 'none found'}."
    return svg("timeline", "time", title, description, WIDTH, _drawn(lines, period, numbers))


def _drawn(
    lines: Sequence[tuple[str, Sequence[Change]]],
    period: tuple[Time, Time],
    numbers: Mapping[int, int],
) -> tuple[float, str]:
    names = [name if len(name) <= 18 else f"{name[:17]}…" for name, _ in lines]
    left = 7.6 * max(len(name) for name in names) + 8
    height = ROW * len(lines) + 22
    frame = Frame(WIDTH, height, left, 6.0, 0.0, 22.0, 0.0, 1.0, 0.0, 1.0)
    marks = []
    for i, (name, (_, changes)) in enumerate(zip(names, lines, strict=True)):
        y = ROW * i + 17
        ordered = sorted((place(c.time, period) or 0.0, k) for k, c in enumerate(changes))
        at = [0.0, *(where for where, _ in ordered), 1.0]
        rates = [changes[k].before for _, k in ordered[:1]] + [changes[k].after for _, k in ordered]
        marks.append(text(left - 8, y + 4, name, "end"))
        for k in range(len(at) - 1):
            # Neighbouring stretches differ in shade and are parted by a cut.
            colour = "c-ours" if k % 2 == 0 else "c-floor"
            x1, x2 = frame.x(at[k]), frame.x(at[k + 1])
            marks.append(f'<g class="{colour}">{rule(x1, y, x2, y, "span")}</g>')
            rate = rates[k] if k < len(rates) else None
            if rate is not None and x2 - x1 > 44:
                marks.append(text((x1 + x2) / 2, y - 6, share(rate), "middle", "soft"))
        cuts = [frame.x(where) for where, _ in ordered]
        # The cut stays at its date; the number moves aside where another one is near.
        shown = spread(cuts, 2 * NUMBER + 2, left - NUMBER, WIDTH - NUMBER)
        marks += [rule(x, y - 9, x, y + 9, "cut") for x in cuts]
        for x, (_, k) in zip(shown, ordered, strict=True):
            marks += [
                f'<circle class="number" cx="{x:.1f}" cy="{y:.1f}" r="{NUMBER:g}"/>',
                text(x, y + 4.5, str(numbers[id(changes[k])]), "middle", "bold"),
            ]
    ends = [(left, day(period[0]), "start"), (WIDTH - 6, day(period[1]), "end")]
    marks += [text(x, height - 5, words, anchor, "soft") for x, words, anchor in ends]
    return height, "".join(marks)
