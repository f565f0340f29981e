"""The instance that the speed measurements share: 25 arms, six features, a price."""

from __future__ import annotations

import dataclasses

import numpy as np

from gdcb.arms import Grid
from gdcb.composition import Multiply
from gdcb.context import Number, Schema
from gdcb.gates import Approval, Bounds, Chain, Hold, NumberKernel, SimulatedPerson
from gdcb.instance import Instance
from gdcb.rewards import Payoff
from gdcb.scalers import RidgeScaler

FEATURES = tuple(f"feature_{i}" for i in range(6))
BASE = 120.0


def bounds() -> Chain:
    """Return hard gates only."""
    return Chain((Bounds(low=60.0, high=170.0),))


def person() -> Chain:
    """Return a person whose kernel is learned, then the bounds."""
    who = SimulatedPerson(
        lambda e, _: np.full(e.shape[:2], 0.7), lambda rows: 1.02 * rows.x[:, -1:], spread=3.0
    )
    return Chain((Approval(who, NumberKernel(base=("base",))), *bounds().gates))


def live_form(chain: Chain) -> Chain:
    """Return the chain as it runs live: a person's answer is waited for."""
    return Chain(
        tuple(
            dataclasses.replace(gate, person=Hold()) if isinstance(gate, Approval) else gate
            for gate in chain.gates
        )
    )


def instance(gate: Chain) -> Instance:
    """Return the priced instance behind `gate`; its scaler learns and does not publish."""
    return Instance(
        name="bench",
        context=Schema({name: Number() for name in FEATURES} | {"base": Number()}),
        arms=Grid(
            {"A": (0.8, 0.9, 1.0, 1.1, 1.2), "B": (0.9, 0.95, 1.0, 1.05, 1.1)}, combine="product"
        ),
        scaler=RidgeScaler(features=FEATURES, every=10**9),
        composition=Multiply(base=("base",), names=("price",)),
        gate=gate,
        reward=Payoff(outcome=("booked",), action=0),
    )


def contexts(n: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return n contexts: six features and the base price."""
    rng = np.random.default_rng(0)
    return np.concatenate((0.1 * rng.normal(size=(n, 6)), np.full((n, 1), BASE)), axis=1)
