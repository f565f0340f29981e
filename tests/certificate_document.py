"""A made document of a certificate, with every key that the page reads."""

from __future__ import annotations

from typing import Any

VERDICTS = ("direct", "adjust", "reweight", "refuse")


def estimate(mean: float, half: float) -> dict[str, float]:
    return {"mean": mean, "low": mean - half, "high": mean + half}


def arm(i: int, verdict: str) -> dict[str, Any]:
    rows = 0 if verdict == "refuse" else 4211 - 317 * i
    bias = 0.021 * (-1) ** i * i if verdict == "direct" else 0.137 + 0.011 * i
    name = f"{0.8 + 0.05 * i:.2f}"
    why = {
        "direct": f"Arm “{name}”: its contexts move its mean by little.",
        "adjust": f"Arm “{name}” ran in better contexts than usual; its mean is adjusted.",
        "reweight": f"Arm “{name}” ran in other contexts than the rest; its rows are weighted.",
        "refuse": f"Arm “{name}” was never executed in this history: it starts from its prior.",
    }
    is_tried = rows > 0
    return {
        "arm": name,
        "verdict": verdict,
        "reasons": [why[verdict]],
        "rows": rows,
        "ess": 0.71 * rows if is_tried else None,
        "bias": estimate(bias, 0.028 + 0.002 * i) if is_tried else None,
        "standard_error": 0.0071 + 0.0004 * i if is_tried else None,
        "n_eff": 0.83 * rows if is_tried else None,
        "weight": 0.83 if is_tried else None,
    }


def build(
    n_arms: int = 9, verdict: str = "adjust", *, override: bool = False, dated: bool = True
) -> dict[str, Any]:
    """Return a certificate of so many arms: two of them refused, the rest as the verdict says."""
    arms = [arm(i, "refuse" if i >= n_arms - 2 > 0 else verdict) for i in range(n_arms)]
    first, law = ("2024-07-19T00:00:00+00:00", "2023-11-02") if dated else (60001, 41337)
    return {
        "verdict": verdict,
        "reasons": [
            "Seven of nine arms ran in contexts that move their mean by more than the margin.",
            "Arms “1.15” and “1.20” were never executed and start from their prior.",
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
        "worst_case_bias": {"osc": 0.412, "tv": 0.291, "value": 0.12},
        "sensitivity": {
            "arms": {"value": 1.83, "says": ""},
            "slopes": {"robustness_value": 0.117, "says": ""},
        },
        "transport": {"eta": 0.643, "tv": 0.447, "product": 0.287},
        "tests": [
            one_test("Reward law over time", 3e-5, 0.00714, "The reward law changed."),
            one_test("Gate “revenue manager” over time", 2e-11, 0.00833, "The pass rate fell."),
            one_test("Gate “price cap” over time", 0.613, 0.01, "No change was found."),
            one_test(
                "Bias of the arms", 4e-8, 0.0125, "The bias of some arms is beyond the margin."
            ),
            one_test("Approved against overridden", 0.377, 0.0167, "They fare alike."),
            one_test("Outcomes missing by arm", 0.314, 0.025, "About as many for every arm."),
            one_test("Logged against estimated propensity", None, 0.05, "The log has none."),
        ],
        "level": 0.05,
        "margin": 0.1,
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
            "adjust": "regression" if verdict == "adjust" else None,
            "reweight": {"clip": 20.0, "clipped_share": 0.013, "bias_bound": 0.004}
            if verdict == "reweight"
            else None,
            "overrides_weight": 0.83,
        },
    }


def one_test(name: str, p: float | None, threshold: float, says: str) -> dict[str, Any]:
    found = None if p is None else p < threshold
    return {
        "name": name,
        "p": p,
        "threshold": threshold,
        "is_significant": found,
        "says": says,
    }
