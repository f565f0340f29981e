"""Read the document of a run: what is null becomes None, what is wrong is refused."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from gdcb.errors import InvalidInput
from gdcb.pages.numbers import Estimate
from gdcb.protocol.report.document import (
    PARTS,
    Actions,
    Band,
    Best,
    Changes,
    ColdStart,
    Compression,
    Curve,
    Document,
    Feature,
    Highest,
    Method,
    Overrides,
    Split,
    Theorem,
    Threshold,
)


def read(document: Mapping[str, Any]) -> Document:
    """Read the document; what is missing or null becomes None, what is wrong is refused.

    Examples
    --------
    >>> run = {
    ...     "instance": "str",
    ...     "episodes": 2,
    ...     "replicates": 1,
    ...     "methods": {
    ...         "B4": {"label": "GDCB", "regret": {"mean": 3.5, "low": None, "high": None}}
    ...     },
    ... }
    >>> read(run).methods["B4"].regret
    Estimate(mean=3.5, low=None, high=None, p=None)
    """
    if not isinstance(document, Mapping):
        raise InvalidInput(f"report: expected the document of a run, got {_shown(document)}")
    about = _mapping(document.get("about"), "about")
    instance = _text(document.get("instance"))
    entries = _mapping(document.get("methods"), "methods")
    methods = {str(key): _method(str(key), value) for key, value in entries.items() if value}
    theorems = _mapping(document.get("theorems"), "theorems")
    return Document(
        instance=instance,
        title=_text(about.get("title")) or instance,
        variant=_text(document.get("variant")),
        episodes=_count(document.get("episodes"), "episodes"),
        replicates=_count(document.get("replicates"), "replicates"),
        seed=_text(document.get("seed")),
        version=_text(document.get("version")),
        command=_text(document.get("command")),
        unit=_text(about.get("unit")) or "reward",
        action=_text(about.get("action")) or "action, relative",
        real=_lines(about.get("real"), "about.real"),
        made=_lines(about.get("made"), "about.made"),
        oracle_knows=_text(about.get("oracle_knows")),
        options=dict(_mapping(document.get("options"), "options")),
        specification=[_row(row) for row in _sequence(document.get("specification"), "spec")],
        variance_ratio=_estimate(document.get("variance_ratio"), "variance_ratio"),
        floor=_estimate(document.get("floor"), "floor"),
        floor_curve=_curve(document.get("floor_curve"), "floor_curve"),
        methods=methods,
        against_best=_against_best(document.get("against_best"), methods),
        cold_start=_cold_start(document.get("cold_start")),
        theorems={str(k): _theorem(v, f"theorems.{k}") for k, v in theorems.items()},
    )


def _shown(value: Any) -> str:
    return f"{type(value).__name__} {str(value)[:60]!r}"


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _mapping(value: Any, at: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidInput(f"report: {at}: expected an object or null, got {_shown(value)}")
    return value


def _sequence(value: Any, at: str) -> Sequence[Any]:
    if value is None:
        return []
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise InvalidInput(f"report: {at}: expected a list or null, got {_shown(value)}")
    return value


def _lines(value: Any, at: str) -> list[str]:
    return [value] if isinstance(value, str) else [str(line) for line in _sequence(value, at)]


def _number(value: Any, at: str) -> float | None:
    """Return a finite number or None: NaN and infinity are what null stands for."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"report: {at}: expected a number or null, got {_shown(value)}")
    return float(value) if math.isfinite(value) else None


def _count(value: Any, at: str) -> int:
    number = _number(value, at)
    if number is None or number < 1 or number != int(number):
        raise InvalidInput(f"report: {at}: expected a whole number from 1, got {_shown(value)}")
    return int(number)


def _estimate(value: Any, at: str) -> Estimate | None:
    """Read {mean, low, high} (and p), or a bare number; without a mean there is none."""
    if not isinstance(value, Mapping):
        number = _number(value, at)
        return None if number is None else Estimate(number)
    mean = _number(value.get("mean"), f"{at}.mean")
    if mean is None:
        return None
    low, high, p = (_number(value.get(name), f"{at}.{name}") for name in ("low", "high", "p"))
    is_whole = low is not None and high is not None
    return Estimate(mean, low if is_whole else None, high if is_whole else None, p)


