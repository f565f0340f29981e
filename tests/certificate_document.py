"""A made document of a certificate, with every key that the page reads."""

from __future__ import annotations

from typing import Any

from gdcb.history import sentences as say

VERDICTS = ("direct", "adjust", "reweight", "refuse")
HIDDEN = say.sensitivity_arms(1.83, 1.52, "1.00", 0.094)
SPREAD, MARGIN, UNIT = 0.94, 0.1, "standard deviations"


def estimate(mean: float, half: float) -> dict[str, float]:
    return {"mean": mean, "low": mean - half, "high": mean + half}


def arm(i: int, verdict: str) -> dict[str, Any]:
    rows = 0 if verdict == "refuse" else 4211 - 317 * i
    bias = 0.007 * (-1) ** i * i if verdict == "direct" else 0.137 + 0.011 * i
    name = f"{0.8 + 0.05 * i:.2f}"
    half = 0.028 + 0.002 * i
    told = (name, bias / SPREAD, (bias - half) / SPREAD, (bias + half) / SPREAD, MARGIN, UNIT)
    why = {
        "direct": say.bias_within_margin(*told),
        "adjust": say.bias_too_large(*told),
        "reweight": say.bias_too_large(*told),
        "refuse": say.arm_untried(name, rows),
    }
    is_tried = rows > 0
    return {
        "arm": name,
        "verdict": verdict,
        "reasons": [why[verdict]],
        "rows": rows,
        "ess": 0.71 * rows if is_tried else None,
        "bias": estimate(bias, half) if is_tried else None,
        "standard_error": 0.0071 + 0.0004 * i if is_tried else None,
        "n_eff": 0.83 * rows if is_tried else None,
        "weight": 0.83 if is_tried else None,
    }


def build(
    n_arms: int = 9, verdict: str = "adjust", *, override: bool = False, dated: bool = True
) -> dict[str, Any]:
    """Return a certificate of so many arms: two of them refused, the rest as the verdict says."""
    arms = [arm(i, "refuse" if i >= n_arms - 2 > 0 else verdict) for i in range(n_arms)]
    refused = [one["arm"] for one in arms if one["verdict"] == "refuse"]
    first, law = ("2024-07-19T00:00:00+00:00", "2023-11-02") if dated else (60001, 41337)
    return {
        "verdict": verdict,
        "reasons": [
            say.verdict(verdict),
            *([say.arms_refused(refused, n_arms)] if refused else []),
            say.reward_law_changed(law, "the level of the reward fell", 3e-5),
            say.rows_since(law),
            say.gate_changed("revenue manager", first, 0.7512, 0.5533, 2e-11),
            say.gate_stable("price cap"),
            say.overrides_trusted(0.83, -0.014, -0.045, 0.017),
            say.outcomes_missing(0.072, 0.314),
        ],
        "rows": {
            "read": 98765,
            "rejected": 231,
            "reasons": [
                {
                    "reason": "not a number",
                    "column": "lead_days",
                    "rows": 198,
                    "examples": [[17, "n/a"], [803, "?"]],
                },
                {"reason": "above the declared 365", "column": "stay", "rows": 33, "examples": []},
            ],
            "used": 57211,
        },
        "period": {"from": "2022-01-01", "to": "2025-12-31"} if dated else {"from": 1, "to": 98765},
        "variance_ratio": estimate(0.47, 0.11)
        | {"advice": "The variance ratio is 0.47 (0.36 to 0.58): below 1."},
        "arms": arms,
        "gates": [
            {
                "name": "revenue manager",
                "change_points": [{"time": first, "from": 0.7512, "to": 0.5533, "p": 2e-11}],
                "eta": {"mean": 0.643, "high": 0.671},
            },
            {"name": "price cap", "change_points": [], "eta": {"mean": 1.0, "high": 1.0}},
        ],
        "reward_law": {
            "stable": False,
            "change_points": [{"time": law, "what": "the level of the reward fell", "p": 3e-5}],
            "p": 3e-5,
        },
        "override_contrast": {
            "posterior": 0.83,
            "difference": estimate(-0.014, 0.031),
            "approved": 38211,
            "overridden": 19127,
        },
        "missing_outcomes": {"share": 0.072, "by_arm_p": 0.314, "is_selective": False},
        "logged_bias": {"osc": 0.412, "tv": 0.291, "value": 0.12},
        "sensitivity": {
            "arms": {"value": 1.83, "low": 1.52, "is_beyond": False, "says": HIDDEN},
            "slopes": {"robustness_value": 0.117, "says": ""},
        },
        "assumptions": [
            rests(say.assumptions.OUTSIDE, say.assumptions.hidden_cause(HIDDEN)),
            rests(say.assumptions.INDEPENDENT, say.rows_independent(0.4), True),
            rests(say.assumptions.CARRY_OVER, say.assumptions.no_carry_over()),
            rests(say.assumptions.FORM, say.assumptions.form(False, False)),
            rests(
                "Overrides used nothing outside the log",
                say.assumptions.reviewers(-0.014, -0.045, 0.017, False),
                True,
            ),
            rests(
                "What an action earns in a given context did not change",
                say.assumptions.unchanged(1, "p < 0.001"),
                True,
            ),
            rests(
                "As many outcomes are missing for every arm",
                say.assumptions.missing("7 %", "p = 0.314", False),
                True,
            ),
        ],
        "transport": {"eta": 0.643, "tv": 0.447, "product": 0.287},
        "tests": [
            one_test("Reward law over time", 3e-5, 0.00714),
            one_test("Gate “revenue manager” over time", 2e-11, 0.00833),
            one_test("Gate “price cap” over time", 0.613, 0.01),
            one_test("Bias of the arms", 4e-8, 0.0125),
            one_test("Approved against overridden", 0.377, 0.0167),
            one_test("Outcomes missing by arm", 0.314, 0.025),
            one_test("Logged against estimated propensity", None, 0.05),
        ],
        "level": 0.05,
        "margin": MARGIN,
        "spread": SPREAD,
        "instance": "str",
        "log": "bookings-2022-2025.parquet",
        "fingerprint": "9f2c41d07be6a1c35d8804ab17f6e2c9035be4ad61f7c8029b3d5e6f70a1b2c3",
        "version": "0.1.0",
        "command": "gdcb check bookings-2022-2025.parquet --instance str",
        "leaks": [
            {"column": "refund", "reason": "it determines the outcome; it was not used"},
        ],
        "override": {"reason": "Pilot on 5 % of traffic, ends 31 May.", "verdict_without": "refuse"}
        if override
        else None,
        "treatment": {
            "rows_from": law,
            "adjust": "cross-fitted regression" if verdict == "adjust" else None,
            "reweight": {
                "clip": 20.0,
                "clipped_share": 0.013,
                "bias_bound": 0.004,
                "propensities": "estimated",
            }
            if verdict == "reweight"
            else None,
            "overrides_weight": 0.83,
        },
    }


def rests(name: str, result: str, tested: bool = False) -> dict[str, Any]:
    name = say.assumptions.AT_LENGTH.get(name, name)
    return {"name": f"{name[0].upper()}{name[1:]}", "tested": tested, "result": result}


def one_test(name: str, p: float | None, threshold: float) -> dict[str, Any]:
    found = None if p is None else p < threshold
    return {
        "name": name,
        "p": p,
        "threshold": threshold,
        "is_significant": found,
        "says": "The log has none." if p is None else say.finding(name, p, threshold),
    }
