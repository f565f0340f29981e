"""What a report says of the instance: what is real, what is made, and the tuple in words."""

from __future__ import annotations

from typing import Any

KNOWN = (
    "The optimum and the gate floor know the private cue, which the moderator reads and no method "
    "sees: part of the regret above the floor is out of every method's reach."
)
KNOWN_TEXT = (
    "The optimum and the gate floor know the severity with which each text was built. Two texts "
    "with the same features may differ in it, and then no method can tell them apart."
)
REAL = [
    "the profanity model: probabilities of alt-profanity-check, from the model in its wheel",
    (
        "the shape of the decision: allow, warn or remove; a moderator; a rule on predicted "
        "appeals; satisfaction, violation and appeal"
    ),
]
MADE = [
    "the posts: a generator builds them from templates, and so knows their severity; mild language",
    "communities, what they want and what they do, the panel's ratings, moderator and incumbent",
    "no author's history, thread, image, language but English, or coordinated report",
]
OWN = "the texts and severities of a labelled file: {path}"


def about(path: str) -> dict[str, Any]:
    """Return title, unit, action, what is real and what is made; `path` of one's own posts."""
    real, made = list(REAL), list(MADE)
    if path:
        real, made = [OWN.format(path=path), *real], made[1:]
    return {
        "title": "Content moderation",
        "unit": "satisfied posts a community, less costs",
        "action": "category (0 allow, 1 warn, 2 remove)",
        "real": real,
        "made": made,
    }


def specification(
    variant: str, kind: str, rows: int, n_posts: int
) -> tuple[tuple[str, str, str], ...]:
    """Return the tuple in words: (symbol, word, value) rows."""
    truths = {
        "well": "severity = θᵀφ(x), φ the activations of the pilot's trunk: in the scaler's family",
        "mis": f"severity of {n_posts:,} texts as they were built: outside the scaler's family",
    }
    moderators = {
        "plain": "reads by the pilot's severity model, approves what they read themselves",
        "private": "as plain, but reads the true severity, with a cue that is not in x",
        "turnover": "as plain; at mid-run a stricter, less trusting person takes over",
    }
    return (
        (
            "𝒳",
            "context",
            "12 features of the text, reach, reports; two costs of the community; advice",
        ),
        ("𝒜", "nominal arms", "allow, warn, remove"),
        ("Δ, δ_θ", "scaler", "severity: a trunk fitted once to a pilot, a head per platform"),
        ("Φ", "composition", "identity, severity as scale: a learner's cell is (community, band)"),
        ("g", "gate", f"moderator ({moderators[kind]}), then a filter on predicted appeals"),
        ("𝒴, φ", "outcome, reward", "satisfied − cost · violation − cost · appeal"),
        ("R", "truth of this run", f"variant {variant}: {truths[variant]}"),
        ("units", "replicate", "8 communities of one platform, drawn from a stated prior"),
        ("history", "incumbent", f"{rows:,} posts under thresholds on profanity, same gate"),
    )
