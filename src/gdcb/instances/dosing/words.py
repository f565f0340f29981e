"""What the reports say of the instance."""

from __future__ import annotations

from typing import Any

ABOUT: dict[str, Any] = {
    "title": "Meal-time insulin dosing",
    "unit": "reward a patient, in shares of five hours",
    "action": "bolus, units",
    "real": [
        (
            "in `mis` the thirty virtual patients of simglucose and the published equations of the "
            "UVA/Padova model, integrated to within 0.05 mg/dL of simglucose"
        ),
        (
            "the ranges of glucose (international consensus on time in range, 2019), the weights "
            "of lows (glycemia risk index, 2023), the calculator's 450 and 1800 rules"
        ),
        (
            "the shape of the decision: a bolus before a meal, a physician, hard limits, no bolus "
            "in a low"
        ),
    ],
    "made": [
        (
            "meals, their times and sizes, how wrong an announced meal is, the physician, the "
            "incumbent's scatter, the chart review and its noise; in `well` the response itself"
        ),
        (
            "every meal starts from a drawn state: what is given now does not change the next "
            "meal; no exercise, illness, sensor error or change of sensitivity over the day"
        ),
    ],
}

KNOWN = (
    "The optimum and the gate floor know the state of the patient's body before the meal, which no "
    "method sees: part of the regret above the floor is out of every method's reach."
)


def specification(variant: str, rows: int) -> tuple[tuple[str, str, str], ...]:
    """Return the tuple in words: (symbol, word, value) rows."""
    truths = {
        "well": "quadratic around a made need, level + δ*(x), δ* a smooth function of the context",
        "mis": "simglucose's patients over five hours, the true meal 0.8, 1.0 or 1.2 of announced",
    }
    return (
        (
            "𝒳",
            "context",
            "glucose, its trend, announced carbohydrate, insulin on board, weight; advice",
        ),
        ("𝒜", "nominal arms", "six dose levels, 1 to 11 U"),
        (
            "Δ, δ_θ",
            "scaler",
            "Gaussian process on the five columns, inducing points, a head a clinic",
        ),
        ("Φ", "composition", "dose = level + δ(x)"),
        (
            "g",
            "gate",
            (
                "physician (approves near their own dose), no bolus below 70 mg/dL, at most "
                "0.25 U/kg, 25 U, and 0.3 U/kg on board"
            ),
        ),
        (
            "𝒴, φ",
            "outcome, reward",
            "time in range − 2 · below 70 − 0.75 · below 54, shares of 5 h",
        ),
        ("R", "truth of this run", f"variant {variant}: {truths[variant]}"),
        ("units", "replicate", "a clinic: 8 of the 30 patients, drawn without replacement"),
        ("history", "incumbent", f"{rows:,} meals of a weight-based calculator, behind the gate"),
    )
