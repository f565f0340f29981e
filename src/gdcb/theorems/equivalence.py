"""Theorem 2, gate-induced equivalence: what an executed law owes to the policy, and what follows.

The paper: behind an idempotent, stationary gate the executed law is the same under any policy, so
that history is an on-policy sample. On its feasible set such a gate is the identity, and the law
is the policy's. What holds instead: a gate contracts the difference of two policies by η; history
is usable because E[r | e_exec, x] does not ask who proposed; and a posterior without context needs
its bias b to be small, which is the scaler's work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gdcb.parts import check_number
from gdcb.theorems import context_free, executed_law, private_information
from gdcb.theorems.verdict import PAPER, REPAIRED, Check, Progress, document, quiet

_CLOSE = 1e-9
_COVERED = 0.9  # of intervals at 95 %, where m̂_res can say what there is to say
_IDEMPOTENT = ("identity", "projection", "cap", "shield")
_DECIDES = ("one feasible price", "human who decides all")
_STARTS = (
    ("none", "none", "flat arms"),
    ("outcomes", "outcomes", "flat arms"),
    ("none_curve", "none", "curve"),
    ("outcomes_curve", "outcomes", "curve"),
)
_ANCHORED = ("anchored editor, quarter", "anchored editor, half", "anchored editor, whole")


@dataclass(frozen=True)
class Settings:
    """Size of the experiment.

    Parameters
    ----------
    contexts, pairs : contexts, and pairs of policies, on which the bound is checked exactly
    nights : rows of a history, the paper's 1,461 nights
    repeats : pairs of logs that the two-sample test is shown
    histories : replicates of the bias, and of its interval's coverage
    replicates, rounds : of the runs after a warm start; those of the bias end at round 100
    """

    contexts: int = 200
    pairs: int = 500
    nights: int = 1461
    repeats: int = 200
    histories: int = 100
    replicates: int = 100
    rounds: int = 200

    def __post_init__(self) -> None:
        for name in ("contexts", "pairs", "nights", "repeats", "histories", "replicates", "rounds"):
            check_number(f"settings.{name}", getattr(self, name), 2)


def check(
    seed: int = 0, progress: Progress | None = None, settings: Settings | None = None
) -> dict[str, Any]:
    """Measure what gates do to executed laws, and what history is worth; verdicts safe for JSON."""
    say, size = progress or quiet, settings or Settings()
    gates = executed_law.gates()
    rows = executed_law.contexts(size.contexts, seed)
    say("executed laws of two policies")
    laws = {
        name: executed_law.difference(gates[name], rows, size.nights, seed)
        for name in ("identity", "projection", "human, p(x)", *_DECIDES)
    }
    tests = {
        name: executed_law.two_sample_test(gates[name], size.nights, size.repeats, seed)
        for name in ("identity", "projection", "human who decides all")
    }
    say("the contraction bound")
    bounds = {
        name: executed_law.contraction(gate, rows, size.pairs, seed) for name, gate in gates.items()
    }
    bias, cost = {}, {}
    for scaler in context_free.SCALERS:
        say(f"bias of a context-free warm-up, scaler {context_free.SCALERS[scaler]}")
        bias[scaler] = context_free.bias_figures(scaler, size.histories, size.nights, seed)
    for name, scaler, learner in _STARTS:
        say(f"regret after a warm-up, {learner}, scaler {context_free.SCALERS[scaler]}")
        cost[name] = context_free.cost_figures(
            scaler, learner, size.replicates, size.nights, min(size.rounds, 100), seed
        )
    private = {}
    for name, is_private in (("without_signal", False), ("with_signal", True)):
        say(f"overrides {name.replace('_', ' ')}")
        private[name] = private_information.rule_figures(
            is_private, size.replicates, size.nights, size.rounds, seed
        )
    checks = [
        *_of_laws(laws, tests),
        *_of_bounds(bounds, laws),
        *_of_bias(bias, cost),
        *_of_overrides(private),
    ]
    return document(
        "Theorem 2, gate-induced equivalence",
        checks,
        executed_laws=laws,
        two_sample_tests=tests,
        contraction=bounds,
        bias=bias,
        warm_start=cost,
        private_information=private,
        histories=size.histories,
        replicates=size.replicates,
        nights=size.nights,
    )


def _of_laws(laws: dict[str, Any], tests: dict[str, Any]) -> list[Check]:
    """Judge the stated equality, and the figure that is said to show it."""
    two = ("identity", "projection")
    apart = "; ".join(
        f"{name} TV {laws[name]['executed_tv']:.3f} of the {laws[name]['recommended_tv']:.3f} "
        f"recommended, sampled lower bound {laws[name]['low']:.3f} to {laws[name]['high']:.3f}"
        for name in two
    )
    differs, same = tests["identity"], tests["human who decides all"]
    shown = differs["printed_0.000"] <= same["printed_0.000"]
    return [
        Check(
            PAPER,
            "behind an idempotent gate two policies execute the same law",
            not any(laws[name]["low"] > 0 for name in two),
            apart,
        ),
        Check(
            PAPER,
            "a two-sample KS test with p = 0.000 shows that two executed laws match",
            shown,
            f"it prints 0.000 in {differs['printed_0.000']:.0%} of {differs['repeats']} pairs of "
            f"logs whose laws differ by {laws['identity']['executed_tv']:.2f}, and in "
            f"{same['printed_0.000']:.0%} where they are equal (median p {same['median_p']:.2f}): "
            "p = 0.000 rejects equality",
        ),
    ]


def _of_bounds(bounds: dict[str, Any], laws: dict[str, Any]) -> list[Check]:
    """Judge the contraction."""
    violations = sum(one["violations"] for one in bounds.values())
    compared = sum(one["comparisons"] for one in bounds.values())
    short = max(one["formula_short"] for one in bounds.values())
    slack = max(one["slack_of_sup"] for one in bounds.values())
    human = bounds["human, p(x)"]
    chains = [name for name in bounds if name.startswith("chain")]
    worst = min(bounds[name]["eta"] for name in _IDEMPOTENT)
    none = max(bounds[name]["eta"] for name in _DECIDES)
    equal = max(laws[name]["executed_tv_largest"] for name in _DECIDES)
    anchored = min(bounds[name]["eta"] for name in _ANCHORED)
    return [
        Check(
            REPAIRED,
            "TV of what is executed is at most η times TV of what is recommended, for every gate",
            violations == 0 and short <= _CLOSE,
            f"{violations} violations in {compared:,} comparisons over {len(bounds)} gates; some "
            f"pair of policies reaches η to {slack:.1g}; the formula is never below the exact η; "
            + ", ".join(f"{name} η = {bounds[name]['eta']:.2f}" for name in chains),
        ),
        Check(
            REPAIRED,
            "for 'approve with p(x), else an own action' η is p(x), with equality",
            human["largest_gap_to_bound"] <= _CLOSE and abs(human["formula_excess"]) <= _CLOSE,
            f"largest |TV_exec − p·TV_rec| {human['largest_gap_to_bound']:.0e} over "
            f"{human['comparisons']:,} comparisons",
        ),
        Check(
            REPAIRED,
            "an idempotent gate with two feasible actions has η = 1, a person who edits from the "
            "proposal may have it, and where η = 0 the paper's equality is exact",
            worst == 1.0 and anchored == 1.0 and none == 0.0 and equal <= _CLOSE,
            f"{', '.join(_IDEMPOTENT)}: η {worst:g}; anchored editors: η {anchored:g}; "
            f"{' and '.join(_DECIDES)}: η {none:g}, executed TV {equal:.1g}",
        ),
    ]


def _of_bias(bias: dict[str, Any], cost: dict[str, Any]) -> list[Check]:
    """Judge what a posterior without context makes of a history."""
    off, fitted, known = bias["none"], bias["outcomes"], bias["known"]
    worse, better = cost["none"]["warm_minus_cold"][0], cost["outcomes"]["warm_minus_cold"][0]
    rule = cost["none"]["weighed_minus_warm"][0]
    episode = cost["none"]["episodes"][0]
    curve, kept = cost["none_curve"], cost["outcomes_curve"]["together_minus_warm"][0]
    cold, warm = (cost["outcomes"]["regret"][name][0] for name in ("cold", "warm"))
    return [
        Check(
            PAPER,
            "history warms up any posterior on (e_exec, r) without a correction",
            worse["high"] < 0 and off["root_mean_square"] < 0.02,
            f"without a scaler the arms' booking rates are off by {off['root_mean_square']:.3f} "
            f"(root mean square), and the warm start costs {_interval(worse)} more regret than a "
            f"cold one by episode {episode}",
        ),
        Check(
            REPAIRED,
            "b̂ finds the bias where there is one, and its interval holds the truth where scaling "
            "has left little",
            off["root_mean_square_error"] < 0.25 * off["root_mean_square"]
            and min(fitted["coverage_all"], known["coverage_all"]) >= _COVERED,
            f"scaler off: b̂ within {off['root_mean_square_error']:.3f} of a b of "
            f"{off['root_mean_square']:.3f}, interval {off['coverage_all']:.1%}; fitted: b "
            f"{fitted['root_mean_square']:.3f}, interval {fitted['coverage_all']:.1%}; known: b "
            f"{known['root_mean_square']:.3f}, interval {known['coverage_all']:.1%} (nominal 95 %)",
        ),
        Check(
            REPAIRED,
            "with a scaler the same history is worth having without reweighting",
            better["high"] < 0,
            f"regret above the floor by episode {episode}: cold {cold:.2f}, warm {warm:.2f}, "
            f"difference {_interval(better)}",
        ),
        Check(
            REPAIRED,
            "the evidence rule n_eff keeps evidence without bias and takes most of the harm out of "
            "biased evidence",
            rule["high"] < 0
            and abs(rule["mean"]) > 0.5 * worse["mean"]
            and fitted["mean_weight"] > 0.9,
            f"mean weight {off['mean_weight']:.2f} with the scaler off, "
            f"{fitted['mean_weight']:.2f} with it; off, by episode {episode}, "
            f"{_interval(rule)} beside full weight and "
            f"{_interval(cost['none']['weighed_minus_cold'][0])} beside cold",
        ),
        Check(
            REPAIRED,
            "where arms share a curve the rows of all arms must be weighed together: their biases "
            "do not average out",
            curve["together_minus_warm"][0]["high"] < 0
            and curve["together_minus_cold"][0]["mean"] < curve["weighed_minus_cold"][0]["mean"] / 2
            and abs(kept["mean"]) < 0.1 * abs(better["mean"]),
            f"scaler off, by episode {episode}, beside cold: full weight "
            f"{_interval(curve['warm_minus_cold'][0])}, each arm by itself "
            f"{_interval(curve['weighed_minus_cold'][0])}, together "
            f"{_interval(curve['together_minus_cold'][0])}; with the scaler weighing together "
            f"changes {_interval(kept)}",
        ),
    ]


def _of_overrides(private: dict[str, Any]) -> list[Check]:
    """Judge the rules for overridden rows."""
    plain, told = private["without_signal"], private["with_signal"]
    every = told["all_minus_approved"]
    pooled = [one["warm_minus_cold"]["pooled"] for one in (plain, told)]
    best = min(plain["warm"]["all"], plain["warm"]["approved"])
    saved = abs(plain["warm_minus_cold"]["pooled"]["mean"])
    near = max(plain["warm"]["pooled"] - best, 0.0) <= 0.05 * saved
    gap = told["pooled_minus_approved"]
    near_told = gap["mean"] <= 0.05 * abs(told["warm_minus_cold"]["approved"]["mean"])
    return [
        Check(
            PAPER,
            "every row of a history through the same person is valid evidence",
            every["low"] <= 0,
            "a person who overrides on a signal of demand: by episode "
            f"{told['episodes']} a warm start on all rows has {_interval(every)} regret beside "
            f"one on approved rows, and {_interval(told['all_minus_cold'])} beside a cold start",
        ),
        Check(
            REPAIRED,
            "pooling overridden rows by the contrast's posterior is as good as the better of all "
            "rows and approved rows only, with a private signal and without",
            near and near_told and all(one["high"] < 0 for one in pooled),
            f"regret above the floor by episode {told['episodes']}, without the signal: "
            f"{_by_rule(plain)}; with it: {_by_rule(told)}",
        ),
    ]


def _by_rule(figures: dict[str, Any]) -> str:
    rules = ", ".join(f"{rule} {value:.2f}" for rule, value in figures["warm"].items())
    return f"{rules}, cold {figures['cold']['pooled']:.2f}"


def _interval(one: dict[str, float]) -> str:
    mean, low, high = (round(one[name], 2) + 0.0 for name in ("mean", "low", "high"))
    return f"{mean:+.2f} ({low:+.2f} to {high:+.2f})"
