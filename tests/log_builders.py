"""Decision logs that the tests read: listings with a season, a flag, prices and bookings."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from gdcb import (
    Approval,
    ArmList,
    Bounds,
    Category,
    Flag,
    Identity,
    Instance,
    Multiply,
    Number,
    Payoff,
    Scaled,
    Schema,
)

SEASONS = ("low", "high")


def listing(**changes: Any) -> Instance:
    """Return price = base · a behind bounds and a manager; context of every kind."""
    parts: dict[str, Any] = {
        "context": Schema(
            {"base": Number(1, 1000), "weekend": Flag(), "season": Category(SEASONS)}
        ),
        "arms": ArmList(values=(0.8, 1.0, 1.2)),
        "composition": Multiply(base=("base",), names=("price",)),
        "gate": [Approval(name="manager"), Bounds(name="bounds", low=1, high=2000)],
        "reward": Payoff(outcome=("booked",), action=0),
    }
    return Instance(**(parts | changes))


def moderation() -> Instance:
    """Return categories with a severity beside them, and a reward: two action columns."""
    return Instance(
        context=Schema({"length": Number(0, 10)}),
        arms=ArmList(names=("allow", "warn", "remove")),
        composition=Identity(name="verdict"),
        gate=[],
        reward=Scaled(outcome=("reward",)),
    )


def nights(n: int = 200, seed: int = 0) -> pl.DataFrame:
    """Return n valid rows with every optional column."""
    rng = np.random.default_rng(seed)
    base = rng.uniform(50, 200, n)
    proposed = base * rng.choice([0.8, 1.0, 1.2], n)
    status = rng.choice(["passed", "modified"], n)
    price = np.where(status == "modified", base, proposed)
    start = np.datetime64("2024-01-01T00:00:00", "us")
    return pl.DataFrame(
        {
            "base": base,
            "weekend": rng.random(n) < 0.3,
            "season": rng.choice(SEASONS, n),
            "price": price,
            "booked": (rng.random(n) < 0.5).astype(np.int64),
            "recommended_price": proposed,
            "status": status,
            "reviewer": rng.choice(["ann", "bob"], n),
            "propensity": rng.uniform(0.1, 1.0, n),
            "unit": rng.choice(["sea", "city", "farm"], n),
            "time": start + np.arange(n) * np.timedelta64(3600, "s"),
        }
    ).with_columns(pl.col("time").dt.replace_time_zone("UTC"))
