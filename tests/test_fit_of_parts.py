"""What does not fit together is refused when an instance is built, not at a decision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gdcb import round as turn
from gdcb.adjustment import Adjustment
from gdcb.arms import ArmList
from gdcb.bandits import (
    CurveThompson,
    GaussianThompson,
    HierarchicalCurveThompson,
    LinearThompson,
    StackedThompson,
)
from gdcb.composition import Add, Identity, Multiply
from gdcb.context import Number, Schema
from gdcb.errors import InvalidInput
from gdcb.instance import Cells, Instance, NullAction
from gdcb.rewards import Payoff
from gdcb.scalers import ConstantScaler, LogLinearScaler, RidgeScaler

SCHEMA = Schema({"x": Number(0.1, 9.0)})
ARMS = ArmList(values=(1.0, 2.0))


def build(**settings: Any) -> Instance:
    parts: dict[str, Any] = {"context": SCHEMA, "arms": ARMS, "composition": Multiply(), "gate": []}
    return Instance(**(parts | settings))


def test_a_sum_without_a_scaler_leaves_the_arms_alone() -> None:
    """The neutral δ of a sum is 0; a constant that somebody declares stays."""
    for settings, expected in (({}, [1.0, 2.0]), ({"scaler": ConstantScaler(1.0)}, [2.0, 3.0])):
        instance = build(composition=Add(), **settings)
        delta = instance.scaler.predict(instance.scaler.init(1), np.zeros(1, int), np.ones((1, 1)))
        made = instance.composition.compose(instance.space, delta, np.ones((1, 1)))
        assert made.ravel().tolist() == expected


def test_a_product_scaler_does_not_go_with_a_sum() -> None:
    with pytest.raises(InvalidInput, match="adds δ, whose neutral value is 0"):
        build(composition=Add(), scaler=RidgeScaler(features=("x",)))
    build(composition=Add(), scaler=RidgeScaler(features=("x",), link="identity"))


@pytest.mark.parametrize("composition", [Add(), Identity()])
def test_a_scaler_of_outcomes_needs_a_product(composition: Any) -> None:
    scaler = LogLinearScaler(factors={"x": ("x",)})
    with pytest.raises(InvalidInput):
        build(composition=composition, scaler=scaler, reward=Payoff())
    build(scaler=scaler, reward=Payoff())


def test_an_adjustment_does_not_go_with_what_reads_the_context() -> None:
    adjusted = build(adjustment=Adjustment(((1.0,),), ("x",)))
    zero = np.zeros(1, dtype=np.int64)
    turn.init(adjusted, GaussianThompson(), zero)
    with pytest.raises(InvalidInput, match="LinearThompson reads the context"):
        turn.init(adjusted, LinearThompson(features=(0,)), zero)
    banded = build(adjustment=Adjustment(((1.0,),), ("x",)), cells=Cells(edges=(1.0,)))
    with pytest.raises(InvalidInput, match="bands of δ"):
        turn.init(banded, GaussianThompson(), zero)


@pytest.mark.parametrize(
    "learner",
    [
        CurveThompson(form="additive"),
        HierarchicalCurveThompson(CurveThompson(form="additive")),
        StackedThompson((CurveThompson(), CurveThompson(form="additive"))),
        StackedThompson(
            (
                HierarchicalCurveThompson(),
                HierarchicalCurveThompson(CurveThompson(form="additive")),
            )
        ),
    ],
    ids=["curve", "hierarchical", "stack", "stack of hierarchical"],
)
def test_who_rebuilds_actions_needs_their_composition(learner: Any) -> None:
    """A product is not a sum, and one δ is not one an arm; and a class is no reward."""
    zero = np.zeros(1, dtype=np.int64)
    turn.init(build(reward=Payoff()), learner, zero)
    with pytest.raises(InvalidInput, match="rebuilds the action as a product"):
        turn.init(build(composition=Add(), reward=Payoff()), learner, zero)
    several = RidgeScaler(features=("x",), n_arms=2)
    with pytest.raises(InvalidInput, match="with 2 δ a row"):
        turn.init(build(scaler=several, reward=Payoff()), learner, zero)
    with pytest.raises(InvalidInput, match="learns a class"):
        turn.init(build(), learner, zero)


def test_members_must_agree_on_what_they_rebuild() -> None:
    sums = HierarchicalCurveThompson(CurveThompson(form="additive", rebuild="sum"))
    with pytest.raises(InvalidInput, match="expected one way to rebuild, got product and sum"):
        StackedThompson((CurveThompson(form="additive"), sums))
    zero = np.zeros(1, dtype=np.int64)
    turn.init(build(composition=Add(), reward=Payoff()), sums, zero)


def test_a_prior_of_the_day_signal_has_a_number_a_column() -> None:
    with pytest.raises(InvalidInput, match=r"scaler\.theta: expected 1 number, got 2"):
        build(scaler=LogLinearScaler(factors={"x": ("x",)}, theta=(0.1, 0.2)), reward=Payoff())


def test_the_null_action_is_one_of_the_levels() -> None:
    names = ArmList(names=("a", "b"))
    with pytest.raises(InvalidInput, match=r"null\.action: expected a whole number from 0 to 1"):
        build(arms=names, composition=Identity(severity=False), null=NullAction(action=(7.0,)))
    with pytest.raises(InvalidInput, match=r"null\.columns: 'action' is a category"):
        build(arms=names, composition=Identity(severity=False), null=NullAction(columns=("x",)))
