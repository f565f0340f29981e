"""Sentences of a certificate: whole, in plain words, with numbers rounded as they are read."""

from __future__ import annotations

import inspect
import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb.history import sentences as say
from tests.properties import examples

# Every function that gives sentences, with arguments of its kind.
SAID: list[tuple[str, tuple[Any, ...]]] = [
    ("adjusted_by_regression", ("aipw", 5)),
    ("adjusted_by_regression", ("cross-fitted regression",)),
    ("all_mature", ()),
    ("all_mature", (0.3,)),
    ("arm_untried", ("a", 0)),
    ("arm_untried", ("a", 1)),
    ("arm_untried", ("a", 1200)),
    ("arms_judged", ({"direct": 1, "adjust": 2},)),
    ("arms_refused", (["a"], 3)),
    ("arms_refused", (["a", "b"], 2)),
    ("bias_too_large", ("a", -0.3, -0.4, -0.2, 0.1, "standard deviations")),
    ("bias_unclear", ("a", 0.1, None, None, 0.1)),
    ("bias_within_margin", ("a", 0.01, -0.02, 0.04, 0.1)),
    ("mostly_missing", (0.62, 0.5)),
    ("same_outcomes", ()),
    ("implied_outcomes", ()),
    ("refused_because", ("contexts", ["a"], 20)),
    ("refused_because", ("overlap", ["a"], 20)),
    ("refused_because", ("overlap", ["a", "b"], 20)),
    ("refused_because", ("rows", ["a", "b"], 20)),
    ("refused_because", ("weights", ["a", "b"], 20)),
    ("columns_by_name", ({"action": ["price"], "outcome": ["booked", "stars"]},)),
    ("columns_unread", (["busy"],)),
    ("columns_unread", (["busy", "weekday"],)),
    ("context_read", (False,)),
    ("context_read", (True,)),
    ("contraction", ("gate", 0.7)),
    ("dependence_untested", ()),
    ("dependence_untested", (True,)),
    ("dependence_untested", (False, 1)),
    ("dependence_untested", (False, 2)),
    ("duplicates", (0,)),
    ("duplicates", (1,)),
    ("duplicates", (7,)),
    ("evidence", ("a", 1, 1)),
    ("evidence", ("a", 900, 12.3)),
    ("family", (0.05, 1)),
    ("family", (0.05, 6, True)),
    ("finding", ("Missing outcomes", 0.5, 0.01)),
    ("gate_changed", ("gate", "2025-03-04")),
    ("gate_changed", ("gate", 12, 0.7, 0.5, 1e-9)),
    ("gate_changed", ("gate", 12, 0.7, 0.5, 1e-9, False)),
    ("gate_stable", ("gate",)),
    ("gate_stable", ("gate", 0.3)),
    ("gate_stable", ("gate", None, "too few rows")),
    ("leak", ("refund", "known only after the decision")),
    ("outcomes_missing", (0.0,)),
    ("outcomes_missing", (0.1, 0.4)),
    ("outcomes_missing", (0.1, 0.0001, True)),
    ("cut_too_much", ("1.3", 0.43, 0.021)),
    ("cut_too_much", ("1.3", 0.43, 0.3, True)),
    ("hardly_ever_ran", ("1.3", 0.62)),
    ("overlap_too_small", ("a", 3.2, 20)),
    ("override_of_verdict", ("a pilot", "refuse")),
    ("overrides_not_logged", ()),
    ("overrides_private", (0.01, -0.3, -0.4, -0.2)),
    ("overrides_private", (0.01, -0.3, -0.4, 0.1, 0.002)),
    ("overrides_trusted", (0.9, 0.01)),
    ("overrides_unclear", (0.93, 0.02, -0.066, 0.105)),
    ("overrides_unclear", (0.07, 0.2, 0.1, 0.3, 0.04)),
    ("overrides_weight", (0.0,)),
    ("overrides_weight", (0.4,)),
    ("overrides_weight", (1.0,)),
    ("reward_law_changed", (5001, "the level", None)),
    ("reward_law_possible", (5001, "the level", 1e-6)),
    ("reward_law_possible", ("2025-03-04", "the level", None, say.MISSING)),
    ("reward_law_possible", ("2025-03-04", "the level", 1e-6, say.IMMATURE)),
    ("reward_law_possible", ("2025-03-04", "the level", 1e-6, say.SWINGS_OR_IMMATURE)),
    ("reward_law_stable", (0.6,)),
    ("reweighted", (None, 0.0, None)),
    ("reweighted", (20.0, 0.1, 0.004, True)),
    ("rows_dependent", ("rows of the same day", 2.2, 1e-6)),
    ("rows_independent", (0.4,)),
    ("rows_independent", (0.02, 0.0125)),
    ("rows_slightly_dependent", ("neighbouring rows", 1.07, 1e-9)),
    ("rows_since", ("2025-03-04T00:00:00+00:00",)),
    ("rows_used", (1, 1, 0)),
    ("rows_used", (1000, 0, 1)),
    ("scaler_at_prior", (0,)),
    ("scaler_at_prior", (1,)),
    ("scaler_at_prior", (0, (), 0.0, True, True)),
    ("scaler_at_prior", (0, [("price", 0.2, 6.1, 0.9, 1.1)], 0.7)),
    ("scaler_at_prior", (0, [("price", 0.2, 6.1, 0.9, 1.1)], 0.7, False)),
    ("scaler_taught", (900, 4500, [("price", 0.07, 4e9, 0.7, 1.3)], 0.48)),
    ("scaler_taught", (900, 4500, [("price", 0.9, 1.1, 0.7, 1.3)], 0.0)),
    ("scaler_taught", (9, 9, [("a", 0.0, 1.0, 0.0, 2.0), ("b", 1.0, 2.0, 0.0, 3.0)], 0.0)),
    ("scaler_taught", (1, 1, [("δ 1", 0.9, 1.1, None, None)], None)),
    ("rows_used", (1000, 0, 1, 1)),
    ("rows_used", (10_000, 0, 1, 2500)),
    ("set_aside", (1, 86_400.0, True, "declared")),
    ("set_aside", (2500, 1200.0, False, "missing outcomes", 1e-6)),
    ("set_aside", (2500, 5000.0, True, "outcome times")),
    ("set_aside", (2500, 5000.0, True, "outcome times", None, ("sold = 0", "sold = 1"))),
    ("slow_swings", ()),
    ("all_mature", (None, True)),
    ("too_few_days", (3,)),
    ("too_many_changes", (4,)),
    ("sensitivity_arms", (None,)),
    ("sensitivity_arms", (1.0,)),
    ("sensitivity_arms", (2.5,)),
    ("sensitivity_arms", (1.83, 1.52, "a", 0.02)),
    ("sensitivity_arms", (1.83, 1.0, "a", 0.02)),
    ("sensitivity_arms", (20.0, 20.0, "a", 0.0, True)),
    ("sensitivity_slopes", (math.nan,)),
    ("sensitivity_slopes", (0.2,)),
    ("sensitivity_slopes", (0.2, 0.1)),
    ("transport", (0.7, 0.5, 0.35)),
    ("transport", (1.0, 0.5, 0.5, True)),
    ("ungated", ()),
    ("variance", (0.02, 0.0, 0.05)),
    ("variance", (0.5,)),
    ("verdict", ("adjust",)),
    ("logged_bias", (0.4, 0.3, 0.12)),
]
PHRASES = {"at_most", "chance", "day", "duration", "named", "short", "spanned", "when"}


