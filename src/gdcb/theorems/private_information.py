"""A person who overrides on what x does not say: warm on all rows, on approved ones, or pooled."""

from __future__ import annotations

from typing import Any

from gdcb.arrays import Array
from gdcb.theorems.context_free import LEARNERS
from gdcb.theorems.warm_start import Reviewed, behind, paired, past, regret

RULES = ("all", "approved", "pooled")
SIGNAL = 1.0  # log odds that the signal moves a booking by, up or down


def rule_figures(
    is_private: bool, replicates: int, nights: int, rounds: int, seed: int
) -> dict[str, Any]:
    """Return regret above the floor under each rule of overrides, warm and cold, δ* known.

    With the signal it moves bookings and the person acts on it; without it there is none. δ* is
    known and a curve learns, so that what is left is what overrides do to it. A rule holds for the
    history and for the rounds after it; `all_minus_cold` is against a cold start that pools.
    """
    world = Reviewed(
        spread=0.3, own_sd=0.15, weights=(0.7, -0.5, 0.5), signal=SIGNAL if is_private else 0.0
    )
    bandit = LEARNERS["curve"]
    floors: dict[int, Array] = {}
    runs: dict[tuple[str, str], Array] = {}
    overridden = 0.0
    for rule in RULES:
        instance = behind(world, "known", is_private, rule)
        history = past(instance, world, replicates, nights, seed)
        overridden = float(history.log.is_override.mean())
        for name, start in (("warm", history), ("cold", None)):
            runs[rule, name] = regret(
                instance,
                bandit,
                world,
                start,
                floors,
                rounds=rounds,
                replicates=replicates,
                seed=seed,
            )[-1]
    return {
        "is_private": is_private,
        "episodes": rounds,
        "overridden": overridden,
        "warm": {rule: float(runs[rule, "warm"].mean()) for rule in RULES},
        "cold": {rule: float(runs[rule, "cold"].mean()) for rule in RULES},
        "warm_minus_cold": {rule: paired(runs[rule, "warm"], runs[rule, "cold"]) for rule in RULES},
        "all_minus_approved": paired(runs["all", "warm"], runs["approved", "warm"]),
        "all_minus_cold": paired(runs["all", "warm"], runs["pooled", "cold"]),
        "pooled_minus_all": paired(runs["pooled", "warm"], runs["all", "warm"]),
        "pooled_minus_approved": paired(runs["pooled", "warm"], runs["approved", "warm"]),
    }
