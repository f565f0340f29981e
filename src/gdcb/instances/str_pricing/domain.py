"""The instance: what is declared, and the learner it recommends."""

from __future__ import annotations

from gdcb.arms import Grid
from gdcb.bandits import CurveThompson, StackedThompson
from gdcb.composition import Multiply
from gdcb.gates import Approval, Bounds, Chain, NumberKernel
from gdcb.instance import Instance, NullAction
from gdcb.instances.str_pricing.columns import CENTRE, FACTORS, FEATURES, SCHEMA
from gdcb.instances.str_pricing.manager import Manager
from gdcb.rewards import Payoff
from gdcb.scalers import LogLinearScaler

MULTIPLIERS: dict[str, tuple[float, ...]] = {
    "A": (0.7, 0.85, 1.0, 1.15, 1.3),
    "B": (0.9, 0.95, 1.0, 1.05, 1.1),
}
LOW, HIGH = 40.0, 600.0


def scaler(penalty: float = 1.0, every: int = 240) -> LogLinearScaler:
    """Return the day signal δ = δ_occ·δ_gap·δ_lead·δ_inv, published every thirty nights."""
    return LogLinearScaler(factors=FACTORS, centre=CENTRE, penalty=penalty, every=every)


def instance(manager: Manager) -> Instance:
    """Return the tuple."""
    kernel = NumberKernel(features=FEATURES, base=("base", "market"))
    gate = Chain(
        (
            Approval(manager.person, kernel, name="revenue manager"),
            Bounds(low=LOW, high=HIGH, name="price bounds"),
        )
    )
    return Instance(
        name="str",
        title="Short-term rental pricing",
        context=SCHEMA,
        arms=Grid(MULTIPLIERS, combine="product"),
        scaler=scaler(),
        composition=Multiply(base=("base", "market"), names=("price",)),
        gate=gate,
        reward=Payoff(outcome=("booked",), action=0),
        null=NullAction(mean=0.0),
    )


def learner() -> StackedThompson:
    """Return the learner that the instance recommends: two forms of demand, averaged."""
    return StackedThompson(
        (
            CurveThompson(prior_mean=(0.0, -1.5), prior_sd=(1.0, 0.7)),
            CurveThompson(form="additive", prior_mean=(0.0, -1.5, 3.0), prior_sd=(1.0, 0.7, 1.5)),
        )
    )