@pytest.mark.parametrize(("name", "arguments"), SAID, ids=lambda value: str(value)[:40])
def test_every_sentence_is_whole(name: str, arguments: tuple[Any, ...]) -> None:
    """A capital or a number first, a full stop last; no hole, no double space, no jargon."""
    said = getattr(say, name)(*arguments)
    assert re.match(r"[A-ZΛ\d]", said)
    assert said.endswith(".")
    assert "  " not in said
    assert not re.search(r"\bNone\b|\bnan\b|\binf\b|propensit|\bdataset|\b1 rows\b|\.\.", said)
    assert not re.search(r"(?<![\d.])\d{4,}", said.replace("2025", "")), "thousands are set apart"


OUT, ROWS, LATER, FORM = say.assumptions.ALL
FORMS = [say.assumptions.form_of(a, b) for a in (False, True) for b in (False, True)]
# What a sentence rests on: its name, or what it says there. Others are counts, or what was done.
RESTS: dict[str, set[str]] = {
    "bias_too_large": {OUT, ROWS, LATER, FORM},
    "bias_unclear": {OUT, ROWS, LATER, FORM},
    "bias_within_margin": {OUT, ROWS, LATER, FORM},
    "columns_unread": {"was tested", OUT, FORM},
    "evidence": {ROWS},
    "family": {ROWS},
    "finding": {ROWS},
    "gate_changed": {OUT},
    "logged_bias": {OUT, LATER, FORM},
    "overrides_private": {"probably knew", ROWS, LATER, FORM, say.assumptions.STEADY},
    "overrides_trusted": {ROWS, LATER, FORM},
    "overrides_unclear": {"cannot be told", ROWS, LATER, FORM, say.assumptions.STEADY},
    "reward_law_changed": {ROWS, FORM},
    "reward_law_stable": {ROWS},
    "rows_since": {ROWS, FORM},
    "sensitivity_arms": {ROWS, LATER, FORM},
    "sensitivity_slopes": {ROWS, LATER, FORM},
    "variance": {OUT, ROWS},
}
UNKNOWN = "is not known"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [(name, arguments) for name, arguments in SAID if name in RESTS],
    ids=lambda value: str(value)[:40],
)
def test_a_sentence_says_what_it_rests_on(name: str, arguments: tuple[Any, ...]) -> None:
    """All of it in one sentence; a figure that is not known rests on nothing."""
    said = getattr(say, name)(*arguments)
    parts = said.split(". ")
    assert UNKNOWN in said or any(all(one in part for one in RESTS[name]) for part in parts)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", [name for name, rests in RESTS.items() if FORM in rests])