def _curve(value: Any, at: str) -> Curve:
    return [_estimate(point, f"{at}[{t}]") for t, point in enumerate(_sequence(value, at))]


def _split(value: Any, at: str) -> Split | None:
    found = {name: _estimate(part, f"{at}.{name}") for name, part in _mapping(value, at).items()}
    parts = {name: part for name in PARTS if (part := found.get(name)) is not None}
    return parts if len(parts) == len(PARTS) else None


def _method(key: str, value: Any) -> Method:
    at = f"methods.{key}"
    entry = _mapping(value, at)
    curves = _mapping(entry.get("parts_curve"), f"{at}.parts_curve")
    parts_curve = {n: _curve(curves.get(n), f"{at}.parts_curve.{n}") for n in PARTS}

    def one(name: str) -> Estimate | None:
        return _estimate(entry.get(name), f"{at}.{name}")

    def curve(name: str) -> Curve:
        return _curve(entry.get(name), f"{at}.{name}")

    return Method(
        key=key,
        label=_text(entry.get("label")) or key,
        regret=one("regret"),
        excess=one("excess"),
        reward=one("reward"),
        versus=one("vs_B4"),
        versus_cold=one("vs_A3"),
        regret_curve=curve("regret_curve"),
        excess_curve=curve("excess_curve"),
        error_curve=curve("calibration_error_curve"),
        override_curve=curve("override_rate_curve"),
        parts=_split(entry.get("parts"), f"{at}.parts"),
        parts_paper=_split(entry.get("parts_paper"), f"{at}.parts_paper"),
        parts_curve=parts_curve if all(parts_curve.values()) else None,
        threshold=_threshold(entry.get("episodes_to_threshold"), f"{at}.episodes_to_threshold"),
        overrides=_overrides(entry.get("overrides"), f"{at}.overrides"),
        actions=_actions(entry.get("actions"), f"{at}.actions"),
        tuned=dict(_mapping(entry.get("tuned"), f"{at}.tuned")),
    )


def _threshold(value: Any, at: str) -> Threshold | None:
    if value is None:
        return None
    entry = _mapping(value, at)
    median, low, high, censored = (
        _number(entry.get(name), f"{at}.{name}") for name in ("median", "low", "high", "censored")
    )
    return Threshold(median, low, high, censored, _estimate(entry.get("booked"), f"{at}.booked"))


def _overrides(value: Any, at: str) -> Overrides | None:
    entry = _mapping(value, at)
    features = [
        _feature(feature, f"{at}.features[{i}]")
        for i, feature in enumerate(_sequence(entry.get("features"), f"{at}.features"))
    ]
    if not features:
        return None
    top = _mapping(entry.get("highest"), f"{at}.highest")
    changed = _estimate(top.get("changed"), f"{at}.highest.changed")
    highest, number = None, _number(top.get("band"), f"{at}.highest.band")
    for feature in features:
        if feature.name == top.get("feature") and changed is not None and number is not None:
            if not 0 <= number < len(feature.bands) or number != int(number):
                raise InvalidInput(
                    f"report: {at}.highest.band: expected 0 to {len(feature.bands) - 1}, "
                    f"got {_shown(number)}"
                )
            band = feature.bands[int(number)]
            highest = Highest(feature, band, changed, _text(top.get("direction")))
    return Overrides(_changes(entry.get("whole"), f"{at}.whole"), features, highest)


def _feature(value: Any, at: str) -> Feature:
    entry = _mapping(value, at)
    found = []
    for k, band in enumerate(_sequence(entry.get("bands"), f"{at}.bands")):
        where = f"{at}.bands[{k}]"
        low, high = (
            _number(_mapping(band, where).get(name), f"{where}.{name}") for name in ("low", "high")
        )
        found.append(Band(low, high, _changes(band, where)))
    return Feature(_text(entry.get("name")), bool(entry.get("is_flag")), found)


def _changes(value: Any, at: str) -> Changes:
    entry = _mapping(value, at)
    names = ("changed", "raised", "lowered", "vetoed", "log_ratio")
    return Changes(*(_estimate(entry.get(name), f"{at}.{name}") for name in names))


