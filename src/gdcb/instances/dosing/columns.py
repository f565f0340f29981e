"""The context of a meal: its columns, and a bolus calculator's rules of thumb."""

from __future__ import annotations

import numpy as np

from gdcb.arrays import Array
from gdcb.context import Number, Schema

LIVE = Schema(
    {
        "glucose": Number(20, 600, "glucose before the meal, mg/dL"),
        "trend": Number(-10, 10, "its trend over the last quarter of an hour, mg/dL a minute"),
        "meal": Number(0, 300, "announced carbohydrate, g"),
        "iob": Number(0, 50, "insulin on board, units"),
        "weight": Number(2, 300, "body weight, kg"),
    }
)
# In a simulation one column more, for rivals: what a model of other clinics says of the offset.
# Live our scaler learns its own.
SCHEMA = Schema(
    {
        **LIVE.columns,
        "advice": Number(-50, 50, "dose offset by a frozen model of other clinics, units"),
    }
)
GLUCOSE, TREND, MEAL, IOB, WEIGHT, ADVICE = range(6)
FEATURES = ("glucose", "trend", "meal", "iob", "weight")  # what our scaler reads
SHOWN = (*FEATURES, "advice")  # what contextual rivals read: the same, and the advice

# Rules of thumb from total daily insulin: 450 g and 1800 mg/dL a unit.
DAILY = 0.55  # units a kg and day
CARBS, CORRECTS, TARGET = 450.0, 1800.0, 120.0


def by_weight(weight: Array) -> tuple[Array, Array]:
    """Return g of carbohydrate and mg/dL of glucose that a unit covers, by weight alone.

    >>> [one.round(2).tolist() for one in by_weight(np.array([50.0, 100.0]))]
    [[16.36, 8.18], [65.45, 32.73]]
    """
    daily = DAILY * np.asarray(weight)
    return np.asarray(CARBS / daily), np.asarray(CORRECTS / daily)


def calculated(x: Array, carb_ratio: Array, correction: Array) -> Array:
    """Return a bolus calculator's dose: meal + correction − insulin on board, never below 0.

    80 g at 10 g a unit, 60 mg/dL above 120 at 30 a unit, 1 unit on board: 8 + 2 − 1 = 9 units.

    >>> x = np.array([[180.0, 0.0, 80.0, 1.0, 70.0]])
    >>> calculated(x, np.array([10.0]), np.array([30.0])).tolist()
    [9.0]
    """
    need = x[:, MEAL] / carb_ratio + (x[:, GLUCOSE] - TARGET) / correction - x[:, IOB]
    return np.asarray(np.maximum(need, 0.0))