def test_a_sentence_names_the_form_that_was_fitted(name: str, form: str) -> None:
    """Where there are too many columns for squares or products, the condition is a stronger one."""
    arguments = max((told for one, told in SAID if one == name), key=len)
    said = getattr(say, name)(*arguments, form=form)
    assert said.count("worth is nearly") == said.count(form) == 1


@pytest.mark.parametrize("verdict", ["direct", "adjust", "reweight"])
def test_a_verdict_that_uses_the_history_says_that_it_rests_on_something(verdict: str) -> None:
    assert "if what this rests on holds" in say.VERDICTS[verdict]


def test_nothing_is_said_of_the_very_worst() -> None:
    """A cause outside the log may bias an arm by any amount, whatever the logged contexts say."""
    said = say.logged_bias(0.05, 0.34, 0.017)
    assert "worst" not in said
    assert "A cause outside the log may bias it by any amount." in said


@pytest.mark.parametrize(
    "said",
    [
        say.assumptions.hidden_cause(""),
        say.assumptions.hidden_cause(say.sensitivity_arms(1.8, 1.5)),
        say.assumptions.no_carry_over(),
        say.assumptions.not_logged(),
        *(say.assumptions.form(a, b) for a in (False, True) for b in (False, True)),
        *(say.assumptions.form(True, False, a, b) for a, b in ((True, False), (False, True))),
        say.assumptions.form(False, False, True, True),
        *(say.assumptions.reviewers(0.1, -0.1, 0.3, one) for one in (False, True)),
        *(say.assumptions.unchanged(n, "p = 0.400") for n in (0, 1, 2)),
        *(say.assumptions.unchanged(n, "p = 0.400", is_certain=False) for n in (1, 2)),
        *(
            say.assumptions.missing("8 %", p, one)
            for p in ("", "p = 0.400")
            for one in (False, True)
        ),
        *(say.assumptions.gates_unchanged(a, b, 1, True) for a in (0, 1, 2) for b in (0, 1, 2)),
        say.assumptions.gates_unchanged(0, 0, 2, False),
        *(say.assumptions.probabilities(one) for one in (False, True)),
    ],
)
def test_results_of_assumptions_are_whole(said: str) -> None:
    assert re.match(r"[A-ZΛ\d]", said)
    assert said.endswith(".")
    assert "  " not in said


@pytest.mark.parametrize("name", ["reward_law_changed", "rows_since"])
def test_a_dated_change_rests_on_outcomes_that_are_final_unless_that_is_known(name: str) -> None:
    """Losses that are booked late look like a change, and so does a shift along a curve."""
    arguments = (
        ("2025-03-04", "the level", 1e-6) if name == "reward_law_changed" else ("2025-03-04",)
    )
    said = getattr(say, name)(*arguments)
    rests = (
        "if rows are independent, worth is nearly quadratic in x and later outcomes are as final "
        "as earlier ones"
    )
    assert rests in said.split(". ")[0]
    known = getattr(say, name)(*arguments, is_final=True)
    assert "if rows are independent and worth is nearly quadratic in x" in known
    assert "as final" not in known


@pytest.mark.parametrize("is_logged", [False, True])
def test_cut_weights_name_no_cause_that_may_be_false(is_logged: bool) -> None:
    """An arm of 2 % everywhere was said to run rarely in some contexts; the weights were noise."""
    one = say.cut_too_much("3", 0.6, 0.02, is_logged)
    all_of_them = say.refused_because("weights", ["3"], 20, is_logged)
    for said in (one, all_of_them):
        assert "rarely in some contexts" not in said
        assert ("estimated probability" in said) is not is_logged
        assert ("logged probability" in said) is is_logged
    assert "ran in 2 % of the rows" in one


