"""Read the document of a certificate: what is null becomes None, what is wrong is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gdcb.errors import InvalidInput
from gdcb.history.page.document import (
    Arm,
    Assumption,
    Change,
    Contrast,
    Document,
    Gate,
    Override,
    Rejected,
    Reweight,
    Test,
    Time,
)
from gdcb.history.sentences import VERDICTS
from gdcb.pages import fields


def read(document: Mapping[str, Any]) -> Document:
    """Read the document; what is missing or null becomes None or empty, what is wrong is refused.

    Examples
    --------
    >>> read({"verdict": "direct", "arms": [{"arm": "a", "rows": 12}]}).arms[0].rows
    12.0
    """
    try:
        return _read(document)
    except InvalidInput as error:
        raise InvalidInput(f"certificate: {error}") from error


def _read(document: Mapping[str, Any]) -> Document:
    if not isinstance(document, Mapping):
        raise InvalidInput(f"expected the document of a certificate, got {fields.shown(document)}")
    rows = _part(document, "rows")
    law = _part(document, "reward_law")
    missing = _part(document, "missing_outcomes")
    sensitivity = _part(document, "sensitivity")
    arms_part = fields.mapping(sensitivity.get("arms"), "sensitivity.arms")
    slopes = fields.mapping(sensitivity.get("slopes"), "sensitivity.slopes")
    treatment = _part(document, "treatment")
    return Document(
        verdict=_verdict(document.get("verdict"), "verdict"),
        reasons=fields.lines(document.get("reasons"), "reasons"),
        instance=fields.text(document.get("instance")),
        log=fields.text(document.get("log")),
        fingerprint=fields.text(document.get("fingerprint")),
        version=fields.text(document.get("version")),
        command=fields.text(document.get("command")),
        level=fields.number(document.get("level"), "level"),
        margin=fields.number(document.get("margin"), "margin"),
        spread=fields.number(document.get("spread"), "spread"),
        unit=fields.text(document.get("unit")),
        read=fields.number(rows.get("read"), "rows.read"),
        rejected=fields.number(rows.get("rejected"), "rows.rejected"),
        used=fields.number(rows.get("used"), "rows.used"),
        set_aside=fields.number(rows.get("set_aside"), "rows.set_aside"),
        rejections=[
            _rejected(one, f"rows.reasons[{i}]")
            for i, one in enumerate(fields.sequence(rows.get("reasons"), "rows.reasons"))
        ],
        period=_period(document.get("period")),
        arms=[_arm(one, f"arms[{i}]") for i, one in _each(document, "arms")],
        gates=[_gate(one, f"gates[{i}]") for i, one in _each(document, "gates")],
        is_ungated=document.get("gates") == [],  # where nothing is said, nothing is known
        law_is_stable=_flag(law.get("stable"), "reward_law.stable"),
        law_changes=_changes(law.get("change_points"), "reward_law.change_points"),
        law_p=fields.number(law.get("p"), "reward_law.p"),
        law_is_certain=_flag(law.get("is_certain"), "reward_law.is_certain") is not False,
        is_dependent=bool(
            _flag(_part(document, "dependence").get("is_found"), "dependence.is_found")
        ),
        contrast=_contrast(document.get("override_contrast")),
        missing=fields.number(missing.get("share"), "missing_outcomes.share"),
        missing_p=fields.number(missing.get("by_arm_p"), "missing_outcomes.by_arm_p"),
        missing_is_selective=bool(missing.get("is_selective")),
        assumptions=[
            _assumption(one, f"assumptions[{i}]") for i, one in _each(document, "assumptions")
        ],
        logged_bias=_three(document, "logged_bias", ("osc", "tv", "value")),
        logged_bias_says=fields.text(_part(document, "logged_bias").get("says")),
        odds_ratio=fields.number(arms_part.get("value"), "sensitivity.arms.value"),
        odds_ratio_low=fields.number(arms_part.get("low"), "sensitivity.arms.low"),
        odds_ratio_is_beyond=bool(_flag(arms_part.get("is_beyond"), "sensitivity.arms.is_beyond")),
        arms_say=fields.text(arms_part.get("says")),
        robustness_value=fields.number(
            slopes.get("robustness_value"), "sensitivity.slopes.robustness_value"
        ),
        slopes_say=fields.text(slopes.get("says")),
        transport=_three(document, "transport", ("eta", "tv", "product")),
        variance_ratio=fields.estimate(document.get("variance_ratio"), "variance_ratio"),
        advice=fields.text(_part(document, "variance_ratio").get("advice")),
        tests=[_test(one, f"tests[{i}]") for i, one in _each(document, "tests")],
        leaks=[_leak(one, f"leaks[{i}]") for i, one in _each(document, "leaks")],
        override=_override(document.get("override")),
        rows_from=_time(treatment.get("rows_from"), "treatment.rows_from"),
        adjust=fields.text(treatment.get("adjust")),
        reweight=_reweight(treatment.get("reweight")),
        overrides_weight=fields.number(
            treatment.get("overrides_weight"), "treatment.overrides_weight"
        ),
        scaler_says=fields.text(_part(document, "scaler").get("says")),
        scaler_spans=[
            _span(one, f"scaler.columns[{i}]")
            for i, one in enumerate(
                fields.sequence(_part(document, "scaler").get("columns"), "scaler.columns")
            )
        ],
    )


def _part(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return fields.mapping(document.get(name), name)


def _each(document: Mapping[str, Any], name: str) -> enumerate[Any]:
    return enumerate(fields.sequence(document.get(name), name))


def _verdict(value: Any, at: str) -> str:
    word = fields.text(value)
    if word not in VERDICTS:
        raise InvalidInput(f"{at}: expected {', '.join(VERDICTS)}, got {fields.shown(value)}")
    return word


def _flag(value: Any, at: str) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise InvalidInput(f"{at}: expected true, false or null, got {fields.shown(value)}")
    return value


def _time(value: Any, at: str) -> Time | None:
    if value is None or isinstance(value, str):
        return value
    return fields.number(value, at)


def _period(value: Any) -> tuple[Time, Time] | None:
    entry = fields.mapping(value, "period")
    first, last = (_time(entry.get(name), f"period.{name}") for name in ("from", "to"))
    return None if first is None or last is None else (first, last)


def _three(
    document: Mapping[str, Any], name: str, keys: tuple[str, str, str]
) -> tuple[float | None, float | None, float | None]:
    entry = _part(document, name)
    first, second, third = (fields.number(entry.get(key), f"{name}.{key}") for key in keys)
    return first, second, third


def _arm(value: Any, at: str) -> Arm:
    entry = fields.mapping(value, at)
    rows, ess, error, n_eff, weight = (
        fields.number(entry.get(name), f"{at}.{name}")
        for name in ("rows", "ess", "standard_error", "n_eff", "weight")
    )
    return Arm(
        name=fields.text(entry.get("arm")),
        verdict=_verdict(entry.get("verdict", "direct"), f"{at}.verdict"),
        reasons=fields.lines(entry.get("reasons"), f"{at}.reasons"),
        rows=rows,
        ess=ess,
        bias=fields.estimate(entry.get("bias"), f"{at}.bias"),
        standard_error=error,
        n_eff=n_eff,
        weight=weight,
    )


def _changes(value: Any, at: str) -> list[Change]:
    found = []
    for i, one in enumerate(fields.sequence(value, at)):
        entry = fields.mapping(one, f"{at}[{i}]")
        time = _time(entry.get("time"), f"{at}[{i}].time")
        before, after, p = (
            fields.number(entry.get(name), f"{at}[{i}].{name}") for name in ("from", "to", "p")
        )
        if time is not None:
            found.append(Change(time, fields.text(entry.get("what")), before, after, p))
    return found


def _gate(value: Any, at: str) -> Gate:
    entry = fields.mapping(value, at)
    eta = fields.mapping(entry.get("eta"), f"{at}.eta")
    mean, high = (fields.number(eta.get(name), f"{at}.eta.{name}") for name in ("mean", "high"))
    changes = _changes(entry.get("change_points"), f"{at}.change_points")
    return Gate(fields.text(entry.get("name")), changes, mean, high)


def _test(value: Any, at: str) -> Test:
    entry = fields.mapping(value, at)
    p, threshold = (fields.number(entry.get(name), f"{at}.{name}") for name in ("p", "threshold"))
    return Test(
        name=fields.text(entry.get("name")),
        p=p,
        threshold=threshold,
        is_significant=_flag(entry.get("is_significant"), f"{at}.is_significant"),
        says=fields.text(entry.get("says")),
    )


def _assumption(value: Any, at: str) -> Assumption:
    entry = fields.mapping(value, at)
    tested = bool(_flag(entry.get("tested"), f"{at}.tested"))
    return Assumption(
        name=fields.text(entry.get("name")),
        tested=tested,
        result=fields.text(entry.get("result")),
        state=fields.text(entry.get("state")) or ("Tested" if tested else "Not tested"),
    )


def _rejected(value: Any, at: str) -> Rejected:
    if isinstance(value, str):
        return Rejected(value, "", None, [])
    entry = fields.mapping(value, at)
    examples = []
    for one in fields.sequence(entry.get("examples"), f"{at}.examples"):
        is_pair = isinstance(one, list | tuple) and len(one) == 2 and one[0] is not None
        if is_pair:
            examples.append(f"row {one[0]}: {'empty' if one[1] is None else one[1]}")
    return Rejected(
        reason=fields.text(entry.get("reason")),
        column=fields.text(entry.get("column")),
        rows=fields.number(entry.get("rows"), f"{at}.rows"),
        examples=examples,
    )


def _leak(value: Any, at: str) -> str:
    """Return a sentence: a leak is one, or says a column and what is wrong with it."""
    if isinstance(value, str):
        return value
    entry = fields.mapping(value, at)
    words = next((fields.text(entry[k]) for k in ("says", "reason", "what") if entry.get(k)), "")
    column = fields.text(entry.get("column"))
    return words if not column or column in words else f"Column “{column}”: {words}"


def _contrast(value: Any) -> Contrast | None:
    if value is None:
        return None
    at = "override_contrast"
    entry = fields.mapping(value, at)
    posterior, approved, overridden = (
        fields.number(entry.get(name), f"{at}.{name}")
        for name in ("posterior", "approved", "overridden")
    )
    difference = fields.estimate(entry.get("difference"), f"{at}.difference")
    return Contrast(posterior, difference, approved, overridden)


def _span(
    value: Any, at: str
) -> tuple[str, float | None, float | None, float | None, float | None]:
    """Return a column of δ: its name, the range of δ̂, and the range of what ran."""
    entry = fields.mapping(value, at)
    low, high, ran_low, ran_high = (
        fields.number(fields.mapping(entry.get(of), f"{at}.{of}").get(end), f"{at}.{of}.{end}")
        for of in ("delta", "ran")
        for end in ("low", "high")
    )
    return fields.text(entry.get("column")), low, high, ran_low, ran_high


def _reweight(value: Any) -> Reweight | None:
    if value is None:
        return None
    at = "treatment.reweight"
    entry = fields.mapping(value, at)
    clip, part, bound = (
        fields.number(entry.get(name), f"{at}.{name}")
        for name in ("clip", "clipped_share", "bias_bound")
    )
    return Reweight(clip, part, bound, entry.get("propensities") == "logged")


def _override(value: Any) -> Override | None:
    if value is None:
        return None
    entry = fields.mapping(value, "override")
    without = _verdict(entry.get("verdict_without"), "override.verdict_without")
    return Override(fields.text(entry.get("reason")), without)