def _actions(value: Any, at: str) -> Actions | None:
    entry = _mapping(value, at)
    edges = [_number(edge, f"{at}.edges") for edge in _sequence(entry.get("edges"), f"{at}.edges")]
    finite = [edge for edge in edges if edge is not None]
    recommended, executed = (
        [p.mean if p else 0.0 for p in _curve(entry.get(name), f"{at}.{name}")]
        for name in ("recommended", "executed")
    )
    if not edges and not recommended and not executed:
        return None
    n = len(edges) - 1
    is_sorted = all(b > a for a, b in itertools.pairwise(finite))
    if len(finite) != len(edges) or n < 1 or not is_sorted:
        raise InvalidInput(f"report: {at}.edges: expected rising numbers, got {_shown(edges)}")
    if len(recommended) != n or len(executed) != n:
        raise InvalidInput(
            f"report: {at}: expected {n} shares, one fewer than edges, "
            f"got {len(recommended)} recommended and {len(executed)} executed"
        )
    return Actions(finite, recommended, executed)


def _against_best(value: Any, methods: Mapping[str, Method]) -> dict[str, Best]:
    found, whole = {}, _mapping(value, "against_best")
    for start in ("warm", "cold"):
        at = f"against_best.{start}"
        entry = _mapping(whole.get(start), at)
        rival = methods.get(_text(entry.get("rival")))
        if rival is not None:
            found[start] = Best(rival, _estimate(entry.get("ratio"), f"{at}.ratio"))
    return found


def _cold_start(value: Any) -> ColdStart | None:
    if value is None:
        return None
    entry = _mapping(value, "cold_start")
    saving = _mapping(entry.get("saving_at_50"), "cold_start.saving_at_50")
    start = _number(entry.get("warm_below_cold_from"), "cold_start.warm_below_cold_from")
    return ColdStart(
        warm=_curve(entry.get("warm_curve"), "cold_start.warm_curve"),
        cold=_curve(entry.get("cold_curve"), "cold_start.cold_curve"),
        ope=_curve(entry.get("ope_curve"), "cold_start.ope_curve"),
        difference=_curve(entry.get("warm_minus_cold"), "cold_start.warm_minus_cold"),
        below_from=None if start is None else int(start),
        saving_total=_estimate(saving.get("total"), "cold_start.saving_at_50.total"),
        saving_excess=_estimate(saving.get("excess"), "cold_start.saving_at_50.excess"),
        compression=_compression(entry.get("compression")),
    )


def _compression(value: Any) -> Compression | None:
    if value is None:
        return None
    at = "cold_start.compression"
    entry = _mapping(value, at)
    number, low, high = (_number(entry.get(n), f"{at}.{n}") for n in ("value", "low", "high"))
    estimate = None if number is None else Estimate(number, low, high)
    return Compression(
        value=estimate,
        is_at_least=bool(entry.get("is_at_least")),
        applies=bool(entry.get("applies", True)) and estimate is not None,
        sentence=_text(entry.get("sentence")),
    )


def _theorem(value: Any, at: str) -> Theorem | None:
    if value is None:
        return None
    entry = _mapping(value, at)
    figures = [
        _mapping(figure, f"{at}.figures")
        for figure in _sequence(entry.get("figures"), at)
        if figure
    ]
    return Theorem(
        statement=_text(entry.get("statement")),
        figures=[
            (_text(f.get("name")), _shown_value(f, at), _text(f.get("note"))) for f in figures
        ],
        verdict=_text(entry.get("verdict")),
    )


def _shown_value(figure: Mapping[str, Any], at: str) -> Any:
    """Return an estimate where the figure is one, else what the document has."""
    value = figure.get("value")
    is_word = isinstance(value, str | bool)
    return value if is_word else _estimate(value, f"{at}.{figure.get('name')}")


def _row(row: Any) -> tuple[str, str, str]:
    cells = [_text(cell) for cell in _sequence(row, "specification")]
    if len(cells) != 3:
        raise InvalidInput(
            f"report: specification: expected rows of symbol, word and value, got {_shown(row)}"
        )
    return cells[0], cells[1], cells[2]
