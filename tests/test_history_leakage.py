"""Columns that knew the answer are named; honest ones are not."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from gdcb import Category, Flag, Number, Payoff, Scaled, Schema
from gdcb.composition import Add
from gdcb.errors import InvalidInput
from gdcb.history import open_log, read
from gdcb.history.leakage import LARGEST
from gdcb.history.relations import determines, follows
from gdcb.instance import Instance
from gdcb.log_columns import LogColumns
from tests.log_builders import listing, nights


def watched(kind: Number | Flag | Category, outcome: str = "booked") -> Instance:
    """Return an instance with one more context column, 'extra'."""
    reward = Payoff(outcome=("booked",)) if outcome == "booked" else Scaled(outcome=(outcome,))
    return listing(
        context=Schema({"base": Number(1, 1000), "extra": kind}),
        composition=Add(names=("price",)),
        gate=[],
        reward=reward,
    )


def log(n: int = 2000, seed: int = 1) -> pl.DataFrame:
    return nights(n, seed).select("base", "price", "booked", "time")


def leaks(frame: pl.DataFrame, instance: Instance) -> list[str]:
    return read(frame, instance)[1].leaks


def test_an_honest_log_has_no_leaks() -> None:
    assert read(nights(2000), listing(), strict=True)[1].leaks == []


def test_a_column_that_the_outcome_determines_is_named() -> None:
    frame, booked = log(), pl.col("booked")
    flag = frame.with_columns(extra=booked == 1)
    assert "'extra' all but determines the outcome 'booked'" in leaks(flag, watched(Flag()))[0]
    word = frame.with_columns(
        extra=pl.when(booked == 1).then(pl.lit("sold")).otherwise(pl.lit("no"))
    )
    assert len(leaks(word, watched(Category(("sold", "no", "late"))))) == 1
    rng = np.random.default_rng(0)
    amount = frame.with_columns(extra=booked * 50 + pl.Series(rng.uniform(0, 10, 2000)))
    assert len(leaks(amount, watched(Number()))) == 1
    assert (
        leaks(frame.with_columns(extra=pl.Series(rng.uniform(0, 10, 2000))), watched(Number()))
        == []
    )


def test_a_column_that_only_helps_is_none() -> None:
    rng = np.random.default_rng(0)
    frame = log()
    noisy = frame.with_columns(extra=(pl.col("booked") == 1) ^ pl.Series(rng.random(2000) < 0.02))
    assert leaks(noisy, watched(Flag())) == []


def test_a_continuous_outcome_is_compared_by_correlation() -> None:
    rng = np.random.default_rng(0)
    value = pl.Series(rng.normal(size=2000))
    frame = log().with_columns(value=value, extra=3 * value + 1)
    instance = watched(Number(), "value")
    assert "'extra' all but determines the outcome 'value'" in leaks(frame, instance)[0]
    blurred = frame.with_columns(extra=value + pl.Series(rng.normal(size=2000) * 0.1))
    assert leaks(blurred, instance) == []


def test_a_column_that_follows_from_the_action_is_named() -> None:
    frame = log()
    paid = frame.with_columns(extra=pl.col("price") * 0.9)
    assert "'extra' is a function of the executed 'price'" in leaks(paid, watched(Number()))[0]
    rng = np.random.default_rng(2)
    few = frame.with_columns(price=pl.Series(rng.choice([80.0, 100.0, 120.0], 2000)))
    tier = pl.col("price").replace_strict({80.0: "low", 100.0: "mid", 120.0: "high"})
    levels = Category(("low", "mid", "high"))
    assert len(leaks(few.with_columns(extra=tier), watched(levels))) == 1
    mostly = pl.when(pl.int_range(2000) % 20 == 0).then(pl.lit("low")).otherwise(tier)
    assert leaks(few.with_columns(extra=mostly), watched(levels)) == []


def test_a_base_may_determine_the_action() -> None:
    frame = nights(1000).with_columns(price=pl.col("base"))  # one arm was ever played
    assert read(frame, listing())[1].leaks == []


def test_a_column_known_after_the_decision_is_named() -> None:
    frame = nights(100).with_columns(
        known=pl.when(pl.int_range(100) < 30)
        .then(pl.col("time") + pl.duration(hours=2))
        .otherwise(pl.col("time") - pl.duration(hours=2))
    )
    columns = LogColumns(decided={"weekend": "known"})
    _, report = read(frame, listing(), columns)
    assert report.leaks == [
        "The context column 'weekend' was known only after the decision in 30 rows."
    ]
    with pytest.raises(InvalidInput, match="known only after the decision"):
        read(frame, listing(), columns, strict=True)
    with pytest.raises(InvalidInput, match="'price' is no context column"):
        read(frame, listing(), LogColumns(decided={"price": "known"}))


def test_little_data_is_not_judged() -> None:
    frame = log(30).with_columns(extra=pl.col("booked") == 1)
    assert leaks(frame, watched(Flag())) == []
    rare = log(2000).with_columns(booked=(pl.int_range(2000) % 500 == 0).cast(pl.Int64))
    assert leaks(rare.with_columns(extra=pl.col("booked") == 1), watched(Flag())) == []


def test_the_sample_is_bounded_and_spread() -> None:
    n = 3 * LARGEST
    frame = log(n).with_columns(extra=pl.col("booked") == 1)
    source = open_log(frame, watched(Flag()), batch_rows=10_000)
    for _ in source.batches():
        pass
    assert source._tally is not None
    sample = source._tally.sample
    assert LARGEST // 4 < sample.n <= LARGEST
    numbers = np.concatenate(sample.numbers)
    assert (np.diff(numbers) == sample.step).all()
    assert len(source.report.leaks) == 1


def test_separation_in_any_order_is_seen() -> None:
    x = np.arange(300.0)
    assert determines(x, (x > 100) & (x < 200))
    assert not determines(x, np.random.default_rng(0).random(300) < 0.5)
    assert not follows(np.random.default_rng(0).random(300), np.tile([1.0, 2.0, 3.0], 100))


def test_in_a_large_log_an_independent_flag_is_no_function_of_a_binary_action() -> None:
    """All rows that differ count, not one for each action: 50,000 are no rounding error."""
    rng = np.random.default_rng(0)
    action, flag = rng.integers(0, 2, (2, 100_000)).astype(float)
    assert not follows(flag, action)
    assert follows(1.0 - action, action)


def test_columns_that_know_much_are_asked_about_but_are_no_leaks() -> None:
    """A ratio of price to base, a flag right in 93 %, a sale that needs a booking."""
    frame, rng = log(), np.random.default_rng(2)
    n, booked, price = frame.height, pl.col("booked"), pl.col("price")
    right = pl.Series(rng.random(n) < 0.93)
    for kind, column, said in (
        (Number(), price / pl.col("base"), "'extra' is made of the executed 'price' and 'base'"),
        (Flag(), pl.when(right).then(booked).otherwise(1 - booked), "'extra' tells 6"),
        (Number(), booked * pl.Series(rng.random(n) < 0.1), "Whenever the context column 'extra'"),
    ):
        report = read(frame.with_columns(extra=column), watched(kind), strict=True)[1]
        assert len([one for one in report.warnings if said in one]) == 1
        assert all("was it known before the decision?" in one for one in report.warnings)
    honest = read(frame.with_columns(extra=pl.Series(rng.random(n))), watched(Number()))[1]
    assert not [one for one in honest.warnings if "extra" in one]


def test_what_names_the_ratio_of_action_and_base_is_asked_about() -> None:
    """Its logarithm, or a category with a level an arm, in any order; demand is not."""
    frame, rng = log(), np.random.default_rng(2)
    frame = frame.with_columns(arm=pl.Series(rng.choice([0.8, 1.0, 1.25], 2000)))
    frame = frame.with_columns(price=(pl.col("base") * pl.col("arm")).round(2))
    tier = pl.col("arm").replace_strict({0.8: "b", 1.0: "c", 1.25: "a"})
    kinds = Category(("a", "b", "c"))
    ratio = (pl.col("price") / pl.col("base")).log().round(2)
    for kind, column in ((Number(-9, 9), ratio), (kinds, tier)):
        report = read(frame.with_columns(extra=column), watched(kind), strict=True)[1]
        said = "'extra' is made of the executed 'price' and 'base': was it known before the"
        assert len([one for one in report.warnings if said in one]) == 1
    other = frame.with_columns(extra=pl.Series(rng.choice(["a", "b", "c"], 2000)))
    report = read(other, watched(kinds), strict=True)[1]
    assert not [one for one in report.warnings if "extra" in one]


def test_columns_that_tell_the_outcome_together_are_named() -> None:
    """All but determined is a leak and refused strictly; two thirds is asked about."""
    frame, rng = log(), np.random.default_rng(2)
    n, booked, late = frame.height, pl.col("booked") == 1, pl.col("base") > 140
    odd = frame.with_columns(extra=booked ^ late)
    (said,) = leaks(odd, watched(Flag()))
    assert "The context columns 'base', 'extra' together tell 9" in said
    with pytest.raises(InvalidInput, match="together tell"):
        read(odd, watched(Flag()), strict=True)
    summed = frame.with_columns(extra=10 * pl.col("base") + pl.col("booked"))
    assert len(leaks(summed, watched(Number()))) == 1
    noisy = odd.with_columns(extra=pl.col("extra") ^ pl.Series(rng.random(n) < 0.03))
    report = read(noisy, watched(Flag()), strict=True)[1]
    assert len([one for one in report.warnings if "'base', 'extra' together tell" in one]) == 1
    plain = frame.with_columns(extra=pl.Series(rng.random(n) < 0.5))
    report = read(plain, watched(Flag()), strict=True)[1]
    assert not [one for one in report.warnings if "together" in one]
