"""Where the gate changes what is proposed: by band of context, which way, and by how much."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from gdcb.pages.marks import Frame, margin, rule, text, tick_labels, ticks
from gdcb.pages.numbers import share
from gdcb.protocol.report.bars import sample
from gdcb.protocol.report.document import Document, Feature
from gdcb.protocol.report.drawing import bar
from gdcb.protocol.report.figures import NARROW, Draw, Figures
from gdcb.protocol.report.layout import MISSING, paragraph
from gdcb.protocol.report.places import TITLE, described, label, rest_of, sentences

TOP, HEAD, ROW, GAP = 22.0, 24.0, 21.0, 24.0


def section(run: Document, figures: Figures) -> str:
    """Return the figure of GDCB's overrides by band, behind a sentence that reads it."""
    ours = run.ours
    if ours is None or ours.overrides is None:
        return MISSING
    found = ours.overrides
    n_bands = sum(len(feature.bands) for feature in found.features)
    has_rest = any(rest_of(band) > 0 for feature in found.features for band in feature.bands)
    keys = sample("lowered", "lowered") + sample("raised", "raised")
    keys += sample("stopped", "stopped or changed otherwise") if has_rest else ""
    lines = "" if run.replicates == 1 else " Lines: 95 % intervals of raised and of lowered."
    drawing = figures.figure(
        TITLE,
        described(found),
        panels(found.features),
        "GDCB (B4), in per cent of its decisions in each band: left of zero lowered, right of it "
        "raised; the number at the right is the share changed either way. Bands of a number are "
        f"about a fifth of the contexts each.{lines}",
        keys=keys,
    )
    return paragraph(*sentences(ours, n_bands, run.is_ungated)) + drawing


def panels(features: Sequence[Feature]) -> Draw:
    """Draw a panel a feature, a row a band: lowered left of zero, raised right; one scale."""
    ends = [0.0]
    for band in (band for feature in features for band in feature.bands):
        rest = rest_of(band)
        for value, sign in ((band.did.raised, 1), (band.did.lowered, -1)):
            if value is not None:
                most = value.mean if value.high is None else value.high
                ends.append(sign * 100 * (most + (rest if sign > 0 else 0.0)))
    low, high = min(ends), max(ends)
    high = high if high > low else low + 1.0
    values = [v for v in ticks(low, high, 6) if low <= v <= high]
    labels = [label(feature, band) for feature in features for band in feature.bands]

    def draw(width: float) -> tuple[float, str]:
        n_columns = 2 if width > NARROW else 1
        size = (width - GAP * (n_columns - 1)) / n_columns
        left, right = margin(labels), margin(["100 %"])
        ends, marks = [TOP] * n_columns, []

        def put(column: int, top: float, height: float, drawn: Callable[[Frame], str]) -> None:
            frame = Frame(size, height, left, right, top, 0.0, low, high, 0.0, 1.0)
            place = f"translate({column * (size + GAP):.1f},0)"
            marks.append(f'<g transform="{place}">{drawn(frame)}</g>')

        for feature in features:
            # The next panel goes where there is most room left.
            column = ends.index(min(ends))
            top = ends[column] + HEAD
            base = top + ROW * len(feature.bands)
            put(column, top, base, partial(_panel, feature, values))
            ends[column] = base + 8
        for column, end in enumerate(ends):
            put(column, 0.0, end, partial(_scale, values))
        return max(ends) + TOP, "".join(marks)

    return draw


def _panel(feature: Feature, values: Sequence[float], frame: Frame) -> str:
    top, low, zero = frame.top, frame.height - frame.bottom, frame.x(0.0)
    marks = [text(0, top - 8, feature.name.replace("=", " = "), kind="bold")]
    marks += [rule(frame.x(v), top - 2, frame.x(v), low, "grid") for v in values]
    for k, band in enumerate(feature.bands):
        middle = top + ROW * (k + 0.5)
        did = band.did
        marks.append(text(frame.left - 8, middle + 4, label(feature, band), "end"))
        if did.raised is None or did.lowered is None:
            marks.append(text(zero + 6, middle + 4, "no decision", kind="soft"))
            continue
        raised, lowered = frame.x(100 * did.raised.mean), frame.x(-100 * did.lowered.mean)
        y, high = middle - 6.5, 13.0
        marks.append(bar("lowered", lowered, y, zero - lowered, high))
        marks.append(bar("raised", zero, y, raised - zero, high))
        rest = rest_of(band)
        if rest:
            marks.append(bar("stopped", raised, y, frame.x(100 * rest) - zero, high))
        for value, sign in ((did.raised, 100), (did.lowered, -100)):
            if value.low is not None and value.high is not None and value.high > value.low:
                ends = frame.x(sign * value.low), frame.x(sign * value.high)
                marks.append(rule(ends[0], middle, ends[1], middle, "whisker"))
                marks += [rule(x, middle - 3, x, middle + 3, "whisker") for x in ends]
        changed = "" if did.changed is None else share(did.changed.mean)
        marks.append(text(frame.width, middle + 4, changed, "end"))
    return "".join([*marks, rule(zero, top - 2, zero, low, "axis")])


def _scale(values: Sequence[float], frame: Frame) -> str:
    """Return which side is which above a column of panels, and the numbers under it."""
    zero = frame.x(0.0)
    marks = [text(zero + 6, 13, "raised →", kind="soft")]
    if frame.x_low < 0:
        marks.append(text(zero - 6, 13, "← lowered", "end", "soft"))
    marks.append(text(frame.width, 13, "changed", "end", "soft"))
    # Both sides are shares: what is lowered has no sign.
    numbers = [number.lstrip("−") for number in tick_labels(values)]
    numbers[-1] += " %"
    for value, number in zip(values, numbers, strict=True):
        marks.append(text(frame.x(value), frame.height + 14, number, "middle", "soft"))
    return "".join(marks)
