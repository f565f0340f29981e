"""Numbers are numbers and names are names: no arm is taken for the other kind."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pytest

import gdcb
from gdcb.composition import ActionColumn
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.instances import load

SCHEMA = gdcb.Schema({"base": gdcb.Number(1, 1000)})
NUMBERS = gdcb.ArmList(values=(0.9, 1.0, 1.1))
NAMES = gdcb.ArmList(names=("low", "middle", "high"))


def test_numbers_given_by_position_are_values() -> None:
    """At a base of 120 the arms 0.9, 1 and 1.1 propose 108, 120 and 132."""
    instance = Instance(SCHEMA, gdcb.ArmList([0.9, 1.0, 1.1]), gdcb.Multiply(base=("base",)), [])  # type: ignore[arg-type]
    x, one = np.array([[120.0]]), np.ones((1, 1, 1))
    made = instance.composition.compose(instance.space, one, x)
    assert made.ravel() == pytest.approx([108.0, 120.0, 132.0])
    assert instance.space.names == ("0.9", "1", "1.1")


@pytest.mark.parametrize(
    "values",
    [range(1, 4), np.arange(1, 4), pd.Series([1, 2, 3]), pl.Series([1, 2, 3])],
    ids=["a range", "an array", "a column of pandas", "a column of Polars"],
)
def test_whatever_lists_numbers_is_values(values: Any) -> None:
    assert gdcb.ArmList(values) == gdcb.ArmList(values=(1, 2, 3))


@pytest.mark.parametrize("values", [{1.0, 2.0}, {1.0: "a"}, np.float64(2.0), np.array(2.0)])
def test_what_has_no_order_is_no_values(values: Any) -> None:
    with pytest.raises(InvalidInput, match=r"arms\.values: expected a tuple of numbers"):
        gdcb.ArmList(values)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"values": ("a", "b")}, r"arms\.values: expected numbers.*ArmList\(names=\.\.\.\)"),
        ({"values": "abc"}, r"arms\.values: expected a tuple of numbers, got 'abc'"),
        ({"values": 3}, r"arms\.values: expected a tuple of numbers, got 3"),
        ({"values": (True, False)}, r"arms\.values: expected a tuple of numbers"),
        (
            {"names": (0.8, 0.9)},
            r"arms\.names: expected a tuple of names, got \(0\.8, 0\.9\); .*values=\.\.\.",
        ),
        ({"names": "abc"}, r"arms\.names: expected a tuple of names, got 'abc'"),
        ({"values": (1.0, 2.0), "step": "1"}, r"arms\.step: expected a number or None, got '1'"),
    ],
)
def test_a_list_of_arms_refuses_what_it_cannot_be(given: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        gdcb.ArmList(**given)


@dataclass(frozen=True)
class Doubled:
    """A composition of somebody's own, through the protocol: e = 2·a."""

    arm_kind: ClassVar[str] = "numbers"
    needs_positive: ClassVar[bool] = False
    joins: ClassVar[str] = "other"

    def columns(self, arms: Any) -> tuple[ActionColumn, ...]:
        """Return one number."""
        return (ActionColumn("twice"),)

    def compose(self, arms: Any, delta: Any, x: Any) -> Any:
        """Return twice the arm."""
        return np.repeat(2.0 * arms.coords[None], x.shape[0], axis=0)

    def locate(self, arms: Any, e: Any, delta: Any, x: Any) -> Any:
        """Find the nearest arm."""
        return arms.locate(e / 2.0)

    def relative(self, e: Any, x: Any) -> Any:
        """Return e itself."""
        return e

    def lipschitz(self, arms: Any, delta: Any, x: Any) -> float:
        """Return 0."""
        return 0.0


@dataclass(frozen=True)
class Silent(Doubled):
    """The same, and it does not say which arms it takes."""

    arm_kind: ClassVar[Any] = None


def made(composition: Any, arms: Any) -> Instance:
    return Instance(SCHEMA, arms, composition, [])


WRONG = {
    "multiply": lambda: made(gdcb.Multiply(base=("base",)), NAMES),
    "add": lambda: made(gdcb.Add(), NAMES),
    "identity": lambda: made(gdcb.Identity(), NUMBERS),
    "prompt": lambda: made(gdcb.Prompt(), NUMBERS),
    "kalman-gain": lambda: replace(
        load("kalman").instance, arms=gdcb.ArmList(values=(1.0, 2.0, 3.0))
    ),
    "credit-offer": lambda: replace(load("credit").instance, arms=NAMES, composition=_offer()),
    "of somebody's own": lambda: made(Doubled(), NAMES),
}


def _offer() -> Any:
    from gdcb.instances.credit.offer import Offer

    return Offer(base=("base",), wanted="score")


@pytest.mark.parametrize("name", WRONG)
def test_a_composition_refuses_arms_that_it_cannot_use(name: str) -> None:
    """When the instance is made, and with what was expected and what came."""
    said = r"arms: \w+ expects (numbers|categories): ArmList.*; got (numbers|categories): "
    with pytest.raises(InvalidInput, match=said):
        WRONG[name]()


def test_every_registered_composition_is_tried_above() -> None:
    from gdcb.declaration import registered

    assert set(registered("composition")) <= set(WRONG)


def test_a_composition_of_your_own_must_say_which_arms_it_takes() -> None:
    assert made(Doubled(), NUMBERS).actions == (ActionColumn("twice"),)
    said = r"composition: Silent must say which arms it can use: expected arm_kind = 'numbers'"
    with pytest.raises(InvalidInput, match=said):
        made(Silent(), NUMBERS)
