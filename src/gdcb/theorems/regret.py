"""Theorem 3, regret: both splits, where they disagree, and the rate of every part.

Both splits of `gdcb.analysis.regret` sum to the same total. The experiments: sums in every round
for several learners behind several gates, and for every method of the protocol; a scaler that is
wrong in level, to which the arms have adapted; R_bandit of a flat, cold, ungated Beta-Thompson
with δ = δ* against √(KT log T) and against the Lai–Robbins bound; R_cal of one arm against N_sup;
R_gate against Σ p·Δ.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gdcb.theorems.of_instance import method_splits
from gdcb.theorems.rates import bandit_rates, calibration_rates, gate_rates
from gdcb.theorems.splits import LIMIT, Settings, disagreement, sums
from gdcb.theorems.verdict import PAPER, REPAIRED, Check, Progress, document, quiet

_ERRORS = 4.0  # standard errors that a mean of 0 may be away from it: a false alarm of 6e-5 each


def check(
    seed: int = 0,
    progress: Progress | None = None,
    settings: Settings | None = None,
    instance: str | None = "str",
) -> dict[str, Any]:
    """Run all experiments; return figures and verdicts, safe for JSON.

    `instance` names the one whose methods are summed too; None: none is.
    """
    say, size = progress or quiet, settings or Settings()
    figures: dict[str, Any] = {
        "sums": sums(size, seed, say),
        "methods": None if instance is None else method_splits(instance, seed, say),
        "disagreement": disagreement(size, seed, say),
        "bandit": bandit_rates(size, seed, say),
        "calibration": calibration_rates(size, seed, say),
        "gate": gate_rates(replace(size, runs=min(size.runs, 100)), seed, say),
    }
    notes = [_limit(figures["disagreement"]["no_scaler"])]
    if figures["methods"] is not None:
        notes.append(_of_methods(str(instance), figures["methods"]))
    return document(
        "Theorem 3, regret decomposition",
        _verdicts(figures),
        notes=notes,
        instance=instance,
        **figures,
    )


def _of_methods(instance: str, found: dict[str, Any]) -> str:
    """Say how often the splits agree for the protocol's methods, and where least."""
    both = {name: one for name, one in found["by_method"].items() if one["paper"] is not None}
    if not both:
        return (
            f"On {instance} there is no δ*, and so no order of the paper; the main split sums to "
            f"the total in {found['rounds']:,} rounds of {found['cases']} runs of a method, to "
            f"{found['rest']:.0e}."
        )
    apart = {name: abs(_bandit(one, "main") - _bandit(one, "paper")) for name, one in both.items()}
    name = max(apart, key=lambda one: apart[one])
    return (
        f"On {instance} the two splits name the same part as the largest in {found['agree']} of "
        f"{found['compared']} runs of a method where δ* exists, "
        f"{found['rounds'] // found['cases']} rounds each. They are furthest apart for {name}: "
        f"{_bandit(both[name], 'main'):.0f} for the bandit in the main split, "
        f"{_bandit(both[name], 'paper'):.0f} in the paper's order, which gives calibration "
        f"{both[name]['paper']['calibration']:.0f}. A learner that reads the context needs no "
        "scaler; the paper's order blames it for arms that would be wrong under one."
    )


def _bandit(one: dict[str, Any], split: str) -> float:
    return float(one[split]["bandit"])


def _limit(none: dict[str, Any]) -> str:
    """Say where the main split, too, is no verdict on a loop."""
    ours, theirs = none["main"], none["paper"]
    return (
        f"Without a scaler and with 13 arms that reach most best prices, {none['rounds']:,} rounds "
        f"of a learner that does not read the context lose {none['regret']['mean']:.1f}. The main "
        f"split counts {ours['bandit']['mean']:.1f} for the bandit and "
        f"{ours['calibration']['mean']:.1f} for calibration, since in every context some arm would "
        f"have done; the paper's order counts {theirs['bandit']['mean']:.1f} and "
        f"{theirs['calibration']['mean']:.1f}. Where the two disagree, no loop alone is to blame."
    )


def _verdicts(figures: dict[str, Any]) -> list[Check]:
    return [
        *_of_splits(figures["sums"], figures["methods"], figures["disagreement"]),
        *_of_bandit(figures["bandit"], figures["disagreement"]["wrong_level"]),
        *_of_calibration(figures["calibration"]),
        *_of_gate(figures["gate"]),
    ]


def _of_splits(
    added: dict[str, Any], methods: dict[str, Any] | None, apart: dict[str, Any]
) -> list[Check]:
    is_sum = added["rest"] <= LIMIT
    rest = f"largest rest {added['rest']:.0e} in {added['rounds']:,} rows of {added['cases']} runs"
    if methods is not None:
        is_sum = is_sum and methods["rest"] <= LIMIT
        rest += (
            f", and {methods['rest']:.0e} in {methods['rounds']:,} rounds of "
            f"{methods['cases']} runs of the protocol's methods"
        )
    told, level = apart["adapted"], apart["wrong_level"]
    blamed = max(abs(told["paper_bandit"]), abs(told["paper_calibration"]))
    ours = max(told["calibration"], told["bandit"])
    return [
        Check(PAPER, "the parts sum to the total in every round", is_sum, rest),
        Check(
            PAPER,
            "the parts say which loop is to blame",
            blamed <= LIMIT,
            f"with δ̂ = 0.8·δ* and arms that undo it the total is {told['total']:.0e}, yet bandit "
            f"gets {told['paper_bandit']:.3f} and calibration {told['paper_calibration']:.3f} a "
            "round; a learner that finds the arm loses "
            f"{level['regret']['mean']:.0f} in {level['rounds']:,} rounds, split as "
            f"{level['paper']['bandit']['mean']:.0f} and "
            f"{level['paper']['calibration']['mean']:.0f}",
        ),
        Check(REPAIRED, "the parts sum to the total in every round", is_sum, rest),
        Check(
            REPAIRED,
            "calibration and bandit are never negative, and blameless where nothing is lost",
            added["least_part"] >= -LIMIT and ours <= LIMIT,
            f"least part {added['least_part']:.0e}; both at most {ours:.0e} where the total is 0",
        ),
    ]


