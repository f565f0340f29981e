"""Classical algorithms as the instances that they are: each a file of registered parts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reduction:
    """A classical algorithm, declared as a file.

    Parameters
    ----------
    label : its name in the figure
    about : what makes it this algorithm
    declared : the TOML file
    shown_by : the test that shows it, or nothing where it holds by definition
    """

    label: str
    about: str
    declared: str
    shown_by: str = ""


_CATEGORIES = """\
context.x = { type = "number", low = 0.0, high = 1.0 }
arms = { part = "list", names = ["a", "b", "c"] }
composition = { part = "identity", severity = false }
"""
_NUMBERS = """\
context.x = { type = "number", low = 0.0, high = 1.0 }
arms = { part = "list", values = [0.8, 1.0, 1.25] }
composition = { part = "multiply" }
"""
_CLASS = 'reward = { part = "payoff", outcome = ["won"] }\n'
_REWARD = 'reward = { part = "scaled" }\n'
_OPEN = "gates = []\n"
_BETA = 'bandit = { part = "beta-thompson" }\n'
_TESTS = "tests/test_reductions.py::"

REDUCTIONS = (
    Reduction(
        "MAB",
        "Independent arms, no context: nothing reads x, δ is constant and every proposal runs.",
        _CATEGORIES + _OPEN + _CLASS + _BETA,
        _TESTS + "test_no_scaler_no_gate_is_the_plain_bandit",
    ),
    Reduction(
        "HierTS",
        "Units of a group share a learned prior. Its hierarchy is over units, not a scaler.",
        _CATEGORIES + _OPEN + _REWARD + 'bandit = { part = "hierarchical-thompson" }\n',
        _TESTS + "test_units_that_do_not_differ_are_one_pooled_learner",
    ),
    Reduction(
        "FactoredTS",
        "One arm a combination of factors. The composition multiplies them; δ = 1 adds nothing.",
        """\
context.x = { type = "number", low = 0.0, high = 1.0 }
arms = { part = "grid", factors = { A = [0.8, 1.25], B = [0.8, 1.25] } }
composition = { part = "multiply" }
scaler = { part = "constant", n_columns = 2 }
"""
        + _OPEN
        + _CLASS
        + 'bandit = { part = "factored-thompson" }\n',
        _TESTS + "test_factored_arms_are_a_bandit_over_their_products",
    ),
    Reduction(
        "GLM bandit",
        "Arms share a curve over their coordinates. Each is its own action: base 1 and δ = 1.",
        _NUMBERS + _OPEN + _CLASS + 'bandit = { part = "curve-thompson" }\n',
        _TESTS + "test_a_curve_sees_fifteen_arms_in_the_grid",
    ),
    Reduction(
        "constrained",
        "A known feasible set: what lies outside it never runs and is worth the null action.",
        _CATEGORIES + 'gates = [{ part = "policy", denied = [2] }]\n' + _CLASS + _BETA,
    ),
    Reduction(
        "LinTS",
        "Rewards linear in x, weights an arm. Its context lives in the bandit, not in a scaler.",
        _CATEGORIES + _OPEN + _REWARD + 'bandit = { part = "linear-thompson" }\n',
    ),
    Reduction(
        "LinUCB",
        "The upper end of the same prediction. Its context, too, lives in the bandit.",
        _CATEGORIES + _OPEN + _REWARD + 'bandit = { part = "linear-ucb" }\n',
    ),
    Reduction(
        "GP bandit",
        "A Gaussian process over the arms' coordinates: in the bandit, not in a scaler.",
        _NUMBERS + _OPEN + _REWARD + 'bandit = { part = "gp-curve-thompson", link = "identity" }\n',
    ),
    Reduction(
        "shielded",
        "What is not safe is replaced by a fallback that is.",
        _CATEGORIES
        + 'gates = [{ part = "shield", denied = [2], fallback = [0.0] }]\n'
        + _CLASS
        + _BETA,
        _TESTS + "test_a_hard_gate_is_a_shield",
    ),
)