def test_the_name_of_an_arm_is_not_read_as_its_prior() -> None:
    """'Starts from its prior: 0.8' was said of the arm 0.8."""
    said = say.arms_refused(["0.8"], 4)
    assert said.startswith("Of 4 arms, 1 (“0.8”) is refused and starts from its prior. The others")
    assert "prior:" not in say.arms_refused(["0.8", "1.3"], 5)


@pytest.mark.parametrize("form", FORMS)
def test_what_was_tested_beyond_a_line_names_the_form_that_was_fitted(form: str) -> None:
    """With a worth that is cubic in x nothing was found, and the worst arm was learned."""
    *_, last = say.context_read(True, form).split(". ")
    assert "beyond that line was tested, which tells only if" in last
    assert all(one in last for one in (OUT, ROWS, LATER, form))


def test_a_margin_wider_than_the_arms_are_apart_is_said() -> None:
    """Of rare outcomes no arm earned more than the margin: that none could be better was empty."""
    told = (2.49, 1.27, "20", 0.0073, False, FORM)
    little = "says nothing of which of them is best"
    said = say.sensitivity_arms(*told, apart=0.005)
    assert (
        f"The means of the arms in the log differ by no more than 0.005, so that it {little}."
        in said
    )
    assert little not in say.sensitivity_arms(*told, apart=0.008)


def test_the_list_above_is_whole() -> None:
    """A new sentence is looked at too."""
    functions = {name for name in say.__all__ if inspect.isfunction(getattr(say, name))}
    assert functions == {name for name, _ in SAID} | PHRASES


def test_what_a_verdict_means_speaks_of_no_change() -> None:
    """Rows are left out only where a change was found, and then a sentence of its own says so."""
    assert not any("change" in said for said in say.MEANING.values())


def test_the_effect_of_cut_weights_is_that_on_the_rows_looked_at() -> None:
    assert "among these rows by at most 0.004" in say.reweighted(20.0, 0.1, 0.004)


def test_each_verdict_has_its_words() -> None:
    assert list(say.VERDICTS) == list(say.MEANING) == list(say.SHORT)
    assert set(say.VERDICTS) == {"direct", "adjust", "reweight", "refuse"}


@pytest.mark.parametrize(
    ("time", "words"),
    [
        ("2024-12-01", "on 1 December 2024"),
        ("2024-12-01T23:59:59Z", "on 1 December 2024"),
        (1, "at row 1"),
        (60_001.0, "at row 60,001"),
        ("week 3", "on week 3"),
    ],
)
def test_times(time: str | float, words: str) -> None:
    assert say.when(time) == words


def test_numbers_bear_as_many_digits_as_their_interval() -> None:
    assert say.spanned(0.123456, 0.1, 0.15) == "0.123 (0.100 to 0.150)"
    assert say.spanned(1234.5, 1100, 1400) == "1,234 (1,100 to 1,400)"
    assert say.spanned(0.5, -math.inf, math.inf) == "0.5"
    assert (say.short(0.0), say.short(2e-7), say.short(-0.25)) == ("0", "2.0 × 10⁻⁷", "−0.25")
    assert (say.chance(0.0499), say.chance(0.0)) == ("p = 0.050", "p < 0.001")


@given(st.floats(-5, 5), st.floats(0, 3))
@examples(50)
def test_the_difference_of_overrides_is_said_by_size_and_way(mean: float, half: float) -> None:
    """Less or more, and the interval turns with it: its first end is the lower one."""
    said = say.overrides_trusted(0.9, mean, mean - half, mean + half)
    assert ("less" if mean < 0 else "more") in said
    same = say.overrides_trusted(0.9, -mean, -mean - half, -mean + half)
    if mean:
        assert said.replace("less", "more") == same.replace("less", "more")


def test_a_long_list_of_names_is_cut() -> None:
    names = [f"a{i}" for i in range(25)]
    assert say.named(names) == "a0, a1, a2, a3, a4, a5 and 19 others"
    assert say.named(names[:7]).endswith("and 1 other")
    assert say.named(names[:1]) == "a0"


def test_way_of_a_bias() -> None:
    """A positive bias flatters an arm, a negative one wrongs it."""
    assert "overstate" in say.bias_too_large("a", 0.3, 0.2, 0.4, 0.1)
    assert "understate" in say.bias_too_large("a", -0.3, -0.4, -0.2, 0.1)


def test_a_test_has_found_something_where_p_is_no_larger_than_its_threshold() -> None:
    assert "a departure was found" in say.finding("x", 0.01, 0.01)
    assert "nothing found" in say.finding("x", 0.0101, 0.01)
