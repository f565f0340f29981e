"""Read the document of a run: what is null becomes None, what is wrong is refused."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from gdcb.errors import InvalidInput
from gdcb.pages import fields
from gdcb.pages.numbers import Estimate
from gdcb.protocol.report.document import (
    Actions,
    Band,
    Best,
    Certificates,
    Changes,
    ColdStart,
    Compression,
    Curve,
    Document,
    Feature,
    Highest,
    Method,
    Overrides,
    Reading,
    Split,
    Theorem,
    Threshold,
    names_in,
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
    try:
        return _read(document)
    except InvalidInput as error:
        raise InvalidInput(f"report: {error}") from error


def _read(document: Mapping[str, Any]) -> Document:
    if not isinstance(document, Mapping):
        raise InvalidInput(f"expected the document of a run, got {fields.shown(document)}")
    about = fields.mapping(document.get("about"), "about")
    instance = fields.text(document.get("instance"))
    entries = fields.mapping(document.get("methods"), "methods")
    methods = {str(key): _method(str(key), value) for key, value in entries.items() if value}
    theorems = fields.mapping(document.get("theorems"), "theorems")
    return Document(
        instance=instance,
        title=fields.text(about.get("title")) or instance,
        variant=fields.text(document.get("variant")),
        episodes=fields.count(document.get("episodes"), "episodes"),
        replicates=fields.count(document.get("replicates"), "replicates"),
        seed=fields.text(document.get("seed")),
        version=fields.text(document.get("version")),
        command=fields.text(document.get("command")),
        unit=fields.text(about.get("unit")) or "reward",
        action=fields.text(about.get("action")) or "action, relative",
        real=fields.lines(about.get("real"), "about.real"),
        made=fields.lines(about.get("made"), "about.made"),
        oracle_knows=fields.text(about.get("oracle_knows")),
        response=fields.text(document.get("response")),
        options=dict(fields.mapping(document.get("options"), "options")),
        specification=[_row(row) for row in fields.sequence(document.get("specification"), "spec")],
        variance_ratio=fields.estimate(document.get("variance_ratio"), "variance_ratio"),
        floor=fields.estimate(document.get("floor"), "floor"),
        floor_curve=_curve(document.get("floor_curve"), "floor_curve"),
        methods=methods,
        against_best=_against_best(document.get("against_best"), methods),
        cold_start=_cold_start(document.get("cold_start")),
        theorems={str(k): _theorem(v, f"theorems.{k}") for k, v in theorems.items()},
        readings=[_reading(v) for v in fields.sequence(document.get("measures"), "measures")],
    )


def _reading(value: Any) -> Reading:
    entry = fields.mapping(value, "measures")
    name, label = fields.text(entry.get("name")), fields.text(entry.get("label"))
    return Reading(name, label or name, bool(entry.get("is_share")))


def _measures(value: Any, at: str) -> dict[str, Estimate]:
    entries = fields.mapping(value, at)
    found = {str(n): fields.estimate(v, f"{at}.{n}") for n, v in entries.items()}
    return {name: value for name, value in found.items() if value is not None}


def _curve(value: Any, at: str) -> Curve:
    return [
        fields.estimate(point, f"{at}[{t}]") for t, point in enumerate(fields.sequence(value, at))
    ]


def _split(value: Any, at: str) -> Split | None:
    found = {
        name: fields.estimate(part, f"{at}.{name}")
        for name, part in fields.mapping(value, at).items()
    }
    names = names_in(found)
    parts = {name: part for name in names if (part := found.get(name)) is not None}
    return parts if len(parts) == len(names) else None


def _method(key: str, value: Any) -> Method:
    at = f"methods.{key}"
    entry = fields.mapping(value, at)
    curves = fields.mapping(entry.get("parts_curve"), f"{at}.parts_curve")
    parts_curve = {n: _curve(curves.get(n), f"{at}.parts_curve.{n}") for n in names_in(curves)}

    def one(name: str) -> Estimate | None:
        return fields.estimate(entry.get(name), f"{at}.{name}")

    def curve(name: str) -> Curve:
        return _curve(entry.get(name), f"{at}.{name}")

    return Method(
        key=key,
        label=fields.text(entry.get("label")) or key,
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
        measures=_measures(entry.get("measures"), f"{at}.measures"),
        certificates=_certificates(entry.get("certificates"), f"{at}.certificates"),
        tuned=dict(fields.mapping(entry.get("tuned"), f"{at}.tuned")),
    )


def _certificates(value: Any, at: str) -> Certificates | None:
    if value is None:
        return None
    entry = fields.mapping(value, at)
    arms = []
    for i, one in enumerate(fields.sequence(entry.get("arms"), f"{at}.arms")):
        arm = fields.mapping(one, f"{at}.arms[{i}]")
        direct, adjust, reweight, refuse = (
            _counted(arm.get(name), f"{at}.arms[{i}].{name}")
            for name in ("direct", "adjust", "reweight", "refuse")
        )
        arms.append((fields.text(arm.get("arm")), direct, adjust, reweight, refuse))
    reasons = []
    for i, one in enumerate(fields.sequence(entry.get("reasons"), f"{at}.reasons")):
        reason = fields.mapping(one, f"{at}.reasons[{i}]")
        often = _counted(reason.get("count"), f"{at}.reasons[{i}].count")
        reasons.append((fields.text(reason.get("reason")), often))
    histories, refused = (
        _counted(entry.get(name), f"{at}.{name}") for name in ("histories", "refused")
    )
    return Certificates(histories, refused, arms, reasons)


def _counted(value: Any, at: str) -> int:
    """Return a count from 0; what is missing counts as 0."""
    return 0 if value in (None, 0) else fields.count(value, at)


def _threshold(value: Any, at: str) -> Threshold | None:
    if value is None:
        return None
    entry = fields.mapping(value, at)
    median, low, high, censored = (
        fields.number(entry.get(name), f"{at}.{name}")
        for name in ("median", "low", "high", "censored")
    )
    return Threshold(
        median, low, high, censored, fields.estimate(entry.get("booked"), f"{at}.booked")
    )


def _overrides(value: Any, at: str) -> Overrides | None:
    entry = fields.mapping(value, at)
    features = [
        _feature(feature, f"{at}.features[{i}]")
        for i, feature in enumerate(fields.sequence(entry.get("features"), f"{at}.features"))
    ]
    if not features:
        return None
    top = fields.mapping(entry.get("highest"), f"{at}.highest")
    changed = fields.estimate(top.get("changed"), f"{at}.highest.changed")
    highest, number = None, fields.number(top.get("band"), f"{at}.highest.band")
    for feature in features:
        if feature.name == top.get("feature") and changed is not None and number is not None:
            if not 0 <= number < len(feature.bands) or number != int(number):
                raise InvalidInput(
                    f"{at}.highest.band: expected 0 to {len(feature.bands) - 1}, "
                    f"got {fields.shown(number)}"
                )
            band = feature.bands[int(number)]
            highest = Highest(feature, band, changed, fields.text(top.get("direction")))
    return Overrides(_changes(entry.get("whole"), f"{at}.whole"), features, highest)


def _feature(value: Any, at: str) -> Feature:
    entry = fields.mapping(value, at)
    found = []
    for k, band in enumerate(fields.sequence(entry.get("bands"), f"{at}.bands")):
        where = f"{at}.bands[{k}]"
        low, high = (
            fields.number(fields.mapping(band, where).get(name), f"{where}.{name}")
            for name in ("low", "high")
        )
        found.append(Band(low, high, _changes(band, where)))
    return Feature(fields.text(entry.get("name")), bool(entry.get("is_flag")), found)


def _changes(value: Any, at: str) -> Changes:
    entry = fields.mapping(value, at)
    names = ("changed", "raised", "lowered", "vetoed", "log_ratio")
    return Changes(*(fields.estimate(entry.get(name), f"{at}.{name}") for name in names))


def _actions(value: Any, at: str) -> Actions | None:
    entry = fields.mapping(value, at)
    edges = [
        fields.number(edge, f"{at}.edges")
        for edge in fields.sequence(entry.get("edges"), f"{at}.edges")
    ]
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
        raise InvalidInput(f"{at}.edges: expected rising numbers, got {fields.shown(edges)}")
    if len(recommended) != n or len(executed) != n:
        raise InvalidInput(
            f"{at}: expected {n} shares, one fewer than edges, "
            f"got {len(recommended)} recommended and {len(executed)} executed"
        )
    return Actions(finite, recommended, executed)


def _against_best(value: Any, methods: Mapping[str, Method]) -> dict[str, Best]:
    found, whole = {}, fields.mapping(value, "against_best")
    for start in ("warm", "cold"):
        at = f"against_best.{start}"
        entry = fields.mapping(whole.get(start), at)
        rival = methods.get(fields.text(entry.get("rival")))
        if rival is not None:
            found[start] = Best(rival, fields.estimate(entry.get("ratio"), f"{at}.ratio"))
    return found


def _cold_start(value: Any) -> ColdStart | None:
    if value is None:
        return None
    entry = fields.mapping(value, "cold_start")
    saving = fields.mapping(entry.get("saving_at_50"), "cold_start.saving_at_50")
    start = fields.number(entry.get("warm_below_cold_from"), "cold_start.warm_below_cold_from")
    return ColdStart(
        warm=_curve(entry.get("warm_curve"), "cold_start.warm_curve"),
        cold=_curve(entry.get("cold_curve"), "cold_start.cold_curve"),
        ope=_curve(entry.get("ope_curve"), "cold_start.ope_curve"),
        difference=_curve(entry.get("warm_minus_cold"), "cold_start.warm_minus_cold"),
        below_from=None if start is None else int(start),
        saving_total=fields.estimate(saving.get("total"), "cold_start.saving_at_50.total"),
        saving_excess=fields.estimate(saving.get("excess"), "cold_start.saving_at_50.excess"),
        compression=_compression(entry.get("compression")),
    )


def _compression(value: Any) -> Compression | None:
    if value is None:
        return None
    at = "cold_start.compression"
    entry = fields.mapping(value, at)
    number, low, high = (fields.number(entry.get(n), f"{at}.{n}") for n in ("value", "low", "high"))
    estimate = None if number is None else Estimate(number, low, high)
    return Compression(
        value=estimate,
        is_at_least=bool(entry.get("is_at_least")),
        applies=bool(entry.get("applies", True)) and estimate is not None,
        sentence=fields.text(entry.get("sentence")),
    )


def _theorem(value: Any, at: str) -> Theorem | None:
    if value is None:
        return None
    entry = fields.mapping(value, at)
    figures = [
        fields.mapping(figure, f"{at}.figures")
        for figure in fields.sequence(entry.get("figures"), at)
        if figure
    ]
    return Theorem(
        statement=fields.text(entry.get("statement")),
        figures=[
            (fields.text(f.get("name")), _shown_value(f, at), fields.text(f.get("note")))
            for f in figures
        ],
        verdict=fields.text(entry.get("verdict")),
    )


def _shown_value(figure: Mapping[str, Any], at: str) -> Any:
    """Return an estimate where the figure is one, else what the document has."""
    value = figure.get("value")
    is_word = isinstance(value, str | bool)
    return value if is_word else fields.estimate(value, f"{at}.{figure.get('name')}")


def _row(row: Any) -> tuple[str, str, str]:
    cells = [fields.text(cell) for cell in fields.sequence(row, "specification")]
    if len(cells) != 3:
        raise InvalidInput(
            f"specification: expected rows of symbol, word and value, got {fields.shown(row)}"
        )
    return cells[0], cells[1], cells[2]