def _of_bandit(rates: list[dict[str, Any]], level: dict[str, Any]) -> list[Check]:
    few = rates[0]
    slope = few["slope_over_lai_robbins"]
    told = "; ".join(
        f"{one['arms']} arms: {one['regret']['mean']:.0f} after {one['rounds']:,} rounds, "
        f"R/√(KT log T) from {next(iter(one['over_bound'].values())):.2f} to "
        f"{list(one['over_bound'].values())[-1]:.2f}"
        for one in rates
    )
    is_bounded = all(one["largest_over_bound"] <= 1.0 and one["growth"] < 0.6 for one in rates)
    return [
        Check(
            PAPER, "R_bandit = O(√(KT log T)) under δ = δ*, flat, cold, ungated", is_bounded, told
        ),
        Check(
            PAPER,
            "R_bandit = O(√(KT log T)) under the δ̂ in force",
            level["growth_paper"] < 0.6,
            f"with δ̂ = 0.8·δ* it grows as T^{level['growth_paper']:.2f}",
        ),
        Check(
            REPAIRED,
            "R_bandit, judged under the δ̂ in force, grows more slowly than √T",
            max(few["growth"], level["growth_main"]) < 0.5,
            f"as T^{few['growth']:.2f} under δ*, as T^{level['growth_main']:.2f} under 0.8·δ*",
        ),
        Check(
            REPAIRED,
            "with few arms it is logarithmic, at the rate of Lai and Robbins",
            0.5 <= slope["mean"] <= 2.0,
            f"slope in log T over the bound {few['lai_robbins']:.1f}: {slope['mean']:.2f} "
            f"({slope['low']:.2f} to {slope['high']:.2f}) between {few['rounds'] // 4:,} and "
            f"{few['rounds']:,} rounds",
        ),
    ]


def _of_calibration(rates: list[dict[str, Any]]) -> list[Check]:
    told = "; ".join(
        f"{one['where']}: N^{one['exponent']['mean']:.2f} ({one['exponent']['low']:.2f} to "
        f"{one['exponent']['high']:.2f})"
        for one in rates
    )
    # Bounds are one-sided: a part may fall faster than its bound.
    is_bounded = all(one["exponent"]["low"] <= -0.5 + 0.05 for one in rates)
    is_sharp = all(abs(one["exponent"]["mean"] - one["expected"]) <= 0.1 for one in rates)
    return [
        Check(PAPER, "R_cal = O(T/√N_sup)", is_bounded, told),
        Check(
            REPAIRED,
            "R_cal falls as 1/√N_sup at a kink or off the optimum, as 1/N_sup at an interior one",
            is_sharp,
            told,
        ),
    ]


def _of_gate(rates: list[dict[str, Any]]) -> list[Check]:
    is_equal = all(abs(one["rest_in_errors"]) <= _ERRORS for one in rates)
    told = "; ".join(
        f"{one['gate']}: {one['paper']['mean']:.1f} for {one['p_delta']:.1f} with "
        f"{one['override']:.0%} changed"
        for one in rates
    )
    ours = "; ".join(
        f"{one['gate']}: {one['main_without_luck']:.1f} in {one['main_low']:.1f} to "
        f"{one['main_high']:.1f}"
        for one in rates
    )
    return [
        Check(PAPER, "R_gate is Σ p·Δ of what was proposed, in the mean", is_equal, told),
        Check(
            REPAIRED,
            "R_gate, luck aside, lies between p·Δ of the best arm behind the gate and without it",
            all(one["outside_bracket"] <= LIMIT for one in rates),
            ours,
        ),
    ]


def tables(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the tables of a finished check by title: columns and rows."""
    apart = answer["disagreement"]
    splits = [
        [title, apart[name]["regret"]["mean"], split, *_means(apart[name][split])]
        for name, title in (("wrong_level", "δ̂ = 0.8·δ*"), ("no_scaler", "no scaler"))
        for split in ("main", "paper")
    ]
    return {
        "where the splits disagree": {
            "columns": ["case", "regret", "split", "bandit", "calibration", "gate"],
            "rows": splits,
        },
        "R_bandit over √(KT log T)": {
            "columns": ["arms", "rounds", "ratio"],
            "rows": [
                [one["arms"], int(rounds), ratio]
                for one in answer["bandit"]
                for rounds, ratio in one["over_bound"].items()
            ],
        },
        "R_cal a round": {
            "columns": ["N_sup", *(one["where"] for one in answer["calibration"])],
            "rows": [
                [int(n), *(one["by_n_sup"][n] for one in answer["calibration"])]
                for n in answer["calibration"][0]["by_n_sup"]
            ],
        },
        "R_gate": {
            "columns": ["gate", "changed", "paper's", "Σ p·Δ", "main", "without luck"],
            "rows": [
                [
                    *(one["gate"], one["override"], one["paper"]["mean"], one["p_delta"]),
                    *(one["main"]["mean"], one["main_without_luck"]),
                ]
                for one in answer["gate"]
            ],
        },
    }


def _means(parts: dict[str, Any]) -> list[float]:
    return [parts[name]["mean"] for name in ("bandit", "calibration", "gate")]
